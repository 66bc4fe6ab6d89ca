"""llama-server's command, as its tests start it: `srb serve` with the same options, and a model for the one that is named.

No package has the models that the tests download, so others stand in for them.
"""

from __future__ import annotations

import os
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from srb.config.named_models import BUNDLED_MODEL
from tests.models.random_gguf import TINY, write_bert, write_llama
from tools.real_models import path_of

# A llama with the tokens of a text's gap, which llama.cpp knows by these names.
_INFILL = replace(TINY, context=4096, control=("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"))


def main() -> None:
    """Become `srb serve`; options that name a model by its place on the network are left out."""
    folder = Path(os.environ["PEER_FOLDER"])
    given, options = sys.argv[1:], []
    named = ""
    while given:
        option = given.pop(0)
        if option in ("--hf-repo", "--hf-file"):
            named += given.pop(0)
        elif option != "--offline":
            options.append(option)
    if "--model" not in options and "--models-dir" not in options and "--models-preset" not in options:
        options += ["--model", str(_model(named, folder).absolute())]
    own = Path(tempfile.mkdtemp(dir=folder))
    os.environ |= {
        "SRB_RUNTIME_DIR": str(own / "run"),
        "SRB_STORIES": str(own / "stories.sqlite3"),
        "SRB_CACHE_DISK": str(own / "kv"),
        "SRB_GRACEFUL_TIMEOUT": "1",
        "SRB_COMPLETIONS_FORMAT": "openai",
        "SRB_N": "1",
    }
    if "jina" in named:
        os.environ["SRB_POOLING"] = "rank"
    command = str(Path(sys.executable).with_name("srb"))
    os.execv(command, [command, "serve", *options])


def _model(named: str, folder: Path) -> Path:
    """Return the file of a model like the one that is named, which is written at its first use."""
    if "bert" in named:
        return path_of("minilm")
    if "jina" in named:
        made = folder / "ranks.gguf"
        return made if made.exists() else write_bert(made, ranks=True)
    if "infill" in named:
        made = folder / "infill.gguf"
        return made if made.exists() else write_llama(made, _INFILL)
    return BUNDLED_MODEL


if __name__ == "__main__":
    main()
