"""The engine of each request: the model that it names, held from the first use of its engine until its answer's end.

Every route of every dialect asks `Web.client` for its engine; with several models that is `ModelChoice.client`, the one
place where a name becomes a model.
"""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

from flask import g, request

from srb.config.settings import Settings
from srb.errors import EngineLoading, InvalidRequest, ModelLoadFailed, NotFound, SRBError, Unavailable, bad_field
from srb.models.control import ModelState
from srb.web.access import PUBLIC
from srb.web.bodies.completion import named_model
from srb.web.calls.calls import CALL, LOADS_NONE, Calls
from srb.web.calls.engine_client import WORK_DEADLINE, EngineClient
from srb.web.foreign_pages import refuse_page
from srb.web.models.client import ModelLease, ModelsClient
from srb.web.request_log import MODEL
from srb.wire.commands import Embed, GetRequest
from srb.wire.events import ModelInfo

log = logging.getLogger("srb.web")

_ENGINE, _HOLD, _SETTINGS = "srb_engine", "srb_hold", "srb_settings"  # names in flask.g
_METRICS_SECONDS = 1.0  # that numbers wait for the supervisor: a scrape has ten, and is answered without it otherwise
_EMBED_SECONDS = 20.0  # that a choice waits for its model: to load a small one takes a second or two
_NAMED = ("ollama", "ollama_server")  # blueprints whose bodies may have `name` in the place of `model`


class ModelChoice:
    """The choice of a worker's requests among several models."""

    def __init__(self, settings: Settings, models: ModelsClient) -> None:
        self._settings = settings
        self.models = models

    def client(self, calls: Calls) -> EngineClient:
        """Return the client of the present request's engine; wait until its model is loaded.

        A request that names no model means the default. One that reads (GET) loads nothing without a name, nor where
        no key is needed: it gets the default, or else a model that is loaded. A control of a running request gets the
        engine that runs it.
        """
        if (chosen := g.get(_ENGINE)) is None:
            chosen = self._choose(calls)
            setattr(g, _ENGINE, chosen)
        client: EngineClient = chosen
        return client

    def settings(self) -> Settings:
        """Return the settings of the present request: the server's, with those that its model has for itself.

        Nothing is loaded for it. A control of a running request gets the server's, and so does one that reads (GET) while
        the models are not known. Raise ModelNotFound.
        """
        if not self._settings.models.lstrip().startswith("["):
            return self._settings  # no model has any that matters here
        if (known := g.get(_SETTINGS)) is None:
            known = self._settings_of_request()
            setattr(g, _SETTINGS, known)
        found: Settings = known
        return found

    def _settings_of_request(self) -> Settings:
        if (request.view_args or {}).get("request_id") is not None:
            return self._settings
        if request.method not in ("GET", "HEAD"):
            return self.models.settings(self.models.resolve(self.given()))
        if not self.models.states:
            return self._settings
        if request.args.get("model") and request.path not in PUBLIC:
            return self.models.settings(self.models.resolve(self.given()))
        names = self.models.loaded()
        return self.models.settings(names[0] if names else self.models.default)

    def _choose(self, calls: Calls) -> EngineClient:
        if (request_id := (request.view_args or {}).get("request_id")) is not None:
            return self._running(request_id, calls)
        given = self.given()
        if request.method in ("GET", "HEAD") and (not given or request.path in PUBLIC):
            return self.present()
        name = self.models.resolve(given)
        may_load, comes_last = self.may_load, self._comes_last()
        if self.models.states[name].state != "loaded" and not may_load:
            raise InvalidRequest(f"model is not loaded: {name}; load it with POST /models/load", param="model")
        request.environ[MODEL] = name
        if comes_last or not may_load:
            request.environ[LOADS_NONE] = True
        if comes_last:
            if self.models.states[name].state != "loaded":
                raise InvalidRequest(
                    f"model is not loaded: {name}; a request of low priority loads none", param="model"
                )
            return self.models.connected(name)  # it holds no model: one that gives way ends it
        if self.models.states[name].state != "loaded":
            refuse_page("model")  # loading it ends another
            calls.count(request.environ)
        hold = self.models.hold(name)
        setattr(g, _HOLD, hold)
        with calls.watching(hold, request.environ):
            hold.wait(self._settings.queue_timeout or None)
        return self.models.connected(name)

    def given(self) -> str:
        """Return the model that the request names, in the query or the body; "" if none. Raise InvalidRequest."""
        named: Any = request.args.get("model")
        if named is None and request.method not in ("GET", "HEAD"):
            fields = named_model(request)
            named = fields.get("model")
            if named is None and request.blueprint in _NAMED:
                named = fields.get("name")
        if named is not None and not isinstance(named, str):
            raise bad_field("model", "should be a string")
        return named or ""

    def _comes_last(self) -> bool:
        priority = named_model(request).get("priority") if request.method == "POST" else None
        return isinstance(priority, int) and priority > 0

    @property
    def may_load(self) -> bool:
        """Whether a model may be loaded for the present request, as far as it says so itself."""
        asked = request.args.get("autoload")
        return asked is None or asked.lower() in ("1", "true", "on")

    def present(self) -> EngineClient:
        """Return the client of the default model, or of another that is loaded. Raise the reason why none is."""
        if names := self.models.loaded():
            return self.models.client(names[0])
        failed = [each for each in self.models.states.values() if each.state == "failed"]
        if failed and not any(each.state == "loading" for each in self.models.states.values()):
            default = self.models.states[self.models.default]
            if default in failed:
                raise ModelLoadFailed(default.reason, engine="failed", models=list(self.models.states))
        client = self.models.client(self.models.default)
        if self.models.states[self.models.default].state == "loading":
            client.check_ready()
        raise EngineLoading("No model is loaded; a request that names one loads it", engine="loading")

    @property
    def rests(self) -> bool:
        """Whether no model is loaded, loading or failed: a request that names one loads it."""
        return not self.models.loaded() and all(
            each.state in ("unloaded", "ending") for each in self.models.states.values()
        )

    def look(self) -> list[ModelState]:
        """Return the states of all models, after a look at their folder."""
        self.models.look()
        return list(self.models.states.values())

    def seen(self) -> tuple[list[ModelState], bool]:
        """Return the states of all models as far as they are known, and whether the supervisor answers."""
        try:
            self.models.look(_METRICS_SECONDS)
        except Unavailable:
            return list(self.models.states.values()), False
        return list(self.models.states.values()), True

    def described(self) -> tuple[ModelState, ModelInfo | None]:
        """Return the state of the model that the query names, else of the default, and its facts, None if they are unknown.

        Nothing is loaded for it. Raise ModelNotFound, EngineLoading while it is loading, or why it cannot be loaded.
        """
        state = self.models.states[self.models.resolve(self.given())]
        client = self.models.client(state.name)
        if state.state == "failed":
            raise ModelLoadFailed(state.reason, engine="failed", models=list(self.models.states))
        if state.state == "loading" or (state.state in ("loaded", "draining") and not client.is_connected):
            client.check_ready()
        return state, client.model

    def facts(self, name: str) -> ModelInfo | None:
        """Return what this worker knows of a model; None if it was not loaded since the worker started."""
        return self.models.client(name).model

    def shown(self) -> EngineClient:
        """Return the client of the model that the query names, else of one that is loaded, else of the default."""
        named = request.args.get("model", "")
        names = [] if named else self.models.loaded()
        return self.models.client(names[0] if names else self.models.resolve(named))

    def engines(self) -> list[EngineClient]:
        """Return the clients of all engines that have requests, also of one that ends when they have ended."""
        ending = [name for name, each in self.models.states.items() if each.state == "ending"]
        clients = [self.models.client(name) for name in [*self.models.loaded(), *ending]]
        return [client for client in clients if client.is_connected]

    def _running(self, request_id: str, calls: Calls) -> EngineClient:
        """Return the client of the engine that has a request."""
        engines = self.engines()
        if not engines:
            raise NotFound("No such request: no model is loaded")
        silent: Unavailable | None = None
        for client in engines[1:]:
            try:
                client.ask(GetRequest(uuid4().hex, request_id, calls.controller(request.environ)))
                return client
            except NotFound:
                continue
            except Unavailable as error:
                silent = error
        if silent is not None:  # the request may be one of that engine
            try:
                engines[0].ask(GetRequest(uuid4().hex, request_id, calls.controller(request.environ)))
            except NotFound:
                raise silent from None
        return engines[0]

    def embedder(self, may_load: bool) -> str | None:
        """Return the name of the first model with the setting `embedding`.

        None without one, and where it is not loaded and may not be, or would have to take the place of another model.
        """
        name = next((name for name, each in self.models.states.items() if each.own.get("embedding")), None)
        if name is None or self.models.states[name].state == "loaded":
            return name
        engines = sum(each.state not in ("unloaded", "failed") for each in self.models.states.values())
        return name if may_load and engines < self._settings.max_engines else None

    def embed(self, texts: Sequence[str], may_load: bool) -> list[list[float]] | None:
        """Return an embedding of each text; None where no model for it is at hand. A text that is too long loses its end."""
        name = self.embedder(may_load)
        if name is None or not texts:
            return None
        inputs = tuple((text or " ",) for text in texts)
        try:
            hold = self.models.hold(name)
            try:
                hold.wait(_EMBED_SECONDS)
                found = self.models.connected(name).ask(Embed(uuid4().hex, inputs, truncate=True), WORK_DEADLINE)
            finally:
                hold.release()
        except SRBError as error:
            log.warning("texts are compared by their words, since the model %s does not embed them: %s", name, error)
            return None
        return [vectors[0] for vectors in found["embeddings"]]

    def release(self, calls: Calls) -> None:
        """Release the present request's hold at the end of its view; while its answer is streamed, at the call's end."""
        calls.uncount(request.environ)
        hold: ModelLease | None = g.pop(_HOLD, None)
        if hold is None:
            return
        if (call := request.environ.get(CALL)) is not None:
            call.at_close(hold.release)
        else:
            hold.release()


def word(state: ModelState) -> str:
    """Return llama-server's word for a model's state: unloaded, loading or loaded."""
    return {"failed": "unloaded", "draining": "loaded", "ending": "loaded"}.get(state.state, state.state)


def model_path(state: ModelState) -> Path:
    """Return the file of a model."""
    return Path(state.model)
