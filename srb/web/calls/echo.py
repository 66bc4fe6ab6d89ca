"""Echo: a prompt's text in the answer, with the texts of its tokens if log-probabilities are asked for."""

import codecs
from collections.abc import Sequence
from dataclasses import dataclass

from srb.web.bodies.fields import EMPTY_PROMPT, Prompt
from srb.web.bodies.media import shown
from srb.web.calls.engine_client import EngineClient
from srb.wire.events import TokenProbs

_MAX_ADDED = 64  # bytes that a tokenizer may put before a text: a BOS, a space


@dataclass(frozen=True, slots=True)
class Echo:
    """An echoed prompt: `text` is exactly the text that was sent; `pieces`, one per token, add up to it (or are empty)."""

    text: str
    pieces: tuple[str, ...] = ()

    def label(self, probs: Sequence[TokenProbs]) -> list[TokenProbs]:
        """Return the log-probability entries of the prompt's tokens with `pieces` as their texts."""
        return [{**entry, "token": piece} for entry, piece in zip(probs, self.pieces, strict=True)]


def read_back(client: EngineClient, prompt: Prompt, with_pieces: bool) -> Echo:
    """Return the echo of a prompt; the engine is asked for the texts of token ids.

    Raise the engine's InvalidRequest for a token id outside the vocabulary.
    """
    prompt = shown(prompt)
    if prompt == EMPTY_PROMPT:
        return Echo("", ("",) * len(client.check_ready().blank_page))
    if not with_pieces:
        tokens = [part for part in prompt if isinstance(part, int)]
        if not tokens:
            return Echo("".join(map(str, prompt)))
        # An id outside the vocabulary goes on to `tokenize`, whose error names it and the prompt's field.
        if len(tokens) == len(prompt) and max(tokens) < client.check_ready().n_vocab:
            return Echo(b"".join(client.detokenize(tokens)).decode("utf-8", "replace"))
    parts = _align(prompt, client.detokenize(client.tokenize(prompt, add_special=True)))
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    pieces = [decoder.decode(part) for part in parts]
    if pieces:
        pieces[-1] += decoder.decode(b"", final=True)
    text = "".join(pieces)
    if all(isinstance(part, str) for part in prompt):
        text = "".join(map(str, prompt))  # even if the tokenizer loses characters
    return Echo(text, tuple(pieces))


def _align(prompt: Prompt, pieces: list[bytes]) -> list[bytes]:
    """Remove the bytes that the tokenizer added before each string of the prompt (a BOS, a space) from the pieces."""
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
            if len(seen) > len(wanted) + _MAX_ADDED:
                return pieces
        if not seen.endswith(wanted):
            return pieces
        added = len(seen) - len(wanted)
        for piece in pieces[len(aligned) : place]:
            aligned.append(piece[added:])
            added = max(0, added - len(piece))
    return aligned + [b""] * (len(pieces) - len(aligned))  # an EOS that the vocabulary adds
