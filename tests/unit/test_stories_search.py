"""The search in all stories: every branch, words over the ends of nodes, offsets, and its bounds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from srb.stories import limits
from srb.stories.parts import no_pause
from srb.stories.search import search
from tests.postgresql import MakePlace
from tests.stories import Stories, at, model, person


@pytest.fixture
def stories(place: MakePlace) -> Iterator[Stories]:
    made = Stories(place())
    yield made
    made.store.close()


def found(stories: Stories, wanted: str) -> list[dict[str, Any]]:
    results: list[dict[str, Any]] = orjson.loads(stories.store.search(wanted))["results"]
    return results


def places(stories: Stories, wanted: str) -> list[tuple[str, str, int, int]]:
    return [(each["story"], each["node"], each["begin"], each["end"]) for each in found(stories, wanted)]


def test_every_branch_is_searched_whatever_the_capitals(stories: Stories) -> None:
    nodes = {"a": person("The Lamp."), "b": model(" A lamp went out.", "a", 9), "c": model(" No light.", "a", 9)}
    stories.post("one", nodes=nodes, meta={"title": at("Salt", 1)})
    assert places(stories, "LAMP") == [("one", "a", 4, 8), ("one", "b", 12, 16)]
    first = found(stories, "lamp")[0]
    assert (first["title"], first["before"], first["words"], first["after"]) == ("Salt", "The ", "Lamp", ".")


def test_words_over_the_end_of_a_node_are_found_once_in_the_later_one(stories: Stories) -> None:
    stories.post("one", nodes={"a": person("a red"), "b": model(" fox ran", "a", 5), "c": model(" far", "b", 13)})
    assert places(stories, "red fox") == [("one", "b", 2, 9)]
    assert places(stories, "fox ran far") == [("one", "c", 6, 17)]


def test_words_that_begin_in_an_insertion_and_end_behind_it_are_found(stories: Stories) -> None:
    stories.post("one", nodes={"a": person("the fox ran"), "b": person("red ", "a", 4, tail=4)})
    assert places(stories, "the red fox") == [("one", "b", 0, 11)]
    assert places(stories, "fox ran") == [("one", "a", 4, 11)], "it is the first version's, and not found twice"


def test_any_space_parts_words_and_signs_are_signs(stories: Stories) -> None:
    stories.post("one", nodes={"a": person("over the\n\nhills (far) 100%")})
    assert places(stories, "the  hills") == [("one", "a", 5, 15)]
    assert places(stories, "(far) 100%") == [("one", "a", 16, 26)]
    assert places(stories, ".*") == []


def test_offsets_count_as_javascript_counts(stories: Stories) -> None:
    stories.post("one", nodes={"a": person("😀😀 Übel"), "b": model(" 😀 übel", "a", 9)})
    assert places(stories, "ÜBEL") == [("one", "a", 5, 9), ("one", "b", 13, 17)]


def test_the_bin_is_not_searched(stories: Stories) -> None:
    stories.post("one", nodes={"a": person("lamp")})
    stories.store.remove("one")
    assert found(stories, "lamp") == []


def test_one_story_does_not_hide_another(stories: Stories) -> None:
    stories.post("old", nodes={"a": person("lamp")})
    stories.post("new", nodes={"a": person("lamp " * 1000)})
    answer = orjson.loads(stories.store.search("lamp"))
    assert answer["more"]
    assert len(answer["results"]) == limits.MAX_FOUND_IN_STORY + 1
    assert {each["story"] for each in answer["results"]} == {"old", "new"}


def test_all_results_that_fit_are_all_there_are(stories: Stories) -> None:
    stories.post("one", nodes={"a": person("lamp " * limits.MAX_FOUND_IN_STORY)})
    assert not orjson.loads(stories.store.search("lamp"))["more"]


def test_a_search_that_is_late_answers_what_it_has(stories: Stories) -> None:
    stories.post("one", nodes={"a": person("lamp")})
    with stories.store.connection() as connection:
        late = search(connection, "lamp", None, no_pause, lambda: True)
    assert (late.results, late.more) == ([], True)


def test_a_long_chain_of_edits_is_searched(stories: Stories) -> None:
    nodes = {"n0": person("x" * 10)}
    for number in range(1, 300):
        nodes[f"n{number}"] = person("y", f"n{number - 1}", 0, tail=0)
    nodes["last"] = person(" lamp", "n299", 309)
    stories.post("one", nodes=nodes)
    assert [each["node"] for each in found(stories, "lamp")] == ["last"]
