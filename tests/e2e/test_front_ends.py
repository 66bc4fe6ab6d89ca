"""Requests of front ends and libraries (front_ends/requests.toml), and what they read of the answers."""

from __future__ import annotations

import tomllib
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.servers import Server

pytestmark = [pytest.mark.e2e, pytest.mark.smoke]

FOLDER = Path(__file__).parent / "front_ends"


@dataclass(frozen=True)
class Sent:
    """A request of a client, and the kind of answer that it reads; see front_ends/requests.toml."""

    client: str
    path: str
    answer: str
    body: str = ""
    choices: int = 1

    @property
    def fields(self) -> dict[str, Any]:
        fields: dict[str, Any] = orjson.loads(self.body)
        return fields


REQUESTS = [Sent(**each) for each in tomllib.loads((FOLDER / "requests.toml").read_text())["request"]]


def check_text(sent: Sent, answer: Any) -> None:
    assert answer["object"] == "text_completion"
    assert [choice["index"] for choice in answer["choices"]] == list(range(sent.choices))
    for choice in answer["choices"]:
        assert choice["finish_reason"] in ("stop", "length")
        assert choice["text"]
        if sent.fields.get("echo"):
            assert choice["text"].startswith(sent.fields["prompt"])
        if wanted := sent.fields.get("logprobs"):
            check_likely(choice["logprobs"], wanted)


def check_likely(logprobs: Any, wanted: int) -> None:
    for token, top in zip(logprobs["tokens"], logprobs["top_logprobs"], strict=True):
        if top is not None:  # of the first token of a prompt
            assert list(top.values()) == sorted(top.values(), reverse=True)
            assert token in top
            assert wanted // 2 < len(top) <= wanted + 1  # tokens that are spelled alike have one entry


def check_chat(sent: Sent, answer: Any) -> None:
    assert answer["object"] == "chat.completion"
    assert len(answer["choices"]) == sent.choices
    for choice in answer["choices"]:
        if "tools" in sent.fields:
            [call] = choice["message"]["tool_calls"]
            assert orjson.loads(call["function"]["arguments"])["name"] in ("Dora", "Ravi")
        else:
            assert choice["message"]["role"] == "assistant"


def check_llama(sent: Sent, answer: Any) -> None:
    assert answer["content"]
    assert answer["stop"] is True
    [first, *_] = answer["completion_probabilities"]
    assert len(first["probs"]) == sent.fields["n_probs"]
    assert first["probs"][0].keys() == {"tok_str", "prob"}


def events(text: str) -> list[Any]:
    """Return the events of a stream, which only a stream of OpenAI's ends with a mark."""
    lines = text.removesuffix("\n\n").split("\n\n")
    assert all(line.startswith("data: ") for line in lines)
    return [orjson.loads(line.removeprefix("data: ")) for line in lines if line != "data: [DONE]"]


def check_chunks(sent: Sent, text: str) -> None:
    assert text.endswith("data: [DONE]\n\n")
    endings: defaultdict[int, list[Any]] = defaultdict(list)
    for chunk in events(text):
        for choice in chunk["choices"]:
            assert "delta" in choice if sent.answer == "chat-stream" else "text" in choice
            endings[choice["index"]].append(choice["finish_reason"])
    assert sorted(endings) == list(range(sent.choices))
    for reasons in endings.values():
        assert reasons[-1] in ("stop", "length")
        assert set(reasons[:-1]) <= {None}


def check_llama_stream(sent: Sent, text: str) -> None:
    *some, last = events(text)
    assert "".join(event["content"] for event in some)
    assert [event["stop"] for event in some] == [False] * len(some)
    assert last["stop"] is True


def check_kobold(sent: Sent, answer: Any) -> None:
    assert len(answer["results"]) == sent.choices
    for result in answer["results"]:
        assert result["text"]
        assert result["finish_reason"] in ("stop", "length")
        if sent.fields.get("logprobs"):
            assert "".join(token["token"] for token in result["logprobs"]["content"]) == result["text"]


def check_kobold_stream(sent: Sent, text: str) -> None:
    parts = text.removesuffix("\n\n").split("\n\n")
    assert all(part.startswith("event: message\ndata: ") for part in parts)
    *some, last = (orjson.loads(part.removeprefix("event: message\ndata: ")) for part in parts)
    assert "".join(event["token"] for event in some)
    assert {event["finish_reason"] for event in some} == {None}
    assert last["finish_reason"] in ("stop", "length")


def ollama_text(line: Any) -> str:
    return str(line["message"]["content"] if "message" in line else line["response"])


def check_ollama(sent: Sent, answer: Any) -> None:
    assert answer["model"] == sent.fields["model"]
    assert ollama_text(answer)
    check_ollama_end(answer)


def check_ollama_end(line: Any) -> None:
    assert line["done"] is True
    assert line["done_reason"] in ("stop", "length")
    for name in ("total_duration", "load_duration", "prompt_eval_count", "eval_count", "eval_duration"):
        assert isinstance(line[name], int), name


def check_ollama_stream(sent: Sent, text: str) -> None:
    *some, last = (orjson.loads(line) for line in text.splitlines())
    assert "".join(map(ollama_text, some))
    assert {line["done"] for line in some} == {False}
    check_ollama_end(last)


def check_named(sent: Sent, text: str) -> None:
    """Check a stream of events with names, of which the last says that the answer is complete."""
    found = []
    for event in text.removesuffix("\n\n").split("\n\n"):
        name, data = event.split("\n")
        assert name == f"event: {orjson.loads(data.removeprefix('data: '))['type']}"
        found.append(name.removeprefix("event: "))
    ends = ("response.completed", "response.incomplete") if sent.answer == "responses-stream" else ("message_stop",)
    assert found[0] in ("response.created", "message_start")
    assert found[-1] in ends


WHOLE = {"text": check_text, "chat": check_chat, "llama": check_llama, "kobold": check_kobold, "ollama": check_ollama}
STREAMED = {
    "text-stream": check_chunks,
    "chat-stream": check_chunks,
    "llama-stream": check_llama_stream,
    "kobold-stream": check_kobold_stream,
    "ollama-stream": check_ollama_stream,
    "responses-stream": check_named,
    "messages-stream": check_named,
}


@pytest.mark.parametrize("sent", REQUESTS, ids=lambda sent: f"{sent.client}: {sent.path} {sent.answer}")
def test_a_front_end_reads_what_it_asked_for(storyteller: Server, sent: Sent) -> None:
    answer = storyteller.post(sent.path, sent.fields) if sent.body else storyteller.get(sent.path)
    assert answer.status_code == 200, answer.text
    streamed = answer.headers["Content-Type"].startswith(("text/event-stream", "application/x-ndjson"))
    assert streamed == (sent.answer in STREAMED)
    if sent.answer in STREAMED:
        STREAMED[sent.answer](sent, answer.text)
    elif sent.answer in WHOLE:
        WHOLE[sent.answer](sent, answer.json())
    else:
        assert answer.json()[sent.answer]


def text_of(path: str, answer: str) -> str:
    """Return the new text of one branch, from a whole answer in any dialect."""
    if path == "/stream":
        return answer.removesuffix("\n").replace("\n", "")
    value: Any = orjson.loads(answer)
    for key in ("completions", "choices"):
        value = value[key][0] if key in value else value
    return str(value["content"] if "content" in value else value["text"])


@pytest.mark.parametrize("path", ["/v1/srb/completions", "/v1/completions", "/completion", "/stream"])
def test_an_empty_prompt_is_a_blank_page(storyteller: Server, path: str) -> None:
    body = {"n": 1, "max_tokens": 8, "temperature": 0, "stream": False}
    [bos, *_] = storyteller.post("/tokenize", {"content": "x", "add_special": True}).json()["tokens"]
    blank = storyteller.post(path, body | {"prompt": ""})
    assert blank.status_code == 200
    expected = storyteller.post(path, body | {"prompt": [bos]})
    assert text_of(path, blank.text) == text_of(path, expected.text) != ""


def test_a_dialogue_may_begin_with_silence(storyteller: Server) -> None:
    answer = storyteller.post("/completion", {"prompt": "", "anti_prompt": "Human:", "system_prompt": "A story.",
                                              "n_predict": 4})  # fmt: skip
    assert answer.status_code == 200
    assert answer.text.startswith('data: {"content":')


def test_a_blank_page_is_echoed_as_nothing_and_its_first_token_has_no_probability(storyteller: Server) -> None:
    body = {"model": "any", "prompt": "", "max_tokens": 1, "echo": True, "logprobs": 0, "temperature": 0}
    answer = storyteller.post("/v1/completions", body).json()
    assert answer["usage"]["prompt_tokens"] == 1
    [choice] = answer["choices"]
    assert choice["logprobs"]["token_logprobs"][0] is None
    assert len(choice["logprobs"]["tokens"]) == 2
    assert "".join(choice["logprobs"]["tokens"]) == choice["text"]
    assert storyteller.post("/completion", {"prompt": "", "n_predict": 1}).json()["prompt"] == "<|begin|>"
