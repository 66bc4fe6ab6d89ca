"""The map from the product's folders to the tests that a change there touches has every folder and every test file."""

from __future__ import annotations

from tests.runner import touched
from tests.runner.tiers import TESTS, Tier, files_of, name_of

ROWS = touched.read()


def test_every_package_has_a_row() -> None:
    packages = {path.parent.relative_to(TESTS.parent).as_posix() for path in (TESTS.parent / "srb").rglob("*.py")}
    missing = [each for each in packages if not any(each == row or each.startswith(f"{row}/") for row in ROWS)]
    assert not missing
    assert not [row for row in ROWS if not (TESTS.parent / row).exists()]


def test_every_pattern_has_files_and_every_file_a_pattern() -> None:
    assert not [pattern for patterns in ROWS.values() for pattern in patterns if not touched.matches(pattern)]
    named = {file for patterns in ROWS.values() for pattern in patterns for file in touched.matches(pattern)}
    assert {name_of(file) for file in files_of(Tier.REST)} <= named
