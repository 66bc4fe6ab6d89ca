"""The probability of each token of a known text, and how open its place was, as far as somebody asks for them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from srb.config.settings import Settings
from srb.engine.probs import entropy, logprobs_of
from srb.web.answers import ErrorAnswer
from srb.web.app import create_app
from srb.web.dialects.srb.answers import SRBSurprise
from srb.web.dialects.srb.surprise import _places
from srb.wire.commands import Generate
from srb.wire.events import Event, PromptDone, PromptLogprobs, TokenProbs
from tests.engine_helpers import Driver, Outcome
from tests.scripted import Script, ScriptedClient, count_to_three
from tests.shapes import read

HEAD = "the old king said "
TAIL = "then the fox ran over the river"


def ask(driver: Driver, text: str, start: int) -> str:
    request_id = driver.submit(text, max_tokens=0, prompt_logprobs=True, surprise_from=start)
    driver.run()
    return request_id


def entries(outcome: Outcome) -> list[TokenProbs]:
    return [prob for event in outcome.events if isinstance(event, PromptLogprobs) for prob in event.probs]


def cached(outcome: Outcome) -> tuple[int, int]:
    [done] = [event for event in outcome.events if isinstance(event, PromptDone)]
    return done.cached_tokens, done.computed_tokens


def test_entropy_is_that_of_the_distribution() -> None:
    logits = np.array([0.0, math.log(2.0), -np.inf, math.log(4.0)], dtype=np.float32)
    probs = np.array([1, 2, 4]) / 7
    assert entropy(logprobs_of(logits)) == pytest.approx(-(probs * np.log(probs)).sum(), rel=1e-6)
    assert entropy(logprobs_of(np.full(64, -3.0, dtype=np.float32))) == pytest.approx(math.log(64))
    assert entropy(logprobs_of(np.array([9.0] + [-np.inf] * 9, dtype=np.float32))) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("known", ["", HEAD, HEAD + TAIL], ids=["nothing", "the head", "all"])
def test_the_end_of_a_text_has_the_probabilities_of_the_whole_and_the_rest_is_not_read_again(known: str) -> None:
    whole = Driver()
    expected = entries(whole.result(ask(whole, HEAD + TAIL, 0)))
    driver = Driver()
    if known:
        driver.submit(known, max_tokens=3)
        driver.run()
    outcome = driver.result(ask(driver, HEAD + TAIL, len(HEAD)))
    found = entries(outcome)
    num_before = len(expected) - len(found)
    tokens = driver.model.tokenize(HEAD + TAIL, True, True)
    assert 0 < num_before <= len(driver.model.tokenize(HEAD, True, True))
    assert found == expected[num_before:]
    assert [each["id"] for each in found] == list(tokens[num_before:])
    assert cached(outcome)[1] <= (len(found) + 2 if known else len(tokens))


# ---- the route


def engine(command: Generate) -> Iterable[list[Event]]:
    """A script that lets an engine of its own answer."""
    driver = Driver()
    driver.take(driver.engine.submit(driver.engine.prepare(command)))
    driver.run()
    yield driver.result(command.request_id).events


def asking(script: Script = engine, **body: Any) -> tuple[int, Any]:
    settings = Settings(max_n=4, n=4)
    client = create_app(settings, ScriptedClient(settings, script)).test_client()
    answer = client.post("/v1/srb/surprise", json=body)
    if answer.status_code == 200:
        read(SRBSurprise, answer.data)
    return answer.status_code, answer.json


def test_texts_behind_one_prompt_are_described_token_by_token() -> None:
    texts = ["then the fox", "garden, house.", ""]
    code, said = asking(prompt=HEAD, texts=texts, top_logprobs=2)
    assert code == 200
    for text, described in zip(texts, said["texts"], strict=True):
        tokens = described["tokens"]
        assert described["logprob"] == pytest.approx(math.fsum(each["logprob"] for each in tokens))
        assert "".join(each["token"] for each in tokens).endswith(text)
        assert all(len(each["top_logprobs"]) == 2 and each["entropy"] > 0 for each in tokens)
        for each in tokens:
            assert (HEAD + text)[len(HEAD) + each["start"] :].startswith(each["token"])
    assert said["usage"]["completion_tokens"] == 0


@pytest.mark.parametrize(("field", "value", "words"), [
    ("texts", [], "at least 1"), ("texts", ["a"] * 5, "at most 4"), ("texts", "a", "list"), ("texts", [1], "string"),
    ("prompt", ["a"], "string"), ("top_logprobs", 21, "20"), ("top_logprobs", -1, "0"),
])  # fmt: skip
def test_a_bad_field_is_named(field: str, value: Any, words: str) -> None:
    code, said = asking(**{"prompt": "a", "texts": ["b"], field: value})
    assert (code, said["error"]["param"].partition(".")[0]) == (400, field)
    assert words in said["error"]["message"]


@pytest.mark.parametrize(("prompt", "text", "pieces", "expected"), [
    ("", "the fox", [b" the", b" fox"], [0, 3]),  # a space that the tokenizer has added
    ("", "the fox", [b"", b"the", b" fox"], [0, 0, 3]),  # BOS
    ("so th", "e fox", [b" the", b" fox"], [-3, 1]),  # the first token begins in the prompt's last word
    ("☃ ", "für ☃!", [b"f", b"\xc3", b"\xbcr", b" \xe2\x98", b"\x83", b"!"], [0, 1, 1, 3, 4, 5]),
    ("a", "<|end|>b", [b"", b"b"], [0, 7]),  # a control token has no piece
    ("a", "b c", [b"b", b"c"], [0, 2]),  # the tokenizer loses the space
    ("a", "b", [b"?", b"b"], [-1, 0]),  # … and says what is not there
    ("a", "", [], []),
])  # fmt: skip
def test_each_token_has_its_place_in_the_text(prompt: str, text: str, pieces: list[bytes], expected: list[int]) -> None:
    assert _places(prompt, text, pieces) == expected


@given(st.text(max_size=12), st.text(min_size=1, max_size=12), st.data())
def test_the_places_of_pieces_are_those_of_their_first_bytes(prompt: str, text: str, data: st.DataObject) -> None:
    whole, before = (prompt + text).encode(), len(prompt.encode())
    cuts = [before, *sorted(data.draw(st.sets(st.integers(before + 1, len(whole))))), len(whole)]
    pieces = [whole[low:high] for low, high in itertools.pairwise(cuts)]
    first = data.draw(st.integers(0, min(3, before)))
    ends = list(itertools.accumulate(len(character.encode()) for character in prompt + text))
    if first:  # the first token begins so many bytes before the text, and ends with it
        pieces = [whole[before - first : before], *pieces]
        cuts = [before - first, *cuts]
    expected = [sum(end <= low for end in ends) - len(prompt) for low in cuts[: len(pieces)]]
    assert _places(prompt, text, pieces) == expected


def test_an_answer_that_would_be_too_large_is_refused_by_the_texts_and_not_by_the_prompt() -> None:
    settings = Settings(max_body_bytes=100_000)
    client = create_app(settings, ScriptedClient(settings, count_to_three)).test_client()
    body = {"prompt": "a" * 90_000, "texts": ["b"] * 2, "top_logprobs": 20}
    assert client.post("/v1/srb/surprise", json=body).status_code == 200
    said = client.post("/v1/srb/surprise", json={"texts": ["b" * 800] * 60, "top_logprobs": 20})
    assert (said.status_code, read(ErrorAnswer, said.data)["error"]["param"]) == (400, "texts")
