"""The pieces of a reply: content, reasoning and tool calls."""

import secrets
import string
from dataclasses import dataclass, field

ALPHABET = string.ascii_letters + string.digits


def call_id() -> str:
    """Return nine random letters and digits: Mistral's templates refuse other ids in later messages."""
    return "".join(secrets.choice(ALPHABET) for _ in range(9))


@dataclass(frozen=True, slots=True)
class Content:
    text: str


@dataclass(frozen=True, slots=True)
class Reasoning:
    text: str


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call; `arguments` is JSON text."""

    name: str
    arguments: str
    id: str = field(default_factory=call_id)


@dataclass(frozen=True, slots=True)
class CallBegan:
    """The beginning of a tool call whose arguments follow in parts."""

    name: str
    id: str = field(default_factory=call_id)


@dataclass(frozen=True, slots=True)
class CallArguments:
    """The next part of a call's arguments, which are JSON text together."""

    text: str


@dataclass(frozen=True, slots=True)
class CallEnded:
    """The end of a tool call, whose text is in the form of its family if `is_whole`; else the rest is content."""

    is_whole: bool


@dataclass(frozen=True, slots=True)
class Markup:
    """Text that is no part of the reply: a marker, or the space around one."""


Piece = Content | Reasoning | ToolCall | CallBegan | CallArguments | CallEnded
AnyPiece = Piece | Markup
