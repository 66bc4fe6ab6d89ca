"""Who may import whom. The engine's core knows no framework, no clock, no chance; web and engine meet in the wire."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "srb"

COMMON = {"srb", "srb.config", "srb.wire"}  # what both sides know
PROCESS = {*COMMON, "srb.files", "srb.host"}
WEB_FRAME = {*COMMON, "srb.models", "srb.models.web", "srb.web", "srb.web.bodies", "srb.web.calls", "srb.web.loop"}
DIALECTS = {
    f"srb.web.dialects.{name}"
    for name in ("srb", "openai", "responses", "anthropic", "llamacpp", "ollama", "kobold", "legacy")
}

# Each package, and the packages of ours that its modules may import besides their own.
MAY_IMPORT = {
    "srb": {"srb.config"},  # errors, exit codes, logs and state of every process
    "srb.config": {"srb"},
    "srb.wire": {"srb", "srb.config"},
    "srb.files": {"srb", "srb.config"},
    "srb.host": set(),
    "srb.engine": {
        *COMMON,
        "srb.files",
        "srb.engine.grammar",
        "srb.engine.tree",
    },  # the core; of files the media's, see below
    "srb.engine.grammar": {"srb", "srb.config"},  # grammars, for the models and for what is prepared before them
    "srb.engine.tree": {"srb.engine"},  # of the core only the model's protocol, see below
    "srb.engine.llama": {*PROCESS, "srb.engine", "srb.engine.grammar"},  # llama.cpp behind the core's Model
    # Processes, sockets, threads. One command starts both supervisors: that of several models knows those of one engine.
    "srb.engine.process": {*PROCESS, "srb.engine", "srb.engine.llama", "srb.models"},
    "srb.models": {*PROCESS, "srb.engine.process"},
    "srb.models.web": {*WEB_FRAME, "srb.models"},
    "srb.cluster": {*COMMON, "srb.engine.process"},  # a bridge in the engine's place, and engines behind it
    "srb.bench": {"srb"},  # a client of the server, and the server as a process
    # Of llama.cpp it knows what a child process prints; of the engine's process the runtime folder.
    "srb.doctor": {"srb", "srb.config", "srb.files", "srb.host", "srb.models", "srb.engine.process"},
    "srb.top": {"srb", "srb.config", "srb.host"},  # a client of the server, and a view
    "srb.launch": {
        "srb",
        "srb.config",
        "srb.files",
        "srb.host",
        "srb.bench",
        "srb.cluster",
        "srb.doctor",
        "srb.models",
        "srb.stories",
        "srb.top",
        "srb.web",
    },  # of the web only the counters that it gives back, see below
    "srb.stories": {"srb", "srb.files"},  # the stories' file, for web workers and the command line
    "srb.web": {*WEB_FRAME, *DIALECTS, "srb.host", "srb.web.chat", "srb.web.ops", "srb.web.stories"},  # host: metrics
    "srb.web.loop": {"srb"},  # the worker's one thread
    "srb.web.bodies": {*COMMON, "srb.web.loop"},
    "srb.web.calls": {*COMMON, "srb.web", "srb.web.bodies", "srb.web.loop"},
    "srb.web.chat": {*COMMON, "srb.web.loop"},
    "srb.web.dialects": set(),
    **{dialect: {*WEB_FRAME, *DIALECTS, "srb.web.chat"} for dialect in DIALECTS},
    "srb.web.ops": {*WEB_FRAME, *DIALECTS},
    "srb.web.stories": {*WEB_FRAME, "srb.stories"},
}

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


def package_of(module: str) -> str:
    return module if module in MAY_IMPORT else module.rpartition(".")[0]


def tops(modules: set[str]) -> set[str]:
    return {name.partition(".")[0] for name in modules}


def ours(modules: set[str]) -> set[str]:
    return {name for name in modules if name.partition(".")[0] == "srb"}


def test_every_package_is_in_the_table() -> None:
    assert {module_name(path.parent / "__init__.py") for path in PACKAGE.rglob("*.py")} == set(MAY_IMPORT)


@pytest.mark.parametrize("package", sorted(MAY_IMPORT))
def test_a_package_imports_only_what_it_may(package: str) -> None:
    for name, modules in IMPORTS.items():
        if package_of(name) == package:
            imported = {package_of(module) for module in ours(modules)}
            assert imported <= MAY_IMPORT[package] | {package}, f"{name} imports from where it may not"


def test_only_its_package_imports_llama_cpp() -> None:
    users = {name for name, modules in IMPORTS.items() if "llama_cpp" in tops(modules)}
    assert "srb.engine.llama.model" in users
    assert {package_of(name) for name in users} == {"srb.engine.llama"}


@pytest.mark.parametrize(
    "name", sorted(name for name in IMPORTS if package_of(name) in ("srb.engine", "srb.engine.tree"))
)
def test_the_core_imports_no_clock_no_randomness_and_no_io(name: str) -> None:
    seeded = {"random"} if name == "srb.engine.fake" else set()  # it draws from random.Random(seed) only
    locked = {"threading"} if name == "srb.engine.media" else set()  # one file is encoded at a time
    assert not tops(IMPORTS[name]) & (FRAMEWORKS | OUTSIDE - seeded - locked)
    shared = {module for module in ours(IMPORTS[name]) if package_of(module) in PROCESS}
    assert shared <= {
        "srb.errors",
        "srb.files.media_files",
        "srb.config.sampling_params",
        "srb.wire.commands",
        "srb.wire.events",
        "srb.wire.step_seconds",
    }
    if name != "srb.engine.fake":
        assert "srb.engine.fake" not in IMPORTS[name]


def test_each_layer_of_the_core_knows_only_those_below_it() -> None:
    layers = [
        *(
            "model",
            "tree.node",
            "tree.match",
            "tree.whole",
            "tree.host",
            "tree.idle",
            "tree.residency",
            "tree.prefix_tree",
        ),
        *("text", "request", "named_states", "state_actions", "scheduler", "prompts", "branches", "engine"),
    ]
    for place, name in enumerate(layers):
        above = {f"srb.engine.{other}" for other in layers[place:]}
        assert not IMPORTS[f"srb.engine.{name}"] & above, f"{name} imports what is above it"


@pytest.mark.parametrize(
    "name", sorted(name for name in IMPORTS if package_of(name) in PROCESS or name.startswith("srb.engine"))
)
def test_the_engine_knows_no_web_framework(name: str) -> None:
    assert not tops(IMPORTS[name]) & FRAMEWORKS
    if package_of(name) in PROCESS:
        assert not tops(IMPORTS[name]) & {"llama_cpp", "numpy"}


def test_the_stories_know_of_the_package_only_its_errors_and_the_checks_of_media() -> None:
    """And no framework: the command line and the web workers use them alike."""
    for name, modules in IMPORTS.items():
        if package_of(name) == "srb.stories":
            assert {module for module in ours(modules) if package_of(module) != "srb.stories"} <= {
                "srb.errors",
                "srb.files.media_files",
            }
            assert not tops(modules) & FRAMEWORKS


def test_the_tree_knows_no_requests() -> None:
    for name, modules in IMPORTS.items():
        if package_of(name) == "srb.engine.tree":
            assert {module for module in ours(modules) if package_of(module) != "srb.engine.tree"} <= {
                "srb.engine.model",
                "srb.engine.tokens",
            }


def test_launchers_know_no_more_of_the_web_than_its_counters() -> None:
    for name, modules in IMPORTS.items():
        if package_of(name) == "srb.launch":
            assert {module for module in modules if module.startswith("srb.web")} <= {"srb.web.limits"}


def test_pickle_is_not_imported() -> None:
    assert not {"pickle", "marshal", "shelve", "dill"} & tops(set().union(*IMPORTS.values()))


def test_unit_tests_start_no_process() -> None:
    """Such tests belong in tests/process and tests/e2e, since tests/unit has to finish in seconds."""
    for path in sorted(Path(__file__).parent.glob("*.py")):
        assert not imports_of(path) & {"subprocess", "multiprocessing"}, path.name
        names = {node.id for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Name)}
        assert "Process" not in names, path.name
