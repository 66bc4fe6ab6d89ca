"""Streams with probabilities: each token has an event of its own, however many are read at once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import orjson
import pytest

from srb.config.settings import Settings
from srb.web.app import create_app
from srb.wire.commands import Generate
from srb.wire.events import Accepted, BranchEnded, Delta, Done, Event, PromptDone, TokenProbs
from tests.scripted import ScriptedClient

DELTA = "response.output_text.delta"  # later events of Responses repeat all
TEXTS = [" one", " two", "\n", "🙂"]
USER = [{"role": "user", "content": "Hi"}]
# A body of each dialect that asks for probabilities.
BODIES: dict[str, Any] = {
    "/completion": {"prompt": "Hi", "n_probs": 1},
    "/v1/completions": {"prompt": "Hi", "logprobs": 1},
    "/v1/chat/completions": {"messages": USER, "logprobs": True, "top_logprobs": 1},
    "/v1/srb/completions": {"prompt": "Hi", "logprobs": 1},
    "/v1/responses": {"input": "Hi", "include": ["message.output_text.logprobs"], "top_logprobs": 1},
    "/api/generate": {"model": "storyteller", "prompt": "Hi", "raw": True, "logprobs": True, "top_logprobs": 1},
    "/api/chat": {"model": "storyteller", "messages": USER, "logprobs": True, "top_logprobs": 1},
}


def in_one_frame(command: Generate) -> Iterable[list[Event]]:
    """A branch whose tokens are all there before the first one is read."""
    request_id = command.request_id
    entries = [TokenProbs(id=7, token=text, bytes=list(text.encode()), logprob=-0.5, top_logprobs=[]) for text in TEXTS]
    yield [
        *(Accepted(request_id, 1), PromptDone(request_id, 0, 0, 1.0)),
        *(Delta(request_id, 0, text, [7], [entry]) for text, entry in zip(TEXTS, entries, strict=True)),
        BranchEnded(request_id, 0, "limit", 4),
        Done(request_id, 1, 0, 4, 1.0, 1.0),
    ]


def entries_in(value: Any) -> int:
    """Return the number of tokens whose probabilities an event has, under any key of any dialect."""
    if isinstance(value, list):
        return sum(map(entries_in, value))
    if not isinstance(value, dict):
        return 0
    if "token" in value and "logprob" in value:
        return 1
    if "token_logprobs" in value:
        return len(value["token_logprobs"])
    return sum(map(entries_in, value.values()))


@pytest.mark.parametrize("path", BODIES)
def test_each_token_has_its_event(path: str) -> None:
    client = ScriptedClient(Settings(), in_one_frame)
    answer = create_app(Settings(), client).test_client().post(path, json={**BODIES[path], "stream": True})
    assert answer.status_code == 200, answer.text
    lines = [line.removeprefix("data: ") for line in answer.text.splitlines() if line.startswith(("data: {", "{"))]
    events = [event for event in map(orjson.loads, lines) if event.get("type", DELTA) == DELTA]
    assert [count for event in events if (count := entries_in(event))] == [1] * len(TEXTS)
