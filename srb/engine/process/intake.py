"""Intake: commands on their way to the decode thread. Cancels and queries go at once, others through lanes."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Protocol

from srb.errors import Cancelled, EngineLoading, InvalidRequest, ProtocolError, QueueFull, ShuttingDown, SRBError
from srb.host.cores import give_way
from srb.host.memory import give_back
from srb.process.connection import Connection
from srb.progress import IsWanted, always, work_while
from srb.wire.commands import (
    AddBranches,
    Ask,
    Attach,
    Cancel,
    Command,
    CountTokens,
    Detokenize,
    Embed,
    Generate,
    Rerank,
    StateAction,
    Submit,
    Text,
    Tokenize,
)
from srb.wire.events import Rejected, Reply

if TYPE_CHECKING:
    from srb.engine.lifecycle import Prepared

log = logging.getLogger("srb.engine")

NUM_GRAMMAR_LANES = 8  # of a connection; most of their threads wait for their grammar's turn, and hold up no small one
NUM_LONG_LANES = 8  # likewise for requests with long texts, which are tokenized in turns
NUM_LONG_TEXT_LANES = 4  # likewise for long texts that are only to be tokenized
SHORT = 8192  # characters that are tokenized within 50 ms, even without a space; only such go before others
LARGE = 256 * 1024  # characters, after which memory is given back: a tokenizer takes 100 bytes for each
MAX_WAITING = 64 * 1024 * 1024  # characters in lanes of a kind, beside one command of each lane: seconds of work


class Preparing(Protocol):
    """The methods of Engine that any thread may call; the result of `prepare` is submitted or closed."""

    def prepare(self, command: Submit, is_wanted: IsWanted) -> Prepared: ...
    def tokenize(self, parts: Sequence[str | int], add_special: bool, parse_special: bool) -> list[int]: ...
    def count_tokens(self, command: CountTokens) -> int: ...
    def knows_media(self, command: Generate) -> bool: ...
    def has_grammar(self, command: Submit | Text) -> bool: ...
    def detokenize(self, tokens: Sequence[int], special: bool) -> list[bytes]: ...


# Items of the inbox -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SubmitItem:
    connection: Connection
    request_id: str
    request: Prepared
    command: Submit | None = None
    arrived: int = 0  # nanoseconds of the UNIX clock


@dataclass(frozen=True, slots=True)
class CancelItem:
    connection: Connection
    command: Cancel


@dataclass(frozen=True, slots=True)
class QueryItem:
    connection: Connection
    command: Ask | Attach


@dataclass(frozen=True, slots=True)
class DisconnectItem:
    connection: Connection


@dataclass(frozen=True, slots=True)
class WakeItem:
    """`Engine.collect` has events."""


@dataclass(frozen=True, slots=True)
class StopItem:
    """The loop has to end: SIGTERM or SIGINT arrived."""


Item = SubmitItem | CancelItem | QueryItem | DisconnectItem | WakeItem | StopItem
Inbox = queue.SimpleQueue[Item]


@dataclass(frozen=True, slots=True)
class Work:
    """A lane's work on one command, as the heartbeat's thread reads it."""

    lane: Lane
    job: _Job
    progressed_at: (
        float  # time.monotonic(): of its latest piece or picture, of its turn, or of a look while it waits for one
    )

    @property
    def characters(self) -> int:
        return self.job.weight

    @property
    def encodes(self) -> bool:
        return self.lane.encodes

    def refuse(self, error: SRBError) -> None:
        """Refuse the command, unless it was cancelled; the lane's thread goes on with it, if it can."""
        self.lane.refuse(self.job, error)


# Lanes ------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Job:
    command: Submit | Text
    weight: int
    cancels: list[Cancel] = field(default_factory=list)  # of single branches; sent after the request

    @property
    def owner(self) -> str:
        """The client whose command it is, where the command tells; "" otherwise."""
        return getattr(self.command, "owner", "")


class Lane:
    """The commands of one connection that take work, handled by a thread of the lane's own: its owners' in turns.

    A command leaves exactly once: the result of `make` goes to the inbox or the connection, or the command is handed over
    to a lane of long work, or it is refused and its result is dropped.
    """

    def __init__(
        self,
        name: str,
        connection: Connection,
        inbox: Inbox,
        make: Callable[[Submit | Text, IsWanted], SubmitItem | Reply | Rejected],
        longer: Callable[[Submit | Text], Sequence[Lane]] = lambda command: (),
        *,
        num_alike: int = 1,
        gives_way: bool = False,
        encodes: bool = False,
    ) -> None:
        """Make results with `make`, which the lane's thread calls and which raises nothing.

        `longer` returns, and raises nothing, the lanes for a command that takes longer than others of this lane. A lane
        shares MAX_WAITING with `num_alike`. One that `gives_way` works where decodes leave cores.
        """
        self._connection = connection
        self._inbox = inbox
        self._make = make
        self._longer = longer
        self._max_waiting = MAX_WAITING // num_alike
        self._gives_way = gives_way
        self.encodes = encodes
        self._jobs: dict[str, _Job] = {}  # by request_id, in the order of arrival
        self._served: dict[str, int] = {}  # the latest turn of each owner that has jobs here
        self._turn = 0
        self._weight = 0
        self._changed = threading.Condition()
        self._end: SRBError | None = None  # why commands are refused now
        self.work: Work | None = None  # None: its thread waits
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)

    def add(self, command: Submit | Text) -> None:
        """Add a command; never blocks. Raise InvalidRequest, QueueFull, or the reason why the lane is closed."""
        self._take(_Job(command, _weight(command)))

    def _take(self, job: _Job) -> None:
        with self._changed:
            if self._end is not None:
                raise self._end
            if job.command.request_id in self._jobs:
                raise InvalidRequest("a request with this id is running")
            if self._jobs and self._weight + job.weight > self._max_waiting:
                raise QueueFull("too much text is waiting to be tokenized; try again in a moment")
            self._jobs[job.command.request_id] = job
            self._weight += job.weight
            self._changed.notify()
            if not self._thread.is_alive():  # most of a connection's dozen lanes are never used
                self._thread.start()

    def cancel(self, command: Cancel) -> bool:
        """Cancel a command in this lane, or note the branches of it to cancel; return False if there is none."""
        with self._changed:
            job = self._jobs.get(command.request_id)
            if job is not None and command.index is not None:
                job.cancels.append(command)
            elif job is not None:
                self._refuse(job, Cancelled("the request was cancelled"))
        return job is not None

    def close(self, reason: SRBError) -> None:
        """Refuse all commands, present and future; nothing goes into the inbox after this."""
        with self._changed:
            self._end = reason
            for job in list(self._jobs.values()):
                self._refuse(job, reason)
            self._changed.notify()

    def refuse(self, job: _Job, error: SRBError) -> None:
        """Refuse a command, unless it was refused or has left the lane."""
        with self._changed:
            if self._has(job):
                self._refuse(job, error)

    def _refuse(self, job: _Job, error: SRBError) -> None:
        self._remove(job)
        self._connection.send([Rejected.of(job.command.request_id, error)])

    def _has(self, job: _Job) -> bool:
        return self._jobs.get(job.command.request_id) is job

    def _remove(self, job: _Job) -> None:
        del self._jobs[job.command.request_id]
        self._weight -= job.weight

    def _work(self) -> None:
        if self._gives_way:
            give_way()
        while job := self._next():
            leaves_memory = self._handle(job) and job.weight > LARGE
            del job  # its text, while the lane waits for the next one
            if leaves_memory:
                give_back()

    def _handle(self, job: _Job) -> bool:
        """Make a command's result, or hand the command over; return whether it was made here."""
        self.work = Work(self, job, time.monotonic())
        if lanes := self._longer(job.command):
            self._hand_over(job, _lane_for(job, lanes))
            return False
        is_wanted = partial(self._is_wanted, job)
        work_while(is_wanted)
        made = self._make(job.command, is_wanted)
        work_while(always)
        with self._changed:  # a cancel comes either before this block or after it
            if self._has(job):
                self._remove(job)
                self._pass_on(made, job.cancels)
            elif isinstance(made, SubmitItem):
                made.request.close()
        return True

    def _hand_over(self, job: _Job, lane: Lane) -> None:
        """Let another lane have a command, unless it was refused; it is always in one of both, so no cancel misses it."""
        with self._changed:
            if not self._has(job):
                return
            self._remove(job)
            try:
                lane._take(job)
            except SRBError as error:
                self._connection.send([Rejected.of(job.command.request_id, error)])

    def _is_wanted(self, job: _Job) -> bool:
        """Whether a command was not refused; that it is asked, before each piece of the work, is a sign of progress."""
        self.work = Work(self, job, time.monotonic())
        return self._has(job)

    def _next(self) -> _Job | None:
        """Wait for a command: the smallest of the owner whose turn it is. Return None when the lane is closed."""
        self.work = None
        with self._changed:
            while not self._jobs and self._end is None:
                self._changed.wait()
            job = min(self._jobs.values(), key=self._place, default=None)
            if job is not None:
                self._turn += 1
                waiting = {each.owner for each in self._jobs.values()}
                self._served = {owner: turn for owner, turn in self._served.items() if owner in waiting}
                self._served[job.owner] = self._turn
            return job

    def _place(self, job: _Job) -> tuple[int, int]:
        """Return what the next command has least of: the latest turn of its owner, and its weight."""
        return self._served.get(job.owner, 0), job.weight

    def _pass_on(self, made: SubmitItem | Reply | Rejected, cancels: list[Cancel]) -> None:
        if not isinstance(made, SubmitItem):
            self._connection.send([made])
            return
        self._inbox.put(made)
        for cancel in cancels:
            self._inbox.put(CancelItem(self._connection, cancel))


def _lane_for(job: _Job, lanes: Sequence[Lane]) -> Lane:
    """Return the lane with the least work; an owner that has some in half of them gets none of the others."""
    own = [lane for lane in lanes if job.owner and any(each.owner == job.owner for each in list(lane._jobs.values()))]
    return min(own if own and len(own) >= len(lanes) // 2 else lanes, key=lambda lane: lane._weight)


def _weight(command: Submit | Text) -> int:
    """Return the approximate number of characters in a command; itself counts as 1000, a branch as 100, an id as 8."""
    branches = command.branches if isinstance(command, Generate) else ()
    media = command.media if isinstance(command, Generate | CountTokens) else ()
    return 1000 + _text_length(command) + sum(map(len, media)) + 100 * len(branches)


def _text_length(command: Submit | Text) -> int:
    """Return the approximate number of characters that are tokenized for a command, or of tokens' texts."""
    match command:
        case Generate():
            appended = {spec.append for spec in command.branches}
            penalized = {spec.sampling.penalty_prompt or () for spec in command.branches}
            directed = len({spec.direction for spec in command.branches}) * _length(
                command.place.rest if command.place else ()
            )
            return _length(command.prompt) + directed + sum(map(_length, appended | penalized))
        case AddBranches():
            return sum(_length(append) for _, append, *_ in command.branches)
        case Embed():
            return sum(map(_length, command.inputs))
        case Rerank():
            return len(command.query) + _length(command.documents)
        case Tokenize():
            return _length(command.parts)
        case CountTokens():
            return _length(command.prompt)
        case Detokenize():
            return _length(command.tokens)
        case _:
            return 0


def _length(parts: Sequence[str | int]) -> int:
    if str not in set(map(type, parts)):  # ids may be millions
        return 8 * len(parts)
    return sum(len(part) if isinstance(part, str) else 8 for part in parts)


class Intake:
    """The entry of all commands from reader threads. No reader thread waits here."""

    def __init__(self) -> None:
        self.inbox: Inbox = queue.SimpleQueue()
        self._engine: Preparing | None = None
        self._refusal: SRBError | None = EngineLoading("the model is being loaded")
        # For requests, for (de)tokenizing, for requests with media, for those whose media have to be encoded, and some for
        # those with grammars, which may take long to compile, and for long texts.
        self._lanes: dict[Connection, tuple[Lane, ...]] = {}
        self._left: list[Lane] = []  # lanes of closed connections, whose threads may still work
        self._lock = threading.Lock()  # guards _lanes, _left and _refusal

    def open(self, engine: Preparing) -> None:
        """Accept commands from now on."""
        with self._lock:
            self._engine, self._refusal = engine, None

    def refuse_all(self) -> None:
        """Refuse commands from now on, and those in the lanes."""
        refusal = ShuttingDown("the server is shutting down")
        with self._lock:
            self._refusal = refusal
            lanes = [lane for own in self._lanes.values() for lane in own]
        for lane in lanes:
            lane.close(refusal)

    def take(self, connection: Connection, command: Command) -> None:
        """Handle one command; called by the connection's reader thread. Raise ProtocolError for anything else."""
        if not isinstance(command, Command) or not isinstance(command.request_id, str):
            raise ProtocolError(f"a web worker sent {type(command).__name__}")
        if isinstance(command, Cancel):
            # A command leaves its lane under the lane's lock: it is found there, or is before its cancel in the inbox.
            if not any(lane.cancel(command) for lane in self._lanes.get(connection, ())):
                self.inbox.put(CancelItem(connection, command))
            return
        try:
            requests, texts, media, *_ = self._lanes_of(connection)
            match command:
                case Generate() if command.media:
                    media.add(command)
                case CountTokens():
                    media.add(command)
                case Generate() | Embed() | Rerank() | StateAction() | AddBranches():
                    requests.add(command)
                case Tokenize() | Detokenize():
                    texts.add(command)
                case _:
                    self.inbox.put(QueryItem(connection, command))
        except SRBError as error:
            connection.send([Rejected.of(command.request_id, error)])
        except Exception:
            connection.send([_unprepared(command)])

    def disconnect(self, connection: Connection) -> None:
        """Close the lanes of a closed connection; nothing of it reaches the inbox after DisconnectItem."""
        with self._lock:
            lanes = self._lanes.pop(connection, ())
            self._left = [lane for lane in (*self._left, *lanes) if lane.work is not None]
        for lane in lanes:
            lane.close(Cancelled("the connection was closed"))
        self.inbox.put(DisconnectItem(connection))

    def works(self) -> list[Work]:
        """Return what the lanes work on now. Pictures wait for each other: progress of one is that of all."""
        with self._lock:
            lanes = [*self._left, *(lane for own in self._lanes.values() for lane in own)]
        works = [work for lane in lanes if (work := lane.work) is not None]
        latest = max((work.progressed_at for work in works if work.encodes), default=0.0)
        return [replace(work, progressed_at=latest) if work.encodes else work for work in works]

    def _lanes_of(self, connection: Connection) -> tuple[Lane, ...]:
        """Return the lanes of an open connection. Raise the present refusal, if any."""
        with self._lock:
            if self._refusal is not None:
                raise self._refusal
            if connection not in self._lanes:
                given = connection, self.inbox, self._maker(connection)

                def alike(name: str, count: int, gives_way: bool) -> list[Lane]:
                    return [Lane(name, *given, num_alike=count, gives_way=gives_way) for _ in range(count)]

                encoding = [Lane("encoding", *given, gives_way=True, encodes=True)]
                grammars = alike("grammars", NUM_GRAMMAR_LANES, gives_way=False)
                long_requests = alike("long requests", NUM_LONG_LANES, gives_way=True)
                long_texts = alike("long texts", NUM_LONG_TEXT_LANES, gives_way=True)

                def longer_request(command: Submit | Text) -> Sequence[Lane]:
                    return (
                        long_requests
                        if _text_length(command) > SHORT
                        else grammars
                        if self._has_grammar(command)
                        else ()
                    )

                def longer_text(command: Submit | Text) -> Sequence[Lane]:
                    return long_texts if _text_length(command) > SHORT else ()

                def longer_media(command: Submit | Text) -> Sequence[Lane]:
                    return encoding if self._has_to_encode(command) else longer_text(command)

                media = Lane("media", *given, longer_media)
                requests = Lane("requests", *given, longer_request)
                texts = Lane("texts", *given, longer_text)
                self._lanes[connection] = requests, texts, media, *encoding, *grammars, *long_requests, *long_texts
            return self._lanes[connection]

    def _has_to_encode(self, command: Submit | Text) -> bool:
        """Whether media of a command have to be encoded first; what cannot be read is refused without."""
        assert self._engine is not None
        try:
            return isinstance(command, Generate) and not self._engine.knows_media(command)
        except Exception:
            return False

    def _has_grammar(self, command: Submit | Text) -> bool:
        """Whether a command has a grammar, or belongs to a request that has; one of a request that is gone has none."""
        assert self._engine is not None
        try:
            return self._engine.has_grammar(command)
        except Exception:
            return False

    def _maker(self, connection: Connection) -> Callable[[Submit | Text, IsWanted], SubmitItem | Reply | Rejected]:
        engine = self._engine
        assert engine is not None

        def make(command: Submit | Text, is_wanted: IsWanted) -> SubmitItem | Reply | Rejected:
            """Handle a command that needs no context of the model, or prepare it for the decode thread."""
            arrived = time.time_ns()
            try:
                match command:
                    case Tokenize(request_id, parts, add_special, parse_special):
                        return Reply(request_id, engine.tokenize(parts, add_special, parse_special))
                    case CountTokens(request_id):
                        return Reply(request_id, engine.count_tokens(command))
                    case Detokenize(request_id, tokens, special):
                        pieces = [piece.decode("latin-1") for piece in engine.detokenize(tokens, special)]
                        return Reply(request_id, pieces)
                    case _:
                        prepared = engine.prepare(command, is_wanted)
                        return SubmitItem(connection, command.request_id, prepared, command, arrived)
            except SRBError as error:
                return Rejected.of(command.request_id, error)
            except Exception:
                return _unprepared(command)

        return make


def _unprepared(command: Command) -> Rejected:
    """Log the current exception, and return the client's error."""
    log.exception("%s %s could not be prepared", type(command).__name__, command.request_id)
    return Rejected.of(command.request_id, SRBError("the request could not be prepared"))
