"""The sdist and the wheel of a commit, the same bytes whoever makes them: `python -m tools.dist [FOLDER]`, by default dist/.

Both are made of a clone, so that nothing else in the working folder gets into them. Times are the commit's, or those of
SOURCE_DATE_EPOCH; the sdist's entries are sorted, and have no owners and no modes of whoever made it. The wheel is made of
the sdist, and names the version of setuptools, which may still differ.
"""

from __future__ import annotations

import gzip
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]


def make(target: Path, source: Path = ROOT) -> tuple[Path, Path]:
    """Make both of the newest commit of `source`; return their paths. Raise CalledProcessError."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _run(source, "git", "clone", "--quiet", "--no-hardlinks", str(source), str(folder / "clone"))
        epoch = (
            os.environ.get("SOURCE_DATE_EPOCH") or _run(folder / "clone", "git", "log", "-1", "--format=%ct").strip()
        )
        target.mkdir(parents=True, exist_ok=True)
        made = _hook("sdist", folder / "clone", folder / "made", epoch)
        sdist = target / made.name
        normalise(made, sdist, int(epoch))
        with tarfile.open(sdist) as archive:
            archive.extractall(folder / "sdist", filter="data")
        [unpacked] = (folder / "sdist").iterdir()
        wheel = _hook("wheel", unpacked, folder / "made", epoch)
        return sdist, Path(shutil.move(wheel, target / wheel.name))


def _hook(kind: str, source: Path, target: Path, epoch: str) -> Path:
    """Have setuptools make an sdist or a wheel, as pip does; return its path."""
    target.mkdir(exist_ok=True)
    code = f"import sys; from tools import backend; print(backend.build_{kind}(sys.argv[1]))"
    printed = _run(source, sys.executable, "-c", code, str(target), SOURCE_DATE_EPOCH=epoch, PYTHONPATH="")
    return target / printed.splitlines()[-1]


def normalise(made: Path, target: Path, epoch: int) -> None:
    """Write an archive again, with sorted entries of that time, without owners, and with the modes 644 and 755."""
    written = io.BytesIO()
    with tarfile.open(made) as given, tarfile.open(fileobj=written, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for entry in sorted(given.getmembers(), key=lambda entry: entry.name):
            entry.mtime, entry.uid, entry.gid, entry.uname, entry.gname = epoch, 0, 0, "", ""
            entry.mode = 0o755 if entry.isdir() or entry.mode & 0o100 else 0o644
            entry.pax_headers = {}
            archive.addfile(entry, given.extractfile(entry) if entry.isfile() else None)
    target.write_bytes(gzip.compress(written.getvalue(), mtime=epoch))


def _run(folder: Path, *command: str, **environ: str) -> str:
    own = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")} | environ | {"TZ": "UTC"}
    done = subprocess.run(command, cwd=folder, env=own, umask=0o022, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout


if __name__ == "__main__":
    for path in make(Path(*sys.argv[1:] or ["dist"]).absolute()):
        print(path)
