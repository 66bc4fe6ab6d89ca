"""Scenarios of writers and their programs, timed on SRB and, for comparison, on a peer.

A peer is a llama-server: it takes the same body at /completion, and its stream is read in the same way.
"""

from __future__ import annotations

import itertools
import random
import re
import statistics
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import orjson

from srb.bench.client import post

REST_SECONDS = 0.3  # pause in which the other side's idle threads stop spinning
FIRST_WORD, N_WORDS = 400, 20000  # range of token ids that are normal tokens in every larger vocabulary
_TOKENS = re.compile(rb'"index":\s*(\d+),\s*"(?:content|text)":\s*"(?:[^"\\]|\\.)*",\s*"tokens":\s*\[([\d,\s]*)\]')


@dataclass(frozen=True)
class Target:
    """A server: its URL, and the path of its completions."""

    name: str
    url: str
    path: str

    @classmethod
    def srb(cls, url: str) -> Target:
        return cls("srb", url, "/v1/srb/completions")

    @classmethod
    def peer(cls, url: str) -> Target:
        return cls("peer", url, "/completion")


@dataclass(frozen=True)
class Answer:
    """One streamed answer: seconds to its first token and to its end, and each branch's tokens if asked for."""

    first_token: float
    total: float
    tokens: dict[int, list[int]]


def ask(target: Target, prompt: list[int], n: int, tokens: int, *, key: str = "", **options: Any) -> Answer:
    """Stream one completion."""
    body = {"prompt": prompt, "n_predict": tokens, "seed": 1, "ignore_eos": True, "stream": True, "cache_prompt": True}
    if n > 1 or target.name == "srb":
        body["n_cmpl"] = n
    data = orjson.dumps(body | options)
    began = time.perf_counter()
    received, first = bytearray(), 0.0
    with post(target.url, target.path, data, key=key) as sock:
        while chunk := sock.recv(65536):
            received += chunk
            if not first and (b'"stream","index"' in received or b'"content":' in received):
                first = time.perf_counter()
            if chunk.endswith(b"0\r\n\r\n"):
                break
    ended = time.perf_counter()
    if b" 200 " not in received[:20] or not first:
        raise RuntimeError(f"{target.name} answered {bytes(received[:300])!r}")
    found: dict[int, list[int]] = {}
    for index, ids in _TOKENS.findall(bytes(received)):
        found.setdefault(int(index), []).extend(int(token) for token in ids.split(b",") if token.strip())
    return Answer(first - began, ended - began, found)


def _words(seed: int, count: int) -> list[int]:
    pick = random.Random(seed)
    return [1] + [FIRST_WORD + pick.randrange(N_WORDS) for _ in range(count - 1)]


def _at_once(jobs: list[Callable[[], Answer]]) -> float:
    """Run all jobs at once, in threads; return the seconds until the last one ends."""
    began = time.perf_counter()
    with ThreadPoolExecutor(len(jobs)) as pool:
        for future in [pool.submit(job) for job in jobs]:
            future.result()
    return time.perf_counter() - began


def one_request(n: int) -> Callable[[Target, int], float]:
    """Time a prompt of 512 tokens with n branches of 64 tokens: seconds to the end."""
    return lambda target, seed: ask(target, _words(seed, 512), n, 64).total


def common_beginning(target: Target, seed: int) -> float:
    """Time 8 requests at once, with 1,024 common and 32 own tokens and 4 branches of 32 tokens: seconds to the last end."""
    beginning = _words(seed, 1024)
    tails = [_words(seed * 100 + i, 33)[1:] for i in range(8)]
    return _at_once([lambda tail=tail: ask(target, beginning + tail, 4, 32) for tail in tails])  # type: ignore[misc]


def identical(target: Target, seed: int) -> float:
    """Time 8 identical requests at once, of 1,024 tokens and one branch of 32 tokens: seconds to the last end."""
    prompt = _words(seed, 1024)
    return _at_once([lambda: ask(target, prompt, 1, 32)] * 8)


def independent(target: Target, seed: int) -> float:
    """Time 24 independent requests at once, of 128 tokens and one branch of 48 tokens: seconds to the last end."""
    prompts = [_words(seed * 100 + i, 128) for i in range(24)]
    return _at_once([lambda prompt=prompt: ask(target, prompt, 1, 48) for prompt in prompts])  # type: ignore[misc]


def _evening(target: Target, seed: int) -> tuple[list[float], list[float]]:
    """Return the first-token times of five turns that continue, and of turns that go back two to four turns."""
    pick = random.Random(seed)
    story = _words(seed, 512)
    turns: list[list[list[int]]] = []  # each turn's story with each of its branches
    on, back, chosen = [], [], []
    for _turn in range(5):
        answer = ask(target, story, 8, 32, return_tokens=True)
        on.append(answer.first_token)
        turns.append([story + answer.tokens[index] for index in range(8)])
        story = pick.choice(turns[-1])
        chosen.append(story)
    for turns_ago in (2, 3, 4):
        others = [text for text in turns[-turns_ago] if text not in chosen]
        back.append(ask(target, pick.choice(others), 8, 32).first_token)
    return on[1:], back


def going_on(target: Target, seed: int) -> float:
    """Time a writer's five turns, each with 8 branches, of which one is continued: seconds to the first token."""
    return statistics.median(_evening(target, seed)[0])


def going_back(target: Target, seed: int) -> float:
    """Time a return to a branch of two to four turns ago that was not continued: seconds to the first token."""
    return statistics.median(_evening(target, seed)[1])


@dataclass(frozen=True)
class Scenario:
    name: str
    run: Callable[[Target, int], float]  # seconds


SCENARIOS = [
    Scenario("one request, n = 8", one_request(8)),
    Scenario("one request, n = 32", one_request(32)),
    Scenario("8 requests, common beginning", common_beginning),
    Scenario("8 identical requests", identical),
    Scenario("24 independent requests", independent),
    Scenario("going on: first token", going_on),
    Scenario("going back: first token", going_back),
]


def one_requests(ns: Iterable[int]) -> list[Scenario]:
    """Return the scenarios of one request with each of these numbers of branches."""
    return [Scenario(f"one request, n = {n}", one_request(n)) for n in ns]


def compare(targets: list[Target], rounds: int, scenarios: Iterable[Scenario] = SCENARIOS) -> list[dict[str, Any]]:
    """Run every scenario on all targets in turns; return one row per scenario, with medians in milliseconds and the ratio.

    Prompts are the same for all targets, and new: no target can have them in its cache.
    """
    rows = []
    fresh = itertools.count(time.time_ns() // 10**6 % 10**9)
    for scenario in scenarios:
        times: dict[str, list[float]] = {target.name: [] for target in targets}
        for _turn in range(rounds):
            seed = next(fresh)
            for target in targets:
                time.sleep(REST_SECONDS)
                times[target.name].append(scenario.run(target, seed))
        row: dict[str, Any] = {"scenario": scenario.name}
        row |= {f"{name}_ms": statistics.median(values) * 1000 for name, values in times.items()}
        if "peer" in times:
            row["ratio"] = statistics.median(a / b for a, b in zip(times["srb"], times["peer"], strict=True))
        rows.append(row)
        print(_line(row), flush=True)
    return rows


def _line(row: dict[str, Any]) -> str:
    peer = f"{row['peer_ms']:>10.0f} {row['ratio']:>7.2f}" if "ratio" in row else ""
    return f"{row['scenario']:<32} {row['srb_ms']:>9.0f} {peer}"


HEAD = f"{'scenario':<32} {'srb ms':>9} {'peer ms':>10} {'ratio':>7}"
