"""Cuts: places in a text where no token reaches across, so that both sides have the same tokens alone as together."""

from __future__ import annotations

import re
from collections.abc import Set

_GAP = re.compile(r"(?<=[^\W\d_]) (?=[^\W\d_])")


def _byte_letters() -> list[str]:
    """Return the letter that stands for each byte in the tokens of a byte-level vocabulary (GPT-2's `bytes_to_unicode`)."""
    own = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in own]
    return [chr(byte if byte in own else 256 + others.index(byte)) for byte in range(256)]


BYTE_LETTERS = _byte_letters()
SPACES = (" ", "▁", BYTE_LETTERS[0x20])  # a space in the tokens of every kind of vocabulary


class Cuts:
    """Finds the cuts of texts: each is before a single space between two letters, the first of them not `joined`.

    A letter is joined if some token of the vocabulary goes on with a space after it, or if a special token ends with it.
    After any other letter nothing merges with a space, whichever way the tokenizer takes: it merges neighbours into
    tokens of the vocabulary, or takes the longest token.
    """

    def __init__(self, joined: Set[str]) -> None:
        """Take `joined` as letters, or as the letters of their last bytes in a byte-level vocabulary."""
        self._joined = joined

    def find(self, text: str, start: int) -> int:
        """Return the first cut from `start` on, as the position of its space; −1 if there is none."""
        for gap in _GAP.finditer(text, max(start, 1)):
            at = gap.start()
            before = text[at - 1]
            if before.isalpha() and text[at + 1].isalpha() and not self._is_joined(before):
                return at
        return -1

    def _is_joined(self, letter: str) -> bool:
        return letter in self._joined or BYTE_LETTERS[letter.encode()[-1]] in self._joined
