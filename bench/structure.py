"""The cost of an answer in a form: `python -m bench.structure MODEL`, which takes some minutes.

The same model writes free text and a nested JSON schema with 1, 8 and 64 branches; times are of the engine's steps alone,
without a server. Steps per token tell how many tokens the schema forced. With `--llama-server` it then asks that program and
SRB's server for the same schema with 8 branches, in turns; every round has other seeds.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from bench.llama_server import llama_server
from bench.scenarios import REST_SECONDS
from srb.bench.client import post
from srb.bench.server import server
from srb.config.sampling_params import SamplingParams
from srb.config.settings import Settings
from srb.engine.engine import Engine, EngineOptions
from srb.engine.llama.model import LlamaModel
from srb.wire.commands import BranchSpec, Generate
from tools.real_models import model_option

PROMPT = "Describe the people of a small village by the sea as JSON.\n"
KEYS = ("first name", "last name", "profession", "favourite food", "house number", "street", "is married", "remarks")
SCHEMA = {
    "type": "object",
    "properties": {
        "village": {"type": "string", "maxLength": 30},
        "people": {
            "type": "array", "minItems": 4, "maxItems": 4,
            "items": {
                "type": "object",
                "properties": {key: {"type": "string", "maxLength": 20} for key in KEYS},
                "required": list(KEYS),
            },
        },
    },
    "required": ["village", "people"],
}  # fmt: skip
CASES: Mapping[str, dict[str, Any]] = {"free text": {"ignore_eos": True}, "schema": {"json_schema": json.dumps(SCHEMA)}}
COUNTS = (1, 8, 64)
BESIDE = 8  # branches beside a llama-server, which has a slot for each
MAX_TOKENS = 160


def measure(engine: Engine, n: int, options: dict[str, Any]) -> tuple[float, float]:
    """Return milliseconds per token of all branches together, and steps per token of one branch."""
    sampling = SamplingParams(temperature=1.0, **options)
    specs = tuple(BranchSpec(seed, max_tokens=MAX_TOKENS, sampling=sampling) for seed in range(n))
    before = engine.stats()
    engine.submit(engine.prepare(Generate("bench", (PROMPT,), specs)))
    engine.step()  # the prompt
    began = time.perf_counter()
    while engine.has_work:
        engine.step()
    seconds = time.perf_counter() - began
    after = engine.stats()
    tokens = after["tokens_predicted_total"] - before["tokens_predicted_total"]
    steps = after["n_decode_total"] - before["n_decode_total"]
    return seconds / tokens * 1000, steps * n / tokens


def steps(path: Path) -> None:
    """Print the cost of a token in the engine alone."""
    model = LlamaModel.load(Settings(model=str(path), n_ctx=16384))
    model.grammars.make_ready()
    engine = Engine(model, EngineOptions(max_queue=4), clock=time.monotonic)
    print("| n | text | ms per token | steps per token |\n|---|---|---|---|")
    for n in COUNTS:
        for name, options in CASES.items():
            measure(engine, n, options)  # warms up
            milliseconds, per_token = min(measure(engine, n, options) for _ in range(2))
            print(f"| {n} | {name} | {milliseconds:.2f} | {per_token:.2f} |", flush=True)
    engine.close()


def ask(url: str, seed: int, options: Mapping[str, Any]) -> float:
    """Return the tokens per second of 8 branches together; both servers take the same body and tell their tokens."""
    time.sleep(REST_SECONDS)
    body = {"prompt": PROMPT, "n_predict": MAX_TOKENS, "n_cmpl": BESIDE, "temperature": 1.0, "seed": seed, **options}
    began = time.perf_counter()
    with post(url, "/completion", orjson.dumps(body)) as sock:
        received = b"".join(iter(lambda: sock.recv(65536), b""))
    seconds = time.perf_counter() - began
    head, _, rest = received.partition(b"\r\n\r\n")
    if b" 200 " not in head[:20]:
        raise RuntimeError(f"{url} answered {received[:300]!r}")
    answers = orjson.loads(rest[rest.index(b"[") : rest.rindex(b"]") + 1])  # chunked or not
    return sum(answer["tokens_predicted"] for answer in answers) / seconds


def beside(path: Path, program: Path, rounds: int) -> None:
    """Print tokens per second of both servers, and the median of the rounds' ratios."""
    schema = {"json_schema": SCHEMA}
    environ = {**os.environ, "SRB_MODEL": str(path), "SRB_N_CTX": "16384"}
    options = ("-np", str(BESIDE), "--kv-unified")
    with server(environ) as ours, llama_server(program, path, 0, *options) as theirs:
        for name, form in {"free text": CASES["free text"], "schema": schema}.items():
            for url in (ours, theirs):
                ask(url, 0, form)  # warms up
            pairs = [(ask(ours, seed, form), ask(theirs, seed, form)) for seed in range(1, rounds + 1)]
            srb, peer = (statistics.median(side) for side in zip(*pairs, strict=True))
            ratio = statistics.median(one / two for one, two in pairs)
            print(f"n = {BESIDE}, {name}: SRB {srb:.0f} tokens/s, llama-server {peer:.0f}, {ratio:.2f} x", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.structure", description=__doc__)
    parser.add_argument("model", type=model_option, help="smollm2, gemma3 or a GGUF file")
    parser.add_argument(
        "--llama-server", type=Path, help="path of a llama-server, which is started and measured as well"
    )
    parser.add_argument("--rounds", type=int, default=5, help="answers of each server (default: %(default)s)")
    options = parser.parse_args()
    steps(options.model)
    if options.llama_server:
        beside(options.model.absolute(), options.llama_server, options.rounds)


if __name__ == "__main__":
    main()
