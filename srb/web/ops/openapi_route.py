"""The route of the OpenAPI document."""

from __future__ import annotations

import orjson
from flask import Blueprint, Response, current_app

from srb.web.answers import JSONObject
from srb.web.openapi import describe, operation

_DOCUMENT = "srb_openapi"  # name in the application's extensions: the document, made at its first request

routes = Blueprint("openapi", __name__)


@routes.get("/openapi.json")
@operation(answer=JSONObject, foreign=True)
def document() -> Response:
    """Describe every route with the types of its body and its answer."""
    kept = current_app.extensions
    if _DOCUMENT not in kept:
        kept[_DOCUMENT] = orjson.dumps(describe(current_app))
    return Response(kept[_DOCUMENT], mimetype="application/json")
