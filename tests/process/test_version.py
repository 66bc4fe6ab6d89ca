"""The version: of a clone by its commit, of packages by what they were told when they were built."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.version import Version

from srb import version as module
from srb.version import RELEASE

SOURCE = Path(module.__file__)


def git(folder: Path, *arguments: str, **environ: str) -> None:
    who = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b"}
    own = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    subprocess.run(["git", *arguments], cwd=folder, env=own | who | environ, check=True, capture_output=True)


def commit(folder: Path, time: str) -> None:
    git(folder, "commit", "--allow-empty", "-qam", "x", GIT_COMMITTER_DATE=time)


def said(folder: Path, **environ: str) -> str:
    """Return the version that the copy in `folder` says, in a process of its own."""
    command = [sys.executable, "-c", "from srb.version import version; print(version())"]
    own = {**os.environ, "PYTHONPATH": str(folder), **environ}
    return subprocess.run(command, cwd=folder, env=own, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A folder with a package `srb` that has this version.py."""
    (tmp_path / "srb").mkdir()
    (tmp_path / "srb/__init__.py").write_text("")
    (tmp_path / "srb/version.py").write_text(SOURCE.read_text())
    return tmp_path


@pytest.fixture
def clone(copy: Path) -> Path:
    git(copy, "init", "-q")
    (copy / ".gitignore").write_text("__pycache__\n")
    git(copy, "add", ".")
    commit(copy, "2026-11-27T12:00:00+0000")
    return copy


def test_each_commit_has_a_version_that_is_newer_than_the_last_ones(clone: Path) -> None:
    first = said(clone)
    commit(clone, "2026-11-27T13:00:01+0100")  # a second later, in another place's time
    second = said(clone)
    assert first.startswith(f"{RELEASE}.post20261127120000+g")
    assert second.startswith(f"{RELEASE}.post20261127120001+g")
    assert Version(RELEASE) < Version(first) < Version(second)
    assert not second.endswith("dirty")


def test_changed_files_are_told(clone: Path) -> None:
    (clone / ".gitignore").write_text("__pycache__\nother\n")
    assert said(clone).endswith(".dirty")


def test_a_tagged_commit_has_the_releases_number_alone(clone: Path) -> None:
    git(clone, "tag", f"v{RELEASE}")
    assert said(clone) == RELEASE
    commit(clone, "2026-11-28T12:00:00+0000")
    assert said(clone).startswith(f"{RELEASE}.post20261128120000+g")


def test_settings_of_git_change_nothing(clone: Path) -> None:
    git(clone, "tag", f"v{RELEASE}")
    for name, value in (
        ("log.excludeDecoration", "refs/tags/*"),
        ("log.showSignature", "true"),
        ("color.ui", "always"),
    ):
        git(clone, "config", name, value)
    assert said(clone) == RELEASE


def test_another_tag_is_no_release(clone: Path) -> None:
    git(clone, "tag", f"v{RELEASE}-rc1")
    assert said(clone).startswith(f"{RELEASE}.post2026")


def test_a_hook_of_git_in_another_repository_changes_nothing(
    clone: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = tmp_path_factory.mktemp("other")
    git(other, "init", "-q")
    assert said(clone, GIT_DIR=str(other / ".git")) == said(clone)


def test_a_clone_without_git_says_so(clone: Path) -> None:
    assert said(clone, PATH="/nowhere") == f"{RELEASE}+unknown"


@pytest.mark.parametrize("folder", ["llama_srb-9.8.7.post6+gabc.dist-info/METADATA", "llama_srb.egg-info/PKG-INFO"])
def test_a_package_and_an_archive_say_what_they_were_told_at_their_build(copy: Path, folder: str) -> None:
    file = copy / folder
    file.parent.mkdir()
    file.write_text("Metadata-Version: 2.4\nName: llama-srb\nVersion: 9.8.7.post6+gabc\n")
    assert said(copy) == "9.8.7.post6+gabc"


def test_sources_that_were_told_nothing_say_their_releases_number(copy: Path) -> None:
    assert said(copy) == RELEASE  # and not the version of another installation on the path
