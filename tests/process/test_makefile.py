"""make install: llama.cpp is built for what was asked for last, and not again for the same."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.needs import need

ROOT = Path(__file__).parents[2]
PYTHON = """#!/bin/sh
case "$*" in *llama-cpp-python*) echo "$CMAKE_ARGS" >>built ;; esac
"""


class Clone:
    """A clone of the repository with a Python that notes for what llama.cpp would be built."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("Makefile", "setup.cfg", "pyproject.toml"):
            shutil.copy(ROOT / name, folder)
        shutil.copytree(ROOT / "native", folder / "native")
        python = folder / ".venv/bin/python"
        python.parent.mkdir(parents=True)
        python.write_text(PYTHON)
        python.chmod(0o755)

    def make(self, *words: str, **variables: str) -> list[str]:
        """Run make with words and variables; return the arguments, without those of every build, with which it built."""
        (self.folder / "built").unlink(missing_ok=True)
        kept = {name: value for name, value in os.environ.items() if name not in ("CMAKE_ARGS", "GPU", "MAKEFLAGS")}
        subprocess.run(["make", *words], cwd=self.folder, env={**kept, **variables}, check=True, capture_output=True)
        built = self.folder / "built"
        return (
            [line.partition("llama.cmake'")[2].strip() for line in built.read_text().splitlines()]
            if built.exists()
            else []
        )


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    need(shutil.which("make"), "make")
    return Clone(tmp_path)


def test_another_gpu_and_other_arguments_are_built_and_the_same_are_not_built_again(clone: Clone) -> None:
    assert clone.make("install") == [""]
    assert clone.make("install") == []
    assert clone.make("install", "GPU=cuda") == ["-DGGML_CUDA=on"]
    assert clone.make("install", "GPU=vulkan") == ["-DGGML_VULKAN=on"]
    assert clone.make("install", "GPU=cuda") == ["-DGGML_CUDA=on"]
    assert clone.make("install", "GPU=cuda") == []
    assert clone.make("install", "GPU=cuda", CMAKE_ARGS="-DX='a b' -DY=1") == ["-DGGML_CUDA=on -DX='a b' -DY=1"]
    assert clone.make("install", "GPU=cuda", CMAKE_ARGS="-DX='a b' -DY=1") == []
    assert clone.make("install", CMAKE_ARGS="-DX=1") == ["-DX=1"]
    assert clone.make("install", "GPU=none") == [""]


def test_a_build_stays_where_neither_is_said_also_when_what_it_is_built_by_changes(clone: Clone) -> None:
    clone.make("install", "GPU=rocm", CMAKE_ARGS="-DX=1")
    assert clone.make(".venv/.installed-dev") == []
    os.utime(clone.folder / "native/patches/10-patch-names.patch")
    assert clone.make("install") == ["-DGGML_HIP=on -DX=1"]
    assert clone.make("install") == []


def test_a_python_that_is_too_old_is_refused_before_anything_is_compiled(clone: Clone) -> None:
    old, venv = clone.folder / "python3.10", clone.folder / ".venv"
    shutil.rmtree(venv)
    change = "import sys; sys.version_info = (3, 10, 12, 'final', 0); exec(sys.argv[1])"
    old.write_text(f'#!/bin/sh\n[ "$1" = -c ] && exec {sys.executable} -c "{change}" "$2"\ntouch made\n')
    old.chmod(0o755)
    with pytest.raises(subprocess.CalledProcessError) as caught:
        clone.make("install", f"PYTHON={old}")
    assert f"SRB needs Python 3.11 or newer, and {old} is 3.10" in caught.value.stderr.decode()
    assert not (clone.folder / "made").exists()
    assert not venv.exists()


def test_an_unknown_gpu_is_refused(clone: Clone) -> None:
    with pytest.raises(subprocess.CalledProcessError) as caught:
        clone.make("install", "GPU=voodoo")
    assert b"GPU=voodoo is not known; say cuda, vulkan, rocm, metal or none" in caught.value.stderr
