"""Another version of llama-cpp-python: whether the patches in native/ fit it, it builds, and the contract tests pass.

    python -m tools.try_llama 0.3.37                       the patches alone, in seconds
    python -m tools.try_llama 0.3.37 --build               compile it, too, as `make install` does
    python -m tools.try_llama 0.3.37 --tests               … and run tests/contract with it
    python -m tools.try_llama 0.3.37 --peer URL            … and compare its answers with a llama-server's

The sources come from PyPI into build/llama-cpp-python, where everything stays for the next time. Nothing else is changed:
setup.cfg pins the version that SRB uses. The exit status is 1 if a patch does not fit, or a step fails.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.llama_sources import FOLDER, sources

PATCHES = Path("native/patches")
# The options of bench.differential; the llama-server needs the same, with srb/models/storyteller.gguf and `-c 4096`.
LIKE_PEER = {
    "SRB_N_CTX": "4096",
    "SRB_PARALLEL": "4",
    "SRB_THREADS": "1",
    "SRB_FLASH_ATTN": "off",
    "SRB_CACHE_TYPE_K": "f32",
    "SRB_CACHE_TYPE_V": "f32",
}


@dataclass(frozen=True)
class Trial:
    """A patch on the sources of a version: the reason why it does not fit, or how many lines its places have moved."""

    name: str
    drop_when: str
    reason: str = ""
    moved: int = 0

    def __str__(self) -> str:
        if not self.reason:
            return f"  {self.name:<32} fits" + (
                f", its places have moved by up to {self.moved} lines" if self.moved else ""
            )
        return f"✗ {self.name:<32} {self.reason}\n  {'':<32} it can go when: {self.drop_when}"


def try_patches(llama: Path, patches: Path = PATCHES) -> Iterator[Trial]:
    """Apply each patch to the sources of llama.cpp, one that follows another which does not fit as well."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environ = {**own, "GIT_CEILING_DIRECTORIES": str(llama.absolute().parent), "LC_ALL": "C"}
    for patch in sorted(patches.glob("*.patch")):
        done = subprocess.run(
            ["git", "apply", "--verbose", "--whitespace=nowarn", str(patch.absolute())],
            cwd=llama, env=environ, text=True, stderr=subprocess.PIPE,
        )  # fmt: skip
        lines = done.stderr.splitlines()
        header = patch.read_text().partition("\n---\n")[0]
        drop_when = " ".join(header.partition("\nDrop when: ")[2].split())
        reasons = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
        reason = next((each for each in reasons if each.startswith("patch failed")), reasons[0] if reasons else "")
        # "Hunk #1 succeeded at 12 (offset -3 lines)."
        moved = [abs(int(line.partition("(offset ")[2].split()[0])) for line in lines if "(offset " in line]
        yield Trial(patch.stem, drop_when, reason if done.returncode else "", max(moved, default=0))


def build(version: str) -> Path:
    """Compile a version as `make install` does, into an environment that has this one's packages; return its Python."""
    venv = FOLDER / f"venv-{version}"
    python = venv / "bin/python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    [packages] = venv.glob("lib/python*/site-packages")
    (packages / "try-llama.pth").write_text(f"{sysconfig.get_path('purelib')}\n{Path.cwd()}\n")
    made = subprocess.run(["make", "--silent", "cmake-args"], check=True, capture_output=True, text=True).stdout.strip()
    pip = [python, "-m", "pip", "--disable-pip-version-check", "install", "--no-deps", "--force-reinstall"]
    subprocess.run(
        [*pip, "--verbose", str(sources(version, fresh=True))], check=True, env={**os.environ, "CMAKE_ARGS": made}
    )
    return python.absolute()


def compare(peer: str) -> int:
    """Compare the answers of a server with this Python's llama.cpp with those of a llama-server; return the exit status."""
    from bench.differential.__main__ import main as differential
    from srb.bench.server import server

    with server({**os.environ, **LIKE_PEER}) as url:
        return differential([peer, url])


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.try_llama", description="Try the patches in native/ on another llama-cpp-python."
    )
    parser.add_argument("version", help="of llama-cpp-python, such as 0.3.37")
    parser.add_argument("--build", action="store_true", help="compile it, if all patches fit")
    parser.add_argument("--tests", action="store_true", help="then run tests/contract with it")
    parser.add_argument("--peer", metavar="URL", help="then compare its answers with those of this llama-server")
    options = parser.parse_args()
    trials = list(try_patches(sources(options.version, fresh=True) / "vendor/llama.cpp"))
    print(f"llama-cpp-python {options.version}")
    print(*trials, sep="\n")
    misfits = sum(bool(trial.reason) for trial in trials)
    print(f"{len(trials) - misfits} of {len(trials)} patches fit")
    if misfits:
        return 1
    statuses = [0]
    if options.build or options.tests or options.peer:
        python = build(options.version)
        if options.tests:
            statuses.append(subprocess.run([python, "-m", "pytest", "-q", "tests/contract"]).returncode)
        if options.peer:
            code = "import sys; from tools.try_llama import compare; sys.exit(compare(sys.argv[1]))"
            statuses.append(subprocess.run([python, "-c", code, options.peer]).returncode)
    return max(statuses)


if __name__ == "__main__":
    sys.exit(main())
