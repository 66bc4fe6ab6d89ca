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


def schema(pattern: str) -> dict[str, Any]:
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
    ("/completion", lambda p: {**TEXT, "json_schema": schema(p)}, "json_schema"),
    ("/infill", lambda p: {"input_prefix": "a", "input_suffix": "b", "n_predict": 1, "json_schema": schema(p)},
     "json_schema"),
    ("/v1/responses", lambda p: {"input": "Go.", "max_output_tokens": 1, "tool_choice": "required", "tools": [
        {"type": "web_search"}, {"type": "function", **function(p)}]}, "tools[1].parameters"),
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
    told = f"{place}.properties.box.pattern is not supported and does not hold: look-around"
    wait_for(lambda: told in storyteller.logs, told)
