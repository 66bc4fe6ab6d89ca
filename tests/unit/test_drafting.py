"""A draft model: texts are the same with it as without, its memory follows them, and it is asked only where it pays."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from srb.engine.drafting import DraftModel, check_vocabularies
from srb.engine.fake import EOS, FATAL, FakeModel
from srb.engine.model import DecodeStatus, Logits
from srb.errors import ModelLoadFailed
from srb.wire.commands import ContextShift
from tests.engine_helpers import Always, Contrary, Driver, Wavering, always_draft
from tests.media import b64, png
from tests.unit.test_speculation import PROMPT, written

TWIN = FakeModel
GREEDY = {"temperature": 0.0, "ignore_eos": True}


def driver(
    draft: type[FakeModel] = TWIN,
    n_ctx: int = 1000,
    room: dict[str, Any] | None = None,
    n_adapters: int = 0,
    **options: Any,
) -> Driver:
    """Return a driver with a draft model that drafts wherever it can, whatever it takes."""
    options = {"max_draft": 4, "looks_up": False} | options
    model = FakeModel(n_ctx=n_ctx, n_ctx_seq=300, n_adapters=n_adapters, reads_media=True)
    return always_draft(Driver(model, draft_model=draft(**{"n_ctx": n_ctx} | (room or {})), **options))


def drafted(made: Driver) -> tuple[float, float]:
    stats = made.engine.stats()
    return stats["spec_decode_num_draft_tokens_total"], stats["spec_decode_num_accepted_tokens_total"]


def copied(made: Driver) -> int:
    """Return how many tokens the draft model has computed."""
    return int(made.engine.stats()["spec_decode_draft_model_tokens_total"])


OPTIONS: tuple[dict[str, Any], ...] = (
    {"n": 1, "max_tokens": 60, "temperature": 0.0},
    {"n": 8, "max_tokens": 25, "temperature": 0.3},
    {"n": 3, "max_tokens": 33, "stop": (" king", "fox the")},
    {"n": 3, "max_tokens": 90, "stop_at": "sentence"},
    {"n": 2, "max_tokens": 30, "n_probs": 2},
    {"n": 2, "max_tokens": 30, "cache_prompt": False},
    {"n": 1, "max_tokens": 400, "temperature": 0.2},
    {"n": 3, "max_tokens": 20, "banned_strings": ("KING", " the")},
    {"n": 2, "max_tokens": 2},
    {"n": 2, "max_tokens": 30, "lora": ((0, 0.5),)},
    {"n": 3, "max_tokens": 20, "append": (5, 6, 7)},
)


@cache
def without_drafts(place: int) -> tuple[Any, float, Any]:
    """Return the texts of the options at a place, the number of their tokens, and the texts of a request after them."""
    plain = Driver(FakeModel(n_ctx=1000, n_ctx_seq=300, n_adapters=1 if "lora" in OPTIONS[place] else 0))
    texts, predicted = written(plain, **OPTIONS[place]), plain.engine.stats()["tokens_predicted_total"]
    return texts, predicted, written(plain, seed=9, n=2)


@pytest.mark.parametrize("draft", [TWIN, Contrary, Wavering])
@pytest.mark.parametrize("place", range(len(OPTIONS)), ids=lambda place: str(OPTIONS[place]))
@pytest.mark.parametrize("room", [{}, {"n_ctx": 40}, {"n_seq_max": 3}, {"n_ctx_seq": 30}])
def test_no_draft_changes_a_text(draft: type[FakeModel], place: int, room: dict[str, int]) -> None:
    texts, predicted, later = without_drafts(place)
    made = driver(draft, room=room, n_adapters=1 if "lora" in OPTIONS[place] else 0)
    assert written(made, **OPTIONS[place]) == texts
    assert made.engine.stats()["tokens_predicted_total"] == predicted
    assert written(made, seed=9, n=2) == later  # the trees hold what they held without drafts


def test_a_twin_of_the_model_is_always_right() -> None:
    plain, made = Driver(FakeModel(n_ctx=1000)), driver()
    assert written(made, n=2, max_tokens=100, **GREEDY) == written(plain, n=2, max_tokens=100, **GREEDY)
    tokens, right = drafted(made)
    assert tokens == right > 0
    assert made.engine.stats()["n_decode_total"] < 0.3 * plain.engine.stats()["n_decode_total"]


class Overflowing(FakeModel):
    """A draft model whose computations overflow: none of its logits is a number."""

    def _next_logits(self, visible: bytes) -> Logits:
        return np.full_like(super()._next_logits(visible), np.nan)


@pytest.mark.parametrize("temperature", [0.0, 0.5])
def test_a_draft_model_without_numbers_drafts_nothing(temperature: float) -> None:
    plain, made = Driver(FakeModel(n_ctx=1000)), driver(Overflowing)
    options = {"n": 2, "max_tokens": 20, "temperature": temperature}
    assert written(made, **options) == written(plain, **options)
    assert drafted(made) == (0, 0)
    assert copied(made) > 0, "it was asked"


def test_a_draft_that_is_always_wrong_is_soon_not_asked_any_more() -> None:
    model = FakeModel(n_ctx=4000)
    made = Driver(model, max_draft=4, looks_up=False, draft_model=Contrary(n_ctx=4000))
    request_id = made.submit(PROMPT, 2, 1, 1000, **GREEDY)
    made.run()
    tokens, right = drafted(made)
    assert right == 0
    assert 0 < tokens < 40
    assert made.result(request_id).tokens[0] == written(Driver(FakeModel(4000)), n=2, max_tokens=1000, **GREEDY)[0][0]
    draft = made.engine._speculation._drafter
    assert isinstance(draft, DraftModel)
    assert isinstance(draft.model, FakeModel)
    assert draft.model.n_decodes < 0.1 * model.n_decodes


def test_a_twin_that_pays_is_found_by_measuring() -> None:
    """The clock goes on by a second for a step of the model, and by a twentieth for one of its draft."""
    plain, model, draft = Driver(FakeModel(n_ctx=4000)), FakeModel(n_ctx=4000), FakeModel(n_ctx=4000)
    made = Driver(model, max_draft=8, looks_up=False, draft_model=draft)

    def wait(seconds: float) -> None:
        made.now += seconds

    model.before_decode, draft.before_decode = (lambda: wait(1.0)), (lambda: wait(0.05))
    assert written(made, max_tokens=300, **GREEDY) == written(plain, max_tokens=300, **GREEDY)
    assert drafted(made)[1] > 200
    assert made.engine.stats()["n_decode_total"] < 100


def test_a_draft_model_that_is_slow_at_first_is_tried_again_soon() -> None:
    """Its file is not in memory yet, so reading the prompt takes as long as a hundred steps, and so does its first pass."""
    model, draft = FakeModel(n_ctx=4000), FakeModel(n_ctx=4000)
    made = Driver(model, max_draft=8, looks_up=False, draft_model=draft)
    slow = [100.0, 100.0]

    def wait(seconds: float) -> None:
        made.now += seconds

    model.before_decode = lambda: wait(1.0)
    draft.before_decode = lambda: wait(slow.pop() if slow else 0.05)
    made.submit(PROMPT, max_tokens=300, **GREEDY)
    made.run()
    assert not slow
    assert drafted(made)[1] > 200


def test_a_twin_that_takes_as_long_as_the_model_is_hardly_asked() -> None:
    model, draft = FakeModel(n_ctx=4000), FakeModel(n_ctx=4000)
    made = Driver(model, max_draft=8, looks_up=False, draft_model=draft)

    def wait() -> None:
        made.now += 1.0

    model.before_decode = draft.before_decode = wait
    made.submit(PROMPT, 1, 1, 1000, **GREEDY)
    made.run()
    assert draft.n_decodes < 0.1 * model.n_decodes


class Turning(FakeModel):
    """A draft model that is always wrong, until it is always right."""

    is_right = False

    def _next_logits(self, visible: bytes) -> Logits:
        logits = super()._next_logits(visible)
        return logits if self.is_right else np.where(np.isfinite(logits), -logits, logits)


def test_a_draft_model_that_begins_to_pay_is_found_by_a_later_request() -> None:
    model, draft = FakeModel(n_ctx=4000), Turning(n_ctx=4000)
    made = Driver(model, max_draft=8, looks_up=False, draft_model=draft)

    def wait(seconds: float) -> None:
        made.now += seconds

    model.before_decode, draft.before_decode = (lambda: wait(1.0)), (lambda: wait(0.05))
    made.submit(PROMPT, 1, 1, 600, **GREEDY)
    for _ in range(450):
        made.step()
    before = draft.n_decodes
    for _ in range(100):
        made.step()
    assert draft.n_decodes - before < 20
    draft.is_right = True
    made.run()
    made.submit(PROMPT, 1, 1, 1000, **GREEDY)
    made.run()
    assert drafted(made)[1] > 500


def test_a_prompt_is_computed_once_by_the_draft_model_for_all_branches() -> None:
    made = driver()
    prompt = len(made.engine.tokenize([PROMPT], True, True))
    request_id = made.submit(PROMPT * 3, 8, 1, 20, **GREEDY)
    whole = len(made.request(request_id).prefix.tokens)
    made.run()
    tokens = sum(map(len, made.result(request_id).tokens.values()))
    assert whole > prompt
    assert copied(made) <= whole + tokens + 8


def test_a_text_that_is_gone_on_with_is_not_read_again() -> None:
    made = driver()
    first = made.submit(PROMPT * 5, 1, 1, 30, **GREEDY)
    made.run()
    text = [*made.engine.tokenize([PROMPT * 5], True, True), *made.result(first).tokens[0]]
    before = copied(made)
    again = made.submit(text, 1, 1, 30, **GREEDY)
    made.run()
    assert len(made.result(again).tokens[0]) == 30
    assert copied(made) - before < 45


def test_both_kinds_of_drafts_go_together() -> None:
    plain = Driver(FakeModel(n_ctx=4000))
    made = driver(n_ctx=4000, looks_up=True)
    bias = tuple((token, None) for token in range(plain.model.n_vocab) if token not in (9, 10, EOS))
    for options in ({"logit_bias": bias, "n": 2}, {"n": 3, "temperature": 0.3}):
        assert written(made, max_tokens=60, **options) == written(plain, max_tokens=60, **options)
    assert made.engine.stats()["n_decode_total"] < 0.8 * plain.engine.stats()["n_decode_total"]


def test_context_shifts_begin_a_text_anew() -> None:
    options = {"max_tokens": 150, "shift": ContextShift(0, 0), **GREEDY}
    texts = []
    for draft in (None, FakeModel(n_ctx=512)):
        made = Driver(FakeModel(n_ctx_seq=40), max_draft=4, looks_up=False, draft_model=draft)
        if draft is not None:
            always_draft(made)
        outcome = made.outcomes[made.submit(PROMPT, **options)]
        made.run()
        texts.append((dict(outcome.tokens), outcome.ends[0].length))
        assert made.engine.stats()["context_shifts_total"] > 4
    assert texts[0] == texts[1]
    assert drafted(made)[1] > 20


def test_branches_that_are_added_stopped_and_changed_keep_their_texts() -> None:
    made, plain = driver(), Driver(FakeModel(n_ctx=1000, n_ctx_seq=300))
    ends = []
    for each in (made, plain):
        request_id = each.submit(PROMPT, 3, 1, 40, linger=60.0, can_grow=True, temperature=0.2)
        for _ in range(4):
            each.step()
        each.stop(request_id, 0)
        each.add(request_id)
        for _ in range(60):
            if each.engine.has_work:
                each.step()
        each.change(request_id, 1, more=20)
        for _ in range(60):
            if each.engine.has_work:
                each.step()
        each.advance(100.0)
        ends.append({index: tokens for index, tokens in each.result(request_id).tokens.items() if index})
        each.check_drained()
    assert ends[0][1] == ends[1][1]
    assert ends[0][2] == ends[1][2]


def test_a_fork_of_a_running_branch_has_drafts_of_its_own() -> None:
    made = driver()
    request_id = made.submit(PROMPT, 1, 1, 40, can_grow=True, **GREEDY)
    for _ in range(6):
        made.step()
    made.add(request_id, origin=0, token=5)
    made.run()
    tokens = made.result(request_id).tokens
    assert [*tokens[0][:5], *tokens[1]][:40] == tokens[0]


def test_a_text_about_a_picture_has_no_drafts() -> None:
    made = driver()
    prompt = (PROMPT, -1, " then")
    made.submit(prompt, 2, 1, 20, media=(b64(png(seed=1)),))
    made.run()
    assert drafted(made) == (0, 0)
    assert copied(made) == 0


def test_a_draft_model_that_fails_is_not_asked_again() -> None:
    for status in (DecodeStatus.FATAL, DecodeStatus.INVALID):
        made, plain = driver(), Driver(FakeModel(n_ctx=1000))
        draft = made.engine._speculation._drafter
        assert isinstance(draft, DraftModel)
        outcome = made.outcomes[made.submit(PROMPT, 2, 1, 60, **GREEDY)]
        for _ in range(5):
            made.step()
        assert isinstance(draft.model, FakeModel)
        draft.model.failures.append(status)
        made.run()
        computed = draft.model.n_decodes
        assert dict(outcome.tokens) == written(plain, n=2, max_tokens=60, **GREEDY)[0]
        made.submit(PROMPT, 2, 1, 20)
        made.run()
        assert draft.has_failed
        assert draft.model.n_decodes == computed


def test_a_draft_model_without_room_writes_nothing_and_breaks_nothing() -> None:
    made, plain = driver(), Driver(FakeModel(n_ctx=1000))
    draft = made.engine._speculation._drafter
    assert isinstance(draft, DraftModel)
    assert isinstance(draft.model, FakeModel)
    outcome = made.outcomes[made.submit(PROMPT, 2, 1, 60, **GREEDY)]
    for _ in range(5):
        made.step()
    draft.model.failures += [DecodeStatus.NO_ROOM] * 3
    made.run()
    assert dict(outcome.tokens) == written(plain, n=2, max_tokens=60, **GREEDY)[0]
    assert drafted(made)[1] > 0


def test_a_step_of_the_model_that_fails_is_tried_again_without_drafts() -> None:
    plain = Driver(FakeModel(n_ctx=1000))
    expected = written(plain, n=2, max_tokens=40, **GREEDY)
    made = driver()
    for status in (DecodeStatus.NO_ROOM, DecodeStatus.INVALID):
        outcome = made.outcomes[made.submit(PROMPT, n=2, max_tokens=40, **GREEDY)]
        for _ in range(6):
            made.step()
        made.model.failures.append(status)
        made.run()
        assert dict(outcome.tokens) == expected[0]
    assert made.engine.stats()["branches_paused_total"] == 0


def test_a_long_text_is_read_in_parts() -> None:
    """Everything waits for the draft model, so it computes at most a ubatch of a text in a step."""
    made = driver(room={"n_ubatch": 8})
    draft = made.engine._speculation._drafter
    assert isinstance(draft, DraftModel)
    made.submit(PROMPT * 8, 2, 1, 40, **GREEDY)
    most = 0
    while made.engine.has_work:
        before = copied(made)
        made.step()
        if not draft._copies:
            most = max(most, copied(made) - before)
    assert 0 < most <= 8


def test_requests_with_one_prompt_wait_for_each_other_in_the_draft_model() -> None:
    made = driver(room={"n_ubatch": 8})
    ids = [made.submit(PROMPT * 8, 1, 1, 60, **GREEDY) for _ in range(3)]
    whole = len(made.request(ids[0]).prefix.tokens)
    made.run()
    assert copied(made) < whole + 3 * 66


@pytest.mark.parametrize("n", [2, 16])
def test_a_text_that_does_not_pay_is_weighed_once_a_step_for_all_its_branches(n: int) -> None:
    made = driver(n_ctx=4000, room={"n_ubatch": 8})
    weighed = 0

    class Refusing(Always):
        def may_read(self, lag: int, foreseen: int) -> bool:
            return False

    def foreseen(request: Any) -> int:
        nonlocal weighed
        weighed += 1
        return 20

    made.engine._speculation._decision = Refusing()
    made.engine._speculation._foreseen = foreseen  # type: ignore[method-assign]
    made.submit(PROMPT * 8, n, 1, 20, **GREEDY)
    steps = 0
    while made.engine.has_work:
        made.step()
        steps += 1
    assert 10 < weighed <= steps


@pytest.mark.parametrize("options", [GREEDY, {"stop": (" king", "fox the"), "temperature": 0.3}])
def test_ends_tell_how_many_tokens_were_drafted(options: dict[str, Any]) -> None:
    made = driver(Wavering)
    outcome = made.outcomes[made.submit(PROMPT, 8, 1, 60, **options)]
    made.run()
    [done] = outcome.terminal
    assert (done.drafted_tokens, done.accepted_tokens) == drafted(made)
    assert sum(end.drafted for end in outcome.ends.values()) == done.drafted_tokens > done.accepted_tokens > 0
    assert sum(end.accepted for end in outcome.ends.values()) == done.accepted_tokens


def test_memory_that_cannot_be_cut_has_no_drafts() -> None:
    model = FakeModel(n_ctx=1000, supports_partial_reuse=False)
    made = always_draft(Driver(model, max_draft=4, draft_model=FakeModel()))
    written(made, n=2, max_tokens=40)
    assert drafted(made) == (0, 0)
    assert copied(made) == 0


class Shorter(FakeModel):
    """A model whose vocabulary ends before the tokens that make decodes fail, as padding differs in a family."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.n_vocab -= 3

    def _next_logits(self, visible: bytes) -> Any:
        self.n_vocab += 3
        logits = super()._next_logits(visible)
        self.n_vocab -= 3
        return logits[:-3]


def test_vocabularies_may_differ_in_padding_alone() -> None:
    check_vocabularies(FakeModel(), Shorter(), ("a.gguf", "b.gguf"))
    made = driver(Shorter)
    plain = Driver(FakeModel(n_ctx=1000))
    assert written(made, n=2, max_tokens=40, **GREEDY) == written(plain, n=2, max_tokens=40, **GREEDY)
    assert drafted(made)[1] > 0


class Other(FakeModel):
    def piece(self, token: int, special: bool = False) -> bytes:
        return b" else" if token == 9 else super().piece(token, special)


class NoBOS(FakeModel):
    def __init__(self) -> None:
        super().__init__()
        self.bos_id = 5


class Longer(FakeModel):
    def __init__(self) -> None:
        super().__init__()
        self.n_vocab = FATAL + 200


@pytest.mark.parametrize(("draft", "told"), [(Other, "else"), (NoBOS, "bos_id is 0 and 5"), (Longer, "tokens")])
def test_another_vocabulary_is_refused_with_both_files(draft: type[FakeModel], told: str) -> None:
    with pytest.raises(ModelLoadFailed, match=told) as raised:
        check_vocabularies(FakeModel(), draft(), ("big.gguf", "small.gguf"))
    assert "big.gguf" in raised.value.message
    assert raised.value.message.startswith("spec_draft_model: small.gguf")
