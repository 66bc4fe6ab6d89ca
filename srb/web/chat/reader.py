"""Reader: the text of a reply as it arrives, read by generators that yield where more of it is needed.

A generator's place in the text is `reader`'s own, since text that has become pieces is dropped while it waits. Each
character becomes part of exactly one piece: `emit` takes all text since the last piece.
"""

import re
from collections.abc import Callable, Collection, Generator, Mapping
from typing import Any

import orjson

from srb.web.chat.pieces import AnyPiece, CallArguments, CallBegan, CallEnded, Markup, call_id

Steps = Generator[None, None, None]
MAX_NAME_LENGTH = 4096  # characters of a name, a key or the text between two markers; longer text would be held back
MAX_NESTING = 64  # levels of arguments: some readers recurse, and what is held back is read again

_CHARACTERS = re.compile(r'(?:[^"\\]++|\\.)*+', re.DOTALL)
_IN_VALUE = re.compile(r'[^"{}\[\]]+')
_IN_STRING = re.compile(r'[^"\\]+')
_SCALAR = re.compile(r"[-+.\w]+")


class NoCall(Exception):
    """The text is no tool call, so far as it has been read."""


class Reader:
    """The text, the place `at` which it is read, and the pieces so far with the text of each."""

    def __init__(self, tools: Collection[str] | Mapping[str, Any]) -> None:
        """`tools` are the names of tools, or their parameters' JSON schemas by name."""
        self.tools: Mapping[str, Any] = tools if isinstance(tools, Mapping) else dict.fromkeys(tools)
        self.final = False
        self.pieces: list[tuple[AnyPiece, str]] = []
        self.num_calls = 0
        self._ids: set[str] = set()  # of the calls
        self.is_open = False  # whether a call has begun and not ended
        self._text = ""
        self.at = 0
        self._told = 0  # the text before has become pieces

    @property
    def ahead(self) -> str:
        return self._text[self.at :] if self.at else self._text

    @property
    def has_more(self) -> bool:
        return self.at < len(self._text)

    @property
    def since(self) -> str:
        """The text that has been read since the last piece."""
        return self._text[self._told : self.at]

    @property
    def unread(self) -> int:
        """The number of characters that `go_back` would unread."""
        return self.at - self._told

    @property
    def num_held(self) -> int:
        """The number of characters that are no part of a piece so far."""
        return len(self._text) - self._told

    def add(self, text: str) -> None:
        self._text = self._text[self._told :] + text
        self.at -= self._told
        self._told = 0

    def emit(self, piece: AnyPiece) -> None:
        """Make all text since the last piece, as far as it has been read, a piece."""
        self.pieces.append((piece, self._text[self._told : self.at]))
        self._told = self.at

    def drop(self) -> None:
        """Make the text that has been read markup."""
        if self._told < self.at:
            self.emit(Markup())

    def go_back(self) -> None:
        """Unread all text since the last piece."""
        self.at = self._told

    # Calls ------------------------------------------------------------------------------------------------------------

    def begin(self, name: str, given_id: str = "") -> None:
        """Begin a call with the id that the model gave it, or another one if it gave none, or gave it before.

        Raise NoCall if there is no such tool.
        """
        if name not in self.tools:
            raise NoCall
        self.num_calls += 1
        self.is_open = True
        made = given_id if given_id and given_id not in self._ids else call_id()
        self._ids.add(made)
        self.emit(CallBegan(name, made))

    def tell(self, arguments: str) -> None:
        self.emit(CallArguments(arguments))

    def finish(self, is_whole: bool = True) -> None:
        self.is_open = False
        self.emit(CallEnded(is_whole))

    # Reading: each generator yields where more text is needed ----------------------------------------------------------

    def space(self) -> Steps:
        """Skip white space."""
        while True:
            while self.at < len(self._text) and self._text[self.at].isspace():
                self.at += 1
            if self.has_more or self.final:
                return
            yield

    def literal(self, text: str) -> Generator[None, None, bool]:
        """Skip `text` if it is next; return whether it was."""
        while True:
            if self._text.startswith(text, self.at):
                self.at += len(text)
                return True
            if self.final or not text.startswith(self._text[self.at :]):
                return False
            yield

    def ending(self, text: str) -> Steps:
        """Skip `text` and the space before it, or as much of it as there is at the end; both are markup."""
        yield from self.space()
        if not (yield from self.literal(text)):
            if self.final and text.startswith(self.ahead):
                self.at += len(self.ahead)
            else:
                self.go_back()
        self.drop()

    def expect(self, text: str) -> Steps:
        """Skip `text`. Raise NoCall if it is not next."""
        if not (yield from self.literal(text)):
            raise NoCall

    def peek(self) -> Generator[None, None, str]:
        """Return the next character; "" at the end."""
        while not self.has_more and not self.final:
            yield
        return self._text[self.at : self.at + 1]

    def until(self, *ends: str) -> Generator[None, None, tuple[str, str]]:
        """Skip text up to and with the first of `ends`; return both. Raise NoCall without one in reach."""
        while True:
            found = first_of(self._text, ends, self.at)
            if found and (self.final or not might_be_longer(self._text, found, ends)):
                place, end = found
                if place - self.at > MAX_NAME_LENGTH:
                    raise NoCall
                before, self.at = self._text[self.at : place], place + len(end)
                return before, end
            if self.final or (not found and len(self._text) - self.at > 2 * MAX_NAME_LENGTH):
                raise NoCall
            yield

    def match(self, pattern: re.Pattern[str]) -> Generator[None, None, str]:
        """Skip and return the text that a pattern of single characters matches; it may be empty."""
        while True:
            found = pattern.match(self._text, self.at)
            end = found.end() if found else self.at
            if end - self.at > MAX_NAME_LENGTH:
                raise NoCall
            if end < len(self._text) or self.final:
                text, self.at = self._text[self.at : end], end
                return text
            yield

    def string(self) -> Generator[None, None, str]:
        """Skip a JSON string; return its value. Raise NoCall for anything else."""
        if (yield from self.peek()) != '"':
            raise NoCall
        read = 1  # characters; they are not read again with each part of a long string
        while True:
            if found := _CHARACTERS.match(self._text, self.at + read):
                read = found.end() - self.at
            if self._text.startswith('"', self.at + read):
                break
            if self.final:
                raise NoCall
            yield
        text = self._text[self.at : self.at + read + 1]
        self.at += len(text)
        try:
            return str(orjson.loads(text))
        except orjson.JSONDecodeError:
            raise NoCall from None

    def value(self, tell: Callable[[str], None] | None = None) -> Generator[None, None, str]:
        """Skip a JSON value and return its text; `tell` gets the parts of an object or list as they come.

        Raise NoCall if it is no JSON, or has more than MAX_NESTING levels that are held back: the text after each marker
        of a call that is none is read again.
        """
        if (yield from self.peek()) in ("{", "["):
            text = yield from self._nested(tell)
        elif (yield from self.peek()) == '"':
            text = orjson.dumps((yield from self.string())).decode()
        else:
            text = yield from self.match(_SCALAR)
        try:
            orjson.loads(text)
        except orjson.JSONDecodeError:
            raise NoCall from None
        return text

    def _nested(self, tell: Callable[[str], None] | None) -> Generator[None, None, str]:
        parts: list[str] = []
        depth, in_string = 0, False
        while True:
            begin, is_end, text = self.at, False, self._text
            while self.at < len(text) and not is_end:
                if found := (_IN_STRING if in_string else _IN_VALUE).match(text, self.at):
                    self.at = found.end()
                    continue
                char = text[self.at]
                if char == "\\":
                    if self.at + 1 == len(text):
                        break
                    self.at += 1
                elif char == '"':
                    in_string = not in_string
                else:
                    depth += 1 if char in "{[" else -1
                    is_end = depth == 0
                    if depth > MAX_NESTING and tell is None:
                        raise NoCall
                self.at += 1
            part = text[begin : self.at]
            if part:
                parts.append(part)
                if tell is not None:
                    tell(part)
            if is_end:
                return "".join(parts)
            if self.final:
                raise NoCall
            yield

    def arguments(self) -> Steps:
        """Tell a call's arguments, which follow: an object, JSON text of one in a string, or null for none."""
        begun = yield from self.peek()
        if begun == "{":
            yield from self.value(self.tell)
        elif begun == '"':
            self.tell(object_text((yield from self.string())))
        elif (yield from self.value()) == "null":
            self.tell("{}")
        else:
            raise NoCall

    def streamed(self, ends: tuple[str, ...], tell: Callable[[str], None]) -> Generator[None, None, str]:
        """Tell the text up to the first of `ends` as it comes; skip and return that end. Raise NoCall without one."""
        while True:
            found = first_of(self._text, ends, self.at)
            if found and not self.final and might_be_longer(self._text, found, ends):
                found_place = found[0]
                end = ""
            elif found:
                found_place, end = found
            else:
                found_place, end = len(self._text) - (0 if self.final else possible_marker(self.ahead, ends)), ""
            if found_place > self.at:
                text, self.at = self._text[self.at : found_place], found_place
                tell(text)
            if end:
                self.at += len(end)
                return end
            if self.final:
                raise NoCall
            yield


def object_text(text: str) -> str:
    """Return JSON text of an object, as it is. Raise NoCall for other text."""
    try:
        if isinstance(orjson.loads(text), dict):
            return text
    except orjson.JSONDecodeError:
        pass
    raise NoCall


def first_of(text: str, markers: Collection[str], start: int = 0) -> tuple[int, str] | None:
    """Return the first place of a marker and the longest marker there; None without one."""
    places = [(place, -len(marker), marker) for marker in markers if (place := text.find(marker, start)) >= 0]
    if not places:
        return None
    place, _, marker = min(places)
    return place, marker


def might_be_longer(text: str, found: tuple[int, str], markers: Collection[str]) -> bool:
    """Whether more text may make another marker, which is longer or begins before, of the one that was found."""
    place, marker = found
    return any(
        len(text) - at < len(other) and other.startswith(text[at:])
        for other in markers
        for at in range(max(0, len(text) - len(other) + 1), place + 1)
        if at < place or len(other) > len(marker)
    )


def possible_marker(text: str, markers: Collection[str]) -> int:
    """Return the number of last characters that may be the beginning of a marker."""
    return max(
        (length for marker in markers for length in range(1, len(marker)) if text.endswith(marker[:length])), default=0
    )
