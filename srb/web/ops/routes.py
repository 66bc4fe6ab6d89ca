"""Routes for operators, load balancers, visitors and programs: health, models, metrics, the OpenAPI document."""

import math
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson
from flask import Blueprint, Response, current_app, request

from srb.errors import EngineLoading, NotSupported, Unavailable, bad_field
from srb.version import version
from srb.web.answers import JSONObject
from srb.web.context import web
from srb.web.dialects.llamacpp.server import shown_slots
from srb.web.foreign_pages import is_page
from srb.web.metrics import CONTENT_TYPE, without_colons
from srb.web.openapi import OLDER, VERSION, describe, operation
from srb.web.ops.models import STARTED
from srb.web.replies import aged_reply, json_reply

routes = Blueprint("ops", __name__)

_DOCUMENT = "srb_openapi"  # beginning of names in the application's extensions: the document, made at its first request
_VERSIONS = {version.rpartition(".")[0]: version for version in (VERSION, OLDER)}

_OK: JSONObject = {"status": "ok"}
HEALTH_DEADLINE = 0.5  # seconds that a health check waits for the engine's counts
STATS_AGE = 1.0  # seconds; a cluster's replicas are asked so often at most, however many check and scrape


@routes.get("/health")
@routes.get("/v1/health")
@operation(answer="llamacpp.Health", query=("include_slots", "fail_on_no_slot"), foreign=True)
def health() -> Response:
    """Report whether the server is ready, how many branches run, and how many more a request could start now.

    A full server is healthy, since requests wait in the queue; with `?fail_on_no_slot` it is answered 503.
    """
    choice, asked_at = web().choice, time.time()
    try:
        if choice is not None and choice.rests:
            return _ready({"status": "ok"})
        web().client.check_ready()
    except Unavailable as error:
        return _not_ready(error)
    try:
        latest = web().client.latest_stats(HEALTH_DEADLINE, STATS_AGE)
    except Unavailable as error:
        if type(error) is not Unavailable:  # a bridge that knows no replica any more
            return _not_ready(error)
        web().client.check_not_hung()
        return _ready({"status": "ok"})  # busy with one long step, and nothing is known yet
    stats, cluster, at = latest.value, latest.value.get("cluster"), latest.at
    if at < asked_at:
        web().client.check_not_hung()
    processing = int(stats["branches_running"])
    idle = int(stats["branches_room"])
    body: JSONObject = {
        "status": "ok" if idle > 0 else "no slot available",
        "slots_idle": idle,
        "slots_processing": processing,
    }
    if cluster is not None:
        body["replicas"] = len(cluster["replicas"])
        if cluster["trouble"]:
            body["degraded"] = cluster["trouble"]
    settings = web().server
    has_keys = bool(settings.api_key or settings.api_key_file)  # /health needs no key, but slots show texts' settings
    if "include_slots" in request.args and settings.slots and not has_keys and not is_page():
        body["slots"], slots_at = shown_slots()
        at = min(at, slots_at)
    return _ready(body, 503 if idle <= 0 and "fail_on_no_slot" in request.args else 200, at)


def _ready(body: JSONObject, status: int = 200, at: float = math.inf) -> Response:
    stories = web().stories.watched()
    if stories is not None and stories.state != "ok":
        body["degraded"] = "; ".join(filter(None, [body.get("degraded"), f"stories: {stories.state}"]))
    return aged_reply({**body, "version": version()}, at, status)


def _not_ready(error: Unavailable) -> Response:
    """Say why requests are not answered, with the word of 2024 beside the error."""
    status = "loading model" if isinstance(error, EngineLoading) else "error"
    reply = json_reply({"status": status, **error.body(), "version": version()}, error.http_status)
    if error.retry_after is not None:
        reply.headers["Retry-After"] = str(error.retry_after)
    return reply


@routes.get("/livez")
@operation(answer="llamacpp.Health", foreign=True)
def alive() -> Response:
    """Report that this worker answers, whatever the engine's state."""
    return json_reply(_OK)


@routes.get("/v1/internal/model/info")
@operation(answer="llamacpp.CurrentModel", foreign=True)
def current_model() -> Response:
    """Name the model and the LoRA adapters in force, as text-generation-webui does."""
    adapters = [Path(each["path"]).stem for each in web().client.adapters() if each["scale"]]
    model = web().client.check_ready()
    return json_reply({"model_name": model.alias, "lora_names": adapters, "loader": "llama.cpp"})


@routes.get("/v1/model")
@operation(answer="llamacpp.TabbyModel", foreign=True)
def tabby_model() -> Response:
    """Describe the model with its limits, as TabbyAPI does."""
    model, settings = web().client.check_ready(), web().settings
    return json_reply(
        {
            "id": model.alias,
            "object": "model",
            "created": STARTED,
            "owned_by": "llamacpp",
            "logging": None,
            "parameters": {
                "max_seq_len": model.n_ctx_seq,
                "max_batch_size": model.n_seq_max,
                "cache_size": model.n_ctx,
                "cache_mode": settings.cache_type_k,
                "chunk_size": settings.n_batch,
                "prompt_template": None,
                "prompt_template_content": model.chat_template or None,
                "draft": None,
            },
        }
    )


@routes.get("/metrics")
@operation(media_type="text/plain", query=("names",), foreign=False)
def prometheus() -> Response:
    """Show counters and gauges of the engine and the web workers, as Prometheus text.

    The engine's numbers are missing while it is unreachable, and the latest known ones while it is too busy to answer:
    srb_engine_answer_timestamp_seconds tells since when. Its state is always present. So are the states of models, the
    last known ones while their supervisor is unreachable: srb:models_supervisor_up is 0 then. `?names=plain` leaves out the
    names with a colon, of which each has another without one.
    """
    if not web().server.metrics:
        raise NotSupported("This server does not support metrics endpoint. Start it with `--metrics`")
    choice = web().choice
    states, knows_models = choice.seen() if choice is not None else ([], None)
    status: dict[str, Any] = {"state": "loading", "restarts": 0}
    answered_at, stats, cluster = 0.0, dict[str, Any](), None
    with suppress(Unavailable):
        client = web().client if choice is None else choice.shown()
        status = client.engine_status()
        latest = client.latest_stats(max_age=STATS_AGE)
        answered_at, stats = latest.at, dict(latest.value)
        cluster = stats.pop("cluster", None)
    text = web().metrics.render(
        stats,
        answered_at,
        **status,
        cluster=cluster,
        models=states,
        knows_models=knows_models,
        stories=web().stories.watched(),
        tokens=usage.totals() if (usage := web().usage) is not None else (),
    )
    if request.args.get("names") == "plain":
        text = without_colons(text)
    response = Response(text, content_type=CONTENT_TYPE)
    response.headers["Process-Start-Time-Unix"] = str(STARTED)
    return response


@routes.get("/openapi.json")
@operation(answer=JSONObject, query=("version",), foreign=True)
def document() -> Response:
    """Describe every route with the types of its body and its answer; `?version=3.1` in an older form."""
    asked = request.args.get("version", VERSION)
    if (version := _VERSIONS.get(".".join(asked.split(".")[:2]))) is None:
        raise bad_field("version", f"should be one of {', '.join(_VERSIONS)}")
    kept = current_app.extensions
    if (name := _DOCUMENT + version) not in kept:
        kept[name] = orjson.dumps(describe(current_app, version))
    return Response(kept[name], mimetype="application/json")
