"""The index of a folder of texts: a log of records, with their tokens, of removals and of uses.

Each entry stands behind its length and its checksum (`text_entry`). The facts of a record are its scope and its asker; the
entry of a removal or of a use is the record's id. Nothing behind a damaged entry is read. When most of the log is of records
that are gone, or of uses, it is written anew.
"""

import logging
import os
import struct
import zlib
from array import array
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import orjson

from srb.atomic import private, sync_data
from srb.engine.model import Record, Scope
from srb.engine.tokens import Tokens
from srb.files.text_entry import ADDED, FRAME, MAX_ENTRY, TextEntry, framed, packed, unpacked

log = logging.getLogger("srb.texts")

_HEAD = b"SRBTEXTS 3\n"  # with the version of the form
_MARK = struct.Struct("<c16s")
_GONE, _USED = b"-", b"u"
_SPARE = 4  # the log has at most so many times the bytes of what lives …
_SLACK = 64 * 1024  # … and these


@dataclass(slots=True)
class _Known:
    """A record's file, by its checksum, and the place of its entry in the log."""

    checksum: int
    at: int
    size: int


class TextIndex:
    """The log in a file. One thread writes it; another may ask for checksums."""

    def __init__(self, path: Path, *, writes: bool = True) -> None:
        """Read the log. Nothing raises: an index that cannot be read or written is told in the log of the server.

        Without `writes` it is another engine's, and stays as it is.
        """
        self._path = path
        # The least recently used first. Moved, not put anew: another thread would miss one that is read.
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._live = 0  # bytes of their entries
        self._file: BinaryIO | None = None
        self.found: list[tuple[Record, Tokens]] = []  # the least recently used first, until the tree has taken them
        try:
            data = path.read_bytes() if path.exists() else b""
        except OSError as error:
            log.warning("%s cannot be read: %s; the texts of earlier runs are computed again", path, error.strerror)
            data = b""
        end = self._read(data)
        if not writes:
            return
        try:
            self._file = self._opened(end) if end else self._rewritten()
        except OSError as error:
            log.warning("%s cannot be written: %s; no text is kept beyond this run", path, error.strerror)

    @property
    def is_open(self) -> bool:
        return self._file is not None

    def __contains__(self, id_: str) -> bool:
        return id_ in self._known

    def checksum(self, id_: str) -> int | None:
        """Return the checksum of a record's file; None if it is not there. Safe from any thread."""
        known = self._known.get(id_)
        return None if known is None else known.checksum

    def entry(self, id_: str) -> bytes | None:
        """Return a record's entry with its frame; None if it is not there. For the thread that writes."""
        known = self._known.get(id_)
        return None if known is None or self._file is None else os.pread(self._file.fileno(), known.size, known.at)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    # ---- reading

    def _read(self, data: bytes) -> int:
        """Note the records of a log; return where what is whole ends, 0 if it has another form."""
        found: dict[str, tuple[Record, Tokens]] = {}
        scopes: dict[bytes, tuple[Scope, str]] = {}
        view, at = memoryview(data), len(_HEAD)
        if data[:at] != _HEAD:
            return 0
        while at + FRAME.size <= len(data):
            length, checksum = FRAME.unpack_from(data, at)
            start, end = at + FRAME.size, at + FRAME.size + length
            if not 0 < length <= MAX_ENTRY or end > len(data) or zlib.crc32(view[start:end]) != checksum:
                break
            kind = data[start : start + 1]
            try:
                if kind == ADDED:
                    record, tokens, of_file = record_of(view[start:end], scopes)
                    self._drop(record.id)
                    found[record.id] = record, tokens
                    self._put(record.id, of_file, at, end - at)
                elif (id_ := _MARK.unpack_from(data, start)[1].hex()) in found:
                    if kind == _GONE:
                        self._drop(id_)
                        del found[id_]
                    else:
                        self._note_use(id_)
                        found[id_] = found.pop(id_)
            except (ValueError, TypeError, struct.error):
                break  # no engine of ours has written it
            at = end
        self.found = list(found.values())
        return at

    def _opened(self, end: int) -> BinaryIO:
        file = open(self._path, "r+b", buffering=0)  # noqa: SIM115 `close` closes it
        file.truncate(end)
        file.seek(end)
        return file

    # ---- writing; OSError is raised if the disk does not take it

    def add(self, record: Record, tokens: Tokens, checksum: int) -> None:
        """Append a record whose file is whole, and sync the log."""
        assert self._file is not None
        entry = framed(entry_of(record, tokens, checksum))
        at = self._append(entry)
        self._drop(record.id)
        self._put(record.id, checksum, at, len(entry))
        sync_data(self._file.fileno())

    def remove(self, id_: str) -> None:
        if id_ in self._known:
            self._drop(id_)
            self._append(framed(_MARK.pack(_GONE, bytes.fromhex(id_))))

    def use(self, id_: str) -> None:
        """Note that a record is used now."""
        if id_ in self._known:
            self._note_use(id_)
            self._append(framed(_MARK.pack(_USED, bytes.fromhex(id_))))

    def compact(self) -> None:
        """Write the log anew, without what is gone, if that is most of it."""
        if self._file is not None and self._file.tell() > _SPARE * self._live + _SLACK:
            self.wipe()

    def wipe(self) -> None:
        """Write the log anew, without the tokens of what is gone."""
        if self._file is not None:
            older, self._file = self._file, self._rewritten()
            older.close()

    def _append(self, entry: bytes) -> int:
        """Append a framed entry, whole or not at all, since behind a part nothing would be read; return its place."""
        assert self._file is not None
        at, rest = self._file.tell(), memoryview(entry)
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError:
            self._file.truncate(at)
            self._file.seek(at)
            raise
        return at

    def _rewritten(self) -> BinaryIO:
        """Return a new file with the records that are known, in the order of their use, in the place of the old one."""
        scratch, places, at = self._path.with_suffix(".partial"), [], len(_HEAD)
        with open(scratch, "wb", opener=private) as file:
            file.write(_HEAD)
            for id_, known in self._known.items():
                file.write(self.entry(id_) or b"")
                places.append(at)
                at += known.size
            file.flush()
            sync_data(file.fileno())  # else a power cut may leave a name without a content
        scratch.replace(self._path)
        for known, place in zip(self._known.values(), places, strict=True):
            known.at = place
        return self._opened(at)

    # ---- what is known

    def _put(self, id_: str, checksum: int, at: int, size: int) -> None:
        self._known[id_] = _Known(checksum, at, size)
        self._live += size

    def _drop(self, id_: str) -> None:
        if (known := self._known.pop(id_, None)) is not None:
            self._live -= known.size

    def _note_use(self, id_: str) -> None:
        self._known.move_to_end(id_)


def entry_of(record: Record, tokens: Tokens, checksum: int) -> bytes:
    """Return the entry of a record, its tokens and its file's checksum."""
    mood = [record.scope.mood] if record.scope.mood else []
    facts = orjson.dumps([record.scope.lora, record.scope.salt, record.asker, *mood])
    of = TextEntry(record.id, record.parent, record.start, len(tokens), record.nbytes, checksum, facts)
    return packed(of, np.asarray(tokens, np.int32).tobytes())


def record_of(entry: bytes | memoryview, scopes: dict[bytes, tuple[Scope, str]]) -> tuple[Record, Tokens, int]:
    """Return the record of an entry, its tokens and its file's checksum. Raise ValueError, TypeError or struct.error."""
    of, at = unpacked(entry)
    if len(entry) != at + 4 * of.count:
        raise ValueError
    if (known := scopes.get(of.facts)) is None:
        lora, salt, asker, *moods = orjson.loads(of.facts)
        mood = tuple((str(key), float(scale)) for each in moods for key, scale in each)
        known = scopes[of.facts] = Scope(tuple(map(float, lora)), str(salt), mood), str(asker)
    tokens = array("i")
    tokens.frombytes(entry[at:])
    return Record(of.id, of.parent, of.start, of.start + of.count, of.nbytes, *known), tokens, of.checksum
