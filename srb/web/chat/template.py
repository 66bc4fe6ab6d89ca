"""ChatTemplate: renders a conversation as a prompt, by the model's chat template.

Templates differ in their abilities. Each ability is tested once, by rendering small conversations, and a missing one is
made up for as in llama.cpp: a system message is prepended to the next user message, tools are described in a system
message. A conversation that the template refuses is rendered in stricter forms (`srb/web/chat/history.py`).
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import orjson
from jinja2 import TemplateError, meta, nodes

from srb.config.settings import Settings
from srb.config.texts import read_text
from srb.errors import ConfigError, InvalidRequest, NotSupported
from srb.web.chat.families import END_THINK as END_THINK
from srb.web.chat.families import HARMONY, HERMES, THINK, Family, family_of
from srb.web.chat.history import as_one, content_text, stricter, with_written_calls
from srb.web.chat.messages import ASSISTANT
from srb.web.chat.sandbox import LimitExceeded, Sandbox, to_json
from srb.web.loop.yielding import yielding
from srb.wire.events import ModelInfo

# The chat templates that llama.cpp knows by name (`llama_chat_apply_template`), as Jinja text. llama.cpp builds these
# prompts in C++ (src/llama-chat.cpp); `tests/contract/test_chat_templates.py` compares each of them, letter by letter. A
# file's last line break is no part of its template.
NAMED_TEMPLATES = {
    path.stem: path.read_text("utf-8").removesuffix("\n")
    for path in sorted((Path(__file__).parent / "named").glob("*.jinja"))
}


log = logging.getLogger("srb.web")

Message = Mapping[str, Any]

Continuation = Literal["", "auto", "content", "reasoning_content"]

_WHOLE = "*"  # in the place of a field's name: a template writes the whole message

_NAMED_SOURCES = frozenset(NAMED_TEMPLATES.values())

CHATML = NAMED_TEMPLATES["chatml"]
CHATML_STOPS = ("<|im_end|>", "<|im_start|>")  # of a model without a template, of which they may be no tokens

_TOOLS = """\
# Tools

You may call one or more functions to assist with the user query.

You are provided with function signatures within <tools></tools> XML tags:
<tools>
{tools}
</tools>

"""
TOOLS_PROMPT = (
    _TOOLS
    + """\
For each function call, return a json object with function name and arguments within <tool_call></tool_call> XML tags:
<tool_call>
{"name": <function-name>, "arguments": <args-json-object>}
</tool_call>"""
)

OWN_FORM_PROMPT = (
    _TOOLS
    + """\
Write function calls in this form, and nothing after them:
{example}"""
)


@dataclass(frozen=True)
class Conversation:
    """A conversation to render: messages and tools in OpenAI's form, and further variables of the template."""

    messages: Sequence[Message]
    tools: Sequence[Mapping[str, Any]] = ()
    documents: Sequence[Any] | None = None
    add_generation_prompt: bool = True
    continue_final: Continuation = ""  # the part of the last message, the assistant's, that the reply continues
    thinking: bool | None = None  # whether the reply shall begin with reasoning; None: as the template has it
    budget: int = -1  # most tokens of reasoning; -1: any number
    variables: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ChatPrompt:
    """A rendered conversation; `thinking` if the reply begins inside a block of reasoning."""

    text: str
    thinking: bool = False
    has_begun: bool = False  # the text ends with the reply's beginning


class ChatTemplate:
    """One compiled template and its abilities."""

    def __init__(self, source: str, bos_token: str = "", eos_token: str = "", stops: tuple[str, ...] = ()) -> None:
        """Compile `source`; raise TemplateError if it is malformed. `stops` are further stop strings of a reply."""
        self.stops = stops
        self._source = source
        self._sandbox = Sandbox()
        self._template = self._sandbox.compile_template(source)
        self._tokens = {"bos_token": bos_token, "eos_token": eos_token}
        names = meta.find_undeclared_variables(self._sandbox.parse(source))
        self._names = names
        self.knows_tools = not names.isdisjoint(("tools", "xml_tools"))
        self.family = family_of(source, self.knows_tools)
        self.can_think = self.family.can_think(source)
        self._has_thinking_field = self.family.messages is HARMONY
        self._has_thinking_parts = "'thinking'" in source and self.family.reasoning[0] == "[THINK]"
        self._knows_efforts = not names.isdisjoint(("reasoning_effort", "reasoning_strength", "thinking_effort"))
        self._knows_no_effort = "'no_think'" in source  # Hunyuan's: low, high or no_think
        self._is_told_by_words = "/no_think" in source and "enable_thinking" not in names
        self._knows_developers = "developer" in source
        self._without_tools: list[Any] | None = None
        if not self._renders([_message("user", "needle")], tools=()):
            self._without_tools = []  # for a template that goes through them without looking
        self._takes_parts = self._needs_parts()
        asked = [_message("system", "needle"), _message("user", "x")]
        self._is_named = source in _NAMED_SOURCES
        self._takes_system = self._is_named or self._renders(asked)  # yandex drops it, as in llama.cpp
        self._takes_argument_objects = self._renders(_call_with({"needle": 1}))
        self._takes_calls = self._takes_argument_objects or self._renders(_call_with('"needle"'))
        self._takes_any_arguments = not self._takes_argument_objects or self._renders(_call_with("needle"))

    def __repr__(self) -> str:
        facts = {"tools": self.knows_tools, "system": self._takes_system, "parts": self._takes_parts}
        return f"<ChatTemplate {' '.join(name for name, known in facts.items() if known)}>"

    @property
    def capabilities(self) -> dict[str, bool]:
        """The template's abilities, under llama-server's names."""
        two: tuple[Any, Any] = ({}, {"needle": 1}) if self._takes_argument_objects else ("{}", '"needle"')
        return {
            "supports_string_content": not self._takes_parts,
            "supports_typed_content": self._takes_parts,
            "supports_system_role": self._takes_system,
            "supports_tools": self.knows_tools,
            "supports_tool_calls": self._takes_calls,
            "supports_parallel_tool_calls": self._takes_calls and self._renders(_call_with(*two)),
            "supports_preserve_reasoning": self._renders(_THOUGHTS, history_variables(True)),
            "supports_reasoning_effort": self._knows_efforts,
            "supports_object_arguments": self._takes_argument_objects,
        }

    def reads(self, owner: str, name: str) -> bool:
        """Whether the template reads a field `name` of each of the "messages" or "tools" that no dialect knows."""
        if owner == "tools":
            return self._shows_tools
        return not self._message_fields.isdisjoint((name, _WHOLE))

    @cached_property
    def _shows_tools(self) -> bool:
        """Whether the prompt has the tools as they are, with all their fields."""
        if not self.knows_tools:
            return True  # a message describes them
        tool = {**EXAMPLE_TOOL, "function": {**EXAMPLE_TOOL["function"], "further": "needle"}}
        return self._renders([_message("user", "x")], tools=[tool])

    @cached_property
    def _message_fields(self) -> frozenset[str]:
        """The fields that the template reads of what has a role; _WHOLE among them where it writes a message as it is."""
        read: dict[str, set[str]] = {}
        kinds: Any = nodes.Getattr, nodes.Getitem, nodes.Call, nodes.Filter
        for node in self._sandbox.parse(self._source).find_all(kinds):
            owner, name = _read_by(node)
            if isinstance(owner, nodes.Getitem):  # messages[0]
                owner = owner.node
            if isinstance(owner, nodes.Name) and isinstance(name, str):
                read.setdefault(owner.name, set()).add(name)
        return frozenset(chain(*(names for names in read.values() if "role" in names)))

    def prompt(self, conversation: Conversation) -> ChatPrompt:
        """Return the prompt of a conversation; raise InvalidRequest if the template refuses it."""
        if conversation.continue_final:
            return self._continued(conversation)
        text = self._render(conversation, conversation.messages, conversation.add_generation_prompt)
        text = text.removesuffix(self.family.prompt_end)
        return ChatPrompt(text, thinking=self.family.begins_thinking(text))

    def _continued(self, conversation: Conversation) -> ChatPrompt:
        """Render all messages but the last, and append the last as the reply's beginning, so that nothing ends it."""
        *before, last = conversation.messages
        while before and before[-1]["role"] == "assistant" and not before[-1].get("tool_calls"):
            last = as_one(dict(before.pop()), dict(last))
        head = self._render(conversation, before, add_generation_prompt=True).removesuffix(self.family.prompt_end)
        content, reasoning = content_text(last.get("content"), "\n\n"), last.get("reasoning_content") or ""
        part = conversation.continue_final
        if part == "auto":
            part = "reasoning_content" if reasoning and not content else "content"
        opening, closing = self.family.reasoning
        line = "\n" if opening == THINK else ""
        if part == "reasoning_content":
            begun = f"{opening}{line}{reasoning}"
        elif reasoning:
            header = ASSISTANT if self.family.messages else ""
            thought = f"{opening}{line}{reasoning}{line}{closing}{line * 2}"
            begun = f"{thought}{header}{self.family.content_begin}{content}"
        else:
            begun = self.family.content_begin + content if content else ""
        if begun:
            head = self.family.without_open_thinking(head)
        thinking = part == "reasoning_content" if begun else self.family.begins_thinking(head)
        return ChatPrompt(head + begun, thinking, has_begun=bool(begun.strip()))

    def _render(self, conversation: Conversation, messages: Sequence[Message], add_generation_prompt: bool) -> str:
        refusal, text = None, ""
        try:
            text = self._rendered(conversation, messages, add_generation_prompt)
            if not messages or not self._is_empty(text):
                return text
        except LimitExceeded as error:
            raise _refused(error) from None  # a stricter form takes as long
        except Exception as error:  # a template is a program that may raise anything
            refusal = _refused(error)
        messages, tools = self._with_plain_tools(messages, conversation.tools)
        plain = replace(conversation, tools=tools)
        for history in (messages, *stricter(messages, self._calls_as_text)):
            with suppress(Exception):
                text = self._rendered(plain, history, add_generation_prompt)
                if not self._is_empty(text):
                    return text
        if refusal is None:
            return text  # of a history that says nothing
        raise refusal

    def _is_empty(self, text: str) -> bool:
        return text in ("", self._tokens["bos_token"]) and not self._is_named  # theirs are llama.cpp's prompts

    def _with_plain_tools(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]
    ) -> tuple[Sequence[Message], Sequence[Mapping[str, Any]]]:
        """Return a history and its tools so that the template takes these: with whole schemas, or described in a message."""
        needle = self._prepare([_message("user", "needle")], ())
        for given in (tools, [_with_properties(tool) for tool in tools]):
            if not given or self._renders(needle, tools=given):
                return messages, given
        described = [dict(message) for message in messages]
        _describe_tools(described, tools, self.family)
        return described, ()

    def _rendered(self, conversation: Conversation, messages: Sequence[Message], add_generation_prompt: bool) -> str:
        prepared = self._prepare(messages, conversation.tools)
        if self._is_told_by_words and conversation.thinking is not None:
            _tell(prepared, "/think" if conversation.thinking else "/no_think")
        return self._run(prepared, conversation, add_generation_prompt)

    def _run(self, messages: Sequence[Message], conversation: Conversation, add_generation_prompt: bool) -> str:
        tools = list(conversation.tools) if conversation.tools and self.knows_tools else self._without_tools
        return self._sandbox.run(
            self._template,
            {
                **self._switches(conversation),
                **self._with_effort(conversation),
                **self._tokens,
                "messages": messages,
                "tools": tools,
                "documents": conversation.documents,
                "add_generation_prompt": add_generation_prompt,
            },
        )

    def _switches(self, conversation: Conversation) -> dict[str, Any]:
        """Return variables of the template that stand for others: by them some families switch reasoning."""
        thinking, effort = conversation.thinking, conversation.variables.get("reasoning_effort")
        # Firefunction 2's, which fails without them; a message describes the tools, and a request has the date.
        found: dict[str, Any] = {"functions": "[]", "datetime": ""}
        if conversation.tools and self.knows_tools and "tools" not in self._names:
            found["xml_tools"] = [tool["function"] for tool in conversation.tools]  # SmolLM3's
        if thinking is not None:
            found |= {
                "thinking": thinking,
                "reasoning": thinking,
                "thinking_mode": "enabled" if thinking else "disabled",
            }
            found["thinking_budget"] = conversation.budget if thinking else 0
        elif conversation.budget >= 0:
            found["thinking_budget"] = conversation.budget
        if effort is not None:
            found["thinking_effort"] = {"minimal": "low", "medium": "high", "xhigh": "max"}.get(effort, effort)
        return {name: value for name, value in found.items() if name in self._names}

    def _with_effort(self, conversation: Conversation) -> Mapping[str, Any]:
        """Return the variables with an effort that Hunyuan's templates know; they refuse all others."""
        effort = conversation.variables.get("reasoning_effort")
        if not self._knows_no_effort:
            return conversation.variables
        if conversation.thinking is False or (effort is None and conversation.thinking is None):
            effort = "no_think"
        elif effort not in ("low", "no_think"):
            effort = "low" if effort == "minimal" else "high"
        return {**conversation.variables, "reasoning_effort": effort}

    # Substitutes for missing abilities ---------------------------------------------------------------------------------

    def _prepare(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        if not self._takes_calls:
            messages = with_written_calls(messages, self._calls_as_text)
        prepared = [dict(message) for message in messages]
        for message in prepared:
            if message["role"] == "developer" and not self._knows_developers:
                message["role"] = "system"
        if tools and not self.knows_tools:
            _describe_tools(prepared, tools, self.family)
        for message in yielding(prepared):
            message["content"] = content_text(message.get("content"))
            self._place_reasoning(message)
            if message.get("tool_calls"):
                message["tool_calls"] = [self._call(call) for call in message["tool_calls"]]
        if not self._takes_system:
            prepared = _without_system(prepared)
        if self._takes_parts:
            for message in prepared:
                message["content"] = [{"type": "text", "text": message["content"]}]
        return prepared

    def _place_reasoning(self, message: dict[str, Any]) -> None:
        """Move a message's reasoning to where the templates of gpt-oss and of Mistral's reasoning models have it."""
        reasoning = message.get("reasoning_content")
        if not reasoning:
            return
        if self._has_thinking_field:
            message["thinking"] = reasoning
            if message.get("tool_calls"):
                message["content"] = ""  # beside a call, gpt-oss' template takes one of the two
        elif self._has_thinking_parts:
            said = [{"type": "text", "text": message["content"]}] if message["content"] else []
            message["content"] = [{"type": "thinking", "thinking": reasoning, "closed": True}, *said]

    def _calls_as_text(self, calls: Iterable[Mapping[str, Any]]) -> str:
        """Return tool calls as the model writes them, for a template that renders none.

        Arguments that are no object have a place in JSON alone.
        """
        functions = [call["function"] for call in calls]
        written = [(each["name"], argument_object(each.get("arguments"))) for each in functions]
        family = self.family if all(isinstance(arguments, Mapping) for _, arguments in written) else HERMES
        return family.forms[0].write(written)

    def _call(self, call: Mapping[str, Any]) -> dict[str, Any]:
        """Return a tool call with its arguments in the template's form: an object or JSON text.

        Arguments that are no object, as of a call that was cut off, stay text where the template takes any, else `{}`.
        """
        function = call["function"]
        given = function.get("arguments") or {}
        arguments = argument_object(given)
        if not isinstance(arguments, Mapping):
            arguments = given if self._takes_any_arguments else {}
        elif not self._takes_argument_objects:
            arguments = given if arguments and isinstance(given, str) else to_json(arguments)
        return {**call, "type": "function", "function": {**function, "arguments": arguments}}

    def _needs_parts(self) -> bool:
        parts = [{"type": "text", "text": "needle"}]
        return not self._renders([_message("user", "needle")]) and self._renders([_message("user", parts)])

    def _renders(
        self,
        messages: list[dict[str, Any]],
        variables: Mapping[str, Any] | None = None,
        tools: Sequence[Mapping[str, Any]] | None = None,
    ) -> bool:
        """Whether the template can render these messages, and its output contains their word "needle"."""
        probe = Conversation(messages, tools=[EXAMPLE_TOOL] if tools is None else tools, variables=variables or {})
        try:
            return "needle" in self._run(messages, probe, add_generation_prompt=True)
        except Exception:  # a template is a program that may raise anything
            return False


def _read_by(node: Any) -> tuple[Any, Any]:
    """Return what is read by a part of a template, and the name of the field of it."""
    match node:
        case nodes.Getattr(node=owner, attr=name):
            return owner, name
        case nodes.Getitem(node=owner, arg=nodes.Const(value=name)):
            return owner, name
        case nodes.Filter(node=owner, name="tojson"):
            return owner, _WHOLE
        case nodes.Call(node=nodes.Getattr(node=owner, attr="get"), args=[nodes.Const(value=name), *_]):
            return owner, name
    return None, None


def _with_properties(tool: Mapping[str, Any]) -> dict[str, Any]:
    """Return a tool whose schema says that it is an object's, for templates that go through its properties."""
    function = tool["function"]
    return {
        **tool,
        "function": {**function, "parameters": {"type": "object", "properties": {}, **function["parameters"]}},
    }


def _refused(error: Exception) -> InvalidRequest:
    if isinstance(error, TemplateError):
        return InvalidRequest(f"Field 'messages': refused by the chat template: {error.message}", param="messages")
    log.info("a chat template failed: %s", error)
    return InvalidRequest(f"Field 'messages': the chat template failed to render them: {error}", param="messages")


EXAMPLE_TOOL: dict[str, Any] = {
    "type": "function",
    "function": {"name": "f", "description": "d", "parameters": {"type": "object", "properties": {}}},
}


def _message(role: str, content: Any) -> dict[str, Any]:
    return {"role": role, "content": content}


# A conversation with two thoughts; templates that omit the past ones keep the last at most.
_THOUGHTS = [
    _message("user", "x"),
    {**_message("assistant", "y"), "reasoning_content": "needle"},
    _message("user", "x"),
    {**_message("assistant", "y"), "reasoning_content": "z"},
    _message("user", "x"),
]


def _call_with(*arguments: Any) -> list[dict[str, Any]]:
    """Return a conversation whose assistant calls the tool f once with each of the arguments."""
    functions = [{"name": "f", "arguments": each} for each in arguments]
    calls = [{"id": f"abcdefgh{i}", "type": "function", "function": function} for i, function in enumerate(functions)]
    answers = [{**_message("tool", "y"), "name": "f", "tool_call_id": call["id"]} for call in calls]
    return [_message("user", "x"), {**_message("assistant", ""), "tool_calls": calls}, *answers]


def _tell(messages: list[dict[str, Any]], word: str) -> None:
    """Append a word to the last message of the user, by which some templates switch reasoning."""
    for message in reversed(messages):
        if message["role"] == "user" and isinstance(message["content"], str):
            message["content"] += f" {word}"
            return


def _describe_tools(messages: list[dict[str, Any]], tools: Iterable[Mapping[str, Any]], family: Family) -> None:
    """Describe the tools in the system message, for a template without tools."""
    example = "" if family is HERMES else family.forms[0].write([("function-name", {"argument": "value"})])
    prompt = OWN_FORM_PROMPT.replace("{example}", example) if example else TOOLS_PROMPT
    explained = prompt.replace("{tools}", "\n".join(to_json(tool) for tool in tools))
    if messages[:1] and messages[0]["role"] == "system":
        messages[0]["content"] = f"{content_text(messages[0].get('content'))}\n\n{explained}"
    else:
        messages.insert(0, _message("system", explained))


def _without_system(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Prepend each system message's text to the next user message; without one, append a user message."""
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


def history_variables(preserve: Any) -> dict[str, bool]:
    """Return the variables by which templates keep the reasoning of past replies, or omit it: each family has its own."""
    if not isinstance(preserve, bool):
        return {}
    omitting = ("clear_thinking", "truncate_history_thinking", "drop_thinking")
    return {"preserve_reasoning": preserve, "preserve_thinking": preserve, **dict.fromkeys(omitting, not preserve)}


def argument_object(arguments: Any) -> Any:
    """Return a call's arguments as an object if they are JSON text of one, as OpenAI's clients send them."""
    if not isinstance(arguments, str):
        return arguments or {}
    try:
        return orjson.loads(arguments.strip() or "{}") or {}
    except orjson.JSONDecodeError:
        return arguments


# The choice of the template -------------------------------------------------------------------------------------------


def template_for(settings: Settings, model: ModelInfo, with_tools: bool = False) -> ChatTemplate:
    """Return the template of the settings, else the model's, else ChatML; each is compiled once per process.

    Raise NotSupported for a model's template that cannot be compiled.
    """
    source = (with_tools and not configured_source(settings) and model.chat_template_tool_use) or None
    try:
        return _compiled(source or template_source(settings, model), model.bos_token, model.eos_token)
    except TemplateError as error:
        raise NotSupported(
            f"The model's chat template cannot be used ({error.message}); set another one with chat_template or "
            "chat_template_file"
        ) from None


def template_capabilities(settings: Settings, model: ModelInfo) -> dict[str, bool]:
    """Return the template's abilities; {} if it cannot be used."""
    try:
        return template_for(settings, model).capabilities
    except NotSupported:
        return {}


def can_think(settings: Settings, model: ModelInfo) -> bool:
    """Whether the template has reasoning; False if it cannot be used."""
    try:
        return template_for(settings, model).can_think
    except NotSupported:
        return False


def template_source(settings: Settings, model: ModelInfo) -> str:
    """Return the Jinja text of the template; "" if neither settings nor model have one, and ChatML is used."""
    return configured_source(settings) or model.chat_template


def configured_source(settings: Settings) -> str:
    """Return the Jinja text of the settings' template, or ""; raise ConfigError for an unknown name or unreadable file."""
    if settings.chat_template_file:
        return _file_text(settings.chat_template_file)
    given = settings.chat_template
    if not given or "{" in given:
        return given
    if given not in NAMED_TEMPLATES:
        raise ConfigError(
            f"chat_template: {given[:64]!r} is neither Jinja text nor one of the names {', '.join(NAMED_TEMPLATES)}"
        )
    return NAMED_TEMPLATES[given]


def check_configured(settings: Settings) -> None:
    """Raise ConfigError if the settings' template cannot be read or compiled."""
    source = configured_source(settings)
    try:
        if source:
            ChatTemplate(source)
    except TemplateError as error:
        name = "chat_template_file" if settings.chat_template_file else "chat_template"
        raise ConfigError(f"{name}: not a Jinja template: {error.message}") from None


@lru_cache(maxsize=8)  # one for each model in use
def _compiled(source: str, bos_token: str, eos_token: str) -> ChatTemplate:
    if source:
        return ChatTemplate(source, bos_token, eos_token)
    log.warning("the model has no chat template: conversations are rendered as ChatML")
    return ChatTemplate(CHATML, bos_token, eos_token, CHATML_STOPS)


@lru_cache(maxsize=8)
def _file_text(path: str) -> str:
    return read_text("chat_template_file", path)
