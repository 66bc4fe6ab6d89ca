"""No field of a description that another server publishes falls through: it has an effect, is refused, or is named."""

from __future__ import annotations

import re
import tomllib
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import anthropic.types.beta.message_create_params
import ollama
import openai.types.chat.completion_create_params
import openai.types.completion_create_params
import openai.types.responses.response_create_params
import pytest
from flask.testing import FlaskClient

from srb.config.settings import Settings
from srb.web.app import create_app
from srb.wire.commands import Generate
from tests.scripted import ScriptedClient
from tests.unit.test_token_fields import with_ends

PUBLISHED: dict[str, dict[str, Any]] = tomllib.loads(
    Path(__file__).with_name("published_fields.toml").read_text("utf-8")
)
TEMPLATE = """{% for message in messages %}{{ message.role }}: {{ message.content }}
{% endfor %}{{ tools }}{{ reasoning_effort }}{{ enable_thinking }}{{ documents }}{{ mood }}
{%- if add_generation_prompt %}assistant: {% endif %}"""
_OWN = re.compile(
    r'"(id|item_id|created|created_at|completed_at|\w*_duration|\w+_ms|\w+_per_second)": ?("[^"]*"|[0-9.]+)'
)


def rows(kind: str) -> list[Any]:
    return [
        pytest.param(each, name, value, id=f"{dialect}-{name}")
        for dialect, each in PUBLISHED.items()
        for name, value in each.get(kind, {}).items()
    ]


@cache
def serve() -> tuple[FlaskClient, ScriptedClient]:
    settings = Settings(seed=3, chat_template=TEMPLATE, context_shift=True)
    engine = ScriptedClient(settings, with_ends)
    return create_app(settings, engine).test_client(), engine


def bodies(dialect: dict[str, Any], name: str, value: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a body without the field and one with it."""
    base = {**dialect["body"], **dialect.get("with", {}).get(name, {})}
    within = dialect.get("within")
    return base, {**base, within: {**base[within], name: value}} if within else {**base, name: value}


def masked(given: Any) -> Any:
    """Return a command, or an answer's text, without its ids and times, which each has its own of."""
    return _OWN.sub("", given) if isinstance(given, str) else replace(given, request_id="")


def outcome(dialect: dict[str, Any], body: dict[str, Any]) -> tuple[Any, str, str]:
    """Return what the engine is sent, the answer, and the header of fields without effect."""
    http, engine = serve()
    del engine.sent[:]
    answer = http.post(dialect["path"], json=body)
    assert answer.status_code == 200, answer.text
    sent = [masked(each) for each in engine.sent if isinstance(each, Generate)]
    return sent, masked(answer.text), answer.headers.get("X-SRB-Ignored", "")


def named(dialect: dict[str, Any], name: str) -> str:
    return f"{dialect['within']}.{name}" if "within" in dialect else name


@pytest.mark.parametrize(("dialect", "name", "value"), rows("effect"))
def test_a_field_has_an_effect(dialect: dict[str, Any], name: str, value: Any) -> None:
    without, given = (outcome(dialect, body) for body in bodies(dialect, name, value))
    assert given[:2] != without[:2]
    assert given[2] == ""


@pytest.mark.parametrize(("dialect", "name", "value"), rows("ignored"))
def test_a_field_without_effect_is_named_in_the_answers_header(dialect: dict[str, Any], name: str, value: Any) -> None:
    without, given = (outcome(dialect, body) for body in bodies(dialect, name, value))
    assert given[2] == named(dialect, name)
    assert given[:2] == without[:2]


@pytest.mark.parametrize(("dialect", "name", "value"), rows("refused"))
def test_a_field_that_cannot_be_honoured_is_refused_by_its_name(dialect: dict[str, Any], name: str, value: Any) -> None:
    http, engine = serve()
    del engine.sent[:]
    answer = http.post(dialect["path"], json=bodies(dialect, name, value)[1])
    assert answer.status_code in (400, 501)
    assert f"'{name}'" in answer.text or f'"{name}"' in answer.text
    assert not any(isinstance(each, Generate) for each in engine.sent)


@pytest.mark.parametrize(
    ("dialect", "names"),
    [
        ("openai_chat", openai.types.chat.completion_create_params.CompletionCreateParamsBase.__annotations__),
        ("openai_text", openai.types.completion_create_params.CompletionCreateParamsBase.__annotations__),
        ("openai_responses", openai.types.responses.response_create_params.ResponseCreateParamsBase.__annotations__),
        ("anthropic", anthropic.types.beta.message_create_params.MessageCreateParamsBase.__annotations__),
        ("ollama_generate", ollama._types.GenerateRequest.model_fields),
        ("ollama_chat", ollama._types.ChatRequest.model_fields),
        ("ollama_options", ollama.Options.model_fields),
    ],
)
def test_the_fields_of_a_package_are_all_here(dialect: str, names: Any) -> None:
    listed = {name for kind in ("effect", "refused", "ignored") for name in PUBLISHED[dialect].get(kind, {})}
    assert set(names) - listed <= {"model"}  # which any server with one model takes


def test_every_published_list_is_walked() -> None:
    assert len(PUBLISHED) == 12
    assert all(each.keys() & {"effect", "ignored"} for each in PUBLISHED.values())
