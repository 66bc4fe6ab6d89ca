"""Complete JSON responses."""

from __future__ import annotations

from typing import Any

import orjson
from flask import Response


def json_reply(value: Any, status: int = 200) -> Response:
    return Response(orjson.dumps(value), status, mimetype="application/json")
