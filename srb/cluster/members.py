"""The replicas of a cluster as one bridge knows them: where they are, which are ready, and their answers to questions."""

import asyncio
import contextlib
import logging
import math
from collections.abc import Callable, Coroutine, Mapping, Set
from dataclasses import replace
from typing import Any
from uuid import uuid4

from srb.cluster.affinity import Affinity, News
from srb.cluster.door import texts_token
from srb.cluster.fair_queue import FairQueue
from srb.cluster.handover import Handover, Story
from srb.cluster.homes import Homes, without_homes
from srb.cluster.link import Link
from srb.cluster.marks import NamedMark
from srb.cluster.registry import SILENT, Entry
from srb.cluster.totals import Engine, Totals
from srb.errors import (
    EngineHung,
    EngineLoading,
    EngineRestarted,
    NotFound,
    ProtocolError,
    ShuttingDown,
    SRBError,
    Unavailable,
)
from srb.wire.codec import decode, encode
from srb.wire.commands import Ask, Door, GetStats, TakeTexts
from srb.wire.events import TERMINAL, Event, Failed, Rejected, Reply

log = logging.getLogger("srb.cluster")

_PAUSE = 0.2  # seconds between attempts to connect to a replica that is listed
_LOOK_SECONDS = 0.5  # between looks whether a leaving replica still has requests
_QUIET_LOOKS = 2  # without any; then no bridge sends it new ones
_NUMBERS_SECONDS = 0.4  # for the numbers of every replica; a worker waits half a second for /health
_LOAD_SECONDS = (
    0.5  # between two looks at the replicas' loads; of many more, so that a bridge asks 200 a second at most
)
_LOADS_A_SECOND = 200
_TAKE_SECONDS = 5.0  # for the word that a replica takes stories, not for their texts
_OPEN_BRANCHES = ("branches_running", "branches_waiting")  # of the numbers

# Fields of a model's facts by which replicas are alike; the same file lies elsewhere on other machines.
_IDENTITY = ("alias", "architecture", "ftype", "n_vocab", "n_params", "size", "chat_template")

BROKEN = (OSError, EOFError, TimeoutError, ProtocolError)  # ends of a link
_GONE = (NotFound, EngineRestarted, EngineLoading, ShuttingDown)  # refusals of a replica that has not what is asked for


class Member:
    """One replica, and the bridge's own connection to it, over which it asks."""

    def __init__(self, name: str, entry: Entry) -> None:
        self.name = name
        self.entry = entry
        self.link: Link | None = None
        self.stats: dict[str, float] = {}  # the latest
        self.engine: Engine = (name, 0)  # whose they are
        self._asked: dict[str, asyncio.Future[Event]] = {}
        self.keeper: asyncio.Task[None] | None = None
        self.misfit = ""  # why this bridge cannot speak with its engine; "": it can, or has not tried
        self.is_odd = False  # it has another model than the replicas that take requests
        self.parting: asyncio.Task[None] | None = None  # while it leaves, and after

    def __repr__(self) -> str:
        return f"<Member {self.name} {self.entry['host']}:{self.entry['port']} {'ready' if self.link else 'away'}>"

    @property
    def identity(self) -> tuple[Any, ...]:
        """The facts that make its model the same as another replica's; the replica is ready."""
        assert self.link is not None
        return tuple(self.link.model.get(field) for field in _IDENTITY)

    @property
    def is_leaving(self) -> bool:
        return self.entry["state"] == "leaving"

    @property
    def hangs(self) -> bool:
        """Whether its engine has no heartbeat, or its actor does not announce itself, though the link is open."""
        return self.entry["state"] in ("hung", SILENT)

    async def is_idle(self, seconds: float) -> bool:
        """Whether no request runs or waits there, through whichever bridge; False if the engine does not say in time."""
        try:
            stats = await self.ask(GetStats(""), seconds)
        except EngineRestarted:  # it is away: what it had is lost
            return True
        except SRBError:
            return False
        return not stats["requests_processing"] + stats["requests_deferred"]

    async def ask(self, command: Ask, seconds: float) -> Any:
        """Return the value of the reply. Raise the SRBError of a refusal, or Unavailable without a reply in time."""
        if self.link is None:
            raise EngineRestarted(f"replica {self.name} is away")
        asked = replace(command, request_id=uuid4().hex)
        future = self._asked[asked.request_id] = asyncio.get_running_loop().create_future()
        try:
            self.link.send(encode([asked]))
            answer = await asyncio.wait_for(future, seconds)
        except TimeoutError:
            raise Unavailable(f"replica {self.name} does not answer in time") from None
        finally:
            del self._asked[asked.request_id]
        if isinstance(answer, Reply):
            return answer.value
        assert isinstance(answer, Rejected | Failed)  # Done is of a Generate
        raise answer.error

    async def serve(self, link: Link) -> None:
        """Read the replies to `ask`, until the link ends."""
        self.link, self.engine, self.stats = link, (self.name, link.pid), {}
        try:
            while True:
                for event in decode(await link.receive()):
                    future = self._asked.get(event.request_id)
                    if future is not None and isinstance(event, TERMINAL) and not future.done():
                        future.set_result(event)
        finally:
            self.link = None
            link.close()
            for request_id, future in self._asked.items():
                if not future.done():
                    future.set_result(Failed(request_id, EngineRestarted.code, f"replica {self.name} was lost"))


class Members:
    """All replicas that the registry lists. `affinity` has those that take requests."""

    def __init__(self, on_change: Callable[[], None]) -> None:
        """Call `on_change` when a replica becomes ready or is lost, or begins or ceases to hang."""
        self.affinity = Affinity()
        self.fair_queue = FairQueue()
        self.totals = Totals()
        self.trouble = ""  # why the list of replicas may be old; "": it is not
        self.homes = Homes()
        self.handover = Handover()
        self._members: dict[str, Member] = {}
        self._hanging: set[str] = set()  # the names of those that hang
        self._on_change = on_change
        self._asking: asyncio.Task[None] | None = None  # all replicas for their numbers
        self._asked_at = -math.inf  # the loop's time when that began the last time

    @property
    def entries(self) -> dict[str, Entry]:
        """All that are known, as the registry has told them last."""
        return {name: member.entry for name, member in self._members.items()}

    @property
    def ready(self) -> list[Member]:
        """The replicas that take requests."""
        return [self._members[name] for name in self.affinity.replicas]

    @property
    def answering(self) -> list[Member]:
        """Those of them that do not hang."""
        return [member for member in self.ready if not member.hangs]

    @property
    def reachable(self) -> list[Member]:
        """The replicas that can be asked for what they have: those that are ready, and those that leave."""
        return [member for member in self._members.values() if member.link is not None]

    @property
    def responsive(self) -> list[Member]:
        """Those of the reachable that do not hang."""
        return [member for member in self.reachable if not member.hangs]

    @property
    def model(self) -> dict[str, Any] | None:
        """The model of the newest replica that is ready, as ModelInfo's fields; None without any.

        Its `replicas` counts those that do not hang, and one at least.
        """
        model = next((member.link.model for member in reversed(self.ready) if member.link), None)
        return None if model is None else {**model, "replicas": len(self.answering) or 1}

    def get(self, name: str) -> Member | None:
        return self._members.get(name)

    def capacity(self, name: str) -> int:
        """Return the number of sequences of a replica's engine; 0 while it is away."""
        member = self._members.get(name)
        return int(member.link.model["n_seq_max"]) if member is not None and member.link is not None else 0

    def _room(self) -> int:
        """Return how many sequences of all replicas no branch needs that this bridge has open."""
        return sum(map(self.capacity, self.affinity.replicas)) - self.affinity.num_open

    def begin_next(self) -> None:
        """Begin the requests that wait here and have their turn now."""
        while (go := self.fair_queue.next(self._room)) is not None:
            go()

    def _regroup(self) -> None:
        """Let the replicas of one model take requests: that of most, and of as many the one that came last.

        The others wait, with what they have: a story that two models wrote would bear one model's name. An update changes
        all replicas at the moment when most have the new model.
        """
        linked = [member for member in self._members.values() if member.link is not None and not member.is_leaving]
        groups: dict[tuple[Any, ...], int] = {}
        for member in linked:
            groups[member.identity] = groups.pop(member.identity, 0) + 1  # the last one that came is the last one here
        chosen = max(reversed(groups), key=groups.__getitem__, default=None)
        for member in self._members.values():
            was_odd, member.is_odd = member.is_odd, member in linked and member.identity != chosen
            if member.is_odd:
                self.affinity.leave(member.name)
            elif member in linked and member.name not in self.affinity.replicas:
                self.affinity.join(member.name, self.capacity(member.name))
                log.info("replica %s is ready", member.name)
            if member.is_odd and not was_odd:
                log.warning("replica %s takes no requests: it has another model than the others (%s)", *_named(member))

    @property
    def degraded(self) -> str:
        """The trouble with the list, and which replicas take no requests since they have another model; "": all is well."""
        odd = (_named(member) for member in self._members.values() if member.is_odd and member.link is not None)
        said = (f"replica {name} has another model ({alias})" for name, alias in odd)
        return "; ".join(filter(None, [self.trouble, *said]))

    def avoided(self, tried: Set[str]) -> Set[str]:
        """Return the replicas that a request should not be given to: `tried`, and those that hang if there are others."""
        return tried | self._hanging if self.has_others(tried) else tried

    def has_others(self, tried: Set[str]) -> bool:
        """Whether a replica that does not hang takes requests, beside `tried`."""
        return any(name not in self._hanging and name not in tried for name in self.affinity.replicas)

    def take_news(self) -> News:
        """Return what other bridges should hear: of texts, and of the homes of requests."""
        return self.affinity.take_news() | self.homes.take_news()

    def keep_news(self, news: News) -> None:
        """Keep news that were taken and could not be told."""
        self.affinity.keep_news(without_homes(news))
        self.homes.keep_news(news)

    def hear(self, news: News) -> None:
        self.affinity.hear(without_homes(news))
        self.homes.hear(news)

    async def refresh_numbers(self, max_age: float) -> None:
        """See to it that `stats` of the replicas are no older than `max_age` seconds, or than this call.

        However many ask, each replica is asked by one at a time: who comes meanwhile shares the next answers. Those that
        hang are not waited for, and one that is busy with a long step keeps its last numbers.
        """
        now = asyncio.get_running_loop().time
        came = now()
        while self._asked_at < (came - max_age if all(member.stats for member in self.answering) else came):
            if self._asking is None or self._asking.done():
                self._asking = _watched(self._ask_numbers(now()))
            await asyncio.shield(self._asking)

    async def _ask_numbers(self, began: float) -> None:
        await asyncio.gather(*map(self._ask_numbers_of, self.responsive))
        self._asked_at = began

    async def _ask_numbers_of(self, member: Member) -> None:
        with contextlib.suppress(SRBError):
            stats = await member.ask(GetStats(""), _NUMBERS_SECONDS)
            member.stats = stats
            self.totals.note(member.engine, stats)
            self.affinity.report(member.name, sum(int(stats.get(each, 0)) for each in _OPEN_BRANCHES))

    async def watch_loads(self) -> None:
        """Ask the replicas for ever what runs and waits there: other bridges send them requests, too."""
        while True:
            await asyncio.sleep(max(_LOAD_SECONDS, len(self._members) / _LOADS_A_SECOND))
            await self.refresh_numbers(_LOAD_SECONDS)

    def update(self, entries: dict[str, Entry]) -> None:
        """Take the list of the registry, or of the doors. A replica that is missing goes only when its link is broken too.

        For a registry that was started again knows no replica for a second.
        """
        for name, entry in entries.items():
            member = self._members.get(name)
            if member is not None and _is_another(member, entry):
                self._remove(member)
                member.entry = {**member.entry, "state": "leaving"}  # channels to it end with its requests
                member = None
            if member is None:
                member = self._members[name] = Member(name, entry)
                log.info("replica %s at %s:%d", name, entry["host"], entry["port"])
                member.keeper = _watched(self._keep(member))
            hung, member.entry = member.hangs, entry
            (self._hanging.add if member.hangs else self._hanging.discard)(name)
            if member.hangs is not hung:
                level, told = (logging.INFO, "goes on") if hung else (logging.WARNING, f"is {entry['state']}")
                log.log(level, "replica %s %s", name, told)
                self._changed()
            if member.is_leaving and member.parting is None:
                self._retire(member)
        for name in self._members.keys() - entries.keys():
            if self._members[name].link is None:
                self._remove(self._members[name])

    def _changed(self) -> None:
        self._on_change()
        self.begin_next()  # another replica may have room

    def close(self) -> None:
        for member in list(self._members.values()):
            self._remove(member)

    def _retire(self, member: Member) -> None:
        """Give a replica no more requests; those that it has go on, and can be asked for."""
        log.info("replica %s takes no more requests", member.name)
        member.parting = _watched(self._see_out(member))
        self.affinity.leave(member.name)
        self._regroup()
        self._hand_over(member)
        self._changed()

    def _hand_over(self, member: Member) -> None:
        """Let others take the texts of the stories that rest at a replica that leaves."""
        moves: dict[str, list[str]] = {}
        for mark, digest in self.handover.leave(member.name, self.affinity.holders):
            if (name := self.affinity.choose(NamedMark(mark=mark))) is not None:
                moves.setdefault(name, []).append(digest)
        for name, stories in moves.items():
            _watched(self._let_take(name, TakeTexts("", tuple(stories), _door_of(member))))

    async def _let_take(self, name: str, command: TakeTexts) -> None:
        log.info("replica %s takes over %d stories", name, len(command.stories))
        if (member := self._members.get(name)) is not None:
            with contextlib.suppress(SRBError):  # without them it computes the texts
                await member.ask(command, _TAKE_SECONDS)

    def begin_story(self, name: str, story: Story) -> TakeTexts | None:
        """Count a request of a story at a replica; return what to say to it before, if another one had the story."""
        if not (giver := self.handover.begin(name, story)):
            return None
        member = self._members.get(giver)
        return TakeTexts(uuid4().hex, (story.digest,), None if member is None else _door_of(member), is_coming=True)

    async def _see_out(self, member: Member) -> None:
        """Close the link to a leaving replica once it has no request; it waits for that."""
        quiet = 0
        while quiet < _QUIET_LOOKS:
            await asyncio.sleep(_LOOK_SECONDS)
            quiet = quiet + 1 if await member.is_idle(_LOOK_SECONDS) else 0
        if member.keeper is not None:
            member.keeper.cancel()

    def _remove(self, member: Member) -> None:
        del self._members[member.name]
        self.handover.forget(member.name)
        self._hanging.discard(member.name)
        self.affinity.leave(member.name)
        self._regroup()
        for task in (member.keeper, member.parting):
            if task is not None:
                task.cancel()

    async def _keep(self, member: Member) -> None:
        """Keep the link to a replica, as long as it is listed."""
        while True:
            try:
                link = await Link.open(member.entry)
                member.misfit = ""
                serving = asyncio.create_task(member.serve(link))
                await asyncio.sleep(0)  # until its link is set
                self._regroup()
                self._changed()
                try:
                    await serving
                finally:
                    serving.cancel()
                    self.affinity.leave(member.name)
                    self._regroup()
                    self._changed()
            except BROKEN as error:
                log.debug("replica %s: %s", member.name, error)
                if isinstance(error, ProtocolError):
                    self._note_misfit(member, str(error))
            except Exception:  # an event that nobody expects: a new link may work
                log.exception("closing the link to replica %s", member.name)
            await asyncio.sleep(_PAUSE)

    def _note_misfit(self, member: Member, reason: str) -> None:
        """Tell once why a replica of another version of SRB is not used: it runs, and would seem to be waited for."""
        if reason != member.misfit:
            log.warning("replica %s cannot be used: %s; run the same SRB on all machines", member.name, reason)
            member.misfit = reason
            self._changed()

    @property
    def why_none(self) -> str:
        """Why none may be ready: a trouble with the list, or with a replica on it; "" if nothing is known of one."""
        return self.trouble or self.misfit

    @property
    def misfit(self) -> str:
        """Why a listed replica cannot be used; "": none is known to be so."""
        misfits = (f"replica {name}: {member.misfit}" for name, member in self._members.items() if member.misfit)
        return next(misfits, "")


def _named(member: Member) -> tuple[str, str]:
    """Return the names of a ready replica and of its model."""
    assert member.link is not None
    return member.name, str(member.link.model.get("alias"))


def _door_of(member: Member) -> Door | None:
    """Return where a replica that leaves gives its texts; None for others, whose files alone are looked for."""
    if not member.is_leaving:
        return None
    return member.entry["host"], member.entry["port"], texts_token(member.entry["token"])


def _is_another(member: Member, entry: Entry) -> bool:
    """Whether an entry of the name is no longer that replica: it is elsewhere, or the name has come back after it left.

    Ray names each replica anew; a list of doors has one name for whatever runs there.
    """
    is_back = member.parting is not None and entry["state"] != "leaving"
    return is_back or any(member.entry[part] != entry[part] for part in ("host", "port", "token"))


def _watched(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    task = asyncio.create_task(work)
    task.add_done_callback(_log_failure)
    return task


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("a replica is no longer watched", exc_info=error)


async def ask_all(members: list[Member], command: Ask, seconds: float) -> dict[str, Any]:
    """Ask several replicas at once; return the value, or the SRBError, of each by its name."""

    async def one(member: Member) -> Any:
        try:
            return await member.ask(command, seconds)
        except SRBError as error:
            return error

    values = await asyncio.gather(*map(one, members))
    return {member.name: value for member, value in zip(members, values, strict=True)}


def silence_of(answers: Mapping[str, Any]) -> SRBError | None:
    """Return the refusal of a replica that does not say whether it has what it was asked for; None if all have said."""
    errors = (answer for answer in answers.values() if isinstance(answer, SRBError))
    return next((error for error in errors if not isinstance(error, _GONE)), None)


def why_not_found(target: str, answers: Mapping[str, Any]) -> SRBError:
    """Return the error for a request that no replica has, from their refusals."""
    if not answers:
        return no_replica()
    others = [answer for answer in answers.values() if not isinstance(answer, NotFound)]
    return others[0] if others else NotFound(f"There is no request '{target}'")


def no_answer() -> EngineHung:
    return EngineHung("All replicas of the cluster hang", engine="hung")


def no_replica(why: str = "") -> EngineLoading:
    message = "No replica of the cluster is ready"
    return EngineLoading(f"{message}: {why}" if why else message, engine="loading")
