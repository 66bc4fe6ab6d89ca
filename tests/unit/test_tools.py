"""Replies taken apart: whatever the sizes of the parts they come in, the pieces are the same and nothing is lost."""

from __future__ import annotations

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from srb.web.chat.reply_parser import Content, Piece, Reasoning, ReplyParser, ToolCall, parse_reply

MARKS = [
    "<tool_call>",
    "</tool_call>",
    "<think>",
    "</think>",
    "<|python_tag|>",
    "{",
    "}",
    '"',
    "\\",
    " ",
    "\n",
    ";",
    "<",
]
MARKS += ['{"name": "f", "parameters": {}}', '{"name": "f", "arguments": {"a": "}"}}', "text", "é"]


def pieces(text: str, size: int, **options: object) -> list[Piece]:
    parser = ReplyParser(**options)  # type: ignore[arg-type]
    found = [piece for at in range(0, len(text), size) for piece in parser.feed(text[at : at + size])]
    return [*found, *parser.end()]


def parts(text: str, size: int, **options: object) -> tuple[str, str, list[tuple[str, str]]]:
    """Return content, reasoning and calls of a text that comes in parts of `size` characters."""
    found = pieces(text, size, **options)
    content = "".join(piece.text for piece in found if isinstance(piece, Content))
    reasoning = "".join(piece.text for piece in found if isinstance(piece, Reasoning))
    return content, reasoning, [(piece.name, piece.arguments) for piece in found if isinstance(piece, ToolCall)]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize(
    ("text", "content", "calls"),
    [
        ('<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>', "", [("f", '{"a": 1}')]),
        (
            '<tool_call>{"name": "f", "arguments": {}}</tool_call>\n<tool_call>{"name": "g"}</tool_call>\n',
            "",
            ["f", "g"],
        ),
        ('One moment.\n\n<tool_call>{"name": "f"}</tool_call>', "One moment.", ["f"]),
        ('<tool_call>{"name": "f", "arguments": {"a": "}</tool_call>\\""}}</tool_call>', "", ["f"]),
        ('<tool_call>{"name": "f", "arguments": "{\\"a\\": 1}"}</tool_call>', "", [("f", '{"a": 1}')]),
        ('<tool_call>{"name": "f"}', "", ["f"]),
        ('<tool_call>{"name": "f"}</tool', "", ["f"]),
        ('{"name": "f", "parameters": {"a": [1]}}', "", [("f", '{"a": [1]}')]),
        ('\n{"name": "f", "parameters": {}}; {"name": "g", "parameters": {}}', "", ["f", "g"]),
        ('<|python_tag|>{"name": "f", "parameters": {}}', "", ["f"]),
    ],
)
def test_calls_are_found(text: str, content: str, calls: list[object], size: int) -> None:
    found = parts(text, size, tools=["f", "g"])
    assert found[:2] == (content, "")
    assert [call[0] for call in found[2]] == [call if isinstance(call, str) else call[0] for call in calls]
    assert [call for call in found[2] if call in calls or call[0] in calls] == found[2]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize(
    "text",
    [
        "a < b and <tool",
        "ends with <tool_cal",
        "<tool_call>no object</tool_call>",
        '<tool_call>{"name": "f", "argu',
        "<tool_call>{broken}</tool_call>",
        '<tool_call>{"arguments": {}}</tool_call>',
        "<|python_tag|>print(1)",
        '{"name": "unknown", "parameters": {}}',
        '{"name": "f"}',
        '{"answer": 42}',
        '{"name": "f", "parameters": {"a": "',
        "  \n ",
        "line\n\n",
    ],
)
def test_text_that_is_no_call_is_content_unchanged(text: str, size: int) -> None:
    assert parts(text, size, tools=["f"]) == (text, "", [])


def test_without_tools_nothing_is_a_call_and_nothing_waits() -> None:
    text = '<tool_call>{"name": "f"}</tool_call>'
    parser = ReplyParser()
    assert parser.feed("<tool") == [Content("<tool")]
    assert parser.is_plain
    assert parts(text, 3) == (text, "", [])
    assert not ReplyParser(["f"]).is_plain


def test_text_that_cannot_become_a_call_is_not_held_back() -> None:
    parser = ReplyParser(["f"])
    assert parser.feed("Hello") == [Content("Hello")]
    assert parser.feed(" <b>bold</b> <to") == [Content(" <b>bold</b>")]
    assert parser.feed("e>") == [Content(" <toe>")]


@pytest.mark.parametrize("size", [1, 2, 5, 1000])
@pytest.mark.parametrize(
    ("text", "options", "content", "reasoning"),
    [
        ("<think>\nHm, so.\n</think>\n\nYes. ", {}, "Yes. ", "Hm, so."),
        ("\n<think>Hm</think>", {}, "", "Hm"),
        ("<think>\n\n</think>\n\nYes", {}, "Yes", ""),
        ("<think>cut sho", {}, "", "cut sho"),
        ("Hm</think>Yes", {"thinking": True}, "Yes", "Hm"),
        (" go on</think>Yes", {"thinking": True, "has_begun": True}, "Yes", " go on"),
        ("Yes, <think>no</think>", {}, "Yes, <think>no</think>", ""),
        ("<think>no</think>", {"has_begun": True}, "<think>no</think>", ""),
        ("<think>no</think>", {"reasoning": False}, "<think>no</think>", ""),
        ("<thi", {}, "<thi", ""),
        ("  two spaces", {}, "  two spaces", ""),
    ],
)
def test_reasoning_is_what_the_reply_begins_with(
    text: str, options: dict[str, object], content: str, reasoning: str, size: int
) -> None:
    assert parts(text, size, **options) == (content, reasoning, [])


def test_a_call_may_follow_the_reasoning() -> None:
    text = '<think>f it is</think>\n<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>'
    assert parts(text, 2, tools=["f"]) == ("", "f it is", [("f", "{}")])


def test_a_whole_reply_is_read_at_once() -> None:
    content, reasoning, (call,) = parse_reply(
        ReplyParser(["f"]), '<think>a</think>b <tool_call>{"name": "f"}</tool_call>'
    )
    assert (content, reasoning) == ("b", "a")
    assert (call.name, call.arguments) == ("f", "{}")


def test_ids_are_as_mistrals_templates_want_them() -> None:
    ids = {ToolCall("f", "{}").id for _ in range(100)}
    assert len(ids) == 100
    assert all(len(each) == 9 and each.isalnum() for each in ids)


@given(st.lists(st.sampled_from(MARKS), max_size=12).map("".join), st.integers(1, 9), st.booleans())
def test_parts_of_any_size_make_the_same_pieces(text: str, size: int, thinking: bool) -> None:
    options = {"tools": ["f"], "thinking": thinking}
    whole = parts(text, len(text) or 1, **options)
    assert parts(text, size, **options) == whole
    for _, arguments in whole[2]:
        orjson.loads(arguments)


@given(st.lists(st.sampled_from(MARKS), max_size=12).map("".join), st.integers(1, 9))
def test_text_without_reasoning_or_calls_is_unchanged(text: str, size: int) -> None:
    assert parts(text, size, reasoning=False) == (text, "", [])
    found = parts(text, size, tools=["f"], reasoning=False)
    if not found[2]:
        assert found[0] == text
