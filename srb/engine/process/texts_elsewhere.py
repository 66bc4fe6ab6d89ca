"""Texts that another replica gives through its door, as it leaves the cluster: a receiver of one story's records.

The connection begins with the door's token for this. A frame asks for a story; the answer is a frame of JSON with the
records' entries, as in the index of texts. A frame names those that are wanted, and their KV comes in frames of a piece
each, in that order. Nothing is taken from a replica whose KV another model, build or cell type has made.
"""

import socket
import struct
import time
from base64 import b64decode
from collections.abc import Sequence
from contextlib import suppress
from io import BytesIO
from typing import NamedTuple, Self

import orjson

from srb.engine.model import Record, Scope
from srb.engine.process.text_index import record_of
from srb.engine.tokens import Tokens, num_unmarked
from srb.errors import ProtocolError
from srb.files.text_entry import StateError, read_framed
from srb.wire.commands import Door
from srb.wire.framing import FrameSocket

_REACH_SECONDS = 1.0  # for a connection: the request waits, and its prompt could be computed
_SILENT_SECONDS = 5.0  # without a byte
_GIVING_SECONDS = 120.0  # for all of a story: one that comes more slowly keeps others from being looked for


class Refused(Exception):
    """A replica that gives no texts, or none that are of use here; the message says why."""


class Offered(NamedTuple):
    """A record that a replica has, with the checksum of its KV."""

    record: Record
    tokens: Tokens
    checksum: int


class _LimitedSocket(socket.socket):
    """A connection that is over when nothing has come for a while, or when all of it has taken too long."""

    def __init__(self, connection: socket.socket) -> None:
        super().__init__(fileno=connection.detach())
        self.settimeout(_SILENT_SECONDS)
        self._until = time.monotonic() + _GIVING_SECONDS

    def recv(self, size: int, flags: int = 0, /) -> bytes:
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError(f"it takes longer than {_GIVING_SECONDS:.0f} seconds")
        self.settimeout(min(left, _SILENT_SECONDS))
        return super().recv(size, flags)


class Giver:
    """A connection to the replica that had a story. OSError, EOFError and ProtocolError are its end."""

    def __init__(self, door: Door) -> None:
        host, port, token = door
        self._sock = _LimitedSocket(socket.create_connection((host, port), _REACH_SECONDS))
        self._frames = FrameSocket(self._sock)
        self._left = b""  # of a piece
        self._sock.sendall(token.encode())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        with suppress(OSError):
            self._sock.close()

    def offered(self, story: str, model: str) -> tuple[str, list[Offered]]:
        """Return the folder of a story's records there, and the records, each behind its parent. Raise Refused."""
        self._frames.send(orjson.dumps({"story": story}))
        try:
            said = orjson.loads(self._frames.receive())
            if "refused" in said:
                raise Refused(str(said["refused"]))
            if said["model"] != model:
                raise Refused("it has another model, another build of llama.cpp, other adapters or other cell types")
            return str(said["folder"]), _checked([b64decode(each, validate=True) for each in said["entries"]])
        except (ValueError, TypeError, KeyError, struct.error, StateError) as error:
            raise ProtocolError(f"it offers no texts: {error}") from error

    def want(self, ids: Sequence[str]) -> None:
        """Ask for the KV of records; it is read in this order."""
        self._frames.send(orjson.dumps(ids))

    def read(self, most: int) -> bytes:
        """Return the next bytes of the KV, `most` at most."""
        if not self._left and most:
            self._left = self._frames.receive()
        piece, self._left = self._left[:most], self._left[most:]
        return piece

    def seek(self, count: int, _: int) -> None:
        """Read so many bytes that are not needed."""
        while count and (piece := self.read(count)):
            count -= len(piece)


def _checked(entries: Sequence[bytes]) -> list[Offered]:
    """Return the records of entries. Raise ValueError, or what a damaged entry raises."""
    found: list[Offered] = []
    ends, scopes = {"": 0}, dict[bytes, tuple[Scope, str]]()
    for entry in entries:
        record, tokens, checksum = record_of(read_framed(BytesIO(entry)), scopes)
        if record.parent not in ends or record.start > ends[record.parent] or num_unmarked(tokens) < len(tokens):
            raise ValueError("a text has no place")
        ends[record.id] = record.end
        found.append(Offered(record, tokens, checksum))
    return found


def needed(offered: Sequence[Offered], prompt: Tokens) -> list[Offered]:
    """Return the records that a prompt may go on with: those that begin as it does there; all for no tokens."""
    if not prompt:
        return list(offered)
    kept, found = {""}, []
    for each in offered:
        record = each.record
        begins = record.is_state or (record.start < len(prompt) and prompt[record.start] == each.tokens[0])
        if record.parent in kept and record.start <= len(prompt) and begins:
            kept.add(record.id)
            found.append(each)
    return found
