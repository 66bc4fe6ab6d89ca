"""The command `srb models`: list models, those that can be had by a name too, fetch one, and make control vectors."""

import os
import re
import subprocess
import sys
from argparse import ArgumentTypeError
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import orjson

from srb.config.named_models import BUNDLED, DEFAULT_MODEL, NAMED_MODELS, NamedModel, cache_folder
from srb.errors import ConfigError
from srb.exit_codes import EXIT_FAILED, OneLineParser, fail
from srb.fetch.chosen_model import facts, fetch
from srb.python import module_command


def main(arguments: Sequence[str]) -> NoReturn:
    """Run the command; the exit status is 1 if a model cannot be fetched, 2 for wrong arguments."""
    asked = parser().parse_args(arguments)
    if asked.command == "fetch":
        try:
            fetch(NAMED_MODELS[asked.name])
        except ConfigError as error:
            fail(error.message, EXIT_FAILED)
        print(NAMED_MODELS[asked.name].path)
    elif asked.command == "vector":
        path = Path(asked.folder, f"{asked.name}.gguf")
        make_vector(asked.model, path, _texts(asked.positive), _texts(asked.negative))
        print(f"{path}\nsrb serve --control-vector-dir {path.parent} lets requests name it")
    else:
        print(listing())
    sys.exit(0)


def parser() -> OneLineParser:
    found = OneLineParser(prog="srb models", description=__doc__, allow_abbrev=False)
    commands = found.add_subparsers(title="commands", dest="command", metavar="COMMAND")
    commands.add_parser("list", help="list models (also without a command)", allow_abbrev=False)
    fetching = commands.add_parser("fetch", help="fetch a model into the cache", allow_abbrev=False)
    fetching.add_argument("name", metavar="NAME", choices=sorted(NAMED_MODELS), help=", ".join(sorted(NAMED_MODELS)))
    vector = commands.add_parser(
        "vector", help="make a control vector: a mood, by texts that have it and texts that do not", allow_abbrev=False
    )
    vector.add_argument("name", metavar="NAME", type=_vector_name, help="by which requests name it, such as melancholy")
    for name in ("positive", "negative"):
        vector.add_argument(
            f"--{name}", nargs="+", required=True, metavar="TEXT", help="texts, or files with one on each line"
        )
    vector.add_argument("--model", default="", help="the model that it is for, as for srb serve")
    vector.add_argument("--folder", default="vectors", help="where the file is written (vectors)")
    return found


def _vector_name(name: str) -> str:
    if not re.fullmatch(r"[\w-][\w.-]{0,63}", name):
        raise ArgumentTypeError(f"{name!r} is no name: letters, digits, _ - and . make one")
    return name


def _texts(given: Sequence[str]) -> list[str]:
    """Return texts; a file stands for its lines."""
    found = []
    for each in given:
        try:
            found += Path(each).read_text("utf-8").splitlines() if len(each) < 1024 and Path(each).is_file() else [each]
        except (OSError, UnicodeDecodeError) as error:
            fail(f"cannot read {each}: {error}")
    return [text for text in found if text.strip()]


def make_vector(model: str, path: Path, positive: list[str], negative: list[str]) -> None:
    """Write a control vector; end the process with a line that says why if there is none."""
    making = {"model": model, "path": str(path), "positive": positive, "negative": negative}
    if not (positive and negative):
        fail("a vector needs positive and negative texts")
    path.parent.mkdir(parents=True, exist_ok=True)
    made = subprocess.run(
        module_command("srb.engine.llama.vector_maker"), input=orjson.dumps(making), stderr=subprocess.PIPE, check=False
    )
    if made.returncode:
        last = made.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
        fail(": ".join(["no vector was made", *last]), EXIT_FAILED)


def listing() -> str:
    """Return the list: models that have a name, then the files in the caches."""
    served = DEFAULT_MODEL if DEFAULT_MODEL.is_here else BUNDLED
    lines = ["By name (srb serve --model NAME, or make serve MODEL=NAME):"]
    for each in NAMED_MODELS.values():
        lines += [f"  {each.name:<13} {each.what}", f"  {'':<13} {facts(each)}; {_state(each)}"]
    lines += [
        "",
        f"Without --model: {DEFAULT_MODEL.name}, or {BUNDLED.name} where it cannot be fetched; now {served.name}.",
    ]
    lines += ["", "In the caches (srb serve --model PATH):"]
    found = [(path, size) for folder in _caches() for path, size in _models_in(folder)]
    lines += [f"  {size / 1e6:>8,.0f} MB  {path}" for path, size in found] or ["  nothing"]
    return "\n".join(lines)


def _state(model: NamedModel) -> str:
    if model.source is None:
        return f"comes with SRB: {model.path}"
    return f"fetched: {model.path}" if model.is_here else f"not fetched: srb models fetch {model.name}"


def _caches() -> list[Path]:
    """Return the folders of downloaded models: SRB's own, Hugging Face's and llama.cpp's."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))
    hub = os.environ.get("HF_HUB_CACHE") or Path(os.environ.get("HF_HOME") or home / "huggingface", "hub")
    return [cache_folder(), Path(hub), Path(os.environ.get("LLAMA_CACHE") or home / "llama.cpp")]


def _models_in(folder: Path) -> list[tuple[Path, int]]:
    """Return the GGUF files below a folder and their sizes; a name that leads to no file is left out."""
    files = sorted(path for path in folder.rglob("*.gguf") if path.is_file())
    return [(path, path.stat().st_size) for path in files]
