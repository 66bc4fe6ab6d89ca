"""Complete JSON responses, and errors in the shape of each dialect."""

import time
from collections.abc import Callable, Mapping
from typing import Any

import orjson
from flask import Response

from srb.errors import NotSupported, SRBError, UnsupportedEncoding
from srb.web.bodies.encodings import ACCEPTED

ErrorShape = Callable[[SRBError], Mapping[str, Any]]  # makes the JSON object that a dialect's clients read


def json_reply(value: Any, status: int = 200) -> Response:
    return Response(orjson.dumps(value), status, mimetype="application/json")


def aged_reply(value: Any, at: float, status: int = 200) -> Response:
    """Return a response about what was so `at` a UNIX time; `Age` has the seconds since then, if it is not now."""
    reply = json_reply(value, status)
    if (age := time.time() - at) >= 1:
        reply.headers["Age"] = str(int(age))
    return reply


class ErrorReplies:
    """Errors as responses. A path has one also where no route is found, or before one is looked for."""

    def __init__(self, shapes: Mapping[str, ErrorShape]) -> None:
        """Take dialects' `shapes` by the beginnings of their paths, of which the longest counts."""
        self._shapes = dict(sorted(shapes.items(), key=lambda each: len(each[0]), reverse=True))

    def __call__(self, error: SRBError, path: str) -> Response:
        """Return an error as a response in the shape of the dialect whose path it is; `path` is below the prefix."""
        shape = next((shape for beginning, shape in self._shapes.items() if path.startswith(beginning)), SRBError.body)
        reply = json_reply(shape(error), error.http_status)
        if error.retry_after is not None:
            reply.headers["Retry-After"] = str(error.retry_after)
        if isinstance(error, UnsupportedEncoding):
            reply.headers["Accept-Encoding"] = ACCEPTED
        if isinstance(error, NotSupported):
            reply.headers["X-Should-Retry"] = (
                "false"  # the clients of OpenAI and Anthropic send again after any other 5xx
            )
        return reply
