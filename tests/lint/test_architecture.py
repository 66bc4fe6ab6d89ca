"""Who may import whom. The engine's core knows no framework, no clock, no chance; web and engine meet in the wire."""

from __future__ import annotations

import ast
import re
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from srb.config.sampling_params import PARAMETERS
from tests.processes import ROOT

PACKAGE = ROOT / "srb"
TESTS = ROOT / "tests"

COMMON = {"srb", "srb.config", "srb.wire"}  # what both sides know
PROCESS = {*COMMON, "srb.files", "srb.host"}
DIALECTS = {
    f"srb.web.dialects.{name}"
    for name in ("srb", "openai", "responses", "anthropic", "llamacpp", "ollama", "kobold", "legacy")
}
# What dialects and operators' routes have in common: the frame that combines them, which they know too.
WEB_FRAME = {*COMMON, "srb.models", "srb.web.models", "srb.web", "srb.web.bodies", "srb.web.calls", "srb.web.loop"}

# Each package, and the packages of ours that its modules may import besides their own: those that stand before it.
MAY_IMPORT = {
    "srb": {"srb.config"},  # errors, exit codes, logs and state of every process
    "srb.config": {"srb"},
    "srb.host": set(),
    "srb.files": {"srb", "srb.config", "srb.host"},
    "srb.wire": {"srb", "srb.config"},
    "srb.process": PROCESS - {"srb.files"},  # how processes start, report, listen and end; it knows none by its work
    "srb.engine.grammar": {"srb", "srb.config"},  # grammars, for the models and for what is prepared before them
    "srb.engine.tree": {"srb.engine"},  # of the core only the model's protocol, see below
    "srb.engine": {
        *COMMON,
        "srb.files",
        "srb.engine.grammar",
        "srb.engine.tree",
    },  # the core; of files media, see below
    "srb.engine.llama": {*PROCESS, "srb.engine", "srb.engine.grammar"},  # llama.cpp behind the core's Model
    "srb.engine.process": {*PROCESS, "srb.process", "srb.engine", "srb.engine.llama"},  # the core in a process
    "srb.models": {*PROCESS, "srb.process"},  # engines of several models, which it starts and ends
    "srb.cluster": {*COMMON, "srb.files", "srb.process"},  # a bridge in the engine's place, and engines behind it
    "srb.stories": {"srb", "srb.files"},  # the stories' file, for web workers and the command line
    "srb.fetch": {"srb", "srb.config", "srb.models"},  # of models the list
    # Of llama.cpp it knows what a child process prints; of processes the runtime folder.
    "srb.doctor": {"srb", "srb.config", "srb.files", "srb.host", "srb.process", "srb.models", "srb.stories"},
    "srb.bench": {"srb"},  # a client of the server, and the server as a process
    "srb.top": {"srb", "srb.config", "srb.host"},  # a client of the server, and a view
    "srb.web.loop": {"srb"},  # the worker's one thread
    "srb.web.bodies": {*COMMON, "srb.web.loop"},
    "srb.web.chat": {*COMMON, "srb.web.loop"},
    "srb.web.calls": {*COMMON, "srb.web", "srb.web.bodies", "srb.web.loop"},
    "srb.web.models": WEB_FRAME,
    "srb.web.stories": {*WEB_FRAME, "srb.stories"},
    "srb.web.dialects": set(),
    **{dialect: {*WEB_FRAME, *DIALECTS, "srb.web.chat"} for dialect in sorted(DIALECTS)},
    "srb.web.ops": {*WEB_FRAME, *DIALECTS},
    "srb.web": {*WEB_FRAME, *DIALECTS, "srb.host", "srb.web.chat", "srb.web.ops", "srb.web.stories"},  # host: metrics
    # Of the web only the counters that it gives back, see below.
    "srb.serve": {"srb", "srb.config", "srb.files", "srb.host", "srb.cluster", "srb.fetch", "srb.models", "srb.web"},
    "srb.cli": {
        *("srb", "srb.config", "srb.files", "srb.host", "srb.models", "srb.cluster", "srb.stories", "srb.fetch"),
        *("srb.doctor", "srb.bench", "srb.top"),
    },
}
# Packages that know each other; their modules do not, see below.
FLOORS = (
    {"srb", "srb.config"},
    {"srb.engine.tree", "srb.engine"},
    {name for name in MAY_IMPORT if name.startswith("srb.web")},
)

FRAMEWORKS = {"flask", "werkzeug", "gevent", "gunicorn", "requests"}
# What would make a run of the core differ from the next one, or reach out of it.
OUTSIDE = {"asyncio", "datetime", "multiprocessing", "os", "queue", "random", "secrets", "select", "signal", "socket"}
OUTSIDE |= {"subprocess", "tempfile", "threading", "time", "uuid"}

CORE = {"srb.engine", "srb.engine.tree"}
KNOWN_TO_THE_CORE = {
    "srb.errors",
    "srb.progress",  # of the threads that prepare; the decode thread takes none
    "srb.files.media_files",
    "srb.config.sampling_params",
    "srb.wire.commands",
    "srb.wire.events",
    "srb.wire.step_seconds",
}


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


@cache
def all_imports() -> dict[str, set[str]]:
    """Return what each module of the package imports; read once, and not where tests are only listed."""
    return {module_name(path): imports_of(path) for path in sorted(PACKAGE.rglob("*.py"))}


def package_of(module: str) -> str:
    return module if module in MAY_IMPORT else module.rpartition(".")[0]


def tops(modules: set[str]) -> set[str]:
    return {name.partition(".")[0] for name in modules}


def ours(modules: set[str]) -> set[str]:
    return {name for name in modules if name.partition(".")[0] == "srb"}


def test_every_package_is_in_the_table() -> None:
    assert {module_name(path.parent / "__init__.py") for path in PACKAGE.rglob("*.py")} == set(MAY_IMPORT)


def not_allowed(imports: dict[str, set[str]]) -> list[tuple[str, str]]:
    """Return each module that imports from a package which the table does not name for its own, with that package."""
    used = {name: {package_of(module) for module in ours(modules)} for name, modules in imports.items()}
    return [
        (name, package)
        for name, packages in used.items()
        for package in sorted(packages - MAY_IMPORT[package_of(name)] - {package_of(name)})
    ]


def test_a_package_imports_only_what_it_may() -> None:
    assert not_allowed(all_imports()) == []


def test_an_import_of_another_package_is_found() -> None:
    imports = {"srb.wire.codec": {"srb.errors", "srb.web.app", "orjson"}, "srb.web.app": {"srb.wire.codec"}}
    assert not_allowed(imports) == [("srb.wire.codec", "srb.web")]


def test_imports_are_found_in_each_form_and_inside_of_functions(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_text(
        "import os.path, time as clock\nfrom srb import logs\nfrom srb.errors import SRBError\n"
        "def f():\n    from threading import Lock\n"
    )
    assert imports_of(file) == {"os.path", "time", "srb.logs", "srb.errors", "threading"}


def test_only_its_package_imports_llama_cpp() -> None:
    users = {name for name, modules in all_imports().items() if "llama_cpp" in tops(modules)}
    assert "srb.engine.llama.model" in users
    assert {package_of(name) for name in users} == {"srb.engine.llama"}


# Calls that only Linux has, by the module that has them: elsewhere they are an AttributeError in the middle of a work.
ONLY_LINUX = re.compile(
    r"\b(os\.(sched_|posix_fadvise|POSIX_FADV|RWF_|fdatasync|copy_file_range|eventfd|pidfd)|select\.(POLLRDHUP|epoll))|/proc/self/fd\b"
)


def test_calls_that_only_linux_has_are_the_hosts() -> None:
    found = {module_name(path): ONLY_LINUX.search(path.read_text()) for path in sorted(PACKAGE.rglob("*.py"))}
    users = {name for name, match in found.items() if match and package_of(name) != "srb.host"}
    assert users == {"srb.web.metric_files"}, "which asks first whether the system has them"


def test_only_one_module_says_how_a_module_is_run() -> None:
    """Others would forget that the working directory is no place of packages."""
    users = [module_name(path) for path in sorted(PACKAGE.rglob("*.py")) if 'sys.executable, "-' in path.read_text()]
    assert users == ["srb.python"]


def test_the_core_imports_no_clock_no_randomness_and_no_io() -> None:
    core = {name: modules for name, modules in all_imports().items() if package_of(name) in CORE}
    assert len(core) > 40
    for name, modules in core.items():
        seeded = {"random"} if name == "srb.engine.fake" else set()  # it draws from random.Random(seed) only
        locked = {"threading"} if name == "srb.engine.media" else set()  # one file is encoded at a time
        assert not tops(modules) & (FRAMEWORKS | OUTSIDE - seeded - locked), name
        shared = {module for module in ours(modules) if package_of(module) in PROCESS}
        assert shared <= KNOWN_TO_THE_CORE, name
        assert name == "srb.engine.fake" or "srb.engine.fake" not in modules, name


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
        assert not all_imports()[f"srb.engine.{name}"] & above, f"{name} imports what is above it"


def test_the_engine_knows_no_web_framework() -> None:
    for name, modules in all_imports().items():
        if package_of(name) in PROCESS or name.startswith("srb.engine"):
            assert not tops(modules) & FRAMEWORKS, name
        if package_of(name) in PROCESS:
            assert not tops(modules) & {"llama_cpp", "numpy"}, name


def test_the_stories_know_of_the_package_only_its_errors_and_the_checks_of_media() -> None:
    """And no framework: the command line and the web workers use them alike."""
    for name, modules in all_imports().items():
        if package_of(name) == "srb.stories":
            assert {module for module in ours(modules) if package_of(module) != "srb.stories"} <= {
                "srb.atomic",
                "srb.errors",
                "srb.reasons",
                "srb.files.media_files",
            }
            assert not tops(modules) & FRAMEWORKS


def test_the_tree_knows_no_requests() -> None:
    for name, modules in all_imports().items():
        if package_of(name) == "srb.engine.tree":
            assert {module for module in ours(modules) if package_of(module) != "srb.engine.tree"} <= {
                "srb.engine.model",
                "srb.engine.tokens",
            }


def test_what_serves_the_web_knows_no_more_of_it_than_its_counters() -> None:
    for name, modules in all_imports().items():
        if package_of(name) == "srb.serve":
            assert {module for module in modules if module.startswith("srb.web")} <= {"srb.web.limits"}


def test_pickle_is_not_imported() -> None:
    assert not {"pickle", "marshal", "shelve", "dill"} & tops(set().union(*all_imports().values()))


def starts_a_process(path: Path) -> bool:
    """Whether a file of tests imports what starts processes, or uses `Process` of tests/processes.py."""
    names = {node.id for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Name)}
    return bool(imports_of(path) & {"subprocess", "multiprocessing"}) or "Process" in names


def test_unit_tests_start_no_process() -> None:
    """Such tests belong in tests/process and tests/e2e, since tests/unit has to finish in seconds."""
    paths = sorted((TESTS / "unit").glob("*.py"))
    assert paths
    assert [path.name for path in paths if starts_a_process(path)] == []
    assert starts_a_process(TESTS / "process" / "test_supervisor.py")


def test_nobody_else_lists_the_parameters() -> None:
    files = [path for folder in ("web", "cli", "serve", "fetch") for path in (PACKAGE / folder).rglob("*.py")]
    assert files
    numbers = {each.name for each in PARAMETERS.values() if each.type in (int, float) and each.is_setting}
    for path in [*(PACKAGE / "config").glob("*settings.py"), *(PACKAGE / "wire").glob("*.py"), *files]:
        code = re.sub(r"`[^`]*`", "", path.read_text())  # without what the words about fields name
        named = numbers & set(re.findall(r"\w+", code))
        known = {"temperature", "repeat_penalty"}  # whose defaults differ in the dialects of 2023
        if path == PACKAGE / "web" / "dialects" / "kobold" / "body.py":
            known |= {"min_p", "top_k", "top_n_sigma", "top_p"}  # stages there, which KoboldAI numbers
        if path.parent == PACKAGE / "web" / "dialects" / "responses":
            known |= {"top_p"}  # which a response tells again
        assert named <= known, f"{path} should take them from PARAMETERS"


def test_no_package_imports_one_that_stands_above_it() -> None:
    floors = [next((floor for floor in FLOORS if name in floor), {name}) for name in MAY_IMPORT]
    heights = {name: floors.index(floor) for floor in floors for name in floor}
    for name, imported in MAY_IMPORT.items():
        assert {other for other in imported if heights[other] > heights[name]} == set(), name


def test_no_modules_import_each_other_in_a_circle_also_not_for_their_types() -> None:
    imports = {name: modules - {name} for name, modules in all_imports().items()}
    assert circle_in(imports) == []


def test_a_circle_is_found() -> None:
    assert set(circle_in({"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set()})) == {"a", "b", "c"}
    assert circle_in({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


def circle_in(imports: dict[str, set[str]]) -> list[str]:
    """Return the modules of a circle; none if there is none."""
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_the_frame_of_all_dialects_names_none_of_them() -> None:
    """Apart from llama-server's system prompt, which a worker holds. They are found by the table in srb/extensions.py."""
    naming = {name for name, modules in all_imports().items() if {package_of(each) for each in modules} & DIALECTS}
    frame = {name for name in naming if package_of(name) == "srb.web"}
    assert frame == {"srb.web.context", "srb.web.system_prompt"}


def test_every_call_that_a_route_opens_is_closed_by_a_with_block() -> None:
    opened, in_with = 0, 0
    for path in (PACKAGE / "web" / "dialects").rglob("*.py"):
        nodes = list(ast.walk(ast.parse(path.read_text())))
        managed = [item.context_expr for node in nodes if isinstance(node, ast.With) for item in node.items]
        opened += sum(map(opens_a_call, nodes))
        in_with += sum(map(opens_a_call, managed))
    assert opened == in_with >= 6


def opens_a_call(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func).endswith("calls.open")
