"""Random walks of the engine: whatever is submitted, cancelled or fails, nothing is lost and every text is right.

Invariants are checked after every operation. The oracle: branch i with seed s is the text of a solo run with seed
s + i, whatever else was running; a branch that was cancelled has a beginning of it.
"""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from srb.engine.banned import fold
from srb.engine.fake import FakeModel
from srb.engine.model import DecodeStatus
from srb.engine.request import BranchState
from srb.protocol import (
    BranchAdded,
    ContextShift,
    Embed,
    Explore,
    Failed,
    FinishReason,
    GetSlots,
    PromptDone,
    PromptLogprobs,
    StateAction,
)
from tests.engine_helpers import Driver, Outcome, parked_bytes, solo

PROMPTS = ["the old king said", "the old king said then the fox", "a", "river boat " * 12, "☃ snow"]


@dataclass(frozen=True)
class Submitted:
    prompt: str | tuple[int, ...]
    n: int
    seed: int
    max_tokens: int
    stop: tuple[str, ...]
    lora: tuple[tuple[int, float], ...] = ((0, 0.0),)
    shift: ContextShift | None = None
    banned: tuple[str, ...] = ()


def leaves(outcome: Outcome) -> set[tuple[str, int, str]]:
    """Return text, length and end of each branch of a walk."""
    begun = {event.index: event.text for event in outcome.events if isinstance(event, BranchAdded)}
    return {
        (begun.get(index, "") + outcome.texts[index], end.length, end.reason) for index, end in outcome.ends.items()
    }


class EngineWalk(RuleBasedStateMachine):
    @initialize(
        n_ctx=st.integers(70, 160) | st.integers(70, 400),
        n_seq_max=st.integers(2, 12),
        n_ubatch=st.integers(4, 32),
        short=st.booleans(),
        supports_partial_reuse=st.booleans(),
        cache_cells=st.sampled_from([0, 20, 100, 10**6]),
        cache_bytes=st.sampled_from([0, parked_bytes(1, 30), parked_bytes(6, 200), 10**6, 10**6, 10**6]),
        max_running=st.sampled_from([0, 0, 1, 3]),
    )
    def begin(
        self,
        n_ctx: int,
        n_seq_max: int,
        n_ubatch: int,
        short: bool,
        supports_partial_reuse: bool,
        cache_cells: int,
        cache_bytes: int,
        max_running: int,
    ) -> None:
        self.n_ctx_seq = 60 if short else n_ctx
        model = FakeModel(
            n_ctx,
            n_seq_max,
            32,
            n_ubatch,
            n_ctx_seq=self.n_ctx_seq,
            supports_partial_reuse=supports_partial_reuse,
            n_adapters=1,
        )
        self.driver = Driver(model, cache_cells=cache_cells, cache_bytes=cache_bytes, max_running=max_running)
        self.max_running = max_running
        self.submitted: dict[str, Submitted] = {}
        self.may_fail = False
        self.embedded = self.acted = 0
        self.explored: dict[str, tuple[str, Explore]] = {}
        self.scored: list[str] = []  # whose prompts' probabilities were asked for

    @rule(
        prompt=st.sampled_from(PROMPTS),
        n=st.integers(1, 10),
        seed=st.integers(0, 1000),
        max_tokens=st.integers(-1, 25) | st.sampled_from([60, 100]),
        stop=st.sampled_from([(), (" king",), (".", " fox said")]),
        banned=st.sampled_from([(), (), ("KING",), (" the", "n t", "lamp and"), ("a", "e o", "?")]),
        scale=st.sampled_from([0.0, 0.0, 0.5]),
        prompt_logprobs=st.booleans(),
        id_slot=st.integers(-1, 3),
    )
    def submit(
        self,
        prompt: str,
        n: int,
        seed: int,
        max_tokens: int,
        stop: tuple[str, ...],
        scale: float,
        prompt_logprobs: bool,
        id_slot: int = -1,
        banned: tuple[str, ...] = (),
    ) -> None:
        lora = ((0, scale),)
        options = {"stop": stop, "lora": lora, "prompt_logprobs": prompt_logprobs, "id_slot": id_slot}
        options["banned_strings"] = banned
        request_id = self.driver.submit(prompt, n, seed, max_tokens, **options)
        self.submitted[request_id] = Submitted(prompt, n, seed, max_tokens, stop, lora, banned=banned)
        if prompt_logprobs:
            self.scored.append(request_id)

    @rule(
        seed=st.integers(0, 1000),
        max_tokens=st.integers(30, 150),
        n_keep=st.sampled_from([-1, 0, 5]),
        n_discard=st.sampled_from([0, 1, 7]),
        banned=st.sampled_from([(), ("a", "e", "n t"), (" the old", "t", "lamp and", " o")]),
    )
    def submit_one_that_shifts(
        self, seed: int, max_tokens: int, n_keep: int, n_discard: int, banned: tuple[str, ...]
    ) -> None:
        shift = ContextShift(n_keep, n_discard)
        request_id = self.driver.submit(
            PROMPTS[0], 1, seed, max_tokens, shift=shift, lora=((0, 0.0),), banned_strings=banned
        )
        self.submitted[request_id] = Submitted(PROMPTS[0], 1, seed, max_tokens, (), shift=shift, banned=banned)

    @rule(
        prompt=st.sampled_from(PROMPTS),
        cutoff=st.sampled_from([1.0, 0.7, 0.3, 0.01]),
        max_branches=st.integers(1, 12),
        depth=st.integers(1, 12),
    )
    def explore(self, prompt: str, cutoff: float, max_branches: int, depth: int) -> None:
        asked = Explore(cutoff, max_branches, depth)
        request_id = self.driver.submit(prompt, 1, 1, -1, explore=asked, lora=((0, 0.0),))
        self.explored[request_id] = prompt, asked

    @precondition(lambda self: self.explored)
    @rule(data=st.data())
    def cancel_a_walk(self, data: st.DataObject) -> None:
        self.driver.cancel(data.draw(st.sampled_from(list(self.explored))))

    @rule(words=st.lists(st.sampled_from(PROMPTS[:3]), min_size=1, max_size=6))
    def embed(self, words: list[str]) -> None:
        """Something that needs the decode thread and leaves nothing behind."""
        self.embedded += 1
        command = Embed(f"e{self.embedded}", tuple((word[:2],) for word in words))
        self.driver.take(self.driver.engine.submit(self.driver.engine.prepare(command)))

    @precondition(lambda self: self.submitted)
    @rule(
        data=st.data(),
        n=st.integers(1, 8),
        seed=st.integers(0, 1000),
        more=st.sampled_from([(), (), (), (5,), (5, 6, 7), (9,) * 20]),
        cut=st.sampled_from([0, 0, 1]) | st.integers(0, 30),
        cache_prompt=st.booleans(),
    )
    def go_on_from_a_branch(
        self, data: st.DataObject, n: int, seed: int, more: tuple[int, ...], cut: int, cache_prompt: bool
    ) -> None:
        """As a writer does: the prompt, a branch's text or a part of it, and something new."""
        request_id = data.draw(st.sampled_from(list(self.submitted)))
        before = self.submitted[request_id]
        text = self.driver.result(request_id).tokens.get(data.draw(st.integers(0, before.n - 1)), [])
        prompt = before.prompt
        head = self.driver.model.tokenize(prompt, True, True) if isinstance(prompt, str) else prompt
        tokens = (*head, *text[: max(0, len(text) - cut)], *more)
        if len(tokens) < self.n_ctx_seq:
            new_id = self.driver.submit(tokens, n, seed, 8, cache_prompt=cache_prompt, lora=before.lora)
            self.submitted[new_id] = Submitted(tokens, n, seed, 8, (), before.lora)

    @rule(n=st.integers(2, 5), seed=st.integers(0, 1000), max_tokens=st.sampled_from([0, 1, 8]))
    def ask_for_what_paused_branches_have_written(self, n: int, seed: int, max_tokens: int) -> None:
        """Prompts that end exactly where paused branches will be resumed, and leave their logits there."""
        self.submit(PROMPTS[1], n, seed, 40, (), 0.0, False)
        asked: list[list[int]] = []
        for _ in range(60):
            if not self.driver.engine.has_work or len(asked) >= 4:
                return
            self.driver.step()
            for request_id, tokens in self.driver.paused():
                if request_id not in self.submitted or tokens in asked or len(tokens) >= self.n_ctx_seq:
                    continue
                asked.append(tokens)
                lora = self.submitted[request_id].lora
                new_id = self.driver.submit(tokens, 1, 7, max_tokens, lora=lora)
                self.submitted[new_id] = Submitted(tuple(tokens), 1, 7, max_tokens, (), lora)

    @rule(action=st.sampled_from(["save", "restore", "erase"]), slot=st.integers(0, 3))
    def act_on_a_state(self, action: str, slot: int) -> None:
        """Whatever is kept or erased while others run, no text changes."""
        self.acted += 1
        command = StateAction(f"s{self.acted}", action, "a name", slot)
        self.driver.take(self.driver.engine.submit(self.driver.engine.prepare(command)))

    @rule()
    def look_at_the_slots(self) -> None:
        slots = self.driver.engine.serve_query(GetSlots("q"))
        requests = [request for request in self.driver.engine._requests.values() if not request.is_queued]
        running = sum(len(request.in_state(BranchState.RUNNING)) for request in requests)
        busy = [slot for slot in slots if slot["is_processing"]]
        assert len(busy) == (len(requests) if self.max_running else running)
        assert len(slots) == (self.max_running or self.driver.model.n_seq_max)

    @rule(steps=st.integers(1, 10))
    def step(self, steps: int) -> None:
        for _ in range(steps):
            if self.driver.engine.has_work:
                self.driver.step()

    @precondition(lambda self: self.submitted)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        request_id = data.draw(st.sampled_from(list(self.submitted)))
        index = data.draw(st.none() | st.integers(0, self.submitted[request_id].n - 1))
        self.driver.cancel(request_id, index)

    @rule(statuses=st.lists(st.sampled_from([DecodeStatus.NO_ROOM, DecodeStatus.INVALID, DecodeStatus.OK]), min_size=1))
    def fail_decodes(self, statuses: list[DecodeStatus]) -> None:
        if self.driver.engine.has_work:
            self.may_fail = True
            self.driver.model.failures += statuses
            self.driver.step()
            self.driver.model.failures.clear()

    @rule(before=st.sampled_from([[], [DecodeStatus.INVALID]]))
    def fail_for_good(self, before: list[DecodeStatus]) -> None:
        if self.driver.engine.has_work:
            self.may_fail = True
            self.driver.now += 100  # a minute has passed since the last one
            self.driver.model.failures += [*before, DecodeStatus.FATAL]
            self.driver.step()
            self.driver.model.failures.clear()

    def teardown(self) -> None:
        if not hasattr(self, "driver"):
            return
        self.driver.run()
        for request_id, submitted in self.submitted.items():
            self.check_texts(request_id, submitted)
        for request_id, (prompt, asked) in self.explored.items():
            self.check_leaves(request_id, prompt, asked)

    def check_leaves(self, request_id: str, prompt: str, asked: Explore) -> None:
        """A walk that ran to its end has the leaves of one that ran alone, with all the room."""
        outcome = self.driver.result(request_id)
        if isinstance(outcome.terminal[0], Failed):
            assert self.may_fail
            return
        if any(end.truncated or end.reason == FinishReason.CANCELLED for end in outcome.ends.values()):
            return
        alone = solo(prompt, 1, -1, explore=asked, lora=((0, 0.0),), n_ctx_seq=self.n_ctx_seq)
        assert leaves(outcome) == leaves(alone)

    def check_texts(self, request_id: str, submitted: Submitted) -> None:
        outcome = self.driver.result(request_id)
        if isinstance(outcome.terminal[0], Failed):
            assert self.may_fail
            return
        assert set(outcome.ends) == set(range(submitted.n))
        if request_id in self.scored and any(isinstance(event, PromptDone) for event in outcome.events):
            scores = [
                prob["id"] for event in outcome.events if isinstance(event, PromptLogprobs) for prob in event.probs
            ]
            assert scores == self.driver.model.tokenize(str(submitted.prompt), True, True)
        for index, end in outcome.ends.items():
            assert not any(fold(string) in fold(outcome.texts[index]) for string in submitted.banned)
            expected = solo(
                submitted.prompt,
                submitted.seed + index,
                submitted.max_tokens,
                stop=submitted.stop,
                lora=submitted.lora,
                shift=submitted.shift,
                n_ctx_seq=self.n_ctx_seq,
                banned_strings=submitted.banned,
            )
            if end.reason == FinishReason.CANCELLED:
                # What was held back is released at the end, so a stop string's beginning may show: compare without.
                unstopped = solo(
                    submitted.prompt,
                    submitted.seed + index,
                    submitted.max_tokens,
                    lora=submitted.lora,
                    shift=submitted.shift,
                    n_ctx_seq=self.n_ctx_seq,
                    banned_strings=submitted.banned,
                )
                shown = outcome.tokens[index]
                assert shown == unstopped.tokens[0][: len(shown)]
            elif end.truncated and self.may_fail:
                assert expected.texts[0].startswith(outcome.texts[index].rstrip("\ufffd"))
            else:
                assert outcome.texts[index] == expected.texts[0]
                ends = [(each.reason, each.length, each.rewinds, each.code) for each in (end, expected.ends[0])]
                assert ends[0] == ends[1]


EngineWalk.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestEngineWalk = EngineWalk.TestCase
