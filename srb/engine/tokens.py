"""Tokens of texts as arrays: four bytes each, which C compares, copies and frees at once.

Prompts, branches and the tree hold whole texts so. A list never equals an array, so every text is converted where it
comes in: `Preparer.request` and `read_state`.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import TypeAlias, cast

Tokens: TypeAlias = "array[int]"  # of 32 bits, as llama_token; the alias is text, since Python 3.11 has only the class

_FEW = 256  # tokens; fewer are compared sooner as arrays


def tokens_of(ids: Iterable[int]) -> Tokens:
    """Return token ids as an array of their own."""
    return array("i", ids)


def ids_of(parts: Sequence[str | int]) -> Tokens | None:
    """Return token ids as an array, in one pass; None if a part is no number of 32 bits."""
    try:
        return array("i", cast(Sequence[int], parts))
    except (TypeError, OverflowError):
        return None


def has_at(tokens: Tokens, offset: int, part: Tokens) -> bool:
    """Whether `part` stands in `tokens` at `offset`."""
    if len(part) < _FEW:
        return tokens[offset : offset + len(part)] == part
    with memoryview(tokens) as view:  # arrays compare number by number, bytes at once
        return view[offset : offset + len(part)].tobytes().startswith(part)


def is_media(token: int) -> bool:
    """Whether a token stands for a position of a picture or a sound (see `media`)."""
    return token < 0


def run_start(tokens: Tokens, position: int) -> int:
    """Return `position`, or where the media begin that it is within: a text is never cut there."""
    if not 0 < position < len(tokens) or not (is_media(tokens[position]) and is_media(tokens[position - 1])):
        return position
    while position and is_media(tokens[position - 1]):
        position -= 1
    return position
