"""Whether, and how much, a model shall think: the fields in which clients of several APIs say so."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, WithJsonSchema

from srb.web.bodies.fields import INT32_MAX, Integer, ObjectFields, between

Tokens = Annotated[Integer, between(0, INT32_MAX)]


class ReasoningFields(ObjectFields):
    """`reasoning` of Responses, and of OpenRouter's chats."""

    effort: str | None = None
    max_tokens: Tokens | None = None
    enabled: bool | None = None
    exclude: bool = False  # OpenRouter's: the model thinks, but the answer lacks its thoughts
    summary: Literal["auto", "concise", "detailed"] | None = None  # without effect: reasoning is sent as it is

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
]
