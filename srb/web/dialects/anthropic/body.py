"""The body of Anthropic's Messages: a chat's body, with the conversation and the settings in the form of that API."""

import re
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, WithJsonSchema

from srb.errors import NotSupported, bad_field, renamed
from srb.web.bodies.fields import OBJECT, TEXT, ObjectFields, array, either, object_of, one_of, short_json
from srb.web.bodies.unread import Within
from srb.web.dialects.openai.chat_body import ChatBody
from srb.web.dialects.openai.chat_fields import (
    ReplyFormat,
    ThinkingFields,
    chat_tool,
    parse_response_format,
    parse_tool_choice,
    parse_tools,
)
from srb.web.dialects.openai.conversations import Form, Message, parse_messages

# Functions that read a conversation raise ValueError with a message that fits after "Field 'x': ".
FORM = Form(part="{}, block {}", roles=("user", "assistant", "system", "developer", "tool", "function"))
# Claude Code begins its system prompt with a line of which this part is another one in each request.
_BILLING = re.compile(r"^(x-anthropic-billing-header:[^\n]*?\bcch=)[0-9a-zA-Z]+(?=;)")


def system_messages(value: Any) -> list[Message]:
    """Return the message of a body's `system`: a string, or blocks of text, which are joined as in llama-server.

    The changing part of Claude Code's billing header is made constant: otherwise no turn's prompt would continue the last.
    """
    if value is None:
        return []
    text = "".join(_steady(each) for each in ([value] if isinstance(value, str) else _texts("it", value)))
    return [{"role": "system", "content": text}] if text else []


def _steady(text: str) -> str:
    return _BILLING.sub(r"\1fffff", text)


def _texts(where: str, blocks: Any) -> list[str]:
    if not isinstance(blocks, list):
        raise ValueError(f"{where} must be a string or a list of blocks")
    for block in blocks:
        if not isinstance(block, dict) or block.get("type") != "text" or not isinstance(block.get("text"), str):
            raise ValueError(f'{where} may have blocks of the form {{"type": "text", "text": "…"}} only')
    return [block["text"] for block in blocks]


# Tools ----------------------------------------------------------------------------------------------------------------


def chat_tools(value: Any) -> list[Any]:
    """Return the tools in the form of chats; those of chats and Responses, too."""
    if not isinstance(value, list):
        raise ValueError("must be a list of tools")
    return [_tool(place, tool) for place, tool in enumerate(value)]


def _tool(place: int, tool: Any) -> Any:
    if not isinstance(tool, dict):
        raise ValueError(f"tool {place} must be an object, but got {short_json(tool)}")
    if tool.get("type") == "function":
        return chat_tool(tool)
    if tool.get("type") not in (None, "custom"):
        raise NotSupported(
            f"Field 'tools': tool {place} is of type {short_json(tool['type'])}; only those with input_schema are known",
            param="tools",
        )
    if not isinstance(tool.get("input_schema"), dict | bool):
        raise ValueError(f"tool {place} must have an 'input_schema', an object or true")
    return chat_tool(tool)


MAX_TOKENS = 4096  # of a body without max_tokens, which Anthropic's API refuses; as in llama-server


_TEXTS = either(TEXT, array(object_of({"type": TEXT}, "type")))
MESSAGES_SCHEMA = array(
    object_of({"role": one_of("user", "assistant", "system"), "content": _TEXTS}, "role", "content"), minItems=1
)
TOOLS_SCHEMA = array(object_of({"name": TEXT, "description": TEXT, "input_schema": OBJECT}, "name", "input_schema"))
CHOICE_SCHEMA = object_of({"type": one_of("auto", "any", "none", "tool"), "name": TEXT}, "type")

# Fields of chats whose answers have no place in a message.
_NO_PLACE = (
    "branches", "explore", "rank", "logprobs", "top_logprobs", "n_probs", "return_tokens", "return_token_ids",
    "prompt_logprobs", "return_progress", "verbose",
)  # fmt: skip
# A chat's names of what is sent under others.
_NAMES = {"response_format": "output_config.format"}


class OutputFields(ObjectFields):
    effort: str | None = None
    format: Annotated[
        ReplyFormat,
        BeforeValidator(lambda value: parse_response_format(value or {"type": "text"})),
        WithJsonSchema(OBJECT),
        Within("Format"),
    ] = ReplyFormat()


class MessagesBody(ChatBody):
    """The body of a message: all fields of ChatBody that have a place in a message, and those of Messages."""

    format_field = _NAMES["response_format"]
    parameters_field = "input_schema"

    messages: Annotated[
        list[dict[str, Any]],
        BeforeValidator(lambda value: parse_messages(value, FORM)),
        WithJsonSchema(MESSAGES_SCHEMA),
        Within("Message"),
    ]
    system: Annotated[
        list[dict[str, Any]], BeforeValidator(system_messages), WithJsonSchema(_TEXTS), Within("Text")
    ] = []
    tools: Annotated[
        list[dict[str, Any]],
        BeforeValidator(lambda value: parse_tools(chat_tools(value))),
        WithJsonSchema(TOOLS_SCHEMA),
        Within("Tool"),
    ] = []
    tool_choice: Annotated[
        str, BeforeValidator(parse_tool_choice), WithJsonSchema(CHOICE_SCHEMA), Within("ToolChoice")
    ] = "auto"
    thinking: ThinkingFields | None = None
    output_config: OutputFields = OutputFields()

    metadata: dict[str, Any] = {}

    @classmethod
    def parse(cls, body: dict[str, Any]) -> Self:
        """Validate a body from `read_body`; raise InvalidRequest or NotSupported, which name the first field at fault."""
        parsed = cls._parse_fields(body)
        for name in _NO_PLACE:
            if (value := getattr(parsed, name)) is not None and value is not False:
                raise bad_field(name, "has no place in a message; use /v1/chat/completions")
        parsed = parsed.model_copy(update=parsed._as_chat(body))
        with renamed(_NAMES):
            parsed._check_together()
        return parsed

    @property
    def shows_thinking(self) -> bool:
        return self.thinking is None or self.thinking.display != "omitted"

    def _as_chat(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return the fields of a chat that this body has under other names."""
        update = {**super()._as_chat(body), "messages": [*self.system, *self.messages]}
        if self.n_predict is None:
            update["n_predict"] = MAX_TOKENS
        if self.output_config.format:
            update["response_format"] = self.output_config.format
        if self.output_config.effort is not None:
            update["reasoning_effort"] = self.output_config.effort
        choice = body.get("tool_choice")
        if isinstance(choice, dict) and choice.get("disable_parallel_tool_use") is True:
            update["parallel_tool_calls"] = False
        return update

    check, render = renamed(_NAMES)(ChatBody.check), renamed(_NAMES)(ChatBody.render)
    prompt_and_media, request = renamed(_NAMES)(ChatBody.prompt_and_media), renamed(_NAMES)(ChatBody.request)
