"""EngineClient: the worker's end of the engine's socket; each HTTP call has a Mailbox that it fills.

The module uses gevent's own sockets instead of patched ones, so it behaves alike in a worker, a test and a script. One
greenlet keeps the connection and reads; each connection has a greenlet that writes.
"""

import logging
import math
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import gevent
import gevent.event
import gevent.queue
import gevent.socket

from srb.config.settings import Settings
from srb.errors import (
    BodyTooLarge,
    Cancelled,
    EngineHung,
    EngineLoading,
    EngineRestarted,
    ForeignEngine,
    ModelLoadFailed,
    ProtocolError,
    SlowClient,
    SRBError,
)
from srb.status import LOADING, read_status
from srb.web.calls.answer_size import token_weight
from srb.web.calls.catching_up import Seen, can_catch_up
from srb.web.calls.latest import Answer, LatestAnswers
from srb.web.calls.mailbox import Mailbox
from srb.web.loop.yielding import batches, yielding
from srb.wire.codec import VERSION, decode, encode
from srb.wire.commands import (
    Ask,
    Attach,
    Cancel,
    Command,
    CountTokens,
    Detokenize,
    Generate,
    GetAdapters,
    GetSlots,
    GetStats,
    ListRequests,
    SetAdapters,
    StateAction,
    Tokenize,
)
from srb.wire.events import TERMINAL, Attached, Failed, Hello, ModelInfo, Ready
from srb.wire.framing import MAX_FRAME, FrameSocket

log = logging.getLogger("srb.client")

PAUSE = 0.1  # seconds between attempts to connect; an attempt at a missing socket costs microseconds
LONG_PAUSE = 1.0  # seconds after an engine with another protocol version: an update restarts it, or nothing ever does
FIRST_LOOK = 0.5  # seconds that a request waits for the first connection: a worker may begin before its engine listens
ASK_DEADLINE = 2.0  # seconds, for commands that the engine answers between two steps, of which one may take a second
TEXT_SECONDS = 8.0  # for each MiB of text that is sent along: a slow core reads some, and others' texts may come first
WORK_DEADLINE = 600.0  # seconds, for commands that compute: no call waits for ever for an engine that lost it
_CHARACTERS_OF_AN_ID = 4  # of a text, about, for which a token id stands, so that both get as much time
_UNREAD_TOKENS = 16  # of each branch that may always be unread: one heavy token must not make a client slow
_CATCH_UP_SECONDS = 15.0  # for the next bridge, and for the replica that has a request, after a bridge's death
_BEHIND = 65536  # bytes; a reader with more unread when the next frame arrives is behind


@dataclass(frozen=True, slots=True)
class Asker:
    """The client for whom a text is tokenized; `watch` ends the command of an id if that client leaves within the block."""

    owner: str
    watch: "Callable[[EngineClient, str], AbstractContextManager[None]]"


class Connection:
    """One connection to an engine or to the models' supervisor, with a greenlet that writes: senders never wait for it."""

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

    def receive(self) -> bytes:
        return self._frames.receive()

    def send(self, payload: bytes) -> None:
        self._outbox.put(payload)

    def _write(self) -> None:
        try:
            while True:
                self._frames.send(self._outbox.get())
        except OSError:
            pass  # the reader gets this error too
        except Exception:
            log.exception("closing the connection: a command could not be sent")
        finally:
            self._frames.close()  # wakes the reader, which ends every request

    def close(self) -> None:
        self._writer.kill(block=False)
        self._frames.close()


NOBODY = Asker("", lambda client, request_id: nullcontext())


class EngineClient:
    """Sends commands to the engine and routes its events to mailboxes. Connects on first use, and reconnects for ever.

    When the connection is lost, each open request gets exactly one `Failed("engine_restarted")`. With a bridge in the
    engine's place, readers of requests that linger are attached again instead.
    """

    def __init__(self, settings: Settings, server_id: str = "") -> None:
        """Connect only to the engine of the server with this `server_id`; empty: to any engine."""
        self._socket_path = str(settings.socket_path)
        self._server_id = server_id
        self._is_foreign = False  # the engine in the runtime folder is another server's
        self._max_unread = settings.max_unread_bytes
        self._runtime_path = settings.runtime_path
        self._has_supervisor = settings.engine_managed  # which tells of an engine's end
        self._name = "" if settings.has_replicas else settings.model_alias  # whose replicas may have any model
        self._connection: Connection | None = None  # set while the engine is ready for requests
        self._mailboxes: dict[str, list[Mailbox]] = {}  # of each request's readers here
        # Readers that wait to be attached, by the request that they want to read.
        self._attaching: Counter[str] = Counter()
        self._has_bridge = settings.has_replicas  # whose death leaves requests that linger on their replicas
        self._lost: dict[str, list[Mailbox]] = {}  # readers that wait to be attached again, by their request
        self._latest = LatestAnswers(lambda question: self.ask(question, WORK_DEADLINE))
        self._keeper: Any = None
        self._connected = gevent.event.Event()  # set while `_connection` is not None
        self._looked = gevent.event.Event()  # set after the first attempt to connect
        self.model: ModelInfo | None = None  # of the last engine; kept while the engine restarts
        # Bytes of the model's tokens that were asked for, with control tokens' texts (True) and without.
        self._pieces: dict[bool, dict[int, bytes]] = {True: {}, False: {}}

    def __repr__(self) -> str:
        state = "ready" if self._connection else "waiting"
        return f"<EngineClient {state} {self._socket_path}: {len(self._mailboxes)} requests open>"

    def check_ready(self) -> ModelInfo:
        """Return the facts of the loaded model; raise EngineLoading, EngineHung or ModelLoadFailed if none is ready."""
        self._ready_connection()
        assert self.model is not None  # set before the connection is
        return self.model

    def check_not_hung(self) -> None:
        """Raise EngineHung if status.json reports a hung engine."""
        if hung := _hung_error(self._status()):
            raise hung

    def engine_status(self) -> dict[str, Any]:
        """Return `state` (loading, running, hung, restarting or failed) and `restarts`, the number of restarts."""
        status = self._status()
        state = status["state"]
        # Without a connection the engine may run, and this worker has not met it yet.
        if state == "starting" or (state in ("running", "") and self._connection is None):
            state = _waiting_word(status)
        return {"state": state or "running", "restarts": status["restarts"]}

    def submit(self, *commands: Generate, streamed: bool = True) -> Mailbox:
        """Send the requests of one HTTP call and wait until all are accepted; return the mailbox of their events.

        Raise the SRBError of the first refusal; the other requests of the call are then cancelled. A stream with too much
        unread is ended as SlowClient; without `streamed`, unread events have no limit here.
        """
        always_allowed = _UNREAD_TOKENS * sum(token_weight(spec) for command in commands for spec in command.branches)
        mailbox = self.post(*commands, max_unread=max(self._max_unread, always_allowed) if streamed else math.inf)
        try:
            mailbox.wait_accepted()
        except BaseException:
            for command in commands:
                self.cancel(command.request_id)
            raise
        return mailbox

    def post(self, *commands: Generate | Ask | Attach, max_unread: float = math.inf) -> Mailbox:
        """Send commands without waiting; return the mailbox of their events, which ends with them or with `abandon`."""
        payloads = [encode([command]) for command in yielding(commands)]
        if (size := max(map(len, payloads))) > MAX_FRAME:
            raise BodyTooLarge(
                f"The request has {size} bytes as a command to the engine; at most {MAX_FRAME} are allowed"
            )
        connection = self._ready_connection()
        mailbox = Mailbox((command.request_id for command in commands), max_unread)
        for command, payload in zip(commands, payloads, strict=True):
            self._mailboxes[command.request_id] = [mailbox]
            if self._has_bridge and isinstance(command, Generate) and len(commands) == 1 and can_catch_up(command):
                mailbox.seen = Seen.of(command)
            connection.send(payload)
        return mailbox

    def attach(self, target: str, owner: str) -> Mailbox:
        """Return a mailbox of all further events of a running request; its `snapshot` is the request's present state.

        Raise NotFound, or the reason why no engine is ready.
        """
        command = Attach(uuid4().hex, target, owner)
        self._attaching[target] += 1
        mailbox: Mailbox | None = None
        try:
            mailbox = self.post(command, max_unread=self._max_unread)
            mailbox.owner = owner
            mailbox.wait_attached(ASK_DEADLINE)
            return mailbox
        except BaseException:
            self._mailboxes.pop(command.request_id, None)
            if mailbox is not None:
                self._forget(target, mailbox)
            raise
        finally:
            self._attaching[target] -= 1
            self._leave_unread(target)

    def cancel(self, request_id: str, index: int | None = None) -> None:
        """Cancel a request, or with `index` one branch; the id of an ended request is ignored."""
        if index is None:
            self.abandon(request_id, Cancelled("The request was cancelled"))
        elif request_id in self._mailboxes:
            self._send(Cancel(request_id, index))

    def abandon(self, request_id: str, reason: SRBError, mailbox: Mailbox | None = None) -> None:
        """Let a reader leave a request, by default all readers here; its mailbox gets a terminal event with `reason`.

        Without readers the engine cancels the request, unless it lingers.
        """
        for each in list(self._mailboxes.get(request_id, ())):
            if mailbox in (None, each):
                self._forget(request_id, each)
                each.put(Failed(request_id, reason.code, reason.message))
        self._leave_unread(request_id)

    def leave(self, request_id: str, mailbox: Mailbox) -> None:
        """Let a reader leave a request that rests; its mailbox gets nothing more."""
        self._forget(request_id, mailbox)
        self._leave_unread(request_id)

    def _forget(self, request_id: str, mailbox: Mailbox) -> None:
        readers = self._mailboxes.get(request_id, [])
        if mailbox in readers:
            readers.remove(mailbox)

    def _leave_unread(self, request_id: str) -> None:
        """Tell the engine that nobody here reads a request any more, if that is so."""
        if not self._attaching[request_id]:
            del self._attaching[request_id]
            if self._mailboxes.get(request_id) == []:
                del self._mailboxes[request_id]
                self._send(Cancel(request_id, leaves=True))

    def ask(self, command: Ask, deadline: float = ASK_DEADLINE) -> Any:
        """Send one command and return the value of its reply.

        Raise the SRBError of a refusal, or Unavailable after `deadline` seconds; then the command is cancelled.
        """
        mailbox = self.post(command)
        try:
            return mailbox.wait_reply(deadline)
        finally:
            self.cancel(command.request_id)  # ignored if the reply has arrived

    def tokenize(
        self,
        parts: Iterable[str | int],
        *,
        add_special: bool = False,
        parse_special: bool = True,
        asker: Asker = NOBODY,
    ) -> list[int]:
        """Return the tokens of strings and token ids, in order. Long texts take long: tell for which `asker`."""
        command = Tokenize(uuid4().hex, tuple(parts), add_special, parse_special, asker.owner)
        with asker.watch(self, command.request_id):
            tokens: list[int] = self.ask(command, _text_deadline(command.parts))
        return tokens

    def count_tokens(
        self, prompt: Iterable[str | int], media: Iterable[str], media_field: str, asker: Asker = NOBODY
    ) -> int:
        """Return the number of tokens of a prompt with media, as base64 (see `Generate`), with the BOS if there is one.

        `asker` is as that of `tokenize`.
        """
        command = CountTokens(uuid4().hex, tuple(prompt), tuple(media), media_field, asker.owner)
        with asker.watch(self, command.request_id):
            count: int = self.ask(command, _text_deadline((*command.prompt, *command.media)))
        return count

    def detokenize(self, tokens: Iterable[int], *, special: bool = True) -> list[bytes]:
        """Return the bytes of each token; with `special` a control token has its text, else none.

        A character may be spread over several tokens. The engine is asked for tokens that are new here.
        """
        self.check_ready()
        tokens, known = tuple(tokens), self._pieces[special]
        if unknown := tuple(token for token in dict.fromkeys(tokens) if token not in known):
            pieces = self.ask(Detokenize(uuid4().hex, unknown, special), _text_deadline(unknown))
            known.update(zip(unknown, (piece.encode("latin-1") for piece in pieces), strict=True))
        return [piece for batch in batches(tokens) for piece in map(known.__getitem__, batch)]

    def stats(self, deadline: float = ASK_DEADLINE) -> dict[str, float]:
        """Return the engine's counters and gauges, or those of a cluster together."""
        values: dict[str, float] = self.ask(GetStats(uuid4().hex), deadline)
        return values

    def latest_stats(self, deadline: float | None = None, max_age: float = 0.0) -> Answer:
        """Return the stats, with a cluster's as `cluster`, or after `deadline` seconds (ASK_DEADLINE) the latest ones.

        Those of a cluster's bridge are `max_age` seconds old at most.
        """
        return self._latest.get(GetStats(uuid4().hex, max_age), ASK_DEADLINE if deadline is None else deadline)

    def latest_slots(self) -> Answer:
        """Return the state of every sequence that a branch may use, now or as it is known."""
        return self._latest.get(GetSlots(uuid4().hex), ASK_DEADLINE)

    def latest_requests(self, owner: str) -> Answer:
        """Return the list of an owner's requests, now or as it is known."""
        return self._latest.get(ListRequests(uuid4().hex, owner), ASK_DEADLINE)

    def adapters(self) -> list[dict[str, Any]]:
        """Return id, path, scale, task_name and prompt_prefix of each LoRA adapter."""
        adapters: list[dict[str, Any]] = self.ask(GetAdapters(uuid4().hex))
        return adapters

    def set_adapters(self, scales: Iterable[tuple[int, float]]) -> list[dict[str, Any]]:
        """Set the scales for later requests, 0 for adapters that are not named; return the result of `adapters`."""
        adapters: list[dict[str, Any]] = self.ask(SetAdapters(uuid4().hex, tuple(scales)))
        return adapters

    def state_action(self, action: str, name: str, slot: int = 0) -> dict[str, Any]:
        """Save, restore or erase a named state; return {"tokens", "bytes", "ms"}."""
        done: dict[str, Any] = self.ask(StateAction(uuid4().hex, action, name, slot), WORK_DEADLINE)
        return done

    # The connection -------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to connect, unless that has begun; the first command calls this too."""
        if self._keeper is None:
            self._keeper = gevent.spawn(self._keep_connected)

    def stop(self) -> None:
        """End the connection, and with it all requests, until `start`; may be called again."""
        if self._keeper is not None:
            self._keeper.kill(block=False)
            self._keeper = None

    @property
    def is_connected(self) -> bool:
        """Whether an engine is ready for requests."""
        return self._connection is not None

    def wait_connected(self, seconds: float) -> bool:
        """Wait until an engine is ready for requests; return whether one is."""
        self.start()
        return bool(self._connected.wait(seconds))

    def wait_settled(self) -> None:
        """Wait until an engine that runs is connected to; return at once if none runs, or only another server's."""
        self.start()
        self._looked.wait()
        if not self._is_foreign and self._status()["state"] == "running":
            self._connected.wait()

    def _ready_connection(self) -> Connection:
        self.start()
        if self._connection is None and not self._looked.wait(FIRST_LOOK):
            self._looked.set()  # no later request waits for it again
        if self._connection is None and not self._is_foreign and self._status()["state"] == "running":
            self._connected.wait(FIRST_LOOK)  # the supervisor's status may precede our connection
        if self._connection is None:
            raise self._unready_error()
        return self._connection

    def _unready_error(self) -> SRBError:
        if self._is_foreign:
            return ForeignEngine(f"{self._runtime_path} belongs to another server; set runtime_dir to another folder")
        status = self._status()
        if status["state"] == "failed":
            return ModelLoadFailed(status["message"], engine="failed")
        if not self._has_supervisor and (not status["state"] or status["is_silent"]):
            return EngineLoading(f"No engine gives a sign of life in {self._runtime_path}", engine="loading")
        return _hung_error(status) or _loading_error(status, self.model.alias if self.model else self._name)

    def _status(self) -> dict[str, Any]:
        return read_status(self._runtime_path, is_connected=self._connection is not None)

    def _keep_connected(self) -> None:
        while True:
            try:
                connection = Connection(self._socket_path)
            except OSError:
                self._is_foreign = False
                self._looked.set()
            else:
                if not self._serve(connection):
                    gevent.sleep(LONG_PAUSE)
            gevent.sleep(PAUSE)

    def _serve(self, connection: Connection) -> bool:
        """Read one connection until it ends; return whether to reconnect without a longer pause."""
        greeted = False
        try:
            events = decode(connection.receive())
            greeted = self._check_hello(events)
            if greeted:
                self._deliver(connection, events)
            while greeted:
                self._receive_and_deliver(connection)
        except ProtocolError as error:
            log.error("closing the engine's connection: %s", error.message)
        except (EOFError, OSError) as error:
            log.info("the engine's connection has ended: %s", error)
        except Exception:  # out of memory, a bug of ours: a new connection may work
            log.exception("closing the engine's connection")
            greeted = False
        finally:
            self._connection = None  # before `_fail_all`: those that it wakes must not send on a lost connection
            self._connected.clear()
            self._looked.set()
            connection.close()
            self._fail_all()
        return greeted

    def _receive_and_deliver(self, connection: Connection) -> None:
        """Wait for a frame and deliver it, then yield to the readers of mailboxes.

        If a reader is behind, yield for as long as the frame took: its writes need many turns of the event loop, and
        while the engine's socket always has data, it would get only one turn per frame.
        """
        payload = connection.receive()
        began = time.monotonic()
        is_behind = self._deliver(connection, decode(payload))
        gevent.sleep(time.monotonic() - began if is_behind else 0)

    def _check_hello(self, events: list[Any]) -> bool:
        hello = events.pop(0) if events else None
        if not isinstance(hello, Hello) or hello.version != VERSION:
            log.error("the engine does not speak version %d of the protocol: %r", VERSION, hello)
            return False
        was_foreign, self._is_foreign = self._is_foreign, self._server_id not in ("", hello.server_id)
        if self._is_foreign:
            if not was_foreign:
                log.error("engine %d in %s belongs to another server and is not used", hello.pid, self._runtime_path)
            return False
        log.debug("connected to engine %d", hello.pid)
        return True

    def _deliver(self, connection: Connection, events: list[Any]) -> bool:
        """Put the events of one frame into their mailboxes; return whether a reader was behind before."""
        checked: set[Mailbox] = set()
        is_behind = False
        for event in events:
            if type(event) is Ready:
                self._make_ready(connection, event)
                continue
            if type(event) is Attached:
                self._attach(event)
                continue
            readers = self._mailboxes.get(event.request_id)
            if readers is None:
                continue  # they have left meanwhile
            for mailbox in tuple(readers) if len(readers) > 1 else readers:
                if mailbox not in checked:  # its unread events are those of earlier frames
                    checked.add(mailbox)
                    is_behind = is_behind or mailbox.unread > _BEHIND
                    if mailbox.is_overfull:
                        self._end_slow_client(mailbox)
                        continue
                mailbox.put(event)
            if isinstance(event, TERMINAL):
                self._mailboxes.pop(event.request_id, None)
        return is_behind

    def _attach(self, event: Attached) -> None:
        """Give a reader the later events of its target; if it has left meanwhile, tell the engine."""
        readers = self._mailboxes.setdefault(event.target, [])
        for mailbox in self._lost.pop(event.target, ()):
            if mailbox in readers:  # it has not left meanwhile
                mailbox.catch_up(event.value)
        for mailbox in self._mailboxes.pop(event.request_id, ()):
            mailbox.attach(event)
            if self._has_bridge and event.value["linger"]:
                mailbox.seen = Seen.described(event.value, mailbox.owner)
            readers.append(mailbox)
        self._leave_unread(event.target)

    def _end_slow_client(self, mailbox: Mailbox) -> None:
        for request_id in mailbox.request_ids:
            self.abandon(request_id, SlowClient("The client reads more slowly than the text is generated"), mailbox)

    def _make_ready(self, connection: Connection, event: Ready) -> None:
        try:
            self.model = ModelInfo(**event.model)
        except TypeError as error:
            raise ProtocolError(f"Ready has malformed model facts: {error}") from error
        self._pieces = {True: {}, False: {}}
        self._latest.forget()
        self._connection = connection
        self._connected.set()
        self._looked.set()
        log.info("the engine is ready: %s", self.model.alias)

    def _fail_all(self) -> None:
        mailboxes, self._mailboxes = self._mailboxes, {}
        for request_id, readers in mailboxes.items():
            lost = [mailbox for mailbox in readers if mailbox.seen and request_id in mailbox.prompt_tokens]
            if lost and self._keeper is not None:  # else this worker stops
                self._mailboxes[request_id] = lost
                self._lost[request_id] = list(lost)
                gevent.spawn(self._read_again, request_id)
            for mailbox in readers:
                if mailbox not in self._lost.get(request_id, ()):
                    _fail(mailbox, request_id)

    def _read_again(self, target: str) -> None:
        """Attach the readers of a request that lingers again; if that is impossible, end them."""
        lost = self._lost[target]
        assert lost[0].seen is not None
        until = time.monotonic() + min(_CATCH_UP_SECONDS, lost[0].seen.linger)
        while self._lost.get(target) is lost and self._keeper is not None and time.monotonic() < until:
            try:
                self.leave(target, self.attach(target, lost[0].seen.owner))  # which attaches those that are lost
            except SRBError as error:  # no bridge yet, or its replica is not connected to it
                log.debug("request %s cannot be read again: %s", target, error.message)
                gevent.sleep(PAUSE)
        if self._lost.get(target) is lost:
            for mailbox in self._lost.pop(target):
                if mailbox in self._mailboxes.get(target, ()):  # it has not left meanwhile
                    self._forget(target, mailbox)
                    _fail(mailbox, target)
            self._leave_unread(target)

    def _send(self, command: Command) -> None:
        if self._connection is not None:
            self._connection.send(encode([command]))


def _fail(mailbox: Mailbox, request_id: str) -> None:
    mailbox.put(Failed(request_id, EngineRestarted.code, "The engine was restarted; please try again"))


def _waiting_word(status: dict[str, Any]) -> str:
    """Return the state of an engine that is awaited, in the word of answers and metrics."""
    return "restarting" if status["state"] == "restarting" or status["restarts"] else "loading"


def _loading_error(status: dict[str, Any], name: str) -> EngineLoading:
    """Return the error while the model `name` ("": unknown) has no engine that is ready, with the loaded percentage.

    Before that is known, with the reason why it cannot be loaded yet, if there is one.
    """
    state = _waiting_word(status)
    percent, named = status["percent"], {"model": name} if name else {}
    if status["state"] != "starting" or percent is None:
        waits = status["state"] == "starting" and status["message"] not in ("", LOADING)
        text = f"Loading model: {status['message']}" if waits else "Loading model"
        return EngineLoading(text, engine=state, **named)
    return EngineLoading(f"Loading model, {percent} %", engine=state, percent=percent, **named)


def _hung_error(status: dict[str, Any]) -> EngineHung | None:
    if status["state"] != "hung":
        return None
    return EngineHung(f"The engine is hung: {status['message']}", engine="hung")


def _text_deadline(parts: Sequence[str | int]) -> float:
    """Return the seconds in which the engine reads a text: its strings and, at some characters each, its token ids."""
    texts = (part for batch in batches(parts) if set(map(type, batch)) != {int} for part in batch if type(part) is str)
    size = sum(map(len, texts)) + _CHARACTERS_OF_AN_ID * len(parts)
    return ASK_DEADLINE + TEXT_SECONDS * size / 2**20
