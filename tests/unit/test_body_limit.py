"""The limit of a request's body: a picture fits where the server takes pictures, and a limit that was set is obeyed."""

from __future__ import annotations

from typing import Any

import pytest
from flask.testing import FlaskClient

from srb.errors import ConfigError
from srb.model_control import ModelState
from srb.settings import Settings
from srb.web.app import create_app
from srb.web.calls.scripted import ScriptedClient
from srb.web.media_sources import MAX_BYTES

MIB = 2**20


def client(**settings: Any) -> FlaskClient:
    given = Settings(**settings)
    return create_app(given, ScriptedClient(given)).test_client()


@pytest.mark.parametrize(
    ("settings", "limit"),
    [
        ({}, 4 * MIB),
        ({"mmproj": "m.gguf"}, 32 * MIB),
        ({"max_body_bytes": 1024}, 1024),
        ({"mmproj": "m.gguf", "max_body_bytes": 1024}, 1024),
    ],
)
def test_a_body_is_refused_beyond_the_limit(settings: dict[str, Any], limit: int) -> None:
    http = client(**settings)
    assert http.get("/v1/srb/server").json["max_body_bytes"] == limit
    assert http.post("/tokenize", data=b"x" * limit).status_code == 400, "it is read, and is no JSON"
    refused = http.post("/tokenize", data=b"x" * (limit + 1))
    assert refused.status_code == 413
    assert f"larger than {limit} bytes" in refused.json["error"]["message"]


def test_the_largest_picture_fits_as_base64_beside_a_long_text() -> None:
    assert Settings(mmproj="m.gguf").body_limit(True) > MAX_BYTES * 4 / 3 + 4 * MIB


def test_one_of_several_models_with_a_projector_raises_the_limit() -> None:
    app = create_app(Settings(models="a=fake:,b=fake:"))
    web = app.extensions["srb"]
    assert web.body_limit == 4 * MIB
    own = {"a": {}, "b": {"mmproj": "m.gguf"}}
    web.engine.models.states = {
        name: ModelState(name, "fake:", its, "unloaded", "", 0, 0, 0) for name, its in own.items()
    }
    assert web.body_limit == 32 * MIB


def test_a_limit_of_almost_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"max_body_bytes .*should be 0, or 1024 or more"):
        Settings.load(environ={"SRB_MAX_BODY_BYTES": "1023"})
