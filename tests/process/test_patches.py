"""native/llama.cmake and tools/try_llama.py: a build has all patches, or none on purpose; one that does not fit is told."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.needs import need
from tools.try_llama import try_patches

NATIVE = Path(__file__).parents[2] / "native"

OLD = "begin\nfirst\nold  \nlast\nend\n"


def patch(name: str, line: str, new: str) -> str:
    return f"""Subject: [PATCH] {name}

---
diff --git a/ggml/src/ggml-cpu/{name}.cpp b/ggml/src/ggml-cpu/{name}.cpp
--- a/ggml/src/ggml-cpu/{name}.cpp
+++ b/ggml/src/ggml-cpu/{name}.cpp
@@ -2,3 +2,3 @@
 first
-{line}
+{new}
 last
"""


class Sources:
    """llama-cpp-python with two source files, and SRB's recipe with a patch for each."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.native = folder, folder / "srb/native"
        self.cpu = folder / "vendor/llama.cpp/ggml/src/ggml-cpu"
        self.cpu.mkdir(parents=True)
        (folder / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.21)\nproject(llama_cpp NONE)\n")
        (self.native / "patches").mkdir(parents=True)
        shutil.copy(NATIVE / "llama.cmake", self.native)
        (self.native / "added.h").write_text("// added\n")
        for number, name in ((1, "one"), (2, "two")):
            (self.cpu / f"{name}.cpp").write_text(OLD)
            (self.native / f"patches/0{number}-{name}.patch").write_text(patch(name, "old  ", "new  "))

    def configure(self, *words: str, **variables: str) -> str:
        """Let CMake configure the sources; return its output. Raise CalledProcessError with it."""
        include = f"-DCMAKE_PROJECT_llama_cpp_INCLUDE={self.native}/llama.cmake"
        command = ["cmake", "-S", str(self.folder), "-B", str(self.folder / "build"), include, *words]
        done = subprocess.run(
            command,
            check=True,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, **variables},
        )
        return done.stdout

    def texts(self) -> dict[str, str]:
        return {path.name: path.read_text() for path in self.cpu.iterdir()}


NEW = {"one.cpp": OLD.replace("old", "new"), "two.cpp": OLD.replace("old", "new"), "added.h": "// added\n"}
NAMES = {"srb_patches.h": '#define SRB_PATCHES "one,two"\n'}


@pytest.fixture
def sources(tmp_path: Path) -> Sources:
    need(shutil.which("cmake"), "cmake")
    need(shutil.which("git"), "git")
    return Sources(tmp_path)


def test_the_patches_are_applied_once_and_the_sources_tell_their_names(sources: Sources) -> None:
    arguments = f"-DX='a b' -DCMAKE_PROJECT_llama_cpp_INCLUDE='{sources.native}/llama.cmake'"
    for _ in range(2):
        assert "SRB's patches of llama.cpp: one,two" in sources.configure(CMAKE_ARGS=arguments)
        assert sources.texts() == NEW | NAMES
    assert (sources.folder / "build/native/arguments.txt").read_text() == "-DX=a b"
    assert (sources.folder / "build/native/patches/01-one.patch").exists()


@pytest.mark.parametrize("changed", [OLD.replace("old  ", "older"), "", OLD.replace("old  ", "old")])
def test_a_patch_that_does_not_fit_ends_the_build_and_is_named(sources: Sources, changed: str) -> None:
    (sources.cpu / "two.cpp").write_text(changed)
    with pytest.raises(subprocess.CalledProcessError) as caught:
        sources.configure()
    assert "CMake Error" in caught.value.stdout
    told = " ".join(caught.value.stdout.split())
    assert "02-two.patch does not fit this llama.cpp" in told
    assert "patch failed: ggml/src/ggml-cpu/two.cpp" in told or "error: " in told
    assert not (sources.cpu / "srb_patches.h").exists()


def test_without_patches_the_sources_are_as_they_were_and_tell_no_names(sources: Sources) -> None:
    before = sources.texts()
    assert "llama.cpp is built without SRB's patches" in sources.configure("-DUNPATCHED_LLAMA=ON")
    assert sources.texts() == before


def test_sources_with_another_version_of_a_patch_are_refused(sources: Sources) -> None:
    sources.configure()
    (sources.native / "patches/01-one.patch").write_text(patch("one", "new  ", "newer"))
    with pytest.raises(subprocess.CalledProcessError) as caught:
        sources.configure()
    assert "another version of the patch 01-one" in " ".join(caught.value.stdout.split())


def test_patches_are_applied_in_any_repository_and_whatever_its_user_has_configured(
    sources: Sources, tmp_path: Path
) -> None:
    config = tmp_path / "gitconfig"
    config.write_text("[apply]\n\twhitespace = error\n[core]\n\tautocrlf = true\n")
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    (tmp_path / ".gitignore").write_text("vendor\n")
    sources.configure(GIT_CONFIG_GLOBAL=str(config), GIT_DIR=str(tmp_path / ".git"), GIT_WORK_TREE=str(tmp_path))
    assert sources.texts() == NEW | NAMES


# ---- tools/try_llama.py


def test_each_patch_is_tried_on_another_version_and_one_that_does_not_fit_is_told(sources: Sources) -> None:
    (sources.cpu / "one.cpp").write_text("before\n" * 7 + OLD)
    (sources.cpu / "two.cpp").write_text(OLD.replace("old", "older"))
    shutil.copy(sources.native / "patches/01-one.patch", sources.native / "patches/03-last.patch")
    two = sources.native / "patches/02-two.patch"
    two.write_text(two.read_text().replace("\n---\n", "\nDrop when: there is no two\n---\n", 1))
    one, missing, last = try_patches(sources.folder / "vendor/llama.cpp", sources.native / "patches")
    assert (one.name, one.reason, one.moved) == ("01-one", "", 7)
    assert missing.reason == "patch failed: ggml/src/ggml-cpu/two.cpp:2"
    assert str(missing).endswith("it can go when: there is no two")
    assert last.reason, "the first one has changed its text"
    assert sources.texts()["one.cpp"] == "before\n" * 7 + OLD.replace("old", "new")
    assert sources.texts()["two.cpp"] == OLD.replace("old", "older")
