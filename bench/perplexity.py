"""`python -m bench.perplexity MODEL TEXT`: how well a model foretells a text, by SRB's kernels and by llama.cpp's own.

As llama-perplexity does it: in chunks of 512 tokens, of which the second half counts. With `--llama-perplexity`, the path of
that program of an unpatched llama.cpp, it prints how far both are apart, and the standard error of that, by chunks. With
`--floats` it also prints the perplexity of the same weights as 32-bit floats, which both approximate: llama.cpp's kernels
and SRB's round each column of a batch to 8 bits, in ways of their own.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGUFReader, GGUFValueType, GGUFWriter, dequantize

from srb.config.settings import Settings
from srb.engine.llama.model import LlamaModel
from srb.engine.model import Batch, DecodeStatus
from tools.real_models import model_option

CHUNK = 512  # tokens
MOST_ROWS = 64  # with logits at once: Gemma's have a quarter of a million numbers each


def surprises_of(model: Path, text: str, **more: Any) -> np.ndarray:
    """Return the negative log-probability of each token that counts, in nats: (chunks, 255). `more`: further settings."""
    settings = Settings(model=str(model), n_ctx=CHUNK, n_batch=CHUNK, n_seq_max=MOST_ROWS, n_gpu_layers=0, **more)
    llama = LlamaModel.load(settings)
    tokens = llama.tokenize(text, add_special=True, parse_special=False)
    bos = llama.tokenize("", add_special=True, parse_special=False)[:1]
    chunks = [bos + tokens[start + len(bos) : start + CHUNK] for start in range(0, len(tokens) - CHUNK + 1, CHUNK)]
    found = [_surprises(llama, chunk) for chunk in chunks]
    llama.close()
    return np.array(found)


def _surprises(model: LlamaModel, chunk: list[int]) -> list[float]:
    """Return those of the tokens of a chunk's second half; its rows are computed as many at once as may have logits."""
    model.clear()
    first = CHUNK // 2
    found = []
    for start in (0, *range(first, len(chunk) - 1, MOST_ROWS)):
        end = min(start + MOST_ROWS, len(chunk) - 1) if start else first
        batch = Batch()
        rows = [batch.add(0, place, [chunk[place]], want_logits=place >= first) for place in range(start, end)]
        if model.decode(batch) is not DecodeStatus.OK:
            raise RuntimeError("llama.cpp could not compute a chunk")
        for row, token in zip(rows, chunk[start + 1 : end + 1], strict=True):
            if start:
                logits = model.logits(row).astype(np.float64)
                found.append(float(np.log(np.exp(logits - logits.max()).sum()) + logits.max() - logits[token]))
    return found


def theirs_of(program: Path, model: Path, text: Path) -> np.ndarray:
    """Return the mean of each chunk's negative log-probabilities by llama-perplexity, from the perplexities up to each."""
    command = [program, "-m", model, "-f", text, "-c", str(CHUNK), "-b", str(CHUNK), "--no-repack"]
    said = subprocess.run(command, capture_output=True, text=True, check=True)
    so_far = np.log([float(value) for value in re.findall(r"\[\d+\]([\d.]+),", said.stdout + said.stderr)])
    return np.diff(so_far * np.arange(1, len(so_far) + 1), prepend=0.0)


def write_floats(model: Path, path: Path) -> None:
    """Write a model's file with its weights as 32-bit floats."""
    reader = GGUFReader(model)
    writer = GGUFWriter(path, str(reader.fields["general.architecture"].contents()))
    for name, field in reader.fields.items():
        if not name.startswith("GGUF.") and name not in ("general.architecture", "general.file_type"):
            sub_type = field.types[1] if field.types[0] is GGUFValueType.ARRAY else None
            writer.add_key_value(name, field.contents(), field.types[0], sub_type)
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, dequantize(tensor.data, tensor.tensor_type))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def told(name: str, surprises: np.ndarray, of: np.ndarray) -> str:
    """Say by how much a perplexity, given by chunks, differs from another one."""
    apart = surprises - of
    error = apart.std(ddof=1) / len(apart) ** 0.5
    return f"{np.exp(surprises.mean()):.4f} {name}: {np.expm1(apart.mean()):+.3%} ± {error:.3%}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.perplexity", description=__doc__)
    parser.add_argument("model", type=model_option, help="a GGUF file, or smollm2, gemma3")
    parser.add_argument("text", type=Path)
    parser.add_argument("--llama-perplexity", type=Path, help="the program, for the ratio")
    parser.add_argument("--floats", action="store_true", help="compare with the weights as 32-bit floats, too")
    options = parser.parse_args()
    ours = surprises_of(options.model, options.text.read_text())
    print(f"{np.exp(ours.mean()):.4f} over {ours.size:,} tokens", flush=True)
    chunks = ours.mean(axis=1)
    theirs = None
    if options.llama_perplexity:
        theirs = theirs_of(options.llama_perplexity, options.model, options.text)
        print(f"{np.exp(theirs.mean()):.4f} by llama.cpp's kernels", flush=True)
        print(told("by SRB's", chunks, theirs), flush=True)
    if options.floats:
        with tempfile.TemporaryDirectory() as folder:
            write_floats(options.model, Path(folder, "floats.gguf"))
            floats = surprises_of(Path(folder, "floats.gguf"), options.text.read_text()).mean(axis=1)
        print(f"{np.exp(floats.mean()):.4f} with floats", flush=True)
        print(told("by SRB's kernels", chunks, floats))
        if theirs is not None:
            print(told("by llama.cpp's", theirs, floats))


if __name__ == "__main__":
    main()
