"""The route of the OpenAPI document."""

import orjson
from flask import Blueprint, Response, current_app, request

from srb.errors import bad_field
from srb.web.answers import JSONObject
from srb.web.openapi import OLDER, VERSION, describe, operation

_DOCUMENT = "srb_openapi"  # beginning of names in the application's extensions: the document, made at its first request
_VERSIONS = {version.rpartition(".")[0]: version for version in (VERSION, OLDER)}

routes = Blueprint("openapi", __name__)


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
