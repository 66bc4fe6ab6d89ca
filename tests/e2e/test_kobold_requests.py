"""KoboldCpp's requests against whole servers: a request is read and ended by its key, and a long prompt is cut."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import orjson
import pytest
import requests

from tests.processes import DEADLINE, wait_for
from tests.servers import Server

pytestmark = pytest.mark.e2e

ENDLESS = {"prompt": "Once upon a time", "max_length": 90_000, "use_default_badwordsids": True}


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Two workers, so that a control mostly comes to another one than the request."""
    with Server(tmp_path_factory.mktemp("kobold"), workers=2, model="fake:10", n_ctx=100_000) as server:
        yield server.start()


def in_background(work: Callable[[], Any]) -> tuple[threading.Thread, list[Any]]:
    answers: list[Any] = []
    thread = threading.Thread(target=lambda: answers.append(work()))
    thread.start()
    return thread, answers


def texts(server: Server, genkey: str) -> list[str]:
    answer = requests.post(server.url + "/api/extra/generate/check", json={"genkey": genkey}, timeout=DEADLINE)
    return [result["text"] for result in answer.json()["results"]]


def abort(server: Server, genkey: str) -> str:
    answer = requests.post(server.url + "/api/extra/abort", json={"genkey": genkey}, timeout=DEADLINE)
    return str(answer.json()["success"])


def test_every_worker_reads_and_ends_a_request_by_its_key(workers: Server) -> None:
    def ask() -> Any:
        body = {**ENDLESS, "n": 2, "genkey": "KCPP1"}
        return requests.post(workers.url + "/api/v1/generate", json=body, timeout=DEADLINE).json()

    thread, answers = in_background(ask)
    for _ in range(8):  # a connection each, so both workers are asked
        wait_for(lambda: all(texts(workers, "KCPP1")), "both branches have text")
        assert len(texts(workers, "KCPP1")) == 2
        assert texts(workers, "KCPP2") == [""]
        assert abort(workers, "KCPP2") == "false"
    seen = texts(workers, "KCPP1")
    assert abort(workers, "KCPP1") == "true"
    thread.join(DEADLINE)
    [answer] = answers
    assert [result["finish_reason"] for result in answer["results"]] == ["length", "length"]
    for before, result in zip(seen, answer["results"], strict=True):
        assert result["text"].startswith(before)
    assert abort(workers, "KCPP1") == "false"
    wait_for(lambda: workers.metric("requests_processing") == 0, "nothing runs any more")


def last_logprobs(server: Server, genkey: str) -> Any:
    answer = requests.post(server.url + "/api/extra/last_logprobs", json={"genkey": genkey}, timeout=DEADLINE)
    return answer.json()["logprobs"]


def test_every_worker_tells_the_probabilities_of_a_stream_that_has_ended(workers: Server) -> None:
    for number in range(20):  # more than are kept at once: none is refused, and the newest one is known
        body = {"prompt": "Once", "max_length": 8, "genkey": f"P{number % 2}", "logprobs": True, "sampler_seed": number}
        answer = requests.post(workers.url + "/api/extra/generate/stream", json=body, timeout=DEADLINE)
        events = [line.removeprefix("data: ") for line in answer.text.splitlines() if line.startswith("data: ")]
        said = last_logprobs(workers, f"P{number % 2}")
        assert "".join(said["tokens"]) == "".join(orjson.loads(event)["token"] for event in events)
        assert [len(each["top_logprobs"]) for each in said["content"]] == [5] * len(said["tokens"])
    assert last_logprobs(workers, "P2") is None
    assert texts(workers, "P1") == [""]
    wait_for(lambda: workers.metric("requests_processing") == 0, "nothing runs")


def test_a_client_that_leaves_a_stream_with_probabilities_ends_it(workers: Server) -> None:
    url = workers.url + "/api/extra/generate/stream"
    with requests.post(url, json={**ENDLESS, "genkey": "L", "logprobs": True}, stream=True, timeout=DEADLINE) as stream:
        next(stream.iter_lines())
    wait_for(lambda: workers.metric("requests_processing") == 0, "nothing runs any more")


def test_an_aborted_stream_ends_with_a_reason(workers: Server) -> None:
    url = workers.url + "/api/extra/generate/stream"
    events = []
    with requests.post(url, json=ENDLESS, stream=True, timeout=DEADLINE) as stream:
        for line in stream.iter_lines():
            if line.startswith(b"data: "):
                events.append(orjson.loads(line.removeprefix(b"data: ")))
                if len(events) == 1:
                    assert abort(workers, "") == "true"
    assert events[-1]["finish_reason"] == "length"
    assert "".join(event["token"] for event in events)


def test_a_long_prompt_is_cut_to_the_context_and_its_memory_stays(storyteller: Server) -> None:
    count = storyteller.post("/api/extra/tokencount", {"prompt": "The sea was calm. " * 200}).json()["value"]
    assert count > 600
    body = {"prompt": "The sea was calm. " * 200, "memory": "A tale.", "max_context_length": 256, "max_length": 40}
    [result] = storyteller.post("/api/v1/generate", body).json()["results"]
    assert result["prompt_tokens"] == 216
    body["max_context_length"] = 10_000_000
    long = {**body, "prompt": "The sea was calm. " * 4000}
    [result] = storyteller.post("/api/v1/generate", long).json()["results"]
    longest = storyteller.get("/api/extra/true_max_context_length").json()["value"]
    assert result["prompt_tokens"] == longest - 40


def test_a_prompt_that_fits_is_that_of_every_other_dialect(storyteller: Server) -> None:
    body = {"prompt": "Once upon a time", "max_length": 12, "temperature": 0}
    [result] = storyteller.post("/api/v1/generate", body).json()["results"]
    assert result["text"] == storyteller.post("/completion", body).json()["content"]


def test_text_and_ids_of_tokens_are_each_others(storyteller: Server) -> None:
    ids = storyteller.post("/api/extra/tokencount", {"prompt": "The lighthouse"}).json()["ids"]
    assert storyteller.post("/api/extra/detokenize", {"ids": ids}).json()["result"].strip() == "The lighthouse"
