"""Cost of the fields that steer branches: each against the same request without it, in turns on one server.

`python -m bench.steering` prints, for the bundled model and a random-weight 110M model, the ratio of the rates of new
tokens, and for the fake model the time until a reader that joins a request of 64 branches has all their text.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from bench.__main__ import RANDOM_MODEL, server
from bench.client import post
from bench.scenarios import REST_SECONDS, Target, ask
from srb.gguf import FAKE_MODEL
from srb.settings import Settings
from tools.random_gguf import BENCH_110M, write_llama

N, TOKENS = 8, 256
PROMPT = [1] + [400 + (i * 7919) % 3000 for i in range(40)]
LADDER = [{"temperature": 0.5 + 0.1 * i} for i in range(N)]
# Each with the fields of a plain request that it is compared with: eight settings cost more than one in llama.cpp as well.
FIELDS: dict[str, dict[str, Any]] = {
    "branches, eight settings": {"branches": LADDER},
    "distinct_first": {"distinct_first": True},
    "distinct_words": {"distinct_words": True},
    "sibling_penalty": {"sibling_penalty": 1.0},
    "stop_at sentence": {"stop_at": "sentence", "stop_after": 1000},
    "16 banned_strings": {"banned_strings": [f"never{i} written" for i in range(16)]},
    "rank": {"rank": True},
    "linger": {"linger": 0.01},
}


def ratios(url: str, options: dict[str, Any], rounds: int) -> list[float]:
    """Return for each round the rate of new tokens with the fields, divided by the rate without."""
    target, found = Target.srb(url), []
    for turn in range(rounds + 1):
        pair = [{}, options] if turn % 2 else [options, {}]
        seconds = {}
        for given in pair:
            time.sleep(REST_SECONDS)
            answer = ask(target, PROMPT, N, TOKENS, **given)
            seconds[bool(given)] = answer.total - answer.first_token
        found.append(seconds[False] / seconds[True])
    return found[1:]  # the first warms up


def join(url: str, n: int, tokens: int) -> tuple[float, int]:
    """Write a request of `n` branches that lingers; return the seconds until a reader has joined it, and its bytes."""
    body = {"prompt": "the old king", "n": n, "max_tokens": tokens, "ignore_eos": True, "linger": 30, "stream": False}
    with post(url, "/v1/srb/completions", orjson.dumps(body)) as sock:
        answer = b"".join(iter(lambda: sock.recv(65536), b""))
    request_id = orjson.loads(answer[answer.index(b"{") : answer.rindex(b"}") + 1])["id"]
    began = time.perf_counter()
    with post(url, f"/v1/srb/completions/{request_id}/events", b"", method="GET") as sock:
        received = bytearray()
        while b"\n\n" not in received.partition(b"data: ")[2]:
            received += sock.recv(65536)
    return time.perf_counter() - began, len(received)


def _models() -> Iterator[Path]:
    yield Settings().model_path
    if not RANDOM_MODEL.exists():
        RANDOM_MODEL.parent.mkdir(parents=True, exist_ok=True)
        write_llama(RANDOM_MODEL, BENCH_110M)
    yield RANDOM_MODEL


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.steering", description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    for model in _models():
        print(f"\n{model}, n = {N}: rate with the field / without, median of {rounds} rounds\n", flush=True)
        with server({**os.environ, "SRB_MODEL": str(model.absolute()), "SRB_N_CTX": "16384"}) as url:
            for name, options in FIELDS.items():
                found = ratios(url, options, rounds)
                print(
                    f"{name:<26} {statistics.median(found):6.3f}   ({min(found):.3f} to {max(found):.3f})", flush=True
                )
    with server({**os.environ, "SRB_MODEL": FAKE_MODEL, "SRB_N_CTX": "200000"}) as url:
        seconds, size = join(url, 64, 2000)
        print(f"\na reader joins 64 branches of 2,000 tokens: {seconds * 1000:.1f} ms for {size} bytes")


if __name__ == "__main__":
    main()
