"""Saves of stories from many processes into one file: `python -m bench.saves`, which takes half a minute.

Each process writes a story of its own, one save after the other without a rest: a paragraph, the number of words, and the
question for what others have changed, as the page's once a second. A save is measured from its body's bytes to the answer's.

`the store` is the server's own code. `bare SQLite` is the floor: the same rows of the same tables, and nothing else done,
with each commit synced by SQLite (`synchronous = FULL`) and processes that wait for each other in a lock of the system.
`the disk` is one process that appends 24 KiB to a file and syncs it.
"""

from __future__ import annotations

import argparse
import fcntl
import multiprocessing
import os
import resource
import sqlite3
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import NamedTuple

import orjson

from srb.atomic import sync_data
from srb.errors import SRBError
from srb.stories.parts import read_post
from srb.stories.store import Store

Save = Callable[[int], None]
_PARAGRAPH = "The lamp went out at midnight, and the keeper counted the waves until the boat came home. "
_LOG_BYTES = 24 * 1024  # of one save, about


@dataclass
class Saves:
    """The saves of a process: seconds of each, errors by their names, seconds of CPU, and bytes of the log at the end."""

    seconds: list[float] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)
    cpu: float = 0.0
    log: int = 0


class Writer(NamedTuple):
    """A kind of process: its name in the table, and its saves, given the file and the story's id."""

    name: str
    opened: Callable[[Path, str], Iterator[Save]]


def body(number: int, known: int) -> bytes:
    """Return the post number `number` of a story: a node behind the one before it."""
    node = {"text": _PARAGRAPH, "by": "person", "changed": number + 1}
    if number:
        node |= {"parent": f"n{number - 1}", "keep": number * len(_PARAGRAPH)}
    words = {"value": 17 * (number + 1), "changed": number + 1}
    return orjson.dumps({"nodes": {f"n{number}": node}, "meta": {"words": words}, "since": known})


def by_the_store(path: Path, story: str) -> Iterator[Save]:
    known = 0

    def save(number: int) -> None:
        nonlocal known
        answer = orjson.loads(store.of("").post(story, read_post(body(number, known))))
        assert not answer["refused"]
        known = answer["seq"]

    with closing(Store(path)) as store:
        yield save


def by_sqlite(path: Path, story: str) -> Iterator[Save]:
    with closing(Store(path)) as store, store.writing() as made:  # makes the tables and the story
        made.execute(
            "INSERT INTO story (id, seq, changed, bytes, nodes, has_pairs) VALUES (?, 0, 0, 0, 0, FALSE)", (story,)
        )
        (own,) = made.execute("SELECT number FROM story WHERE id = ?", (story,)).fetchone()
    text = orjson.dumps({"by": "person", "changed": 1, "keep": 0, "parent": "n0", "text": _PARAGRAPH}).decode()

    def save(number: int) -> None:
        with _alone(lock):
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(
                "INSERT INTO node (story, id, seq, parent, keep, units, length, open, changed, json)"
                " VALUES (?, ?, ?, ?, ?, 90, ?, 0, 1, ?)",
                (own, f"n{number}", number, f"n{number - 1}" if number else None, 90 * number, 90 * number, text),
            )
            connection.execute("REPLACE INTO meta VALUES (?, 'words', ?, ?, '17')", (own, number, number))
            connection.execute("UPDATE story SET seq = ?, nodes = ? WHERE number = ?", (number, number, own))
            connection.execute("COMMIT")

    lock = os.open(path.parent / "lock", os.O_CREAT | os.O_RDWR)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous = FULL")
        yield save
    os.close(lock)


@contextmanager
def _alone(lock: int) -> Iterator[None]:
    fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.flock(lock, fcntl.LOCK_UN)


def by_the_disk(path: Path, story: str) -> Iterator[Save]:
    def save(_: int) -> None:
        os.write(file, piece)
        sync_data(file)

    piece = os.urandom(_LOG_BYTES)
    file = os.open(path.with_name(story), os.O_CREAT | os.O_WRONLY)
    yield save
    os.close(file)


def work(writer: Writer, path: Path, story: str, seconds: float, start: Barrier) -> Saves:
    """Save for so many seconds, from when all processes are ready."""
    done = Saves()
    with contextmanager(writer.opened)(path, story) as save:
        save(0)  # opens the file
        number = 1
        start.wait()
        cpu, until = _cpu(), time.monotonic() + seconds
        while (began := time.monotonic()) < until:
            try:
                save(number)
                number += 1
            except (SRBError, sqlite3.Error) as error:
                done.errors[type(error).__name__] += 1
            done.seconds.append(time.monotonic() - began)
        done.cpu = _cpu() - cpu
        log = path.with_name(path.name + "-wal")
        done.log = log.stat().st_size if log.exists() else 0
    return done


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def measure(writer: Writer, processes: int, seconds: float, folder: Path) -> str:
    """Return a row of the table."""
    with tempfile.TemporaryDirectory(prefix="saves-", dir=folder) as name:
        path = Path(name) / "stories.sqlite3"
        Store(path).close()
        with multiprocessing.Manager() as manager, multiprocessing.Pool(processes) as pool:
            start = manager.Barrier(processes, timeout=60)  # one that fails before it holds nobody up
            given = [(writer, path, f"s{number}", seconds, start) for number in range(processes)]
            done = pool.starmap(work, given, chunksize=1)
    times = sorted(1000 * each for saves in done for each in saves.seconds)
    errors = sum((saves.errors for saves in done), Counter[str]())
    saved = len(times) - errors.total()
    cpu = 1000 * sum(saves.cpu for saves in done) / max(1, saved)
    own = [len(saves.seconds) for saves in done]
    return (
        f"{writer.name:<12} {processes:>9} {saved / seconds:>8.0f} {statistics.median(times):>8.1f}"
        f" {times[len(times) * 99 // 100]:>8.1f} {times[-1]:>8.1f} {cpu:>8.2f} {min(own):>7} {max(own):>7}"
        f" {max(saves.log for saves in done) / 2**20:>7.1f}  {dict(errors) or ''}"
    )


WRITERS = {
    "store": Writer("the store", by_the_store),
    "sqlite": Writer("bare SQLite", by_sqlite),
    "disk": Writer("the disk", by_the_disk),
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.saves", description=__doc__)
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 16])
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--only", choices=WRITERS, nargs="+", default=list(WRITERS))
    parser.add_argument("--folder", type=Path, default=Path.cwd(), help="on the disk to measure")
    args = parser.parse_args()
    print("                                  ms of a save               CPU ms  saves of a process   MiB")
    print("             processes  saves/s   median      p99  longest   a save   least    most  of log")
    for name in args.only:
        for processes in args.processes:
            print(measure(WRITERS[name], processes, args.seconds, args.folder), flush=True)


if __name__ == "__main__":
    main()
