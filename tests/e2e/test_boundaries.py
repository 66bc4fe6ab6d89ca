"""`stop_at` in every dialect, on a whole server with a real model: the same end as that of the text without it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from srb.engine.boundaries import finder
from tests.servers import Server

pytestmark = pytest.mark.e2e

TALK = [{"role": "user", "content": "Once upon a time,"}]
WHOLE: dict[str, Any] = {"seed": 7, "max_tokens": 80, "ignore_eos": True, "temperature": 0.8, "repeat_penalty": 1.0}

Read = Callable[[Any], tuple[str, Any]]
DIALECTS: dict[str, tuple[str, dict[str, Any], Read, Any]] = {
    "srb": (
        "/v1/srb/completions", {"n": 1, "stream": False},
        lambda answer: (answer["completions"][0]["text"], answer["completions"][0]["reason"]), "boundary",
    ),
    "openai": (
        "/v1/completions", {"model": "any"},
        lambda answer: (answer["choices"][0]["text"], answer["choices"][0].get("stop_reason")), "boundary",
    ),
    "chat": (
        "/v1/chat/completions", {"messages": TALK},
        lambda answer: (answer["choices"][0]["message"]["content"], answer["choices"][0].get("stop_reason")), "boundary",
    ),
    "llamacpp": (
        "/completion", {},
        lambda answer: (answer["content"], (answer["stop_type"], answer["stopping_word"])), ("word", ""),
    ),
}  # fmt: skip


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(("stop_at", "stop_after"), [("word", 3), ("sentence", 1), ("sentence", 2)])
def test_every_dialect_ends_a_text_where_it_is_asked_to(
    storyteller: Server, dialect: str, stop_at: str, stop_after: int
) -> None:
    path, more, read, reason = DIALECTS[dialect]
    body = {"prompt": "Once upon a time,", **WHOLE, **more}
    text, _ = read(storyteller.post(path, body).json())
    found = finder(stop_at, stop_after).push(text)
    assert found, text
    answer = storyteller.post(path, {**body, "stop_at": stop_at, "stop_after": stop_after})
    assert read(answer.json()) == (text[: found.end], reason)


def lines(text: str) -> str:
    """Return the text of lines that have a token each; the storyteller's text has no line ends here."""
    return text.replace("\n", "")


def events(text: str) -> str:
    return "".join(json.loads(line.removeprefix("data: "))["content"] for line in text.split("\n\n") if line)


@pytest.mark.parametrize(
    ("path", "more", "read"),
    [
        ("/stream", {}, lines),
        ("/completion", {"system_prompt": "A story.", "anti_prompt": "END", "assistant_name": "Tell:"}, events),
    ],
)
def test_the_streams_of_2023_end_there_too(
    storyteller: Server, path: str, more: dict[str, Any], read: Callable[[str], str]
) -> None:
    body = {"prompt": "Once upon a time,", **WHOLE, **more}
    whole = read(storyteller.post(path, body).text)
    found = finder("word", 3).push(whole)
    assert found, whole
    assert read(storyteller.post(path, {**body, "stop_at": "word", "stop_after": 3}).text) == whole[: found.end]
