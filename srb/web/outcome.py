"""What a call has come to when it is answered at once: its branches gathered, its usage and timings summed."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from srb.client import Mailbox
from srb.errors import SRBError, from_slug
from srb.protocol import BranchEnded, Delta, Done, Failed, FinishReason, PromptDone, PromptProbs
from srb.web.open_requests import OpenRequest


@dataclass(slots=True)
class BranchOutcome:
    """One branch: its text, the ids and (where asked for) probabilities of its tokens, and how it ended."""

    seed: int
    text: str = ""
    tokens: list[int] = field(default_factory=list)
    probs: list[dict[str, Any]] = field(default_factory=list)
    ended: BranchEnded | None = None
    predicted_ms: float = 0.0  # from the prompt's end to the branch's

    @property
    def error(self) -> SRBError | None:
        """Why this branch failed, or None."""
        return error_of(self.ended) if self.ended else None


def error_of(ended: BranchEnded) -> SRBError | None:
    """Return why a branch failed, or None for one that did not."""
    return from_slug(ended.slug, ended.message) if ended.reason == FinishReason.ERROR else None


class PromptTimes:
    """What was said of each prompt of a call when it was done, and how long ago that was."""

    def __init__(self) -> None:
        self._prompts: dict[str, tuple[PromptDone, float]] = {}

    def put(self, event: PromptDone) -> None:
        self._prompts[event.request_id] = (event, time.monotonic())

    def prompt(self, request_id: str) -> PromptDone:
        """Return what was said; zeros for a prompt that was not done when its branches ended."""
        found = self._prompts.get(request_id)
        return found[0] if found else PromptDone(request_id, 0, 0, 0.0)

    def since(self, request_id: str) -> float:
        """Return the milliseconds since a prompt was done: how long its branches have been generating."""
        found = self._prompts.get(request_id)
        return (time.monotonic() - found[1]) * 1000 if found else 0.0


@dataclass(slots=True)
class Outcome:
    """A whole call: `branches` has those of the first request, then those of the second, …; one Done per request.

    `prompt_probs` has, by request id, the entries of the prompt's tokens where they were asked for.
    """

    branches: list[BranchOutcome]
    done: list[Done]
    prompt_probs: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    times: PromptTimes = field(default_factory=PromptTimes)

    def best(self, n: int, of: int) -> list[BranchOutcome]:
        """Return of each `of` branches the `n` of the highest mean log-probability, the best first, or all as they are.

        Branches without one (they have no token) come after those with one, and failed ones last.
        """
        if n == of:
            return self.branches
        return [
            branch
            for first in range(0, len(self.branches), of)
            for branch in sorted(self.branches[first : first + of], key=_worth, reverse=True)[:n]
        ]


def _worth(branch: BranchOutcome) -> tuple[bool, float]:
    logprob = branch.ended.logprob if branch.ended else None
    return branch.error is None, -math.inf if logprob is None else logprob


def gather(request: OpenRequest) -> Outcome:
    """Wait until every branch of the call has ended, and close it.

    Raise the SRBError of a request that failed, or of the first branch where every branch failed.
    """
    firsts = first_choices(request)
    branches = [BranchOutcome(spec.seed) for command in request.commands for spec in command.branches]
    prompt_probs: dict[str, list[dict[str, Any]]] = {}
    times = PromptTimes()
    try:
        for event in _until_done(request.mailbox):
            if isinstance(event, Delta):
                branch = branches[firsts[event.request_id] + event.index]
                branch.text += event.text
                branch.tokens += event.tokens
                branch.probs += event.probs or ()
            elif isinstance(event, BranchEnded):
                branch = branches[firsts[event.request_id] + event.index]
                branch.ended, branch.predicted_ms = event, times.since(event.request_id)
            elif isinstance(event, PromptDone):
                times.put(event)
            elif isinstance(event, PromptProbs):
                prompt_probs.setdefault(event.request_id, []).extend(event.probs)
            elif isinstance(event, Failed):
                raise event.error
    finally:
        request.close()
    errors = [branch.error for branch in branches if branch.error]
    if len(errors) == len(branches):
        raise errors[0]
    done = [event for event in request.mailbox.ended if isinstance(event, Done)]
    return Outcome(branches, done, prompt_probs, times)


def _until_done(mailbox: Mailbox) -> Iterator[Any]:
    while True:
        yield from mailbox.take()
        if mailbox.done:
            return


def first_choices(request: OpenRequest) -> dict[str, int]:
    """Map each request id of the call to the index of its first branch among all branches of the call."""
    firsts, count = {}, 0
    for command in request.commands:
        firsts[command.request_id] = count
        count += len(command.branches)
    return firsts


def usage(done: Iterable[Done]) -> dict[str, Any]:
    """Return OpenAI's usage object, summed over the branches; a shared prompt counts once."""
    done = list(done)
    prompt = sum(event.prompt_tokens for event in done)
    completion = sum(event.completion_tokens for event in done)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": sum(event.cached_tokens for event in done)},
    }


def timings(done: Iterable[Done]) -> dict[str, float]:
    """Return llama-server's timings object; its counts and rates are over all branches together."""
    done = list(done)
    cached = sum(event.cached_tokens for event in done)
    return {
        "cache_n": cached,
        **_rates("prompt", sum(event.prompt_tokens for event in done) - cached, sum(event.prompt_ms for event in done)),
        **_rates(
            "predicted", sum(event.completion_tokens for event in done), sum(event.predicted_ms for event in done)
        ),
    }


def _rates(name: str, count: int, milliseconds: float) -> dict[str, float]:
    return {
        f"{name}_n": count,
        f"{name}_ms": round(milliseconds, 3),
        f"{name}_per_token_ms": round(milliseconds / count, 3) if count else 0.0,
        f"{name}_per_second": round(count * 1000 / milliseconds, 3) if milliseconds else 0.0,
    }
