"""The official clients of OpenAI's Responses and Anthropic's Messages, with a whole server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import anthropic
import openai
import pytest
from pydantic import BaseModel

from tests.processes import DEADLINE
from tests.servers import Server, openai_options

pytestmark = pytest.mark.e2e

ASK = "Tell me of the lighthouse keeper."
CITY: dict[str, Any] = {
    "type": "object", "properties": {"city": {"enum": ["Oslo", "Rome"]}}, "required": ["city"],
    "additionalProperties": False,
}  # fmt: skip


@pytest.fixture
def responding(tiny: Server) -> Iterator[openai.OpenAI]:
    """OpenAI's client of a model whose texts can be compared."""
    with openai.OpenAI(**openai_options(tiny)) as made:
        yield made


@pytest.fixture
def talking(tiny: Server) -> Iterator[anthropic.Anthropic]:
    """Anthropic's client of the same model."""
    with anthropic.Anthropic(base_url=tiny.url, api_key="none", max_retries=0, timeout=DEADLINE) as made:
        yield made


@pytest.fixture
def calling(storyteller: Server) -> Iterator[openai.OpenAI]:
    """OpenAI's client of a model with a context that tools fit into."""
    with openai.OpenAI(**openai_options(storyteller)) as made:
        yield made


@pytest.fixture
def using(storyteller: Server) -> Iterator[anthropic.Anthropic]:
    """Anthropic's client of that model."""
    with anthropic.Anthropic(base_url=storyteller.url, api_key="none", max_retries=0, timeout=DEADLINE) as made:
        yield made


def test_a_streamed_response_of_three_branches_is_the_response(responding: openai.OpenAI) -> None:
    asked: dict[str, Any] = {"model": "any", "input": ASK, "max_output_tokens": 16}
    asked["extra_body"] = {"n": 3, "seed": 42, "ignore_eos": True}
    whole = responding.responses.create(**asked)
    assert whole.status == "incomplete"
    assert whole.usage is not None
    assert whole.usage.output_tokens == 3 * 16
    with responding.responses.create(**asked, stream=True) as stream:
        *_, last = stream
    assert last.type == "response.incomplete"
    assert sorted(texts(last.response)) == sorted(texts(whole))
    assert len(texts(whole)) == 3


def texts(response: Any) -> list[str]:
    return [item.content[0].text for item in response.output if item.type == "message"]


def test_a_response_is_what_a_chat_of_the_same_messages_says(tiny: Server, responding: openai.OpenAI) -> None:
    chat = responding.chat.completions.create(
        model="any", seed=42, max_tokens=16,
        messages=[{"role": "system", "content": "Be brief."}, {"role": "user", "content": ASK}],
    )  # fmt: skip
    response = responding.responses.create(
        model="any", input=ASK, instructions="Be brief.", max_output_tokens=16, extra_body={"seed": 42}
    )
    assert response.output_text == chat.choices[0].message.content


def test_a_message_is_what_a_chat_of_the_same_messages_says(
    responding: openai.OpenAI, talking: anthropic.Anthropic
) -> None:
    chat = responding.chat.completions.create(
        model="any", seed=42, max_tokens=16,
        messages=[{"role": "system", "content": "Be brief."}, {"role": "user", "content": ASK}],
    )  # fmt: skip
    asked: dict[str, Any] = {
        "model": "any", "max_tokens": 16, "system": "Be brief.", "messages": [{"role": "user", "content": ASK}],
        "extra_body": {"seed": 42},
    }  # fmt: skip
    whole = talking.messages.create(**asked)
    assert [block.text for block in whole.content if block.type == "text"] == [chat.choices[0].message.content]
    with talking.messages.stream(**asked) as stream:
        streamed = stream.get_final_message()
    assert [block.text for block in streamed.content if block.type == "text"] == [chat.choices[0].message.content]
    assert streamed.stop_reason == whole.stop_reason
    assert streamed.usage.output_tokens == whole.usage.output_tokens


def test_a_forced_tool_is_called_and_its_result_is_read(calling: openai.OpenAI) -> None:
    tool: Any = {"type": "function", "name": "weather", "parameters": CITY, "strict": True}
    asked: dict[str, Any] = {"model": "any", "tools": [tool], "max_output_tokens": 128}
    with calling.responses.stream(
        **asked, input=ASK, tool_choice={"type": "function", "name": "weather"}, extra_body={"seed": 1}
    ) as stream:
        first = stream.get_final_response()
    [call] = [item for item in first.output if item.type == "function_call"]
    assert json.loads(call.arguments)["city"] in ("Oslo", "Rome")
    history: Any = [
        {"role": "user", "content": ASK},
        *[item.to_dict() for item in first.output],
        {"type": "function_call_output", "call_id": call.call_id, "output": "rain"},
    ]
    second = calling.responses.create(**asked, input=history, tool_choice="none")
    assert second.object == "response"
    assert second.usage is not None
    assert second.usage.input_tokens > 0


def test_a_forced_tool_of_a_message_is_called_and_its_result_is_read(using: anthropic.Anthropic) -> None:
    tools: Any = [{"name": "weather", "input_schema": CITY}]
    user: Any = {"role": "user", "content": [{"type": "text", "text": ASK, "cache_control": {"type": "ephemeral"}}]}
    asked: dict[str, Any] = {"model": "any", "tools": tools, "max_tokens": 128}
    with using.messages.stream(
        **asked, messages=[user], tool_choice={"type": "any", "disable_parallel_tool_use": True}
    ) as stream:
        first = stream.get_final_message()
    assert first.stop_reason == "tool_use"
    [call] = [block for block in first.content if block.type == "tool_use"]
    assert call.input["city"] in ("Oslo", "Rome")
    result: Any = {"type": "tool_result", "tool_use_id": call.id, "content": "rain"}
    history: Any = [user, first.to_param(), {"role": "user", "content": [result]}]
    second = using.messages.create(**asked, messages=history, tool_choice={"type": "none"})
    assert second.type == "message"


class Place(BaseModel):
    city: str


def test_a_reply_follows_the_schema_of_each_client(responding: openai.OpenAI, talking: anthropic.Anthropic) -> None:
    schema = {"type": "json_schema", "name": "place", "schema": CITY, "strict": True}
    response = responding.responses.create(model="any", input=ASK, text={"format": schema}, max_output_tokens=128)  # type: ignore[typeddict-item]
    assert Place.model_validate_json(response.output_text).city in ("Oslo", "Rome")
    message = talking.messages.create(
        model="any", max_tokens=128, messages=[{"role": "user", "content": ASK}],
        output_config={"format": {"type": "json_schema", "schema": CITY}},
    )  # fmt: skip
    [block] = message.content
    assert block.type == "text"
    assert Place.model_validate_json(block.text).city in ("Oslo", "Rome")


def test_tokens_are_counted_as_they_are_used(responding: openai.OpenAI, talking: anthropic.Anthropic) -> None:
    usage = responding.responses.create(model="any", input=ASK, max_output_tokens=1).usage
    assert usage is not None
    assert responding.responses.input_tokens.count(model="any", input=ASK).input_tokens == usage.input_tokens
    messages: Any = [{"role": "user", "content": ASK}]
    counted = talking.messages.count_tokens(model="any", messages=messages)
    used = talking.messages.create(model="any", messages=messages, max_tokens=1).usage
    assert used.cache_read_input_tokens is not None
    assert counted.input_tokens == used.input_tokens + used.cache_read_input_tokens == usage.input_tokens


def test_the_next_turn_finds_the_last_one_in_the_tree(talking: anthropic.Anthropic) -> None:
    user: Any = {"role": "user", "content": ASK * 4}
    header = "x-anthropic-billing-header: cc_version=2.1; cch={};You tell stories."
    first = talking.messages.create(model="any", max_tokens=8, messages=[user], system=header.format("a5145"))
    history: Any = [user, first.to_param(), {"role": "user", "content": "And then?"}]
    second = talking.messages.create(model="any", max_tokens=8, messages=history, system=header.format("0c1e5"))
    before = first.usage.input_tokens + (first.usage.cache_read_input_tokens or 0)
    assert second.usage.cache_read_input_tokens is not None
    assert second.usage.cache_read_input_tokens >= before - 1


def test_a_prompt_beyond_the_context_is_said_in_words_that_clients_know(talking: anthropic.Anthropic) -> None:
    with pytest.raises(anthropic.BadRequestError, match=r"prompt is too long: [0-9]+ tokens > [0-9]+ maximum"):
        talking.messages.create(model="any", max_tokens=8, messages=[{"role": "user", "content": ASK * 3000}])
