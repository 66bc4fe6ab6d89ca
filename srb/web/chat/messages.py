"""Replies of several messages: the header of each says whether it is reasoning, a call, or said to the user."""

import re
from collections.abc import Callable, Generator
from dataclasses import dataclass

from srb.web.chat.pieces import AnyPiece, Content, Reasoning
from srb.web.chat.reader import NoCall, Reader, Steps, first_of, possible_marker

MESSAGE = "<|message|>"  # ends a header
ASSISTANT = "<|start|>assistant"  # begins the header of each message but the first, which the prompt has


@dataclass(frozen=True)
class Messages:
    """How a family writes its messages.

    A header begins with one of `heads`; `thinking` is found in those of reasoning, `calling` in those of calls, with the
    function as its group. A message has one of `ends`, or the next one begins, with one of `starts`. `read_call` reads a
    call, whose header is read and no part of a piece yet; it raises NoCall for other text.
    """

    heads: tuple[str, ...]
    starts: tuple[str, ...]
    ends: tuple[str, ...]
    thinking: re.Pattern[str]
    calling: re.Pattern[str]
    read_call: Callable[[Reader, str], Steps]

    @property
    def markers(self) -> tuple[str, ...]:
        return (*self.starts, MESSAGE, *self.ends)

    def read(self, reader: Reader, reasoning: bool, thinking: bool, has_begun: bool) -> Steps:
        """Read a reply to its end; with `thinking` it begins in reasoning, with `has_begun` in another message."""
        thought = Reasoning if reasoning else Content
        if thinking or has_begun:
            yield from self._body(reader, thought if thinking else Content)
        while True:
            if not (yield from self._is_header(reader)):
                if reader.final and not reader.has_more:
                    return
                yield from self._body(reader, Content)
                continue
            try:
                header, _ = yield from reader.until(MESSAGE)
            except NoCall:
                reader.go_back()
                reader.at += 1
                reader.emit(Content(reader.since))
                yield from self._body(reader, Content)
                continue
            to = self.calling.search(header)
            if to and to[1] in reader.tools:
                yield from self._call(reader, to[1])
            elif self.thinking.search(header):
                if reasoning:
                    reader.drop()
                else:
                    reader.emit(Content(reader.since))
                yield from self._body(reader, thought)
            else:
                reader.drop()
                yield from self._body(reader, Content)

    def _is_header(self, reader: Reader) -> Generator[None, None, bool]:
        """Return whether a message's header follows."""
        while True:
            ahead = reader.ahead.lstrip()
            if any(ahead.startswith(head) for head in self.heads):
                return True
            if reader.final or (ahead and not any(head.startswith(ahead) for head in self.heads)):
                return False
            yield

    def _call(self, reader: Reader, name: str) -> Steps:
        try:
            yield from self.read_call(reader, name)
        except NoCall:
            if reader.is_open:
                reader.finish(is_whole=False)
            else:
                reader.go_back()
            yield from self._body(reader, Content)
            return
        yield from reader.space()
        for end in self.ends:
            if (yield from reader.literal(end)):
                break
        reader.drop()

    def _body(self, reader: Reader, kind: Callable[[str], AnyPiece]) -> Steps:
        """Read a message's text, up to and with its end, or up to the next message."""
        stops = (*self.ends, *self.starts)
        while True:
            ahead = reader.ahead
            found = first_of(ahead, stops)
            place = found[0] if found else len(ahead) - (0 if reader.final else possible_marker(ahead, stops))
            if place:
                reader.at += place
                reader.emit(kind(ahead[:place]))
            if found:
                if found[1] in self.ends:
                    reader.at += len(found[1])
                    reader.drop()
                return
            if reader.final:
                return
            yield
