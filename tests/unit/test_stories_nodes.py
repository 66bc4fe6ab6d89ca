"""Nodes of stories: stored where they have a place, merged alike in any order, and never overwritten."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from srb.stories.nodes import common_units, splits_pair, units
from tests.postgresql import MakePlace
from tests.stories import Stories, model, person, texts


@pytest.fixture
def stories(place: MakePlace) -> Iterator[Stories]:
    made = Stories(place())
    yield made
    made.store.close()


@pytest.fixture
def tale(stories: Stories) -> Stories:
    """A story: the opening by a person, and one continuation."""
    stories.save({"a": person("Once upon a time,"), "b": model(" there 😀 lived", "a", 17)})
    return stories


def test_lengths_count_utf16_units() -> None:
    assert [units(text) for text in ("", "abc", "né", "日本", "😀", "a😀b")] == [0, 3, 2, 2, 2, 4]
    assert [splits_pair("a😀b", at) for at in range(5)] == [False, False, True, False, False]
    assert common_units("a😀b", "a😀c") == 3
    assert common_units("a😀", "a😁") == 1
    assert common_units("ab", "abc") == 2


# Places ---------------------------------------------------------------------------------------------------------------


def test_a_splice_keeps_the_beginning_and_the_rest_of_its_parents_text(tale: Stories) -> None:
    tale.save(
        {"c": person("a princess ", "b", 26, tail=26), "d": person("!", "c", 42), "e": person("X", "c", 0, tail=17)}
    )
    found = texts(tale.nodes())
    assert found["c"] == "Once upon a time, there 😀a princess  lived"
    assert found["d"] == "Once upon a time, there 😀a princess  live!"
    assert found["e"] == "X there 😀a princess  lived"


@pytest.mark.parametrize(
    ("node", "reason"),
    [
        (person("x", "nowhere", 0), "parent_unknown"),
        (person("x", "b", 33), "beyond"),
        (person("x", "b", 3, tail=33), "beyond"),
        (person("x", "b", 25), "splits_pair"),
        (person("x", "b", 3, tail=25), "splits_pair"),
    ],
)
def test_a_node_without_a_place_in_its_parent_is_refused_and_the_others_are_stored(
    tale: Stories, node: dict[str, Any], reason: str
) -> None:
    answer = tale.post(nodes={"bad": node, "good": person("x", "b", 32)})
    assert [(each["node"], each["reason"]) for each in answer["refused"]] == [("bad", reason)]
    assert set(tale.nodes()) == {"a", "b", "good"}


def test_a_pair_is_found_through_any_number_of_splices(tale: Stories) -> None:
    tale.save({"c": person("", "b", 5, tail=7), "d": person("zz", "c", 0, tail=0), "e": model(" on", "d", 32)})
    at = texts(tale.nodes())["e"].index("😀")  # all before it are single units
    for offset, refused in ((at, False), (at + 1, True), (at + 2, False)):
        answer = tale.post(nodes={f"x{offset}": person("-", "e", offset)})
        assert bool(answer["refused"]) is refused


def test_parents_and_children_come_in_any_order_in_one_post(stories: Stories) -> None:
    stories.save({"c": person("c", "b", 2), "b": person("b", "a", 1), "a": person("a")})
    assert texts(stories.nodes()) == {"a": "a", "b": "ab", "c": "abc"}


def test_a_child_of_a_refused_node_is_refused_with_it(tale: Stories) -> None:
    answer = tale.post(nodes={"x": person("x", "b", 99), "y": person("y", "x", 0)})
    assert [(each["node"], each["reason"]) for each in answer["refused"]] == [("x", "beyond"), ("y", "parent_unknown")]


# Closed nodes ---------------------------------------------------------------------------------------------------------


def test_the_same_post_again_changes_nothing(tale: Stories) -> None:
    seq = tale.save({"c": model(" on", "b", 32)})
    assert tale.save({"c": model(" on", "b", 32), "a": person("Once upon a time,")}) == seq


@pytest.mark.parametrize(
    "other",
    [
        model(" there lived", "a", 17),
        model(" there 😀 lived", "a", 16),
        model(" there 😀 lived", "a", 17, tail=17),
        person(" there 😀 lived", "a", 17),
        model(" there 😀 lived"),
        model(" and then", "a", 17, open=True),
    ],
)
def test_a_closed_node_is_never_overwritten(tale: Stories, other: dict[str, Any]) -> None:
    before = tale.read()
    assert tale.refusal("b", other) == "conflict"
    assert tale.read() == before


@pytest.mark.parametrize("other", [person("Once", made=3), person("Once upon"), person("Onc"), person("", open=True)])
def test_a_persons_closed_node_never_changes_its_text(stories: Stories, other: dict[str, Any]) -> None:
    stories.save({"a": person("Once", made=4)})
    if other["text"] == "Once":
        stories.save({"a": other})
    else:
        assert stories.refusal("a", other) == "conflict"
    assert stories.nodes()["a"] == person("Once", made=4)


def test_of_versions_that_differ_in_other_keys_the_same_stays_in_any_order(place: MakePlace) -> None:
    found = []
    one, other = person("x", mood="dark", run="r1"), person("x", mood="bright", logprob=-1.5, draft=None)
    for number, order in enumerate(((one, other), (other, one))):
        stories = Stories(place(f"order_{number}"))
        for node in order:
            stories.save({"a": node})
        found.append(stories.nodes())
        stories.store.close()
    assert found[0] == found[1]


# Open nodes -----------------------------------------------------------------------------------------------------------


def test_a_models_open_node_grows_until_it_is_closed(tale: Stories) -> None:
    for text in (" wh", " who", " who never"):
        tale.save({"c": model(text, "b", 32, open=True)})
    assert tale.nodes()["c"]["open"] is True
    seq = tale.save({"c": model(" who never", "b", 32, open=False, end={"reason": "eos"})})
    assert tale.nodes()["c"] == model(" who never", "b", 32, end={"reason": "eos"})
    for late in (model(" who", "b", 32, open=True), model(" who never", "b", 32, open=True), model(" who", "b", 32)):
        assert tale.save({"c": late}) == seq, "a late version changes nothing"


@pytest.mark.parametrize("is_open", [True, False])
def test_a_models_node_only_grows_at_its_end(tale: Stories, is_open: bool) -> None:
    tale.save({"c": model(" who", "b", 32, open=True)})
    seq = tale.save({"c": model(" wh", "b", 32, open=is_open), "b": model(" there", "a", 17, open=is_open)})
    assert seq == 2, "shorter versions are late"
    for other in (
        model(" what", "b", 32, open=is_open),
        model(" who never", "b", 31),
        model(" who never", "b", 32, tail=32),
    ):
        assert tale.refusal("c", other) == "conflict"
    assert tale.nodes()["c"] == model(" who", "b", 32, open=True)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_of_two_pages_that_followed_a_branch_the_one_that_saw_more_is_believed(
    tale: Stories, order: tuple[int, int]
) -> None:
    versions = [
        model(" who", "b", 32, end={"reason": "cancelled"}),
        model(" who never", "b", 32, end={"reason": "eos"}),
    ]
    for number in order:
        tale.save({"c": versions[number]})
    assert tale.nodes()["c"] == versions[1]


def test_a_models_node_does_not_grow_under_a_child_that_goes_on_with_its_rest(tale: Stories) -> None:
    tale.save({"c": model(" who", "b", 32)})
    tale.save({"d": person("!", "c", 36)})
    tale.save({"c": model(" who never", "b", 32)})
    tale.save({"e": person("x", "c", 33, tail=34)})
    before = texts(tale.nodes())
    assert tale.refusal("c", model(" who never looked", "b", 32)) == "children"
    assert texts(tale.nodes()) == before


def test_a_running_node_has_children_at_its_written_part_and_without_a_tail(tale: Stories) -> None:
    tale.save({"c": model(" who", "b", 32, open=True)})
    tale.save({"d": person("?", "c", 36), "e": person("!", "c", 33)})
    assert tale.refusal("f", person("!", "c", 37)) == "beyond"
    assert tale.refusal("f", person("!", "c", 33, tail=34)) == "parent_open"
    tale.save({"c": model(" who never", "b", 32)})
    tale.save({"f": person("!", "c", 33, tail=34)})
    found = texts(tale.nodes())
    assert found["d"].endswith(" lived who?")
    assert found["f"].endswith(" lived !ho never")


def test_an_open_node_with_a_rest_has_no_children_in_the_rest(tale: Stories) -> None:
    tale.save({"c": model(" who", "b", 5, tail=8, open=True)})
    tale.save({"d": person("!", "c", 9)})
    assert tale.refusal("e", person("!", "c", 10)) == "beyond"


def test_a_persons_open_node_is_replaced_while_it_is_the_tip(tale: Stories) -> None:
    for text, keep in (("who", 32), ("wh", 32), ("", 32), ("s", 30)):
        tale.save({"c": person(text, "b", keep, open=True)})
        assert tale.nodes()["c"]["text"] == text
    tale.save({"c": person("sits", "b", 30)})
    assert tale.nodes()["c"] == person("sits", "b", 30)


def test_a_persons_open_node_keeps_what_its_children_keep(tale: Stories) -> None:
    tale.save({"c": person("who never", "b", 32, open=True)})
    tale.save({"d": model("!", "c", 35)})
    assert tale.refusal("c", person("wh", "b", 32, open=True)) == "children"
    assert tale.refusal("c", person("why never", "b", 32)) == "children"
    assert tale.refusal("c", person("who", "b", 31)) == "children"
    tale.save({"c": person("who ever", "b", 32, open=True)})
    tale.save({"c": person("who", "b", 32)})
    assert texts(tale.nodes())["d"].endswith("lived" + "who!")


def test_of_two_open_versions_of_a_person_the_later_stays(tale: Stories) -> None:
    tale.save({"c": person("late", "b", 32, open=True, changed=7)})
    seq = tale.save({"c": person("early", "b", 32, open=True, changed=6)})
    assert tale.nodes()["c"]["text"] == "late"
    tale.save({"c": person("closed", "b", 32)})
    assert tale.save({"c": person("late", "b", 32, open=True, changed=7)}) == seq + 1, "known to be late"
    assert tale.refusal("c", person("later", "b", 32, open=True, changed=8)) == "conflict"
    assert tale.refusal("c", person("later", "b", 32, open=True)) == "conflict"


def test_the_first_version_of_a_draft_has_no_time_and_is_the_earliest(tale: Stories) -> None:
    tale.save({"c": person("w", "b", 32, open=True)})
    seq = tale.save({"c": person("who", "b", 32, open=True, changed=7)})
    assert tale.save({"c": person("w", "b", 32, open=True)}) == seq
    assert tale.nodes()["c"]["text"] == "who"


def test_a_place_is_checked_again_when_an_open_node_moves(tale: Stories) -> None:
    tale.save({"c": person("x", "b", 32, open=True)})
    assert tale.refusal("c", person("x", "b", 33, open=True)) == "beyond"
    assert tale.refusal("c", person("x", "b", 25, open=True)) == "splits_pair"
    assert tale.nodes()["c"]["keep"] == 32
