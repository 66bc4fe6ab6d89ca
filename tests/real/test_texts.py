"""What real models write greedily: llama.cpp's own texts, and the same texts however much of them was computed before."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import orjson
import pytest

from tests.needs import long
from tests.processes import PYTHON, ROOT
from tests.real.conftest import NARROW, need_model, smoke_with_smollm2
from tests.real.prompts import STORY
from tests.real.record import Record, read
from tests.servers import Server

ROUNDED = 0.002  # beyond which a lead differs from a recorded one: those have three decimals
ALONE = 12  # tokens of each text that is written alone: half of a record
AT_ONCE = 8  # requests: their branches are computed together
TOKENS = 16

pytestmark = pytest.mark.timeout(600)  # seconds of a test, for a machine that does much else


def write(server: Server, prompt: str | Sequence[int], count: int = TOKENS, **fields: Any) -> dict[str, Any]:
    """Return llama-server's answer for a greedy text."""
    body = {"prompt": prompt, "n_predict": count, "temperature": 0, "return_tokens": True, **fields}
    answer = server.post("/completion", body)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def write_cold(server: Server, text: str) -> Record:
    """Return a text that is computed alone and anew, each token with its lead."""
    prompt = server.post("/tokenize", {"content": text, "add_special": True}).json()["tokens"]
    said = write(server, prompt, cache_prompt=False, n_probs=2)
    tops = [each["top_logprobs"] for each in said["completion_probabilities"]]
    leads = [first["logprob"] - second["logprob"] for first, second in tops]
    assert len(said["tokens"]) == len(leads) > 0
    return Record(text, prompt, said["tokens"], leads)


def check(server: Server, texts: Sequence[Record], **fields: Any) -> None:
    """Check that each text's stretches between narrow leads are written after what was recorded before them."""
    stretches = [stretch for each in texts for stretch in each.stretches(NARROW)]
    with ThreadPoolExecutor(AT_ONCE) as writers:
        written = list(writers.map(lambda each: write(server, each[0], len(each[1]), **fields)["tokens"], stretches))
    assert written == [expected for _, expected in stretches]


# llama.cpp's own texts


@pytest.fixture(scope="module")
def is_same_arithmetic(name: str) -> bool:
    """Whether llama_decode alone rounds on this machine as it did on the one where the texts were recorded."""
    need_model(name)
    command = [PYTHON, "-m", "tests.real.record", name, "1"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    found, recorded = Record(**orjson.loads(ran.stdout)), read(name)[0]
    assert found.prompt_tokens == recorded.prompt_tokens
    pairs = zip(found.leads, recorded.leads, strict=False)
    return found.tokens == recorded.tokens and all(abs(one - other) < ROUNDED for one, other in pairs)


def test_the_records_have_long_enough_stretches(name: str) -> None:
    records = read(name)
    assert len(records) == 40
    assert sum(len(stretch) for each in records for _, stretch in each.stretches(NARROW)) > 400


@smoke_with_smollm2
def test_greedy_texts_in_eight_scripts_are_those_of_llama_decode_alone(
    name: str, model: Server, is_same_arithmetic: bool
) -> None:
    records = read(name)
    if not is_same_arithmetic:  # another processor: up to rounding
        check(model, records, cache_prompt=False)
        return
    for record in records:
        said = write(model, record.prompt, ALONE, cache_prompt=False)
        assert said["tokens"] == record.tokens[:ALONE], record.prompt


def test_texts_that_are_written_side_by_side_are_those_of_llama_decode_alone(name: str, model: Server) -> None:
    check(model, read(name))


def test_a_real_vocabulary_lacks_no_quotation_mark(model: Server) -> None:
    assert model.get("/v1/srb/server").json()["lacks"] in ("", "\u00a0")  # Gemma's has no token for such a space


# texts of which something was computed before


def read_story(server: Server, text: str = STORY) -> list[int]:
    """Let the server know a story and a part that it writes itself; return that part."""
    tokens: list[int] = write(server, text)["tokens"]
    return tokens


def recalling(text: str, words: str) -> str:
    """Return a text that ends as it did before some words: the models repeat them, and all else that stands there now."""
    return text + "\n\n" + text[: text.index(words)].rstrip()[-200:].partition(" ")[2]


def text_of(server: Server, tokens: Sequence[int]) -> str:
    return str(server.post("/detokenize", {"tokens": tokens}).json()["content"])


def test_a_text_that_is_gone_on_with_is_as_one_computed_anew(model: Server) -> None:
    longer = STORY + text_of(model, read_story(model)) + "\n\nThe Rabbit"
    cold = write_cold(model, longer)
    said = write(model, longer, 1)
    assert said["timings"]["cache_n"] >= len(cold.prompt_tokens) - TOKENS - 8
    check(model, [cold])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("maps and pictures", "lamps and bottles"),
        *long(("ORANGE MARMALADE", "STRAWBERRY JAM"), ("White Rabbit", "Grey Hare")),
    ],
)
def test_a_text_with_a_word_changed_far_back_is_as_one_computed_anew(model: Server, old: str, new: str) -> None:
    read_story(model)
    edited = recalling(STORY.replace(old, new), new)
    before = STORY.index(old) * len(model.post("/tokenize", {"content": STORY}).json()["tokens"]) // len(STORY)
    cold = write_cold(model, edited)
    assert text_of(model, cold.tokens).removeprefix("<bos>").strip().startswith(new)
    assert write(model, edited, 1)["timings"]["cache_n"] >= 0.8 * before - 8
    check(model, [cold])


@pytest.mark.parametrize("share", [0.6, *long(0.3, 0.9)])
def test_a_text_that_went_back_is_as_one_computed_anew(model: Server, share: float) -> None:
    read_story(model)
    shorter = STORY[: int(len(STORY) * share)].rpartition(" ")[0]
    cold = write_cold(model, shorter)
    assert write(model, shorter, 1)["timings"]["cache_n"] >= 0.8 * len(cold.prompt_tokens)
    check(model, [cold])


def test_a_text_that_was_parked_is_as_one_computed_anew(model: Server) -> None:
    text = recalling(STORY, "maps and pictures")
    read_story(model, text)
    for number in range(3):  # each is the newest text for a while, and the story's cells are given to others
        read_story(model, f"{number}. {STORY[::-1][:400]}")
    cold = write_cold(model, text)
    restored = model.metric("tokens_restored_total")
    assert write(model, text, 1)["timings"]["cache_n"] >= len(cold.prompt_tokens) - 1
    assert model.metric("tokens_restored_total") - restored >= len(cold.prompt_tokens) // 2
    check(model, [cold])


def test_eight_branches_of_a_text_are_each_as_one_computed_anew(model: Server) -> None:
    cold = write_cold(model, recalling(STORY, "maps and pictures"))
    for prompt, stretch in cold.stretches(NARROW):
        body = {"prompt": prompt, "n": 8, "max_tokens": len(stretch), "temperature": 0, "return_tokens": True}
        said = model.post("/v1/srb/completions", {**body, "stream": False}).json()
        assert [each["tokens"] for each in said["completions"]] == [stretch] * 8
