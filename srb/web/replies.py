"""Replies that are complete when they are sent. All JSON goes through orjson."""

from __future__ import annotations

from typing import Any

import orjson
from flask import Response


def json_reply(value: Any, status: int = 200) -> Response:
    return Response(orjson.dumps(value), status, mimetype="application/json")
