"""The srb dialect over HTTP, with a scripted engine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import orjson
import pytest
from flask.testing import FlaskClient

from srb.config.settings import Settings
from srb.web.app import create_app
from srb.web.dialects.srb.answers import ServerDescription
from srb.wire.commands import Generate
from srb.wire.events import Accepted, BranchEnded, Delta, Done, Event, Progress
from tests import scripted
from tests.scripted import Script, ScriptedClient, count_to_three
from tests.shapes import read


def serve(script: Script = count_to_three, **settings: Any) -> tuple[FlaskClient, ScriptedClient]:
    loaded = Settings(**settings)
    engine = ScriptedClient(loaded, script)
    return create_app(loaded, engine).test_client(), engine


def events(text: str) -> list[dict[str, Any]]:
    assert text.endswith("\n\n")
    lines = text.removesuffix("\n\n").split("\n\n")
    assert all(line.startswith("data: ") for line in lines)
    return [orjson.loads(line.removeprefix("data: ")) for line in lines]


def post(http: FlaskClient, path: str = "/v1/completions", **body: Any) -> Any:
    return http.post(path, data=orjson.dumps(body))


def test_the_seeds_curl_gets_the_seeds_events() -> None:
    http, engine = serve()
    response = post(http, prompt="Once upon a time,")
    assert response.status_code == 200
    assert response.mimetype == "text/event-stream"
    start, *middle, done = events(response.text)
    assert list(start)[:2] == ["event", "count"]
    assert start["count"] == done["count"] == 8
    streamed = [event for event in middle if event["event"] == "stream"]
    assert [list(event) for event in streamed] == [["event", "index", "text"]] * 24
    stops = [event for event in middle if event["event"] == "stop"]
    assert [list(stop)[:4] for stop in stops] == [["event", "index", "length", "stop"]] * 8
    assert {stop["index"]: stop["length"] for stop in stops} == dict.fromkeys(range(8), 3)
    assert {branch.max_tokens for branch in engine.sent[0].branches} == {128}


def test_start_reports_the_seed_of_every_branch_and_done_the_usage() -> None:
    http, engine = serve()
    start, *_, done = events(post(http, prompt="x", n=2, seed=41).text)
    assert start["seeds"] == [41, 42]
    assert start["prompt_tokens"] == 5
    assert start["id"] == engine.sent[0].request_id
    assert done["usage"]["total_tokens"] == 11
    assert done["timings"]["predicted_per_second"] == 200.0
    assert done["timings"]["prompt_n"] == 3


@pytest.mark.parametrize("given", [{"distinct_first": True}, {"distinct_words": True}, {"sibling_penalty": 2.5}])
def test_an_answer_says_that_seeds_reproduce_the_request_if_its_branches_depend_on_each_other(
    given: dict[str, Any],
) -> None:
    http, engine = serve()
    start, *_ = events(post(http, "/v1/srb/completions", prompt="x", n=2, **given).text)
    whole = post(http, "/v1/srb/completions", prompt="x", n=2, stream=False, **given).json
    assert start["seeds_reproduce"] == whole["seeds_reproduce"] == "request"
    assert all(getattr(command, name) == value for command in engine.sent for name, value in given.items())
    for off in ({"distinct_first": False, "distinct_words": False}, {"sibling_penalty": 0}, {}):
        assert "seeds_reproduce" not in events(post(http, "/v1/srb/completions", prompt="x", n=2, **off).text)[0]


def test_stop_says_whether_the_text_came_to_its_end() -> None:
    def end_each_way(command: Generate) -> Iterable[list[Event]]:
        request_id = command.request_id
        yield [Accepted(request_id, 1)]
        yield [
            BranchEnded(request_id, 0, "eos", 1),
            BranchEnded(request_id, 1, "word", 2, stopping_word="END", logprob=-0.5),
            BranchEnded(request_id, 2, "limit", 3, truncated=True, rewinds=2),
            BranchEnded(request_id, 3, "cancelled", 4),
            BranchEnded(request_id, 4, "error", 5, code="grammar_dead_end", message="no token fits"),
            BranchEnded(request_id, 5, "boundary", 6),
            Done(request_id, 1, 0, 21, 1.0, 1.0),
        ]

    http, _ = serve(end_each_way)
    found = events(post(http, prompt="x", n=6).text)
    assert found[1:-1] == [
        {"event": "stop", "index": 0, "length": 1, "stop": 1, "reason": "eos", "stopping_word": ""},
        {
            "event": "stop", "index": 1, "length": 2, "stop": 1, "reason": "word", "stopping_word": "END",
            "logprob": -0.5,
        },
        {
            "event": "stop", "index": 2, "length": 3, "stop": 0, "reason": "limit", "stopping_word": "",
            "truncated": True, "rewinds": 2,
        },
        {"event": "stop", "index": 3, "length": 4, "stop": 0, "reason": "cancelled", "stopping_word": ""},
        {"event": "error", "code": "grammar_dead_end", "message": "no token fits", "index": 4},
        {"event": "stop", "index": 4, "length": 5, "stop": 0, "reason": "error", "stopping_word": ""},
        {"event": "stop", "index": 5, "length": 6, "stop": 1, "reason": "boundary", "stopping_word": ""},
    ]  # fmt: skip
    assert found[-1]["event"] == "done"


def test_stream_events_carry_logprobs_only_where_asked_for() -> None:
    entry = {"id": 1, "token": " a", "bytes": [32, 97], "logprob": -0.1, "top_logprobs": []}

    def with_probs(command: Generate) -> Iterable[list[Event]]:
        yield [Accepted(command.request_id, 1)]
        yield [Delta(command.request_id, 0, " a", [1], [entry]), Done(command.request_id, 1, 0, 1, 1.0, 1.0)]

    http, engine = serve(with_probs)
    found = events(post(http, "/v1/srb/completions", prompt="x", n=1, logprobs=0).text)
    assert found[1] == {"event": "stream", "index": 0, "text": " a", "logprobs": [entry]}
    assert engine.sent[0].branches[0].sampling.n_probs == 0


def test_token_ids_come_where_asked_for_also_those_without_text() -> None:
    def with_a_silent_token(command: Generate) -> Iterable[list[Event]]:
        request_id = command.request_id
        yield [Accepted(request_id, 1)]
        yield [Delta(request_id, 0, " a", [7, 8]), Delta(request_id, 0, "", [9])]
        yield [BranchEnded(request_id, 0, "eos", 3), Done(request_id, 1, 0, 3, 1.0, 1.0)]

    http, _ = serve(with_a_silent_token)
    text = post(http, "/v1/srb/completions", prompt="x", n=1, return_tokens=True).text
    asked = [event for event in events(text) if "text" in event]
    assert asked == [
        {"event": "stream", "index": 0, "text": " a", "tokens": [7, 8]},
        {"event": "stream", "index": 0, "text": "", "tokens": [9]},
    ]
    unasked = [event for event in events(post(http, prompt="x", n=1).text) if "text" in event]
    assert unasked == [{"event": "stream", "index": 0, "text": " a"}]
    [completion] = post(http, prompt="x", n=1, return_tokens=True, format="srb", stream=False).json["completions"]
    assert completion["tokens"] == [7, 8, 9]


def test_a_failure_after_the_first_byte_is_an_event_and_the_end() -> None:
    def accept_and_die(command: Generate) -> Iterable[list[Event]]:
        yield [Accepted(command.request_id, 1)]
        engine.lose_engine()

    http, engine = serve(accept_and_die)
    start, error = events(post(http, prompt="x").text)
    assert start["event"] == "start"
    assert error["event"] == "error"
    assert error["code"] == "engine_restarted"


def test_one_json_answer_where_stream_is_false() -> None:
    http, _ = serve()
    response = post(http, "/v1/srb/completions", prompt="x", n=2, seed=7, stream=False)
    assert response.mimetype == "application/json"
    assert response.json["seeds"] == [7, 8]
    assert response.json["completions"] == [
        {"index": i, "text": f" {i}.0 {i}.1 {i}.2", "length": 3, "stop": 1, "reason": "eos", "stopping_word": ""}
        for i in range(2)
    ]
    assert response.json["usage"]["completion_tokens"] == 6
    assert response.json["timings"]["predicted_ms"] == 30.0


def test_this_dialect_takes_one_prompt() -> None:
    http, engine = serve()
    response = post(http, prompt=["x", "y"], format="srb")
    assert response.status_code == 400
    assert "prompt" in response.json["error"]["message"]
    assert engine.sent == []


@pytest.mark.parametrize(
    ("completions_format", "body", "dialect"),
    [
        ("auto", {}, "srb"),
        ("auto", {"n": 2, "max_tokens": 5, "temperature": 1.0, "seed": 7}, "srb"),
        ("auto", {"n": None, "max_tokens": None, "temperature": None, "seed": None, "format": None}, "srb"),
        ("auto", {"model": None}, "openai"),
        ("auto", {"stream": None}, "openai"),
        ("auto", {"top_p": 0.9, "max_tokens": 200, "temperature": 1, "seed": 10}, "openai"),
        ("auto", {"stop": ["\n"]}, "openai"),
        ("auto", {"max_new_tokens": 200}, "openai"),
        ("auto", {"unknown": None}, "openai"),
        ("auto", {"top_p": 0.9, "stop": ["x"], "unknown": 1, "format": "srb"}, "srb"),
        ("auto", {"model": "m"}, "openai"),
        ("auto", {"stream": False}, "openai"),
        ("auto", {"model": "m", "stream": True, "format": "srb"}, "srb"),
        ("auto", {"format": "openai"}, "openai"),
        ("auto", {"format": "json"}, "srb"),
        ("srb", {"model": "m"}, "srb"),
        ("openai", {}, "openai"),
        ("openai-stream", {}, "openai"),
    ],
)
def test_the_body_and_the_setting_choose_the_dialect(
    completions_format: str, body: dict[str, Any], dialect: str
) -> None:
    http, _ = serve(completions_format=completions_format)
    text = post(http, prompt="x", **body).text
    assert ('"event":"start"' in text) == (dialect == "srb")
    assert ('"object":"text_completion"' in text) == (dialect == "openai")


@pytest.mark.parametrize(
    ("completions_format", "body", "streams"),
    [
        ("openai-stream", {}, True),
        ("openai-stream", {"stream": False}, False),
        ("openai", {}, False),
        ("openai", {"stream": True}, True),
    ],
)
def test_the_setting_decides_whether_an_unspecified_request_streams(
    completions_format: str, body: dict[str, Any], streams: bool
) -> None:
    http, _ = serve(completions_format=completions_format)
    response = post(http, prompt="x", **body)
    assert response.mimetype == ("text/event-stream" if streams else "application/json")


def test_the_srb_route_always_speaks_srb() -> None:
    http, _ = serve(completions_format="openai")
    assert '"event":"start"' in post(http, "/v1/srb/completions", prompt="x", model="m", stream=True).text


def test_banned_strings_come_by_every_name_and_for_single_branches() -> None:
    http, engine = serve()
    for body, banned in [
        ({"banned_strings": ["a", "", "b", "a"]}, ("a", "b")),
        ({"banned_strings": "a phrase"}, ("a phrase",)),
        ({"banned_phrases": ["c"]}, ("c",)),
        ({"banned_tokens": ["d", 7]}, ("d",)),
        ({"banned_tokens": [7, 8]}, ()),
        ({"banned_tokens": "7,8"}, ()),
        ({"bad_words": ["g"]}, ("g",)),
        ({"custom_token_bans": ["h", 7]}, ("h",)),
        ({"banned_strings": ["e"], "banned_tokens": ["f"]}, ("e",)),
        ({"banned_strings": []}, ()),
    ]:
        post(http, prompt="x", n=1, **body)
        assert engine.sent[-1].branches[0].banned_strings == banned, body
    post(http, prompt="x", banned_strings=["a"], branches=[{}, {"banned_strings": ["b"]}, {"banned_phrases": []}])
    assert [spec.banned_strings for spec in engine.sent[-1].branches] == [("a",), ("b",), ()]


@pytest.mark.parametrize(
    ("body", "field", "words"),
    [
        ({"banned_strings": 7}, "banned_strings", "must be a string or a list of strings"),
        ({"banned_strings": ["a", 7]}, "banned_strings", "must be a list of strings"),
        ({"banned_phrases": ["a" * 257]}, "banned_phrases", "has a string of more than 256 characters"),
        (
            {"banned_strings": list(map(str, range(1025)))},
            "banned_strings",
            "has 1025 entries; at most 1024 are allowed",
        ),
        ({"banned_tokens": ["a", {}]}, "banned_tokens", "must be a list of strings"),
        (
            {"custom_token_bans": "7,x"},
            "custom_token_bans",
            "must be token ids separated by commas, or a list",
        ),
        ({"banned_tokens": 7}, "banned_tokens", "must be a list of strings and token ids"),
        ({"branches": [{"banned_strings": [None]}]}, "branches[0].banned_strings", "must be a list of strings"),
        ({"banned_patterns": "a"}, "banned_patterns", "must be a list of objects with a pattern"),
        (
            {"banned_patterns": [{"pattern": "a", "wait": 1}]},
            "banned_patterns",
            "entry 0 must be an object with pattern, weight and match_case, or a pattern",
        ),
        (
            {"branches": [{"banned_patterns": [{"pattern": "a", "weight": 1.5}]}]},
            "branches[0].banned_patterns",
            "weight of entry 0 must be a number from 0 to 1, but got 1.5",
        ),
        (
            {"banned_patterns": [{"pattern": "a", "match_case": 1}]},
            "banned_patterns",
            "match_case of entry 0 must be true or false, but got 1",
        ),
        (
            {"banned_patterns": ["a", {"weight": 0}]},
            "banned_patterns",
            "pattern of entry 1 must be a string of 1 to 256 characters",
        ),
        ({"banned_regex": {}}, "banned_regex", "must be a list of strings"),
    ],
)
def test_banned_strings_that_cannot_be_looked_for_are_refused(body: dict[str, Any], field: str, words: str) -> None:
    http, _ = serve()
    answer = post(http, prompt="x", **body)
    assert answer.status_code == 400
    assert answer.json["error"]["message"] == f"Field '{field}': {words}"


def test_banned_patterns_come_by_every_name_and_for_single_branches() -> None:
    http, engine = serve()
    for body, banned in [
        ({"banned_patterns": ["a+", {"pattern": "b", "weight": 0.2}, "a+"]}, (("a+", 0.0, False), ("b", 0.2, False))),
        ({"banned_patterns": [{"pattern": "b", "match_case": True}]}, (("b", 0.0, True),)),
        ({"banned_regex": "a|b"}, (("a|b", 0.0, True),)),
        ({"banned_patterns": ["a"], "banned_regex": ["b", ""]}, (("a", 0.0, False), ("b", 0.0, True))),
        ({"banned_regex_case_insensitive": ["c"]}, (("c", 0.0, False),)),
        ({"banned_patterns": []}, ()),
    ]:
        post(http, prompt="x", n=1, **body)
        assert engine.sent[-1].branches[0].banned_patterns == banned, body
    post(http, prompt="x", banned_patterns=["a"], branches=[{}, {"banned_regex": ["b"]}, {"banned_patterns": []}])
    assert [spec.banned_patterns for spec in engine.sent[-1].branches] == [
        (("a", 0.0, False),),
        (("b", 0.0, True),),
        (),
    ]


@pytest.mark.parametrize(("said", "reports"), [({}, False), ({"return_progress": True}, True)])
def test_progress_of_the_prompt_is_an_event_if_it_is_requested(said: dict[str, Any], reports: bool) -> None:
    def slowly(command: Generate) -> Iterable[list[Event]]:
        yield [Accepted(command.request_id, 9)]
        if command.report_progress:
            yield [Progress(command.request_id, 9, 2, 5, 1.6)]
        yield [BranchEnded(command.request_id, 0, "eos", 0), Done(command.request_id, 9, 2, 0, 1.0, 1.0)]

    http, _ = serve(slowly)
    start, *later = events(post(http, "/v1/srb/completions", prompt="a", n=1, **said).text)
    assert start["event"] == "start"
    progress = [event for event in later if event["event"] == "prompt"]
    assert progress == [{"event": "prompt", "total": 9, "cache": 2, "processed": 5, "time_ms": 1}] * reports


@pytest.mark.parametrize(
    ("texts", "fill"),
    [
        ({}, None),
        ({"pre": "<p>", "suf": "<s>"}, None),
        (
            {"pre": "<p>", "suf": "<s>", "mid": "<m>"},
            {"prefix": "<p>", "suffix": "<s>", "middle": "<m>", "suffix_first": True},
        ),
    ],
    ids=["none", "two of them", "all"],
)
def test_the_server_tells_the_tokens_with_which_its_model_fills_gaps(
    monkeypatch: pytest.MonkeyPatch, texts: dict[str, str], fill: dict[str, Any] | None
) -> None:
    monkeypatch.setattr(scripted, "MODEL", replace(scripted.MODEL, fim_texts=texts))
    http, _ = serve(spm_infill=True)
    said = http.get("/v1/srb/server").json
    read(ServerDescription, orjson.dumps(said))
    assert said["fill"] == fill


def test_the_server_describes_its_model_limits_and_defaults() -> None:
    http, _ = serve(max_n=12, n=4, temperature=0.5, default_max_tokens=33)
    said = http.get("/v1/srb/server").json
    read(ServerDescription, orjson.dumps(said))
    assert (said["max_n"], said["n"], said["max_tokens"], said["max_linger"]) == (12, 4, 33, 600)
    assert said["sampling"]["temperature"] == 0.5
    assert said["chat_template"] is False


def test_arithmetic_sampling_is_of_the_request_and_its_seeds() -> None:
    http, engine = serve()
    start, *_ = events(post(http, "/v1/srb/completions", prompt="x", n=2, sampling="arithmetic").text)
    assert engine.sent[-1].arithmetic
    assert start["seeds_reproduce"] == "request"
    post(http, "/v1/srb/completions", prompt="x", n=2, sampling="independent")
    assert not engine.sent[-1].arithmetic
    refused = post(http, "/v1/srb/completions", prompt="x", sampling="other")
    assert (refused.status_code, refused.json["error"]["param"]) == (400, "sampling")


@pytest.mark.parametrize(
    "bans", [{"banned_tokens": [7, 8]}, {"custom_token_bans": "7, 8"}, {"custom_token_bans": [7, 8]}]
)
@pytest.mark.parametrize("path", ["/v1/srb/completions", "/v1/completions", "/completion", "/api/v1/generate"])
def test_ids_of_banned_tokens_never_come(bans: dict[str, Any], path: str) -> None:
    http, engine = serve()
    body = {"prompt": "x", "logit_bias": {"9": 1.5}, "stream": False, **bans}
    assert http.post(path, json=body).status_code == 200
    [command] = [command for command in engine.sent if isinstance(command, Generate)]
    assert command.branches[0].sampling.logit_bias == ((9, 1.5), (7, None), (8, None))
