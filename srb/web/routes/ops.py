"""What operators, load balancers and curious people ask: health, models, metrics, the front door."""

from __future__ import annotations

import time
from typing import Any

from flask import Blueprint, Response

from srb.errors import NotSupported
from srb.web import metrics
from srb.web.replies import json_reply
from srb.web.state import web

routes = Blueprint("ops", __name__)

STARTED = int(time.time())  # of this worker, in Unix seconds


@routes.get("/health")
@routes.get("/v1/health")
def health() -> Response:
    web().client.check_ready()
    return json_reply({"status": "ok"})


@routes.get("/models")
@routes.get("/v1/models")
def models() -> Response:
    """List the one model, once as OpenAI's SDKs read it and once as Ollama's clients do."""
    model = web().client.check_ready()
    meta: dict[str, Any] = {
        name: getattr(model, name)
        for name in ("vocab_type", "n_vocab", "n_ctx", "n_ctx_train", "n_embd", "n_params", "size")
    }
    listed = {
        "id": model.alias,
        "aliases": [model.alias],
        "tags": [],
        "object": "model",
        "created": STARTED,
        "owned_by": "llamacpp",
        "meta": {**meta, "ftype": model.description},
    }
    brief = {"name": model.alias, "model": model.alias, "description": model.description, "type": "model"}
    return json_reply({"object": "list", "data": [listed], "models": [brief]})


@routes.get("/metrics")
def prometheus() -> Response:
    if not web().settings.metrics:
        raise NotSupported("This server does not serve metrics; start it with metrics = true")
    response = Response(metrics.render(web().client.stats()), content_type=metrics.CONTENT_TYPE)
    response.headers["Process-Start-Time-Unix"] = str(STARTED)
    return response


@routes.get("/")
def front_door() -> Response:
    return Response(FRONT_DOOR.format(port=web().settings.port), mimetype="text/html")


FRONT_DOOR = """<!doctype html>
<meta charset="utf-8">
<title>SRB</title>
<h1>SRB: one prompt, many continuations</h1>
<p>The server is running. Try it:</p>
<pre>curl -N http://localhost:{port}/v1/completions -d '{{"prompt": "Once upon a time,", "n": 8}}'</pre>
<p>OpenAI clients: base URL <code>/v1</code>, any API key, any model name.
See also <a href="/v1/models">/v1/models</a>, <a href="/health">/health</a>, <a href="/metrics">/metrics</a>.</p>
"""
