"""Request bodies of KoboldAI's and KoboldCpp's routes; most fields are CompletionBody's under its other names."""

from typing import Annotated, Any, Self

import orjson
from pydantic import AfterValidator, Field, WithJsonSchema

from srb.errors import bad_field
from srb.web.bodies.completion import CompletionBody
from srb.web.bodies.fields import INT32_MAX, Integer, Prompt, Real, between, schema_text
from srb.web.bodies.media import Base64Files, check_reads_media
from srb.web.dialects.llamacpp.body import Body, Tokens
from srb.wire.events import ModelInfo

LEAST_CONTEXT = 8
LOGPROBS = 5  # likely tokens beside each one

# KoboldAI's numbers of samplers, and which of llama.cpp's run in their place; it lacks top-a and tail-free sampling.
ORDER: dict[int, tuple[str, ...]] = {
    0: ("top_k",), 1: (), 2: ("top_p", "min_p"), 3: (), 4: ("typ_p",), 5: ("temperature",), 6: ("penalties",),
}  # fmt: skip
ORDER_SCHEMA = {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 6}, "maxItems": len(ORDER)}


def _check_order(value: list[int]) -> list[int]:
    if not set(value) <= ORDER.keys() or len(set(value)) < len(value):
        raise ValueError("must be a list of different numbers from 0 to 6")
    return value


class KoboldBody(CompletionBody):
    """The body of `POST /api/v1/generate` and its like."""

    max_context_length: Annotated[Integer, between(LEAST_CONTEXT, INT32_MAX)] | None = None
    memory: str = ""
    trim_stop: bool = True
    sampler_order: Annotated[list[Integer], AfterValidator(_check_order), WithJsonSchema(ORDER_SCHEMA)] = []
    use_default_badwordsids: bool = False
    singleline: bool = False
    genkey: Annotated[str, Field(max_length=200)] = ""
    images: Base64Files = []
    audio: Base64Files = []

    tfs: Real | None = None
    top_a: Real | None = None
    rep_pen_slope: Real | None = None
    guidance_scale: Real | None = None
    negative_prompt: str | None = None

    # Without effect: each request has its own grammar, and control tokens have no text and end a branch.
    grammar_retain_state: bool = False
    render_special: bool = False
    bypass_eos: bool = False

    @classmethod
    def parse(cls, body: dict[str, Any]) -> Self:
        """Validate a body; raise InvalidRequest, which names the first field at fault."""
        if body.get("dry_sequence_breakers") == []:
            body = {name: value for name, value in body.items() if name != "dry_sequence_breakers"}
        parsed = super().parse(body)
        if len(parsed.prompt) != 1 or not all(isinstance(part, str) for part in parsed.prompt[0]):
            raise bad_field("prompt", "must be one text")
        if parsed.explore is not None:
            raise bad_field("explore", "is for the srb dialect")
        return parsed

    @property
    def text(self) -> str:
        """The prompt, without the memory."""
        return "".join(map(str, self.prompt[0]))

    def with_prompt(self, prompt: Prompt, model: ModelInfo) -> Self:
        """Return the body with memory and prompt as `fitted` returns them, and its files between the two.

        Raise NotSupported if the model reads no files, InvalidRequest if the prompt was cut: what a file adds to a prompt
        is known to the engine alone, so there is no telling how much text has room beside it.
        """
        files = [*self.images, *self.audio]
        if not files:
            return self.model_copy(update={"prompt": [prompt]})
        field = ", ".join(name for name in ("images", "audio") if getattr(self, name))
        check_reads_media(model, field)
        if any(isinstance(part, int) for part in prompt):
            raise bad_field(
                "prompt", "is too long for max_context_length and max_length, and is not cut beside pictures and sounds"
            )
        places = tuple(-1 - place for place in range(len(files)))
        parts: Prompt = (self.memory, *places, self.text)
        return self.with_media([tuple(part for part in parts if part != "")], files, field)

    @property
    def wanted_probs(self) -> int:
        return LOGPROBS if self.logprobs is True and self.n_probs is None else super().wanted_probs

    def sampling_changes(self) -> dict[str, Any]:
        given = super().sampling_changes()
        if self.sampler_order:
            named = [sampler for number in self.sampler_order for sampler in ORDER[number]]
            given.setdefault("samplers", ("dry", "top_n_sigma", *named, "xtc"))
        if self.use_default_badwordsids:
            given["ignore_eos"] = True
        if schema := _schema_in(self.grammar or ""):
            given |= {"grammar": "", "json_schema": schema, "schema_place": "grammar"}
        return given

    def changes(self) -> dict[str, Any]:
        given = super().changes()
        if not self.trim_stop:
            given["include_stop"] = True
        if self.singleline:
            given["stop"] = tuple(dict.fromkeys((*given.get("stop", ()), "\n")))
        return given


def _schema_in(grammar: str) -> str:
    """Return a JSON schema that stands in the place of a grammar, as JSON text; "" for a grammar."""
    if not grammar.lstrip().startswith("{") and grammar.strip() not in ("true", "false"):
        return ""
    try:
        return schema_text(orjson.loads(grammar))
    except orjson.JSONDecodeError:
        return ""
    except ValueError as error:
        raise bad_field("grammar", str(error)) from None


class KeyBody(Body):
    """A body that names a request by the `genkey` that it was made with."""

    genkey: Annotated[str, Field(max_length=200)] = ""


class TokenCountBody(Body):
    prompt: str = ""
    special: bool = True  # count the BOS


class DetokenizeIdsBody(Body):
    ids: Tokens = ()
