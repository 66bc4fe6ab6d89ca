"""The expressions of whole numbers within bounds, read as regular expressions and tried at the bounds' neighbours."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srb.engine.llama.integer_range import FREE_DIGITS, bounds_of, integer_range


def pattern_of(expression: str) -> re.Pattern[str]:
    """Return GBNF of digits as a regular expression: the two differ in quotes and spaces."""
    return re.compile(re.sub(r'[" ]', "", expression))


bounds = st.none() | st.integers(-(10**12), 10**12) | st.integers(-30, 30)


@given(least=bounds, most=bounds, others=st.lists(st.integers(-(10**13), 10**13) | st.integers(-200, 200), max_size=30))
def test_exactly_the_numbers_within_the_bounds_are_taken(
    least: int | None, most: int | None, others: list[int]
) -> None:
    if least is None and most is None:
        return
    if least is not None and most is not None and least > most:
        with pytest.raises(ValueError, match="no whole number"):
            integer_range(least, most)
        return
    pattern = pattern_of(integer_range(least, most))
    near = [bound + step for bound in (least, most) if bound is not None for step in (-11, -10, -2, -1, 0, 1, 2, 9, 10)]
    for number in [*others, *near, 0, 9, 10, 99, 100, -1]:
        is_within = (least is None or number >= least) and (most is None or number <= most)
        assert bool(pattern.fullmatch(str(number))) == is_within, number
    for text in ("-0", "00", "01", "", "-", "+1", "1.0"):
        assert not pattern.fullmatch(text)


def test_every_number_of_small_ranges_is_tried() -> None:
    for least in range(-120, 121, 7):
        for most in range(least, 121, 3):
            pattern = pattern_of(integer_range(least, most))
            assert [each for each in range(-130, 131) if pattern.fullmatch(str(each))] == [*range(least, most + 1)]


def test_an_expression_is_no_longer_than_its_digits_say() -> None:
    assert len(integer_range(-(10**39) + 7, 10**39 - 7)) < 4000
    assert pattern_of(integer_range(5, None)).fullmatch("9" * FREE_DIGITS)
    assert not pattern_of(integer_range(5, None)).fullmatch("9" * (FREE_DIGITS + 1))


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({}, (None, None)),
        ({"minimum": 1, "maximum": 5}, (1, 5)),
        ({"minimum": 0.5, "maximum": 5.5}, (1, 5)),
        ({"exclusiveMinimum": 1, "exclusiveMaximum": 5}, (2, 4)),
        ({"exclusiveMinimum": 0.5, "exclusiveMaximum": 5.5}, (1, 5)),
        ({"minimum": 3, "exclusiveMinimum": 1, "maximum": 9, "exclusiveMaximum": 9}, (3, 8)),
        ({"minimum": 1, "exclusiveMinimum": True, "maximum": 5, "exclusiveMaximum": False}, (2, 5)),
        ({"exclusiveMinimum": True}, (None, None)),
    ],
)
def test_the_bounds_of_a_schema(schema: dict[str, Any], expected: tuple[int | None, int | None]) -> None:
    assert bounds_of(schema) == expected


@pytest.mark.parametrize("bound", ["1", 10**40, -(10**40), float("inf"), float("nan"), [1]])
def test_a_bound_that_is_none_is_refused(bound: Any) -> None:
    with pytest.raises(ValueError, match="at most 40 digits"):
        bounds_of({"minimum": bound})
