"""The frame of OpenAI's answers, for text and chat completions: origin, usage, ranking and `__verbose` around the choices.

A stream's chunk has one choice, and its last chunk the usage and the ranking; without `include_usage`, the chunk that ends
the last choice has the timings, as in llama-server, and waits for the end of the call. `finish_reason` is null until the
end. A failed branch gets a last chunk with finish_reason "error" and the error inside its choice, since SDKs abandon the
whole stream at a top-level `error`; that is sent only if every branch failed.
"""

import time
from abc import abstractmethod
from collections.abc import Sequence
from itertools import chain
from typing import Any, Literal

import orjson
from flask import g

from srb.errors import ContextExceeded, RateLimited, SRBError, Unauthorized
from srb.web.answers import JSONObject, PromptProgress, Ranking
from srb.web.bodies.unread import ALSO_KNOWN, field_names
from srb.web.calls.calls import Call
from srb.web.calls.outcome import Outcome, timings, usage
from srb.web.calls.renderer import Renderer, sse
from srb.web.context import web
from srb.web.dialects.llamacpp.body import LlamaCompletionBody
from srb.web.dialects.llamacpp.render import Answers, LlamaRenderer, PromptTexts, completion
from srb.wire.commands import BranchSpec
from srb.wire.events import BranchAdded, BranchEnded, Done, ModelInfo, PromptEvent

DONE = b"data: [DONE]\n\n"

Kind = Literal["cmpl", "chatcmpl"]


def origin(kind: Kind, call: Call, model: ModelInfo) -> JSONObject:
    """Return the beginning of an answer or of a stream's chunks."""
    return {
        "id": f"{kind}-{call.commands[0].request_id}",
        "created": int(time.time()),
        "model": model.alias,
        "system_fingerprint": model.build_info,
    }


def whole(
    kind: Kind, call: Call, model: ModelInfo, outcome: Outcome, verbose: Answers | None, ranking: Ranking
) -> JSONObject:
    """Return an answer without its choices."""
    frame = {**origin(kind, call, model), "usage": usage(outcome.done), "timings": timings(outcome.done), **ranking}
    if verbose is not None:
        objects = completion(verbose, outcome)
        frame["__verbose"] = objects[0] if isinstance(objects, list) else objects
    return frame


class VerboseBody:
    """A body's `verbose`: whether each event and answer has the llamacpp dialect's object of it, under `__verbose`."""

    def __init__(self, given: dict[str, Any]) -> None:
        """Read also the llamacpp dialect's fields of a valid body, such as `response_fields`; raise InvalidRequest."""
        self._asked = None
        if given.get("verbose"):
            self._asked = LlamaCompletionBody.parse({**given, "prompt": "-"})
            setattr(g, ALSO_KNOWN, frozenset(chain(*field_names(LlamaCompletionBody).values())))

    def answers(self, call: Call, model: ModelInfo) -> Answers | None:
        """Return the maker of the call's objects, or None."""
        if self._asked is None:
            return None
        return Answers(call, model, self._asked, PromptTexts(web().client, model))


class ChunkRenderer(Renderer):
    """Chunks of one call: copies of `empty` with a choice; `choices` must be the last key of `empty`."""

    def __init__(
        self, call: Call, empty: JSONObject, include_usage: bool, verbose: Answers | None = None, last: bytes = DONE
    ) -> None:
        super().__init__(call)
        self._empty = empty
        self._include_usage = include_usage
        self._verbose = LlamaRenderer(call, verbose) if verbose is not None else None
        self._last = last
        self._running = len(self._specs)
        self._waiting = b""  # the chunks at the end of the last branch, for the timings

    def choose(self, request_id: str, specs: Sequence[BranchSpec], slots: list[int]) -> None:
        super().choose(request_id, specs, slots)
        if self._verbose is not None:
            self._verbose.choose(request_id, specs, slots)

    def prompt(self, event: PromptEvent) -> bytes:
        if self._verbose is not None:
            self._verbose.prompt(event)
        return b""

    def _around(self, before: bytes, after: bytes) -> tuple[list[bytes], bytes]:
        """Return the bytes before the text of a plain chunk, for each choice, and the bytes after it.

        `before` is the part of a choice between its index and its text, `after` the part after its text.
        """
        head = b"data: " + orjson.dumps(self._empty)
        assert head.endswith(b'"choices":[]}')
        tail = after + b"}]" + (b',"usage":null' if self._include_usage else b"") + b"}\n\n"
        self._head, self._before_text = head[:-2], before
        return [self._before_index(index) for index in range(len(self._specs))], tail

    def _before_index(self, index: int) -> bytes:
        return b'%b{"index":%d,%b' % (self._head, index, self._before_text)

    def _chunk(
        self,
        choice: JSONObject,
        progress: PromptProgress | None = None,
        verbose: JSONObject | None = None,
        more: JSONObject | None = None,
    ) -> bytes:
        chunk: JSONObject = {**self._empty, "choices": [choice], **(more or {})}
        if progress is not None:
            chunk["prompt_progress"] = progress
        if verbose is not None:
            chunk["__verbose"] = verbose
        if self._include_usage:
            chunk["usage"] = None
        return sse(chunk)

    def branch_ended(self, event: BranchEnded) -> bytes:
        chunks = super().branch_ended(event)
        self._running -= 1
        if self._running or self._include_usage:
            return chunks
        self._waiting = chunks
        return b""

    def branch_added(self, event: BranchAdded) -> bytes:
        """Render the beginning of a branch that was added, after the end of what seemed to be the last one."""
        super().branch_added(event)
        self._running += 1
        if self._verbose is not None:
            self._verbose.grow(event)
        return self._take_waiting() + (b"" if event.resumed else self._begun(event))

    @abstractmethod
    def _begun(self, event: BranchAdded) -> bytes:
        """Make room for a new branch; render its beginning."""

    def failed(self, error: SRBError) -> bytes:
        return self._take_waiting() + sse(openai_error(error))

    def _take_waiting(self) -> bytes:
        chunks, self._waiting = self._waiting, b""
        return chunks

    def _end(self, done: list[Done]) -> bytes:
        waiting = self._take_waiting()
        if waiting:
            waiting = waiting.removesuffix(b"}\n\n") + b',"timings":' + orjson.dumps(timings(done)) + b"}\n\n"
        ranking = self.ranking()
        if not self._include_usage and not ranking:
            return waiting + self._last
        chunk: JSONObject = {**self._empty, **ranking}
        if self._include_usage:
            chunk["usage"], chunk["timings"] = usage(done), timings(done)
        return waiting + sse(chunk) + self._last


_WORDS: dict[type[SRBError], str] = {  # OpenAI's for what it has, too
    ContextExceeded: "context_length_exceeded",
    RateLimited: "rate_limit_exceeded",
    Unauthorized: "invalid_api_key",
}


def openai_error(error: SRBError) -> JSONObject:
    """Return an error whose `code` is a word, and whose `param` is null if no field is at fault."""
    said = error.body()["error"]
    return {"error": {**said, "code": _WORDS.get(type(error), error.code), "param": said.get("param")}}
