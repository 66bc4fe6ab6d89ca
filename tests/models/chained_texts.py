"""Texts that a model without training can write: after each token come a few others, all of them about as likely.

`write_llama` makes a model of them, with the sizes and the speed of any other (`Shape.is_chained`). They are no language,
but where tokens come again, and how surely, is known:

- In lists, eight lines of 12 to 20 tokens of their own stand in any order. Twenty tokens are one choice of eight, as in
  lists and code: the tokens after a known beginning are known to the end of its line.
- In chatter, each of 64 words may be followed by one of four. The words after some are seldom those after the same before.
- In prose, each of thousands of words may be followed by one of eight. No words come again in the same order.
"""

from __future__ import annotations

import random
from itertools import pairwise

Successors = dict[int, list[int]]  # after each token of a text: those that may follow

FIRST = 400  # tokens of a vocabulary before this are for control, bytes, letters and other texts
LINES, SHORTEST, LONGEST = 8, 12, 20
_CHATTER, _AFTER_CHATTER = 64, 4
_PROSE, _AFTER_PROSE = 4096, 8


def chained_texts(n_vocab: int) -> dict[str, Successors]:
    """Return the kinds of texts by name, for a vocabulary of `n_vocab` tokens; they have no token in common."""
    chance = random.Random(0)
    lists, place = _lists(FIRST, chance)
    chatter = range(place, place + _CHATTER)
    prose = range(chatter.stop, min(n_vocab, chatter.stop + _PROSE))
    if len(prose) < _AFTER_PROSE:
        raise ValueError(f"a vocabulary of {n_vocab} tokens is too small for these texts")
    return {
        "lists": lists,
        "chatter": {word: chance.sample(chatter, _AFTER_CHATTER) for word in chatter},
        "prose": {word: chance.sample(prose, _AFTER_PROSE) for word in prose},
    }


def a_text(successors: Successors, length: int, seed: int) -> list[int]:
    """Return the first `length` tokens of a text, drawn as the model would."""
    chance = random.Random(seed)
    text = [next(iter(successors))]
    while len(text) < length:
        text.append(chance.choice(successors[text[-1]]))
    return text


def _lists(place: int, chance: random.Random) -> tuple[Successors, int]:
    """Return the lists' tokens from `place` on, the end of a line first, and the place after them."""
    end, place = place, place + 1
    following: Successors = {end: []}
    for _ in range(LINES):
        line = [*range(place, place + chance.randint(SHORTEST, LONGEST)), end]
        place += len(line) - 1
        following[end].append(line[0])
        following |= {token: [after] for token, after in pairwise(line)}
    return following, place
