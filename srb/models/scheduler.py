"""ModelScheduler: which of several models are loaded, whose requests are admitted, and which engine ends for another's sake.

It decides without a clock, a process or a socket: its caller tells it what has happened and when, and carries out the plan.
Wishes are served first come, first served. Of the loaded models the one used least recently gives way, once it has no
requests, or has had `model_seconds` since another was wished for. It then admits no more, and ends when its requests have.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from srb.backoff import Backoff

_GRACE_SECONDS = 0.25  # of a turn without requests: a client's next request follows its last answer
_MAX_CRASHES = 3  # of an engine while it loads; once may be memory, then the model has failed, as under one supervisor


class State(StrEnum):
    UNLOADED = "unloaded"
    LOADING = "loading"
    LOADED = "loaded"
    DRAINING = "draining"  # admits no more requests, and ends when the running ones have
    ENDING = "ending"  # its engine was told to end
    FAILED = "failed"  # cannot be loaded; `reason` tells why


_WITH_ENGINE = (State.LOADING, State.LOADED, State.DRAINING, State.ENDING)


@dataclass(slots=True)
class Turn:
    """One model: its state, and when it was loaded and last used."""

    name: str
    state: State = State.UNLOADED
    reason: str = ""
    loaded_at: float = 0.0
    last_used: float = 0.0
    held: int = 0  # calls that hold it
    loads: int = 0
    crashes: int = 0  # while it loads, in a row
    backoff: Backoff = field(default_factory=Backoff)  # before an engine that ended by itself is started again
    not_before: float = 0.0  # the earliest time of its next start
    revives: bool = False  # its engine ended by itself: start it again if there is room
    gives_way: bool = False  # it drains for another model's sake, not since it was told to

    @property
    def has_engine(self) -> bool:
        return self.state in _WITH_ENGINE


@dataclass(frozen=True, slots=True)
class Wish:
    """A call's wish for a model; without a call it is a command to load."""

    id: str
    name: str
    since: float
    is_call: bool = True


@dataclass(frozen=True, slots=True)
class Start:
    """Start a model's engine."""

    name: str


@dataclass(frozen=True, slots=True)
class Stop:
    """End a model's engine."""

    name: str


@dataclass(frozen=True, slots=True)
class Grant:
    """Tell a call that its model is loaded and held for it."""

    id: str


@dataclass(frozen=True, slots=True)
class Refuse:
    """Tell a call that its model cannot be loaded."""

    id: str
    reason: str


Action = Start | Stop | Grant | Refuse


class ModelScheduler:
    """The models' turns; times are seconds on one clock that never goes back."""

    def __init__(self, names: Iterable[str], max_engines: int, model_seconds: float) -> None:
        self._models = {name: Turn(name) for name in names}
        self._max_engines = max_engines
        self._model_seconds = model_seconds
        self._wishes: dict[str, Wish] = {}  # those that wait, first come first
        self._held: dict[str, str] = {}  # models by the wishes that were granted
        self._crowded: dict[str, int] = {}  # engines beside which the memory has no room for a model, by its name
        self._actions: list[Action] = []  # decided, and not yet in a plan

    def __repr__(self) -> str:
        states = ", ".join(f"{each.name} {each.state}" for each in self._models.values())
        return f"<ModelScheduler {states}: {len(self._wishes)} waiting, {len(self._held)} held>"

    def __contains__(self, name: str) -> bool:
        return name in self._models

    @property
    def models(self) -> list[Turn]:
        """The models, in the order of the list; to be read only."""
        return list(self._models.values())

    def state(self, name: str) -> State:
        return self._models[name].state

    @property
    def waiting(self) -> int:
        """The number of calls that wait."""
        return sum(wish.is_call for wish in self._wishes.values())

    def waiting_for(self, name: str) -> int:
        return sum(wish.is_call and wish.name == name for wish in self._wishes.values())

    # Events ---------------------------------------------------------------------------------------------------------

    def set_names(self, names: Iterable[str]) -> None:
        """Replace the list; a model that is no longer in it stays while it has an engine or is held."""
        names = list(names)
        kept = {
            name: turn for name, turn in self._models.items() if name not in names and (turn.has_engine or turn.held)
        }
        for name in self._models.keys() - set(names) - kept.keys():
            self._refuse_all(name, f"the model {name} is no longer there")
        self._models = {name: self._models.get(name) or Turn(name) for name in names} | kept

    def want(self, id_: str, name: str, now: float) -> None:
        """Note a call's wish; it is granted or refused in a plan."""
        self._wishes[id_] = Wish(id_, name, now)

    def leave(self, id_: str, now: float) -> None:
        """Take back a wish, or hold its model no longer; an unknown id is ignored."""
        self._wishes.pop(id_, None)
        turn = self._models.get(self._held.pop(id_, ""))
        if turn is not None:
            turn.held -= 1
            turn.last_used = now

    def load(self, name: str, now: float) -> None:
        """Load a model in its turn, though no call waits for it; if it has failed, try again."""
        self.retry(name)
        if self._models[name].state not in (State.LOADING, State.LOADED):
            id_ = f"load {name}"
            self._wishes.setdefault(id_, Wish(id_, name, now, is_call=False))

    def unload(self, name: str) -> None:
        """End a model when its requests have ended; calls that wait for it load it again in their turn."""
        turn = self._models[name]
        self._wishes.pop(f"load {name}", None)
        turn.revives = turn.gives_way = False
        if turn.state is State.LOADED:
            turn.state = State.DRAINING
        elif turn.state is State.LOADING:
            turn.state = State.ENDING
            self._actions.append(Stop(name))

    def retry(self, name: str) -> None:
        """Allow a failed model to be loaded again."""
        turn = self._models[name]
        if turn.state is State.FAILED:
            turn.state, turn.reason, turn.crashes, turn.not_before = State.UNLOADED, "", 0, 0.0
            turn.backoff = Backoff()

    def ready(self, name: str, now: float) -> None:
        """Note that a model is loaded: all that wait for it now are granted, however short its turn."""
        turn = self._models[name]
        if turn.state is not State.LOADING:
            return  # it was unloaded meanwhile
        turn.state, turn.loaded_at, turn.last_used = State.LOADED, now, now
        turn.loads += 1
        turn.crashes = 0
        self._grant_all(turn)

    def no_room(self, name: str) -> None:
        """Take back a start: the memory has no room for the model beside the engines that there are now.

        One of them gives way, as if no more were allowed; when any has ended, the model is to be started again.
        """
        turn = self._models[name]
        if turn.state is State.LOADING:
            turn.state = State.UNLOADED
            engines = sum(each.has_engine for each in self._models.values())
            found = self._crowded | {name: engines}  # this one was among the engines of others
            self._crowded = {each: min(count, engines) for each, count in found.items()} if engines else {}

    def ended(self, name: str, now: float, reason: str, *, is_final: bool = False, is_shortage: bool = False) -> None:
        """Note the end of a model's engine; `is_final`: for a reason that another start would not mend.

        `is_shortage`: since the machine was short of something, which says nothing of the model, however often it comes.
        """
        turn = self._models[name]
        self._crowded.clear()
        before, turn.state = turn.state, State.UNLOADED
        if before is State.ENDING:
            return  # it was told to, which is no crash
        turn.crashes += before is State.LOADING and not is_shortage
        turn.not_before = now + turn.backoff.after(0.0 if before is State.LOADING else now - turn.loaded_at)
        turn.revives = before is not State.DRAINING
        if is_final or turn.crashes >= _MAX_CRASHES:
            turn.state, turn.reason, turn.revives = State.FAILED, reason, False
            self._refuse_all(name, reason)

    # The plan -------------------------------------------------------------------------------------------------------

    def plan(self, now: float) -> list[Action]:
        """Decide what is to be done now; each action is returned once."""
        wished = {wish.name for wish in self._wishes.values()}
        self._crowded = {name: engines for name, engines in self._crowded.items() if name in wished}
        for turn in self._models.values():
            if turn.state is State.FAILED:
                self._refuse_all(turn.name, turn.reason)
        self._take_back_turns(now)  # first: a model that may stay grants its wishes in this plan
        since = self._contended_since(now) if self._short(now) > 0 else None
        for turn in self._models.values():
            if turn.state is State.LOADED:
                self._grant_all(turn, before=None if since is None else self._last_end(turn, since))
        self._end_turns(now)
        for turn in self._models.values():
            if turn.state is State.DRAINING and not turn.held:
                turn.state = State.ENDING
                self._actions.append(Stop(turn.name))
        self._start(now)
        actions, self._actions = self._actions, []
        return actions

    def wake_at(self, now: float) -> float | None:
        """Return the time at which a plan may change though nothing happens; None: it does not."""
        times = [turn.not_before for turn in self._wished(self._models.values()) if turn.not_before > now]
        times += [turn.not_before for turn in self._models.values() if turn.revives and turn.not_before > now]
        if self._short(now) > 0 and (since := self._contended_since(now)) is not None:
            times += [self._turn_ends(turn, since) for turn in self._models.values() if turn.state is State.LOADED]
        return min(times, default=None)

    def _wished(self, turns: Iterable[Turn]) -> list[Turn]:
        """Return the models without a running or starting engine that someone waits for."""
        names = {wish.name for wish in self._wishes.values()}
        return [turn for turn in turns if turn.name in names and turn.state not in (State.LOADING, State.LOADED)]

    def _short(self, now: float) -> int:
        """Return how many engines are to give way, besides those that do so already."""
        wished = [turn for turn in self._wished(self._models.values()) if turn.not_before <= now]
        staying = sum(turn.state in (State.LOADING, State.LOADED) for turn in self._models.values())
        return len(wished) + staying - self._most

    @property
    def _most(self) -> int:
        """The number of engines that there may be: fewer than allowed while the first wish waits for another's memory."""
        first = next((turn for turn in self._waiting_turns() if turn.state is State.UNLOADED), None)
        crowd = self._crowded.get(first.name) if first is not None else None
        return self._max_engines if crowd is None else min(self._max_engines, crowd)

    def _waiting_turns(self) -> list[Turn]:
        """Return the models that are to be loaded, wished for first before ended by themselves."""
        wished = [self._models[wish.name] for wish in self._wishes.values()]
        return [*wished, *(turn for turn in self._models.values() if turn.revives)]

    def _contended_since(self, now: float) -> float | None:
        """Return since when a model that is not loaded is wished for."""
        names = {turn.name for turn in self._wished(self._models.values()) if turn.not_before <= now}
        return min((wish.since for wish in self._wishes.values() if wish.name in names), default=None)

    def _last_end(self, turn: Turn, contended_since: float) -> float:
        """Return when a loaded model gives way at the latest: wishes before then are granted."""
        return max(turn.loaded_at, contended_since) + self._model_seconds

    def _turn_ends(self, turn: Turn, contended_since: float) -> float:
        """Return when a loaded model gives way, as things are."""
        end = self._last_end(turn, contended_since)
        return end if turn.held else min(end, turn.last_used + _GRACE_SECONDS)

    def _take_back_turns(self, now: float) -> None:
        """Let models go on that were to give way, once those that wished for their places have left."""
        draining = [turn for turn in self._models.values() if turn.state is State.DRAINING and turn.gives_way]
        for turn in sorted(draining, key=lambda turn: turn.last_used, reverse=True):
            wished = {each.name for each in self._wished(self._models.values())} - {turn.name}
            staying = sum(each.state in (State.LOADING, State.LOADED) for each in self._models.values())
            if len(wished) + staying < self._most:
                turn.state, turn.gives_way = State.LOADED, False

    def _end_turns(self, now: float) -> None:
        short, since = self._short(now), self._contended_since(now)
        loaded = [turn for turn in self._models.values() if turn.state is State.LOADED]
        for turn in sorted(loaded, key=lambda turn: (turn.held > 0, turn.last_used)):
            if short > 0 and since is not None and self._turn_ends(turn, since) <= now:
                turn.state, turn.gives_way = State.DRAINING, True
                short -= 1

    def _start(self, now: float) -> None:
        free = self._most - sum(turn.has_engine for turn in self._models.values())
        revived = [turn for turn in self._models.values() if turn.revives]
        for turn in self._waiting_turns():
            if turn.state is State.UNLOADED and turn.name in self._crowded:
                break  # it waits for an engine's end, and those that were wished for later wait with it
            if free > 0 and turn.state is State.UNLOADED and turn.not_before <= now:
                turn.state, turn.revives = State.LOADING, False
                self._actions.append(Start(turn.name))
                free -= 1
        if free <= 0:
            for turn in revived:
                turn.revives = False  # another model has its place

    def _grant_all(self, turn: Turn, before: float | None = None) -> None:
        """Grant the wishes for a model, or those from `before` a time."""
        wishes = [wish for wish in self._wishes.values() if wish.name == turn.name]
        for wish in wishes if before is None else [wish for wish in wishes if wish.since < before]:
            del self._wishes[wish.id]
            if wish.is_call:
                self._held[wish.id] = turn.name
                turn.held += 1
                self._actions.append(Grant(wish.id))

    def _refuse_all(self, name: str, reason: str) -> None:
        for wish in [wish for wish in self._wishes.values() if wish.name == name]:
            del self._wishes[wish.id]
            if wish.is_call:
                self._actions.append(Refuse(wish.id, reason))
