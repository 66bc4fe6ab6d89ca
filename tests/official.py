"""The official clients of APIs, connected to an application without sockets."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import httpx2

from srb.config.settings import Settings
from srb.web.app import Application, create_app
from tests.scripted import Script, ScriptedClient, count_to_three

if TYPE_CHECKING:
    import anthropic
    import openai
else:

    class Package:
        """A package that is imported when it is first used: tests that are only listed need no second of it."""

        def __init__(self, name: str) -> None:
            self._name = name

        def __getattr__(self, name: str) -> Any:
            return getattr(import_module(self._name), name)

    anthropic, openai = Package("anthropic"), Package("openai")


def application(script: Script = count_to_three, **settings: Any) -> tuple[Application, ScriptedClient]:
    """Return an application over an engine that plays `script`, and that engine."""
    made = Settings(**settings)
    engine = ScriptedClient(made, script)
    return create_app(made, engine), engine


def openai_over(app: Application, api_key: str = "any") -> openai.OpenAI:
    transport = httpx2.Client(transport=httpx2.WSGITransport(app=app))
    return openai.OpenAI(base_url="http://localhost/v1", api_key=api_key, max_retries=0, http_client=transport)


def anthropic_over(app: Application, api_key: str = "any") -> anthropic.Anthropic:
    transport = httpx2.Client(transport=httpx2.WSGITransport(app=app))
    return anthropic.Anthropic(base_url="http://localhost", api_key=api_key, max_retries=0, http_client=transport)
