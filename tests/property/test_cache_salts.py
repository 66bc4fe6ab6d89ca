"""Requests of one salt take no cell that another one's computed, whatever is parked, dropped, saved or drafted.

The oracle keeps all texts of each salt, and forgets none: a request finds no more of its prompt than the longest beginning
that it shares with one of its own salt's.
"""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from srb.engine.fake import FakeModel
from srb.wire.commands import StateAction
from srb.wire.events import PromptDone
from tests.engine_helpers import Driver
from tests.walks import examples

OPENING = tuple(FakeModel().tokenize("the old king said that a small boat was lost", True, True))
SALTS = ["", "a", "b"]


class SaltWalk(RuleBasedStateMachine):
    @initialize(
        memory=st.sampled_from([{}, {}, {"supports_partial_reuse": False}, {"has_states": True}]),
        cache_bytes=st.sampled_from([0, 10**6]),
        n_ctx=st.integers(60, 300),
        drafts=st.booleans(),
    )
    def begin(self, memory: dict[str, bool], cache_bytes: int, n_ctx: int, drafts: bool) -> None:
        draft = {"draft_model": FakeModel(200, 12, 32, 8), "max_draft": 3} if drafts else {}
        self.driver = Driver(FakeModel(n_ctx, 8, 32, 16, **memory), cache_bytes=cache_bytes, **draft)
        self.asked: dict[str, tuple[str, tuple[int, ...]]] = {}  # by request: salt and prompt
        self.actions = 0

    @rule(
        salt=st.sampled_from(SALTS),
        length=st.integers(1, len(OPENING)),
        more=st.lists(st.integers(5, 9), max_size=6),
        n=st.integers(1, 3),
        seed=st.integers(0, 9),
        state=st.sampled_from(["", "", "name"]),
    )
    def ask(self, salt: str, length: int, more: list[int], n: int, seed: int, state: str) -> None:
        self.send(salt, (*OPENING[:length], *more), n, seed, state)

    @rule(salt=st.sampled_from(SALTS), data=st.data(), n=st.integers(1, 3), seed=st.integers(0, 9))
    def guess(self, salt: str, data: st.DataObject, n: int, seed: int) -> None:
        """Ask for what another has sent or got."""
        texts = [text for each in SALTS for _, text in self.all_texts(each)]
        if texts:
            text = data.draw(st.sampled_from(texts))
            self.send(salt, text[: data.draw(st.integers(1, len(text)))], n, seed, "")

    def send(self, salt: str, prompt: tuple[int, ...], n: int, seed: int, state: str) -> None:
        if len(prompt) > 40:
            return
        request_id = self.driver.submit(prompt, n, seed, 6, cache_salt=salt, state=state)
        self.asked[request_id] = salt, prompt

    @rule(steps=st.integers(1, 30))
    def step(self, steps: int) -> None:
        for _ in range(steps):
            if self.driver.engine.has_work:
                self.driver.step()

    @rule(action=st.sampled_from(["save", "restore", "erase"]), slot=st.integers(0, 3))
    def act(self, action: str, slot: int) -> None:
        """Slots' texts are everybody's, but restoring one gives it to nobody else."""
        self.actions += 1
        name = "" if action == "erase" else "name"
        job = self.driver.engine.prepare(StateAction(f"s{self.actions}", action, name, slot))
        self.driver.take(self.driver.engine.submit(job))

    @invariant()
    def nobody_finds_what_another_salt_has_computed(self) -> None:
        if not hasattr(self, "driver"):
            return
        for request_id, (salt, prompt) in self.asked.items():
            outcome = self.driver.result(request_id)
            # All that this salt has sent so far, and got; the prompt itself is known to its own request alone.
            own = [text for other, text in self.all_texts(salt) if other != request_id]
            known = max((common(prompt, text) for text in own), default=0)
            for event in outcome.events:
                if isinstance(event, PromptDone):
                    assert event.cached_tokens <= known, f"{event.cached_tokens} of {known} tokens known to {salt!r}"

    def all_texts(self, salt: str) -> list[tuple[str, tuple[int, ...]]]:
        texts: list[tuple[str, tuple[int, ...]]] = []
        for request_id, (own, prompt) in self.asked.items():
            if own == salt:
                written = self.driver.result(request_id).tokens.values()
                texts += [(request_id, (*prompt, *tokens)) for tokens in written] or [(request_id, prompt)]
        return texts

    def teardown(self) -> None:
        if hasattr(self, "driver"):
            self.driver.run()
            self.nobody_finds_what_another_salt_has_computed()


def common(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    """Return the length of the beginning that two texts share."""
    pairs = zip(one, other, strict=False)
    differs = (place for place, (mine, its) in enumerate(pairs) if mine != its)
    return next(differs, min(len(one), len(other)))


SaltWalk.TestCase.settings = settings(max_examples=examples(60), stateful_step_count=30, deadline=None)
TestSaltWalk = pytest.mark.timeout(600)(SaltWalk.TestCase)


def test_a_text_is_found_by_its_own_salt_and_by_no_other() -> None:
    driver = Driver()
    found = []
    for salt in ("", "a", "b", "", "a", "b"):
        request_id = driver.submit(OPENING, cache_salt=salt)
        driver.run()
        [done] = [event for event in driver.result(request_id).events if isinstance(event, PromptDone)]
        found.append(done.cached_tokens)
    assert found == [0] * 3 + [len(OPENING)] * 3
