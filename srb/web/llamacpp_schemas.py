"""Request bodies of the llamacpp dialect that other dialects do not have."""

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
from srb.web.fields import (
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
    shown,
)
from srb.web.schemas import CompletionBody, explain

MAX_EXTRA = 1024  # files beside the one that is filled in
MAX_DOCUMENTS = 4096

# What a field takes, as JSON Schema; what it becomes is the type beside it.
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
    """A text that stands before every prompt, and the names of the two who talk in it."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore")

    prompt: str = ""
    anti_prompt: str = ""
    assistant_name: str = ""


class LlamaCompletionBody(CompletionBody):
    """The body of `POST /completion`, as llama-server takes it now and as it took it in 2024."""

    response_fields: ResponseFields = ()
    timings_per_token: bool = False
    system_prompt: SystemPrompt | None = None
    image_data: list[Any] = Field(default_factory=list)
    grammar_lazy: bool = False
    grammar_triggers: list[Any] = Field(default_factory=list)
    reasoning_budget_tokens: NaturalOrMinusOne | None = None

    # Of no effect: llama.cpp has these samplers no more.
    tfs_z: Real | None = None
    penalize_nl: bool | None = None

    # Of no effect here: it adds `__verbose` to the openai dialect's answers.
    verbose: bool = False

    @classmethod
    def parse(cls, body: dict[str, Any]) -> Self:
        """Validate a body; raise NotSupported for what needs another kind of model or of server."""
        parsed = super().parse(body)
        if parsed.image_data:
            raise NotSupported("Field 'image_data': this model does not see images", param="image_data")
        if parsed.grammar_lazy and not parsed.grammar_triggers:
            raise bad_field("grammar_lazy", "Error: no triggers set for lazy grammar!")
        if parsed.grammar_lazy:
            raise NotSupported("Field 'grammar_lazy': grammars hold from the first token on", param="grammar_lazy")
        return parsed


class Body(BaseModel):
    """A body that asks for no text to be generated."""

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


def _parse_extra(value: Any) -> tuple[tuple[str, str], ...]:
    if not isinstance(value, list):
        raise ValueError('must be a list of {"filename": string, "text": string}')
    if len(value) > MAX_EXTRA:
        raise ValueError(f"has {len(value)} entries; at most {MAX_EXTRA} are taken")
    extra = []
    for chunk in value:
        text, name = (chunk.get("text"), chunk.get("filename")) if isinstance(chunk, dict) else (None, None)
        name = "tmp" if name is None else name
        if not isinstance(text, str) or not isinstance(name, str):
            raise ValueError('must be a list of {"filename": string, "text": string}')
        extra.append((name, text))
    return tuple(extra)


class InfillBody(Body):
    """What `POST /infill` has besides the fields of LlamaCompletionBody; `prompt` begins the text to be filled in."""

    input_prefix: Content
    input_suffix: Content
    input_extra: Annotated[
        tuple[tuple[str, str], ...], BeforeValidator(_parse_extra), WithJsonSchema(EXTRA_SCHEMA)
    ] = ()
    prompt: str = ""


def _parse_inputs(value: Any) -> list[Prompt]:
    if isinstance(value, list):
        return parse_prompts([item["content"] if _has_content(item) else item for item in value])
    return parse_prompts(value["content"] if _has_content(value) else value)


Inputs = Annotated[list[Prompt], BeforeValidator(_parse_inputs), WithJsonSchema(PROMPT_SCHEMA)]


def _has_content(item: Any) -> bool:
    return isinstance(item, dict) and isinstance(item.get("content"), str)


def _check_format(value: str) -> str:
    if value not in ("float", "base64"):
        raise ValueError(f"can be either float or base64, but got {shown(value)}")
    return value


class EmbeddingBody(Body):
    """`content` where the client speaks llama-server's own dialect, else `input`; both take several texts."""

    input: Inputs | None = None
    content: Inputs | None = None
    encoding_format: Annotated[str, AfterValidator(_check_format)] = "float"
    embd_normalize: Annotated[Integer, between(-1, INT32_MAX)] | None = None
    dimensions: Integer | None = None
    model: str | None = None

    @property
    def texts(self) -> list[Prompt]:
        texts = self.content if self.input is None else self.input
        if texts is None:
            raise bad_field("input", 'is required ("content" in the native dialect)')
        return texts


def _parse_documents(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not value:
        raise ValueError("must be a non-empty list of strings")
    texts = [text for item in value if isinstance(text := item.get("text") if isinstance(item, dict) else item, str)]
    if len(texts) < len(value):
        raise ValueError("must be a non-empty list of strings")
    if len(texts) > MAX_DOCUMENTS:
        raise ValueError(f"has {len(texts)} entries; at most {MAX_DOCUMENTS} are taken")
    return tuple(texts)


Documents = Annotated[tuple[str, ...], BeforeValidator(_parse_documents), WithJsonSchema(DOCUMENTS_SCHEMA)]


class RerankBody(Body):
    """Jina's form has `documents`, TEI's `texts`; the answers have different shapes."""

    query: str
    documents: Documents | None = None
    texts: Documents | None = None
    top_n: Annotated[Integer, between(0, INT32_MAX)] | None = None
    return_text: bool = False
    model: str | None = None


class SlotBody(Body):
    """The name of a state; erasing needs none."""

    filename: Annotated[str, Field(max_length=255)] = ""
