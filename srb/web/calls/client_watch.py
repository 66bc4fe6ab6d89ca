"""ClientWatch: the sockets of clients that wait for an answer, polled for clients that have disconnected or vanished.

A client has disconnected when it has closed its connection or shut down its sending side. The system then reports
POLLRDHUP, even if the socket has unread bytes, such as TLS's close_notify or the first byte of a pipelined request.

A client has vanished, with its machine or its network, when it acknowledges nothing of what was sent. TCP_USER_TIMEOUT is
not used for that: Linux also ends the connection of a client that reads slowly, in pieces smaller than a segment.
"""

import select
import socket
import struct
import sys
import time
from collections.abc import Hashable
from typing import Any, Generic, TypeVar

from gevent.monkey import get_original

_SENT_ALL = getattr(select, "POLLRDHUP", 0)  # only Linux has it

# The beginning of Linux's struct tcp_info, up to tcpi_last_ack_recv.
_TCP_INFO = struct.Struct("=8B13I")
_PROBES, _UNACKED, _LAST_ACK = 3, 12, 20  # places of probes, unacknowledged segments, and ms since the last ack

T = TypeVar("T", bound=Hashable)


class ClientWatch(Generic[T]):
    """One poll object for the sockets of all clients; each socket has an owner of type T, such as a Call."""

    def __init__(self) -> None:
        self._poll = get_original("select", "poll")()  # gevent's poll would wait, or does not exist
        self._watched: dict[int, tuple[Any, T]] = {}  # by descriptor
        self._descriptors: dict[T, int] = {}
        self._waiting: dict[int, float] = {}  # since when data waits to be acknowledged, on time.monotonic()'s clock

    def __len__(self) -> int:
        return len(self._watched)

    def __repr__(self) -> str:
        return f"<ClientWatch of {len(self)} sockets>"

    def add(self, sock: Any, owner: T, *, may_be_shut: bool = False) -> None:
        """Watch a socket until `remove`.

        With `may_be_shut`, this process may have shut its receiving side down already: then only a reset counts.
        """
        fd = sock.fileno()
        self._watched[fd], self._descriptors[owner] = (sock, owner), fd
        self._poll.register(fd, _SENT_ALL)  # POLLHUP, POLLERR and POLLNVAL are always reported
        if may_be_shut and any(changed == fd for changed, _ in self._poll.poll(0)):
            self._poll.register(fd, 0)

    def remove(self, owner: T) -> None:
        """Stop watching the socket of `owner`, if it has one."""
        fd = self._descriptors.pop(owner, None)
        if fd is not None and fd in self._watched and self._watched[fd][1] is owner:  # else it is another's by now
            del self._watched[fd]
            self._waiting.pop(fd, None)
            self._poll.unregister(fd)

    def left(self) -> list[T]:
        """Return the owners whose clients have disconnected, without waiting and without reading."""
        gone = {fd for fd, _ in self._poll.poll(0)}
        if not _SENT_ALL:
            gone |= {fd for fd, (sock, _) in self._watched.items() if _reads_end(sock)}
        return [self._watched[fd][1] for fd in gone]

    def vanished(self, seconds: float) -> list[T]:
        """Return the owners whose clients have acknowledged nothing for `seconds`, though data was sent to them.

        Call it several times within `seconds`: it sees the waiting data of the moment only. Empty on systems other than
        Linux.
        """
        now, gone = time.monotonic(), []
        for fd, (sock, owner) in self._watched.items():
            silence = _silence(sock)
            if silence is None:
                self._waiting.pop(fd, None)
                continue
            since = self._waiting[fd] = max(self._waiting.get(fd, now), now - silence)
            if now - since >= seconds:
                gone.append(owner)
        return gone


def _reads_end(sock: Any) -> bool:
    """Whether a read would find the end of the connection; used on systems without POLLRDHUP."""
    raw = getattr(sock, "_sock", sock)  # below gevent's socket, whose recv would wait
    try:
        return bool(raw.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b"")
    except (BlockingIOError, InterruptedError):
        return False
    except OSError:
        return True


def _silence(sock: Any) -> float | None:
    """Return the seconds since a peer acknowledged something; None if no data waits, or it is not known."""
    if sys.platform != "linux" or sock.family == socket.AF_UNIX:
        return None
    try:
        info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO.size)
    except OSError:
        return None  # closed: POLLHUP tells
    fields = _TCP_INFO.unpack(info)
    return fields[_LAST_ACK] / 1000 if fields[_UNACKED] or fields[_PROBES] else None
