"""Chats whose thoughts are ended and whose streams are read again, on a whole server with two workers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson
import pytest
import requests

from tests.processes import wait_for
from tests.servers import Server

CHAT = "/v1/chat/completions"
THINKING = "{% for message in messages %}{{ message.content }}{% endfor %}<think>"
ENDLESS = {"messages": [{"role": "user", "content": "Once"}], "ignore_eos": True, "stream": True, "seed": 7}


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with two workers and a template whose replies begin inside thoughts; do not kill any part of it."""
    with Server(tmp_path_factory.mktemp("chats"), workers=2, chat_template=THINKING) as server:
        yield server.start()


def chunks(response: requests.Response) -> Iterator[dict[str, Any]]:
    for line in response.iter_lines(chunk_size=None):
        if line.startswith(b"data: {"):
            yield orjson.loads(line.removeprefix(b"data: "))


def control(server: Server, completion: str, **body: Any) -> dict[str, Any]:
    """Send a control on a connection of its own, which either worker may get."""
    body = {"id": completion, "action": "reasoning_end", **body}
    said: dict[str, Any] = requests.post(f"{server.url}{CHAT}/control", json=body, timeout=60).json()
    return said


def test_the_thoughts_of_one_branch_end_and_then_those_of_all(pair: Server) -> None:
    body = {**ENDLESS, "n": 3, "reasoning_control": True, "max_tokens": 20_000}
    with pair.post(CHAT, body, stream=True) as response:
        found = chunks(response)
        completion = next(found)["id"]
        kinds: dict[int, set[str]] = {0: set(), 1: set(), 2: set()}

        def read_until(done: Any) -> None:
            while not done():
                for choice in next(found)["choices"]:
                    kinds[choice["index"]] |= {name for name, text in choice["delta"].items() if text}

        read_until(lambda: all("reasoning_content" in each for each in kinds.values()))
        assert control(pair, completion, index=1) == {"success": True, "branches": [1]}
        read_until(lambda: "content" in kinds[1])
        assert "content" not in kinds[0] | kinds[2]
        assert control(pair, completion) == {"success": True, "branches": [0, 2]}
        read_until(lambda: all("content" in each for each in kinds.values()))
        assert control(pair, completion) == {"success": True, "branches": []}
    wait_for(lambda: not pair.metric("requests_processing"), "the request ends with its client")
    assert control(pair, completion) == {"success": False, "message": "no active completion for this id"}


def again(server: Server, conversation: str, start: int = 0) -> requests.Response:
    query: dict[str, Any] = {"conv_id": conversation, "from": start}
    return requests.get(f"{server.url}/v1/stream", params=query, timeout=60)


def look_up(server: Server, conversation: str) -> list[dict[str, Any]]:
    body = {"conversation_ids": [conversation]}
    found: list[dict[str, Any]] = requests.post(f"{server.url}/v1/streams/lookup", json=body, timeout=60).json()
    return found


def test_a_stream_goes_on_without_its_client_and_every_worker_has_it(pair: Server) -> None:
    headers = {"X-Conversation-Id": "talk"}
    body = {**ENDLESS, "max_tokens": 300}
    with requests.post(pair.url + CHAT, json=body, headers=headers, stream=True, timeout=60) as response:
        seen = next(response.iter_content(chunk_size=None))
    wait_for(lambda: look_up(pair, "talk")[0]["is_done"], "the stream goes on to its end")
    total = look_up(pair, "talk")[0]["total_bytes"]
    for _ in range(8):
        whole = again(pair, "talk").content
        assert (len(whole), whole.startswith(seen)) == (total, True)
        assert whole.endswith(b"data: [DONE]\n\n")
        assert again(pair, "talk", len(seen)).content == whole[len(seen) :]
    wait_for(lambda: not pair.metric("requests_processing"), "nothing is left of it")


def test_a_stream_is_stopped_by_any_worker(pair: Server) -> None:
    headers, body = {"X-Conversation-Id": "endless"}, {**ENDLESS, "max_tokens": 100_000}
    with requests.post(pair.url + CHAT, json=body, headers=headers, stream=True, timeout=60) as response:
        next(response.iter_content(chunk_size=None))
    assert not look_up(pair, "endless")[0]["is_done"]
    stopped = requests.delete(f"{pair.url}/v1/stream", params={"conv_id": "endless"}, timeout=60)
    assert stopped.status_code == 204
    wait_for(lambda: not pair.metric("requests_processing"), "the request has ended")
    assert (look_up(pair, "endless"), again(pair, "endless").status_code) == ([], 404)
