"""The folder of named states: one file per state, copied from the folder of texts, within a limit for all of them.

Other engines may use the same folder: the replicas of a cluster. A state that one of them has saved is found by all.
"""

import hashlib
import logging
import os
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from srb.engine.model import SavedState, Scope
from srb.engine.process.state_file import header_of, read_state, size_of, write_state
from srb.engine.process.state_sharing import StateSharing
from srb.engine.process.text_folder import TextFolder
from srb.engine.tokens import Tokens
from srb.errors import InsufficientStorage, SRBError, StateNotSaved, bad_field, not_saved
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
from srb.files.text_entry import StateError

log = logging.getLogger("srb.states")

_LOOKS = 64  # files that a save looks at, on the average, to learn what other engines have written and removed

OnSaved = Callable[[SRBError | None], None]


@dataclass(slots=True)
class _Save:
    """A state that is to be written."""

    name: str
    state: SavedState
    text: bytes  # a hash of the text, see _text
    number: int  # later saves of a name, by whichever engine, have larger ones
    on_saved: OnSaved | None


class StateFolder:
    """Named states as files in one folder.

    The thread that writes texts writes them, too. A file is written beside the older one of its name and replaces it when it
    is on the disk (`state_disk.replace`). If all files together would exceed the limit, the least recently used ones are
    removed, except states that a client saved explicitly. A scan of the folder finds the files that other engines have
    written or removed; it comes the more seldom the more files there are, and the limit may be exceeded by the saves between
    two scans.
    """

    def __init__(
        self, folder: Path, model: str, texts: TextFolder, max_bytes: int = 0, sharing: StateSharing | None = None
    ) -> None:
        """Use `folder`, created with mode 0700 if necessary, for at most `max_bytes` of files; 0: no limit.

        `model` is a hash of all that KV depends on. States are copied from `texts`, and to it. With `sharing` files pass to
        engines that do not have this folder, and come from them. Raise OSError if it cannot be used.
        """
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder = folder
        self._model = model
        self._texts_folder = texts
        self._max_bytes = max_bytes
        self._sharing = sharing
        remove_partial_files(folder)
        self._seen = folder.stat().st_mtime_ns  # the folder's time after the last change that is known here …
        self._changes = changes_of(folder)  # … and the number of changes by engines
        self._index = scan(folder)  # the states that are known, the least recently used first
        self._saves = 0  # since that scan
        self._known: dict[str, int] = {}  # by name: the number of the save whose text is known here
        self._texts: dict[str, bytes] = {}  # by name: a hash of its file's text, or of the text to be written, if known
        self._coming = Counter[str]()  # by name: saves that are still to be written
        self._lock = threading.Lock()  # guards all of the above except the folder
        self._loading = threading.Lock()  # one at a time

    # ---- reading

    def load(self, name: str) -> SavedState | None:
        """Return a state, whose KV is in the folder of texts now; None if there is none that this model can use.

        The reason is logged.
        """
        path = self._path(name)
        self._fetch(name)
        try:
            with self._loading, path.open("rb") as file:
                state, number = read_state(file, self._model, self._texts_folder)
        except FileNotFoundError:
            self._forget(name)
            return None
        except (OSError, StateError) as error:
            log.warning("state %s is not used: %s; its prompt is computed", path, error)
            return None
        with self._lock:
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
        with self._lock:
            return entry.saved > self._known.get(name, 0)

    def _forget(self, name: str) -> None:
        """Forget a name whose file is gone, so that its text is written again; one that is to be written stays."""
        with self._lock:
            if not self._coming[name] and not self._path(name).exists():  # it may have been written since
                self._drop(name)

    def _drop(self, name: str) -> None:
        self._index.pop(name, None)
        self._texts.pop(name, None)
        self._known.pop(name, None)

    def _fetch(self, name: str) -> None:
        if self._sharing is not None:
            with self._lock:
                known = self._known.get(name, 0)
            self._sharing.fetch(name, known)

    def use(self, name: str) -> None:
        """Mark a state as used now, whether or not its file is read."""
        with self._lock:
            if (entry := self._index.pop(name, None)) is None:
                return
            self._index[name] = entry
        try:
            os.utime(self._path(name))  # the order of use, for the next run
        except OSError as error:
            log.warning("cannot update the time of state %s: %s", name, error)

    def holds(self, name: str, tokens: Tokens, scope: Scope) -> bool:
        """Whether the file of a name has, or will have, this text. False if that is unknown without reading it."""
        with self._lock:
            known = self._texts.get(name)
        return known is not None and known == _text(tokens, scope)

    # ---- writing

    def save(self, name: str, state: SavedState, on_saved: OnSaved | None = None) -> None:
        """Queue a text, whose records are in the folder of texts, to be written in place of one of the same name.

        With `on_saved` a client asked for it: `on_saved` is called, by any thread, with None when the file is on the
        disk, or with the error; the file is never removed automatically. Without it, a failure is logged, and the file
        may be removed to make room.
        """
        self._path(name)  # which raises here, and not in the thread that writes
        text = _text(state.tokens, state.scope)
        with self._lock:
            # The time, and never less than what this text may continue: the clocks of two machines differ.
            number = max(time.time_ns(), self._known.get(name, 0) + 1)
            self._texts[name], self._known[name] = text, number
            self._coming[name] += 1
        self._texts_folder.ask(partial(self._write, _Save(name, state, text, number, on_saved)))

    def _write(self, save: _Save) -> None:
        error = self._try(save)
        with self._lock:
            self._coming[save.name] -= 1
            # Else the name has another text already, which may still be written.
            if error is not None and self._texts.get(save.name) == save.text and not self._coming[save.name]:
                del self._texts[save.name]
            self._coming += Counter()  # without those that have come
        if error is not None:
            log.error("%s", error.message)
        if save.on_saved is not None:
            save.on_saved(error)

    def _try(self, save: _Save) -> SRBError | None:
        """Write a state; return the error if it could not be written."""
        path = self._path(save.name)
        try:
            older = entry_of(path)
            is_automatic = save.on_saved is None and (older is None or older.is_automatic)
            header = header_of(self._model, save.state, is_automatic, save.number)
            size = len(header) + size_of(save.state, self._texts_folder)
            self._make_room(save.name, size)
            fill = partial(write_state, header=header, state=save.state, texts=self._texts_folder)
            changes = replace(path, save.number, fill)
            self._note_own(changes)
        except SRBError as refusal:
            return refusal
        except OSError as error:
            return not_saved(save.name, error)
        except Exception as error:  # MemoryError
            log.exception("state %s cannot be written", save.name)
            return StateNotSaved(f"The state {save.name} was not saved: {type(error).__name__}")
        if changes is None:
            log.info("state %s is not saved: another engine has saved a later text of this name", path)
            return None
        self._put(save.name, StateEntry(size, save.number, is_automatic))
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
        if self._excess(name, size, leaving=True) > 0 and self._has_changed():
            self._scan(name)
        if self._excess(name, size, leaving=True) > 0:
            raise InsufficientStorage(
                f"The state {name} was not saved: with its {size} bytes all states would exceed state_dir_mib "
                f"({self._max_bytes // 1024**2}), and explicitly saved states are not removed"
            )
        while self._excess(name, size) > 0:
            with self._lock:
                leaving = next(other for other, entry in self._index.items() if entry.is_automatic and other != name)
            self._remove(leaving)

    def _excess(self, name: str, size: int, *, leaving: bool = False) -> int:
        """Return how many bytes all files would have beyond the limit, with `size` for the file of this name.

        `leaving`: without all that may be removed.
        """
        with self._lock:
            others = (entry for other, entry in self._index.items() if other != name)
            return size + sum(each.size for each in others if not (leaving and each.is_automatic)) - self._max_bytes

    def _put(self, name: str, entry: StateEntry) -> None:
        """Note a state, in place of an older one of its name, as the one that was used last."""
        with self._lock:
            self._index.pop(name, None)
            self._index[name] = entry

    def _remove(self, name: str) -> None:
        """Remove an automatic state, unless another engine's client has asked for it since the last look."""
        log.info("state %s is removed to make room", name)
        try:
            done = remove_automatic(self._path(name))
        except OSError as error:
            log.warning("state %s cannot be removed: %s", name, error)
            done = StateEntry(0, 0, is_automatic=False)
        if isinstance(done, StateEntry):
            self._put(name, done)
            return
        self._note_own(done)
        with self._lock:
            if self._coming[name]:  # what is to be written stays known
                del self._index[name]
            else:
                self._drop(name)

    def _note_own(self, changes: int | None) -> None:
        """Note a change of one's own, before which the folder had had so many; others' are not noted with it."""
        self._seen = self._folder.stat().st_mtime_ns
        if changes == self._changes:
            self._changes += 1

    def _has_changed(self) -> bool:
        """Whether another engine, or a person, has written or removed a file since the last look."""
        return self._folder.stat().st_mtime_ns != self._seen or changes_of(self._folder) != self._changes

    def _scan(self, writing: str) -> None:
        """Learn what the folder has now, and forget the texts of files that are gone; `writing` is being written."""
        with self._lock:
            known = dict(self._index)
        # Before the scan: what changes during it is looked at again.
        self._seen, self._changes = self._folder.stat().st_mtime_ns, changes_of(self._folder)
        found = scan(self._folder, known)
        with self._lock:
            self._index, self._saves = found, 0
            for gone in (self._texts.keys() | self._known.keys()) - found.keys() - self._coming.keys() - {writing}:
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
