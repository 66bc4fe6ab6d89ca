"""Schemas that are wrong or do not hold, in every dialect that takes them: the client, or the log, is told the place."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.processes import wait_for
from tests.servers import Server

pytestmark = pytest.mark.e2e

MESSAGES = [{"role": "user", "content": "Go."}]
GOOD: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "null"}}}


def schema(pattern: Any) -> Any:
    """Return a schema with this pattern; what is no text is the schema itself."""
    if not isinstance(pattern, str):
        return pattern
    return {"type": "object", "properties": {"box": {"type": "string", "pattern": pattern}}, "required": ["box"]}


def function(pattern: str) -> dict[str, Any]:
    return {"name": "b", "parameters": schema(pattern)}


def chat_tools(pattern: str) -> list[dict[str, Any]]:
    good = {"type": "function", "function": {"name": "a", "parameters": GOOD}}
    return [good, {"type": "function", "function": function(pattern)}]


def named(pattern: str) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "x", "schema": schema(pattern)}}


def flat(pattern: str) -> dict[str, Any]:
    return {"type": "json_schema", "name": "x", "schema": schema(pattern)}


# The path of a dialect, a body with a schema that has this pattern, and the place of the schema in the body.
Case = tuple[str, Any, str]
CHAT, TEXT = {"messages": MESSAGES, "max_tokens": 1}, {"prompt": "Once", "max_tokens": 1}
OLLAMA = {"model": "storyteller", "stream": False, "options": {"num_predict": 1}}
CASES: list[Case] = [
    ("/v1/chat/completions", lambda p: {**CHAT, "tools": chat_tools(p), "tool_choice": "required"},
     "tools[1].function.parameters"),
    ("/v1/chat/completions", lambda p: {**CHAT, "tools": chat_tools(p), "tool_choice": {
        "type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [{"type": "function", "function": {
            "name": "b"}}]}}}, "tools[1].function.parameters"),
    ("/v1/chat/completions", lambda p: {**CHAT, "tools": chat_tools("a"), "response_format": named(p)},
     "response_format.json_schema.schema"),
    ("/v1/chat/completions", lambda p: {**CHAT, "response_format": named(p)}, "response_format.json_schema.schema"),
    ("/v1/chat/completions", lambda p: {**CHAT, "response_format": {"type": "json_object", "schema": schema(p)}},
     "response_format.schema"),
    ("/v1/chat/completions", lambda p: {**CHAT, "json_schema": schema(p)}, "json_schema"),
    ("/v1/chat/completions", lambda p: {**CHAT, "guided_json": schema(p)}, "guided_json"),
    ("/v1/completions", lambda p: {**TEXT, "guided_json": json.dumps(schema(p))}, "guided_json"),
    ("/v1/completions", lambda p: {**TEXT, "structured_outputs": {"json": schema(p)}}, "structured_outputs.json"),
    ("/v1/completions", lambda p: {**TEXT, "branches": [{}, {"json_schema": schema(p)}]}, "branches[1].json_schema"),
    ("/v1/srb/completions", lambda p: {**TEXT, "json_schema": schema(p)}, "json_schema"),
    ("/v1/srb/completions", lambda p: {**TEXT, "branches": [{"json_schema": schema(p)}, {}]}, "branches[0].json_schema"),
    ("/completion", lambda p: {**TEXT, "json_schema": schema(p)}, "json_schema"),
    ("/infill", lambda p: {"input_prefix": "a", "input_suffix": "b", "n_predict": 1, "json_schema": schema(p)},
     "json_schema"),
    ("/v1/responses", lambda p: {"input": "Go.", "max_output_tokens": 1, "tool_choice": "required", "tools": [
        {"type": "web_search"}, {"type": "function", **function(p)}]}, "tools[1].parameters"),
    ("/v1/responses", lambda p: {"input": "Go.", "max_output_tokens": 1, "tool_choice": "required", "tools": [
        {"type": "function", "name": "a", "parameters": GOOD}, {"type": "namespace", "name": "n", "tools": [
            {"type": "other"}, {"type": "function", **function(p)}]}]}, "tools[1].tools[1].parameters"),
    ("/v1/responses", lambda p: {"input": "Go.", "max_output_tokens": 1, "text": {"format": flat(p)}}, "text.format.schema"),
    ("/v1/messages", lambda p: {**CHAT, "tool_choice": {"type": "any"}, "tools": [
        {"name": "a", "input_schema": GOOD}, {"name": "b", "input_schema": schema(p)}]}, "tools[1].input_schema"),
    ("/v1/messages", lambda p: {**CHAT, "output_config": {"format": flat(p)}}, "output_config.format.schema"),
    ("/api/chat", lambda p: {**OLLAMA, "messages": MESSAGES, "format": schema(p)}, "format"),
    ("/api/chat", lambda p: {**OLLAMA, "messages": MESSAGES, "format": GOOD, "tools": chat_tools(p)},
     "tools[1].function.parameters"),
    ("/api/generate", lambda p: {**OLLAMA, "prompt": "Go.", "format": schema(p)}, "format"),
    ("/api/generate", lambda p: {**OLLAMA, "prompt": "Go.", "raw": True, "format": schema(p)}, "format"),
    ("/api/v1/generate", lambda p: {"prompt": "Go.", "max_length": 1, "grammar": json.dumps(schema(p))}, "grammar"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "body", "place"), CASES, ids=[f"{path} {place}" for path, _, place in CASES])
def test_what_is_no_schema_is_named_with_its_place(storyteller: Server, path: str, body: Any, place: str) -> None:
    answer = storyteller.post(path, body("("))
    assert answer.status_code == 400, answer.text
    assert f"Field '{place}.properties.box.pattern': is no regular expression" in answer.text


@pytest.mark.parametrize(("path", "body", "place"), CASES, ids=[f"{path} {place}" for path, _, place in CASES])
def test_what_does_not_hold_is_named_with_its_place_in_the_log(
    storyteller: Server, path: str, body: Any, place: str
) -> None:
    answer = storyteller.post(path, body("^(?!a)b$"))
    assert answer.status_code == 200, answer.text
    tool = ("n__b: " if "].tools[" in place else "b: ") if place.startswith("tools") else ""
    told = f"{tool}{place}.properties.box.pattern is not supported and does not hold: look-around"
    wait_for(lambda: told in storyteller.logs, told)


@pytest.mark.parametrize(("path", "body", "place"), CASES, ids=[f"{path} {place}" for path, _, place in CASES])
def test_a_whole_schema_may_be_true_and_not_false(storyteller: Server, path: str, body: Any, place: str) -> None:
    assert (answer := storyteller.post(path, body(True))).status_code == 200, answer.text
    answer = storyteller.post(path, body(False))
    assert answer.status_code == 400, answer.text
    assert f"Field '{place.partition('.')[0].partition('[')[0]}" in answer.text
    assert "schema of no value" in answer.text


BAD = "root ::= ("
# The path of a dialect, a body whose grammar, schema or pattern is wrong, and the field that is named.
GRAMMARS: list[tuple[str, dict[str, Any], str]] = [
    *(
        (path, {**TEXT, **fields}, place)
        for path in ("/v1/completions", "/v1/srb/completions", "/completion")
        for fields, place in (
            ({"grammar": BAD}, "grammar"), ({"grammar": "/(/"}, "grammar"), ({"grammar": BAD, "n": 3}, "grammar"),
            ({"branches": [{}, {"grammar": BAD}]}, "branches[1].grammar"),
            ({"branches": [{"grammar": "/(/"}, {}]}, "branches[0].grammar"),
            ({"branches": [{}, {}, {"grammar": "start: ("}]}, "branches[2].grammar"),
            ({"branches": [{}, {"json_schema": {"items": 3}}]}, "branches[1].json_schema.items"),
            ({"branches": [{}, {"json_schema": False}]}, "branches[1].json_schema"),
        )
    ),
    *(
        (path, {**common, **fields}, place)
        for path, common in (("/v1/completions", TEXT), ("/v1/chat/completions", CHAT))
        for fields, place in (
            ({"guided_regex": "("}, "guided_regex"), ({"guided_grammar": BAD}, "guided_grammar"), ({"ebnf": BAD}, "ebnf"),
            ({"regex": "("}, "regex"), ({"structured_outputs": {"regex": "("}}, "structured_outputs.regex"),
            ({"structured_outputs": {"grammar": BAD}}, "structured_outputs.grammar"),
            ({"structured_outputs": {"json": {"items": 3}}}, "structured_outputs.json.items"),
            ({"structured_outputs": {"json": False}}, "structured_outputs.json"),
            ({"guided_json": {"items": 3}}, "guided_json.items"), ({"guided_json": "false"}, "guided_json"),
        )
    ),
    ("/v1/completions", {**TEXT, "prompt": ["a", "b"], "grammar": BAD}, "grammar"),
    ("/v1/completions", {**TEXT, "prompt": ["a", "b"], "guided_json": {"items": 3}}, "guided_json.items"),
    ("/v1/completions", {**TEXT, "prompt": ["a", "b"], "branches": [{}, {"grammar": BAD}]}, "branches[1].grammar"),
    ("/infill", {"input_prefix": "a", "input_suffix": "b", "n_predict": 1, "grammar": BAD}, "grammar"),
    ("/api/v1/generate", {"prompt": "Go.", "max_length": 1, "grammar": BAD}, "grammar"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "body", "place"), GRAMMARS, ids=[f"{path} {body}" for path, body, _ in GRAMMARS])
def test_a_constraint_that_is_wrong_is_named_with_its_place(
    storyteller: Server, path: str, body: dict[str, Any], place: str
) -> None:
    answer = storyteller.post(path, body)
    assert answer.status_code == 400, answer.text
    assert f"Field '{place}'" in answer.text
