"""The parts of divided requests while replicas come and go, with replicas that only remember what was sent."""

from __future__ import annotations

from typing import Any

import pytest

from srb.cluster.divided import Divided
from srb.cluster.members import Member, Members
from srb.cluster.registry import Entry
from srb.cluster.routing import merge
from srb.cluster.split import Part, Whole, divide, for_part, of_whole, unite
from srb.errors import EngineRestarted, NotFound
from srb.protocol import Accepted, Attach, Attached, BranchEnded, BranchSpec, Done, EndReasoning, Generate, PromptDone

WHOLE = Generate("whole", ("Once",), tuple(BranchSpec(seed) for seed in range(6)))


def members(*names: str) -> Members:
    known = Members(lambda: None)
    for name in names:
        entry = Entry(host="h", port=1, token="t", node="n", gpus=[], state="running", alias="m", pid=1)
        known._members[name] = Member(name, entry)
    return known


def part(*places: int) -> dict[str, Any]:
    branches = [
        {
            "index": index, "place": place, "seed": place, "state": "running", "length": 1, "max_tokens": 9, "text": "a",
            "tokens": [1],
        }
        for index, place in enumerate(places)
    ]  # fmt: skip
    return {"id": "whole", "state": "running", "age": 1.0, "prompt_tokens": 1, "linger": 0.0, "branches": branches,
            "num_places": 3, "num_parts": 2}  # fmt: skip


def test_a_part_that_is_lost_while_a_reader_joins_ends_for_that_reader() -> None:
    divided = Divided(members("a", "b"), lambda member, payload: None, lambda *_: None, lambda *_: None)
    assert divided.attach(Attach("reader", "whole"), ["a", "b"]) == []
    assert divided.take("a", [Attached("reader", "whole", part(0, 2))]) == []
    assert divided.lose("a") == []
    attached, *ends = divided.take("b", [Attached("reader", "whole", part(1))])
    assert isinstance(attached, Attached)
    assert [(end.index, end.code) for end in ends if isinstance(end, BranchEnded)] == [
        (0, EngineRestarted.code),
        (2, EngineRestarted.code),
    ]
    *_, done = divided.take("b", [BranchEnded("whole", 0, "limit", 1), Done("whole", 1, 0, 1, 0.0, 0.0)])  # type: ignore[arg-type]
    assert isinstance(done, Done)


def test_a_divided_prompt_counts_once_as_the_part_with_least_of_it_cached_computed_it() -> None:
    """What each part computes for its branches' own beginnings is added."""
    whole = Whole("whole", {"a": Part([0], running={0}), "b": Part([1], running={1})})
    whole.take("a", Accepted("whole", 9))
    whole.take("b", Accepted("whole", 9))
    found: list[Any] = []
    for name, cached, computed, own in (("a", 6, 3, 1), ("b", 2, 7, 2)):
        found += whole.take(name, PromptDone("whole", cached, 0, 1.0, [0], computed_tokens=computed))
        found += whole.take(name, BranchEnded("whole", 0, "eos", 1, given_computed=own))
        found += whole.take(name, Done("whole", 9, cached, 1, 1.0, 1.0, computed_tokens=computed + own))
    assert (found[-1].cached_tokens, found[-1].computed_tokens) == (2, 7 + 1 + 2)


def test_a_replica_that_has_just_gone_gets_no_part_without_branches() -> None:
    parts = divide(WHOLE, {"gone": 0, "a": 4, "b": 4})
    assert {name: [spec.place for spec in each.branches] for name, each in parts.items()} == {
        "a": [0, 2, 4],
        "b": [1, 3, 5],
    }
    assert divide(WHOLE, {"gone": 0, "gone too": 0}).keys() == {"gone", "gone too"}


def test_the_end_of_reasoning_goes_to_the_replicas_of_its_branches_and_is_told_by_their_places() -> None:
    described = {"a": part(0, 2), "b": part(1, 3)}
    name, command = for_part(EndReasoning("c", "whole", index=3), described)
    assert (name, command) == ("b", EndReasoning("c", "whole", index=1))
    assert of_whole(command, {"branches": [3]}, described["b"]) == {"branches": [3]}
    everywhere = EndReasoning("c", "whole")
    assert merge(everywhere, {"a": {"branches": [0, 2]}, "b": {"branches": [1]}}) == {"branches": [0, 1, 2]}
    with pytest.raises(NotFound, match="no branch 9"):
        for_part(EndReasoning("c", "whole", index=9), described)


def test_a_branch_that_is_just_being_added_is_not_described_as_lost() -> None:
    early, late = part(0, 2), {**part(1), "num_places": 4}  # asked before and after a branch was added to the first
    whole = unite([early, late])
    assert [branch["index"] for branch in whole["branches"]] == [0, 1, 2]
    assert whole.keys().isdisjoint({"num_places", "num_parts"})
    lost = unite([late])
    assert [(branch["index"], branch["state"]) for branch in lost["branches"]] == [
        (0, "ended"),
        (1, "running"),
        (2, "ended"),
        (3, "ended"),
    ]
