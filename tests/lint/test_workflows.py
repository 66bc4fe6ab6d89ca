"""The workflows of .github: their actions are those that were looked at, and what they call is there."""

from __future__ import annotations

import re

from tests.processes import ROOT

WORKFLOWS = {path.name: path.read_text() for path in (ROOT / ".github/workflows").glob("*.yml")}


def test_actions_are_named_by_commits_which_nobody_can_move() -> None:
    used = [(name, each) for name, text in WORKFLOWS.items() for each in re.findall(r"uses: (.+)", text)]
    assert len(used) > 10
    assert [each for each in used if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v[\d.]+", each[1])] == []


def test_their_targets_of_make_and_modules_are_there() -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for text in WORKFLOWS.values():
        assert set(re.findall(r"\bmake ([a-z-]+)", text)) <= set(targets)
        for module in re.findall(r"-m (tools\.\w+)", text):
            assert (ROOT / f"{module.replace('.', '/')}.py").exists(), module
