"""What tests of one process leave behind for those that follow in it: nothing but what each of them would make alike."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from werkzeug.routing import Rule

from srb.extensions import forget
from srb.web import request_log
from srb.web.chat.families import families

_compile_builder = Rule._compile_builder
_builders: dict[tuple[Any, ...], Callable[..., tuple[str, str]]] = {}


def _builder(rule: Rule, append_unknown: bool = True) -> Callable[..., tuple[str, str]]:
    """Return the function that makes a route's addresses; it is compiled once for all applications with that route.

    The tests make some thousand applications, and compiling took four fifths of an application's time.
    """
    if rule.defaults:
        return _compile_builder(rule, append_unknown)
    key = (rule.rule, tuple(rule._trace), append_unknown)
    if key not in _builders:
        _builders[key] = _compile_builder(rule, append_unknown)
    return _builders[key]


Rule._compile_builder = _builder  # type: ignore[method-assign]


@pytest.fixture(autouse=True)
def own_refusals(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Count a test's requests without a key apart: a second later a line tells of them, which another test would read."""
    refusals = request_log._Refusals()
    monkeypatch.setattr(request_log, "_refusals", refusals)
    yield
    refusals._more = None


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of installed packages, whose modules are forgotten afterwards."""
    monkeypatch.syspath_prepend(tmp_path)  # which invalidates what was found in folders
    for clear in (forget, families.cache_clear):
        clear()
    yield tmp_path
    for clear in (forget, families.cache_clear):
        clear()
    for path in tmp_path.glob("*.py"):
        sys.modules.pop(path.stem, None)
