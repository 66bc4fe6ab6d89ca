"""The canonical form by which versions of equal times are ordered: the table that the page is tested with, and the order."""

from __future__ import annotations

import json
from itertools import permutations
from typing import Any

import orjson
import pytest

from srb.stories.canonical import canonical
from srb.stories.merge import Entry
from srb.stories.nodes import stored_json
from tests.postgresql import MakePlace
from tests.processes import ROOT
from tests.stories import Stories, at

CASES = json.loads((ROOT / "tests" / "page" / "unit" / "canonical.json").read_text())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_the_server_writes_the_pages_canonical_form(case: dict[str, str]) -> None:
    value = orjson.loads(case["json"])
    assert canonical(value) == case["canonical"]
    assert canonical(orjson.loads(stored_json(value))) == case["canonical"]  # also when it comes from the file


@pytest.mark.parametrize(
    ("smaller", "greater"),
    [
        ({"9": 2, "10": 1}, {"9": 1, "10": 2}),  # the page's own objects put 9 first, the canonical form 10
        ({"k": "\U0001f600"}, {"k": "\uff5e"}),
        (1e21, 2),
        (1e-7, 9),
    ],
)
def test_of_two_values_with_one_time_the_greater_canonical_text_stays(
    smaller: Any, greater: Any, place: MakePlace
) -> None:
    for number, order in enumerate(permutations((smaller, greater))):
        stories = Stories(place(f"order_{number}"))
        for value in order:
            stories.post(meta={"value": at(value, 5)})
        assert stories.export()["value"] == greater
        stories.store.close()


def test_values_that_are_one_to_the_page_have_an_order_too() -> None:
    """Without one, the file would have 1 or 1.0 by the order of arrival, and two copies would differ for ever."""
    one, double = Entry(stored_json(1), 5), Entry(stored_json(1.0), 5)
    assert double.replaces(one) != one.replaces(double)
    assert not one.replaces(one)
