"""docs/faults.md has every row, and every test that it names exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in (ROOT / "docs/faults.md").read_text().splitlines()
    if re.match(r"\| \d+ \|", line)
]


def named(cell: str) -> list[tuple[str, str]]:
    """Return the path and name of each test in a cell."""
    return re.findall(r"`([\w/.]+\.py)::(\w+)`", cell)


def found_in(path: str) -> set[str]:
    """Return the names of the tests of a file, those of a class that states make into one too."""
    tree = ast.parse((ROOT / path).read_text())
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    targets = [target for node in tree.body if isinstance(node, ast.Assign) for target in node.targets]
    assigned = {target.id for target in targets if isinstance(target, ast.Name)}
    return {name for name in functions | assigned if name.startswith(("test_", "Test"))}


def test_every_row_has_a_case_a_consequence_and_a_test() -> None:
    assert [row[0] for row in ROWS] == [str(number) for number in range(1, len(ROWS) + 1)]
    assert len(ROWS) >= 40
    for number, case, consequence, tests in ROWS:
        assert case, number
        assert consequence, number
        assert named(tests), number


def test_every_test_that_is_named_exists() -> None:
    for row in ROWS:
        for path, name in named(row[3]):
            assert name in found_in(path), f"row {row[0]}: {path}::{name}"


def test_a_test_that_names_a_row_stands_in_that_row() -> None:
    for number, _, _, cell in ROWS:
        for _, name in named(cell):
            found = re.match(r"test_row_(\d+)_", name)
            assert found is None or int(found[1]) == int(number), name
