"""Frames: whatever was sent arrives whole and in order, however the bytes were cut; lengths out of bounds do not."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from multiprocessing.connection import Connection

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srb.errors import ProtocolError
from srb.wire.framing import FrameSocket
from tests.processes import DEADLINE

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    left, right = socket.socketpair()
    for end in (left, right):
        end.settimeout(DEADLINE)
    yield left, right
    left.close()
    right.close()


class Trickle:
    """A socket that hands out a stream of bytes in pieces of given sizes."""

    def __init__(self, data: bytes, sizes: list[int]) -> None:
        self._data, self._sizes = data, sizes

    def recv(self, most: int) -> bytes:
        size = min(self._sizes.pop() if self._sizes else 1, most)
        piece, self._data = self._data[:size], self._data[size:]
        return piece


@given(st.lists(st.binary(max_size=50)), st.lists(st.integers(1, 30)))
def test_frames_arrive_whole_however_the_stream_is_cut(payloads: list[bytes], sizes: list[int]) -> None:
    stream = b"".join(struct.pack("!i", len(payload)) + payload for payload in payloads)
    frames = FrameSocket(Trickle(stream, sizes))  # type: ignore[arg-type]
    assert [frames.receive() for _ in payloads] == payloads
    with pytest.raises(EOFError):
        frames.receive()


@given(st.binary(max_size=200))
def test_any_bytes_are_read_as_frames_or_an_error(garbage: bytes) -> None:
    frames = FrameSocket(Trickle(garbage, []), max_frame=100)  # type: ignore[arg-type]
    try:
        while True:
            assert len(frames.receive()) <= 100
    except (EOFError, ProtocolError):
        pass


def test_a_frame_larger_than_the_sockets_buffers_arrives(pair: Pair) -> None:
    payload = bytes(range(256)) * 20_000
    sender = threading.Thread(target=FrameSocket(pair[0]).send, args=(payload,))
    sender.start()
    assert FrameSocket(pair[1]).receive() == payload
    sender.join()


@pytest.mark.parametrize("header", [struct.pack("!i", 101), struct.pack("!i", -2), struct.pack("!iQ", -1, 2**63)])
def test_a_length_out_of_bounds_is_refused_before_anything_is_read(pair: Pair, header: bytes) -> None:
    pair[0].sendall(header)
    with pytest.raises(ProtocolError):
        FrameSocket(pair[1], max_frame=100).receive()


def test_the_wire_format_is_that_of_multiprocessing(pair: Pair) -> None:
    theirs = Connection(pair[0].detach())
    ours = FrameSocket(pair[1])
    theirs.send_bytes(b"from them")
    assert ours.receive() == b"from them"
    ours.send(b"from us")
    assert theirs.recv_bytes() == b"from us"
    theirs.close()


def test_the_long_form_of_a_length_is_read(pair: Pair) -> None:
    pair[0].sendall(struct.pack("!iQ", -1, 5) + b"hello")
    assert FrameSocket(pair[1]).receive() == b"hello"


def test_close_wakes_a_thread_that_is_blocked_in_receive(pair: Pair) -> None:
    frames = FrameSocket(pair[0])
    ended = []

    def receive() -> None:
        try:
            frames.receive()
        except (EOFError, OSError) as error:
            ended.append(error)

    thread = threading.Thread(target=receive)
    thread.start()
    frames.close()
    thread.join(DEADLINE)
    assert len(ended) == 1


def test_close_may_be_called_again_and_both_ends_see_it(pair: Pair) -> None:
    frames = FrameSocket(pair[0])
    frames.close()
    frames.close()
    with pytest.raises(OSError):
        frames.send(b"late")
    assert pair[1].recv(1) == b""
