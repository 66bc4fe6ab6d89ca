"""The sources of llama-cpp-python, with llama.cpp's in vendor/llama.cpp, as they were published: from PyPI into build/."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

FOLDER = Path("build/llama-cpp-python")


def pinned() -> str:
    """Return the version that SRB uses."""
    [version] = re.findall(r"llama-cpp-python==(\S+)", Path("setup.cfg").read_text())
    return str(version)


def sources(version: str, fresh: bool = False) -> Path:
    """Return the folder of a version's sources; fetch them if they are missing. Raise CalledProcessError if that fails.

    `fresh`: unpack them again, since somebody may have changed them.
    """
    name = f"llama_cpp_python-{version}"
    archive, unpacked = FOLDER / f"{name}.tar.gz", FOLDER / name
    if not archive.exists():
        pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "download", "--no-deps"]
        wanted = ["--no-binary=llama-cpp-python", f"llama-cpp-python=={version}"]
        subprocess.run([*pip, *wanted, "--dest", str(FOLDER)], check=True)
    if fresh or not (unpacked / "PKG-INFO").exists():
        shutil.rmtree(unpacked, ignore_errors=True)
        with tarfile.open(archive) as opened:
            opened.extractall(FOLDER, filter="data")
    return unpacked.absolute()
