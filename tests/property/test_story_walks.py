"""Walks of one writer: texts are only ever continued, whole, by half, edited or from ten turns ago, for a long time.

Chains become deep, short nodes merge and are cut again, texts are parked, restored and forgotten on their way. Invariants
are checked after every operation; the oracle is the solo run of each text.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from srb.engine.fake import FakeModel
from srb.wire.events import Done
from tests.engine_helpers import Driver, parked_bytes, solo
from tests.walks import examples

N_CTX_SEQ = 400


class StoryWalk(RuleBasedStateMachine):
    @initialize(
        n_ctx=st.sampled_from([500, 900, 4000]),
        n_seq_max=st.integers(3, 12),
        memory=st.sampled_from([{}, {}, {"has_states": True}, {"has_states": True}, {"supports_partial_reuse": False}]),
        cache_cells=st.sampled_from([0, 60, 10**6]),
        cache_bytes=st.sampled_from([0, parked_bytes(10, 300), 10**5, 10**7]),
        every=st.sampled_from([-1, 0, 16, 50]),
    )
    def begin(
        self, n_ctx: int, n_seq_max: int, memory: dict[str, bool], cache_cells: int, cache_bytes: int, every: int
    ) -> None:
        model = FakeModel(n_ctx, n_seq_max, 64, 32, N_CTX_SEQ, **memory)
        self.driver = Driver(model, cache_cells=cache_cells, cache_bytes=cache_bytes, checkpoint_every=every)
        self.turns: list[list[int]] = [[0, 7, 8, 9]]  # the text before each turn
        self.branches: list[list[int]] = [[]]  # those of the last turn
        self.seed = 0

    def ask(self, prompt: list[int], n: int, max_tokens: int) -> None:
        """Let n branches go on from a text, to their ends, and compare one of them with the oracle."""
        prompt = prompt[: N_CTX_SEQ - 20]
        self.seed += n
        known = self.driver.engine.stats()["prompt_tokens_cached_total"]
        request_id = self.driver.submit(prompt, n, self.seed, max_tokens)
        self.driver.run()
        outcome = self.driver.result(request_id)
        [done] = outcome.terminal
        assert isinstance(done, Done)
        assert self.driver.engine.stats()["prompt_tokens_cached_total"] - known == done.cached_tokens
        branch = self.seed % n
        assert outcome.texts[branch] == solo(prompt, self.seed + branch, max_tokens, n_ctx_seq=N_CTX_SEQ).texts[0]
        self.turns.append(prompt)
        self.branches = [outcome.tokens.get(index, []) for index in range(n)]

    @rule(
        branch=st.integers(0, 7),
        share=st.sampled_from([1.0, 1.0, 0.5]),
        words=st.lists(st.integers(2, 30), max_size=3),
        n=st.sampled_from([1, 2, 8]),
        max_tokens=st.sampled_from([1, 5, 20]),
    )
    def go_on(self, branch: int, share: float, words: list[int], n: int, max_tokens: int) -> None:
        taken = self.branches[branch % len(self.branches)]
        self.ask([*self.turns[-1], *taken[: int(len(taken) * share)], *words], n, max_tokens)

    @rule(back=st.integers(1, 60), word=st.integers(2, 30), n=st.sampled_from([1, 4]))
    def edit_a_word(self, back: int, word: int, n: int) -> None:
        text = [*self.turns[-1], *self.branches[0]]
        place = max(1, len(text) - back)
        self.ask([*text[:place], word, *text[place + 1 :]], n, 5)

    @rule(turns=st.integers(1, 10), n=st.sampled_from([1, 3]))
    def go_back(self, turns: int, n: int) -> None:
        self.ask(self.turns[max(0, len(self.turns) - 1 - turns)], n, 10)

    @rule(n=st.integers(2, 6))
    def go_back_twice_at_once(self, n: int) -> None:
        """Two requests from different places of one story, together."""
        texts = [text[: N_CTX_SEQ - 20] for text in (self.turns[-1], self.turns[len(self.turns) // 2])]
        ids = [self.driver.submit(text, n, 1000 + place, 12) for place, text in enumerate(texts)]
        self.driver.run()
        for place, (request_id, text) in enumerate(zip(ids, texts, strict=True)):
            expected = solo(text, 1000 + place + n - 1, 12, n_ctx_seq=N_CTX_SEQ)
            assert self.driver.result(request_id).texts[n - 1] == expected.texts[0]


StoryWalk.TestCase.settings = settings(max_examples=examples(25), stateful_step_count=40, deadline=None)
TestStoryWalk = StoryWalk.TestCase
