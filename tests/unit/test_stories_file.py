"""The stories' file and its troubles: made, brought forward, damaged, replaced, read-only, full, locked; never lost."""

from __future__ import annotations

import errno
import logging
import os
import resource
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from sqlite3 import Connection
from typing import Any

import orjson
import pytest

from srb.errors import (
    SRBError,
    StoriesDamaged,
    StoriesFull,
    StoriesLocked,
    StoriesNewer,
    StoriesReadOnly,
    StoriesUnavailable,
)
from srb.stories import schema, soundness, sqlite, write_ahead
from srb.stories.store import Store
from tests.stories import ID, Stories, at, make_older, model, person

TALE = {"a": person("Once upon a time,"), "b": model(" there lived", "a", 17)}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "srb" / "stories.sqlite3"


@pytest.fixture
def stories(path: Path) -> Iterator[Stories]:
    made = Stories(path)
    yield made
    made.store.close()


def write_tale(path: Path, stories: int = 1) -> None:
    """Make a file with so many stories, closed properly."""
    made = Stories(path)
    for number in range(stories):
        made.save({**TALE, "c": model(" and" * 3000, "b", 29)}, ID if number == 0 else f"{ID}-{number}")
    made.store.close()
    assert not Path(f"{path}-wal").exists()


def damage(path: Path, story: str = ID) -> bytes:
    """Write over a page in the middle of a story's text; return the file's bytes after that."""
    data = path.read_bytes()
    with closing(sqlite3.connect(path)) as connection:
        query = "SELECT pageno FROM dbstat WHERE name = 'node' AND pagetype = 'leaf' ORDER BY pageno"
        [first, *_] = [page for (page,) in connection.execute(query)]
    start, before = (first - 1) * 4096, path.stat().st_mtime_ns
    while path.stat().st_mtime_ns == before:  # the file system's clock has ticks of some milliseconds
        path.write_bytes(data[:start] + os.urandom(4096) + data[start + 4096 :])
    return path.read_bytes()


# Making and stepping forward ------------------------------------------------------------------------------------------


def test_the_first_use_makes_the_file_for_its_owner_alone(path: Path, stories: Stories) -> None:
    assert not path.parent.exists()
    assert stories.ids() == []
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    stories.save(TALE)
    assert {each.stat().st_mode & 0o777 for each in path.parent.iterdir()} == {0o600}


def test_references_are_checked_and_the_log_is_synced_by_the_process(stories: Stories) -> None:
    stories.save(TALE)
    with stories.store.connection() as connection:
        values = {name: connection.execute(f"PRAGMA {name}").fetchone()[0] for name in
                  ("journal_mode", "synchronous", "foreign_keys", "user_version", "application_id")}  # fmt: skip
    normal = 1
    assert values == {
        "journal_mode": "wal", "synchronous": normal, "foreign_keys": 1, "user_version": len(schema.STEPS),
        "application_id": schema.APPLICATION,
    }  # fmt: skip


def test_processes_that_make_the_file_at_once_make_one(path: Path) -> None:
    stores = [Store(path) for _ in range(8)]
    with ThreadPoolExecutor(len(stores)) as pool:
        servers = {orjson.loads(found)["server"] for found in pool.map(Store.overview, stores)}
    assert len(servers) == 1
    for store in stores:
        store.close()


def test_an_older_file_is_brought_forward_with_all_that_is_in_it(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "srb.stories")
    write_tale(path)
    assert caplog.messages == []

    def later(connection: Connection) -> None:
        connection.execute("ALTER TABLE story ADD COLUMN colour TEXT NOT NULL DEFAULT 'blue'")

    monkeypatch.setattr(schema, "STEPS", (*schema.STEPS, later))
    with closing(Stories(path).store) as store:
        assert orjson.loads(store.export(ID))["nodes"]["a"] == TALE["a"]
        with store.connection() as connection:
            assert schema.version(connection) == len(schema.STEPS)
            assert connection.execute("SELECT colour FROM story").fetchall() == [("blue",)]
    [told] = caplog.messages
    assert told.endswith(
        f"from version {len(schema.STEPS) - 1} to {len(schema.STEPS)}, and an older SRB refuses it from now on"
    )


def test_a_step_that_fails_leaves_the_older_file_as_it_was(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_tale(path)

    def broken(connection: Connection) -> None:
        connection.execute("DROP TABLE mark")
        raise ZeroDivisionError

    with monkeypatch.context() as stepping:
        stepping.setattr(schema, "STEPS", (*schema.STEPS, broken))
        with pytest.raises(ZeroDivisionError):
            Stories(path).ids()
    again = Stories(path)
    assert set(again.nodes()) == {"a", "b", "c"}
    again.store.close()


# Files that are not used ----------------------------------------------------------------------------------------------


def newer(path: Path) -> None:
    write_tale(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {len(schema.STEPS) + 1}")


def foreign(path: Path) -> None:
    path.parent.mkdir(parents=True)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE bookmarks (x)")


def text(path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.write_text("Dear diary, " * 1000)


def cut(path: Path) -> None:
    write_tale(path)
    path.write_bytes(path.read_bytes()[:-9000])


@pytest.mark.parametrize(
    ("make", "kind", "words"),
    [
        (newer, StoriesNewer, "newer version"),
        (foreign, StoriesDamaged, "another program"),
        (text, StoriesDamaged, "not a database"),
        (cut, StoriesDamaged, "srb stories import"),
        (lambda path: (write_tale(path), damage(path)), StoriesDamaged, "kept as it is"),
    ],
    ids=["newer", "foreign", "text", "cut", "damaged"],
)
def test_row_47_a_file_that_cannot_be_trusted_is_neither_read_nor_changed(
    path: Path, make: object, kind: type[SRBError], words: str
) -> None:
    make(path)  # type: ignore[operator]
    before = path.read_bytes()
    stories = Stories(path)
    for act in (stories.ids, stories.read, lambda: stories.save(TALE), stories.export, stories.store.open):
        with pytest.raises(kind, match=words) as refused:
            act()
        assert str(path) in refused.value.message
    assert path.read_bytes() == before
    stories.store.close()


def test_row_47_a_damaged_file_is_checked_once_and_a_sound_one_in_its_place_is_used_at_once(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_tale(path)
    good = path.read_bytes()
    damage(path)
    stories = Stories(path)
    checks = []
    check = sqlite.SQLite._check

    def counted(self: sqlite.SQLite, connection: Connection, writable: bool) -> None:
        checks.append(connection)
        check(self, connection, writable)

    monkeypatch.setattr(sqlite.SQLite, "_check", counted)
    for _ in range(3):
        with pytest.raises(StoriesDamaged):
            stories.ids()
    assert len(checks) == 1
    path.rename(tmp_path / "aside.sqlite3")
    path.write_bytes(good)
    assert stories.ids() == [ID]
    stories.store.close()


def test_row_47_damage_that_is_met_while_reading_is_told_and_the_file_is_left_alone(path: Path) -> None:
    write_tale(path, stories=20)
    stories = Stories(path)
    ids = stories.ids()
    with stories.store.connection() as connection:
        connection.execute("PRAGMA shrink_memory")  # what it has read it would not read again
    before = damage(path)

    def read_all() -> None:
        for story in ids:
            stories.read(story)

    for act in (read_all, lambda: stories.save(TALE)):
        with pytest.raises(StoriesDamaged):
            act()
    assert path.read_bytes() == before
    stories.store.close()


def test_row_47_the_stories_on_whole_pages_of_a_damaged_file_can_be_exported(path: Path) -> None:
    write_tale(path, stories=5)
    damage(path)
    with closing(Store(path, checks=False)) as store:
        whole = []
        for story in store.ids():
            try:
                whole.append(orjson.loads(store.export(story))["nodes"]["a"])
            except StoriesDamaged:
                pass  # its page is the damaged one
        assert whole
        assert whole == [TALE["a"]] * len(whole)
        with pytest.raises(StoriesReadOnly):
            store.remove(ID)


# Files that need not be read through ----------------------------------------------------------------------------------


@pytest.fixture
def page_reads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files whose pages have all been read by SQLite's check, one entry for each time."""
    reads: list[Path] = []
    check = sqlite.SQLite._quick_check

    def counted(self: sqlite.SQLite, connection: Connection) -> str:
        connection.set_trace_callback(lambda sql: reads.append(self.path) if "quick_check" in sql else None)
        try:
            return check(self, connection)
        finally:
            connection.set_trace_callback(None)

    monkeypatch.setattr(sqlite.SQLite, "_quick_check", counted)
    return reads


def test_a_file_that_was_closed_is_opened_without_reading_its_pages(path: Path, page_reads: list[Path]) -> None:
    write_tale(path)
    for _ in range(3):
        with closing(Stories(path).store) as store:
            assert store.ids() == [ID]
    assert page_reads == []


def test_the_workers_after_a_kill_open_the_file_without_reading_its_pages(
    path: Path, page_reads: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The killed worker's commits are in SQLite's log, or were moved into the file, of which the next commit takes note."""
    write_tale(path)
    killed = Stories(path)  # never closed
    for number in range(30):
        killed.save({"a": person("x" * 300_000)}, f"long-{number}")  # beyond the thousand pages that the log may have
    others = [Stories(path) for _ in range(3)]
    assert [len(each.ids()) for each in others] == [31] * 3
    assert page_reads == []
    for each in (*others, killed):
        each.store.close()


def test_after_a_loss_of_power_the_first_worker_alone_reads_the_pages(
    path: Path, page_reads: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_tale(path)
    lost = Stories(path)
    lost.save(TALE, "new")
    monkeypatch.setattr(soundness, "_boot", lambda: "the boot after it")
    others = [Stories(path) for _ in range(4)]
    with ThreadPoolExecutor(len(others)) as pool:
        assert list(pool.map(lambda each: each.ids(), others)) == [["new", ID]] * 4
    assert page_reads == [path]
    for each in (*others, lost):
        each.store.close()


def test_a_file_that_something_else_wrote_is_read_through_once(path: Path, page_reads: list[Path]) -> None:
    write_tale(path)
    before = path.stat().st_mtime_ns
    while path.stat().st_mtime_ns == before:
        path.write_bytes(path.read_bytes())
    for _ in range(3):
        with closing(Stories(path).store) as store:
            assert store.ids() == [ID]
    assert page_reads == [path]


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each file be one of those whose check takes long."""
    monkeypatch.setattr(sqlite, "_CHECKED_AT_ONCE", 0)


@pytest.mark.usefixtures("large")
def test_a_large_restored_file_is_used_before_its_pages_are_read(path: Path, page_reads: list[Path]) -> None:
    write_tale(path)
    path.write_bytes(path.read_bytes())
    stories = Stories(path, checks_later=True)
    assert stories.ids() == [ID]
    stories.save({"d": person("x")})
    assert (page_reads, stories.store.state) == ([], "checking")
    other = Stories(path, checks_later=True)
    assert (other.ids(), other.store.state) == ([ID], "checking")
    stories.store.examine()
    stories.store.examine()
    assert (page_reads, stories.store.state) == ([path], "ok")
    other.store.examine()
    assert (page_reads, other.store.state) == ([path], "ok"), "the first one has read them for all"
    stories.store.close()
    other.store.close()
    with closing(Stories(path).store) as store:
        assert store.ids() == [ID]
    assert page_reads == [path]


@pytest.mark.usefixtures("large")
def test_a_file_whose_pages_were_not_read_to_their_end_is_not_taken_for_sound(
    path: Path, page_reads: list[Path]
) -> None:
    write_tale(path)
    path.write_bytes(path.read_bytes())
    for _ in range(2):
        stories = Stories(path, checks_later=True)
        stories.save({"d": person("x")})
        stories.store.close()
    with closing(Stories(path).store) as store:
        assert store.ids() == [ID]
    assert page_reads == [path]


@pytest.mark.usefixtures("large")
def test_row_47_damage_that_is_found_behind_the_first_reads_ends_them_and_all_writing(path: Path) -> None:
    write_tale(path, stories=20)
    damage(path)
    stories = Stories(path, checks_later=True)
    assert len(stories.ids()) == 20
    with pytest.raises(StoriesDamaged, match="srb stories import"):
        stories.store.examine()
    before = path.read_bytes()
    for _ in range(2):
        for act in (stories.ids, lambda: stories.save(TALE, "new")):
            with pytest.raises(StoriesDamaged):
                act()
    stories.store.close()
    assert path.read_bytes() == before
    with closing(Stories(path).store) as store, pytest.raises(StoriesDamaged):
        store.ids()


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("size", [10**9, 0])
def test_a_small_file_and_one_of_an_older_version_are_read_at_once(
    path: Path, page_reads: list[Path], monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(sqlite, "_CHECKED_AT_ONCE", size)
    write_tale(path)
    if size == 0:
        make_older(path, 2)
    path.write_bytes(path.read_bytes())
    with closing(Stories(path, checks_later=True).store) as store:
        assert (store.ids(), store.state) == ([ID], "ok")
    assert page_reads == [path]


@pytest.mark.usefixtures("large")
def test_the_end_of_a_worker_ends_the_reading_of_pages(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_tale(path, stories=20)
    path.write_bytes(path.read_bytes())
    stories = Stories(path, checks_later=True)
    stories.ids()
    check = sqlite.SQLite._quick_check

    def closed(self: sqlite.SQLite, connection: Connection) -> str:
        connection.set_progress_handler(self.close, 10)
        return check(self, connection)

    with monkeypatch.context() as closing_early:
        closing_early.setattr(sqlite.SQLite, "_quick_check", closed)
        stories.store.examine()
    assert len(stories.ids()) == 20
    assert stories.store.state == "checking"
    stories.store.close()


# Files with other tables than their version has -----------------------------------------------------------------------


def of_the_development_version(connection: Connection) -> None:
    """Change the file into one of version 1 as it was before its release, without `has_pairs`."""
    connection.execute("ALTER TABLE story DROP COLUMN has_pairs")
    connection.execute("DROP TABLE medium")
    connection.execute("PRAGMA user_version = 1")


OTHER_TABLES = {
    "development": (of_the_development_version, "no column has_pairs"),
    "no column": ("ALTER TABLE node DROP COLUMN length", "no column length"),
    "no table": ("DROP TABLE mark", "no table mark"),
    "no file": ("DROP TABLE file", "no table file"),
    "renamed": ("ALTER TABLE meta RENAME COLUMN json TO text", "no column json"),
    "unknown column": ("ALTER TABLE run ADD COLUMN colour TEXT NOT NULL DEFAULT ''", "unknown column colour"),
    "other type": (
        "DROP TABLE meta; CREATE TABLE meta (story INTEGER NOT NULL, key TEXT NOT NULL, seq TEXT NOT NULL, json TEXT)",
        "seq of its table meta is TEXT",
    ),
}  # fmt: skip


def with_other_tables(path: Path, change: object) -> bytes:
    """Make a file with other tables; return its bytes."""
    write_tale(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA foreign_keys = OFF")
        if callable(change):
            change(connection)
        else:
            connection.executescript(str(change))
    return path.read_bytes()


@pytest.mark.parametrize(("change", "words"), OTHER_TABLES.values(), ids=OTHER_TABLES)
def test_row_47_a_file_with_other_tables_than_its_version_has_is_damaged_and_not_changed(
    path: Path, change: object, words: str
) -> None:
    before = with_other_tables(path, change)
    stories = Stories(path)
    for act in (stories.ids, stories.read, lambda: stories.save(TALE), stories.export, stories.store.open):
        with pytest.raises(StoriesDamaged, match=words):
            act()
    assert path.read_bytes() == before
    stories.store.close()


@pytest.mark.parametrize("change", ["DROP TABLE meta", "ALTER TABLE meta DROP COLUMN changed"])
def test_row_47_tables_that_another_program_changes_in_an_open_file_are_told_as_damage(
    path: Path, stories: Stories, change: str
) -> None:
    stories.save(TALE)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute(change)
    for act in (stories.read, lambda: stories.post(meta={"title": at("T", 1)}), stories.export):
        with pytest.raises(StoriesDamaged, match=r"no such|no column|no table"):
            act()


# Files that change under a running server -----------------------------------------------------------------------------


def test_a_file_that_is_replaced_while_it_is_open_is_the_one_that_is_used(
    path: Path, tmp_path: Path, stories: Stories
) -> None:
    stories.save(TALE)
    stories.store.backup(tmp_path / "backup.sqlite3")
    stories.save(TALE, "later")
    os.replace(tmp_path / "backup.sqlite3", path)
    for suffix in ("-wal", "-shm"):
        Path(f"{path}{suffix}").unlink()
    stories.save(TALE, "new")
    assert sorted(stories.ids()) == [ID, "new"]
    stories.store.close()
    with closing(Stories(path).store) as store:
        assert store.ids() == [ID, "new"]


def test_a_file_that_is_moved_away_is_followed_by_a_new_one(path: Path, stories: Stories, tmp_path: Path) -> None:
    stories.save(TALE)
    stories.store.close()
    path.rename(tmp_path / "aside.sqlite3")
    assert stories.ids() == []
    stories.save(TALE, "new")
    assert stories.ids() == ["new"]


# Folders and disks ----------------------------------------------------------------------------------------------------


def test_row_48_in_a_read_only_folder_stories_are_read_and_not_saved(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root may write anywhere, so the test answers the question whether this process may."""
    write_tale(path)
    stories, access = Stories(path), os.access
    with monkeypatch.context() as unwritable:
        unwritable.setattr(os, "access", lambda path, mode: mode != os.W_OK and access(path, mode))
        assert stories.overview()["state"] == "read_only"
        assert set(stories.nodes()) == {"a", "b", "c"}
        for act in (lambda: stories.save(TALE, "new"), lambda: stories.store.remove(ID)):
            with pytest.raises(StoriesReadOnly, match="may only be read"):
                act()
    stories.save(TALE, "new")
    assert stories.overview()["state"] == "ok"
    stories.store.close()


@pytest.mark.skipif(os.getuid() == 0, reason="root may write anywhere")
def test_row_48_a_folder_that_may_not_be_written_is_told_with_the_systems_reason(path: Path, stories: Stories) -> None:
    path.parent.mkdir(parents=True, mode=0o500)
    with pytest.raises(StoriesReadOnly, match="Permission denied"):
        stories.ids()


def test_row_48_a_path_that_leads_through_a_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoriesUnavailable, match="Not a directory"):
        Stories(tmp_path / "file" / "stories.sqlite3").ids()
    with pytest.raises(StoriesUnavailable):
        Stories(tmp_path).ids()


def test_row_49_on_a_full_disk_nothing_is_saved_by_half_and_reading_goes_on(path: Path, stories: Stories) -> None:
    """The limit of a file's size stands for the disk's."""
    stories.save(TALE)
    before = stories.read()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (Path(f"{path}-wal").stat().st_size + 20_000, limits[1]))
    try:
        with pytest.raises(StoriesFull, match="no room"):
            stories.post(nodes={"c": person("c")}, marks={"a": {"note": at("x" * 200_000, 1)}})
        assert stories.read() == before
        assert stories.overview()["state"] == "full"
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    stories.post(nodes={"c": person("c")}, marks={"a": {"note": at("x" * 200_000, 1)}})
    assert set(stories.nodes()) == {"a", "b", "c"}
    assert stories.overview()["state"] == "ok"


class Disk:
    """The syncs of the log, and what is done at each."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.syncs = 0
        self.act: Callable[[], None] = lambda: None
        monkeypatch.setattr(write_ahead, "sync_data", self._sync)

    def _sync(self, file: int) -> None:
        self.syncs += 1
        self.act()


def fail() -> None:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


def test_a_save_is_answered_when_it_is_on_the_disk_and_others_write_meanwhile(
    path: Path, stories: Stories, disk: Disk
) -> None:
    stories.save({})
    other = Stories(path)
    other.save({}, "other")

    def meanwhile() -> None:
        disk.act = lambda: None
        other.save(TALE, "other")

    before, disk.act = disk.syncs, meanwhile
    stories.save(TALE)
    assert disk.syncs == before + 2
    assert set(other.nodes("other")) == {"a", "b"}
    other.store.close()


def test_what_another_process_saved_is_on_the_disk_before_it_is_read(path: Path, stories: Stories, disk: Disk) -> None:
    other = Stories(path)
    for text in ("Once.", "Twice."):
        stories.save({text[:-1]: person(text)})
        before = disk.syncs
        assert text[:-1] in other.nodes()
        assert disk.syncs == before + 1
        other.nodes()
        assert disk.syncs == before + 1
    other.store.close()


def test_what_another_process_saved_is_not_read_when_it_does_not_get_to_the_disk(
    path: Path, stories: Stories, disk: Disk
) -> None:
    other = Stories(path)
    other.save(TALE)
    stories.save({"c": person("c")})
    disk.act = fail
    with pytest.raises(StoriesUnavailable, match="Input/output error"):
        other.nodes()
    assert Path(f"{path}-wal").stat().st_size == 0
    disk.act = lambda: None
    assert set(other.nodes()) == {"a", "b", "c"}
    other.store.close()


@pytest.mark.parametrize("is_told_twice", [False, True])
def test_a_save_that_does_not_get_to_the_disk_is_refused_and_the_log_is_written_anew(
    path: Path, stories: Stories, disk: Disk, monkeypatch: pytest.MonkeyPatch, is_told_twice: bool
) -> None:
    """Each file that is open is told of the failure once: SQLite's own may be told, too."""
    failures = [sqlite3.OperationalError("disk I/O error")] if is_told_twice else []

    class Failing(sqlite.FileConnection):
        def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
            if "wal_checkpoint" in statement and failures:
                raise failures.pop()
            return super().execute(statement, *values)

    monkeypatch.setattr(sqlite, "FileConnection", Failing)
    stories.save(TALE)
    disk.act = fail
    with closing(sqlite3.connect(path)) as other:
        assert other.execute("SELECT count(*) FROM story").fetchone() == (1,)  # so that the log stays
        with pytest.raises(StoriesUnavailable, match="Input/output error"):
            stories.save({"c": person("c")})
        assert Path(f"{path}-wal").stat().st_size == 0
        assert not Path(f"{path}-checked").exists()
        disk.act = lambda: None
        stories.save({"c": person("c")})
        assert set(stories.nodes()) == {"a", "b", "c"}


def test_who_waits_for_a_program_without_a_turn_tries_again_soon_however_long_it_has_waited(
    path: Path, stories: Stories, monkeypatch: pytest.MonkeyPatch
) -> None:
    stories.save({})
    tries, waits = 0, list[int]()  # ms
    with closing(sqlite3.connect(path, isolation_level=None)) as other:

        class Trying(sqlite.FileConnection):
            def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
                nonlocal tries
                if statement == "BEGIN IMMEDIATE":
                    tries += 1
                    waits.extend(super().execute("PRAGMA busy_timeout").fetchone())
                if tries == 40 and other.in_transaction:
                    other.execute("COMMIT")
                return super().execute(statement, *values)

        monkeypatch.setattr(sqlite, "FileConnection", Trying)
        with closing(Store(path)) as store:
            store.open()
            tries, waits = 0, []
            other.execute("BEGIN IMMEDIATE")
            store.post(ID, Stories.read_post(nodes={"a": person("Once.")}))
    assert tries == 40
    assert max(waits) <= 10
    assert set(stories.nodes()) == {"a"}


def test_row_50_a_file_that_another_process_keeps_writing_is_told_and_used_again(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "BUSY_SECONDS", 0.05)
    stories = Stories(path)
    stories.save(TALE)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoriesLocked) as locked:
            stories.save(TALE, "new")
        assert locked.value.retry_after == 1
        assert stories.ids() == [ID]
        other.execute("ROLLBACK")
    stories.save(TALE, "new")
    stories.store.close()
