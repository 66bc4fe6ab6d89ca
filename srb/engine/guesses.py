"""Drafted tokens of one branch and their chances, which are learned from what it draws.

Drafted tokens are of kinds, by how near the drafting model was to another one; each kind is half as near as the second
before it. Tokens for branches that always draw the likeliest one are of kinds of their own.
"""

from collections.abc import Callable
from math import isnan, log2

import numpy as np

from srb.engine.lookup import Chances
from srb.engine.model import Logits
from srb.engine.tokens import Tokens

_KINDS = 12  # in the last one all other tokens have 2 % at most; finer kinds would have too few tokens to learn from
_FIRST_CHANCES = 2 * tuple(1 - 2 ** (-(kind + 0.5) / 2) for kind in range(_KINDS))


def first_chances() -> Chances:
    """Return the chances before anything is known."""
    return Chances(_FIRST_CHANCES)


class Guesses:
    """The latest draft of a branch: the tokens that a model finds likeliest, and for each the chance of all up to it."""

    __slots__ = ("_all", "_at", "_is_greedy", "_kinds", "_own", "chances", "tokens")

    def __init__(self, own: Chances, every: Chances, is_greedy: bool) -> None:
        """Learn for the branches of its prompt, `own`, and for all; `is_greedy`: it always draws the likeliest token."""
        self._own, self._all, self._is_greedy = own, every, is_greedy
        self._at = 0  # number of the branch's tokens when they were drafted
        self._kinds: list[int] = []  # of its tokens
        self.tokens: list[int] = []
        self.chances: list[float] = []

    def begin(self, length: int) -> None:
        """Begin a draft after the branch's first `length` tokens."""
        self._at, self._kinds, self.tokens, self.chances = length, [], [], []

    def extend(self, logits: Logits, is_eog: Callable[[int], bool], most: int, least: float) -> bool:
        """Append the likeliest token of `logits`, shape (n_vocab,), if there is one; return whether another one is wanted.

        It is with less than `most` tokens, and while the chance of that one is probably `least` or more.
        """
        token = int(logits.argmax())
        if is_eog(token):
            return False  # a branch that draws it ends, and needs no draft for that
        weights = np.exp(logits - logits[token])
        total = float(weights.sum())
        if isnan(total):  # a model whose numbers overflow drafts nothing
            return False
        if self._is_greedy:  # the second likeliest alone matters
            weights[token] = 0.0
            total = 1 + float(weights.max())
        kind = _KINDS * self._is_greedy + min(_KINDS - 1, int(-2 * log2(max(1 - 1 / total, 2**-_KINDS))))
        self.tokens.append(token)
        self.chances.append((self.chances[-1] if self.chances else 1.0) * self._own[kind])
        self._kinds.append(kind)
        return len(self.tokens) < most and self.chances[-1] * self._own.mean >= least

    def learn(self, tokens: Tokens) -> None:
        """Learn from the draft, whether it was computed or not; `tokens` are the branch's."""
        for token, kind, place in zip(self.tokens, self._kinds, range(self._at, len(tokens)), strict=False):
            is_right = tokens[place] == token
            self._own.note(kind, is_right)
            self._all.note(kind, is_right)
            if not is_right:
                break
        self.begin(0)
