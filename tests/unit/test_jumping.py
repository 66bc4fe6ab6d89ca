"""Tokens that a grammar forces: they are appended without a step of their own, and are tokens like any other."""

from __future__ import annotations

import json
from typing import Any

import pytest

from srb.engine import branches
from srb.engine.fake import FakeModel
from srb.engine.request import Branch
from srb.wire.events import FinishReason
from tests.engine_helpers import Driver, solo

PROMPT = "the old king"
KEYS = ["first name", "last name", "street", "house number", "postal code", "city", "country", "is a customer"]
SCHEMA = {"type": "object", "properties": {key: {"enum": [0, 1, 2]} for key in KEYS}, "required": KEYS}
FORM: dict[str, Any] = {"json_schema": json.dumps(SCHEMA), "max_tokens": 400}


def run(n: int, **options: Any) -> tuple[Driver, Any]:
    driver = Driver(FakeModel(n_ctx=8000, n_seq_max=32, n_batch=256, n_ubatch=256))
    outcome = driver.result(driver.submit(PROMPT, n=n, seed=1, **options))
    driver.run()
    return driver, outcome


def test_a_form_of_eight_keys_takes_few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    driver, outcome = run(8, **FORM)
    for text in outcome.texts.values():
        assert list(json.loads(text)) == KEYS
    jumping = driver.model.n_decodes
    monkeypatch.setattr(Branch, "may_jump", False)
    driver, outcome = run(8, **FORM)
    assert all(list(json.loads(text)) == KEYS for text in outcome.texts.values())
    assert jumping <= 0.6 * driver.model.n_decodes


def test_branches_that_jump_write_what_each_would_alone() -> None:
    driver, outcome = run(8, **FORM)
    for index, text in outcome.texts.items():
        assert text == solo(PROMPT, 1 + index, 400, json_schema=FORM["json_schema"]).texts[0]
    assert len(set(outcome.texts.values())) > 1
    assert driver.engine.stats()["tokens_forced_total"] > 8 * sum(map(len, KEYS)) / 2


@pytest.mark.parametrize("limit", [1, 2, 5, 17, 30])
def test_a_limit_ends_a_branch_among_forced_tokens_and_it_goes_on_from_there(limit: int) -> None:
    driver = Driver(FakeModel(n_ctx=2000))
    grammar = 'root ::= [ab] "forced text" [ab] "and more of it" [ab]'
    request_id = driver.submit(PROMPT, n=2, seed=1, max_tokens=limit, grammar=grammar, linger=60)
    driver.run()
    whole = driver.submit(PROMPT, n=2, seed=1, max_tokens=100, grammar=grammar)
    driver.run()
    for index, text in driver.result(whole).texts.items():
        begun = driver.result(request_id)
        assert text.startswith(begun.texts[index])
        if limit < len(text):
            assert (begun.ends[index].reason, begun.ends[index].length) == (FinishReason.LIMIT, limit)
            driver.change(request_id, index, more=100)
    driver.run()
    assert driver.result(request_id).texts == driver.result(whole).texts
    assert {end.reason for end in driver.result(request_id).ends.values()} == {FinishReason.EOS}


def test_a_stop_string_within_forced_text_ends_the_branch() -> None:
    _, outcome = run(2, grammar='root ::= [ab] "one two three" [ab]', stop=("two",))
    assert {
        (text[1:], end.reason) for text, end in zip(outcome.texts.values(), outcome.ends.values(), strict=True)
    } == {("one ", FinishReason.WORD)}


def test_a_branch_whose_tokens_probabilities_are_asked_for_samples_each_of_them() -> None:
    _, outcome = run(1, grammar='root ::= [ab] "forced" [ab]', n_probs=1)
    assert [prob["id"] for event in outcome.events for prob in getattr(event, "probs", None) or ()] == outcome.tokens[0]


def test_forced_tokens_wait_for_room_as_any_others() -> None:
    """Cells for a part of them alone: the branches pause, and write the same."""
    form = {"grammar": 'root ::= ( [ab] "some text that has no choice" ){3}', "max_tokens": 200}
    texts = []
    for n_ctx in (2000, 130):
        driver = Driver(FakeModel(n_ctx=n_ctx, n_seq_max=8))
        outcome = driver.result(driver.submit(PROMPT, n=4, seed=1, **form))
        driver.run()
        texts.append(dict(outcome.texts))
        assert {end.reason for end in outcome.ends.values()} == {FinishReason.EOS}
    assert texts[0] == texts[1]


def test_a_long_constant_takes_a_few_tokens_of_a_step_and_the_text_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    form = {"grammar": 'root ::= [ab] "' + "some text that has no choice " * 40 + '" [a-z]{9}', "max_tokens": 2000}
    driver, outcome = run(4, **form)
    monkeypatch.setattr(branches, "MAX_JUMP", 10**6)
    whole_driver, whole = run(4, **form)
    assert outcome.texts == whole.texts
    assert {end.reason for end in outcome.ends.values()} == {FinishReason.EOS}
    assert driver.model.n_decodes > whole_driver.model.n_decodes
    monkeypatch.setattr(branches, "MAX_JUMP", 8)
    driver = Driver(FakeModel(n_ctx=8000, n_seq_max=32, n_batch=256, n_ubatch=256))
    beside = driver.submit(PROMPT, max_tokens=60, ignore_eos=True)
    driver.step()
    jumping = driver.submit(PROMPT, n=4, seed=1, **form)
    driver.step()
    for _ in range(40):
        before = [branch.length for branch in driver.request(jumping).branches]
        of_beside = driver.request(beside).branches[0].length
        driver.step()
        grown = [branch.length - then for branch, then in zip(driver.request(jumping).branches, before, strict=True)]
        assert max(grown) <= 9
        assert driver.request(beside).branches[0].length == of_beside + 1
    driver.run()
    assert driver.result(jumping).texts == whole.texts
