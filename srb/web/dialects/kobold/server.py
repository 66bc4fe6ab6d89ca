"""KoboldAI's and KoboldCpp's routes about the server: versions, features, model, lengths and figures."""

import time

from flask import Blueprint, Response

from srb.web.context import web
from srb.web.dialects.llamacpp.body import EmbeddingBody
from srb.web.dialects.llamacpp.embeddings import openai_embeddings
from srb.web.openapi import operation
from srb.web.replies import json_reply

routes = Blueprint("kobold_server", __name__)

KOBOLDAI, KOBOLDCPP = "1.2.5", "1.102"  # versions whose interfaces these routes have: clients compare them
STARTED = time.monotonic()  # of this worker


@routes.get("/api/v1/info/version")
@routes.get("/api/latest/info/version")
@operation(answer="kobold.Result", error="kobold.KoboldError", foreign=True)
def koboldai_version() -> Response:
    """Name the version of KoboldAI United whose interface this is."""
    return json_reply({"result": KOBOLDAI})


@routes.get("/api/v1/model")
@routes.get("/api/latest/model")
@operation(answer="kobold.Result", error="kobold.KoboldError", foreign=True)
def model() -> Response:
    """Name the model."""
    return json_reply({"result": web().client.check_ready().alias})


@routes.get("/api/extra/true_max_context_length")
@routes.get("/api/v1/config/max_context_length")
@routes.get("/api/latest/config/max_context_length")
@operation(answer="kobold.Value", error="kobold.KoboldError", foreign=True)
def max_context_length() -> Response:
    """Tell the longest text in tokens, prompt and continuation together."""
    return json_reply({"value": web().client.check_ready().n_ctx_seq})


@routes.get("/api/v1/config/max_length")
@routes.get("/api/latest/config/max_length")
@operation(answer="kobold.Value", error="kobold.KoboldError", foreign=True)
def max_length() -> Response:
    """Tell how many tokens a request gets that does not say it."""
    longest = web().client.check_ready().n_ctx_seq
    limit = web().settings.max_tokens_of_srb
    return json_reply({"value": longest if limit < 0 else min(limit, longest)})


@routes.get("/api/extra/version")
@operation(answer="kobold.Features", error="kobold.KoboldError", foreign=True)
def features() -> Response:
    """Name the version of KoboldCpp whose interface this is, and the features that the server has."""
    settings, known = web().settings, web().client.check_ready()
    return json_reply(
        {
            "result": "KoboldCpp",
            "version": KOBOLDCPP,
            "protected": bool(settings.api_key or settings.api_key_file),
            "llm": True,
            "txt2img": False,
            "vision": known.sees,
            "audio": known.hears,
            "transcribe": False,
            "multiplayer": False,
            "websearch": False,
            "tts": False,
            "embeddings": known.embedding,
            "savedata": False,
            "admin": 0,
            "guidance": False,
        }
    )


@routes.get("/api/extra/perf")
@operation(answer="kobold.Performance", error="kobold.KoboldError", foreign=True)
def performance() -> Response:
    """Tell how many requests there were, run and wait."""
    stats = web().client.stats()
    return json_reply(
        {
            "total_gens": int(stats.get("requests_total", 0)),
            "queue": int(stats.get("requests_deferred", 0)),
            "idle": 0 if stats.get("requests_processing", 0) else 1,
            "total_img_gens": 0,
            "uptime": int(time.monotonic() - STARTED),
            "hordeexitcounter": -1,
            "stop_reason": -1,
            "last_process": 0.0,
            "last_eval": 0.0,
            "last_token_count": 0,
            "last_seed": -1,
            "last_process_speed": 0.0,
            "last_eval_speed": 0.0,
            "quiet": True,
        }
    )


@routes.get("/api/extra/preloadstory")
@operation(answer="kobold.PreloadedStory", error="kobold.KoboldError", foreign=True)
def preloaded_story() -> Response:
    """Return no story, for KoboldAI Lite, which asks for one at its start."""
    return json_reply({})


@routes.post("/api/extra/embeddings")
@operation(
    EmbeddingBody, ("llamacpp.EmbeddingList", "llamacpp.OwnEmbeddings"), error="kobold.KoboldError", foreign=True
)
def embeddings() -> Response:
    """Embed texts as OpenAI's route does."""
    return openai_embeddings()
