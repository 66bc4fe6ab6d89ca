"""Chunks of OpenAI's streams, for text and chat completions: one choice per chunk, and the usage in a last chunk.

`finish_reason` is null until the end. A failed branch gets a last chunk with finish_reason "error" and the error inside
its choice, since SDKs abandon the whole stream at a top-level `error`; that is sent only if every branch failed.
"""

from __future__ import annotations

import orjson

from srb.protocol import Done
from srb.web.answers import PromptProgress
from srb.web.calls.calls import Call
from srb.web.calls.outcome import timings, usage
from srb.web.calls.renderer import Renderer, sse
from srb.web.dialects.openai.answers import Chunk

DONE = b"data: [DONE]\n\n"


class ChunkRenderer(Renderer):
    """Chunks of one call: copies of `empty` with a choice; `choices` must be the last key of `empty`."""

    _empty: Chunk

    def __init__(self, call: Call, empty: Chunk, include_usage: bool, last: bytes = DONE) -> None:
        super().__init__(call)
        self._empty = empty
        self._include_usage = include_usage
        self._last = last

    def _around(self, before: bytes, after: bytes) -> tuple[list[bytes], bytes]:
        """Return the bytes before the text of a plain chunk, for each choice, and the bytes after it.

        `before` is the part of a choice between its index and its text, `after` the part after its text.
        """
        head = b"data: " + orjson.dumps(self._empty)
        assert head.endswith(b'"choices":[]}')
        tail = after + b"}]" + (b',"usage":null' if self._include_usage else b"") + b"}\n\n"
        return [b'%b{"index":%d,%b' % (head[:-2], index, before) for index in range(len(self._specs))], tail

    def _encode(self, chunk: Chunk, progress: PromptProgress | None = None) -> bytes:
        if progress is not None:
            chunk["prompt_progress"] = progress
        if self._include_usage:
            chunk["usage"] = None
        return sse(chunk)

    def _end(self, done: list[Done]) -> bytes:
        if not self._include_usage:
            return self._last
        chunk: Chunk = {**self._empty, "usage": usage(done), "timings": timings(done)}
        return sse(chunk) + self._last
