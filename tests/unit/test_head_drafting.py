"""Drafts of a model's own head: texts are the same with it as without, and it is asked only where it pays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from srb.engine.fake import FakeModel, _hash
from srb.engine.head_drafting import HeadDrafter
from srb.engine.model import Logits
from tests.engine_helpers import Driver, always_draft
from tests.unit.test_speculation import OPTIONS, PROMPT, written

GREEDY = {"temperature": 0.0, "ignore_eos": True}


class FakeHead:
    """A head of the fake that finds what the fake will find, but for a share of `wrong` in ten tokens."""

    kind = "draft-mtp"

    def __init__(self, model: FakeModel, wrong: int = 0) -> None:
        self._model, self._wrong = model, wrong
        self._rows: list[bytes] = []  # what is visible at each
        self.reads_prompts, self.is_lost, self.has_room = True, False, True
        self.tokens_total = 0
        self.before_decode = lambda: None

    def follow_prompts(self, pays: bool) -> None:
        self.reads_prompts = pays

    def lag(self, seq_id: int, length: int) -> int | None:
        assert self._model._tips[seq_id].end == length
        return None if self.is_lost else 0

    def read(self, seq_ids: Sequence[int]) -> int:
        return 0

    def begin(self, rows: Sequence[tuple[int, int, int]]) -> bool:
        assert not self._rows, "the last draft was dropped"
        self._rows = [_hash(self._model._tips[seq_id].visible, [token]) for seq_id, _, token in rows]
        return self._computed() and self.has_room

    def go_on(self, drafted: Sequence[tuple[int, int]]) -> bool:
        self._rows = [_hash(self._rows[place], [token]) for place, token in drafted]
        return self._computed()

    def _computed(self) -> bool:
        self.before_decode()
        self.tokens_total += len(self._rows)
        return True

    def logits(self, place: int) -> Logits:
        visible = self._rows[place]
        logits = self._model._next_logits(visible)
        return np.where(np.isfinite(logits), -logits, logits) if visible[1] % 10 < self._wrong else logits

    def drop(self) -> None:
        self._rows = []


def driver(wrong: int = 0, is_always: bool = True, **options: Any) -> tuple[Driver, FakeHead]:
    model = FakeModel(n_ctx=4000, n_ctx_seq=1200)
    head = model.head = FakeHead(model, wrong)
    made = Driver(model, **({"max_draft": 4, "looks_up": False} | options))
    return always_draft(made) if is_always else made, head


def plain(**options: Any) -> Any:
    return written(Driver(FakeModel(n_ctx=4000, n_ctx_seq=1200)), **options)


def drafted(made: Driver) -> tuple[float, float]:
    stats = made.engine.stats()
    return stats["spec_decode_num_draft_tokens_total"], stats["spec_decode_num_accepted_tokens_total"]


@pytest.mark.parametrize("wrong", [0, 3, 10])
@pytest.mark.parametrize("place", range(len(OPTIONS)), ids=lambda place: str(OPTIONS[place]))
def test_no_draft_changes_a_text(place: int, wrong: int) -> None:
    made, head = driver(wrong)
    assert written(made, **OPTIONS[place]) == plain(**OPTIONS[place])
    assert head.tokens_total > 0
    drafter = made.engine._speculation._drafter
    assert isinstance(drafter, HeadDrafter)
    assert not drafter._guesses
    assert not drafter._chances_of


def test_a_head_that_knows_saves_decodes_of_all_branches() -> None:
    made, _ = driver()
    assert written(made, n=4, max_tokens=100, **GREEDY) == plain(n=4, max_tokens=100, **GREEDY)
    tokens, right = drafted(made)
    assert tokens == right > 0
    assert made.engine.stats()["n_decode_total"] < 30


def test_a_text_that_a_head_cannot_follow_is_written_without_drafts() -> None:
    made, head = driver()
    head.is_lost = True
    assert written(made, n=2, max_tokens=20) == plain(n=2, max_tokens=20)
    assert head.tokens_total == 0


def test_a_head_without_room_drafts_nothing() -> None:
    made, head = driver()
    head.has_room = False
    assert written(made, n=2, max_tokens=20) == plain(n=2, max_tokens=20)
    assert drafted(made) == (0, 0)


@pytest.mark.parametrize(("wrong", "pays"), [(0, True), (10, False)])
def test_a_head_is_asked_while_it_pays_and_reads_prompts_as_long(wrong: int, pays: bool) -> None:
    """The clock goes on by a second for a step of the model, and by a tenth for one of its head."""
    made, head = driver(wrong, is_always=False, max_draft=8)

    def wait(seconds: float) -> None:
        made.now += seconds

    made.model.before_decode, head.before_decode = (lambda: wait(1.0)), (lambda: wait(0.1))
    outcome = made.outcomes[made.submit(PROMPT, max_tokens=600, **GREEDY)]
    made.run()
    assert outcome.tokens == plain(max_tokens=600, **GREEDY)[0]
    assert (made.engine.stats()["n_decode_total"] < 300) is pays
    assert head.reads_prompts is pays
