"""The table of the page's criteria: each has a test, and each test that it names exists."""

from __future__ import annotations

import re
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "page"
ROW = re.compile(r"^\| (\d+) \|[^|]+\|(.+)\|$", re.MULTILINE)
NAME = re.compile(r"`(test_\w+\.py)::(test_\w+)`")


README = (FOLDER / "README.md").read_text(encoding="utf-8")


def criteria() -> dict[int, list[tuple[str, str]]]:
    """The tests of each criterion, by file and name."""
    return {int(number): NAME.findall(tests) for number, tests in ROW.findall(README)}


def test_each_of_the_25_criteria_has_a_test() -> None:
    assert [number for number, tests in criteria().items() if tests] == list(range(1, 26))


def test_each_test_that_the_tables_name_exists() -> None:
    named = set(NAME.findall(README))
    missing = [
        (file, name)
        for file, name in sorted(named)
        if f"def {name}(" not in (FOLDER / file).read_text(encoding="utf-8")
    ]
    assert missing == []
