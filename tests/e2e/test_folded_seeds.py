"""Seeds that are no 32-bit numbers: each dialect folds them, tells the seed that it used, and gives the text again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.servers import Server

pytestmark = pytest.mark.e2e

USER = [{"role": "user", "content": "the king"}]
TEXT = {"prompt": "the king", "max_tokens": 12, "ignore_eos": True, "temperature": 1}
CHAT = {"messages": USER, "max_tokens": 12, "ignore_eos": True, "temperature": 1}
OLLAMA = {"model": "fake:", "stream": False, "prompt": "the king", "raw": True, "n": 2}
OPTIONS = {"num_predict": 12, "temperature": 1}

Read = Callable[[Any], tuple[int, str]]  # the seed and the text of an answer

# The path, the body with a seed, and what is read of the answer.
FORMS: dict[str, tuple[str, Callable[[int], dict[str, Any]], Read]] = {
    "llamacpp": (
        "/completion",
        lambda seed: TEXT | {"seed": seed},
        lambda said: (said["generation_settings"]["seed"], said["content"]),
    ),
    "openai": (
        "/v1/completions",
        lambda seed: TEXT | {"seed": seed},
        lambda said: (said["choices"][0]["seed"], said["choices"][0]["text"]),
    ),
    "chats": (
        "/v1/chat/completions",
        lambda seed: CHAT | {"seed": seed},
        lambda said: (said["choices"][0]["seed"], said["choices"][0]["message"]["content"]),
    ),
    "messages": (
        "/v1/messages",
        lambda seed: CHAT | {"seed": seed},
        lambda said: (said["seed"], said["content"][0]["text"]),
    ),
    "responses": (
        "/v1/responses",
        lambda seed: {"input": USER, "max_output_tokens": 16, "temperature": 1, "seed": seed},
        lambda said: (said["branches"][0]["seed"], said["output"][0]["content"][0]["text"]),
    ),
    "ollama": (
        "/api/generate",
        lambda seed: OLLAMA | {"options": OPTIONS | {"seed": seed}},
        lambda said: (said["branches"][0]["seed"], said["branches"][0]["response"]),
    ),
    "kobold": (
        "/api/v1/generate",
        lambda seed: {"prompt": "the king", "max_length": 12, "temperature": 1, "sampler_seed": seed},
        lambda said: (said["results"][0]["seed"], said["results"][0]["text"]),
    ),
    "srb": (
        "/v1/srb/completions",
        lambda seed: TEXT | {"n": 1, "stream": False, "seed": seed},
        lambda said: (said["seeds"][0], said["completions"][0]["text"]),
    ),
}


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("seed", [1764143100123, -2, 2**63 - 1])
def test_a_seed_that_was_folded_is_told_and_gives_the_text_again(server: Server, name: str, seed: int) -> None:
    path, body, read = FORMS[name]

    def ask(given: int) -> tuple[int, str]:
        answer = server.post(path, body(given))
        assert answer.status_code == 200, answer.text
        return read(answer.json())

    used, text = ask(seed)
    assert used == seed % (2**32 - 1)
    assert text
    assert ask(seed) == ask(used) == (used, text)
