"""Complete JSON responses, and errors in the shape of each dialect."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import orjson
from flask import Response

from srb.errors import NotSupported, SRBError, UnsupportedEncoding
from srb.web.bodies.encodings import ACCEPTED
from srb.web.dialects.anthropic.errors import anthropic_error

KOBOLD = ("/api/v1/", "/api/latest/", "/api/extra/")  # paths of KoboldAI's and KoboldCpp's routes
OLLAMA = "/api/"  # the other paths below it are Ollama's
MESSAGES = "/v1/messages"  # the beginning of the paths of Anthropic's routes


def json_reply(value: Any, status: int = 200) -> Response:
    return Response(orjson.dumps(value), status, mimetype="application/json")


def aged_reply(value: Any, at: float, status: int = 200) -> Response:
    """Return a response about what was so `at` a UNIX time; `Age` has the seconds since then, if it is not now."""
    reply = json_reply(value, status)
    if (age := time.time() - at) >= 1:
        reply.headers["Age"] = str(int(age))
    return reply


def error_reply(error: SRBError, path: str) -> Response:
    """Return an error as a response; `path` is the request's, below the prefix."""
    reply = json_reply(error_body(error, path), error.http_status)
    if error.retry_after is not None:
        reply.headers["Retry-After"] = str(error.retry_after)
    if isinstance(error, UnsupportedEncoding):
        reply.headers["Accept-Encoding"] = ACCEPTED
    if isinstance(error, NotSupported):
        reply.headers["X-Should-Retry"] = "false"  # the clients of OpenAI and Anthropic send again after any other 5xx
    return reply


def error_body(error: SRBError, path: str) -> Mapping[str, Any]:
    """Return an error in the shape that clients of the path read."""
    if path.startswith(KOBOLD):
        return {"detail": {"msg": error.message, "type": error.type}}
    if path.startswith(OLLAMA):
        return {"error": error.message}
    return anthropic_error(error) if path.startswith(MESSAGES) else error.body()
