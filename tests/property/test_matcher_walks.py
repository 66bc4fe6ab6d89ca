"""Random walks of texts in one grammar: begun, gone on with, cloned and taken back, each as if it were alone.

The oracle compiles the grammar for each look at a text, and reads it from its beginning.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from srb.config.sampling_params import SamplingParams
from srb.engine.fake import EOS, FakeModel
from srb.engine.preparing import Preparer
from tests.walks import examples

FORMS: list[dict[str, str]] = [
    {"grammar": 'root ::= " the" ( " old" | " grey" )? " " [a-z]+ ( "," root | "." )'},
    {"grammar": 'root ::= "(" root ")" | " king" | [a-c ]+ root? "!"'},
    {"grammar": "/( the| a)( [a-z]+){1,9}[.?]/"},
    {"json_schema": '{"type":"array","items":{"enum":["the fox","the fog","a",1]},"maxItems":4}'},
    {"json_schema": '{"properties":{"the king":{"maxLength":20},"n":{"type":"integer"}},"required":["n"]}'},
]
Look = tuple[list[int], list[int], int]  # what may come, what has to come, and how many tokens there are


class Text:
    def __init__(self, sampler: Any, tokens: list[int]) -> None:
        self.sampler, self.tokens = sampler, tokens
        self.kept: int | None = None  # how many tokens there were when the sampler began to remember

    def look(self) -> Look:
        grammar = self.sampler.grammar
        return sorted(grammar.allowed.tolist()), grammar.forced, grammar.length


class MatcherWalk(RuleBasedStateMachine):
    @initialize(form=st.sampled_from(FORMS))
    def begin_in(self, form: dict[str, str]) -> None:
        self.model, self.other = FakeModel(), FakeModel()
        self.params = Preparer(self.model, None)._checked(SamplingParams(temperature=1.0, **form))
        self.texts = [Text(self.model.new_sampler(self.params, 0, [], 0), [])]
        self.seen: dict[tuple[int, ...], Look] = {}

    def draw(self, data: st.DataObject) -> Text:
        return data.draw(st.sampled_from(self.texts))

    @precondition(lambda self: len(self.texts) < 6)
    @rule(data=st.data(), seed=st.integers(0, 9), is_new=st.booleans())
    def begin(self, data: st.DataObject, seed: int, is_new: bool) -> None:
        if is_new:
            self.texts.append(Text(self.model.new_sampler(self.params, seed, [], 0), []))
        else:
            origin = self.draw(data)
            self.texts.append(Text(origin.sampler.clone(seed), list(origin.tokens)))

    @rule(data=st.data(), count=st.integers(1, 4), seed=st.integers(0, 99))
    def go_on(self, data: st.DataObject, count: int, seed: int) -> None:
        text = self.draw(data)
        logits = np.random.default_rng(seed).normal(size=(count, self.model.n_vocab)).astype(np.float32)
        for row in logits:
            row[EOS] = -100.0
            token = text.sampler.sample_from(row)
            if token == EOS:
                self.texts.remove(text)
                if not self.texts:
                    self.texts.append(Text(self.model.new_sampler(self.params, 0, [], 0), []))
                return
            text.tokens.append(token)

    @rule(data=st.data())
    def take_what_the_oracle_allows(self, data: st.DataObject) -> None:
        text = self.draw(data)
        tokens = [token for token in self.alone(text.tokens)[0] if token != EOS]
        if text.kept is None and tokens:
            token = data.draw(st.sampled_from(tokens))
            text.sampler.accept(token)
            text.tokens.append(token)

    @rule(data=st.data())
    def take_what_is_forced(self, data: st.DataObject) -> None:
        text = self.draw(data)
        if text.kept is not None:
            return
        for token in text.sampler.forced:
            text.sampler.accept(token)
            text.tokens.append(token)

    @rule(data=st.data())
    def remember(self, data: st.DataObject) -> None:
        text = self.draw(data)
        if text.kept is None:
            text.sampler.remember()
            text.kept = len(text.tokens)

    @rule(data=st.data())
    def take_back(self, data: st.DataObject) -> None:
        text = self.draw(data)
        if text.kept is None:
            return
        if count := data.draw(st.integers(0, len(text.tokens) - text.kept)):
            text.sampler.rewind(count)
            del text.tokens[-count:]
        if data.draw(st.booleans()):
            text.sampler.stop_remembering()
            text.kept = None

    @rule(data=st.data())
    def look_at_one(self, data: st.DataObject) -> None:
        """Not at all: a look at a text's mask gives it a copy of its own of what it may share with others by mistake."""
        text = self.draw(data)
        assert text.look() == self.alone(text.tokens)

    def teardown(self) -> None:
        for text in getattr(self, "texts", ()):
            assert text.look() == self.alone(text.tokens)

    def alone(self, tokens: list[int]) -> Look:
        if (found := self.seen.get(tuple(tokens))) is None:
            self.other.grammars.close()
            text = Text(self.other.new_sampler(self.params, 0, [], 0), tokens)
            for token in tokens:
                text.sampler.accept(token)
            found = self.seen[tuple(tokens)] = text.look()
        return found


TestMatcherWalk = MatcherWalk.TestCase
TestMatcherWalk.settings = settings(max_examples=examples(20), stateful_step_count=25, deadline=None)
