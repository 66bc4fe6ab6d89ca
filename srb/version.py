"""The version of this code: a release's number, and between releases also the commit's time and name.

A clone asks git. Archives and installed packages were told at their build, in the metadata that lie beside the package.
"""

import os
import subprocess
from functools import cache
from pathlib import Path

RELEASE = "0.2.0"
# The llama-srb-native for which this code is made: llama-cpp-python's version, and a number that grows with native/.
NATIVE = "0.3.36.1"
_ROOT = Path(__file__).parents[1]


@cache
def version() -> str:
    """Return the version, such as 0.2.0.post20261127134121+g4e7ddf0c; the same as long as the process lives.

    The time makes each commit's version newer than the last one's for pip, also where git has only the newest commit.
    """
    if (_ROOT / ".git").exists():
        return _of_commit()
    from importlib import metadata  # takes 10 ms, which a clone's processes do without

    return next((found.version for found in metadata.distributions(name="llama-srb", path=[str(_ROOT)])), RELEASE)


def _of_commit() -> str:
    try:
        how = ("--no-show-signature", "--no-color", "--abbrev=8", "--date=format-local:%Y%m%d%H%M%S")
        time, name = _git("log", "-1", *how, "--format=%cd %h").split()
        is_tagged = f"v{RELEASE}" in _git("tag", "--points-at", "HEAD").split()
        is_dirty = bool(_git("status", "--porcelain", "--untracked-files=no"))
    except (OSError, subprocess.CalledProcessError, ValueError):  # no git, or no commit
        return f"{RELEASE}+unknown"
    if is_tagged and not is_dirty:
        return RELEASE
    return f"{RELEASE}.post{time}+g{name}{'.dirty' * is_dirty}"


def _git(*arguments: str) -> str:
    # A server may run a clone that belongs to another user, which git would not look at.
    # Without optional locks, since a server that starts must not make a commit beside it fail.
    command = ["git", "--no-optional-locks", "-C", str(_ROOT), "-c", f"safe.directory={_ROOT}", *arguments]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")} | {"TZ": "UTC"}
    return subprocess.run(
        command, env=environ, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True
    ).stdout.rstrip("\n")
