"""A store of texts in memory, which lives longer than an engine: it writes and reads when the test lets it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from srb.engine.model import Blob, Record
from srb.engine.tokens import Tokens


class MemoryTexts:
    """What would be on the disk, in `files`; `deliver` does what was asked for since."""

    def __init__(self, budget: int = 10**9, is_eager: bool = False) -> None:
        self.budget = budget
        self.is_eager = is_eager  # does at once what it is asked for
        self.files: dict[str, tuple[Record, Tokens, Blob]] = {}
        self.lost: set[str] = set()  # files that cannot be read
        self.is_full = False
        self.num_reads = 0  # for which the engine waited
        self._asked: list[Callable[[], None]] = []
        self._count = 0

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
