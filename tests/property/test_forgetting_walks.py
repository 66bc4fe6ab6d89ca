"""Walks of several stories and keys of which some go: of one that is gone the store keeps what others asked for, no more.

The oracle knows the whole text of each request, and who asked for it. What is on the disk, and what the tree has, is a
beginning of a text of somebody who is there; and what others went on with is found still.
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from srb.engine.fake import FakeModel
from srb.engine.tokens import NEXT, tokens_of
from srb.wire.commands import KEY, ForgetTexts, digest_of
from tests.engine_helpers import Driver, parked_bytes
from tests.text_stores import MemoryTexts
from tests.walks import examples

ENOUGH = 10**8
LONGEST = 900
BEGINNINGS = [[0, *range(2, 42)] * 8, [0, *range(2, 42)] * 2 + [7] * 300]
STORIES = ["", "one", "two", "three"]
KEYS = ["", "127.0.0.1", f"{KEY}@anna", f"{KEY}#0123"]


class ForgettingWalk(RuleBasedStateMachine):
    @initialize(
        n_seq_max=st.integers(4, 12),
        cache_cells=st.sampled_from([0, 0, 300, 10**6]),
        cache_bytes=st.sampled_from([ENOUGH, ENOUGH, parked_bytes(20, 3000)]),
    )
    def begin(self, **options: Any) -> None:
        self.options = options
        self.store = MemoryTexts(ENOUGH)
        self.texts = [list(beginning) for beginning in BEGINNINGS]
        self.asked: list[tuple[str, str, list[int]]] = []  # key, story and text
        self.seed = 0
        self.is_fresh = True  # nothing is in the store alone: no engine was started since
        self.start()

    def start(self) -> None:
        options = dict(self.options)
        model = FakeModel(6000, options.pop("n_seq_max"), 256, 64, LONGEST + 300)
        self.driver = Driver(model, texts=self.store, **options)

    def settle(self) -> None:
        engine = self.driver.engine
        while engine.has_work or engine._residency.stored.is_busy:
            self.driver.step()
            self.store.deliver()
            self.driver.collect()
        engine.check_invariants()

    @rule(
        data=st.data(),
        share=st.sampled_from([1.0, 1.0, 0.7, 0.3]),
        words=st.lists(st.integers(2, 30), max_size=3),
        repeat=st.sampled_from([1, 1, 60]),
        n=st.sampled_from([1, 1, 3]),
        max_tokens=st.sampled_from([0, 1, 20, 200]),
        story=st.sampled_from(STORIES),
        key=st.sampled_from(KEYS),
    )
    def write(
        self,
        data: st.DataObject,
        share: float,
        words: list[int],
        repeat: int,
        n: int,
        max_tokens: int,
        story: str,
        key: str,
    ) -> None:
        text = self.texts[-data.draw(st.integers(1, min(6, len(self.texts))))]
        prompt = [*text[: max(1, int(len(text) * share))], *words * repeat][:LONGEST]
        self.seed += n
        options: dict[str, Any] = {"ignore_eos": True, "session": story, "owner": key}
        asked = self.driver.submit(prompt, n, self.seed, max_tokens, **options)
        self.settle()
        for index in range(n):
            whole = [*prompt, *self.driver.result(asked).tokens[index]]
            self.asked.append((key, story, whole))
            self.texts.append(whole)

    @rule(is_orderly=st.booleans())
    def restart(self, is_orderly: bool) -> None:
        if is_orderly:
            self.driver.engine.store_texts(1000.0)
        self.is_fresh = False
        self.start()

    @rule(story=st.sampled_from(STORIES[1:]))
    def delete_a_story(self, story: str) -> None:
        self.forget(ForgetTexts("f", (digest_of(story),)), [each for each in self.asked if each[1] != story])

    @rule(keys=st.lists(st.sampled_from(KEYS[2:]), min_size=1, unique=True))
    def revoke_keys(self, keys: list[str]) -> None:
        gone = tuple(digest_of(key) for key in keys)
        self.forget(ForgetTexts("f", keys=gone), [each for each in self.asked if each[0] not in keys])

    def forget(self, command: ForgetTexts, left: list[tuple[str, str, list[int]]]) -> None:
        gone = [each for each in self.asked if each not in left]
        has_enough = self.is_fresh and self.options["cache_bytes"] == ENOUGH
        found = {tuple(text): self.found(text) for _, _, text in left} if has_enough else {}
        self.driver.engine.serve_query(command)
        self.driver.engine.check_invariants()
        self.asked = left
        self.settle()
        theirs = {tuple(text) for *_, text in left}
        for text in self.stored_texts() + self.tree_texts():
            assert not text or any(other[: len(text)] == tuple(text) for other in theirs), (
                f"{len(text)} tokens are left"
            )
        for text, length in found.items():
            computed = text[:-1]  # of the last token nothing is
            goes_on = any(tuple(other[: len(computed)]) == computed for *_, other in gone)
            if length >= len(computed) and not goes_on:  # else it goes with what goes on from it
                assert self.found(list(text)) == length

    def found(self, text: list[int]) -> int:
        tree = self.driver.engine._tree
        scope = next(iter(tree._roots), None)
        return 0 if scope is None else tree.match(tokens_of([*text, NEXT]), tree.root(scope)).length

    def stored_texts(self) -> list[list[int]]:
        """Return the text up to the end of each record in the store."""
        texts: dict[str, list[int]] = {"": []}
        for record, tokens, _ in sorted(self.store.files.values(), key=lambda file: file[0].start):
            texts[record.id] = texts[record.parent][: record.start] + list(tokens)
        return list(texts.values())

    def tree_texts(self) -> list[list[int]]:
        return [list(node.text()) for node in self.driver.engine._tree.nodes()]


TestForgetting = ForgettingWalk.TestCase
TestForgetting.settings = settings(max_examples=examples(150), stateful_step_count=25, deadline=None)
