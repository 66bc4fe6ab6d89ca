"""The map from folders of the product to the test files of whole servers, processes and pages that show what they do."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tests.runner.tiers import TESTS, Tier, files_of, name_of

MAP = Path(__file__).with_name("touched.toml")


def read() -> dict[str, list[str]]:
    """Return by folder (or file) of the product the patterns of test files below tests/."""
    return dict(tomllib.loads(MAP.read_text()))


def touched_by(changed: Iterable[str], rows: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the test files of the rest that a change of these paths touches, by name.

    A path belongs to the row with the longest beginning of it. A test file belongs to itself, and what tests share in a
    folder below tests/ to all files of that folder.
    """
    rest = {name_of(file) for file in files_of(Tier.REST)}
    found: set[str] = set()
    for path in changed:
        row = max((row for row in rows if path == row or path.startswith(f"{row}/")), key=len, default="")
        if path in rest:
            found.add(path)
        elif row:
            found |= {file for pattern in rows[row] for file in matches(pattern)} & rest
        elif path.startswith("tests/") and path.count("/") > 1:
            folder = path.rpartition("/")[0] + "/"
            found |= {file for file in rest if file.startswith(folder)}
    return sorted(found)


def matches(pattern: str) -> list[str]:
    """Return the names of the test files that a pattern below tests/ matches."""
    return [name_of(file) for file in sorted(TESTS.glob(pattern))]
