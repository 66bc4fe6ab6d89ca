"""`python -m bench.perplexity MODEL TEXT`: a model's perplexity over a text, by the kernels of the llama.cpp that is loaded.

Two builds, or the same weights as other types, are compared over the same tokens: `--against FOLDER` computes them a second
time by the llama.cpp in that folder. Of each window the second half counts, as in llama.cpp's own measurement.
"""

from __future__ import annotations

import argparse
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import orjson

from srb.engine.llama.model import LlamaModel
from srb.engine.model import Batch, DecodeStatus
from srb.settings import Settings

WINDOW = 512


def losses(model: LlamaModel, tokens: list[int]) -> list[float]:
    """Return the negative logarithm of the probability of each token in the second halves of all whole windows."""
    found = []
    for start in range(0, len(tokens) - WINDOW, WINDOW):
        model.clear()
        batch, rows = Batch(), []
        for place, token in enumerate(tokens[start : start + WINDOW]):
            row = batch.add(0, place, [token], want_logits=place >= WINDOW // 2)
            rows += [(row, tokens[start + place + 1])] if place >= WINDOW // 2 else []
        assert model.decode(batch) is DecodeStatus.OK
        for row, following in rows:
            logits = model.logits(row).astype(np.float64)
            most = logits.max()
            found.append(float(most + np.log(np.exp(logits - most).sum()) - logits[following]))
    return found


def compute(path: str, text: Path, words: int) -> list[float]:
    settings = Settings(model=path, n_ctx=WINDOW, n_batch=WINDOW, n_seq_max=1, n_gpu_layers=0)
    model = LlamaModel.load(settings)
    try:
        prose = " ".join(text.read_text().split()[:words])
        return losses(model, model.tokenize(prose, add_special=True, parse_special=False))
    finally:
        model.close()


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.perplexity", description=__doc__)
    parser.add_argument("model")
    parser.add_argument("text", type=Path)
    parser.add_argument("--words", type=int, default=20_000, help="how many words of the text, by default 20,000")
    parser.add_argument("--against", metavar="FOLDER", help="of another llama.cpp's libraries")
    parser.add_argument("--as-json", action="store_true", help="print the loss of each token alone")
    arguments = parser.parse_args()
    ours = np.array(compute(arguments.model, arguments.text, arguments.words))
    if arguments.as_json:
        sys.stdout.buffer.write(orjson.dumps(ours.tolist()))
        return
    print(f"{len(ours):,} tokens, perplexity {math.exp(ours.mean()):.4f}")
    if arguments.against:
        command = [sys.executable, "-m", "bench.perplexity", arguments.model, str(arguments.text)]
        command += ["--words", str(arguments.words), "--as-json"]
        environ = {**os.environ, "LLAMA_CPP_LIB_PATH": arguments.against}
        theirs = np.array(orjson.loads(subprocess.run(command, env=environ, stdout=subprocess.PIPE, check=True).stdout))
        ratio = math.exp(ours.mean() - theirs.mean())
        error = (ours - theirs).std() / math.sqrt(len(ours))
        print(f"{arguments.against}: {math.exp(theirs.mean()):.4f}; ratio {ratio:.5f} ± {error:.5f}")


if __name__ == "__main__":
    main()
