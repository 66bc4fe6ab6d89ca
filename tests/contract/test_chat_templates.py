"""The chat templates with a name: each prompt is, letter by letter, the one that llama.cpp builds for that name."""

from __future__ import annotations

from ctypes import c_char_p, create_string_buffer

import llama_cpp
import pytest

from srb.web.chat.template import NAMED_TEMPLATES, ChatTemplate, Conversation

SYSTEM = ("system", " Be brief.\nAnd polite. \u00a0")
TURNS = (("user", "\tHello, “Ann”! "), ("assistant", " Good\nday.\r\n"), ("user", "{{ 1 }}\v\f What <now>?\n\n"))
CONVERSATIONS = {
    "a question": TURNS[:1],
    "a question after a system message": (SYSTEM, *TURNS[:1]),
    "three turns": TURNS,
    "three turns after a system message": (SYSTEM, *TURNS),
    "an assistant's last word": (SYSTEM, *TURNS[:2]),
    "the assistant first": TURNS[1:],
    "two system messages": (SYSTEM, *TURNS[:2], ("system", "Now in French."), TURNS[2]),
    "two users in turn": (TURNS[0], TURNS[2]),
    "a system message alone": (SYSTEM,),
    "a role of its own": (("user", "A"), ("critic", " B "), ("assistant_tool_call", " C ")),
}


def native_prompt(name: str, messages: tuple[tuple[str, str], ...], add_generation_prompt: bool) -> str:
    chat = (llama_cpp.llama_chat_message * len(messages))(
        *(llama_cpp.llama_chat_message(role=role.encode(), content=text.encode()) for role, text in messages)
    )
    length = llama_cpp.llama_chat_apply_template(name.encode(), chat, len(messages), add_generation_prompt, None, 0)
    assert length >= 0, name
    buffer = create_string_buffer(length + 1)
    llama_cpp.llama_chat_apply_template(name.encode(), chat, len(messages), add_generation_prompt, buffer, length)
    return buffer.raw[:length].decode()


def test_every_name_of_llama_cpp_is_known_and_no_other() -> None:
    count = llama_cpp.llama_chat_builtin_templates(None, 0)
    names = (c_char_p * count)()
    llama_cpp.llama_chat_builtin_templates(names, count)
    assert {name.decode() for name in names if name} == set(NAMED_TEMPLATES)


@pytest.mark.parametrize("add_generation_prompt", [True, False])
@pytest.mark.parametrize("name", NAMED_TEMPLATES)
def test_a_named_template_makes_llama_cpps_prompt(name: str, add_generation_prompt: bool) -> None:
    template = ChatTemplate(NAMED_TEMPLATES[name], "<s>", "</s>")
    for kind, turns in CONVERSATIONS.items():
        messages = [{"role": role, "content": text} for role, text in turns]
        ours = template.prompt(Conversation(messages, add_generation_prompt=add_generation_prompt)).text
        assert ours == native_prompt(name, turns, add_generation_prompt), kind
