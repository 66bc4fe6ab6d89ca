"""The differential bench on whole servers: two of the same kind do not differ, and two of different kinds do."""

from __future__ import annotations

import io

import pytest

from bench.differential.__main__ import compare, context_of, main
from bench.differential.cases import cases
from tests.needs import long
from tests.processes import DEADLINE
from tests.servers import MakeServer

pytestmark = pytest.mark.e2e

SMALL = {"n_ctx": 512, "embedding": True}


@pytest.mark.timeout(5 * DEADLINE)
@pytest.mark.parametrize("only", ["/infill", *long("")])
def test_two_servers_with_one_model_do_not_differ(
    make_server: MakeServer, capsys: pytest.CaptureFixture[str], only: str
) -> None:
    first, second = make_server(**SMALL).start(), make_server(**SMALL).start()
    status = main([first.url, second.url, "--only", only])
    said = capsys.readouterr().out.splitlines()
    chosen = [case for case in cases(context_of(first.url)) if only in case.name]
    assert (said, status) == ([f"{len(chosen)} requests: 0 differences told, 0 not told"], 0)


def test_servers_with_different_settings_differ_and_the_places_are_named(make_server: MakeServer) -> None:
    first, second = (
        make_server(**SMALL).start(),
        make_server(**SMALL | {"metrics": False, "default_max_tokens": 3}).start(),
    )
    chosen = [case for case in cases(512) if case.name in ("GET /metrics", "GET /health", "POST /completion: plain")]
    out = io.StringIO()
    told, untold = compare(first.url, second.url, chosen, (), out)
    assert told == 0
    assert untold > 0
    assert "GET /metrics\n        status: A 200, B 501" in out.getvalue()
    assert "GET /health" not in out.getvalue()
