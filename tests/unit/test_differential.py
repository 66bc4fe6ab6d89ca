"""The differential bench finds what differs between two answers, and takes for the same what is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench.differential import __main__ as program
from bench.differential.answers import Answer, fold, stream, value
from bench.differential.cases import cases
from bench.differential.differences import Difference, differences
from bench.differential.told import TOLD, Told

PAGE = Path(__file__).parents[2] / "docs" / "compatibility.md"


def found(a: Any, b: Any) -> dict[str, str]:
    """Return what differs between two JSON values, by place."""
    one, other = (Answer(200, "application/json", each) for each in (a, b))
    return {each.place: each.what for each in differences(one, other)}


def test_an_answer_is_the_same_as_itself() -> None:
    value = {"a": [1, {"b": None}], "text": "x", "on": True}
    assert found(value, json.loads(json.dumps(value))) == {}


@pytest.mark.parametrize(
    ("a", "b", "place", "what"),
    [
        ({"a": 1, "b": 2}, {"a": 1}, "b", "only A has it: 2"),
        ({"a": {}}, {"a": {"b": "x"}}, "a.b", 'only B has it: "x"'),
        ({"a": 1}, {"a": "1"}, "a", 'A is number 1, B is string "1"'),
        ({"a": 1}, {"a": True}, "a", "A is number 1, B is boolean true"),
        ({"a": None}, {"a": []}, "a", "A is null null, B is array []"),
        ({"a": "x"}, {"a": "y"}, "a", 'A "x", B "y"'),
        ({"a": [1, 2]}, {"a": [1, 3]}, "a.1", "A 2, B 3"),
        ({"a": [1]}, {"a": [1, 3]}, "a.length", "A 1, B 2: A [1], B [1, 3]"),
        ([{"id": 3}], [{"id": 4}], "0.id", "A 3, B 4"),
        ("x", {"a": 1}, "body", 'A is string "x", B is object {"a": 1}'),
        ({"a": 0.5}, {"a": 0.51}, "a", "A 0.5, B 0.51"),
        ({"created": 1}, {"created": "today"}, "created", 'A is number 1, B is string "today"'),
    ],
)
def test_a_key_a_type_and_a_value_that_differ_are_found(a: Any, b: Any, place: str, what: str) -> None:
    assert found(a, b) == {place: what}


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ({"created": 1, "id": "cmpl-a", "model": "x"}, {"created": 2, "id": "cmpl-b", "model": "y"}),
        ({"prompt_ms": 1.5, "predicted_per_second": 9.0}, {"prompt_ms": 2, "predicted_per_second": 8}),
        ({"logprob": -1.00001}, {"logprob": -1.00002}),
        ({"temperature": 1}, {"temperature": 1.0}),
    ],
)  # fmt: skip
def test_times_ids_names_and_roundings_may_differ(a: Any, b: Any) -> None:
    assert found(a, b) == {}


def test_a_content_type_is_compared() -> None:
    [difference] = differences(Answer(200, "application/json", {}), Answer(200, "text/plain", {}))
    assert (difference.place, difference.what) == ("type", "A application/json, B text/plain")


def test_another_status_is_one_difference_with_the_reason() -> None:
    a, b = (
        Answer(200, "text/event-stream", {"events": []}),
        Answer(400, "application/json", {"error": {"message": "no"}}),
    )
    [difference] = differences(a, b)
    assert (difference.place, difference.what) == ("status", "A 200, B 400 (no)")


def test_many_elements_that_differ_alike_are_one_difference() -> None:
    assert found([{"x": 1}, {"x": 2}], [{"x": 3}, {"x": 4}]) == {"0.x": "A 1, B 3"}


def test_a_long_value_is_cut() -> None:
    assert found({"a": "x" * 1000}, {"a": 1})["a"].endswith("x… (1002 characters), B is number 1")


def chunk(text: str, index: int = 0, finish: str | None = None) -> dict[str, Any]:
    return {"choices": [{"index": index, "delta": {"content": text}, "finish_reason": finish}]}


def test_tokens_that_share_an_event_are_those_of_several_events() -> None:
    apart = [chunk("a"), chunk("b"), chunk("c"), chunk("", finish="stop")]
    together = [chunk("ab"), chunk("c"), chunk("", finish="stop")]
    assert fold(apart) == fold(together) == [chunk("abc"), chunk("", finish="stop")]
    plain = [{"index": 0, "content": text, "tokens": [n], "stop": False} for n, text in enumerate("ab")]
    assert fold(plain) == [{"index": 0, "content": "ab", "tokens": [0, 1], "stop": False}]


def test_branches_may_take_turns_in_any_order() -> None:
    usage = {"choices": [], "usage": {"total_tokens": 3}}
    one = [chunk("a", 0), chunk("x", 1), chunk("b", 0), chunk("y", 1), usage]
    other = [chunk("x", 1), chunk("y", 1), chunk("a", 0), chunk("b", 0), usage]
    assert fold(one) == fold(other) == [chunk("ab", 0), chunk("xy", 1), usage]


def test_arguments_of_a_call_are_joined() -> None:
    def call(**function: str) -> dict[str, Any]:
        return {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "function": function}]}}]}

    [first, rest] = fold([call(name="weather", arguments=""), call(arguments='{"a"'), call(arguments=": 1}")])
    assert first == call(name="weather", arguments="")
    assert rest == call(arguments='{"a": 1}')


def test_an_event_of_another_shape_is_kept_apart() -> None:
    events = [{"index": 0, "content": "a"}, {"index": 0, "content": "b", "more": {}}, {"index": 0, "content": "c"}]
    assert fold(events) == events


def test_timings_are_those_of_the_last_event_that_has_them() -> None:
    events = [{"content": "a"}, {"content": "b", "timings": {"prompt_n": 1}}, {"content": "c"}]
    assert fold(events) == [{"content": "abc", "timings": {"prompt_n": 1}}]


def test_a_stream_is_its_events_and_its_end() -> None:
    text = ': ping\n\ndata: {"content": "a"}\n\ndata: {"content": "b"}\n\ndata: [DONE]\n\n'
    assert stream(text) == {"events": [{"content": "ab"}], "done": True, "other_lines": []}
    assert stream('error: {"x": 1}\n\n') == {"events": [], "done": False, "other_lines": ['error: {"x": 1}']}


def test_metrics_are_their_names_and_types_and_other_text_is_itself() -> None:
    text = "# HELP a x\n# TYPE a counter\na 3\n# TYPE b gauge\nb 1\n"
    assert value("text/plain", text.encode()) == {"a": "counter", "b": "gauge"}
    assert value("text/plain", b"x") == "x"
    assert value("application/json", b"{") == "{"


def test_a_difference_is_told_only_of_its_cases_and_at_its_places() -> None:
    told = Told(
        "Ids begin with `cmpl-`.", ("error.*", "*choices.seed"), ("POST /completion: plain", "GET /x"), ("A 3*",)
    )
    message = Difference("error.message", "A 3, B 4")
    assert told.tells("POST /completion: plain", message)
    assert told.tells("POST /completion: plain, streamed", message)
    assert told.tells("GET /x", Difference("events.0.choices.1.seed", "A 3"))
    assert not told.tells("POST /completions: plain", message)
    assert not told.tells("GET /x", Difference("status", "A 3"))
    assert not told.tells("GET /x", Difference("error.message", "A 4"))


def test_each_sentence_of_the_table_stands_in_the_page() -> None:
    page = " ".join(PAGE.read_text().split())
    for told in TOLD:
        assert told.says in page, told.says


def test_cases_have_names_of_their_own_and_every_route() -> None:
    every = cases(100)
    assert len({case.name for case in every}) == len(every) > 100
    compatibility = PAGE.read_text().partition("## Endpoints")[2].partition("## Fields")[0]
    rows = [line.split("|")[1:4] for line in compatibility.splitlines() if line.startswith("| ")][1:]
    theirs = {(method.strip(), path.strip(" `")) for method, path, state in rows if state.strip() != "ours"}
    sent = {(case.method, case.path.partition("?")[0]) for case in every}
    missing = {(method, path) for method, path in theirs - sent if "<" not in path and path not in UNSENT}
    assert missing == set()


UNSENT = {"/completion.js", "/predict"}  # a file of the page; a route that theirs has on Vertex AI alone


def test_a_server_that_does_not_answer_ends_the_run_with_a_message(capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(["http://127.0.0.1:1", "http://127.0.0.1:1"]) == 2
    assert capsys.readouterr().err.startswith("no answer: ")
