"""The watch over a text: where a lazy grammar begins, and where reasoning has to end, on the fake's bytes."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from srb.config.sampling_params import PLACE, TOOL, SamplingParams
from srb.engine.fake import BOS, EOS, FakeModel
from srb.engine.watching import Watch, watch_of
from srb.errors import Conflict, InvalidRequest, NotFound
from tests.engine_helpers import Driver
from tests.logs import lines_of


def tokens(model: FakeModel, text: str) -> list[int]:
    return model.tokenize(text, add_special=False, parse_special=True)


def begun(params: SamplingParams, text: str) -> str | None:
    """Return the text with which the grammar begins while `text` is written."""
    model = FakeModel()
    watch = Watch(params, model)
    for token in tokens(model, text):
        expected = watch.begun_by(token)
        found = watch.accept(token)
        assert found == expected
        if found is not None:
            assert watch.is_on
            return found.decode()
    assert not watch.is_on
    return None


def lazy(*triggers: tuple[str, str | int], tags: tuple[str, ...] = ()) -> SamplingParams:
    return SamplingParams(grammar='root ::= "x"', grammar_triggers=triggers, reasoning_tags=tags)


THINK = ("<think>", "</think>")


@pytest.mark.parametrize(
    ("params", "text", "found"),
    [
        (lazy(("word", "<call>")), "Hi <call>", "<call>"),
        (lazy(("word", "<call>")), "Hi <cal", None),
        (lazy(("word", "<call>"), ("word", "call>")), "a <call>", "<call>"),
        (lazy(("start", '{"name"')), ' \n {"name"', '{"name"'),
        (lazy(("start", '{"name"')), 'So: {"name"', None),
        (lazy(("start", '{"name"'), tags=THINK), '<think>Hm</think>\n{"name"', '{"name"'),
        (lazy(("word", "<call>"), tags=THINK), "<think>a <call> b", None),
        (lazy(("word", "<call>"), tags=THINK), " <think>a <call> b</think> <call>", "<call>"),
        (lazy(("word", "<call>"), tags=("", "</think>")), "a <call> b</think><call>", "<call>"),
        (lazy(("word", "<call>"), tags=THINK), "<thin <call>", "<call>"),
        (lazy(("word", "<call>"), tags=THINK), "Yes <think> <call>", "<call>"),
    ],
)
def test_a_grammar_begins_at_its_trigger(params: SamplingParams, text: str, found: str | None) -> None:
    assert begun(params, text) == found


def test_a_token_that_ends_a_trigger_may_bring_more() -> None:
    """The fake's word " the" ends "n the" within; the grammar begins with all of it."""
    assert begun(lazy(("word", "n t")), "in the") == "n the"


def test_what_a_watch_keeps_does_not_grow_with_the_text() -> None:
    model = FakeModel()
    watch = Watch(lazy(("word", "<call>"), tags=THINK), model)
    for token in tokens(model, "the old house, " * 500):
        watch.accept(token)
    assert len(watch.state.tail) <= len("</think>")


def forced(budget: int, text: str, tags: tuple[str, ...] = THINK) -> str:
    """Write `text` where nothing is forced; return all that came."""
    model = FakeModel()
    params = SamplingParams(reasoning_tags=tags, reasoning_budget_tokens=budget, reasoning_budget_message="[cut]")
    watch = watch_of(params, model)
    assert watch is not None
    came, left = b"", tokens(model, text)
    while left or watch.forced is not None:
        token = left.pop(0) if watch.forced is None else watch.forced
        watch.accept(token)
        came += model.piece(token)
    return came.decode()


def test_reasoning_is_cut_after_its_budget_and_only_reasoning() -> None:
    assert forced(3, "<think>abcdef") == "<think>abc[cut]</think>def"
    assert forced(3, "<think>ab</think>cdefgh") == "<think>ab</think>cdefgh"
    assert forced(3, "<think>ab<c") == "<think>ab<c[cut]</think>"
    assert forced(1, "<think>" + "<" * 20).startswith("<think><<<<<<<<<[cut]</think>")
    assert forced(3, "abcdefgh") == "abcdefgh"
    assert forced(0, "abc", tags=("", "</think>")) == "[cut]</think>abc"
    assert forced(2, "abc<think>d", tags=("", "</think>")) == "ab[cut]</think>c<think>d"
    assert forced(1, "<think>é☃x") == "<think>é[cut]</think>☃x"


def test_without_triggers_and_budget_nothing_is_watched() -> None:
    model = FakeModel()
    assert watch_of(SamplingParams(), model) is None
    assert watch_of(SamplingParams(grammar='root ::= "x"'), model) is None
    assert watch_of(SamplingParams(reasoning_tags=THINK), model) is None
    eager = SamplingParams(grammar='root ::= "x"', reasoning_tags=("", "</think>"), reasoning_budget_tokens=2)
    assert watch_of(eager, model) is None


def test_a_copy_and_a_state_that_is_set_again_go_on_alike() -> None:
    model, choices = FakeModel(), random.Random(1)
    params = SamplingParams(
        grammar="x", grammar_triggers=(("word", "<c>"),), reasoning_tags=THINK, reasoning_budget_tokens=4
    )
    text = tokens(model, "<think>ab<c></think>Hi <c> the")
    watch = Watch(params, model)
    told = [watch.accept(token) for token in text]
    for _ in range(20):
        other, at = Watch(params, model), choices.randrange(len(text))
        for token in text[:at]:
            other.accept(token)
        kept, copy = other.state, other.copy()
        again = [other.accept(token) for token in text[at:]]
        other.state = kept
        assert again == [copy.accept(t) for t in text[at:]] == [other.accept(t) for t in text[at:]] == told[at:]


# A grammar that waits for the answer ----------------------------------------------------------------------------------


def answer(tags: tuple[str, ...] = THINK, **options: Any) -> SamplingParams:
    return SamplingParams(grammar="x", grammar_triggers=(("answer", ""),), reasoning_tags=tags, **options)


@pytest.mark.parametrize(
    ("tags", "text", "found"),
    [
        (THINK, "<think>a {</think>", ""),
        (THINK, "  <think>a", None),
        (THINK, "<thi", None),
        (THINK, "<thin{", "<thin{"),
        (THINK, " {", " {"),
        (THINK, " " * 5, " " * 5),
        (("", "</think>"), "a {</thin", None),
        (("", "</think>"), "a {</think>", ""),
    ],
)
def test_a_grammar_waits_for_the_end_of_the_reasoning_or_begins_without_any(
    tags: tuple[str, ...], text: str, found: str | None
) -> None:
    assert begun(answer(tags), text) == found


def test_without_tags_the_answer_begins_at_once() -> None:
    assert Watch(answer(()), FakeModel()).is_on


def test_a_token_that_ends_the_reasoning_may_begin_the_answer() -> None:
    """The fake's word " the" ends "n t" within."""
    assert begun(answer(("", "n t")), "in the") == "he"


def test_reasoning_does_not_end_the_text_while_an_answer_has_to_come() -> None:
    model = FakeModel()
    watch = Watch(answer(("", "</think>"), reasoning_budget_tokens=50, reasoning_budget_message="[cut]"), model)
    for token in tokens(model, "ab"):
        assert watch.instead_of(token) == token
        watch.accept(token)
    came = b""
    token = watch.instead_of(EOS)
    while token is not None:
        watch.accept(token)
        came += model.piece(token)
        token = watch.forced
    assert (came, watch.is_on) == (b"[cut]</think>", True)
    free = Watch(SamplingParams(reasoning_tags=("", "</think>"), reasoning_budget_tokens=50), model)
    assert free.instead_of(EOS) == EOS


def test_a_budget_ends_the_reasoning_and_the_answer_begins() -> None:
    model = FakeModel()
    watch = Watch(answer(("", "</think>"), reasoning_budget_tokens=2), model)
    left, came = tokens(model, "abc"), b""
    while not watch.is_on:
        token = left.pop(0) if watch.forced is None else watch.forced
        watch.accept(token)
        came += model.piece(token)
    assert came == b"ab</think>"


# In the engine --------------------------------------------------------------------------------------------------------

BUDGET: dict[str, Any] = {"reasoning_tags": ("", "</think>"), "reasoning_budget_tokens": 4, "ignore_eos": True}


def cut_at_four(driver: Driver, found: list[int]) -> bool:
    """Whether the tokens are four, the end tag's, and then free ones."""
    tag = tokens(driver.model, "</think>")
    return found[4 : 4 + len(tag)] == tag and tag != found[12:20]


@pytest.mark.parametrize(
    "options", [{}, {"distinct_first": True}, {"distinct_words": True}, {"banned_strings": ("qzx",)}]
)
def test_every_branch_keeps_its_budget(options: dict[str, Any]) -> None:
    driver = Driver(FakeModel(n_ctx=512))
    request = driver.submit("the old king", n=4, max_tokens=30, **BUDGET, **options)
    driver.run()
    outcome = driver.outcomes[request]
    assert all(cut_at_four(driver, outcome.tokens[index]) for index in range(4))
    assert len({tuple(outcome.tokens[index][:4]) for index in range(4)}) == 4
    assert all("</think>" in outcome.texts[index] for index in range(4))


@pytest.mark.parametrize("at", [0, 2, 4, 7, 12, 15])
def test_a_fork_goes_on_with_the_budget_that_is_left(at: int) -> None:
    driver = Driver(FakeModel(n_ctx=512))
    request = driver.submit("the old king", max_tokens=30, can_grow=True, linger=100.0, **BUDGET)
    for _ in range(22):
        driver.step()
    [fork] = driver.add(request, origin=0, token=at)
    driver.run()
    assert cut_at_four(driver, driver.outcomes[request].tokens[0])
    begun = driver.outcomes[request].tokens[0][:at]
    assert cut_at_four(driver, [*begun, *driver.outcomes[request].tokens[fork]])


def test_a_lazy_grammar_leaves_the_text_before_its_trigger_free() -> None:
    driver = Driver(FakeModel(n_ctx=512))
    free = driver.submit("the old king", max_tokens=30, ignore_eos=True)
    driver.run()
    text = driver.outcomes[free].texts[0]
    word = max(re.findall("[a-z]+", text), key=len)
    grammar = f'root ::= "{word}!"'
    lazy = driver.submit(
        "the old king", max_tokens=30, ignore_eos=True, grammar=grammar, grammar_triggers=(("word", word),)
    )
    driver.run()
    found = driver.outcomes[lazy]
    assert found.ends[0].code == "grammar_dead_end"
    assert found.texts[0] == text[: text.index(word) + len(word)] + "!"


def test_control_tokens_that_are_preserved_are_part_of_the_text() -> None:
    driver = Driver(FakeModel(n_ctx=512))
    driver.model.tokenize = tokenize_bos(driver.model)  # type: ignore[method-assign]
    always: dict[str, Any] = {"temperature": 0.0, "logit_bias": ((BOS, 1e9),), "max_tokens": 2}
    driver.model._next_logits = lambda visible: np.zeros(driver.model.n_vocab, np.float32)  # type: ignore[method-assign]
    shown = driver.submit("the", preserved_tokens=("<s>", "no token"), **always)
    hidden = driver.submit("the", **always)
    driver.run()
    assert driver.outcomes[shown].texts[0] == "<s><s>"
    assert driver.outcomes[hidden].texts[0] == ""


@pytest.mark.parametrize("stops", [("<s>",), ("never", "<s>", "x"), ("<s>", "<s>the")])
def test_a_stop_that_is_one_control_token_ends_there(stops: tuple[str, ...]) -> None:
    driver = Driver(FakeModel(n_ctx=512))
    always: dict[str, Any] = {"temperature": 0.0, "logit_bias": ((BOS, 1e9),), "max_tokens": 9}
    driver.model._next_logits = lambda visible: np.zeros(driver.model.n_vocab, np.float32)  # type: ignore[method-assign]
    ended = driver.submit("the", stop=stops, **always)
    others = [driver.submit("the", stop=stop, **always) for stop in ((), ("s",), ("<s",), ("<s><s>",))]
    driver.run()
    end = driver.outcomes[ended].ends[0]
    assert (end.reason, end.stopping_word, driver.outcomes[ended].texts[0]) == ("word", "<s>", "")
    assert [driver.outcomes[other].ends[0].reason for other in others] == ["limit"] * 4, "no text has a control token"


def tokenize_bos(model: FakeModel) -> Callable[[str, bool, bool], list[int]]:
    plain = model.tokenize

    def tokenize(text: str, add_special: bool, parse_special: bool) -> list[int]:
        return [BOS] if text == "<s>" and parse_special else plain(text, add_special, parse_special)

    return tokenize


def test_a_schema_that_makes_no_grammar_loosens_its_own_tool_alone_and_refuses_a_forced_call(
    caplog: pytest.LogCaptureFixture,
) -> None:
    driver = Driver(FakeModel(n_ctx=64))
    bad, sure = '{"$ref":"#/nowhere"}', '{"const":7}'
    grammar = 'root ::= "a" schema-0 | "b" schema-1'
    params: dict[str, Any] = {"grammar": grammar, "grammar_schemas": (sure, bad), "temperature": 0.0}
    for letter, begun in (("a", "a7"), ("b", "b{")):
        biases = tuple((driver.model.tokenize(each, False, False)[0], 50.0) for each in (letter, "}", '"'))
        triggers = (("start", "a"), ("start", "b"))
        request_id = driver.submit("the", max_tokens=20, **params, grammar_triggers=triggers, logit_bias=biases)
        driver.run()
        assert driver.outcomes[request_id].texts[0].startswith(begun)
    [line] = lines_of("srb.engine", caplog)  # one, though two requests had these tools
    assert (
        "a tool is called with any arguments, since its schema makes no grammar: Field 'tools.$ref': #/nowhere" in line
    )
    with pytest.raises(InvalidRequest, match=r"Field 'tools\.\$ref'"):
        driver.submit("the", **params)
    assert driver.model.open_samplers == 0


def test_one_line_names_each_tool_that_holds_less_and_each_place_and_what_to_do(
    caplog: pytest.LogCaptureFixture,
) -> None:
    driver = Driver(FakeModel(n_ctx=64))
    parts = ({"pattern": "(?=a)"}, {"$ref": "#/nowhere"}, {"not": {"const": 1}}, {"type": "null"})
    schemas = tuple(
        json.dumps({PLACE: f"tools[{number}].parameters", TOOL: f"tool{number}\n", "properties": {"box": part}})
        for number, part in enumerate(parts)
    )
    params = {
        "grammar": " | ".join(["root ::= schema-0", "schema-1", "schema-2", "schema-3"]),
        "grammar_schemas": schemas,
    }
    for _ in range(3):  # turns
        driver.submit("the", max_tokens=1, **params, grammar_triggers=(("start", "a"),))
        driver.run()
    [line] = lines_of("srb.engine", caplog)
    assert "tool0?: tools[0].parameters.properties.box.pattern is not supported and does not hold: look-around" in line
    assert "tool1? is called with any arguments, since its schema makes no grammar: Field 'tools[1].parameters." in line
    assert "tool2?: tools[2].parameters.properties.box.not is not supported and does not hold" in line
    assert "tool3" not in line
    assert line.endswith("Change these places, or nothing: all else holds")


# Reasoning that is ended while it is written --------------------------------------------------------------------------


CONTROLLED: dict[str, Any] = {"reasoning_control": True, "reasoning_budget_message": "[cut]", "ignore_eos": True}


def ended_after(count: int, text: str, **options: Any) -> tuple[str, bool]:
    """Write `text` where nothing is forced, and end the reasoning after `count` tokens; return all that came."""
    model = FakeModel()
    given = {"reasoning_tags": THINK, **CONTROLLED, **options}
    watch = watch_of(SamplingParams(**given), model)
    assert watch is not None
    came, left, told = b"", tokens(model, text), False
    while left or watch.forced is not None:
        if not count:
            told = watch.end_reasoning()
        count -= 1
        token = left.pop(0) if watch.forced is None else watch.forced
        watch.accept(token)
        came += model.piece(token)
    return came.decode(), told


def test_reasoning_ends_when_it_is_told_to_wherever_it_is() -> None:
    size = len(tokens(FakeModel(), "<think>"))
    assert ended_after(size + 2, "<think>abcd") == ("<think>ab[cut]</think>cd", True)
    assert ended_after(0, "<think>ab") == ("<think>[cut]</think>ab", True)  # before it began
    assert ended_after(1, "ab") == ("ab", False)
    assert ended_after(size + 3, "<think>abcd", reasoning_budget_tokens=2) == ("<think>ab[cut]</think>cd", True)
    assert ended_after(1, "abc", reasoning_tags=("", "</think>")) == ("a[cut]</think>bc", True)
    whole = len(tokens(FakeModel(), "<think>a</think>b"))
    assert ended_after(whole - 1, "<think>a</think>bc") == ("<think>a</think>bc", False)


def test_without_a_control_reasoning_has_no_end_but_its_own() -> None:
    assert ended_after(-1, "<think>abcd") == ("<think>abcd", False)


THINKING: dict[str, Any] = {"reasoning_tags": ("", "</think>"), **CONTROLLED}


def end_of(driver: Driver, request: str, index: int) -> int:
    """Return the number of tokens before the forced end of a branch's reasoning; -1 without one."""
    forced, found = tokens(driver.model, "[cut]</think>"), driver.outcomes[request].tokens[index]
    places = [at for at in range(len(found)) if found[at : at + len(forced)] == forced]
    return places[0] if places else -1


def test_the_reasoning_of_one_branch_ends_and_the_others_go_on() -> None:
    driver = Driver(FakeModel(n_ctx=512))
    request = driver.submit("the old king", n=3, max_tokens=40, **THINKING)
    for _ in range(6):
        driver.step()
    before = len(driver.outcomes[request].tokens[1])
    assert driver.end_reasoning(request, 1) == [1]
    for _ in range(20):
        driver.step()
    assert end_of(driver, request, 1) - before in (0, 1)
    assert [end_of(driver, request, index) for index in (0, 2)] == [-1, -1]
    assert driver.end_reasoning(request) == [0, 2]
    driver.run()
    assert all(end_of(driver, request, index) > before for index in (0, 2))


def test_reasoning_of_branches_that_have_not_begun_ends_as_soon_as_it_begins() -> None:
    driver = Driver(FakeModel(n_ctx=512))
    request = driver.submit("the old king", n=2, max_tokens=30, **THINKING)
    assert driver.end_reasoning(request) == [0, 1]
    driver.run()
    assert [end_of(driver, request, index) for index in range(2)] == [0, 0]


def test_reasoning_cannot_be_ended_where_nobody_has_allowed_it_nor_of_branches_that_are_not_there() -> None:
    driver = Driver(FakeModel(n_ctx=512))
    plain = driver.submit("the old king", max_tokens=30, reasoning_tags=("", "</think>"), reasoning_budget_tokens=9)
    with pytest.raises(Conflict, match="not enabled"):
        driver.end_reasoning(plain)
    request = driver.submit("the old king", n=2, max_tokens=30, **THINKING)
    with pytest.raises(InvalidRequest, match="no branch 2"):
        driver.end_reasoning(request, 2)
    with pytest.raises(NotFound):
        driver.end_reasoning("nobody")
    driver.run()
    with pytest.raises(NotFound):
        driver.end_reasoning(request)


def test_an_answer_that_a_grammar_awaits_begins_when_the_reasoning_is_ended() -> None:
    model = FakeModel()
    watch = Watch(answer(("", "</think>"), reasoning_control=True), model)
    came = b""
    for token in tokens(model, "ab"):
        watch.accept(token)
    assert watch.end_reasoning()
    while (forced := watch.forced) is not None:
        watch.accept(forced)
        came += model.piece(forced)
    assert (came, watch.is_on, watch.end_reasoning()) == (b"</think>", True, False)
