"""Random walks of the engine: whatever is submitted, steered, cancelled or fails, nothing is lost and every text is right.

Invariants are checked after every operation. The oracle: branch i with seed s is the text of a solo run with seed
s + i, whatever else was running; a branch that was cancelled has a beginning of it. A fork is the solo run of its prompt
and the text it began with, and a branch that got more tokens that of its last limit.
"""

from __future__ import annotations

import codecs
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from srb.engine import tokens as ids
from srb.engine.directions import parts_with
from srb.engine.fake import EOS, FakeModel
from srb.engine.grammar.languages import rule_of
from srb.engine.grammar.matcher import Matcher
from srb.engine.grammar.schemas import prepared
from srb.engine.model import DecodeStatus, Scope
from srb.engine.patterns import fold
from srb.engine.request import BranchState
from srb.engine.tree import residency
from srb.errors import Conflict, ContextExceeded, InvalidRequest, NotFound
from srb.web.bodies.directions import place_in
from srb.wire.commands import ContextShift, Embed, Explore, Generate, GetSlots, StateAction
from srb.wire.events import Failed, FinishReason, PromptDone, PromptLogprobs
from tests.engine_helpers import Contrary, Driver, Outcome, Slowly, Wavering, always_draft, parked_bytes, plain, solo
from tests.media import b64, png, wav
from tests.text_stores import MemoryTexts
from tests.tree_oracle import WORTH_FINDING, check_found
from tests.walks import examples

FILES = tuple(map(b64, (png(seed=1), png(seed=2), wav(0.01))))  # of 6 to 27 tokens, with two more beside each
MOST_OF_A_FILE = 29
WHOLE_ENDS = (FinishReason.EOS, FinishReason.WORD, FinishReason.LIMIT)
ABOUT_MEDIA: list[tuple[str | int, ...]] = [("the old king said", -1, " then"), (-2, -1), ("the fox", -3, ".")]
OWNERS = ("key @alice", "key @bob", "127.0.0.1")
PROMPTS = ["the old king said", "the old king said then the fox", "a", "river boat " * 12, "☃ snow"]
UNFINISHED = [
    "the old king and the ga",
    "the old king ",
    "the old king said",
    "river boat " * 12 + "☃",
    "the fox said th",
]
SYSTEM_PROMPTS = ["the old king said", "the quiet keeper remembered the river and the lamp . ? the boat left the house"]
EXAMPLES = [
    "",
    " ? the fox",
    " ? the fox found a letter . ? the girl kept the door",
    " ? the fox found a lamp . ? a young",
]
QUESTIONS = ["", " ? the", " ? the old", " ? the old boat", " ? the old boat left", " ? the grey fox opened", " ? a"]
ANSWERS = ["", " . the river", " . the river never lost a small boat", " . never"]
TALKS = st.builds("".join, st.tuples(*map(st.sampled_from, (SYSTEM_PROMPTS, EXAMPLES, QUESTIONS, ANSWERS))))
# Biases that forbid all tokens but a few bytes, the king and the end of the text.
FEW_LETTERS = tuple(
    (token, None)
    for token in range(FakeModel().n_vocab)
    if token not in {EOS, *FakeModel().tokenize("ab é? king", False, False)}
)


@dataclass
class Expected:
    """A branch: the tokens that it was given after the prompt, the text of those that readers see, and its limit."""

    seed: int
    max_tokens: int
    stop: tuple[str, ...] = ()
    given: tuple[int, ...] = ()
    beginning: str = ""
    stop_changed: bool = False  # while it ran; then it may end anywhere


@dataclass
class Submitted:
    prompt: str | tuple[str | int, ...]
    n: int
    seed: int
    max_tokens: int
    stop: tuple[str, ...]
    lora: tuple[tuple[int, float], ...] = ((0, 0.0),)
    shift: ContextShift | None = None
    banned: tuple[str, ...] = ()
    append: tuple[str | int, ...] = ()
    linger: float = 0.0
    is_kept: bool = True  # whether the tree keeps its texts
    salt: str = ""
    branches: list[Expected] = field(default_factory=list)

    def expect(self, model: FakeModel) -> Submitted:
        """Set what is expected of the branches; return this."""
        given = tuple(tokens_of(model, self.append))
        self.branches = [Expected(self.seed + i, self.max_tokens, self.stop, given) for i in range(self.n)]
        return self


@dataclass
class Spread:
    """A request with distinct words; `n` counts the branches that were added."""

    prompt: str
    n: int
    seed: int
    max_tokens: int
    options: dict[str, Any]


@dataclass
class Formed:
    """A request whose texts have a form, and its forks: the origin, how many of its tokens, seed and limit.

    `given`: the tokens of a text in the form with which a fork began.
    """

    prompt: str
    n: int
    seed: int
    max_tokens: int
    options: dict[str, Any]
    forks: list[tuple[int, int, int, int]] = field(default_factory=list)
    given: dict[int, list[int]] = field(default_factory=dict)


LONG = {"grammar": "root ::= ( [a-z] [.,?] ){30}"}  # so that branches in a form have no room beside each other
FORMS: list[dict[str, str]] = [
    {"grammar": 'root ::= " the" ( " old" | " grey" )? " " [a-z]+ ( "," root | "." )'},  # refers to itself at its end
    {"grammar": 'root ::= "(" root ")" | " king" | [a-c ]+ root? "!"'},  # nests
    {"grammar": "/( the| a)( [a-z]+){1,9}[.?]/"},
    {
        "json_schema": '{"type":"object","properties":{"the king":{"maxLength":20},"n":{"type":"integer"}},"required":["n"]}'
    },
    {"json_schema": '{"type":"array","items":{"enum":["the fox","the fog","a",1]},"maxItems":4}'},
]


def matcher_of(model: FakeModel, form: dict[str, str]) -> Matcher:
    """Return a matcher at the beginning of a text in this form, of which the engine knows nothing."""
    if "json_schema" in form:
        return model.grammars.matcher("root ::= schema-0", (prepared(form["json_schema"], "json_schema").text,))
    rule = rule_of(form["grammar"], "grammar")
    return model.grammars.matcher("root ::= schema-0", (rule,)) if rule else model.grammars.matcher(form["grammar"])


def check_in_form(model: FakeModel, form: dict[str, str], tokens: list[int], is_whole: bool) -> None:
    """Check that tokens are the beginning of a text in a form, and at each place that what is forced there is no choice."""
    place = matcher_of(model, form)
    for token in [*tokens, None]:
        check_forced(model, place)
        if token is not None:
            assert token in place.allowed
            place.accept(token)
    assert not is_whole or EOS in place.allowed


def check_forced(model: FakeModel, place: Matcher) -> None:
    """Check that forced tokens are all that may come: no other, and none that reaches beyond their end."""
    pieces = list(map(model.piece, place.forced))
    trial = place.copy()
    for number, token in enumerate(place.forced):
        rest = b"".join(pieces[number:])
        others = [model.piece(int(other)) for other in trial.allowed]
        assert all(piece and rest.startswith(piece) for piece in others), (rest, others)
        trial.accept(token)


def media_of(prompt: str | tuple[str | int, ...]) -> tuple[str, ...]:
    return FILES if any(isinstance(part, int) and part < 0 for part in prompt) else ()


def tokens_of(model: FakeModel, parts: tuple[str | int, ...]) -> list[int]:
    return [
        token for part in parts for token in (model.tokenize(part, False, True) if isinstance(part, str) else [part])
    ]


def leaves(outcome: Outcome) -> set[tuple[str, int, str]]:
    """Return text, length and end of each branch of a walk."""
    return {(outcome.texts[index], end.length, end.reason) for index, end in outcome.ends.items()}


class EngineWalk(RuleBasedStateMachine):
    @initialize(
        n_ctx=st.integers(70, 160) | st.integers(70, 400),
        n_seq_max=st.integers(2, 12),
        n_ubatch=st.integers(4, 32),
        short=st.booleans(),
        memory=st.sampled_from([{}, {"has_states": True}, {"supports_partial_reuse": False}]),
        every=st.sampled_from([-1, 0, 8, 30]),
        cache_cells=st.sampled_from([0, 20, 100, 10**6]),
        cache_bytes=st.sampled_from([0, parked_bytes(1, 30), parked_bytes(6, 200), 10**6, 10**6, 10**6]),
        max_running=st.sampled_from([0, 0, 1, 3]),
        max_draft=st.sampled_from([0, 4]),
        draft=st.sampled_from([None, None, FakeModel, Contrary, Wavering]),
        draft_room=st.sampled_from([(400, 12), (60, 12), (400, 3)]),
        looks_up=st.booleans(),
        step_seconds=st.sampled_from([0.0, 0.002, 0.2]),
        texts=st.sampled_from([None, 0, 3000, 10**9]),
        ahead=st.booleans(),
        sections=st.booleans(),
        slow_grammars=st.booleans(),
        short_restores=st.booleans(),
    )
    def begin(
        self,
        n_ctx: int,
        n_seq_max: int,
        n_ubatch: int,
        short: bool,
        memory: dict[str, bool],
        every: int,
        cache_cells: int,
        cache_bytes: int,
        max_running: int,
        max_draft: int,
        draft: type[FakeModel] | None,
        draft_room: tuple[int, int],
        looks_up: bool,
        ahead: bool,
        sections: bool,
        step_seconds: float = 0.0,
        texts: int | None = None,
        slow_grammars: bool = False,
        short_restores: bool = False,
    ) -> None:
        residency.RESTORE_TOKENS = 4 if short_restores else 512
        self.n_ctx_seq = 60 if short else n_ctx
        model = FakeModel(
            n_ctx,
            n_seq_max,
            32,
            n_ubatch if sections else max(n_ubatch, 13),  # of a picture that is computed whole
            n_ctx_seq=self.n_ctx_seq,
            **memory,
            n_adapters=1,
            decodes_ahead=ahead,
            reads_media=True,
            has_sections=sections,
        )
        if slow_grammars:
            model.grammars.clock = Slowly(0.003)  # a step has time for two or three tokens
        limits = {"cache_cells": cache_cells, "cache_bytes": cache_bytes, "max_running": max_running}
        limits |= {"step_seconds": step_seconds, "max_queue": 1000}
        draft_model = draft(draft_room[0], draft_room[1], 32, 8) if draft is not None and max_draft else None
        drafts = {"max_draft": max_draft, "draft_model": draft_model, "looks_up": looks_up}
        self.texts = MemoryTexts(texts) if texts is not None else None
        self.driver = Driver(model, **limits, checkpoint_every=every, **drafts, texts=self.texts)
        if draft_model is not None:
            always_draft(self.driver)
        self.max_running = max_running
        self.submitted: dict[str, Submitted] = {}
        self.may_fail = False
        self.embedded = self.acted = 0
        self.explored: dict[str, tuple[str, Explore]] = {}
        self.spread: dict[str, Spread] = {}
        self.formed: dict[str, Formed] = {}
        self.scored: dict[str, int] = {}  # whose prompts' probabilities were asked for, and from which character
        self.written: dict[
            tuple[str, int], tuple[ids.Tokens, Scope]
        ] = {}  # texts of branches, those that have ended last

    @invariant()
    def each_text_is_found_as_far_as_the_tree_has_it(self) -> None:
        """Whatever was written and not dropped is there, and whatever is there is found."""
        if not hasattr(self, "driver"):
            return
        self.note_written()
        engine = self.driver.engine
        check_found(engine, list(self.written.values())[-20:])
        has_all = not (self.may_fail or engine.stats()["nodes_dropped_total"])
        if engine.model.supports_partial_reuse and has_all:
            for tokens, scope in self.written.values():
                found = engine._tree.match(tokens, engine._tree.root(scope))
                assert max(found.length, found.shared) >= len(tokens) - WORTH_FINDING

    def note_written(self) -> None:
        """Note the texts of branches that have ended, as far as their tokens are known here."""
        for request_id, submitted in self.submitted.items():
            if not submitted.is_kept or submitted.shift or media_of(submitted.prompt):
                continue
            outcome = self.driver.result(request_id)
            for index, branch in enumerate(submitted.branches):
                if index in outcome.ends and outcome.ends[index].reason in WHOLE_ENDS:
                    text = [*self.head_of(submitted.prompt), *branch.given, *outcome.tokens[index]]
                    scales = tuple(scale for _, scale in submitted.lora)
                    self.written[request_id, index] = ids.tokens_of(text), Scope(scales, submitted.salt)

    def head_of(self, prompt: str | tuple[str | int, ...]) -> list[int]:
        """Return the tokens of a prompt without media."""
        return (
            self.driver.model.tokenize(prompt, True, True)
            if isinstance(prompt, str)
            else tokens_of(self.driver.model, prompt)
        )

    @rule(
        prompt=st.sampled_from([*PROMPTS, *ABOUT_MEDIA]) | TALKS | TALKS,
        n=st.integers(1, 10),
        seed=st.integers(0, 1000),
        max_tokens=st.integers(-1, 25) | st.sampled_from([60, 100]),
        stop=st.sampled_from([(), (" king",), (".", " fox said")]),
        banned=st.sampled_from([(), (), ("KING",), (" the", "n t", "lamp and"), ("a", "e o", "?")]),
        scale=st.sampled_from([0.0, 0.0, 0.5]),
        prompt_logprobs=st.booleans(),
        surprise_from=st.sampled_from([-1, -1, 0, 9, 30, 1000]),
        id_slot=st.integers(-1, 3),
        linger=st.sampled_from([0.0, 5.0]),
        append=st.sampled_from([(), (), (5, 6), ("the fox",)]),
        cache_prompt=st.sampled_from([True, True, True, False]),
        salt=st.sampled_from(["", "", "a", "b"]),
        direction=st.sampled_from(["", "", "the fox", "a lamp"]),
        priority=st.sampled_from([0, 0, 0, 1]),
    )
    def submit(
        self,
        prompt: str | tuple[str | int, ...],
        n: int,
        seed: int,
        max_tokens: int,
        stop: tuple[str, ...],
        scale: float,
        prompt_logprobs: bool,
        id_slot: int = -1,
        banned: tuple[str, ...] = (),
        linger: float = 0.0,
        append: tuple[str | int, ...] = (),
        cache_prompt: bool = True,
        salt: str = "",
        direction: str = "",
        priority: int = 0,
        surprise_from: int = -1,
    ) -> None:
        lora = ((0, scale),)
        prompt_logprobs = prompt_logprobs and isinstance(prompt, str) and not direction
        options: dict[str, Any] = {"prompt_logprobs": prompt_logprobs, "id_slot": id_slot, "cache_prompt": cache_prompt}
        options |= {"stop": stop, "lora": lora, "linger": linger, "append": append, "can_grow": True}
        options |= {"banned_strings": banned, "owner": OWNERS[seed % len(OWNERS)], "cache_salt": salt}
        options |= {"priority": priority, "surprise_from": surprise_from if prompt_logprobs else -1}
        whole = prompt  # as a branch reads it
        if direction and isinstance(prompt, str):
            place = place_in((prompt,))
            options |= {"place": place, "direction": direction, "directions": (direction,)}
            whole = "".join(map(str, parts_with(Generate("r", (prompt,), (), place=place), direction)))
        try:
            request_id = self.driver.submit(prompt, n, seed, max_tokens, media=media_of(prompt), **options)
        except ContextExceeded:
            assert whole != prompt  # the texts without a direction fit
            return
        prompt = whole
        asked = Submitted(prompt, n, seed, max_tokens, stop, lora, append=append, banned=banned, linger=linger)
        asked.is_kept, asked.salt = cache_prompt, salt
        self.note(request_id, asked)
        if prompt_logprobs:
            self.scored[request_id] = surprise_from

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
            PROMPTS[0], 1, seed, max_tokens, shift=shift, lora=((0, 0.0),), banned_strings=banned, can_grow=True
        )
        self.note(request_id, Submitted(PROMPTS[0], 1, seed, max_tokens, (), shift=shift, banned=banned))

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

    @rule(
        prompt=st.sampled_from(PROMPTS),
        n=st.integers(1, 10),
        seed=st.integers(0, 1000),
        max_tokens=st.sampled_from([1, 2, 3, 25]),
        temperature=st.sampled_from([0, 0.3, 0.8]),
        bias=st.sampled_from([(), ((EOS, 3.0),), FEW_LETTERS]),
        stop=st.sampled_from([(), (" king",), ("e",)]),
        banned=st.sampled_from([(), ("KING",), ("a", "e o", "?")]),
        stop_at=st.sampled_from(["", "word", "sentence"]),
        append=st.sampled_from([(), (5, 6)]),
        stop_token_ids=st.sampled_from([(), (), (7,), (20, 21, 22)]),
        include_stop=st.booleans(),
        allowed_token_ids=st.sampled_from([(), (), (), (EOS, *range(4, 30))]),
    )
    def submit_with_distinct_words(self, prompt: str, n: int, seed: int, max_tokens: int, **options: Any) -> None:
        names = {"bias": "logit_bias", "banned": "banned_strings"}
        options = {names.get(name, name): value for name, value in options.items()}
        options |= {"distinct_words": True, "can_grow": True, "lora": ((0, 0.0),)}
        request_id = self.driver.submit(prompt, n, seed, max_tokens, **options)
        self.spread[request_id] = Spread(prompt, n, seed, max_tokens, options)

    @rule(
        prompt=st.sampled_from(PROMPTS),
        n=st.integers(1, 6),
        seed=st.integers(0, 1000),
        max_tokens=st.sampled_from([1, 3, 25, 60]),
        form=st.sampled_from(FORMS),
        temperature=st.sampled_from([0, 0.8, 2.0]),
        banned=st.sampled_from([(), (), (" king",), ("a", "e o"), ("fox", "1")]),
    )
    def submit_in_a_form(
        self,
        prompt: str,
        n: int,
        seed: int,
        max_tokens: int,
        form: dict[str, str],
        banned: tuple[str, ...],
        **options: Any,
    ) -> None:
        options |= {**form, "banned_strings": banned, "can_grow": True, "linger": 5.0, "lora": ((0, 0.0),)}
        request_id = self.driver.submit(prompt, n, seed, max_tokens, **options)
        self.formed[request_id] = Formed(prompt, n, seed, max_tokens, options)

    @precondition(lambda self: self.formed)
    @rule(data=st.data(), seed=st.integers(0, 1000), max_tokens=st.sampled_from([2, 25, 60]))
    def fork_in_a_form(self, data: st.DataObject, seed: int, max_tokens: int) -> None:
        """The fork goes on where its origin stood in the grammar."""
        request_id = data.draw(st.sampled_from(list(self.formed)))
        if not self.lives(request_id):
            return
        formed, outcome = self.formed[request_id], self.driver.result(request_id)
        origin = data.draw(st.integers(0, formed.n + len(formed.forks) - 1))
        branch = self.driver.request(request_id).branches[origin]
        own = [*branch.tokens[branch.num_hidden : branch.num_given], *outcome.tokens[origin]]
        token = data.draw(st.integers(0, len(own)))
        try:
            self.driver.add(request_id, plain(seed, (), max_tokens=max_tokens), origin=origin, token=token)
        except (ContextExceeded, InvalidRequest):  # there is no room for it, or it would end within a character
            return
        formed.given[formed.n + len(formed.forks)] = own[:token]
        formed.forks.append((origin, token, seed, max_tokens))

    @rule(
        prompt=st.sampled_from(UNFINISHED),
        n=st.integers(1, 10),
        seed=st.integers(0, 1000),
        max_tokens=st.sampled_from([1, 2, 3, 25]),
        temperature=st.sampled_from([0, 0.8, 2.0]),
        stop=st.sampled_from([(), (" king",), ("e",)]),
        banned=st.sampled_from([(), (" garden",), ("a", "e o", "?")]),
        words=st.booleans(),
        first=st.booleans(),
        append=st.sampled_from([(), (), (" and the ga",), ("☃",), (" ",)]),
    )
    def submit_unfinished(self, prompt: str, n: int, seed: int, max_tokens: int, **options: Any) -> None:
        """A prompt that ends within a word, which is healed."""
        names = {"banned": "banned_strings", "words": "distinct_words", "first": "distinct_first"}
        options = {names.get(name, name): value for name, value in options.items()}
        heals = self.driver.model.supports_partial_reuse
        options |= {"token_healing": heals, "can_grow": True, "lora": ((0, 0.0),)}
        request_id = self.driver.submit(prompt, n, seed, max_tokens, **options)
        self.spread[request_id] = Spread(prompt, n, seed, max_tokens, options)

    @precondition(lambda self: self.spread)
    @rule(data=st.data(), count=st.integers(1, 3))
    def add_branches_with_distinct_words(self, data: st.DataObject, count: int) -> None:
        request_id = data.draw(st.sampled_from(list(self.spread)))
        if self.lives(request_id):
            self.driver.add(request_id, *[plain(None, self.spread[request_id].options["append"])] * count)
            self.spread[request_id].n += count

    @precondition(lambda self: self.spread)
    @rule(data=st.data())
    def cancel_one_with_distinct_words(self, data: st.DataObject) -> None:
        request_id = data.draw(st.sampled_from(list(self.spread)))
        self.driver.cancel(request_id, data.draw(st.none() | st.integers(0, self.spread[request_id].n - 1)))

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
        if sum(map(self.most_tokens, tokens)) < self.n_ctx_seq:
            options: dict[str, Any] = {"cache_prompt": cache_prompt, "lora": before.lora, "can_grow": True}
            new_id = self.driver.submit(tokens, n, seed, 8, media=media_of(tokens), **options)
            self.note(new_id, Submitted(tokens, n, seed, 8, (), before.lora, is_kept=cache_prompt))

    def most_tokens(self, part: str | int) -> int:
        """Return how many tokens a part of a prompt has at most."""
        if isinstance(part, int):
            return 1 if part >= 0 else MOST_OF_A_FILE
        return 1 + len(self.driver.model.tokenize(part, False, True))

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
                is_asked = request_id not in self.submitted or tokens in asked or min(tokens) < 0
                if is_asked or len(tokens) >= self.n_ctx_seq:
                    continue
                asked.append(tokens)
                lora = self.submitted[request_id].lora
                new_id = self.driver.submit(tokens, 1, 7, max_tokens, lora=lora, can_grow=True)
                self.note(new_id, Submitted(tuple(tokens), 1, 7, max_tokens, (), lora))

    @rule(action=st.sampled_from(["save", "restore", "erase"]), slot=st.integers(0, 3))
    def act_on_a_state(self, action: str, slot: int) -> None:
        """Whatever is kept or erased while others run, no text changes."""
        self.acted += 1
        command = StateAction(f"s{self.acted}", action, "a name", slot)
        self.driver.take(self.driver.engine.submit(self.driver.engine.prepare(command)))

    @precondition(lambda self: self.texts is not None and self.texts.files)
    @rule(data=st.data())
    def lose_a_stored_text(self, data: st.DataObject) -> None:
        """A text whose file is damaged is computed again, and nothing else is harmed."""
        assert self.texts is not None
        self.texts.lost.add(data.draw(st.sampled_from(sorted(self.texts.files))))

    @rule()
    def look_at_the_slots(self) -> None:
        slots = self.driver.engine.serve_query(GetSlots("q"))
        requests = [request for request in self.driver.engine._requests.active.values() if request.takes_place]
        running = sum(len(request.in_state(BranchState.RUNNING)) for request in requests)
        busy = [slot for slot in slots if slot["is_processing"]]
        assert len(busy) == (len(requests) if self.max_running else running)
        assert len(slots) == (self.max_running or self.driver.model.n_seq_max)
        assert len(requests) <= (self.max_running or len(requests))

    # Controls

    def note(self, request_id: str, submitted: Submitted) -> None:
        self.submitted[request_id] = submitted.expect(self.driver.model)

    def draw_request(self, data: st.DataObject) -> str:
        """Return a request's id, mostly of one that runs or rests."""
        engine = self.driver.engine
        living = [request_id for request_id in self.submitted if request_id in engine._requests]
        return data.draw(st.sampled_from(living or list(self.submitted)))

    def lives(self, request_id: str) -> bool:
        return request_id in self.driver.engine._requests

    @precondition(lambda self: self.submitted)
    @rule(
        data=st.data(),
        count=st.integers(1, 3),
        seed=st.none() | st.integers(0, 1000),
        place=st.sampled_from(["prompt", "token", "token", "character", "character", "end", "end"]),
        max_tokens=st.none() | st.integers(0, 20),
        stop=st.sampled_from([None, (), (" king",)]),
        append=st.sampled_from([(), (), (), (7,), ("the fox",)]),
        steps=st.sampled_from([0, 0, 0, 1, 3]),
    )
    def add_branches(
        self,
        data: st.DataObject,
        count: int,
        seed: int | None,
        place: str,
        max_tokens: int | None,
        stop: tuple[str, ...] | None,
        append: tuple[str | int, ...],
        steps: int,
    ) -> None:
        """Add branches from the prompt or fork them; others may step between their preparation and their beginning."""
        request_id = self.draw_request(data)
        submitted, outcome = self.submitted[request_id], self.driver.result(request_id)
        changes = {name: value for name, value in (("max_tokens", max_tokens), ("stop", stop)) if value is not None}
        entries = [plain(seed if count == 1 else None, append, **changes)] * count
        where: dict[str, int] = {}
        hidden: list[int] = []
        own: list[int] = []
        text, base = "", Expected(0, submitted.max_tokens, submitted.stop)
        if place != "prompt" and self.lives(request_id):
            origin = data.draw(st.integers(0, len(submitted.branches) - 1))
            where, base = {"origin": origin}, submitted.branches[origin]
            branch, text = self.driver.request(request_id).branches[origin], outcome.texts[origin]
            hidden = list(branch.tokens[len(self.behind_of(request_id)) : branch.num_hidden])
            own = [*branch.tokens[branch.num_hidden : branch.num_given], *outcome.tokens[origin]]
            if place == "token":
                where["token"] = data.draw(st.integers(0, len(own)))
                own = own[: where["token"]]
            elif place == "character":
                where["character"] = data.draw(st.integers(0, len(text)))
                text = text[: where["character"]]
        before = Expected(0, base.max_tokens, base.stop)
        try:
            growth = self.driver.prepare_add(request_id, *entries, **where)
        except ContextExceeded:
            return
        except Conflict:
            assert submitted.shift
            return
        except NotFound:
            assert not self.lives(request_id)
            return
        except InvalidRequest as error:
            if not error.message.endswith("ends inside a character"):
                raise
            assert not self.is_whole(own)
            return
        self.step(steps)
        try:
            indices = self.driver.grow(growth)
        except NotFound:
            assert not self.lives(request_id)
            return
        more = tokens_of(self.driver.model, append)
        behind = self.behind_of(request_id)
        for index in indices:
            branch = self.driver.request(request_id).branches[index]
            assert list(branch.tokens[: len(behind)]) == behind
            given, beginning = tuple(branch.tokens[len(behind) :]), outcome.texts[index]
            assert index == len(submitted.branches)
            assert given[: len(hidden)] == tuple(hidden)
            visible = list(given[len(hidden) : len(given) - len(more)])
            assert list(given[len(given) - len(more) :]) == more
            if where.get("token") is not None and self.text_of(own) == text[: len(self.text_of(own))]:
                assert visible == own
                text = self.text_of(own)
            if where:
                assert self.text_of(visible) == text
                assert beginning == text + self.text_of(more)
            else:
                assert (visible, beginning) == ([], "")
            submitted.branches.append(
                Expected(
                    seed if seed is not None and count == 1 else submitted.seed + index,
                    before.max_tokens if max_tokens is None else max_tokens,
                    before.stop if stop is None else stop,
                    given,
                    beginning,
                )
            )
            assert branch.spec.seed == submitted.branches[index].seed

    def behind_of(self, request_id: str) -> list[int]:
        """Return the tokens of a prompt that its branches do not share: a direction, and what follows it."""
        prompt, shared = self.submitted[request_id].prompt, list(self.driver.request(request_id).prefix.tokens)
        if not isinstance(prompt, str):
            return []
        whole = self.driver.model.tokenize(prompt, True, True)
        assert whole[: len(shared)] == shared
        return whole[len(shared) :]

    def text_of(self, tokens: list[int]) -> str:
        return b"".join(map(self.driver.model.piece, tokens)).decode("utf-8", "replace")

    def is_whole(self, tokens: list[int]) -> bool:
        """Whether no incomplete character stands at the end of a text."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        decoder.decode(b"".join(map(self.driver.model.piece, tokens)))
        return not decoder.getstate()[0]

    @precondition(lambda self: self.submitted)
    @rule(data=st.data(), more=st.integers(1, 20), stop=st.sampled_from([None, None, (), (" old",)]))
    def extend(self, data: st.DataObject, more: int, stop: tuple[str, ...] | None) -> None:
        request_id = self.draw_request(data)
        if not self.lives(request_id):
            return
        submitted = self.submitted[request_id]
        index = data.draw(st.integers(0, len(submitted.branches) - 1))
        branch, expected = self.driver.request(request_id).branches[index], submitted.branches[index]
        has_ended, may_resume = branch.state is BranchState.ENDED, branch.can_resume
        limit = branch.length + more if has_ended else expected.max_tokens + more
        if not has_ended and expected.max_tokens < 0:
            limit = -1  # more than no limit is none
        try:
            said = self.driver.change(request_id, index, more, **({} if stop is None else {"stop": stop}))
        except Conflict:
            assert (has_ended, may_resume) == (True, False)
            return
        assert not has_ended or may_resume
        assert (said["max_tokens"], said["state"]) == (limit, "waiting" if has_ended else said["state"])
        expected.max_tokens = limit
        expected.stop_changed = expected.stop_changed or stop is not None
        expected.stop = expected.stop if stop is None else stop  # which forks have from it

    @precondition(lambda self: self.submitted)
    @rule(data=st.data(), whole=st.booleans())
    def stop_branches(self, data: st.DataObject, whole: bool) -> None:
        request_id = self.draw_request(data)
        if not self.lives(request_id):
            return
        if whole:
            assert self.driver.stop(request_id) == {"id": request_id, "state": "ended"}
            assert len(self.driver.result(request_id).terminal) == 1
            return
        index = data.draw(st.integers(0, len(self.submitted[request_id].branches) - 1))
        has_ended = self.driver.request(request_id).branches[index].state is BranchState.ENDED
        try:
            assert self.driver.stop(request_id, index)["ended"]["reason"] == FinishReason.CANCELLED
            assert not has_ended
        except Conflict:
            assert has_ended

    @precondition(lambda self: self.submitted)
    @rule(data=st.data(), leaves=st.booleans())
    def leave_or_attach(self, data: st.DataObject, leaves: bool) -> None:
        request_id = self.draw_request(data)
        if self.lives(request_id) and leaves:
            lingers = self.driver.request(request_id).linger > 0
            self.driver.leave(request_id)
            assert self.lives(request_id) == lingers
        elif self.lives(request_id):
            self.driver.attach(request_id)

    @rule(seconds=st.sampled_from([1.0, 3.0, 6.0]))
    def wait(self, seconds: float) -> None:
        self.driver.advance(seconds)
        self.driver.advance(0.0)  # a request that ended by its first step may rest only now
        now = self.driver.now
        for request in self.driver.idle:
            assert now - max(request.since, request.alone_since or 0.0) < request.linger + 1.0

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
        residency.RESTORE_TOKENS = 512
        if not hasattr(self, "driver"):
            return
        self.driver.run()
        for request in self.driver.idle:
            self.driver.attach(request.request_id)
        self.driver.advance(100)
        self.driver.check_drained()
        assert not self.driver.idle
        for request_id, submitted in self.submitted.items():
            self.check_texts(request_id, submitted)
        for request_id, (prompt, asked) in self.explored.items():
            self.check_leaves(request_id, prompt, asked)
        for request_id, spread in self.spread.items():
            self.check_words(request_id, spread)
        for request_id, formed in self.formed.items():
            self.check_form(request_id, formed)

    def check_form(self, request_id: str, formed: Formed) -> None:
        """Branches in a form, and forks of them, are in it, and what they would be alone with all the room."""
        outcome = self.driver.result(request_id)
        if isinstance(outcome.terminal[0], Failed):
            assert self.may_fail
            return
        alone = Driver(FakeModel(8192, 64, n_ctx_seq=self.n_ctx_seq, n_adapters=1))
        asked = alone.submit(formed.prompt, formed.n, formed.seed, formed.max_tokens, **formed.options)
        alone.run()
        for origin, token, seed, max_tokens in formed.forks:
            alone.add(asked, plain(seed, (), max_tokens=max_tokens), origin=origin, token=token)
            alone.run()
        expected = alone.result(asked)
        form = {name: text for name, text in formed.options.items() if name in ("grammar", "json_schema")}
        for index, end in outcome.ends.items():
            tokens = [*formed.given.get(index, ()), *outcome.tokens[index]]
            check_in_form(self.driver.model, form, tokens, end.reason == FinishReason.EOS)
            assert end.code not in ("grammar_dead_end", "grammar_too_complex")
            if end.truncated or end.reason == FinishReason.CANCELLED:
                assert expected.tokens[index][: len(outcome.tokens[index])] == outcome.tokens[index]
                continue
            assert outcome.texts[index] == expected.texts[index]
            assert outcome.tokens[index] == expected.tokens[index]
            others = expected.ends[index]
            assert (end.reason, end.length, end.rewinds, end.code) == (
                others.reason, others.length, others.rewinds, others.code,
            )  # fmt: skip

    def check_words(self, request_id: str, spread: Spread) -> None:
        """A request with distinct words is what it would be alone, with all the room and all its branches at once."""
        outcome = self.driver.result(request_id)
        if isinstance(outcome.terminal[0], Failed):
            assert self.may_fail
            return
        if any(end.truncated or end.reason == FinishReason.CANCELLED for end in outcome.ends.values()):
            return
        model = FakeModel(4096, 64, n_ctx_seq=self.n_ctx_seq, n_adapters=1)
        alone = Driver(model)
        asked = alone.submit(spread.prompt, spread.n, spread.seed, spread.max_tokens, **spread.options)
        alone.run()
        expected = alone.result(asked)
        for index in range(spread.n):
            assert outcome.texts[index] == expected.texts[index]
            assert outcome.tokens[index] == expected.tokens[index]
            # What is drafted and what was known already depend on what else runs; what is written does not.
            of_work = {"drafted": 0, "accepted": 0, "given_computed": 0}
            end = replace(outcome.ends[index], **of_work)
            assert end == replace(expected.ends[index], request_id=request_id, **of_work)

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
        assert set(outcome.ends) == set(range(len(submitted.branches)))
        if request_id in self.scored and any(isinstance(event, PromptDone) for event in outcome.events):
            self.check_scores(outcome, str(submitted.prompt), submitted.lora, self.scored[request_id])
        for index, branch in enumerate(submitted.branches):
            self.check_branch(submitted, branch, outcome, index)

    def check_scores(self, outcome: Outcome, prompt: str, lora: tuple[tuple[int, float], ...], start: int) -> None:
        """The probabilities of a prompt's tokens are those that it has alone, from the place where they were asked for."""
        tokenize = self.driver.model.tokenize
        before = 0 if start <= 0 else ids.common_length(
            ids.tokens_of(tokenize(prompt[:start], True, True)), ids.tokens_of(tokenize(prompt, True, True)), 0
        )  # fmt: skip
        alone = solo(
            prompt, 1, 0, lora=lora, prompt_logprobs=True, surprise_from=min(start, 0), n_ctx_seq=self.n_ctx_seq
        )
        scores, expected = (
            [prob for event in each.events if isinstance(event, PromptLogprobs) for prob in event.probs]
            for each in (outcome, alone)
        )
        assert scores == expected[before:]

    def check_branch(self, submitted: Submitted, branch: Expected, outcome: Outcome, index: int) -> None:
        end, resumed_at, tokens = outcome.ends[index], outcome.resumed_at[index], outcome.tokens[index]
        if resumed_at and submitted.banned:
            return  # the beginning of a banned string has been shown at the limit, which a text without it may rewind
        written = fold(outcome.texts[index].removeprefix(branch.beginning))
        assert not any(fold(string) in written for string in submitted.banned)
        prompt = submitted.prompt
        head = self.driver.model.tokenize(prompt, True, True) if isinstance(prompt, str) else prompt
        options: dict[str, Any] = {"lora": submitted.lora, "shift": submitted.shift, "n_ctx_seq": self.n_ctx_seq}
        options |= {"banned_strings": submitted.banned, "linger": submitted.linger}

        def cold(stop: tuple[str, ...]) -> Outcome:
            whole = (*head, *branch.given)
            return solo(whole, branch.seed, branch.max_tokens, stop=stop, media=media_of(whole), **options)

        if end.reason == FinishReason.CANCELLED or branch.stop_changed or (resumed_at and branch.stop):
            # What was held back is released at the end, so a stop string's beginning may show: compare without. So may a
            # banned string's, whose tokens are other ones where the text goes on.
            if submitted.banned and end.reason == FinishReason.CANCELLED:
                return
            assert tokens == cold(()).tokens[0][: len(tokens)]
            return
        expected = cold(branch.stop)
        whole = branch.beginning + expected.texts[0]
        if branch.beginning and any(fold(string) in fold(whole) for string in submitted.banned):
            return  # alone its beginning was a part of the prompt, which a banned string may begin in
        if end.truncated and self.may_fail:
            assert whole.startswith(outcome.texts[index].rstrip("\ufffd"))
        elif submitted.linger or all(self.is_whole(tokens[:length]) for length in resumed_at):
            assert outcome.texts[index] == whole
            ends = [(each.reason, each.length, each.rewinds, each.code) for each in (end, expected.ends[0])]
            assert ends[0] == ends[1]
        else:  # a character that a limit cut has been shown as U+FFFD
            assert tokens == expected.tokens[0]


EngineWalk.TestCase.settings = settings(
    max_examples=examples(60),
    stateful_step_count=30,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # to shrink one of these takes more than five minutes
)
TestEngineWalk = pytest.mark.timeout(600)(EngineWalk.TestCase)  # half a minute alone


def test_the_parent_of_a_private_prompt_counts_as_the_holder_of_a_sequence() -> None:
    """A walk that was found once: with seven sequences a branch was started for which there was none."""
    walk = EngineWalk()
    walk.begin(
        ahead=False, n_ctx=222, cache_bytes=0, short=False, memory={}, cache_cells=0, n_ubatch=4, n_seq_max=7, max_draft=0,
        looks_up=False, every=-1, draft=None, draft_room=(400, 12), max_running=0, sections=False,
    )  # fmt: skip
    walk.explore(prompt="the old king said then the fox", cutoff=1.0, max_branches=1, depth=12)
    walk.explore(prompt="river boat " * 12, cutoff=0.01, max_branches=3, depth=4)
    walk.explore(prompt="a", cutoff=0.7, max_branches=7, depth=5)
    walk.submit_one_that_shifts(seed=0, max_tokens=30, n_keep=-1, n_discard=0, banned=("a", "e", "n t"))
    walk.explore(prompt="the old king said", cutoff=0.3, max_branches=3, depth=1)
    walk.ask_for_what_paused_branches_have_written(n=2, seed=0, max_tokens=0)
    walk.driver.run()
    stats = walk.driver.engine.stats()
    assert stats["sequences_used"] == stats["sequences_idle"]


def test_a_healed_text_that_was_drafted_is_that_of_one_that_was_not() -> None:
    """A walk that was found once: what a branch tells of its drafts was compared with a run that had none."""
    walk = EngineWalk()
    walk.begin(
        ahead=False, n_ctx=70, cache_bytes=0, short=False, memory={}, cache_cells=0, n_ubatch=4, n_seq_max=2, max_draft=4,
        looks_up=True, every=-1, draft=FakeModel, draft_room=(400, 12), max_running=0, sections=False,
    )  # fmt: skip
    walk.submit_unfinished(
        prompt=UNFINISHED[0], n=1, seed=0, max_tokens=3, temperature=0, stop=(), banned=(), words=False, first=False,
        append=(),
    )  # fmt: skip
    walk.driver.run()
    assert walk.driver.result("r0").ends[0].drafted > 0
    walk.teardown()


def test_a_state_that_comes_from_a_store_is_not_dropped_while_a_text_goes_on_there() -> None:
    walk = EngineWalk()
    walk.begin(
        ahead=True, n_ctx=398, cache_bytes=1670, short=True, memory={"has_states": True}, cache_cells=20, n_ubatch=12,
        n_seq_max=11, max_draft=0, looks_up=True, every=0, draft=None, draft_room=(60, 12), max_running=0, sections=True,
        texts=3000, short_restores=False, step_seconds=0.0, slow_grammars=False,
    )  # fmt: skip
    options = {"temperature": 0.8, "bias": ((EOS, 3.0),), "stop": (), "banned": ("KING",), "stop_at": "", "append": ()}
    walk.submit_with_distinct_words(PROMPTS[0], 1, 165, 3, **options)
    walk.submit_one_that_shifts(1000, 147, 5, 1, ())
    walk.ask_for_what_paused_branches_have_written(n=3, seed=661, max_tokens=8)
    walk.submit_one_that_shifts(83, 33, 0, 7, ())
    walk.teardown()


@pytest.mark.parametrize("memory", [{}, {"has_states": True}, {"supports_partial_reuse": False}], ids=str)
def test_a_branch_that_is_paused_goes_on_where_it_stood_in_its_form(memory: dict[str, bool]) -> None:
    walk = EngineWalk()
    walk.begin(
        ahead=True, n_ctx=100, cache_bytes=10**6, short=False, memory=memory, cache_cells=0, n_ubatch=32, n_seq_max=12,
        max_draft=0, looks_up=False, every=8, draft=None, draft_room=(400, 12), max_running=0, sections=False,
    )  # fmt: skip
    walk.submit_in_a_form("a", 8, 0, 60, LONG, (), temperature=2.0)
    walk.driver.run()
    assert walk.driver.engine.stats()["branches_paused_total"] > 0
    walk.teardown()
