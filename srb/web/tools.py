"""What a model's reply consists of: reasoning, words for the user, calls of tools; found while the text still comes.

Forms of a call: Hermes' and Qwen's `<tool_call>{"name": …, "arguments": …}</tool_call>`, and Llama 3's JSON object at the
beginning of the reply (or after `<|python_tag|>`), with `parameters`. Text that may still become one of them is held back;
if it does not, it is the reply's content, exactly as it came.
"""

from __future__ import annotations

import secrets
import string
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

import orjson

from srb.web.chat import END_THINK, THINK

CALL, END_CALL = "<tool_call>", "</tool_call>"
PYTHON = "<|python_tag|>"

ALPHABET = string.ascii_letters + string.digits


@dataclass(frozen=True, slots=True)
class Content:
    text: str


@dataclass(frozen=True, slots=True)
class Reasoning:
    text: str


def _call_id() -> str:
    """Return nine letters and digits: Mistral's templates refuse any other id when the call comes back to them."""
    return "".join(secrets.choice(ALPHABET) for _ in range(9))


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a tool; `arguments` is JSON text."""

    name: str
    arguments: str
    id: str = field(default_factory=_call_id)

    def as_dict(self) -> dict[str, Any]:
        return {"id": self.id, "type": "function", "function": {"name": self.name, "arguments": self.arguments}}


Piece = Content | Reasoning | ToolCall


class ReplyParser:
    """Cut one reply into pieces: `feed` what came, `end` when nothing more will.

    `reasoning`: find a block of reasoning at the beginning; `thinking`: the reply begins inside of one. `tools`: names
    of those that may be called; none means that nothing is a call. `has_begun`: the reply's beginning is in the prompt.
    """

    def __init__(
        self, tools: Collection[str] = (), reasoning: bool = True, thinking: bool = False, has_begun: bool = False
    ) -> None:
        self._tools = frozenset(tools)
        self._held = ""
        self._calls = 0
        self._object = _ObjectEnd()
        self._state: Callable[[list[Piece], bool], bool]
        if not reasoning:
            self._state = self._at_content
        elif thinking:
            self._state = self._in_reasoning if has_begun else self._at_reasoning
        else:
            self._state = self._in_content if has_begun else self._at_beginning

    def __repr__(self) -> str:
        return f"<ReplyParser {self._state.__name__}, {len(self._held)} characters held, {self._calls} calls>"

    @property
    def is_plain(self) -> bool:
        """Whether all that will come is content, so that it need not be fed any more."""
        return not self._held and not self._tools and self._state in (self._at_content, self._in_content)

    def feed(self, text: str) -> list[Piece]:
        """Take new text and return the pieces that are now certain."""
        self._held += text
        return self._run(final=False)

    def end(self) -> list[Piece]:
        """Return what was held back; nothing is ever lost."""
        return self._run(final=True)

    def _run(self, final: bool) -> list[Piece]:
        pieces: list[Piece] = []
        while self._held and self._state(pieces, final):
            pass
        return pieces

    # States: each takes from `_held` what it can, and returns whether there is more to do -----------------------------

    def _at_beginning(self, pieces: list[Piece], final: bool) -> bool:
        begun = self._held.lstrip()
        if not final and THINK.startswith(begun[: len(THINK)]) and len(begun) < len(THINK):
            return False
        if begun.startswith(THINK):
            self._held = begun[len(THINK) :]
            self._state = self._at_reasoning
        else:
            self._state = self._at_content
        return True

    def _at_reasoning(self, pieces: list[Piece], final: bool) -> bool:
        self._held = self._held.lstrip()
        if self._held:
            self._state = self._in_reasoning
        return bool(self._held)

    def _in_reasoning(self, pieces: list[Piece], final: bool) -> bool:
        before, found, after = self._held.partition(END_THINK)
        if found:
            _add(pieces, Reasoning(before.rstrip()))
            self._held = after
            self._state = self._after_reasoning
            return True
        return self._release(pieces, Reasoning, (END_THINK,), final, keep_space=False)

    def _after_reasoning(self, pieces: list[Piece], final: bool) -> bool:
        self._held = self._held.lstrip()
        if self._held:
            self._state = self._at_content
        return bool(self._held)

    def _at_content(self, pieces: list[Piece], final: bool) -> bool:
        begun = self._held.lstrip()
        if self._tools and not begun and not final:
            return False
        self._state = self._in_object if self._tools and begun.startswith("{") else self._in_content
        return True

    def _in_content(self, pieces: list[Piece], final: bool) -> bool:
        if not self._tools:
            return self._release(pieces, Content, (), final, keep_space=True)
        places = [(place, marker) for marker in (CALL, PYTHON) if (place := self._held.find(marker)) >= 0]
        if places:
            place, marker = min(places)
            before = self._held[:place].rstrip()
            _add(pieces, Content(before))
            self._held = self._held[len(before) :]
            self._state = self._in_call if marker == CALL else self._in_python
            return True
        if final and self._calls and self._held.isspace():
            self._held = ""  # it stood between the last call and the end
        return self._release(pieces, Content, (CALL, PYTHON), final, keep_space=final)

    def _in_call(self, pieces: list[Piece], final: bool) -> bool:
        return self._marked_object(pieces, final, CALL, END_CALL)

    def _in_python(self, pieces: list[Piece], final: bool) -> bool:
        return self._marked_object(pieces, final, PYTHON, "")

    def _in_object(self, pieces: list[Piece], final: bool) -> bool:
        return self._marked_object(pieces, final, "", "")

    def _marked_object(self, pieces: list[Piece], final: bool, marker: str, closing: str) -> bool:
        """Take one call: space, `marker`, a JSON object and `closing`; give up where it cannot become one."""
        behind = _spaces(self._held) + len(marker) if marker else 0
        begin = behind + _spaces(self._held[behind:])
        if begin == len(self._held) and not final:
            return False
        if not self._held.startswith("{", begin):
            return self._give_up(pieces, behind)
        end = self._object.find(self._held, begin)
        if not end:
            return self._give_up(pieces, behind) if final else False
        call = self._call_in(self._held[begin:end], any_name=bool(marker))
        if call is None:
            return self._give_up(pieces, behind)
        rest = end + _spaces(self._held[end:])
        missing = closing[len(self._held) - rest :] if closing.startswith(self._held[rest:]) else ""
        if missing and not final:
            return False
        pieces.append(call)
        self._calls += 1
        self._object = _ObjectEnd()
        self._held = "" if missing else self._held[rest:].removeprefix(closing) if closing else self._held[end:]
        self._state = self._in_content if closing else self._between_objects
        return True

    def _between_objects(self, pieces: list[Piece], final: bool) -> bool:
        """Llama 3 separates several calls by semicolons."""
        rest = self._held.lstrip(" \n;")
        if not rest and not final:
            return False
        if rest.startswith("{"):
            self._held = rest
            self._state = self._in_object
        else:
            self._state = self._in_content
        return True

    def _give_up(self, pieces: list[Piece], behind: int) -> bool:
        """Let what is held be content after all; the marker, which ends `behind` its beginning, is done with."""
        self._object = _ObjectEnd()
        place = behind or 1
        _add(pieces, Content(self._held[:place]))
        self._held = self._held[place:]
        self._state = self._in_content
        return True

    def _release(
        self,
        pieces: list[Piece],
        kind: type[Content] | type[Reasoning],
        markers: tuple[str, ...],
        final: bool,
        keep_space: bool,
    ) -> bool:
        """Give what is held, but for what may be the beginning of a marker and the space before it."""
        text = self._held if final else self._held[: len(self._held) - _begun(self._held, markers)]
        if not keep_space:
            text = text.rstrip()
        _add(pieces, kind(text))
        self._held = "" if final else self._held[len(text) :]
        return False

    def _call_in(self, text: str, any_name: bool) -> ToolCall | None:
        try:
            value = orjson.loads(text)
        except orjson.JSONDecodeError:
            return None
        name = value.get("name")
        arguments = value.get("arguments", value.get("parameters", {} if any_name else None))
        if not isinstance(name, str) or not (any_name or name in self._tools) or arguments is None:
            return None
        written = arguments if isinstance(arguments, str) else orjson.dumps(arguments).decode()
        return ToolCall(name, written)


class _ObjectEnd:
    """Find where a JSON object ends, going on where the last look at a growing text stopped."""

    def __init__(self) -> None:
        self._at = 0
        self._end = 0
        self._depth = 0
        self._in_string = False

    def find(self, text: str, begin: int) -> int:
        """Return the index behind the object that begins at `begin`, or 0 where the text has no end of it yet."""
        at = max(self._at, begin)
        while not self._end and at < len(text):
            char = text[at]
            if self._in_string and char == "\\":
                if at + 1 == len(text):
                    break
                at += 1
            elif char == '"':
                self._in_string = not self._in_string
            elif not self._in_string and char in "{}":
                self._depth += 1 if char == "{" else -1
                if self._depth == 0:
                    self._end = at + 1
            at += 1
        self._at = at
        return self._end


def _add(pieces: list[Piece], piece: Content | Reasoning) -> None:
    if piece.text:
        pieces.append(piece)


def _spaces(text: str) -> int:
    return len(text) - len(text.lstrip())


def _begun(text: str, markers: tuple[str, ...]) -> int:
    """Return how many of the last characters may be the beginning of one of the markers."""
    return max(
        (length for marker in markers for length in range(1, len(marker)) if text.endswith(marker[:length])), default=0
    )


def parse_reply(parser: ReplyParser, text: str) -> tuple[str, str, list[ToolCall]]:
    """Return the content, the reasoning and the calls of a whole reply."""
    pieces = [*parser.feed(text), *parser.end()]
    content = "".join(piece.text for piece in pieces if isinstance(piece, Content))
    reasoning = "".join(piece.text for piece in pieces if isinstance(piece, Reasoning))
    return content, reasoning, [piece for piece in pieces if isinstance(piece, ToolCall)]
