"""Random walks with control vectors: what was computed under a mood is never taken for another text, nor the other way.

The oracle is the same request on a roomy model that has computed nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from srb.config.sampling_params import SamplingParams
from srb.engine.fake import FakeModel
from srb.errors import ContextExceeded, InvalidRequest
from srb.wire.commands import BranchSpec, ControlVectors, Generate, NewBranch, StateAction
from tests.engine_helpers import Driver, always_draft, parked_bytes, plain
from tests.text_stores import MemoryTexts
from tests.walks import examples

PROMPTS = ["the old king said", "the old king said then the fox", "the old king ", "river boat " * 6, "a"]
VECTORS = {"sad": 0.0, "dark": 0.5}  # the second is in force where a request says nothing
MOODS: list[ControlVectors | None] = [None, (), (), (("sad", 0.5),), (("sad", -0.5),), (("dark", 1.0), ("sad", 0.5))]


@dataclass
class Asked:
    command: Generate
    added: list[tuple[NewBranch, dict[str, int]]] = field(default_factory=list)


class MoodWalk(RuleBasedStateMachine):
    @initialize(
        n_ctx=st.integers(70, 300),
        n_seq_max=st.integers(2, 12),
        memory=st.sampled_from([{}, {}, {"has_states": True}, {"supports_partial_reuse": False}]),
        cache_cells=st.sampled_from([0, 20, 10**6]),
        cache_bytes=st.sampled_from([0, parked_bytes(2, 60), 10**6]),
        draft=st.sampled_from([0, 4]),
        texts=st.sampled_from([None, 3000, 10**9]),
    )
    def begin(
        self,
        n_ctx: int,
        n_seq_max: int,
        memory: dict[str, bool],
        cache_cells: int,
        cache_bytes: int,
        draft: int,
        texts: int | None,
    ) -> None:
        self.memory, self.longest = memory, n_ctx
        model = FakeModel(n_ctx, n_seq_max, 32, 16, vectors=VECTORS, **memory)
        drafts = {"max_draft": draft, "draft_model": FakeModel(400, 12, 32, 8) if draft else None}
        self.texts = MemoryTexts(texts) if texts is not None else None
        self.driver = Driver(
            model, max_queue=1000, cache_cells=cache_cells, cache_bytes=cache_bytes, texts=self.texts, **drafts
        )
        if draft:
            always_draft(self.driver)
        self.asked: dict[str, Asked] = {}
        self.acted = 0

    def submit(
        self, prompt: tuple[str | int, ...], specs: tuple[BranchSpec, ...], whole: ControlVectors | None
    ) -> None:
        request_id = f"m{len(self.asked)}"
        command = Generate(request_id, prompt, specs, control_vectors=whole, can_grow=True, linger=5.0)
        try:
            request = self.driver.engine.prepare(command)
        except ContextExceeded:
            return
        self.driver.take(self.driver.engine.submit(request))
        self.asked[request_id] = Asked(command)

    @rule(
        prompt=st.sampled_from(PROMPTS),
        moods=st.lists(st.sampled_from(MOODS), min_size=1, max_size=6),
        whole=st.sampled_from(MOODS),
        seed=st.integers(0, 3),
        heals=st.booleans(),
        append=st.sampled_from([(), (), (" the fo",), (5, 6)]),
    )
    def ask(
        self,
        prompt: str,
        moods: list[ControlVectors | None],
        whole: ControlVectors | None,
        seed: int,
        heals: bool,
        append: tuple[str | int, ...],
    ) -> None:
        heals = heals and self.driver.model.supports_partial_reuse
        specs = tuple(
            BranchSpec(seed + place, 12, append=append, token_healing=heals, control_vectors=mood)
            for place, mood in enumerate(moods)
        )
        self.submit((prompt,), specs, whole)

    @precondition(lambda self: self.asked)
    @rule(data=st.data(), mood=st.sampled_from(MOODS), whole=st.sampled_from(MOODS), appends=st.booleans())
    def go_on(
        self, data: st.DataObject, mood: ControlVectors | None, whole: ControlVectors | None, appends: bool
    ) -> None:
        """As a writer does: with the words of a branch in the prompt, or behind it under the branch's mood."""
        asked = data.draw(st.sampled_from(list(self.asked.values())))
        words = self.driver.result(asked.command.request_id).tokens.get(0, [])
        head = self.driver.model.tokenize(str(asked.command.prompt[0]), True, True)
        if isinstance(asked.command.prompt[0], str) and words:
            prompt, append = (head, tuple(words)) if appends else ([*head, *words], ())
            spec = BranchSpec(1, 6, sampling=SamplingParams(), append=append, control_vectors=mood)
            self.submit(tuple(prompt), (spec,), whole)

    @precondition(lambda self: self.asked)
    @rule(data=st.data(), mood=st.sampled_from(MOODS[1:]), forks=st.booleans(), keeps=st.booleans())
    def add(self, data: st.DataObject, mood: ControlVectors, forks: bool, keeps: bool) -> None:
        self.driver.run()
        asked = data.draw(st.sampled_from(list(self.asked.values())))
        request_id = asked.command.request_id
        if request_id not in {request.request_id for request in self.driver.idle}:
            return
        entry = plain(9, max_tokens=6) if keeps else plain(9, max_tokens=6, control_vectors=mood)
        where = {"origin": 0, "token": data.draw(st.integers(0, 12))} if forks else {}
        try:
            self.driver.add(request_id, entry, **where)
        except (ContextExceeded, InvalidRequest):
            return
        asked.added.append((entry, where))

    @rule(action=st.sampled_from(["save", "restore", "erase"]), slot=st.integers(0, 2))
    def act_on_a_state(self, action: str, slot: int) -> None:
        self.acted += 1
        command = StateAction(f"s{self.acted}", action, "a name", slot)
        self.driver.take(self.driver.engine.submit(self.driver.engine.prepare(command)))

    @rule(steps=st.integers(1, 20))
    def go(self, steps: int) -> None:
        for _ in range(steps):
            if self.driver.engine.has_work:
                self.driver.step()

    def teardown(self) -> None:
        if not hasattr(self, "driver"):
            return
        self.driver.run()
        for asked in self.asked.values():
            self.check(asked)
        if self.texts is not None:
            assert all(token < 2**20 for _, tokens, _ in self.texts.files.values() for token in tokens)

    def check(self, asked: Asked) -> None:
        roomy = Driver(FakeModel(8192, 64, 32, 16, n_ctx_seq=self.longest, vectors=VECTORS, **self.memory))
        roomy.take(roomy.engine.submit(roomy.engine.prepare(asked.command)))
        roomy.run()
        for entry, where in asked.added:
            roomy.add(asked.command.request_id, entry, **where)
            roomy.run()
        expected, found = (each.result(asked.command.request_id) for each in (roomy, self.driver))
        for index, end in found.ends.items():
            tokens = expected.tokens[index]
            assert found.tokens[index] == (tokens[: len(found.tokens[index])] if end.truncated else tokens)


MoodWalk.TestCase.settings = settings(
    max_examples=examples(40),
    stateful_step_count=20,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # to shrink one of these takes minutes
)
TestMoodWalk = pytest.mark.timeout(600)(MoodWalk.TestCase)
