"""First words of a request's branches (`distinct_words`): no two are the same, as far as the tokens allow it.

A branch's text is held back until its first word is certain and the words of all branches before it are settled. So the
result depends on the branches' seeds alone, not on their times. `distinct_first` does what this module's objects decide.
"""

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from typing import TypeVar

from srb.engine.boundaries import finder, is_word
from srb.engine.choosing import Drawing
from srb.engine.patterns import fold
from srb.engine.text import BranchText, Emission, TextState
from srb.wire.events import FinishReason

AnyBranch = TypeVar("AnyBranch", bound=Drawing)

MAX_TOKENS = 32  # held back for a word; longer ones count as they stand: text without spaces would never be shown


@dataclass(frozen=True, slots=True)
class Ending:
    """The end that a branch has come to by itself, while its first word was not settled."""

    reason: FinishReason
    stop: str = ""
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class _Before:
    """The state before a token: of the text, and how much was held back."""

    text: TextState
    num_held: int
    length: int


class FirstWord:
    """The first word of one branch until it is settled: what is held back, and the ways back to before its tokens.

    A place is a number of sampled tokens. `tried` has the tokens that made words of siblings, or would, by place.
    """

    __slots__ = ("_befores", "_end", "_finder", "_given", "_tried", "ending", "held", "is_kept", "text")

    def __init__(self) -> None:
        self.text = ""
        self.held: list[Emission] = []
        self.ending: Ending | None = None
        self.is_kept = False  # whether it stays even if a sibling has it
        self._given = 0  # characters of a fork's beginning
        self._befores: list[_Before] = []
        self._tried: dict[int, set[int]] = {}  # tokens that made words of siblings, by place
        self._read("")

    def follow(self, text: str) -> None:
        """Take the text that a fork has from its origin as the word's beginning."""
        self._given = len(text)
        self._read(text)

    def note(self, text: BranchText) -> None:
        """Note the state before a token is pushed."""
        self._befores.append(_Before(text.state(), len(self.held), len(self.text)))

    def take(self, emission: Emission) -> None:
        """Hold back what would be shown."""
        self.held.append(emission)
        self._push(emission.text)

    def finish(self, ending: Ending, finish_text: Callable[[FinishReason, bool], Emission]) -> Ending:
        """End the word with its branch's text; return how the branch ends, as the rest of its text may have another end."""
        if not ending.stop:
            emission = finish_text(ending.reason, ending.truncated)
            self.take(emission)
            if emission.stop:
                ending = Ending(FinishReason.WORD, emission.stop, ending.truncated)
            elif emission.is_boundary:
                ending = Ending(FinishReason.BOUNDARY, truncated=ending.truncated)
        self.ending = ending
        return ending

    @property
    def is_complete(self) -> bool:
        """Whether nothing that follows changes the word."""
        return self._end is not None or len(self._befores) >= MAX_TOKENS

    @property
    def key(self) -> str:
        """The word as it is compared, as far as it goes: without case, and without spaces and punctuation around it."""
        first, end = _bounds(self.text[: self._end])
        return fold(self.text[first:end])

    @property
    def last_place(self) -> int:
        """The place of the token that completes the word; −1 if it was given."""
        _, end = _bounds(self.text[: self._end])
        starts = [before.text.position for before in self._befores]
        return sum(start < end - self._given for start in starts) - 1

    @property
    def has_tried(self) -> bool:
        return any(self._tried.values())

    def tried(self, place: int) -> set[int]:
        """Return the tokens that are out of the question at a place, for siblings' words."""
        return self._tried.get(place, set())

    def return_to(self, place: int, text: BranchText, tokens: Set[int]) -> None:
        """Return, with the branch's text, to the state before `place`, where `tokens` are out of the question."""
        before = self._befores[place]
        text.return_to(before.text)
        del self.held[before.num_held :]
        self.forget(len(self._befores) - place)
        self._tried.setdefault(place, set()).update(tokens)
        self.ending = None
        self._read(self.text[: before.length])

    def forget(self, count: int) -> None:
        """Forget the last `count` tokens, which were taken back."""
        del self._befores[len(self._befores) - count :]
        for place in [place for place in self._tried if place > len(self._befores)]:
            del self._tried[place]

    def _read(self, text: str) -> None:
        self.text = ""
        self._end: int | None = None
        self._finder = finder("word", 1)
        self._push(text)

    def _push(self, text: str) -> None:
        self.text += text
        if self._end is None and (found := self._finder.push(text)) is not None:
            self._end = found.end


class FirstWords:
    """The settled first words of a request, and whose turn it is: words are settled in the order of the branches."""

    __slots__ = ("_last_tokens", "_taken", "_turn")

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._last_tokens: dict[tuple[int, ...], set[int]] = {}  # of the words, by the tokens before
        self._turn = 0  # no branch before this one is unsettled

    def add(self, branch: Drawing, word: FirstWord) -> None:
        """Add a branch's word, which is settled. A text without a letter or digit has none."""
        if word.key:
            self._taken.add(word.key)
            before = _tokens_before(branch, word.last_place)
            self._last_tokens.setdefault(before, set()).add(branch.tokens[branch.num_hidden + len(before)])

    def last_tokens(self, branch: Drawing, place: int) -> Set[int]:
        """Return the tokens at a branch's place with which the words of siblings ended that begin as its own does."""
        return self._last_tokens.get(_tokens_before(branch, place), frozenset())

    def has(self, word: FirstWord) -> bool:
        return word.key in self._taken

    def is_turn(self, branch: Drawing) -> bool:
        """Whether the words of all branches before one are settled."""
        return self._next(branch.siblings) is branch

    def next_held(self, branches: Sequence[AnyBranch]) -> AnyBranch | None:
        """Return the branch whose turn it is, if it was held for that."""
        branch = self._next(branches)
        return branch if branch is not None and branch.is_held else None

    def _next(self, branches: Sequence[AnyBranch]) -> AnyBranch | None:
        while self._turn < len(branches) and branches[self._turn].first_word is None:
            self._turn += 1
        return branches[self._turn] if self._turn < len(branches) else None


def _tokens_before(branch: Drawing, place: int) -> tuple[int, ...]:
    """Return the tokens of a branch's text before a place."""
    return tuple(branch.tokens[branch.num_hidden : max(branch.num_hidden, branch.num_given + place)])


def _bounds(text: str) -> tuple[int, int]:
    """Return where a text's first letter or digit stands, and the end of the last one; (0, 0) if it has none."""
    places = [place for place, char in enumerate(text) if is_word(char)]
    return (places[0], places[-1] + 1) if places else (0, 0)
