"""A seed gives a branch again, whatever was computed beside it: with kernels that round a token alike in every batch."""

from __future__ import annotations

from typing import Any

import pytest

from srb.engine.llama.devices import system_info
from srb.native_facts import has_own_products
from tests.real.prompts import PROMPTS, STORY
from tests.servers import Server

TOKENS = 24
SAMPLED = {"max_tokens": TOKENS, "stream": False}

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(not has_own_products(system_info()), reason="native/mul_mat.cpp is for x86-64 with AVX2"),
]


def texts(server: Server, prompt: str, n: int, seed: int, **fields: Any) -> list[str]:
    answer = server.post("/v1/srb/completions", {"prompt": prompt, "n": n, "seed": seed, **SAMPLED, **fields})
    assert answer.status_code == 200, answer.text
    return [each["text"] for each in answer.json()["completions"]]


@pytest.mark.parametrize("prompt", [PROMPTS["Latin"][0], STORY], ids=["short", "long"])
def test_a_branch_of_eight_is_written_again_alone(model: Server, prompt: str) -> None:
    together = texts(model, prompt, 8, 100)
    alone = [texts(model, prompt, 1, 100 + index)[0] for index in range(8)]
    assert sum(one == other for one, other in zip(alone, together, strict=True)) >= 6  # before: 1 of 8


def test_a_greedy_text_is_the_same_after_another_one_of_its_beginning(model: Server) -> None:
    prompt = STORY + " Alice looked"
    first = texts(model, prompt, 1, 0, temperature=0)
    texts(model, STORY + " The Rabbit", 3, 5)
    assert texts(model, prompt, 1, 0, temperature=0) == first
