"""Routes of models: lists, one model, and with several models their loading and unloading, as llama-server's router has."""

import time
from collections.abc import Iterable, Mapping, MutableMapping
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Any

import gevent.queue
import orjson
from flask import Blueprint, Response, request
from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from srb.config.settings import Settings
from srb.errors import ModelNotFound, NotFound, NotSupported, SRBError
from srb.models.control import ModelState
from srb.web.answers import JSONObject
from srb.web.bodies.completion import read_body
from srb.web.bodies.sampling import validated
from srb.web.calls.calls import Calls
from srb.web.calls.streaming import HEADERS, PING
from srb.web.context import web
from srb.web.models.choice import ModelChoice, model_path, word
from srb.web.models.client import ModelsClient
from srb.web.openapi import operation
from srb.web.replies import json_reply
from srb.wire.events import ModelInfo

routes = Blueprint("models", __name__)

STARTED = int(time.time())  # of this worker, in Unix seconds
_ANTHROPIC = "anthropic-version"  # the header that all clients of Anthropic's API send
_SUCCESS: JSONObject = {"success": True}
_ONE_MODEL = "This server has one model, which stays loaded. Start it with `--models` for several"


class NamedModel(BaseModel):
    """A body that names one of several models."""

    model_config = ConfigDict(strict=True)

    model: str = Field(validation_alias=AliasChoices("model", "name"))


@routes.get("/models")
@routes.get("/v1/models")
@routes.get("/v1/model/list")
@operation(answer=JSONObject, foreign=True)
def models() -> Response:
    """List the models, in OpenAI's form and in Ollama's; with several, each has a status, and a folder is read again.

    A client of Anthropic's gets their form. TabbyAPI's list, by which SillyTavern finds a server, has OpenAI's form.
    """
    choice = web().choice
    if _ANTHROPIC in request.headers:
        names = [web().client.check_ready().alias] if choice is None else [state.name for state in choice.look()]
        return json_reply({"data": list(map(_for_anthropic, names)), "has_more": False,
                           "first_id": names[0] if names else None, "last_id": names[-1] if names else None})  # fmt: skip
    if choice is not None:
        states = choice.look()
        data = [_with_status(choice, state) for state in states]
        return json_reply({"object": "list", "data": data, "models": [_brief_of(choice, state) for state in states]})
    model = web().client.check_ready()
    return json_reply({"object": "list", "data": [_listed(model, web().server)], "models": [_brief(model)]})


@routes.get("/models/<path:name>")
@routes.get("/v1/models/<path:name>")
@operation(answer=JSONObject, foreign=True)
def one_model(name: str) -> Response:
    """Describe a model by one of its names, as OpenAI's SDKs retrieve it."""
    if (choice := web().choice) is not None:
        known = choice.models.resolve(name)
        if _ANTHROPIC in request.headers:
            return json_reply(_for_anthropic(known))
        return json_reply(_with_status(choice, choice.models.states[known]))
    model = web().client.check_ready()
    if name not in (model.alias, *web().server.model_aliases):
        raise NotFound(f"The model '{name}' does not exist; this server has '{model.alias}'")
    if _ANTHROPIC in request.headers:
        return json_reply(_for_anthropic(model.alias))
    return json_reply(_listed(model, web().server))


@routes.get("/models/sse")
@operation(media_type="text/event-stream", foreign=False)
def model_events() -> Response:
    """Stream the changes of the models' states, each as an event, until the client leaves."""
    if (choice := web().choice) is None:
        raise NotSupported(_ONE_MODEL)
    interval = web().server.sse_ping_interval
    events = ModelEvents(choice.models, web().calls, request.environ, interval if interval > 0 else None)
    return Response(events, mimetype="text/event-stream", headers=HEADERS, direct_passthrough=True)


@routes.post("/models/load")
@operation(NamedModel, "llamacpp.Success", foreign=False)
def load() -> Response:
    """Have one of several models loaded, in its turn; the answer does not wait for it."""
    choice, name = _named()
    choice.models.load(name)
    return json_reply(_SUCCESS)


@routes.post("/models/unload")
@operation(NamedModel, "llamacpp.Success", foreign=False)
def unload() -> Response:
    """Have a model unloaded when its running requests have ended; the answer does not wait for it."""
    choice, name = _named()
    choice.models.unload(name)
    return json_reply(_SUCCESS)


def _named() -> tuple[ModelChoice, str]:
    """Return the choice, and the model that the body names. Raise NotSupported for a server with one model."""
    if (choice := web().choice) is None:
        raise NotSupported(_ONE_MODEL)
    given = validated(NamedModel, read_body(request)).model
    if not given:
        raise ModelNotFound("Field 'model': should be a model's name", param="model")
    return choice, choice.models.resolve(given)


def _listed(model: ModelInfo, settings: Settings) -> dict[str, Any]:
    meta: dict[str, Any] = {
        name: getattr(model, name) for name in ("vocab_type", "n_vocab", "n_ctx_train", "n_embd", "n_params", "size")
    }
    return {
        "id": model.alias,
        "aliases": settings.model_aliases,
        "tags": [],
        "object": "model",
        "created": STARTED,
        "owned_by": "llamacpp",
        "meta": {**meta, "n_ctx": model.n_ctx_seq, "ftype": model.ftype},
    }


def _for_anthropic(name: str) -> dict[str, Any]:
    created = datetime.fromtimestamp(STARTED, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"type": "model", "id": name, "display_name": name, "created_at": created}


def _with_status(choice: ModelChoice, state: ModelState) -> dict[str, Any]:
    """Return the entry of one of several models; its facts are known once it was loaded.

    As in llama-server's list, `aliases` are its names beside the id.
    """
    model, settings = choice.facts(state.name), choice.models.settings(state.name)
    entry: dict[str, Any] = {
        "id": state.name,
        "aliases": settings.model_aliases,
        "tags": [],
        "object": "model",
        "created": STARTED,
    }
    entry |= {"owned_by": "llamacpp", "meta": None}
    if model is not None:
        entry = _listed(model, settings)
    entry["aliases"] = settings.model_aliases[1:]
    status: dict[str, Any] = {"value": word(state)}
    if state.state in ("draining", "ending"):
        status["draining"] = True
    if state.state == "failed":
        status |= {"failed": True, "reason": state.reason}
    return entry | {"path": str(model_path(state)), "status": status, "default": state.name == choice.models.default}


def _brief_of(choice: ModelChoice, state: ModelState) -> dict[str, Any]:
    """Return the entry of one of several models; one that was not loaded is taken for multimodal if it has a projector."""
    model = choice.facts(state.name)
    if model is not None:
        return _brief(model)
    is_multimodal = bool(choice.models.settings(state.name).mmproj)
    return _brief_form(state.name, "", "", "", "", "", is_multimodal)


def _brief(model: ModelInfo) -> dict[str, Any]:
    size, parameters, is_multimodal = str(model.size), str(model.n_params), model.sees or model.hears
    return _brief_form(model.alias, size, model.description, model.architecture, parameters, model.ftype, is_multimodal)


def _brief_form(
    name: str, size: str, description: str, family: str, parameters: str, ftype: str, is_multimodal: bool
) -> dict[str, Any]:
    """Return a model in the form of Ollama's lists that llama-server adds to OpenAI's."""
    abilities = ["completion", "multimodal"] if is_multimodal else ["completion"]
    return {
        "name": name, "model": name, "modified_at": "", "size": size, "digest": "",
        "type": "model", "description": description, "tags": [], "capabilities": abilities, "parameters": "",
        "details": {
            "parent_model": "", "format": "gguf", "family": family, "families": [family] if family else [],
            "parameter_size": parameters, "quantization_level": ftype,
        },
    }  # fmt: skip


MAX_UNREAD = 1024  # events; the stream of a client that has not read so many ends, or they fill the worker's memory

States = Mapping[str, ModelState]


class ModelEvents:
    """A WSGI iterable over the changes of the models from now on, until its client leaves or the worker stops.

    It counts as an open request of its client; `close()` is idempotent.
    """

    def __init__(
        self, models: ModelsClient, calls: Calls, environ: MutableMapping[str, Any], ping_interval: float | None
    ) -> None:
        """Send a comment after `ping_interval` seconds without an event; None: never. Raise RateLimited, ShuttingDown."""
        self._queue: Any = gevent.queue.Queue(MAX_UNREAD)
        self._ping_interval = ping_interval
        self._has_begun = self._has_ended = False
        with ExitStack() as held:
            held.enter_context(calls.listening(self, environ))
            held.enter_context(models.watched(self._note))
            self._held = held.pop_all()

    def __repr__(self) -> str:
        return f"<ModelEvents{' ended' if self._has_ended else ''}: {self._queue.qsize()} unread>"

    def __iter__(self) -> "ModelEvents":
        return self

    def __next__(self) -> bytes:
        if not self._has_begun:
            self._has_begun = True
            return PING  # the client gets the head of the answer, and knows that no event is missed from now on
        try:
            event: bytes = b"" if self._has_ended else self._queue.get(timeout=self._ping_interval)
        except gevent.queue.Empty:
            event = PING
        if self._has_ended:
            raise StopIteration
        return event

    def close(self) -> None:
        """Watch the models no more. The WSGI server always calls this."""
        self._end()
        self._held.close()

    def lose_client(self) -> None:
        self._end()

    def abandon(self, reason: SRBError) -> None:
        self._end()

    def _end(self) -> None:
        self._has_ended = True
        if not self._queue.full():
            self._queue.put_nowait(b"")  # wakes __next__

    def _note(self, before: States, after: States) -> None:
        for event in changes(before, after):
            if self._queue.full():
                self._end()
                return
            self._queue.put_nowait(b"data: %b\n\n" % orjson.dumps(event))


def changes(before: States, after: States) -> Iterable[dict[str, Any]]:
    """Return llama-server's events of the changes: of states, and of the list itself."""
    for name, state in after.items():
        known = before.get(name)
        if known is None or (word(state), state.reason) == (word(known), known.reason):
            continue
        data: dict[str, Any] = {"status": word(state)}
        if word(state) == "unloaded":
            data["exit_code"] = 1 if state.state == "failed" else 0
        if state.state == "failed":
            data["reason"] = state.reason
        yield {"model": name, "event": "model_status" if word(state) == "loading" else "status_change", "data": data}
    if before.keys() != after.keys():
        yield {"model": "*", "event": "models_reload"}
