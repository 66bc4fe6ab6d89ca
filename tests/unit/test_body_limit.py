"""The limit of a request's body: a picture fits, also for a model that sees none, and a limit that was set is obeyed."""

from __future__ import annotations

from typing import Any

import pytest
from flask.testing import FlaskClient

from srb.config.settings import Settings
from srb.errors import ConfigError
from srb.web.app import create_app
from srb.web.bodies import completion
from srb.web.media_sources import MAX_BYTES
from tests.scripted import ScriptedClient

MIB = 2**20


def client(**settings: Any) -> FlaskClient:
    given = Settings(**settings)
    return create_app(given, ScriptedClient(given)).test_client()


@pytest.mark.parametrize(
    ("settings", "limit"),
    [
        ({}, 32 * MIB),
        ({"max_body_bytes": 1024}, 1024),
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
    assert Settings().max_body_bytes > MAX_BYTES * 4 / 3 + 4 * MIB


def test_a_large_picture_in_the_history_ends_no_conversation_of_a_model_that_sees_none() -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "iVBOR" * MIB + "w==="}}
    history = [
        {"role": "user", "content": [{"type": "text", "text": "See?"}, picture]},
        {"role": "assistant", "content": "I do."},
        {"role": "user", "content": "What was it?"},
    ]
    answer = client().post("/v1/chat/completions", json={"messages": history, "max_tokens": 1})
    assert answer.status_code == 200, answer.json


@pytest.mark.parametrize("values", [b"1,", b"[],", b"{},", b'"",', b"[" * 500 + b"]" * 500 + b","])
def test_a_long_body_of_many_values_is_refused_before_it_is_read(
    values: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(completion.orjson, "loads", lambda data: pytest.fail("it was read"))
    data = b'{"prompt": [' + values * (8 * MIB // len(values)) + b"1]}"
    refused = client().post("/v1/completions", data=data)
    assert refused.status_code == 400
    assert "commas and brackets" in refused.json["error"]["message"]


def test_a_limit_of_almost_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"max_body_bytes .*greater than or equal to 1024"):
        Settings.load(environ={"SRB_MAX_BODY_BYTES": "1023"})
