"""The divided requests of one web worker: parts go to several replicas, and controls to the part that has the branch."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import uuid4

from srb.cluster.members import Home, Member, Members, ask_all, silence_of, why_not_found
from srb.cluster.routing import choose, merge
from srb.cluster.split import Description, Whole, divide, for_part, lacks_parts, of_whole, places_of, unite
from srb.errors import EngineLoading, EngineRestarted, QueueFull, ShuttingDown, SRBError, Unavailable
from srb.protocol import (
    TERMINAL,
    AddBranches,
    Attach,
    Attached,
    BranchAdded,
    Cancel,
    EndReasoning,
    Event,
    Failed,
    Generate,
    GetRequest,
    HoldPlaces,
    Rejected,
    Reply,
    StopBranches,
    encode,
)

MOVING = {EngineLoading.code, ShuttingDown.code, QueueFull.code}  # refusals after which another replica is tried
_CONTROL_SECONDS = 10.0  # for a replica's answer to a control
_HOLD_SECONDS = 25.0  # more than a bridge takes to add branches; after that it is gone
_HOLD_WAIT = 1.5  # for another bridge; a worker waits two seconds
_HOLD_PAUSE = 0.05  # most between attempts to hold parts that another bridge holds

Send = Callable[[Member, bytes], None]  # a frame, over the worker's channel to a replica
Drop = Callable[[str, str], None]  # cancels a replica's part, by their names; no event of it comes any more
BeginAgain = Callable[[Generate, set[str], list[Cancel]], None]  # without these replicas; then it is cancelled so


@dataclass(slots=True)
class _Begun:
    """A divided request that the worker reads. If it began here, `command` and the parts' frames are known."""

    whole: Whole
    command: Generate | None = None
    payloads: dict[str, bytes] = field(default_factory=dict)
    counted: dict[str, int] = field(default_factory=dict)  # branches that the load of a replica counts
    tried: set[str] = field(default_factory=set)
    failed: set[str] = field(default_factory=set)  # of those, the ones that have refused a part, or were lost
    ending: set[str] | None = None  # replicas whose parts are awaited to end before it begins again
    cancels: list[Cancel] = field(default_factory=list)  # that have come meanwhile


@dataclass(slots=True)
class _Join:
    """An Attach on its way: the parts' answers, and what those that have answered say until all have."""

    command: Attach
    names: Sequence[str]
    waiting: set[str] = field(default_factory=set)
    described: dict[str, Description] = field(default_factory=dict)
    refusals: dict[str, SRBError] = field(default_factory=dict)
    held: list[tuple[str, Event]] = field(default_factory=list)


class Divided:
    """The divided requests of one worker. `in` tells whether an event's request id is one of theirs."""

    def __init__(self, members: Members, send: Send, drop: Drop, begin_again: BeginAgain) -> None:
        self._members = members
        self._send = send
        self._drop = drop
        self._begin_again = begin_again
        self._begun: dict[str, _Begun] = {}
        self._joins: dict[str, list[_Join]] = {}  # by target; one after the other
        self._joining: dict[str, str] = {}  # the targets by the id of the Attach
        self._late: dict[str, set[str]] = {}  # the replicas that have not answered an Attach that was given up

    def __contains__(self, request_id: str) -> bool:
        return any(request_id in each for each in (self._begun, self._joins, self._joining, self._late))

    def __bool__(self) -> bool:
        return bool(self._begun or self._joins or self._late)

    @property
    def names(self) -> set[str]:
        """The replicas that are needed."""
        used = {name for begun in self._begun.values() for name in begun.whole.names}
        return used | {name for joins in self._joins.values() for join in joins for name in join.names}

    # Requests -------------------------------------------------------------------------------------------------------

    def begin(self, command: Generate, lead: str, tried: Set[str]) -> None:
        """Send the parts of a request to as many replicas as it needs, the first to `lead`, none to `tried`.

        All of them have the same model, also while an update replaces it.
        """
        members, affinity = self._members, self._members.affinity
        tried, failed = tried | members.with_other_models(lead), set(tried)
        names, room = [lead], members.capacity(lead)
        while room < len(command.branches):
            name = choose(affinity, command, members.avoided(tried | set(names)))
            if name is None:
                break
            names.append(name)
            room += members.capacity(name)
        parts = divide(command, {name: members.capacity(name) for name in names})
        payloads = {name: encode([part]) for name, part in parts.items()}
        begun = _Begun(Whole.of(command, parts), command, payloads, tried=set(tried), failed=failed)
        self._begun[command.request_id] = begun
        for name, payload in payloads.items():
            self._place(begun, name, payload)
        self._note_home(begun)

    def forget(self, request_id: str) -> None:
        """Read a request no more; others are ignored."""
        if (begun := self._begun.pop(request_id, None)) is not None:
            for name in list(begun.counted):
                self._uncount(begun, name)

    def cancel(self, command: Cancel) -> None:
        """Pass a Cancel on to the part that has the branch, or to all parts."""
        begun = self._begun.get(command.request_id)
        if begun is None:
            return
        if begun.ending is not None:
            begun.cancels.append(command)
        elif command.index is None:
            self._tell(begun.whole.names, encode([command]))
        elif (found := begun.whole.of_place(command.index)) is not None:
            self._tell([found[0]], encode([Cancel(command.request_id, found[1], command.leaves)]))

    def _place(self, begun: _Begun, name: str, payload: bytes) -> None:
        member = self._members.get(name)
        assert member is not None  # it was chosen among those that are ready
        begun.tried.add(name)
        begun.counted[name] = len(begun.whole.parts[name].places)
        self._members.affinity.begin(name, begun.counted[name])
        self._send(member, payload)

    def _note_home(self, begun: _Begun) -> None:
        whole = begun.whole
        self._members.note_home(whole.request_id, Home(tuple(whole.parts), is_divided=True))

    def _move(self, begun: _Begun, name: str) -> bool:
        """Give a part that was not accepted to a replica without a part, if there is one."""
        part = begun.whole.parts.get(name)
        if part is None or part.is_accepted or begun.command is None:
            return False
        begun.failed.add(name)
        other = choose(self._members.affinity, begun.command, self._members.avoided(begun.tried))
        if other is None:
            return False
        payload = begun.payloads[other] = begun.payloads.pop(name)
        begun.whole.move(name, other)
        self._uncount(begun, name)
        self._place(begun, other, payload)
        self._note_home(begun)
        return True

    def _restart(self, begun: _Begun, name: str) -> bool:
        """End all parts of a request that was not accepted, so that it begins again without a replica, if others live."""
        whole = begun.whole
        begun.failed.add(name)
        if begun.command is None or whole.is_accepted or not self._members.affinity.replicas - begun.failed:
            return False
        running = {each for each in whole.names if each != name and not whole.has_ended(each)}
        hanging = {each for each in running if self._hangs(each)}
        for each in hanging:
            self._drop(each, whole.request_id)
        begun.failed |= hanging
        begun.ending = running - hanging
        self._tell(begun.ending, encode([Cancel(whole.request_id)]))
        self._go_on(begun)
        return True

    def _ended(self, begun: _Begun, name: str, event: Event) -> list[Event]:
        """Note that a part has ended, of a request that is to begin again; return the end if none is left to begin it."""
        assert begun.ending is not None
        if name not in begun.ending or not isinstance(event, TERMINAL):
            return []
        begun.ending.remove(name)
        if _is_lost(event):
            begun.failed.add(name)
        if not begun.ending and not self._members.affinity.replicas - begun.failed:
            begun.whole.is_over = True
            return [event]
        self._go_on(begun)
        return []

    def leave_hanging(self) -> list[Event]:
        """Give parts that a replica which hangs has not accepted to others, if there are any; return what follows."""
        events: list[Event] = []
        for request_id, begun in list(self._begun.items()):
            for name in [each for each in begun.whole.names if self._hangs(each)]:
                if begun.ending is not None and name in begun.ending:
                    self._drop(name, request_id)
                    error = EngineRestarted(f"Replica {name} does not answer")
                    events += self._ended(begun, name, Failed(request_id, error.code, error.message))
                elif begun.ending is None and self._can_leave(begun, name):
                    self._drop(name, request_id)
                    _ = self._move(begun, name) or self._restart(begun, name)
        return events

    def _can_leave(self, begun: _Begun, name: str) -> bool:
        has_others = self._members.has_others(begun.failed | {name})
        return has_others and begun.command is not None and not begun.whole.parts[name].is_accepted

    def _hangs(self, name: str) -> bool:
        member = self._members.get(name)
        return member is not None and member.hangs

    def _go_on(self, begun: _Begun) -> None:
        """Begin a request again, as soon as no replica has a part of it."""
        if not begun.ending:
            assert begun.command is not None
            self.forget(begun.whole.request_id)
            self._begin_again(begun.command, begun.failed, begun.cancels)

    def _count_added(self, begun: _Begun, name: str) -> None:
        """Count the branches that were added to a part."""
        number = len(begun.whole.parts[name].places)
        self._members.affinity.grow(name, number - begun.counted[name])
        begun.counted[name] = number

    def _uncount(self, begun: _Begun, name: str) -> None:
        if name in begun.counted:
            self._members.affinity.end(name, begun.counted.pop(name))

    def _tell(self, names: Iterable[str], payload: bytes) -> None:
        for name in names:
            if (member := self._members.get(name)) is not None:
                self._send(member, payload)

    # Events ---------------------------------------------------------------------------------------------------------

    def take(self, name: str, events: Iterable[Event]) -> list[Event]:
        """Return a replica's events with those of divided requests as events of the whole; others are left as they are."""
        taken: list[Event] = []
        for event in events:
            request_id = event.request_id  # type: ignore[union-attr]  # Hello and Ready do not come here
            target = self._joining.get(request_id)
            if name in self._late.get(request_id, ()):
                self._came_late(name, request_id, event)
            elif target is not None:
                taken += self._answered(self._joins[target][0], name, event)
            elif request_id in self:
                taken += self._of_part(name, request_id, event)
            else:
                taken.append(event)
        return taken

    def lose(self, name: str) -> list[Event]:
        """Return the events that follow when a replica is lost."""
        message = f"Replica {name} was lost; please try again"
        events: list[Event] = []
        for attach_id in list(self._late):
            self._came_late(name, attach_id, None)
        for joins in list(self._joins.values()):
            if name in joins[0].waiting:
                events += self._answered(joins[0], name, Failed("", EngineRestarted.code, message))
        for request_id in [*self._begun, *(self._joins.keys() - self._begun.keys())]:
            events += self._of_part(name, request_id, Failed(request_id, EngineRestarted.code, message))
        return events

    def _of_part(self, name: str, request_id: str, event: Event) -> list[Event]:
        join = next(iter(self._joins.get(request_id, ())), None)
        if join is not None and name in join.described:
            join.held.append((name, event))
            return []
        begun = self._begun.get(request_id)
        return self._said(begun, name, event) if begun is not None else []

    def _said(self, begun: _Begun, name: str, event: Event) -> list[Event]:
        whole = begun.whole
        if begun.ending is not None:
            return self._ended(begun, name, event)
        is_lost = _is_lost(event)
        if is_lost and (self._move(begun, name) or self._restart(begun, name)):
            return []
        if isinstance(event, Failed):
            events = whole.lose(name, event.code, event.message)
        else:
            events = whole.take(name, event)
            begun.payloads.pop(name, None)  # the replica has it
            if isinstance(event, BranchAdded) and name in begun.counted:
                self._count_added(begun, name)
        if name not in whole.names:
            self._uncount(begun, name)
        if whole.is_over and (others := [each for each in whole.names if each != name]):  # it was refused, or it failed
            self._tell(others, encode([Cancel(whole.request_id)]))
        return events

    # Readers that join ----------------------------------------------------------------------------------------------

    def attach(self, command: Attach, names: Sequence[str]) -> list[Event]:
        """Ask all parts for what they have; return the refusal if there is none."""
        joins = self._joins.setdefault(command.target, [])
        joins.append(_Join(command, names))
        return self._start(joins[0]) if len(joins) == 1 else []

    def _start(self, join: _Join) -> list[Event]:
        join.waiting = {name for name in join.names if self._members.get(name) is not None}
        self._joining[join.command.request_id] = join.command.target
        self._tell(list(join.waiting), encode([join.command]))
        return self._end_of_join(join)

    def _answered(self, join: _Join, name: str, event: Event) -> list[Event]:
        if isinstance(event, Attached):
            join.described[name] = event.value
        elif isinstance(event, (Rejected, Failed)):
            join.refusals[name] = event.error
        join.waiting.discard(name)
        return self._end_of_join(join)

    def _end_of_join(self, join: _Join) -> list[Event]:
        """Return Attached, and what was held, as soon as all parts have answered; then it is the next reader's turn."""
        if join.waiting:
            return []
        command, target = join.command, join.command.target
        del self._joining[command.request_id]
        joins = self._joins[target]
        joins.remove(join)
        if not joins:
            del self._joins[target]
        events: list[Event]
        if silence := silence_of(join.refusals):
            self._leave(target, join.described)
            events = [Rejected.of(command.request_id, silence)]
        elif join.described:
            total = self.total(target)
            if target not in self._begun:
                self._begun[target] = _Begun(Whole.joined(target, join.described))
            events = [Attached(command.request_id, target, unite(list(join.described.values()), total))]
        else:
            events = [Rejected.of(command.request_id, why_not_found(target, join.refusals))]
        for name, event in join.held:
            events += self._of_part(name, target, event)
        return events + (self._start(joins[0]) if joins else [])

    def give_up(self, attach_id: str) -> list[Event]:
        """Refuse a reader whose Attach has not been answered by all parts; others are ignored."""
        if (target := self._joining.get(attach_id)) is not None:
            join = self._joins[target][0]
            self._late[attach_id] = set(join.waiting)
            for name in join.waiting:
                join.refusals[name] = Unavailable(f"Replica {name}, which has a part of the request, does not answer")
            join.waiting.clear()
            return self._end_of_join(join)
        for joins in self._joins.values():
            for join in joins:
                if join.command.request_id == attach_id:
                    joins.remove(join)
                    return [Rejected.of(attach_id, Unavailable("A part of the request does not answer"))]
        return []

    def _came_late(self, name: str, attach_id: str, answer: Event | None) -> None:
        """Drop the answer to an Attach that was given up; None: the replica is lost."""
        waiting = self._late[attach_id]
        waiting.discard(name)
        if not waiting:
            del self._late[attach_id]
        if isinstance(answer, Attached):
            self._leave(answer.target, [name])

    def _leave(self, target: str, names: Iterable[str]) -> None:
        """Tell replicas that nobody here reads a request, if that is so."""
        if target not in self._begun and target not in self._joins:
            self._tell(names, encode([Cancel(target, leaves=True)]))

    def total(self, request_id: str) -> int:
        """Return the number of a request's branches that are known here; 0 of a request that is not."""
        begun = self._begun.get(request_id)
        return begun.whole.total if begun is not None else 0


def _is_lost(event: Event) -> bool:
    """Whether a part's end says that another replica might have done it."""
    return isinstance(event, Failed) or (isinstance(event, Rejected) and event.code in MOVING)


async def control(members: Members, command: Any, names: Sequence[str], total: int) -> Reply | Rejected:
    """Return the answer to a control of a divided request; `names` are the replicas that may have a part of it."""
    try:
        if isinstance(command, AddBranches):
            async with members.adding(command.target):  # of this bridge's one after the other
                return Reply(command.request_id, await _add(members, command, names, total))
        return Reply(command.request_id, await _controlled(members, command, names, total))
    except SRBError as error:
        return Rejected.of(command.request_id, error)


async def _controlled(members: Members, command: Any, names: Sequence[str], total: int) -> Any:
    described = await _described(members, command, names)
    if isinstance(command, GetRequest):
        return unite(list(described.values()), total)
    if isinstance(command, StopBranches | EndReasoning) and command.index is None:
        having = [member for name in described if (member := members.get(name)) is not None]
        return merge(command, await ask_all(having, command, _CONTROL_SECONDS))
    name, changed = for_part(command, described, total)
    return of_whole(changed, await _ask(members, name, changed), described[name])


async def _described(members: Members, command: Any, names: Sequence[str]) -> dict[str, Description]:
    """Return each part's description. Raise the SRBError of the parts if there is none, or of a part that is silent."""
    asked = [member for name in names if (member := members.get(name)) is not None]
    answers = await ask_all(asked, GetRequest("", command.target, command.owner), _CONTROL_SECONDS)
    described = {name: answer for name, answer in answers.items() if not isinstance(answer, SRBError)}
    silence = silence_of(answers)
    if not described or (silence and lacks_parts(described.values())):
        raise silence or why_not_found(command.target, answers)
    return described


async def _ask(members: Members, name: str, command: Any) -> Any:
    member = members.get(name)
    if member is None:
        raise EngineRestarted(f"Replica {name} was lost")
    return await member.ask(command, _CONTROL_SECONDS)


# Added branches ---------------------------------------------------------------------------------------------------


async def _add(members: Members, command: AddBranches, names: Sequence[str], total: int) -> Any:
    """Add branches while no other bridge does. Raise Unavailable if others do for long, or a part is silent."""
    asked = [member for name in names if (member := members.get(name)) is not None]
    holding = HoldPlaces("", command.target, command.owner, uuid4().hex, _HOLD_SECONDS)
    num_places = 0  # that there are afterwards; 0: as many as before
    try:
        described = await _held(asked, holding)
        name, changed = for_part(command, described, total)
        assert isinstance(changed, AddBranches)
        num_places = max(places_of(changed), default=-1) + 1
        return of_whole(changed, await _ask(members, name, changed), described[name])
    except Unavailable:
        raise  # without an answer they may have been added all the same
    except SRBError:
        num_places = 0  # it was refused
        raise
    finally:
        for member in asked:
            member.tell(replace(holding, seconds=0.0, num_places=num_places))


async def _held(asked: list[Member], holding: HoldPlaces) -> dict[str, Description]:
    """Hold the places of all parts, and return the parts' descriptions; bridges that meet there let go and try again."""
    try:
        async with asyncio.timeout(_HOLD_WAIT):
            while True:
                answers = await ask_all(asked, holding, _CONTROL_SECONDS)
                if None not in answers.values():
                    break
                for member in asked:
                    member.tell(replace(holding, seconds=0.0))
                await asyncio.sleep(random.uniform(0.0, _HOLD_PAUSE))
    except TimeoutError:
        raise Unavailable(
            "a part of this request is busy, or other branches are being added to it; please try again"
        ) from None
    described = {name: answer for name, answer in answers.items() if not isinstance(answer, SRBError)}
    silence = silence_of(answers)
    if silence or not described:
        raise silence or why_not_found(holding.target, answers)
    return described
