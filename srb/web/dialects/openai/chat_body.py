"""The body of a chat completion: messages, tools, and the form of the reply."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal, Self

import orjson
from pydantic import BeforeValidator, ConfigDict, Field, PrivateAttr, WithJsonSchema

from srb.config.sampling_params import PLACE, SamplingParams
from srb.config.settings import Settings
from srb.errors import bad_field, in_field
from srb.web.bodies.completion import CommandTemplate
from srb.web.bodies.fields import NaturalOrMinusOne, Prompt, short_json
from srb.web.bodies.media import MAX_FILES, check_reads_media
from srb.web.bodies.sampling import ProbCount, validated
from srb.web.bodies.unread import Within
from srb.web.chat.families import HERMES, Family
from srb.web.chat.media import MarkedMessages, without_past_media
from srb.web.chat.reply_parser import ReplyParser
from srb.web.chat.template import ChatPrompt, ChatTemplate, Continuation, Conversation, history_variables, template_for
from srb.web.chat.tool_schemas import with_place
from srb.web.dialects.openai import chat_fields
from srb.web.dialects.openai.chat_shape import ReplyShape, calls_of, place_between, waits_for_answer, with_direction
from srb.web.dialects.openai.conversations import parse_messages
from srb.web.dialects.openai.guided import GuidedFields
from srb.web.dialects.openai.token_fields import TokenFields
from srb.web.limits import cap_max_tokens
from srb.web.media_sources import MAX_CHARACTERS, load_media
from srb.wire.commands import Generate, Place
from srb.wire.events import ModelInfo

MAX_BUDGET_MESSAGE = 4096  # characters
TOP_LOGPROBS = 20  # for a body with logprobs but without top_logprobs


@dataclass(frozen=True)
class ChatRequest:
    """A chat body's commands for the engine, and the parser of its replies."""

    commands: list[Generate]
    prompt: ChatPrompt
    tools: Mapping[str, Any]  # the JSON schema of each tool's parameters, by its name
    reasoning_format: str
    family: Family = HERMES
    hides_reasoning: bool = False
    must_call: bool = False

    def parser(self, stream: bool, in_parts: bool = False) -> ReplyParser:
        """Return the parser of one branch's reply; in a stream, deepseek-legacy keeps reasoning in the content.

        With `in_parts` a call's arguments come as they are written.
        """
        shown = self.reasoning_format not in ("none", "deepseek-legacy" if stream else "none")
        return ReplyParser(
            self.tools,
            reasoning=shown or self.hides_reasoning,
            thinking=self.prompt.thinking,
            has_begun=self.prompt.has_begun,
            family=self.family,
            in_parts=in_parts,
            hides_reasoning=self.hides_reasoning,
            must_call=self.must_call,
        )


def _without_prompt(schema: dict[str, Any]) -> None:
    del schema["properties"]["prompt"]


class ChatBody(GuidedFields, TokenFields):
    """The body of a chat completion: all fields of CompletionBody except `prompt`, and those of chats."""

    model_config = ConfigDict(json_schema_extra=_without_prompt)
    continues_text: ClassVar[bool] = False
    format_field: ClassVar[str] = "response_format"  # the client's name
    parameters_field: ClassVar[str] = "function.parameters"  # of a tool
    _tool_places: dict[str, str] = PrivateAttr(default_factory=dict)  # in the client's list, by name

    messages: Annotated[
        list[dict[str, Any]],
        BeforeValidator(parse_messages),
        WithJsonSchema(chat_fields.MESSAGES_SCHEMA),
        chat_fields.MESSAGES,
    ]
    tools: Annotated[list[dict[str, Any]], BeforeValidator(chat_fields.parse_tools), chat_fields.TOOLS] = []
    tool_choice: Annotated[
        str,
        BeforeValidator(chat_fields.parse_tool_choice),
        WithJsonSchema(chat_fields.CHOICE_SCHEMA),
        Within("ToolChoice"),
    ] = "auto"
    parallel_tool_calls: bool | None = None
    documents: list[Any] | None = None

    response_format: Annotated[
        chat_fields.ReplyFormat,
        BeforeValidator(chat_fields.parse_response_format),
        WithJsonSchema(chat_fields.FORMAT_SCHEMA),
        Within("Format"),
    ] = chat_fields.ReplyFormat()
    logprobs: bool | None = None
    top_logprobs: ProbCount | None = None

    chat_template_kwargs: dict[str, Any] = {}
    add_generation_prompt: bool = True
    continue_final_message: bool | Literal["content", "reasoning_content"] | None = None
    reasoning_effort: str | None = None
    reasoning_budget_tokens: NaturalOrMinusOne | None = None
    reasoning_budget_message: Annotated[str, Field(max_length=MAX_BUDGET_MESSAGE)] = ""
    reasoning_control: bool = False
    reasoning: chat_fields.ReasoningFields = chat_fields.ReasoningFields()
    thinking: chat_fields.Thinking | None = None
    enable_thinking: bool | None = None
    include_reasoning: bool = True

    # `model` was read before: ModelChoice picks by it, and a server with one model takes any name. `user` has no effect.
    model: str | None = None
    user: Any = None

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
        self._tool_places = chat_fields.tool_places(body.get("tools"))
        allowed = chat_fields.allowed_tools(body.get("tool_choice"))
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
        return validated(cls, {**body, "prompt": []}).counted()

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
        marked = self._marked(model)
        prompt = self._prompt(template_for(settings, model, bool(self.offered_tools)), marked, settings, model)
        return replace(prompt, text=marked.shown(prompt.text))

    def check(self, settings: Settings) -> CommandTemplate:
        """Return what `request` needs no model for, so that a bad body loads none; raise what it raises."""
        draft = self._with_schema().draft(settings, n=1, max_tokens=settings.max_tokens)
        cap_max_tokens([draft.command], settings.max_request_tokens)
        return draft

    def _with_schema(self) -> Self:
        """Return the body with the schema that its replies follow as a whole; calls that are forced have their own."""
        schema = None if self._must_call else self.response_format.schema or self.json_schema
        return self.model_copy(update={"json_schema": schema})

    @property
    def schema_place(self) -> str:
        return f"{self.format_field}{self.response_format.place}" if self.response_format else super().schema_place

    def _placed_answer(self, answer: str) -> dict[str, Any]:
        schema = orjson.loads(answer)
        return {PLACE: self.schema_place, **({} if schema is True else schema)}

    @property
    def placed_tools(self) -> list[dict[str, Any]]:
        """The offered tools, whose schemas say where in the request they stand."""
        made = []
        for tool in self.offered_tools:
            place = self._tool_places[tool["function"]["name"]]
            placed = with_place(tool["function"], f"{place}.{self.parameters_field}")
            made.append({**tool, "function": placed})
        return made

    def request(self, settings: Settings, model: ModelInfo, draft: CommandTemplate) -> ChatRequest:
        """Return the commands and the parser of the replies of a body that was checked.

        Raise InvalidRequest or NotSupported.
        """
        template = template_for(settings, model, bool(self.offered_tools))
        marked = self._marked(model)
        prompt = self._prompt(template, marked, settings, model)
        filled = self._with_schema()
        if marked.sources:
            if self.truncate_prompt_tokens is not None:
                raise bad_field("truncate_prompt_tokens", "cannot be used together with pictures and sounds")
            parts, media = self._with_media(prompt.text, marked, settings, model)
            filled = filled.with_media([parts], media, "messages")
            text, rest = prompt.text, parts[-1]
            start = len(text) - len(rest) if isinstance(rest, str) else len(text) + 1
            filled._place = self._directed(template, marked, settings, model, text, len(parts) - 1, start)
            prompt = replace(prompt, text=marked.shown(prompt.text))
        else:
            filled = filled.model_copy(update={"prompt": [self.truncated((prompt.text,))]})
            filled._place = self._directed(template, marked, settings, model, prompt.text)
        commands = filled.commands(settings, n=1, max_tokens=settings.max_tokens, draft=draft)
        family, calls, tools, answer = template.family, {}, {}, ""
        may_think = self._may_think(settings)
        if self.offered_tools:
            answer = filled.json_schema or ""
            is_awaited = waits_for_answer(template, prompt, may_think)
            schema = self._placed_answer(answer) if answer else None
            calls = calls_of(family, self.placed_tools, self.tool_choice, self.parallel_tool_calls, schema, is_awaited)
            tools = {tool["function"]["name"]: tool["function"].get("parameters") or {} for tool in self.offered_tools}
        shape = ReplyShape.of(template, prompt, calls, self._thoughts(settings), may_think, answer)
        return ChatRequest(
            self.scored([shape.command(command) for command in commands]),
            prompt,
            tools,
            self.reasoning_format or settings.reasoning_format,
            family,
            self.reasoning.exclude or not self.include_reasoning,
            bool(calls) and self._must_call,
        )

    def _directed(
        self,
        template: ChatTemplate,
        marked: MarkedMessages,
        settings: Settings,
        model: ModelInfo,
        text: str,
        part: int = 0,
        start: int = 0,
    ) -> Place | None:
        """Return the place of directions in the rendered conversation `text`; None if there are none.

        Part `part` of the prompt, which follows the media, begins at character `start` of it. Raise InvalidRequest.
        """
        if not self.has_directions:
            return None
        if self.direction_place is not None:
            raise bad_field("direction_place", "is for prompts; in a chat the template has a place for directions")
        mark = f"direction-{secrets.token_hex(8)}"
        messages = with_direction(marked.messages, mark, bool(self._continues(settings)))
        directed = self._prompt(template, replace(marked, messages=messages), settings, model).text
        place = place_between(text, directed, mark, part, start)
        if place is None:
            raise bad_field("directions", "have no place in what the chat template makes of these messages")
        return place

    def place(self, settings: Settings, model: ModelInfo, text: str) -> Place | None:
        """Return the place of directions in a rendered conversation without media; None if the body has no directions."""
        template = template_for(settings, model, bool(self.offered_tools))
        return self._directed(template, self._marked(model), settings, model, text)

    def prompt_and_media(self, settings: Settings, model: ModelInfo) -> tuple[Prompt, list[str]]:
        """Return the rendered conversation as a prompt, and its media as base64. Raise InvalidRequest or NotSupported."""
        marked = self._marked(model)
        text = self._prompt(template_for(settings, model, bool(self.offered_tools)), marked, settings, model).text
        return self._with_media(text, marked, settings, model) if marked.sources else ((text,), [])

    def _marked(self, model: ModelInfo) -> MarkedMessages:
        """Return the messages with marks. Raise InvalidRequest for media of the newest turn if the model reads text only."""
        reads_media = model.sees or model.hears
        marked = MarkedMessages.of(
            self.messages if reads_media else without_past_media(self.messages, lambda part: True)
        )
        if marked.sources:
            check_reads_media(model, "messages", marked.sources[0]["place"])
        return marked

    def _with_media(
        self, text: str, marked: MarkedMessages, settings: Settings, model: ModelInfo
    ) -> tuple[Prompt, list[str]]:
        """Return the prompt of a rendered conversation, and its media as base64. Raise InvalidRequest or NotSupported."""
        with in_field("messages"):
            most = max(MAX_CHARACTERS, settings.max_body_bytes)
            parts, media = marked.prompt(
                text, lambda sources: load_media(sources, settings, "messages", most), MAX_FILES
            )
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
        return "auto" if wanted is None or wanted is True else wanted or ""

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

    def _thoughts(self, settings: Settings) -> dict[str, Any]:
        """Return the parameters that end reasoning, as SamplingParams has them."""
        budget = self._budget(settings)
        if budget < 0 and not self.reasoning_control:
            return {}
        return {
            "reasoning_budget_tokens": budget,
            "reasoning_budget_message": self.reasoning_budget_message,
            "reasoning_control": self.reasoning_control,
        }

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
        if self.explore is not None and self.reasoning_control:
            raise bad_field("reasoning_control", "cannot be used together with explore")
        if self.top_logprobs and not self.logprobs:
            raise bad_field("top_logprobs", "needs logprobs to be true")
        if self.logprobs and self.offered_tools and self.stream:
            raise bad_field("logprobs", "is not supported with tools and stream")
        constraints = [name for name in ("grammar", "json_schema", "response_format") if getattr(self, name)]
        if len(constraints) > 1:
            raise bad_field(constraints[-1], f"cannot be used together with {constraints[0]}")
        if self.grammar and self.offered_tools:
            raise bad_field("grammar", "cannot be used together with tools")
        if self._must_call and not self.tools:
            raise bad_field("tool_choice", "needs tools, but 'tools' is empty")
        names = [tool["function"]["name"] for tool in self.tools]
        if self.tool_choice.startswith("=") and self.tool_choice[1:] not in names:
            raise bad_field("tool_choice", f"names a tool that 'tools' lacks: {short_json(self.tool_choice[1:])}")
