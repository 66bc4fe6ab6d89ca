"""The workers' shared folder: a killed server's goes with the next start, and nothing that a server did not make does."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from srb.serve.shared_folder import make_shared_folder, remove_shared_folder, sweep_shared_folders

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temporary folder of the test's own."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def run(script: str, temporary: Path) -> str:
    environ = os.environ | {"TMPDIR": str(temporary)}
    return subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, env=environ, capture_output=True, text=True, check=True
    ).stdout.strip()


@pytest.fixture
def left(temporary: Path) -> Path:
    """The folder that a server has left: made and locked by a process that has ended."""
    script = "from srb.serve.shared_folder import *; print(make_shared_folder())"
    folder = Path(run(script, temporary))
    assert folder.parent == temporary
    return folder


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}


def test_a_folder_that_is_only_named_like_ours_is_left_alone(temporary: Path) -> None:
    for name in ("srb-web-notes", "srb-web-my_novel", "srb-web-"):
        (temporary / name).mkdir()
        (temporary / name / "my-novel.txt").write_text("Once upon a time")
        (temporary / name / "calls.sqlite").write_text("mine")
    (temporary / "srb-web-abcdefgh").write_text("a file")
    before = files(temporary)
    sweep_shared_folders()
    assert files(temporary) == before


def test_what_a_killed_server_left_is_removed(left: Path) -> None:
    names = [
        "calls.sqlite",
        "rates.sqlite-journal",
        "system_prompt.json",
        "last_scrape.json.12-34.partial",
        "counter_123.db",
        "histogram_123.db",
        "gauge_livesum_123.db",
    ]
    for name in names:
        (left / name).write_bytes(b"x")
    sweep_shared_folders()
    assert not left.exists()


def test_everything_that_workers_write_is_known(left: Path, temporary: Path) -> None:
    script = f"""
import os
from pathlib import Path
os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder = {str(left)!r}
from srb.config.settings import Settings
from srb.web.app import create_app
from srb.web.limits import OpenLimit
OpenLimit(9, Path(folder)).take("a")
app = create_app(Settings(model="fake:", rate_limit=9))
client = app.test_client()
client.post("/completion", json={{"prompt": "a"}})
store = app.extensions["srb"].system_prompt
store.set(store.get())
client.get("/metrics")
print(*os.listdir(folder))
"""
    written = set(run(script, temporary).split())
    assert {"calls.sqlite", "rates.sqlite", "system_prompt.json"} <= written
    assert [name for name in written if name.endswith(".db")]
    sweep_shared_folders()
    assert not left.exists()


def test_foreign_files_in_a_servers_folder_stay(left: Path) -> None:
    (left / "calls.sqlite").write_bytes(b"x")
    (left / "my-novel.txt").write_text("Once upon a time")
    (left / "chapters").mkdir()
    (left / "chapters" / "counter_1.db").write_text("one")
    (left / "rates.sqlite").mkdir()
    sweep_shared_folders()
    assert files(left) == {"my-novel.txt", "chapters/counter_1.db"}
    assert (left / "rates.sqlite").is_dir()
    sweep_shared_folders()
    assert files(left) == {"my-novel.txt", "chapters/counter_1.db"}


def test_links_are_not_followed_and_not_removed(left: Path, temporary: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / ".made-by-srb").touch()
    (home / "calls.sqlite").write_text("mine")
    (temporary / "srb-web-abcdefgh").symlink_to(home)
    (left / "calls.sqlite").symlink_to(home / "calls.sqlite")
    sweep_shared_folders()
    assert files(home) == {".made-by-srb", "calls.sqlite"}
    assert (temporary / "srb-web-abcdefgh").is_symlink()
    assert (left / "calls.sqlite").is_symlink()


def test_a_marker_that_is_a_link_is_not_a_marker(temporary: Path) -> None:
    folder = temporary / "srb-web-abcdefgh"
    folder.mkdir()
    (folder / ".made-by-srb").symlink_to("/dev/null")
    (folder / "calls.sqlite").write_text("mine")
    sweep_shared_folders()
    assert (folder / "calls.sqlite").read_text() == "mine"


def test_another_users_folder_is_left_alone(left: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (left / "calls.sqlite").write_bytes(b"x")
    monkeypatch.setattr(os, "getuid", lambda: left.stat().st_uid + 1)
    sweep_shared_folders()
    assert (left / "calls.sqlite").exists()


def test_a_living_servers_folder_stays_and_goes_with_it(temporary: Path) -> None:
    folder = Path(make_shared_folder())
    (folder / "calls.sqlite").write_bytes(b"x")
    sweep_shared_folders()
    assert (folder / "calls.sqlite").exists()
    remove_shared_folder(str(folder))
    assert not folder.exists()
    remove_shared_folder(str(folder))
    assert list(temporary.iterdir()) == []


def test_foreign_files_stay_when_a_server_ends() -> None:
    folder = Path(make_shared_folder())
    (folder / "my-novel.txt").write_text("Once upon a time")
    remove_shared_folder(str(folder))
    assert files(folder) == {"my-novel.txt"}
