"""A reply as blocks of reasoning, text and calls: the steps of a stream, and what is kept of them."""

from __future__ import annotations

import pytest

from srb.web.chat.blocks import Begin, Blocks, End, More, blocks_of
from srb.web.chat.reply_parser import ReplyParser

CALL = '<tool_call>{"name": "f", "arguments": {}}</tool_call>'


def test_a_block_begins_grows_and_ends_before_the_next_one() -> None:
    blocks = Blocks(ReplyParser({"f"}))
    steps = [
        step for text in ("<think>", "a", "b</think>", "c", CALL, "d") for step in blocks.feed(text)
    ] + blocks.end()
    seen = [(type(step), step.block.kind) for step in steps]
    assert seen == [
        (Begin, "reasoning"), (More, "reasoning"), (More, "reasoning"), (End, "reasoning"),
        (Begin, "text"), (More, "text"), (End, "text"),
        (Begin, "call"), (More, "call"), (End, "call"),
        (Begin, "text"), (More, "text"), (End, "text"),
    ]  # fmt: skip
    assert [block.text for block in blocks.all] == ["ab", "c", "{}", "d"]
    assert [block.place for block in blocks.all] == [0, 1, 2, 3]
    assert blocks.calls == 1


def test_plain_text_is_appended_without_the_parser() -> None:
    blocks = Blocks(ReplyParser())
    assert blocks.plain is None
    blocks.feed("a")
    block = blocks.plain
    assert block is not None
    blocks.append("b")
    assert block.text == "ab"
    assert [type(step) for step in blocks.end()] == [End]
    assert blocks.plain is None


@pytest.mark.parametrize("keeps_text", [True, False])
def test_reasoning_is_estimated_by_its_part_of_the_characters(keeps_text: bool) -> None:
    blocks = Blocks(ReplyParser(), keeps_text)
    blocks.feed(f"<think>{'a' * 85}</think>{'b' * 100}")
    blocks.end()
    assert blocks.reasoning_tokens(of=100) == round(100 * 85 / 200)
    assert [bool(block.text) for block in blocks.all] == [keeps_text] * 2
    assert blocks_of(ReplyParser(), "no thought").reasoning_tokens(of=100) == 0


def test_a_call_that_breaks_off_is_a_block_that_is_not_whole() -> None:
    blocks = Blocks(ReplyParser({"f"}, in_parts=True))
    blocks.feed(f'{CALL}<tool_call>{{"name": "f", "arguments": {{"a": 1')
    blocks.end()
    assert [(block.kind, block.text, block.is_whole) for block in blocks.all] == [
        ("call", "{}", True),
        ("call", '{"a": 1', False),
    ]
    assert blocks.calls == 1


@pytest.mark.parametrize("tools", [{"f"}, set()])
def test_a_branch_that_goes_on_after_its_end_loses_no_text(tools: set[str]) -> None:
    blocks = Blocks(ReplyParser(tools))
    for text in ("<think>a", "b</think>c", "d"):
        blocks.feed(text)
        blocks.end()
    texts = {kind: "".join(block.text for block in blocks.all if block.kind == kind) for kind in ("reasoning", "text")}
    assert texts == {"reasoning": "ab", "text": "cd"}
