"""LM Studio's list of models: `GET /api/v0/models` and one of them. Its other routes are OpenAI's, which SRB has at /v1."""

from typing import Any, Literal

from flask import Blueprint, Response
from typing_extensions import TypedDict

from srb.errors import NotFound
from srb.web.context import web
from srb.web.dialect import Dialect
from srb.web.openapi import operation
from srb.web.replies import json_reply

routes = Blueprint("lmstudio", __name__)


class Model(TypedDict):
    id: str
    object: Literal["model"]
    type: Literal["llm", "vlm"]
    publisher: str
    arch: str
    compatibility_type: Literal["gguf"]
    quantization: str
    state: Literal["loaded", "not-loaded"]
    max_context_length: int
    loaded_context_length: int


class Models(TypedDict):
    object: Literal["list"]
    data: list[Model]


@routes.get("/api/v0/models")
@operation(answer=Models, foreign=True)
def models() -> Response:
    """List the models, with what is known of each: that of a model that was never loaded is empty."""
    return json_reply({"object": "list", "data": _models()})


@routes.get("/api/v0/models/<path:name>")
@operation(answer=Model, foreign=True)
def model(name: str) -> Response:
    """Describe one model."""
    if (found := next((each for each in _models() if each["id"] == name), None)) is None:
        raise NotFound(f"The model '{name}' does not exist")
    return json_reply(found)


def _models() -> list[Model]:
    if (choice := web().choice) is None:
        facts = web().client.check_ready()
        return [_described(facts.alias, facts, is_loaded=True)]
    return [_described(each.name, choice.facts(each.name), each.state == "loaded") for each in choice.look()]


def _described(name: str, facts: Any, is_loaded: bool) -> Model:
    """Return a model as LM Studio does; `facts` are None for one that was never loaded."""
    return {
        "id": name,
        "object": "model",
        "type": "vlm" if facts and facts.sees else "llm",
        "publisher": "",
        "arch": facts.architecture if facts else "",
        "compatibility_type": "gguf",
        "quantization": facts.ftype if facts else "",
        "state": "loaded" if is_loaded else "not-loaded",
        "max_context_length": facts.n_ctx_train if facts else 0,
        "loaded_context_length": facts.n_ctx_seq if facts and is_loaded else 0,
    }


DIALECT = Dialect("LM Studio's list of models", (routes,), documents="https://lmstudio.ai/docs/developer/rest")
