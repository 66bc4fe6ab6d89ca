"""A plugin of pytest, in the environment of a suite: the tests that told.toml names are expected to fail, or left out."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROWS: dict[str, dict[str, Any]] = tomllib.loads(Path(__file__).with_name("told.toml").read_text("utf-8"))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests; raise UsageError for a row that names none where all are collected."""
    suite = ROWS[os.environ["PEER_SUITE"]]
    of_model, skipped, used = suite.get("by_the_model", {}), suite.get("left_out", {}), set()
    fails = {**suite.get("fails", {}), **of_model}
    for item in items:
        name = item.nodeid
        for key, reason in skipped.items():
            if name.startswith(key):
                item.add_marker(pytest.mark.skip(reason=reason))
        for row in (name, name.partition("[")[0]):
            if row in fails:
                used.add(row)
                item.add_marker(pytest.mark.xfail(reason=fails[row], strict=row not in of_model))
                break
    unknown = fails.keys() - used
    if unknown and os.environ["PEER_WHOLE"]:
        raise pytest.UsageError(f"told.toml names tests that are not there: {', '.join(sorted(unknown))}")
