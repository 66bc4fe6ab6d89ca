"""What people do with the default model: chats, calls and JSON that is always valid, sentences, and the loop of the page."""

from __future__ import annotations

import json
import re
from typing import Any

import jsonschema_rs
import pytest
from playwright.sync_api import Page

from tests.page.writer import Writer
from tests.servers import Server

pytestmark = pytest.mark.timeout(600)  # seconds of a test, for a machine that does much else

HOT = {"temperature": 1.5, "n": 8, "stream": False}  # much that it writes at this temperature is no English
CAPITAL = {
    "role": "user",
    "content": "What is the capital of France? Answer in one sentence.",
}  # no token is almost a tie


def chat(server: Server, **fields: Any) -> list[dict[str, Any]]:
    """Return the choices of a chat's answer."""
    answer = server.post("/v1/chat/completions", fields)
    assert answer.status_code == 200, answer.text
    choices: list[dict[str, Any]] = answer.json()["choices"]
    return choices


# chats


def test_a_chat_is_written_in_the_models_own_template(smollm2: Server) -> None:
    said = smollm2.post("/apply-template", {"messages": [{"role": "system", "content": "Be brief."}, CAPITAL]})
    assert said.json()["prompt"] == (
        "<|im_start|>system\nBe brief.<|im_end|>\n"
        "<|im_start|>user\nWhat is the capital of France? Answer in one sentence.<|im_end|>\n"
        "<|im_start|>assistant\n"
    )


@pytest.mark.smoke
def test_a_chat_answers_and_ends_by_itself(smollm2: Server) -> None:
    [choice] = chat(smollm2, messages=[CAPITAL], temperature=0, max_tokens=60)
    assert "Paris" in choice["message"]["content"]
    assert choice["finish_reason"] == "stop"
    assert "<|im_" not in choice["message"]["content"]


def test_a_chat_goes_on_with_what_was_said(smollm2: Server) -> None:
    [first] = chat(smollm2, messages=[CAPITAL], temperature=0, max_tokens=60)
    follow = {"role": "user", "content": "In which country is it? Answer with one word."}
    answer = smollm2.post(
        "/v1/chat/completions",
        {"messages": [CAPITAL, first["message"], follow], "temperature": 0, "max_tokens": 30},
    ).json()
    assert "France" in answer["choices"][0]["message"]["content"]
    assert answer["usage"]["prompt_tokens_details"]["cached_tokens"] > 30


# an empty page


def test_an_empty_page_begins_sentences(smollm2: Server) -> None:
    """From its BOS alone, `<|im_start|>`, 1 of 8 branches begins with a capital letter."""
    body = {"prompt": "", "n": 24, "seed": 1, "max_tokens": 12, "stream": False}
    texts = [each["text"] for each in smollm2.post("/v1/srb/completions", body).json()["completions"]]
    assert len([text for text in texts if re.match(r"[\"“*#]*[A-Z0-9]", text)]) >= 22
    assert len(set(texts)) >= 20


def test_an_empty_page_is_echoed_as_nothing_and_counted_as_what_stands_before_it(smollm2: Server) -> None:
    body = {"model": "any", "prompt": "", "max_tokens": 2, "echo": True, "logprobs": 0, "temperature": 0}
    answer = smollm2.post("/v1/completions", body).json()
    [choice] = answer["choices"]
    assert answer["usage"]["prompt_tokens"] == 4
    assert choice["logprobs"]["tokens"][:4] == ["", "", "", ""]
    assert "".join(choice["logprobs"]["tokens"]) == choice["text"]
    said = smollm2.post("/completion", {"prompt": "", "n_predict": 2, "temperature": 0}).json()
    assert said["prompt"] == "<|im_start|>assistant\n"
    assert said["content"] == choice["text"]
    bare = smollm2.post("/completion", {"prompt": "<|im_start|>", "n_predict": 2, "temperature": 0}).json()
    assert bare["tokens_evaluated"] == 1  # who wants it says so


# schemas


def tool(name: str, **properties: Any) -> dict[str, Any]:
    parameters = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    return {"type": "function", "function": {"name": name, "description": f"{name} it", "parameters": parameters}}


SCHEMAS: dict[str, dict[str, Any]] = {
    "an object": tool("weather", city={"type": "string", "maxLength": 12},
                      days={"type": "integer", "minimum": 1, "maximum": 9})["function"]["parameters"],
    "an enumeration": {"enum": ["yes", "no", 7, None, {"maybe": True}]},
    "a list": {"type": "array", "minItems": 2, "maxItems": 3, "items": {"type": "integer", "minimum": -20, "maximum": 20}},
    "letters of other scripts": {"type": "object", "required": ["naïve “quote”"], "additionalProperties": False,
                                 "properties": {"naïve “quote”": {"enum": ["日本", "\n\t\"", "🦊"]}}},
    "one of two": {"oneOf": [{"type": "object", "required": ["a"], "additionalProperties": False,
                              "properties": {"a": {"type": "boolean"}}},
                             {"type": "string", "maxLength": 8}]},
    "a reference": {"$ref": "#/$defs/pair", "$defs": {"pair": {"type": "array", "prefixItems": [{"type": "boolean"},
                    {"type": "string", "maxLength": 6}], "minItems": 2, "maxItems": 2, "items": False}}},
}  # fmt: skip


@pytest.mark.parametrize("kind", SCHEMAS)
def test_an_answer_with_a_schema_is_always_valid(smollm2: Server, kind: str) -> None:
    form = {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMAS[kind], "strict": True}}
    said = chat(smollm2, messages=[CAPITAL], response_format=form, max_tokens=200, seed=6, **HOT)
    assert [each["finish_reason"] for each in said] == ["stop"] * 8
    for each in said:
        jsonschema_rs.validate(SCHEMAS[kind], json.loads(each["message"]["content"]))


# the page


def test_a_writer_goes_through_the_loop(smollm2: Server, page: Page) -> None:
    writer = Writer(page, smollm2.url).set(max_tokens=24, stop_at="sentence")
    page.locator(".openings").get_by_role("button").first.click()
    writer.wait_for_end()
    opening = page.evaluate("desk.text")
    texts = page.evaluate("desk.round.slots.map((slot) => slot.text)")
    assert len(texts) == 8
    assert len(set(texts)) > 4
    page.evaluate("void desk.take(2)")
    writer.wait(f"desk.text.length > {len(opening)} && desk.round?.slots.length === 8")
    assert page.evaluate("desk.text") == opening + texts[2]
    writer.wait_for_end()
    writer.press("Control+z")
    writer.wait(f"desk.text === {json.dumps(opening)}")
    writer.wait_until_saved()
