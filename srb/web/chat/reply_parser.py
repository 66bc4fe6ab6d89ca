"""ReplyParser: splits a model's reply into reasoning, content and tool calls while its text arrives.

Forms of a tool call: Hermes' and Qwen's `<tool_call>{"name": …, "arguments": …}</tool_call>`, and Llama 3's JSON object
at the beginning of the reply (or after `<|python_tag|>`), with `parameters`. Text that may still become a tool call is
held back; if it does not become one, it is emitted as content, unchanged.
"""

from __future__ import annotations

import secrets
import string
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

import orjson

from srb.web.chat.template import END_THINK, THINK

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
    """Return nine random letters and digits: Mistral's templates refuse other ids in later messages."""
    return "".join(secrets.choice(ALPHABET) for _ in range(9))


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call; `arguments` is JSON text."""

    name: str
    arguments: str
    id: str = field(default_factory=_call_id)


Piece = Content | Reasoning | ToolCall


class ReplyParser:
    """Splits one reply into pieces: `feed` its text as it arrives, then `end`.

    `tools` are the names of the tools that may be called; without any, tool calls are not recognized. With `reasoning`, a
    block of reasoning at the beginning is recognized; with `thinking`, the reply begins inside such a block. `has_begun`
    means that the prompt ends with the reply's beginning.
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
        """Whether all further text is content, so that it need not be fed."""
        return not self._held and not self._tools and self._state in (self._at_content, self._in_content)

    def feed(self, text: str) -> list[Piece]:
        """Add new text; return the pieces that are certain now."""
        self._held += text
        return self._run(final=False)

    def end(self) -> list[Piece]:
        """Return the text that was held back, as pieces."""
        return self._run(final=True)

    def _run(self, final: bool) -> list[Piece]:
        pieces: list[Piece] = []
        while self._held and self._state(pieces, final):
            pass
        return pieces

    # States: each consumes text from `_held`, and returns whether to call the next state at once ----------------------

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
            self._held = ""  # space between the last call and the end
        return self._release(pieces, Content, (CALL, PYTHON), final, keep_space=final)

    def _in_call(self, pieces: list[Piece], final: bool) -> bool:
        return self._marked_object(pieces, final, CALL, END_CALL)

    def _in_python(self, pieces: list[Piece], final: bool) -> bool:
        return self._marked_object(pieces, final, PYTHON, "")

    def _in_object(self, pieces: list[Piece], final: bool) -> bool:
        return self._marked_object(pieces, final, "", "")

    def _marked_object(self, pieces: list[Piece], final: bool, marker: str, closing: str) -> bool:
        """Parse one tool call: space, `marker`, a JSON object and `closing`; otherwise emit the text as content."""
        behind = _leading_space(self._held) + len(marker) if marker else 0
        begin = behind + _leading_space(self._held[behind:])
        if begin == len(self._held) and not final:
            return False
        if not self._held.startswith("{", begin):
            return self._emit_as_content(pieces, behind)
        end = self._object.find(self._held, begin)
        if not end:
            return self._emit_as_content(pieces, behind) if final else False
        call = self._parse_call(self._held[begin:end], any_name=bool(marker))
        if call is None:
            return self._emit_as_content(pieces, behind)
        rest = end + _leading_space(self._held[end:])
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
        """Skip the semicolons by which Llama 3 separates calls."""
        rest = self._held.lstrip(" \n;")
        if not rest and not final:
            return False
        if rest.startswith("{"):
            self._held = rest
            self._state = self._in_object
        else:
            self._state = self._in_content
        return True

    def _emit_as_content(self, pieces: list[Piece], behind: int) -> bool:
        """Emit the held text as content: it was not a tool call. `behind` is the index after the marker."""
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
        """Emit the held text, except a possible beginning of a marker and the space before it."""
        text = self._held if final else self._held[: len(self._held) - _possible_marker(self._held, markers)]
        if not keep_space:
            text = text.rstrip()
        _add(pieces, kind(text))
        self._held = "" if final else self._held[len(text) :]
        return False

    def _parse_call(self, text: str, any_name: bool) -> ToolCall | None:
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
    """The end of a JSON object in a growing text; each search continues where the last one stopped."""

    def __init__(self) -> None:
        self._at = 0
        self._end = 0
        self._depth = 0
        self._in_string = False

    def find(self, text: str, begin: int) -> int:
        """Return the index after the object that begins at `begin`, or 0 if the object is not complete yet."""
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


def _leading_space(text: str) -> int:
    return len(text) - len(text.lstrip())


def _possible_marker(text: str, markers: tuple[str, ...]) -> int:
    """Return the number of last characters that may be the beginning of a marker."""
    return max(
        (length for marker in markers for length in range(1, len(marker)) if text.endswith(marker[:length])), default=0
    )


def parse_reply(parser: ReplyParser, text: str) -> tuple[str, str, list[ToolCall]]:
    """Return the content, the reasoning and the tool calls of a complete reply."""
    pieces = [*parser.feed(text), *parser.end()]
    content = "".join(piece.text for piece in pieces if isinstance(piece, Content))
    reasoning = "".join(piece.text for piece in pieces if isinstance(piece, Reasoning))
    return content, reasoning, [piece for piece in pieces if isinstance(piece, ToolCall)]
