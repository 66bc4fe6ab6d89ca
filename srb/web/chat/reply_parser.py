"""ReplyParser: splits a model's reply into reasoning, content and tool calls while its text arrives.

The model's family (families.py) says how calls and reasoning are written. Text that may still become a tool call is held
back; if it does not become one, it is content, unchanged. Each character of a reply becomes part of exactly one piece,
and the pieces do not depend on the parts in which the text comes.
"""

from collections.abc import Collection, Mapping
from typing import Any

from srb.web.chat.call_forms import Form
from srb.web.chat.families import HERMES, Family
from srb.web.chat.pieces import (
    AnyPiece,
    CallArguments,
    CallBegan,
    CallEnded,
    Content,
    Markup,
    Piece,
    Reasoning,
    ToolCall,
)
from srb.web.chat.reader import NoCall, Reader, Steps, first_of, might_be_longer, possible_marker

MAX_EAGER = 4096  # characters that are held back and read again with each new text, at the cost of their square

__all__ = ["CallArguments", "CallBegan", "Content", "Piece", "Reasoning", "ReplyParser", "ToolCall", "parse_reply"]


class ReplyParser:
    """Splits one reply into pieces: `feed` its text as it arrives, then `end`.

    `tools` are the names of the tools that may be called, or their parameters' JSON schemas by name; without any, tool
    calls are not recognized. With `reasoning`, a block of reasoning at the beginning is recognized; with `thinking`, the
    reply begins inside such a block. `has_begun` means that the prompt ends with the reply's beginning. With
    `hides_reasoning` reasoning is recognized, but no part of the reply. With `must_call` a grammar permits calls alone: the
    beginning of one that was cut before its name is no part of the reply, either.

    A call is one ToolCall when it is complete, and content if it never is. With `in_parts` it is a CallBegan,
    CallArguments as they come, and a CallEnded; then a call that breaks off has the arguments that came, and the text
    after is content. A branch may go on after its end: `feed` goes on where `end` was.
    """

    def __init__(
        self,
        tools: Collection[str] | Mapping[str, Any] = (),
        reasoning: bool = True,
        thinking: bool = False,
        has_begun: bool = False,
        family: Family = HERMES,
        in_parts: bool = False,
        hides_reasoning: bool = False,
        must_call: bool = False,
    ) -> None:
        self._reader = Reader(tools)
        self._reasoning, self._thinking, self._has_begun = reasoning, thinking, has_begun
        self._family = family
        self._forms = family.forms if tools else ()
        self._in_parts, self._hides_reasoning, self._must_call = in_parts, hides_reasoning, must_call
        self.num_hidden = 0  # characters of reasoning that is hidden
        self._waiting: list[str] = []  # text that has not been read, while much is held back
        self._num_waiting = 0
        self._open: list[tuple[AnyPiece, str]] = []  # the pieces of a call that is not complete
        self._is_plain = False
        self._is_thinking = False  # whether the text so far ends inside reasoning
        self._steps = self._messages() if family.messages else self._reply()

    def __repr__(self) -> str:
        reader = self._reader
        return f"<ReplyParser {self._family.name}, {len(reader.ahead)} characters held, {reader.num_calls} calls>"

    @property
    def is_plain(self) -> bool:
        """Whether all further text is content, so that it need not be fed."""
        return self._is_plain and not self._waiting and not self._reader.has_more

    def feed(self, text: str) -> list[Piece]:
        """Add new text; return the pieces that are certain now."""
        return [piece for piece, _ in self.feed_raw(text) if not isinstance(piece, Markup)]

    def end(self) -> list[Piece]:
        """Return the text that was held back, as pieces."""
        return [piece for piece, _ in self.end_raw() if not isinstance(piece, Markup)]

    def feed_raw(self, text: str) -> list[tuple[AnyPiece, str]]:
        """Return the pieces of `feed`, markup included, each with its part of the reply's text."""
        if self._reader.final:
            self._reader.final = False
            self._steps = self._further()
        self._waiting.append(text)
        self._num_waiting += len(text)
        if self._reader.num_held > MAX_EAGER and 16 * self._num_waiting < self._reader.num_held:
            return []  # held text is copied with each addition: the cost stays linear
        self._add()
        next(self._steps, None)
        return self._taken()

    def end_raw(self) -> list[tuple[AnyPiece, str]]:
        """Return the pieces of `end`, markup included, each with its part of the reply's text."""
        self._add()
        self._reader.final = True
        for _ in self._steps:
            raise AssertionError("the reply has ended")
        if self._must_call:
            self._reader.pieces = [(Markup() if isinstance(piece, Content) else piece, text)
                                   for piece, text in self._reader.pieces]  # fmt: skip
        return self._taken()

    def _add(self) -> None:
        self._reader.add("".join(self._waiting))
        self._waiting, self._num_waiting = [], 0

    def _taken(self) -> list[tuple[AnyPiece, str]]:
        pieces, self._reader.pieces = self._reader.pieces, []
        if pieces and self._family.messages:
            self._is_thinking = isinstance(pieces[-1][0], Reasoning)
        if self._hides_reasoning:
            pieces = [self._without_reasoning(*piece) for piece in pieces]
        if self._in_parts:
            return pieces
        whole: list[tuple[AnyPiece, str]] = []
        for piece, text in pieces:
            if isinstance(piece, CallBegan) or self._open:
                self._open.append((piece, text))
                if isinstance(piece, CallEnded):
                    whole.append(_assembled(self._open))
                    self._open = []
            else:
                whole.append((piece, text))
        return whole

    def _without_reasoning(self, piece: AnyPiece, text: str) -> tuple[AnyPiece, str]:
        if not isinstance(piece, Reasoning):
            return piece, text
        self.num_hidden += len(piece.text)
        return Markup(), text

    # The states of a reply: each reads as far as it reaches -----------------------------------------------------------

    def _further(self) -> Steps:
        """Read the text of a branch that goes on after its end."""
        if messages := self._family.messages:
            yield from messages.read(self._reader, self._reasoning, self._is_thinking, has_begun=True)
            return
        if self._is_thinking:
            yield from self._in_reasoning()
        yield from self._in_content()

    def _messages(self) -> Steps:
        assert self._family.messages is not None
        yield from self._family.messages.read(self._reader, self._reasoning, self._thinking, self._has_begun)

    def _reply(self) -> Steps:
        reader = self._reader
        if self._reasoning and self._thinking:
            if not self._has_begun:
                yield from reader.space()
                reader.drop()
            yield from self._in_reasoning()
        elif self._reasoning and not self._has_begun:
            yield from reader.space()
            if (yield from reader.literal(self._family.reasoning[0])):
                reader.drop()
                yield from reader.space()
                reader.drop()
                yield from self._in_reasoning()
            else:
                reader.go_back()
        if not self._has_begun or self._thinking or not self._reasoning:
            yield from self._at_content()
        yield from self._in_content()

    def _in_reasoning(self) -> Steps:
        reader, end = self._reader, self._family.reasoning[1]
        self._is_thinking = True
        while True:
            ahead = reader.ahead
            before, found, _ = ahead.partition(end)
            held = 0 if found or reader.final else possible_marker(ahead, (end,))
            text = before[: len(before) - held].rstrip()
            reader.at += len(text)
            if text:
                reader.emit(Reasoning(text))
            if found:
                self._is_thinking = False
                reader.at += len(before) - len(text) + len(end)
                reader.drop()
                yield from reader.space()
                reader.drop()
                return
            if reader.final:
                reader.at += len(before) - len(text)
                reader.drop()
                return
            yield

    def _at_content(self) -> Steps:
        """Read the calls that have no marker, which are only at the beginning of the content."""
        forms = [form for form in self._forms if form.at_start]
        if not forms:
            return
        yield from self._reader.space()
        if (yield from self._reader.peek()) in ("{", "["):
            yield from self._try(forms, "")
        else:
            self._reader.go_back()

    def _in_content(self) -> Steps:
        reader = self._reader
        forms = [form for form in self._forms if not form.at_start]
        calls = {form.marker for form in forms}
        wrappers = self._family.wrappers
        markers = calls | set(wrappers)
        self._is_plain = not markers
        while True:
            ahead = reader.ahead
            found = first_of(ahead, markers)
            if found and not reader.final and might_be_longer(ahead, found, markers):
                found = None
            if found:
                place, marker = found
                text = ahead[:place].rstrip()
                reader.at += len(text)
                if text:
                    reader.emit(Content(text))
                reader.at += place - len(text)
                if marker in calls:
                    yield from self._try([form for form in forms if form.marker == marker], marker)
                else:
                    reader.at += len(marker)
                    reader.drop()
                continue
            text = ahead if reader.final else ahead[: len(ahead) - possible_marker(ahead, markers)]
            if markers and not reader.final:  # the space before a marker is markup
                text = text.rstrip()
            reader.at += len(text)
            if reader.final and reader.num_calls and text.isspace():
                reader.drop()  # space between the last call and the end
            elif text:
                reader.emit(Content(text))
            if reader.final:
                return
            yield

    def _try(self, forms: list[Form], marker: str) -> Steps:
        """Read calls in one of the forms, whose marker follows; otherwise make the marker content."""
        reader = self._reader
        space = reader.unread
        for form in forms:
            before = reader.num_calls
            try:
                yield from form.read(reader)
                return
            except NoCall:
                if reader.is_open:
                    reader.finish(is_whole=False)
                    return
                reader.go_back()
                if reader.num_calls > before:
                    return  # its first calls are told: another form would tell them again
                reader.at += space
        if marker:
            reader.at += len(marker)
        else:
            reader.at += 1
        reader.emit(Content(reader.since))


def _assembled(pieces: list[tuple[AnyPiece, str]]) -> tuple[AnyPiece, str]:
    """Return a call's pieces as one: a ToolCall, or the content that it is if it was not complete."""
    text = "".join(part for _, part in pieces)
    (began, _), (ended, _) = pieces[0], pieces[-1]
    assert isinstance(began, CallBegan)
    assert isinstance(ended, CallEnded)
    if not ended.is_whole:
        return Content(text), text
    arguments = "".join(piece.text for piece, _ in pieces if isinstance(piece, CallArguments))
    return ToolCall(began.name, arguments, began.id), text


def parse_reply(parser: ReplyParser, text: str) -> tuple[str, str, list[ToolCall]]:
    """Return the content, the reasoning and the tool calls of a complete reply."""
    pieces = [*parser.feed(text), *parser.end()]
    content = "".join(piece.text for piece in pieces if isinstance(piece, Content))
    reasoning = "".join(piece.text for piece in pieces if isinstance(piece, Reasoning))
    return content, reasoning, [piece for piece in pieces if isinstance(piece, ToolCall)]
