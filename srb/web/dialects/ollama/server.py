"""Ollama's routes about models: lists, facts, the version; and those that this server refuses, since it fetches none."""

from typing import Any

import orjson
from flask import Blueprint, Response, request

from srb.config.sampling_params import PARAMETERS
from srb.config.settings import Settings
from srb.errors import InvalidRequest, NotSupported
from srb.models.control import ModelState
from srb.models.listed import resolve
from srb.web.answers import JSONObject
from srb.web.bodies.completion import read_body
from srb.web.chat.template import template_source
from srb.web.context import web
from srb.web.dialects.ollama.body import ModelBody, OllamaPullBody, OllamaShowBody
from srb.web.dialects.ollama.names import capabilities, changed_at, check_name, details, digest_of, tagged, tagged_name
from srb.web.models.choice import model_path
from srb.web.openapi import LINES, operation
from srb.web.replies import json_reply
from srb.wire.events import ModelInfo

routes = Blueprint("ollama_server", __name__)

VERSION = "0.13.0"  # of Ollama, whose interface these routes have: clients compare it
NO_TEMPLATE = "{{ .Prompt }}"  # in Ollama's language: the prompt as it is
NEVER = "2318-01-01T00:00:00Z"  # when the model is unloaded


@routes.get("/api/version")
@operation(answer="ollama.Version", error="ollama.OllamaError", foreign=True)
def version() -> Response:
    """Name the version of Ollama whose interface this is."""
    return json_reply({"version": VERSION})


@routes.get("/api/tags")
@operation(answer="ollama.Tags", error="ollama.OllamaError", foreign=True)
def tags() -> Response:
    """List the models, as Ollama lists those that it has."""
    choice = web().choice
    if choice is None:
        found = [tagged(web().settings, web().client.check_ready())]
    else:
        found = [_unloaded(state) if (model := choice.facts(state.name)) is None else tagged(web().settings, model)
                 for state in choice.look()]  # fmt: skip
    return json_reply({"models": found})


def _unloaded(state: ModelState) -> JSONObject:
    """Return the entry of a model that was not loaded yet, so that only its file is known."""
    name, path = tagged_name(state.name), model_path(state)
    return {
        "name": name,
        "model": name,
        "modified_at": changed_at(path),
        "size": path.stat().st_size if path.is_file() else 0,
        "digest": digest_of(state.name),
        "details": details(None),
    }


@routes.get("/api/ps")
@operation(answer="ollama.Loaded", error="ollama.OllamaError", foreign=True)
def loaded() -> Response:
    """List the models in memory, as Ollama does."""
    choice = web().choice
    if choice is None:
        models = [web().client.check_ready()]
    else:
        models = [model for name in choice.models.loaded() if (model := choice.facts(name)) is not None]
    return json_reply({"models": [_in_memory(model) for model in models]})


def _in_memory(model: ModelInfo) -> JSONObject:
    said = tagged(web().settings, model)
    return {
        "name": said["name"],
        "model": said["name"],
        "size": said["size"],
        "digest": said["digest"],
        "details": said["details"],
        "expires_at": NEVER,
        "size_vram": 0,
        "context_length": model.n_ctx_seq,
    }


@routes.post("/api/show")
@operation(OllamaShowBody, "ollama.Shown", error="ollama.OllamaError", foreign=True)
def show() -> Response:
    """Describe the model as Ollama does."""
    body, settings = OllamaShowBody.parse(read_body(request)), web().settings
    model = _known(body.model) or web().client.check_ready()
    check_name(body.model, settings, model)
    return json_reply(
        {
            "license": model.license,
            "modelfile": f"FROM {model.path}\n",
            "parameters": _parameters(settings),
            "template": template_source(settings, model) or NO_TEMPLATE,
            "details": details(model),
            "model_info": _facts(model),
            "capabilities": capabilities(settings, model),
            "modified_at": changed_at(model.path),
        }
    )


def _known(name: str) -> ModelInfo | None:
    """Return what is known of one of several models that was loaded before, so that it is not loaded to be shown."""
    choice = web().choice
    return choice.facts(choice.models.resolve(name)) if choice is not None and name else None


def _parameters(settings: Settings) -> str:
    """Return the sampling parameters that the settings change, a name and a value on each line."""
    changed = (name for name, each in PARAMETERS.items() if each.is_setting and name in settings.model_fields_set)
    return "\n".join(f"{name:<30} {getattr(settings, name)}" for name in changed)


def _facts(model: ModelInfo) -> dict[str, Any]:
    """Return the facts of a GGUF file, by its keys, that this server knows."""
    family = model.architecture
    return {
        "general.architecture": family,
        "general.basename": model.alias,
        "general.parameter_count": model.n_params,
        f"{family}.context_length": model.n_ctx_train,
        f"{family}.embedding_length": model.n_embd,
        f"{family}.vocab_size": model.n_vocab,
        "tokenizer.ggml.bos_token_id": model.bos_id,
        "tokenizer.ggml.eos_token_id": model.eos_id,
        "tokenizer.ggml.add_bos_token": model.add_bos,
    }


@routes.post("/api/pull")
@operation(
    OllamaPullBody, "ollama.Pulled", "ollama.Pulled", stream_type=LINES, error="ollama.OllamaError", foreign=True
)
def pull() -> Response:
    """Say that a model which the server has is there; refuse to fetch another one."""
    body = OllamaPullBody.parse(read_body(request))
    if not _serves(body.model):
        refuse()
    answer: JSONObject = {"status": "success"}
    return Response(orjson.dumps(answer) + b"\n", mimetype=LINES) if body.stream else json_reply(answer)


def _serves(name: str) -> bool:
    if not name:
        raise InvalidRequest("model is required", param="model")
    choice = web().choice
    if choice is not None:
        return resolve(name, tuple(choice.models.states)) is not None
    return resolve(name, (web().client.check_ready().alias, *web().settings.model_aliases)) is not None


@routes.post("/api/push")
@routes.post("/api/create")
@routes.post("/api/copy")
@routes.delete("/api/delete")
@operation(ModelBody, error="ollama.OllamaError", foreign=False)
def refuse() -> Response:
    """Refuse to fetch, send, make, copy or remove models: the server has the one that it was started with."""
    action = request.path.rpartition("/")[2]
    raise NotSupported(
        f"This server cannot {action} models: it has the one that it was started with (--model, --hf-repo)"
    )
