"""Request bodies that only the llamacpp dialect has."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    WithJsonSchema,
)

from srb.errors import NotSupported, bad_field
from srb.web.bodies.completion import CompletionBody
from srb.web.bodies.fields import (
    EMPTY_PROMPT,
    INT32_MAX,
    PROMPT_SCHEMA,
    Content,
    Integer,
    NaturalOrMinusOne,
    Prompt,
    Real,
    ResponseFields,
    between,
    is_token,
    parse_prompts,
    short_json,
)
from srb.web.bodies.sampling import explain

MAX_EXTRA = 1024  # files besides the one with the gap
MAX_DOCUMENTS = 4096

# JSON Schemas of the forms that fields accept.
EXTRA_SCHEMA = {
    "type": "array",
    "maxItems": MAX_EXTRA,
    "items": {
        "type": "object",
        "properties": {"filename": {"type": "string"}, "text": {"type": "string"}},
        "required": ["text"],
    },
}
DOCUMENTS_SCHEMA = {
    "type": "array",
    "minItems": 1,
    "maxItems": MAX_DOCUMENTS,
    "items": {"anyOf": [{"type": "string"}, {"type": "object", "properties": {"text": {"type": "string"}}}]},
}


class SystemPrompt(BaseModel):
    """A text before every prompt, and the names of user (`anti_prompt`) and assistant in it."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore")

    prompt: str = ""
    anti_prompt: str = ""
    assistant_name: str = ""


def _refuse_images(image_data: list[Any]) -> None:
    if image_data:
        raise NotSupported("Field 'image_data': images are not supported", param="image_data")


class LlamaCompletionBody(CompletionBody):
    """The body of `POST /completion`, with llama-server's current fields and those of 2024."""

    response_fields: ResponseFields = ()
    timings_per_token: bool = False
    system_prompt: SystemPrompt | None = None
    image_data: list[Any] = Field(default_factory=list)
    grammar_lazy: bool = False
    grammar_triggers: list[Any] = Field(default_factory=list)
    reasoning_budget_tokens: NaturalOrMinusOne | None = None

    # Without effect: llama.cpp has removed these samplers.
    tfs_z: Real | None = None
    penalize_nl: bool | None = None

    @classmethod
    def parse(cls, body: dict[str, Any]) -> Self:
        """Validate a body; raise InvalidRequest, or NotSupported for images and lazy grammars."""
        parsed = super().parse(body)
        _refuse_images(parsed.image_data)
        if parsed.grammar_lazy and not parsed.grammar_triggers:
            raise bad_field("grammar_lazy", "Error: no triggers set for lazy grammar!")
        if parsed.grammar_lazy:
            raise NotSupported(
                "Field 'grammar_lazy': lazy grammars are not supported; a grammar applies from the first token",
                param="grammar_lazy",
            )
        return parsed


class Body(BaseModel):
    """The base of bodies that generate no text."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore", allow_inf_nan=False)

    @classmethod
    def parse(cls, body: dict[str, Any]) -> Self:
        try:
            return cls.model_validate(body)
        except ValidationError as error:
            raise explain(error) from None


def _parse_tokens(value: Any) -> tuple[int, ...]:
    if not isinstance(value, list) or not all(map(is_token, value)):
        raise ValueError("must be a list of token ids")
    return tuple(value)


Tokens = Annotated[tuple[int, ...], BeforeValidator(_parse_tokens)]


class TokenizeBody(Body):
    content: Content = Field((), validation_alias=AliasChoices("content", "prompt", "text"))
    add_special: bool = False
    parse_special: bool = True
    with_pieces: bool = False


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
    if len(value) > MAX_EXTRA:
        raise ValueError(f"has {len(value)} entries; at most {MAX_EXTRA} are allowed")
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
        tuple[tuple[str, str], ...], BeforeValidator(_parse_extra), WithJsonSchema(EXTRA_SCHEMA)
    ] = ()
    prompt: str = ""


def _parse_inputs(value: Any) -> list[Prompt]:
    """Return the texts to embed; raise InvalidRequest if one is empty."""
    if isinstance(value, list):
        inputs = parse_prompts([item["content"] if _has_content(item) else item for item in value])
    else:
        inputs = parse_prompts(value["content"] if _has_content(value) else value)
    if EMPTY_PROMPT in inputs:
        raise ValueError("must not be empty")
    return inputs


Inputs = Annotated[list[Prompt], BeforeValidator(_parse_inputs), WithJsonSchema(PROMPT_SCHEMA)]


def _has_content(item: Any) -> bool:
    return isinstance(item, dict) and isinstance(item.get("content"), str)


def _check_format(value: str) -> str:
    if value not in ("float", "base64"):
        raise ValueError(f"can be either float or base64, but got {short_json(value)}")
    return value


class EmbeddingBody(Body):
    """The body of embeddings: texts in `input`, or in `content` in llama-server's own dialect."""

    input: Inputs | None = None
    content: Inputs | None = None
    encoding_format: Annotated[str, AfterValidator(_check_format)] = "float"
    embd_normalize: Annotated[Integer, between(-1, INT32_MAX)] | None = None
    dimensions: Integer | None = None
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
            raise bad_field("input", 'is required (or "content", in llama-server\'s dialect)')
        return texts


def _parse_documents(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not value:
        raise ValueError("must be a non-empty list of strings")
    texts = [text for item in value if isinstance(text := item.get("text") if isinstance(item, dict) else item, str)]
    if len(texts) < len(value):
        raise ValueError("must be a non-empty list of strings")
    if len(texts) > MAX_DOCUMENTS:
        raise ValueError(f"has {len(texts)} entries; at most {MAX_DOCUMENTS} are allowed")
    return tuple(texts)


Documents = Annotated[tuple[str, ...], BeforeValidator(_parse_documents), WithJsonSchema(DOCUMENTS_SCHEMA)]


class RerankBody(Body):
    """The body of reranking: Jina's form has `documents`, TEI's has `texts`; their answers differ too."""

    query: str
    documents: Documents | None = None
    texts: Documents | None = None
    top_n: Annotated[Integer, between(0, INT32_MAX)] | None = None
    return_text: bool = False
    model: str | None = None


class SlotBody(Body):
    """The body of `POST /slots/<slot>`: the name of a state, which erase does not need."""

    filename: Annotated[str, Field(max_length=255)] = ""
