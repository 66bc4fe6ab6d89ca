"""OpenAI's own client in conversation with a whole server: the bundled storyteller, and a model of random weights."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest

from tests.servers import Server, openai_options

pytestmark = pytest.mark.e2e

MESSAGES: Any = [
    {"role": "system", "content": "You tell short stories."},
    {"role": "user", "content": "Tell me of the lighthouse keeper."},
]
ASK: dict[str, Any] = {"model": "any", "messages": MESSAGES, "max_tokens": 24, "seed": 42}
TOOLS: Any = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "Tell the weather of a place",
            "parameters": {
                "type": "object",
                "properties": {"city": {"enum": ["Oslo", "Rome"]}},
                "required": ["city"],
            },
        },
    },
    {"type": "function", "function": {"name": "time", "parameters": {"type": "object", "properties": {}}}},
]


@pytest.fixture
def client(storyteller: Server) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(**openai_options(storyteller)) as made:
        yield made


@pytest.fixture
def exact(tiny: Server) -> Iterator[openai.OpenAI]:
    """A client of the model whose texts can be compared."""
    with openai.OpenAI(**openai_options(tiny)) as made:
        yield made


class Collected:
    """A stream's chunks, taken apart."""

    def __init__(self, n: int = 1) -> None:
        self.texts = [""] * n
        self.calls: list[list[Any]] = [[] for _ in range(n)]
        self.roles: list[str | None] = [None] * n
        self.endings: dict[int, str] = {}
        self.usages: list[Any] = []

    def add(self, chunk: Any) -> None:
        assert chunk.object == "chat.completion.chunk"
        if chunk.usage is not None:
            assert not chunk.choices
            self.usages.append(chunk.usage)
            return
        [choice] = chunk.choices
        assert choice.index not in self.endings, "a choice goes on after its end"
        if self.roles[choice.index] is None:
            assert choice.delta.content == ""
            self.roles[choice.index] = choice.delta.role
        self.texts[choice.index] += choice.delta.content or ""
        for part in choice.delta.tool_calls or []:
            calls = self.calls[choice.index]
            if part.index == len(calls):
                assert part.id
                assert part.function.name
                calls.append(part)
            else:  # as the client's own streams do
                assert (part.id, part.function.name) == (None, None)
                calls[part.index].function.arguments += part.function.arguments
        if choice.finish_reason is not None:
            self.endings[choice.index] = choice.finish_reason


def test_eight_replies_and_their_usage_summed(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(**ASK, n=8, extra_body={"ignore_eos": True})
    assert answer.object == "chat.completion"
    assert answer.model == "storyteller"
    assert [choice.index for choice in answer.choices] == list(range(8))
    assert {choice.message.role for choice in answer.choices} == {"assistant"}
    assert len({choice.message.content for choice in answer.choices}) == 8
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 8 * 24
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + 8 * 24


def test_a_stream_of_eight_says_what_the_answer_says(exact: openai.OpenAI) -> None:
    whole = exact.chat.completions.create(**ASK, n=8)
    collected = Collected(8)
    with exact.chat.completions.create(**ASK, n=8, stream=True, stream_options={"include_usage": True}) as stream:
        for chunk in stream:
            collected.add(chunk)
    assert collected.roles == ["assistant"] * 8
    assert collected.texts == [choice.message.content for choice in whole.choices]
    assert collected.endings == {choice.index: choice.finish_reason for choice in whole.choices}
    [usage] = collected.usages
    assert whole.usage is not None
    assert usage.completion_tokens == whole.usage.completion_tokens


def test_the_asynchronous_client_runs_several_conversations_at_once(tiny: Server, exact: openai.OpenAI) -> None:
    async def stream(asynchronous: openai.AsyncOpenAI, seed: int) -> list[str]:
        collected = Collected(4)
        body = ASK | {"seed": seed}
        async with await asynchronous.chat.completions.create(**body, n=4, stream=True) as chunks:
            async for chunk in chunks:
                collected.add(chunk)
        return collected.texts

    async def all_streams() -> list[list[str]]:
        async with openai.AsyncOpenAI(**openai_options(tiny)) as asynchronous:
            return await asyncio.gather(*(stream(asynchronous, seed) for seed in (1, 2, 3)))

    for seed, texts in zip((1, 2, 3), asyncio.run(all_streams()), strict=True):
        answer = exact.chat.completions.create(**ASK | {"seed": seed}, n=4)
        assert texts == [choice.message.content for choice in answer.choices]


def test_the_next_turn_computes_only_what_is_new(client: openai.OpenAI) -> None:
    messages = [*MESSAGES, {"role": "user", "content": "Tell it again, and more slowly, with the sea in it."}]
    first = client.chat.completions.create(**ASK | {"messages": messages})
    reply = {"role": "assistant", "content": first.choices[0].message.content}
    longer = [*messages, reply, {"role": "user", "content": "And then?"}]
    second = client.chat.completions.create(**ASK | {"messages": longer})
    assert first.usage is not None
    assert second.usage is not None
    assert second.usage.prompt_tokens_details is not None
    cached = second.usage.prompt_tokens_details.cached_tokens
    assert cached is not None
    assert cached >= first.usage.prompt_tokens


def test_a_trailing_assistant_message_is_continued(exact: openai.OpenAI, tiny: Server) -> None:
    begun = [*MESSAGES, {"role": "assistant", "content": "Once upon a time,"}]
    prompt = tiny.post("/apply-template", {"messages": begun}).json()["prompt"]
    assert prompt.endswith("Once upon a time,")
    chatted = exact.chat.completions.create(**ASK | {"messages": begun}).choices[0].message.content
    body = {"model": "any", "prompt": prompt, "max_tokens": 24, "seed": 42, "stop": ["<|im_end|>", "<|im_start|>"]}
    assert tiny.post("/v1/completions", body).json()["choices"][0]["text"] == chatted


def test_input_tokens_are_those_of_the_usage(client: openai.OpenAI, storyteller: Server) -> None:
    usage = client.chat.completions.create(**ASK).usage
    assert usage is not None
    for path in ("/v1/chat/completions/input_tokens", "/chat/completions/input_tokens"):
        counted = storyteller.post(path, {"messages": MESSAGES}).json()
        assert counted == {"input_tokens": usage.prompt_tokens, "object": "response.input_tokens"}


def test_logprobs_concatenate_to_the_text(client: openai.OpenAI) -> None:
    [choice] = client.chat.completions.create(**ASK, logprobs=True, top_logprobs=3).choices
    assert choice.logprobs is not None
    assert choice.logprobs.content
    assert "".join(entry.token for entry in choice.logprobs.content) == choice.message.content
    assert all(len(entry.top_logprobs) == 3 for entry in choice.logprobs.content)
    for entry in choice.logprobs.content:
        likely = [(top.logprob, top.token) for top in entry.top_logprobs]
        assert [logprob for logprob, _ in likely] == sorted((logprob for logprob, _ in likely), reverse=True)
        assert entry.logprob <= likely[0][0]
        assert (entry.logprob, entry.token) in likely or entry.logprob <= likely[-1][0]


def test_a_reply_follows_its_schema(client: openai.OpenAI) -> None:
    schema = {
        "type": "object",
        "properties": {"name": {"enum": ["Dora", "Ravi"]}, "old": {"type": "boolean"}},
        "required": ["name", "old"],
    }
    answer = client.chat.completions.create(
        **ASK | {"max_tokens": 100},
        n=4,
        response_format={"type": "json_schema", "json_schema": {"name": "person", "schema": schema}},
    )
    for choice in answer.choices:
        person = json.loads(choice.message.content or "")
        assert person["name"] in ("Dora", "Ravi")
        assert type(person["old"]) is bool


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_required_call_comes_as_one(client: openai.OpenAI, stream: bool) -> None:
    choice: Any = {"type": "function", "function": {"name": "weather"}}
    body: Any = {**ASK, "max_tokens": 100, "n": 2, "tools": TOOLS, "tool_choice": choice, "stream": stream}
    if stream:
        collected = Collected(2)
        for chunk in client.chat.completions.create(**body):
            collected.add(chunk)
        assert collected.texts == ["", ""]
        assert set(collected.endings.values()) == {"tool_calls"}
        calls = [call for [call] in collected.calls]
    else:
        choices = client.chat.completions.create(**body).choices
        assert {choice.finish_reason for choice in choices} == {"tool_calls"}
        calls = [call for choice in choices for call in choice.message.tool_calls or ()]
    assert [call.function.name for call in calls] == ["weather"] * 2
    assert all(json.loads(call.function.arguments)["city"] in ("Oslo", "Rome") for call in calls)


def test_tools_that_need_not_be_called_leave_the_text_as_it_is(client: openai.OpenAI) -> None:
    collected = Collected()
    with client.chat.completions.create(**ASK, tools=TOOLS, stream=True) as stream:
        for chunk in stream:
            collected.add(chunk)
    assert collected.texts[0]
    assert collected.calls == [[]]


def test_a_conversation_may_contain_a_call_and_its_result(client: openai.OpenAI) -> None:
    call = {"id": "abcdefghi", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Oslo"}'}}
    messages = [
        *MESSAGES,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "abcdefghi", "content": "rain"},
    ]
    assert client.chat.completions.create(**ASK | {"messages": messages}, tools=TOOLS).choices[0].message.content


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("messages", []),
        ("n", 65),
        ("temperature", "hot"),
        ("tool_choice", "required"),
        ("top_logprobs", 5),
        ("response_format", {"type": "yaml"}),
    ],
)
def test_a_bad_value_is_a_bad_request_error_that_names_it(client: openai.OpenAI, field: str, value: Any) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(**ASK | {field: value})
    assert caught.value.param == field
    assert f"'{field}'" in caught.value.message
