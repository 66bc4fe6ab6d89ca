"""When the files of the rest ran last, so that each gets its turn where there is no time for all of them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import orjson

from tests.runner.tiers import TESTS
from tests.runner.times import Times

TURNS = 4  # runs after which each test has run once, where one run has time for a quarter of them


def path() -> Path:
    """Return the path of the file that runs leave for later ones, outside of the checkout: a fresh clone finds it, too."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("TEST_RUNS") or Path(cache, "srb", "test-runs.json"))


def read() -> dict[str, int]:
    """Return by file the number of the run in which it was last run whole; nothing where no run was recorded."""
    return dict(orjson.loads(path().read_bytes())) if path().exists() else {}


def note(files: Iterable[str]) -> None:
    """Record that files have been run whole, after all that were run before."""
    before = read()
    number = max(before.values(), default=0) + 1
    path().parent.mkdir(parents=True, exist_ok=True)
    partial = path().with_suffix(".partial")
    partial.write_bytes(orjson.dumps(before | dict.fromkeys(files, number), option=orjson.OPT_INDENT_2))
    partial.replace(path())


def in_turn(files: Sequence[str], last: Mapping[str, int], commit: int, times: Times) -> list[str]:
    """Return files in the order in which they should run: those that have not run for longest first.

    Where nothing is recorded the commit's number decides: the files are dealt into TURNS hands of about equal time, and
    each commit begins with the next hand.
    """
    hands: list[list[str]] = [[] for _ in range(TURNS)]
    seconds = [0.0] * TURNS
    longest_first = sorted(files, key=lambda file: (-times.seconds(file), file))
    for file in longest_first:
        least = seconds.index(min(seconds))
        hands[least].append(file)
        seconds[least] += times.seconds(file)
    dealt = [file for turn in range(TURNS) for file in hands[(commit + turn) % TURNS]]
    return sorted(dealt, key=lambda file: last.get(file, 0))


def commit_number() -> int:
    """Return the number of commits up to this one; 0 outside of a clone."""
    done = _git("rev-list", "--count", "HEAD")
    return int(done) if done else 0


def changed_files() -> list[str]:
    """Return the paths that differ from the branch that this work goes to, or else from a day before the last commit."""
    base = os.environ.get("TEST_BASE") or _git("merge-base", "HEAD", "origin/main")
    if not base or base == _git("rev-parse", "HEAD"):
        day_before = int(_git("log", "-1", "--format=%ct") or 0) - 24 * 3600
        base = _git("rev-list", "-1", f"--before={day_before}", "HEAD")
    if not base:
        return []
    committed = _git("diff", "--name-only", base).splitlines()
    return sorted({*committed, *_git("ls-files", "--others", "--exclude-standard").splitlines()})


def _git(*words: str) -> str:
    """Return what git says, or nothing where it cannot."""
    done = subprocess.run(["git", *words], cwd=TESTS.parent, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""
