"""The search for words in all stories, in every branch: plain words, and bounds on results and time."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import orjson

from srb.stories.database import Connection
from srb.stories.limits import MAX_FOUND, MAX_FOUND_IN_STORY
from srb.stories.nodes import units
from srb.stories.parts import Pause
from srb.stories.people import Person, whose
from srb.stories.rows import PAUSE_ROWS

_AROUND = 60  # UTF-16 units of the text that a result shows on either side: a line of the list
_REACH = 400  # units of the text around a node's own in which words may lie that are partly the node's: 2 · MAX_WANTED
_HOPS = 100  # ancestors whose text is looked up for it: the next edit's words stand on all edits before it

_STORIES = """
    WITH readable (number) AS ({whose})
    SELECT story.number, story.id, title.json FROM readable JOIN story USING (number)
    LEFT JOIN meta AS title ON title.story = story.number AND title.key = 'title'
    WHERE story.deleted IS NULL
    ORDER BY story.changed DESC, story.id
"""
_NODES = "SELECT id, parent, keep, tail, length, json FROM node WHERE story = ? ORDER BY rowid"


@dataclass(frozen=True, slots=True)
class Found:
    """A place with the words, in the whole text of a node: `begin` and `end` are offsets in UTF-16 units."""

    story: str
    title: str
    node: str
    begin: int
    end: int
    before: str
    words: str
    after: str


@dataclass(frozen=True, slots=True)
class Results:
    """The places in order of their stories' changes; `more` if a bound was met."""

    results: list[Found]
    more: bool


@dataclass(frozen=True, slots=True)
class _Piece:
    """A node with its own text."""

    parent: str | None
    keep: int
    tail: int | None
    length: int
    text: str

    @property
    def written(self) -> int:
        return self.keep + units(self.text)


def search(connection: Connection, wanted: str, person: Person, pause: Pause, is_late: Callable[[], bool]) -> Results:
    """Find words in the stories that a person may read and that are not in the bin.

    Capitals do not matter, nor by what space words are parted.
    """
    pattern = re.compile(r"\s+".join(map(re.escape, wanted.split())), re.IGNORECASE)
    results: list[Found] = []
    more = False
    query = _STORIES.format(whose=whose(person))
    for number, story, title in connection.execute(query, {"person": person}).fetchall():
        here: list[Found] = []
        for found in _in_story(connection, number, story, _name(title), pattern, pause):
            if found is None:
                if is_late():
                    return Results(results + here, more=True)
            elif len(here) == MAX_FOUND_IN_STORY or len(results) + len(here) == MAX_FOUND:
                more = True
                break
            else:
                here.append(found)
        results += here
        if len(results) == MAX_FOUND:
            return Results(results, more=True)
    return Results(results, more)


def _in_story(
    connection: Connection, number: int, story: str, title: str, pattern: re.Pattern[str], pause: Pause
) -> Iterator[Found | None]:
    """Yield the places in a story, and None now and then, so that a long search can end."""
    pieces: dict[str, _Piece] = {}
    for count, (name, parent, keep, tail, length, text) in enumerate(connection.execute(_NODES, (number,))):
        if count % PAUSE_ROWS == 0:
            pause()
            yield None
        pieces[name] = _Piece(parent, keep, tail, length, orjson.loads(text)["text"])
    for count, (name, piece) in enumerate(pieces.items()):
        if count % PAUSE_ROWS == 0:
            pause()
            yield None
        yield from _in_piece(pieces, name, piece, story, title, pattern)


def _in_piece(
    pieces: dict[str, _Piece], name: str, piece: _Piece, story: str, title: str, pattern: re.Pattern[str]
) -> Iterator[Found]:
    """Yield the places that are at least partly in a node's own text: all others are its ancestors'."""
    before = _span(pieces, name, max(0, piece.keep - _REACH), piece.keep)
    after = _span(pieces, name, piece.written, min(piece.length, piece.written + _REACH))
    text, own = before + piece.text + after, len(before) + len(piece.text)
    begins, at = piece.keep - units(before), 0  # `begins`: where text[at] is in the node's whole text
    for match in pattern.finditer(text):
        if match.end() <= len(before):
            continue
        if match.start() >= own:
            return
        begins, at = begins + units(text[at : match.start()]), match.start()
        end = begins + units(match[0])
        around = text[max(0, match.start() - _AROUND) : match.start()], text[match.end() : match.end() + _AROUND]
        yield Found(story, title, name, begins, end, around[0], match[0], around[1])


def _span(pieces: dict[str, _Piece], name: str, begin: int, end: int) -> str:
    """Return a part of a node's whole text; "" if it lies among too many ancestors."""
    parts: list[str] = []
    todo: list[tuple[str | None, int, int]] = [(name, begin, end)]
    for _ in range(_HOPS):
        if not todo:
            return "".join(parts)
        of, begin, end = todo.pop()
        piece = None if of is None else pieces.get(of)
        if piece is None or begin >= end:
            continue
        written = piece.written
        if end > written and piece.tail is not None:
            shift = piece.tail - written
            todo.append((piece.parent, max(begin, written) + shift, end + shift))
        if begin < written and end > piece.keep:
            if begin < piece.keep:
                todo.append((of, piece.keep, min(end, written)))  # after what stands before it
            else:
                parts.append(_cut(piece.text, begin - piece.keep, min(end, written) - piece.keep))
        if begin < piece.keep:
            todo.append((piece.parent, begin, min(end, piece.keep)))
    return "".join(parts) if not todo else ""


def _cut(text: str, begin: int, end: int) -> str:
    """Return a part of a text by UTF-16 units, without halves of characters."""
    if text.isascii():
        return text[begin:end]
    return text.encode("utf-16-le")[2 * begin : 2 * end].decode("utf-16-le", "ignore")


def _name(title: str | None) -> str:
    found = "" if title is None else orjson.loads(title)
    return found if isinstance(found, str) else ""
