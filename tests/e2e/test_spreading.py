"""Branches that spread, on a whole server with a real model, in every dialect."""

from __future__ import annotations

from typing import Any

import pytest

from tests.servers import Server

pytestmark = pytest.mark.e2e

BODY = {"n": 6, "max_tokens": 1, "seed": 5, "stream": False, "return_tokens": True, "temperature": 2.0, "min_p": 0}
CHAT = {"messages": [{"role": "user", "content": "Tell a story."}]}
PROMPT = {"prompt": "Once upon a time,"}


def first_tokens(server: Server, path: str, body: dict[str, Any]) -> list[int]:
    answer = server.post(path, BODY | body)
    assert answer.status_code == 200, answer.text
    said = answer.json()
    choices = said if isinstance(said, list) else said.get("completions") or said["choices"]
    return [choice["tokens"][0] for choice in choices]


@pytest.mark.parametrize(
    ("path", "prompt"),
    [
        ("/v1/srb/completions", PROMPT),
        ("/v1/completions", PROMPT),
        ("/completion", PROMPT),
        ("/v1/chat/completions", CHAT),
    ],
)
@pytest.mark.parametrize("given", [{"distinct_first": True}, {"sibling_penalty": 100}])
def test_every_dialect_spreads_branches(
    storyteller: Server, path: str, prompt: dict[str, Any], given: dict[str, Any]
) -> None:
    spread = first_tokens(storyteller, path, prompt | given | {"top_k": 8, "top_p": 1})
    assert len(set(spread)) == 6
    assert len(set(first_tokens(storyteller, path, prompt | {"temperature": 0}))) == 1
