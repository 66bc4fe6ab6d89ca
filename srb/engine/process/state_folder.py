"""The folder of named states: one file per state, written by a thread, within a limit for all of them.

Other engines may use the same folder: the replicas of a cluster. A state that one of them has saved is found by all.
"""

import errno
import hashlib
import logging
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from srb.engine.model import SavedState, Scope
from srb.engine.process.state_file import file_size, header_of, read_state, write_state
from srb.engine.process.state_sharing import StateSharing
from srb.engine.tokens import Tokens
from srb.errors import InsufficientStorage, ShuttingDown, SRBError, StateNotSaved, bad_field
from srb.files.state_disk import (
    SUFFIX,
    StateEntry,
    changes_of,
    entry_of,
    remove_automatic,
    remove_partial_files,
    replace,
    scan,
)
from srb.files.text_entry import StateError, read_header, saved_number


class StateIndex:
    """The states that are known, by name. Every act costs the same, however many there are."""

    def __init__(self, entries: Mapping[str, StateEntry]) -> None:
        """Take states in the order of their use, the least recently used first."""
        self._entries = dict(entries)
        self._automatic = OrderedDict((name, None) for name, entry in self._entries.items() if entry.is_automatic)
        self.size = sum(entry.size for entry in self._entries.values())  # bytes of all
        self.automatic_size = sum(entry.size for entry in self._entries.values() if entry.is_automatic)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    @property
    def entries(self) -> Mapping[str, StateEntry]:
        return self._entries

    def get(self, name: str) -> StateEntry | None:
        return self._entries.get(name)

    def put(self, name: str, entry: StateEntry) -> None:
        """Add a state, in place of an older one of its name; it is the one that was used last."""
        self.drop(name)
        self._entries[name] = entry
        self.size += entry.size
        if entry.is_automatic:
            self._automatic[name] = None
            self.automatic_size += entry.size

    def drop(self, name: str) -> None:
        entry = self._entries.pop(name, None)
        if entry is None:
            return
        self.size -= entry.size
        if entry.is_automatic:
            del self._automatic[name]
            self.automatic_size -= entry.size

    def use(self, name: str) -> bool:
        """Note that a state was used now; return whether it is known."""
        entry = self._entries.get(name)
        if entry is not None:
            self.put(name, entry)
        return entry is not None

    def oldest(self, but: str) -> str | None:
        """Return the automatic state that was used least recently, of those with another name than `but`."""
        return next((name for name in self._automatic if name != but), None)


log = logging.getLogger("srb.states")

MAX_QUEUED = 512 * 1024 * 1024  # bytes that may wait to be written, in memory: a disk may be slower than texts come
_LOOKS = 64  # files that a save looks at, on the average, to learn what other engines have written and removed
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)

OnSaved = Callable[[SRBError | None], None]


@dataclass(slots=True)
class _Save:
    """A state that waits to be written."""

    name: str
    state: SavedState
    text: bytes  # a hash of the text, see _text
    number: int  # later saves of a name, by whichever engine, have larger ones
    is_automatic: bool
    callbacks: list[OnSaved] = field(default_factory=list)

    @property
    def size(self) -> int:
        return len(self.state.blob)


class StateFolder:
    """Named states as files in one folder.

    A file is written beside the older one of its name and replaces it when it is on the disk (`state_disk.replace`). If all
    files together would exceed the limit, the least recently used ones are removed, except states that a client saved
    explicitly. A scan of the folder finds the files that other engines have written or removed; it comes the more seldom
    the more files there are, and the limit may be exceeded by the saves between two scans.
    """

    def __init__(self, folder: Path, fingerprint: str, max_bytes: int = 0, sharing: StateSharing | None = None) -> None:
        """Use `folder`, created with mode 0700 if necessary, for at most `max_bytes` of files; 0: no limit.

        With `sharing` files pass to engines that do not have this folder, and come from them.
        Raise OSError if it cannot be used.
        """
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder = folder
        self._fingerprint = fingerprint
        self._max_bytes = max_bytes
        self._sharing = sharing
        remove_partial_files(folder)
        self._seen = folder.stat().st_mtime_ns  # the folder's time after the last change that is known here …
        self._changes = changes_of(folder)  # … and the number of changes by engines
        self._index = StateIndex(scan(folder))
        self._saves = 0  # since that scan
        self._known: dict[str, int] = {}  # by name: the number of the save whose text is known here
        self._texts: dict[str, bytes] = {}  # by name: a hash of its file's text, or of the text to be written, if known
        self._waiting: dict[str, _Save] = {}  # by name, in the order of arrival
        self._writing = ""  # the name whose state is being written
        self._queued = 0  # bytes of the waiting states and of the one being written
        self._changed = threading.Condition()  # guards all of the above except the folder
        self._is_closing = False
        self._thread = threading.Thread(target=self._write_all, name="states", daemon=True)
        self._thread.start()

    # ---- reading

    def load(self, name: str) -> SavedState | None:
        """Return a state, or None if there is none that this model can use; the reason is logged."""
        path = self._path(name)
        self._fetch(name)
        try:
            with path.open("rb") as file:
                number = saved_number(read_header(file))
                file.seek(0)
                state = read_state(file, self._fingerprint)
        except FileNotFoundError:
            self._forget(name)
            return None
        except (OSError, StateError) as error:
            log.warning("state %s is not used: %s; its prompt is computed", path, error)
            return None
        with self._changed:
            if name not in self._texts or number > self._known.get(name, 0):  # else a later text waits to be written
                self._texts[name] = _text(state.tokens, state.scope)
                self._known[name] = number
        self.use(name)
        return state

    def is_newer(self, name: str) -> bool:
        """Whether another engine has saved a later text of a name than the one that is known here."""
        path = self._path(name)
        self._fetch(name)
        try:
            entry = entry_of(path)
        except OSError as error:
            log.warning("state %s cannot be read: %s", name, error)
            return False
        if entry is None:
            self._forget(name)
            return False
        with self._changed:
            return entry.saved > self._known.get(name, 0)

    def _forget(self, name: str) -> None:
        """Forget a name whose file is gone, so that its text is written again; one that is to be written stays."""
        with self._changed:
            is_coming = name in self._waiting or name == self._writing
            if not is_coming and not self._path(name).exists():  # it may have been written since it was looked for
                self._drop(name)

    def _drop(self, name: str) -> None:
        self._index.drop(name)
        self._texts.pop(name, None)
        self._known.pop(name, None)

    def _fetch(self, name: str) -> None:
        if self._sharing is not None:
            with self._changed:
                known = self._known.get(name, 0)
            self._sharing.fetch(name, known)

    def use(self, name: str) -> None:
        """Mark a state as used now, whether or not its file is read."""
        with self._changed:
            if not self._index.use(name):
                return
        try:
            os.utime(self._path(name))  # the order of use, for the next run
        except OSError as error:
            log.warning("cannot update the time of state %s: %s", name, error)

    def holds(self, name: str, tokens: Tokens, scope: Scope) -> bool:
        """Whether the file of a name has, or will have, this text. False if that is unknown without reading it."""
        with self._changed:
            known = self._texts.get(name)
        return known is not None and known == _text(tokens, scope)

    # ---- writing

    @property
    def is_busy(self) -> bool:
        """Whether too much waits to be written, so that nothing more is accepted."""
        return self._queued >= MAX_QUEUED

    def save(self, name: str, state: SavedState, on_saved: OnSaved | None = None) -> None:
        """Queue a state to be written in place of one of the same name.

        With `on_saved` a client asked for it: `on_saved` is called, by any thread, with None when the file is on the
        disk, or with the error; the file is never removed automatically. Without it, a failure is logged, and the file
        may be removed to make room.
        """
        self._path(name)  # which raises here, and not in the thread that writes
        text, callbacks = _text(state.tokens, state.scope), [on_saved] if on_saved else []
        with self._changed:
            # The time, and never less than what this text may continue: the clocks of two machines differ.
            number = max(time.time_ns(), self._known.get(name, 0) + 1)
            save = _Save(name, state, text, number, on_saved is None, callbacks)
            if not self._is_closing:
                self._enqueue(save)
                return
        _report_end(save, ShuttingDown("the server is shutting down; the state was not saved"))

    def _enqueue(self, save: _Save) -> None:
        """Add a state to the queue, in place of an older one of its name."""
        if (older := self._waiting.pop(save.name, None)) is not None:
            save.callbacks += older.callbacks
            save.is_automatic = save.is_automatic and older.is_automatic  # a client was promised a file that stays
            self._queued -= older.size
        self._waiting[save.name] = save
        self._queued += save.size
        self._texts[save.name] = save.text
        self._known[save.name] = save.number
        self._changed.notify()

    def close(self, seconds: float | None = None) -> None:
        """Write the queued states and end the thread; after `seconds`, give up those that have not been begun."""
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        self._thread.join(seconds)
        with self._changed:
            rest, self._waiting = self._waiting, {}
        for save in rest.values():
            _report_end(save, ShuttingDown("the server is shutting down; there was no time to save the state"))
        if self._thread.is_alive():
            log.error("a state was not written within %s s; an older one of its name is unchanged", seconds)

    def _write_all(self) -> None:
        while save := self._next():
            error = self._try(save)
            with self._changed:
                self._writing = ""
                self._queued -= save.size
                # Else the name has another text already, which may still be written.
                if error is not None and self._texts.get(save.name) == save.text and save.name not in self._waiting:
                    del self._texts[save.name]
            _report_end(save, error)

    def _next(self) -> _Save | None:
        """Wait for a state to write; return None at the end."""
        with self._changed:
            while not self._waiting and not self._is_closing:
                self._changed.wait()
            if not self._waiting:
                return None
            self._writing = next(iter(self._waiting))
            return self._waiting.pop(self._writing)

    def _try(self, save: _Save) -> SRBError | None:
        """Write a state; return the error if it could not be written."""
        path = self._path(save.name)
        try:
            older = entry_of(path)
            is_automatic = save.is_automatic and (older is None or older.is_automatic)
            header = header_of(save.state, self._fingerprint, is_automatic, save.number)
            size = file_size(save.state, header)
            self._make_room(save.name, size)
            changes = replace(path, save.number, partial(write_state, header=header, state=save.state))
            self._note_own(changes)
        except SRBError as refusal:
            return refusal
        except OSError as error:
            kind = InsufficientStorage if error.errno in _NO_SPACE else StateNotSaved
            return kind(f"The state {save.name} was not saved: {error.strerror}; an older one of its name is unchanged")
        except Exception as error:  # MemoryError
            log.exception("state %s cannot be written", save.name)
            return StateNotSaved(f"The state {save.name} was not saved: {type(error).__name__}")
        if changes is None:
            log.info("state %s is not saved: another engine has saved a later text of this name", path)
            return None
        with self._changed:
            self._index.put(save.name, StateEntry(size, save.number, is_automatic))
            self._saves += 1
        if self._sharing is not None:
            self._sharing.share(save.name, size)
        log.info("state %s saved: %d tokens, %d bytes", path, len(save.state.tokens), size)
        return None

    def _make_room(self, name: str, size: int) -> None:
        """Remove automatic files until `size` bytes fit. Raise InsufficientStorage, and remove none, if they cannot.

        Raise OSError.
        """
        if self._has_changed() and self._saves * _LOOKS >= len(self._index):
            self._scan(name)
        if not self._max_bytes:
            return
        if not self._can_fit(name, size) and self._has_changed():
            self._scan(name)
        if not self._can_fit(name, size):
            raise InsufficientStorage(
                f"The state {name} was not saved: with its {size} bytes all states would exceed state_dir_mib "
                f"({self._max_bytes // 1024**2}), and explicitly saved states are not removed"
            )
        while (other := self._leaving(name, size)) is not None:
            self._remove(other)

    def _leaving(self, name: str, size: int) -> str | None:
        """Return the state that has to make room for `size` bytes under this name; None if there is room."""
        with self._changed:
            return self._index.oldest(but=name) if self._excess(name, size) > 0 else None

    def _remove(self, name: str) -> None:
        """Remove an automatic state, unless another engine's client has asked for it since the last look."""
        log.info("state %s is removed to make room", name)
        try:
            done = remove_automatic(self._path(name))
        except OSError as error:
            log.warning("state %s cannot be removed: %s", name, error)
            done = StateEntry(0, 0, is_automatic=False)
        with self._changed:
            if isinstance(done, StateEntry):
                self._index.put(name, done)
                return
            self._note_own(done)
            if name in self._waiting:  # what is to be written stays known
                self._index.drop(name)
            else:
                self._drop(name)

    def _note_own(self, changes: int | None) -> None:
        """Note a change of one's own, before which the folder had had so many; others' are not noted with it."""
        self._seen = self._folder.stat().st_mtime_ns
        if changes == self._changes:
            self._changes += 1

    def _excess(self, name: str, size: int) -> int:
        """Return how many bytes all files would have beyond the limit, with `size` for the file of this name."""
        with self._changed:
            older = self._index.get(name)
            return self._index.size - (older.size if older else 0) + size - self._max_bytes

    def _can_fit(self, name: str, size: int) -> bool:
        with self._changed:
            older = self._index.get(name)
            own = older.size if older and older.is_automatic else 0
            removable = self._index.automatic_size - own
        return self._excess(name, size) <= removable

    def _has_changed(self) -> bool:
        """Whether another engine, or a person, has written or removed a file since the last look."""
        return self._folder.stat().st_mtime_ns != self._seen or changes_of(self._folder) != self._changes

    def _scan(self, writing: str) -> None:
        """Learn what the folder has now, and forget the texts of files that are gone; `writing` is being written."""
        with self._changed:
            known = dict(self._index.entries)
        # Before the scan: what changes during it is looked at again.
        self._seen, self._changes = self._folder.stat().st_mtime_ns, changes_of(self._folder)
        found = scan(self._folder, known)
        with self._changed:
            self._index, self._saves = StateIndex(found), 0
            for gone in (self._texts.keys() | self._known.keys()) - found.keys() - self._waiting.keys() - {writing}:
                self._drop(gone)

    def _path(self, name: str) -> Path:
        """Return a name's file. Names are checked when they arrive, and again here, since this makes a path."""
        known = all(char.isascii() and (char.isalnum() or char in "-_.") for char in name)
        if not name or name.startswith(".") or not known:
            raise bad_field("state", "takes letters, digits, -, _ and, not at its beginning, .")
        return self._folder / f"{name}{SUFFIX}"


def _text(tokens: Tokens, scope: Scope) -> bytes:
    """Return a hash of a text and its scope."""
    digest = hashlib.blake2b(repr(scope).encode(), digest_size=16)
    digest.update(np.asarray(tokens, np.int32).data)
    return digest.digest()


def _report_end(save: _Save, error: SRBError | None) -> None:
    if error is not None:
        log.error("%s", error.message)
    for on_saved in save.callbacks:
        on_saved(error)
