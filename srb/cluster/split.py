"""Requests that are divided among replicas: their parts, and one stream of events made of the parts' streams.

A request with more branches than one engine has sequences is divided. Each replica gets branches that follow each other, as
a request of its own: `ID+24` is the part of request ID whose first branch is ID's branch 24. Engines know nothing of it, and
any bridge finds the parts by their ids. Pure: no I/O and no clock.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from srb.errors import Conflict, NotFound, SRBError
from srb.wire.commands import Cancel, Command, EndReasoning, Generate, GetRequest, StopBranches
from srb.wire.events import (
    TERMINAL,
    Accepted,
    BranchEnded,
    Delta,
    Done,
    Event,
    Failed,
    FinishReason,
    Progress,
    PromptDone,
    Rejected,
)

Description = dict[str, Any]  # of a request, as GetRequest's value

_SIGN = "+"  # between a request's id, which has none, and the index of a part's first branch


def part_id(request_id: str, first: int) -> str:
    return f"{request_id}{_SIGN}{first}"


def part_prefix(request_id: str) -> str:
    """Return the beginning that the ids of a request's parts have, and no other."""
    return request_id + _SIGN


def whole_id(request_id: str) -> str:
    """Return the id of the request that a part belongs to; the id itself if it is no part's."""
    return request_id.partition(_SIGN)[0]


def first_of(request_id: str) -> int:
    """Return the index in the whole request that a part's first branch has; 0 of a request that is no part."""
    return int(request_id.partition(_SIGN)[2] or 0)


def can_divide(command: Generate) -> bool:
    """Whether a request's branches may be on several engines.

    They must not depend on each other; and a request with `linger` is for readers and branches that come later, which need
    all of it on one engine.
    """
    depends = command.branches_interact or command.explore is not None or command.shift is not None
    is_part = whole_id(command.request_id) != command.request_id
    return not (depends or command.linger or command.prompt_logprobs or is_part)


def divide(command: Generate, capacities: Mapping[str, int]) -> dict[str, Generate]:
    """Return the part of each replica: branches are dealt in turn to those that have sequences left, then to all in turn.

    Replicas have at least one sequence each. The first one's part has all that is said or kept once for the request.
    """
    counts = dict.fromkeys(capacities, 0)
    turn: list[str] = []
    for _ in command.branches:
        turn = turn or [name for name in counts if counts[name] < capacities[name]] or list(counts)
        counts[turn.pop(0)] += 1
    parts: dict[str, Generate] = {}
    first = 0
    for name, count in ((name, count) for name, count in counts.items() if count):
        own = command.branches[first : first + count]
        part = replace(command, request_id=part_id(command.request_id, first), branches=own, can_grow=False, base=None)
        parts[name] = replace(part, report_progress=False, state="", id_slot=-1) if first else part
        first += count
    return parts


@dataclass(slots=True)
class _Part:
    """Some branches of a request, as this reader has seen them."""

    first: int  # index of the first branch in the whole request
    running: set[int]  # by their index in the whole
    is_accepted: bool = False
    is_over: bool = False
    prompt: PromptDone | None = None
    done: Done | None = None
    num_tokens: int = 0


class Whole:
    """A divided request, as its reader sees it: events of the parts go in, events of the whole come out."""

    def __init__(self, request_id: str, parts: Iterable[Generate]) -> None:
        self.request_id = request_id
        self.is_over = False
        self._is_accepted = False
        self._is_prompt_done = False
        self._prompt_tokens = 0
        self._held: list[Event] = []  # until all parts are accepted: one that is refused refuses the request
        self._parts: dict[str, _Part] = {}  # by their ids
        for part in parts:
            first = first_of(part.request_id)
            self._parts[part.request_id] = _Part(first, set(range(first, first + len(part.branches))))
        self._total = sum(len(part.running) for part in self._parts.values())

    def __repr__(self) -> str:
        return f"<Whole {self.request_id}, runs as {self.open_parts}>"

    @property
    def open_parts(self) -> list[str]:
        """The ids of the parts that have not ended."""
        return [name for name, part in self._parts.items() if not part.is_over]

    def cancels(self, command: Cancel) -> Iterator[Cancel]:
        """Yield a Cancel of the whole, or of one of its branches, as one for each part that it concerns."""
        for name, part in self._parts.items():
            if command.index is None:
                yield replace(command, request_id=name)
            elif command.index in part.running:
                yield replace(command, request_id=name, index=command.index - part.first)

    def take(self, event: Event) -> list[Event]:
        """Return the whole's events that follow from one of a part. Rejected ends the whole."""
        part = self._parts[event.request_id]  # type: ignore[union-attr]  # Hello and Ready are of no request
        if part.is_over or self.is_over:
            return []
        if isinstance(event, Rejected):
            self.is_over = True
            return [replace(event, request_id=self.request_id)]
        if isinstance(event, Accepted):
            part.is_accepted, self._prompt_tokens = True, event.prompt_tokens
        elif self._is_accepted:
            return self._said(part, event)
        else:
            self._held.append(event)
            part.is_accepted = part.is_accepted or isinstance(event, TERMINAL)
        return self._accept()

    def _accept(self) -> list[Event]:
        if not all(part.is_accepted for part in self._parts.values()):
            return []
        self._is_accepted = True
        held, self._held = self._held, []
        events: list[Event] = [Accepted(self.request_id, self._prompt_tokens)]
        for event in held:
            events += self._said(self._parts[event.request_id], event)  # type: ignore[union-attr]
        return events

    def _said(self, part: _Part, event: Event) -> list[Event]:
        match event:
            case Delta():
                part.num_tokens += len(event.tokens)
                return [self._of_branch(part, event)]
            case BranchEnded():
                part.running.discard(part.first + event.index)
                return [self._of_branch(part, event)]
            case Progress():
                return [replace(event, request_id=self.request_id)]
            case PromptDone():
                return self._prompt_done(part, event)
            case Done():
                part.done, part.is_over = event, True
                return self._settle()
            case Failed():
                return self._lose(part, event)
        raise AssertionError(f"no event of a part: {event!r}")

    def _of_branch(self, part: _Part, event: Delta | BranchEnded) -> Event:
        return replace(event, request_id=self.request_id, index=part.first + event.index)

    def _prompt_done(self, part: _Part, event: PromptDone) -> list[Event]:
        """Say once that the prompt is computed; the slots of later parts are not known, so those are indices of branches."""
        part.prompt = event
        if self._is_prompt_done:
            return []
        self._is_prompt_done = True
        slots = list(range(self._total))
        slots[part.first : part.first + len(event.slots)] = event.slots
        return [replace(event, request_id=self.request_id, slots=slots)]

    def _lose(self, part: _Part, event: Failed) -> list[Event]:
        """Return the events after a replica is lost: its branches end with the error, the others go on."""
        part.is_over = True
        if not self.open_parts and not any(each.done for each in self._parts.values()):
            self.is_over = True
            return [replace(event, request_id=self.request_id)]
        lost = sorted(part.running)
        part.running.clear()
        ended = BranchEnded(self.request_id, 0, FinishReason.ERROR, 0, code=event.code, message=event.message)
        return [*(replace(ended, index=index) for index in lost), *self._settle()]

    def _settle(self) -> list[Event]:
        """Return Done when every part is over."""
        if self.open_parts:
            return []
        self.is_over = True
        return [self._sum()]

    def _sum(self) -> Done:
        """Return the usage of all parts. The prompt counts once, as the part with least of it cached computed it."""
        ends = [(part, part.done) for part in self._parts.values() if part.done is not None]
        prompts = [part.prompt or end for part, end in ends]
        first = min(prompts, key=lambda prompt: prompt.cached_tokens)
        own = self._prompt_tokens
        unsaid = sum(part.num_tokens for part in self._parts.values() if part.done is None)
        return Done(
            self.request_id,
            prompt_tokens=own + sum(end.prompt_tokens - own for _, end in ends),
            cached_tokens=first.cached_tokens
            + sum(end.cached_tokens - each.cached_tokens for (_, end), each in zip(ends, prompts, strict=True)),
            completion_tokens=unsaid + sum(end.completion_tokens for _, end in ends),
            prompt_ms=max(end.prompt_ms for _, end in ends),
            predicted_ms=max(end.predicted_ms for _, end in ends),
            restored_tokens=min(end.restored_tokens for _, end in ends),
            image_tokens=max(end.image_tokens for _, end in ends),
            audio_tokens=max(end.audio_tokens for _, end in ends),
            drafted_tokens=sum(end.drafted_tokens for _, end in ends),
            accepted_tokens=sum(end.accepted_tokens for _, end in ends),
            computed_tokens=first.computed_tokens
            + sum(end.computed_tokens - each.computed_tokens for (_, end), each in zip(ends, prompts, strict=True)),
        )


# Descriptions and controls ----------------------------------------------------------------------------------------


def unite(values: Iterable[Description]) -> Description:
    """Return the description of a request from those of its parts; branches of a part that is missing are left out."""
    parts = sorted(values, key=lambda value: first_of(value["id"]))
    states = {value["state"] for value in parts}
    return {
        **parts[0],
        "id": whole_id(parts[0]["id"]),
        "state": states.pop() if len(states) == 1 else "running",
        "age": max(value["age"] for value in parts),
        "branches": [_moved(branch, value["id"]) for value in parts for branch in value["branches"]],
    }


def unite_listed(values: Iterable[Description]) -> list[Description]:
    """Return the requests of a list in which divided ones have an entry for each part."""
    by_id: dict[str, list[Description]] = {}
    for value in values:
        by_id.setdefault(whole_id(value["id"]), []).append(value)
    return [unite(parts) for parts in by_id.values()]


def parts_in(answers: Mapping[str, Any]) -> dict[str, tuple[str, int]]:
    """Return a divided request's parts from the replicas' lists of them: replica and number of branches by id."""
    return {
        value["id"]: (name, len(value["branches"]))
        for name, listed in answers.items()
        if not isinstance(listed, SRBError)
        for value in listed
    }


def for_parts(command: Command, sizes: Mapping[str, int]) -> dict[str, Any]:
    """Return a control of a divided request as one for each part that it concerns; `sizes` has the parts' branches.

    Raise Conflict for a control that needs the request on one replica, NotFound for a branch that no part has.
    """
    if not isinstance(command, GetRequest | StopBranches | EndReasoning):
        raise Conflict(
            "this request is divided among replicas: it can be read by its first reader alone, and branches can be stopped, "
            "but neither added, forked nor changed. Continue a branch by a new request whose prompt has its text, or begin "
            "with `linger`: such a request stays on one replica",
            state="running",
            divided=True,
        )
    if isinstance(command, GetRequest) or command.index is None:
        return {name: replace(command, target=name) for name in sizes}
    for name, size in sizes.items():
        if 0 <= (index := command.index - first_of(name)) < size:
            return {name: replace(command, target=name, index=index)}
    raise NotFound(f"the request has no branch {command.index}, or its replica was lost")


def of_parts(command: Command, answers: Mapping[str, Any]) -> Any:
    """Return the parts' answers to `for_parts`, by their ids, as the answer of the whole."""
    if isinstance(command, EndReasoning):
        return {"branches": sorted(first_of(name) + i for name, answer in answers.items() for i in answer["branches"])}
    if not isinstance(command, StopBranches):
        return unite(answers.values())
    name, answer = next(iter(answers.items()))
    return {**answer, "id": whole_id(name)} if command.index is None else _moved(answer, name)


def _moved(branch: Mapping[str, Any], part: str) -> dict[str, Any]:
    """Return a part's branch with its index in the whole request."""
    moved = {**branch, "index": branch["index"] + first_of(part)}
    if "ended" in branch:
        moved["ended"] = {**branch["ended"], "request_id": whole_id(part), "index": moved["index"]}
    return moved
