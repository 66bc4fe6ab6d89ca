"""Request bodies of Ollama's routes. They become the bodies of other dialects, which have the checks and commands."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from srb.config.settings import Settings
from srb.errors import InvalidRequest, NotSupported, bad_field, in_field, renamed
from srb.web.bodies.completion import CommandTemplate, CompletionBody
from srb.web.bodies.fields import (
    FLOAT32_MAX,
    OBJECT,
    SCHEMA_SCHEMA,
    TEXT,
    Integer,
    Prompt,
    array,
    between,
    either,
    object_of,
    one_of,
    schema_text,
    short_json,
)
from srb.web.bodies.media import BASE64_SCHEMA, IMAGE_MARK, Base64Files, check_reads_media, image_prompts
from srb.web.bodies.sampling import BranchFields
from srb.web.bodies.unread import Within, field_names
from srb.web.calls.engine_client import EngineClient
from srb.web.chat.reply_parser import ReplyParser
from srb.web.chat.template import template_source
from srb.web.dialects.llamacpp.body import Body, EmbeddingBody, InfillBody, Tokens
from srb.web.dialects.llamacpp.infill import infill_prompt, missing_infill
from srb.web.dialects.openai.chat_body import ChatBody
from srb.web.dialects.openai.chat_fields import MESSAGES, TOOLS
from srb.web.dialects.openai.conversations import with_images
from srb.wire.commands import Generate
from srb.wire.events import ModelInfo

MAX_TOP = 20  # log-probabilities of likely tokens
MAX_DURATION = 64  # characters
EFFORTS = ("low", "medium", "high")

# Fields of `options`: those of a branch, by all their names here, and a few that Ollama alone names so.
_OPTIONS = {name for names in field_names(BranchFields).values() for name in names}
_RENAMED = {"num_keep": "n_keep"}

FORMAT_SCHEMA = either(one_of("", "json"), *SCHEMA_SCHEMA["anyOf"])
THINK_SCHEMA = either({"type": "boolean"}, one_of(*EFFORTS))
MESSAGES_SCHEMA = array(
    object_of(
        {
            "role": {**TEXT, "minLength": 1},
            **dict.fromkeys(("content", "thinking", "tool_name"), TEXT),
            "tool_calls": array(OBJECT),
            "images": BASE64_SCHEMA,
        },
        "role",
    )
)


def _check_format(value: Any) -> Any:
    if isinstance(value, dict | bool):
        schema_text(value)
    elif value not in ("", "json"):
        raise ValueError(f'must be "json" or a JSON schema, but got {short_json(value)}')
    return value


def _check_think(value: Any) -> Any:
    if not isinstance(value, bool) and value not in EFFORTS:
        raise ValueError(f"must be true, false or one of {', '.join(EFFORTS)}, but got {short_json(value)}")
    return value


Format = Annotated[Any, BeforeValidator(_check_format), WithJsonSchema(FORMAT_SCHEMA)]
Think = Annotated[Any, BeforeValidator(_check_think), WithJsonSchema(THINK_SCHEMA)]


def _nanoseconds(value: Any) -> int:
    """Return the time of a `keep_alive`, as Ollama reads it: seconds, or a duration of Go such as "5m" or "1h30m".

    A time below zero is "for ever", and here just not zero. Raise ValueError.
    """
    if type(value) in (int, float):
        return int(min(abs(value), FLOAT32_MAX) * 10**9)
    if not isinstance(value, str):
        raise ValueError(f'must be seconds, or a duration such as "5m", but got {short_json(value)}')
    text = value.removeprefix("-") if value.startswith("-") else value.removeprefix("+")
    if text == "0":
        return 0
    if len(text) > MAX_DURATION or not _DURATION.fullmatch(text):
        raise ValueError(f'must be a duration such as "5m" or "1h30m", but got {short_json(value)}')
    return int(sum(Fraction(number) * _UNITS[unit] for number, unit in _PART.findall(text)))


# Go's durations: https://pkg.go.dev/time#ParseDuration
_UNITS = {"ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
_PART = re.compile(rf"([0-9]+\.?[0-9]*|\.[0-9]+)({'|'.join(_UNITS)})")
_DURATION = re.compile(f"(?:{_PART.pattern})+")

KeepAlive = Annotated[int, BeforeValidator(_nanoseconds), WithJsonSchema({"type": ["string", "number"]})]


@dataclass(frozen=True)
class Asked:
    """The commands of a body, a parser for each branch's reply, and the prompt's tokens if the answer tells them."""

    commands: list[Generate]
    parser: Callable[[], ReplyParser]
    context: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Text:
    """A completion that was checked."""

    body: CompletionBody
    draft: CommandTemplate

    def asked(self, prompts: list[Prompt], settings: Settings, media: Sequence[str] = ()) -> Asked:
        """Return what it asks for with these prompts, and files that `images` has named."""
        body = self.body.model_copy(update={"prompt": prompts})
        if media:
            body = body.with_media(prompts, list(media), "images")
        commands = body.commands(settings, n=1, max_tokens=settings.max_tokens, draft=self.draft)
        return Asked(commands, lambda: ReplyParser(reasoning=False))


@dataclass(frozen=True)
class Chat:
    """A chat that was checked."""

    body: ChatBody
    draft: CommandTemplate
    stream: bool

    def asked(self, settings: Settings, model: ModelInfo) -> Asked:
        asked = self.body.request(settings, model, self.draft)
        return Asked(asked.commands, lambda: asked.parser(stream=self.stream))


class ModelBody(Body):
    """A body that names the model: by `model` or, as older clients do, `name`; the other may be empty."""

    model: str = ""

    @model_validator(mode="before")
    @classmethod
    def _without_empty_model(cls, body: Any) -> Any:
        is_empty = isinstance(body, dict) and body.get("model") == ""
        return {name: value for name, value in body.items() if name != "model"} if is_empty else body


class OllamaPullBody(ModelBody):
    """The body of `POST /api/pull`."""

    stream: bool = True


class _Generating(ModelBody):
    """The fields that completions and chats share."""

    stream: bool = True
    format: Format = ""
    options: Annotated[dict[str, Any], Within(frozenset(_OPTIONS | _RENAMED.keys()))] = {}
    think: Think | None = None
    n: Integer | None = None
    session: Annotated[str, Field(max_length=200)] | None = None
    logprobs: bool = False
    top_logprobs: Annotated[Integer, between(0, MAX_TOP)] = 0

    keep_alive: KeepAlive | None = None
    truncate: bool = True
    shift: bool = True

    def fields(self) -> dict[str, Any]:
        """Return what completions and chats have in common, as fields of the other dialects' bodies."""
        given = {_RENAMED.get(name, name): value for name, value in self.options.items() if value is not None}
        if given.get("num_predict") == -2:  # as long as the context reaches
            given["num_predict"] = -1
        fields = {name: value for name, value in given.items() if name in _OPTIONS or name in _RENAMED.values()}
        if self.format:
            fields["json_schema"] = {} if self.format == "json" else self.format
        if self.n is not None:
            fields["n"] = self.n
        if self.session is not None:
            fields["session"] = self.session
        if self.logprobs:
            fields |= {"logprobs": True, "top_logprobs": self.top_logprobs}
        return fields

    def reasoning(self) -> dict[str, Any]:
        """Return `think` as fields of a chat."""
        match self.think:
            case None:
                return {}
            case True:
                return {"chat_template_kwargs": {"enable_thinking": True}}
            case False:
                return {"reasoning_effort": "none"}
            case effort:
                return {"reasoning_effort": effort}

    def text(self, settings: Settings) -> Text:
        """Return the completion that the fields ask for, of another prompt. Raise InvalidRequest or NotSupported."""
        body = CompletionBody.parse({**self.fields(), "prompt": "-"}).placed("format")
        return Text(body, body.draft(settings, n=1, max_tokens=settings.max_tokens))

    def chat(self, fields: dict[str, Any], settings: Settings) -> Chat:
        """Return the chat that these fields and the body's own ask for. Raise InvalidRequest or NotSupported."""
        body = ChatBody.parse({**self.fields(), **self.reasoning(), **fields}).placed("format")
        return Chat(body, body.check(settings), self.stream)


class OllamaGenerateBody(_Generating):
    """The body of `POST /api/generate`."""

    prompt: str = ""
    suffix: str = ""
    system: str = ""
    template: str = ""
    raw: bool = False
    context: Tokens | None = None
    images: Base64Files = []

    def check(self, settings: Settings) -> Text | Chat:
        """Return what `request` needs no model for. Raise InvalidRequest or NotSupported."""
        if self.images and self.suffix:
            raise bad_field("images", "cannot be used together with suffix")
        if self.raw and (self.template or self.system or self.context):
            raise InvalidRequest("raw mode does not support template, system, or context", param="raw")
        if self.template:
            raise NotSupported(
                "Field 'template': Ollama's templates are not supported; send the whole prompt with \"raw\": true, or set "
                "chat_template",
                param="template",
            )
        if self.is_plain:
            return self.text(settings)
        messages = [{"role": "system", "content": self.system}] if self.system else []
        content = with_images(self.prompt, self.images) if self.images else self.prompt
        with renamed(self._names):
            return self.chat({"messages": [*messages, {"role": "user", "content": content}]}, settings)

    @property
    def is_plain(self) -> bool:
        """Whether the prompt is sent as it is, or nothing is to be said."""
        return self.raw or bool(self.suffix) or not (self.prompt or self.images)

    @property
    def _names(self) -> dict[str, str]:
        return {"messages": "images" if self.images else "prompt"}

    def request(self, checked: Text | Chat, client: EngineClient, settings: Settings, model: ModelInfo) -> Asked:
        """Return the commands and parsers of a body that was checked; raise InvalidRequest or NotSupported."""
        if self.images:
            check_reads_media(model, "images", "image 0")
        if isinstance(checked, Text):
            if self.suffix:
                return self._infill(checked, client, settings, model)
            return self._as_it_is(checked, self.prompt, settings)
        if template_source(settings, model):
            with renamed(self._names):
                asked = checked.asked(settings, model)
        else:  # a base model knows no conversation
            text = "\n\n".join(filter(None, (self.system, self.prompt)))
            asked = self._as_it_is(Text(checked.body, checked.draft), text, settings)
        [command] = asked.commands
        if self.images:  # no token stands for a picture, so the answer has no context
            prompt = (*(self.context or ()), *command.prompt)
            return replace(asked, commands=[replace(command, prompt=prompt, media_field="images")])
        has_bos = not self.context
        tokens = client.tokenize(command.prompt, add_special=has_bos)
        context = (*(self.context or ()), *tokens)
        return replace(asked, commands=[replace(command, prompt=context)], context=context)

    def _infill(self, checked: Text, client: EngineClient, settings: Settings, model: ModelInfo) -> Asked:
        if missing_infill(model):
            raise InvalidRequest(f"\"{self.model}\" does not support insert, which 'suffix' asks for", param="suffix")
        limit = checked.body.n_predict
        around = InfillBody.parse({"input_prefix": self.prompt, "input_suffix": self.suffix})
        max_tokens = settings.max_tokens if limit is None else limit
        return checked.asked([infill_prompt(client, model, settings, around, max_tokens)], settings)

    def _as_it_is(self, checked: Text, text: str, settings: Settings) -> Asked:
        """Return what a prompt without a template asks for; its pictures stand at `[img-0]`, or before one without such."""
        if not self.images:
            return checked.asked([(text,)], settings)
        marks = "" if IMAGE_MARK.search(text) else "".join(f"[img-{place}]" for place in range(len(self.images)))
        data = [{"id": place, "data": image} for place, image in enumerate(self.images)]
        with in_field("images"):
            prompts, media = image_prompts([(marks + text,)], data)
        return checked.asked(prompts, settings, media)


class OllamaChatBody(_Generating):
    """The body of `POST /api/chat`."""

    messages: Annotated[list[Any], WithJsonSchema(MESSAGES_SCHEMA), MESSAGES] = []
    tools: Annotated[list[Any], TOOLS] = []

    def check(self, settings: Settings) -> Text | Chat:
        """Return what the answer needs no model for; a Text without messages. Raise InvalidRequest or NotSupported."""
        if not self.messages:
            return self.text(settings)
        return self.chat({"messages": self.messages, "tools": self.tools}, settings)


def _check_inputs(value: Any) -> Any:
    if not isinstance(value, str) and not (isinstance(value, list) and all(isinstance(text, str) for text in value)):
        raise ValueError("must be a string or a list of strings")
    return value


class OllamaEmbedBody(ModelBody):
    """The body of `POST /api/embed`."""

    input: Annotated[Any, BeforeValidator(_check_inputs), WithJsonSchema(either(TEXT, array(TEXT)))] = ""
    dimensions: Integer | None = None
    truncate: bool = True  # a text that is too long loses its end

    # Without effect, as for completions.
    options: dict[str, Any] = Field(default_factory=dict)
    keep_alive: KeepAlive | None = None

    @property
    def texts(self) -> list[str]:
        return ([self.input] if self.input else []) if isinstance(self.input, str) else self.input

    def embedding(self) -> EmbeddingBody:
        fields = {"input": self.texts, "dimensions": self.dimensions or None, "truncate": self.truncate}
        return EmbeddingBody.parse({**fields, "embd_normalize": 2})


class OllamaEmbeddingsBody(ModelBody):
    """The body of `POST /api/embeddings`, the older route for one text."""

    prompt: str = ""

    # Without effect, as for completions.
    options: dict[str, Any] = Field(default_factory=dict)
    keep_alive: KeepAlive | None = None

    def embedding(self) -> EmbeddingBody:
        return EmbeddingBody.parse({"input": self.prompt, "embd_normalize": -1})


class OllamaShowBody(ModelBody):
    """The body of `POST /api/show`."""

    verbose: bool = False  # without effect: there are no long lists to leave out
