"""Relay: the bridge between one web worker and the replicas that its requests are on.

Each replica sees the worker as a connection of its own, a Channel. Frames of a replica pass to the worker as they are; the
relay only reads which requests they begin and end. So a request whose replica is lost can be ended with an error, or, as
long as the replica has not answered, be given to another.
"""

import asyncio
import logging
from collections.abc import Awaitable, Coroutine, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from srb.cluster.handover import Story
from srb.cluster.link import Link
from srb.cluster.members import BROKEN, Member, Members, ask_all, no_answer, no_replica, silence_of, why_not_found
from srb.cluster.routing import Way, choose, may_move, merge, story_of, sum_stats, text_of, way_of
from srb.cluster.slots import act_on_state
from srb.cluster.split import Whole, can_divide, divide, for_parts, of_parts, part_prefix, parts_in, whole_id
from srb.errors import (
    Cancelled,
    EngineLoading,
    EngineRestarted,
    ProtocolError,
    QueueFull,
    ShuttingDown,
    SRBError,
    Unavailable,
)
from srb.wire.codec import decode, encode, outline
from srb.wire.commands import (
    Cancel,
    Command,
    CountTokens,
    Detokenize,
    ForgetTexts,
    Generate,
    GetRequest,
    GetSlots,
    GetStats,
    ListRequests,
    StateAction,
    Tokenize,
)
from srb.wire.events import TERMINAL, Attached, BranchAdded, Event, Failed, Hello, Ready, Rejected, Reply
from srb.wire.framing import frame, read_frame

log = logging.getLogger("srb.cluster")

_OPEN_SECONDS = 5.0  # for a channel; an engine that is loading takes longer, and another replica is tried
_QUESTION_SECONDS = 0.5  # for a question about tokens; then another replica is asked too
_ASK_SECONDS = 1.5  # for other answers of every replica; a worker waits two seconds
_MOVING = {EngineLoading.code, ShuttingDown.code, QueueFull.code}  # refusals after which another replica is tried


@dataclass(slots=True)
class _Open:
    """A request of the worker, or a target that the worker reads."""

    command: Command | None
    payload: bytes | None  # the command's frame, until the replica's first event or a Cancel
    channel: "Channel | None" = None
    tried: set[str] = field(default_factory=set)
    story: Story | None = None  # whose it is, if it has a session
    counted: int = 0  # branches that the load of the replica counts, those that are added included


class Channel:
    """The worker's connection to one replica: opened with the first command, closed when it is lost or not needed."""

    def __init__(self, member: Member, relay: "Relay") -> None:
        self.member = member
        self._relay = relay
        self._link: Link | None = None
        self._waiting: list[bytes] = []  # frames, until the link is open
        self._dropped: set[str] = set()  # requests that others have now
        self._task = asyncio.create_task(self._run())

    def send(self, payload: bytes) -> None:
        if self._link is None:
            self._waiting.append(payload)
        else:
            self._link.send(payload)

    def close(self) -> None:
        self._task.cancel()

    def tell(self, command: Command) -> None:
        """Send a command whose answer nobody reads, before what is sent next."""
        self._dropped.add(command.request_id)
        self.send(encode([command]))

    def drop(self, request_id: str) -> None:
        """Cancel a request, and pass no event of it on: another replica gets it."""
        self._dropped.add(request_id)
        self.send(encode([Cancel(request_id)]))

    def _without_dropped(self, payload: bytes) -> bytes:
        if not self._dropped or self._dropped.isdisjoint(fields[0] for _, fields in outline(payload)):
            return payload
        events = decode(payload)
        rest = [event for event in events if event.request_id not in self._dropped]
        self._dropped -= {event.request_id for event in events if isinstance(event, TERMINAL)}
        return encode(rest)

    async def _run(self) -> None:
        try:
            async with asyncio.timeout(_OPEN_SECONDS):
                self._link = await Link.open(self.member.entry)
            for payload in self._waiting:
                self._link.send(payload)
            while True:
                await self._relay.deliver(self, self._without_dropped(await self._link.receive()))
        except BROKEN as error:
            log.debug("channel to %s: %s", self.member.name, error)
            self._relay.lose(self)
        except Exception:  # a frame that nobody expects: its requests get an end too
            log.exception("closing a channel to %s", self.member.name)
            self._relay.lose(self)
        finally:
            if self._link is not None:
                self._link.close()


class Relay:
    """One web worker: its connection, its open requests, and a channel to each replica that has one of them."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, members: Members) -> None:
        self._reader = reader
        self._writer = writer
        self._members = members
        self._open: dict[str, _Open] = {}
        self._wholes: dict[str, Whole] = {}  # the divided requests by their ids; `_open` has their parts
        self._channels: dict[Member, Channel] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._model: dict[str, Any] | None = None  # as the worker knows it

    def __repr__(self) -> str:
        return f"<Relay {len(self._open)} requests on {sorted(member.name for member in self._channels)}>"

    async def run(self, hello: Hello) -> None:
        """Serve the worker until it closes its connection."""
        self._send([hello])
        self.announce(self._members.model)
        try:
            while True:
                payload = await read_frame(self._reader)
                commands = decode(payload)
                for command in commands:
                    self._take(command, payload if len(commands) == 1 else encode([command]))
        except (EOFError, OSError):
            pass  # the worker has gone
        except ProtocolError as error:
            log.warning("closing a worker's connection: %s", error.message)
        finally:
            self._close()

    def announce(self, model: dict[str, Any] | None) -> None:
        """Tell the worker that there is a replica, or that its model is another one now."""
        if model is not None and model != self._model:
            self._model = model
            self._send([Ready(model)])

    def close_idle_channels(self) -> None:
        """Close channels to replicas that are leaving, as soon as no request is on them: they wait for this."""
        used = {id(request.channel) for request in self._open.values()}
        for member, channel in list(self._channels.items()):
            if member.is_leaving and id(channel) not in used:
                del self._channels[member]
                channel.close()

    @property
    def is_idle(self) -> bool:
        """Whether the worker waits for nothing."""
        return not (self._open or self._wholes or self._tasks)

    def close(self) -> None:
        """Close the connection: the worker looks for the next bridge."""
        self._writer.close()

    def leave_hanging(self) -> None:
        """Give requests that a replica which hangs has not accepted to others, if there are any."""
        for request_id, request in list(self._open.items()):
            channel = request.channel
            if channel is None or not channel.member.hangs or not self._can_move(request):
                continue
            if self._members.has_others(request.tried):
                channel.drop(request_id)
                self._move(request_id)

    # Commands -------------------------------------------------------------------------------------------------------

    def _take(self, command: Command, payload: bytes) -> None:
        if not isinstance(command, Command) or not isinstance(command.request_id, str):
            raise ProtocolError(f"a web worker sent {type(command).__name__}")
        if isinstance(command, Cancel):
            self._cancel(command, payload)
            return
        way = way_of(command)
        if way is Way.ALL:
            self._spawn(command.request_id, self._ask_all(command))
            return
        request = self._open[command.request_id] = _Open(command, payload)
        if way is Way.HOME:
            self._go_home(command, request)
        elif isinstance(command, StateAction):
            self._spawn(command.request_id, self._answer(request, command, act_on_state(self._members, command)))
        elif isinstance(command, Generate):
            self._wait_for_turn(command, request)
        else:
            self._place(command, request)

    def _wait_for_turn(self, command: Generate, request: _Open) -> None:
        """Place a request when its key has its turn: at once, unless the replicas are full."""
        try:
            go = partial(self._place, command, request)
            self._members.fair_queue.wait(command.request_id, command.key, command.weight, go)
        except QueueFull as error:
            self._refuse(command.request_id, error)
        else:
            self._members.begin_next()

    def _cancel(self, command: Cancel, payload: bytes) -> None:
        if (whole := self._wholes.get(command.request_id)) is not None:
            for cancel in whole.cancels(command):
                self._cancel(cancel, encode([cancel]))
            if command.leaves:
                del self._wholes[command.request_id]
            return
        request = self._open.get(command.request_id)
        if request is None:
            return  # it has just ended
        if request.channel is not None:
            request.channel.send(payload)
        if command.index is None:
            if self._members.fair_queue.forget(command.request_id):
                self._refuse(command.request_id, Cancelled("the request was cancelled"))
            request.payload = None  # should its replica be lost or refuse it, nobody wants it from another one
        if command.leaves:
            self._forget(command.request_id)

    def _place(self, command: Any, request: _Open) -> None:
        """Give a request to a replica that has not had it yet; refuse it if there is none."""
        affinity, avoided = self._members.affinity, self._members.avoided(request.tried)
        if way_of(command) is Way.TEXT:
            request.story = request.story or story_of(affinity, command)
            name = choose(affinity, command, avoided)
        else:
            name = affinity.least_loaded(avoided)
        member = self._members.get(name) if name is not None else None
        if member is None:
            self._refuse(command.request_id, no_replica(self._members.why_none))
        elif not self._divide(command, request, member):
            self._forward(command, request, member)

    def _divide(self, command: Command, request: _Open, lead: Member) -> bool:
        """Give the parts of a request to its replica and others, if there are others that help."""
        if not isinstance(command, Generate) or not can_divide(command):
            return False
        members = self._members
        capacities = self._capacities(command, request, lead.name)
        if len(capacities) < 2:
            return False
        del self._open[command.request_id]
        parts = divide(command, capacities)
        self._wholes[command.request_id] = Whole(command.request_id, parts.values())
        for name, part in parts.items():
            member = members.get(name)
            assert member is not None  # it has sequences
            opened = self._open[part.request_id] = _Open(part, encode([part]), None, set(request.tried), request.story)
            self._forward(part, opened, member)
        return True

    def _capacities(self, command: Generate, request: _Open, lead: str) -> dict[str, int]:
        """Return the sequences of the replicas that get parts: the lead, and as many others as there is need for."""
        members, n = self._members, len(command.branches)
        found = {lead: members.capacity(lead)}
        # A replica that has just gone has no sequences; its channel's end gives the request to another.
        if not 0 < found[lead] < n:
            return found
        others = iter(members.affinity.beside(text_of(command).coarse[0], members.avoided(request.tried | {lead})))
        while sum(found.values()) < n and (name := next(others, "")):
            found[name] = members.capacity(name)
        return {name: number for name, number in found.items() if number}

    def _forward(self, command: Command, request: _Open, member: Member) -> None:
        assert request.payload is not None
        request.tried.add(member.name)
        request.channel = self._channel(member)
        if isinstance(command, Generate):
            request.counted = len(command.branches)
            self._members.affinity.begin(member.name, request.counted)
            self._members.fair_queue.begin(command.key, request.counted)
            self._members.homes.note(command.request_id, member.name)
        if request.story is not None and (take := self._members.begin_story(member.name, request.story)) is not None:
            request.channel.tell(take)
        request.channel.send(request.payload)
        if isinstance(command, (Tokenize, CountTokens, Detokenize)):
            self._spawn(command.request_id, self._hurry(command.request_id, request, request.channel))

    async def _hurry(self, request_id: str, request: _Open, channel: Channel) -> None:
        """Ask another replica too when one does not answer a question: its machine may be lost. The first answer counts."""
        await asyncio.sleep(_QUESTION_SECONDS)
        if self._open.get(request_id) is request and request.channel is channel:
            self._move(request_id)

    def _channel(self, member: Member) -> Channel:
        if member not in self._channels:
            self._channels[member] = Channel(member, self)
        return self._channels[member]

    def _go_home(self, command: Any, request: _Open) -> None:
        """Send a control to the replica of its target; if that is not known here, look for it."""
        member = self._members.get(self._members.homes.get(command.target))
        if member is not None:
            self._forward(command, request, member)
        else:
            self._spawn(command.request_id, self._search(command, request))

    async def _search(self, command: Any, request: _Open) -> None:
        """Look for a target that another bridge has not told of, or that is divided."""
        question = GetRequest("", command.target, command.owner)
        answers = await ask_all(self._members.reachable, question, _ASK_SECONDS)
        name = next((name for name, answer in answers.items() if not isinstance(answer, SRBError)), None)
        member = self._members.get(name) if name is not None else None
        if member is None:
            await self._answer(request, command, self._control_parts(command, answers))
        elif self._open.get(command.request_id) is request:  # not cancelled meanwhile
            self._members.homes.note(command.target, member.name)
            self._forward(command, request, member)

    async def _control_parts(self, command: Any, refusals: dict[str, Any]) -> Reply | Rejected:
        """Return the answer to a control of a divided request; `refusals` say why no replica has it whole."""
        try:
            question = ListRequests("", command.owner, part_prefix(command.target))
            listed = await ask_all(self._members.reachable, question, _ASK_SECONDS)
            parts = parts_in(listed)
            if silence := silence_of(listed) or (silence_of(refusals) if not parts else None):
                raise silence
            if not parts:
                raise why_not_found(command.target, refusals)
            controls = for_parts(command, {part: size for part, (_, size) in parts.items()})
            asked = [self._ask(parts[part][0], control) for part, control in controls.items()]
            answers = dict(zip(controls, await asyncio.gather(*asked), strict=True))
            return Reply(command.request_id, of_parts(command, answers))
        except SRBError as error:
            return Rejected.of(command.request_id, error)

    async def _ask(self, name: str, command: Any) -> Any:
        member = self._members.get(name)
        if member is None:
            raise EngineRestarted(f"Replica {name} was lost")
        return await member.ask(command, _ASK_SECONDS)

    async def _answer(self, request: _Open, command: Any, work: Awaitable[Reply | Rejected]) -> None:
        answer = await work
        if self._open.get(command.request_id) is request:
            self._end(command.request_id)
            self._send([answer])

    async def _ask_all(self, command: Any) -> None:
        try:
            if isinstance(command, GetStats):
                value = await self._stats(command)
            elif isinstance(command, (ListRequests, GetSlots)):
                value = merge(command, await self._list(command))
            else:
                asked = self._members.reachable if isinstance(command, ForgetTexts) else self._members.ready
                value = merge(command, await ask_all(asked, command, _ASK_SECONDS))
            self._send([Reply(command.request_id, value)])
        except SRBError as error:
            self._send([Rejected.of(command.request_id, error)])

    async def _list(self, command: ListRequests | GetSlots) -> dict[str, Any]:
        """Ask for what replicas have, those that leave too; who hangs is not waited for, which `/health` tells by then."""
        asked = self._members.responsive
        if self._members.reachable and not asked:
            raise no_answer()
        answers = await ask_all(asked, command, _ASK_SECONDS)
        for name, answer in answers.items():
            if isinstance(answer, SRBError):
                log.warning("a list lacks what replica %s has: %s", name, answer)
        return answers

    async def _stats(self, command: GetStats) -> dict[str, Any]:
        """Return the numbers of all replicas together, and of each that answers; those that hang are not waited for.

        Counters include replicas that leave, hang or are gone.
        """
        await self._members.refresh_numbers(command.max_age)
        answering = self._members.answering
        if not answering:
            raise no_answer() if self._members.ready else no_replica(self._members.why_none)
        telling = [member for member in answering if member.stats]
        if not telling:
            raise Unavailable("No replica has told its numbers in time")
        replicas = {member.name: {"node": member.entry["node"], "stats": member.stats} for member in telling}
        cluster = {"trouble": self._members.degraded, "replicas": replicas}
        sums = sum_stats(member.stats for member in telling)
        values: dict[str, Any] = {**sums, **self._members.totals.sum(), "cluster": cluster}
        if waiting := len(self._members.fair_queue):
            values["requests_deferred"] += waiting
        return values

    # Events ---------------------------------------------------------------------------------------------------------

    async def deliver(self, channel: Channel, payload: bytes) -> None:
        """Pass a replica's frame on to the worker."""
        events = outline(payload)
        if refused := [fields[0] for kind, fields in events if kind is Rejected and fields[1] in _MOVING]:
            moved = {each for each in refused if self._is_elsewhere(each, channel) or self._move(each)}
            rest = [event for event in decode(payload) if event.request_id not in moved]
            payload, events = encode(rest), outline(encode(rest))
        if not events:
            return
        if any(kind is Failed and fields[1] == ShuttingDown.code for kind, fields in events):
            payload = encode(_as_lost(event, channel.member) for event in decode(payload))
        self._note(events)
        if self._wholes:
            self._say(decode(payload))
        else:
            self._writer.write(frame(payload))
        if channel.member.is_leaving:
            self.close_idle_channels()
        await self._writer.drain()

    def _note(self, events: Iterable[tuple[type, list[Any]]]) -> None:
        """Note which requests begin and end with events."""
        for kind, fields in events:
            if kind in TERMINAL:
                self._end(fields[0])
            elif kind is Attached:
                self._attached(*fields[:2])
            elif (request := self._open.get(fields[0])) is not None:
                request.payload = None  # the replica has it
                if kind is BranchAdded:
                    self._count_added(request, fields[1])

    def _say(self, events: Iterable[Event]) -> None:
        """Send events to the worker, those of parts as events of the requests that they are parts of."""
        said: list[Event] = []
        for event in events:
            whole = self._wholes.get(whole_id(event.request_id))  # type: ignore[union-attr]  # Hello and Ready have none
            if whole is None:
                said.append(event)
                continue
            said += whole.take(event)
            if whole.is_over:
                self._close_whole(whole)
        if said:
            self._send(said)

    def _close_whole(self, whole: Whole) -> None:
        """Forget a divided request, and cancel the parts that still run: one was refused."""
        self._wholes.pop(whole.request_id, None)
        for part in whole.open_parts:
            if (request := self._open.get(part)) is not None and request.channel is not None:
                request.channel.drop(part)
            self._end(part)

    def _attached(self, request_id: str, target: str) -> None:
        request = self._open.pop(request_id, None)
        if request is not None:
            self._open.setdefault(target, _Open(None, None, request.channel))

    def _is_elsewhere(self, request_id: str, channel: Channel) -> bool:
        """Whether another replica has been asked meanwhile, so that this one's refusal says nothing."""
        request = self._open.get(request_id)
        return request is not None and request.channel is not None and request.channel is not channel

    def _can_move(self, request: _Open) -> bool:
        return request.payload is not None and request.command is not None and may_move(request.command)

    def _move(self, request_id: str) -> bool:
        """Give a refused request to another replica, if there is one."""
        request = self._open.get(request_id)
        if request is None or not self._can_move(request):
            return False
        if not self._members.affinity.replicas - request.tried:
            return False
        self._uncount(request)
        request.channel = None  # that replica has no part in it any more
        self._place(request.command, request)
        return True

    def lose(self, channel: Channel) -> None:
        """End the requests of a replica that is gone, or give them to another if it had not begun them."""
        if self._channels.get(channel.member) is channel:
            del self._channels[channel.member]
        for request_id, request in list(self._open.items()):
            is_here = request.channel is channel and request_id in self._open  # its other parts may have ended it
            if is_here and not self._move(request_id):
                self._end(request_id)
                self._say([_lost(request_id, channel.member)])

    def _refuse(self, request_id: str, error: SRBError) -> None:
        self._open.pop(request_id, None)
        self._say([Rejected.of(request_id, error)])

    def _end(self, request_id: str) -> None:
        self._forget(request_id)
        self._members.homes.forget(request_id)

    def _forget(self, request_id: str) -> None:
        """Read a request no more; it may go on for others, or linger."""
        request = self._open.pop(request_id, None)
        if request is not None:
            self._members.fair_queue.forget(request_id)
            self._uncount(request)

    def _count_added(self, request: _Open, index: int) -> None:
        """Count a branch that was added to a request which began here; one that goes on after its end is counted already."""
        if request.channel is not None and 0 < request.counted <= index:
            assert isinstance(request.command, Generate)  # which alone is counted
            self._members.affinity.grow(request.channel.member.name, index + 1 - request.counted)
            self._members.fair_queue.begin(request.command.key, index + 1 - request.counted)
            request.counted = index + 1

    def _uncount(self, request: _Open) -> None:
        if request.counted and request.channel is not None:
            assert isinstance(request.command, Generate)  # which alone is counted
            self._members.affinity.end(request.channel.member.name, request.counted)
            self._members.fair_queue.end(request.command.key, request.counted)
            if request.story is not None:
                self._members.handover.end(request.channel.member.name, request.story.mark)
            request.counted = 0
            self._members.begin_next()

    # The connection -------------------------------------------------------------------------------------------------

    def _send(self, events: Iterable[Event]) -> None:
        self._writer.write(frame(encode(events)))

    def _spawn(self, request_id: str, work: Coroutine[Any, Any, None]) -> None:
        """Do work that answers a request; if it fails, that is the answer."""

        async def act() -> None:
            try:
                await work
            except Exception:
                log.exception("request %s could not be answered", request_id)
                self._refuse(request_id, SRBError("Internal error"))

        task = asyncio.create_task(act())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _: work.close())  # should it be cancelled before it begins

    def _close(self) -> None:
        for request_id in self._open:  # first: the end of one must not begin another
            self._members.fair_queue.forget(request_id)
        for request_id in list(self._open):
            self._forget(request_id)
        for channel in self._channels.values():
            channel.close()
        for task in self._tasks:
            task.cancel()
        self._writer.close()


def _as_lost(event: Event, member: Member) -> Event:
    """Return the end of a request whose replica ends as that of one whose replica was lost: the service goes on."""
    if isinstance(event, Failed) and event.code == ShuttingDown.code:
        return _lost(event.request_id, member)
    return event


def _lost(request_id: str, member: Member) -> Failed:
    return Failed(request_id, EngineRestarted.code, f"Replica {member.name} was lost; please try again")
