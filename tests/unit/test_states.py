"""Named states: kept when others are dropped, on disk across restarts, and refused when they do not fit."""

from __future__ import annotations

import errno
import fcntl
import io
import os
import queue
import resource
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import orjson
import pytest

from srb.engine.engine import Engine, EngineOptions
from srb.engine.fake import FakeModel
from srb.engine.model import Scope
from srb.engine.process import state_folder
from srb.engine.process.state_file import read_state
from srb.engine.process.state_folder import StateFolder
from srb.engine.tokens import tokens_of
from srb.errors import InsufficientStorage, SRBError, StateNotSaved
from srb.files import state_disk
from srb.files.gguf import model_fingerprint
from srb.files.state_disk import StateEntry
from srb.files.text_entry import MAGIC, StateError, framed
from srb.wire.commands import BranchSpec, Generate, SetAdapters, StateAction
from srb.wire.events import Done
from tests.engine_helpers import Driver, parked_bytes, solo
from tests.processes import DEADLINE, wait_for
from tests.state_folders import a_folder, a_text, close, finish_saves, save, texts_of, wait_until_written
from tests.text_stores import MemoryStates, MemoryTexts

PROMPT = "the old king said to the girl near the river that the boat was lost"


def run(engine: Engine, prompt: str, state: str, seed: int = 3) -> tuple[str, Done]:
    """Run one branch; return its text and the Done event."""
    request = engine.prepare(Generate("r", (prompt,), (BranchSpec(seed, 10),), state=state))
    events = engine.submit(request)
    while engine.has_work:
        events += engine.step()
        engine.check_invariants()
    finish_saves(engine)
    text = "".join(getattr(event, "text", "") for event in events)
    (done,) = [event for event in events if isinstance(event, Done)]
    return text, done


def engine_with(folder: StateFolder | None, memory: dict[str, bool] | None = None, cache_bytes: int = 10**6) -> Engine:
    return engine_of(FakeModel(**(memory or {})), folder, cache_bytes)


def engine_of(model: FakeModel, folder: StateFolder | None, cache_bytes: int = 10**6) -> Engine:
    return Engine(
        model,
        EngineOptions(max_queue=9, cache_bytes=cache_bytes),
        clock=iter(range(10**6)).__next__,
        states=folder,
        texts=None if folder is None else texts_of(folder),
    )


@pytest.fixture
def folder(tmp_path: Path) -> StateFolder:
    return a_folder(tmp_path)


@pytest.mark.parametrize("memory", [{}, {"has_states": True}, {"supports_partial_reuse": False}])
def test_a_state_outlives_the_engine(folder: StateFolder, tmp_path: Path, memory: dict[str, bool]) -> None:
    run(engine_with(folder, memory), PROMPT, "chapter-1")
    close(folder)
    again = a_folder(tmp_path)
    text, done = run(engine_with(again, memory), PROMPT + " and then the fox", "chapter-1")
    assert done.cached_tokens >= len(FakeModel().tokenize(PROMPT, True, True))
    assert text == solo(PROMPT + " and then the fox", seed=3).texts[0]


@pytest.mark.parametrize("damage", ["cut", "flip", "other model", "garbage", "empty"])
def test_a_file_that_does_not_fit_is_refused_and_the_prompt_is_computed(
    folder: StateFolder, tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    run(engine_with(folder), PROMPT, "x")
    close(folder)
    path = tmp_path / "states" / "x.srbstate"
    data = path.read_bytes()
    path.write_bytes(
        {
            "cut": data[:-5],
            "flip": data[:-1] + bytes([data[-1] ^ 1]),
            "other model": data,
            "garbage": b"nonsense" * 50,
            "empty": b"",
        }[damage]
    )
    again = a_folder(tmp_path, "model-b" if damage == "other model" else "model-a")
    text, done = run(engine_with(again), PROMPT, "x")
    assert done.cached_tokens == 0
    assert text == solo(PROMPT, seed=3).texts[0]
    assert "is not used" in caplog.text


def test_a_state_is_used_only_with_its_own_scales(folder: StateFolder, tmp_path: Path) -> None:
    def cached(scale: float) -> int:
        model = FakeModel(n_adapters=1)
        states = a_folder(tmp_path)
        engine = engine_of(model, states)
        engine.serve_query(SetAdapters("a", ((0, scale),)))
        _, done = run(engine, PROMPT, "x")
        close(states)
        return done.cached_tokens

    assert [cached(0.5) > 0, cached(0.5) > 0, cached(0.25) > 0, cached(0.25) > 0] == [False, True, False, True]


def test_a_state_of_another_prompt_is_replaced(folder: StateFolder, tmp_path: Path) -> None:
    run(engine_with(folder), PROMPT, "x")
    run(engine_with(folder), "a fox", "x")
    close(folder)
    state = a_folder(tmp_path).load("x")
    assert state is not None
    assert list(state.tokens) == FakeModel().tokenize("a fox", True, True)


def test_a_named_prompt_is_the_last_to_be_dropped() -> None:
    length = len(FakeModel().tokenize(PROMPT, True, True))
    engine = engine_with(None, cache_bytes=parked_bytes(3, length + 40))
    run(engine, PROMPT, "keep-me")
    for i in range(20):
        run(engine, "a fox " * (3 + i), "")
    _, done = run(engine, PROMPT + " and", "")
    assert done.cached_tokens >= length


def test_the_folder_is_private_and_names_cannot_leave_it(folder: StateFolder, tmp_path: Path) -> None:
    assert stat.S_IMODE((tmp_path / "states").stat().st_mode) == 0o700
    for name in ("../x", "a/b", ".", "", "x\0", "é"):
        with pytest.raises(Exception, match="state"):
            folder.load(name)


def test_the_fingerprint_tells_models_and_cell_types_apart(tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    data = np.random.default_rng(1).bytes(3_000_000)
    a.write_bytes(data)
    b.write_bytes(data[:-10] + bytes(10))
    assert model_fingerprint(a, "f16") == model_fingerprint(a, "f16")
    assert len({model_fingerprint(a, "f16"), model_fingerprint(a, "q8_0"), model_fingerprint(b, "f16")}) == 3


@pytest.mark.parametrize("memory", [{}, {"has_states": True}, {"supports_partial_reuse": False}])
def test_a_changed_or_truncated_file_is_refused(tmp_path: Path, memory: dict[str, bool]) -> None:
    folder = a_folder(tmp_path)
    run(engine_with(folder, memory), "the fox", "x")
    close(folder)
    data = (tmp_path / "states" / "x.srbstate").read_bytes()
    assert read_state(io.BytesIO(data), "model-a", texts_of(a_folder(tmp_path)))[0].tokens == tokens_of(
        FakeModel().tokenize("the fox", True, True)
    )
    damaged = [data[:size] for size in range(0, len(data), 7)]
    damaged += [data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :] for place in range(len(data))]
    texts = texts_of(a_folder(tmp_path))
    for each in damaged:
        with pytest.raises(StateError):
            read_state(io.BytesIO(each), "model-a", texts)
        for file in texts.folder.glob("[0-9a-f]" * 32):
            file.unlink()


def facts_of(data: bytes) -> tuple[dict[str, Any], bytes]:
    """Return the facts at the beginning of a state's file, and what stands behind them."""
    length = int.from_bytes(data[8:12], "little")
    return orjson.loads(data[16 : 16 + length]), data[16 + length :]


@pytest.mark.parametrize(
    "facts", [{"tokens": 2**31}, {"records": 9}, {"tokens": -1}, {"records": "two"}, {"saved": {}}]
)
def test_a_header_that_lies_about_sizes_is_refused(tmp_path: Path, facts: dict[str, Any]) -> None:
    folder = a_folder(tmp_path)
    assert save(folder, "x") is None
    known, rest = facts_of((tmp_path / "states" / "x.srbstate").read_bytes())
    with pytest.raises(StateError, match="damaged"):
        read_state(io.BytesIO(MAGIC + framed(orjson.dumps(known | facts)) + rest), "model-a", texts_of(folder))


@pytest.mark.parametrize(("magic", "version"), [(b"SRBSTATE", 1), (b"SRBSTAT2", 2)])
def test_a_file_of_an_older_version_is_refused_by_its_number(folder: StateFolder, magic: bytes, version: int) -> None:
    with pytest.raises(StateError, match=f"its version is {version}; this server reads version 3"):
        read_state(
            io.BytesIO(magic + (80).to_bytes(4, "little") + b'{"version":1}' + bytes(200)), "m", texts_of(folder)
        )


@pytest.mark.parametrize("cache_cells", [0, 10**6])
def test_where_no_texts_are_kept_those_with_a_name_alone_are_on_the_disk(cache_cells: int) -> None:
    texts = MemoryTexts(is_eager=True)
    texts.keeps_all = False
    driver = Driver(texts=texts, states=MemoryStates(texts), cache_cells=cache_cells)

    def write(prompt: str, **options: Any) -> None:
        driver.submit(prompt, 2, **options)
        while driver.engine.has_work:
            driver.step()
            driver.engine.flush()

    write("a fox and a hen")
    driver.engine.store_texts(10)
    assert not texts.files
    write(PROMPT, state="x")
    driver.engine.store_texts(10)
    assert {len(tokens) for _, tokens, _ in texts.files.values()} == {len(FakeModel().tokenize(PROMPT, True, True))}


# ---- only what is missing is read and written


def counted(folder: StateFolder, monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Count the calls of what touches the disk."""
    calls = {"load": 0, "save": 0}

    def count(name: str) -> Callable[..., Any]:
        method = getattr(folder, name)

        def call(*args: Any) -> Any:
            calls[name] += 1
            return method(*args)

        return call

    for name in calls:
        monkeypatch.setattr(folder, name, count(name))
    return calls


def test_a_state_is_read_again_only_after_the_tree_has_evicted_it(
    folder: StateFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(engine_with(folder), PROMPT, "x")
    close(folder)
    again = a_folder(tmp_path)
    calls = counted(again, monkeypatch)
    engine = engine_with(again)
    texts = {run(engine, PROMPT, "x")[0] for _ in range(3)}
    assert calls == {"load": 1, "save": 0}
    engine.submit(engine.prepare(StateAction("e", "erase", "", 0)))
    assert run(engine, PROMPT, "x")[1].cached_tokens > 0
    assert calls == {"load": 2, "save": 0}
    assert texts == {solo(PROMPT, seed=3).texts[0]}


def test_a_state_that_is_written_while_its_file_is_looked_for_is_not_forgotten(
    folder: StateFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, engine = counted(folder, monkeypatch), engine_with(folder)
    look, write, may_write = state_folder.entry_of, state_folder.replace, threading.Event()

    def held(*args: Any) -> Any:
        assert may_write.wait(DEADLINE)
        return write(*args)

    def slow(path: Path) -> Any:
        found = look(path)
        if threading.current_thread() is threading.main_thread():
            may_write.set()
            close(folder)  # once the file is written
        return found

    monkeypatch.setattr(state_folder, "replace", held)
    run(engine, PROMPT, "x")
    monkeypatch.setattr(state_folder, "entry_of", slow)
    run(engine, PROMPT, "x")
    assert calls["save"] == 1


def test_a_state_is_written_again_only_with_another_text(
    folder: StateFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, engine = counted(folder, monkeypatch), engine_with(folder)
    for prompt, saves in ((PROMPT, 1), (PROMPT, 1), (PROMPT + " and", 2), (PROMPT + " and", 2), (PROMPT, 3)):
        run(engine, prompt, "x")
        assert calls["save"] == saves
    close(folder)
    last = a_folder(tmp_path).load("x")
    assert last is not None
    assert list(last.tokens) == FakeModel().tokenize(PROMPT, True, True)


def test_a_state_that_could_not_be_written_is_tried_again(
    folder: StateFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    engine = engine_with(folder)
    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", fail_with(errno.EIO))
        run(engine, PROMPT, "x")
        wait_until_written(folder)
    assert "x was not saved: Input/output error" in caplog.text
    assert list((tmp_path / "states").iterdir()) == []
    run(engine, PROMPT, "x")
    close(folder)
    assert (tmp_path / "states" / "x.srbstate").exists()


# ---- what is said to be saved is


def fail_with(number: int) -> Callable[..., Any]:
    def fail(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    return fail


def names(tmp_path: Path) -> set[str]:
    return {path.name for path in (tmp_path / "states").iterdir() if path.name != ".lock"}


def test_a_save_is_confirmed_when_the_file_and_its_name_are_on_the_disk(
    folder: StateFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    fsync, replace = os.fsync, os.replace

    def note_fsync(number: int) -> None:
        done.append("folder" if stat.S_ISDIR(os.fstat(number).st_mode) else "file")
        fsync(number)

    monkeypatch.setattr(os, "fsync", note_fsync)
    monkeypatch.setattr(os, "replace", lambda *names: done.append("name") or replace(*names))
    folder.save("x", a_text(folder), lambda error: done.append(f"told {error}"))
    close(folder)
    assert done == ["file", "name", "folder", "told None"]
    assert names(tmp_path) == {"x.srbstate"}


@pytest.mark.parametrize(
    ("function", "number", "kind", "reason"),
    [
        ("fsync", errno.ENOSPC, InsufficientStorage, "No space left on device"),
        ("fsync", errno.EDQUOT, InsufficientStorage, "Disk quota exceeded"),
        ("fsync", errno.EIO, StateNotSaved, "Input/output error"),
        ("replace", errno.EROFS, StateNotSaved, "Read-only file system"),
    ],
)
def test_row_44_a_save_that_fails_says_why_and_the_older_file_is_whole(
    folder: StateFolder,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    function: str,
    number: int,
    kind: type[SRBError],
    reason: str,
) -> None:
    assert save(folder, "x", token=1) is None
    with monkeypatch.context() as broken:
        broken.setattr(os, function, fail_with(number))
        error = save(folder, "x", token=2)
    assert type(error) is kind
    assert error is not None
    assert error.message == f"The state x was not saved: {reason}; an older one of its name is unchanged"
    assert names(tmp_path) == {"x.srbstate"}
    assert folder.load("x") is not None
    assert folder.load("x").tokens == tokens_of([1] * 9)  # type: ignore[union-attr]
    assert save(folder, "x", token=3) is None
    assert folder.load("x").tokens == tokens_of([3] * 9)  # type: ignore[union-attr]


def test_row_44_a_file_beyond_the_processs_file_size_limit_is_no_state(folder: StateFolder, tmp_path: Path) -> None:
    """The write fails for real, in the middle."""
    assert save(folder, "x") is None
    told: queue.SimpleQueue[SRBError | None] = queue.SimpleQueue()
    text = a_text(folder, 3 << 20)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, before[1]))
    try:
        folder.save("x", text, told.put)
        error = told.get(timeout=DEADLINE)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert isinstance(error, StateNotSaved)
    assert "File too large" in error.message
    assert names(tmp_path) == {"x.srbstate"}
    assert folder.load("x").nbytes == 1000  # type: ignore[union-attr]


def test_row_44_in_a_folder_that_has_vanished_nothing_is_saved(folder: StateFolder, tmp_path: Path) -> None:
    (tmp_path / "states").rmdir()
    error = save(folder, "x")
    assert isinstance(error, StateNotSaved)
    assert "No such file or directory" in error.message
    assert not (tmp_path / "states").exists()  # it may be where a disk should be


def test_the_rest_of_an_interrupted_write_is_removed_at_the_next_start(tmp_path: Path) -> None:
    (tmp_path / "states").mkdir()
    (tmp_path / "states" / "x.0123456789ab.partial").write_bytes(b"SRBSTATE")
    (tmp_path / "states" / "notes.txt").write_text("mine")
    close(a_folder(tmp_path))
    assert names(tmp_path) == {"notes.txt"}


@pytest.mark.parametrize(
    "name",
    [
        "my-download.gguf.partial",
        "x.partial",
        "x.0123456789AB.partial",
        "x.0123456789abc.partial",
        "x.0123456789ab.partial~",
    ],
)
def test_what_another_program_is_writing_is_left_alone(tmp_path: Path, name: str) -> None:
    (tmp_path / "states").mkdir()
    (tmp_path / "states" / name).write_text("theirs")
    close(a_folder(tmp_path))
    assert names(tmp_path) == {name}


def test_a_partial_file_that_cannot_be_removed_keeps_no_engine_from_starting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    left = {f"{name}.0123456789ab.partial" for name in ("folder", "broken", "nowhere")}
    (tmp_path / "states" / "folder.0123456789ab.partial").mkdir(parents=True)
    (tmp_path / "states" / "broken.0123456789ab.partial").touch()
    (tmp_path / "states" / "nowhere.0123456789ab.partial").symlink_to("nothing")
    (tmp_path / "states" / "x.0123456789ab.partial").touch()
    opened = Path.open

    def open_some(path: Path, *mode: Any) -> Any:
        if path.name.startswith("broken"):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return opened(path, *mode)

    monkeypatch.setattr(Path, "open", open_some)
    close(a_folder(tmp_path))
    assert names(tmp_path) == left
    [told] = [record.getMessage() for record in caplog.records if "cannot be removed" in record.getMessage()]
    assert "broken.0123456789ab.partial" in told


# ---- the queue


class Gate:
    """Holds up writes until it is opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.entered, self._open = threading.Semaphore(0), threading.Event()
        fsync = os.fsync

        def wait(number: int) -> None:
            self.entered.release()
            assert self._open.wait(DEADLINE)
            fsync(number)

        monkeypatch.setattr(os, "fsync", wait)

    def open(self) -> None:
        self._open.set()


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    made = Gate(monkeypatch)
    yield made
    made.open()


def test_of_two_texts_of_a_name_that_wait_the_later_one_stays(folder: StateFolder, tmp_path: Path, gate: Gate) -> None:
    told: list[Any] = []
    texts = [a_text(folder, token=token) for token in (1, 2)]
    for text in texts:
        folder.save("x", text, told.append)
    assert gate.entered.acquire(timeout=DEADLINE)
    assert folder.holds("x", tokens_of([2] * 9), Scope())
    gate.open()
    close(folder)
    assert told == [None, None]
    assert names(tmp_path) == {"x.srbstate"}
    assert folder.load("x").tokens == tokens_of([2] * 9)  # type: ignore[union-attr]


# ---- the limit


def test_beyond_the_limit_the_least_recently_used_automatic_states_are_removed(tmp_path: Path) -> None:
    folder = a_folder(tmp_path, max_bytes=50_000)
    assert save(folder, "mine", 10_000) is None
    for name in "abc":
        folder.save(name, a_text(folder, 10_000))
    wait_until_written(folder)
    assert folder.load("a") is not None
    folder.use("b")
    folder.save("d", a_text(folder, 10_000))
    wait_until_written(folder)
    assert names(tmp_path) == {f"{name}.srbstate" for name in ("mine", "a", "b", "d")}
    assert not folder.holds("c", [5] * 9, Scope())
    close(folder)

    again = a_folder(tmp_path, max_bytes=50_000)  # the order is known from the files
    again.save("e", a_text(again, 10_000))
    close(again)
    assert names(tmp_path) == {f"{name}.srbstate" for name in ("mine", "b", "d", "e")}


def test_a_state_that_cannot_fit_is_refused_and_none_is_removed_for_it(tmp_path: Path) -> None:
    folder = a_folder(tmp_path, max_bytes=1 << 20)
    assert save(folder, "mine", 600_000) is None
    folder.save("a", a_text(folder, 100_000))
    error = save(folder, "big", 500_000)
    assert isinstance(error, InsufficientStorage)
    assert "state_dir_mib (1)" in error.message
    assert names(tmp_path) == {"mine.srbstate", "a.srbstate"}
    assert save(folder, "mine", 900_000) is None  # in its own place
    close(folder)


def test_an_explicitly_saved_file_stays_explicit_when_it_is_written_again(tmp_path: Path) -> None:
    folder = a_folder(tmp_path, max_bytes=50_000)
    assert save(folder, "mine", 20_000) is None
    folder.save("mine", a_text(folder, 20_000, token=6))
    folder.save("a", a_text(folder, 20_000))
    folder.save("b", a_text(folder, 20_000))
    close(folder)
    assert names(tmp_path) == {"mine.srbstate", "b.srbstate"}


def test_a_file_that_nobody_can_read_counts_and_stays(tmp_path: Path) -> None:
    (tmp_path / "states").mkdir()
    (tmp_path / "states" / "old.srbstate").write_bytes(b"nonsense" * 5000)
    folder = a_folder(tmp_path, max_bytes=60_000)
    for name in "ab":
        folder.save(name, a_text(folder, 15_000))
    assert isinstance(save(folder, "big", 30_000), InsufficientStorage)
    close(folder)
    assert names(tmp_path) == {"old.srbstate", "b.srbstate"}


@pytest.mark.parametrize("seed", range(8))
def test_random_saves_keep_every_confirmed_state_within_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    random, fsync = Random(seed), os.fsync

    def sometimes(number: int) -> None:
        if random.random() < 0.1 and not stat.S_ISDIR(os.fstat(number).st_mode):
            raise OSError(errno.EIO, "Input/output error")
        fsync(number)

    monkeypatch.setattr(os, "fsync", sometimes)
    folder = a_folder(tmp_path, max_bytes=60_000)
    confirmed: dict[str, int] = {}
    for token in range(150):
        if token % 50 == 49:
            close(folder)
            folder = a_folder(tmp_path, max_bytes=60_000)
        match random.randrange(4):
            case 0:
                name = random.choice("abc")
                if save(folder, name, random.randrange(1000, 15_000), token) is None:
                    confirmed[name] = token
            case 1 | 2:
                folder.save(random.choice("defghijk"), a_text(folder, random.randrange(1000, 15_000), token))
            case _:
                folder.load(random.choice("abcdefgh"))
        for name, last in confirmed.items():
            read = folder.load(name)
            assert read is not None
            assert read.tokens == tokens_of([last] * 9)
    close(folder)
    assert confirmed
    assert sum(path.stat().st_size for path in (tmp_path / "states").iterdir()) <= 60_000


# ---- a folder that several engines share


@pytest.fixture
def shared(folder: StateFolder, tmp_path: Path) -> Iterator[tuple[StateFolder, StateFolder]]:
    """The same folder, as two engines have it."""
    other = a_folder(tmp_path)
    yield folder, other
    for each in (folder, other):
        close(each)


@pytest.mark.parametrize("memory", [{}, {"has_states": True}, {"supports_partial_reuse": False}])
def test_a_story_goes_from_engine_to_engine_and_each_finds_the_latest(
    shared: tuple[StateFolder, StateFolder], memory: dict[str, bool]
) -> None:
    engines = [engine_with(each, memory) for each in shared]
    text, known = PROMPT, 0
    for turn in range(6):
        states = shared[turn % 2]
        written, done = run(engines[turn % 2], text, "story")
        assert done.cached_tokens >= known, f"turn {turn} computes what another engine has saved"
        assert written == solo(text, seed=3).texts[0]
        wait_until_written(states)
        known = len(FakeModel().tokenize(text, True, True))
        text += " and then the fox came over the hill"


def test_a_restore_takes_the_text_that_another_engine_saved_later(shared: tuple[StateFolder, StateFolder]) -> None:
    first, second = (engine_with(each) for each in shared)
    run(first, PROMPT, "x")
    wait_until_written(shared[0])
    longer = PROMPT + " and then the fox came over the hill"
    run(second, longer, "x")
    wait_until_written(shared[1])
    [restored] = first.submit(first.prepare(StateAction("r", "restore", "x", 0)))
    assert restored.value["tokens"] == len(FakeModel().tokenize(longer, True, True))


def test_a_state_that_another_engine_has_removed_is_not_held(tmp_path: Path) -> None:
    one, other = (a_folder(tmp_path, max_bytes=10**6) for _ in range(2))
    engine = engine_with(one)
    run(engine, PROMPT, "x")
    wait_until_written(one)
    prompt = tokens_of(FakeModel().tokenize(PROMPT, True, True))
    assert one.holds("x", prompt, Scope())
    next((tmp_path / "states").glob("x*")).unlink()  # as the other engine makes room
    run(engine_with(other), "a fox", "y")
    wait_until_written(other)
    run(engine, "a hen", "z")
    wait_until_written(one)
    assert not one.holds("x", prompt, Scope())
    run(engine, PROMPT, "x")
    close(one)
    close(other)
    assert "x.srbstate" in names(tmp_path), "it is written again"


def test_an_earlier_save_that_ends_later_replaces_nothing(shared: tuple[StateFolder, StateFolder], gate: Gate) -> None:
    """The slower engine is told of no error: its text was saved, and then replaced."""
    told: queue.SimpleQueue[SRBError | None] = queue.SimpleQueue()
    shared[0].save("x", a_text(shared[0], token=1), told.put)
    assert gate.entered.acquire(timeout=DEADLINE)
    shared[1].save("x", a_text(shared[1], token=2), told.put)
    assert gate.entered.acquire(timeout=DEADLINE)
    gate.open()
    assert [told.get(timeout=DEADLINE), told.get(timeout=DEADLINE)] == [None, None]
    for each in shared:
        state = each.load("x")
        assert state is not None
        assert state.tokens == tokens_of([2] * 9)


def test_a_text_that_continues_another_is_later_whatever_the_clocks_say(
    shared: tuple[StateFolder, StateFolder], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert save(shared[0], "x", token=1) is None
    assert shared[1].load("x") is not None
    monkeypatch.setattr(state_folder.time, "time_ns", lambda: 1)  # the second machine's clock is decades behind
    assert save(shared[1], "x", token=2) is None
    assert shared[0].is_newer("x")
    assert not shared[1].is_newer("x")
    assert shared[0].load("x").tokens == tokens_of([2] * 9)  # type: ignore[union-attr]


def test_a_starting_engine_leaves_alone_what_another_is_writing(
    folder: StateFolder, tmp_path: Path, gate: Gate
) -> None:
    folder.save("x", a_text(folder))
    assert gate.entered.acquire(timeout=DEADLINE)
    [partial] = (tmp_path / "states").glob("*.partial")
    second = a_folder(tmp_path)
    assert partial.exists()
    gate.open()
    close(folder)
    assert names(tmp_path) == {"x.srbstate"}
    assert second.load("x") is not None
    close(second)


def test_engines_that_write_one_name_at_once_tear_no_file(shared: tuple[StateFolder, StateFolder]) -> None:
    told: queue.SimpleQueue[SRBError | None] = queue.SimpleQueue()
    rounds = 25
    for number in range(rounds):
        for place, each in enumerate(shared):
            each.save("x", a_text(each, 50_000, token=2 * number + place), told.put)
        state = shared[number % 2].load("x")
        assert state is None or state.nbytes == 50_000
    assert [told.get(timeout=DEADLINE) for _ in range(2 * rounds)] == [None] * 2 * rounds
    last = shared[0].load("x")
    assert last is not None
    assert last.tokens == tokens_of([2 * rounds - 1] * 9)


def test_the_limit_counts_and_removes_the_files_of_all_engines(tmp_path: Path) -> None:
    first, second = (a_folder(tmp_path, max_bytes=3000) for _ in range(2))
    first.save("a", a_text(first))
    wait_for_file(tmp_path, "a")
    second.save("b", a_text(second))
    wait_for_file(tmp_path, "b")
    first.save("c", a_text(first))
    wait_for_file(tmp_path, "c")
    assert names(tmp_path) == {"b.srbstate", "c.srbstate"}
    for each in (first, second):
        close(each)


@pytest.mark.parametrize("states", [40, 1000])
def test_what_a_save_reads_in_a_shared_folder_does_not_grow_with_its_states(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, states: int
) -> None:
    first = a_folder(tmp_path, max_bytes=10**9)
    assert save(first, "0") is None
    data = (tmp_path / "states" / "0.srbstate").read_bytes()
    for number in range(1, states):
        (tmp_path / "states" / f"{number}.srbstate").write_bytes(data)
    both = [first, a_folder(tmp_path, max_bytes=10**9)]
    assert save(first, "0") is None  # learns of the others
    looks, saves = 0, 30
    scan = state_folder.scan

    def count(folder: Path, known: dict[str, StateEntry]) -> dict[str, StateEntry]:
        nonlocal looks
        found = scan(folder, known)
        looks += len(found)
        return found

    monkeypatch.setattr(state_folder, "scan", count)
    for number in range(saves):
        for folder in both:
            assert save(folder, f"mine-{number}") is None
    assert looks <= len(both) * saves * 64 + len(both) * states
    assert states < 100 or looks < len(both) * saves * states / 4
    for folder in both:
        close(folder)


def test_a_file_is_read_again_only_if_it_was_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = a_folder(tmp_path)
    for name in ("a", "b"):
        assert save(folder, name) is None
    close(folder)
    found = state_disk.scan(tmp_path / "states")
    read: list[Path] = []
    entry_of = state_disk.entry_of
    monkeypatch.setattr(state_disk, "entry_of", lambda path: (read.append(path), entry_of(path))[1])
    assert state_disk.scan(tmp_path / "states", found) == found
    assert read == []
    (tmp_path / "new").write_bytes((tmp_path / "states" / "b.srbstate").read_bytes())
    (tmp_path / "new").replace(tmp_path / "states" / "b.srbstate")
    assert set(state_disk.scan(tmp_path / "states", found)) == {"a", "b"}
    assert [path.name for path in read] == ["b.srbstate"]


def test_a_state_that_a_client_of_another_engine_has_saved_since_is_not_removed(tmp_path: Path) -> None:
    first = a_folder(tmp_path, max_bytes=200_000)
    for number in range(70):  # more than one save looks at
        first.save(f"a{number}", a_text(first, 100))
        wait_until_written(first)
    second = a_folder(tmp_path, max_bytes=200_000)
    assert save(second, "a0", 100) is None  # asked for now; `first` thinks that it may go
    first.save("large", a_text(first, 180_000))
    wait_until_written(first)
    assert {"a0.srbstate", "large.srbstate"} <= names(tmp_path)
    assert "a1.srbstate" not in names(tmp_path)
    assert sum(path.stat().st_size for path in (tmp_path / "states").iterdir()) <= 200_000
    for each in (first, second):
        close(each)


def test_names_whose_files_were_removed_by_hand_are_forgotten_and_written_again(tmp_path: Path) -> None:
    folder = a_folder(tmp_path)
    engine = engine_with(folder)
    run(engine, PROMPT, "x")
    wait_until_written(folder)
    (tmp_path / "states" / "x.srbstate").unlink()
    run(engine, PROMPT, "x")
    wait_until_written(folder)
    assert "x.srbstate" in names(tmp_path)
    for name in "abc":
        assert save(folder, name) is None
        (tmp_path / "states" / f"{name}.srbstate").unlink()
    assert save(folder, "last") is None
    assert folder._known.keys() == folder._texts.keys() == {"x", "last"}
    close(folder)


def wait_for_file(tmp_path: Path, name: str) -> None:
    wait_for(
        lambda: f"{name}.srbstate" in names(tmp_path) and not any("partial" in each for each in names(tmp_path)), name
    )


def test_without_locks_a_save_works_and_only_old_partial_files_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without = SimpleNamespace(flock=fail_with(errno.ENOLCK), LOCK_EX=fcntl.LOCK_EX, LOCK_NB=fcntl.LOCK_NB)
    monkeypatch.setattr(state_disk, "fcntl", without)
    (tmp_path / "states").mkdir()
    old, new = (tmp_path / "states" / f"{name}.0123456789ab.partial" for name in ("old", "new"))
    for path in (old, new):
        path.write_bytes(b"")
    os.utime(old, (1, 1))
    folder = a_folder(tmp_path)
    assert save(folder, "x") is None
    close(folder)
    assert names(tmp_path) == {"new.0123456789ab.partial", "x.srbstate"}
