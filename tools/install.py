"""Installation with pip: one line of progress in place of pip's output, also while llama.cpp is compiled.

    python -m tools.install NAME [arguments for pip install]

NAME is what a person reads. Progress is one changing line on a terminal, elsewhere a new line twice a minute. The whole
output of pip and the compiler goes to build/install-NAME.log. If the installation fails, the output is shown from its first
error on.

llama-cpp-python is compiled anew if the one that is installed, or that pip has kept, was made by other files than those in
native/, or with other CMAKE_ARGS.
"""

from __future__ import annotations

import os
import queue
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TextIO

LOGS = Path("build")
LLAMA = "llama-cpp-python"
NATIVE = Path("native")  # by which it is made, and of which it has a copy beside its libraries
SECONDS_BETWEEN_LINES = 30.0  # if the output is not a terminal
LINES_OF_CONTEXT = 40  # shown after a failure without a recognized error line

_INCLUDE = "-DCMAKE_PROJECT_llama_cpp_INCLUDE="  # a path, which is another in each clone
_STEP = re.compile(r"\s*\[(\d+)/(\d+)\]")  # ninja
_PERCENT = re.compile(r"\s*\[ *(\d+)%\]")  # make
_ERROR = re.compile(r"\s*(FAILED: |CMake Error|g?make\S*: \*\*\* |ERROR: |error: )")
_PHASES = [
    (re.compile(r"\s*Installing build dependencies"), "fetching build tools"),
    (re.compile(r"\s*\*\*\* Configuring CMake"), "configuring llama.cpp"),
    (re.compile(r"\s*\*\*\* (Installing|Making)"), "packing llama.cpp"),
]
_PACKAGE = re.compile(r"Collecting ([\w.-]+)")
_LAST_PHASE = re.compile(r"Installing collected packages")


class Progress:
    """The current phase of an installation, read from the output of pip and the build tools."""

    def __init__(self, name: str) -> None:
        self.phase = f"fetching {name}"
        self._name = name
        self._steps = 0

    def read(self, line: str) -> None:
        """Update the phase by one line of output."""
        if step := _STEP.match(line):
            done, steps = int(step[1]), int(step[2])
            # Tools that the build itself needs, as for Vulkan's shaders, have a shorter count of their own.
            if steps >= self._steps:
                self._steps = steps
                self.phase = f"compiling llama.cpp: {done} of {steps} steps ({100 * done // steps} %)"
        elif percent := _PERCENT.match(line):
            self.phase = f"compiling llama.cpp: {percent[1]} %"
        elif package := _PACKAGE.match(line):
            self.phase = f"fetching {package[1]}"
        elif _LAST_PHASE.match(line):
            self.phase = f"installing {self._name}"
        else:
            self.phase = next((phase for pattern, phase in _PHASES if pattern.match(line)), self.phase)


class Display:
    """A changing line with the phase on a terminal; a new line from time to time elsewhere."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._changes = out.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        self._began = time.monotonic()
        self._next = 0.0

    def show(self, phase: str) -> None:
        """Show a phase, unless a line was written a moment ago."""
        now = time.monotonic()
        if now < self._next:
            return
        text = f"{phase[0].upper()}{phase[1:]}, {_duration(now - self._began)}"
        if self._changes:
            self._out.write("\r\x1b[K" + text[: shutil.get_terminal_size().columns - 1])
            self._next = now + 0.1
        else:
            self._out.write(text + "\n")
            self._next = now + SECONDS_BETWEEN_LINES
        self._out.flush()

    def end(self, text: str) -> None:
        """Replace the changing line by a last line with the total time."""
        start = "\r\x1b[K" if self._changes else ""
        self._out.write(f"{start}{text}, {_duration(time.monotonic() - self._began)}\n")
        self._out.flush()


def install(name: str, command: list[str], out: TextIO, log: Path) -> int:
    """Run the installing command, show its progress on `out`, write its output to `log`; return its exit status."""
    log.parent.mkdir(parents=True, exist_ok=True)
    progress, display = Progress(name), Display(out)
    display.show(progress.phase)
    with (
        log.open("w", errors="backslashreplace") as kept,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="backslashreplace"
        ) as process,
    ):
        assert process.stdout
        for line in _lines(process.stdout):
            if line:
                kept.write(line)
                kept.flush()
                progress.read(line)
            display.show(progress.phase)
    if process.returncode:
        display.end(f"Failed while {progress.phase}")
        out.write(f"{_from_the_first_error(log.read_text())}\nThe whole output is in {log}.\n")
    else:
        display.end(f"{name} is installed")
    return process.returncode


def _lines(stream: IO[str]) -> Iterator[str]:
    """Yield the stream's lines as they arrive, and an empty string after each second without a line."""
    lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()

    def read() -> None:
        for line in stream:
            lines.put(line)
        lines.put(None)

    threading.Thread(target=read, daemon=True).start()
    while True:
        try:
            line = lines.get(timeout=1.0)
        except queue.Empty:
            yield ""
            continue
        if line is None:
            return
        yield line


def _from_the_first_error(output: str) -> str:
    """Return the end of an output: from its first error on, or the last lines if no error is recognized."""
    lines = output.splitlines()
    first = next((number for number, line in enumerate(lines) if _ERROR.match(line)), None)
    return "\n".join(lines[-LINES_OF_CONTEXT:] if first is None else lines[first:])


def _duration(seconds: float) -> str:
    minutes, seconds = divmod(int(seconds), 60)
    return f"{minutes} min {seconds:02d} s" if minutes else f"{seconds} s"


def is_made_by(native: Path, cmake_args: str, libraries: Path) -> bool:
    """Whether llama.cpp's libraries in this folder were made by these files and arguments; native/llama.cmake notes them."""
    noted = _files(libraries / "native")
    arguments = [each for each in shlex.split(cmake_args) if not each.startswith(_INCLUDE)]
    return noted.pop("arguments.txt", None) == "\n".join(arguments).encode() and noted == _files(native)


def _files(folder: Path) -> dict[str, bytes]:
    """Return the files of a folder by which llama.cpp is built, with those of the folders in it."""
    found = [path for path in folder.rglob("*") if path.suffix in (".cmake", ".cpp", ".h", ".patch", ".txt")]
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def main() -> int:
    """Install what the command line names."""
    name, *arguments = sys.argv[1:]
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    command = [*pip, "install", "--progress-bar=off", *arguments]
    log = LOGS / f"install-{re.sub(r'[^a-z]+', '-', name.lower())}.log"
    try:
        status = install(name, command, sys.stdout, log)
        libraries = Path(sysconfig.get_path("platlib"), "llama_cpp/lib")
        if name == LLAMA and not status and not is_made_by(NATIVE, os.environ.get("CMAKE_ARGS", ""), libraries):
            print(f"It was made by other files than those in {NATIVE}, or with other CMAKE_ARGS, and is compiled anew.")
            subprocess.run(
                [*pip, "cache", "remove", LLAMA.replace("-", "_")], capture_output=True
            )  # fails if it has none
            status = install(name, [*command, "--force-reinstall"], sys.stdout, log)
        return status
    except KeyboardInterrupt:  # pip was interrupted too, and has ended
        print()
        return 130


if __name__ == "__main__":
    sys.exit(main())
