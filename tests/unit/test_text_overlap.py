"""On a device that computes on by itself, tokens become text during the decode after them, and no text changes.

`tests/property/test_engine_walks.py` has walks of such models, too.
"""

from __future__ import annotations

from typing import Any

import pytest

from srb.engine.fake import FakeModel, FakeSampler
from srb.engine.model import DecodeStatus
from srb.wire.events import Delta, Failed, FinishReason
from tests.engine_helpers import Driver, solo

PROMPT = "the old king said"
OPTIONS: list[dict[str, Any]] = [
    {},
    {"stop": (".", " fox said", " king")},
    {"stop_at": "sentence"},
    {"n_indent": 2},
    {"n_probs": 2},
    {"n_probs": 2, "post_sampling_probs": True},
    {"banned_strings": (" the",)},
    {"distinct_words": True},
    {"distinct_first": True, "sibling_penalty": 2.0},
    {"t_max_predict_ms": 1},
]


def driver(**options: Any) -> Driver:
    return Driver(FakeModel(**{"n_ctx": 2048, "decodes_ahead": True, **options}))


def test_the_next_batch_is_computed_before_the_last_tokens_become_text(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    desk = driver()
    request_id = desk.submit(PROMPT, n=3, max_tokens=6, ignore_eos=True)
    desk.step()
    desk.model.before_decode = lambda: seen.append("decode")
    sample = FakeSampler.sample
    monkeypatch.setattr(FakeSampler, "sample", lambda self, row: [sample(self, row), seen.append("sample")][0])

    def emit(events: list[Any]) -> None:  # in mid-step, where the invariants do not hold
        seen.extend("text" for event in events if isinstance(event, Delta))
        for event in events:
            desk.outcomes[event.request_id].take(event)

    desk.engine.emit = emit
    for _ in range(3):
        desk.step()
    assert seen == [*["decode"] + ["sample"] * 3, *(["decode"] + ["text"] * 3 + ["sample"] * 3) * 2]
    desk.run()
    assert len(desk.result(request_id).tokens[2]) == 6


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(options) or "plain")
def test_events_say_the_same_as_without(options: dict[str, Any]) -> None:
    said = []
    for ahead in (False, True):
        desk = driver(decodes_ahead=ahead)
        request_id = desk.submit(PROMPT, n=6, max_tokens=40, **options)
        desk.run()
        outcome = desk.result(request_id)
        probs: dict[int, list[Any]] = {index: [] for index in range(6)}
        for event in outcome.events:
            if isinstance(event, Delta):
                probs[event.index] += event.probs or []
        said.append((outcome.texts, outcome.tokens, outcome.ends, probs))
    assert said[0] == said[1]


def test_a_limit_costs_no_further_token() -> None:
    decoded = []
    for ahead in (False, True):
        desk = driver(decodes_ahead=ahead)
        desk.submit(PROMPT, n=4, max_tokens=12, ignore_eos=True)
        desk.run()
        decoded.append(desk.model.n_tokens_decoded)
    assert decoded[0] == decoded[1]


def test_a_branch_that_ends_by_its_text_costs_at_most_its_last_token() -> None:
    decoded, reasons = [], []
    for ahead in (False, True):
        desk = driver(decodes_ahead=ahead)
        request_id = desk.submit(PROMPT, n=8, max_tokens=60, stop=(".", "?", "!"), ignore_eos=True)
        desk.run()
        decoded.append(desk.model.n_tokens_decoded)
        reasons = [end.reason for end in desk.result(request_id).ends.values()]
    ended = reasons.count(FinishReason.WORD)
    assert ended
    assert decoded[0] < decoded[1] <= decoded[0] + ended


def test_the_end_of_the_context_is_seen_in_time() -> None:
    desk = driver(n_ctx=64, n_ctx_seq=20)
    request_id = desk.submit(PROMPT, n=2, max_tokens=-1, ignore_eos=True)
    desk.run()
    assert all(end.truncated for end in desk.result(request_id).ends.values())


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_a_branch_that_is_cancelled_between_two_steps_shows_all_its_tokens(steps: int) -> None:
    desk = driver()
    request_id = desk.submit(PROMPT, n=2, max_tokens=30, ignore_eos=True)
    for _ in range(steps):
        desk.step()
    branch = desk.request(request_id).branches[0]
    desk.cancel(request_id, 0)
    assert desk.result(request_id).tokens[0] == list(branch.tokens)
    desk.run()
    assert desk.result(request_id).texts[1] == solo(PROMPT, seed=2, max_tokens=30, ignore_eos=True).texts[0]


def test_a_cancel_finds_a_branch_that_has_ended_by_its_last_token() -> None:
    [word] = solo(PROMPT, seed=1, max_tokens=3, ignore_eos=True).tokens[0][2:]
    stop = FakeModel().piece(word).decode()
    desk = driver()
    request_id = desk.submit(PROMPT, seed=1, max_tokens=30, stop=(stop,), ignore_eos=True)
    while len(desk.request(request_id).branches[0].tokens) < 3:
        desk.step()
    desk.cancel(request_id)
    assert desk.result(request_id).ends[0].reason is FinishReason.WORD
    desk.run()


def test_a_failed_request_leaves_no_token_behind() -> None:
    desk = driver()
    failing = desk.submit(PROMPT, n=3, max_tokens=30, ignore_eos=True)
    for _ in range(3):
        desk.step()
    desk.model.failures.append(DecodeStatus.FATAL)
    desk.step()
    assert isinstance(desk.result(failing).terminal[0], Failed)
    after = desk.submit(PROMPT, n=3)
    desk.run()
    assert desk.result(after).texts[2] == solo(PROMPT, seed=3).texts[0]


def test_branches_that_end_during_a_part_of_a_step_are_not_computed_in_its_other_parts() -> None:
    """Parts: requests with other LoRA scales, and those of a batch that was refused as a whole."""
    desk = driver(n_adapters=1)
    ids = [
        desk.submit(PROMPT, n=4, seed=seed, max_tokens=40, stop=(".", " the", " king"), lora=((0, scale),))
        for seed, scale in ((1, 0.0), (5, 0.5), (9, 1.0))
    ]
    while desk.engine.has_work:
        desk.model.failures += [DecodeStatus.INVALID] * (desk.model.n_decodes % 3 == 0) + [DecodeStatus.OK]
        desk.step()
        desk.model.failures.clear()
    for request_id, seed, scale in zip(ids, (1, 5, 9), (0.0, 0.5, 1.0), strict=True):
        outcome = desk.result(request_id)
        if not isinstance(outcome.terminal[0], Failed):
            options = {"stop": (".", " the", " king"), "lora": ((0, scale),)}
            expected = [solo(PROMPT, seed + i, 40, **options).texts[0] for i in range(4)]
            assert [outcome.texts[i] for i in range(4)] == expected
