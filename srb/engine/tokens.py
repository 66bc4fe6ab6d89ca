"""Tokens of texts as arrays: four bytes each, which C compares, copies and frees at once.

Prompts, branches and the tree hold whole texts so. A list never equals an array, so every text is converted where it
comes in: `Preparer.request` and `read_state`.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import TypeAlias

Tokens: TypeAlias = "array[int]"  # of 32 bits, as llama_token; the alias is text, since Python 3.11 has only the class


def tokens_of(ids: Iterable[int]) -> Tokens:
    """Return token ids as an array of their own."""
    return array("i", ids)
