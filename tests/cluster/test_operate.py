"""The work of `srb cluster` without a cluster: errors of Serve are told in a line, and do not end what tells them."""

from __future__ import annotations

import pytest

from tests.processes import wait_for

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Ray's own, as it is imported


def test_deploy_tells_on_after_serve_could_not_say_how_it_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    from ray.serve.exceptions import RayServeException

    from srb.cluster import operate

    words = iter(["DEPLOYING", RayServeException("no client"), "RUNNING"])

    def word() -> str:
        if isinstance(each := next(words, "RUNNING"), Exception):
            raise each
        return str(each)

    told: list[str] = []
    monkeypatch.setattr(operate, "_PAUSE", 0.001)
    monkeypatch.setattr(operate, "_word", word)
    with operate._told(told.append):
        wait_for(lambda: told == ["DEPLOYING", "RUNNING"], "both are told")


def test_an_error_of_serve_is_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    from ray import serve
    from ray.serve.exceptions import RayServeException

    from srb.cluster import operate

    def status() -> None:
        raise RayServeException("Client has already been shut down.\nAnd more")

    monkeypatch.setattr(operate, "connect", lambda address: None)
    monkeypatch.setattr(serve, "status", status)
    with pytest.raises(RuntimeError, match=r"^RayServeException: Client has already been shut down\.$"):
        operate.stop("auto")
