"""The body of OpenAI's Responses: a chat's body, with the input and the settings in the form of that API."""

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, ConfigDict, Field, WithJsonSchema

from srb.errors import NotSupported, bad_field, in_field, renamed
from srb.web.bodies.completion import StreamOptions
from srb.web.bodies.fields import OBJECT, TEXT, NaturalOrMinusOne, ObjectFields, array, either, object_of, one_of
from srb.web.bodies.sampling import validated
from srb.web.bodies.unread import Within
from srb.web.dialects.openai.chat_body import ChatBody
from srb.web.dialects.openai.chat_fields import CHOICE_SCHEMA, ReplyFormat, parse_response_format, parse_tools
from srb.web.dialects.responses.items import chat_tool_choice, chat_tools, inside, offered_choice, parse_input

LOGPROBS = "message.output_text.logprobs"  # the value of `include` that asks for log-probabilities

_PARTS = either(TEXT, array(object_of({"type": TEXT}, "type")))
INPUT_SCHEMA = either(
    TEXT,
    array(
        object_of(
            {
                "type": one_of("message", "function_call", "function_call_output", "reasoning"),
                "role": one_of("user", "assistant", "system", "developer"),
                **dict.fromkeys(("content", "output"), _PARTS),
                **dict.fromkeys(("call_id", "name", "arguments"), TEXT),
            }
        )
    ),
)
TOOLS_SCHEMA = array(object_of({"type": TEXT, "name": TEXT, "parameters": OBJECT}, "type"))
FORMAT_SCHEMA = object_of({"type": one_of("text", "json_object", "json_schema"), "schema": OBJECT}, "type")

# Fields of conversations that OpenAI's servers keep, and of work that goes on without a connection.
_KEPT_NOWHERE = "the server keeps no {}; send the whole conversation as 'input'"
_REFUSED = {
    "previous_response_id": _KEPT_NOWHERE.format("responses"),
    "conversation": _KEPT_NOWHERE.format("conversations"),
    "prompt": "the server keeps no prompts; send the text as 'instructions' or 'input'",
}
# Fields of chats whose answers have no place in a response.
_NO_PLACE = ("return_tokens", "return_token_ids", "prompt_logprobs", "verbose")
# A chat's names of what is sent under others.
NAMES = {
    "messages": "input", "response_format": "text.format", "n_predict": "max_output_tokens",
    "max_tokens": "max_output_tokens", "logprobs": "include",
}  # fmt: skip


Metadata = Annotated[
    dict[str, str],
    BeforeValidator(lambda given: {name: value for name, value in given.items() if value is not None}
                    if isinstance(given, dict) else given),
]  # fmt: skip


class TextFields(ObjectFields):
    format: Annotated[
        ReplyFormat,
        BeforeValidator(lambda value: parse_response_format(value or {"type": "text"})),
        WithJsonSchema(FORMAT_SCHEMA),
        Within("Format"),
    ] = ReplyFormat()
    verbosity: str | None = Field(None, description="no effect: no template knows it")


def _without_chat_fields(schema: dict[str, Any]) -> None:
    for name in ("prompt", "messages"):
        del schema["properties"][name]
    schema["required"] = ["input"]


class ResponsesBody(ChatBody):
    """The body of a response: all fields of ChatBody except `messages`, and those of Responses."""

    model_config = ConfigDict(json_schema_extra=_without_chat_fields)
    format_field = NAMES["response_format"]
    parameters_field = "parameters"

    messages: list[dict[str, Any]] = Field(default_factory=list)  # made by `parse`, from the instructions and the input
    input: Annotated[Any, WithJsonSchema(INPUT_SCHEMA), Within("Item")] = None
    instructions: str | None = None
    tools: Annotated[
        list[dict[str, Any]],
        BeforeValidator(lambda value: parse_tools(list((tools := chat_tools(value)).values()), list(tools))),
        WithJsonSchema(TOOLS_SCHEMA),
        Within("Space", to_template=True),
    ] = []
    tool_choice: Annotated[
        str, BeforeValidator(chat_tool_choice), WithJsonSchema(CHOICE_SCHEMA), Within("ToolChoice")
    ] = "auto"
    text: TextFields = TextFields()
    n_predict: NaturalOrMinusOne | None = None
    include: list[str] = []
    metadata: Metadata = {}

    # Without effect: a stream always has the usage, nothing is kept, and a prompt that is too long is refused.
    stream_options: StreamOptions = StreamOptions()
    store: bool | None = None
    truncation: Literal["auto", "disabled"] | None = None
    background: Literal[False] | None = None

    @classmethod
    def parse(cls, body: dict[str, Any]) -> Self:
        """Validate a body from `read_body`; raise InvalidRequest or NotSupported, which name the first field at fault."""
        if "input" not in body:
            raise bad_field("input", "is required")
        for name, problem in _REFUSED.items():
            if body.get(name):
                raise bad_field(name, problem)
        if isinstance(body.get("tool_choice"), dict):
            body = body | {"tool_choice": offered_choice(body["tool_choice"], body.get("tools"))}
        if body.get("background") is True:
            raise NotSupported("Field 'background': a response is made while its client waits", param="background")
        values = {name: value for name, value in body.items() if name not in ("messages", "prompt", "background")}
        parsed = validated(cls, values).counted()
        messages = parse_messages_of(parsed.input, parsed.instructions)
        for name in _NO_PLACE:
            if (value := getattr(parsed, name)) is not None and value is not False:
                raise bad_field(name, "has no place in a response; use /v1/chat/completions")
        parsed = parsed.model_copy(update={"messages": messages, **parsed._as_chat(body)})
        with renamed(NAMES):
            parsed._check_together()
        return parsed

    def _as_chat(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return the fields of a chat that this body has under other names."""
        update = super()._as_chat(body)
        for place, tool in enumerate(body.get("tools") or ()):
            self._tool_places |= {name: f"tools[{place}].tools[{number}]" for name, (number, _) in inside(tool).items()}
        if self.text.format:
            update["response_format"] = self.text.format
        if LOGPROBS in self.include or self.top_logprobs:
            update["logprobs"] = True
            update["top_logprobs"] = self.top_logprobs or 0
        return update

    check, render, request = (
        renamed(NAMES)(ChatBody.check),
        renamed(NAMES)(ChatBody.render),
        renamed(NAMES)(ChatBody.request),
    )


def parse_messages_of(value: Any, instructions: str | None) -> list[dict[str, Any]]:
    """Return the messages of a conversation as a chat parses them; raise InvalidRequest or NotSupported about `input`."""
    with renamed(NAMES), in_field("input"):
        return parse_input(value, instructions)
