"""Bodies made from /openapi.json, sent to a whole server with a real model: no 500, and the engine lives on."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from srb.config.settings import Settings
from srb.web.app import create_app
from tests.processes import DEADLINE, wait_for
from tests.servers import Server
from tests.walks import examples

pytestmark = pytest.mark.e2e

OLLAMAS = ("/api/generate", "/api/chat")
PLAIN = {"messages": [{"role": "user", "content": "Tell me a story."}]}  # few of the messages made have a sense
SHORT = {"max_tokens": 3, "n_predict": 3, "n": 2, "n_cmpl": 2, "best_of": None, "t_max_predict_ms": 2000}


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A storyteller of this module's own: some bodies change a server, as `system_prompt` does."""
    with Server(tmp_path_factory.mktemp("any-body"), model="storyteller", n_ctx=Settings().n_ctx, threads=1) as server:
        yield server.start()


@cache  # made where these tests run, not where they are only collected
def document() -> Any:
    return schemathesis.openapi.from_wsgi("/openapi.json", create_app(Settings()))


def bodies(path: str) -> st.SearchStrategy[Any]:
    """Return bodies that the document allows for a route; what they leave out is as often absent as not."""
    return document()[path]["POST"].as_strategy().map(lambda case: case.body)


@pytest.mark.timeout(20 * DEADLINE)
@pytest.mark.parametrize(
    "path",
    [
        *("/v1/completions", "/completion", "/v1/chat/completions", "/infill", "/stream"),
        *("/api/generate", "/api/chat", "/api/v1/generate", "/api/extra/generate/stream"),
        *("/v1/responses", "/v1/messages", "/v1/srb/meaning"),
    ],
)
def test_no_body_is_an_internal_error_or_ends_the_engine(own: Server, path: str) -> None:
    engine = own.engine

    @settings(
        max_examples=examples(40), deadline=None, derandomize=True, database=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(body=bodies(path))
    def send(body: Any) -> None:
        if isinstance(body, dict):
            body = {name: value for name, value in body.items() if name not in SHORT} | SHORT
            body |= PLAIN if "messages" in body else {"input": "Tell me a story."} if "input" in body else {}
            if "options" in body or path in OLLAMAS:
                options = body.get("options")
                short = {"num_predict": 3, "n_predict": 3}
                body |= {
                    "model": "storyteller",
                    "options": {**options, **short} if isinstance(options, dict) else short,
                }
        response = requests.post(own.url + path, json=body, timeout=DEADLINE)
        assert response.status_code in (200, 400, 501), f"{response.status_code}: {response.text[:1000]}"

    send()
    assert own.engine == engine
    wait_for(lambda: own.metric("requests_processing") == 0, "nothing runs any more")
