"""Prompts that end with a space, within a word or within a character: texts go on as if they had not been cut there."""

from __future__ import annotations

from typing import Any

import pytest
import requests

from tests.processes import wait_for
from tests.real.conftest import NARROW, smoke_with_smollm2
from tests.servers import Server

pytestmark = pytest.mark.timeout(600)  # seconds of a test, for a machine that does much else

OPEN = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0}  # all that the model may write
CUT = "The old man sat by the firepl"
SURE = [
    "Ladies and",
    "The sun rises in the east and sets in the",
    "The capital of France is Paris. The capital of Italy is",
    "He was the President of the United",
]


def write(server: Server, prompt: str | list[str | int], **fields: Any) -> list[dict[str, Any]]:
    """Return the branches of an answer of the srb dialect, which heals by default."""
    body = {"prompt": prompt, "n": 1, "max_tokens": 6, "seed": 7, "return_tokens": True, "stream": False, **fields}
    answer = server.post("/v1/srb/completions", body)
    assert answer.status_code == 200, answer.text
    branches: list[dict[str, Any]] = answer.json()["completions"]
    return branches


def tokens_of(server: Server, text: str) -> list[int]:
    tokens: list[int] = server.post("/tokenize", {"content": text, "add_special": True}).json()["tokens"]
    return tokens


def text_of(server: Server, tokens: list[int]) -> str:
    return str(server.post("/detokenize", {"tokens": tokens}).json()["content"])


# what is written


def before_narrow(branch: dict[str, Any]) -> list[int]:
    """Return a greedy branch's tokens up to the first that rounding may change."""
    tops = [each["top_logprobs"] for each in branch["logprobs"]]
    narrow = [place for place, (first, second) in enumerate(tops) if first["logprob"] - second["logprob"] < NARROW]
    tokens: list[int] = branch["tokens"]
    return tokens[: min(narrow, default=len(tops))]


@smoke_with_smollm2
def test_after_a_space_the_same_words_come_as_without_it(model: Server) -> None:
    compared = 0
    for prompt in SURE:
        [cold] = write(model, prompt, temperature=0, logprobs=2, token_healing=False)
        [healed] = write(model, prompt + " ", temperature=0)
        sure = before_narrow(cold)
        assert healed["tokens"][: len(sure)] == sure
        assert healed["text"].startswith(text_of(model, sure).removeprefix("<bos>").strip())
        compared += len(sure)
    assert compared >= 6


@smoke_with_smollm2
def test_after_a_paragraph_words_come_and_no_numbers(model: Server) -> None:
    """SmolLM2 has read two line breaks as one token before figures alone."""
    prompt = "Mara walked down to the ferry. Nobody was there.\n\nTom was late again.\n\n"
    branches = write(model, prompt, n=24, max_tokens=2, **OPEN)
    assert sum(each["text"].strip()[:1].isdigit() for each in branches) <= 3


@pytest.mark.parametrize(
    ("prompt", "ends"),
    [
        (CUT, ("ace",)),
        ("She looked out of the win", ("dow",)),
        ("In the sky he saw a beaut", ("iful", "y", "eous", "ies")),
        ("He opened the umbr", ("ella",)),  # of which " um" alone is unlikely, and much may follow it
    ],
)
def test_a_word_that_was_cut_is_completed(model: Server, prompt: str, ends: tuple[str, ...]) -> None:
    said, plain = (write(model, prompt, n=12, max_tokens=2, token_healing=healed, **OPEN) for healed in (True, False))
    completed, by_chance = (sum(each["text"].startswith(ends) for each in branches) for branches in (said, plain))
    assert completed >= 10
    assert prompt != CUT or by_chance < 10


@pytest.mark.parametrize(
    "prompt",
    [
        CUT,
        "The old man ",
        "I love you 😀",
        "Egypt 𓀀",
        "The family 👨‍👩‍👧",
        "我今天很高兴，因为我去了图书",
        "むかしむかし、ある",
        "привет, как де",
        "नमस्ते दुनि",
        "“Who",
    ],
)
def test_what_is_sent_begins_exactly_behind_the_prompt(model: Server, prompt: str) -> None:
    """Also where the last character is several tokens: a beginning of its bytes may be kept, and the others written anew."""
    tokens = tokens_of(model, prompt)
    for each in write(model, prompt, n=4, max_tokens=4, **OPEN):
        whole = (prompt + each["text"]).rstrip("\ufffd")
        kept = [tokens[: len(tokens) - count] for count in range(min(9, len(tokens)))]
        assert [
            text
            for head in kept
            if (text := text_of(model, head + each["tokens"])).removeprefix("<bos>").startswith(whole)
        ], each["text"]
        assert not each["text"].startswith("\ufffd")


# with everything else


def test_first_tokens_of_a_healed_prompt_are_distinct(model: Server) -> None:
    firsts = [[each["tokens"][0] for each in write(model, "The old man ", n=8, distinct_first=True)] for _ in range(2)]
    assert len(set(firsts[0])) == 8
    assert firsts[1] == firsts[0]


def test_stop_and_banned_strings_see_the_healed_word(model: Server) -> None:
    [stopped] = write(model, CUT, temperature=0, stop=["ace"])
    assert (stopped["text"], stopped["reason"], stopped["stopping_word"]) == ("", "word", "ace")
    for banned in ("ACE", "fireplace"):
        said = write(model, CUT, n=8, banned_strings=[banned], **OPEN)
        assert not [each["text"] for each in said if each["text"].startswith("ace")]


def test_probabilities_and_offsets_are_those_of_the_text_behind_the_prompt(model: Server) -> None:
    body = {"model": "any", "prompt": CUT, "temperature": 0, "max_tokens": 4, "logprobs": 1, "token_healing": True}
    [choice] = model.post("/v1/completions", body).json()["choices"]
    logprobs = choice["logprobs"]
    assert logprobs["tokens"][0] == "ace"
    assert "".join(logprobs["tokens"]) == choice["text"]
    places = [sum(map(len, logprobs["tokens"][:place])) for place in range(4)]
    assert logprobs["text_offset"] == places
    assert -1.0 < logprobs["token_logprobs"][0] <= 0.0
    del body["logprobs"]
    [echoed] = model.post("/v1/completions", body | {"echo": True}).json()["choices"]
    assert echoed["text"] == CUT + choice["text"]


def test_the_append_of_a_branch_and_of_a_fork_is_healed(model: Server) -> None:
    entry = {"append": " He looked at the firepl"}
    body = {"prompt": "The old man sat down.", "branches": [entry], "max_tokens": 4, "temperature": 0, "linger": 600}
    answer = model.post("/v1/srb/completions", body | {"stream": False}).json()
    request, text = f"/v1/srb/completions/{answer['id']}", answer["completions"][0]["text"]
    assert text.startswith("ace")
    fork = {"from": {"branch": 0}, "append": " She looked out of the win"}
    assert model.post(f"{request}/branches", fork).json()["indices"] == [1]
    wait_for(lambda: model.get(request).json()["state"] == "resting", "the fork has ended")
    assert model.get(request).json()["branches"][1]["text"].startswith(f"{text} She looked out of the window")
    requests.delete(model.url + request, timeout=60)


@pytest.mark.parametrize("prompt", [CUT, "The old man sat by the ", "我今天很高兴，因为我去了图书"])
def test_without_healing_nothing_changes_by_a_token(model: Server, prompt: str) -> None:
    """As from the prompt's ids, which are never healed, and as in a dialect whose servers do not heal."""
    [ids] = write(model, [*tokens_of(model, prompt)], temperature=0, logprobs=2)
    [plain] = write(model, prompt, temperature=0, token_healing=False)
    body = {"prompt": prompt, "n_predict": 6, "temperature": 0, "return_tokens": True}
    elsewhere = model.post("/completion", body).json()
    sure = before_narrow(ids)
    assert plain["tokens"][: len(sure)] == elsewhere["tokens"][: len(sure)] == sure


def test_a_known_prompt_that_is_healed_computes_no_token_of_it_again(model: Server) -> None:
    for prompt in (CUT, "The old man sat by the "):
        write(model, prompt, n=4, max_tokens=1)
        before = model.metric("prompt_tokens_total")
        write(model, prompt, n=4, max_tokens=1)
        assert model.metric("prompt_tokens_total") == before
        again = {"prompt": prompt, "n_predict": 1, "token_healing": True}
        timings = model.post("/completion", again).json()["timings"]
        assert timings["prompt_n"] <= 1  # a branch that draws the prompt's own end computes its last token
