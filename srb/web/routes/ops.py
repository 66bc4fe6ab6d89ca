"""What operators, load balancers and curious people ask: health, models, metrics, the front door."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from flask import Blueprint, Response, request, send_from_directory

from srb.errors import NotFound, NotSupported, Unavailable
from srb.web.answers import JSONObject
from srb.web.llamacpp_answers import Health
from srb.web.metrics import CONTENT_TYPE
from srb.web.openapi import operation
from srb.web.replies import json_reply
from srb.web.routes.server import slot_shape
from srb.web.state import web

routes = Blueprint("ops", __name__)

STATIC = Path(__file__).parents[1] / "static"
STARTED = int(time.time())  # of this worker, in Unix seconds
HEALTH_DEADLINE = 0.5  # seconds that a health check waits to hear how full the server is


@routes.get("/health")
@routes.get("/v1/health")
@operation(answer=Health, query=("include_slots", "fail_on_no_slot"))
def health() -> Response:
    """Say whether requests are answered, and how many of the sequences that branches may use are taken.

    A full server is healthy, since requests wait for room; a load balancer that thinks otherwise asks with
    `?fail_on_no_slot`.
    """
    web().client.check_ready()
    try:
        stats = web().client.stats(HEALTH_DEADLINE)
    except Unavailable as error:
        if type(error) is not Unavailable:
            raise
        web().client.check_not_hung()
        return json_reply({"status": "ok"})  # busy with one long step
    processing = int(stats["branches_running"])
    idle = int(stats["sequences"]) - processing
    body: dict[str, Any] = {
        "status": "ok" if idle > 0 else "no slot available",
        "slots_idle": idle,
        "slots_processing": processing,
    }
    settings = web().settings
    has_keys = bool(settings.api_key or settings.api_key_file)  # health is for everybody, slots are not
    if "include_slots" in request.args and settings.slots and not has_keys:
        body["slots"] = [slot_shape(slot) for slot in web().client.slots()]
    return json_reply(body, 503 if idle <= 0 and "fail_on_no_slot" in request.args else 200)


@routes.get("/livez")
@operation(answer=Health)
def alive() -> Response:
    """Say that this worker answers, whatever the engine does."""
    return json_reply({"status": "ok"})


@routes.get("/models")
@routes.get("/v1/models")
@operation(answer=JSONObject)
def models() -> Response:
    """List the one model, once as OpenAI's SDKs read it and once as Ollama's clients do."""
    model = web().client.check_ready()
    meta: dict[str, Any] = {
        name: getattr(model, name)
        for name in ("vocab_type", "n_vocab", "n_ctx", "n_ctx_train", "n_embd", "n_params", "size")
    }
    listed = {
        "id": model.alias,
        "aliases": web().settings.model_aliases,
        "tags": web().settings.model_tags,
        "object": "model",
        "created": STARTED,
        "owned_by": "llamacpp",
        "meta": {**meta, "ftype": model.ftype},
    }
    brief = {
        "name": model.alias, "model": model.alias, "modified_at": "", "size": str(model.size), "digest": "",
        "type": "model", "description": model.description, "tags": [], "capabilities": ["completion"], "parameters": "",
        "details": {
            "parent_model": "", "format": "gguf", "family": model.architecture, "families": [model.architecture],
            "parameter_size": str(model.n_params), "quantization_level": model.ftype,
        },
    }  # fmt: skip
    return json_reply({"object": "list", "data": [listed], "models": [brief]})


@routes.get("/metrics")
@operation(media_type="text/plain")
def prometheus() -> Response:
    """Show counters and gauges of the engine and the web workers, as Prometheus text.

    While the engine is not there, or is too busy to answer, its own numbers are missing; its state is told always.
    """
    if not web().settings.metrics:
        raise NotSupported("This server does not support metrics endpoint. Start it with `--metrics`")
    client = web().client
    try:
        stats = client.stats()
    except Unavailable:
        stats = {}
    text = web().metrics.render(stats, **client.engine_status())
    response = Response(text, content_type=CONTENT_TYPE)
    response.headers["Process-Start-Time-Unix"] = str(STARTED)
    return response


@routes.get("/")
@operation(media_type="text/html")
def front_door() -> Response:
    """Show a page that says what to try."""
    if not web().settings.ui:
        raise NotFound("File Not Found")
    return Response(FRONT_DOOR.format(port=web().settings.port), mimetype="text/html")


@routes.get("/completion.js")
@operation(media_type="text/javascript")
def script() -> Response:
    """Give pages a function that continues a prompt, as llama-server's pages have it."""
    if not web().settings.ui:
        raise NotFound("File Not Found")
    return send_from_directory(STATIC, "completion.js", mimetype="text/javascript")


FRONT_DOOR = """<!doctype html>
<meta charset="utf-8">
<title>SRB</title>
<h1>SRB: one prompt, many continuations</h1>
<p>The server is running. Try it:</p>
<pre>curl -N http://localhost:{port}/v1/completions -d '{{"prompt": "Once upon a time,", "n": 8}}'</pre>
<p>OpenAI clients: base URL <code>/v1</code>, any API key, any model name.
See also <a href="/v1/models">/v1/models</a>, <a href="/health">/health</a>, <a href="/metrics">/metrics</a>.</p>
"""
