"""The description of the interface as other programs read it: a validator, and a generator that makes a client of it."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from openapi_spec_validator import validate

from tests.servers import Server

pytestmark = pytest.mark.e2e

PACKAGE = "srb_client"


@pytest.fixture(scope="module")
def generated(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of a client that openapi-python-client has made of the server's description."""
    folder = tmp_path_factory.mktemp("generated")
    (folder / "openapi.json").write_text(server.get("/openapi.json?version=3.1").text)
    made = subprocess.run(
        [sys.executable, "-m", "openapi_python_client", "generate", "--path", "openapi.json", "--output-path", "made"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    sys.path.insert(0, str(folder / "made"))
    yield folder / "made"
    sys.path.remove(str(folder / "made"))
    for name in [each for each in sys.modules if each.partition(".")[0] == PACKAGE]:
        del sys.modules[name]


@pytest.mark.parametrize("query", ["", "?version=3.1"])
def test_the_description_is_valid(server: Server, query: str) -> None:
    validate(server.get(f"/openapi.json{query}").json())


def test_a_generated_client_has_a_module_for_each_route_and_reads_the_answers(
    server: Server, generated: Path, request: pytest.FixtureRequest
) -> None:
    described = server.get("/openapi.json?version=3.1").json()["paths"]
    modules = {each.stem for each in (generated / PACKAGE / "api").rglob("*.py") if each.stem != "__init__"}
    assert len(modules) == len({(path, method) for path, methods in described.items() for method in methods})
    client = importlib.import_module(PACKAGE).Client(base_url=server.url)
    request.addfinalizer(client.get_httpx_client().close)
    models = importlib.import_module(f"{PACKAGE}.models")

    def asked(module: str, *, status: int = 200, **values: Any) -> Any:
        answer = importlib.import_module(f"{PACKAGE}.api.{module}").sync_detailed(client=client, **values)
        assert answer.status_code == status, answer.content
        return answer.parsed

    assert asked("default.get_health").status == "ok"
    assert asked("srb.get_v1_srb_server").n >= 1
    body = models.TextCompletionBody.from_dict({"prompt": "Once", "n": 3, "max_tokens": 4, "stream": False})
    assert len(asked("srb.post_v1_srb_completions", body=body).completions) == 3
    assert len(asked("openai.post_v1_completions", body=body).choices) == 3
    said = [{"role": "user", "content": "Hello"}]
    body = models.ChatBody.from_dict({"messages": said, "n": 2, "max_tokens": 4})
    assert [choice.message.role for choice in asked("openai.post_v1_chat_completions", body=body).choices] == [
        "assistant",
        "assistant",
    ]
    body = models.MessagesBody.from_dict({"messages": said, "max_tokens": 4, "model": "any"})
    assert asked("anthropic.post_v1_messages", body=body).role == "assistant"
    body = models.TextCompletionBody.from_dict({"prompt": "Once", "n": 0})
    assert "'n'" in asked("srb.post_v1_srb_completions", status=400, body=body).error.message
