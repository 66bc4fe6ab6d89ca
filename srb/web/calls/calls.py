"""Calls: the HTTP calls of this worker while they wait for the engine, and the greenlet that watches their clients.

A disconnected client is noticed within a second, whether its request is queued, in prefill, streaming or gathered for one
answer. A client counts as disconnected when it has closed its socket, or its sending side; and when it acknowledges nothing
for client_timeout, since its machine or network is gone.
"""

import contextlib
import logging
import socket
import time
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

import gevent
import orjson
from prometheus_client import Gauge

from srb.config.settings import Settings
from srb.errors import Cancelled, ShuttingDown, SRBError
from srb.web.calls.answer_size import check_completions, check_echo
from srb.web.calls.client_watch import ClientWatch
from srb.web.calls.engine_client import WORK_DEADLINE, Asker, EngineClient
from srb.web.calls.mailbox import Mailbox
from srb.web.foreign_pages import OWNER, refuse_page
from srb.web.limits import CLIENT, NO_KEY, SENT_KEY, OpenLimit, cap_max_tokens
from srb.web.request_log import BEGAN, CallLine, ReaderLine, Work
from srb.web.usage import Usage
from srb.wire.commands import KEY, PAGE, Embed, Generate, Rerank
from srb.wire.events import Done

log = logging.getLogger("srb.web")

CALL = "srb.call"  # key of a WSGI environ: its Call
TRACEPARENT = "srb.traceparent"  # … the traceparent of its span, where there are traces
LOADS_NONE = "srb.loads_none"  # … set where no model shall be loaded for its request
_COUNTED = "srb.counted"  # … and OpenLimit's id of a call that counts already, while it waits for a model
SEND_BUFFER = 65536  # bytes that the system may hold for a client: with megabytes a slow reader is noticed too late
_ENDED_POLL = 0.01  # seconds between two looks whether the last call has ended: Ctrl-C should seem immediate
SCAN_INTERVAL = 0.5  # seconds that the detection takes at most, for which branches compute in vain


class Call:
    """One HTTP call with its commands and mailbox; `close()` releases whatever it still holds.

    A `with` block closes the call at the block's end, unless a stream has taken it over and closes it later.
    """

    def __init__(
        self,
        registry: "Calls",
        client: EngineClient,
        commands: Sequence[Generate | Embed | Rerank],
        environ: MutableMapping[str, Any],
        counted: bytes | None = None,
    ) -> None:
        """Keep `counted`, OpenLimit's id of this call, until the call is closed."""
        self.request_ids = tuple(command.request_id for command in commands)
        self.commands = tuple(command for command in commands if isinstance(command, Generate))
        self.counted = counted
        self.mailbox, self._has_mailbox = Mailbox(()), False
        self._registry = registry
        self._client = client
        self._at_close: list[Callable[[], None]] = []
        self._socket = environ.get("gunicorn.socket")
        self._line: CallLine | ReaderLine | None = None
        if self.commands:
            self._began = environ.get(BEGAN, time.monotonic())
            self._line = CallLine(environ, self.commands, prompts=registry.settings.log_prompts)
        self._caller = environ.get(CLIENT, "")
        self._may_load = LOADS_NONE not in environ and not str(environ.get(OWNER, "")).startswith(PAGE)
        self._taken_over = False
        self._client_left = False
        self._abandoned_for: SRBError | None = None
        self._closed = False
        environ[CALL] = self

    def __repr__(self) -> str:
        return f"<Call {', '.join(self.request_ids)} {'closed' if self._closed else 'open'}: {self.mailbox!r}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._taken_over or error is not None:
            self.close()

    def take_over(self) -> None:
        """Leave the call open at the end of the `with` block; the caller closes it."""
        self._taken_over = True

    @property
    def max_answer_bytes(self) -> int:
        return self._registry.settings.max_answer_bytes

    def embed(self, texts: Sequence[str]) -> list[list[float]] | None:
        """Return an embedding of each text; None if the server has no model for it that is at hand.

        A page of another origin loads none, nor does a request of low priority or with `autoload=false`.
        """
        return self._registry.embed(texts, self._may_load)

    def show(self, n: int) -> None:
        """Let `commands` have as many branches as the answer: `n` of each request, which are chosen when all have ended."""
        self.commands = tuple(replace(command, branches=command.branches[:n]) for command in self.commands)

    def receive(self, mailbox: Mailbox) -> None:
        """Set the mailbox of the call's events; if the call was abandoned before, end it now."""
        self.mailbox, self._has_mailbox = mailbox, True
        if self._abandoned_for is not None:
            self.abandon(self._abandoned_for)

    def read(self, target: str, mailbox: Mailbox, environ: MutableMapping[str, Any]) -> None:
        """Read a request of another call."""
        self.request_ids = (target,)
        self._line = ReaderLine(environ, target)
        self.receive(mailbox)

    def abandon(self, reason: SRBError) -> None:
        """Leave the requests that have not ended, which cancels them or lets them linger; the mailbox gets `reason`."""
        self._abandoned_for = reason
        for request_id in self.request_ids:
            self._client.abandon(request_id, reason, self.mailbox if self._has_mailbox else None)

    def leave_resting(self, done: Done) -> None:
        """Leave a request that rests, as if it had ended; a short rest may be over before it was read."""
        if any(event.request_id == done.request_id for event in self.mailbox.ended):
            return  # or it would have ended twice, and the reader would wait for ever
        self._client.leave(done.request_id, self.mailbox)
        self.mailbox.put(done)

    def lose_client(self) -> None:
        """Cancel the call of a disconnected client; if called again, shut its connection down, since a write may block."""
        if self._client_left:
            _shut(self._socket, socket.SHUT_RDWR)
        self._client_left = True
        self.abandon(Cancelled("The client has disconnected"))

    def write_timed_out(self, since: float) -> bool:
        """Whether a write that began at `since`, on time.monotonic()'s clock, has taken client_timeout or longer."""
        return time.monotonic() - since >= self._registry.settings.client_timeout

    def close(self, reason: SRBError | None = None) -> None:
        """Cancel the requests that have not ended, leave the registry and log the call's line; idempotent."""
        if self._closed:
            return
        self._closed = True
        self._registry.forget(self)
        self.abandon(reason or Cancelled("The response was closed"))
        if self._socket is not None and self._registry.closing:
            _shut(self._socket, socket.SHUT_RD)  # the worker is stopping: it receives no further request on it
        for release in self._at_close:
            release()
        if self._line is not None:
            self._line.write(self.mailbox)
        if self.commands:
            self._registry.observe(self.mailbox, self._began)
            if self._registry.usage is not None and self.mailbox.prompt_tokens:  # the engine has accepted it
                self._registry.usage.note(self._caller, Work.of(self.mailbox))
        self._registry.give_back(self)

    def at_close(self, release: Callable[[], None]) -> None:
        """Call `release` when this call is closed, or now if it is."""
        if self._closed:
            release()
        else:
            self._at_close.append(release)


class Waiting(Protocol):
    """A caller that waits for something else than an engine, such as the loading of a model."""

    def lose_client(self) -> None: ...
    def abandon(self, reason: SRBError) -> None: ...
    def __hash__(self) -> int: ...


class _Question:
    """A command that is asked for one client; it ends when the client leaves, or the worker stops."""

    def __init__(self, client: EngineClient, request_id: str) -> None:
        self._client = client
        self._request_id = request_id

    def lose_client(self) -> None:
        self.abandon(Cancelled("The client has disconnected"))

    def abandon(self, reason: SRBError) -> None:
        self._client.abandon(self._request_id, reason)


class Calls:
    """The registry of open calls: opens calls, watches their clients, and ends calls when the worker stops."""

    def __init__(
        self,
        client_of_call: Callable[[], EngineClient],
        settings: Settings,
        gauge: Gauge | None = None,
        folder: Path | None = None,
        observe: Callable[[Mailbox, float], None] = lambda mailbox, began: None,
        embed: Callable[[Sequence[str], bool], list[list[float]] | None] = lambda texts, may_load: None,
        usage: Usage | None = None,
    ) -> None:
        """Submit each call to the engine of `client_of_call`, which may wait for it.

        Show the number of open calls in `gauge`; all workers with the same `folder` count a client's calls together.
        Call `observe` with the mailbox of each call that generated, and its beginning, at its end; count its tokens in
        `usage`, and refuse calls of keys whose budgets are spent.
        """
        self._client_of_call = client_of_call
        self.settings = settings
        self._gauge = gauge
        self.observe, self.embed, self.usage = observe, embed, usage
        self._limit = OpenLimit(settings.max_client_requests, folder)
        self._open: set[Call] = set()
        self._waits: set[Waiting] = set()
        self._listeners: set[Waiting] = set()  # those that have no end of their own
        self._clients: ClientWatch[Call | Waiting] = ClientWatch()
        self._watchdog: Any = None
        self.closing = False  # connections end with their call
        self._closed = False

    def __len__(self) -> int:
        return len(self._open)

    def __repr__(self) -> str:
        return f"<Calls {len(self)} open{', closing' if self.closing else ''}>"

    def open(self, commands: Sequence[Generate], environ: MutableMapping[str, Any], *, streamed: bool) -> Call:
        """Submit the commands of one call, and return it once the engine has accepted them; use it in a `with` block.

        Raise the engine's refusal, InvalidRequest, RateLimited or AnswerTooLarge beyond the limits of a client or an
        answer, or ShuttingDown after the grace of `shut_down`.
        """
        commands = cap_max_tokens(commands, self.settings.max_request_tokens)
        if any(command.state for command in commands):  # named states are everybody's
            refuse_page("state")
        client = self.client  # before the call is counted: it may wait for a model
        key = environ.get(SENT_KEY, NO_KEY)
        own = {
            "owner": environ.get(OWNER, ""),
            "weight": key.weight,
            "max_unread": self._limit.of(key),
            "max_lingering": self.settings.max_client_lingering,
            "traceparent": environ.get(TRACEPARENT, ""),
        }
        salts = [self._salt(command.cache_salt, own["owner"]) for command in commands]
        commands = [replace(command, **own, cache_salt=salt) for command, salt in zip(commands, salts, strict=True)]
        call = self._admit(commands, environ)
        try:
            if not streamed:
                check_completions(commands, client.check_ready().n_ctx_seq, self.settings.max_answer_bytes)
            call.receive(client.submit(*commands, streamed=streamed))
            check_echo(commands, call.mailbox.prompt_tokens, self.settings.max_answer_bytes)
        except BaseException:
            call.close()
            raise
        return call

    def _salt(self, given: str, owner: str) -> str:
        """Return the salt of a request: a digest of its own and, with `cache_apart`, its key's name; "" without any."""
        key = owner if self.settings.cache_apart and owner.startswith(KEY) else ""
        return blake2b(orjson.dumps([key, given]), digest_size=16).hexdigest() if key or given else ""

    def attach(self, target: str, environ: MutableMapping[str, Any]) -> Call:
        """Return a call that reads a running request from now on, use it in a `with` block; its mailbox has a snapshot.

        It counts as an open request, as the one that made the request did. Raise NotFound, or the errors of `open`.
        """
        call = self._admit([], environ)
        try:
            call.read(target, self.client.attach(target, self.controller(environ)), environ)
        except BaseException:
            call.close()
            raise
        return call

    def controller(self, environ: MutableMapping[str, Any]) -> str:
        """Return the owner whose requests the client may control; "" without keys: whoever knows a request's id may."""
        owner: str = environ.get(OWNER, "")
        return owner if owner.startswith((KEY, PAGE)) else ""

    def ask(self, command: Embed | Rerank, environ: MutableMapping[str, Any]) -> Any:
        """Return the value of the engine's reply to a command that computes; raise the errors of `open`."""
        with self._admit([command], environ) as call:
            call.receive(self.client.post(replace(command, traceparent=environ.get(TRACEPARENT, ""))))
            found = call.mailbox.wait_reply(WORK_DEADLINE)
            if self.usage is not None:
                tokens = sum(found["tokens"])
                self.usage.note(environ.get(CLIENT, ""), Work(prompt=tokens, computed=tokens))
            return found

    def _admit(self, commands: Sequence[Generate | Embed | Rerank], environ: MutableMapping[str, Any]) -> Call:
        """Register a call, count it and watch its client; nothing is sent yet."""
        client = self.client  # before the call counts, as in `open`
        if self.usage is not None and commands:  # readers of a request that runs use nothing themselves
            self.usage.check(environ.get(CLIENT, ""), environ.get(SENT_KEY, NO_KEY))
        self.count(environ)
        if self._closed:  # perhaps while the count waited for a disk
            self.uncount(environ)
            raise ShuttingDown("The server is shutting down")
        call = Call(self, client, commands, environ, environ.pop(_COUNTED, None))
        self._open.add(call)
        try:
            self._update_gauge()
            if (sock := environ.get("gunicorn.socket")) is not None:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
                self._watch(call, sock)
        except BaseException:
            call.close()
            raise
        return call

    def count(self, environ: MutableMapping[str, Any]) -> None:
        """Count a call that is to wait, until `uncount`, or its end once it is open. Raise RateLimited."""
        if _COUNTED not in environ:
            environ[_COUNTED] = self._limit.take(environ.get(CLIENT, ""), environ.get(SENT_KEY, NO_KEY))

    def uncount(self, environ: MutableMapping[str, Any]) -> None:
        """Stop counting a call that has waited and was not opened; may be called for every call."""
        if (counted := environ.pop(_COUNTED, None)) is not None:
            self._limit.give_back(counted)

    @contextlib.contextmanager
    def watching(self, waiting: Waiting, environ: MutableMapping[str, Any]) -> Iterator[None]:
        """Within the block, tell `waiting` when the client of this HTTP call leaves, or the worker stops.

        Raise ShuttingDown if it has stopped.
        """
        if self._closed:
            raise ShuttingDown("The server is shutting down")
        self._waits.add(waiting)
        try:
            if (sock := environ.get("gunicorn.socket")) is not None:
                self._watch(waiting, sock)
            yield
        finally:
            self._waits.discard(waiting)
            self._clients.remove(waiting)

    def asker(self, environ: MutableMapping[str, Any]) -> Asker:
        """Return the client of this HTTP call, whose text is tokenized no further when it leaves."""
        owner = environ.get(CLIENT, "")
        return Asker(owner, lambda client, request_id: self.watching(_Question(client, request_id), environ))

    @contextlib.contextmanager
    def listening(self, listener: Waiting, environ: MutableMapping[str, Any]) -> Iterator[None]:
        """Within the block, count a stream that needs no engine and has no end; tell `listener` as `watching` does.

        It is told as soon as the worker begins to stop. Raise RateLimited, or ShuttingDown from then on.
        """
        if self.closing:
            raise ShuttingDown("The server is shutting down")
        self.count(environ)
        counted = environ.pop(_COUNTED, None)
        self._listeners.add(listener)
        try:
            with self.watching(listener, environ):
                yield
        finally:
            self._listeners.discard(listener)
            if counted is not None:
                self._limit.give_back(counted)

    @property
    def client(self) -> EngineClient:
        """The client of the engine for the present call. Raise the reasons why there is none."""
        return self._client_of_call()

    def forget(self, call: Call) -> None:
        self._open.discard(call)
        self._clients.remove(call)
        self._update_gauge()

    def give_back(self, call: Call) -> None:
        """Stop counting a call that has been forgotten; may wait for a disk."""
        if call.counted is not None:
            self._limit.give_back(call.counted)

    def _update_gauge(self) -> None:
        if self._gauge is not None:
            self._gauge.set(len(self))

    def shut_down(self, grace: float | None = None) -> None:
        """After `grace` seconds (default: graceful_timeout) end the open calls with `shutting_down` and refuse others.

        Until then, calls on open connections are answered, since no other worker can answer them. The WSGI server waits a
        little longer, so that the end still reaches the clients. May be called from a signal handler, and again with a
        shorter grace.
        """
        self.closing = True
        gevent.spawn(self._end_listeners)
        if grace is None:
            grace = self.settings.graceful_timeout
        gevent.spawn_later(grace, self._end_all)

    def wait_ended(self, seconds: float) -> None:
        """After `shut_down`, wait until no call is open any more, at most `seconds`."""
        with gevent.Timeout(seconds, False):
            while self._open or self._waits:
                gevent.sleep(_ENDED_POLL)

    def _end_listeners(self) -> None:
        for listener in list(self._listeners):
            listener.abandon(ShuttingDown("The server is shutting down"))

    def _end_all(self) -> None:
        self._closed = True
        for call in [*self._open, *self._waits]:
            call.abandon(ShuttingDown("The server is shutting down"))

    def _watch(self, call: Call | Waiting, sock: Any) -> None:
        self._clients.add(sock, call, may_be_shut=self.closing)
        if self._watchdog is None or self._watchdog.dead:
            self._watchdog = gevent.spawn(self._scan_while_open)

    def _scan_while_open(self) -> None:
        while self._clients:
            gevent.sleep(SCAN_INTERVAL)
            for call in {*self._clients.left(), *self._clients.vanished(self.settings.client_timeout)}:
                call.lose_client()


def _shut(sock: Any, how: int) -> None:
    """Shut a connection down below TLS and below gevent's socket, which raises while a greenlet waits for it."""
    try:
        getattr(sock, "_sock", sock).shutdown(how)
    except OSError:
        pass  # the client has closed it already
