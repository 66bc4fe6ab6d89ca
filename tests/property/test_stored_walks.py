"""Walks of writers whose server dies and starts again: whatever is on the disk is found, as far as it reaches, and is right.

The oracle reads the store's records as a stranger would: each with the text before it. After each start, every text whose
records are all there is found whole, and the store has nothing that the tree does not know. Texts equal solo runs. A text
that was saved under a name is found whole, whatever became of it since.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from srb.engine.fake import FakeModel
from srb.engine.model import Scope
from srb.engine.tokens import NEXT, Tokens, tokens_of
from srb.engine.tree import residency
from srb.wire.events import Done
from tests.engine_helpers import Driver, parked_bytes, solo
from tests.text_stores import MemoryStates, MemoryTexts
from tests.tree_oracle import check_found, texts_of
from tests.walks import examples

LONGEST = 1200
ENOUGH = 10**8
BEGINNINGS = [[0, *range(2, 42)] * 9, [0, *range(2, 42)] * 2 + [7] * 300, [0, 5, 6]]
MEMORIES = st.sampled_from([ENOUGH, ENOUGH, parked_bytes(20, 3000), parked_bytes(6, 900)])
SCALES = ((0, 0.0),), ((0, 0.5),)


@dataclass
class Asked:
    request_id: str
    prompt: list[int]
    n: int
    seed: int
    max_tokens: int
    salt: str
    scale: int

    @property
    def options(self) -> dict[str, Any]:
        return {"cache_salt": self.salt, "lora": SCALES[self.scale], "ignore_eos": True}


class StoredWalk(RuleBasedStateMachine):
    @initialize(
        n_ctx=st.sampled_from([1800, 6000]),
        n_seq_max=st.integers(4, 12),
        cache_cells=st.sampled_from([0, 0, 0, 300, 10**6]),
        cache_bytes=MEMORIES,
        step_seconds=st.sampled_from([0.0, 0.002]),  # a long text is restored in parts beside others
        budget=st.sampled_from([ENOUGH, ENOUGH, ENOUGH, 20_000]),
        memory=st.sampled_from([{}, {}, {"has_states": True}, {"supports_partial_reuse": False}]),
    )
    def begin(self, budget: int, memory: dict[str, bool], **options: Any) -> None:
        residency.RESTORE_TOKENS = 8
        self.options = options
        self.memory = memory
        self.store = MemoryTexts(budget)
        self.states = MemoryStates(self.store)
        self.texts = [(list(beginning), "", 0) for beginning in BEGINNINGS]  # with salt and scale
        self.seed = 0
        self.open: list[Asked] = []
        self.start()

    def start(self) -> None:
        """Start an engine, and check that it has what the store has."""
        whole = self.whole_texts()
        self.store.num_reads = 0
        options: dict[str, Any] = dict(self.options)
        model = FakeModel(
            options.pop("n_ctx"), options.pop("n_seq_max"), 256, 64, LONGEST + 300, n_adapters=1, **self.memory
        )
        self.driver = Driver(model, texts=self.store, states=self.states, **options)
        stored = self.driver.engine._residency.stored
        assert {record.id for record in stored._by_id.values()} == set(self.store.files)
        assert stored.nbytes <= self.store.budget
        if self.has_room:
            for scope, tokens in whole:
                self.check_found(scope, tokens)
        check_found(self.driver.engine)

    @property
    def has_room(self) -> bool:
        return self.options["cache_bytes"] >= ENOUGH and self.store.budget >= ENOUGH

    def check_found(self, scope: Scope, tokens: Tokens) -> None:
        tree = self.driver.engine._tree
        found = tree.match(tokens_of([*tokens, NEXT]), tree.root(scope)).length
        assert found >= len(tokens), f"{found} of {len(tokens)} stored tokens"

    def whole_texts(self) -> list[tuple[Scope, Tokens]]:
        """Return the text up to the end of each record in the store, which has all that stands before it."""
        texts: dict[str, Tokens] = {"": tokens_of(())}
        found = []
        for record, tokens, _ in sorted(self.store.files.values(), key=lambda file: file[0].start):
            assert record.parent in texts, f"{record} has lost the text before it"
            texts[record.id] = texts[record.parent][: record.start] + tokens
            assert len(texts[record.id]) == record.end
            if record.is_state == ("has_states" in self.memory):  # a text goes on where a state is alone
                found.append((record.scope, texts[record.id]))
        return found

    @invariant()
    def the_store_has_what_the_tree_knows(self) -> None:
        if hasattr(self, "driver"):
            stored = self.driver.engine._residency.stored
            assert {record.id for record in stored._by_id.values()} <= set(self.store.files)
            if self.has_room:
                assert self.store.num_reads == 0, "the engine has waited for the disk"

    @rule(
        data=st.data(),
        share=st.sampled_from([1.0, 1.0, 1.0, 0.7, 0.3]),
        words=st.lists(st.integers(2, 30), max_size=3),
        repeat=st.sampled_from([1, 1, 100]),
        n=st.sampled_from([1, 2, 5]),
        max_tokens=st.sampled_from([1, 20, 60, 300]),
        other=st.sampled_from([None] * 6 + [("a", 0), ("", 1)]),
        steps=st.sampled_from([0, 3, 10**6, 10**6]),
    )
    def write(
        self,
        data: st.DataObject,
        share: float,
        words: list[int],
        repeat: int,
        n: int,
        max_tokens: int,
        other: tuple[str, int] | None,
        steps: int,
    ) -> None:
        """Go on from a text, whole or from a place within it, perhaps for another reader of texts."""
        text, salt, scale = self.texts[data.draw(st.integers(1, min(8, len(self.texts)))) * -1]
        salt, scale = other or (salt, scale)
        prompt = [*text[: max(1, int(len(text) * share))], *words * repeat][:LONGEST]
        self.seed += n
        asked = Asked("", prompt, n, self.seed, max_tokens, salt, scale)
        asked.request_id = self.driver.submit(prompt, n, self.seed, max_tokens, **asked.options)
        self.open.append(asked)
        self.go_on(steps)

    @rule(data=st.data(), name=st.sampled_from("abc"), keeps_all=st.booleans())
    def name_a_text(self, data: st.DataObject, name: str, keeps_all: bool) -> None:
        """A request names its prompt; the store may keep no texts but those."""
        self.store.keeps_all = keeps_all
        text, salt, scale = self.texts[data.draw(st.integers(1, min(8, len(self.texts)))) * -1]
        self.ask_by_name(text[:LONGEST], salt, scale, name)
        self.store.keeps_all = True

    @rule(data=st.data())
    def open_a_named_text(self, data: st.DataObject) -> None:
        if not self.states.saved:
            return
        name = data.draw(st.sampled_from(sorted(self.states.saved)))
        state, _ = self.states.saved[name]
        if len(state.tokens) >= LONGEST:
            return
        is_whole = not self.store.lost & {record.id for record in state.records}
        scale = int(state.scope.lora == (0.5,))
        done = self.ask_by_name([*state.tokens, 9], state.scope.salt, scale, name)
        if self.has_room and is_whole and not self.open_before:
            assert done.cached_tokens >= len(state.tokens), "a named text is not found"

    def ask_by_name(self, prompt: list[int], salt: str, scale: int, name: str) -> Done:
        self.open_before = bool(self.open)
        self.seed += 1
        asked = Asked("", prompt, 1, self.seed, 5, salt, scale)
        asked.request_id = self.driver.submit(prompt, 1, self.seed, 5, state=name, **asked.options)
        self.open.append(asked)
        outcome = self.driver.outcomes[asked.request_id]
        self.go_on(10**6)
        while self.driver.engine._named.is_busy:
            self.store.deliver()
            self.driver.take(self.driver.engine.collect())
        [done] = outcome.terminal
        assert isinstance(done, Done)
        return done

    @rule(data=st.data(), steps=st.sampled_from([2, 10**6]))
    def open_beside_a_writer(self, data: st.DataObject, steps: int) -> None:
        """Another text is being written while one is opened, which comes back in parts."""
        self.write(data, 0.3, [3, 7], 1, 1, 300, None, 4)
        self.write(data, 1.0, [9], 1, 1, 20, None, steps)

    @rule(steps=st.sampled_from([1, 5, 50, 10**6]))
    def go_on(self, steps: int) -> None:
        for _ in range(steps):
            if not self.driver.engine.has_work:
                break
            self.driver.take(self.driver.engine.step())
            if self.seed % 2:
                self.driver.deliver()
        if not self.driver.engine.has_work:
            self.check_ended()

    def check_ended(self) -> None:
        """Compare a branch of each request that has ended with its solo run, and let stories go on from all."""
        for asked in self.open:
            outcome = self.driver.result(asked.request_id)
            branch = asked.seed % asked.n
            alone = solo(asked.prompt, asked.seed + branch, asked.max_tokens, **asked.options)
            assert outcome.tokens[branch] == alone.tokens[0], (outcome.ends, outcome.terminal)
            for index in range(asked.n):
                self.texts.append(([*asked.prompt, *outcome.tokens[index]], asked.salt, asked.scale))
        self.open.clear()

    @rule()
    def cancel(self) -> None:
        if self.open:
            self.driver.cancel(self.open.pop(0).request_id)

    @rule(count=st.sampled_from([1, 3, 10**6]))
    def let_the_store_work(self, count: int) -> None:
        self.store.deliver(count)
        self.driver.take(self.driver.engine.collect())

    @rule(cache_bytes=MEMORIES)
    def kill(self, cache_bytes: int) -> None:
        self.options["cache_bytes"] = cache_bytes
        self.open.clear()
        self.start()

    @rule()
    def restart(self) -> None:
        """End the engine in order: then all that it has is found by the next one."""
        self.go_on(10**6)
        engine = self.driver.engine
        had = [(scope, text) for scope, root in engine._tree._roots.items() for text in texts_of(root).values()]
        engine.store_texts(100)
        engine.check_invariants()
        self.store.close(1)
        self.start()
        if self.has_room and not (self.store.is_full or self.memory):
            for scope, tokens in had:
                self.check_found(scope, tokens)

    @rule(data=st.data())
    def lose_a_file(self, data: st.DataObject) -> None:
        if self.store.files:
            self.store.lost.add(data.draw(st.sampled_from(sorted(self.store.files))))

    @rule(is_full=st.booleans())
    def fill_the_disk(self, is_full: bool) -> None:
        self.store.is_full = is_full

    @rule(budget=st.sampled_from([ENOUGH, ENOUGH, 60_000, 20_000]))
    def set_budget(self, budget: int) -> None:
        self.store.budget = budget
        self.kill(self.options["cache_bytes"])

    def teardown(self) -> None:
        residency.RESTORE_TOKENS = 512
        if hasattr(self, "driver"):
            self.go_on(10**6)


StoredWalk.TestCase.settings = settings(max_examples=examples(40), stateful_step_count=40, deadline=None)
TestStoredWalk = StoredWalk.TestCase
