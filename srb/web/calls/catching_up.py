"""Catching up: the part of a request that its reader has seen, and the events that it lacks, from the request's description.

A bridge that dies takes no request along that lingers: it goes on at its replica, and its readers are attached again by the
next bridge. Pure: no I/O and no clock.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from srb.wire.commands import Generate
from srb.wire.events import BranchAdded, BranchEnded, Delta, Event, PromptDone, Resting


def can_catch_up(command: Generate) -> bool:
    """Whether a description has all that a reader may lack: it has no probabilities, nor where explored branches began."""
    has_probs = command.prompt_logprobs or any(spec.sampling.n_probs >= 0 for spec in command.branches)
    return command.linger > 0 and not has_probs and command.shift is None and command.explore is None


@dataclass(slots=True)
class _Branch:
    """One branch, as far as the reader has seen it."""

    characters: int = 0
    tokens: int = 0
    has_ended: bool = False


class Seen:
    """The part of one request that its reader has seen."""

    def __init__(self, request_id: str, num_branches: int, owner: str, linger: float) -> None:
        self.owner = owner
        self.linger = linger  # seconds that the request goes on without a reader
        self._request_id = request_id
        self._branches = [_Branch() for _ in range(num_branches)]
        self._rests = False
        self._prompt = PromptDone(request_id, 0, 0, 0.0)
        self._predicted_ms = 0.0

    @classmethod
    def of(cls, command: Generate) -> "Seen":
        """Return what the reader of a new request has seen."""
        return cls(command.request_id, len(command.branches), command.owner, command.linger)

    @classmethod
    def described(cls, value: dict[str, Any], owner: str) -> "Seen":
        """Return what the reader has seen that was attached with this description."""
        seen = cls(value["id"], 0, owner, value["linger"])
        for event in seen.lacking(value):
            seen.note(event)
        return seen

    def note(self, event: Event) -> None:
        """Take an event that the reader gets."""
        if type(event) is Delta:
            branch = self._branches[event.index]
            branch.characters += len(event.text)
            branch.tokens += len(event.tokens)
            self._predicted_ms = event.predicted_ms
        elif type(event) is BranchEnded:
            self._branches[event.index].has_ended = True
            self._predicted_ms = event.predicted_ms
        elif type(event) is BranchAdded:
            self._rests = False
            if event.resumed:
                self._branches[event.index].has_ended = False
            else:
                self._branches.append(_Branch(len(event.text), event.token or 0))
        elif type(event) is Resting:
            self._rests = True
        elif type(event) is PromptDone:
            self._prompt = event

    def lacking(self, value: dict[str, Any]) -> Iterator[Event]:
        """Yield the events that the reader lacks of a request with this description; the caller notes each."""
        has_news = False
        for described in value["branches"]:
            for event in self._of_branch(described):
                has_news = True
                yield event
        if value["state"] == "resting" and (has_news or not self._rests):
            yield self._resting(value)

    def _of_branch(self, described: dict[str, Any]) -> Iterator[Event]:
        index, ended = described["index"], described.get("ended")
        if index == len(self._branches):
            begun = described["text"] if "origin" in described else ""  # of a fork, with what it has written since
            origin, token = described.get("origin"), described.get("token")
            added = BranchAdded(self._request_id, index, described["seed"], origin=origin, token=token, text=begun)
            yield replace(added, direction=described.get("direction", ""))
        branch = self._branches[index]
        text, tokens = described["text"][branch.characters :], described.get("tokens", [])[branch.tokens :]
        has_more = bool(text or tokens)
        if branch.has_ended and (has_more or ended is None):
            yield BranchAdded(self._request_id, index, described["seed"], resumed=True)
        if has_more:
            yield Delta(self._request_id, index, text, tokens, predicted_ms=self._predicted_ms)
        if ended is not None and not branch.has_ended:
            yield BranchEnded(**ended)

    def _resting(self, value: dict[str, Any]) -> Resting:
        """Return the rest's event, with the times that the reader knows: a description has none."""
        return Resting(
            self._request_id,
            value["linger"],
            prompt_tokens=value["prompt_tokens"],
            cached_tokens=self._prompt.cached_tokens,
            completion_tokens=sum(branch["length"] for branch in value["branches"]),
            prompt_ms=self._prompt.prompt_ms,
            predicted_ms=self._predicted_ms,
            restored_tokens=self._prompt.restored_tokens,
            computed_tokens=self._prompt.computed_tokens,
        )
