"""Imports of files: decided in memory, so that the file of the stories is locked only while the outcome is written."""

import secrets
from dataclasses import dataclass

from srb.errors import NotFound, StoryTooLarge, bad_field
from srb.stories.database import Connection
from srb.stories.files import StoryFile
from srb.stories.parts import Pause
from srb.stories.people import Person, Right, right_of
from srb.stories.rows import LoadedRows, StoryRow
from srb.stories.tables import FULL, find_story, merge


@dataclass(frozen=True, slots=True)
class Plan:
    """The rows that an import writes into a story as it was at the sequence number `seq`; 0: it was not there."""

    file: StoryFile
    row: StoryRow
    rows: LoadedRows
    seq: int
    is_copy: bool  # the file's own id belongs to a story with other texts, or to another person's

    def fits(self, row: StoryRow) -> bool:
        """Whether the story is still as it was."""
        return row.seq == self.seq

    def write(self, connection: Connection, row: StoryRow, changed: int) -> None:
        """Write everything into the story's row, which has just been found or made."""
        self.row.number, self.row.owner, self.row.room = row.number, row.owner, row.room
        self.rows.write(connection)
        if self.row.deleted is not None:
            self.row.deleted, self.row.touched = None, True
        if row.is_new or self.row.touched:
            self.row.save(connection, changed)


def plan_of(connection: Connection, file: StoryFile, person: Person, is_limited: bool, pause: Pause) -> Plan:
    """Decide what a person's import writes. Raise InvalidRequest for nodes that do not fit together, and StoryTooLarge."""
    try:
        row = find_story(connection, file.id, None)
    except NotFound:
        row = _new_row(file.id)
    is_anothers = row.seq > 0 and right_of(connection, row.number, row.owner, person) < Right.WRITE
    if is_anothers:
        row = _new_row(secrets.token_hex(16))
    seq, rows = row.seq, LoadedRows(row)
    rows.load(connection, pause)
    row.is_limited = is_limited
    merge(rows, row, file.part, pause)
    is_copy = seq > 0 and any(each.reason != FULL for each in row.refused)
    if is_copy:
        row = _new_row(secrets.token_hex(16))
        seq, rows = 0, LoadedRows(row)
        row.is_limited = is_limited
        merge(rows, row, file.part, pause)
    if any(each.reason == FULL for each in row.refused):
        raise StoryTooLarge(f"With this file the story would have more than {row.most_nodes} nodes", param="nodes")
    if row.refused:
        raise bad_field(f"nodes.{row.refused[0].node}", row.refused[0].message)
    row.check_size()
    return Plan(file, row, rows, seq, is_copy or is_anothers)


def _new_row(story: str) -> StoryRow:
    return StoryRow(number=0, id=story, seq=0, changed=0, bytes=0, nodes=0, has_pairs=False, deleted=None)
