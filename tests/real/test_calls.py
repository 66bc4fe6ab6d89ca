"""Calls of tools by real models at a high temperature: forced ones are always valid, and so is each that a model begins."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest

from tests.real.test_smollm2 import CAPITAL, HOT, chat, tool
from tests.servers import Server

pytestmark = pytest.mark.timeout(600)  # seconds of a test, for a machine that does much else

TOOLS = {
    "weather": tool("weather", city={"type": "string", "maxLength": 12},
                    days={"type": "integer", "minimum": 1, "maximum": 9}),
    "paint": tool("paint", colour={"enum": ["red", "green", "very dark blue"]},
                  coats={"type": "array", "items": {"type": "boolean"}, "minItems": 1, "maxItems": 3}),
}  # fmt: skip
CITIES = ("Oslo", "Rome", "Paris", "Lima", "Bonn", "Delhi")


def check(choice: dict[str, Any]) -> str:
    """Check the calls of a choice, which has ended by itself; return the first one's name."""
    calls = choice["message"]["tool_calls"]
    assert choice["finish_reason"] == "tool_calls"
    for call in calls:
        parameters = TOOLS[call["function"]["name"]]["function"]["parameters"]
        jsonschema_rs.validate(parameters, json.loads(call["function"]["arguments"]))
    return str(calls[0]["function"]["name"])


@pytest.mark.parametrize("choice", ["required", *TOOLS])
def test_a_forced_call_is_always_valid(model: Server, choice: str) -> None:
    wanted = choice if choice == "required" else {"type": "function", "function": {"name": choice}}
    said = chat(model, messages=[CAPITAL], tools=list(TOOLS.values()), tool_choice=wanted, parallel_tool_calls=False,
                max_tokens=200, seed=5, **HOT)  # fmt: skip
    assert len(said) == 8
    for each in said:
        assert len(each["message"]["tool_calls"]) == 1
        assert check(each) in (choice, *(TOOLS if choice == "required" else ()))


def asked(cities: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return a conversation in which each question for the weather was answered by a call, but the last."""
    messages: list[dict[str, Any]] = []
    for number, city in enumerate(cities):
        arguments = json.dumps({"city": city, "days": number % 9 + 1})
        call = {"id": f"call{number}", "type": "function", "function": {"name": "weather", "arguments": arguments}}
        messages += [
            {"role": "user", "content": f"The weather in {city} in {number % 9 + 1} days?"},
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"call{number}", "content": "rain"},
            {"role": "assistant", "content": "Rain."},
        ]
    return messages[:-3]


def test_a_call_that_a_model_begins_by_itself_is_always_valid(model: Server) -> None:
    calls = 0
    for seed in (1, 2, 3, 4):
        said = chat(model, messages=asked(CITIES), tools=list(TOOLS.values()), parallel_tool_calls=False, max_tokens=60,
                    seed=seed, **HOT | {"n": 4, "temperature": 1.0})  # fmt: skip
        for each in said:
            if each["finish_reason"] != "length":
                calls += bool(each["message"].get("tool_calls") and check(each))
                assert "<tool_call>" not in (each["message"]["content"] or "")
    assert calls > 3
