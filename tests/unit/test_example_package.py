"""The package in examples/package, installed: its dialect and its family are used through the application."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient

from srb.config.settings import Settings
from srb.web.app import create_app
from srb.web.chat.families import family_of
from srb.wire.commands import Generate
from srb.wire.events import Accepted, BranchEnded, Delta, Done, Event
from tests.packages import CLIENTS, EXAMPLE, install_example
from tests.processes import ROOT
from tests.scripted import Script, ScriptedClient, count_to_three


def serve(script: Script = count_to_three, **settings: Any) -> FlaskClient:
    made = Settings(**settings)
    return create_app(made, ScriptedClient(made, script)).test_client()


def test_an_installed_dialect_is_answered_with_its_own_errors_and_described(site: Path) -> None:
    install_example(site)
    http = serve(api_key="secret", dialects="echo,openai")
    key = {"X-Api-Key": "secret"}
    assert http.get("/echo/models", headers=key).json == {"models": ["storyteller"]}
    answer = http.post("/echo/complete", json={"prompt": "x", "n": 2}, headers=key)
    assert answer.json == {"texts": [" 0.0 0.1 0.2", " 1.0 1.1 1.2"]}
    assert http.post("/echo/complete", json={"prompt": 3}, headers=key).json.keys() == {"problem"}
    assert http.get("/echo/nowhere", headers=key).json == {"problem": "File Not Found"}
    refused = http.get("/echo/models")
    assert (refused.status_code, refused.json) == (401, {"problem": "Invalid API Key"})
    document: dict[str, Any] = http.get("/openapi.json", headers=key).json
    assert document["paths"]["/echo/complete"]["post"]["tags"] == ["echo"]
    assert [tag["name"] for tag in document["tags"]] == ["openai", "echo"]
    metrics = http.get("/metrics", headers=key).text
    assert 'route="/echo/complete"' in metrics


def calls(command: Generate) -> Iterable[list[Event]]:
    text = '<echo:think>Oslo?</echo:think><echo:call>{"name": "weather", "arguments": {"city": "Oslo"}}</echo:call>'
    yield [Accepted(command.request_id, 5)]
    yield [Delta(command.request_id, 0, text, [1])]
    yield [BranchEnded(command.request_id, 0, "eos", 1), Done(command.request_id, 5, 2, 1, 10.0, 30.0)]


def test_a_model_of_an_installed_family_calls_tools(site: Path) -> None:
    install_example(site)
    template = "{% for m in messages %}{{ m.content }}{% endfor %}{% if tools %}<echo:call>{{ tools }}{% endif %}"
    http = serve(calls, chat_template=template)
    tool = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
    answer = http.post("/v1/chat/completions", json={"messages": [{"role": "user", "content": "Hi"}], "tools": [tool]})
    message = answer.json["choices"][0]["message"]
    assert message["reasoning_content"] == "Oslo?"
    assert message["tool_calls"][0]["function"] == {"name": "weather", "arguments": '{"city": "Oslo"}'}


def test_without_the_package_there_is_neither(site: Path) -> None:
    assert family_of("<echo:call>", True).name == "hermes"
    assert serve().get("/echo/models").status_code == 404


@pytest.mark.parametrize("module", [EXAMPLE / "srb_echo.py", *CLIENTS.glob("*.py")], ids=lambda path: path.stem)
def test_an_example_imports_only_names_that_are_promised(module: Path) -> None:
    promised = (ROOT / "docs" / "internals" / "extending.md").read_text().partition("## Promises")[2]
    tree = ast.parse(module.read_text())
    imported = [
        (node.module or "", alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    ]
    ours = [(module, name) for module, name in imported if module.partition(".")[0] == "srb"]
    assert len(ours) >= 5
    for origin, name in ours:
        assert f"`{origin.replace('.', '/')}.py`" in promised
        assert f"`{name}" in promised
