"""Ollama's own Python client against a whole server with a real model, and branches as its lines tell them apart."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson
import pytest
import requests

from tests.needs import need
from tests.processes import DEADLINE
from tests.servers import Server

pytestmark = pytest.mark.e2e

try:
    import ollama
except ImportError:
    ollama = None

NAME = "storyteller"
SHORT = {"num_predict": 12, "temperature": 0.0}


@pytest.fixture
def client(storyteller: Server) -> Iterator[Any]:
    need(ollama, "the package ollama")
    made = ollama.Client(host=storyteller.url, timeout=DEADLINE)
    yield made
    made._client.close()


def test_a_completion_and_its_stream_say_the_same(client: Any) -> None:
    whole = client.generate(NAME, "Once upon a time", options=SHORT)
    assert whole.done
    assert whole.done_reason == "length"
    assert whole.eval_count == 12
    assert whole.prompt_eval_count
    assert whole.eval_duration > 0
    parts = list(client.generate(NAME, "Once upon a time", options=SHORT, stream=True))
    assert "".join(part.response for part in parts) == whole.response != ""
    assert [part.done for part in parts] == [False] * (len(parts) - 1) + [True]
    assert parts[-1].context == whole.context


def test_a_context_continues_an_answer(client: Any) -> None:
    first = client.generate(NAME, "Once upon a time", options=SHORT)
    second = client.generate(NAME, "And then?", context=first.context, options=SHORT)
    assert list(second.context[: len(first.context)]) == list(first.context)
    assert second.prompt_eval_count > first.prompt_eval_count + first.eval_count


def test_a_raw_prompt_is_that_of_every_other_dialect(client: Any, storyteller: Server) -> None:
    told = client.generate(NAME, "Once upon a time", raw=True, options=SHORT)
    body = {"prompt": "Once upon a time", "n_predict": 12, "temperature": 0}
    assert told.response == storyteller.post("/completion", body).json()["content"]
    assert told.context is None


def test_a_conversation(client: Any) -> None:
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Tell me a story."}]
    whole = client.chat(NAME, messages=messages, options=SHORT)
    assert whole.message.role == "assistant"
    parts = list(client.chat(NAME, messages=messages, options=SHORT, stream=True))
    assert "".join(part.message.content for part in parts) == whole.message.content != ""
    messages += [whole.message, {"role": "user", "content": "More."}]
    assert client.chat(NAME, messages=messages, options=SHORT).message.content


def test_a_reply_follows_its_schema(client: Any) -> None:
    schema = {"type": "object", "properties": {"name": {"enum": ["Dora", "Ravi"]}}, "required": ["name"]}
    messages = [{"role": "user", "content": "Who?"}]
    reply = client.chat(NAME, messages=messages, format=schema, options={"num_predict": 64})
    assert orjson.loads(reply.message.content)["name"] in ("Dora", "Ravi")


def test_a_conversation_with_a_tool_is_accepted(client: Any) -> None:
    def weather(city: str) -> str:
        """Tell the weather.

        Args:
            city: a name
        """
        return city

    call = {"function": {"name": "weather", "arguments": {"city": "Oslo"}}}
    messages = [
        {"role": "user", "content": "Sun?"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": "Sun.", "tool_name": "weather"},
    ]
    assert client.chat(NAME, messages=messages, tools=[weather], options=SHORT).done


def test_the_model_is_listed_shown_and_loaded(client: Any) -> None:
    [listed] = client.list().models
    assert listed.model == f"{NAME}:latest"
    assert listed.size > 0
    shown = client.show(listed.model)
    assert "completion" in shown.capabilities
    assert shown.modelinfo["general.architecture"] == "llama"
    [loaded] = client.ps().models
    assert loaded.digest == listed.digest


def test_refusals_reach_the_client_as_its_error(client: Any) -> None:
    with pytest.raises(ollama.ResponseError, match="model 'llama3' not found") as missing:
        client.generate("llama3", "Hi")
    assert missing.value.status_code == 404
    with pytest.raises(ollama.ResponseError, match="cannot pull models") as refused:
        client.pull("llama3")
    assert refused.value.status_code == 501
    with pytest.raises(ollama.ResponseError, match="embeddings") as without:
        client.embed(NAME, "Hi")
    assert without.value.status_code == 501
    with pytest.raises(ollama.ResponseError, match="Field 'temperature'"):
        client.generate(NAME, "Hi", options={"temperature": "hot"})


def test_each_branch_is_the_one_that_its_seed_gives_alone(storyteller: Server) -> None:
    body = {"model": NAME, "prompt": "Once upon a time", "raw": True, "options": {"num_predict": 16, "seed": 5}}
    url = storyteller.url + "/api/generate"
    texts = ["", "", ""]
    with requests.post(url, json={**body, "n": 3}, timeout=DEADLINE) as answer:
        for line in map(orjson.loads, answer.iter_lines()):
            texts[line.get("index", 0)] += line["response"]
    branches = requests.post(url, json={**body, "n": 3, "stream": False}, timeout=DEADLINE).json()["branches"]
    assert [branch["response"] for branch in branches] == texts
    assert len(set(texts)) == 3
    assert [branch["seed"] for branch in branches] == [5, 6, 7]
