"""Bodies in chunks: gunicorn's reader takes the worker for as long as chunks are there, and has no limit of their number."""

from typing import Any

import gevent
from gunicorn.http import body
from gunicorn.http.errors import ParseException

MAX_SMALL = 4096  # chunks of a body that may be of any size: clients write as they read, some a line at a time
LEAST_MEAN = 16  # bytes of a chunk on average in longer bodies; each costs some 10 µs
_OF_A_TURN = 64  # chunks between two pauses, in which others are answered


class SmallChunks(ParseException):  # type: ignore[misc]
    """A body whose chunks are so small that reading them is work without an end."""

    def __str__(self) -> str:
        few = f"more than {MAX_SMALL} chunks of less than {LEAST_MEAN} bytes on average"
        return f"{few}; send larger ones, or a Content-Length"


class ChunkedReader(body.ChunkedReader):  # type: ignore[misc]
    """gunicorn's reader, which lets others run between chunks and refuses a body of crumbs."""

    def __init__(self, req: Any, unreader: Any) -> None:
        super().__init__(req, unreader)
        self._chunks = self._announced = 0

    def parse_chunk_size(self, unreader: Any, data: bytes | None = None) -> tuple[int, bytes | None]:
        size: int
        size, rest = super().parse_chunk_size(unreader, data)
        self._chunks += 1
        self._announced += size
        if self._chunks > MAX_SMALL and self._announced < (self._chunks - 1) * LEAST_MEAN:
            raise SmallChunks
        if not self._chunks % _OF_A_TURN:
            gevent.sleep(0)
        return size, rest
