"""A seed gives a branch again, whatever was computed beside it: with kernels that round a token alike in every batch."""

from __future__ import annotations

import os
import random
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import requests

from srb.config.settings import Settings
from srb.engine.llama.model import LlamaModel
from srb.engine.model import Batch, DecodeStatus
from tests.contract.rounding import needs_own_products
from tests.needs import long
from tests.processes import wait_for
from tests.real.conftest import SETTINGS, need_model, smoke_with_smollm2
from tests.real.prompts import PROMPTS, STORY
from tests.servers import Server

TOKENS = 24
BEGINNINGS = [STORY, *(written for script in ("Latin", "Cyrillic") for written in PROMPTS[script])][:6]

pytestmark = [pytest.mark.timeout(600), needs_own_products]


def decode(model: LlamaModel, tokens: list[tuple[int, int, int]]) -> list[np.ndarray[Any, Any]]:
    """Compute tokens, each with its sequence and position, in one batch; return the logits after each, shape (n_vocab,)."""
    batch = Batch()
    rows = [batch.add(seq_id, position, [token], want_logits=True) for seq_id, position, token in tokens]
    assert model.decode(batch) is DecodeStatus.OK
    return [model.logits(row).copy() for row in rows]


@pytest.mark.parametrize("length", [40, *long(0, 200)], ids=lambda length: f"beside 7 texts of {length} tokens")
def test_a_token_is_the_same_to_the_last_bit_in_every_batch_and_place(name: str, length: int) -> None:
    path = str(need_model(name))
    pick = np.random.default_rng(length)
    text, *others = pick.integers(100, 40_000, (8, length + 90)).tolist()
    model = LlamaModel.load(Settings(model=path, n_ctx=4096, n_batch=256, n_seq_max=64, threads=1, n_gpu_layers=0))
    try:
        alone = decode(model, [(0, place, token) for place, token in enumerate(text[:30])])
        for place in range(30, 90):
            alone += decode(model, [(0, place, text[place])])
        model.clear()
        for seq_id, other in enumerate(others, 1):
            for start in range(0, length, 40):
                decode(model, [(seq_id, start + i, token) for i, token in enumerate(other[start : start + 40])])
        found: list[np.ndarray[Any, Any]] = []
        end = length  # of each other text
        while len(found) < 90:
            start, count = len(found), int(pick.integers(1, 9)) if found else 30
            batch = [(0, start + i, token) for i, token in enumerate(text[start : min(start + count, 90)])]
            own = len(batch)
            if length and pick.integers(2):
                batch += [(seq_id, end, other[end]) for seq_id, other in enumerate(others, 1)]
                end += 1
            found += decode(model, batch)[:own]
        np.testing.assert_array_equal(np.stack(found), np.stack(alone))
    finally:
        model.close()


@pytest.mark.parametrize("at", [60, *long(1, 200)])
def test_a_restored_text_goes_on_to_the_last_bit_as_if_it_had_stayed(name: str, at: int) -> None:
    """There are free cells before the text's beginning, which its restored end must not get."""
    path = str(need_model(name))
    text, other = np.random.default_rng(at).integers(100, 40_000, (2, 300)).tolist()
    model = LlamaModel.load(Settings(model=path, n_ctx=2048, n_batch=512, n_seq_max=4, threads=1, n_gpu_layers=0))
    try:
        for seq_id, tokens in ((1, other), (0, text[:280])):
            batch = Batch()
            batch.add(seq_id, 0, tokens, want_logits=True)
            assert model.decode(batch) is DecodeStatus.OK
        model.fork(0, 2, at)
        saved = model.save(0, at)
        stayed = [decode(model, [(0, place, text[place])])[0] for place in range(280, 300)]
        model.remove(0)
        model.remove(1)
        assert model.restore(2, saved)
        again = [decode(model, [(2, place, text[place])])[0] for place in range(280, 300)]
        np.testing.assert_array_equal(np.stack(again), np.stack(stayed))
    finally:
        model.close()


def texts(server: Server, prompt: str, n: int, seed: int, **fields: object) -> list[str]:
    body = {"prompt": prompt, "n": n, "seed": seed, "max_tokens": TOKENS, "stream": False, **fields}
    answer = requests.post(f"{server.url}/v1/srb/completions", json=body, timeout=500)  # long on a busy machine
    assert answer.status_code == 200, answer.text
    return [each["text"] for each in answer.json()["completions"]]


@smoke_with_smollm2
@pytest.mark.parametrize("prompt", [PROMPTS["Latin"][0], *long(STORY)], ids=["short", "long"])
def test_a_branch_of_eight_is_written_again_alone(model: Server, prompt: str) -> None:
    """The eight are written beside another person's, and what is known is parked and restored in between."""
    with ThreadPoolExecutor(1) as pool:
        beside = pool.submit(texts, model, "Another text of other people, who", 3, 7)
        together = texts(model, prompt, 8, 100)
        beside.result()
    alone = [texts(model, prompt, 1, 100 + index)[0] for index in range(8)]
    assert alone == together
    assert texts(model, prompt, 1, 107, cache_prompt=False) == together[7:], "computed anew"


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_each_of_48_branches_is_written_again_from_cold_warm_parked_stored_and_restored_texts(
    name: str, tmp_path: Path
) -> None:
    """Six times n = 8 beside another request; then one by one, and in any order beside each other. 64 tokens each."""
    states = {"model": need_model(name), "state_dir": tmp_path / "states", "n_ctx": 16_384, "threads": 1, "stories": ""}
    states |= {"cache_disk": tmp_path / "texts", "cache_disk_mib": 2000}

    def eight(server: Server, at: int) -> list[str]:
        return texts(server, BEGINNINGS[at], 8, 100 * at, max_tokens=64, state=f"beginning-{at}")

    def again(server: Server, at: int, index: int, **fields: object) -> str:
        return texts(server, BEGINNINGS[at], 1, 100 * at + index, max_tokens=64, **fields)[0]

    branches = [(at, index) for at in range(len(BEGINNINGS)) for index in range(8)]
    with Server(tmp_path, **states) as server, ThreadPoolExecutor(6) as pool:  # idle texts are parked at once
        server.start()
        beside = pool.submit(texts, server, "Another text of other people, who", 3, 7, max_tokens=200)
        written = dict(enumerate(pool.map(lambda at: eight(server, at), range(len(BEGINNINGS)))))
        beside.result()
        wanted = {branch: written[branch[0]][branch[1]] for branch in branches}
        assert {branch: again(server, *branch, cache_prompt=False) for branch in branches} == wanted, "cold"
        shuffled = random.Random(1).sample(branches, len(branches))
        parked = dict(zip(shuffled, pool.map(lambda branch: again(server, *branch), shuffled), strict=True))
        assert parked == wanted, "parked"
        wait_for(lambda: server.metric("stored_texts") >= len(branches), "the branches are on the disk")
        before = server.engine
        os.kill(before, signal.SIGKILL)
        wait_for(lambda: server.engine not in (0, before), "another engine starts")
        server.wait_ready()
        assert {branch: again(server, *branch) for branch in branches} == wanted, "from the disk"
        assert server.metric("stored_hits_total") >= len(BEGINNINGS)
        server.stop()
        server.start()
        restored = {branch: again(server, *branch, state=f"beginning-{branch[0]}") for branch in branches}
        assert restored == wanted, "restored"
    (tmp_path / "warm").mkdir()
    with Server(tmp_path / "warm", **SETTINGS | {"model": need_model(name), "cache_cells": 4096}) as server:
        server.start()
        for at in range(len(BEGINNINGS)):
            assert eight(server, at) == written[at]
        assert {branch: again(server, *branch) for branch in branches} == wanted, "warm"


def test_a_greedy_chat_is_the_same_whatever_came_between(model: Server) -> None:
    def answer(text: str) -> str:
        messages = [{"role": "system", "content": "You answer briefly."}, {"role": "user", "content": text}]
        body = {"messages": messages, "temperature": 0, "max_tokens": TOKENS}
        said = model.post("/v1/chat/completions", body)
        assert said.status_code == 200, said.text
        return str(said.json()["choices"][0]["message"]["content"])

    questions = ["Tell me about the sea.", "Why is the sky blue?", "Write a poem about rain."]
    first = [answer(question) for question in questions]
    for question in questions:
        answer(f"Another question: {question[::-1]}")
    assert [answer(question) for question in questions] == first
