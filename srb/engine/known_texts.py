"""Known texts: the tokens of long texts, found by their characters, so that only new text is tokenized.

A text is divided at cuts into blocks. A block's tokens depend on nothing but its characters and those beside its two
cuts, so they are kept by these, whichever texts the block is in. Safe from any thread.
"""

from __future__ import annotations

import logging
from functools import lru_cache

from srb.engine.model import Model
from srb.engine.tokens import Tokens, tokens_of

log = logging.getLogger("srb.engine")

BLOCK = 1024  # characters of a block, at least; blocks twice as long, of texts with few cuts, are not kept
_SHORTEST = 4  # blocks; shorter texts are tokenized whole, which takes about a millisecond
MAX_BLOCKS = 4096  # four million characters; with their tokens about 12 MiB
_MAX_EDGES = 4096  # as many as MAX_BLOCKS: a block is between two
_AFTER = 2  # characters after a cut that belong to it: the space or mark, and the letter after it


class _WrongCut(Exception):
    """A token reaches across a cut."""


class KnownTexts:
    """The tokens of blocks of texts; of more than `max_blocks` those that were used last are kept."""

    def __init__(self, model: Model, max_blocks: int = MAX_BLOCKS, block: int = BLOCK) -> None:
        """Divide texts into blocks of `block` characters or a few more."""
        self._model = model
        self._block = block
        self._known_tokens = lru_cache(max_blocks)(self._read)
        self._edge = lru_cache(_MAX_EDGES)(self._read_edge)
        self._is_trusted = True  # False once a cut proved wrong

    def tokenize(self, text: str, add_special: bool, parse_special: bool) -> list[int]:
        """Return the tokens of a text, as the model does."""
        if len(text) >= _SHORTEST * self._block and self._is_trusted:
            begin = self._model.tokenize("", add_special, parse_special)
            if begin in ([], [self._model.bos_id]):  # else the vocabulary also adds an end
                try:
                    return self._join(begin, text, parse_special)
                except _WrongCut:
                    log.exception("from now on, all texts are tokenized whole")
                    self._is_trusted = False
        return self._model.tokenize(text, add_special, parse_special)

    def _join(self, tokens: list[int], text: str, parse_special: bool) -> list[int]:
        """Append the tokens of all blocks of a text to `tokens`. Raise _WrongCut."""
        start = 0
        while (end := self._model.find_cut(text, start + self._block)) >= 0:
            is_kept = end - start <= 2 * self._block
            read = self._known_tokens if is_kept else self._read
            tokens += read(text[max(0, start - 1) : end + _AFTER], start > 0, True, parse_special)
            start = end
        tokens += self._read(text[max(0, start - 1) :], start > 0, False, parse_special)
        return tokens

    def _read(self, text: str, is_after_cut: bool, is_before_cut: bool, parse_special: bool) -> Tokens:
        """Return the tokens of a block, given with the characters beside its cuts. Raise _WrongCut."""
        tokens = self._model.tokenize(text, False, parse_special)
        before = self._edge(text[0], "", parse_special) if is_after_cut else []
        after = self._edge(text[-_AFTER - 1], text[-_AFTER:], parse_special) if is_before_cut else []
        end = len(tokens) - len(after)
        if tokens[: len(before)] != before or tokens[end:] != after:
            raise _WrongCut(f"beside {text[:1]!r} or {text[-_AFTER - 1 :]!r}")
        return tokens_of(tokens[len(before) : end])

    def _read_edge(self, letter: str, after: str, parse_special: bool) -> list[int]:
        """Return the tokens of the letter before a cut, or of the characters `after` the cut, if there are any."""
        tokens = self._model.tokenize(letter + after, False, parse_special)
        return tokens[len(self._model.tokenize(letter, False, parse_special)) :] if after else tokens
