"""Requests that are divided among replicas: their parts, and one stream of events made of the parts' streams.

A request with more branches than one engine has sequences is divided. Each replica gets a part under the request's own id,
and each branch of a part has its `place`, its index in the whole request, so any bridge can find the parts and put them
together. Pure: no I/O and no clock.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from srb.errors import EngineRestarted, NotFound, bad_field
from srb.protocol import (
    TERMINAL,
    Accepted,
    AddBranches,
    BranchAdded,
    BranchEnded,
    ChangeBranch,
    Delta,
    Done,
    EndReasoning,
    Event,
    Failed,
    FinishReason,
    Generate,
    Progress,
    PromptDone,
    PromptLogprobs,
    Rejected,
    Resting,
    StopBranches,
)

Description = dict[str, Any]  # of a request, as GetRequest's value

_SEEDS = 2**32 - 1  # seeds are 0 … 2³²−2


def can_divide(command: Generate) -> bool:
    """Whether the branches of a request are independent of each other, so that they may be on several engines."""
    return not command.branches_interact and command.explore is None and command.shift is None


def chosen(capacities: Mapping[str, int], number: int) -> list[str]:
    """Return as many of the replicas, in order, as have sequences for `number` branches; all if they do not suffice."""
    names: list[str] = []
    room = 0
    for name, capacity in capacities.items():
        if room < number:
            names.append(name)
            room += capacity
    return names


def divide(command: Generate, capacities: Mapping[str, int]) -> dict[str, Generate]:
    """Return the part of each replica: places are dealt in turn to those that have sequences left, then to all in turn.

    The first replica's part has the first branch, and all that is said or kept once for the request.
    """
    places: dict[str, list[int]] = {name: [] for name in chosen(capacities, len(command.branches))}
    free = dict.fromkeys(places, 0) | {name: capacities[name] for name in places}
    turn: list[str] = []
    for place in range(len(command.branches)):
        if not turn:
            turn = [name for name in places if free[name] > 0] or list(places)
        name = turn.pop(0)
        places[name].append(place)
        free[name] -= 1
    places = {name: own for name, own in places.items() if own}  # a replica that has just gone has no sequences
    lead = next(iter(places))
    base = command.base or command.branches[0]
    parts = {}
    for name, own in places.items():
        branches = tuple(replace(command.branches[place], place=place) for place in own)
        part = replace(command, branches=branches, base=base, num_places=len(command.branches), num_parts=len(places))
        if name != lead:
            part = replace(part, report_progress=False, prompt_logprobs=False, state="", id_slot=-1)
        parts[name] = part
    return parts


@dataclass(slots=True)
class Part:
    """The branches of a request that are on one replica."""

    places: list[int]  # by the index that the branch has there
    running: set[int] = field(default_factory=set)  # places
    is_accepted: bool = False
    is_over: bool = False
    rest: Resting | None = None  # while it rests
    prompt: PromptDone | None = None  # None: not said to this reader
    done: Done | None = None
    num_tokens: int = 0  # that this reader has seen


class Whole:
    """A divided request, as one reader sees it: events of the parts go in, events of the whole come out.

    `parts` has each replica's part; the first is the lead, which alone reports its prompt.
    """

    def __init__(self, request_id: str, parts: dict[str, Part], waits_for_prompt: bool = False) -> None:
        """With `waits_for_prompt` all text waits for the lead's PromptDone, as for a request with prompt_logprobs."""
        self.request_id = request_id
        self.parts = parts
        self.is_over = False
        self.is_accepted = False
        self._lead = next(iter(parts))
        self._waits_for_prompt = waits_for_prompt
        self._prompt_tokens = 0
        self._is_prompt_done = False
        self._rests = False
        self._held: list[
            tuple[str, Event]
        ] = []  # until all parts are accepted, and until the prompt is done if need be

    def __repr__(self) -> str:
        open_parts = [name for name, part in self.parts.items() if not part.is_over]
        return f"<Whole {self.request_id} on {open_parts}>"

    @classmethod
    def of(cls, command: Generate, parts: Mapping[str, Generate]) -> Whole:
        """Return the new request of a command and its parts."""
        own = {}
        for name, part in parts.items():
            places = [spec.place for spec in part.branches]
            own[name] = Part(places, set(places))
        return cls(command.request_id, own, command.prompt_logprobs)

    @classmethod
    def joined(cls, request_id: str, described: Mapping[str, Description]) -> Whole:
        """Return a running request as a reader finds it that joins it."""
        own = {}
        for name, value in described.items():
            branches = value["branches"]
            running = {_place(branch) for branch in branches if "ended" not in branch}
            rest = _rest_of(request_id, value) if value["state"] == "resting" else None
            own[name] = Part([_place(branch) for branch in branches], running, is_accepted=True, rest=rest)
        whole = cls(request_id, own)
        whole.is_accepted = whole._is_prompt_done = True
        whole._prompt_tokens = max(value["prompt_tokens"] for value in described.values())
        whole._rests = all(part.rest is not None for part in own.values())
        return whole

    @property
    def names(self) -> list[str]:
        """The replicas that have a part which has not ended."""
        return [name for name, part in self.parts.items() if not part.is_over]

    def has_ended(self, name: str) -> bool:
        """Whether a replica has said that its part has ended, though others may not know it yet."""
        return self.parts[name].is_over or any(
            each == name and isinstance(event, TERMINAL) for each, event in self._held
        )

    @property
    def total(self) -> int:
        """The number of branches."""
        return 1 + max(max(part.places, default=-1) for part in self.parts.values())

    def of_place(self, place: int) -> tuple[str, int] | None:
        """Return the replica of a branch, and its index there."""
        for name, part in self.parts.items():
            if place in part.places:
                return name, part.places.index(place)
        return None

    def move(self, old: str, new: str) -> None:
        """Note that a part which was not accepted is on another replica now."""
        self.parts = {new if name == old else name: part for name, part in self.parts.items()}
        self._held = [(name, event) for name, event in self._held if name != old]
        if self._lead == old:
            self._lead = new

    # Events ---------------------------------------------------------------------------------------------------------

    def take(self, name: str, event: Event) -> list[Event]:
        """Return the whole's events that follow from one of a part. Rejected ends the whole."""
        part = self.parts.get(name)
        if part is None or part.is_over or self.is_over:
            return []
        if isinstance(event, Rejected):
            self.is_over = True
            return [event]
        if isinstance(event, Accepted):
            part.is_accepted, self._prompt_tokens = True, event.prompt_tokens
            return self._accept()
        if not self._may_say(name):
            self._held.append((name, event))
            return []
        return self._said(name, part, event)

    def lose(self, name: str, code: str, message: str) -> list[Event]:
        """Return the events after a replica is lost: its branches end with the error, the others go on."""
        part = self.parts.get(name)
        if part is None or part.is_over or self.is_over:
            return []
        if name == self._lead and self._waits_for_prompt and not self._is_prompt_done:
            return self._fail(code, message)  # nobody else reports the prompt's log-probabilities
        part.is_over = True
        if not self.names and not any(each.done for each in self.parts.values()):
            return self._fail(code, message)
        ends = [
            BranchEnded(self.request_id, part.places.index(place), FinishReason.ERROR, 0, code=code, message=message)
            for place in sorted(part.running)
        ]
        self._held = [(each, event) for each, event in self._held if each != name] + [(name, end) for end in ends]
        return self._accept() or [*self._release(), *self._settle()]

    def _fail(self, code: str, message: str) -> list[Event]:
        self.is_over = True
        return [Failed(self.request_id, code, message)]

    def _accept(self) -> list[Event]:
        if self.is_accepted or not all(part.is_accepted or part.is_over for part in self.parts.values()):
            return []
        self.is_accepted = True
        return [Accepted(self.request_id, self._prompt_tokens), *self._release()]

    def _may_say(self, name: str) -> bool:
        prompt_is_awaited = self._waits_for_prompt and not self._is_prompt_done
        return self.is_accepted and (name == self._lead or not prompt_is_awaited)

    def _release(self) -> list[Event]:
        """Return the events that follow from those that were held, as far as they may be said now."""
        held, self._held = self._held, []
        events: list[Event] = []
        for name, event in held:
            if self._may_say(name):
                events += self._said(name, self.parts[name], event)
            else:
                self._held.append((name, event))
        return events

    def _said(self, name: str, part: Part, event: Event) -> list[Event]:
        match event:
            case Delta():
                part.num_tokens += len(event.tokens)
                return [replace(event, index=part.places[event.index])]
            case BranchEnded():
                part.running.discard(part.places[event.index])
                return [replace(event, index=part.places[event.index]), *self._settle()]
            case BranchAdded():
                return [self._added(part, event)]
            case Progress() | PromptLogprobs():
                return [event]
            case PromptDone():
                return self._prompt_done(part, event)
            case Resting():
                part.rest = event
                return self._settle()
            case Done():
                part.done, part.is_over = event, True
                return self._settle()
            case Failed():
                return self.lose(name, event.code, event.message)
        raise AssertionError(f"no event of a request: {event!r}")

    def _added(self, part: Part, event: BranchAdded) -> BranchAdded:
        if event.index == len(part.places):
            part.places.append(event.place)
        place = part.places[event.index]
        part.running.add(place)
        part.rest, self._rests = None, False
        origin = None if event.origin is None else part.places[event.origin]
        return replace(event, index=place, origin=origin)

    def _prompt_done(self, part: Part, event: PromptDone) -> list[Event]:
        """Say once that the prompt is computed; slots of other replicas are not known, so those are the branches' places."""
        part.prompt = event
        if self._is_prompt_done:
            return []
        self._is_prompt_done = True
        slots = list(range(self.total))
        for place, slot in zip(part.places, event.slots, strict=False):
            slots[place] = slot
        return [replace(event, slots=slots), *self._release()]

    def _settle(self) -> list[Event]:
        """Return Done when every part is over, Resting when those that are not over rest."""
        if self.is_over or self._held or any(part.running for part in self.parts.values()):
            return []
        if not self.names:
            self.is_over = True
            return [self._sum()]
        if not self._rests and all(self.parts[name].rest for name in self.names):
            self._rests = True
            return [Resting.of(self._sum(), max(part.rest.seconds for part in self.parts.values() if part.rest))]
        return []

    def _sum(self) -> Done:
        """Return the usage of all parts. The prompt counts once, as the part with least of it cached computed it."""
        ends = [(part, end) for part in self.parts.values() if (end := part.done or _done(part.rest)) is not None]
        prompts = [part.prompt or end for part, end in ends]
        first = min(prompts, key=lambda prompt: prompt.cached_tokens)
        own = self._prompt_tokens
        unsaid = sum(part.num_tokens for part in self.parts.values() if not part.done and not part.rest)
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


def _rest_of(request_id: str, value: Description) -> Resting:
    """Return a rest that a reader found when it joined; what was cached is not known, so that of other parts counts."""
    prompt_tokens, written = value["prompt_tokens"], sum(branch["length"] for branch in value["branches"])
    return Resting(request_id, value["linger"], prompt_tokens, prompt_tokens, written, 0.0, 0.0)


def _done(rest: Resting | None) -> Done | None:
    return rest.done if rest is not None else None


# Descriptions and controls ----------------------------------------------------------------------------------------


def is_part(value: Description) -> bool:
    """Whether a request that a replica describes is a part of a divided one."""
    return any("place" in branch for branch in value["branches"])


def lacks_parts(values: Collection[Description]) -> bool:
    """Whether a request has more parts than those whose descriptions are given, which are not empty."""
    first = next(iter(values))
    return is_part(first) and len(values) < first["num_parts"]


def unite(values: Sequence[Description], total: int = 0, all_have_said: bool = True) -> Description:
    """Return the description of a request from those of its parts, which are not empty.

    If a part is missing, its branches, of `total` or of those that the others know of, have ended with an error. Nothing
    is said of a branch that is missing though all parts are there, since it is just being added, nor of one whose replica
    may not have answered.
    """
    first = {name: each for name, each in values[0].items() if name not in ("num_places", "num_parts")}
    is_lost = all_have_said and lacks_parts(values)
    branches = {_place(branch): _as_of_whole(branch, value) for value in values for branch in value["branches"]}
    for place in set(range(num_places(values, total) if is_lost else 0)) - branches.keys():
        branches[place] = _lost(first, place)
    states = {value["state"] for value in values}
    return {
        **first,
        "state": states.pop() if len(states) == 1 else "running",
        "age": max(value["age"] for value in values),
        "branches": [branches[place] for place in sorted(branches)],
    }


def num_places(values: Iterable[Description], total: int = 0) -> int:
    """Return the number of a request's branches, also of those that are lost: `total`, or more that a part knows of."""
    known: list[int] = [value["num_places"] for value in values]
    return max(total, *known)


def unite_listed(values: Iterable[Description], all_have_said: bool = True) -> list[Description]:
    """Return the requests of a list in which divided ones have several entries, unless a replica has not answered."""
    by_id: dict[str, list[Description]] = {}
    for value in values:
        by_id.setdefault(value["id"], []).append(value)
    return [unite(parts, 0, all_have_said) if is_part(parts[0]) else parts[0] for parts in by_id.values()]


def _place(branch: Mapping[str, Any]) -> int:
    place: int = branch.get("place", branch["index"])
    return place


def _as_of_whole(branch: Mapping[str, Any], value: Description) -> dict[str, Any]:
    said = {name: each for name, each in branch.items() if name != "place"} | {"index": _place(branch)}
    if "origin" in branch:
        said["origin"] = _place(value["branches"][branch["origin"]])
    if "ended" in branch:
        said["ended"] = branch["ended"] | {"index": _place(branch)}
    return said


def _lost(value: Description, place: int) -> dict[str, Any]:
    """Return a branch of which nothing is left; its seed follows the others', unless it was given one of its own."""
    known = value["branches"][0]
    message = "The replica that had this branch was lost, or has forgotten it"
    ended = BranchEnded(value["id"], place, FinishReason.ERROR, 0, code=EngineRestarted.code, message=message)
    seed = (known["seed"] + place - _place(known)) % _SEEDS
    said = {"index": place, "seed": seed, "state": "ended", "length": 0, "max_tokens": known["max_tokens"]}
    texts = {"text": "", "tokens": []} if "text" in known else {}  # a list has none
    return {**said, "ended": asdict(ended), **texts}


Targeted = StopBranches | EndReasoning | ChangeBranch | AddBranches


def for_part(command: Targeted, described: Mapping[str, Description], total: int = 0) -> tuple[str, Targeted]:
    """Return the replica that a control of single branches goes to, and the control as that replica understands it.

    `described` has each part. Limits on all branches become what the other parts leave of them. Raise NotFound for a
    branch that there is not, InvalidRequest if the other parts leave nothing.
    """
    if isinstance(command, AddBranches):
        name, own = _part_for_new(command, described)
        first = num_places(described.values(), total)
        entries = tuple(
            (seed, append, (*changes, ("place", first + number)), sampling)
            for number, (seed, append, changes, sampling) in enumerate(command.branches)
        )
        return name, _within_limits(replace(command, branches=entries, origin=own), name, described)
    assert command.index is not None
    name, index = _find(command.index, described)
    moved = replace(command, index=index)
    return name, _within_limits(moved, name, described) if isinstance(moved, ChangeBranch) else moved


def places_of(command: AddBranches) -> list[int]:
    """Return the places that a control of `for_part` adds."""
    return [dict(changes)["place"] for _, _, changes, _ in command.branches]


def of_whole(command: Targeted, answer: Any, described: Description) -> Any:
    """Return a part's answer to a control of `for_part` as one of the whole; `described` is the part before it."""
    if isinstance(command, AddBranches):
        return {**answer, "indices": places_of(command)}
    if isinstance(command, EndReasoning):
        return answer  # an engine tells places
    return _as_of_whole(answer, described)


def _part_for_new(command: AddBranches, described: Mapping[str, Description]) -> tuple[str, int | None]:
    """Return the replica of the origin and its index there, or the replica that has the fewest branches running."""
    if command.origin is not None:
        return _find(command.origin, described)
    return min(described, key=lambda name: _num_active(described[name])), None


def _find(place: int, described: Mapping[str, Description]) -> tuple[str, int]:
    for name, value in described.items():
        for branch in value["branches"]:
            if _place(branch) == place:
                return name, branch["index"]
    raise NotFound(f"the request has no branch {place}, or its replica was lost")


def _within_limits(command: Any, name: str, described: Mapping[str, Description]) -> Any:
    others = [value for other, value in described.items() if other != name]
    if command.max_running:
        active = sum(map(_num_active, described.values()))
        if active + _num_new(command, described[name]) > command.max_running:
            field_name = "count" if isinstance(command, AddBranches) else "max_tokens"
            problem = f"{active} branches run already; at most {command.max_running} may run at once (max_n)"
            raise bad_field(field_name, problem)
        command = replace(command, max_running=max(1, command.max_running - sum(map(_num_active, others))))
    if command.max_tokens:
        used = sum(_tokens(branch) for value in others for branch in value["branches"])
        if used >= command.max_tokens:
            problem = f"the branches of a request may have {command.max_tokens} tokens together"
            raise bad_field("max_tokens", problem)
        command = replace(command, max_tokens=command.max_tokens - used)
    return command


def _num_new(command: AddBranches | ChangeBranch, described: Description) -> int:
    """Return how many branches run after a control that did not before."""
    if isinstance(command, AddBranches):
        return len(command.branches)
    return int("ended" in described["branches"][command.index])


def _num_active(value: Description) -> int:
    return sum("ended" not in branch for branch in value["branches"])


def _tokens(branch: Mapping[str, Any]) -> int:
    tokens: int = branch["length"] if "ended" in branch else branch["max_tokens"]
    return tokens
