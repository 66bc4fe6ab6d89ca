"""Suites of tests that other programs' makers wrote, run against this server: `python -m tests.peers [SUITE …]`.

Each suite is fetched by its package's name into a virtual environment of its own below build/peers, where its results
lie, too.
`told.toml` has the tests that fail with the reasons: any other that fails, and one of these that passes, fails the run.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.processes import ROOT
from tests.servers import Server, free_port
from tools.llama_sources import pinned, sources
from tools.real_models import path_of

HERE, BUILT = Path(__file__).parent, ROOT / "build" / "peers"
DOCUMENTS = ("openai-openapi", "ollama", "koboldcpp")
SECONDS = 600  # for one test: servers start and models load in them, on a machine that may be busy


# LangChain's clients keep connections, which the loop of another test could not use.
_ONE_LOOP = "".join(
    f"asyncio_{name}\n"
    for name in ("mode = auto", "default_fixture_loop_scope = session", "default_test_loop_scope = session")
)


@dataclass(frozen=True)
class Suite:
    """A suite's packages, and how it is run in the folder of its environment, with further arguments for pytest."""

    run: Callable[[Path, Sequence[str]], int]
    packages: tuple[str, ...]


def prepared(name: str, packages: Sequence[str]) -> Path:
    """Return the folder of a suite's environment, with its packages installed."""
    folder = BUILT / name
    stamp, wanted = folder / ".installed", "\n".join(packages)
    if not stamp.exists() or stamp.read_text() != wanted:
        shutil.rmtree(folder, ignore_errors=True)
        venv.create(folder, with_pip=True)
        pip = [folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, *packages], check=True, env=_plain_environ())
        stamp.write_text(wanted)
    return folder


def _plain_environ(more: Mapping[str, object] | None = None) -> dict[str, str]:
    """Return the environment without what would lead a suite's Python to modules of this checkout, or to its settings."""
    left_out = ("PYTHONPATH", "PIP_CONSTRAINT")
    kept = {name: each for name, each in os.environ.items() if name not in left_out and not name.startswith("SRB_")}
    return kept | {name: str(value) for name, value in (more or {}).items()}


def pytest(folder: Path, name: str, place: Path, given: Sequence[str], **variables: object) -> int:
    """Run a suite's tests, of which told.py knows which fail."""
    environ = _plain_environ({**variables, "PYTHONPATH": HERE, "PEER_SUITE": name})
    result = folder / "results.xml"
    options = ["-p", "told", "-q", "-rfExX", "--tb=short", f"--timeout={SECONDS}", f"--junitxml={result}"]
    command = [folder / "bin" / "python", "-m", "pytest", *options, *given]
    return subprocess.run(command, cwd=place, env=environ, check=False).returncode


def run_langchain(folder: Path, given: Sequence[str]) -> int:
    """Run LangChain's standard tests of chat models and embeddings, over OpenAI's, Anthropic's and Ollama's dialects."""
    return _over_smollm2("langchain", folder, "langchain_models.py", given, _ONE_LOOP)


def run_descriptions(folder: Path, given: Sequence[str]) -> int:
    """Hold the answers against what other servers' makers publish of theirs."""
    return _over_smollm2("descriptions", folder, "descriptions.py", given)


def _over_smollm2(name: str, folder: Path, module: str, given: Sequence[str], options: str = "") -> int:
    """Run the tests of a module beside this one, in a folder where no configuration of this checkout is pytest's."""
    place = folder / "tests"
    place.mkdir(exist_ok=True)
    shutil.copy(HERE / module, place)
    (place / "pytest.ini").write_text("[pytest]\n" + options)
    with tempfile.TemporaryDirectory() as own:
        settings = {
            "model": path_of("smollm2"),
            "n_ctx": 8192,
            "alias": "smollm2",
            "embedding": "on",
            "pooling": "mean",
            "cache_disk": f"{own}/kv",
        }
        with Server(Path(own), **settings).start() as server:
            return pytest(folder, name, place, [module, *given], PEER_URL=server.url)


def run_llama_server(folder: Path, given: Sequence[str]) -> int:
    """Run llama-server's own tests; what they start as llama-server is llama_server.py, which starts this server."""
    tests, own = Path("tools", "server", "tests"), folder / "llama.cpp"
    upstream, place = sources(pinned()) / "vendor" / "llama.cpp", own / tests
    shutil.rmtree(own, ignore_errors=True)
    shutil.copytree(upstream / tests, place)
    (own / "models").symlink_to(upstream / "models")  # whose templates they read
    starter = folder / "llama-server"
    starter.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -m tests.peers.llama_server "$@"\n')
    starter.chmod(0o755)
    with tempfile.TemporaryDirectory() as models:
        variables = {"LLAMA_SERVER_BIN_PATH": starter, "PEER_FOLDER": models, "PORT": free_port()}
        return pytest(folder, "llama-server", place, [*given, "-m", "not slow"], **variables)


SUITES = {
    "langchain": Suite(
        run_langchain,
        (
            "langchain-tests==1.1.9",
            "langchain-openai==1.7.4",
            "langchain-anthropic==1.7.10",
            "langchain-ollama==1.1.0",
            "pytest-timeout",
        ),
    ),
    "llama-server": Suite(
        run_llama_server,
        (
            "pytest",
            "pytest-timeout",
            "aiohttp",
            "filelock",
            "numpy",
            "openai~=2.14",
            "prometheus-client",
            "requests",
            "wget",
        ),
    ),
    "descriptions": Suite(run_descriptions, ("pytest", "pytest-timeout", "jsonschema", "pyyaml", "requests")),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.peers", description=__doc__.partition("\n")[0])
    parser.add_argument("suite", nargs="*", choices=[*SUITES, []], help="which; all without")
    parser.add_argument(
        "--tests", nargs=argparse.REMAINDER, default=[], metavar="ARGUMENT", help="arguments for one suite's pytest"
    )
    given = parser.parse_args()
    documents = Path(os.environ.get("PEER_DESCRIPTIONS") or HERE / "none")
    codes = {}
    for name in given.suite or SUITES:
        suite = SUITES[name]
        os.environ["PEER_WHOLE"] = "" if given.tests else "1"  # then each row of told.toml has its test
        if name == "descriptions" and not all((documents / each).is_dir() for each in DOCUMENTS):
            os.environ["PEER_WHOLE"] = ""  # tests of a document that is not there are none
            print(f"PEER_DESCRIPTIONS is no folder with {', '.join(DOCUMENTS)}: tests of those that lack are left out")
        codes[name] = suite.run(prepared(name, suite.packages), given.tests)
    return max(codes.values())


if __name__ == "__main__":
    sys.exit(main())
