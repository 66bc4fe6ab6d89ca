"""The body of a chat completion: messages, tools, and the form of the reply."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated, Any, Literal, Self

import orjson
from pydantic import BeforeValidator, ConfigDict, Field, ValidationError, WithJsonSchema

from srb.errors import NotSupported, bad_field
from srb.protocol import BranchSpec, Generate, ModelInfo, SamplingParams
from srb.settings import Settings
from srb.web.bodies.completion import CompletionBody
from srb.web.bodies.fields import NaturalOrMinusOne, Prompt, field_alias, schema_text, short_json
from srb.web.bodies.media import MAX_FILES, check_reads_media
from srb.web.bodies.reasoning import ReasoningFields, Thinking
from srb.web.bodies.sampling import ProbCount, explain
from srb.web.chat.families import HERMES, Family
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
)
from srb.web.limits import cap_max_tokens
from srb.web.media_sources import MAX_CHARACTERS, load_media

MAX_TOOLS = 256
MAX_NAME = 256  # characters of a tool's name
MAX_BUDGET_MESSAGE = 4096  # characters
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
    if allowed_tools(value) is not None:
        return str(_allowed(value)["mode"])
    function = value.get("function") if isinstance(value, dict) else None
    if isinstance(function, dict) and isinstance(function.get("name"), str):
        return f"={function['name']}"
    raise ValueError(
        'must be "auto", "none", "required", {"type": "function", "function": {"name": "…"}} or {"type": "allowed_tools", …}'
    )


def allowed_tools(value: Any) -> list[str] | None:
    """Return the names of the tools that a tool_choice of the type allowed_tools allows, None for other types.

    Raise ValueError.
    """
    if not isinstance(value, dict) or value.get("type") != "allowed_tools":
        return None
    given = _allowed(value)
    tools = given.get("tools")
    if given.get("mode") not in ("auto", "required") or not isinstance(tools, list):
        raise ValueError('allowed_tools must have "mode" auto or required, and a list of "tools"')
    names = [_tool_name(tool) for tool in tools if not isinstance(tool, dict) or tool.get("type") in (None, "function")]
    if not all(isinstance(name, str) for name in names):
        raise ValueError('each of the allowed "tools" must have the name of a function')
    return names


def _allowed(value: dict[str, Any]) -> dict[str, Any]:
    """Return the object with `mode` and `tools`: chats have it inside of another, responses have not."""
    inner = value.get("allowed_tools")
    return inner if isinstance(inner, dict) else value


def _tool_name(tool: Any) -> Any:
    function = tool.get("function", tool) if isinstance(tool, dict) else None
    return function.get("name") if isinstance(function, dict) else None


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
class Awaited:
    """The tags of the reasoning that a grammar waits for, () for none, and the trigger with which it begins after them."""

    tags: tuple[str, ...]
    triggers: tuple[tuple[str, str | int], ...]


@dataclass(frozen=True)
class ChatRequest:
    """A chat body's commands for the engine, and the parser of its replies."""

    commands: list[Generate]
    prompt: ChatPrompt
    tools: Mapping[str, Any]  # the JSON schema of each tool's parameters, by its name
    reasoning_format: str
    family: Family = HERMES

    def parser(self, stream: bool, in_parts: bool = False) -> ReplyParser:
        """Return the parser of one branch's reply; in a stream, deepseek-legacy keeps reasoning in the content.

        With `in_parts` a call's arguments come as they are written.
        """
        reasoning = self.reasoning_format not in ("none", "deepseek-legacy" if stream else "none")
        prompt = self.prompt
        return ReplyParser(self.tools, reasoning, prompt.thinking, prompt.has_begun, self.family, in_parts)


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
    reasoning_budget_message: Annotated[str, Field(max_length=MAX_BUDGET_MESSAGE)] | None = None
    reasoning: ReasoningFields = ReasoningFields()
    thinking: Thinking | None = None
    enable_thinking: bool | None = None

    # `model` was read before: ModelChoice picks by it, and a server with one model takes any name. `user` has no effect.
    model: str | None = None
    user: str | None = None

    @classmethod
    def parse(cls, body: dict[str, Any]) -> Self:
        """Validate a body from `read_body`; raise InvalidRequest, which names the first field at fault."""
        parsed = cls._parse_fields(body)
        parsed = parsed.model_copy(update=parsed._as_chat(body))
        parsed._check_together()
        return parsed

    def _as_chat(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return the fields that `body` has under other names or in other forms."""
        update: dict[str, Any] = {}
        if self.reasoning_effort is None and self.reasoning.effort is not None:
            update["reasoning_effort"] = self.reasoning.effort
        if self.reasoning_budget_tokens is None:
            switch = None if self.enable_thinking is None else -1 if self.enable_thinking else 0
            said = (self.thinking.budget if self.thinking else None, self.reasoning.budget, switch)
            update["reasoning_budget_tokens"] = next((budget for budget in said if budget is not None), None)
        allowed = allowed_tools(body.get("tool_choice"))
        if allowed is not None:
            known = [tool["function"]["name"] for tool in self.tools]
            if unknown := next((name for name in allowed if name not in known), None):
                raise bad_field("tool_choice", f"allows a tool that 'tools' lacks: {short_json(unknown)}")
            update["tools"] = [tool for tool in self.tools if tool["function"]["name"] in allowed]
        return update

    @classmethod
    def _parse_fields(cls, body: dict[str, Any]) -> Self:
        """Validate each field of a body alone; raise InvalidRequest, which names the first field at fault."""
        if "messages" not in body:
            raise bad_field("messages", "is required")
        try:
            return cls.model_validate({**body, "prompt": []})
        except ValidationError as error:
            raise explain(error) from None

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

    def check(self, settings: Settings) -> list[Generate]:
        return cap_max_tokens(super().check(settings), settings.max_request_tokens)

    def request(self, settings: Settings, model: ModelInfo) -> ChatRequest:
        """Return the commands and the parser of the replies; raise InvalidRequest or NotSupported."""
        template = template_for(settings, model, bool(self.offered_tools))
        marked = MarkedMessages.of(self.messages)
        prompt = self._prompt(template, marked, settings, model)
        schema = None if self._must_call else self.response_format or self.json_schema
        filled = self.model_copy(update={"prompt": [(prompt.text,)], "json_schema": schema})
        if marked.sources:
            parts, media = self._with_media(prompt.text, marked, settings, model)
            filled = filled.with_media([parts], media, "messages")
            prompt = replace(prompt, text=marked.shown(prompt.text))
        commands = filled.commands(settings, n=1, max_tokens=settings.n_predict)
        shape, awaited = self._shape(template, settings), self._awaited(template, prompt, settings)
        opening, closing = template.family.reasoning
        tags = ("" if prompt.thinking else opening, closing)
        commands = [_shaped(command, template, shape, tags, awaited) for command in commands]
        tools = {tool["function"]["name"]: tool["function"].get("parameters") or {} for tool in self.offered_tools}
        reasoning_format = self.reasoning_format or settings.reasoning_format
        return ChatRequest(commands, prompt, tools, reasoning_format, template.family)

    def prompt_and_media(self, settings: Settings, model: ModelInfo) -> tuple[Prompt, list[str]]:
        """Return the rendered conversation as a prompt, and its media as base64. Raise InvalidRequest or NotSupported."""
        marked = MarkedMessages.of(self.messages)
        text = self._prompt(template_for(settings, model, bool(self.offered_tools)), marked, settings, model).text
        return self._with_media(text, marked, settings, model) if marked.sources else ((text,), [])

    def _with_media(
        self, text: str, marked: MarkedMessages, settings: Settings, model: ModelInfo
    ) -> tuple[Prompt, list[str]]:
        """Return the prompt of a rendered conversation, and its media as base64. Raise InvalidRequest or NotSupported."""
        check_reads_media(model, "messages")
        try:
            most = max(MAX_CHARACTERS, settings.max_body_bytes)
            parts, media = marked.prompt(
                text, lambda sources: load_media(sources, settings, "messages", most), MAX_FILES
            )
        except ValueError as error:
            raise bad_field("messages", str(error)) from None
        if len(media) < len(marked.sources):
            raise bad_field("messages", f"the chat template has no place for {len(marked.sources) - len(media)} of "
                            f"{len(marked.sources)} pictures and sounds")  # fmt: skip
        return parts, media

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
        if prompt.thinking and not prompt.has_begun and self._is_constrained and not self._may_think(settings):
            text = template.family.without_open_thinking(text)
            prompt = replace(prompt, thinking=False)
        if not text:
            raise bad_field("messages", "the chat template renders them to an empty prompt")
        return replace(prompt, text=text)

    def _conversation(self, marked: MarkedMessages, settings: Settings) -> Conversation:
        variables = self._variables(settings)
        is_asked = (
            self._asks_for_reasoning or settings.reasoning != "auto" or "enable_thinking" in self._given(settings)
        )
        return Conversation(
            messages=marked.messages,
            tools=self.offered_tools,
            documents=self.documents,
            add_generation_prompt=self.add_generation_prompt,
            continue_final=self._continues(settings),
            variables=variables,
            thinking=bool(variables["enable_thinking"]) if is_asked else None,
            budget=self._budget(settings),
        )

    def _given(self, settings: Settings) -> dict[str, Any]:
        """Return the variables that the request and the settings give the template."""
        given: dict[str, Any] = orjson.loads(settings.chat_template_kwargs or "{}")
        return given | self.chat_template_kwargs

    @property
    def _asks_for_reasoning(self) -> bool:
        """Whether the body says if, or how much, a reply shall think."""
        return self.reasoning_effort is not None or self.reasoning_budget_tokens is not None

    def _variables(self, settings: Settings) -> dict[str, Any]:
        """Return the template's variables, as llama-server's: those of `chat_template_kwargs` have precedence."""
        given = self._given(settings)
        if isinstance(given.get("enable_thinking"), str):
            raise bad_field("chat_template_kwargs", 'invalid type for "enable_thinking" (expected boolean, got string)')
        effort = self.reasoning_effort or given.get("reasoning_effort") or settings.reasoning_effort
        if self.reasoning_effort == "none":
            given.pop("reasoning_effort", None)
        elif effort != "default":
            given = {"reasoning_strength": effort} | given | {"reasoning_effort": effort}
        forbidden = self.reasoning_effort == "none" or self.reasoning_budget_tokens == 0
        today = datetime.now()
        return {
            "datetime": f"{today:%b %d %Y}",
            "date_string": f"{today:%d %b %Y}",
            "enable_thinking": not forbidden if self._asks_for_reasoning else settings.reasoning != "off",
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
    def _is_constrained(self) -> bool:
        """Whether a grammar holds for the whole answer of every branch."""
        return self._must_call or bool(self.response_format or self.json_schema or self.grammar)

    def _may_think(self, settings: Settings) -> bool:
        """Whether a reply may begin with reasoning, as far as the request and the settings say."""
        return self._budget(settings) != 0 and self._variables(settings)["enable_thinking"] is not False

    def _budget(self, settings: Settings) -> int:
        """Return the most tokens of reasoning; -1 for any number."""
        if self.explore is not None:
            return -1
        given = self.reasoning_budget_tokens
        return settings.reasoning_budget if given is None or given == -1 else given

    @property
    def _must_call(self) -> bool:
        return self.tool_choice == "required" or self.tool_choice.startswith("=")

    def _shape(self, template: ChatTemplate, settings: Settings) -> dict[str, Any]:
        """Return the sampling parameters that shape a reply: the grammar of its calls, and the budget of its reasoning."""
        family = template.family
        shape: dict[str, Any] = {}
        if self.offered_tools:
            self._check_names(family)
            called = self.tool_choice.removeprefix("=") if self.tool_choice.startswith("=") else None
            functions = [tool["function"] for tool in self.tools if called in (None, tool["function"]["name"])]
            grammar = family.grammar(functions, self.parallel_tool_calls and not self._must_call, not self._must_call)
            shape |= {
                "grammar": grammar.text,
                "json_schema": "",
                "grammar_schemas": grammar.schemas,
                "grammar_triggers": grammar.triggers,
            }
        budget = self._budget(settings)
        if budget >= 0:
            message = self.reasoning_budget_message
            shape["reasoning_budget_tokens"] = budget
            shape["reasoning_budget_message"] = settings.reasoning_budget_message if message is None else message
        return shape

    def _check_names(self, family: Family) -> None:
        """Raise InvalidRequest for a tool whose name has no place in the family's calls."""
        for place, tool in enumerate(self.offered_tools):
            name = tool["function"]["name"]
            if not family.forms[0].takes_name(name):
                raise bad_field(
                    "tools", f"tool {place}: calls of this model ({family.name}) have no place for the name "
                    f"{short_json(name)}; letters, digits and _ . : / - are taken",
                )  # fmt: skip

    def _awaited(self, template: ChatTemplate, prompt: ChatPrompt, settings: Settings) -> Awaited:
        """Return how a grammar waits for the answer. Without reasoning it begins at the first token."""
        family = template.family
        opening, closing = family.reasoning
        is_over = prompt.has_begun or family.has_thought(prompt.text) or not template.can_think
        thinks = prompt.thinking or (not is_over and self._may_think(settings))
        tags = ("" if prompt.thinking else opening, closing) if thinks else ()
        before = family.before_call if self._must_call else family.before_answer
        has_header = family.is_harmony and not prompt.has_begun
        return Awaited(tags, (("answer", before),) if thinks or has_header else ())

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
        if self.explore is not None and (self.reasoning_budget_tokens or 0) > 0:
            raise bad_field("reasoning_budget_tokens", "cannot be used together with explore")
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


def _shaped(
    command: Generate, template: ChatTemplate, shape: dict[str, Any], tags: tuple[str, ...], awaited: Awaited
) -> Generate:
    """Return a command whose branches end at the template's stop strings, and are shaped alike.

    A branch with a grammar of its own keeps it, if calls are not forced. A grammar that is not lazy waits for the answer.
    """

    def shaped(branch: BranchSpec) -> BranchSpec:
        is_forced = "grammar" in shape and not shape["grammar_triggers"]
        is_whole = is_forced or bool(branch.sampling.grammar or branch.sampling.json_schema)
        given = shape
        if is_whole and not is_forced:
            given = {name: value for name, value in shape.items() if "grammar" not in name and name != "json_schema"}
        if is_whole:
            given = given | {"grammar_triggers": awaited.triggers, "reasoning_tags": awaited.tags}
        elif given:
            given = given | {"reasoning_tags": tags}
        sampling = replace(branch.sampling, **given) if given else branch.sampling
        return replace(branch, stop=(*branch.stop, *template.stops), sampling=sampling)

    family = template.family
    has_calls = "grammar_schemas" in shape or family.is_harmony
    preserved = family.markers if has_calls else (*family.reasoning, *family.wrappers)
    base = shaped(command.base) if command.base is not None else None
    branches = tuple(map(shaped, command.branches))
    return replace(command, branches=branches, base=base, preserved_tokens=preserved)
