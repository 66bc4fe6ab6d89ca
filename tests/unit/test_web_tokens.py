"""Text to tokens and back over HTTP, with a scripted engine whose tokens are a text's bytes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pytest

from srb.config.settings import Settings
from srb.web.app import create_app
from srb.web.calls.engine_client import ASK_DEADLINE, TEXT_SECONDS
from srb.web.calls.mailbox import Mailbox
from srb.wire.commands import Tokenize
from tests import scripted
from tests.scripted import MODEL, ScriptedClient
from tests.shapes import read


@pytest.fixture
def engine() -> ScriptedClient:
    return ScriptedClient(Settings())


def post(engine: ScriptedClient, path: str, **body: Any) -> Any:
    return create_app(Settings(), engine).test_client().post(path, data=orjson.dumps(body))


@pytest.mark.parametrize("name", ["content", "prompt", "text"])
def test_tokenize_knows_the_field_by_each_clients_name_and_the_count_by_each_clients_name(
    engine: ScriptedClient, name: str
) -> None:
    answer = post(engine, "/tokenize", **{name: "hi"}).json
    assert answer == {"tokens": [104, 105], "count": 2, "length": 2, "max_model_len": 8192}


def test_tokenize_says_what_each_token_stands_for_and_lists_the_bytes_of_half_a_character(
    engine: ScriptedClient,
) -> None:
    response = post(engine, "/tokenize", content="hé", with_pieces=True)
    read("llamacpp.TokenList", response.data)
    assert response.json["tokens"] == [
        {"id": 104, "piece": "h"}, {"id": 195, "piece": [195]}, {"id": 169, "piece": [169]},
    ]  # fmt: skip
    assert response.json["count"] == 3


def test_tokenize_takes_texts_and_ids_mixed(engine: ScriptedClient) -> None:
    assert post(engine, "/tokenize", content=["h", 7, "i"]).json["tokens"] == [104, 7, 105]


@pytest.mark.parametrize("content", ["", [], [""], None])
def test_nothing_has_no_tokens(engine: ScriptedClient, content: Any) -> None:
    assert post(engine, "/tokenize", content=content).json["tokens"] == []
    assert engine.sent == []


def test_tokenize_adds_bos_only_where_asked_and_reads_special_tokens_unless_told_not_to(engine: ScriptedClient) -> None:
    assert post(engine, "/tokenize", content="h").json["tokens"] == [104]
    assert post(engine, "/tokenize", content="h", add_special=True, parse_special=False).json["tokens"] == [1, 104]
    asked = [command for command in engine.sent if isinstance(command, Tokenize)]
    assert [(command.add_special, command.parse_special) for command in asked] == [(False, True), (True, False)]


def test_detokenize_joins_bytes_to_characters(engine: ScriptedClient) -> None:
    assert post(engine, "/detokenize", tokens=[104, 195, 169]).json == {"content": "hé"}
    assert post(engine, "/detokenize", tokens=[195]).json == {"content": "\ufffd"}
    assert post(engine, "/detokenize").json == {"content": ""}


def test_text_generation_webuis_routes_answer_in_its_shapes(engine: ScriptedClient) -> None:
    assert post(engine, "/v1/internal/encode", text="hi").json == {"tokens": [104, 105], "length": 2}
    assert post(engine, "/v1/internal/decode", tokens=[104, 105]).json == {"text": "hi"}
    assert post(engine, "/v1/internal/token-count", text="hi").json == {"length": 2}
    assert post(engine, "/v1/internal/stop-generation").json == "OK"


def test_tabbys_routes_answer_in_its_shapes_with_a_bos_unless_told_otherwise(engine: ScriptedClient) -> None:
    assert post(engine, "/v1/token/encode", text="hi").json == {"tokens": [1, 104, 105], "length": 3}
    assert post(engine, "/v1/token/encode", text="").json == {"tokens": [1], "length": 1}
    said = {"text": "hi", "add_bos_token": False, "encode_special_tokens": False, "decode_special_tokens": False}
    assert post(engine, "/v1/token/encode", **said).json == {"tokens": [104, 105], "length": 2}
    asked = [command for command in engine.sent if isinstance(command, Tokenize)]
    assert [(command.add_special, command.parse_special) for command in asked] == [
        (True, True), (True, True), (False, False),
    ]  # fmt: skip
    assert post(engine, "/v1/token/decode", tokens=[1, 104, 105]).json == {"text": "\x01hi"}
    assert post(engine, "/v1/token/decode", tokens=[1, 104, 105], decode_special_tokens=False).json == {"text": "hi"}


def test_aphrodites_route_answers_as_tokenize_with_a_bos(engine: ScriptedClient) -> None:
    expected = {"tokens": [1, 104, 105], "count": 3, "length": 3, "max_model_len": 8192}
    assert post(engine, "/v1/tokenize", model="any", prompt="hi").json == expected
    without = post(engine, "/v1/tokenize", prompt="hi", add_special_tokens=False).json
    assert without["tokens"] == [104, 105]


def test_text_generation_webuis_model_has_the_adapters_in_force(engine: ScriptedClient) -> None:
    http = create_app(Settings(), engine).test_client()
    response = http.get("/v1/internal/model/info")
    assert response.json == {"model_name": "storyteller", "lora_names": ["a"], "loader": "llama.cpp"}
    http.post("/lora-adapters", json=[])
    engine.answers = lambda command, values: [{"path": "a.gguf", "scale": 0.0}]
    assert http.get("/v1/internal/model/info").json["lora_names"] == []


def test_tabbyapis_model_has_the_limits_of_this_server(engine: ScriptedClient) -> None:
    response = create_app(Settings(n_batch=512, cache_type_k="q8_0"), engine).test_client().get("/v1/model")
    read("llamacpp.TabbyModel", response.data)
    card = response.json
    assert (card["id"], card["object"], card["owned_by"]) == ("storyteller", "model", "llamacpp")
    assert card["parameters"] == {
        "max_seq_len": MODEL.n_ctx_seq, "max_batch_size": MODEL.n_seq_max, "cache_size": MODEL.n_ctx,
        "cache_mode": "q8_0", "chunk_size": 512, "prompt_template": None,
        "prompt_template_content": None, "draft": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/tokenize", {"content": 3}, "content"), ("/tokenize", {"content": [True]}, "content"),
        ("/tokenize", {"content": [-1]}, "content"), ("/tokenize", {"content": {"a": 1}}, "content"),
        ("/tokenize", {"content": "x", "with_pieces": 1}, "with_pieces"), ("/tokenize", {"text": [1.5]}, "text"),
        ("/detokenize", {"tokens": "x"}, "tokens"), ("/detokenize", {"tokens": [True]}, "tokens"),
        ("/detokenize", {"tokens": [-1]}, "tokens"), ("/detokenize", {"tokens": [2**31]}, "tokens"),
        ("/detokenize", {"tokens": [5000]}, "tokens"), ("/v1/internal/decode", {"tokens": ["x"]}, "tokens"),
        ("/v1/token/encode", {"text": 3}, "text"), ("/v1/token/encode", {"text": [{"role": 3}]}, "text"),
        ("/v1/token/encode", {"text": "x", "add_bos_token": 1}, "add_bos_token"),
        ("/v1/token/decode", {"tokens": [1.5]}, "tokens"), ("/v1/tokenize", {"prompt": {}}, "prompt"),
    ],
)  # fmt: skip
def test_a_bad_value_is_400_that_names_its_field(
    engine: ScriptedClient, path: str, body: dict[str, Any], field: str
) -> None:
    response = post(engine, path, **body)
    assert response.status_code == 400
    assert response.json["error"]["param"] == field


TEXT = "once upon a time " * 2**16  # 1.06 MiB
CHAT = {"messages": [{"role": "user", "content": TEXT}]}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/tokenize", {"content": TEXT}),
        ("/tokenize", {"content": [TEXT, 7]}),
        ("/v1/tokenize", {"prompt": TEXT}),
        ("/v1/internal/encode", {"text": TEXT}),
        ("/v1/internal/token-count", {"text": TEXT}),
        ("/v1/token/encode", {"text": TEXT}),
        ("/api/extra/tokencount", {"prompt": TEXT}),
        ("/api/v1/generate", {"prompt": TEXT, "max_context_length": 2048}),
        ("/api/v1/generate", {"memory": TEXT, "prompt": "x", "max_context_length": 2048}),
        ("/api/generate", {"model": "storyteller", "prompt": TEXT, "stream": False}),
        ("/infill", {"input_prefix": TEXT, "input_suffix": "x"}),
        ("/infill", {"input_prefix": "x", "input_suffix": "x", "input_extra": [{"text": TEXT}]}),
        ("/v1/completions", {"prompt": TEXT, "echo": True, "logprobs": 1}),
        ("/v1/chat/completions/input_tokens", CHAT),
        ("/v1/responses/input_tokens", {"input": TEXT}),
        ("/v1/messages/count_tokens", CHAT),
    ],
)
def test_the_engine_has_more_time_for_a_long_text_on_every_route(
    path: str, body: dict[str, Any], engine: ScriptedClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[float] = []
    waits = Mailbox.wait_reply

    def wait(mailbox: Mailbox, seconds: float) -> Any:
        given.append(seconds)
        return waits(mailbox, seconds)

    monkeypatch.setattr(Mailbox, "wait_reply", wait)
    monkeypatch.setattr(scripted, "MODEL", replace(MODEL, fim={"pre": 500, "suf": 501, "mid": 502}))
    post(engine, path, **body)
    assert max(given) > ASK_DEADLINE + TEXT_SECONDS


def test_a_short_text_has_the_time_of_any_question(engine: ScriptedClient, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[float] = []
    monkeypatch.setattr(Mailbox, "wait_reply", lambda mailbox, seconds: given.append(seconds) or [])
    post(engine, "/tokenize", content="once")
    assert ASK_DEADLINE <= given[0] < ASK_DEADLINE + 0.01
