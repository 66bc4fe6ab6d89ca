"""tools/install.py says how far compiling is, keeps all output, and shows what went wrong."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from tools import install as tool
from tools.install import Progress, install, is_made_by

LLAMA = "llama-cpp-python"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _every_phase_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool, "SECONDS_BETWEEN_LINES", 0.0)


def phases(lines: list[str]) -> list[str]:
    progress = Progress(LLAMA)
    seen = []
    for line in lines:
        progress.read(line)
        seen.append(progress.phase)
    return seen


def printing(output: str, status: int = 0) -> list[str]:
    return [sys.executable, "-c", f"import sys; sys.stdout.write({output!r}); sys.exit({status})"]


def test_steps_of_ninja_are_counted() -> None:
    lines = [
        "  *** Configuring CMake...\n",
        "  [1/83] /usr/bin/c++ -O3 -c ggml.c\n",
        "  [83/83] : && /usr/bin/c++ -o libllama.so\n",
    ]
    assert phases(lines) == [
        "configuring llama.cpp",
        "compiling llama.cpp: 1 of 83 steps (1 %)",
        "compiling llama.cpp: 83 of 83 steps (100 %)",
    ]


def test_percentages_of_make_are_shown() -> None:
    assert phases(["  [  7%] Building C object ggml.c.o\n"]) == ["compiling llama.cpp: 7 %"]


def test_a_build_inside_the_build_does_not_turn_the_count_back() -> None:
    assert phases(["[40/83] c++\n", "[1/3] c++\n", "[41/83] c++\n"])[1:] == [
        "compiling llama.cpp: 40 of 83 steps (48 %)",
        "compiling llama.cpp: 41 of 83 steps (49 %)",
    ]


def test_phases_follow_pip_and_not_the_pip_that_pip_starts() -> None:
    lines = [
        "  Installing build dependencies: started\n",
        "    Installing collected packages: pathspec, packaging, scikit-build-core\n",
        "  [83/83] c++\n",
        "  *** Installing project into wheel...\n",
        "Installing collected packages: llama-cpp-python\n",
    ]
    assert phases(lines) == [
        "fetching build tools",
        "fetching build tools",
        "compiling llama.cpp: 83 of 83 steps (100 %)",
        "packing llama.cpp",
        "installing llama-cpp-python",
    ]


def test_each_package_that_is_fetched_is_named() -> None:
    lines = ["Collecting gevent>=26.1\n", "  Collecting flit_core\n", "Installing collected packages: gevent\n"]
    progress = Progress("SRB")
    assert progress.phase == "fetching SRB"
    seen = []
    for line in lines:
        progress.read(line)
        seen.append(progress.phase)
    assert seen == ["fetching gevent", "fetching gevent", "installing SRB"]


def test_without_a_terminal_progress_is_lines_and_the_log_keeps_everything(tmp_path: Path) -> None:
    out, log = io.StringIO(), tmp_path / "build" / "install.log"
    assert install(LLAMA, printing("[1/2] c++ a.cpp\n[2/2] c++ b.cpp\n"), out, log) == 0
    lines = [line.rpartition(",")[0] for line in out.getvalue().splitlines()]
    assert lines == [
        "Fetching llama-cpp-python",
        "Compiling llama.cpp: 1 of 2 steps (50 %)",
        "Compiling llama.cpp: 2 of 2 steps (100 %)",
        "llama-cpp-python is installed",
    ]
    assert log.read_text() == "[1/2] c++ a.cpp\n[2/2] c++ b.cpp\n"


def test_on_a_terminal_one_line_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "20")
    out = Terminal()
    assert install(LLAMA, printing("[1/2] c++ a.cpp\n"), out, tmp_path / "log") == 0
    shown, _, end = out.getvalue().rpartition("\r\x1b[K")
    assert "\n" not in shown
    assert end.startswith("llama-cpp-python is installed")
    assert all(len(text) < 20 for text in shown.split("\r\x1b[K"))


def test_lines_come_at_most_every_thirty_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool, "SECONDS_BETWEEN_LINES", 30.0)
    out = io.StringIO()
    install(LLAMA, printing("".join(f"[{step}/500] c++\n" for step in range(1, 501))), out, tmp_path / "log")
    assert len(out.getvalue().splitlines()) == 2


def test_a_failure_shows_the_output_from_its_first_error_on_and_where_the_rest_is(tmp_path: Path) -> None:
    compiling = "".join(f"[{step}/83] c++ {step}.cpp\n" for step in range(1, 70))
    failure = (
        "FAILED: ops.o\n/usr/bin/c++ -c ops.cpp\nops.cpp:1:1: error: no\n" + "note\n" * 100 + "ninja: build stopped\n"
    )
    out, log = io.StringIO(), tmp_path / "log"
    assert install(LLAMA, printing(compiling + failure, status=3), out, log) == 3
    shown = out.getvalue()
    assert "Failed while compiling llama.cpp: 69 of 83 steps (83 %)" in shown
    assert shown.endswith(f"{failure}The whole output is in {log}.\n")
    assert "c++ 69.cpp" not in shown
    assert log.read_text() == compiling + failure


def test_a_failure_without_a_known_error_shows_the_last_lines(tmp_path: Path) -> None:
    out, log = io.StringIO(), tmp_path / "log"
    assert install(LLAMA, printing("".join(f"line {number}\n" for number in range(100)), status=1), out, log) == 1
    assert "line 60\n" in out.getvalue()
    assert "line 59\n" not in out.getvalue()


def test_output_that_is_no_utf8_does_not_end_the_installation(tmp_path: Path) -> None:
    out, log = io.StringIO(), tmp_path / "log"
    command = [sys.executable, "-c", "import sys; sys.stdout.buffer.write(b'caf\\xe9\\n')"]
    assert install("SRB", command, out, log) == 0
    assert log.read_text() == "caf\\xe9\n"


ARGS = "-DGGML_RPC=ON -DCMAKE_PROJECT_llama_cpp_INCLUDE='/one clone/native/llama.cmake' -DNAME='a b'"
FILES = {"llama.cmake": "recipe", "kernel.cpp": "sums", "shared.h": "kernel", "patches/01-one.patch": "patch"}


def made(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize(
    ("noted", "args", "is_made"),
    [
        ({}, ARGS, True),
        ({}, ARGS.replace("/one clone/", "/another/"), True),
        ({}, f"{ARGS} -DGGML_CUDA=on", False),
        ({}, ARGS.replace("a b", "a"), False),
        ({}, "", False),
        ({"llama.cmake": "another"}, ARGS, False),
        ({"kernel.cpp": "another"}, ARGS, False),
        ({"patches/01-one.patch": "another"}, ARGS, False),
        ({"patches/02-one-more.patch": "patch"}, ARGS, False),
        ({"gone.h": "kernel"}, ARGS, False),
    ],
)
def test_libraries_made_by_other_files_or_arguments_are_told_from_those_of_these(
    tmp_path: Path, noted: dict[str, str], args: str, is_made: bool
) -> None:
    native = made(tmp_path / "native", {**FILES, "README.md": "not by this"})
    made(tmp_path / "lib/native", {**FILES, "arguments.txt": "-DGGML_RPC=ON\n-DNAME=a b", **noted})
    assert is_made_by(native, args, tmp_path / "lib") is is_made


def test_libraries_that_lack_a_file_or_say_nothing_are_another_build(tmp_path: Path) -> None:
    native = made(tmp_path / "native", FILES)
    made(tmp_path / "lib/native", {**FILES, "arguments.txt": ""})
    assert is_made_by(native, "", tmp_path / "lib")
    (tmp_path / "lib/native/shared.h").unlink()
    assert not is_made_by(native, "", tmp_path / "lib")
    assert not is_made_by(native, "", tmp_path / "nothing")
