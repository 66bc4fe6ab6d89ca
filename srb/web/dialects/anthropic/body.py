"""The body of Anthropic's Messages: a chat's body, with the conversation and the settings in the form of that API."""

from typing import Annotated, Any, Self

from pydantic import BeforeValidator, WithJsonSchema

from srb.errors import bad_field
from srb.web.bodies.fields import ObjectFields
from srb.web.bodies.reasoning import ThinkingFields
from srb.web.bodies.renaming import renamed
from srb.web.dialects.anthropic.conversation import FORM, chat_tools, system_messages
from srb.web.dialects.openai.chat_body import ChatBody
from srb.web.dialects.openai.chat_fields import ReplyFormat, parse_response_format, parse_tool_choice, parse_tools
from srb.web.dialects.openai.conversations import parse_messages

MAX_TOKENS = 4096  # of a body without max_tokens, which Anthropic's API refuses; as in llama-server

_BLOCKS = {
    "type": "array",
    "items": {"type": "object", "properties": {"type": {"type": "string"}}, "required": ["type"]},
}
_TEXT = {"anyOf": [{"type": "string"}, _BLOCKS]}
MESSAGES_SCHEMA = {
    "type": "array",
    "minItems": 1,
    "items": {
        "type": "object",
        "properties": {"role": {"enum": ["user", "assistant", "system"]}, "content": _TEXT},
        "required": ["role", "content"],
    },
}
TOOLS_SCHEMA = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "description": {"type": "string"},
            "input_schema": {"type": "object"},
        },
        "required": ["name", "input_schema"],
    },
}
CHOICE_SCHEMA = {
    "type": "object",
    "properties": {"type": {"enum": ["auto", "any", "none", "tool"]}, "name": {"type": "string"}},
    "required": ["type"],
}

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
        WithJsonSchema({"type": "object"}),
    ] = ReplyFormat()


class MessagesBody(ChatBody):
    """The body of a message: all fields of ChatBody that have a place in a message, and those of Messages."""

    format_field = _NAMES["response_format"]
    parameters_field = "input_schema"

    messages: Annotated[
        list[dict[str, Any]],
        BeforeValidator(lambda value: parse_messages(value, FORM)),
        WithJsonSchema(MESSAGES_SCHEMA),
    ]
    system: Annotated[list[dict[str, Any]], BeforeValidator(system_messages), WithJsonSchema(_TEXT)] = []
    tools: Annotated[
        list[dict[str, Any]],
        BeforeValidator(lambda value: parse_tools(chat_tools(value))),
        WithJsonSchema(TOOLS_SCHEMA),
    ] = []
    tool_choice: Annotated[str, BeforeValidator(parse_tool_choice), WithJsonSchema(CHOICE_SCHEMA)] = "auto"
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
