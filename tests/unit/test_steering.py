"""Controls of running requests in the engine: where forks begin, what they inherit, what is refused, and rests."""

from __future__ import annotations

from typing import Any

import pytest

from bench.steering import longest_wait
from srb.engine import open_requests as open_requests_module
from srb.engine import steering
from srb.engine.fake import FakeModel
from srb.engine.model import DecodeStatus
from srb.errors import (
    Conflict,
    ContextExceeded,
    EngineRestarted,
    GrammarDeadEnd,
    InvalidRequest,
    NotFound,
    QueueFull,
    RateLimited,
)
from srb.wire.commands import AddBranches, BranchSpec, ContextShift, Generate, GetRequest, ListRequests
from srb.wire.events import BranchAdded, BranchEnded, Delta, Done, Failed, FinishReason, Rejected, Resting
from tests.engine_helpers import Driver, plain, solo

BYTES = 42  # tokens before those of single bytes; see _byte
[_NEWLINE] = FakeModel().tokenize("\n", False, False)


def _byte(model: FakeModel, value: int) -> int:
    [token] = [token for token in range(model.n_vocab) if model.piece(token) == bytes([value]) and token >= BYTES]
    return token


class Scripted(FakeModel):
    """A fake whose samplers write given pieces, one after another, whatever the seed."""

    def __init__(self, *pieces: bytes, **options: Any) -> None:
        super().__init__(**options)
        self.script = [_byte(self, value) for piece in pieces for value in piece]

    def new_sampler(self, params: Any, seed: int, history: Any, min_tokens: int = 0) -> Any:
        sampler = super().new_sampler(params, seed, history, min_tokens)
        at = iter(self.script)

        def next_token(logits: Any) -> int:
            return next(at)

        sampler.sample_from = next_token  # type: ignore[method-assign]
        return sampler


def running(
    prompt: str = "the old king said", max_tokens: int = 12, steps: int = 6, **options: Any
) -> tuple[Driver, str]:
    """Return a driver and the id of a request that has run for some steps."""
    driver = Driver(options.pop("model", None))
    request_id = driver.submit(prompt, max_tokens=max_tokens, **{"ignore_eos": True, "can_grow": True, **options})
    for _ in range(steps):
        driver.step()
    return driver, request_id


def finish(driver: Driver) -> None:
    driver.run()
    driver.advance(1000)
    driver.check_drained()


# Where forks begin -----------------------------------------------------------------------------------------------------


def test_a_fork_at_a_token_continues_as_a_new_request_with_the_same_text_would() -> None:
    driver, request_id = running()
    written = list(driver.result(request_id).tokens[0])
    assert len(written) > 3
    told = list(driver.result(request_id).events)
    [index] = driver.add(request_id, plain(seed=77, max_tokens=8), origin=0, token=3)
    added = next(event for event in driver.result(request_id).events if isinstance(event, BranchAdded))
    finish(driver)
    prompt = driver.model.tokenize("the old king said", True, True)
    cold = solo([*prompt, *written[:3]], 77, 8, ignore_eos=True)
    text = b"".join(map(driver.model.piece, written[:3])).decode()
    assert (added.index, added.origin, added.token, added.text, added.seed) == (index, 0, 3, text, 77)
    assert driver.result(request_id).texts[index] == text + cold.texts[0]
    written_at = max(event.predicted_ms for event in told if isinstance(event, Delta))
    assert added.predicted_ms >= written_at > 0


def test_a_fork_computes_one_token_of_its_origins_and_no_more() -> None:
    driver, request_id = running(steps=8)
    before = driver.model.n_tokens_decoded
    written = len(driver.result(request_id).tokens[0])
    [index] = driver.add(request_id, plain(max_tokens=1), origin=0, token=written - 1)
    while index not in driver.result(request_id).ends:
        driver.step()
    own = len(driver.result(request_id).tokens[0]) - written  # of the origin, which went on
    assert driver.model.n_tokens_decoded - before - own <= 1
    finish(driver)


def test_a_fork_at_the_end_begins_with_what_readers_have_seen() -> None:
    driver, request_id = running(steps=6)
    shown = driver.result(request_id).texts[0]
    [index] = driver.add(request_id, origin=0)
    assert shown
    assert driver.result(request_id).texts[index] == shown
    finish(driver)


@pytest.mark.parametrize("at", [0, 1, 2, 7])
def test_a_fork_at_a_character_may_cut_a_token(at: int) -> None:
    driver, request_id = running(steps=8)
    shown = driver.result(request_id).texts[0]
    [index] = driver.add(request_id, plain(seed=5, max_tokens=4), origin=0, character=at)
    given = list(driver.request(request_id).branches[index].tokens)
    assert driver.result(request_id).texts[index] == shown[:at]
    assert b"".join(map(driver.model.piece, given)).decode() == shown[:at]
    finish(driver)
    prompt = driver.model.tokenize("the old king said", True, True)
    cold = solo([*prompt, *given], 5, 4, ignore_eos=True)
    assert driver.result(request_id).texts[index] == shown[:at] + cold.texts[0]


def test_a_token_that_ends_inside_a_character_is_refused_and_the_character_is_not() -> None:
    driver, request_id = running(model=Scripted(b"a\xc3\xa9b\xe2\x98\x83c"), max_tokens=7, steps=20, linger=9)
    assert driver.result(request_id).texts[0] == "aéb☃"
    for token in (2, 5, 6):
        with pytest.raises(InvalidRequest, match=f"token {token} of branch 0 ends inside a character") as caught:
            driver.add(request_id, origin=0, token=token)
        assert caught.value.extra["param"] == "from"
    for character, tokens in [(0, 0), (1, 1), (2, 3), (3, 4), (4, 7)]:
        [index] = driver.add(request_id, plain(max_tokens=0), origin=0, character=character)
        assert driver.result(request_id).texts[index] == "aéb☃"[:character]
        assert len(driver.request(request_id).branches[index].tokens) == tokens
    finish(driver)


def test_the_replacement_of_a_cut_character_is_forked_as_it_was_shown() -> None:
    driver = Driver(Scripted(b"a\xc3\xa9 and more than that"))
    command = Generate("x", ("a",), (BranchSpec(1, 2), BranchSpec(2, 12)), can_grow=True)
    driver.take(driver.engine.submit(driver.engine.prepare(command)))
    while 0 not in driver.result("x").ends:
        driver.step()
    assert driver.result("x").texts[0] == "a\ufffd"
    [index] = driver.add("x", plain(max_tokens=0), origin=0)
    assert driver.result("x").texts[index] == "a\ufffd"
    finish(driver)


def test_a_fork_of_a_branch_that_a_limit_cut_begins_before_the_incomplete_character() -> None:
    driver, request_id = running(model=Scripted(b"a\xc3\xa9"), max_tokens=2, steps=9, linger=9)
    [index] = driver.add(request_id, plain(max_tokens=0), origin=0)
    assert driver.result(request_id).texts[index] == "a"
    assert len(driver.request(request_id).branches[index].tokens) == 1
    finish(driver)


@pytest.mark.parametrize(("where", "problem"), [
    ({"token": 500}, r"branch 0 has \d+ tokens so far, so there is no token 500"),
    ({"character": 5000}, r"branch 0 has \d+ characters so far, so there is no character 5000"),
    ({"token": -1}, "there is no token -1"),
])  # fmt: skip
def test_a_place_beyond_the_text_is_refused_with_its_length(where: dict[str, int], problem: str) -> None:
    driver, request_id = running()
    with pytest.raises(InvalidRequest, match=problem) as caught:
        driver.add(request_id, origin=0, **where)
    assert caught.value.extra["param"] == "from"
    with pytest.raises(NotFound, match="no branch 1; it has 1"):
        driver.add(request_id, origin=1)
    finish(driver)


@pytest.mark.parametrize("at", [2, 3])
@pytest.mark.parametrize("options", [{}, {"banned_strings": ("z",)}, {"distinct_words": True}, {"stop": ("\u2604",)}])
def test_a_character_that_a_limit_cut_is_completed_when_the_branch_goes_on(at: int, options: dict[str, Any]) -> None:
    model = Scripted("a☃b c".encode())
    driver, request_id = running(model=model, max_tokens=at, linger=500, **options)
    outcome = driver.result(request_id)
    assert (outcome.texts[0], len(outcome.tokens[0]), outcome.ends[0].length) == ("a", 1, at)
    assert driver.attach(request_id)["branches"][0]["text"] == "a"
    driver.change(request_id, 0, 6 - at)
    driver.run()
    assert (outcome.texts[0], outcome.tokens[0]) == ("a☃b ", model.script[:6])
    finish(driver)


def test_a_character_that_is_never_completed_is_left_out_of_a_request_that_lingers() -> None:
    driver, request_id = running(model=Scripted("a☃".encode()[:3] + b"b"), max_tokens=3, linger=500)
    driver.change(request_id, 0, 1)
    driver.run()
    assert driver.result(request_id).texts[0] == "a\ufffdb"
    driver, request_id = running(model=Scripted("a☃".encode()), max_tokens=3, linger=500)
    finish(driver)
    assert driver.result(request_id).texts[0] == "a"
    assert driver.result(request_id).terminal[0].completion_tokens == 3


def test_a_token_that_a_stop_string_cut_is_forked_as_far_as_it_was_shown() -> None:
    whole = solo("the old king said", 1, 12, ignore_eos=True)
    word = next(word for word in whole.texts[0].split()[3:] if len(word) > 2)
    driver, request_id = running(stop=[word[1:]], max_tokens=12, steps=20, linger=9)
    outcome = driver.result(request_id)
    assert outcome.ends[0].reason == FinishReason.WORD
    pieces = b"".join(map(driver.model.piece, outcome.tokens[0])).decode()
    assert len(pieces) > len(outcome.texts[0])  # the last token reaches into the stop string
    for where in ({}, {"token": len(outcome.tokens[0])}, {"character": len(outcome.texts[0])}):
        [index] = driver.add(request_id, plain(max_tokens=0), origin=0, **where)
        given = driver.request(request_id).branches[index].tokens
        assert b"".join(map(driver.model.piece, given)).decode() == outcome.texts[index] == outcome.texts[0]
    finish(driver)


def test_hidden_tokens_stay_hidden_in_a_fork_and_are_part_of_its_past() -> None:
    driver, request_id = running(append=("then",), steps=6)
    hidden = driver.model.tokenize("then", False, True)
    written = list(driver.result(request_id).tokens[0])
    [index] = driver.add(request_id, plain(seed=9, max_tokens=4), origin=0, token=2)
    assert list(driver.request(request_id).branches[index].tokens) == [*hidden, *written[:2]]
    finish(driver)
    prompt = driver.model.tokenize("the old king said", True, True)
    cold = solo([*prompt, *hidden, *written[:2]], 9, 4, ignore_eos=True)
    beginning = b"".join(map(driver.model.piece, written[:2])).decode()
    assert driver.result(request_id).texts[index] == beginning + cold.texts[0]


def test_a_forks_append_is_shown_and_an_added_branchs_is_not() -> None:
    driver, request_id = running()
    shown = driver.result(request_id).texts[0]
    [fork] = driver.add(request_id, plain(append=(" fox",), max_tokens=0), origin=0)
    [new] = driver.add(request_id, plain(append=(" fox",), max_tokens=0))
    assert driver.result(request_id).texts[fork] == shown + " fox"
    assert driver.result(request_id).texts[new] == ""
    finish(driver)


def test_a_fork_of_a_fork_is_counted_from_the_prompt() -> None:
    driver, request_id = running()
    [first] = driver.add(request_id, plain(max_tokens=6), origin=0, token=4)
    driver.step()
    for _ in range(3):
        driver.step()
    branches = driver.request(request_id).branches
    whole = list(branches[first].tokens[: branches[first].num_readable])
    [second] = driver.add(request_id, plain(max_tokens=2), origin=first, token=len(whole) - 1)
    assert list(driver.request(request_id).branches[second].tokens) == whole[:-1]
    assert driver.request(request_id).branches[second].origin == (first, len(whole) - 1)
    finish(driver)


def test_a_fork_without_room_in_the_context_is_refused() -> None:
    driver, request_id = running(model=FakeModel(n_ctx=40), max_tokens=-1, steps=60, linger=9)
    end = driver.result(request_id).ends[0]
    assert end.truncated
    with pytest.raises(ContextExceeded):
        driver.add(request_id, origin=0)
    with pytest.raises(Conflict, match="cannot go on"):
        driver.change(request_id, 0, 5)
    driver.add(request_id, plain(max_tokens=2), origin=0, token=3)
    finish(driver)


# Grammars ---------------------------------------------------------------------------------------------------------------


def test_a_fork_under_the_same_grammar_continues_it_and_under_another_begins_anew() -> None:
    driver, request_id = running(
        grammar="root ::= [a-z]", max_tokens=1, steps=9, linger=9
    )  # the fake's allows one token
    [same] = driver.add(request_id, plain(max_tokens=2), origin=0)
    [other] = driver.add(request_id, plain(max_tokens=1, sampling={"grammar": "root ::= [b]"}), origin=0)
    [before] = driver.add(request_id, plain(max_tokens=1), origin=0, token=0)
    [appended] = driver.add(request_id, plain(max_tokens=1, append=(" fox",)), origin=0)
    finish(driver)
    ends = driver.result(request_id).ends
    assert (ends[same].reason, ends[same].code) == (FinishReason.ERROR, GrammarDeadEnd.code)
    assert {ends[index].reason for index in (other, before, appended)} == {FinishReason.LIMIT}


def test_a_fork_before_its_origins_grammar_begins_the_grammar_where_it_begins() -> None:
    driver, request_id = running(max_tokens=4, steps=9, linger=9)
    grammar = {"grammar": "root ::= [a-z]"}
    [first] = driver.add(request_id, plain(max_tokens=1, sampling=grammar), origin=0, token=3)
    driver.run()
    [second] = driver.add(request_id, plain(max_tokens=1), origin=first, token=1)
    driver.run()
    assert driver.result(request_id).ends[second].reason == FinishReason.LIMIT
    assert driver.request(request_id).branches[second].grammar_from == 1
    [third] = driver.add(request_id, plain(max_tokens=1), origin=second)
    finish(driver)
    assert driver.result(request_id).ends[third].code == GrammarDeadEnd.code  # the one token has been sampled


# Seeds and limits -------------------------------------------------------------------------------------------------------


def test_two_adds_that_are_prepared_at_the_same_time_get_different_seeds() -> None:
    driver, request_id = running(seed=40, steps=3)
    first, second = driver.prepare_add(request_id, plain(), plain()), driver.prepare_add(request_id, plain())
    assert driver.grow(second) == [1]
    assert driver.grow(first) == [2, 3]
    assert [branch.spec.seed for branch in driver.request(request_id).branches] == [40, 41, 42, 43]
    finish(driver)
    for index in range(4):
        assert (
            driver.result(request_id).texts[index]
            == solo("the old king said", 40 + index, 12, ignore_eos=True).texts[0]
        )


def test_a_seed_of_ones_own_is_kept_and_the_largest_is_followed_by_0() -> None:
    driver, request_id = running(seed=2**32 - 2, steps=3)
    assert driver.add(request_id, plain(), plain(seed=7)) == [1, 2]
    assert [branch.spec.seed for branch in driver.request(request_id).branches] == [2**32 - 2, 0, 7]
    finish(driver)


def test_no_more_branches_than_max_running_run_and_ended_ones_do_not_count() -> None:
    driver, request_id = running(n=2, steps=3)
    with pytest.raises(InvalidRequest, match="2 branches run already; at most 3") as caught:
        driver.add(request_id, plain(), plain(), max_running=3)
    assert caught.value.extra["param"] == "count"
    driver.add(request_id, max_running=3)
    driver.stop(request_id, 0)
    driver.add(request_id, max_running=3)
    finish(driver)
    assert len(driver.result(request_id).ends) == 4


def test_a_request_has_so_many_branches_in_its_life(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steering, "MAX_BRANCHES", 3)
    driver, request_id = running(steps=3)
    driver.add(request_id, plain(), plain())
    driver.stop(request_id, 1)
    with pytest.raises(InvalidRequest, match="3 branches in its whole life"):
        driver.add(request_id)
    finish(driver)


def test_max_tokens_counts_what_ended_branches_wrote_and_others_may_write() -> None:
    driver, request_id = running(n=2, max_tokens=10, steps=5)
    with pytest.raises(InvalidRequest, match="may have 29 tokens together") as caught:
        driver.add(request_id, max_tokens=29)
    assert caught.value.extra["param"] == "max_tokens"
    with pytest.raises(InvalidRequest, match="29 tokens"):
        driver.add(request_id, plain(max_tokens=-1), max_tokens=29)
    length = driver.stop(request_id, 0)["length"]
    with pytest.raises(InvalidRequest):
        driver.change(request_id, 1, 11 - length, max_tokens=20)
    assert driver.change(request_id, 1, 10 - length, max_tokens=20)["max_tokens"] == 20 - length
    driver.add(request_id, plain(max_tokens=9), max_tokens=29)
    finish(driver)


def test_samplers_of_added_branches_count_together_with_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("srb.engine.preparing.MAX_REMEMBERED", 1000)
    driver, request_id = running(repeat_last_n=400, repeat_penalty=1.1, steps=3)
    driver.add(request_id)
    with pytest.raises(InvalidRequest) as caught:
        driver.add(request_id)
    assert caught.value.extra["param"] == "repeat_last_n"
    driver.stop(request_id, 0)
    driver.add(request_id)
    finish(driver)


def test_nothing_is_added_by_a_command_that_is_refused_and_no_sampler_is_left() -> None:
    driver, request_id = running(steps=3)
    samplers = driver.model.open_samplers
    refused = [
        [plain(), plain(sampling={"grammar": "root ::= \0"})],
        [plain(), plain(seed=-1)],
        [plain(max_tokens=-2)],
        [plain(append=(10**6,))],
        [plain(stop_after=2)],
        [plain(no_such_field=2)],
    ]
    for entries in refused:
        with pytest.raises(InvalidRequest):
            driver.add(request_id, *entries)
    with pytest.raises(InvalidRequest, match="at least 1"):
        driver.engine.prepare(AddBranches("c", request_id, ()))
    assert len(driver.request(request_id).branches) == 1
    assert driver.model.open_samplers == samplers
    driver.cancel(request_id)


def test_branches_that_are_prepared_for_a_request_that_ends_are_refused_and_closed() -> None:
    driver, request_id = running(steps=3)
    growth = driver.prepare_add(request_id, plain(), plain())
    driver.stop(request_id)
    with pytest.raises(NotFound):
        driver.grow(growth)
    driver.check_drained()


# Requests that cannot grow ----------------------------------------------------------------------------------------------


def test_requests_of_other_dialects_do_not_grow_but_are_stopped_and_extended() -> None:
    driver, request_id = running(n=2, can_grow=False, max_tokens=8)
    for where in ({}, {"origin": 0}):
        with pytest.raises(Conflict, match="srb dialect") as caught:
            driver.add(request_id, **where)
        assert caught.value.extra == {"state": "running"}
    driver.change(request_id, 0, 5)
    assert driver.stop(request_id, 1)["ended"]["reason"] == FinishReason.CANCELLED
    finish(driver)
    assert driver.result(request_id).ends[0].length == 13


def test_a_request_that_may_shift_its_context_does_not_grow() -> None:
    driver, request_id = running(shift=ContextShift(0, 0), max_tokens=30)
    with pytest.raises(Conflict, match="shift"):
        driver.add(request_id)
    with pytest.raises(Conflict, match="shift"):
        driver.add(request_id, origin=0)
    finish(driver)


def test_another_owners_request_is_not_found_and_not_listed() -> None:
    driver, request_id = running(owner="key 1")
    engine = driver.engine
    with pytest.raises(NotFound):
        driver.add(request_id, owner="key 2")
    with pytest.raises(NotFound):
        engine.attach(request_id, "key 2")
    with pytest.raises(NotFound):
        engine.serve_query(GetRequest("q", request_id, "key 2"))
    assert engine.serve_query(ListRequests("q", "key 2")) == []
    assert engine.serve_query(ListRequests("q", "")) == []
    assert engine.serve_query(ListRequests("q", "key 2", prefix=request_id)) == []
    assert engine.serve_query(ListRequests("q", "key 1", prefix=f"{request_id}+")) == []
    for owner in ("key 1", ""):  # whoever knows an id, without keys
        [said] = engine.serve_query(ListRequests("q", owner, prefix=request_id))
    [said] = engine.serve_query(ListRequests("q", "key 1"))
    assert said["id"] == request_id
    assert "text" not in said["branches"][0]
    driver.add(request_id, owner="key 1")
    finish(driver)


# Going on ---------------------------------------------------------------------------------------------------------------


def test_a_branch_that_gets_more_tokens_writes_as_if_it_had_them_from_the_start() -> None:
    long = solo("the old king said", 1, 30, ignore_eos=True)
    driver, request_id = running(max_tokens=10, n=2, steps=4)
    driver.change(request_id, 0, 5)
    while 0 not in driver.result(request_id).ends:
        driver.step()
    driver.run()
    assert driver.result(request_id).texts[0] == solo("the old king said", 1, 15, ignore_eos=True).texts[0]

    driver, request_id = running(max_tokens=10, steps=30, linger=9)
    assert driver.result(request_id).rests
    assert driver.change(request_id, 0, 20)["state"] == "waiting"
    driver.run()
    assert driver.result(request_id).texts[0] == long.texts[0]
    kinds = [type(event) for event in driver.result(request_id).events if not isinstance(event, Delta)]
    assert kinds[-5:] == [BranchEnded, Resting, BranchAdded, BranchEnded, Resting]
    finish(driver)


def test_only_the_end_by_the_limit_can_be_undone() -> None:
    driver, request_id = running(n=2, steps=3, linger=9)
    driver.stop(request_id, 0)
    with pytest.raises(Conflict, match="has ended and cannot go on"):
        driver.change(request_id, 0, 5)
    with pytest.raises(Conflict, match="has ended"):
        driver.stop(request_id, 0)
    driver.run()
    with pytest.raises(Conflict, match="give it max_tokens more"):
        driver.change(request_id, 1, stop=("x",))
    with pytest.raises(InvalidRequest, match="at least 0"):
        driver.change(request_id, 1, -1)
    with pytest.raises(NotFound):
        driver.change(request_id, 2, 5)
    finish(driver)


def test_a_branch_that_its_indentation_ended_cannot_go_on() -> None:
    driver, request_id = running(model=Scripted(b"a\n  b\ncde"), n_indent=2, max_tokens=20, steps=20, linger=9)
    assert driver.result(request_id).ends[0].reason == FinishReason.LIMIT
    with pytest.raises(Conflict, match="cannot go on"):
        driver.change(request_id, 0, 5)
    assert driver.model.open_samplers == 0
    finish(driver)


def test_new_ends_hold_from_here_on() -> None:
    text = b"one two. three four. five six."
    driver, request_id = running(model=Scripted(text), max_tokens=len(text), steps=8, linger=9)
    with pytest.raises(InvalidRequest, match="needs stop_at") as caught:
        driver.change(request_id, 0, stop_after=2)
    assert caught.value.extra["param"] == "stop_after"
    driver.change(request_id, 0, stop=("one", "ur"))
    driver.run()
    end = driver.result(request_id).ends[0]
    assert (driver.result(request_id).texts[0], end.reason, end.stopping_word) == ("one two. three fo", "word", "ur")
    finish(driver)


def test_a_boundary_may_be_asked_for_later_and_stop_strings_taken_away() -> None:
    text = b"One two. Three four. Five six."
    driver, request_id = running(model=Scripted(text), max_tokens=len(text), steps=12, stop=["Three"], linger=9)
    driver.change(request_id, 0, stop=(), stop_at="sentence")
    driver.run()
    end = driver.result(request_id).ends[0]
    assert (driver.result(request_id).texts[0], end.reason) == ("One two. Three four.", FinishReason.BOUNDARY)
    finish(driver)


# Rests and readers ------------------------------------------------------------------------------------------------------


def test_a_rest_ends_after_its_time_also_while_others_run() -> None:
    driver, request_id = running(max_tokens=3, steps=9, linger=5)
    assert driver.result(request_id).rests
    assert not driver.engine.has_work
    assert driver.engine.seconds_to_rest is not None
    assert 4 < driver.engine.seconds_to_rest <= 5
    driver.submit("a", max_tokens=50, ignore_eos=True)
    driver.advance(4)
    assert driver.idle
    driver.advance(2)
    assert isinstance(driver.result(request_id).terminal[0], Done)
    driver.run()
    assert driver.engine.seconds_to_rest is None


def test_a_request_without_readers_runs_for_the_time_it_lingers_and_one_that_comes_back_keeps_it() -> None:
    driver, request_id = running(max_tokens=200, steps=3, linger=5)
    driver.leave(request_id)
    driver.advance(4)
    driver.attach(request_id)
    driver.advance(4)
    assert not driver.result(request_id).terminal
    driver.leave(request_id)
    driver.advance(6)
    assert driver.result(request_id).ends[0].reason == FinishReason.CANCELLED
    assert isinstance(driver.result(request_id).terminal[0], Done)
    finish(driver)


def test_a_rest_begins_again_when_its_last_reader_leaves() -> None:
    driver, request_id = running(max_tokens=3, steps=9, linger=5)
    driver.advance(4)
    driver.leave(request_id)
    driver.advance(4)
    assert driver.idle
    driver.advance(2)
    assert not driver.idle


def test_without_linger_a_request_ends_with_its_last_branch_or_reader() -> None:
    driver, request_id = running(max_tokens=200, steps=3)
    driver.leave(request_id)
    assert isinstance(driver.result(request_id).terminal[0], Done)
    driver.check_drained()


def test_stopping_and_adding_branches_delays_no_sibling_by_a_step() -> None:
    assert longest_wait(4, 20) == 1


def test_a_rest_takes_no_sequence_and_a_stop_ends_it_at_once() -> None:
    driver, request_id = running(max_tokens=3, n=3, steps=20, linger=500)
    driver.check_drained()
    assert driver.engine.stats()["requests_resting"] == 1
    assert driver.stop(request_id) == {"id": request_id, "state": "ended"}
    driver.check_drained()
    with pytest.raises(NotFound):
        driver.stop(request_id)


def test_the_oldest_rests_end_when_too_many_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_requests_module, "MAX_IDLE", 2)
    driver = Driver()
    ids = [driver.submit("a", max_tokens=1, linger=500) for _ in range(4)]
    driver.run()
    driver.advance(0)
    assert [request.request_id for request in driver.idle] == ids[2:]


def test_requests_that_linger_unread_count_as_their_owners_and_read_ones_do_not() -> None:
    driver, request_id = running(max_tokens=3, steps=9, linger=500, owner="key 1", max_unread=1)

    def refused() -> bool:
        command = Generate("more", ("a",), (BranchSpec(1),), owner="key 1", max_unread=1)
        [answer] = driver.engine.submit(driver.engine.prepare(command))
        driver.engine.cancel("more")
        assert not isinstance(answer, Rejected) or answer.code == RateLimited.code
        return isinstance(answer, Rejected)

    assert not refused()
    driver.leave(request_id)
    assert refused()
    driver.attach(request_id)
    assert not refused()


def go_on(driver: Driver, request_id: str, control: str) -> Any:
    return driver.add(request_id) if control == "add" else driver.change(request_id, 0, 4)


@pytest.mark.parametrize("control", ["add", "change"])
def test_a_rest_that_would_end_waits_in_the_queue_with_its_limit(control: str) -> None:
    driver = Driver(max_queue=2, max_running=1)
    resting = [driver.submit("the old king", max_tokens=2, linger=500, can_grow=True, ignore_eos=True) for _ in "ab"]
    driver.run()
    running = driver.submit("a", max_tokens=50, ignore_eos=True)
    driver.step()
    driver.submit("one", max_tokens=2)
    go_on(driver, resting[0], control)  # two wait now
    with pytest.raises(QueueFull):
        go_on(driver, resting[1], control)
    go_on(driver, resting[0], control)  # it waits already
    driver.cancel(running)
    driver.run()
    go_on(driver, resting[1], control)
    finish(driver)
    added = 1 if control == "add" else 0
    assert set(driver.result(resting[1]).ends) == set(range(1 + added))
    assert driver.result(resting[1]).ends[added].length == (2 if added else 6)


@pytest.mark.parametrize("control", ["add", "change"])
def test_a_rest_that_ended_and_waits_too_long_rests_again_with_its_texts(control: str) -> None:
    driver = Driver(max_running=1, queue_timeout=5.0)
    resting = driver.submit("the old king", max_tokens=2, linger=500, can_grow=True, ignore_eos=True)
    driver.run()
    running = driver.submit("a", max_tokens=50, ignore_eos=True)
    driver.step()
    go_on(driver, resting, control)
    driver.advance(6)
    end = driver.result(resting).ends[1 if control == "add" else 0]
    assert (end.reason, end.code) == (FinishReason.ERROR, "queue_timeout")
    assert driver.attach(resting)["state"] == "resting"
    assert not driver.result(running).ends
    driver.add(resting)
    driver.cancel(running)
    finish(driver)
    assert driver.result(resting).ends[max(driver.result(resting).ends)].reason == FinishReason.LIMIT


@pytest.mark.parametrize("control", ["add", "change"])
def test_no_more_requests_without_a_reader_run_than_a_client_may_have(control: str) -> None:
    driver = Driver()
    options = {"linger": 500.0, "can_grow": True, "ignore_eos": True, "owner": "key 1", "max_unread": 2}
    ids = [driver.submit("the old king", max_tokens=2, **options) for _ in range(3)]
    driver.run()
    for request_id in ids:
        driver.leave(request_id)
    go_on(driver, ids[0], control)
    go_on(driver, ids[1], control)
    with pytest.raises(RateLimited):
        go_on(driver, ids[2], control)
    driver.attach(ids[2])
    go_on(driver, ids[2], control)
    finish(driver)


def test_no_more_branches_go_on_than_a_request_may_have_at_once() -> None:
    driver, request_id = running(max_tokens=1, n=3, steps=5, linger=500)
    for index in (0, 1):
        driver.change(request_id, index, 4, max_running=2)
    with pytest.raises(InvalidRequest, match="at most 2 may run"):
        driver.change(request_id, 2, 4, max_running=2)
    driver.change(request_id, 1, 4, max_running=2)  # it runs already
    finish(driver)
    assert [driver.result(request_id).ends[index].length for index in range(3)] == [5, 9, 1]


def test_a_request_that_goes_on_waits_for_its_turn() -> None:
    driver = Driver(max_running=1)
    first = driver.submit("the old king", max_tokens=3, linger=500, can_grow=True, ignore_eos=True)
    driver.run()
    second = driver.submit("a", max_tokens=20, ignore_eos=True)
    driver.step()
    driver.add(first)
    driver.change(first, 0, 4)
    assert driver.attach(first)["state"] == "queued"
    while not driver.result(second).terminal:
        assert len(driver.result(first).ends) == 0
        driver.step()
    finish(driver)
    assert driver.result(first).ends[0].length == 7


def test_a_request_that_goes_on_is_not_failed_for_its_time_in_the_queue() -> None:
    driver = Driver(max_running=1, queue_timeout=5)
    first = driver.submit("the old king", max_tokens=3, linger=500, can_grow=True, ignore_eos=True)
    driver.run()
    second = driver.submit("a", max_tokens=20, ignore_eos=True)
    driver.step()
    driver.add(first)
    driver.advance(6)
    driver.run()
    assert isinstance(driver.result(second).terminal[0], Done)
    assert driver.result(first).rests


def test_every_request_fails_once_with_the_engine_those_that_rest_too() -> None:
    driver, resting = running(max_tokens=3, steps=9, linger=500)
    running_one = driver.submit("a", max_tokens=50, ignore_eos=True)
    driver.step()
    driver.take(driver.engine.fail_all(EngineRestarted("gone")))
    assert {type(driver.result(each).terminal[0]) for each in (resting, running_one)} == {Failed}
    driver.check_drained()


def test_a_fatal_decode_leaves_a_resting_request_able_to_go_on() -> None:
    driver, request_id = running(max_tokens=3, steps=9, linger=500)
    driver.submit("a", max_tokens=50, ignore_eos=True)
    driver.step()
    driver.model.failures.append(DecodeStatus.FATAL)
    driver.step()
    driver.change(request_id, 0, 7)
    driver.run()
    assert driver.result(request_id).texts[0] == solo("the old king said", 1, 10, ignore_eos=True).texts[0]


def test_the_description_has_the_text_of_every_branch_so_far() -> None:
    driver, request_id = running(n=2)
    driver.add(request_id, origin=0, token=2)
    driver.stop(request_id, 1)
    said = driver.engine.serve_query(GetRequest("q", request_id))
    assert (said["state"], said["linger"], [branch["state"] for branch in said["branches"]]) == (
        "running", 0.0, ["running", "ended", "waiting"],
    )  # fmt: skip
    assert (said["branches"][2]["origin"], said["branches"][2]["token"]) == (0, 2)
    assert said["branches"][1]["ended"]["reason"] == FinishReason.CANCELLED
    driver.attach(request_id)  # which compares the texts with all events
    finish(driver)


# Limits and times of what goes on ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [0, 1, 6], ids=["before it begins", "at its first token", "while it runs"])
def test_more_tokens_leave_a_running_branch_without_a_limit_without_one(steps: int) -> None:
    driver, request_id = running(max_tokens=-1, steps=steps, model=FakeModel(n_ctx=64))
    assert driver.change(request_id, 0, 5)["max_tokens"] == -1
    driver.run()
    assert driver.result(request_id).ends[0].truncated  # only the context ended it


def test_more_tokens_limit_a_branch_that_ended_without_a_limit_of_its_own() -> None:
    driver, request_id = running(max_tokens=-1, linger=500, t_max_predict_ms=1, logit_bias=((_NEWLINE, 6.0),))
    driver.run()
    length = driver.result(request_id).ends[0].length
    assert driver.change(request_id, 0, 5)["max_tokens"] == length + 5


@pytest.mark.parametrize("first", ["limit", "time"])
def test_a_rest_is_no_time_of_generating(first: str) -> None:
    bias = ((_NEWLINE, 6.0),)
    limits: dict[str, Any] = {"max_tokens": 8} if first == "limit" else {"max_tokens": 60}
    driver, request_id = running(linger=500, t_max_predict_ms=20, logit_bias=bias, seed=3, **limits)
    driver.run()
    for _ in range(2):
        driver.advance(5.0)
        length = driver.result(request_id).ends[0].length
        driver.change(request_id, 0, 3)
        driver.run()
        assert driver.result(request_id).ends[0].length == length + 3


def times(driver: Driver, request_id: str) -> tuple[float, float]:
    """Return prompt_ms and predicted_ms as the latest rest said."""
    resting = [event for event in driver.result(request_id).events if isinstance(event, Resting)]
    return resting[-1].prompt_ms, resting[-1].predicted_ms


@pytest.mark.parametrize("control", ["add", "change"])
def test_neither_a_rest_nor_the_queue_after_it_counts_as_work(control: str) -> None:
    driver = Driver(max_running=1)
    options: dict[str, Any] = {"linger": 500, "can_grow": True, "ignore_eos": True}
    request_id = driver.submit("the old king", max_tokens=8, **options)
    driver.run()
    prompt_ms, predicted_ms = times(driver, request_id)
    driver.advance(5.0)
    other = driver.submit("a", max_tokens=300, ignore_eos=True)
    driver.step()
    go_on(driver, request_id, control)
    driver.advance(5.0)  # in the queue
    driver.cancel(other)
    driver.run()
    assert times(driver, request_id)[0] == pytest.approx(prompt_ms)
    assert predicted_ms < times(driver, request_id)[1] < predicted_ms + 1000
    before = times(driver, request_id)
    driver.stop(request_id)
    [done] = driver.result(request_id).terminal
    assert (done.prompt_ms, done.predicted_ms) == before


def test_a_rest_before_the_prompt_was_computed_counts_as_no_work() -> None:
    driver = Driver(FakeModel(n_batch=16, n_ubatch=16), request_timeout=0.05)
    request_id = driver.submit("the old king said to the girl " * 5, max_tokens=5, linger=500, ignore_eos=True)
    driver.step()
    driver.advance(0.1)
    assert driver.result(request_id).rests
    driver.advance(5.0)
    driver.change(request_id, 0, 2)
    driver.run()
    prompt_ms, predicted_ms = times(driver, request_id)
    assert 0 < prompt_ms < 1000
    assert 0 < predicted_ms < 1000


def test_branches_of_a_request_with_a_grammar_are_told_from_others() -> None:
    driver = Driver()
    plain_id = driver.submit("a", can_grow=True, max_tokens=4)
    formed_id = driver.submit("a", can_grow=True, max_tokens=4, grammar="root ::= [a-z]+")
    growth = {
        given: AddBranches("c", *given)
        for given in (
            (plain_id, (plain(),)),
            (plain_id, (plain(sampling={"grammar": "root ::= [a]"}),)),
            (formed_id, (plain(),)),
        )
    }
    assert [driver.engine.has_grammar(command) for command in growth.values()] == [False, True, True]
