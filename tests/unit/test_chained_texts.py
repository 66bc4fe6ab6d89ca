"""Texts of which it is known where tokens come again: lists do, chatter misleads, prose does not."""

from __future__ import annotations

from itertools import pairwise

import pytest

from srb.engine.lookup import Draft, PromptLookup
from srb.engine.tokens import tokens_of
from tests.models.chained_texts import FIRST, LINES, LONGEST, SHORTEST, a_text, chained_texts


def drafted(name: str) -> tuple[float, float]:
    """Return for how many of a text's tokens the first drafted token is right, and for how many it is wrong."""
    text = a_text(chained_texts(32_000)[name], 1000, seed=3)
    draft, right, wrong = Draft(PromptLookup(tokens_of(text[:400]))), 0, 0
    for length in range(599):
        tokens, _ = draft.propose(tokens_of(text[400 : 400 + length]), 1)
        if tokens:
            right, wrong = right + (tokens[0] == text[400 + length]), wrong + (tokens[0] != text[400 + length])
    return right / 599, wrong / 599


def test_texts_have_no_token_in_common_and_begin_after_other_tokens() -> None:
    texts = chained_texts(32_000)
    assert list(texts) == ["lists", "chatter", "prose"]
    tokens = [token for successors in texts.values() for token in successors]
    assert len(tokens) == len(set(tokens))
    assert FIRST == min(tokens) < max(tokens) < 32_000
    for successors in texts.values():
        assert {after for following in successors.values() for after in following} <= successors.keys()


def test_lines_of_lists_come_in_any_order() -> None:
    lists = chained_texts(32_000)["lists"]
    end = next(iter(lists))
    text = a_text(lists, 2000, seed=1)
    ends = [place for place, token in enumerate(text) if token == end]
    lines = {tuple(text[begin + 1 : after]) for begin, after in pairwise(ends)}
    assert len(lines) == LINES
    assert all(SHORTEST <= len(line) <= LONGEST for line in lines)
    assert [token for token, following in lists.items() if len(following) > 1] == [end]


def test_drafts_are_right_in_lists_wrong_in_chatter_and_none_in_prose() -> None:
    right, wrong = drafted("lists")
    assert right > 0.85
    assert right / (right + wrong) > 0.9
    right, wrong = drafted("chatter")
    assert wrong > 0.3
    assert right < wrong
    right, wrong = drafted("prose")
    assert right + wrong < 0.05


def test_a_small_vocabulary_is_refused() -> None:
    with pytest.raises(ValueError, match="vocabulary of 512 tokens"):
        chained_texts(512)
