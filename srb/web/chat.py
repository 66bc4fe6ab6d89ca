"""From a conversation to the text that the model continues: the model's own chat template, and what it lacks.

Templates differ in what they can take. What one cannot is found out once, by letting it write small conversations, and
made up for as llama.cpp does: a system message goes into the next user message, tools are explained in a system message.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import orjson
from jinja2 import TemplateError, meta

from srb.errors import ConfigError, InvalidRequest, NotSupported
from srb.protocol import ModelInfo
from srb.settings import Settings
from srb.web.sandbox import Sandbox, to_json

log = logging.getLogger("srb.web")

Message = Mapping[str, Any]

THINK, END_THINK = "<think>", "</think>"

CHATML = """\
{%- for message in messages -%}
{{- '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\n' -}}{%- endif -%}
"""
CHATML_STOPS = ("<|im_end|>", "<|im_start|>")  # a model without a template may not know them as tokens

TOOLS_PROMPT = """\
# Tools

You may call one or more functions to assist with the user query.

You are provided with function signatures within <tools></tools> XML tags:
<tools>
{tools}
</tools>

For each function call, return a json object with function name and arguments within <tool_call></tool_call> XML tags:
<tool_call>
{{"name": <function-name>, "arguments": <args-json-object>}}
</tool_call>"""


@dataclass(frozen=True)
class Conversation:
    """What a chat request says: messages as OpenAI's, tools, and what the template is told besides."""

    messages: Sequence[Message]
    tools: Sequence[Mapping[str, Any]] = ()
    documents: Sequence[Any] | None = None
    add_generation_prompt: bool = True
    continue_final: bool = False  # the last message is the assistant's, and to be continued
    variables: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ChatPrompt:
    """The text to continue; `thinking` where the reply begins inside of reasoning."""

    text: str
    thinking: bool = False
    has_begun: bool = False  # words of the reply are in the text: what comes is not its beginning


class ChatTemplate:
    """One compiled template and what it can take."""

    def __init__(self, source: str, bos_token: str = "", eos_token: str = "", stops: tuple[str, ...] = ()) -> None:
        """Compile `source`; raise TemplateError where that cannot be. `stops` end a reply besides the model's own end."""
        self.stops = stops
        self._sandbox = Sandbox()
        self._template = self._sandbox.compile_template(source)
        self._tokens = {"bos_token": bos_token, "eos_token": eos_token}
        names = meta.find_undeclared_variables(self._sandbox.parse(source))
        self.knows_tools = "tools" in names
        self.calls_with_parameters = self.knows_tools and "<tool_call>" not in source and '"parameters"' in source
        self._knows_developers = "developer" in source
        self._takes_parts = self._needs_parts()
        self._takes_system = self._shows([_message("system", "needle"), _message("user", "x")])
        self._takes_argument_objects = self.knows_tools and self._shows(_call_with({"needle": 1}))
        self._takes_calls = self._takes_argument_objects or (self.knows_tools and self._shows(_call_with('"needle"')))

    def __repr__(self) -> str:
        facts = {"tools": self.knows_tools, "system": self._takes_system, "parts": self._takes_parts}
        return f"<ChatTemplate {' '.join(name for name, known in facts.items() if known)}>"

    @property
    def capabilities(self) -> dict[str, bool]:
        """What the template itself can take, by llama-server's names."""
        return {
            "supports_string_content": not self._takes_parts,
            "supports_typed_content": self._takes_parts,
            "supports_system_role": self._takes_system,
            "supports_tools": self.knows_tools,
            "supports_tool_calls": self._takes_calls,
            "supports_object_arguments": self._takes_argument_objects,
        }

    def prompt(self, conversation: Conversation) -> ChatPrompt:
        """Return the text of a conversation; raise InvalidRequest where the template refuses it."""
        if conversation.continue_final:
            return self._continued(conversation)
        text = self._render(conversation, conversation.messages, conversation.add_generation_prompt)
        return ChatPrompt(text, thinking=text.rstrip().endswith(THINK))

    def _continued(self, conversation: Conversation) -> ChatPrompt:
        """Write the last message behind the beginning of a reply, so that nothing ends it."""
        *before, last = conversation.messages
        head = self._render(conversation, before, add_generation_prompt=True)
        content, reasoning = content_text(last.get("content")), last.get("reasoning_content") or ""
        if reasoning:
            begun = f"{THINK}\n{reasoning}" + (f"\n{END_THINK}\n\n{content}" if content else "")
        else:
            begun = content
        if begun:
            head = without_open_thinking(head)
        thinking = (head + begun).rstrip().endswith(THINK) if not begun else _is_thinking(begun)
        return ChatPrompt(head + begun, thinking, has_begun=bool(begun.strip()))

    def _render(self, conversation: Conversation, messages: Sequence[Message], add_generation_prompt: bool) -> str:
        try:
            prepared = self._prepare(messages, conversation.tools)
            return self._write(prepared, conversation, add_generation_prompt)
        except TemplateError as error:
            raise InvalidRequest(
                f"Field 'messages': the chat template refuses them: {error.message}", param="messages"
            ) from None
        except Exception as error:  # whatever a stranger's program may raise
            log.info("a chat template failed: %s", error)
            raise InvalidRequest(
                f"Field 'messages': the chat template cannot write them: {error}", param="messages"
            ) from None

    def _write(self, messages: Sequence[Message], conversation: Conversation, add_generation_prompt: bool) -> str:
        return self._sandbox.run(
            self._template,
            {
                **conversation.variables,
                **self._tokens,
                "messages": messages,
                "tools": list(conversation.tools) if conversation.tools and self.knows_tools else None,
                "documents": conversation.documents,
                "add_generation_prompt": add_generation_prompt,
            },
        )

    # What the template lacks ------------------------------------------------------------------------------------------

    def _prepare(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        prepared = [dict(message) for message in messages]
        for message in prepared:
            if message["role"] == "developer" and not self._knows_developers:
                message["role"] = "system"
        if tools and not self.knows_tools:
            _explain_tools(prepared, tools)
        for message in prepared:
            message["content"] = content_text(message.get("content"))
            if message.get("tool_calls") and self._takes_calls:
                message["tool_calls"] = [self._call(call) for call in message["tool_calls"]]
            elif message.get("tool_calls"):
                message["content"] = "\n".join(filter(None, [message["content"], *_written(message.pop("tool_calls"))]))
            elif message["role"] == "tool" and not self._takes_calls:
                message |= _message("user", f"<tool_response>\n{message['content']}\n</tool_response>")
        if not self._takes_system:
            prepared = _without_system(prepared)
        if self._takes_parts:
            for message in prepared:
                message["content"] = [{"type": "text", "text": message["content"]}]
        return prepared

    def _call(self, call: Mapping[str, Any]) -> dict[str, Any]:
        """Return a tool call with its arguments as this template wants them: an object, else JSON text."""
        function = dict(call["function"])
        if self._takes_argument_objects:
            function["arguments"] = argument_object(function.get("arguments"))
        return {**call, "type": "function", "function": function}

    def _needs_parts(self) -> bool:
        parts = [{"type": "text", "text": "needle"}]
        return not self._shows([_message("user", "needle")]) and self._shows([_message("user", parts)])

    def _shows(self, messages: list[dict[str, Any]]) -> bool:
        """Whether the template writes these messages, and the word needle that is in them."""
        probe = Conversation(messages, tools=[EXAMPLE_TOOL] if self.knows_tools else ())
        try:
            return "needle" in self._write(messages, probe, add_generation_prompt=True)
        except Exception:  # whatever a stranger's program may raise: it does not take them
            return False


EXAMPLE_TOOL: dict[str, Any] = {
    "type": "function",
    "function": {"name": "f", "description": "d", "parameters": {"type": "object", "properties": {}}},
}


def _message(role: str, content: Any) -> dict[str, Any]:
    return {"role": role, "content": content}


def _call_with(arguments: Any) -> list[dict[str, Any]]:
    call = {"id": "abcdefghi", "type": "function", "function": {"name": "f", "arguments": arguments}}
    answer = {**_message("tool", "y"), "name": "f", "tool_call_id": "abcdefghi"}
    return [_message("user", "x"), {**_message("assistant", ""), "tool_calls": [call]}, answer]


def _explain_tools(messages: list[dict[str, Any]], tools: Iterable[Mapping[str, Any]]) -> None:
    """Explain the tools in the system message, for a template that cannot."""
    explained = TOOLS_PROMPT.format(tools="\n".join(to_json(tool) for tool in tools))
    if messages[:1] and messages[0]["role"] == "system":
        messages[0]["content"] = f"{content_text(messages[0].get('content'))}\n\n{explained}"
    else:
        messages.insert(0, _message("system", explained))


def _written(calls: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return tool calls as the text that TOOLS_PROMPT asks for."""
    functions = [call["function"] for call in calls]
    objects = [{"name": each["name"], "arguments": argument_object(each.get("arguments"))} for each in functions]
    return [f"<tool_call>\n{to_json(called)}\n</tool_call>" for called in objects]


def _without_system(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Put each system message's text before the next user message's, or into one of its own at the end."""
    kept: list[dict[str, Any]] = []
    waiting: list[str] = []
    for message in messages:
        if message["role"] == "system":
            waiting.append(message["content"])
            continue
        if waiting and message["role"] == "user":
            message["content"] = "\n".join((*waiting, message["content"]))
            waiting = []
        kept.append(message)
    return [*kept, _message("user", "\n".join(waiting))] if waiting else kept


def content_text(content: Any) -> str:
    """Return a message's content as one text; its parts are lines."""
    if isinstance(content, list):
        return "\n".join(part["text"] for part in content)
    return content or ""


def argument_object(arguments: Any) -> Any:
    """Return a call's arguments, which OpenAI's clients send as JSON text, as an object where they are one."""
    if not isinstance(arguments, str):
        return arguments or {}
    try:
        return orjson.loads(arguments or "{}")
    except orjson.JSONDecodeError:
        return arguments


def without_open_thinking(text: str) -> str:
    """Return a prompt without the opening of reasoning that some templates end with."""
    stripped = text.rstrip()
    return stripped.removesuffix(THINK) if stripped.endswith(THINK) else text


def _is_thinking(begun: str) -> bool:
    return begun.lstrip().startswith(THINK) and END_THINK not in begun


# Which template -------------------------------------------------------------------------------------------------------


def template_for(settings: Settings, model: ModelInfo, with_tools: bool = False) -> ChatTemplate:
    """Return the template of the settings, else the model's, else ChatML; each is compiled once in a process."""
    source = (with_tools and not configured_source(settings) and model.chat_template_tool_use) or None
    try:
        return _compiled(source or template_source(settings, model), model.bos_token, model.eos_token)
    except TemplateError as error:
        raise NotSupported(
            f"The model's chat template cannot be used ({error.message}); give one with chat_template or "
            "chat_template_file"
        ) from None


def template_capabilities(settings: Settings, model: ModelInfo) -> dict[str, bool]:
    """Return what the template can take; nothing, where there is one that cannot be used."""
    try:
        return template_for(settings, model).capabilities
    except NotSupported:
        return {}


def template_source(settings: Settings, model: ModelInfo) -> str:
    """Return the Jinja text that conversations are written with; "" for ChatML, where there is none."""
    return configured_source(settings) or model.chat_template


def configured_source(settings: Settings) -> str:
    """Return the template that the settings name, or ""; raise ConfigError where its file cannot be read."""
    if settings.chat_template_file:
        return _file_text(settings.chat_template_file)
    return CHATML if settings.chat_template == "chatml" else settings.chat_template


def check_configured(settings: Settings) -> None:
    """Raise ConfigError for a template of the settings that cannot be compiled."""
    source = configured_source(settings)
    try:
        if source:
            ChatTemplate(source)
    except TemplateError as error:
        name = "chat_template_file" if settings.chat_template_file else "chat_template"
        raise ConfigError(f"{name}: not a Jinja template: {error.message}") from None


@lru_cache(maxsize=8)
def _compiled(source: str, bos_token: str, eos_token: str) -> ChatTemplate:
    if source:
        return ChatTemplate(source, bos_token, eos_token)
    log.warning("the model has no chat template: conversations are written as ChatML")
    return ChatTemplate(CHATML, bos_token, eos_token, CHATML_STOPS)


@lru_cache(maxsize=8)
def _file_text(path: str) -> str:
    try:
        return Path(path).expanduser().read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"chat_template_file: cannot read {path}: {error}") from None
