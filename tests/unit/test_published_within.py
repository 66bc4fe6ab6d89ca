"""No field within a field falls through: types of OpenAI's, Anthropic's and Ollama's packages are walked to their leaves.

Each field is sent within the least body that has its place: it changes what the engine is sent or the answer, the body is
refused, or the answer's header has the field's path.
"""

from __future__ import annotations

import re
from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from inspect import isclass
from types import UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    NotRequired,
    Required,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import anthropic.types.beta.message_create_params
import ollama
import openai.types.chat.completion_create_params
import openai.types.responses.response_create_params
import pytest
from pydantic import BaseModel
from typing_extensions import is_typeddict

from srb.config.settings import Settings
from srb.web.app import create_app
from srb.wire.commands import Generate
from tests.scripted import ScriptedClient
from tests.unit.test_published_fields import PUBLISHED, masked
from tests.unit.test_token_fields import with_ends

TEMPLATE = """{% for message in messages %}{{ message.role }}: {{ message.reasoning_content }} {{ message.content }}
{% for call in message.tool_calls %}{{ call.function }}{% endfor %}
{% endfor %}{% for tool in tools %}{{ tool.function.name }} {{ tool.function.description }} {{ tool.function.parameters }}
{% endfor %}{{ reasoning_effort }}{{ enable_thinking }}
{%- if add_generation_prompt %}assistant: {% endif %}"""
WEATHER = {"name": "f", "description": "d", "parameters": {"type": "object", "properties": {"a": {"type": "string"}}}}
# Where the walks begin: a dialect of published_fields.toml, and its package's type of the body.
ROOTS: dict[str, tuple[str, Any]] = {
    "openai_chat": ("openai_chat", openai.types.chat.completion_create_params.CompletionCreateParamsBase),
    "openai_responses": ("openai_responses", openai.types.responses.response_create_params.ResponseCreateParamsBase),
    "anthropic": ("anthropic", anthropic.types.beta.message_create_params.MessageCreateParamsBase),
    "ollama_chat": ("ollama_chat", ollama._types.ChatRequest),
}
# What a field within needs beside it, at the top of the body.
BESIDE: dict[str, dict[str, Any]] = {
    "openai_chat": {"tools": [{"type": "function", "function": WEATHER}]},
    "openai_responses": {"tools": [{"type": "function", **WEATHER}]},
    "anthropic": {"tools": [{"name": "f", "input_schema": WEATHER["parameters"]}]},
}
# Fields of which no header tells, and why nothing is seen of them here.
HELD = {
    "strict": "calls and replies follow their schema in any case",
    "id": "ties a result to its call",
    "call_id": "ties a result to its call",
    "tool_call_id": "ties a result to its call",
    "tool_use_id": "ties a result to its call",
    "type": "says what the object is",
    "format": "of a sound, which no model here reads",
    "tool_name": "ties a result to its tool",
    "input[].name": "ties a result to its tool",
    "input[].namespace": "ties a result to its tool",
    "disable_parallel_tool_use": "a call that is asked for is a single one",
    "index": "the place of a call, which its place in the list has",
}


_LEFT_OUT = re.compile(r"(messages|input|tools)\[\w+\]")  # a whole block, item or tool


class Place(NamedTuple):
    """A type within a body: how the body is made of a value of it, and the path that names the value."""

    kind: Any
    path: str
    body: Callable[[Any], Any]


@cache
def members(kind: Any) -> dict[str, tuple[Any, bool]]:
    """Return the fields of a type, each with its own type, and whether it has to be there."""
    if isclass(kind) and issubclass(kind, BaseModel):
        return {name: (field.annotation, field.is_required()) for name, field in kind.model_fields.items()}
    hints = get_type_hints(kind, include_extras=True)
    total = getattr(kind, "__total__", True)
    return {
        name: (hint, get_origin(hint) is Required or (total and get_origin(hint) is not NotRequired))
        for name, hint in hints.items()
    }


def parts(kind: Any) -> Iterator[Any]:
    """Yield the types of which a value may be, without the wrappers around them."""
    origin = get_origin(kind)
    if origin in (Annotated, Required, NotRequired):
        yield from parts(get_args(kind)[0])
    elif origin in (Union, UnionType):
        for each in get_args(kind):
            yield from parts(each)
    elif kind is not type(None):
        yield kind


def is_object(kind: Any) -> bool:
    return is_typeddict(kind) or (isclass(kind) and issubclass(kind, BaseModel))


def is_list(kind: Any) -> bool:
    origin = get_origin(kind)
    return isclass(origin) and issubclass(origin, Iterable) and not issubclass(origin, dict) and origin is not dict


@cache
def values(kind: Any, label: str) -> list[Any]:
    """Return examples of a type, at least two where it has them; texts have the label, which is a field's own.

    They are the same objects each time, which nobody changes: most of these tests' time went into making them.
    """
    found: list[Any] = []
    for each in parts(kind):
        if get_origin(each) is Literal:
            found += get_args(each)
        elif is_object(each):
            found.append(least(each))
        elif is_list(each) and get_args(each):
            found += [[value] for value in values(get_args(each)[0], label)[:2]]
        else:
            found += {str: [label, f"{label}2"], int: [2, 1], float: [0.5, 1.0], bool: [True, False]}.get(
                each, [{"a": {"b": "c"}}, {}]
            )
    return found


def label_of(kind: Any, name: str) -> str:
    return f"{kind.__name__}{name}"


@cache
def least(kind: Any) -> dict[str, Any]:
    """Return an object of a type with the fields that have to be there."""
    special = {"name": "f", "arguments": "{}"}
    made = {}
    for name, (hint, required) in members(kind).items():
        if required:
            made[name] = (
                special[name] if name in special and str in parts(hint) else values(hint, label_of(kind, name))[0]
            )
    return made


def places(root: Place, seen: set[Any]) -> Iterator[Place]:
    """Yield an object's place, and those of all that it may have within, each type at the first place where it may be."""
    yield root
    for name, (hint, _) in members(root.kind).items():
        for kind in parts(hint):
            inner, in_list = (get_args(kind)[0], True) if is_list(kind) and get_args(kind) else (kind, False)
            for each in parts(inner):
                if is_object(each) and is_typeddict(each) == is_typeddict(root.kind) and each not in seen:
                    seen.add(each)
                    path = f"{root.path}{'.' if root.path else ''}{name}{'[]' if in_list else ''}"

                    def body(value: Any, name: str = name, in_list: bool = in_list, root: Place = root) -> Any:
                        return root.body({**least(root.kind), name: [value] if in_list else value})

                    yield from places(Place(each, path, body), seen)


def rows() -> list[Any]:
    found = []
    for key, (dialect, kind) in ROOTS.items():
        base = PUBLISHED[dialect]["body"]

        def body(value: dict[str, Any], base: dict[str, Any] = base, key: str = key) -> dict[str, Any]:
            given = {name: each for name, each in value.items() if name != "model"}
            beside = [PUBLISHED[key].get("with", {}).get(name, {}) for name in given]
            return {**base, **BESIDE.get(key, {}), **dict(ChainMap(*beside)), **given}

        for place in places(Place(kind, "", body), set()):
            if place.path:
                found.append(
                    pytest.param(dialect, place, id=f"{key}-{place.path}-{getattr(place.kind, '__name__', '')}")
                )
    return found


@cache
def server() -> tuple[Any, ScriptedClient]:
    settings = Settings(seed=3, chat_template=TEMPLATE, context_shift=True)
    engine = ScriptedClient(settings, with_ends)
    return create_app(settings, engine).test_client(), engine


def ask(dialect: str, body: Any) -> tuple[int, Any, list[str]]:
    """Return the status, what the engine is sent and the answer, and the fields that nothing reads."""
    http, engine = server()
    del engine.sent[:]
    answer = http.post(PUBLISHED[dialect]["path"], json=body)
    sent = [masked(each) for each in engine.sent if isinstance(each, Generate)]
    told = answer.headers.get("X-SRB-Ignored", "").split(", ")
    return answer.status_code, (sent, masked(answer.text)), told


@pytest.mark.parametrize(("dialect", "place"), rows())
def test_no_field_within_a_field_falls_through(dialect: str, place: Place) -> None:
    plain = least(place.kind)
    status, without, _ = ask(dialect, place.body(plain))
    assert status in (200, 400, 501)
    if status != 200:
        return  # the object itself is refused
    fallen = []
    for name, (hint, required) in members(place.kind).items():
        path = f"{place.path}.{name}"
        given = [each for each in values(hint, label_of(place.kind, name)) if not required or plain[name] != each]
        if name in HELD or path in HELD or not given:
            continue
        if not any(_is_seen(*ask(dialect, place.body({**plain, name: each})), without, path) for each in given):
            fallen.append(path)
    assert not fallen


def _is_seen(status: int, outcome: Any, told: list[str], without: Any, path: str) -> bool:
    """Whether an answer is a refusal, is another one than without the field, or tells of it or of what it is within."""
    assert status in (200, 400, 501)
    return (
        status != 200 or outcome != without or any(path.startswith(each) or _LEFT_OUT.fullmatch(each) for each in told)
    )


def test_the_walk_reaches_all_fields() -> None:
    assert len(rows()) > 300
    assert "messages[].content[]" in str(rows())


def test_what_is_left_out_of_a_conversation_is_told_by_its_type() -> None:
    blocks = [{"type": "server_tool_use", "id": "a", "name": "web_search", "input": {}}, {"type": "text", "text": "b"}]
    messages = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": blocks},
        {"role": "user", "content": "Ho"},
    ]
    assert ask("anthropic", {"max_tokens": 3, "messages": messages})[2] == ["messages[server_tool_use]"]
    assert ask("openai_responses", {"input": "Hi", "tools": [{"type": "web_search"}]})[2] == ["tools[web_search]"]


def test_a_field_of_a_message_is_named_only_where_the_template_does_not_read_it() -> None:
    messages = [{"role": "user", "content": "Hi", "name": "Ann", "mood": "sad", "gone": None}]
    assert sorted(ask("openai_chat", {"messages": messages})[2]) == ["messages[].mood", "messages[].name"]
    for template in (
        "{% for m in messages %}{{ m.role }} {{ m['mood'] }}{{ m.get('name') }}{% endfor %}",
        "{{ messages[0].role }}{{ messages[0]['mood'] }}{{ messages[0].name }}",
        "{% for m in messages %}{{ m['role'] }}{{ m | tojson }}{% endfor %}",
    ):
        settings = Settings(chat_template=template)
        http = create_app(settings, ScriptedClient(settings, with_ends)).test_client()
        assert "X-SRB-Ignored" not in http.post("/v1/chat/completions", json={"messages": messages}).headers


@pytest.mark.parametrize("is_whole", [False, True])
def test_a_field_of_a_tool_is_named_only_where_the_template_does_not_write_it(is_whole: bool) -> None:
    shown = "tool | tojson" if is_whole else "tool.function.name"
    settings = Settings(chat_template="{% for tool in tools %}{{ " + shown + " }}{% endfor %}{{ messages[0].content }}")
    http = create_app(settings, ScriptedClient(settings, with_ends)).test_client()
    tools = [{"type": "function", "function": {**WEATHER, "defer_loading": True}}]
    answer = http.post("/v1/chat/completions", json={"messages": [{"role": "user", "content": "Hi"}], "tools": tools})
    assert answer.headers.get("X-SRB-Ignored") == (None if is_whole else "tools[].function.defer_loading")
