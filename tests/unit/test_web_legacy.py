"""The dialects of 2023: POST /stream with a token a line, and a dialogue on POST /completion."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import orjson
import pytest
from flask.testing import FlaskClient

from srb.config.settings import Settings
from srb.web.app import create_app
from srb.wire.commands import Generate
from srb.wire.events import Accepted, BranchEnded, Delta, Done, Event, Failed
from tests.scripted import ScriptedClient

TALK = {
    "system_prompt": "A chat.\n\nHuman: Hello\nAssistant: Hi, how may I help you?\nHuman:",
    "anti_prompt": "Human:",
    "assistant_name": "Assistant:",
    "prompt": "When is the day of independency of US?",
    "temperature": 0.2,
}


def serve(**settings: Any) -> tuple[FlaskClient, ScriptedClient]:
    chosen = Settings(**settings)
    engine = ScriptedClient(chosen)
    return create_app(chosen, engine).test_client(), engine


def asked(engine: ScriptedClient) -> Generate:
    [command] = [command for command in engine.sent if isinstance(command, Generate)]
    return command


def broken(command: Generate) -> Iterable[list[Event]]:
    yield [Accepted(command.request_id, 5)]
    yield [Delta(command.request_id, 0, " it", [1]), Delta(command.request_id, 0, "", [2])]
    yield [Failed(command.request_id, "engine_restarted", "the engine was restarted")]


def half_broken(command: Generate) -> Iterable[list[Event]]:
    yield [Accepted(command.request_id, 5)]
    yield [BranchEnded(command.request_id, 0, "error", 0, code="grammar_dead_end", message="no token is left")]
    yield [Done(command.request_id, 5, 0, 0, 1.0, 1.0)]


# POST /stream ---------------------------------------------------------------------------------------------------------


def test_a_stream_is_plain_text_with_a_token_on_each_line() -> None:
    http, _ = serve()
    response = http.post("/stream", json={"prompt": "Once upon a time"})
    assert response.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert response.data == b" 0.0\n 0.1\n 0.2\n"


def test_the_fields_of_a_stream_mean_what_they_say() -> None:
    http, engine = serve()
    body = {
        "num_predict": 64, "prompt": "Once upon a time", "n_batch": 16, "top_k": 50, "top_p": 0.9, "repeat_penalty": 1.5,
        "temp": 0.7, "cache": 42,
    }  # fmt: skip
    http.post("/stream", json=body).close()
    command = asked(engine)
    (branch,) = command.branches
    assert (command.prompt, command.state, branch.max_tokens) == (("Once upon a time",), "cache-42", 64)
    sampling = branch.sampling
    assert (sampling.top_k, sampling.top_p, sampling.repeat_penalty, sampling.temperature) == (50, 0.9, 1.5, 0.7)


def test_a_stream_without_fields_gets_its_old_servers_defaults() -> None:
    http, engine = serve()
    http.post("/stream", json={"prompt": "x"}).close()
    (branch,) = asked(engine).branches
    sampling = branch.sampling
    assert (branch.max_tokens, sampling.top_k, sampling.top_p, sampling.temperature) == (32, 40, 0.95, 0.8)
    assert sampling.repeat_penalty == 1.3
    assert asked(engine).state == ""


def test_this_servers_settings_win_over_the_old_servers_defaults() -> None:
    http, engine = serve(repeat_penalty=1.1, temperature=0.5)
    http.post("/stream", json={"prompt": "x"}).close()
    http.post("/completion", json={"prompt": "x", "anti_prompt": "y"}).close()
    first, second = (command.branches[0].sampling for command in engine.sent if isinstance(command, Generate))
    assert (first.repeat_penalty, first.temperature) == (1.1, 0.5)
    assert (second.repeat_penalty, second.temperature) == (1.1, 0.5)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("prompt", ["a", "b"]), ("prompt", None), ("cache", -1), ("cache", "42"), ("cache", 1.5), ("cache", 2**31),
        ("n_batch", 0), ("temp", "hot"), ("num_predict", -2), ("n", 2),
    ],
)  # fmt: skip
def test_a_bad_field_of_a_stream_is_400_and_named(name: str, value: Any) -> None:
    http, engine = serve()
    response = http.post("/stream", json={"prompt": "x", name: value})
    assert response.status_code == 400
    assert response.json["error"]["param"] == name
    assert engine.sent == []


def test_a_state_of_an_uncached_prompt_is_refused() -> None:
    http, _ = serve()
    response = http.post("/stream", json={"prompt": "x", "cache": 1, "cache_prompt": False})
    assert response.json["error"]["param"] == "cache"


def test_a_stream_that_fails_says_so_on_a_line() -> None:
    for script, lines in (
        (broken, " it\nerror: the engine was restarted\n"),
        (half_broken, "error: no token is left\n"),
    ):
        http, engine = serve()
        engine.script = script
        assert http.post("/stream", json={"prompt": "x"}).text == lines


# A dialogue -----------------------------------------------------------------------------------------------------------


def test_a_dialogue_is_streamed_as_bare_content() -> None:
    http, _ = serve()
    response = http.post("/completion", json=TALK | {"stream": False})
    assert response.mimetype == "text/event-stream"
    events = [orjson.loads(line.removeprefix("data: ")) for line in response.text.split("\n\n") if line]
    assert [list(event) for event in events] == [["content"]] * len(events)
    assert "".join(event["content"] for event in events) == " 0.0 0.1 0.2"


def test_a_dialogues_prompt_is_system_prompt_messages_and_the_answerers_name() -> None:
    http, engine = serve()
    http.post("/completion", json=TALK).close()
    command = asked(engine)
    assert "".join(map(str, command.prompt)) == f"{TALK['system_prompt']} {TALK['prompt']}\nAssistant:"
    assert command.prompt[0] == TALK["system_prompt"]  # on its own, so that its tokens are always the same
    (branch,) = command.branches
    assert (branch.stop, branch.sampling.temperature, branch.max_tokens) == (("Human:",), 0.2, -1)


def test_a_dialogues_missing_fields_come_from_props() -> None:
    http, engine = serve(stop="You:", default_max_tokens=9)
    props = http.get("/props").json
    assert (props["user_name"], props["assistant_name"]) == ("You:", "Assistant:")
    http.post("/completion", json={"prompt": "Hello", "system_prompt": "", "stop": ["."]}).close()
    command = asked(engine)
    assert command.prompt == ("Hello", "\nAssistant:")
    (branch,) = command.branches
    assert (branch.stop, branch.sampling.temperature, branch.max_tokens) == ((".", "You:"), 0.1, 9)


@pytest.mark.parametrize("body", [{"prompt": "x"}, {"prompt": "x", "system_prompt": {"prompt": "A chat."}}])
def test_other_bodies_are_llama_servers(body: dict[str, Any]) -> None:
    http, _ = serve()
    assert http.post("/completion", json=body).json["stop_type"] == "eos"


@pytest.mark.parametrize("name", ["system_prompt", "anti_prompt", "assistant_name", "prompt", "temperature"])
def test_a_bad_field_of_a_dialogue_is_400_and_named(name: str) -> None:
    http, engine = serve()
    response = http.post("/completion", json={**TALK, name: {"a": [1]}})
    assert response.status_code == 400
    assert response.json["error"]["param"] == name
    assert engine.sent == []


def test_a_dialogue_that_fails_says_so() -> None:
    http, engine = serve()
    engine.script = broken
    last = http.post("/completion", json=TALK).text.split("\n\n")[-2]
    assert last.startswith('data: {"error":{"code":503,')
