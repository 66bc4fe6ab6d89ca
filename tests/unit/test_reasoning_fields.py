"""Every dialect's words for whether, and how much, a model shall think: each reaches the template and the budget."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from srb.config.settings import Settings
from srb.web.app import create_app
from srb.web.chat.template import ChatTemplate, Conversation
from srb.wire.commands import Generate
from tests.scripted import ScriptedClient
from tests.unit.test_web_chat import USER, serve

TEMPLATE = "{{ enable_thinking }} {{ reasoning_effort }} {{ reasoning_strength }} {{ thinking }} {{ thinking_budget }}"
CHAT, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/responses", "/v1/messages"
OLLAMA, OLLAMA_TEXT = "/api/chat", "/api/generate"
BASE: dict[str, dict[str, Any]] = {
    CHAT: {"messages": [USER]},
    RESPONSES: {"input": "Hi"},
    MESSAGES: {"messages": [USER], "max_tokens": 9},
    OLLAMA: {"model": "storyteller", "messages": [USER], "stream": False},
    OLLAMA_TEXT: {"model": "storyteller", "prompt": "Hi", "stream": False},
}


def asked(path: str, **fields: Any) -> tuple[str, int]:
    """Return the prompt, which has the template's variables, and the budget of a request with these fields."""
    http, engine = serve(chat_template=TEMPLATE)
    answer = http.post(path, data=orjson.dumps({**BASE[path], **fields}))
    assert answer.status_code == 200, answer.data
    [command] = [each for each in engine.sent if isinstance(each, Generate)]
    parts = [bytes([part]) if isinstance(part, int) else part.encode() for part in command.prompt]
    text = b"".join(parts).decode().removeprefix("\x01")  # the BOS, a token of the scripted engine
    return text, command.branches[0].sampling.reasoning_budget_tokens


NOTHING = ("True    ", -1)
OFF = ("False   False 0", 0)


@pytest.mark.parametrize(
    ("path", "fields", "expected"),
    [
        *((path, {}, NOTHING) for path in BASE),
        *((path, {"reasoning_effort": "low"}, ("True low low True -1", -1)) for path in (CHAT, RESPONSES, MESSAGES)),
        *((path, {"reasoning_effort": "none"}, ("False   False 0", -1)) for path in (CHAT, RESPONSES, MESSAGES)),
        *((path, {"reasoning_budget_tokens": 0}, OFF) for path in (CHAT, RESPONSES, MESSAGES)),
        *((path, {"thinking_budget_tokens": 7}, ("True   True 7", 7)) for path in (CHAT, RESPONSES, MESSAGES)),
        *((path, {"enable_thinking": False}, OFF) for path in (CHAT, RESPONSES, MESSAGES)),
        *((path, {"enable_thinking": True}, ("True   True -1", -1)) for path in (CHAT, RESPONSES, MESSAGES)),
        *((path, {"reasoning": {"effort": "low"}}, ("True low low True -1", -1)) for path in (CHAT, RESPONSES)),
        (RESPONSES, {"reasoning": {"effort": "none", "summary": "auto"}}, ("False   False 0", -1)),
        (CHAT, {"reasoning": {"max_tokens": 7}}, ("True   True 7", 7)),
        (CHAT, {"reasoning": {"enabled": False}}, OFF),
        (CHAT, {"reasoning": {"enabled": True, "exclude": True}}, ("True   True -1", -1)),
        (CHAT, {"reasoning": {"effort": "low"}, "reasoning_effort": "high"}, ("True high high True -1", -1)),
        *(
            (path, {"thinking": {"type": "enabled", "budget_tokens": 7}}, ("True   True 7", 7))
            for path in (CHAT, MESSAGES)
        ),
        *((path, {"thinking": {"type": "adaptive"}}, ("True   True -1", -1)) for path in (CHAT, MESSAGES)),
        *((path, {"thinking": {"type": "disabled"}}, OFF) for path in (CHAT, MESSAGES)),
        (CHAT, {"thinking": False}, OFF),
        (CHAT, {"thinking": True}, ("True   True -1", -1)),
        (MESSAGES, {"output_config": {"effort": "low"}}, ("True low low True -1", -1)),
        *(
            (path, {"chat_template_kwargs": {"enable_thinking": False}}, ("False   False 0", -1))
            for path in (CHAT, RESPONSES, MESSAGES)
        ),
        *((path, {"think": "low"}, ("True low low True -1", -1)) for path in (OLLAMA, OLLAMA_TEXT)),
        *((path, {"think": False}, ("False   False 0", -1)) for path in (OLLAMA, OLLAMA_TEXT)),
        *((path, {"think": True}, ("True   True -1", -1)) for path in (OLLAMA, OLLAMA_TEXT)),
    ],
)
def test_the_words_of_each_dialect_reach_the_template_and_the_budget(
    path: str, fields: dict[str, Any], expected: tuple[str, int]
) -> None:
    assert asked(path, **fields) == expected


@pytest.mark.parametrize(
    ("path", "fields", "param"),
    [
        (CHAT, {"reasoning_effort": 3}, "reasoning_effort"),
        (CHAT, {"reasoning": {"effort": 3}}, "reasoning.effort"),
        (CHAT, {"reasoning": {"max_tokens": -1}}, "reasoning.max_tokens"),
        (CHAT, {"reasoning": "high"}, "reasoning"),
        (CHAT, {"thinking": {"type": "maybe"}}, "thinking.type"),
        (CHAT, {"thinking": {"type": "enabled", "budget_tokens": "many"}}, "thinking.budget_tokens"),
        (CHAT, {"enable_thinking": "yes"}, "enable_thinking"),
        (CHAT, {"chat_template_kwargs": {"enable_thinking": "yes"}}, "chat_template_kwargs"),
        (CHAT, {"thinking_budget_tokens": -2}, "thinking_budget_tokens"),
        (CHAT, {"reasoning_format": "xml"}, "reasoning_format"),
        (RESPONSES, {"reasoning": {"effort": 3}}, "reasoning.effort"),
        (RESPONSES, {"reasoning": {"summary": "long"}}, "reasoning.summary"),
        (MESSAGES, {"thinking": {"type": "maybe"}}, "thinking.type"),
        (MESSAGES, {"thinking": {"type": "enabled", "budget_tokens": -5}}, "thinking.budget_tokens"),
        (MESSAGES, {"output_config": {"effort": 3}}, "output_config.effort"),
        (OLLAMA, {"think": "much"}, "think"),
        (OLLAMA_TEXT, {"think": 3}, "think"),
    ],
)
def test_a_word_that_is_wrong_is_named(path: str, fields: dict[str, Any], param: str) -> None:
    http, _ = serve(chat_template=TEMPLATE)
    answer = http.post(path, data=orjson.dumps({**BASE[path], **fields}))
    assert answer.status_code == 400
    assert f"'{param}'" in answer.text or answer.json["error"].get("param") == param, answer.text


def test_a_setting_is_what_requests_without_a_word_have() -> None:
    made = Settings(chat_template=TEMPLATE, reasoning="off", reasoning_effort="low")
    engine = ScriptedClient(made)
    http = create_app(made, engine).test_client()
    http.post(CHAT, data=orjson.dumps(BASE[CHAT]))
    http.post(CHAT, data=orjson.dumps({**BASE[CHAT], "enable_thinking": True}))
    assert [command.prompt for command in engine.sent] == [("False low low False 0",), ("True low low True -1",)]


# Templates with words of their own ------------------------------------------------------------------------------------


def rendered(source: str, thinking: bool | None, effort: str | None = None, budget: int = -1) -> str:
    variables = {"reasoning_effort": effort} if effort else {}
    conversation = Conversation([USER], variables=variables, thinking=thinking, budget=budget)
    return ChatTemplate("{{ messages[0].content }} " + source).prompt(conversation).text.removeprefix("Hi ")


@pytest.mark.parametrize(
    ("source", "thinking", "effort", "expected"),
    [
        ("{{ thinking is defined }}", None, None, "False"),
        ("{{ thinking }}", True, None, "True"),
        ("{{ thinking_mode }}", False, None, "disabled"),
        ("{{ reasoning }}", False, None, "False"),
        ("{{ thinking_effort }}", None, "medium", "high"),
        ("{{ thinking_effort is defined }}", True, None, "False"),
        ("{{ reasoning_effort }}{# 'no_think' #}", None, None, "no_think"),
        ("{{ reasoning_effort }}{# 'no_think' #}", True, None, "high"),
        ("{{ reasoning_effort }}{# 'no_think' #}", True, "minimal", "low"),
        ("{{ reasoning_effort }}{# 'no_think' #}", True, "xhigh", "high"),
        ("{{ reasoning_effort }}{# 'no_think' #}", False, "high", "no_think"),
        ("{{ messages[-1].content }}{# /no_think #}", False, None, "Hi /no_think"),
        ("{{ messages[-1].content }}{# /no_think #}", True, None, "Hi /think"),
        ("{{ messages[-1].content }}{# /no_think #}", None, None, "Hi"),
    ],
)
def test_a_template_is_told_in_its_own_words(
    source: str, thinking: bool | None, effort: str | None, expected: str
) -> None:
    found = rendered(source, thinking, effort)
    assert found.endswith(expected), found


def test_a_template_with_a_budget_gets_it() -> None:
    assert rendered("{{ thinking_budget }}", True, budget=512) == "512"
    assert rendered("{{ thinking_budget }}", False, budget=512) == "0"
    assert rendered("{{ thinking_budget is defined }}", None) == "False"
