"""The body of a chat completion: messages, tools, and the form of the reply."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated, Any, Literal, Self

import orjson
from pydantic import BeforeValidator, ConfigDict, Field, ValidationError, WithJsonSchema

from srb.errors import NotSupported, bad_field
from srb.protocol import Generate, ModelInfo, SamplingParams
from srb.settings import Settings
from srb.web.bodies.completion import CompletionBody
from srb.web.bodies.fields import NaturalOrMinusOne, field_alias, schema_text, short_json
from srb.web.bodies.sampling import ProbCount, explain
from srb.web.chat.media import NOT_SUPPORTED as NO_MEDIA
from srb.web.chat.media import MarkedMessages, media_part
from srb.web.chat.reply_parser import ReplyParser
from srb.web.chat.template import (
    ChatPrompt,
    ChatTemplate,
    Continuation,
    Conversation,
    history_variables,
    template_for,
    without_open_thinking,
)
from srb.web.media_sources import media_data

MAX_TOOLS = 256
MAX_NAME = 256  # characters of a tool's name
TOP_LOGPROBS = 20  # for a body with logprobs but without top_logprobs

# Schemas in /openapi.json of the fields with several forms.
MESSAGES_SCHEMA = {
    "type": "array",
    "minItems": 1,
    "items": {
        "type": "object",
        "properties": {
            "role": {"type": "string", "minLength": 1},
            "content": {
                "anyOf": [{"type": "string"}, {"type": "null"}, {"type": "array", "items": {"type": "object"}}]
            },
            "reasoning_content": {"type": "string"},
            "tool_calls": {"type": "array", "items": {"type": "object"}},
        },
        "required": ["role"],
    },
}
CHOICE_SCHEMA = {"anyOf": [{"enum": ["auto", "none", "required"]}, {"type": "object"}]}
FORMAT_SCHEMA = {
    "type": "object",
    "properties": {"type": {"enum": ["text", "json_object", "json_schema"]}, "json_schema": {"type": "object"}},
    "required": ["type"],
}


def parse_messages(value: Any) -> list[dict[str, Any]]:
    """Return a body's messages without their null fields.

    Raise ValueError for malformed messages, NotSupported for parts that are not text.
    """
    if not isinstance(value, list) or not value:
        raise ValueError("must be a non-empty list of messages")
    return [_message(place, message) for place, message in enumerate(value)]


def _message(place: int, message: Any) -> dict[str, Any]:
    where = f"message {place}"
    if not isinstance(message, dict):
        raise ValueError(f"{where} must be an object, but got {short_json(message)}")
    kept = {name: part for name, part in message.items() if part is not None}
    if not isinstance(kept.get("role"), str) or not kept["role"]:
        raise ValueError(f"{where}: 'role' must be a string")
    if not isinstance(kept.get("reasoning_content", ""), str):
        raise ValueError(f"{where}: 'reasoning_content' must be a string")
    if "tool_calls" in kept:
        kept["tool_calls"] = [_tool_call(where, call) for call in _list_field(where, kept, "tool_calls")]
    if isinstance(kept.get("content"), list):
        kept["content"] = [_text_part(where, part) for part in kept["content"]]
    elif not isinstance(kept.get("content", ""), str):
        raise ValueError(f"{where}: 'content' must be a string, null or a list of parts")
    if "content" not in kept and kept["role"] != "assistant":
        raise ValueError(f"{where}: 'content' is required")
    return kept


def _text_part(where: str, part: Any) -> dict[str, str]:
    kind = part.get("type") if isinstance(part, dict) else None
    if kind in ("text", "input_text", "output_text") and isinstance(part.get("text"), str):
        return {"type": "text", "text": part["text"]}
    if kind in NO_MEDIA:
        raise NotSupported(
            f"Field 'messages': {where} has a part of type {short_json(kind)}; text, pictures and sounds are supported",
            param="messages",
        )
    try:
        medium = media_part(part) if isinstance(part, dict) else None
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None
    if medium is None:
        raise ValueError(
            f'{where}: a part of its content must be {{"type": "text", "text": "…"}}, a picture or a sound'
        )
    return medium


def _tool_call(where: str, call: Any) -> dict[str, Any]:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise ValueError(f"{where}: a tool call must have a 'function' with a 'name'")
    if not isinstance(function.get("arguments", ""), (str, dict)):
        raise ValueError(f"{where}: the arguments of a tool call must be JSON text or an object")
    return {**call, "type": "function"}


def _list_field(where: str, message: Mapping[str, Any], name: str) -> list[Any]:
    value = message[name]
    if not isinstance(value, list):
        raise ValueError(f"{where}: '{name}' must be a list")
    return value


def parse_tools(value: Any) -> list[dict[str, Any]]:
    """Return the tools of a body, each as {"type": "function", "function": {"name", …}}; raise ValueError."""
    if not isinstance(value, list):
        raise ValueError("must be a list of tools")
    if len(value) > MAX_TOOLS:
        raise ValueError(f"has {len(value)} entries; at most {MAX_TOOLS} are allowed")
    for place, tool in enumerate(value):
        if not isinstance(tool, dict) or tool.get("type", "function") != "function":
            raise ValueError(f'tool {place} must be an object of "type": "function"')
        function = tool.get("function")
        if not isinstance(function, dict):
            raise ValueError(f"tool {place} must have a 'function'")
        if not isinstance(function.get("name"), str) or not 0 < len(function["name"]) <= MAX_NAME:
            raise ValueError(f"tool {place} must have a 'name' of at most {MAX_NAME} characters")
        if not isinstance(function.get("parameters") or {}, dict):
            raise ValueError(f"tool {place}: 'parameters' must be a JSON schema")
        try:
            orjson.dumps(tool)
        except orjson.JSONEncodeError:
            raise ValueError(f"tool {place} is nested too deeply") from None
    return [{**tool, "type": "function"} for tool in value]


def parse_tool_choice(value: Any) -> str:
    """Return auto, none, required, or `=name` for a named tool that must be called; raise ValueError."""
    if isinstance(value, str) and value in ("auto", "none", "required"):
        return value
    function = value.get("function") if isinstance(value, dict) else None
    if isinstance(function, dict) and isinstance(function.get("name"), str):
        return f"={function['name']}"
    raise ValueError('must be "auto", "none", "required" or {"type": "function", "function": {"name": "…"}}')


def parse_response_format(value: Any) -> str:
    """Return the JSON schema that constrains the reply, as text; "" for any text. Raise ValueError."""
    kind = value.get("type") if isinstance(value, dict) else None
    if kind == "text":
        return ""
    if kind == "json_object":
        return schema_text(value.get("schema") or {})
    if kind == "json_schema":
        described = value.get("json_schema")
        schema = described.get("schema") if isinstance(described, dict) else value.get("schema")
        if schema is None:
            raise ValueError("json_schema needs a 'schema'")
        return schema_text(schema)
    raise ValueError('its type must be one of "text", "json_object" and "json_schema"')


@dataclass(frozen=True)
class ChatRequest:
    """A chat body's commands for the engine, and the parser of its replies."""

    commands: list[Generate]
    prompt: ChatPrompt
    tools: frozenset[str]
    reasoning_format: str

    def parser(self, stream: bool) -> ReplyParser:
        """Return the parser of one branch's reply; in a stream, deepseek-legacy keeps reasoning in the content."""
        reasoning = self.reasoning_format not in ("none", "deepseek-legacy" if stream else "none")
        return ReplyParser(self.tools, reasoning, self.prompt.thinking, self.prompt.has_begun)


def _without_prompt(schema: dict[str, Any]) -> None:
    del schema["properties"]["prompt"]


class ChatBody(CompletionBody):
    """The body of a chat completion: all fields of CompletionBody except `prompt`, and those of chats."""

    model_config = ConfigDict(json_schema_extra=_without_prompt)

    messages: Annotated[list[dict[str, Any]], BeforeValidator(parse_messages), WithJsonSchema(MESSAGES_SCHEMA)]
    tools: Annotated[list[dict[str, Any]], BeforeValidator(parse_tools)] = Field(default_factory=list)
    tool_choice: Annotated[str, BeforeValidator(parse_tool_choice), WithJsonSchema(CHOICE_SCHEMA)] = "auto"
    parallel_tool_calls: bool = True
    documents: list[Any] | None = None

    response_format: Annotated[str, BeforeValidator(parse_response_format), WithJsonSchema(FORMAT_SCHEMA)] = ""
    logprobs: bool | None = None
    top_logprobs: ProbCount | None = None

    chat_template_kwargs: dict[str, Any] = Field(default_factory=dict)
    add_generation_prompt: bool = True
    continue_final_message: bool | Literal["content", "reasoning_content"] | None = None
    reasoning_effort: str | None = None
    reasoning_budget_tokens: NaturalOrMinusOne | None = field_alias("reasoning_budget_tokens", "thinking_budget_tokens")

    # Without effect: the server has one model, whatever its name, and does not distinguish users.
    model: str | None = None
    user: str | None = None

    @classmethod
    def parse(cls, body: dict[str, Any]) -> Self:
        """Validate a body from `read_body`; raise InvalidRequest, which names the first field at fault."""
        if "messages" not in body:
            raise bad_field("messages", "is required")
        try:
            parsed = cls.model_validate({**body, "prompt": []})
        except ValidationError as error:
            raise explain(error) from None
        parsed._check_together()
        return parsed

    @property
    def wanted_probs(self) -> int:
        if self.n_probs or not self.logprobs:
            return self.n_probs or -1
        return TOP_LOGPROBS if self.top_logprobs is None else self.top_logprobs

    @property
    def offered_tools(self) -> list[dict[str, Any]]:
        return [] if self.tool_choice == "none" else self.tools

    def render(self, settings: Settings, model: ModelInfo) -> ChatPrompt:
        """Return the rendered conversation; raise InvalidRequest if the template refuses the messages."""
        marked = MarkedMessages.of(self.messages)
        prompt = self._prompt(template_for(settings, model, bool(self.offered_tools)), marked, settings, model)
        return replace(prompt, text=marked.shown(prompt.text))

    def request(self, settings: Settings, model: ModelInfo) -> ChatRequest:
        """Return the commands and the parser of the replies; raise InvalidRequest or NotSupported."""
        template = template_for(settings, model, bool(self.offered_tools))
        marked = MarkedMessages.of(self.messages)
        prompt = self._prompt(template, marked, settings, model)
        filled = self.model_copy(update={"prompt": [(prompt.text,)], "json_schema": self._schema(template)})
        if marked.sources:
            if not (model.sees or model.hears):
                raise NotSupported(
                    "Field 'messages': this server reads text only; start it with --mmproj FILE, the model's projector, "
                    "for pictures and sounds",
                    param="messages",
                )
            parts, media = marked.prompt(prompt.text, lambda source: _data(source, settings))
            filled = filled.with_media([parts], media, "messages")
            prompt = replace(prompt, text=marked.shown(prompt.text))
        commands = filled.commands(settings, n=1, max_tokens=settings.n_predict)
        commands = [_with_stops(command, template.stops) for command in commands]
        names = frozenset(tool["function"]["name"] for tool in self.offered_tools)
        return ChatRequest(commands, prompt, names, self.reasoning_format or settings.reasoning_format)

    def sampling(self, settings: Settings) -> SamplingParams:
        sampling = super().sampling(settings)
        return replace(sampling, grammar="") if self.json_schema else sampling

    def _prompt(
        self, template: ChatTemplate, marked: MarkedMessages, settings: Settings, model: ModelInfo
    ) -> ChatPrompt:
        prompt = template.prompt(self._conversation(marked, settings))
        text = prompt.text
        if model.add_bos and model.bos_token and text.startswith(model.bos_token):
            text = text[len(model.bos_token) :]  # the engine adds the BOS
        if (self._must_call or self.response_format or self.json_schema) and not prompt.has_begun:
            text = without_open_thinking(text)  # the grammar allows JSON only, no reasoning
            prompt = replace(prompt, thinking=False)
        if self._must_call and not template.calls_with_parameters:
            text += "<tool_call>\n"
        if not text:
            raise bad_field("messages", "the chat template renders them to an empty prompt")
        return replace(prompt, text=text)

    def _conversation(self, marked: MarkedMessages, settings: Settings) -> Conversation:
        return Conversation(
            messages=marked.messages,
            tools=self.offered_tools,
            documents=self.documents,
            add_generation_prompt=self.add_generation_prompt,
            continue_final=self._continues(settings),
            variables=self._variables(settings),
        )

    def _variables(self, settings: Settings) -> dict[str, Any]:
        """Return the template's variables, as llama-server's: those of `chat_template_kwargs` have precedence."""
        given = orjson.loads(settings.chat_template_kwargs or "{}") | self.chat_template_kwargs
        if isinstance(given.get("enable_thinking"), str):
            raise bad_field("chat_template_kwargs", 'invalid type for "enable_thinking" (expected boolean, got string)')
        effort = self.reasoning_effort or given.get("reasoning_effort") or settings.reasoning_effort
        if self.reasoning_effort == "none":
            given.pop("reasoning_effort", None)
        elif effort != "default":
            given = {"reasoning_strength": effort} | given | {"reasoning_effort": effort}
        asked = self.reasoning_effort is not None or self.reasoning_budget_tokens is not None
        forbidden = self.reasoning_effort == "none" or self.reasoning_budget_tokens == 0
        today = datetime.now()
        return {
            "datetime": f"{today:%b %d %Y}",
            "date_string": f"{today:%d %b %Y}",
            "enable_thinking": not forbidden if asked else settings.reasoning != "off",
            **history_variables(given.get("preserve_reasoning", True)),
            **given,
        }

    def _continues(self, settings: Settings) -> Continuation:
        """Return the part of the last message that the reply continues, or "". Raise InvalidRequest."""
        wanted = self.continue_final_message
        last = self.messages[-1]
        if wanted and last.get("tool_calls"):
            raise bad_field("continue_final_message", "Cannot continue an assistant message that contains tool calls.")
        if wanted and last["role"] != "assistant":
            raise bad_field("continue_final_message", "the last message is not the assistant's")
        if last["role"] != "assistant" or last.get("tool_calls"):
            return ""
        wanted = settings.prefill_assistant if wanted is None else wanted
        if wanted and len(self.messages) > 1 and self.messages[-2]["role"] == "assistant":
            raise bad_field("messages", "cannot have 2 or more assistant messages at the end of the list")
        return "auto" if wanted is True else wanted or ""

    @property
    def _must_call(self) -> bool:
        return self.tool_choice == "required" or self.tool_choice.startswith("=")

    def _schema(self, template: ChatTemplate) -> str | None:
        if not self._must_call:
            return self.response_format or self.json_schema
        chosen = [
            tool["function"]
            for tool in self.tools
            if self.tool_choice == "required" or tool["function"]["name"] == self.tool_choice[1:]
        ]
        try:
            return schema_text(call_schema(chosen, "parameters" if template.calls_with_parameters else "arguments"))
        except ValueError as error:
            raise bad_field("tools", str(error)) from None

    def _check_together(self) -> None:
        """Raise InvalidRequest for fields that contradict each other."""
        if (
            self.continue_final_message
            and self.add_generation_prompt
            and "add_generation_prompt" in self.model_fields_set
        ):
            raise bad_field(
                "continue_final_message", "Cannot set both add_generation_prompt and continue_final_message to true."
            )
        if self.top_logprobs and not self.logprobs:
            raise bad_field("top_logprobs", "needs logprobs to be true")
        if self.logprobs and self.offered_tools and self.stream:
            raise bad_field("logprobs", "is not supported with tools and stream")
        constraints = [name for name in ("grammar", "json_schema", "response_format") if getattr(self, name)]
        if len(constraints) > 1:
            raise bad_field(constraints[-1], f"cannot be used together with {constraints[0]}")
        if constraints and self.offered_tools:
            raise bad_field(constraints[0], "cannot be used together with tools")
        if self._must_call and not self.tools:
            raise bad_field("tool_choice", "needs tools, but 'tools' is empty")
        names = [tool["function"]["name"] for tool in self.tools]
        if self.tool_choice.startswith("=") and self.tool_choice[1:] not in names:
            raise bad_field("tool_choice", f"names a tool that 'tools' lacks: {short_json(self.tool_choice[1:])}")


def _data(source: dict[str, str], settings: Settings) -> str:
    """Return the base64 of a part of media. Raise InvalidRequest or NotSupported."""
    return source["data"] if "data" in source else media_data(source["url"], settings, "messages")


def _with_stops(command: Generate, stops: tuple[str, ...]) -> Generate:
    branches = tuple(replace(branch, stop=(*branch.stop, *stops)) for branch in command.branches)
    return replace(command, branches=branches)


def call_schema(functions: list[dict[str, Any]], key: str) -> dict[str, Any]:
    """Return the JSON schema of a call of one of the functions, with its arguments under `key`.

    Definitions in a function's parameters move with them: "#/$defs/x" becomes "#/$defs/0/$defs/x".
    """
    parameters = [function.get("parameters") or {"type": "object"} for function in functions]
    moved = [_with_moved_refs(schema, f"#/$defs/{place}") for place, schema in enumerate(parameters)]
    calls = [
        {
            "type": "object",
            "properties": {"name": {"const": function["name"]}, key: schema},
            "required": ["name", key],
        }
        for function, schema in zip(functions, moved, strict=True)
    ]
    schema: dict[str, Any] = calls[0] if len(calls) == 1 else {"anyOf": calls}
    if moved != parameters:
        schema["$defs"] = {str(place): each for place, each in enumerate(moved)}
    return schema


def _with_moved_refs(schema: Any, to: str) -> Any:
    if isinstance(schema, list):
        return [_with_moved_refs(part, to) for part in schema]
    if not isinstance(schema, dict):
        return schema
    moved = {name: _with_moved_refs(part, to) for name, part in schema.items()}
    if isinstance(ref := schema.get("$ref"), str) and ref.startswith("#"):
        moved["$ref"] = to + ref[1:]
    return moved
