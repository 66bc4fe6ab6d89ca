"""The decode loop: receive, step, send. It alone calls the engine core; reader threads only prepare requests for it."""

from __future__ import annotations

import logging
import queue
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from srb.engine.connection import Connection
from srb.errors import EngineLoading, InvalidRequest, ProtocolError, ShuttingDown, SRBError
from srb.protocol import (
    TERMINAL,
    Answer,
    Ask,
    Cancel,
    Command,
    Detokenize,
    Embed,
    Event,
    Failed,
    Generate,
    Hello,
    Ready,
    Rejected,
    Rerank,
    StateAction,
    Tokenize,
)

log = logging.getLogger("srb.engine")

Prepared = Generate | Embed | Rerank | StateAction  # commands that take work before they reach the decode thread


class EngineCore(Protocol):
    """What the loop asks of `core.Engine`."""

    @property
    def has_work(self) -> bool: ...
    @property
    def step_tokens(self) -> int: ...
    # From any thread; what `prepare` returns is submitted or closed.
    def prepare(self, command: Prepared) -> Any: ...
    def tokenize(self, parts: Sequence[str | int], add_special: bool, parse_special: bool) -> list[int]: ...
    def detokenize(self, tokens: Sequence[int]) -> list[bytes]: ...

    def submit(self, request: Any) -> list[Event]: ...
    def cancel(self, request_id: str, index: int | None = None) -> list[Event]: ...
    def step(self) -> list[Event]: ...
    def answer(self, command: Ask) -> Any: ...
    def fail_all(self, error: SRBError) -> list[Event]: ...


# What the inbox holds ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Submit:
    connection: Connection
    request_id: str
    request: Any  # what `prepare` returned


@dataclass(frozen=True, slots=True)
class Withdraw:
    connection: Connection
    command: Cancel


@dataclass(frozen=True, slots=True)
class Question:
    connection: Connection
    command: Ask


@dataclass(frozen=True, slots=True)
class Gone:
    connection: Connection


@dataclass(frozen=True, slots=True)
class Stop:
    """End the loop; a signal makes somebody put it."""


Inbox = queue.SimpleQueue[Submit | Withdraw | Question | Gone | Stop]


class Intake:
    """What reader threads do with a command: prepare it, or refuse it, and put it in the inbox."""

    def __init__(self) -> None:
        self.inbox: Inbox = queue.SimpleQueue()
        self._engine: EngineCore | None = None
        self._refusal: SRBError | None = EngineLoading("the model is being loaded")

    def open(self, engine: EngineCore) -> None:
        """Accept requests from now on."""
        self._engine, self._refusal = engine, None

    def shut(self) -> None:
        """Refuse requests from now on."""
        self._refusal = ShuttingDown("the server is shutting down")

    def take(self, connection: Connection, command: Command) -> None:
        """Handle one command; called by the connection's reader thread. Raise ProtocolError for anything else."""
        if not isinstance(command, Command) or not isinstance(command.request_id, str):
            raise ProtocolError(f"a web worker sent {type(command).__name__}")
        if isinstance(command, Cancel):
            self.inbox.put(Withdraw(connection, command))
            return
        try:
            if self._refusal is not None:
                raise self._refusal
            assert self._engine is not None
            self._hand_on(connection, command, self._engine)
        except SRBError as error:
            connection.send([_rejected(command.request_id, error)])
        except Exception:
            log.exception("%s %s could not be prepared", type(command).__name__, command.request_id)
            connection.send([_rejected(command.request_id, SRBError("the request could not be prepared"))])

    def lost(self, connection: Connection) -> None:
        """Note that a connection has closed."""
        self.inbox.put(Gone(connection))

    def _hand_on(self, connection: Connection, command: Generate | Ask, engine: EngineCore) -> None:
        """Do what needs no context of the model here, on the reader's thread, and leave the rest to the decode thread."""
        match command:
            case Tokenize(request_id, parts, add_special, parse_special):
                connection.send([Answer(request_id, engine.tokenize(parts, add_special, parse_special))])
            case Detokenize(request_id, tokens):
                pieces = [piece.decode("latin-1") for piece in engine.detokenize(tokens)]
                connection.send([Answer(request_id, pieces)])
            case Generate() | Embed() | Rerank() | StateAction():
                self.inbox.put(Submit(connection, command.request_id, engine.prepare(command)))
            case _:
                self.inbox.put(Question(connection, command))


class DecodeLoop:
    """Owns the engine core; routes its events to the connections whose requests they are."""

    def __init__(self, engine: EngineCore, inbox: Inbox) -> None:
        self._engine = engine
        self._inbox = inbox
        self._owners: dict[str, Connection] = {}  # by request_id, from submit to the terminal event
        self.turn_began: float | None = None  # time.monotonic(); None while there is nothing to do

    @property
    def turn_tokens(self) -> int:
        return self._engine.step_tokens

    def run(self) -> None:
        """Receive, step, send, until a Stop arrives. What `step` raises is fatal for this process."""
        while self._receive():
            if self._engine.has_work:
                self._send(self._engine.step())

    def fail_all(self, error: SRBError) -> None:
        """End every running request with `error`."""
        self._send(self._engine.fail_all(error))
        for request_id, owner in self._owners.items():  # none is left, unless the core forgot one
            owner.send([Failed(request_id, error.slug, error.message)])
        self._owners.clear()

    def _receive(self) -> bool:
        """Handle what has arrived, waiting for it only when there is nothing to compute; False when told to stop."""
        wait = not self._engine.has_work
        self.turn_began = None if wait else time.monotonic()
        while True:
            try:
                item = self._inbox.get(block=wait)
            except queue.Empty:
                return True
            self.turn_began = self.turn_began or time.monotonic()
            if isinstance(item, Stop):
                return False
            self._handle(item)
            wait = False

    def _handle(self, item: Submit | Withdraw | Question | Gone) -> None:
        match item:
            case Submit(connection, request_id, request):
                if request_id in self._owners:  # also another connection's: its events would cross over
                    request.close()
                    connection.send([_rejected(request_id, InvalidRequest("a request with this id is running"))])
                    return
                self._owners[request_id] = connection
                self._send(self._engine.submit(request))
            case Withdraw(connection, command):
                if self._owners.get(command.request_id) is connection:
                    self._send(self._engine.cancel(command.request_id, command.index))
            case Question(connection, command):
                connection.send([self._answer(command)])
            case Gone(connection):
                for request_id in [id_ for id_, owner in self._owners.items() if owner is connection]:
                    self._send(self._engine.cancel(request_id))

    def _answer(self, command: Ask) -> Answer | Rejected:
        try:
            return Answer(command.request_id, self._engine.answer(command))
        except SRBError as error:
            return _rejected(command.request_id, error)

    def _send(self, events: Iterable[Event]) -> None:
        """Hand each connection its events of this step at once, in order."""
        outgoing: dict[Connection, list[Event]] = {}
        for event in events:
            assert not isinstance(event, Hello | Ready)  # the listener's
            owner = self._owners.get(event.request_id)
            if owner is None:
                log.error("%s for request %s, which is over", type(event).__name__, event.request_id)
                continue
            outgoing.setdefault(owner, []).append(event)
            if isinstance(event, TERMINAL):
                del self._owners[event.request_id]
        for connection, batch in outgoing.items():
            connection.send(batch)


def _rejected(request_id: str, error: SRBError) -> Rejected:
    return Rejected(request_id, error.slug, error.message, error.extra)
