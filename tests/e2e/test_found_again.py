"""Whole servers compute no text twice: whatever one has answered before, it computes the new tokens of a prompt alone."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from srb.config.settings import Settings
from tests.needs import long
from tests.processes import DEADLINE
from tests.servers import MakeServer, Server

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(5 * DEADLINE)]

SLACK = 16  # tokens: a text's last one is not computed, and its end may be other tokens where it goes on
WHO = ["Tomas", "Anna", "Boris", "Ilse", "Peter"]
DID = ["walked to the harbour", "closed the book", "lit the lamp", "wrote a letter", "waited for the ferry"]
RULES = "You are a patient storyteller. You answer in one or two sentences, and never twice with the same word. " * 3


@pytest.fixture
def fresh(make_server: MakeServer) -> Server:
    """A server with the bundled model that knows nothing yet; with one thread, as in `storyteller`."""
    return make_server(model="", n_ctx=Settings().n_ctx, threads=1).start()


def sentences(chance: random.Random, count: int) -> str:
    return " ".join(f"{chance.choice(WHO)} {chance.choice(DID)}." for _ in range(count))


def ask(server: Server, path: str, **body: Any) -> tuple[dict[str, Any], int, int]:
    """Return the answer to a request, the number of its prompt's tokens, and how many of these were known."""
    response = server.post(path, {"n": 1, "stream": False} | body)
    assert response.status_code == 200, response.text
    answer = response.json()
    usage = answer["usage"]
    return answer, usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"]


@pytest.mark.parametrize("at_once", [16, *long(1)])
def test_sixteen_chats_with_one_system_prompt_compute_their_new_turns_alone(fresh: Server, at_once: int) -> None:
    chance = random.Random(1)
    chats = [[{"role": "system", "content": RULES}] for _ in range(16)]
    known = [0] * len(chats)
    evaluated = fresh.metric("prompt_tokens_total")
    for turn in range(4):
        for chat in chats:
            chat.append({"role": "user", "content": f"What did {chance.choice(WHO)} do then? {sentences(chance, 5)}"})

        def say(number: int, turn: int = turn) -> tuple[str, int]:
            body = {"messages": chats[number], "max_tokens": 12, "seed": 16 * turn + number}
            answer, total, cached = ask(fresh, "/v1/chat/completions", **body)
            assert cached >= known[number] - SLACK, f"chat {number}, turn {turn}: {cached} of {total}"
            return answer["choices"][0]["message"]["content"], total

        with ThreadPoolExecutor(at_once) as pool:
            for number, (said, total) in enumerate(pool.map(say, range(len(chats)))):
                chats[number].append({"role": "assistant", "content": said})
                known[number] = total
    new = sum(known) - 15 * ask(fresh, "/v1/chat/completions", messages=chats[0][:1], max_tokens=1)[1]
    assert fresh.metric("prompt_tokens_total") - evaluated <= new + 64 * SLACK


def test_six_texts_with_one_beginning_are_all_known_again(fresh: Server) -> None:
    chance = random.Random(2)
    beginning = [chance.randrange(300, 2000) for _ in range(238)]
    texts = [[*beginning, *(chance.randrange(300, 306) for _ in range(312))] for _ in range(6)]
    for tokens in texts:
        ask(fresh, "/v1/srb/completions", prompt=tokens, max_tokens=1)
    for tokens in texts:
        assert ask(fresh, "/v1/srb/completions", prompt=[*tokens, 1234], max_tokens=1)[2] == len(tokens)


def test_stories_of_one_town_are_all_known_again(fresh: Server) -> None:
    town = "Once upon a time there was a town by the sea, and this is its story. " * 6
    stories = [town + sentences(random.Random(seed), 30) for seed in range(12)]
    for story in stories:
        ask(fresh, "/v1/srb/completions", prompt=story, max_tokens=1)
    for story in stories:
        _, total, cached = ask(fresh, "/v1/srb/completions", prompt=story + " Then", max_tokens=1)
        assert cached >= total - SLACK
