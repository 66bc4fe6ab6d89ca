"""ModelsClient: the worker's end of the supervisor's socket with several models, and an EngineClient for each of them.

It mirrors the models' states. A call's wish is a `ModelLease`, from the wait until the call's end.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import gevent
import gevent.event
import gevent.queue
import gevent.socket

from srb.config.settings import Settings
from srb.errors import (
    Cancelled,
    EngineLoading,
    EngineRestarted,
    ForeignEngine,
    ModelNotFound,
    ProtocolError,
    SRBError,
    Unavailable,
    from_code,
)
from srb.models import control
from srb.models.listed import ListedModel, resolve
from srb.web.calls.engine_client import PAUSE, Connection, EngineClient

log = logging.getLogger("srb.client")

_FIRST_LOOK = 1.0  # seconds that a call waits for the supervisor, which begins with the server
_ANSWER_SECONDS = 5.0  # for commands that the supervisor answers between two looks at its engines
_CONNECT_SECONDS = 10.0  # from a model's Granted to the connection with its engine, which listens by then
Watcher = Callable[
    [Mapping[str, control.ModelState], Mapping[str, control.ModelState]], None
]  # of the states before and after

_WITH_ENGINE = ("loading", "loaded", "draining")


class ModelLease:
    """One call's wish for a model, and later its hold on it; `release` may be called again."""

    def __init__(self, models: "ModelsClient", name: str) -> None:
        self.id = uuid4().hex
        self.name = name
        self._models = models
        self._answer: Any = gevent.event.AsyncResult()
        self._released = False

    def __repr__(self) -> str:
        return f"<ModelLease of {self.name}{', released' if self._released else ''}>"

    def wait(self, seconds: float | None) -> None:
        """Wait until the model is loaded and held. Raise EngineLoading after `seconds`, or the reason of a refusal."""
        try:
            answer = self._answer.get(timeout=seconds)
        except gevent.Timeout:
            answer = EngineLoading(f"Loading model {self.name}", engine="loading", model=self.name)
        if isinstance(answer, SRBError):
            self.release()
            raise answer

    def settle(self, answer: SRBError | None) -> None:
        """End the wait: with an error, or None if the model is held."""
        if not self._answer.ready():
            self._answer.set(answer)

    def abandon(self, reason: SRBError) -> None:
        self.settle(reason)

    def lose_client(self) -> None:
        self.settle(Cancelled("The client has disconnected"))

    def release(self) -> None:
        if not self._released:
            self._released = True
            self._models.release(self)


class ModelsClient:
    """Sends wishes and commands to the supervisor, and keeps the clients of the engines that run."""

    def __init__(self, settings: Settings, server_id: str = "") -> None:
        """Connect only to the supervisor of the server with this `server_id`; empty: to any."""
        self._settings = settings
        self._server_id = server_id
        self._path = settings.runtime_path / control.CONTROL_SOCKET
        self._clients: dict[str, EngineClient] = {}
        # The settings of each model, after what they are made of.
        self._own: dict[str, tuple[tuple[str, dict[str, Any]], Settings]] = {}
        self._holds: dict[str, ModelLease] = {}
        self._answers: dict[str, Any] = {}  # AsyncResults of Load, Unload and Look
        self._watchers: set[Watcher] = set()
        self._connection: Connection | None = None  # set while connected to this server's supervisor
        self._known = gevent.event.Event()  # set while connected
        self._keeper: Any = None
        self._is_foreign = False
        self.default = ""
        self.states: dict[str, control.ModelState] = {}  # in the order of the list; {} before the first connection
        self._names: dict[str, str] = {}  # of the models' names and aliases: the models' names

    def __repr__(self) -> str:
        return f"<ModelsClient of {len(self.states)} models, {len(self._holds)} held>"

    def start(self) -> None:
        """Begin to connect, unless that has begun."""
        if self._keeper is None:
            self._keeper = gevent.spawn(self._keep_connected)

    def resolve(self, given: str) -> str:
        """Return the name of the model that a request means, empty: the default; a new file in a folder is found.

        Raise ModelNotFound, or Unavailable without a supervisor.
        """
        self._check_known()
        if not given:
            return self.default
        name = resolve(given, self._names)
        if name is None:
            self.look()
            name = resolve(given, self._names)
        if name is None:
            raise ModelNotFound(
                f"The model '{given}' does not exist; there are {', '.join(self.states)}", models=list(self.states)
            )
        return self._names[name]

    def loaded(self) -> list[str]:
        """Return the models whose engines serve requests, the default first."""
        self._check_known()
        names = [name for name, each in self.states.items() if each.state in ("loaded", "draining")]
        return sorted(names, key=lambda name: name != self.default)

    def client(self, name: str) -> EngineClient:
        """Return the client of a model's engine, which may not run."""
        if name not in self._clients:
            self._clients[name] = EngineClient(self.settings(name), self._server_id)
        return self._clients[name]

    def settings(self, name: str) -> Settings:
        """Return the settings of a model: the server's, with those that the model has for itself."""
        state = self.states[name]
        known = self._own.get(name)
        if known is None or known[0] != (state.model, state.own):
            listed = ListedModel(name, state.model, state.own)
            known = self._own[name] = (state.model, state.own), listed.settings(self._settings)
        return known[1]

    def hold(self, name: str) -> ModelLease:
        """Wish for a model, and hold it when it is loaded until the hold is released; wait for it with `ModelLease.wait`."""
        self._check_known()
        hold = ModelLease(self, name)
        self._holds[hold.id] = hold
        self._send(control.Want(hold.id, name))
        return hold

    def connected(self, name: str) -> EngineClient:
        """Return the client of a model that is held, connected to its engine."""
        client = self.client(name)
        if not client.wait_connected(_CONNECT_SECONDS):
            client.check_ready()
        return client

    def release(self, hold: ModelLease) -> None:
        if self._holds.pop(hold.id, None) is not None:
            self._send(control.Leave(hold.id))

    def look(self, seconds: float = _ANSWER_SECONDS) -> None:
        """Have the folder of models read again, and the numbers of calls renewed; wait at most `seconds` for the answer."""
        self._ask(control.Look(uuid4().hex), seconds)

    def load(self, name: str) -> None:
        """Have a model loaded in its turn. Raise InvalidRequest if it is already."""
        self._ask(control.Load(uuid4().hex, name))

    def unload(self, name: str) -> None:
        """Have a model unloaded when its requests have ended. Raise InvalidRequest if it is not loaded."""
        self._ask(control.Unload(uuid4().hex, name))

    @contextmanager
    def watched(self, watcher: Watcher) -> Iterator[None]:
        """Within the block, tell `watcher` the states before and after each change. Raise EngineLoading if none is known."""
        self._check_known()
        self._watchers.add(watcher)
        try:
            yield
        finally:
            self._watchers.discard(watcher)

    def wait_settled(self) -> None:
        """Wait until the models' states are known, and every engine that runs is connected to."""
        self.start()
        self._known.wait()
        for name in self.loaded():
            self.client(name).wait_settled()

    # The connection -------------------------------------------------------------------------------------------------

    def _check_known(self) -> None:
        self.start()
        if not self._known.wait(_FIRST_LOOK):
            if self._is_foreign:
                raise ForeignEngine(
                    f"{self._settings.runtime_path} belongs to another server; set runtime_dir to another folder"
                )
            raise EngineLoading("The models' supervisor is starting", engine="loading")

    def _ask(self, command: control.Load | control.Unload | control.Look, seconds: float = _ANSWER_SECONDS) -> None:
        self._check_known()
        result = self._answers[command.id] = gevent.event.AsyncResult()
        try:
            self._send(command)
            answer = result.get(timeout=seconds)
        except gevent.Timeout:
            raise Unavailable("The models' supervisor does not answer") from None
        finally:
            self._answers.pop(command.id, None)
        if isinstance(answer, SRBError):
            raise answer

    def _send(self, command: control.Command) -> None:
        if self._connection is not None:
            self._connection.send(control.encode(command))

    def _keep_connected(self) -> None:
        while True:
            try:
                connection = Connection(str(self._path))
            except OSError:
                pass
            else:
                self._serve(connection)
            gevent.sleep(PAUSE)

    def _serve(self, connection: Connection) -> None:
        try:
            while self._deliver(control.decode_event(connection.receive()), connection):
                pass
        except ProtocolError as error:
            log.error("closing the connection with the models' supervisor: %s", error.message)
        except (EOFError, OSError) as error:
            log.info("the connection with the models' supervisor has ended: %s", error)
        except Exception:
            log.exception("closing the connection with the models' supervisor")
        finally:
            self._connection = None
            self._known.clear()
            connection.close()
            self._fail_all()

    def _deliver(
        self, event: control.Granted | control.Done | control.Refused | control.Models, connection: Connection
    ) -> bool:
        """Note one message; return whether the supervisor is this server's."""
        match event:
            case control.Models():
                was_foreign, self._is_foreign = self._is_foreign, self._server_id not in ("", event.server_id)
                if self._is_foreign:
                    if not was_foreign:
                        log.error("the supervisor in %s belongs to another server", self._settings.runtime_path)
                    return False
                self._mirror(event)
                self._connection = connection
                self._known.set()
            case control.Granted(id_):
                if (hold := self._holds.get(id_)) is not None:
                    hold.settle(None)
            case control.Done(id_):
                if (result := self._answers.get(id_)) is not None:
                    result.set(None)
            case control.Refused(id_, code, message):
                error = from_code(code, message)
                if (hold := self._holds.pop(id_, None)) is not None:
                    hold.settle(error)
                if (result := self._answers.get(id_)) is not None:
                    result.set(error)
        return True

    def _mirror(self, event: control.Models) -> None:
        """Note the models' states; connect to the engines that run or start, and to no others."""
        try:
            states = [control.ModelState(**each) for each in event.models]
        except TypeError as error:
            raise ProtocolError(f"malformed states of models: {error}") from None
        self.default, before = event.default, self.states
        self.states = {each.name: each for each in states}
        self._names = {name: name for name in self.states}
        for each in states:
            for alias in ListedModel(each.name, each.model, each.own).names:
                self._names.setdefault(alias, each.name)
        for name, each in self.states.items():
            if each.state in _WITH_ENGINE:
                self.client(name).start()
        for name, client in self._clients.items():
            state = self.states.get(name)
            if state is None or state.state not in (*_WITH_ENGINE, "ending"):
                client.stop()
        for watcher in list(self._watchers):
            watcher(before, self.states)

    def _fail_all(self) -> None:
        holds, self._holds = self._holds, {}
        for settle in [*(hold.settle for hold in holds.values()), *(each.set for each in self._answers.values())]:
            _settle(settle)


def _settle(settle: Callable[[SRBError], None]) -> None:
    settle(EngineRestarted("The models' supervisor was restarted; please try again"))
