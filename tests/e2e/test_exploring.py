"""Exploring on a whole server with a real model, in every dialect, streamed and not."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from typing import Any

import pytest

from tests.servers import Server

pytestmark = pytest.mark.e2e

EXPLORE: dict[str, Any] = {"cutoff": 0.3, "max_branches": 9, "depth": 6}
BODY = {"explore": EXPLORE, "return_tokens": True}
CHAT = {"messages": [{"role": "user", "content": "Tell a story."}]}
PROMPT = {"prompt": "Once upon a time,"}
DIALECTS = [
    ("/v1/srb/completions", PROMPT),
    ("/v1/completions", PROMPT | {"model": "any"}),
    ("/completion", PROMPT),
    ("/v1/chat/completions", CHAT),
]


def streamed(server: Server, path: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    answer = server.post(path, body | {"stream": True})
    assert answer.status_code == 200, answer.text
    lines = [line.removeprefix("data: ") for line in answer.text.split("\n\n") if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


def leaves_of_answer(answer: Any) -> list[tuple[str, tuple[int, ...]]]:
    choices = answer if isinstance(answer, list) else answer.get("completions") or answer["choices"]
    texts = [choice.get("text", choice.get("content")) for choice in choices]
    texts = [
        choice["message"]["content"] if "message" in choice else text
        for choice, text in zip(choices, texts, strict=True)
    ]
    return [(text, tuple(choice["tokens"])) for text, choice in zip(texts, choices, strict=True)]


def leaves_of_stream(events: list[dict[str, Any]]) -> list[tuple[str, tuple[int, ...]]]:
    texts: defaultdict[int, str] = defaultdict(str)
    tokens: defaultdict[int, list[int]] = defaultdict(list)
    for event in events:
        for part in event.get("choices", [event]):
            if "index" not in part:
                continue
            said = part.get("delta", {}).get("content") or part.get("text") or part.get("content") or ""
            texts[part["index"]] += said
            tokens[part["index"]] += part.get("tokens", [])
    return [(texts[index], tuple(tokens[index])) for index in sorted(texts)]


def forks(server: Server, prompt: dict[str, Any]) -> dict[tuple[int, ...], float]:
    """Return the forks of a wide walk: the tokens up to the one at which a branch parted, and their probability."""
    text = prompt.get("prompt") or server.post("/apply-template", prompt).json()["prompt"]
    body = BODY | {"prompt": text, "explore": EXPLORE | {"max_branches": 64}, "logprobs": 1, "stream": False}
    found = {}
    for leaf in server.post("/v1/srb/completions", body).json()["completions"]:
        length = leaf["from"]["token"] + 1 if "from" in leaf else 0
        found[tuple(leaf["tokens"][:length])] = math.exp(sum(prob["logprob"] for prob in leaf["logprobs"][:length]))
    return found


def likeliest(found: dict[tuple[int, ...], float]) -> list[tuple[int, ...]]:
    """Return the forks that a walk must find: of those as likely as its last one, rounding decides which it finds."""
    least = sorted(found.values())[-EXPLORE["max_branches"]]
    return [fork for fork, probability in found.items() if probability > least + 1e-4]


@pytest.mark.parametrize(("path", "prompt"), DIALECTS)
def test_streams_and_answers_have_the_likeliest_leaves(storyteller: Server, path: str, prompt: dict[str, Any]) -> None:
    """A leaf is told by its fork: of two words that are equally likely after it, rounding decides how it goes on."""
    whole = storyteller.post(path, BODY | prompt | {"stream": False})
    assert whole.status_code == 200, whole.text
    expected = likeliest(forks(storyteller, prompt))
    assert len(expected) >= 5
    texts: dict[tuple[int, ...], str] = {}
    for found in (leaves_of_answer(whole.json()), leaves_of_stream(streamed(storyteller, path, BODY | prompt))):
        left = [tokens for _, tokens in found]
        assert len(set(found)) == len(set(left)) == EXPLORE["max_branches"]
        assert all(0 < len(tokens) <= 6 for tokens in left)
        for fork in sorted(expected, key=len, reverse=True):
            leaf = next((tokens for tokens in left if tokens[: len(fork)] == fork), None)
            assert leaf is not None, f"{fork} is missing in {found}"
            left.remove(leaf)
        for text, tokens in found:
            assert texts.setdefault(tokens, text) == text
    assert len(texts) < 1.5 * EXPLORE["max_branches"], "most leaves differ"


@pytest.mark.parametrize(("path", "prompt"), DIALECTS[1:2] + DIALECTS[3:])
def test_a_stream_with_logprobs_ranks_and_tells_usage(storyteller: Server, path: str, prompt: dict[str, Any]) -> None:
    more = {"logprobs": True, "rank": True, "verbose": True, "stream_options": {"include_usage": True}}
    events = streamed(storyteller, path, BODY | prompt | more)
    ends = [choice for event in events for choice in event["choices"] if choice.get("finish_reason")]
    assert sorted(choice["index"] for choice in ends) == list(range(9))
    assert sorted(events[-1]["ranking"]) == list(range(9))
    assert events[-1]["usage"]["completion_tokens"] < 9 * 6


def test_events_tell_the_tree_and_its_probabilities(storyteller: Server) -> None:
    events = streamed(storyteller, "/v1/srb/completions", BODY | PROMPT | {"logprobs": True})
    tokens: dict[int, list[int]] = {0: []}
    probs: dict[int, list[float]] = {0: []}
    for event in events:
        if event["event"] == "branch":
            assert event["from"] == {"branch": event["parent"], "token": event["at"]}
            tokens[event["index"]] = tokens[event["parent"]][: event["at"]]
            probs[event["index"]] = probs[event["parent"]][: event["at"]]
        elif event["event"] == "stream":
            tokens[event["index"]] += event["tokens"]
            probs[event["index"]] += [prob["logprob"] for prob in event["logprobs"]]
        elif event["event"] == "stop" and event["reason"] == "limit":
            assert event["length"] == len(tokens[event["index"]]) == 6
            assert event["path_logprob"] == pytest.approx(sum(probs[event["index"]]), abs=1e-3)
            assert event["logprob"] == pytest.approx(event["path_logprob"] / 6)
    assert len({tuple(each) for each in tokens.values()}) == 9


def test_an_answer_has_every_token_and_its_probability(storyteller: Server) -> None:
    said = storyteller.post("/v1/srb/completions", BODY | PROMPT | {"stream": False, "logprobs": 1}).json()
    for choice in said["completions"]:
        assert [prob["id"] for prob in choice["logprobs"]] == choice["tokens"]
        assert "path_logprob" in choice
        assert ("from" in choice) == (choice["index"] > 0)


@pytest.mark.parametrize(
    ("more", "name"),
    [
        ({"n": 2}, "n"),
        ({"branches": [{}]}, "branches"),
        ({"best_of": 2}, "best_of"),
        ({"grammar": 'root ::= "a"'}, "grammar"),
        ({"json_schema": {}}, "json_schema"),
        ({"echo": True}, "echo"),
        ({"banned_strings": ["x"]}, "banned_strings"),
        ({"distinct_first": True}, "distinct_first"),
        ({"distinct_words": True}, "distinct_words"),
        ({"sibling_penalty": 1}, "sibling_penalty"),
        ({"post_sampling_probs": True}, "post_sampling_probs"),
        ({"prompt": ["a", "b"]}, "prompt"),
        ({"explore": {"cutoff": 0}}, "explore.cutoff"),
        ({"explore": {"cutoff": 1.1}}, "explore.cutoff"),
        ({"explore": {"depth": 1001}}, "explore.depth"),
        ({"explore": {"max_branches": 0}}, "explore.max_branches"),
        ({"explore": {"max_branches": 65}}, "explore.max_branches"),
        ({"explore": {"width": 3}}, "explore.width"),
        ({"explore": True}, "explore"),
    ],
)
def test_a_refusal_names_the_field(storyteller: Server, more: dict[str, Any], name: str) -> None:
    answer = storyteller.post("/v1/completions", BODY | PROMPT | {"model": "any"} | more)
    assert answer.status_code == 400, answer.text
    assert f"'{name}'" in answer.text


@pytest.mark.parametrize(
    "more", [{"tools": [{"function": {"name": "f"}}]}, {"response_format": {"type": "json_object"}}]
)
def test_a_chat_refuses_what_needs_a_grammar(storyteller: Server, more: dict[str, Any]) -> None:
    answer = storyteller.post("/v1/chat/completions", BODY | CHAT | more)
    assert answer.status_code == 400, answer.text
    assert next(iter(more)) in answer.text


def test_a_dialect_with_one_branch_refuses(storyteller: Server) -> None:
    assert storyteller.post("/stream", PROMPT | {"explore": EXPLORE}).status_code == 400
