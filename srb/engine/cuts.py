"""Cuts: places in a text where no token reaches across, so that both sides have the same tokens alone as together."""

import re
from collections.abc import Mapping, Set

MARKS = "、。！，：；？"  # of texts without spaces; llama.cpp's pre-tokenizers end a word of letters before each
_GAP = re.compile(f"(?<=[^\\W\\d_])[ {MARKS}](?=[^\\W\\d_])")


def _byte_letters() -> list[str]:
    """Return the letter that stands for each byte in the tokens of a byte-level vocabulary (GPT-2's `bytes_to_unicode`)."""
    own = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in own]
    return [chr(byte if byte in own else 256 + others.index(byte)) for byte in range(256)]


BYTE_LETTERS = _byte_letters()


def spellings(sign: str) -> list[str]:
    """Return patterns of all that a token may have of a space or mark, in the tokens of every kind of vocabulary.

    A byte-level token may end within a mark.
    """
    letters = [BYTE_LETTERS[byte] for byte in sign.encode()]
    begun = ["".join(letters[:size]) + r"\Z" for size in range(1, len(letters))]
    return [sign, "".join(letters), *begun, *(["▁"] if sign == " " else [])]


class Cuts:
    """Finds the cuts of texts: each is before a single space or mark between two letters, the first of them not joined.

    A letter is joined to a sign if some token of the vocabulary goes on with the sign after it, or if a special token ends
    with it. After any other letter nothing merges with the sign, whichever way the tokenizer takes: it merges neighbours
    into tokens of the vocabulary, or takes the longest token.
    """

    def __init__(self, joined: Mapping[str, Set[str]]) -> None:
        """Take for each sign its joined letters, or the letters of their last bytes in a byte-level vocabulary.

        Signs that are not there join nothing.
        """
        self._joined = joined

    def find(self, text: str, start: int) -> int:
        """Return the first cut from `start` on, as the position of its space or mark; −1 if there is none."""
        for gap in _GAP.finditer(text, max(start, 1)):
            at = gap.start()
            before = text[at - 1]
            if before.isalpha() and text[at + 1].isalpha() and not self._is_joined(before, gap[0]):
                return at
        return -1

    def _is_joined(self, letter: str, sign: str) -> bool:
        joined = self._joined.get(sign, frozenset())
        return letter in joined or BYTE_LETTERS[letter.encode()[-1]] in joined
