"""Every family's replies with hostile arguments, cut anywhere, and as long as replies and conversations get."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srb.web.chat import reader as reader_module
from srb.web.chat.call_forms import JsonCalls, NamedCalls
from srb.web.chat.families import FAMILIES, HERMES, LLAMA_3, Family, HarmonyCalls
from srb.web.chat.pieces import CallArguments, CallBegan, CallEnded, Content, Reasoning, ToolCall
from srb.web.chat.reply_parser import ReplyParser, parse_reply
from srb.web.chat.sandbox import Sandbox
from tests.unit.replies import PARALLEL, REPLIES
from tests.walks import examples

BY_NAME = {family.name: family for family in (*FAMILIES, HERMES, LLAMA_3)}
MARKERS = sorted({marker for family in BY_NAME.values() for marker in family.markers})
TOOLS: dict[str, Any] = {
    "weather": {
        "type": "object",
        "properties": {"text": {"type": "string"}, "many": {"type": "array"}, "more": {"type": "object"}},
    },
    "time": {},
}
strings = st.lists(
    st.sampled_from(
        [*MARKERS, '"', "'", "\\", "\n", "\r\n", "\t", "{", "}", "[", "]", "</", "é", "☃", "😀", "\u2028", "a", " "]
    ),
    max_size=6,
).map("".join)
values = st.recursive(
    strings | st.integers(-(10**9), 10**9) | st.booleans() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2),
    max_leaves=6,
)
arguments = st.fixed_dictionaries(
    {},
    optional={
        "text": strings,
        "many": st.lists(values, max_size=3),
        "more": st.dictionaries(st.sampled_from(["a", "b"]), values, max_size=2),
    },
)


def in_parts(family: Family, text: str, places: list[int], **options: Any) -> tuple[Any, ...]:
    """Return content, reasoning, calls and the raw text of a reply that is cut at these places."""
    parser = ReplyParser(TOOLS, family=family, **options)
    ends = sorted({place % (len(text) + 1) for place in places} | {len(text)})
    found = []
    for begin, end in zip([0, *ends], ends, strict=False):
        found += parser.feed_raw(text[begin:end])
    found += parser.end_raw()
    content = "".join(piece.text for piece, _ in found if isinstance(piece, Content))
    reasoning = "".join(piece.text for piece, _ in found if isinstance(piece, Reasoning))
    calls: list[list[Any]] = []
    for piece, _ in found:
        if isinstance(piece, ToolCall):
            calls.append([piece.name, piece.arguments, True])
        elif isinstance(piece, CallBegan):
            calls.append([piece.name, "", False])
        elif isinstance(piece, CallArguments):
            calls[-1][1] += piece.text
        elif isinstance(piece, CallEnded):
            calls[-1][2] = piece.is_whole
    return content, reasoning, calls, "".join(part for _, part in found)


@settings(max_examples=examples(300), deadline=None)
@given(
    name=st.sampled_from(sorted(BY_NAME)),
    given_=st.lists(arguments, min_size=1, max_size=2),
    places=st.lists(st.integers(0, 2000), max_size=6),
    streamed=st.booleans(),
)
def test_hostile_arguments_are_valid_json_and_nothing_is_lost(
    name: str, given_: list[dict[str, Any]], places: list[int], streamed: bool
) -> None:
    family = BY_NAME[name]
    form = family.forms[0]
    text = form.write([("weather", each) for each in given_])
    content, _, calls, raw = in_parts(family, text, places, in_parts=streamed)
    assert raw == text
    assert (content, calls) == (lambda whole: (whole[0], whole[2]))(in_parts(family, text, [], in_parts=streamed))
    for called, told, is_whole in calls:
        assert called == "weather"
        if is_whole:
            assert isinstance(orjson.loads(told), dict)
    is_json = isinstance(form, JsonCalls | NamedCalls | HarmonyCalls)
    if is_json and (form.opening or isinstance(form, HarmonyCalls) or len(given_) == 1):
        assert [orjson.loads(told) for _, told, _ in calls] == given_, text
        assert content == ""


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("name", REPLIES)
def test_a_reply_may_be_cut_at_any_place(name: str, streamed: bool) -> None:
    family = BY_NAME[name]
    for text in filter(None, (REPLIES[name], PARALLEL.get(name))):
        whole = in_parts(family, text, [], in_parts=streamed)
        assert whole[3] == text
        for place in range(len(text)):
            assert in_parts(family, text, [place], in_parts=streamed) == whole


# Costs ----------------------------------------------------------------------------------------------------------------

LONG = 125_000  # characters: 500 parts, so a reply that is copied at each part would cost 250 times its length


class Copied:
    """Counts the characters that readers copy."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.characters = 0
        plain = reader_module.Reader.add

        def add(reader: reader_module.Reader, text: str) -> None:
            plain(reader, text)
            self.characters += reader.num_held

        monkeypatch.setattr(reader_module.Reader, "add", add)


def long_replies(family: Family) -> dict[str, str]:
    words = "word and more. " * (LONG // 15)
    form = family.forms[0]
    return {
        "text": words,
        "space": "x" + " \n" * (LONG // 2),
        "thoughts": family.reasoning[0] + words + family.reasoning[1] + "Yes.",
        "an argument": form.write([("weather", {"text": words})]),
        "an open argument": form.write([("weather", {"text": words})])[: LONG // 2],
        "many calls": form.write([("time", {"a": number}) for number in range(LONG // 100)]),
    }


@pytest.mark.parametrize("name", sorted(BY_NAME))
def test_a_long_reply_costs_what_its_length_says(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for kind, text in long_replies(BY_NAME[name]).items():
        copied = Copied(monkeypatch)
        parser = ReplyParser(TOOLS, family=BY_NAME[name], in_parts=True)
        size = 250
        found = [piece for at in range(0, len(text), size) for piece in parser.feed_raw(text[at : at + size])]
        found += parser.end_raw()
        assert sum(len(part) for _, part in found) == len(text)
        assert copied.characters < 40 * len(text), kind


GEMMA = """{%- for message in messages -%}
    {%- set before = namespace(role=None, found=false) -%}
    {%- for j in range(loop.index0 - 1, -1, -1) -%}
        {%- if not before.found -%}
            {%- if messages[j].role != 'tool' -%}
                {%- set before.role = messages[j].role -%}{%- set before.found = true -%}
            {%- endif -%}
        {%- endif -%}
    {%- endfor -%}
    {%- set after = namespace(stopped=false, tools=0) -%}
    {%- for k in range(loop.index0 + 1, messages | length) -%}
        {%- if after.stopped -%}
        {%- elif messages[k].role != 'tool' -%}{%- set after.stopped = true -%}
        {%- else -%}{%- set after.tools = after.tools + 1 -%}
        {%- endif -%}
    {%- endfor -%}
    {{- message.role + ' after ' + (before.role or 'none') + ' before ' + after.tools | string + '\\n' -}}
{%- endfor -%}"""


def test_a_conversation_of_ten_thousand_messages_is_rendered_in_steps_as_many(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = 0

    def tick(_: Any, written: int = 0) -> None:
        nonlocal ticks
        ticks += 1

    monkeypatch.setattr("srb.web.chat.sandbox.Sandbox.tick", tick)
    sandbox = Sandbox()
    roles = ["user", "assistant", "tool", "tool", "assistant"] * 2000
    messages = [{"role": role} for role in roles]
    text = sandbox.run(sandbox.compile_template(GEMMA), {"messages": messages})
    assert text.startswith("user after none before 0\nassistant after user before 2\n")
    assert text.count("\n") == len(messages)
    assert ticks < 30 * len(messages)


def test_parsing_without_deltas_is_parsing_with_them() -> None:
    for name, text in REPLIES.items():
        content, reasoning, calls = parse_reply(ReplyParser(TOOLS, family=BY_NAME[name]), text)
        found = in_parts(BY_NAME[name], text, list(range(len(text))))
        assert (content, reasoning, [[call.name, call.arguments, True] for call in calls]) == found[:3]
