"""However a reply is divided into deltas, the official clients put together the answer that was not streamed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from srb.wire.commands import Generate
from srb.wire.events import Accepted, BranchEnded, Delta, Done, Event
from tests.official import anthropic_over, application, openai_over
from tests.scripted import Script
from tests.walks import examples

PARTS = (
    "<think>", "</think>", "hm ", "\n", " ", "Hello", "…", "{", "<tool_call>", "</tool_call>", "<",
    '<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo"}}\n</tool_call>', '{"name": "weather", "parameters": {}}',
)  # fmt: skip
PARAMETERS: dict[str, object] = {"type": "object", "properties": {"city": {"type": "string"}}}

texts = st.lists(st.sampled_from(PARTS), max_size=9).map("".join)
cuts = st.lists(st.integers(0, 200), max_size=9)
reasons = st.sampled_from(["eos", "limit", "word"])


def says(replies: list[tuple[str, list[int]]], reason: str) -> Script:
    """Return an engine whose branch i writes the i-th text, cut at its places, in turns with the others."""

    def script(command: Generate) -> Iterable[list[Event]]:
        request_id = command.request_id
        yield [Accepted(request_id, 5)]
        pieces = [divided(text, places) for text, places in replies]
        for turn in range(max(map(len, pieces))):
            yield [
                Delta(request_id, index, parts[turn], [turn]) for index, parts in enumerate(pieces) if turn < len(parts)
            ]
        yield [BranchEnded(request_id, index, reason, 9) for index in range(len(replies))]
        yield [Done(request_id, 5, 2, 9 * len(replies), 10.0, 30.0)]

    return script


def divided(text: str, places: list[int]) -> list[str]:
    ends = sorted({place % (len(text) + 1) for place in places} | {len(text)})
    return [text[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]


def without(value: Any, *names: str) -> Any:
    """Return a JSON value without the keys that differ between two calls."""
    if isinstance(value, list):
        return [without(each, *names) for each in value]
    if isinstance(value, dict):
        return {name: without(each, *names) for name, each in value.items() if name not in names}
    return value


@settings(max_examples=examples(60), deadline=None)
@given(reply=texts, places=cuts, reason=reasons, tools=st.booleans())
def test_a_streamed_message_is_the_message(reply: str, places: list[int], reason: str, tools: bool) -> None:
    client = anthropic_over(application(says([(reply, places)], reason), seed=7)[0])
    asked: dict[str, Any] = {"model": "m", "max_tokens": 50, "messages": [{"role": "user", "content": "Hi"}]}
    if tools:
        asked["tools"] = [{"name": "weather", "input_schema": PARAMETERS}]
    whole = client.messages.create(**asked)
    with client.messages.stream(**asked) as stream:
        streamed = stream.get_final_message()
    kept = ("id", "timings", "stop_details", "parsed_output")
    assert without(streamed.to_dict(), *kept) == without(whole.to_dict(), *kept)


@settings(max_examples=examples(60), deadline=None)
@given(replies=st.lists(st.tuples(texts, cuts), min_size=1, max_size=3), reason=reasons, tools=st.booleans())
def test_a_streamed_response_is_the_response(replies: list[tuple[str, list[int]]], reason: str, tools: bool) -> None:
    client = openai_over(application(says(replies, reason), seed=7)[0])
    asked: dict[str, Any] = {"model": "m", "input": "Hi", "extra_body": {"n": len(replies)}}
    if tools:
        asked["tools"] = [{"type": "function", "name": "weather", "parameters": PARAMETERS, "strict": False}]
    whole = client.responses.create(**asked).to_dict()
    deltas: dict[str, str] = {}
    with client.responses.create(**asked, stream=True) as raw:
        for event in raw:
            if event.type in DELTAS:
                deltas[event.item_id] = deltas.get(event.item_id, "") + event.delta
    response: Any = event
    streamed = response.response.to_dict()
    assert [text_of(item) for item in streamed["output"]] == [deltas[item["id"]] for item in streamed["output"]]
    ordered = sorted(streamed["output"], key=lambda item: item.get("branch", 0))  # items of a branch stay in order
    changing = ("id", "call_id", "created_at", "completed_at", "timings")
    assert without({**streamed, "output": ordered}, *changing) == without(whole, *changing)
    if reason != "limit":
        with client.responses.stream(**asked) as stream:
            final = stream.get_final_response()
        assert [item.type for item in final.output] == [item["type"] for item in streamed["output"]]


DELTAS = ("response.output_text.delta", "response.reasoning_text.delta", "response.function_call_arguments.delta")


def text_of(item: Any) -> Any:
    return item["arguments"] if item["type"] == "function_call" else item["content"][0]["text"]
