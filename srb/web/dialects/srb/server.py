"""The route that describes the server to a page: its model, the limits of requests, and the defaults of their fields."""

from __future__ import annotations

from dataclasses import asdict

from flask import Blueprint, Response

from srb import __version__
from srb.web.bodies.defaults import default_sampling
from srb.web.chat.template import template_source
from srb.web.context import web
from srb.web.dialects.srb.answers import ServerDescription
from srb.web.openapi import operation
from srb.web.replies import json_reply

routes = Blueprint("srb_server", __name__)


@routes.get("/v1/srb/server")
@operation(answer=ServerDescription)
def describe_server() -> Response:
    """Describe the server: its model, the limits of requests, and the defaults of their fields."""
    model, settings = web().client.check_ready(), web().request_settings
    said: ServerDescription = {
        "version": __version__,
        "model": model.alias,
        "n_ctx": model.n_ctx_seq,
        "modalities": {"vision": model.sees, "audio": model.hears},
        "chat_template": bool(template_source(settings, model)),
        "max_n": settings.max_n,
        "max_linger": settings.max_linger,
        "max_body_bytes": settings.max_body_bytes,
        "n": settings.n,
        "max_tokens": settings.default_max_tokens,
        "sampling": asdict(default_sampling(settings)),
    }
    return json_reply(said)
