"""The folder of texts has what was written whole, and nothing that was damaged, whoever died when."""

from __future__ import annotations

import errno
import logging
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, BinaryIO, cast

import numpy as np
import pytest

from srb.engine.fake import FakeModel
from srb.engine.model import Blob, Record, Scope
from srb.engine.process import text_folder, text_index
from srb.engine.process.text_folder import TextFolder
from srb.engine.process.text_index import TextIndex
from srb.engine.process.texts_elsewhere import Offered
from srb.engine.tokens import Tokens, tokens_of
from tests.engine_helpers import Driver, solo
from tests.processes import DEADLINE, wait_for

MODEL = "0" * 32
OTHER = "1" * 32
Open = Callable[..., TextFolder]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Open]:
    """A function that opens the folder of a model; all are closed at the end."""
    folders: list[TextFolder] = []

    def open_(model: str = MODEL, max_bytes: int = 10**9) -> TextFolder:
        folders.append(TextFolder(tmp_path, model, max_bytes))
        return folders[-1]

    yield open_
    for folder in folders:
        folder.close(DEADLINE)


def record(folder: TextFolder, parent: str = "", start: int = 0, count: int = 5, nbytes: int = 100) -> Record:
    return Record(folder.new_id(), parent, start, start + count, nbytes, Scope((0.5,), "salt\n", (("sad@1", -0.5),)))


def blob_of(each: Record) -> Blob:
    return np.random.default_rng(int(each.id[:8], 16)).integers(0, 256, each.nbytes, np.uint8)


def write(folder: TextFolder, *records: Record) -> list[bool]:
    """Write records, and wait until that is done."""
    done: list[bool] = []
    for each in records:
        folder.write(each, tokens_of(range(each.start, each.end)), blob_of(each), done.append)
    wait_for(lambda: len(done) == len(records), "the records are written")
    return done


def loaded(folder: TextFolder) -> dict[str, tuple[Record, Tokens]]:
    return {each.id: (each, tokens) for each, tokens in folder.load()}


def test_the_next_run_finds_records_with_their_tokens_scopes_and_kv(opened: Open) -> None:
    folder = opened()
    assert loaded(folder) == {}
    first = record(folder, nbytes=20 * 1024 * 1024)
    second = record(folder, first.id, 5)
    assert write(folder, first, second) == [True, True]
    folder.close(DEADLINE)
    folder = opened()
    found = loaded(folder)
    for each in (first, second):
        known, tokens = found[each.id]
        assert (known.parent, known.start, known.end, known.scope) == (each.parent, each.start, each.end, each.scope)
        assert list(tokens) == list(range(each.start, each.end))
        read = folder.read(known)
        assert read is not None
        assert np.array_equal(read, blob_of(each))


def test_the_order_is_that_of_use_and_what_is_removed_is_gone(opened: Open, tmp_path: Path) -> None:
    folder = opened()
    loaded(folder)
    records = [record(folder) for _ in range(4)]
    write(folder, *records)
    folder.use(records[0])
    folder.remove(records[1])
    folder.close(DEADLINE)
    assert list(loaded(opened())) == [records[2].id, records[3].id, records[0].id]
    assert not (tmp_path / MODEL / records[1].id).exists()


def test_each_damaged_byte_and_each_cut_of_a_file_is_noticed(opened: Open, tmp_path: Path) -> None:
    folder = opened()
    loaded(folder)
    each = record(folder, nbytes=64)
    write(folder, each)
    path = tmp_path / MODEL / each.id
    whole = path.read_bytes()
    for place in range(64):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert folder.read(each) is None
        path.write_bytes(whole[:place])
        assert folder.read(each) is None
    path.write_bytes(whole + b"x")
    assert folder.read(each) is None
    path.write_bytes(whole)
    assert folder.read(each) is not None


def test_an_index_that_is_damaged_or_cut_anywhere_loses_no_more_than_what_follows(opened: Open, tmp_path: Path) -> None:
    folder = opened()
    loaded(folder)
    records = [record(folder, nbytes=8) for _ in range(3)]
    write(folder, *records)
    folder.close(DEADLINE)
    index = tmp_path / MODEL / "index"
    whole, files = index.read_bytes(), {each.id: (tmp_path / MODEL / each.id).read_bytes() for each in records}
    for place in range(len(whole)):
        for data in (whole[:place], whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :]):
            again = TextIndex(_written(index, data))
            found = [each.id for each, _ in again.found]
            assert found == [each.id for each in records][: len(found)]
            assert len(found) == 3 or index.stat().st_size < len(whole), "what is damaged is cut off"
            again.close()
    index.write_bytes(whole[: len(whole) - 1])
    folder = opened()
    assert list(loaded(folder)) == [each.id for each in records[:2]]
    wait_for(lambda: not (tmp_path / MODEL / records[2].id).exists(), "a file that the index does not name is removed")
    assert files.keys() >= {each.id for each in records}


def _written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("left", ["no file", "short file", "unknown file"])
def test_what_a_killed_process_leaves_is_no_text(opened: Open, tmp_path: Path, left: str) -> None:
    folder = opened()
    loaded(folder)
    each = record(folder)
    write(folder, each)
    folder.close(DEADLINE)
    path = tmp_path / MODEL / each.id
    if left == "no file":
        path.unlink()
    elif left == "short file":
        path.write_bytes(path.read_bytes()[:-1])
    else:
        shutil.copy(path, path.with_name("ab" * 16))
    again = opened()
    assert loaded(again).keys() == {each.id}
    assert (again.read(each) is not None) == (left == "unknown file")
    again.close(DEADLINE)
    assert {file.name for file in path.parent.iterdir()} <= {"index", "lock", each.id}


def test_the_index_does_not_grow_with_what_is_gone_and_used(
    opened: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_index, "_SLACK", 1000)
    folder = opened()
    loaded(folder)
    kept = [record(folder) for _ in range(5)]
    write(folder, *kept)
    for _ in range(60):
        write(folder, gone := record(folder))
        folder.remove(gone)
        folder.use(kept[1])
    folder.use(kept[0])
    folder.close(DEADLINE)
    size = (tmp_path / MODEL / "index").stat().st_size
    assert size <= 1000 + 4 * 5 * 120 + 120
    folder = opened()
    assert list(loaded(folder)) == [kept[place].id for place in (2, 3, 4, 1, 0)]
    read = folder.read(kept[4])
    assert read is not None
    assert np.array_equal(read, blob_of(kept[4]))


def test_an_index_of_another_form_is_begun_anew(opened: Open, tmp_path: Path) -> None:
    folder = opened()
    loaded(folder)
    each = record(folder)
    write(folder, each)
    folder.close(DEADLINE)
    index = tmp_path / MODEL / "index"
    index.write_bytes(b"SRBTEXTS 1\n" + index.read_bytes())
    folder = opened()
    assert loaded(folder) == {}
    assert write(folder, again := record(folder)) == [True]
    folder.close(DEADLINE)
    assert loaded(opened()).keys() == {again.id}
    assert not (tmp_path / MODEL / each.id).exists()


def test_files_and_folder_are_their_owners_alone(opened: Open, tmp_path: Path) -> None:
    folder = opened()
    loaded(folder)
    each = record(folder)
    write(folder, each)
    modes = {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / MODEL).iterdir()}
    assert modes == {0o600}
    assert stat.S_IMODE((tmp_path / MODEL).stat().st_mode) == 0o700


def test_a_folder_belongs_to_one_engine_at_a_time(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_folder, "MAX_ENGINES", 2)
    first, second = opened(), opened()
    assert first.folder != second.folder
    with pytest.raises(BlockingIOError):
        opened()
    opened(OTHER)
    first.close(DEADLINE)
    assert opened().folder == first.folder


def test_a_disk_without_room_is_told_once_and_tried_again(
    opened: Open, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    caplog.set_level(logging.INFO)
    folder = opened()
    loaded(folder)
    usage = shutil.disk_usage
    full: list[bool] = [True]

    def disk_usage(path: Any) -> Any:
        return usage(path)._replace(free=text_folder.MIN_FREE) if full else usage(path)

    monkeypatch.setattr(shutil, "disk_usage", disk_usage)
    monkeypatch.setattr(text_folder, "MIN_FREE", 1)
    assert write(folder, record(folder), record(folder)) == [False, False]
    full.clear()
    each = record(folder)
    assert write(folder, each) == [True]
    told = [message for message in caplog.messages if "texts are" in message]
    assert ["not kept" in message for message in told] == [True, False]
    assert (tmp_path / MODEL / each.id).exists()


def test_texts_of_other_models_make_room(opened: Open, tmp_path: Path) -> None:
    for model in (OTHER, "2" * 32):
        folder = opened(model)
        loaded(folder)
        write(folder, record(folder, nbytes=1000))
        folder.close(DEADLINE)
    os.utime(tmp_path / OTHER / "index", (1, 1))
    assert opened(max_bytes=1500).budget <= 500
    assert not (tmp_path / OTHER).exists()
    assert (tmp_path / ("2" * 32)).exists()


def test_a_model_whose_neighbour_fills_the_room_keeps_some_of_its_texts(opened: Open, tmp_path: Path) -> None:
    folder = opened()
    loaded(folder)
    each = record(folder, nbytes=100)
    write(folder, each)
    folder.close(DEADLINE)
    other = opened(OTHER)
    loaded(other)
    write(other, record(other, nbytes=2000))
    folder = opened(max_bytes=2000)
    assert folder.budget == 2000 // text_folder.LEAST_SHARE >= each.nbytes
    assert (tmp_path / OTHER).exists()


def test_an_engine_writes_on_where_a_killed_one_stopped(opened: Open) -> None:
    story = [place % 40 for place in range(700)]
    folder = opened()
    driver = Driver(FakeModel(n_ctx=4000, n_seq_max=20), texts=folder, cache_cells=0)
    driver.submit(story, 2, 1, 20, ignore_eos=True)
    driver.run()
    stored = driver.engine._residency.stored

    def is_written() -> bool:
        driver.engine.collect()
        return not stored.is_busy

    wait_for(is_written, "all is written")
    folder.close(DEADLINE)
    driver = Driver(FakeModel(n_ctx=4000, n_seq_max=20), texts=opened(), cache_cells=0)
    asked = driver.submit(story, 2, 1, 20, ignore_eos=True)
    driver.run()
    assert driver.engine.stats()["stored_tokens_read_total"] >= len(story) - 1
    for index in range(2):
        assert driver.result(asked).texts[index] == solo(story, 1 + index, 20, ignore_eos=True).texts[0]


class Clogged:
    """An index that takes the first bytes of an entry, and no more: the disk is full."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._num_writes = 0

    def write(self, data: Any) -> int:
        self._num_writes += 1
        if self._num_writes % 2 == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return int(self._file.write(bytes(data)[:7]))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def test_an_entry_that_was_cut_by_a_full_disk_costs_none_that_follow(
    opened: Open, caplog: pytest.LogCaptureFixture
) -> None:
    folder = opened()
    loaded(folder)
    first, cut, last = (record(folder) for _ in range(3))
    index: Any = folder._index._file
    assert write(folder, first) == [True]
    folder._index._file = cast(BinaryIO, Clogged(index))
    assert write(folder, cut) == [False]
    folder.remove(record(folder))
    folder._writes.put(lambda: setattr(folder._index, "_file", index))
    assert write(folder, last) == [True]
    assert "texts are not kept" in caplog.text
    folder.close(DEADLINE)
    assert loaded(opened()).keys() == {first.id, last.id}


@pytest.mark.parametrize("damage", ["folder", "unreadable"])
def test_an_index_that_cannot_be_read_is_told_and_stops_nobody(
    opened: Open, tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: str
) -> None:
    folder = opened()
    loaded(folder)
    each = record(folder)
    write(folder, each)
    folder.close(DEADLINE)
    index = tmp_path / MODEL / "index"
    if damage == "folder":
        index.unlink()
        index.mkdir()
    else:
        index.chmod(0)
    again = opened()
    is_read = os.access(index, os.R_OK) and damage != "folder"  # root reads all
    assert loaded(again).keys() == ({each.id} if is_read else set())
    assert is_read or str(index) in caplog.text
    write(again, record(again))


def test_a_folder_that_is_removed_while_it_is_in_use_stops_nobody(
    opened: Open, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = opened()
    loaded(folder)
    each = record(folder)
    write(folder, each)
    shutil.rmtree(tmp_path / MODEL)
    assert folder.read(each) is None
    assert write(folder, record(folder), record(folder)) == [False, False]
    folder.use(each)
    folder.remove(each)
    folder.close(DEADLINE)
    assert sum("not kept" in message for message in caplog.messages) == 1
    assert loaded(opened()) == {}


def test_a_folder_of_texts_with_names_begins_empty(opened: Open, tmp_path: Path) -> None:
    for model in (OTHER, MODEL):
        folder = opened(model)
        [is_written] = write(folder, record(folder))
        assert is_written
        folder.close(DEADLINE)
    folder = TextFolder(tmp_path, MODEL, 10**9, keeps_all=False)
    assert loaded(folder) == {}
    folder.close(DEADLINE)
    assert not [path for path in tmp_path.rglob("*") if len(path.name) == 32 and path.is_file()]


def test_a_text_that_a_client_waits_for_gets_the_last_room(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = opened()
    monkeypatch.setattr(text_folder.shutil, "disk_usage", lambda path: SimpleNamespace(free=1000))
    assert write(folder, record(folder)) == [False]
    assert isinstance(folder.error, OSError)
    assert folder.error.errno == errno.ENOSPC
    folder.is_asked = True
    assert write(folder, record(folder)) == [True]
    assert folder.error is None


def test_a_part_that_was_linked_for_a_story_with_the_same_beginning_is_there_for_the_next(opened: Open) -> None:
    there, here = opened(), opened()
    each = record(there)
    assert write(there, each) == [True]
    checksum = there._checksum(each.id)
    assert checksum is not None
    offered = Offered(each, tokens_of(range(5)), checksum)
    assert [here._link(there.folder, offered) for _ in range(2)] == [True, True]
    (here.folder / (stray := record(there).id)).touch()
    assert not here._link(there.folder, Offered(replace(each, id=stray), tokens_of(range(5)), checksum))
