"""Which llama.cpp a process loads, where llama-srb-native and llama-cpp-python lie side by side, or one of them, or none."""

from __future__ import annotations

import json
import os
import subprocess
import venv
from pathlib import Path

import pytest

from srb.version import NATIVE
from tests.processes import PYTHON, ROOT
from tools.native_wheel import FOLDER, INFO, write

TELL = """
import json
from srb import native
{first}
libraries = native.libraries()
import srb.engine.llama
try:
    import llama_cpp
    told = {{"name": native.name_of(native.Path(llama_cpp.__file__), llama_cpp.__version__), "file": llama_cpp.__file__}}
except ImportError:
    told = {{"name": "", "file": ""}}
print(json.dumps(told | {{"libraries": str(libraries)}}))
"""


@pytest.fixture
def packages(tmp_path: Path) -> dict[str, Path]:
    """Folders as of site-packages, with blanks and umlauts in their names: SRB's package, and upstream's."""
    found = {"ours": tmp_path / "Bücher und Räume", "upstream": tmp_path / "upstream"}
    for binding in (found["ours"] / "llama_srb_native/llama_cpp", found["upstream"] / "llama_cpp"):
        (binding / "lib").mkdir(parents=True)
        (binding / "__init__.py").write_text('__version__ = "0.3.36"\n')
    (found["ours"] / "llama_srb_native/__init__.py").write_text('__version__ = "0.3.36.1"\n')
    return found


def told(*path: Path, first: str = "") -> dict[str, str]:
    """Return what an engine's process says of its llama_cpp; only these folders, and SRB, are on its path."""
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (*path, ROOT)))}
    script = TELL.format(first=first)
    done = subprocess.run([PYTHON, "-S", "-c", script], env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


@pytest.mark.parametrize("order", [("ours", "upstream"), ("upstream", "ours")])
def test_the_engine_loads_its_own_library_beside_upstreams_whichever_comes_first(
    packages: dict[str, Path], order: tuple[str, ...]
) -> None:
    found = told(*(packages[name] for name in order))
    folder = packages["ours"] / "llama_srb_native/llama_cpp"
    assert found["name"] == "llama-srb-native 0.3.36.1"
    assert Path(found["file"]).parent == folder
    assert Path(found["libraries"]) == folder / "lib"


def test_without_it_the_environments_binding_is_loaded(packages: dict[str, Path]) -> None:
    found = told(packages["upstream"])
    assert found["name"] == "llama-cpp-python 0.3.36"
    assert Path(found["libraries"]) == packages["upstream"] / "llama_cpp/lib"


def test_without_both_nothing_is_loaded() -> None:
    assert told()["libraries"] == "None"


def test_another_program_finds_upstreams(packages: dict[str, Path]) -> None:
    script = "import llama_cpp; print(llama_cpp.__file__)"
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, packages.values()))}
    done = subprocess.run([PYTHON, "-S", "-c", script], env=environ, capture_output=True, text=True, check=True)
    assert Path(done.stdout.strip()).is_relative_to(packages["upstream"])


def test_a_binding_that_was_imported_before_is_told_as_what_it_is(packages: dict[str, Path]) -> None:
    found = told(packages["upstream"], packages["ours"], first="import llama_cpp")
    assert found["name"] == "llama-cpp-python 0.3.36"


def test_pip_installs_it_beside_upstreams_and_takes_it_away_whole(packages: dict[str, Path], tmp_path: Path) -> None:
    """A wheel of a faked library: of the real one only the size would differ."""
    information = f"Metadata-Version: 2.1\nName: llama-srb-native\nVersion: {NATIVE}\n"
    files = {f"{INFO}/METADATA": information, f"{INFO}/WHEEL": "Wheel-Version: 1.0\nTag: py3-none-any\n"}
    for path in (packages["ours"] / FOLDER).rglob("*.py"):
        files[path.relative_to(packages["ours"]).as_posix()] = path.read_text()
    wheel = tmp_path / f"llama_srb_native-{NATIVE}-py3-none-any.whl"
    write(wheel, {name: text.encode() for name, text in files.items()}, 1_700_000_000)
    venv.create(tmp_path / "environment", with_pip=False)
    pip = [PYTHON, "-m", "pip", "--python", str(tmp_path / "environment/bin/python"), "--disable-pip-version-check"]
    [site] = tmp_path.glob("environment/lib/python*/site-packages")
    (site / "llama_cpp").symlink_to(packages["upstream"] / "llama_cpp")
    before = sorted(site.rglob("*"))
    subprocess.run([*pip, "install", "--quiet", "--no-index", wheel], check=True)
    assert told(site)["name"] == "llama-srb-native 0.3.36.1"
    subprocess.run([*pip, "uninstall", "--quiet", "--yes", "llama-srb-native"], check=True)
    assert told(site)["name"] == "llama-cpp-python 0.3.36"
    assert [path for path in sorted(site.rglob("*")) if "__pycache__" not in path.parts] == before
