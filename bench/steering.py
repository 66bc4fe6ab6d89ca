"""Cost of the fields that steer branches: each against the same request without it, in turns on one server.

`python -m bench.steering` prints, for the bundled model and a random-weight 110M model, the ratio of the rates of new
tokens, and for the fake model the time until a reader that joins a request of 64 branches has all their text, and how many
steps a branch waits for its next token while siblings are stopped and added. With `--peer URL`, a llama-server that runs
`--model`, it instead times `explore` to 64 leaves beside that server (see `exploring`).
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

from bench.__main__ import random_model
from bench.exploring import PROMPT, Bare, compare
from bench.scenarios import REST_SECONDS, Target, ask
from srb.bench.client import post
from srb.bench.server import server
from srb.config.sampling_params import SamplingParams
from srb.config.settings import Settings
from srb.engine.engine import Engine, EngineOptions
from srb.engine.fake import FakeModel
from srb.files.gguf import FAKE_MODEL
from srb.wire.commands import AddBranches, BranchSpec, Generate, StopBranches
from tools.real_models import model_option

N, TOKENS = 8, 256
LADDER = [{"temperature": 0.5 + 0.1 * i} for i in range(N)]
# Each with the fields of a plain request that it is compared with: eight settings cost more than one in llama.cpp as well.
FIELDS: dict[str, dict[str, Any]] = {
    "branches, eight settings": {"branches": LADDER},
    "distinct_first": {"distinct_first": True},
    "distinct_words": {"distinct_words": True},
    "sibling_penalty": {"sibling_penalty": 1.0},
    "stop_at sentence": {"stop_at": "sentence", "stop_after": 1000},
    "16 banned_strings": {"banned_strings": [f"never{i} written" for i in range(16)]},
    "500 banned_patterns": {"banned_patterns": [rf"\b(?:never|not) written{i}\b" for i in range(500)]},
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


def longest_wait(n: int, controls: int) -> int:
    """Return the most steps that a branch takes for a token while siblings are stopped and added in turns; 1: no delay.

    Counted on the fake model, with a long beginning (`append`) for every other branch that is added.
    """
    clock = iter(range(10**9))
    engine = Engine(
        FakeModel(n_ctx=50_000, n_seq_max=3 * n, n_batch=512),
        EngineOptions(max_queue=9),
        clock=lambda: next(clock) / 1e3,
    )
    specs = tuple(BranchSpec(seed, -1, sampling=SamplingParams(ignore_eos=True)) for seed in range(2 * n))
    engine.submit(engine.prepare(Generate("r", ("the old king",), specs, can_grow=True)))
    branches = engine.find("r", "").branches
    latest, most = [(0, 0)] * n, 0  # step and length at the latest token of each of the first branches
    for step in range(5 * controls):
        if step % 10 == 5:
            append = (" then" * 300,) if step % 20 == 5 else ()
            engine.submit(engine.prepare(AddBranches(f"c{step}", "r", ((None, append, (), ()),))))
        elif step and not step % 10:
            oldest = next(branch for branch in branches[n:] if branch.is_active)
            engine.control(StopBranches(f"c{step}", "r", index=oldest.index))
        engine.step()
        for index, (since, length) in enumerate(latest):
            most = max(most, step - since)
            if branches[index].length > length:
                latest[index] = step, branches[index].length
    return most


def _models() -> Iterator[Path]:
    yield Settings().model_path
    yield random_model()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.steering", description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--peer", metavar="URL", default="", help="a llama-server that runs the same model")
    parser.add_argument("--model", type=model_option, help="the peer's model (default: the bundled one)")
    parser.add_argument("--depth", type=int, nargs="+", default=(8, 24, 64), help="of the leaves beside the peer")
    options = parser.parse_args()
    if options.peer:
        model = options.model or Settings().model_path
        with server({**os.environ, "SRB_MODEL": str(model.absolute()), "SRB_N_CTX": "16384"}) as url:
            print(f"\n{model}: explore beside {options.peer}; medians of {options.rounds} rounds", flush=True)
            bare = Bare(model)
            for depth in options.depth:
                compare(url, options.peer.rstrip("/"), bare, depth, options.rounds)
            bare.close()
    else:
        measure_fields(options.rounds)


def measure_fields(rounds: int) -> None:
    """Print the cost of each field, of joining, and of controls."""
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
    steps = longest_wait(8, 200)
    print(f"longest wait of 8 branches for a token, in steps, while 200 siblings are stopped and added: {steps}")


if __name__ == "__main__":
    main()
