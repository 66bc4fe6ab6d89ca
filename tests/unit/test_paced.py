"""The paced server of the page's benchmark: every branch grows by the same number of words, and ends at its limit."""

from __future__ import annotations

from collections import Counter

from bench.page.paced import paced
from srb.wire.commands import BranchSpec, Generate
from srb.wire.events import Accepted, BranchEnded, Delta, Done


def test_each_branch_gets_its_words_one_a_step_and_ends_at_its_limit() -> None:
    command = Generate("r", ("x",), (BranchSpec(1, 3), BranchSpec(2, 5)))
    frames = list(paced(float("inf"))(command))
    assert isinstance(frames[0][0], Accepted)
    events = [event for frame in frames for event in frame]
    assert Counter(event.index for event in events if isinstance(event, Delta)) == {0: 3, 1: 5}
    for frame in frames:
        indices = [event.index for event in frame if isinstance(event, Delta)]
        assert len(indices) == len(set(indices))
    ends = [(event.index, event.reason, event.length) for event in events if isinstance(event, BranchEnded)]
    assert ends == [(0, "limit", 3), (1, "limit", 5)]
    assert isinstance(events[-1], Done)
    assert events[-1].completion_tokens == 8


def test_branches_of_a_round_have_texts_of_their_own() -> None:
    command = Generate("r", ("x",), (BranchSpec(1, 30), BranchSpec(2, 30)))
    texts = ["", ""]
    for frame in paced(float("inf"))(command):
        for event in frame:
            if isinstance(event, Delta):
                texts[event.index] += event.text
    assert texts[0] != texts[1]
    assert "." in texts[0]
