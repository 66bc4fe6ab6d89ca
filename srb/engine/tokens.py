"""Tokens of texts as arrays: four bytes each, which C compares, copies and frees at once.

Prompts, branches and the tree hold whole texts so. A list never equals an array, so every text is converted where it
comes in: `Preparer.request` and `read_state`.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import TypeAlias, cast

import numpy as np

Tokens: TypeAlias = "array[int]"  # of 32 bits, as llama_token; the alias is text, since Python 3.11 has only the class

NEXT = 2**31 - 1  # stands for any token that may follow a text: of no vocabulary, and of no media
_MARK = 2**20  # above the ids of any vocabulary
MAX_MARK = NEXT // _MARK - 1
_FEW = 256  # tokens; fewer are compared sooner as arrays than through numpy's views
_BLOCK = 4096  # tokens compared at once: texts that differ early need not be compared to their end


def tokens_of(ids: Iterable[int]) -> Tokens:
    """Return token ids as an array of their own."""
    return array("i", ids)


def ids_of(parts: Sequence[str | int]) -> Tokens | None:
    """Return token ids as an array, in one pass; None if a part is no number of 32 bits."""
    try:
        return array("i", cast(Sequence[int], parts))
    except (TypeError, OverflowError):
        return None


def marked(tokens: Tokens, mark: int) -> Tokens:
    """Return tokens as the tree knows those that were computed under a mood of their own: each with its mark, 1 … MAX_MARK.

    So they never equal the same tokens under another mood, or under none (mark 0).
    """
    if not mark or not tokens:
        return tokens
    return array("i", (np.frombuffer(tokens, np.int32) + np.int32(mark * _MARK)).tobytes())


def num_unmarked(tokens: Tokens) -> int:
    """Return how many tokens come before the marked ones, with which a text ends."""
    if not tokens or tokens[-1] < _MARK:
        return len(tokens)
    return bisect_left(tokens, True, key=lambda token: token >= _MARK)


def has_at(tokens: Tokens, offset: int, part: Tokens) -> bool:
    """Whether `part` stands in `tokens` at `offset`."""
    if len(part) < _FEW:
        return tokens[offset : offset + len(part)] == part
    with memoryview(tokens) as view:  # arrays compare number by number, bytes at once
        return view[offset : offset + len(part)].tobytes().startswith(part)


def common_length(a: Tokens, b: Tokens, offset: int) -> int:
    """Return the length of the longest common prefix of `a` and `b[offset:]`."""
    most = min(len(a), len(b) - offset)
    if most <= 0 or a[0] != b[offset]:
        return 0
    for low in range(0, most, _BLOCK):
        high = min(low + _BLOCK, most)
        if not has_at(b, offset + low, a[low:high]):
            return _first_difference(a, b, offset, low, high)
    return most


def _first_difference(a: Tokens, b: Tokens, offset: int, low: int, high: int) -> int:
    """Return the first index at which `a` and `b[offset:]` differ: at or after `low`, and before `high`."""
    while high - low > 1:
        middle = (low + high) // 2
        if a[low:middle] == b[offset + low : offset + middle]:
            low = middle
        else:
            high = middle
    return low


def without_media(tokens: Tokens) -> Tokens:
    """Return the tokens of a text that stand for no media: the text itself if it has none."""
    values = np.frombuffer(tokens, np.int32) if tokens else np.zeros(0, np.int32)
    is_text = values >= 0
    return tokens if is_text.all() else array("i", values[is_text].tobytes())


def is_media(token: int) -> bool:
    """Whether a token stands for a position of a picture or a sound (see `media`)."""
    return token < 0


def run_end(tokens: Tokens, position: int) -> int:
    """Return `position`, or where the media end that it is within."""
    if run_start(tokens, position) < position:
        while position < len(tokens) and is_media(tokens[position]):
            position += 1
    return position


def run_start(tokens: Tokens, position: int) -> int:
    """Return `position`, or where the media begin that it is within: a text is never cut there."""
    if not 0 < position < len(tokens) or not (is_media(tokens[position]) and is_media(tokens[position - 1])):
        return position
    while position and is_media(tokens[position - 1]):
        position -= 1
    return position
