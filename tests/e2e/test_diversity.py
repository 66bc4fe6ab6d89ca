"""Branches that spread, on a whole server with a real model, in every dialect."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.servers import Server

pytestmark = pytest.mark.e2e

BODY = {"n": 6, "max_tokens": 1, "seed": 5, "stream": False, "return_tokens": True, "temperature": 2.0, "min_p": 0}
CHAT = {"messages": [{"role": "user", "content": "Tell a story."}]}
PROMPT = {"prompt": "Once upon a time,"}


every_dialect = pytest.mark.parametrize(
    ("path", "prompt"),
    [
        ("/v1/srb/completions", PROMPT),
        ("/v1/completions", PROMPT),
        ("/completion", PROMPT),
        ("/v1/chat/completions", CHAT),
    ],
)


def choices_of(server: Server, path: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    answer = server.post(path, BODY | body)
    assert answer.status_code == 200, answer.text
    said = answer.json()
    choices: list[dict[str, Any]] = said if isinstance(said, list) else said.get("completions") or said["choices"]
    return choices


def first_tokens(server: Server, path: str, body: dict[str, Any]) -> list[int]:
    return [choice["tokens"][0] for choice in choices_of(server, path, body)]


def first_words(server: Server, path: str, body: dict[str, Any]) -> list[str]:
    texts = [
        choice.get("message", choice).get("content") or choice.get("text", "")
        for choice in choices_of(server, path, body)
    ]
    return [re.findall(r"[\w'’-]+", text)[0].lower() for text in texts]


@every_dialect
@pytest.mark.parametrize("given", [{"distinct_first": True}, {"sibling_penalty": 100}])
def test_every_dialect_spreads_branches(
    storyteller: Server, path: str, prompt: dict[str, Any], given: dict[str, Any]
) -> None:
    spread = first_tokens(storyteller, path, prompt | given | {"top_k": 8, "top_p": 1})
    assert len(set(spread)) == 6
    assert len(set(first_tokens(storyteller, path, prompt | {"temperature": 0}))) == 1


@every_dialect
@pytest.mark.parametrize("ends", [{"max_tokens": 12}, {"stop_at": "word", "max_tokens": 32}])
def test_every_dialect_keeps_first_words_apart(
    storyteller: Server, path: str, prompt: dict[str, Any], ends: dict[str, Any]
) -> None:
    """The model's vocabulary is small, so most words are several tokens."""
    body = prompt | ends | {"temperature": 0.6, "n": 8}
    assert len(set(first_words(storyteller, path, body))) < 8
    assert len(set(first_words(storyteller, path, body | {"distinct_words": True}))) == 8
