"""The decode loop: receive, step, send. It alone calls the engine; other threads only prepare requests for it."""

import logging
import queue
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol

from srb.engine.process.intake import (
    CancelItem,
    DisconnectItem,
    Inbox,
    Item,
    Preparing,
    QueryItem,
    StopItem,
    SubmitItem,
    WakeItem,
)
from srb.engine.steering import Growth
from srb.errors import InvalidRequest, SRBError
from srb.process.connection import Connection
from srb.wire.commands import Ask, Attach, Cancel, ChangeBranch, EndReasoning, StopBranches
from srb.wire.events import TERMINAL, Attached, Event, Failed, Hello, Ready, Rejected, Reply

if TYPE_CHECKING:
    from srb.engine.lifecycle import Prepared
    from srb.engine.process.request_spans import RequestSpans

log = logging.getLogger("srb.engine")

IDLE_SECONDS = 1.0  # without work, before the loop tidies: a request that comes meanwhile has to wait for that


class EngineCore(Preparing, Protocol):
    """The methods of `engine.Engine` that the loop uses."""

    wake: Callable[[], None]
    emit: Callable[[list[Event]], None] | None

    @property
    def has_work(self) -> bool: ...
    @property
    def step_tokens(self) -> int: ...
    def submit(self, request: "Prepared") -> list[Event]: ...
    def collect(self) -> list[Event]: ...
    def cancel(self, request_id: str, index: int | None = None) -> list[Event]: ...
    def step(self) -> list[Event]: ...
    def flush(self) -> None: ...
    def find_leaks(self) -> list[str]: ...
    def serve_query(self, command: Ask | Attach) -> Any: ...
    def leave(self, request_id: str) -> list[Event]: ...
    def attach(self, request_id: str, owner: str) -> dict[str, Any]: ...
    def control(self, command: StopBranches | EndReasoning | ChangeBranch) -> list[Event]: ...
    @property
    def seconds_to_rest(self) -> float | None: ...
    def fail_by_id(self, request_id: str, error: SRBError) -> list[Event]: ...
    def fail_all(self, error: SRBError) -> list[Event]: ...


class DecodeLoop:
    """The decode loop, which owns the engine and routes its events to the connections of their requests."""

    def __init__(
        self,
        engine: EngineCore,
        inbox: Inbox,
        tidy: Callable[[], None] = lambda: None,
        spans: "RequestSpans | None" = None,
    ) -> None:
        """Call `tidy` once after each time of work, when there has been none for IDLE_SECONDS."""
        self._engine = engine
        self._spans = spans
        self._inbox = inbox
        self._tidy = tidy
        self._tidy_at: float | None = time.monotonic()  # time.monotonic(); None: there has been no work since
        engine.wake = lambda: inbox.put(WakeItem())
        engine.emit = self._send
        self._readers: dict[str, list[Connection]] = {}  # by request_id, from submit to the terminal event
        self.turn_began: float | None = None  # time.monotonic(); None while the loop waits for requests

    @property
    def turn_tokens(self) -> int:
        return self._engine.step_tokens

    def run(self) -> None:
        """Receive, step, send, until a StopItem arrives. An exception of `step` is fatal for this process."""
        while self.turn():
            pass

    def turn(self, wait: bool = True) -> bool:
        """Receive, step and send once; return False after a StopItem. Without `wait`, do not wait for an item."""
        if not self._receive(wait and not self._engine.has_work):
            return False
        if self._engine.has_work:
            self._send(self._engine.step())
            self._tidy_at = time.monotonic() + IDLE_SECONDS
        else:
            self._send(self._engine.collect())  # a rest may be over
            self._tidy_if_idle()
        self._engine.flush()  # after `_send`: no client waits for the forks of its next tokens
        return True

    def fail_all(self, error: SRBError) -> None:
        """Fail every running request with `error`, and refuse the items in the inbox; called after the loop's end."""
        while not self._inbox.empty():
            self._refuse(self._inbox.get(), error)
        self.turn_began = None
        self._send(self._engine.fail_all(error))

    def finish(self, error: SRBError) -> None:
        """Send the events of saves that have ended since, and fail all remaining requests with `error`."""
        self._send(self._engine.collect())
        for request_id, readers in self._readers.items():
            for reader in readers:
                reader.send([Failed(request_id, error.code, error.message)])
        self._readers.clear()

    def _receive(self, wait: bool) -> bool:
        """Handle all items in the inbox. Return False after a StopItem.

        With `wait`, wait for an item, until the first rest of a request is over, or until it is time to tidy up.
        """
        self.turn_began = None if wait else time.monotonic()
        while True:
            try:
                item = self._inbox.get(block=wait, timeout=self._wait_seconds if wait else None)
            except queue.Empty:
                return True
            self.turn_began = self.turn_began or time.monotonic()
            if isinstance(item, StopItem):
                return False
            self._handle_alone(item)
            wait = False

    @property
    def _wait_seconds(self) -> float | None:
        """Seconds until something is due though no item arrives; None: nothing is."""
        to_rest, to_tidy = self._engine.seconds_to_rest, None
        if self._tidy_at is not None:
            to_tidy = max(0.0, self._tidy_at - time.monotonic())
        return min((seconds for seconds in (to_rest, to_tidy) if seconds is not None), default=None)

    def _tidy_if_idle(self) -> None:
        if self._tidy_at is not None and time.monotonic() >= self._tidy_at:
            for leak in self._engine.find_leaks():
                log.error("while nothing runs: %s", leak)
            self._tidy()
            self._tidy_at = None

    def _handle_alone(self, item: SubmitItem | CancelItem | QueryItem | DisconnectItem | WakeItem) -> None:
        """Handle an item; an error of our own fails the request that it is about, and no other."""
        try:
            self._handle(item)
        except Exception as error:
            log.exception("%s could not be handled", type(item).__name__)
            self._fail(item, SRBError(f"the server failed at this command: {type(error).__name__}"))

    def _fail(self, item: Item, error: SRBError) -> None:
        """Refuse an item, and fail the request that it is about: nobody knows in which state that is now."""
        match item:
            case SubmitItem(connection, request_id, Growth() as growth):
                target = growth.command.target
            case SubmitItem(connection, request_id):
                target = request_id
            case QueryItem(connection, command):
                request_id, target = command.request_id, getattr(command, "target", "")
            case CancelItem(_, Cancel(target)):
                request_id = ""
            case _:
                return
        self._send(self._engine.fail_by_id(target, error))
        if isinstance(item, SubmitItem):
            item.request.close()
        if self._readers.pop(request_id, None) or isinstance(item, QueryItem):
            connection.send([Rejected.of(request_id, error)])

    def _handle(self, item: SubmitItem | CancelItem | QueryItem | DisconnectItem | WakeItem) -> None:
        match item:
            case SubmitItem(connection, request_id, request, command, arrived):
                if request_id in self._readers:  # even another connection's: events would get mixed up
                    request.close()
                    connection.send([Rejected.of(request_id, InvalidRequest("a request with this id is running"))])
                    return
                self._readers[request_id] = [connection]
                if self._spans is not None:
                    self._spans.begin(command, arrived)
                self._send(self._engine.submit(request))
            case CancelItem(connection, command):
                if connection in self._readers.get(command.request_id, ()):
                    self._cancel(connection, command)
            case QueryItem(connection, Attach() as command):
                self._attach(connection, command)
            case QueryItem(connection, StopBranches() | EndReasoning() | ChangeBranch() as command):
                self._readers[command.request_id] = [connection]
                self._send(self._control(command))
            case QueryItem(connection, command):
                connection.send([self._serve_query(command)])
            case WakeItem():
                self._send(self._engine.collect())
            case DisconnectItem(connection):
                for request_id in [id_ for id_, readers in self._readers.items() if connection in readers]:
                    self._handle_alone(CancelItem(connection, Cancel(request_id, leaves=True)))

    def _cancel(self, connection: Connection, command: Cancel) -> None:
        if command.leaves:
            self._leave(connection, command.request_id)
        else:
            self._send(self._engine.cancel(command.request_id, command.index))

    def _leave(self, connection: Connection, request_id: str) -> None:
        """Send a connection no more events of a request; without any reader it lingers or is cancelled."""
        readers = self._readers[request_id]
        readers.remove(connection)
        if not readers:
            self._send(self._engine.leave(request_id))

    def _attach(self, connection: Connection, command: Attach) -> None:
        """Answer with the request's state, and send the connection all later events of it."""
        try:
            value = self._engine.attach(command.target, command.owner)
        except SRBError as error:
            connection.send([Rejected.of(command.request_id, error)])
            return
        readers = self._readers[command.target]
        if connection not in readers:
            readers.append(connection)
        connection.send([Attached(command.request_id, command.target, value)])

    def _control(self, command: StopBranches | EndReasoning | ChangeBranch) -> list[Event]:
        try:
            return self._engine.control(command)
        except SRBError as error:
            return [Rejected.of(command.request_id, error)]

    def _refuse(self, item: Item, error: SRBError) -> None:
        match item:
            case SubmitItem(connection, request_id, request):
                request.close()
                connection.send([Rejected.of(request_id, error)])
            case QueryItem(connection, command):
                connection.send([Rejected.of(command.request_id, error)])

    def _serve_query(self, command: Ask | Attach) -> Reply | Rejected:
        try:
            return Reply(command.request_id, self._engine.serve_query(command))
        except SRBError as error:
            return Rejected.of(command.request_id, error)

    def _send(self, events: Iterable[Event]) -> None:
        """Send each connection its events of this step at once, in order."""
        outgoing: dict[Connection, list[Event]] = {}
        for event in events:
            assert not isinstance(event, Hello | Ready)  # the listener's
            readers = self._readers.get(event.request_id)
            if readers is None:
                log.error("%s for request %s, which is over", type(event).__name__, event.request_id)
                continue
            if self._spans is not None:
                self._spans.note(event)
            for reader in readers:
                outgoing.setdefault(reader, []).append(event)
            if isinstance(event, TERMINAL):
                del self._readers[event.request_id]
        for connection, batch in outgoing.items():
            connection.send(batch)
