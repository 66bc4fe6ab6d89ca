"""Fields of vLLM's clients about tokens and ends, in the engine over the fake model and in OpenAI's two routes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from flask.testing import FlaskClient

from srb.config.settings import Settings
from srb.engine.fake import EOS, FakeModel
from srb.errors import InvalidRequest
from srb.web.app import create_app
from srb.web.dialects.openai.completion_body import TextCompletionBody
from srb.wire.commands import Explore, Generate
from srb.wire.events import Accepted, BranchEnded, Delta, Done, Event, FinishReason, PromptDone, PromptLogprobs
from tests.engine_helpers import Driver, Outcome
from tests.scripted import ScriptedClient
from tests.unit.test_web_openai import chunks

PROMPT = "the old king said"


def run(n: int = 1, **options: Any) -> Outcome:
    driver = Driver()
    outcome = driver.result(driver.submit(PROMPT, n=n, **options))
    driver.run()
    return outcome


# Ends -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("includes", [False, True])
def test_a_stop_token_ends_each_branch_as_its_last_token(includes: bool) -> None:
    free = run(6, max_tokens=40, ignore_eos=True)
    ends = free.tokens[0][5], free.tokens[3][8]
    outcome = run(6, max_tokens=40, ignore_eos=True, stop_token_ids=ends, include_stop=includes)
    model = FakeModel()
    for index, tokens in free.tokens.items():
        place = next((place for place, token in enumerate(tokens) if token in ends), None)
        end = outcome.ends[index]
        if place is None:
            assert (end.reason, end.end_token) == (FinishReason.LIMIT, None)
            continue
        assert outcome.tokens[index] == tokens[: place + 1]
        assert (end.reason, end.end_token, end.length) == (FinishReason.WORD, tokens[place], place + 1)
        shown = tokens[: place + includes]
        assert outcome.texts[index].encode() == b"".join(map(model.piece, shown)).decode("utf-8", "replace").encode()
    assert {end.reason for end in outcome.ends.values()} >= {FinishReason.WORD}


def test_a_stop_token_at_the_last_place_stops_and_an_end_of_text_is_told_by_its_id() -> None:
    third = run(max_tokens=3).tokens[0][2]
    assert run(max_tokens=3, stop_token_ids=(third,)).ends[0].reason == FinishReason.WORD
    ended = run(max_tokens=40, logit_bias=((EOS, 1000.0),)).ends[0]
    assert (ended.reason, ended.end_token) == (FinishReason.EOS, EOS)


def test_a_text_that_was_held_back_is_shown_before_a_stop_token() -> None:
    model = FakeModel()
    free = run(max_tokens=10, ignore_eos=True).tokens[0]
    before, last = (model.piece(token).decode() for token in free[1:3])
    outcome = run(max_tokens=10, ignore_eos=True, stop=[f"{before}!!"], stop_token_ids=(free[2],))
    assert outcome.texts[0] == "".join(model.piece(token).decode() for token in free[:2])
    whole = run(max_tokens=10, ignore_eos=True, stop=[before + last], stop_token_ids=(free[2],), include_stop=True)
    assert (whole.ends[0].stopping_word, whole.ends[0].end_token) == (before + last, None)


def test_a_stop_token_waits_for_min_tokens_and_goes_with_other_ends() -> None:
    free = run(max_tokens=20, ignore_eos=True).tokens[0]
    outcome = run(max_tokens=20, ignore_eos=True, stop_token_ids=(free[0], 10**6), min_tokens=4)
    assert free[0] not in outcome.tokens[0][:4]
    words = run(4, max_tokens=20, stop_token_ids=(free[3],), banned_strings=(" king",), distinct_words=True)
    assert all(" king" not in text for text in words.texts.values())


@pytest.mark.parametrize("n", [1, 5])
def test_a_stop_string_stays_where_it_is_included_with_its_tokens(n: int) -> None:
    stops = ["e ", "ver", "king"]
    plain, kept = (run(n, max_tokens=30, stop=stops, include_stop=includes) for includes in (False, True))
    found = 0
    for index, end in kept.ends.items():
        assert kept.texts[index] == plain.texts[index] + end.stopping_word
        assert len(kept.tokens[index]) >= len(plain.tokens[index])
        found += bool(end.stopping_word)
    assert found


def test_a_stop_string_that_is_hidden_stays_out_and_changed_ones_are_included() -> None:
    [stop] = {run(max_tokens=30, stop=["king", "e "], seed=seed).ends[0].stopping_word for seed in (1,)} - {""}
    hidden = run(max_tokens=30, stop=["king", "e "], include_stop=True, hidden_stops=(stop,))
    assert not hidden.texts[0].endswith(stop)
    driver = Driver()
    request_id = driver.submit(PROMPT, max_tokens=60, ignore_eos=True, include_stop=True)
    driver.step()
    driver.change(request_id, 0, stop=("e",))
    driver.run()
    assert driver.result(request_id).texts[0].endswith("e")


# Tokens that may come -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("more", [{}, {"distinct_first": True}, {"sibling_penalty": 2.0}, {"banned_strings": (" a",)}])
def test_only_allowed_tokens_come_in_each_branch(more: dict[str, Any]) -> None:
    model = FakeModel()
    allowed = {
        token for word in (" the", " old", " king", " a", " fox") for token in model.tokenize(word, False, False)
    }
    outcome = run(5, max_tokens=12, allowed_token_ids=tuple(allowed), **more)
    assert all(set(tokens) <= allowed for tokens in outcome.tokens.values())
    assert {end.reason for end in outcome.ends.values()} == {FinishReason.LIMIT}  # no end of text is allowed
    with_end = run(5, max_tokens=60, allowed_token_ids=(*allowed, EOS), logit_bias=((EOS, 3.0),), **more)
    assert FinishReason.EOS in {end.reason for end in with_end.ends.values()}


def test_an_id_that_the_vocabulary_lacks_cannot_be_allowed() -> None:
    with pytest.raises(InvalidRequest, match="Field 'allowed_token_ids'"):
        run(allowed_token_ids=(7, 10**6))


def test_an_explored_request_ends_at_stop_tokens_and_refuses_a_list_of_allowed_ones() -> None:
    free = run(max_tokens=6, explore=Explore(0.3, 8, 6))
    stops = free.tokens[0][2], free.tokens[1][4]
    outcome = run(max_tokens=6, explore=Explore(0.3, 8, 6), stop_token_ids=stops)
    assert FinishReason.WORD in {end.reason for end in outcome.ends.values()}
    for index, tokens in outcome.tokens.items():
        assert not set(tokens[:-1]) & set(stops)
        assert (tokens[-1] in stops) == (outcome.ends[index].reason == FinishReason.WORD)
    with pytest.raises(InvalidRequest, match="allowed_token_ids"):
        TextCompletionBody.parse({"prompt": "x", "explore": {}, "allowed_token_ids": [7]}).commands(Settings(), 1, 1)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"stop_token_ids": 7}, "stop_token_ids"),
        ({"stop_token_ids": [False]}, "stop_token_ids"),
        ({"stop_token_ids": [-1]}, "stop_token_ids"),
        ({"stop_token_ids": [7.5]}, "stop_token_ids"),
        ({"stop_token_ids": list(range(2000))}, "stop_token_ids"),
        ({"allowed_tokens": "1,x"}, "allowed_token_ids"),
        ({"allowed_token_ids": ["a"]}, "allowed_token_ids"),
        ({"allowed_token_ids": {"7": 1}}, "allowed_token_ids"),
        ({"include_stop_str_in_output": "yes"}, "include_stop_str_in_output"),
        ({"truncate_prompt_tokens": 0}, "truncate_prompt_tokens"),
        ({"truncate_prompt_tokens": -1}, "truncate_prompt_tokens"),
        ({"truncate_prompt_tokens": 2, "directions": ["a"]}, "truncate_prompt_tokens"),
        ({"prompt_logprobs": True}, "prompt_logprobs"),
        ({"prompt_logprobs": 300}, "prompt_logprobs"),
        ({"prompt_logprobs": 1, "stream": True}, "prompt_logprobs"),
        ({"return_token_ids": 1}, "return_token_ids"),
        ({"return_token_ids": True, "directions": ["a"]}, "return_token_ids"),
        ({"return_token_ids": True, "branches": [{"append": "a"}]}, "return_token_ids"),
        ({"bad_words": [7]}, "bad_words"),
    ],
    ids=str,
)
@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions"])
def test_a_field_that_is_wrong_is_named(path: str, given: dict[str, Any], named: str) -> None:
    http, engine = serve()
    answer = http.post(path, json={**BODIES[path], **given})
    assert answer.status_code == 400, answer.text
    assert answer.json["error"]["param"] in (named, next(iter(given)))
    assert not any(isinstance(each, Generate) for each in engine.sent)


# OpenAI's routes ------------------------------------------------------------------------------------------------------

BODIES: dict[str, dict[str, Any]] = {
    "/v1/completions": {"model": "any", "prompt": "Né"},
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "Hi"}]},
}
TEXT = "<think>hm</think> yes"
LIKELY = [
    {"id": 66, "token": "B", "bytes": [66], "logprob": -0.1},
    {"id": 67, "token": "C", "bytes": [67], "logprob": -2.0},
]


def with_ends(command: Generate) -> Iterable[list[Event]]:
    """A prompt of three tokens; branch 0 ends at a stop token, branch 1 by the model's end of text."""
    request_id = command.request_id
    yield [Accepted(request_id, 3)]
    if command.prompt_logprobs:
        first = {"id": 1, "token": "<s>", "bytes": [], "logprob": None, "top_logprobs": []}
        other = {"id": 66, "token": "B", "bytes": [66], "logprob": -0.1, "top_logprobs": LIKELY, "rank": 1}
        rare = {"id": 9, "token": "z", "bytes": [122], "logprob": -7.0, "top_logprobs": LIKELY, "rank": 41}
        yield [PromptLogprobs(request_id, [first, other]), PromptLogprobs(request_id, [rare])]
    yield [PromptDone(request_id, 0, 0, 1.0)]
    n = len(command.branches)
    yield [Delta(request_id, index, TEXT, [7, 8]) for index in range(n)]
    yield [Delta(request_id, 0, "", [0])]
    yield [
        BranchEnded(request_id, 0, "word", 3, end_token=0),
        *(BranchEnded(request_id, index, "eos", 2, end_token=2) for index in range(1, n)),
        Done(request_id, 3, 0, 2 * n, 1.0, 1.0),
    ]


def serve() -> tuple[FlaskClient, ScriptedClient]:
    engine = ScriptedClient(Settings(), with_ends)
    return create_app(Settings(), engine).test_client(), engine


@pytest.mark.parametrize("path", BODIES)
def test_the_token_that_ended_a_text_is_the_reason_of_its_stop(path: str) -> None:
    http, engine = serve()
    body = {**BODIES[path], "n": 2, "stop_token_ids": [0], "include_stop_str_in_output": True}
    answer = http.post(path, json=body).json
    assert [(choice["finish_reason"], choice["stop_reason"]) for choice in answer["choices"]] == [
        ("stop", 0),
        ("stop", ""),
    ]
    for branch in engine.sent[-1].branches:
        assert (branch.sampling.stop_token_ids, branch.include_stop) == ((0,), True)
    events = chunks(http.post(path, json={**body, "stream": True}).text)
    said = {choice["index"]: choice for event in events for choice in event["choices"] if choice["finish_reason"]}
    assert [said[index]["stop_reason"] for index in (0, 1)] == [0, ""]


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize("n", [1, 2])
def test_an_answer_has_the_ids_of_its_tokens_and_of_its_prompt(path: str, n: int) -> None:
    http, _ = serve()
    body = {**BODIES[path], "n": n, "return_token_ids": True}
    answer = http.post(path, json=body).json
    own = [[7, 8, 0], [7, 8, 2]][:n]
    assert [choice["token_ids"] for choice in answer["choices"]] == own
    told = answer["choices"][-1] if path == "/v1/completions" else answer
    prompt = told["prompt_token_ids"]
    assert (len(prompt) == 4) if path == "/v1/completions" else (len(prompt) > 4)
    found: dict[int, list[int]] = {}
    first: dict[int, list[int]] = {}
    for event in chunks(http.post(path, json={**body, "stream": True}).text):
        for choice in event["choices"]:
            if choice["index"] not in found:
                first[choice["index"]] = (choice if path == "/v1/completions" else event)["prompt_token_ids"]
            else:
                assert "prompt_token_ids" not in {**choice, **event}
            found.setdefault(choice["index"], []).extend(choice.get("token_ids", []))
    assert list(found.values()) == own
    assert list(first.values()) == [prompt] * n
    plain = http.post(path, json={**BODIES[path], "return_tokens": True}).json["choices"][0]
    assert plain["tokens"] == [7, 8, 0]
    assert "token_ids" not in plain


def test_the_ids_of_several_prompts_are_those_of_their_choices() -> None:
    http, _ = serve()
    body = {"model": "any", "prompt": ["A", [66, 67]], "n": 2, "return_token_ids": True}
    found = [choice["prompt_token_ids"] for choice in http.post("/v1/completions", json=body).json["choices"]]
    assert found == [[1, 65], [1, 65], [66, 67], [66, 67]]
    streamed = [
        (choice["index"], choice["prompt_token_ids"])
        for event in chunks(http.post("/v1/completions", json={**body, "stream": True}).text)
        for choice in event["choices"]
        if "prompt_token_ids" in choice
    ]
    assert streamed == list(enumerate(found))


@pytest.mark.parametrize(
    ("prompt", "most", "sent"),
    [
        ("abc", 9, ("abc",)),
        ("abc", 4, ("abc",)),
        ("abc", 3, (1, 98, 99)),
        ([65, 66, 67], 2, (66, 67)),
        ("", 1, ("",)),
    ],
)
def test_a_prompt_keeps_its_last_tokens(prompt: Any, most: int, sent: tuple[str | int, ...]) -> None:
    http, engine = serve()
    http.post("/v1/completions", json={"model": "any", "prompt": prompt, "truncate_prompt_tokens": most})
    assert engine.sent[-1].prompt == sent


def test_a_conversation_keeps_its_last_tokens_and_an_echo_has_them() -> None:
    http, engine = serve()
    chat = BODIES["/v1/chat/completions"]
    whole = http.post("/v1/chat/completions", json={**chat, "return_token_ids": True}).json["prompt_token_ids"]
    body = {**chat, "truncate_prompt_tokens": 5, "return_token_ids": True}
    assert http.post("/v1/chat/completions", json=body).json["prompt_token_ids"] == [1, *whole[-4:]]
    assert engine.sent[-1].prompt == (1, *whole[-4:])
    body = {"model": "any", "prompt": "abcdef", "truncate_prompt_tokens": 3, "echo": True}
    assert http.post("/v1/completions", json=body).json["choices"][0]["text"].endswith(f"ef{TEXT}")


@pytest.mark.parametrize("path", BODIES)
def test_a_prompts_log_probabilities_have_their_ranks_by_id(path: str) -> None:
    http, engine = serve()
    answer = http.post(path, json={**BODIES[path], "n": 2, "prompt_logprobs": 2}).json
    told = answer["choices"][1] if path == "/v1/completions" else answer
    b = {"logprob": -0.1, "rank": 1, "decoded_token": "B"}
    c = {"logprob": -2.0, "rank": 2, "decoded_token": "C"}
    z = {"logprob": -7.0, "rank": 41, "decoded_token": "z"}
    assert told["prompt_logprobs"] == [None, {"66": b, "67": c}, {"9": z, "66": b, "67": c}]
    assert engine.sent[-1].prompt_top == 2
    assert answer["choices"][0]["logprobs"] is None
    assert "prompt_logprobs" not in http.post(path, json={**BODIES[path], "stop_token_ids": [5]}).text


def test_a_prompts_tokens_are_ranked_by_the_engine() -> None:
    driver = Driver()
    outcome = driver.result(driver.submit([5, 6, 7] * 9, n=2, prompt_logprobs=True, prompt_top=3))
    driver.run()
    scores = [prob for event in outcome.events if isinstance(event, PromptLogprobs) for prob in event.probs]
    assert [score["id"] for score in scores] == [5, 6, 7] * 9
    assert "rank" not in scores[0]
    for score in scores[1:]:
        likely = [entry["id"] for entry in score["top_logprobs"]]
        assert len(likely) == 3
        assert likely[score["rank"] - 1] == score["id"] if score["rank"] <= 3 else score["id"] not in likely
    assert all(event.probs is None for event in outcome.events if isinstance(event, Delta))


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/responses"])
def test_a_prompt_with_places_for_directions_is_not_cut(path: str) -> None:
    http, engine = serve()
    body = {
        "input": "Hi",
        "messages": [{"role": "user", "content": "Hi"}],
        "max_tokens": 3,
        "truncate_prompt_tokens": 4,
    }
    assert http.post(path, json=body).status_code == 200
    for more in ({"directions": ["a"]}, {"n": 2, "directions": ["a", "b"]}):
        answer = http.post(path, json={**body, **more})
        assert answer.status_code == 400
        assert "truncate_prompt_tokens" in answer.text
    assert len([each for each in engine.sent if isinstance(each, Generate)]) == 1


def test_what_a_dialect_has_no_place_for_is_refused_by_name() -> None:
    http, _ = serve()
    for path, body in (
        ("/v1/srb/completions", {"prompt": "x"}),
        ("/v1/messages", {**BODIES["/v1/chat/completions"], "max_tokens": 3}),
        ("/v1/responses", {"input": "Hi"}),
    ):
        for given in ({"return_token_ids": True}, {"prompt_logprobs": 0}):
            answer = http.post(path, json={**body, **given})
            assert answer.status_code == 400, (path, given)
            assert next(iter(given)) in answer.text
