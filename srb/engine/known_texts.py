"""Known texts: the tokens of long texts, found by their characters, so that only new text is tokenized.

A text is divided at cuts into blocks. A block's tokens depend on nothing but its characters and those beside its two
cuts, so they are kept by these, whichever texts the block is in. Safe from any thread.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from functools import lru_cache

from srb.engine.model import Model
from srb.engine.tokens import Tokens, tokens_of
from srb.progress import FairSemaphore, go_on

log = logging.getLogger("srb.engine")

BLOCK = 1024  # characters of a block, at least; blocks twice as long, of texts with few cuts, are not kept
_SHORTEST = 4  # blocks; shorter texts are tokenized whole, which takes about a millisecond
MAX_BLOCKS = 4096  # four million characters; with their tokens about 12 MiB
_MAX_EDGES = 4096  # as many as MAX_BLOCKS: a block is between two
PIECE = 65536  # characters that a thread tokenizes before others have their turn: some 50 ms of prose
# Characters of a text without a cut, at most. One call of native code tokenizes them, within a second, and nothing ends it.
# Cut elsewhere they would have other tokens: a run of one letter merges from its beginning.
MAX_RUN = 2**20
NUM_TURNS = 2  # pieces tokenized at once, beside one long run: more would take the cores that compute tokens
_AFTER = 2  # characters after a cut that belong to it: the space or mark, and the letter after it


class _WrongCut(Exception):
    """A token reaches across a cut."""


class RunTooLong(ValueError):
    """A text has more than MAX_RUN characters without a cut."""


def check_run(length: int) -> None:
    """Raise RunTooLong for more characters than native code tokenizes in one call."""
    if length > MAX_RUN:
        raise RunTooLong(f"has {length} characters without a space between two words; at most {MAX_RUN} are taken")


def any_count(count: int) -> None:
    """Let a text have any number of tokens."""


class KnownTexts:
    """The tokens of blocks of texts; of more than `max_blocks` those that were used last are kept."""

    def __init__(self, model: Model, max_blocks: int = MAX_BLOCKS, block: int = BLOCK) -> None:
        """Divide texts into blocks of `block` characters or a few more."""
        self._model = model
        self._block = block
        self._known_tokens = lru_cache(max_blocks)(self._read)
        self._edge = lru_cache(_MAX_EDGES)(self._read_edge)
        self._is_trusted = True  # False once a cut proved wrong
        self._pieces, self._runs = FairSemaphore(NUM_TURNS), FairSemaphore(1)

    def tokenize(
        self, text: str, add_special: bool, parse_special: bool, check: Callable[[int], None] = any_count
    ) -> Tokens:
        """Return the tokens of a text, as the model does.

        After each piece of a long text, others have their turn, and `check` is called with the number of tokens so far; it
        may raise. Raise RunTooLong, or Cancelled if the work of the calling thread is wanted no more.
        """
        if len(text) >= _SHORTEST * self._block and self._is_trusted:
            begin = self._model.tokenize("", add_special, parse_special)
            if begin in ([], [self._model.bos_id]):  # else the vocabulary also adds an end
                try:
                    return self._join(tokens_of(begin), text, parse_special, check)
                except _WrongCut:
                    log.exception("from now on, all texts are tokenized whole")
                    self._is_trusted = False
        with self._turn(0, len(text)):
            return tokens_of(self._model.tokenize(text, add_special, parse_special))

    def last_cut(self, text: str, end: int) -> int:
        """Return the last cut before `end`, of a text that is divided into blocks; -1 for others, and where none is near."""
        last = -1
        if end >= _SHORTEST * self._block and self._is_trusted:
            at = self._model.find_cut(text, end - self._block)
            while 0 <= at <= end - _AFTER:
                last, at = at, self._model.find_cut(text, at + 1)
        return last

    def behind(self, text: str, parse_special: bool) -> Tokens | None:
        """Return the tokens of a text without its first letter, behind which there is a cut; None if it proves wrong."""
        try:
            return self._read(text, True, False, parse_special)
        except _WrongCut:
            return None

    def _join(self, tokens: Tokens, text: str, parse_special: bool, check: Callable[[int], None]) -> Tokens:
        """Append the tokens of all blocks of a text to `tokens`. Raise _WrongCut."""
        for blocks in self._pieces_of(text):
            begin, end = blocks[0][0], blocks[-1][1]
            if begin:
                check(len(tokens))
                go_on()
            with self._turn(begin, end):
                for start, stop in blocks:
                    is_kept = stop - start <= 2 * self._block
                    read = self._known_tokens if is_kept else self._read
                    is_before_cut = stop < len(text)
                    block = text[max(0, start - 1) : stop + _AFTER if is_before_cut else stop]
                    tokens += read(block, start > 0, is_before_cut, parse_special)
        return tokens

    def _pieces_of(self, text: str) -> Iterator[list[tuple[int, int]]]:
        """Yield the starts and ends of a text's blocks, as many together as PIECE has room for, or a longer one."""
        piece: list[tuple[int, int]] = []
        start = 0
        while start < len(text):
            cut = self._model.find_cut(text, start + self._block)
            end = cut if cut >= 0 else len(text)
            if piece and end - piece[0][0] > PIECE:
                yield piece
                piece = []
            piece.append((start, end))
            start = end
        yield piece

    def _turn(self, begin: int, end: int) -> contextlib.AbstractContextManager[None]:
        """Return the turn of a part of a text. A text's first piece needs none, so a text of no more never waits.

        Raise RunTooLong.
        """
        check_run(end - begin)
        if end - begin > PIECE:
            return self._runs
        return self._pieces if begin else contextlib.nullcontext()

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
