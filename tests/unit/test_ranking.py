"""The ranking of branches and the choice among them, with values computed by hand."""

from __future__ import annotations

from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srb.web.calls import ranking
from srb.web.calls.ranking import GROUP, Candidate, WordSets, choose, rank, repeated_shares, same, spread

CATS = ["the cat sat", "the cat ran", "The cat, sat!"]


def test_distinct_words_and_pairs_are_counted_over_all_texts() -> None:
    found = WordSets(CATS)
    assert found.distinct_1 == 4 / 9  # the, cat, sat, ran
    assert found.distinct_2 == 3 / 6  # the cat, cat sat, cat ran


def test_the_distance_of_texts_is_that_of_their_words_and_pairs() -> None:
    # 3 of 7 are common: the, cat, the cat
    assert WordSets(CATS).distances() == [[0, 1 - 3 / 7, 0], [1 - 3 / 7, 0, 1 - 3 / 7], [0, 1 - 3 / 7, 0]]
    assert WordSets(["a b", "b a"]).distance(0, 1) == 1 - 2 / 4  # the same words, in another order
    assert WordSets(["a b", "c d"]).distance(0, 1) == 1
    assert WordSets(["", "...", "a"]).distances() == [[0, 0, 1], [0, 0, 1], [1, 1, 0]]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Don't — stop, now…", ["don", "t", "stop", "now"]),
        ("猫は寝た。", ["猫", "は", "寝", "た"]),
        ("GPT猫2", ["gpt", "猫", "2"]),
        ("नमस्ते दुनिया।", ["नमस्ते", "दुनिया"]),  # vowel signs belong to their words
        ("Straße STRASSE", ["strasse", "strasse"]),
        (" \n\t", []),
    ],
)
def test_words_are_found_in_many_scripts(text: str, words: list[str]) -> None:
    assert ranking._WORD.findall(text.casefold()) == words


def test_a_group_of_nearly_the_same_texts_may_be_a_chain() -> None:
    words = [f"w{number}" for number in range(100)]
    first, second = [*words[:97], "x", "y", "z"], [*words[:94], "u", "v", "w", "x", "y", "z"]
    texts = [" ".join(each) for each in (words, ["other"], first, second)]
    sets = WordSets(texts)
    assert sets.distance(0, 2) <= ranking.NEAR  # 97 words and 96 pairs of 206 members are common
    assert sets.distance(0, 2) == pytest.approx(1 - 193 / 205)
    assert sets.distance(2, 3) <= ranking.NEAR < sets.distance(0, 3)
    assert sets.near() == [[0, 2, 3]]


def test_the_same_texts_are_those_of_the_same_characters() -> None:
    assert same(["a", "b", "a", "B", "b", "a"]) == [[0, 2, 5], [1, 4]]
    assert same([]) == []


def candidates(*means: float | None, failed: tuple[int, ...] = ()) -> list[Candidate]:
    return [Candidate(f"text {index}", mean, index in failed) for index, mean in enumerate(means)]


def test_the_ranking_has_the_likeliest_first_those_without_tokens_later_and_failed_ones_last() -> None:
    branches = candidates(-4.0, -1.0, None, -2.0, -0.5, -1.0, failed=(4,))
    assert rank([dict(enumerate(branches))], near=False)["ranking"] == [1, 5, 3, 0, 2, 4]


def test_words_that_come_again_are_counted_in_groups_of_four() -> None:
    assert repeated_shares(["a b c d a b c d"], "") == [1 / 5]  # abcd bcda cdab dabc abcd
    assert repeated_shares(["A b c d. E"], "x a, b c d") == [1 / 2]
    assert repeated_shares(["a b c d", "z a b c d", "a b c"], "") == [0, 1 / 2, 0]
    assert repeated_shares(["猫は寝た猫は寝た"], "") == [1 / 5]
    assert repeated_shares(["", "..."], "") == [0, 0]


@given(st.lists(st.text("abc ", max_size=40), max_size=5), st.text("abc ", max_size=20))
def test_the_words_that_come_again_are_those_that_a_naive_search_finds(texts: list[str], before: str) -> None:
    spaced = [" ".join(text.replace(" ", "")) for text in (before, *texts)]
    seen: list[tuple[str, ...]] = []
    shares = []
    for text in spaced:
        words = text.split()
        groups = [tuple(words[at : at + GROUP]) for at in range(len(words) - GROUP + 1)]
        again = 0
        for group in groups:
            again += group in seen
            seen.append(group)
        shares.append(again / len(groups) if groups else 0)
    assert repeated_shares(spaced[1:], spaced[0]) == pytest.approx(shares[1:])


def test_a_fresh_ranking_subtracts_what_repeats_from_the_likelihood() -> None:
    loop = "and so on and so on and so on and so on"  # 6 of 9 groups come again
    texts = {0: loop, 1: "the lamp went out at last", 2: "nothing new", 3: "", 4: loop}
    means = {0: -0.1, 1: -2.0, 2: -3.0, 3: None, 4: -0.2}
    branches = {index: Candidate(texts[index], means[index]) for index in texts} | {
        5: Candidate("x", -0.01, failed=True)
    }
    assert rank([branches])["ranking"] == [0, 4, 1, 2, 3, 5]
    assert rank([branches], before=[""])["ranking"] == [1, 0, 2, 4, 3, 5]
    assert rank([branches], before=["The lamp went out at last."])["ranking"] == [0, 2, 4, 1, 3, 5]


def test_a_ranking_has_all_keys_and_near_duplicates_only_when_asked_for() -> None:
    branches = {index: Candidate(text, -1.0) for index, text in enumerate([*CATS, "the cat sat"])}
    found = rank([branches], near=False)
    assert found["duplicates"] == [[0, 3]]
    assert "near_duplicates" not in found
    assert rank([branches], near=True)["near_duplicates"] == [[0, 2, 3]]
    assert found["diversity"] == {"distinct_1": 0.3333, "distinct_2": 0.375, "distance": round(3 * (4 / 7) / 6, 4)}


def test_failed_branches_are_neither_duplicates_nor_counted() -> None:
    branches = {0: Candidate("a b", -1.0), 1: Candidate("a b", None, failed=True), 2: Candidate("c d", -2.0)}
    found = rank([branches], near=True)
    assert (found["duplicates"], found["near_duplicates"]) == ([], [])
    assert found["diversity"] == {"distinct_1": 1.0, "distinct_2": 1.0, "distance": 1.0}


def test_branches_of_several_prompts_are_compared_with_their_siblings_alone() -> None:
    found = rank(
        [{0: Candidate("a", -2.0), 1: Candidate("a", -1.0)}, {2: Candidate("a", -1.0), 3: Candidate("b", -2.0)}], False
    )
    assert found["ranking"] == [1, 0, 2, 3]
    assert found["duplicates"] == [[0, 1]]
    assert found["diversity"] == {"distinct_1": 0.75, "distinct_2": 0.0, "distance": 0.5}


@pytest.mark.parametrize("branches", [[], [{}], [{0: Candidate("", None)}], [{0: Candidate("", None, True)}]])
def test_a_ranking_of_nothing_is_empty_and_has_zeros(branches: list[dict[int, Candidate]]) -> None:
    found = rank(branches, near=True)
    assert found["ranking"] == [index for each in branches for index in each]
    assert found["diversity"] == {"distinct_1": 0.0, "distinct_2": 0.0, "distance": 0.0}


def test_the_choice_of_the_likely_takes_failed_ones_last() -> None:
    assert choose(candidates(-3.0, -1.0, -2.0, -0.1, failed=(3,)), 2, "likely") == [1, 2]
    assert choose(candidates(-3.0, -1.0, None, -0.1, failed=(3,)), 4, "likely") == [1, 0, 2, 3]


def test_the_choice_of_the_diverse_begins_with_the_likeliest_and_goes_on_with_the_farthest() -> None:
    texts = ["a b c d", "a b c e", "x y z", "a b c d", "a q r s"]
    branches = [Candidate(text, mean) for text, mean in zip(texts, [-2.0, -1.0, -9.0, -3.0, -4.0], strict=True)]
    assert choose(branches, 3, "diverse") == [1, 2, 4]
    assert choose(branches, 5, "diverse") == [1, 2, 4, 0, 3]
    failed = [*branches, Candidate("quite other words", -0.1, failed=True)]
    assert choose(failed, 3, "diverse") == [1, 2, 4]
    assert choose(failed, 6, "diverse") == [1, 2, 4, 0, 3, 5]
    assert choose([Candidate("", None, failed=True)] * 3, 2, "diverse") == [0, 1]


def least(distances: list[list[float]], chosen: tuple[int, ...]) -> float:
    return min(distances[one][other] for one, other in combinations(chosen, 2))


@given(st.lists(st.text("abc ", max_size=12), min_size=2, max_size=7), st.data())
def test_the_greedy_choice_is_at_least_half_as_far_apart_as_the_best(texts: list[str], data: st.DataObject) -> None:
    n = data.draw(st.integers(2, len(texts)))
    distances = WordSets(texts).distances()
    chosen = spread(distances, n)
    assert chosen[0] == 0
    assert len(set(chosen)) == n
    best = max(least(distances, each) for each in combinations(range(len(texts)), n))
    assert least(distances, tuple(chosen)) >= best / 2 - 1e-12


@given(st.lists(st.text("abc ", max_size=12), min_size=3, max_size=3))
def test_the_distance_is_a_metric_and_that_of_python_sets(texts: list[str]) -> None:
    sets = [{*(words := text.split()), *pairwise(words)} for text in texts]
    found = WordSets(texts).distances()
    for one, other in combinations(range(3), 2):
        union = sets[one] | sets[other]
        assert found[one][other] == found[other][one] == (1 - len(sets[one] & sets[other]) / len(union) if union else 0)
    assert found[0][2] <= found[0][1] + found[1][2] + 1e-12


def test_of_texts_that_are_too_long_the_first_words_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranking, "MAX_WORDS", 6)
    assert WordSets(["a b c d", "a b c e"]).distance(0, 1) == 0
    assert WordSets(["a b c", "a b d"]).distance(0, 1) > 0
