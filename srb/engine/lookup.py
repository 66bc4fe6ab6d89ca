"""Drafts from a text itself: what followed the latest place where its last three tokens stood before.

Names, lists, code and quotations repeat themselves, so such drafts are often right, and cost a look into a dictionary.
"""

from collections.abc import Sequence

from srb.engine.tokens import Tokens

_FIRST = 4  # tokens that a first guess counts as: few, so that a text that differs from the usual one soon corrects it
_MOST = 50  # tokens that a share remembers: with fewer it jumps by chance, with more it lags behind the text
_KEPT = 16  # the same, of what a copy has learned before: fewer, so that the new text's own soon outweighs it


class Chances:
    """For each kind of drafted token the chance that it is right, if those before it are."""

    __slots__ = ("_chances", "_counts", "mean")

    def __init__(self, first: Sequence[float]) -> None:
        """`first` are the guesses before anything is known, by kind."""
        self._chances = list(first)
        self._counts = [_FIRST] * len(first)
        self.mean = sum(first) / len(first)  # of tokens of all kinds

    def __getitem__(self, kind: int) -> float:
        return self._chances[kind]

    def note(self, kind: int, is_right: bool) -> None:
        """Note whether a drafted token of a kind was right."""
        count = self._counts[kind] = min(_MOST, self._counts[kind] + 1)
        self._chances[kind] += (is_right - self._chances[kind]) / count
        self.mean += (is_right - self.mean) / _MOST

    def copy(self) -> "Chances":
        """Return the same chances for a text of its own; they change sooner."""
        made = Chances(self._chances)
        made._counts, made.mean = [min(_KEPT, count) for count in self._counts], self.mean
        return made


_KEY = 3  # tokens that stand before a draft: two find wrong places in any prose, four miss what begins to repeat
_MOST_OF_PROMPT = 8192  # last tokens of a prompt that are searched; indexing them takes some 2 ms

# First guesses of the chance that a drafted token is right, after runs of 0, 1, 2 to 3, 4 to 7, … right ones.
_BY_RUN = (0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9)
_LEAST = 0.02  # chance below which a token is not worth a look: it never pays for its place in the batch

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


class PromptLookup:
    """The index of a prompt and the chances of its drafts, which all branches share."""

    def __init__(self, prompt: Tokens) -> None:
        self.prompt = prompt
        self.index = prompt_index(prompt)
        self.chances = Chances(_BY_RUN)


class Draft:
    """One branch's drafts. A token's chance follows from the number of tokens before it that were drafted rightly."""

    def __init__(self, shared: PromptLookup) -> None:
        self._chances = shared.chances
        self._lookup = Lookup(shared.prompt, shared.index)
        self._tokens: Sequence[int] = ()
        self._at = 0  # number of the branch's tokens when they were drafted
        self._run = 0  # the branch's last tokens that were drafted rightly

    def propose(self, tokens: Tokens, most: int) -> tuple[Sequence[int], list[float]]:
        """Return at most `most` tokens after a branch's, and for each the chance that all up to it are right.

        Learn from the latest ones, whether they were computed or not.
        """
        for place, token in enumerate(self._tokens, self._at):
            if place >= len(tokens):
                break
            is_right = tokens[place] == token
            self._chances.note(_kind(self._run), is_right)
            self._run = self._run + 1 if is_right else 0
            if not is_right:
                break
        self._at = len(tokens)
        self._tokens = self._lookup.draft(tokens, most)
        if not self._tokens:
            self._run = 0
            return (), []
        chances, chance = [], 1.0
        for run in range(self._run, self._run + len(self._tokens)):
            chance *= self._chances[_kind(run)]
            if chance < _LEAST:
                break
            chances.append(chance)
        return self._tokens[: len(chances)], chances


def _kind(run: int) -> int:
    return min(len(_BY_RUN) - 1, run.bit_length())
