"""A store of texts in memory, which lives longer than an engine: it writes and reads when the test lets it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace

from srb.engine.model import Blob, Record, SavedState, Scope
from srb.engine.tokens import Tokens
from srb.errors import SRBError
from srb.wire.commands import Door

_STORES = itertools.count()


class MemoryTexts:
    """What would be on the disk, in `files`; `deliver` does what was asked for since."""

    def __init__(self, budget: int = 10**9, is_eager: bool = False) -> None:
        self.budget = budget
        self.keeps_all = True
        self.is_asked = False
        self.error: OSError | None = None
        self.is_eager = is_eager  # does at once what it is asked for
        self.files: dict[str, tuple[Record, Tokens, Blob]] = {}
        self.lost: set[str] = set()  # files that cannot be read
        self.is_full = False
        self.others: list[MemoryTexts] = []  # of other engines of the same model
        self.looks: list[tuple[str, Door | None, list[int]]] = []  # for stories at others
        self.num_reads = 0  # for which the engine waited
        self._asked: list[Callable[[], None]] = []
        self._count = next(_STORES) << 64  # no two stores give a record the same id

    def load(self) -> Iterator[tuple[Record, Tokens]]:
        self._asked.clear()  # of an engine that was killed
        for record, tokens, _ in list(self.files.values()):
            yield record, tokens[:]

    def write(self, record: Record, tokens: Tokens, blob: Blob, done: Callable[[bool], None]) -> None:
        def do() -> None:
            if not self.is_full:
                self.files[record.id] = record, tokens[:], blob.copy()
            done(not self.is_full)

        self._ask(do)

    def read(self, record: Record) -> Blob | None:
        self.num_reads += 1
        return None if record.id in self.lost else self.files[record.id][2].copy()

    def fetch(self, record: Record, done: Callable[[Blob | None], None]) -> None:
        def do() -> None:
            known = self.files.get(record.id)  # the tree may have let go of it meanwhile
            done(None if known is None or record.id in self.lost else known[2].copy())

        self._ask(do)

    def _ask(self, do: Callable[[], None]) -> None:
        self._asked.append(do)
        if self.is_eager:
            self.deliver()

    def new_id(self) -> str:
        self._count += 1
        return f"{self._count:032x}"

    def wait(self, seconds: float) -> None:
        self.deliver(1)

    def remove(self, record: Record) -> None:
        del self.files[record.id]

    def take(
        self, story: str, door: Door | None, tokens: Tokens, done: Callable[[list[tuple[Record, Tokens]]], None]
    ) -> None:
        """Give what `others` have of a story, with what stands before it."""
        self.looks.append((story, door, list(tokens)))

        def do() -> None:
            known = {id_: file for other in self.others for id_, file in other.files.items() if id_ not in self.files}
            found: dict[str, tuple[Record, Tokens, Blob]] = {}
            for id_, file in known.items():
                is_wanted = file[0].asker.endswith(f".{story}")
                while is_wanted and id_ in known and id_ not in found:
                    found[id_] = known[id_]
                    id_ = known[id_][0].parent
            found |= {id_: file for id_, file in known.items() if file[0].is_state and file[0].parent in found}
            self.files.update(found)
            done([(record, tokens[:]) for record, tokens, _ in found.values()])

        self._ask(do)

    def entry(self, record: Record, tokens: Tokens) -> bytes | None:
        return record.id.encode() if record.id in self.files else None

    @property
    def place(self) -> dict[str, str]:
        return {"model": "", "folder": ""}

    def keep(self, record: Record, tokens: Tokens) -> None:
        if record.id in self.files:
            self.files[record.id] = record, tokens[:], self.files[record.id][2]

    def wipe(self) -> None:
        pass

    def use(self, record: Record) -> None:
        assert record.id in self.files
        self.files[record.id] = self.files.pop(record.id)

    def close(self, seconds: float) -> None:
        self.deliver()

    def deliver(self, count: int = 10**9) -> None:
        """Do the first `count` of what was asked for."""
        asked, self._asked = self._asked[:count], self._asked[count:]
        for do in asked:
            do()


class MemoryStates:
    """What would be in files of named states, which are made of a store's records."""

    def __init__(self, texts: MemoryTexts) -> None:
        self.texts = texts
        self.saved: dict[str, tuple[SavedState, list[Blob]]] = {}

    def load(self, name: str) -> SavedState | None:
        state, blobs = self.saved.get(name, (None, []))
        for record, tokens, blob in zip(*(state.records, state.parts, blobs) if state else (), strict=True):
            self.texts.files.setdefault(record.id, (record, tokens[:], blob))
        at_hand = [None if number % 2 else blob.copy() for number, blob in enumerate(blobs)]
        return None if state is None else replace(state, blobs=at_hand)

    def is_newer(self, name: str) -> bool:
        return False

    def use(self, name: str) -> None:
        pass

    def holds(self, name: str, tokens: Tokens, scope: Scope) -> bool:
        state, _ = self.saved.get(name, (None, []))
        return state is not None and (state.tokens, state.scope) == (tokens, scope)

    def save(self, name: str, state: SavedState, on_saved: Callable[[SRBError | None], None] | None = None) -> None:
        files = [self.texts.files[record.id] for record in state.records]
        found, parts, blobs = zip(*files, strict=True)
        self.saved[name] = SavedState(state.tokens, found, state.logits, [part[:] for part in parts]), list(blobs)
        if on_saved is not None:
            on_saved(None)
