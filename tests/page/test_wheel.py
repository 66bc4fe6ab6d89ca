"""The wheel has the whole page and every command: installed alone, it serves, measures and examines."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sysconfig
import venv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from zipfile import ZipFile

import pytest
import requests

from srb.web.page_files import served as as_served
from tests.page.module_graph import module_graph
from tests.processes import DEADLINE, PYTHON, ROOT, Process, clean_environ, wait_for
from tests.servers import Server, free_port

pytestmark = pytest.mark.e2e

PAGE = ROOT / "srb" / "page"
SOURCES = ("srb", "config", "tools", "setup.cfg", "pyproject.toml", "README.md", "LICENSE")
SERVE = """
import runpy
import sys
from werkzeug.serving import run_simple
from srb.config.settings import Settings
from srb.web.app import create_app

ScriptedClient = runpy.run_path(sys.argv[2])["ScriptedClient"]  # by its path: beside it are the sources
settings = Settings()
run_simple("127.0.0.1", int(sys.argv[1]), create_app(settings, ScriptedClient(settings)))
"""


def run(*command: object, timeout: float = DEADLINE, **options: object) -> str:
    """Run a program and return its output; where it fails, the test shows that."""
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, timeout=timeout, **options)  # type: ignore[call-overload]
    assert done.returncode == 0, done.stdout + done.stderr
    return str(done.stdout)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy, since a build leaves files behind that the next one takes in."""
    folder = tmp_path_factory.mktemp("wheel")
    for name in SOURCES:
        source = ROOT / name
        copy = shutil.copytree if source.is_dir() else shutil.copy
        copy(source, folder / name)
    run(PYTHON, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index", "-w", folder / "dist", folder)
    [wheel] = (folder / "dist").glob("*.whl")
    return wheel


@dataclass(frozen=True)
class Alone:
    """The installed wheel: a folder with a virtual environment, and variables by which it finds what SRB depends on."""

    folder: Path
    environ: dict[str, str]

    def program(self, name: str) -> Path:
        return self.folder / "venv" / "bin" / name

    def srb(self, *arguments: object) -> str:
        """Run the command `srb`, in a folder without sources; return its output."""
        return run(self.program("srb"), *arguments, timeout=2 * DEADLINE, env=self.environ, cwd=self.folder)


@pytest.fixture(scope="module")
def alone(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Alone:
    """The wheel in an environment of its own; only what SRB depends on is ours."""
    folder = tmp_path_factory.mktemp("installed")
    environ = clean_environ() | {"PYTHONPATH": sysconfig.get_path("purelib"), "XDG_CACHE_HOME": str(folder / "cache")}
    alone = Alone(folder, environ)
    venv.create(folder / "venv")
    python = alone.program("python")
    run(PYTHON, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", wheel)
    where = run(python, "-P", "-c", "import srb; print(srb.__file__)", env=alone.environ, cwd=folder)
    assert Path(where).is_relative_to(folder)
    return alone


@pytest.fixture(scope="module")
def installed(alone: Alone) -> Iterator[str]:
    """The address of a server that runs from the installed wheel."""
    port = free_port()
    url = f"http://127.0.0.1:{port}/"
    command = [alone.program("python"), "-P", "-c", SERVE, port, ROOT / "tests" / "scripted.py"]
    with Process(command, alone.environ, alone.folder / "log") as server:
        wait_for(lambda: server.popen.poll() is not None or _answers(url), "the installed server answers")
        yield url


def _answers(url: str) -> bool:
    try:
        return requests.get(url, timeout=DEADLINE).ok
    except requests.ConnectionError:
        return False


def fetch(url: str) -> bytes:
    response = requests.get(url, timeout=DEADLINE)
    assert response.status_code == 200, url
    return response.content


def name_of(url: str) -> str:
    """Return a file's name below the page's folder, without its edition."""
    return re.sub(r".*/page/(?:~\w+/)?", "", url)


def test_the_wheel_has_every_file_of_the_page_but_for_those_that_are_about_it(wheel: Path) -> None:
    prefix = "srb/page/"
    packed = {name.removeprefix(prefix) for name in ZipFile(wheel).namelist() if name.startswith(prefix)}
    files = {path.relative_to(PAGE).as_posix() for path in PAGE.rglob("*") if path.is_file()}
    assert packed == {name for name in files if not name.endswith((".d.ts", "README.md"))}


def test_every_module_that_the_document_leads_to_is_served_from_the_wheel(installed: str) -> None:
    served = {name_of(url): content for url, content in module_graph(installed, fetch).items()}
    assert {"main.js", "page.css", "icon.svg", "vendor/lit.js"} <= served.keys()
    for name, content in served.items():
        assert content == as_served(PAGE / name), name


def test_each_library_in_the_wheel_has_the_checksum_of_the_table(installed: str) -> None:
    versions = json.loads(fetch(f"{installed}page/vendor/versions.json"))
    assert versions
    for name, entry in versions.items():
        assert hashlib.sha256(fetch(f"{installed}page/vendor/{name}")).hexdigest() == entry["sha256"], name


def test_the_benchmark_of_the_wheel_starts_the_wheels_server(alone: Alone) -> None:
    said = json.loads(alone.srb("bench", "--quick", "--branches", "2", "--json", "-t", 1))
    assert said["model"] == "storyteller"
    assert [row["n"] for row in said["rows"]] == [1, 2]
    assert all(row["tokens_per_second"] > 0 for row in said["rows"])


def test_the_doctor_of_the_wheel_finds_the_wheels_model(alone: Alone) -> None:
    said = json.loads(alone.srb("doctor", "--json"))
    assert Path(said["model"]["path"]).is_relative_to(alone.folder)
    assert all(found["change"] for found in said["findings"])


def test_the_wheel_has_the_files_that_a_deployment_needs(alone: Alone) -> None:
    config = ROOT / "config"
    files = [path.relative_to(config).as_posix() for path in config.rglob("*") if path.is_file()]
    assert alone.srb("config", "--list").split() == sorted(files)
    assert alone.srb("config", "srb.service") == (config / "systemd/srb.service").read_text()


def test_every_module_of_the_page_is_reached_from_the_document(server: Server) -> None:
    reached = {name_of(url) for url in module_graph(server.url + "/", fetch)}
    modules = {path.relative_to(PAGE).as_posix() for path in PAGE.rglob("*.js") if path.name != "types.js"}
    assert modules - reached == set(), "modules that nothing imports"
