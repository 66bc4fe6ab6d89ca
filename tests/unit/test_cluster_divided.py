"""A divided request's parts: what is sent to each, and one answer made of theirs."""

from __future__ import annotations

from typing import Any

import pytest

from srb.cluster.split import Whole, for_parts, of_parts, unite, unite_listed
from srb.errors import Conflict, NotFound
from srb.wire.commands import (
    AddBranches,
    Attach,
    BranchSpec,
    Cancel,
    ChangeBranch,
    EndReasoning,
    Generate,
    GetRequest,
    StopBranches,
)
from srb.wire.events import Accepted, BranchEnded, Done, PromptDone

SIZES = {"whole+0": 2, "whole+2": 3}


def part(first: int, number: int) -> dict[str, Any]:
    branches = [{"index": index, "seed": first + index, "state": "running"} for index in range(number)]
    return {"id": f"whole+{first}", "state": "running", "age": 1.0 + first, "prompt_tokens": 1, "branches": branches}


def whole(*sizes: int) -> Whole:
    firsts = [sum(sizes[:place]) for place in range(len(sizes))]
    return Whole(
        "whole",
        [
            Generate(f"whole+{first}", ("Once",), tuple(BranchSpec(first + index) for index in range(size)))
            for first, size in zip(firsts, sizes, strict=True)
        ],
    )


def test_a_divided_prompt_counts_once_as_the_part_with_least_of_it_cached_computed_it() -> None:
    """What each part computes for its branches' own beginnings is added."""
    made = whole(1, 1)
    for name in ("whole+0", "whole+1"):
        made.take(Accepted(name, 9))
    found: list[Any] = []
    for name, cached, computed, own in (("whole+0", 6, 3, 1), ("whole+1", 2, 7, 2)):
        found += made.take(PromptDone(name, cached, 0, 1.0, [0], computed_tokens=computed))
        found += made.take(BranchEnded(name, 0, "eos", 1, given_computed=own))
        found += made.take(Done(name, 9, cached, 1, 1.0, 1.0, computed_tokens=computed + own))
    assert (found[-1].cached_tokens, found[-1].computed_tokens) == (2, 7 + 1 + 2)


def test_a_cancel_goes_to_the_part_that_has_the_branch_or_to_all() -> None:
    assert [*whole(2, 3).cancels(Cancel("whole", 3))] == [Cancel("whole+2", 1)]
    assert [*whole(2, 3).cancels(Cancel("whole", leaves=True))] == [
        Cancel("whole+0", leaves=True),
        Cancel("whole+2", leaves=True),
    ]
    assert [*whole(2, 3).cancels(Cancel("whole", 5))] == []


def test_a_control_goes_to_the_part_that_has_the_branch_and_its_answer_has_the_index_of_the_whole() -> None:
    stop = StopBranches("c", "whole", index=4)
    assert for_parts(stop, SIZES) == {"whole+2": StopBranches("c", "whole+2", index=2)}
    ended = {"request_id": "whole+2", "index": 2, "reason": "cancelled"}
    assert of_parts(stop, {"whole+2": {"index": 2, "ended": ended}}) == {
        "index": 4,
        "ended": {"request_id": "whole", "index": 4, "reason": "cancelled"},
    }
    everything = StopBranches("c", "whole")
    assert for_parts(everything, SIZES).keys() == SIZES.keys()
    ends = {name: {"id": name, "state": "ended"} for name in SIZES}
    assert of_parts(everything, ends) == {"id": "whole", "state": "ended"}
    reasoning = EndReasoning("c", "whole")
    assert for_parts(reasoning, SIZES).keys() == SIZES.keys()
    assert of_parts(reasoning, {"whole+2": {"branches": [0, 2]}, "whole+0": {"branches": [1]}}) == {
        "branches": [1, 2, 4]
    }
    for index in (5, -1):
        with pytest.raises(NotFound, match=f"no branch {index}"):
            for_parts(EndReasoning("c", "whole", index=index), SIZES)


@pytest.mark.parametrize(
    "command",
    [
        Attach("c", "whole"),
        AddBranches("c", "whole", ()),
        AddBranches("c", "whole", (), origin=1),
        ChangeBranch("c", "whole", 1),
    ],
)
def test_a_control_that_needs_the_request_on_one_replica_is_refused(command: Any) -> None:
    with pytest.raises(Conflict, match="divided among replicas") as raised:
        for_parts(command, SIZES)
    assert raised.value.extra == {"state": "running", "divided": True}, "so that a page may send a new request instead"


def test_the_parts_are_described_as_one_request() -> None:
    described = unite([part(2, 3), part(0, 2)])
    assert (described["id"], described["age"]) == ("whole", 3.0)
    assert [branch["index"] for branch in described["branches"]] == [branch["seed"] for branch in described["branches"]]
    assert [branch["index"] for branch in described["branches"]] == [0, 1, 2, 3, 4]
    assert of_parts(GetRequest("c", "whole"), {"whole+0": part(0, 2), "whole+2": part(2, 3)}) == described
    alone = {**part(0, 1), "id": "alone"}
    assert unite_listed([alone, part(0, 2), part(2, 3)]) == [alone, described]
    assert [branch["index"] for branch in unite([part(2, 3)])["branches"]] == [2, 3, 4], "another part is lost"
