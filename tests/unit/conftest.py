"""What tests of one process leave behind for those that follow in it: nothing but what each of them would make alike."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from werkzeug.routing import Rule

from srb.web import request_log

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
