"""The fields of a chat that have several forms: messages, tools, the choice among them, and the form of the reply."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import orjson
from pydantic import BeforeValidator, Field, WithJsonSchema

from srb.web.bodies.fields import (
    INT32_MAX,
    OBJECT,
    TEXT,
    Integer,
    ObjectFields,
    array,
    between,
    check_length,
    either,
    object_of,
    one_of,
    schema_text,
)
from srb.web.bodies.unread import Within

Tokens = Annotated[Integer, between(0, INT32_MAX)]


class ReasoningFields(ObjectFields):
    """`reasoning` of Responses, and of OpenRouter's chats."""

    effort: str | None = None
    max_tokens: Tokens | None = None
    enabled: bool | None = None
    exclude: bool = False  # OpenRouter's: the model thinks, but the answer lacks its thoughts
    summary: Literal["auto", "concise", "detailed"] | None = Field(None, description="no effect: it is sent as it is")

    @property
    def budget(self) -> int | None:
        """The most tokens, 0 for no reasoning, -1 for any number; None if the fields do not say."""
        return _budget(self.enabled, self.max_tokens)


class ThinkingFields(ObjectFields):
    """`thinking` of Messages, and of the chats of several makers of models."""

    type: Literal["enabled", "adaptive", "auto", "disabled"]
    budget_tokens: Tokens | None = None
    display: Literal["summarized", "omitted"] | None = None

    @property
    def budget(self) -> int | None:
        """The most tokens, 0 for no reasoning, -1 for any number."""
        return _budget(self.type != "disabled", self.budget_tokens if self.type == "enabled" else None)


def _budget(enabled: bool | None, tokens: int | None) -> int | None:
    if enabled is False:
        return 0
    return tokens if tokens is not None else -1 if enabled else None


def _as_object(value: Any) -> Any:
    """Return true and false, which some clients send, as the object that they stand for."""
    return {"type": "enabled" if value else "disabled"} if isinstance(value, bool) else value


Thinking = Annotated[
    ThinkingFields,
    BeforeValidator(_as_object),
    WithJsonSchema({"anyOf": [ThinkingFields.model_json_schema(), {"type": "boolean"}]}),
    Within(frozenset({"type", "budget_tokens"})),
]


MAX_TOOLS = 256
MAX_NAME = 256  # characters of a tool's name

# The fields within a chat's, which a template gets as they are.
MESSAGES, TOOLS = Within("Message", to_template=True), Within("Tool", to_template=True)

# Schemas in /openapi.json of the fields with several forms.
MESSAGES_SCHEMA = array(
    object_of(
        {
            "role": {**TEXT, "minLength": 1},
            "content": either(TEXT, {"type": "null"}, array(OBJECT)),
            "reasoning_content": TEXT,
            "tool_calls": array(OBJECT),
        },
        "role",
    ),
    minItems=1,
)
CHOICE_SCHEMA = either(one_of("auto", "none", "required", "any"), OBJECT)
FORMAT_SCHEMA = object_of(
    {"type": one_of("text", "json_object", "json_schema", "json", "regex"), "json_schema": OBJECT}, "type"
)


def parse_tools(value: Any, places: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Return the tools of a body, each as {"type": "function", "function": {"name", …}}; raise ValueError.

    `places`: how errors call the tools, if not by their numbers.
    """
    if not isinstance(value, list):
        raise ValueError("must be a list of tools")
    check_length(value, MAX_TOOLS)
    value = [chat_tool(tool) for tool in value]
    for place, tool in zip(places or range(len(value)), value, strict=True):
        if not isinstance(tool, dict) or tool.get("type", "function") != "function":
            raise ValueError(f'tool {place} must be an object of "type": "function"')
        function = tool.get("function")
        if not isinstance(function, dict):
            raise ValueError(f"tool {place} must have a 'function'")
        if not isinstance(function.get("name"), str) or not 0 < len(function["name"]) <= MAX_NAME:
            raise ValueError(f"tool {place} must have a 'name' of at most {MAX_NAME} characters")
        if function.get("parameters") is False:
            raise ValueError(f"tool {place}: its parameters are false, the schema of no value; true or null allow any")
        if not isinstance(function.get("parameters"), dict | bool | None):
            raise ValueError(f"tool {place}: 'parameters' must be a JSON schema, an object or true")
        try:
            orjson.dumps(tool)
        except orjson.JSONEncodeError:
            raise ValueError(f"tool {place} is nested too deeply") from None
    return [{**tool, "type": "function", "function": _described(tool["function"])} for tool in value]


def chat_tool(tool: Any) -> Any:
    """Return a tool of Responses' or Anthropic's form in that of chats; any other as it is."""
    if not isinstance(tool, dict) or isinstance(tool.get("function"), dict) or not isinstance(tool.get("name"), str):
        return tool
    if tool.get("type") != "function" and not (tool.get("type") in (None, "custom") and "input_schema" in tool):
        return tool
    if "input_schema" in tool:  # Anthropic's further fields, such as `cache_control`, say nothing to the model
        function = {name: tool[name] for name in ("name", "description") if tool.get(name) is not None}
        return {"type": "function", "function": function | {"parameters": tool["input_schema"]}}
    function = {name: part for name, part in tool.items() if name != "type" and part is not None}
    return {"type": "function", "function": function}


def _described(function: dict[str, Any]) -> dict[str, Any]:
    """Return a function with the fields that templates read without looking whether they are there."""
    parameters = function.get("parameters")
    schema = parameters if isinstance(parameters, dict) else {}  # of true and of null, too: arguments are an object
    return function | {"description": function.get("description") or "", "parameters": schema}


def parse_tool_choice(value: Any) -> str:
    """Return auto, none, required, or `=name` for a named tool that must be called; raise ValueError."""
    kind = value.get("type") if isinstance(value, dict) else value
    if isinstance(kind, str) and kind in ("auto", "none", "required", "any"):
        return "required" if kind == "any" else kind  # Mistral's and Anthropic's word
    if allowed_tools(value) is not None:
        return str(_allowed(value)["mode"])
    if isinstance(name := _tool_name(value), str) and kind in (None, "function", "tool"):
        return f"={name}"
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


def tool_places(tools: Any) -> dict[str, str]:
    """Return the place of each tool in the client's list, by its name."""
    named = [(_tool_name(tool), number) for number, tool in enumerate(tools if isinstance(tools, list) else [])]
    return {name: f"tools[{number}]" for name, number in reversed(named) if isinstance(name, str)}


def _tool_name(tool: Any) -> Any:
    function = tool.get("function", tool) if isinstance(tool, dict) else None
    return function.get("name") if isinstance(function, dict) else None


@dataclass(frozen=True)
class ReplyFormat:
    """The JSON schema that constrains a reply, as text, "" for any text, and where in the field it stands."""

    schema: str = ""
    place: str = ""

    def __bool__(self) -> bool:
        return bool(self.schema)


def parse_response_format(value: Any) -> ReplyFormat:
    """Return the format of a reply. Raise ValueError."""
    kind = value.get("type") if isinstance(value, dict) else None
    if kind == "text" or (isinstance(value, dict) and all(part is None for part in value.values())):
        return ReplyFormat()
    if kind in ("json_object", "json"):  # huggingface_hub and text-generation-inference have the schema in `value`
        name = "value" if value.get("schema") is None and value.get("value") is not None else "schema"
        schema = value.get(name)
        return _reply_format({} if schema is None else schema, f".{name}")
    if kind == "regex":
        return ReplyFormat(place=".value")  # the text is `grammar`'s, see guided.py
    if kind == "json_schema":
        described = value.get("json_schema")
        schema = described.get("schema") if isinstance(described, dict) else value.get("schema")
        if schema is None:
            raise ValueError("json_schema needs a 'schema'")
        return _reply_format(schema, ".json_schema.schema" if isinstance(described, dict) else ".schema")
    raise ValueError('its type must be one of "text", "json_object" and "json_schema"')


def _reply_format(schema: Any, place: str) -> ReplyFormat:
    try:
        return ReplyFormat(schema_text(schema), place)
    except ValueError as error:
        raise ValueError(f"{place[1:]} {error}") from None
