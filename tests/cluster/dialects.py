"""The tests of an end-to-end module, to be run with other servers: those over a cluster."""

from __future__ import annotations

from collections.abc import Collection
from types import ModuleType
from typing import Any


def suite(module: ModuleType, left_out: Collection[str] = ()) -> dict[str, Any]:
    """Return the tests of a module with its fixtures and helpers, without the tests that are left out by name."""
    found = {name: value for name, value in vars(module).items() if not name.startswith("__")}
    for name in left_out:
        del found[name]
    return found
