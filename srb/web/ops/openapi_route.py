"""The route of the OpenAPI document."""

from __future__ import annotations

from flask import Blueprint, Response, current_app

from srb.web.answers import JSONObject
from srb.web.openapi import describe, operation
from srb.web.replies import json_reply

routes = Blueprint("openapi", __name__)


@routes.get("/openapi.json")
@operation(answer=JSONObject)
def document() -> Response:
    """Describe every route with the types of its body and its answer."""
    return json_reply(describe(current_app))
