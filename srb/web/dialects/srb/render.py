"""The srb dialect, rendered as the events start, stream, stop and done, and as one object."""

from collections.abc import Sequence
from typing import Any, cast

import orjson

from srb.errors import SRBError
from srb.web.answers import Ranking
from srb.web.calls.calls import Call
from srb.web.calls.echo import Echo
from srb.web.calls.outcome import BranchOutcome, Outcome, error_of, timings, usage
from srb.web.calls.renderer import Renderer, prompt_progress, sse
from srb.web.dialects.srb import answers
from srb.wire.commands import BranchSpec
from srb.wire.events import (
    BranchAdded,
    BranchEnded,
    Delta,
    Done,
    FinishReason,
    Progress,
    PromptDone,
    PromptEvent,
    PromptLogprobs,
    Resting,
    TokenProbs,
)


class SRBRenderer(Renderer):
    """Events of the srb dialect, with the keys of the project's first version, then newer keys."""

    follows_rests = True

    def __init__(
        self, call: Call, return_tokens: bool = False, echo: Echo | None = None, of: int | None = None
    ) -> None:
        """Set `of`, the number of branches among which the answer's are chosen, if they are."""
        super().__init__(call)
        self._of = of
        (self._command,) = call.commands
        self._call = call
        self._return_tokens = return_tokens
        self._echo = echo
        self._prompt_logprobs: list[TokenProbs] = []
        self._heads = [_head(index) for index in range(len(self._command.branches))]

    def start(self) -> bytes:
        command = self._command
        start: answers.StartEvent = {
            "event": "start",
            "count": len(command.branches),
            "id": command.request_id,
            "seeds": [branch.seed for branch in command.branches],
            "prompt_tokens": self._call.mailbox.prompt_tokens[command.request_id],
        }
        if command.branches_interact:
            start["seeds_reproduce"] = "request"
        if command.place is not None:
            start["directions"] = [branch.direction for branch in command.branches]
        if self._of is not None:
            del start["seeds"]
            start.pop("directions", None)
            start["of"] = self._of
        return sse(start) if command.prompt_logprobs else sse(start) + self._render_prompt()

    def prompt(self, event: PromptEvent) -> bytes:
        if type(event) is Progress:
            return _progress(event)
        if type(event) is PromptLogprobs:
            self._prompt_logprobs += event.probs
        elif type(event) is PromptDone and self._command.prompt_logprobs:
            return self._render_prompt()
        return b""

    def _render_prompt(self) -> bytes:
        """Render the prompt's text as the beginning of each branch, if `echo` asks for it."""
        if self._echo is None:
            return b""
        rest = orjson.dumps(self._echo.text)
        if self._command.prompt_logprobs:
            rest += b',"logprobs":' + orjson.dumps(self._echo.label(self._prompt_logprobs))
        return b"".join(head + rest + b"}\n\n" for head in self._heads)

    def delta(self, event: Delta) -> bytes:
        if not event.text and not event.probs and not (self._return_tokens and event.tokens):
            return b""
        line = self._heads[event.index] + orjson.dumps(event.text)
        if self._return_tokens:
            line += b',"tokens":' + orjson.dumps(event.tokens)
        if event.probs:
            line += b',"logprobs":' + orjson.dumps(event.probs)
        return line + b"}\n\n"

    def _branch_ended(self, event: BranchEnded, error: SRBError | None) -> bytes:
        stop: answers.StopEvent = {"event": "stop", "index": event.index, **ending(event)}
        if error is None:
            return sse(stop)
        failure: answers.ErrorEvent = {**_error(error), "index": event.index}
        return sse(failure) + sse(stop)

    def branch_added(self, event: BranchAdded) -> bytes:
        super().branch_added(event)
        self._heads += [_head(index) for index in range(len(self._heads), event.index + 1)]
        said: answers.BranchEvent = {"event": "branch", "index": event.index, "seed": event.seed}
        if event.resumed:
            said["resumed"] = True
        elif event.direction:
            said["direction"] = event.direction
        if event.origin is not None and event.token is not None:
            said["from"] = {"branch": event.origin, "token": event.token}
            said["text"] = event.text
            if event.logprob is not None:
                said["parent"], said["at"], said["logprob"] = event.origin, event.token, event.logprob
            if event.tokens and self._return_tokens:
                said["tokens"] = event.tokens
        return sse(said)

    def resting(self, event: Resting) -> bytes:
        rest: answers.RestEvent = {"event": "rest", "seconds": event.seconds, "usage": usage([event.done])}
        return sse(rest)

    def choosing(self, done: int, of: int) -> bytes:
        said: answers.ProgressEvent = {"event": "progress", "done": done, "of": of}
        return sse(said)

    def end(self, done: list[Done]) -> bytes:
        """Render usage and timings, even if every branch failed: each branch's failure has been rendered."""
        count = len(self._heads) if self._of is None else len(self._specs)
        said: answers.DoneEvent = {"event": "done", "count": count, "usage": usage(done), "timings": timings(done)}
        if self._of is not None:
            said["seeds"] = [branch.seed for branch in self._specs]
            if self._command.place is not None:
                said["directions"] = [branch.direction for branch in self._specs]
        return sse({**said, **self.ranking()})

    def failed(self, error: SRBError) -> bytes:
        return sse(_error(error))


class AttachedRenderer(SRBRenderer):
    """Events of the srb dialect for a reader that joins a running request: first a snapshot, then all later events."""

    def __init__(self, call: Call, return_tokens: bool = False) -> None:
        Renderer.__init__(self, call)
        self._of = None
        self._snapshot = call.mailbox.snapshot
        self._return_tokens = return_tokens
        self._heads = [_head(index) for index in range(len(self._snapshot["branches"]))]
        self._specs = [BranchSpec(branch["seed"]) for branch in self._snapshot["branches"]]

    def start(self) -> bytes:
        snapshot: answers.SnapshotEvent = {"event": "snapshot", **describe(self._snapshot)}
        if not self._return_tokens:
            for branch in snapshot["branches"]:
                branch.pop("tokens", None)
        return sse(snapshot)

    def prompt(self, event: PromptEvent) -> bytes:
        return _progress(event) if type(event) is Progress else b""


def describe(said: dict[str, Any]) -> answers.RequestDescription:
    """Return the description of a request, from the engine's (see engine/steering.py)."""
    return {
        "id": said["id"],
        "state": said["state"],
        "age": round(said["age"], 3),
        "prompt_tokens": said["prompt_tokens"],
        "linger": said["linger"],
        "branches": [describe_branch(branch) for branch in said["branches"]],
    }


def describe_branch(said: dict[str, Any]) -> answers.BranchDescription:
    """Return the description of a branch, from the engine's."""
    branch: dict[str, Any] = {
        name: said[name]
        for name in ("index", "seed", "state", "length", "max_tokens", "direction", "text", "tokens")
        if name in said
    }
    if "origin" in said:
        branch["from"] = {"branch": said["origin"], "token": said["token"]}
    if "ended" in said:
        ended = BranchEnded(**said["ended"])
        branch |= ending(ended)
        if error := error_of(ended):
            branch["error"] = {"code": error.code, "message": error.message}
    return cast(answers.BranchDescription, branch)


def _progress(event: Progress) -> bytes:
    said: answers.PromptProgressEvent = {"event": "prompt", **prompt_progress(event)}
    return sse(said)


def _head(index: int) -> bytes:
    return b'data: {"event":"stream","index":%d,"text":' % index


def completion(
    call: Call,
    outcome: Outcome,
    branches: Sequence[BranchOutcome],
    *,
    logprobs: bool = False,
    return_tokens: bool = False,
    echo: Echo | None = None,
    ranking: Ranking | None = None,
) -> answers.SRBCompletion:
    """Return the answer of a call that was not streamed; `branches` are the outcome's branches to return."""
    (command,) = call.commands
    completions = []
    for index, branch in enumerate(branches):
        choice = _choice(index, branch)
        probs = branch.probs
        if echo is not None:
            choice["text"] = echo.text + branch.text
            probs = (
                echo.label(outcome.prompt_logprobs[command.request_id]) + probs if command.prompt_logprobs else probs
            )
        if return_tokens:
            choice["tokens"] = branch.tokens
        if logprobs and probs:
            choice["logprobs"] = probs
        completions.append(choice)
    note: answers.SeedsNote = {"seeds_reproduce": "request"} if command.branches_interact else {}
    return {
        "id": command.request_id,
        "completions": completions,
        "seeds": [branch.seed for branch in branches],
        "usage": usage(outcome.done),
        "timings": timings(outcome.done),
        **(ranking or {}),
        **note,
    }


def _choice(index: int, branch: BranchOutcome) -> answers.SRBCompletionChoice:
    assert branch.ended is not None  # the engine ends every branch before the request
    choice = cast(answers.SRBCompletionChoice, {"index": index, "text": branch.text, **ending(branch.ended)})
    if branch.origin is not None and branch.token is not None:
        choice["from"] = {"branch": branch.origin, "token": branch.token}
    if branch.direction:
        choice["direction"] = branch.direction
    if branch.error:
        choice["error"] = {"code": branch.error.code, "message": branch.error.message}
    return choice


def ending(event: BranchEnded) -> answers.BranchEnding:
    """Return the keys of this dialect that describe a branch's end."""
    said: answers.BranchEnding = {
        "length": event.length,
        "stop": 1 if event.reason in (FinishReason.EOS, FinishReason.WORD, FinishReason.BOUNDARY) else 0,
        "reason": FinishReason(event.reason),
        "stopping_word": event.stopping_word,
    }
    if event.truncated:
        said["truncated"] = True
    if event.logprob is not None:
        said["logprob"] = event.logprob
    if event.rewinds:
        said["rewinds"] = event.rewinds
    if event.path_logprob is not None:
        said["path_logprob"] = event.path_logprob
    return said


def _error(error: SRBError) -> answers.ErrorEvent:
    return {"event": "error", "code": error.code, "message": error.message}
