"""Patterns mean what they mean in Python's `re`, and nothing of a match is missed, however a text is cut."""

from __future__ import annotations

import itertools
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srb.engine.banned import MAX_LENGTH, START, Banned, Entry, stands
from srb.engine.patterns import MAX_PATTERN, places_of
from tests.pattern_oracle import matches_in

_ATOMS = ["a", "b", "B", "_", " ", ".", r"\w", r"\s", r"\W", "[ab]", "[^a]", "[a-c_]", r"[^\w\n]", "\n", "é", r"(?s:.)"]
_CONDITIONS = ["^", "$", r"\b", r"\B", r"\A", r"\Z"]


def _larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda parts: f"(?:{parts[0]}|{parts[1]})"),
        st.tuples(inner, st.sampled_from(["?", "*", "+", "*?", "+?", "{2}", "{1,3}", "{0,2}?", "{2,}"])).map(
            lambda parts: f"(?:{parts[0]}){parts[1]}"
        ),
        inner.map(lambda part: f"({part})"),
        inner.map(lambda part: f"(?-i:{part})"),
    )


def _takes_text(pattern: str) -> bool:
    try:
        places_of(pattern, False)
    except ValueError as error:
        return str(error) != "matches an empty text"
    return True


patterns = st.recursive(st.sampled_from(_ATOMS + _CONDITIONS), _larger, max_leaves=6).filter(_takes_text)
texts = st.text("abAB_ .é\n", max_size=14)


def read_in_pieces(graph: Banned, text: str, data: st.DataObject) -> tuple[list[tuple[int, int, int]], list[int]]:
    """Return each match found: where it was known, and its last and first beginning; and the depth at each place."""
    found, depths, reading, at = [], {0: 0}, START, 0
    while at < len(text):
        piece = text[at : at + data.draw(st.integers(1, 3))]
        reading, end, matches = graph.read(reading, piece)
        at += end or len(piece)
        found += [(at, at - match.shortest, at - match.longest) for match in matches]
        depths[at] = reading.depth
    found += [(at + 1, at - match.shortest, at - match.longest) for match in graph.at_end(reading)]
    return found, [depths.get(place, MAX_LENGTH) for place in range(len(text) + 1)]


@given(patterns, st.booleans(), texts, st.data())
def test_all_matches_are_those_of_re_and_what_may_become_one_is_held_back(
    pattern: str, is_cased: bool, text: str, data: st.DataObject
) -> None:
    graph = Banned((), ((pattern, 0.0, is_cased),))
    expected = matches_in(text, pattern, is_cased)
    found, depths = read_in_pieces(graph, text, data)
    for known, last, first in found:
        assert {(last, known), (last, known - 1)} & expected, (known, last)
        assert {(first, known), (first, known - 1)} & expected, (known, first)
    for start, end in expected:
        assert any(known in (end, end + 1) and first <= start <= last for known, last, first in found), (start, end)
        assert all(depths[place] >= place - start for place in range(start + 1, end)), (start, end)


@pytest.mark.parametrize(
    "pattern",
    ["a{1,3}", "a{2}", "a{0,2}", "a{2,}", "a?", "a*", "a+?", "(?:ab?){1,3}", "(?:a|b)*", "(?:a?b?)+", "(?:a+b){2}"],
)
def test_a_repetition_comes_as_often_as_it_says(pattern: str) -> None:
    graph = Banned((), ((f"x{pattern}y", 0.0, False),))
    for size in range(6):
        for part in itertools.product("ab", repeat=size):
            text = f"x{''.join(part)}y"
            assert bool(graph.read(START, text)[2]) == bool(matches_in(text, f"x{pattern}y")), text


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("a(", r"is no regular expression: missing \), unterminated subpattern at position 1"),
        ("*", "is no regular expression: nothing to repeat at position 0"),
        ("a*", "matches an empty text"),
        (r"\b", "matches an empty text"),
        (r"(a)\1", "has a back-reference, which patterns do not take"),
        ("a(?=b)", "has a look ahead or behind, which patterns do not take"),
        ("(?<!b)a", "has a look ahead or behind, which patterns do not take"),
        ("(a)?(?(1)b|c)", "has a condition on a group, which patterns do not take"),
        ("(?>a)", "has an atomic group, which patterns do not take"),
        ("a++", "has a possessive repetition, which patterns do not take"),
        ("(?a)b", "has the flag a or L, which patterns do not take"),
        ("(?a:b)", "has the flag a or -m, which patterns do not take"),
        ("a{4000}", "is too large with its repetitions written out"),
        ("(a?){300}b", "is too large with its repetitions written out"),
        ("((((((a{9}){9}){9}){9}){9}){9})", "is too large with its repetitions written out"),
    ],
)
def test_what_no_graph_is_built_for_is_refused_with_its_reason(pattern: str, problem: str) -> None:
    with pytest.raises(ValueError, match=f"^{problem}"):
        places_of(pattern, False)


def test_a_repetition_of_nothing_is_not_written_out() -> None:
    began = time.process_time()
    assert matches_in("ab", "a(?:){999999}b") == {(0, 2)}
    assert places_of("a(?:(?:){999999}){999999}b", False)
    assert time.process_time() - began < 5  # written out it would be hours


def test_a_match_has_no_more_characters_than_may_be_held_back() -> None:
    graph = Banned((), (("a.*b", 0.0, False),))
    for size, is_found in ((MAX_LENGTH, True), (MAX_LENGTH + 1, False)):
        reading, end, matches = graph.read(START, "a" + "-" * (size - 2) + "b")
        assert bool(matches) == is_found
        assert end == (size if is_found else 0)
        assert reading.depth <= MAX_LENGTH


def test_the_longest_pattern_and_a_long_text_take_time_that_grows_with_their_length_alone() -> None:
    """An expression that takes years with backtracking."""
    graph = Banned((), (("(a|aa)+" * (MAX_PATTERN // 8) + "$", 0.0, False),))
    began = time.process_time()
    assert graph.read_all("a" * 400 + "b").depth == 0
    assert time.process_time() - began < 20


@pytest.mark.parametrize("weight", [0.2, 0.75])
def test_a_weight_is_how_often_a_match_stands_and_seed_and_place_decide(weight: float) -> None:
    entry = Entry("for a moment", weight)
    standing = [stands(entry, seed, start) for seed in range(60) for start in range(50)]
    assert sum(standing) / len(standing) == pytest.approx(weight, abs=0.03)
    assert standing == [stands(entry, seed, start) for seed in range(60) for start in range(50)]
    assert not any(stands(Entry("for a moment"), seed, 0) for seed in range(500))
    assert all(stands(Entry("for a moment", 1.0), seed, 0) for seed in range(500))
