"""Request bodies that only the llamacpp dialect has."""

from dataclasses import replace
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    WithJsonSchema,
)

from srb.config.sampling_params import SamplingParams
from srb.config.settings import Settings
from srb.config.values import strings_of
from srb.errors import InvalidRequest, NotSupported, bad_field
from srb.web.bodies.completion import CommandTemplate, CompletionBody
from srb.web.bodies.fields import (
    INT32_MAX,
    PROMPT_SCHEMA,
    TEXT,
    Content,
    DescribedBody,
    Integer,
    NaturalOrMinusOne,
    Prompt,
    Real,
    ResponseFields,
    are_tokens,
    array,
    between,
    check_length,
    either,
    is_token,
    kinds_of,
    object_of,
    one_of,
    parse_prompts,
    short_json,
)
from srb.web.bodies.media import IMAGE_DATA_SCHEMA
from srb.web.bodies.sampling import validated
from srb.web.bodies.unread import Within
from srb.web.dialects.openai.guided import GuidedFields
from srb.web.loop.yielding import batches, yielding

MAX_EXTRA = 1024  # files besides the one with the gap
MAX_DOCUMENTS = 4096
MAX_TRIGGERS = 64
MAX_TEXT = 256  # characters of a trigger, a token or a tag
MAX_BUDGET_MESSAGE = 4096  # characters

# JSON Schemas of the forms that fields accept.
EXTRA_SCHEMA = array(object_of({"filename": TEXT, "text": TEXT}, "text"), maxItems=MAX_EXTRA)
TRIGGERS_SCHEMA = array(
    object_of(
        {"type": one_of(0, 1), "value": {**TEXT, "minLength": 1, "maxLength": MAX_TEXT}, "token": {"type": "integer"}},
        "type",
        "value",
    ),
    maxItems=MAX_TRIGGERS,
)
DOCUMENTS_SCHEMA = array(either(TEXT, object_of({"text": TEXT})), minItems=1, maxItems=MAX_DOCUMENTS)
_WITH_CONTENT = {"content": either(TEXT, array({}))}


INPUTS_SCHEMA = {
    **either(*PROMPT_SCHEMA["anyOf"], object_of(_WITH_CONTENT, "content"), array(object_of(_WITH_CONTENT))),
    "description": "a text as a string, as a list of token ids and strings, or as `{content}` with a string or a list of "
    "OpenAI's parts of the type text; or a list of such texts",
}

# Parts of a content that are not text.
MEDIA_PARTS = {"image_url": "image", "input_audio": "audio", "input_video": "video", "video_url": "video"}


class SystemPrompt(BaseModel):
    """A text before every prompt, and the names of user (`anti_prompt`) and assistant in it."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore")

    prompt: str = ""
    anti_prompt: str = ""
    assistant_name: str = ""

    def names(self, settings: Settings) -> tuple[str, str]:
        """Return the names of user and assistant; without a system prompt, --reverse-prompt names the user, as in 2023."""
        user = self.anti_prompt or next(iter(strings_of(settings.stop)), "User:")
        return user, self.assistant_name or "Assistant:"


def _refuse_images(image_data: list[Any]) -> None:
    if image_data:
        raise NotSupported("Field 'image_data': only texts are embedded", param="image_data")


# llama-server's types of triggers: a token, a word, a pattern within the text, a pattern of the whole text.
TOKEN_TRIGGER, WORD_TRIGGER, PATTERN_TRIGGER, FULL_PATTERN_TRIGGER = range(4)


def _parse_triggers(value: Any) -> tuple[tuple[str, str | int], ...]:
    """Return triggers as SamplingParams has them. Raise ValueError, or NotSupported for patterns."""
    if not isinstance(value, list) or len(value) > MAX_TRIGGERS:
        raise ValueError(f'must be a list of at most {MAX_TRIGGERS} objects {{"type", "value"}}')
    return tuple(map(_trigger, value))


def _trigger(entry: Any) -> tuple[str, str | int]:
    kind, text = (entry.get("type"), entry.get("value")) if isinstance(entry, dict) else (None, None)
    if kind == TOKEN_TRIGGER and is_token(entry.get("token")):
        return "token", entry["token"]
    if kind in (PATTERN_TRIGGER, FULL_PATTERN_TRIGGER):
        raise NotSupported(
            "Field 'grammar_triggers': patterns (types 2 and 3) are not supported, since a pattern may take forever; "
            "use words (type 1)",
            param="grammar_triggers",
        )
    if kind not in (TOKEN_TRIGGER, WORD_TRIGGER) or not isinstance(text, str) or not 0 < len(text) <= MAX_TEXT:
        raise ValueError(
            'must be objects: {"type": 1, "value": a text of 1 to 256 characters}, or {"type": 0, "value", "token": id}'
        )
    return "word", text


Triggers = Annotated[
    tuple[tuple[str, str | int], ...],
    BeforeValidator(_parse_triggers),
    WithJsonSchema(TRIGGERS_SCHEMA),
    Within("Trigger"),
]
ShortText = Annotated[str, Field(max_length=MAX_TEXT)]


class LlamaCompletionBody(GuidedFields, CompletionBody):
    """The body of `POST /completion`, with llama-server's current fields and those of 2024."""

    response_fields: ResponseFields = ()
    timings_per_token: bool = False
    system_prompt: SystemPrompt | None = None
    image_data: Annotated[list[Any], WithJsonSchema(IMAGE_DATA_SCHEMA), Within("Image")] = []
    grammar_lazy: bool = False
    grammar_triggers: Triggers = ()
    preserved_tokens: Annotated[list[ShortText], Field(max_length=MAX_TRIGGERS)] = []
    reasoning_budget_tokens: NaturalOrMinusOne | None = None
    reasoning_budget_start_tag: ShortText = ""
    reasoning_budget_end_tags: Annotated[list[ShortText], Field(max_length=1)] | ShortText | None = None
    reasoning_budget_message: Annotated[str, Field(max_length=MAX_BUDGET_MESSAGE)] = ""
    reasoning_control: bool = False

    tfs_z: Real | None = None
    penalize_nl: bool | None = None

    @property
    def wanted_probs(self) -> int:
        """The value of SamplingParams.n_probs: here 0 means none, and `logprobs` is another name of `n_probs`."""
        return int((self.logprobs if self.n_probs is None else self.n_probs) or -1)

    @classmethod
    def parse(cls, body: dict[str, Any]) -> Self:
        """Validate a body; raise InvalidRequest, or NotSupported."""
        parsed = super().parse(body)
        if parsed.grammar_lazy and not parsed.grammar_triggers:
            raise bad_field("grammar_lazy", "Error: no triggers set for lazy grammar!")
        if (parsed.reasoning_budget_tokens or 0) > 0 and parsed.explore is not None:
            raise bad_field("reasoning_budget_tokens", "cannot be used together with explore")
        if parsed.reasoning_control and parsed.explore is not None:
            raise bad_field("reasoning_control", "cannot be used together with explore")
        return parsed

    def sampling(self, settings: Settings) -> SamplingParams:
        sampling, end = super().sampling(settings), self.reasoning_budget_end_tags
        if self.grammar_lazy:
            sampling = replace(sampling, grammar_triggers=self.grammar_triggers)
        [end_tag] = [end] if isinstance(end, str) else end or [""]
        if not end_tag:
            return sampling
        given = self.reasoning_budget_tokens
        return replace(
            sampling,
            reasoning_tags=(self.reasoning_budget_start_tag, end_tag),
            reasoning_budget_tokens=-1 if given is None or self.explore is not None else given,
            reasoning_budget_message=self.reasoning_budget_message,
            reasoning_control=self.reasoning_control,
        )

    def draft(self, settings: Settings, n: int, max_tokens: int) -> CommandTemplate:
        draft = super().draft(settings, n, max_tokens)
        command = replace(draft.command, preserved_tokens=tuple(self.preserved_tokens))
        return replace(draft, command=command)


class Body(DescribedBody):
    """The base of bodies that generate no text."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore", allow_inf_nan=False, defer_build=True)

    @classmethod
    def parse(cls, body: dict[str, Any]) -> Self:
        return validated(cls, body)


def _parse_tokens(value: Any) -> tuple[int, ...]:
    if not isinstance(value, list) or not all(map(are_tokens, batches(value))):
        raise ValueError("must be a list of token ids")
    return tuple(value)


Tokens = Annotated[tuple[int, ...], BeforeValidator(_parse_tokens)]


class TokenizeBody(Body):
    content: Content = Field((), validation_alias=AliasChoices("content", "prompt", "text"))
    add_special: bool = Field(False, validation_alias=AliasChoices("add_special", "add_special_tokens"))
    parse_special: bool = True
    with_pieces: bool = False
    return_token_strs: bool = False


class DetokenizeBody(Body):
    tokens: Tokens = ()


class TokenizeWithBOSBody(TokenizeBody):
    """The body of TabbyAPI's and Aphrodite's routes: unless it says otherwise, there is a BOS before the text."""

    add_special: bool = Field(True, validation_alias=AliasChoices("add_special", "add_special_tokens", "add_bos_token"))
    parse_special: bool = Field(True, validation_alias=AliasChoices("parse_special", "encode_special_tokens"))


class TabbyDetokenizeBody(DetokenizeBody):
    decode_special_tokens: bool = True


def _parse_extra(value: Any) -> tuple[tuple[str, str], ...]:
    if not isinstance(value, list):
        raise ValueError('must be a list of {"filename": string, "text": string}')
    check_length(value, MAX_EXTRA)
    extra = []
    for chunk in value:
        text, name = (chunk.get("text"), chunk.get("filename")) if isinstance(chunk, dict) else (None, None)
        name = "tmp" if name is None else name
        if not isinstance(text, str) or not isinstance(name, str):
            raise ValueError('must be a list of {"filename": string, "text": string}')
        extra.append((name, text))
    return tuple(extra)


class InfillBody(Body):
    """The fields of `POST /infill` besides those of LlamaCompletionBody; `prompt` begins the text in the gap."""

    input_prefix: Content
    input_suffix: Content
    input_extra: Annotated[
        tuple[tuple[str, str], ...], BeforeValidator(_parse_extra), WithJsonSchema(EXTRA_SCHEMA), Within("File")
    ] = ()
    prompt: str = ""


def _parse_inputs(value: Any, info: ValidationInfo) -> list[Prompt]:
    """Return the texts to embed, in any of the forms of a prompt or as the content of OpenAI's messages.

    An empty text is left to the engine: most vocabularies put a token before it. Raise ValueError or NotSupported.
    """
    if value == []:
        raise InvalidRequest('"input" must not be empty', param=info.field_name)
    if isinstance(value, list) and dict in kinds_of(value):
        return parse_prompts([_plain_input(item) for item in yielding(value)])
    return parse_prompts(_plain_input(value))


Inputs = Annotated[list[Prompt], BeforeValidator(_parse_inputs), WithJsonSchema(INPUTS_SCHEMA), Within("Input")]


def _plain_input(item: Any) -> Any:
    """Return the text of `{"content": …}`, which is a string or a list of parts; any other input as it is."""
    if not isinstance(item, dict) or "content" not in item:
        return item
    content = item["content"]
    if isinstance(content, str):
        return content
    if not isinstance(content, list) or not all(isinstance(part, dict) for part in content):
        raise ValueError('"content" must be an array of parts, or a string')
    return "".join(_part_text(part) for part in content)


def _part_text(part: dict[str, Any]) -> str:
    kind, text = part.get("type"), part.get("text", "")
    if kind in MEDIA_PARTS:
        raise NotSupported(f"{MEDIA_PARTS[kind]} input is not supported, only text", param="input")
    if kind != "text":
        raise ValueError("unsupported content[].type")
    if not isinstance(text, str):
        raise ValueError(f"the text of a part must be a string, but got {short_json(text)}")
    return text


def _check_format(value: str) -> str:
    if value not in ("float", "base64"):
        raise InvalidRequest(
            "The format to return the embeddings in. Can be either float or base64", param="encoding_format"
        )
    return value


def _parse_truncate(value: Any) -> Any:
    """Take Cohere's and NVIDIA's words for Jina's and TEI's boolean; a text's beginning is never cut."""
    return {"NONE": False, "END": True}.get(value.upper(), value) if isinstance(value, str) else value


Truncate = Annotated[
    bool, BeforeValidator(_parse_truncate), WithJsonSchema(either({"type": "boolean"}, one_of("NONE", "END")))
]
# TEI's word for the end that is cut; its schema is no list, whose entries programs make names of.
Direction = Annotated[Literal["Right", "right"], WithJsonSchema({"type": "string", "pattern": "^[Rr]ight$"})]


class EmbeddingBody(Body):
    """The body of embeddings: texts in `input`, or in `content` in llama-server's own dialect."""

    input: Inputs | None = None
    content: Inputs | None = None
    encoding_format: Annotated[str, AfterValidator(_check_format)] = "float"
    embd_normalize: Annotated[Integer, between(-1, INT32_MAX)] | None = None
    dimensions: Integer | None = None
    truncate: Truncate = False
    truncation_direction: Direction = "Right"
    model: str | None = None
    image_data: list[Any] = Field(default_factory=list)

    @classmethod
    def parse(cls, body: dict[str, Any]) -> Self:
        """Validate a body; raise NotSupported for one with images."""
        parsed = super().parse(body)
        _refuse_images(parsed.image_data)
        return parsed

    @property
    def texts(self) -> list[Prompt]:
        texts = self.content if self.input is None else self.input
        if texts is None:
            raise InvalidRequest('"input" or "content" must be provided', param="input")
        return texts


def no_documents(field: str) -> InvalidRequest:
    """Return llama-server's error for documents that are missing or not texts."""
    return InvalidRequest('"documents" must be a non-empty string array', param=field)


def _parse_documents(value: Any, info: ValidationInfo) -> tuple[str, ...]:
    items = value if isinstance(value, list) else []
    check_length(items, MAX_DOCUMENTS)
    texts = [text for item in items if isinstance(text := item.get("text") if isinstance(item, dict) else item, str)]
    if not texts or len(texts) < len(items):
        raise no_documents(str(info.field_name))
    return tuple(texts)


Documents = Annotated[
    tuple[str, ...], BeforeValidator(_parse_documents), WithJsonSchema(DOCUMENTS_SCHEMA), Within("Document")
]


class RerankBody(Body):
    """The body of reranking: Jina's form has `documents`, TEI's has `texts`; their answers differ too."""

    query: str
    documents: Documents | None = None
    texts: Documents | None = None
    top_n: Annotated[Integer, between(0, INT32_MAX)] | None = None
    return_text: bool = False
    return_documents: bool = False
    truncate: Truncate | None = None
    truncation_direction: Direction = "Right"
    max_tokens_per_doc: Annotated[Integer, between(1, INT32_MAX)] | None = None
    model: str | None = None

    @classmethod
    def parse(cls, body: dict[str, Any]) -> Self:
        """Validate a body; the query is checked first, as in llama-server."""
        if not isinstance(body.get("query"), str):
            raise InvalidRequest(f'"query" must be {"a string" if "query" in body else "provided"}', param="query")
        return super().parse(body)


class SlotBody(Body):
    """The body of `POST /slots/<slot>`: the name of a state, which erase does not need."""

    filename: Annotated[str, Field(max_length=255)] = ""
