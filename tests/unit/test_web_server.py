"""What the server tells of itself: health, properties, slots and their states, adapters, metrics."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import gevent
import orjson
import pytest
from flask.testing import FlaskClient

from srb.config.settings import Settings
from srb.errors import (
    EngineRestarted,
    InsufficientStorage,
    InvalidRequest,
    SRBError,
    StateNotSaved,
    Unavailable,
    from_code,
)
from srb.version import version
from srb.web.app import create_app
from srb.web.calls import engine_client
from srb.web.ops import routes as ops
from srb.wire.commands import GetSlots, GetStats, SetAdapters, StateAction
from srb.wire.events import Ready, Reply
from tests import scripted
from tests.scripted import MODEL, ScriptedClient, answer_simply
from tests.shapes import read

RUNNING = {
    "id": 1, "n_ctx": 8192, "is_processing": True, "request_id": "0123456789abcdef", "index": 2, "n_prompt_tokens": 7,
    "n_prompt_tokens_processed": 3, "n_prompt_tokens_cache": 4, "n_keep": 2, "max_tokens": 11, "seed": 9, "lora": [0.5],
    "sampling": {"temperature": 0.3, "samplers": ["top_k"]},
    "branches": [{"has_new_line": True, "n_decoded": 5, "n_remain": 6}],
}  # fmt: skip


def serve(slots: list[dict[str, Any]] | None = None, **settings: Any) -> tuple[FlaskClient, ScriptedClient]:
    given = Settings(**settings)
    engine = ScriptedClient(given)
    if slots is not None:
        engine.answers = lambda command, values: (
            slots if isinstance(command, GetSlots) else answer_simply(command, values)
        )
    return create_app(given, engine).test_client(), engine


# ---- health


def test_health_counts_the_sequences_that_branches_use() -> None:
    http, _ = serve()
    response = http.get("/health?include_slots")
    read("llamacpp.Health", response.data)
    assert (response.json["slots_idle"], response.json["slots_processing"]) == (5, 3)
    assert [slot["id"] for slot in response.json["slots"]] == [0, 1]
    for settings in (Settings(slots=False), Settings(api_key="secret")):
        http = create_app(settings, ScriptedClient(settings)).test_client()
        assert "slots" not in http.get("/health?include_slots").json


def test_a_full_server_is_unhealthy_only_if_asked_with_fail_on_no_slot() -> None:
    http, engine = serve()
    engine.values |= {"branches_running": 7.0, "branches_room": 0.0}
    full = {"status": "no slot available", "slots_idle": 0, "slots_processing": 7, "version": version()}
    assert (http.get("/health").status_code, http.get("/health").json) == (200, full)
    response = http.get("/health?fail_on_no_slot=1")
    assert (response.status_code, response.json) == (503, full)


def test_an_engine_that_is_busy_with_one_long_step_is_healthy() -> None:
    def busy(command: Any, values: dict[str, float]) -> Any:
        raise Unavailable("The engine did not answer in time")

    http, engine = serve()
    engine.answers = busy
    assert http.get("/health").json == {"status": "ok", "version": version()}


def never_answers(command: Any, values: dict[str, float]) -> Any:
    gevent.sleep(1e6)


@pytest.fixture
def minute(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Let the engine's long step, of a minute, end for those who wait: `minute` passes it without an answer."""
    monkeypatch.setattr(engine_client, "ASK_DEADLINE", 0.01)
    monkeypatch.setattr(ops, "HEALTH_DEADLINE", 0.01)
    began, passed = time.time(), 0.0
    monkeypatch.setattr(time, "time", lambda: began + passed)  # however long the test itself takes

    def pass_one() -> None:
        nonlocal passed
        passed += 60

    return pass_one


ASKED = ["/health", "/health?include_slots", "/slots", "/v1/srb/completions"]


@pytest.mark.parametrize("path", ASKED)
def test_a_busy_engine_is_described_as_it_was_known_with_the_age(path: str, minute: Callable[[], None]) -> None:
    http, engine = serve()
    known = http.get(path)
    assert "Age" not in known.headers
    answers, engine.answers = engine.answers, never_answers
    minute()
    for _ in range(2):
        old = http.get(path)
        assert (old.status_code, old.json) == (200, known.json)
        assert int(old.headers["Age"]) in (60, 61)
    engine.answers = answers
    engine.receive([Reply(each.request_id, answers(each, engine.values)) for each in engine.sent[-2:]])
    gevent.sleep(0.01)
    assert "Age" not in http.get(path).headers


def test_before_anything_is_known_a_busy_engine_is_healthy_and_lists_are_503(minute: Callable[[], None]) -> None:
    http, engine = serve()
    engine.answers = never_answers
    assert http.get("/health").json == {"status": "ok", "version": version()}
    assert [http.get(path).status_code for path in ASKED[2:]] == [503, 503]


def test_an_answer_that_comes_too_late_is_the_latest_for_the_next_who_asks(minute: Callable[[], None]) -> None:
    http, engine = serve()
    answers, engine.answers = engine.answers, never_answers
    assert "slots_idle" not in http.get("/health").json
    assert "slots_idle" not in http.get("/health").json
    [asked] = [command for command in engine.sent if isinstance(command, GetStats)]
    engine.receive([Reply(asked.request_id, answers(asked, engine.values))])
    gevent.sleep(0)
    minute()
    assert http.get("/health").json["slots_idle"] == 5
    assert len([command for command in engine.sent if isinstance(command, GetStats)]) == 2


def test_a_new_engine_is_not_described_by_the_numbers_of_the_last_one(minute: Callable[[], None]) -> None:
    http, engine = serve()
    assert "slots_idle" in http.get("/health").json
    engine.answers = never_answers
    engine.receive([Ready(MODEL.as_dict())])
    assert "slots_idle" not in http.get("/health").json


def test_a_lost_engine_is_unhealthy() -> None:
    def lost(command: Any, values: dict[str, float]) -> Any:
        raise EngineRestarted("The engine was restarted")

    http, engine = serve()
    engine.answers = lost
    assert http.get("/health").status_code == 503


# ---- properties


def test_props_has_all_that_clients_read() -> None:
    http, _ = serve(metrics=False)
    response = http.get("/props")
    read("llamacpp.Props", response.data)
    found = response.json
    assert isinstance(found["chat_template"], str)
    assert found["default_generation_settings"]["n_ctx"] == 8192
    assert found["default_generation_settings"]["params"]["temperature"] == 0.8
    assert found["default_generation_settings"]["temperature"] == 0.8
    assert found["total_slots"] == 256
    assert serve(parallel=3)[0].get("/props").json["total_slots"] == 3
    assert (found["endpoint_props"], found["endpoint_slots"], found["endpoint_metrics"]) == (False, True, False)
    assert (found["user_name"], found["assistant_name"]) == ("User:", "Assistant:")
    assert (found["bos_token"], found["eos_token"], found["build_info"]) == ("<s>", "</s>", "b1-scripted")
    assert found["srb_version"] == version()
    assert found["library_lacks"] == ""


def test_props_tell_whether_the_model_is_deterministic_and_if_not_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    found = serve()[0].get("/props").json
    assert (found["deterministic"], found["nondeterminism"]) == (True, "")
    monkeypatch.setattr(scripted, "MODEL", replace(scripted.MODEL, nondeterminism="a GPU computes"))
    found = serve()[0].get("/props").json
    assert (found["deterministic"], found["nondeterminism"]) == (False, "a GPU computes")


def test_props_tell_the_servers_own_defaults() -> None:
    http, _ = serve(temperature=0.3, seed=7, default_max_tokens=50, stop='["a"]')
    found = http.get("/props").json
    params = found["default_generation_settings"]["params"]
    assert (params["temperature"], params["seed"], params["n_predict"], params["stop"]) == (0.3, 7, 50, ["a"])
    assert found["user_name"] == "a"  # as --reverse-prompt sets it


def test_props_are_not_changed() -> None:
    response = serve()[0].post("/props", data=b"{}")
    assert response.status_code == 501
    assert response.json["error"]["type"] == "not_supported_error"


# ---- slots


def test_slots_show_what_runs_under_llama_servers_names() -> None:
    idle = {"id": 0, "n_ctx": 8192, "is_processing": False}
    http, _ = serve([idle, RUNNING])
    response = http.get("/slots")
    first, second = (read("llamacpp.FullSlot", orjson.dumps(slot)) for slot in response.json)
    assert (first["is_processing"], first["state"], first["id_task"], first["task_id"]) == (False, 0, -1, -1)
    assert (second["is_processing"], second["state"], second["n_prompt_tokens_cache"]) == (True, 1, 4)
    assert second["id_task"] == second["task_id"] == 0x0123456
    params, token = second["params"], second["next_token"][0]
    assert (params["seed"], params["n_predict"], params["temperature"]) == (9, 11, 0.3)
    assert (token["n_decoded"], token["n_remain"], token["has_new_line"]) == (5, 6, True)
    assert (params["n_keep"], params["lora"], params["samplers"]) == (2, [{"id": 0, "scale": 0.5}], ["top_k"])
    for slot in (first, second):
        assert {name: slot[name] for name in slot["params"]} == slot["params"]


IN_THE_DOCUMENT_OF_2024 = """dynatemp_exponent dynatemp_range frequency_penalty grammar id ignore_eos logit_bias min_p
    mirostat mirostat_eta mirostat_tau model n_ctx n_keep n_predict n_probs next_token penalize_nl penalty_prompt_tokens
    presence_penalty prompt repeat_last_n repeat_penalty samplers seed state stop stream task_id temperature tfs_z top_k
    top_p typical_p use_penalty_prompt_tokens"""
OF_NEXT_TOKEN = "has_next_token n_remain n_decoded stopped_eos stopped_limit stopped_word stopping_word"


def test_a_slot_has_every_key_of_2024_also_where_nothing_runs() -> None:
    http, _ = serve([{"id": 0, "n_ctx": 8192, "is_processing": False}, RUNNING])
    for slot in http.get("/slots").json:
        assert slot.keys() >= set(IN_THE_DOCUMENT_OF_2024.split())
        assert slot["next_token"][0].keys() >= set(OF_NEXT_TOKEN.split())
        assert slot["model"] == "storyteller"


def test_slots_tell_no_text_of_the_settings_or_of_a_request() -> None:
    http, _ = serve(
        [{"id": 0, "n_ctx": 8192, "is_processing": False}, RUNNING], grammar='root ::= "secret"', stop="secret"
    )
    assert "secret" not in http.get("/slots").text


def test_a_poll_of_many_slots_is_small() -> None:
    idle = [{"id": slot, "n_ctx": 131072, "is_processing": False} for slot in range(256)]
    http, _ = serve(idle)
    response = http.get("/slots")
    assert len(response.data) < 100_000
    slots = [read("llamacpp.Slot", orjson.dumps(slot)) for slot in response.json]
    assert [slot["id"] for slot in slots] == list(range(256))
    assert all(slot["next_token"][0]["n_decoded"] == 0 and slot["model"] for slot in slots)
    busy = [{**RUNNING, "id": slot} for slot in range(256)]
    response = serve(busy)[0].get("/slots")
    assert len(response.data) < 500_000
    assert all(slot["params"]["temperature"] == 0.3 for slot in response.json)


def test_with_a_limit_of_requests_a_slot_has_all_branches_of_its_request() -> None:
    branches = [{"has_new_line": False, "n_decoded": decoded, "n_remain": -1} for decoded in (5, 7)]
    http, _ = serve([{**RUNNING, "id": 0, "branches": branches}], parallel=1)
    [slot] = (read("llamacpp.FullSlot", orjson.dumps(slot)) for slot in http.get("/slots").json)
    assert [token["n_decoded"] for token in slot["next_token"]] == [5, 7]


def test_the_default_settings_are_those_of_an_answer_to_a_bare_prompt() -> None:
    http = create_app(Settings(), ScriptedClient(Settings())).test_client()
    default = http.get("/props").json["default_generation_settings"]
    answered = http.post("/completion", json={"prompt": "Once"}).json["generation_settings"]
    assert default.pop("params") == default
    # As llama-server's, /props tells no format of reasoning, and an answer the one that a chat would have.
    assert default | {"seed": answered["seed"], "reasoning_format": "deepseek"} == answered


def test_slots_can_fail_where_none_is_free() -> None:
    idle = {"id": 0, "n_ctx": 8192, "is_processing": False}
    http, engine = serve([idle, RUNNING])
    assert http.get("/slots?fail_on_no_slot=1").status_code == 200
    engine.values |= {"branches_room": 0.0}
    assert http.get("/slots").status_code == 200
    response = http.get("/slots?fail_on_no_slot=1")
    assert response.status_code == 503
    assert (response.json["error"]["message"], response.json["error"]["type"]) == (
        "no slot available",
        "unavailable_error",
    )


def test_slots_can_be_switched_off() -> None:
    http = create_app(Settings(slots=False), ScriptedClient(Settings())).test_client()
    response = http.get("/slots")
    assert response.status_code == 501
    assert response.json["error"]["message"] == "This server does not support slots endpoint. Start it with `--slots`"


@pytest.mark.parametrize(
    ("action", "answer"),
    [
        ("save", {"filename": "a.bin", "n_saved": 5, "n_written": 100, "timings": {"save_ms": 1.5}}),
        ("restore", {"filename": "a.bin", "n_restored": 5, "n_read": 100, "timings": {"restore_ms": 1.5}}),
        ("erase", {"n_erased": 5}),
    ],
)
def test_a_slots_state_is_saved_restored_and_erased(action: str, answer: dict[str, Any]) -> None:
    http, engine = serve(state_dir="states")
    response = http.post(f"/slots/3?action={action}", data=b'{"filename": "a.bin"}')
    read("llamacpp.SlotAction", response.data)
    assert response.json == {"id_slot": 3, **answer}
    (command,) = engine.sent
    assert isinstance(command, StateAction)
    assert (command.action, command.slot) == (action, 3)
    assert command.name == ("" if action == "erase" else "a.bin")


@pytest.mark.parametrize(("text", "number"), [("5", 5), ("0", 0), ("0000000005", 5), ("000000000000", 0), ("07", 7)])
def test_a_slots_number_is_read_whole(text: str, number: int) -> None:
    http, engine = serve(state_dir="/tmp/states")
    assert http.post(f"/slots/{text}?action=erase").json["id_slot"] == number
    [command] = [command for command in engine.sent if isinstance(command, StateAction)]
    assert command.slot == number


@pytest.mark.parametrize(
    ("path", "data", "message"),
    [
        ("/slots/x?action=save", b'{"filename": "a"}', "Invalid slot ID"),
        ("/slots/-1?action=save", b'{"filename": "a"}', "Invalid slot ID"),
        ("/slots/256?action=save", b'{"filename": "a"}', "Invalid slot ID"),
        ("/slots/99999999999999999999?action=save", b'{"filename": "a"}', "Invalid slot ID"),
        ("/slots/0000000256?action=save", b'{"filename": "a"}', "Invalid slot ID"),
        ("/slots/00000000000000000001x?action=save", b'{"filename": "a"}', "Invalid slot ID"),
        ("/slots/\u0661?action=save", b'{"filename": "a"}', "Invalid slot ID"),
        ("/slots/0?action=burn", b'{"filename": "a"}', "Invalid action"),
        ("/slots/0", b'{"filename": "a"}', "Invalid action"),
        ("/slots/0?action=save", b'{"filename": "../a"}', "Field 'filename': Invalid filename"),
        ("/slots/0?action=save", b'{"filename": ".a"}', "Field 'filename': Invalid filename"),
        ("/slots/0?action=save", b'{"filename": ""}', "Field 'filename': Invalid filename"),
        ("/slots/0?action=restore", b"{}", "Field 'filename': Invalid filename"),
        ("/slots/0?action=save", b'{"filename": 3}', "Field 'filename': "),
        ("/slots/0?action=save", b"{", "The body is not valid JSON"),
    ],
)
def test_a_bad_slot_action_is_400(path: str, data: bytes, message: str) -> None:
    http, engine = serve(state_dir="states")
    response = http.post(path, data=data)
    assert response.status_code == 400
    assert response.json["error"]["message"].startswith(message)
    assert engine.sent == []


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (InsufficientStorage("No space left"), 507, "server_error"),
        (StateNotSaved("Read-only file system"), 500, "server_error"),
        (Unavailable("Other states are still being written"), 503, "unavailable_error"),
    ],
)
def test_row_44_a_state_that_could_not_be_saved_is_told_with_its_status(
    error: SRBError, status: int, kind: str
) -> None:
    def refuse(command: Any, values: dict[str, float]) -> Any:
        raise from_code(error.code, error.message)  # as it crosses the socket

    http, engine = serve(state_dir="states")
    engine.answers = refuse
    response = http.post("/slots/0?action=save", data=b'{"filename": "a"}')
    assert response.status_code == status
    assert response.json["error"] == {"code": status, "message": error.message, "type": kind}
    assert ("Retry-After" in response.headers) == (status == 503)


def test_slot_actions_need_a_folder() -> None:
    response = serve()[0].post("/slots/0?action=save", data=b'{"filename": "a"}')
    assert response.status_code == 501
    assert "--slot-save-path" in response.json["error"]["message"]


# ---- adapters


def test_adapters_are_listed_and_their_scales_set() -> None:
    http, engine = serve()
    assert http.get("/lora-adapters").json[0]["path"] == "a.gguf"
    assert http.post("/lora-adapters", data=b'[{"id": 0, "scale": 0.5}]').json == {"success": True}
    assert [command.scales for command in engine.sent if isinstance(command, SetAdapters)] == [((0, 0.5),)]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"{}", "Request body must be an array"),
        (b"null", "Request body must be an array"),
        (b'[{"id": 0}]', "The body must be a list of objects with an integer 'id' and a number 'scale'"),
        (b'[{"id": -1, "scale": 1}]', "The body Value must be between"),
        (b"[", "The body is not valid JSON"),
    ],
)
def test_a_bad_list_of_scales_is_400(data: bytes, message: str) -> None:
    http, engine = serve()
    response = http.post("/lora-adapters", data=data)
    assert response.status_code == 400
    assert response.json["error"]["message"].startswith(message)
    assert engine.sent == []


def test_an_adapter_that_is_not_there_is_the_engines_refusal() -> None:
    def refuse(command: Any, values: dict[str, float]) -> Any:
        raise InvalidRequest("there is no adapter 9")

    http, engine = serve()
    engine.answers = refuse
    assert http.post("/lora-adapters", data=b'[{"id": 9, "scale": 1}]').status_code == 400


# ---- metrics


def metrics(http: FlaskClient) -> dict[str, float]:
    lines = http.get("/metrics").text.splitlines()
    return {
        name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if not line.startswith("#"))
    }


def test_metrics_have_llama_servers_names_of_2026_and_2024() -> None:
    http, _ = serve()
    found = metrics(http)
    assert found["llamacpp:kv_cache_tokens"] == 12.0
    assert found["llamacpp:kv_cache_usage_ratio"] == 0.25
    assert found["llamacpp:spec_decode_num_drafts_total"] == 0.0
    assert found["srb:branches_running"] == 3.0


def test_rates_are_of_the_time_since_the_last_scrape() -> None:
    http, engine = serve()
    engine.values |= {
        "tokens_predicted_total": 110.0, "decode_steps_total": 100.0, "tokens_predicted_seconds_total": 2.0
    }  # fmt: skip
    assert metrics(http)["llamacpp:predicted_tokens_seconds"] == 50.0
    engine.values |= {"decode_steps_total": 130.0, "tokens_predicted_seconds_total": 3.0}
    assert metrics(http)["llamacpp:predicted_tokens_seconds"] == 30.0
    assert metrics(http)["llamacpp:predicted_tokens_seconds"] == 0.0
    engine.values |= {"decode_steps_total": 10.0, "tokens_predicted_seconds_total": 1.0}  # a new engine
    assert metrics(http)["llamacpp:predicted_tokens_seconds"] == 10.0


def test_rates_are_the_same_whichever_worker_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    (one, engine), (other, other_engine) = serve(), serve()
    other_engine.values = engine.values
    engine.values |= {"decode_steps_total": 100.0, "tokens_predicted_seconds_total": 2.0}
    assert metrics(one)["llamacpp:predicted_tokens_seconds"] == 50.0
    engine.values |= {"decode_steps_total": 130.0, "tokens_predicted_seconds_total": 3.0}
    assert metrics(other)["llamacpp:predicted_tokens_seconds"] == 30.0
    engine.values |= {"decode_steps_total": 150.0, "tokens_predicted_seconds_total": 5.0}
    assert metrics(one)["llamacpp:predicted_tokens_seconds"] == 10.0
    assert [path.name for path in tmp_path.glob("last_scrape*")] == ["last_scrape.json"]


@pytest.mark.parametrize("shared", [False, True])
def test_a_busy_engine_leaves_no_hole_in_the_metrics_whichever_worker_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, minute: Callable[[], None], *, shared: bool
) -> None:
    if shared:
        monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    (one, engine), (other, other_engine) = serve(), serve()
    engine.values |= {"decode_steps_total": 100.0, "tokens_predicted_seconds_total": 2.0}
    known = metrics(one)
    assert known["srb_engine_answer_timestamp_seconds"] == pytest.approx(time.time(), abs=30)
    engine.answers = other_engine.answers = never_answers
    minute()
    for http in (one, other, one) if shared else (one, one):
        found = metrics(http)
        for name in known:
            if "decode_steps" in name or "predicted" in name or "timestamp" in name or "kv_cells" in name:
                assert found[name] == known[name], name


def test_no_counter_falls_when_a_worker_answers_that_knows_older_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, minute: Callable[[], None]
) -> None:
    """Prometheus takes a counter that falls for one that begins anew, and adds all of it."""
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    (one, engine), (other, other_engine) = serve(), serve()
    engine.values |= {"decode_steps_total": 20.0}
    assert metrics(one)["srb:decode_steps_total"] == 20.0
    minute()
    other_engine.values = engine.values | {"decode_steps_total": 50.0}
    assert metrics(other)["srb:decode_steps_total"] == 50.0
    engine.answers = never_answers
    assert metrics(one)["srb:decode_steps_total"] == 50.0


def test_an_engine_that_is_gone_leaves_no_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    http, engine = serve()
    metrics(http)
    monkeypatch.setattr(engine, "engine_status", lambda: {"state": "restarting", "restarts": 1})

    def lost(command: Any, values: dict[str, float]) -> Any:
        raise EngineRestarted("The engine was restarted")

    engine.answers = lost
    assert "srb:kv_cells" not in metrics(http)


def test_busy_slots_are_averaged_over_all_decodes_as_in_llama_server() -> None:
    http, engine = serve()
    assert metrics(http)["llamacpp:n_busy_slots_per_decode"] == 0.0
    engine.values |= {"busy_slots_total": 30.0, "n_decode_total": 10.0}
    assert metrics(http)["llamacpp:n_busy_slots_per_decode"] == 3.0
    assert metrics(http)["llamacpp:n_busy_slots_per_decode"] == 3.0


def test_http_answers_are_counted_by_the_route_and_not_by_what_a_client_makes_up() -> None:
    http, _ = serve(api_key="secret")
    key = {"Authorization": "Bearer secret"}
    for path in ("/tokenize", "/tokenize/"):
        http.post(path, data=b"{}", headers=key)
    http.post("/tokenize", data=b"{", headers=key)
    http.get("/nowhere/7", headers=key)
    http.open("/health", method="BREW", headers=key)
    http.get("/props")
    http.post("/slots/0?action=erase", headers=key)
    text = http.get("/metrics", headers=key).text
    counted = dict(
        line.removeprefix("srb:http_requests_total").rsplit(" ", 1)
        for line in text.splitlines()
        if line.startswith("srb:http_requests_total{")
    )
    assert counted == {
        '{method="POST",route="/tokenize",status="200"}': "2.0",
        '{method="POST",route="/tokenize",status="400"}': "1.0",
        '{method="GET",route="none",status="404"}': "1.0",
        '{method="other",route="none",status="405"}': "1.0",
        '{method="GET",route="none",status="401"}': "1.0",
        '{method="POST",route="/slots/<slot>",status="501"}': "1.0",
    }


def test_calls_that_are_open_are_counted_while_they_are() -> None:
    http, engine = serve()
    stream = http.post("/completion", data=b'{"prompt": "x", "stream": true}')
    assert metrics(http)["srb:http_calls_open"] == 1.0
    stream.close()
    assert metrics(http)["srb:http_calls_open"] == 0.0
    assert any(isinstance(command, GetStats) for command in engine.sent)
