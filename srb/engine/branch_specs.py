"""Checks of the branches that a command requests, made before the decode thread runs them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from srb.engine.banned import MAX_EDGES, MAX_LENGTH, MAX_PATTERNS, MAX_STRINGS, MAX_TEXT, MAX_WIDE
from srb.engine.patterns import MAX_PATTERN, places_of
from srb.errors import bad_field
from srb.wire.commands import MAX_DIRECTION, MAX_STOP_AFTER, BannedPattern, Boundary, BranchSpec

# Smallest allowed value of each whole number in a BranchSpec.
_MINIMUM = {
    "seed": 0,
    "max_tokens": -1,
    "t_max_predict_ms": -1,
    "min_tokens": 0,
    "n_indent": 0,
    "stop_after": 1,
}
MAX_SEED = 2**32 - 2  # 2**32 - 1 means a random seed in llama.cpp


def check_branches(branches: Sequence[BranchSpec]) -> None:
    """Raise InvalidRequest, which names the field, for branches that the decode thread could not run."""
    if not branches:
        raise bad_field("n", "should be at least 1")
    for spec in branches:
        for name, minimum in _MINIMUM.items():
            value = getattr(spec, name)
            if type(value) is not int or value < minimum:
                raise bad_field(name, f"should be a whole number of at least {minimum}, not {value!r}")
        if spec.seed > MAX_SEED:
            raise bad_field("seed", f"should be at most {MAX_SEED}, not {spec.seed}")
        if not all(type(word) is str for word in spec.stop):
            raise bad_field("stop", "should be strings")
        if not all(type(part) in (str, int) for part in spec.append):
            raise bad_field("append", "should be a string or token ids")
        if type(spec.direction) is not str or len(spec.direction) > MAX_DIRECTION:
            raise bad_field("direction", f"should be a string of at most {MAX_DIRECTION} characters")
        if spec.stop_at not in ("", *get_args(Boundary)):
            raise bad_field("stop_at", f"should be one of {', '.join(get_args(Boundary))}, not {spec.stop_at!r}")
        if spec.stop_after > MAX_STOP_AFTER:
            raise bad_field("stop_after", f"should be at most {MAX_STOP_AFTER}, not {spec.stop_after}")
    check_banned(branches)


def check_banned(branches: Sequence[BranchSpec]) -> None:
    """Raise InvalidRequest for lists of banned strings or patterns that no graph is built for."""
    _check_strings({spec.banned_strings for spec in branches})
    if lists := {spec.banned_patterns for spec in branches if spec.banned_patterns}:
        _check_patterns(lists)


def _check_patterns(lists: set[tuple[BannedPattern, ...]]) -> None:
    edges = wide = 0
    for patterns in lists:
        if len(patterns) > MAX_PATTERNS:
            raise bad_field("banned_patterns", f"has {len(patterns)} entries; at most {MAX_PATTERNS} are allowed")
        for number, (pattern, weight, is_cased) in enumerate(patterns):
            name = f"banned_patterns[{number}]"
            if type(pattern) is not str or not 0 < len(pattern) <= MAX_PATTERN or type(is_cased) is not bool:
                raise bad_field(f"{name}.pattern", f"should be a string of 1 to {MAX_PATTERN} characters")
            if type(weight) not in (int, float) or not 0 <= weight <= 1:
                raise bad_field(f"{name}.weight", f"should be a number from 0 to 1, not {weight!r}")
            try:
                of_places = [place.edges for place in places_of(pattern, is_cased)]
            except ValueError as error:
                raise bad_field(f"{name}.pattern", str(error)) from error
            edges += sum(map(len, of_places))
            wide += sum(edge.is_wide for of_place in of_places for edge in of_place)
    if edges > MAX_EDGES or wide > MAX_WIDE:
        problem = f"has {edges} characters and {wide} classes of letters in the different lists of all branches, "
        problem += f"their repetitions written out; at most {MAX_EDGES} and {MAX_WIDE} are taken"
        raise bad_field("banned_patterns", problem)


def _check_strings(lists: set[tuple[str, ...]]) -> None:
    for strings in lists:
        if not all(type(string) is str and 0 < len(string) <= MAX_LENGTH for string in strings):
            raise bad_field("banned_strings", f"should be strings of 1 to {MAX_LENGTH} characters")
        if len(strings) > MAX_STRINGS:
            raise bad_field("banned_strings", f"has {len(strings)} entries; at most {MAX_STRINGS} are allowed")
    if (total := sum(len(string) for strings in lists for string in strings)) > MAX_TEXT:
        problem = f"has {total} characters in the different lists of all branches; at most {MAX_TEXT} are taken"
        raise bad_field("banned_strings", problem)
