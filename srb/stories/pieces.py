"""A story's file in pieces: its large members found and counted in the bytes, before any value of them is built.

`orjson.loads` of a file of 60 MB keeps all other threads from running for a second, and pydantic for several; so the file is
read a few hundred nodes at a time. Whether the pieces are JSON is for their parser to say: this module counts what stands
outside of strings.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from srb.errors import StoryTooLarge
from srb.stories.limits import MAX_ENTRY, MAX_ENTRY_VALUES, MAX_FRAME, MAX_KEYS, MAX_MEDIA_COUNT, MAX_NODES, MAX_SIGNS

PARTS = ("nodes", "runs", "marks", "media")  # the members of a file that are read in pieces
_NAMES = frozenset(name.encode() for name in PARTS)
_PIECE = 256 * 1024  # bytes after which a piece ends: little memory beside a file of 1 GiB, and a short time to parse
_WINDOW = 256 * 1024  # bytes that the search goes through between two pauses, in which others are answered

# What leads to the next sign that begins, ends or parts values, and the sign: strings, of which the last one is kept, and
# everything else. Possessive repetitions, tried at one place only, never go back, so no text costs more than its length.
_SIGN = re.compile(rb'(?:"((?:[^"\\]++|\\.)*+)"|[^"{}\[\],]++)*+([{}\[\],])', re.DOTALL)
_BEFORE = re.compile(rb'(?:"(?:[^"\\]++|\\.)*+"|[^"{}\[\],]++)*+', re.DOTALL)
_IN_STRING = re.compile(rb'(?:[^"\\]++|\\.)*+("?)', re.DOTALL)
_COMMA, _OPENING, _BRACE = ord(","), frozenset(b"{["), ord("{")


@dataclass(frozen=True, slots=True)
class Limits:
    """The most that a file may have: entries of each part, other keys, values and bytes of one entry, and all together."""

    entries: Mapping[str, int] = field(
        default_factory=lambda: {"nodes": MAX_NODES, "runs": MAX_NODES, "marks": MAX_NODES, "media": MAX_MEDIA_COUNT}
    )
    keys: int = MAX_KEYS
    values: int = MAX_ENTRY_VALUES
    entry: int = MAX_ENTRY
    frame: int = MAX_FRAME
    signs: int = MAX_SIGNS


@dataclass(frozen=True, slots=True)
class Pieces:
    """A file's bytes without its parts, each of which is an empty object there, and the parts cut between two entries."""

    frame: bytes
    parts: Mapping[str, Iterator[bytes]]


def pieces_of(data: bytes, limits: Limits | None, pause: Callable[[], None]) -> Pieces:
    """Cut the bytes of a file. `pause` is called every few milliseconds.

    Raise StoryTooLarge, which names the field and the limit, for more than the limits.
    """
    search = _Search(data, limits)
    search.run(pause)
    if limits is not None and len(search.frame) > limits.frame:
        message = f"The file has {len(search.frame)} bytes beside its {', '.join(PARTS)}; it may have {limits.frame}"
        raise StoryTooLarge(message, param="body")
    return Pieces(search.frame, {name: _cut(data, spans) for name, spans in search.spans.items()})


def _cut(data: bytes, spans: list[tuple[int, int]]) -> Iterator[bytes]:
    for begin, end in spans:
        yield b"{" + data[begin:end] + b"}"


class _Search:
    """One way through the bytes. An entry is a member of a part; everything else belongs to the frame."""

    def __init__(self, data: bytes, limits: Limits | None) -> None:
        self._data = data
        self._limits = limits
        self.spans: dict[str, list[tuple[int, int]]] = {}  # of a part that comes twice, the last one
        self._part: str | None = None  # in which the search is
        self._piece = self._entry = 0  # where the present ones begin
        self._entries = self._keys = self._values = self._frame_values = 0
        self._kept: list[bytes] = []  # the frame as far as it is known
        self._from = 0  # what follows is not in it yet

    @property
    def frame(self) -> bytes:
        return b"".join((*self._kept, self._data[self._from :]))

    def run(self, pause: Callable[[], None]) -> None:
        data, at, signs, depth = self._data, 0, 0, 0
        while at < len(data):
            pause()
            if self._limits is not None and signs > self._limits.signs:
                message = f"The file has more than {self._limits.signs} commas and brackets"
                raise StoryTooLarge(message, param="body")
            begin, end = at, at + _WINDOW
            while (found := _SIGN.match(data, at, end)) is not None:
                at = found.end()
                signs += 1
                sign = data[at - 1]
                if sign == _COMMA:
                    if depth > 2:
                        self._values += 1
                    else:
                        self._end_value(at - 1, depth)
                elif sign in _OPENING:
                    depth += 1
                    if depth == 2 and sign == _BRACE and found[1] in _NAMES:
                        self._begin_part(found[1].decode(), at - 1)
                    else:
                        self._values += 1
                else:
                    if depth == 2 and self._part is not None:
                        self._end_part(at - 1)
                    depth -= 1
                if depth < 1:
                    return self._check_values()  # the file's object ends here, or there is none
            self._check_values()
            if at == begin:
                at = self._after_long_string(at, pause)

    def _after_long_string(self, at: int, pause: Callable[[], None]) -> int:
        """Return where the first string ends that does not end in the window at `at`, or the end of the bytes."""
        before = _BEFORE.match(self._data, at, at + _WINDOW)
        assert before is not None, "it matches nothing, too"
        at = before.end()
        if self._data[at : at + 1] != b'"':
            return max(at, before.start() + 1)
        at += 1
        while at < len(self._data):
            pause()
            part = _IN_STRING.match(self._data, at, at + _WINDOW)
            assert part is not None, "it matches nothing, too"
            if part[1] or part.end() == at:
                return part.end() or len(self._data)
            at = part.end()
        return at

    def _end_value(self, at: int, depth: int) -> None:
        if depth == 2 and self._part is not None:
            self._end_entry(at)
        elif depth == 1:
            self._keys += 1
            if self._limits is not None and self._keys > self._limits.keys:
                message = f"The file has more than the {self._limits.keys} keys that a story may have beside its nodes"
                raise StoryTooLarge(message, param="body")
        else:
            self._values += 1

    def _begin_part(self, name: str, at: int) -> None:
        self._kept.append(self._data[self._from : at] + b"{}")
        self._frame_values, self._values = self._values, 0
        self._part, self._entries = name, 0
        self._piece = self._entry = at + 1
        self.spans[name] = []

    def _end_entry(self, at: int) -> None:
        assert self._part is not None
        self._check_values()
        self._entries += 1
        self._values = 0
        if self._limits is not None:
            if self._entries > (most := self._limits.entries[self._part]):
                message = f"The file has more than the {most} {self._part} that a story may have"
                raise StoryTooLarge(message, param=self._part)
            if at - self._entry > self._limits.entry:
                message = (
                    f"One of the file's {self._part} has {at - self._entry} bytes; it may have {self._limits.entry}"
                )
                raise StoryTooLarge(message, param=self._part)
        self._entry = at + 1
        if at - self._piece >= _PIECE:
            self._end_piece(at)

    def _end_piece(self, at: int) -> None:
        assert self._part is not None
        self.spans[self._part].append((self._piece, at))
        self._piece = at + 1

    def _end_part(self, at: int) -> None:
        assert self._part is not None
        if self._data[self._entry : at].strip():
            self._end_entry(at)
        if self._piece <= at:
            self._end_piece(at)
        self._part, self._from, self._values = None, at + 1, self._frame_values

    def _check_values(self) -> None:
        if self._limits is not None and self._values > self._limits.values:
            message = f"One of the file's entries has more than {self._limits.values} values within it"
            raise StoryTooLarge(message, param=self._part or "body")
