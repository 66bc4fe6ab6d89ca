"""Ordinary schemas on which converters loop, or that let answers through which are no JSON, as clients send them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest

from tests.made_schemas import validator_of
from tests.servers import Server

pytestmark = pytest.mark.e2e

ASK = {"messages": [{"role": "user", "content": "Go."}], "temperature": 1.5, "seed": 7}
# What a property's value follows; definitions stand in the whole schema.
DEFINITIONS = {"Mood": {"enum": ["calm", "angry"], "type": "string"}, "Point": {"$anchor": "pt", "type": "boolean"}}
ATTACKS: dict[str, dict[str, Any]] = {
    "a bracket": {"type": "string", "pattern": "^a]$"},
    "brackets around anything": {"type": "string", "pattern": r"^\[.*]$", "maxLength": 9},
    "a quote": {"type": "string", "pattern": '^"$'},
    "no slash": {"type": "string", "pattern": "^[^/]+$", "maxLength": 6},
    "alternatives": {"type": "string", "pattern": "^foo$|^bar$"},
    "a very long text": {"enum": ["a", "b"], "type": "string", "maxLength": 524288},
    "digits": {"type": "string", "pattern": r"^\d{1,3}\.\d$"},
    "words and dashes": {"type": "string", "pattern": r"^\w\-\w$"},
    "a URL": {"type": "string", "pattern": r"^https:\/\/a\.b\_\-\@$"},
    "not anchored": {"type": "string", "pattern": "ab", "maxLength": 6},
    "no text or one of these": {"type": ["string", "null"], "enum": ["red", "green", None]},
    "no number or one of these": {"type": ["integer", "null"], "enum": [1, 2, None]},
    "allOf with a reference": {"allOf": [{"$ref": "#/$defs/Mood"}], "default": "calm"},
    "a reference through a list": {"type": "array", "items": {"$ref": "#/$defs/Mood"}, "minItems": 1, "maxItems": 2},
    "a reference into a list": {"$ref": "#/properties/any/anyOf/0"},
    "an anchor": {"$ref": "#pt"},
    "anything of one kind, and what is true": {"type": "array", "items": True, "maxItems": 0},
}


def whole(value: dict[str, Any]) -> dict[str, Any]:
    """Return an object's schema, whose other properties may be anything."""
    return {
        "type": "object",
        "properties": {"box": value, "any": {"anyOf": [{"const": 1}, {}]}, "true": True, "none": {}},
        "required": ["box"],
        "$defs": DEFINITIONS,
    }


def closed(value: dict[str, Any]) -> dict[str, Any]:
    """Return a schema whose answers are short, of a property that has this schema."""
    made = whole(value)
    made["properties"] = {"box": value, "any": {"anyOf": [{"const": 1}]}}
    return made


def calls_of(choice: dict[str, Any]) -> list[dict[str, Any]]:
    return [call["function"] for call in choice["message"].get("tool_calls") or ()]


@pytest.mark.parametrize("name", ATTACKS)
def test_an_answer_and_a_call_follow_the_schema(storyteller: Server, name: str) -> None:
    schema = closed(ATTACKS[name])
    validator = validator_of(schema)
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema, "strict": True}}
    said = storyteller.post("/v1/chat/completions", {**ASK, "n": 4, "max_tokens": 120, "response_format": form})
    assert said.status_code == 200, said.text
    ended = [each["message"]["content"] for each in said.json()["choices"] if each["finish_reason"] == "stop"]
    for text in ended:
        validator.validate(json.loads(text))
    tool = {"type": "function", "function": {"name": "f", "parameters": schema}}
    asked = {**ASK, "n": 4, "max_tokens": 120, "tools": [tool], "tool_choice": "required"}
    said = storyteller.post("/v1/chat/completions", asked)
    assert said.status_code == 200, said.text
    calls = [
        call for each in said.json()["choices"] if each["finish_reason"] == "tool_calls" for call in calls_of(each)
    ]
    for call in calls:
        validator.validate(json.loads(call["arguments"]))
    assert ended
    assert calls


def test_tools_keep_their_schemas_beside_such_ones(storyteller: Server) -> None:
    """Claude Code's own tools once lost theirs by one `maxLength` of 524288."""
    for names in batched(ATTACKS, 4):
        tools = [
            {"type": "function", "function": {"name": f"f{number}", "parameters": whole(ATTACKS[name])}}
            for number, name in enumerate(names)
        ]
        said = storyteller.post("/v1/chat/completions", {**ASK, "max_tokens": 2, "tools": tools})
        assert said.status_code == 200, said.text
    assert "a tool is called with any arguments" not in storyteller.logs


def batched(names: Iterable[str], size: int) -> list[list[str]]:
    listed = list(names)
    return [listed[start : start + size] for start in range(0, len(listed), size)]
