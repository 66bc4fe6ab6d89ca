"""A prompt as a client gets it back with `echo`: its text, and where log-probabilities are asked for, its tokens' texts."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from srb.client import EngineClient
from srb.web.fields import Prompt

_MOST_ADDED = 64  # bytes that a tokenizer may put before a text: a BOS, a space


@dataclass(frozen=True, slots=True)
class Echo:
    """`text` is exactly what was sent; the `pieces`, one a token, make it up where they were asked for."""

    text: str
    pieces: tuple[str, ...] = ()

    def label(self, probs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the entries of the prompt's tokens with the pieces of this text as their tokens."""
        return [entry | {"token": piece} for entry, piece in zip(probs, self.pieces, strict=True)]


def read_back(client: EngineClient, prompt: Prompt, with_pieces: bool) -> Echo:
    """Ask the engine for what token ids stand for; raise its InvalidRequest for one that is not in the vocabulary."""
    if not with_pieces and all(isinstance(part, str) for part in prompt):
        return Echo("".join(map(str, prompt)))
    parts = _align(prompt, client.detokenize(client.tokenize(prompt, add_special=True)))
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    pieces = [decoder.decode(part) for part in parts]
    if pieces:
        pieces[-1] += decoder.decode(b"", final=True)
    text = "".join(pieces)
    if all(isinstance(part, str) for part in prompt):
        text = "".join(map(str, prompt))  # also where a tokenizer loses some of it
    return Echo(text, tuple(pieces))


def _align(prompt: Prompt, pieces: list[bytes]) -> list[bytes]:
    """Take from the tokens' bytes what the tokenizer put before each string, which nobody has written."""
    aligned: list[bytes] = []
    for part in prompt:
        place = len(aligned)
        if isinstance(part, int):
            aligned += pieces[place : place + 1]
            continue
        wanted, seen = part.encode(), bytearray()
        while place < len(pieces) and not seen.endswith(wanted):
            seen += pieces[place]
            place += 1
            if len(seen) > len(wanted) + _MOST_ADDED:
                return pieces
        if not seen.endswith(wanted):
            return pieces
        added = len(seen) - len(wanted)
        for piece in pieces[len(aligned) : place]:
            aligned.append(piece[added:])
            added = max(0, added - len(piece))
    return aligned + [b""] * (len(pieces) - len(aligned))  # an EOS that the vocabulary wants
