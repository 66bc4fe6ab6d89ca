"""Tiers of tests: those of each `make test`, the rest, and those of the night."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path

TESTS = Path(__file__).parents[1]

# Folders of whole processes, servers and browsers. Of these the first tier has only what is marked as smoke.
BY_MARK = ("process", "e2e", "page", "real")
CLUSTER = "cluster"  # needs Ray, which another target installs
ELSEWHERE = ("lint", "soak", "runner")  # run by `make lint`, by hand, and not at all


class Tier(StrEnum):
    """A part of all tests."""

    MAIN = "main"  # `make test`: all that is quick, and the main ways of all else
    REST = "rest"  # all others that are not for the night
    ALL = "all"  # both
    NIGHT = "night"  # both, and those marked as long

    def holds(self, folder: str, marks: Iterable[str]) -> bool:
        """Whether a test of a folder below tests/, with these marks, belongs to the tier. Ray's belong to the rest alone."""
        is_main = folder != CLUSTER and (folder not in BY_MARK or "smoke" in marks)
        if "long" in marks:
            return self is Tier.NIGHT and folder != CLUSTER
        return {
            Tier.MAIN: is_main,
            Tier.REST: not is_main,
            Tier.ALL: folder != CLUSTER,
            Tier.NIGHT: folder != CLUSTER,
        }[self]

    def has_whole_files_of(self, folder: str) -> bool:
        """Whether the tier has all tests of a folder's files, or all but those of the night."""
        return self in (Tier.ALL, Tier.NIGHT) or folder not in BY_MARK


def folder_of(file: Path) -> str:
    """Return the name of the folder below tests/ that a test file lies in."""
    return file.relative_to(TESTS).parts[0]


def name_of(file: Path) -> str:
    """Return a test file's name in node ids and tables: `tests/unit/test_text.py`."""
    return file.relative_to(TESTS.parent).as_posix()


def files_of(tier: Tier) -> list[Path]:
    """Return the test files that may hold tests of a tier, by name. Others are not even imported."""
    files = sorted(file for file in TESTS.rglob("test_*.py") if folder_of(file) not in ELSEWHERE)
    files = [file for file in files if file.parent != TESTS / CLUSTER / "e2e"]  # all of them are for the night
    if tier is Tier.REST:
        return [file for file in files if folder_of(file) in (*BY_MARK, CLUSTER)]
    files = [file for file in files if folder_of(file) != CLUSTER]
    if tier is Tier.MAIN:
        return [file for file in files if folder_of(file) not in BY_MARK or "smoke" in file.read_text()]
    return files
