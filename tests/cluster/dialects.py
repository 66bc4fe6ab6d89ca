"""The end-to-end suites of the srb and openai dialects, to be run with other servers: those over a cluster."""

from __future__ import annotations

from inspect import signature
from typing import Any

from tests.e2e import test_openai_clients, test_srb_dialect

_MODELS = ("tiny", "storyteller")  # fixtures, by the order in which a module's tests use them


def suite() -> dict[str, Any]:
    """Return all tests that need no server of their own, those over the same model together, and the fixture of a client."""
    found: dict[str, Any] = {}
    for model in _MODELS:
        for module in (test_srb_dialect, test_openai_clients):
            for name, test in vars(module).items():
                if name.startswith("test_") and model == _model_of(test):
                    assert name not in found, f"two tests are named {name}"
                    found[name] = test
    return {**found, "client": test_openai_clients.client}


def _model_of(test: Any) -> str:
    """Return the fixture of a test's server; "" if it makes its own."""
    used = signature(test).parameters
    if "make_server" in used:
        return ""
    [model] = {"tiny" if name == "client" else name for name in used} & {*_MODELS}
    return model
