"""Who may import whom. The engine's core knows no framework, no clock, no chance; web and engine meet in the wire."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "srb"

SHARED = {"srb", "srb.errors", "srb.framing", "srb.logs", "srb.protocol", "srb.settings", "srb.gguf", "srb.systemd",
          "srb.status", "srb.welcome"}  # fmt: skip
SHELL = {  # the engine's outside: processes, sockets, threads
    f"srb.engine.{name}"
    for name in ("connection", "lifeline", "loop", "process", "pulse", "reports", "runtime", "states", "supervisor")
}
MODELS = {"srb.engine.fake"}
MODELS |= {f"srb.engine.{path.stem}" for path in PACKAGE.glob("engine/llama*.py")}
LAUNCHERS = {"srb.cli", "srb.flags", "srb.gunicorn_conf", "srb.gunicorn_worker", "srb.hub", "srb.options"}

FRAMEWORKS = {"flask", "werkzeug", "gevent", "gunicorn", "requests"}
# What would make a run of the core differ from the next one, or reach out of it.
OUTSIDE = {"asyncio", "datetime", "multiprocessing", "os", "queue", "random", "secrets", "select", "signal", "socket"}
OUTSIDE |= {"subprocess", "tempfile", "threading", "time", "uuid"}


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(path: Path) -> set[str]:
    """Return every module that a file imports anywhere in it, also inside functions, by full name."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            assert node.module is not None
            found |= {_module(node.module, alias.name) for alias in node.names}
    return found


def _module(package: str, name: str) -> str:
    """`from srb import logs` imports srb.logs, `from srb.errors import SRBError` imports srb.errors."""
    path = PACKAGE.parent.joinpath(*package.split("."), name)
    return f"{package}.{name}" if path.with_suffix(".py").exists() or path.is_dir() else package


IMPORTS = {module_name(path): imports_of(path) for path in sorted(PACKAGE.rglob("*.py"))}
ENGINE = {name for name in IMPORTS if name.startswith("srb.engine.")}
CORE = ENGINE - SHELL - MODELS
WEB = {name for name in IMPORTS if name.startswith("srb.web")} | {"srb.client"}


def tops(modules: set[str]) -> set[str]:
    return {name.partition(".")[0] for name in modules}


def ours(modules: set[str]) -> set[str]:
    return {name for name in modules if name.partition(".")[0] == "srb"}


def test_every_module_has_a_side() -> None:
    assert "srb.engine.core" in CORE
    assert set(IMPORTS) - {"srb.engine"} == SHARED | SHELL | MODELS | CORE | WEB | LAUNCHERS


def test_only_what_is_named_after_it_imports_llama_cpp() -> None:
    users = {name for name, modules in IMPORTS.items() if "llama_cpp" in tops(modules)}
    assert "srb.engine.llama" in users
    assert users <= MODELS


@pytest.mark.parametrize("name", sorted(CORE | {"srb.engine.fake"}))
def test_the_core_has_no_clock_no_chance_and_no_way_out(name: str) -> None:
    seeded = {"random"} if name == "srb.engine.fake" else set()  # it draws from random.Random(seed) only
    assert not tops(IMPORTS[name]) & (FRAMEWORKS | OUTSIDE - seeded)
    assert ours(IMPORTS[name]) <= CORE | {"srb.errors", "srb.protocol"}


def test_each_layer_of_the_core_knows_only_those_below_it() -> None:
    layers = [
        *("model", "text", "node", "request", "match", "residency", "prefix_tree", "named_states", "state_actions"),
        *("scheduler", "prompts", "branches", "core"),
    ]
    for place, name in enumerate(layers):
        above = {f"srb.engine.{other}" for other in layers[place:]}
        assert not IMPORTS[f"srb.engine.{name}"] & above, f"{name} imports what is above it"


@pytest.mark.parametrize("name", sorted(SHELL | MODELS))
def test_the_engine_knows_no_web(name: str) -> None:
    assert not tops(IMPORTS[name]) & FRAMEWORKS
    assert not ours(IMPORTS[name]) & (WEB | LAUNCHERS)


@pytest.mark.parametrize("name", sorted(WEB))
def test_the_web_knows_no_engine(name: str) -> None:
    assert ours(IMPORTS[name]) <= WEB | SHARED


@pytest.mark.parametrize("name", sorted(SHARED))
def test_what_both_share_knows_neither(name: str) -> None:
    assert ours(IMPORTS[name]) <= SHARED
    assert not tops(IMPORTS[name]) & (FRAMEWORKS | {"llama_cpp", "numpy"})


def test_launchers_know_the_runtime_folder_and_no_more_of_the_engine() -> None:
    for name in LAUNCHERS:
        counts = {"srb.web.limits"} if name == "srb.gunicorn_conf" else set()  # to give back what a dead worker held
        assert ours(IMPORTS[name]) <= SHARED | LAUNCHERS | counts | {"srb.engine.runtime"}


def test_nobody_unpickles() -> None:
    assert not {"pickle", "marshal", "shelve", "dill"} & tops(set().union(*IMPORTS.values()))


@pytest.mark.parametrize(
    ("module", "unwanted"),
    [
        ("srb.gunicorn_conf", {"llama_cpp", "gevent", "flask", "numpy"}),
        ("srb.engine.supervisor", {"llama_cpp", "gevent", "flask", "gunicorn", "numpy", "srb.engine.core"}),
        ("srb.engine.process", {"gevent", "flask", "gunicorn", "llama_cpp"}),
        ("srb.web.app", {"llama_cpp", "srb.engine", "numpy"}),
    ],
)
def test_what_a_process_must_not_load_it_does_not_load(module: str, unwanted: set[str]) -> None:
    script = f"import os; os.environ['SRB_MODEL'] = 'fake:'; import sys, {module}; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", script], cwd=PACKAGE.parent, capture_output=True, text=True, check=True
    ).stdout.split()
    assert not unwanted & set(loaded)
