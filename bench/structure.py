"""The cost of an answer in a form: `python -m bench.structure MODEL.gguf`, which takes some minutes.

The same model writes free text and a nested JSON schema with 1, 8 and 64 branches; times are of the engine's steps alone,
without a server. Steps per token tell how many tokens the schema forced.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from typing import Any

from srb.engine.engine import Engine
from srb.engine.llama.model import LlamaModel
from srb.protocol import BranchSpec, Generate, SamplingParams
from srb.settings import Settings

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


def main(path: str) -> None:
    model = LlamaModel.load(Settings(model=path, n_ctx=16384))
    model.grammars.make_ready()
    engine = Engine(model, max_queue=4, clock=time.monotonic)
    print("| n | text | ms per token | steps per token |\n|---|---|---|---|")
    for n in COUNTS:
        for name, options in CASES.items():
            measure(engine, n, options)  # warms up
            milliseconds, steps = min(measure(engine, n, options) for _ in range(2))
            print(f"| {n} | {name} | {milliseconds:.2f} | {steps:.2f} |", flush=True)
    engine.close()


if __name__ == "__main__":
    main(sys.argv[1])
