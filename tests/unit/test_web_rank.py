"""`rank`, and `best_of` with `select`, in every dialect, streamed and not, with a scripted engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import gevent
import orjson
import pytest
from flask.testing import FlaskClient

from srb.config.settings import Settings
from srb.web.app import create_app
from srb.web.calls.answer_size import ENTRY_BYTES
from srb.web.dialects.srb.answers import SRBCompletion, SRBEvent
from srb.wire.commands import Generate
from srb.wire.events import Accepted, BranchEnded, Delta, Done, Event, Failed, PromptDone
from tests.scripted import Script, ScriptedClient
from tests.shapes import read

TEXTS = ["a b c d", "x y z", "a b c d", "A b, c d.", "p q"]
MEANS = [-2.0, -4.0, -1.0, -3.0, -9.0]
SRB, OPENAI, CHAT, LLAMACPP = "/v1/srb/completions", "/v1/completions", "/v1/chat/completions", "/completion"

RANKING = {
    "ranking": [2, 0, 3, 1],
    "duplicates": [[0, 2]],
    # 4 + 3 of 15 words are distinct, and 3 + 2 of 11 pairs; three of six pairs of texts have nothing in common
    "diversity": {"distinct_1": 0.4667, "distinct_2": 0.4545, "distance": 0.5},
}
NEAR = {**RANKING, "near_duplicates": [[0, 2, 3]]}
FRESH = {**RANKING, "ranking": [2, 1, 0, 3]}  # the words of 0 and 3 are those of 2, which is likelier


def entry(token: str) -> dict[str, Any]:
    return {"id": 1, "token": token, "bytes": [], "logprob": -1.0, "top_logprobs": []}


def tells(texts: list[str] = TEXTS, fails: tuple[int, ...] = ()) -> Script:
    """Return an engine whose branches say TEXTS in two halves and end from the last to the first."""

    def script(command: Generate) -> Iterable[list[Event]]:
        request_id, specs = command.request_id, command.branches
        yield [Accepted(request_id, 5), PromptDone(request_id, 0, 0, 1.0)]
        halves = [(text[:3], text[3:]) for text in texts[: len(specs)]]
        for part in range(2):
            yield [
                Delta(
                    request_id, index, half[part], [part], [entry(half[part])] if spec.sampling.n_probs >= 0 else None
                )
                for index, (half, spec) in enumerate(zip(halves, specs, strict=True))
            ]
        for index in reversed(range(len(specs))):
            logprob = MEANS[index] if specs[index].is_scored else None
            if index in fails:
                yield [BranchEnded(request_id, index, "error", 2, code="decode_failed", message="no")]
            else:
                yield [BranchEnded(request_id, index, "eos", 2, logprob=logprob)]
        yield [Done(request_id, 5, 0, 2 * len(specs), 10.0, 30.0)]

    return script


def serve(script: Script | None = None, **settings: Any) -> tuple[FlaskClient, ScriptedClient]:
    made = Settings(**settings)
    engine = ScriptedClient(made, script or tells())
    return create_app(made, engine).test_client(), engine


def post(http: FlaskClient, path: str, **body: Any) -> Any:
    begin = {"messages": [{"role": "user", "content": "Hi"}]} if path == CHAT else {"prompt": "x"}
    if path == OPENAI:
        begin["model"] = "any"
    return http.post(path, data=orjson.dumps({"n": 4, **begin, **body}))


def events(text: str) -> list[dict[str, Any]]:
    lines = text.removesuffix("\n\n").split("\n\n")
    return [orjson.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: {")]


def last_of_list(answer: Any) -> Any:
    assert not any("ranking" in each for each in answer[:-1])
    return answer[-1]


def keys_of_ranking(answer: dict[str, Any]) -> dict[str, Any]:
    return {name: answer[name] for name in (*RANKING, "near_duplicates") if name in answer}


# ---- rank


@pytest.mark.parametrize(
    ("rank", "expected"), [(True, RANKING), ("near", NEAR), ("fresh", FRESH), (False, {}), (None, {})]
)
@pytest.mark.parametrize(
    ("path", "shape", "pick"),
    [
        (SRB, SRBCompletion, lambda answer: answer),
        (OPENAI, "openai.TextCompletion", lambda answer: answer),
        (CHAT, "openai.ChatCompletion", lambda answer: answer),
        (LLAMACPP, ["llamacpp.Final"], last_of_list),
    ],
)
def test_an_answer_has_the_ranking_that_was_asked_for(
    path: str, shape: Any, pick: Callable[[Any], Any], rank: Any, expected: dict[str, Any]
) -> None:
    http, engine = serve()
    response = post(http, path, rank=rank, stream=False)
    assert response.status_code == 200, response.text
    assert keys_of_ranking(pick(read(shape, response.data))) == expected
    assert all(branch.score == bool(rank) and branch.sampling.n_probs == -1 for branch in engine.sent[0].branches)


@pytest.mark.parametrize(("rank", "expected"), [(True, RANKING), ("near", NEAR), ("fresh", FRESH), (False, {})])
@pytest.mark.parametrize(
    ("path", "shape"),
    [(SRB, SRBEvent), (OPENAI, "openai.TextCompletionChunk"), (CHAT, "openai.ChatCompletionChunk"), (LLAMACPP, Any)],
)
def test_the_last_event_of_a_stream_has_the_ranking_that_was_asked_for(
    path: str, shape: Any, rank: Any, expected: dict[str, Any]
) -> None:
    http, _ = serve()
    *earlier, last = events(post(http, path, rank=rank, stream=True).text)
    assert keys_of_ranking(last) == expected
    assert not any("ranking" in event for event in earlier)
    for event in (*earlier, last):
        read(shape, orjson.dumps(event))


@pytest.mark.parametrize("stream", [False, True])
def test_a_fresh_ranking_compares_each_branch_with_its_own_prompt(stream: bool) -> None:
    http, _ = serve()
    for path in (SRB, OPENAI, LLAMACPP):
        response = post(http, path, prompt="Of old: A b c d!", rank="fresh", stream=stream)
        found = events(response.text)[-1] if stream else response.json
        assert (last_of_list(found) if type(found) is list else found)["ranking"] == [1, 2, 0, 3]
    response = post(http, OPENAI, prompt=["x", "a b c d"], rank="fresh", stream=stream)
    found = events(response.text)[-1] if stream else response.json
    assert found["ranking"] == [2, 1, 0, 3, 5, 6, 4, 7]


@pytest.mark.parametrize("stream", [False, True])
def test_rank_tells_the_mean_logprob_of_each_branch_and_no_logprobs(stream: bool) -> None:
    http, _ = serve()
    response = post(http, SRB, rank=True, stream=stream)
    said = events(response.text) if stream else response.json["completions"]
    stops = {each["index"]: each["logprob"] for each in said if "reason" in each}
    assert [stops[index] for index in range(4)] == MEANS[:4]
    assert not any("logprobs" in each for each in said)


def test_usage_and_ranking_share_the_last_chunk_and_done_follows() -> None:
    http, _ = serve()
    for include in (False, True):
        text = post(http, OPENAI, rank=True, stream=True, stream_options={"include_usage": include}).text
        assert text.endswith("\n\ndata: [DONE]\n\n")
        last = events(text)[-1]
        assert last["choices"] == []
        assert ("usage" in last) == include
        assert ("timings" in last) == include


@pytest.mark.parametrize("stream", [False, True])
def test_indices_of_several_prompts_are_those_of_the_choices(stream: bool) -> None:
    http, _ = serve()
    response = post(http, OPENAI, prompt=["x", "y"], rank=True, stream=stream)
    found = events(response.text)[-1] if stream else response.json
    assert keys_of_ranking(found) == {
        "ranking": [2, 0, 3, 1, 6, 4, 7, 5],
        "duplicates": [[0, 2], [4, 6]],
        "diversity": RANKING["diversity"],
    }


def test_several_prompts_of_the_llamacpp_dialect_have_one_ranking() -> None:
    http, _ = serve()
    body: dict[str, Any] = {"prompt": ["x", "y"], "rank": True}
    assert last_of_list(post(http, LLAMACPP, **body).json)["ranking"] == [2, 0, 3, 1, 6, 4, 7, 5]
    with_keys = [event for event in events(post(http, LLAMACPP, **body, stream=True).text) if "ranking" in event]
    assert [event["ranking"] for event in with_keys] == [[2, 0, 3, 1, 6, 4, 7, 5]]


def test_response_fields_choose_among_the_keys_of_the_ranking_too() -> None:
    http, _ = serve()
    answer = post(http, LLAMACPP, rank=True, response_fields=["index", "ranking"]).json
    assert answer[-1] == {"index": 3, "ranking": [2, 0, 3, 1]}
    assert answer[0] == {"index": 0}


@pytest.mark.parametrize("stream", [False, True])
def test_a_failed_branch_is_last_in_the_ranking_and_compared_with_none(stream: bool) -> None:
    http, _ = serve(tells(fails=(2,)))
    response = post(http, SRB, rank="near", stream=stream)
    found = events(response.text)[-1] if stream else response.json
    assert found["ranking"] == [0, 3, 1, 2]
    assert found["duplicates"] == []
    assert found["near_duplicates"] == [[0, 3]]


@pytest.mark.parametrize("path", [SRB, OPENAI, CHAT, LLAMACPP])
@pytest.mark.parametrize("rank", [1, 0, "far", "true", ["near"], {}, 1.0])
def test_a_rank_of_another_form_is_refused(path: str, rank: Any) -> None:
    http, engine = serve()
    response = post(http, path, rank=rank)
    assert response.status_code == 400
    assert response.json["error"]["param"] == "rank"
    assert 'must be true, false, "near", "fresh" or "meaning"' in response.json["error"]["message"]
    assert engine.sent == []


# ---- best_of and select


def test_a_streamed_best_of_tells_how_far_it_is_and_then_the_chosen_texts() -> None:
    http, engine = serve()
    found = events(post(http, SRB, n=2, best_of=5, seed=40).text)
    for event in found:
        read(SRBEvent, orjson.dumps(event))
    start, *progress, first, first_stop, second, second_stop, done = found
    assert start == {
        "event": "start", "count": 2, "of": 5, "id": engine.sent[0].request_id, "prompt_tokens": 5,
    }  # fmt: skip
    assert progress == [{"event": "progress", "done": count, "of": 5} for count in range(1, 6)]
    assert (first["index"], first["text"], second["index"], second["text"]) == (0, "a b c d", 1, "a b c d")
    assert (first_stop["index"], first_stop["logprob"]) == (0, -1.0)
    assert (second_stop["index"], second_stop["logprob"]) == (1, -2.0)
    assert (done["count"], done["seeds"]) == (2, [42, 40])
    assert done["usage"]["completion_tokens"] == 10  # of all that were sampled


@pytest.mark.parametrize(("select", "texts"), [("likely", [2, 0, 3]), ("diverse", [2, 1, 4])])
@pytest.mark.parametrize("rank", [False, "near"])
def test_a_stream_and_an_answer_choose_the_same_branches_with_the_same_seeds(
    select: str, texts: list[int], rank: Any
) -> None:
    http, _ = serve()
    body: dict[str, Any] = {"n": 3, "best_of": 5, "select": select, "seed": 40, "rank": rank}
    details: dict[str, Any] = {"logprobs": 0, "return_tokens": True}
    expected = [TEXTS[index] for index in texts]

    answer = post(http, SRB, **body, **details, stream=False).json
    found = events(post(http, SRB, **body, **details).text)
    assert [each["text"] for each in answer["completions"]] == expected
    assert answer["seeds"] == found[-1]["seeds"] == [40 + index for index in texts]
    for completion in answer["completions"]:
        [stream] = [each for each in found if each["event"] == "stream" and each["index"] == completion["index"]]
        assert {name: stream[name] for name in ("text", "tokens", "logprobs")} == {
            name: completion[name] for name in ("text", "tokens", "logprobs")
        }
    assert keys_of_ranking(answer) == keys_of_ranking(found[-1])
    assert ("ranking" in answer) == bool(rank)

    answer = post(http, OPENAI, **body, **details).json
    found = events(post(http, OPENAI, **body, **details, stream=True).text)
    chunks = [read("openai.TextCompletionChunk", orjson.dumps(each)) for each in found]
    choices = [choice for chunk in chunks for choice in chunk["choices"]]
    assert [choice["text"] for choice in choices if choice["text"]] == expected
    assert [choice["text"] for choice in answer["choices"]] == expected
    assert [choice["seed"] for choice in choices if "seed" in choice] == [
        choice["seed"] for choice in answer["choices"]
    ]
    assert [choice["index"] for choice in choices] == [0, 0, 1, 1, 2, 2]
    assert [choice["logprobs"] for choice in choices if choice["logprobs"]] == [
        choice["logprobs"] for choice in answer["choices"]
    ]
    assert keys_of_ranking(answer) == keys_of_ranking(chunks[-1])


def test_the_ranking_of_chosen_branches_names_them_by_their_new_indices() -> None:
    http, _ = serve()
    body: dict[str, Any] = {"n": 3, "best_of": 5, "select": "diverse", "rank": True}
    for found in (post(http, SRB, **body, stream=False).json, events(post(http, SRB, **body).text)[-1]):
        assert keys_of_ranking(found) == {
            "ranking": [0, 1, 2],
            "duplicates": [],
            "diversity": {"distinct_1": 1.0, "distinct_2": 1.0, "distance": 1.0},
        }


def test_each_prompt_of_a_stream_has_its_own_choice() -> None:
    http, _ = serve()
    body: dict[str, Any] = {"prompt": ["x", "y"], "n": 2, "best_of": 5, "seed": 7, "select": "diverse", "echo": True}
    answer = post(http, OPENAI, **body).json["choices"]
    texts, seeds = [""] * 4, [0] * 4
    for chunk in events(post(http, OPENAI, **body, stream=True).text):
        for choice in chunk["choices"]:
            texts[choice["index"]] += choice["text"]
            seeds[choice["index"]] = choice.get("seed", 0)
    assert texts == [choice["text"] for choice in answer] == ["xa b c d", "xx y z", "ya b c d", "yx y z"]
    assert seeds == [choice["seed"] for choice in answer] == [9, 8, 9, 8]


def test_failed_branches_are_chosen_only_where_there_are_no_others() -> None:
    http, _ = serve(tells(fails=(2, 3)))
    found = events(post(http, SRB, n=4, best_of=5, select="diverse").text)
    stops = [event for event in found if event["event"] == "stop"]
    assert [stop["reason"] for stop in stops] == ["eos", "eos", "eos", "error"]
    [error] = [event for event in found if event["event"] == "error"]
    assert (error["index"], error["code"]) == (3, "decode_failed")


def test_a_stream_in_which_all_branches_fail_ends_with_the_error() -> None:
    http, _ = serve(tells(fails=(0, 1, 2, 3, 4)))
    last = events(post(http, OPENAI, n=2, best_of=5, stream=True).text)[-1]
    assert last["error"]["code"] == "decode_failed"


def test_a_request_that_fails_while_its_branches_are_held_back_ends_with_the_error() -> None:
    def fail(command: Generate) -> Iterable[list[Event]]:
        yield [Accepted(command.request_id, 5), Delta(command.request_id, 0, "a", [1])]
        yield [Failed(command.request_id, "decode_failed", "no")]

    http, _ = serve(fail)
    found = events(post(http, SRB, n=1, best_of=2).text)
    assert [event["event"] for event in found] == ["start", "error"]


def test_branches_that_are_held_back_are_limited_in_size() -> None:
    def heavy(command: Generate) -> Iterable[list[Event]]:
        yield [Accepted(command.request_id, 5)]
        for _ in range(2**20 // ENTRY_BYTES):
            yield [Delta(command.request_id, 0, "a", [1], [entry("a")])]
            gevent.sleep(0)
        raise AssertionError("the request should have been cancelled")

    http, engine = serve(heavy, max_body_bytes=2**17)
    response = post(http, SRB, n=1, best_of=2, logprobs=0)
    found = events(response.text)
    assert [event["event"] for event in found] == ["start", "error"]
    assert found[-1]["code"] == "answer_too_large"
    assert "best_of" in found[-1]["message"]
    response.close()  # as a server does after the last event
    assert engine.cancelled == [engine.sent[0].request_id]


def test_a_stream_that_holds_text_back_sends_keep_alive_comments() -> None:
    def slow(command: Generate) -> Iterable[list[Event]]:
        yield [Accepted(command.request_id, 5)]
        for _ in range(8):
            yield [Delta(command.request_id, 0, "a", [1])]
            gevent.sleep(0.2)
        yield [BranchEnded(command.request_id, 0, "eos", 8), BranchEnded(command.request_id, 1, "eos", 0)]
        yield [Done(command.request_id, 5, 0, 8, 1.0, 1.0)]

    http, _ = serve(slow)
    text = post(http, SRB, n=1, best_of=2, sse_ping_interval=1).text
    assert text.index(": ping\n\n") < text.index('"progress"')


@pytest.mark.parametrize("path", [SRB, OPENAI])
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"select": "diverse"}, "needs best_of"),
        ({"best_of": 5, "select": "best"}, "Input should be 'likely', 'diverse' or 'meaning', but got \"best\""),
        ({"best_of": 5, "select": True}, "Input should be 'likely', 'diverse' or 'meaning', but got true"),
    ],
)
def test_a_select_that_makes_no_sense_is_refused(path: str, stream: bool, body: dict[str, Any], words: str) -> None:
    http, engine = serve()
    response = post(http, path, **body, stream=stream)
    assert response.status_code == 400
    assert response.json["error"]["param"] == "select"
    assert words in response.json["error"]["message"]
    assert engine.sent == []


def test_with_nothing_to_choose_the_branches_come_at_once_and_in_their_order() -> None:
    http, _ = serve()
    found = events(post(http, SRB, n=4, best_of=4, select="diverse", seed=3).text)
    assert found[0]["seeds"] == [3, 4, 5, 6]
    assert [event["index"] for event in found if event["event"] == "stream"][:4] == [0, 1, 2, 3]
    assert "progress" not in {event["event"] for event in found}


def test_verbose_objects_of_a_stream_have_the_seed_and_the_slot_of_the_chosen_branch() -> None:
    def script(command: Generate) -> Iterable[list[Event]]:
        slots = [10 + index for index in range(len(command.branches))]
        for batch in tells()(command):
            yield [replace(event, slots=slots) if isinstance(event, PromptDone) else event for event in batch]

    http, _ = serve(script)
    body: dict[str, Any] = {"n": 2, "best_of": 5, "select": "diverse", "seed": 40, "verbose": True, "rank": True}
    chunks = [
        read("openai.TextCompletionChunk", orjson.dumps(each))
        for each in events(post(http, OPENAI, **body, stream=True).text)
    ]
    finals = [chunk["__verbose"] for chunk in chunks if chunk["choices"] and chunk["choices"][0]["finish_reason"]]
    assert [final["generation_settings"]["seed"] for final in finals] == [42, 41]
    assert [final["id_slot"] for final in finals] == [12, 11]
    assert [final["index"] for final in finals] == [0, 1]
    assert not any("ranking" in final for final in finals)  # it is beside them, once
    assert chunks[-1]["ranking"] == [0, 1]


@pytest.mark.parametrize("stream", [False, True])
def test_branches_that_differ_are_ranked_together(stream: bool) -> None:
    http, engine = serve()
    branches = [{"temperature": 0.1}, {"append": " x"}, {"seed": 9}, {}]
    response = post(http, SRB, branches=branches, rank="near", stream=stream)
    found = events(response.text)[-1] if stream else response.json
    assert keys_of_ranking(found) == NEAR
    assert all(branch.score for branch in engine.sent[0].branches)
