"""The worker's end of the engine's socket: one EngineClient per worker process, one Mailbox per HTTP call.

Everything here is gevent-cooperative by itself (gevent's sockets, not the patched standard ones), so it behaves the
same in a worker, in a test and in a script. One greenlet keeps the connection and reads; one per connection writes.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterable, Sequence
from typing import Any
from uuid import uuid4

import gevent
import gevent.event
import gevent.queue
import gevent.socket

from srb.errors import (
    Cancelled,
    EngineHung,
    EngineLoading,
    EngineRestarted,
    ModelLoadFailed,
    ProtocolError,
    ShuttingDown,
    SlowClient,
    SRBError,
    Unavailable,
)
from srb.framing import FrameSocket
from srb.protocol import (
    TERMINAL,
    VERSION,
    Accepted,
    Answer,
    Ask,
    Cancel,
    Command,
    Delta,
    Detokenize,
    Done,
    Embed,
    Failed,
    Generate,
    GetAdapters,
    GetSlots,
    GetStats,
    Hello,
    ModelInfo,
    Ready,
    Rejected,
    Rerank,
    SetAdapters,
    StateAction,
    Tokenize,
    decode,
    encode,
)
from srb.settings import Settings
from srb.status import read_status

log = logging.getLogger("srb.client")

PAUSE = 0.1  # seconds between attempts to connect; to a socket that is not there one costs microseconds
LONG_PAUSE = 1.0  # seconds after an engine that spoke another version of the protocol
FIRST_LOOK = 0.5  # seconds that a request waits for a connection that is about to be there
ASK_DEADLINE = 2.0  # seconds, for what is answered between two steps
_FEW = 256  # events of a call that may wait each by itself
WORK_DEADLINE = 600.0  # seconds, for what has to be computed


class Mailbox:
    """What the engine sent for the requests of one HTTP call, in order, until each has had its terminal event.

    One greenlet takes. `prompt_tokens` holds, by request id, what each Accepted said; `ended` the terminal events.
    Where it falls behind, the text of each branch is put together, so that what waits is no more than the text itself.
    """

    def __init__(self, request_ids: Iterable[str]) -> None:
        self.prompt_tokens: dict[str, int] = {}
        self.ended: list[Done | Answer | Failed | Rejected] = []
        self.unread = 0  # bytes of text and what comes with it, roughly
        self._requests = tuple(request_ids)
        self._events: list[Any] = []
        self._coalesce_at = _FEW
        self._wake = gevent.event.Event()

    def __repr__(self) -> str:
        state = f"{len(self.prompt_tokens)} accepted, {len(self.ended)} ended, {len(self._events)} events waiting"
        return f"<Mailbox of {len(self._requests)} requests: {state}>"

    @property
    def done(self) -> bool:
        """True when every request has had its terminal event; `take` may still have events to give."""
        return len(self.ended) == len(self._requests)

    def put(self, event: Any) -> None:
        if type(event) is Accepted:
            self.prompt_tokens[event.request_id] = event.prompt_tokens
        else:
            self._events.append(event)
            if type(event) is Delta:
                self.unread += _weight(event)
                if len(self._events) > self._coalesce_at:
                    self._events = _coalesced(self._events)
                    self._coalesce_at = max(_FEW, 2 * len(self._events))
            elif isinstance(event, TERMINAL):
                self.ended.append(event)
        self._wake.set()

    def take(self, timeout: float | None = None) -> list[Any]:
        """Wait for events and return all there are; an empty list means `timeout` seconds of silence."""
        if not self._events:
            self._wake.clear()
            self._wake.wait(timeout)
        events, self._events = self._events, []
        self.unread, self._coalesce_at = 0, _FEW
        return events

    @property
    def request_ids(self) -> tuple[str, ...]:
        return self._requests

    def wait_accepted(self) -> None:
        """Return when the engine has accepted every request; raise the SRBError of the first that was refused."""
        while len(self.prompt_tokens) < len(self._requests):
            refusal = next((event for event in self.ended if isinstance(event, Rejected | Failed)), None)
            if refusal is not None:
                raise refusal.error
            self._wake.clear()
            self._wake.wait()


class _Connection:
    """One connection to the engine, with the greenlet that writes: a sender never waits for a full socket."""

    def __init__(self, path: str) -> None:
        sock = gevent.socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.connect(path)
        except BaseException:
            sock.close()
            raise
        self._frames = FrameSocket(sock)
        self._outbox: Any = gevent.queue.SimpleQueue()
        self._writer = gevent.spawn(self._write)

    def receive(self) -> list[Any]:
        return decode(self._frames.receive())

    def send(self, payload: bytes) -> None:
        self._outbox.put(payload)

    def _write(self) -> None:
        try:
            while True:
                self._frames.send(self._outbox.get())
        except OSError:
            self._frames.close()  # wakes the reader, which ends every request

    def close(self) -> None:
        self._writer.kill(block=False)
        self._frames.close()


class EngineClient:
    """Send commands to the engine and spread its events over mailboxes; connect lazily and for ever again.

    When the connection is lost, each request still open gets exactly one `Failed("engine_restarted")`.
    """

    def __init__(self, settings: Settings) -> None:
        self._socket_path = str(settings.socket_path)
        self._max_unread = settings.max_unread_bytes
        self._runtime_path = settings.runtime_path
        self._connection: _Connection | None = None  # set while the engine is ready for requests
        self._mailboxes: dict[str, Mailbox] = {}
        self._keeper: Any = None
        self._connected = gevent.event.Event()  # set while `_connection` is there
        self._looked = gevent.event.Event()  # set when the first attempt to reach the engine has had its answer
        self._closed = False
        self.model: ModelInfo | None = None  # of the engine last seen; stays while it restarts

    def __repr__(self) -> str:
        state = "ready" if self._connection else "waiting"
        return f"<EngineClient {state} {self._socket_path}: {len(self._mailboxes)} requests open>"

    def check_ready(self) -> ModelInfo:
        """Return the loaded model's facts; raise EngineLoading, ModelLoadFailed or ShuttingDown where there is none."""
        self._ready_connection()
        assert self.model is not None  # set before the connection is
        return self.model

    def check_not_hung(self) -> None:
        """Raise EngineHung where status.json says that the engine does not get on."""
        if hung := _hung(self._status()):
            raise hung

    def engine_status(self) -> dict[str, Any]:
        """Return the engine's state (loading, running, hung, restarting, failed) and how often it was started again."""
        status = self._status()
        state = {"starting": "loading"}.get(status["state"], status["state"])
        if state in ("running", "") and self._connection is None:
            state = "loading"  # it is up, and we have not reached it yet
        return {"state": state or "running", "restarts": status["restarts"]}

    def submit(self, *commands: Generate) -> Mailbox:
        """Send the requests of one HTTP call and wait until all are accepted; their events come to one mailbox.

        Raise the SRBError of the first refusal; the other requests of the call are cancelled then.
        """
        payloads = [encode([command]) for command in commands]
        connection = self._ready_connection()
        mailbox = Mailbox(command.request_id for command in commands)
        for command, payload in zip(commands, payloads, strict=True):
            self._mailboxes[command.request_id] = mailbox
            connection.send(payload)
        try:
            mailbox.wait_accepted()
        except BaseException:
            for command in commands:
                self.cancel(command.request_id)
            raise
        return mailbox

    def cancel(self, request_id: str, index: int | None = None) -> None:
        """End a request, or with `index` one branch of it; an id that has ended already is ignored."""
        if index is None:
            self.abandon(request_id, Cancelled("The request was cancelled"))
        elif request_id in self._mailboxes:
            self._send(Cancel(request_id, index))

    def abandon(self, request_id: str, reason: SRBError) -> None:
        """Cancel a request and give its mailbox the terminal event at once, whatever the engine still sends."""
        mailbox = self._mailboxes.pop(request_id, None)
        if mailbox is not None:
            self._send(Cancel(request_id))
            mailbox.put(Failed(request_id, reason.slug, reason.message))

    def ask(self, command: Ask, deadline: float = ASK_DEADLINE) -> Any:
        """Send one command and return its answer's value.

        Raise the SRBError of a refusal, or Unavailable after `deadline` seconds; the engine then drops the command.
        """
        payload = encode([command])
        connection = self._ready_connection()
        mailbox = self._mailboxes[command.request_id] = Mailbox([command.request_id])
        try:
            connection.send(payload)
            answer = next(iter(mailbox.take(deadline)), None)
        finally:
            if self._mailboxes.pop(command.request_id, None) is not None:  # nobody waits for the answer any more
                self._send(Cancel(command.request_id))
        if isinstance(answer, Answer):
            return answer.value
        raise answer.error if answer else Unavailable("The engine did not answer in time")

    def tokenize(
        self, parts: Iterable[str | int], *, add_special: bool = False, parse_special: bool = True
    ) -> list[int]:
        """Return the tokens of strings and token ids, in order."""
        tokens: list[int] = self.ask(Tokenize(_new_id(), tuple(parts), add_special, parse_special))
        return tokens

    def detokenize(self, tokens: Iterable[int]) -> list[bytes]:
        """Return each token's bytes; together they may make characters that no token has whole."""
        return [piece.encode("latin-1") for piece in self.ask(Detokenize(_new_id(), tuple(tokens)))]

    def stats(self, deadline: float = ASK_DEADLINE) -> dict[str, float]:
        """Return the engine's counters and gauges."""
        values: dict[str, float] = self.ask(GetStats(_new_id()), deadline)
        return values

    def slots(self) -> list[dict[str, Any]]:
        """Return the state of every sequence that a branch may use."""
        slots: list[dict[str, Any]] = self.ask(GetSlots(_new_id()))
        return slots

    def embed(
        self, inputs: Iterable[Sequence[str | int]], pooling: str = "", deadline: float = WORK_DEADLINE
    ) -> dict[str, Any]:
        """Return {"embeddings", "tokens"}: for each input its vectors, not normalized, and its number of tokens."""
        embedded: dict[str, Any] = self.ask(Embed(_new_id(), tuple(map(tuple, inputs)), pooling), deadline)
        return embedded

    def rerank(self, query: str, documents: Iterable[str], deadline: float = WORK_DEADLINE) -> dict[str, Any]:
        """Return {"scores", "tokens"}, one of each a document."""
        ranked: dict[str, Any] = self.ask(Rerank(_new_id(), query, tuple(documents)), deadline)
        return ranked

    def adapters(self) -> list[dict[str, Any]]:
        """Return id, path, scale, task_name and prompt_prefix of each LoRA adapter."""
        adapters: list[dict[str, Any]] = self.ask(GetAdapters(_new_id()))
        return adapters

    def set_adapters(self, scales: Iterable[tuple[int, float]]) -> list[dict[str, Any]]:
        """Set the scales of requests to come, 0 for adapters that are not named; return what `adapters` does."""
        adapters: list[dict[str, Any]] = self.ask(SetAdapters(_new_id(), tuple(scales)))
        return adapters

    def state_action(self, action: str, name: str, slot: int = 0) -> dict[str, Any]:
        """Save, restore or erase a named state; return {"tokens", "bytes", "ms"}."""
        done: dict[str, Any] = self.ask(StateAction(_new_id(), action, name, slot), WORK_DEADLINE)
        return done

    def close(self) -> None:
        """End every open request with `shutting_down` and stay disconnected; may be called again."""
        self._closed = True
        for request_id in list(self._mailboxes):
            self.abandon(request_id, ShuttingDown("The server is shutting down"))
        if self._keeper is not None:
            self._keeper.kill()

    # The connection -------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to connect, if that has not begun; called by itself at the first use, and never at import."""
        if self._keeper is None and not self._closed:
            self._keeper = gevent.spawn(self._keep_connected)

    def _ready_connection(self) -> _Connection:
        self.start()
        if self._connection is None and not self._looked.wait(FIRST_LOOK):
            self._looked.set()
        if self._connection is None and self._status()["state"] == "running":
            self._connected.wait(FIRST_LOOK)  # the supervisor was told of it before us
        if self._connection is None:
            raise self._why_not_ready()
        return self._connection

    def _why_not_ready(self) -> SRBError:
        if self._closed:
            return ShuttingDown("The server is shutting down")
        status = self._status()
        if status["state"] == "failed":
            return ModelLoadFailed(status["message"])
        return _hung(status) or EngineLoading("Loading model")

    def _status(self) -> dict[str, Any]:
        return read_status(self._runtime_path, is_connected=self._connection is not None)

    def _keep_connected(self) -> None:
        while True:
            try:
                connection = _Connection(self._socket_path)
            except OSError:
                self._looked.set()
            else:
                if not self._serve(connection):
                    gevent.sleep(LONG_PAUSE)
            gevent.sleep(PAUSE)

    def _serve(self, connection: _Connection) -> bool:
        """Read one connection to its end; return whether the engine at its other end spoke our version."""
        greeted = False
        try:
            events = connection.receive()
            greeted = self._check_hello(events)
            while greeted:
                self._deliver(connection, events)
                gevent.sleep(0)  # a reader that always finds data would starve the writers of responses
                events = connection.receive()
        except ProtocolError as error:
            log.error("closing the engine's connection: %s", error.message)
        except (EOFError, OSError) as error:
            log.info("the engine's connection has ended: %s", error)
        finally:
            self._connection = None
            self._connected.clear()
            self._looked.set()
            connection.close()
            self._fail_all()
        return greeted

    def _check_hello(self, events: list[Any]) -> bool:
        hello = events.pop(0) if events else None
        if isinstance(hello, Hello) and hello.version == VERSION:
            log.debug("connected to engine %d", hello.pid)
            return True
        log.error("the engine speaks another protocol than version %d: %r", VERSION, hello)
        return False

    def _deliver(self, connection: _Connection, events: list[Any]) -> None:
        for event in events:
            if type(event) is Ready:
                self._make_ready(connection, event)
                continue
            mailbox = self._mailboxes.get(event.request_id)
            if mailbox is None:
                continue  # its end crossed a cancel
            if isinstance(event, TERMINAL):
                del self._mailboxes[event.request_id]
            mailbox.put(event)
            if mailbox.unread > self._max_unread:
                for request_id in mailbox.request_ids:
                    self.abandon(request_id, SlowClient("The client reads too slowly"))

    def _make_ready(self, connection: _Connection, event: Ready) -> None:
        try:
            self.model = ModelInfo(**event.model)
        except TypeError as error:
            raise ProtocolError(f"not the facts of a model: {error}") from error
        self._connection = connection
        self._connected.set()
        self._looked.set()
        log.info("the engine is ready: %s", self.model.alias)

    def _fail_all(self) -> None:
        mailboxes, self._mailboxes = self._mailboxes, {}
        for request_id, mailbox in mailboxes.items():
            mailbox.put(Failed(request_id, EngineRestarted.slug, "The engine was restarted; please try again"))

    def _send(self, command: Command) -> None:
        if self._connection is not None:
            self._connection.send(encode([command]))


def _hung(status: dict[str, Any]) -> EngineHung | None:
    return EngineHung(f"The engine hangs: {status['message']}") if status["state"] == "hung" else None


def _weight(delta: Delta) -> int:
    """Return about how many bytes of memory a delta takes."""
    probs = delta.probs or ()
    entries = sum(1 + len(prob.get("top_logprobs") or prob.get("top_probs") or ()) for prob in probs)
    return len(delta.text) + 16 * len(delta.tokens) + 128 * entries


def _coalesced(events: list[Any]) -> list[Any]:
    """Return the events with all deltas of a branch as one, at the place of the first; what ends it still follows."""
    deltas: dict[tuple[str, int], list[Delta]] = {}
    kept: list[Any] = []
    for event in events:
        if type(event) is not Delta:
            kept.append(event)
        elif (key := (event.request_id, event.index)) in deltas:
            deltas[key].append(event)
        else:
            deltas[key] = parts = [event]
            kept.append(parts)
    return [_joined(event) if type(event) is list else event for event in kept]


def _joined(parts: list[Delta]) -> Delta:
    first = parts[0]
    probs = [prob for part in parts for prob in part.probs or ()] if first.probs is not None else None
    tokens = [token for part in parts for token in part.tokens]
    return Delta(first.request_id, first.index, "".join(part.text for part in parts), tokens, probs)


def _new_id() -> str:
    return uuid4().hex
