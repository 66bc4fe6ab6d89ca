"""Relay: the bridge between one web worker and the replicas that its requests are on.

Each replica sees the worker as a connection of its own, a Channel. Frames of a replica pass to the worker as they are; the
relay only reads which requests they begin and end. So a request whose replica is lost can be ended with an error, or, as
long as the replica has not answered, be given to another.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Coroutine, Iterable
from dataclasses import dataclass, field
from typing import Any

from srb.cluster.divided import MOVING, Divided, control
from srb.cluster.link import Link
from srb.cluster.members import (
    BROKEN,
    Home,
    Member,
    Members,
    ask_all,
    no_answer,
    no_replica,
    silence_of,
    why_not_found,
)
from srb.cluster.routing import Way, choose, may_move, merge, way_of
from srb.cluster.slots import act_on_state
from srb.cluster.split import can_divide, is_part, lacks_parts
from srb.errors import EngineRestarted, ProtocolError, SRBError
from srb.framing import frame, read_frame
from srb.protocol import (
    TERMINAL,
    Attach,
    Attached,
    BranchAdded,
    Cancel,
    Command,
    CountTokens,
    Detokenize,
    Event,
    Failed,
    Generate,
    GetRequest,
    GetSlots,
    GetStats,
    Hello,
    ListRequests,
    Ready,
    Rejected,
    Reply,
    StateAction,
    Tokenize,
    decode,
    encode,
    outline,
)

log = logging.getLogger("srb.cluster")

_OPEN_SECONDS = 5.0  # for a channel; an engine that is loading takes longer, and another replica is tried
_STATS_SECONDS = 0.4  # for the numbers of every replica; a worker waits half a second for /health
_QUESTION_SECONDS = 0.5  # for a question about tokens; then another replica is asked too
_ASK_SECONDS = 1.5  # for other answers of every replica; a worker waits two seconds


@dataclass(slots=True)
class _Open:
    """A request of the worker, or a target that the worker reads."""

    command: Command | None
    payload: bytes | None  # the command's frame, until the replica's first event
    channel: Channel | None = None
    tried: set[str] = field(default_factory=set)
    counted: int = 0  # branches that the load of the replica counts, those that are added included


class Channel:
    """The worker's connection to one replica: opened with the first command, closed when it is lost or not needed."""

    def __init__(self, member: Member, relay: Relay) -> None:
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
        self._divided = Divided(
            members, lambda member, payload: self._channel(member).send(payload), self._drop, self._begin_again
        )
        self._channels: dict[str, Channel] = {}  # by the replica's name
        self._tasks: set[asyncio.Task[None]] = set()
        self._model: dict[str, Any] | None = None  # as the worker knows it

    def __repr__(self) -> str:
        return f"<Relay {len(self._open)} requests on {sorted(self._channels)}>"

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
        divided = self._divided.names
        for name, channel in list(self._channels.items()):
            if channel.member.is_leaving and id(channel) not in used and name not in divided:
                del self._channels[name]
                channel.close()

    def leave_hanging(self) -> None:
        """Give requests that a replica which hangs has not accepted to others, if there are any."""
        for request_id, request in list(self._open.items()):
            channel = request.channel
            if channel is None or not channel.member.hangs or not self._can_move(request):
                continue
            if self._members.has_others(request.tried):
                channel.drop(request_id)
                self._move(request_id)
        if self._divided:
            self._say(self._divided.leave_hanging())

    def _drop(self, name: str, request_id: str) -> None:
        if (channel := self._channels.get(name)) is not None:
            channel.drop(request_id)

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
        else:
            self._place(command, request)

    def _cancel(self, command: Cancel, payload: bytes) -> None:
        request = self._open.get(command.request_id)
        if request is None:
            return  # it has just ended
        if isinstance(request.command, Attach) and request.channel is None:
            self._say(self._divided.give_up(command.request_id))
        elif command.request_id in self._divided:
            self._divided.cancel(command)
        elif request.channel is not None:
            request.channel.send(payload)
        if command.leaves:
            self._forget(command.request_id)

    def _place(self, command: Any, request: _Open) -> None:
        """Give a request to a replica that has not had it yet; refuse it if there is none."""
        affinity, avoided = self._members.affinity, self._members.avoided(request.tried)
        if way_of(command) is Way.TEXT:
            name = choose(affinity, command, avoided)
        else:
            name = affinity.least_loaded(avoided)
        member = self._members.get(name) if name is not None else None
        if member is None:
            self._refuse(command.request_id, no_replica())
            return
        if self._is_divided(command, member):
            request.payload = None
            self._divided.begin(command, member.name, request.tried)
        else:
            self._forward(command, request, member)

    def _begin_again(self, command: Generate, tried: set[str], cancels: list[Cancel]) -> None:
        """Give a divided request that no replica has to others than those, and pass on how it was cancelled meanwhile."""
        if (request := self._open.get(command.request_id)) is not None:
            request.payload, request.tried = encode([command]), tried
            self._place(command, request)
            for cancel in cancels:
                self._cancel(cancel, encode([cancel]))

    def _is_divided(self, command: Command, member: Member) -> bool:
        """Whether a request has more branches than a replica has sequences, and there are others that help."""
        if not isinstance(command, Generate) or len(self._members.ready) < 2:
            return False
        # A replica that has just gone has no sequences; its channel's end gives the request to another.
        return 0 < self._members.capacity(member.name) < len(command.branches) and can_divide(command)

    def _forward(self, command: Command, request: _Open, member: Member) -> None:
        assert request.payload is not None
        request.tried.add(member.name)
        request.channel = self._channel(member)
        if isinstance(command, Generate):
            request.counted = len(command.branches)
            self._members.affinity.begin(member.name, request.counted)
            self._members.note_home(command.request_id, Home((member.name,)))
        request.channel.send(request.payload)
        if isinstance(command, (Tokenize, CountTokens, Detokenize)):
            self._spawn(command.request_id, self._hurry(command.request_id, request, request.channel))

    async def _hurry(self, request_id: str, request: _Open, channel: Channel) -> None:
        """Ask another replica too when one does not answer a question: its machine may be lost. The first answer counts."""
        await asyncio.sleep(_QUESTION_SECONDS)
        if self._open.get(request_id) is request and request.channel is channel:
            self._move(request_id)

    def _channel(self, member: Member) -> Channel:
        if member.name not in self._channels:
            self._channels[member.name] = Channel(member, self)
        return self._channels[member.name]

    def _go_home(self, command: Any, request: _Open) -> None:
        """Send a control to the replica of its target; if another bridge's worker began that, look for it."""
        home = self._members.homes.get(command.target, Home(()))
        known = [name for name in home.names if self._members.get(name) is not None]
        if known:
            self._go(command, request, Home(tuple(known), home.is_divided))
        else:
            self._spawn(command.request_id, self._search(command, request))

    async def _search(self, command: Any, request: _Open) -> None:
        question = GetRequest("", command.target, command.owner)
        answers = await ask_all(self._members.reachable, question, _ASK_SECONDS)
        found = {name: answer for name, answer in answers.items() if not isinstance(answer, SRBError)}
        if self._open.get(command.request_id) is not request:
            return  # cancelled meanwhile
        silence = silence_of(answers)
        if not found or (silence and lacks_parts(found.values())):
            self._refuse(command.request_id, silence or why_not_found(command.target, answers))
            return
        home = Home(tuple(found), is_divided=any(map(is_part, found.values())))
        self._members.note_home(command.target, home)
        self._go(command, request, home)

    def _go(self, command: Any, request: _Open, home: Home) -> None:
        """Send a control to the request's replica, or to the part of it that is meant."""
        if not home.is_divided:
            if (member := self._members.get(home.names[0])) is not None:
                self._forward(command, request, member)
            else:  # it has just been lost
                self._refuse(command.request_id, EngineRestarted(f"Replica {home.names[0]} was lost"))
        elif isinstance(command, Attach):
            request.payload = None
            self._say(self._divided.attach(command, home.names))
            self._spawn(command.request_id, self._give_up(command.request_id))
        else:
            total = self._divided.total(command.target)
            work = control(self._members, command, home.names, total)
            self._spawn(command.request_id, self._answer(request, command, work))

    async def _give_up(self, attach_id: str) -> None:
        """Refuse a reader of a divided request when a part has not answered in time: its owner's stream waits meanwhile."""
        await asyncio.sleep(_ASK_SECONDS)
        self._say(self._divided.give_up(attach_id))

    async def _answer(self, request: _Open, command: Any, work: Awaitable[Reply | Rejected]) -> None:
        answer = await work
        if self._open.get(command.request_id) is request:
            self._say([answer])

    async def _ask_all(self, command: Any) -> None:
        is_of_requests = isinstance(command, (ListRequests, GetSlots))  # those of leaving replicas too
        members = self._members.reachable if is_of_requests else self._members.ready
        try:
            if isinstance(command, GetStats):
                value = await self._stats(command)
            else:
                value = merge(command, await ask_all(members, command, _ASK_SECONDS))
            self._send([Reply(command.request_id, value)])
        except SRBError as error:
            self._send([Rejected.of(command.request_id, error)])

    async def _stats(self, command: GetStats) -> dict[str, Any]:
        """Return the numbers of all replicas together, and of each that answers; those that hang are not waited for.

        A replica that is busy with a long step has its last numbers. Counters include replicas that leave, hang or are gone.
        """
        members = [member for member in self._members.reachable if not member.hangs]
        answers = await ask_all(members, command, _STATS_SECONDS)
        for member in members:
            answer = answers[member.name]
            if isinstance(answer, dict):
                member.stats = answer
                self._members.totals.note(member.engine, answer)
            elif member.stats:
                answers[member.name] = member.stats
        answering = self._members.answering
        if self._members.ready and not answering:
            raise no_answer()
        answers = {member.name: answers[member.name] for member in answering if member.name in answers}
        replicas = {
            member.name: {"node": member.entry["node"], "stats": answers[member.name]}
            for member in answering
            if isinstance(answers.get(member.name), dict)
        }
        cluster = {"trouble": self._members.trouble, "replicas": replicas}
        return {**merge(command, answers), **self._members.totals.sum(), "cluster": cluster}

    # Events ---------------------------------------------------------------------------------------------------------

    async def deliver(self, channel: Channel, payload: bytes) -> None:
        """Pass a replica's frame on to the worker."""
        events = outline(payload)
        if self._divided and any(fields[0] in self._divided for _, fields in events):
            payload = encode(self._divided.take(channel.member.name, decode(payload)))
            events = outline(payload)
        if refused := [fields[0] for kind, fields in events if kind is Rejected and fields[1] in MOVING]:
            moved = {each for each in refused if self._is_elsewhere(each, channel) or self._move(each)}
            rest = [event for event in decode(payload) if event.request_id not in moved]
            payload, events = encode(rest), outline(encode(rest))
        if not events:
            return
        self._note(events)
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

    def _say(self, events: list[Event]) -> None:
        """Send events of divided requests to the worker."""
        if events:
            payload = encode(events)
            self._note(outline(payload))
            self._writer.write(frame(payload))

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
        if self._channels.get(channel.member.name) is channel:
            del self._channels[channel.member.name]
        for request_id, request in list(self._open.items()):
            if request.channel is channel and not self._move(request_id):
                self._end(request_id)
                message = f"Replica {channel.member.name} was lost; please try again"
                self._send([Failed(request_id, EngineRestarted.code, message)])
        if self._divided:
            self._say(self._divided.lose(channel.member.name))

    def _refuse(self, request_id: str, error: SRBError) -> None:
        self._open.pop(request_id, None)
        self._send([Rejected.of(request_id, error)])

    def _end(self, request_id: str) -> None:
        self._forget(request_id)
        self._members.homes.pop(request_id, None)

    def _forget(self, request_id: str) -> None:
        """Read a request no more; it may go on for others, or linger."""
        request = self._open.pop(request_id, None)
        self._divided.forget(request_id)
        if request is not None:
            self._uncount(request)

    def _count_added(self, request: _Open, index: int) -> None:
        """Count a branch that was added to a request which began here; one that goes on after its end is counted already."""
        if request.channel is not None and 0 < request.counted <= index:
            self._members.affinity.grow(request.channel.member.name, index + 1 - request.counted)
            request.counted = index + 1

    def _uncount(self, request: _Open) -> None:
        if request.counted and request.channel is not None:
            self._members.affinity.end(request.channel.member.name, request.counted)
            request.counted = 0

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
        for request_id in list(self._open):
            self._forget(request_id)
        for channel in self._channels.values():
            channel.close()
        for task in self._tasks:
            task.cancel()
        self._writer.close()
