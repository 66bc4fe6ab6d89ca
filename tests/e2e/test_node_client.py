"""OpenAI's package for Node, version 6, against a whole server with a real model."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import Any

import orjson
import pytest

from tests.processes import DEADLINE, ROOT
from tests.servers import MakeServer, Server

MODULES = ROOT / "build" / "node" / "node_modules"

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed"),
    pytest.mark.skipif(not (MODULES / "openai").is_dir(), reason="`make node` has not fetched OpenAI's package"),
]

ASK: dict[str, Any] = {"model": "tiny", "prompt": "Once upon a time,", "max_tokens": 16, "seed": 42}
CHAT: dict[str, Any] = {
    "model": "storyteller", "messages": [{"role": "user", "content": "Once upon a time,"}], "max_tokens": 12, "seed": 42,
}  # fmt: skip


def node(server: Server, kind: str, parameters: dict[str, Any]) -> Any:
    done = subprocess.run(
        [
            "node",
            str(ROOT / "tests" / "e2e" / "node" / "client.cjs"),
            f"{server.url}/v1",
            kind,
            orjson.dumps(parameters),
        ],
        env=os.environ | {"NODE_PATH": str(MODULES)},
        capture_output=True,
        timeout=DEADLINE,
        check=True,
    )
    return orjson.loads(done.stdout)


def test_eight_choices_are_those_that_anyone_gets(tiny: Server) -> None:
    answer = node(tiny, "completions", {**ASK, "n": 8})
    expected = tiny.post("/v1/completions", {**ASK, "n": 8}).json()
    assert [choice["text"] for choice in answer["choices"]] == [choice["text"] for choice in expected["choices"]]
    assert answer["usage"]["completion_tokens"] == expected["usage"]["completion_tokens"]


def test_a_stream_of_eight_says_what_the_answer_says(tiny: Server) -> None:
    chunks = node(tiny, "completions", {**ASK, "n": 8, "stream": True, "stream_options": {"include_usage": True}})
    expected = tiny.post("/v1/completions", {**ASK, "n": 8}).json()
    texts, endings = [""] * 8, [""] * 8
    for chunk in chunks[:-1]:
        [choice] = chunk["choices"]
        texts[choice["index"]] += choice["text"]
        endings[choice["index"]] = choice["finish_reason"]
    assert texts == [choice["text"] for choice in expected["choices"]]
    assert endings == [choice["finish_reason"] for choice in expected["choices"]]
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"]["completion_tokens"] == expected["usage"]["completion_tokens"]


def test_several_replies_to_a_chat_streamed_and_not(make_server: MakeServer) -> None:
    server = make_server(chat_template="chatml").start()  # the fake's texts are the same wherever their KV is
    answer = node(server, "chat", {**CHAT, "n": 4})
    assert [choice["index"] for choice in answer["choices"]] == list(range(4))
    texts = [""] * 4
    for chunk in node(server, "chat", {**CHAT, "n": 4, "stream": True}):
        for choice in chunk["choices"]:
            texts[choice["index"]] += choice["delta"].get("content") or ""
    assert texts == [choice["message"]["content"] for choice in answer["choices"]]
    assert all(texts)


def test_a_bad_value_is_thrown_as_a_bad_request_error_that_names_it(tiny: Server) -> None:
    error = node(tiny, "completions", {**ASK, "n": 0})
    assert error == {"thrown": "BadRequestError", "status": 400, "param": "n", "type": "invalid_request_error"}


def test_a_failure_before_a_stream_is_thrown_too(tiny: Server) -> None:
    error = node(tiny, "completions", {**ASK, "prompt": "the sea " * 600, "stream": True})
    assert (error["thrown"], error["type"]) == ("BadRequestError", "exceed_context_size_error")
