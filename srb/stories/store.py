"""The stories: listed, read, merged with what arrives, put into the bin and taken out of it, exported and imported."""

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import orjson

from srb.errors import StoriesFull, StoriesLocked, StoriesReadOnly
from srb.stories import people
from srb.stories.database import Connection, Place, database_of
from srb.stories.files import StoryFile, file_of
from srb.stories.imports import Plan, plan_of
from srb.stories.limits import BIN_DAYS, DAY, SEARCH_SECONDS
from srb.stories.media import Medium
from srb.stories.parts import Pause, Post, no_pause
from srb.stories.people import Access, Person, Right, whose
from srb.stories.rows import StoredRows, StoryRow
from srb.stories.search import search
from srb.stories.tables import (
    above,
    find_medium,
    find_or_make,
    find_story,
    merge,
    put_medium,
    raw,
    stored_story,
    with_differing,
)
from srb.stories.write_ahead import THREADS, Threads

_LIST = """
    WITH readable (number) AS ({whose})
    SELECT story.id, story.seq, story.changed, story.nodes, story.deleted, title.json, words.json, opening.json, story.owner,
        share.writes
    FROM readable JOIN story USING (number) LEFT JOIN share ON share.story = story.number AND share.name = :person
    LEFT JOIN meta AS title ON title.story = story.number AND title.key = 'title'
    LEFT JOIN meta AS words ON words.story = story.number AND words.key = 'words'
    LEFT JOIN meta AS opening ON opening.story = story.number AND opening.key = 'opening'
    WHERE (story.deleted IS NOT NULL) = :binned
    ORDER BY story.changed DESC, story.id
"""


_NODES_AT_ONCE = 10_000  # that a transaction removes from the bin, or those of one story


@dataclass(frozen=True, slots=True)
class Imported:
    """The story that a file was merged into; `copied` if the file's own id belongs to a story with other texts."""

    id: str
    seq: int
    nodes: int
    copied: bool


@dataclass(slots=True)
class _Bin:
    """When the bin was emptied last, for a store and for all that it is as persons may use it."""

    emptied: int = 0  # Unix milliseconds


class Store:
    """All stories of one place. One thread at a time may use it."""

    def __init__(
        self,
        place: Place,
        clock: Callable[[], float] = time.time,
        *,
        checks: bool = True,
        checks_later: bool = False,
        rooms: Mapping[str, int] = MappingProxyType({}),
        threads: Threads = THREADS,
    ) -> None:
        """Open nothing yet; `clock` returns Unix seconds. Raise ConfigError if a package is missing for the place.

        Without `checks` a damaged file is read as far as possible; with `checks_later` one whose pages are not known to be
        sound is used at once, and somebody calls `examine`. `rooms` has the bytes that all stories of a person may take, of
        those for whom there is a limit; one of `threads` waits for other processes that write.
        """
        self._database = database_of(place, checks=checks, checks_later=checks_later, threads=threads)
        self._clock = clock
        self._rooms = rooms
        self._bin = _Bin()
        self._person: Person = None

    def of(self, person: Person) -> "Store":
        """Return this store as a person may use it: with the own stories and those that are shared. None may use all."""
        own = copy(self)
        own._person = person
        return own

    @property
    def place(self) -> Place:
        return self._database.place

    @property
    def shown(self) -> str:
        """The place, as messages tell it: without a password."""
        return self._database.shown

    @property
    def state(self) -> str:
        return self._database.state

    @property
    def last_backup(self) -> float | None:
        return self._database.last_backup

    def open(self) -> None:
        """Open and check the database now instead of at its first use, and empty the bin. Raise its errors."""
        with self._database.reading():
            pass
        self._empty_bin()

    def examine(self) -> None:
        """Look for damage in a store that `checks_later`, while it is used; see Database.examine."""
        self._database.examine()

    def close(self) -> None:
        self._database.close()

    def connection(self) -> AbstractContextManager[Connection]:
        """Give a connection for reading, as Database.reading does."""
        return self._database.reading()

    def writing(self) -> AbstractContextManager[Connection]:
        """Give a connection for writing, as Database.writing does."""
        return self._database.writing()

    def backup(self, target: Path) -> None:
        """Write a copy of all stories; see Database.backup."""
        self._database.backup(target)

    # Reading -----------------------------------------------------------------------------------------------------------

    def overview(self, *, binned: bool = False) -> bytes:
        """Return the JSON of this person's stories and of shared ones, in the bin or not, the last changed first."""
        self._empty_bin()
        with self._database.reading() as connection:
            stories = []
            asked = {"binned": binned, "person": self._person}
            rows = connection.execute(_LIST.format(whose=whose(self._person)), asked)
            for id_, seq, changed, nodes, deleted, title, words, opening, owner, writes in rows:
                found = {
                    "id": id_,
                    "title": raw('""' if title in (None, "null") else title),
                    "changed": changed,
                    "nodes": nodes,
                    "seq": seq,
                }
                found |= {
                    name: raw(value)
                    for name, value in (("words", words), ("opening", opening))
                    if value not in (None, "null")
                }
                if deleted is not None:
                    found["deleted"] = deleted
                if owner != (self._person or ""):
                    found |= {"owner": owner, "access": "read" if writes == 0 else "write"}
                stories.append(found)
            frame = {"stories": stories, "state": self._database.state, "server": connection.name()}
            if self._person:
                frame["person"] = self._person
            return orjson.dumps(frame)

    def ids(self, *, binned: bool = False) -> list[str]:
        """Return the ids of this person's own stories in the bin, or of the others."""
        own = "" if self._person is None else "owner = :person AND"
        query = f"SELECT id FROM story WHERE {own} (deleted IS NOT NULL) = :binned ORDER BY id"
        with self._database.reading() as connection:
            return [id_ for (id_,) in connection.execute(query, {"binned": binned, "person": self._person})]

    def read(self, story: str, since: int = 0, server: str | None = None) -> bytes | None:
        """Return the JSON of all that has a sequence number above `since`, or None if nothing has. Raise NotFound.

        Numbers of another file than this, and numbers that this file has not reached, count as 0.
        """
        with self._database.reading() as connection:
            row = find_story(connection, story, self._person)
            name = connection.name()
            known = _known(since, server, row, name)
            if known == row.seq:
                return None
            return orjson.dumps(row.head(name) | {"changed": row.changed} | above(connection, row, known, row.seq))

    def export(self, story: str) -> bytes:
        """Return a story as a file of the format srb-story. Raise NotFound."""
        with self._database.reading() as connection:
            row = find_story(connection, story, self._person)
            return file_of(stored_story(connection, row))

    def search(self, wanted: str, pause: Pause = no_pause) -> bytes:
        """Return the JSON of the places at which the stories have the words, as far as they are found in SEARCH_SECONDS."""
        until = time.monotonic() + SEARCH_SECONDS
        with self._database.reading() as connection:
            return orjson.dumps(search(connection, wanted, self._person, pause, lambda: time.monotonic() > until))

    def medium(self, story: str, name: str) -> Medium:
        """Return a picture or sound of a story by its id. Raise NotFound."""
        with self._database.reading() as connection:
            return find_medium(connection, find_story(connection, story, self._person), name)

    # Writing -----------------------------------------------------------------------------------------------------------

    def post(self, story: str, post: Post) -> bytes:
        """Merge a post into a story, which is made if it is new; return the answer's JSON.

        The same post again changes nothing. Nodes that cannot be stored, for whatever reason, are named in the answer, and
        all else is stored. Raise StoryTooLarge for too many bytes, and then nothing is stored.
        """
        with self._database.writing() as connection:
            row = self._to_write(connection, story)
            before = row.seq
            merge(StoredRows(connection, row), row, post.part)
            if row.is_new and row.refused and not row.touched:
                row.discard(connection)
            elif row.is_new or row.touched:
                row.save(connection, self._now())
            name = connection.name()
            answer = row.head(name) | {"refused": row.refused}
            if post.since is not None:
                lacks = above(connection, row, _known(post.since, post.server, row, name), before)
                answer |= with_differing(connection, row, lacks)
            return orjson.dumps(answer)

    def add_medium(self, story: str, medium: Medium) -> None:
        """Store a picture or sound beside a story's texts, once; the story is made if it is new. Raise StoryTooLarge."""
        with self._database.writing() as connection:
            row = self._to_write(connection, story)
            put_medium(StoredRows(connection, row), row, medium)
            if row.touched:
                row.save(connection, self._now())

    def bring_in(self, file: StoryFile, *, is_limited: bool = True, owner: str = "") -> Imported:
        """Merge a file into the story of its id: all of it or, after an error, nothing. The command line names the `owner`.

        If that story has other texts for the same nodes, the file becomes a story of its own with a new id. Raise
        InvalidRequest for a file whose nodes do not fit together, and StoryTooLarge if it `is_limited`, as a story is that
        grows by posts.
        """
        return self.carry_out(self.plan(file, is_limited=is_limited), owner)

    def plan(self, file: StoryFile, *, is_limited: bool = True, pause: Pause = no_pause) -> Plan:
        """Decide what an import writes, and write nothing. Raise its errors, as `bring_in` does."""
        with self._database.reading() as connection:
            return plan_of(connection, file, self._person, is_limited, pause)

    def carry_out(self, plan: Plan, owner: str = "") -> Imported:
        """Write what was planned; if the story has changed since then, it is planned anew."""
        with self._database.writing() as connection:
            row = self._to_write(connection, plan.row.id, owner)
            if not plan.fits(row):
                plan = plan_of(connection, plan.file, self._person, plan.row.is_limited, no_pause)
                row = self._to_write(connection, plan.row.id, owner)
            plan.write(connection, row, (row.is_new and plan.file.changed) or self._now())
            return Imported(plan.row.id, plan.row.seq, plan.row.nodes, plan.is_copy)

    def remove(self, story: str) -> bytes:
        """Put a story into the bin; return its id, state and sequence number as JSON. Raise NotFound."""
        return self._set_deleted(story, self._now())

    def restore(self, story: str) -> bytes:
        """Take a story out of the bin; return its id, state and sequence number as JSON. Raise NotFound."""
        return self._set_deleted(story, None)

    def shares(self, story: str) -> bytes:
        """Return the owner of a story, and the names that it is shared with, as JSON. Raise NotFound."""
        with self._database.reading() as connection:
            return _shares(connection, find_story(connection, story, self._person))

    def share(self, story: str, name: str, access: Access) -> bytes:
        """Let a name read or write a story, or take that back; return the same as `shares`. Raise NotFound or Forbidden.

        The story gets a new sequence number, so that open pages hear of their access with their next question.
        """
        with self._database.writing() as connection:
            row = find_story(connection, story, self._person, Right.OWN)
            if name != row.owner:
                people.share(connection, row.number, name, access)
                row.save(connection, row.changed)
            return _shares(connection, row)

    def give(self, story: str, owner: str) -> None:
        """Make a story another person's. Raise NotFound or Forbidden."""
        with self._database.writing() as connection:
            people.give(connection, find_story(connection, story, self._person, Right.OWN).number, owner)

    def _to_write(self, connection: Connection, story: str, owner: str = "") -> StoryRow:
        """Return the row of a story that this person may write, made for the `owner` if the command line makes it."""
        row = find_or_make(connection, story, self._person, self._now(), owner)
        row.room = 0 if self._person is None else self._rooms.get(row.owner, 0)
        return row

    def _set_deleted(self, story: str, deleted: int | None) -> bytes:
        with self._database.writing() as connection:
            row = find_story(connection, story, self._person, Right.OWN)
            if (row.deleted is None) != (deleted is None):
                row.deleted = deleted
                row.save(connection, row.changed)
            return orjson.dumps(row.head(connection.name()))

    def _empty_bin(self) -> None:
        """Once a day, remove the stories that have been in the bin for BIN_DAYS, if the file can be written."""
        now = self._now()
        if now - self._bin.emptied < DAY:
            return
        before = now - BIN_DAYS * DAY
        with self._database.reading() as connection:
            due = connection.execute("SELECT number, nodes FROM story WHERE deleted < ?", (before,)).fetchall()
        try:
            while due:  # of a full story a second's work, for which others may have to wait
                batch, size = list[int](), 0
                while due and size < _NODES_AT_ONCE:
                    number, nodes = due.pop()
                    batch.append(number)
                    size += max(1, nodes)
                with self._database.writing() as connection:
                    statement = "DELETE FROM story WHERE number = ? AND deleted < ?"
                    connection.executemany(statement, [(number, before) for number in batch])
        except (StoriesFull, StoriesReadOnly, StoriesLocked):
            return  # the next call tries again, and reading goes on
        self._bin.emptied = now

    def _now(self) -> int:
        return int(1000 * self._clock())


def _shares(connection: Connection, row: StoryRow) -> bytes:
    return orjson.dumps({"id": row.id, "owner": row.owner, "shares": people.shares_of(connection, row.number)})


def _known(since: int, server: str | None, row: StoryRow, name: str) -> int:
    """Return the sequence number up to which a client knows a story: 0 if it means another file, or an older state."""
    return since if server in (None, name) and since <= row.seq else 0
