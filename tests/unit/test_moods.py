"""Control vectors of branches: what each computes, what is known again, and what is refused by its name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from srb.config.sampling_params import SamplingParams
from srb.engine.fake import FakeModel
from srb.engine.model import Batch, Mood
from srb.engine.tokens import MAX_MARK, marked, num_unmarked, tokens_of
from srb.errors import InvalidRequest
from srb.wire.commands import BranchSpec, ControlVectors, Generate, StateAction
from tests.engine_helpers import Driver, plain

PROMPT = "the old king said then the fox"
SAD: ControlVectors = (("sad", 0.5),)
GAY: ControlVectors = (("sad", -0.5),)
GREEDY = SamplingParams(temperature=0.0, ignore_eos=True)


def driver(**options: Any) -> Driver:
    return Driver(FakeModel(2048, 32, vectors={"sad": 0.0, "dark": 0.0}), cache_cells=10**6, **options)


def ask(driver: Driver, moods: list[ControlVectors | None], name: str = "r", **options: Any) -> list[list[int]]:
    given = {"append": options.pop("append", ()), "token_healing": options.pop("token_healing", False)}
    specs = tuple(BranchSpec(1, 12, sampling=GREEDY, control_vectors=mood, **given) for mood in moods)
    prompt = options.pop("prompt", (PROMPT,))
    driver.take(driver.engine.submit(driver.engine.prepare(Generate(name, prompt, specs, **options))))
    driver.run()
    return [driver.result(name).tokens[index] for index in range(len(moods))]


def likeliest(plain_tokens: list[int], mood: Mood, count: int, under: Mood = ()) -> list[int]:
    """Return the tokens that follow a prompt whose last token is computed under a mood, as they are: one by one."""
    model, tokens = FakeModel(2048, 2, vectors={"sad": 0.0}), list(plain_tokens)
    for place in range(len(plain_tokens) - 1 + count):
        batch = Batch()
        moods = under if place < len(plain_tokens) - 1 else mood
        batch.moods = {0: moods} if moods else {}
        row = batch.add(0, place, [tokens[place]], want_logits=True)
        model.decode(batch)
        if place >= len(plain_tokens) - 1:
            logits = model.logits(row).copy()
            logits[FakeModel().tokenize("", True, False)] = -np.inf
            logits[model.info("x").eos_id] = -np.inf
            tokens.append(int(logits.argmax()))
    return tokens[len(plain_tokens) :]


def test_each_branch_is_computed_under_its_own_mood_from_its_first_word_on() -> None:
    texts = ask(driver(), [SAD, None, GAY, (("sad", 1.0),), ()])
    prompt = FakeModel().tokenize(PROMPT, True, True)
    key = driver().model.control_vectors[0].key
    for found, mood in zip(texts, [((key, 0.5),), (), ((key, -0.5),), ((key, 1.0),), ()], strict=True):
        assert found == likeliest(prompt, mood, 12)
    assert len({tuple(text[:1]) for text in texts}) > 2


def test_a_mood_of_the_whole_request_is_the_prompts_too() -> None:
    of_server = Driver(FakeModel(2048, 32, vectors={"sad": 0.5}), cache_cells=10**6)
    key = of_server.model.control_vectors[0].key
    prompt = FakeModel().tokenize(PROMPT, True, True)
    whole = likeliest(prompt, ((key, 0.5),), 12, under=((key, 0.5),))
    assert ask(driver(), [None], control_vectors=SAD) == ask(of_server, [None]) == [whole]
    assert ask(of_server, [None], "plain", control_vectors=()) == [likeliest(prompt, (), 12)]
    assert ask(of_server, [()], "own") == [likeliest(prompt, (), 12, under=((key, 0.5),))]


def test_a_shared_prompt_is_computed_once_and_words_are_known_again_under_their_mood_alone() -> None:
    own = driver()
    texts = ask(own, [SAD, GAY, None])
    computed = own.model.n_tokens_decoded
    length = len(own.model.tokenize(PROMPT, True, True))
    assert computed <= length - 1 + 3 * 12
    ask(own, [SAD], "same", append=tuple(texts[0]))
    assert own.result("same").terminal[0].computed_tokens <= 1
    for name, mood in [("none", None), ("other", GAY)]:
        ask(own, [mood], name, append=tuple(texts[0]))
        assert own.result(name).terminal[0].computed_tokens >= 12
    own = driver()
    ask(own, [SAD, GAY, None])
    ask(own, [None], "prompt", prompt=(*own.model.tokenize(PROMPT, True, True), *texts[0]))
    assert own.result("prompt").terminal[0].computed_tokens >= 11


def test_a_healed_end_is_drawn_under_the_branchs_mood() -> None:
    for moods in ([SAD, GAY, None], [GAY], [SAD, SAD]):
        together = ask(driver(), moods, prompt=("the old king and the ga",), token_healing=True)
        for mood, text in zip(moods, together, strict=True):
            beside = ask(driver(), [mood, SAD], prompt=("the old king and the ga",), token_healing=True)
            assert text == beside[0]


def test_an_added_branch_and_a_fork_have_the_mood_that_they_name_or_their_origins() -> None:
    own = driver()
    first = ask(own, [SAD, None], can_grow=True, linger=9.0)
    same = own.add("r", plain(1))
    gay = own.add("r", plain(1, control_vectors=GAY))
    forked = own.add("r", plain(1), origin=0, token=4)
    own.run()
    tokens = own.result("r").tokens
    assert tokens[same[0]] == first[0]  # its base is the first branch
    assert tokens[gay[0]] == ask(driver(), [GAY])[0]
    assert tokens[forked[0]] == first[0][4:] + tokens[forked[0]][8:]


def test_an_added_branch_heals_the_prompt_under_its_own_mood() -> None:
    unfinished: dict[str, Any] = {"prompt": ("the old king and the ga",), "token_healing": True}
    own = driver()
    ask(own, [SAD], can_grow=True, linger=9.0, **unfinished)
    own.add("r", plain(1, control_vectors=GAY))
    own.run()
    assert own.result("r").tokens[1] == ask(driver(), [GAY], **unfinished)[0]


def test_the_same_draft_is_taken_only_where_the_mood_would_write_it() -> None:
    drafted = driver(max_draft=4, draft_model=FakeModel(400, 12, 32, 8))
    assert ask(drafted, [SAD, None, GAY]) == ask(driver(), [SAD, None, GAY])


def test_marks_are_of_no_vocabulary_and_run_out_without_harm() -> None:
    tokens = tokens_of([5, 6, 262143])
    assert {tuple(marked(tokens, mark)) for mark in (0, 1, MAX_MARK)} != {tuple(tokens)}
    assert num_unmarked(tokens + marked(tokens, MAX_MARK)) == num_unmarked(tokens) == 3
    assert marked(tokens, 0) is tokens
    own = driver()
    own.engine._tree._marks = {(("x", float(number)),): number for number in range(MAX_MARK)}
    assert ask(own, [SAD, None]) == ask(driver(), [SAD, None])
    ask(own, [SAD], "again")
    assert own.result("again").terminal[0].computed_tokens > 0


def test_a_text_under_a_mood_of_its_branch_is_not_saved_and_says_why() -> None:
    own = driver()
    ask(own, [SAD, None], id_slot=0)
    with pytest.raises(InvalidRequest, match="control_vectors"):
        own._answer(own.engine.submit(own.engine.prepare(StateAction("s", "save", "name", 0))))
    assert own._answer(own.engine.submit(own.engine.prepare(StateAction("t", "save", "name", 1))))["tokens"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ((("merry", 1.0),), "'control_vectors'.*'merry' is not known; the server has sad, dark"),
        ((("sad", 11.0),), "'control_vectors'.*the scale of sad should be -10 to 10"),
        ((("sad", float("nan")),), "'control_vectors'.*the scale of sad should be -10 to 10"),
    ],
    ids=["name", "scale", "nan"],
)
def test_a_mood_that_cannot_be_is_refused_by_the_fields_name(given: ControlVectors, words: str) -> None:
    for whole, own in [(given, None), (None, given)]:
        with pytest.raises(InvalidRequest, match=words):
            ask(driver(), [own], control_vectors=whole)


def test_a_model_without_a_place_for_vectors_says_so() -> None:
    own = driver()
    own.model.no_control_vectors = "this kind of model has no place for them"
    with pytest.raises(InvalidRequest, match=r"control_vectors.*no place"):
        ask(own, [SAD])
    assert ask(own, [()]) == ask(driver(), [None])
