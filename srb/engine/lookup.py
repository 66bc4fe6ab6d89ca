"""Drafts from a text itself: what followed the latest place where its last three tokens stood before.

Names, lists, code and quotations repeat themselves, so such drafts are often right, and cost a look into a dictionary.
"""

from __future__ import annotations

from collections.abc import Sequence

from srb.engine.tokens import Tokens

_KEY = 3  # tokens that have to stand before a draft
_MOST_OF_PROMPT = 8192  # last tokens of a prompt that are searched; indexing them takes some 2 ms

_LEARN = 0.15  # weight of the newest token in the share of drafted tokens that are right
_FIRST_CHANCE = 0.5

Key = tuple[int, ...]
Index = dict[Key, int]  # by its last `_KEY` tokens: the latest place after them


def prompt_index(prompt: Tokens) -> Index:
    """Return the index of a prompt's last tokens; one serves all branches."""
    start = max(0, len(prompt) - _MOST_OF_PROMPT)
    tokens = prompt[start:]
    keys = zip(*(tokens[place:] for place in range(_KEY)), strict=False)
    return dict(zip(keys, range(start + _KEY, len(prompt)), strict=False))


class Lookup:
    """The index of one branch's text, which grows with it. Tokens are looked at once."""

    def __init__(self, prompt: Tokens, index: Index) -> None:
        """`index` is the prompt's; it is only read."""
        self._prompt = prompt
        self._in_prompt = index
        self._own: Index = {}
        self._key: Key = tuple(prompt[-_KEY:])
        self._read = 0  # tokens of the branch that are in the index

    def draft(self, tokens: Tokens, most: int) -> Sequence[int]:
        """Return at most `most` tokens that may follow the branch's `tokens`, which only grow from call to call."""
        key, own = self._key, self._own
        for place in range(self._read, len(tokens)):
            own[key] = place
            key = (*key[1 - _KEY :], tokens[place])
        self._read, self._key = len(tokens), key
        if (at := own.get(key)) is not None:
            found = tokens[at : at + most].tolist()
            while len(found) < most:  # the text repeats what it is in
                found += found[: most - len(found)]
            return found
        if (at := self._in_prompt.get(key)) is not None:
            found = self._prompt[at : at + most].tolist()
            found += tokens[: most - len(found)].tolist()
            return found[: next((place for place, token in enumerate(found) if token < 0), most)]  # no media
        return ()


class Draft:
    """One branch's drafts, and how often they were right."""

    def __init__(self, prompt: Tokens, index: Index) -> None:
        self.chance = _FIRST_CHANCE  # that a drafted token is right if those before it are
        self._lookup = Lookup(prompt, index)
        self._tokens: Sequence[int] = ()
        self._at = 0  # number of the branch's tokens when they were drafted

    def propose(self, tokens: Tokens, most: int) -> Sequence[int]:
        """Return at most `most` tokens after a branch's; learn from the latest ones, whether they were computed or not."""
        for place, token in enumerate(self._tokens, self._at):
            if place >= len(tokens):
                break
            is_right = tokens[place] == token
            self.chance += _LEARN * (is_right - self.chance)
            if not is_right:
                break
        self._at = len(tokens)
        self._tokens = self._lookup.draft(tokens, most)
        return self._tokens
