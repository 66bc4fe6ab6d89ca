"""Complete JSON responses."""

from __future__ import annotations

from typing import Any

import orjson
from flask import Response

from srb.errors import SRBError
from srb.web.dialects.anthropic.errors import anthropic_error


def json_reply(value: Any, status: int = 200) -> Response:
    return Response(orjson.dumps(value), status, mimetype="application/json")


def error_reply(error: SRBError, path: str) -> Response:
    """Return an error's answer, in the form of the API that `path` belongs to."""
    of_messages = path.startswith(MESSAGES)
    reply = json_reply(anthropic_error(error) if of_messages else error.body(), error.http_status)
    if error.retry_after is not None:
        reply.headers["Retry-After"] = str(error.retry_after)
    return reply


MESSAGES = "/v1/messages"  # the beginning of the paths of Anthropic's API
