"""A long evening of one writer on a real server: going on, going back, asking again; every text is what a cold one is."""

from __future__ import annotations

import random

from tests.servers import Server


def complete(server: Server, prompt: str, **options: object) -> dict:
    answer = server.post("/v1/srb/completions", {"prompt": prompt, "stream": False, "max_tokens": 12, **options})
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_long_random_evening_gives_the_texts_of_cold_runs(tiny: Server) -> None:
    pick = random.Random(11)
    stories = ["The old king said to the girl that the boat was", "a door, then the sea and"]
    for turn in range(30):
        story = pick.choice(stories[-12:])
        completions = complete(tiny, story, n=4, seed=turn)["completions"]
        grown = [story + completion["text"] for completion in completions]
        stories += [text for text in grown if len(text) < 500]
        if turn % 3 == 0:
            asked = pick.choice(stories)
            warm = complete(tiny, asked, n=1, temperature=0)
            cold = complete(tiny, asked, n=1, temperature=0, cache_prompt=False)
            assert warm["completions"][0]["text"] == cold["completions"][0]["text"]
            assert cold["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    assert tiny.metric("prompt_tokens_cached_total") > tiny.metric("llamacpp:prompt_tokens_total")
