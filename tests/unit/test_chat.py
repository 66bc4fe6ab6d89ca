"""What conversations become through chat templates as they are in the wild."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from srb.config.settings import Settings
from srb.errors import ConfigError, InvalidRequest, NotSupported
from srb.web.chat.families import HERMES, LLAMA_3
from srb.web.chat.reply_parser import ReplyParser, parse_reply
from srb.web.chat.template import (
    CHATML_STOPS,
    ChatTemplate,
    Conversation,
    check_configured,
    template_capabilities,
    template_for,
)
from tests.logs import lines_of
from tests.scripted import MODEL
from tests.unit import chat_templates as wild

BOS, EOS = "<s>", "</s>"
TOOL = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}
CALL = {"id": "abcdefghi", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Oslo"}'}}


def said(*texts: str, system: str = "") -> list[dict[str, Any]]:
    """Return messages of user and assistant in turns."""
    turns = [{"role": ("user", "assistant")[place % 2], "content": text} for place, text in enumerate(texts)]
    return [{"role": "system", "content": system}, *turns] if system else turns


def called() -> list[dict[str, Any]]:
    return [
        *said("Weather in Oslo?"),
        {"role": "assistant", "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "abcdefghi", "content": "rain"},
    ]


def prompt(source: str, messages: list[dict[str, Any]], **options: Any) -> str:
    return ChatTemplate(source, BOS, EOS).prompt(Conversation(messages, **options)).text


def test_chatml() -> None:
    assert prompt(wild.CHATML, said("Hi", system="Be brief.")) == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    )
    assert prompt(wild.CHATML, said("Hi"), add_generation_prompt=False).endswith("Hi<|im_end|>\n")


def test_smollm3_gets_its_tools_by_the_name_that_its_template_has() -> None:
    text = prompt(wild.SMOLLM3, said("Hi"), tools=[TOOL])
    function = {"name": "weather", "parameters": {"type": "object", "properties": {}}}
    assert text.startswith(f"<|im_start|>system\nYou are SmolLM.\n\n### Tools\n<tools>\n{function}\n</tools>")
    assert text.count("<tools>") == 1, "described by the template alone"
    assert "Tools" not in prompt(wild.SMOLLM3, said("Hi"))
    template = ChatTemplate(wild.SMOLLM3)
    assert template.capabilities["supports_tools"]
    assert template.family is HERMES
    of_both = wild.SMOLLM3.replace("xml_tools or python_tools", "xml_tools or tools").replace(
        "{%- if xml_tools %}", "{%- if xml_tools or tools %}{% if tools %}{% set xml_tools = tools %}{% endif %}"
    )
    assert f"<tools>\n{TOOL}\n</tools>" in prompt(of_both, said("Hi"), tools=[TOOL]), "as transformers passes them"


def test_firefunction_is_told_of_tools_by_a_message() -> None:
    today = {"variables": {"datetime": "May 01 2026"}}
    end = "\n[]\nToday is May 01 2026.<|start|>user\nHi<|start|>assistant\n"
    assert prompt(wild.FIREFUNCTION, said("Hi"), **today) == "<|start|>system\nYou are helpful." + end
    assert prompt(wild.FIREFUNCTION, said("Hi", system="Be brief."), **today) == "<|start|>system\nBe brief." + end
    told = prompt(wild.FIREFUNCTION, said("Hi"), tools=[TOOL], **today)
    assert told.endswith(end)
    assert told.count('"weather"') == 1
    assert prompt(wild.FIREFUNCTION, called(), tools=[TOOL], **today).count("Oslo") == 2
    assert ChatTemplate(wild.FIREFUNCTION).family is HERMES


def test_granite_is_known_without_reasoning() -> None:
    template = ChatTemplate(wild.GRANITE_3_1)
    assert template.family.name == "granite-3"
    call = '[{"name": "weather", "arguments": {}}]'
    for marker in ("<|tool_call|>", "<tool_call>"):
        _, _, calls = parse_reply(ReplyParser(["weather"], family=template.family), marker + call)
        assert [each.name for each in calls] == ["weather"]


def test_llama_3() -> None:
    assert prompt(wild.LLAMA_3, said("Hi", system="Be brief.")) == (
        "<s><|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|>"
        "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"
    )


def test_mistral_ends_the_assistants_turns_and_begins_none() -> None:
    assert prompt(wild.MISTRAL, said("A", "B", "C")) == "<s>[INST] A [/INST] B</s>[INST] C [/INST]"


@pytest.mark.parametrize(("source", "begin"), [(wild.GEMMA, "<start_of_turn>user\n"), (wild.MISTRAL, "[INST] ")])
def test_a_template_without_a_system_role_gets_the_system_message_in_the_users(source: str, begin: str) -> None:
    assert begin + "Be brief.\nHi" in prompt(source, said("Hi", system="Be brief."))


def test_what_a_template_refuses_is_said_in_its_own_words() -> None:
    with pytest.raises(InvalidRequest, match="not today") as caught:
        prompt("{{ raise_exception('not today') }}", said("A"))
    assert caught.value.extra == {"param": "messages"}
    with pytest.raises(InvalidRequest, match="the chat template failed to render them"):
        prompt("{{ messages[0].content + 1 }}", said("A"))


def test_developers_are_the_system_where_a_template_does_not_know_them() -> None:
    messages = [{"role": "developer", "content": "Be brief."}, *said("Hi")]
    assert "<|im_start|>system\nBe brief." in prompt(wild.CHATML, messages)
    assert "<|im_start|>developer" in prompt(wild.CHATML + "{# developer #}", messages)


def test_parts_are_lines_and_stay_parts_where_a_template_wants_them() -> None:
    parts = [{"type": "text", "text": "A"}, {"type": "text", "text": "B"}]
    messages = [{"role": "user", "content": parts}]
    assert "user\nA\nB<|im_end|>" in prompt(wild.CHATML, messages)
    assert prompt(wild.ONLY_PARTS, messages) == "[user]A\nB[end][assistant]"
    assert prompt(wild.ONLY_PARTS, said("A")) == "[user]A[end][assistant]"


@pytest.mark.parametrize("source", [wild.CHATML, wild.LLAMA_3, wild.GEMMA, wild.MISTRAL, wild.QWEN_3, wild.ONLY_PARTS])
def test_the_next_turns_prompt_begins_with_this_one(source: str) -> None:
    first = prompt(source, said("A", system="S"))
    second = prompt(source, said("A", "the reply", "C", system="S"))
    continued = prompt(source, said("A", "the rep", system="S"), continue_final="auto")
    assert second.startswith(first)
    assert continued == first + "the rep"


def test_a_trailing_assistant_message_is_continued_and_not_ended() -> None:
    template = ChatTemplate(wild.CHATML)
    begun = template.prompt(Conversation(said("A", "Once upon"), continue_final="auto"))
    assert begun.text.endswith("<|im_start|>assistant\nOnce upon")
    assert begun.has_begun
    assert not template.prompt(Conversation(said("A", ""), continue_final="auto")).has_begun
    assert template.prompt(Conversation(said("A", "B"))).text.endswith("B<|im_end|>\n<|im_start|>assistant\n")


def test_the_parts_of_a_message_that_is_continued_are_paragraphs() -> None:
    parts = [{"type": "text", "text": "Wh"}, {"type": "text", "text": "ill"}]
    begun = [*said("A"), {"role": "assistant", "content": parts}]
    assert prompt(wild.CHATML, begun, continue_final="auto").endswith("<|im_start|>assistant\nWh\n\nill")


def test_reasoning_or_content_is_continued_where_the_request_names_it() -> None:
    last = {"role": "assistant", "reasoning_content": "Hm.", "content": "So"}
    template = ChatTemplate(wild.DEEPSEEK)
    thinking = template.prompt(Conversation([*said("A"), last], continue_final="reasoning_content"))
    assert (thinking.text[-11:], thinking.thinking) == ("<think>\nHm.", True)
    done = template.prompt(Conversation([*said("A"), {**last, "content": ""}], continue_final="content"))
    assert (done.text[-14:], done.thinking) == ("Hm.\n</think>\n\n", False)


def test_a_reply_that_begins_in_reasoning_is_known() -> None:
    template = ChatTemplate(wild.DEEPSEEK)
    assert template.prompt(Conversation(said("A"))).thinking
    assert not template.prompt(Conversation(said("A"), add_generation_prompt=False)).thinking
    continued = template.prompt(Conversation(said("A", "B"), continue_final="auto"))
    assert continued.text.endswith("<Assistant>B")
    assert not continued.thinking
    half = [*said("A"), {"role": "assistant", "reasoning_content": "Hm,"}]
    thinking = template.prompt(Conversation(half, continue_final="auto"))
    assert thinking.text.endswith("<Assistant><think>\nHm,")
    assert thinking.thinking
    done = [*said("A"), {"role": "assistant", "reasoning_content": "Hm.", "content": "So"}]
    assert template.prompt(Conversation(done, continue_final="auto")).text.endswith("<think>\nHm.\n</think>\n\nSo")


def test_variables_reach_the_template_and_do_not_replace_the_conversation() -> None:
    assert prompt(wild.QWEN_3, said("A"), variables={"enable_thinking": False}).endswith("<think>\n\n</think>\n\n")
    assert "A" in prompt(wild.CHATML, said("A"), variables={"messages": [], "bos_token": "x"})


def test_tools_are_told_by_the_template_where_it_knows_them() -> None:
    text = prompt(wild.QWEN_3, said("A"), tools=[TOOL])
    assert text.count('"name": "weather"') == 1
    assert "<tools>" in text
    assert "weather" in prompt(wild.LLAMA_3, said("A"), tools=[TOOL])
    assert "tools" not in prompt(wild.QWEN_3, said("A"))


@pytest.mark.parametrize("source", [wild.CHATML, wild.GEMMA])
def test_tools_are_told_in_the_system_message_where_it_does_not(source: str) -> None:
    text = prompt(source, said("A", system="Be brief."), tools=[TOOL])
    assert text.count('"name": "weather"') == 1
    assert text.index("Be brief.") < text.index("<tools>") < text.index("A<")
    assert "<tools>" in prompt(source, said("A"), tools=[TOOL])


def test_past_calls_have_their_arguments_as_the_template_wants_them() -> None:
    hermes = prompt(wild.QWEN_3, called(), tools=[TOOL])
    assert '<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo"}}\n</tool_call>' in hermes
    assert "<tool_response>\nrain\n</tool_response>" in hermes
    assert '{"name": "weather", "parameters": {"city": "Oslo"}}' in prompt(wild.LLAMA_3, called(), tools=[TOOL])
    assert '<call>weather\n{"city": "Oslo"}<end><output>rain' in prompt(wild.DEEPSEEK, called(), tools=[TOOL])


def test_past_calls_are_text_for_a_template_without_tools() -> None:
    text = prompt(wild.CHATML, called(), tools=[TOOL])
    assert 'assistant\n<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo"}}\n</tool_call><|im_end|>' in text
    assert "<|im_start|>user\n<tool_response>\nrain\n</tool_response><|im_end|>" in text


def test_the_form_of_a_call_is_the_templates() -> None:
    assert ChatTemplate(wild.LLAMA_3).family is LLAMA_3
    assert ChatTemplate(wild.QWEN_3).family is HERMES
    assert ChatTemplate(wild.CHATML).family is HERMES


# Which template ---------------------------------------------------------------------------------------------------


def test_the_settings_win_over_the_model_and_a_file_over_a_text(tmp_path: Path) -> None:
    model = replace(MODEL, chat_template="model: {{ messages[0].content }}")
    conversation = Conversation(said("A"))

    def text(**settings: str) -> str:
        return template_for(Settings(**settings), model).prompt(conversation).text  # type: ignore[arg-type]

    path = tmp_path / "template.jinja"
    path.write_text("file: {{ messages[0].content }}")
    assert text() == "model: A"
    assert text(chat_template="text: {{ messages[0].content }}") == "text: A"
    assert text(chat_template="x{{ 1 }}", chat_template_file=str(path)) == "file: A"
    assert text(chat_template="chatml") == "<|im_start|>user\nA<|im_end|>\n<|im_start|>assistant\n"
    assert text(chat_template="vicuna") == "USER: A\nASSISTANT:"


def test_a_named_template_is_complete_yandex_drops_system_messages_as_in_llama_cpp() -> None:
    template = template_for(Settings(chat_template="yandex"), MODEL)
    assert template.prompt(Conversation(said("A", system="S"))).text == " Пользователь: A\n\n Ассистент:[SEP]"
    assert template.capabilities["supports_system_role"]


def test_a_model_may_have_a_template_of_its_own_for_tools() -> None:
    model = replace(MODEL, chat_template="plain {{ 1 }}", chat_template_tool_use="tools {{ 1 }}")
    texts = [template_for(Settings(), model, uses).prompt(Conversation(said("A"))).text for uses in (False, True)]
    assert texts == ["plain 1", "tools 1"]


def test_without_any_it_is_chatml_said_once_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    model = replace(MODEL, chat_template="", bos_token="<one that no other test has>")
    with caplog.at_level(logging.WARNING, "srb.web"):
        templates = [template_for(Settings(), model) for _ in range(3)]
    assert len(lines_of("srb.web", caplog)) == 1
    assert templates[0].stops == CHATML_STOPS
    assert templates[0] is templates[2]
    assert "<|im_start|>user\nA<|im_end|>" in templates[0].prompt(Conversation(said("A"))).text


def test_a_models_template_that_cannot_be_compiled_is_not_replaced_in_silence() -> None:
    with pytest.raises(NotSupported, match="chat_template_file"):
        template_for(Settings(), replace(MODEL, chat_template="{% for %}"))


def test_what_a_template_can_take_is_told() -> None:
    def told(source: str) -> dict[str, bool]:
        return template_capabilities(Settings(), replace(MODEL, chat_template=source))

    assert told(wild.QWEN_3) == {
        "supports_string_content": True, "supports_typed_content": False, "supports_system_role": True,
        "supports_tools": True, "supports_tool_calls": True, "supports_object_arguments": True,
        "supports_parallel_tool_calls": True, "supports_preserve_reasoning": False, "supports_reasoning_effort": False,
    }  # fmt: skip
    assert not told(wild.DEEPSEEK)["supports_object_arguments"]
    assert not told(wild.GEMMA)["supports_system_role"]
    assert told(wild.ONLY_PARTS)["supports_typed_content"]
    assert told("{% for %}") == {}
    each = "{{ tools }}{% for m in messages %}{{ m.content }}"
    first_call = each + "{{ (m.tool_calls or [''])[0] }}{% endfor %}"
    assert told(first_call)["supports_tool_calls"]
    assert not told(first_call)["supports_parallel_tool_calls"]
    assert not told(wild.CHATML)["supports_parallel_tool_calls"]
    past = each + "{% if not clear_thinking or loop.last %}{{ m.reasoning_content }}{% endif %}"
    assert told(past + "{% endfor %}")["supports_preserve_reasoning"]
    assert told("{{ messages[0].content }}{{ reasoning_strength }}")["supports_reasoning_effort"]


def test_a_bad_template_in_the_settings_is_fatal(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"chat_template: 'llama9' is neither Jinja text nor one of .*, llama3, "):
        check_configured(Settings(chat_template="llama9"))
    with pytest.raises(ConfigError, match="chat_template: not a Jinja template"):
        check_configured(Settings(chat_template="{% for %}"))
    with pytest.raises(ConfigError, match="cannot read"):
        check_configured(Settings(chat_template_file=str(tmp_path / "missing.jinja")))
    check_configured(Settings(chat_template="llama3"))
