"""Renderer: the base of all dialects' streams, which turn the events of one call into bytes.

`Renderer.delta` runs once per token and branch, so dialects encode the constant parts of its JSON only once.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal

import orjson

from srb.errors import SRBError
from srb.web.answers import PromptProgress, Ranking
from srb.web.calls.calls import Call
from srb.web.calls.outcome import error_of, first_choices
from srb.wire.commands import BranchSpec
from srb.wire.events import BranchAdded, BranchEnded, Delta, Done, FinishReason, Progress, PromptEvent, Resting

# OpenAI's words, and those of its kin. A cancelled branch is cut short like one at its limit. OpenAI has no "error": its
# streams fail as a whole.
FINISH_REASONS: dict[str, Literal["stop", "length", "error"]] = {
    FinishReason.EOS: "stop",
    FinishReason.WORD: "stop",
    FinishReason.BOUNDARY: "stop",
    FinishReason.LIMIT: "length",
    FinishReason.CANCELLED: "length",
    FinishReason.ERROR: "error",
}


def sse(value: Any) -> bytes:
    """Return one server-sent event whose data is `value` as JSON."""
    return b"data: " + orjson.dumps(value) + b"\n\n"


def named_sse(name: str, value: Any) -> bytes:
    """Return one server-sent event with a name, whose data is `value` as JSON."""
    return b"event: " + name.encode() + b"\n" + sse(value)


def prompt_progress(event: Progress) -> PromptProgress:
    """Return llama-server's `prompt_progress` object."""
    return {"total": event.total, "cache": event.cached, "processed": event.processed, "time_ms": int(event.time_ms)}


class Renderer(ABC):
    """The base of all renderers, which renders only errors. Each public method returns whole SSE events, or b"".

    Each event ends with `event_end`, which occurs nowhere else in it; if `event_end` is empty, a method returns one event.
    With `writes_one_by_one`, all tokens since the last write are one event, and other events are written apart in time, for
    clients that treat the data of one read as one event, even across two chunks. The errors of failed branches are kept: if
    every branch failed, the stream ends with the first error.
    """

    event_end: bytes = b"\n\n"
    writes_one_by_one = False
    follows_rests: bool = False  # whether the stream goes on while the request rests

    def __init__(self, call: Call) -> None:
        self._firsts = first_choices(call)  # by request id: index of its first branch among all branches of the call
        self._specs = [spec for command in call.commands for spec in command.branches]
        self._errors: list[SRBError] = []
        self.ranking: Callable[[], Ranking] = Ranking  # the keys that `rank` asks for at the end; set by its stage

    def start(self) -> bytes:
        return b""

    def prompt(self, event: PromptEvent) -> bytes:
        """Render a prompt's progress, its tokens' probabilities, or its completion."""
        return b""

    @abstractmethod
    def delta(self, event: Delta) -> bytes:
        """Render a branch's new text; it may be empty, since a token may have none (then most dialects render nothing)."""

    def branch_ended(self, event: BranchEnded) -> bytes:
        error = error_of(event)
        if error is not None:
            self._errors.append(error)
        return self._branch_ended(event, error)

    def branch_added(self, event: BranchAdded) -> bytes:
        """Render a branch that was added, or that goes on after its end; its Deltas follow."""
        if not event.resumed:
            self._specs.append(replace(self._specs[0], seed=event.seed))
        return b""

    def resting(self, event: Resting) -> bytes:
        """Render the end of the last running branch of a request that lingers; only with `follows_rests`."""
        return b""

    def choosing(self, done: int, of: int) -> bytes:
        """Render how many of the branches have ended among which the answer's are chosen."""
        return b""

    def choose(self, request_id: str, specs: Sequence[BranchSpec], slots: list[int]) -> None:
        """Take the specs and slots of a request's chosen branches for those of the answer's branches."""
        first = self._firsts[request_id]
        self._specs[first : first + len(specs)] = specs

    def end(self, done: list[Done]) -> bytes:
        """Render the end, after the end of every branch; `done` has one entry per request of the call."""
        return self.failed(self._errors[0]) if len(self._errors) == len(self._specs) else self._end(done)

    def failed(self, error: SRBError) -> bytes:
        """Render an error that ends the stream."""
        return sse(error.body())

    def _branch_ended(self, event: BranchEnded, error: SRBError | None) -> bytes:
        return b""

    def _end(self, done: list[Done]) -> bytes:
        """Render the end of a call in which at least one branch did not fail."""
        return b""
