"""Patterns: regular expressions as graphs, by which a text is read on character by character, without backtracking.

Glushkov, "The abstract theory of automata" (1961): a place of the graph is that behind one character of the expression,
and each edge takes one character. The expression means what it means in Python's `re`, whose parser reads it; what needs
more memory than places (back-references, looking ahead or behind) is refused.
"""

import re
from collections.abc import Callable, Iterable
from functools import cache, lru_cache
from importlib import import_module
from typing import Any, NamedTuple

MAX_PATTERN = 256  # characters of one expression
MAX_STATES = 2048  # of one expression, its repetitions written out: what it may cost to build
MAX_EDGES = 1024  # of one expression; a text looks at those that begin where it is

_parse: Callable[[str, int], Any] = import_module("re._parser").parse  # or its 700 lines would be here once more

TEXT_START, LINE_START, LINE_END, TEXT_END, BOUNDARY, NO_BOUNDARY = (1 << bit for bit in range(6))
_CONDITIONS = {
    "AT_BEGINNING": LINE_START,
    "AT_BEGINNING_STRING": TEXT_START,
    "AT_END": LINE_END,
    "AT_END_STRING": TEXT_END,
    "AT_BOUNDARY": BOUNDARY,
    "AT_NON_BOUNDARY": NO_BOUNDARY,
}

NONE, WORD, NEWLINE, OTHER = range(4)  # kinds of characters: none is before a text and behind it


def kind_of(char: str) -> int:
    """Return the kind of a character, as far as conditions ask for it."""
    return WORD if char.isalnum() or char == "_" else NEWLINE if char == "\n" else OTHER


def _lacking(before: int, behind: int) -> int:
    held = NO_BOUNDARY if (before == WORD) == (behind == WORD) else BOUNDARY
    held |= (TEXT_START if before == NONE else 0) | (TEXT_END if behind == NONE else 0)
    held |= (LINE_START if before in (NONE, NEWLINE) else 0) | (LINE_END if behind in (NONE, NEWLINE) else 0)
    return ~held


LACKING = [[_lacking(before, behind) for behind in range(4)] for before in range(4)]
"""The conditions that do not hold between characters of two kinds."""


@cache
def _fold(char: str) -> str:
    return next((each for each in (char.casefold(), char.lower()) if len(each) == 1), char)


def fold(text: str) -> str:
    """Return a text without its case, character by character: as many characters as before.

    A character that would become several stays as it is.
    """
    return text.lower() if text.isascii() else "".join(map(_fold, text))


class Edge(NamedTuple):
    """A way to another place: by a character without its case, or by one that `takes` takes, where conditions hold."""

    char: str
    takes: Callable[[str], bool] | None
    conditions: int
    to: int

    @property
    def is_wide(self) -> bool:
        """Whether it goes on through most texts: it takes a letter of a class, and not only spaces or marks."""
        return self.takes is not None and any(map(self.takes, "etaoinshrdlu"))


class Place(NamedTuple):
    """A place of a graph: the edges from it, and the conditions under which a match ends there; 0: it does at once."""

    edges: tuple[Edge, ...]
    ends: tuple[int, ...]


@lru_cache(2048)
def places_of(pattern: str, is_cased: bool) -> tuple[Place, ...]:
    """Return the graph of an expression, which begins at place 0. Raise ValueError, which says what is wrong with it."""
    try:
        parsed = _parse(pattern, re.MULTILINE | (0 if is_cased else re.IGNORECASE))
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"is no regular expression: {error}") from error
    if parsed.state.flags & (re.ASCII | re.LOCALE):
        raise ValueError("has the flag a or L, which patterns do not take")
    if not parsed.getwidth()[0]:
        raise ValueError("matches an empty text")
    machine = _Machine()
    machine.end = machine.sequence(parsed, parsed.state.flags, machine.state())
    return machine.places()


class _Machine:
    """Thompson's automaton of an expression; `places` leaves out its empty steps."""

    def __init__(self) -> None:
        self.end = 0
        self._steps: list[list[tuple[int, int]]] = []  # empty ones: conditions and where they lead
        self._taking: dict[int, tuple[str, Callable[[str], bool] | None, int]] = {}

    def state(self) -> int:
        if len(self._steps) >= MAX_STATES:
            raise ValueError("is too large with its repetitions written out")
        self._steps.append([])
        return len(self._steps) - 1

    def sequence(self, parsed: Iterable[Any], flags: int, at: int) -> int:
        """Add what Python's parser has read behind a state; return the state behind it."""
        for op, value in parsed:
            at = self._add(str(op), value, flags, at)
        return at

    def _add(self, op: str, value: Any, flags: int, at: int) -> int:
        if op == "LITERAL" and flags & re.IGNORECASE:
            return self._take(at, fold(chr(value)), None)
        if op in ("LITERAL", "NOT_LITERAL", "ANY", "IN"):
            return self._take(at, "", _taker(op, value, flags))
        if op == "AT":
            return self._step(at, self.state(), _CONDITIONS[str(value)])
        if op == "BRANCH":
            end = self.state()
            for part in value[1]:
                self._step(self.sequence(part, flags, self._step(at, self.state())), end)
            return end
        if op == "SUBPATTERN":
            _, added, removed, part = value
            if removed & re.MULTILINE or added & re.ASCII:
                raise ValueError("has the flag a or -m, which patterns do not take")
            return self.sequence(part, (flags | added) & ~removed, at)
        if op in ("MAX_REPEAT", "MIN_REPEAT"):
            return self._repeat(value, flags, at)
        raise ValueError(f"has {_NAMES.get(op, op)}, which patterns do not take")

    def _repeat(self, value: Any, flags: int, at: int) -> int:
        least, most, part = value
        if not part.getwidth()[1]:
            least, most = min(least, 1), min(most, 1)  # of nothing: a million cost a second, and say as much
        for _ in range(least - 1):
            at = self.sequence(part, flags, at)
        begin = self._step(at, self.state())
        at = self.sequence(part, flags, begin) if least else begin
        if most >= MAX_STATES:  # any number: the last one comes again
            self._step(at if least else self.sequence(part, flags, begin), begin)
            return self._step(at, self.state())
        end = self._step(at, self.state())
        for _ in range(most - least):
            at = self._step(self.sequence(part, flags, at), self.state())
            self._step(at, end)
        return end

    def _step(self, at: int, to: int, conditions: int = 0) -> int:
        self._steps[at].append((conditions, to))
        return to

    def _take(self, at: int, char: str, takes: Callable[[str], bool] | None) -> int:
        at = self._step(at, self.state())
        to = self.state()
        self._taking[at] = (char, takes, to)
        return to

    def places(self) -> tuple[Place, ...]:
        """Return the places: the beginning, and the states behind a character."""
        numbers, edges = {0: 0}, 0
        places: list[Place] = []
        waiting = [0]
        for state in waiting:  # which grows
            place = self._place(state, numbers, waiting)
            edges += len(place.edges)
            if edges > MAX_EDGES:
                raise ValueError("is too large with its repetitions written out")
            places.append(place)
        return tuple(places)

    def _place(self, state: int, numbers: dict[int, int], waiting: list[int]) -> Place:
        edges: list[Edge] = []
        ends: set[int] = set()
        seen = {(state, 0)}
        open_states = [(state, 0)]
        while open_states:
            at, conditions = open_states.pop()
            if at == self.end:
                ends.add(conditions)
            if at in self._taking:
                char, takes, to = self._taking[at]
                if to not in numbers:
                    numbers[to] = len(numbers)
                    waiting.append(to)
                edges.append(Edge(char, takes, conditions, numbers[to]))
            for more, to in self._steps[at]:
                following = (to, conditions | more)
                if following not in seen:
                    seen.add(following)
                    open_states.append(following)
        return Place(tuple(edges), (0,) if 0 in ends else tuple(sorted(ends)))


_NAMES = {
    "GROUPREF": "a back-reference",
    "GROUPREF_EXISTS": "a condition on a group",
    "ASSERT": "a look ahead or behind",
    "ASSERT_NOT": "a look ahead or behind",
    "ATOMIC_GROUP": "an atomic group",
    "POSSESSIVE_REPEAT": "a possessive repetition",
}
_CATEGORIES: dict[str, Callable[[str], bool]] = {
    "CATEGORY_DIGIT": str.isdecimal,
    "CATEGORY_SPACE": str.isspace,
    "CATEGORY_WORD": lambda char: char.isalnum() or char == "_",
}


def _taker(op: str, value: Any, flags: int) -> Callable[[str], bool]:
    """Return whether a character belongs to a class of an expression, by its parsed form."""
    if op == "ANY":
        return _is_any if flags & re.DOTALL else _is_of_line
    items = [("LITERAL", value)] if op != "IN" else [(str(kind), of) for kind, of in value]
    is_negated = op == "NOT_LITERAL" or items[0][0] == "NEGATE"
    tests = [_test(kind, of) for kind, of in items if kind != "NEGATE"]
    ignores_case = bool(flags & re.IGNORECASE)

    @lru_cache(512)
    def takes(char: str) -> bool:
        forms = {char, char.lower(), char.upper()} if ignores_case else {char}
        return any(test(form) for form in forms if len(form) == 1 for test in tests) != is_negated

    return takes


def _test(kind: str, of: Any) -> Callable[[str], bool]:
    if kind == "LITERAL":
        return chr(of).__eq__
    if kind == "RANGE":
        return lambda char: of[0] <= ord(char) <= of[1]
    name = str(of)
    test = _CATEGORIES[name.replace("_NOT_", "_")]
    return (lambda char: not test(char)) if "_NOT_" in name else test


def _is_any(char: str) -> bool:
    return True


def _is_of_line(char: str) -> bool:
    return char != "\n"
