"""Bodies in chunks: small ones are read in turns with others, and not without end."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import gevent
import pytest
from gunicorn.http.body import Body

from srb.serve.gunicorn_worker import LEAST_MEAN, MAX_SMALL, ChunkedReader, SmallChunks


class Unreader:
    """A connection on which all bytes are there already, as those of a fast client are."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def read(self, size: int | None = None, read_ahead: int = 8192) -> bytes:
        piece, self._data = self._data[:8192], self._data[8192:]
        return piece

    def unread(self, data: bytes) -> None:
        self._data = data + self._data


@pytest.fixture
def turns() -> Any:
    """Count the turns of another greenlet."""
    count = SimpleNamespace(value=0)

    def take() -> None:
        while True:
            count.value += 1
            gevent.sleep(0)

    other = gevent.spawn(take)
    yield lambda: count.value
    other.kill()


def body_of(*chunks: bytes, extension: bytes = b"") -> Body:
    framed = b"".join(b"%x%b\r\n%b\r\n" % (len(chunk), extension, chunk) for chunk in chunks)
    return Body(ChunkedReader(SimpleNamespace(), Unreader(framed + b"0\r\n\r\n")))


@pytest.mark.parametrize("extension", [b"", b";x=" + b"y" * 100], ids=["bare", "extended"])
@pytest.mark.parametrize("size", [1, LEAST_MEAN - 1])
def test_a_body_of_crumbs_is_refused_at_a_number_of_chunks_and_not_read_on(size: int, extension: bytes) -> None:
    body = body_of(*[b"x" * size] * (MAX_SMALL * 4), extension=extension)
    with pytest.raises(SmallChunks, match="Content-Length"):
        body.read(2**30)
    assert len(body.reader.buf.getvalue()) == size * MAX_SMALL


def test_large_chunks_before_crumbs_pay_for_as_many_as_they_are_long() -> None:
    assert len(body_of(b"x" * 2**20, *[b"y"] * MAX_SMALL * 2).read(2**30)) == 2**20 + MAX_SMALL * 2
    with pytest.raises(SmallChunks):
        body_of(b"x" * 1000, *[b"y"] * MAX_SMALL * 2).read(2**30)


@pytest.mark.parametrize("count", [1, MAX_SMALL - 1])
def test_few_chunks_may_be_of_any_size(count: int) -> None:
    assert body_of(*[b"x"] * count).read(2**30) == b"x" * count


def test_others_have_their_turns_while_chunks_are_read_in_one_go(turns: Callable[[], int]) -> None:
    assert len(body_of(*[b"x" * LEAST_MEAN] * MAX_SMALL * 2).read(2**30)) == LEAST_MEAN * MAX_SMALL * 2
    assert turns() >= MAX_SMALL * 2 // 100
