"""A replica that leaves gives its texts through its door, to one whose disk is its own: whole, checked, or not at all."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from srb.cluster import giving
from srb.cluster.door import TOKEN_LENGTH, Door, texts_token, watch_token
from srb.engine.process import text_folder, texts_elsewhere
from srb.engine.process.text_folder import TextFolder
from srb.errors import NotSupported, SRBError
from srb.wire.codec import VERSION, decode, encode
from srb.wire.commands import GetTexts, TakeTexts, digest_of
from srb.wire.events import Hello, Ready, Rejected, Reply
from srb.wire.framing import frame, read_frame
from tests.engine_helpers import Driver
from tests.processes import DEADLINE, wait_for
from tests.unit.test_taking_texts import STORIES, computed, engine, run

TOKEN = "s" * TOKEN_LENGTH
MODEL = "0" * 32
SOME = [f"story {number}" for number in range(1, 5)]
ALL = tuple(map(digest_of, SOME))


class Leaving:
    """A replica that leaves, in a thread: a door, and an engine's socket behind it with the engine of a test."""

    def __init__(self, folder: Path, driver: Driver) -> None:
        self._driver = driver
        self._socket = folder / "engine.sock"
        self.change: Callable[[Any], Any] = lambda value: value  # of what the engine says
        self.asked: list[GetTexts] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self.port = self._do(self._open())

    def _do(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(DEADLINE)

    @property
    def place(self) -> tuple[str, int, str]:
        return "127.0.0.1", self.port, texts_token(TOKEN)

    async def _open(self) -> int:
        self._engine = await asyncio.start_unix_server(self._connected, self._socket)
        self.door = Door(self._socket, TOKEN)
        return await self.door.open("127.0.0.1")

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(frame(encode([Hello(VERSION, 1, "")])) + frame(encode([Ready({})])))
        with contextlib.suppress(EOFError, OSError):
            while True:
                [command] = decode(await read_frame(reader))
                self.asked.append(command)
                try:
                    answer: Any = Reply(command.request_id, self.change(self._driver.engine.serve_query(command)))
                except SRBError as error:
                    answer = Rejected.of(command.request_id, error)
                writer.write(frame(encode([answer])))
                if self._driver.engine.has_work:
                    self._driver.step()
                self._driver.engine.collect()
        writer.close()

    def close(self) -> None:
        async def end() -> None:
            self.door.close()
            self._engine.close()
            tasks = asyncio.all_tasks() - {asyncio.current_task()}
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await asyncio.sleep(0)  # until the transports are closed

        self._do(end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(DEADLINE)
        self._loop.close()


class Scene:
    """An engine that has all stories and leaves, and one that has none, each with a disk of its own."""

    def __init__(
        self,
        folder: Path,
        *,
        shared: bool = False,
        model: str = MODEL,
        memory: dict[str, bool] | None = None,
        **options: Any,
    ) -> None:
        here = "there" if shared else "here"
        self.folders = [TextFolder(folder / "there", MODEL, 10**9), TextFolder(folder / here, model, 10**9)]
        self.first, self.second = (engine(each, memory, **options) for each in self.folders)
        for story in SOME:
            computed(self.first, story)
        self.leaving = Leaving(folder, self.first)

    def take(self, *stories: str) -> None:
        """Let the second engine take stories, and wait until it has done so."""
        self.second.engine.serve_query(TakeTexts("", tuple(map(digest_of, stories)), self.leaving.place))
        self.settle()

    def settle(self) -> None:
        taking = self.second.engine._residency.stored.taking

        def is_over() -> bool:
            self.second.engine.collect()
            return not taking.num_going_on

        wait_for(is_over, "the texts are taken")
        run(self.second)

    def close(self) -> None:
        self.leaving.close()
        for folder in self.folders:
            folder.close(DEADLINE)


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    made = Scene(tmp_path)
    yield made
    made.close()


def all_computed(scene: Scene) -> int:
    return sum(computed(scene.second, story) for story in SOME)


def test_a_replica_with_a_disk_of_its_own_goes_on_with_all_stories_and_keeps_them(scene: Scene, tmp_path: Path) -> None:
    scene.take(*SOME)
    assert all_computed(scene) == len(SOME)  # the last token of each, whose logits are needed
    scene.second.engine.check_invariants()
    scene.second.engine.store_texts(float(DEADLINE))
    scene.folders[1].close(DEADLINE)
    scene.folders[1] = TextFolder(tmp_path / "here", MODEL, 10**9)
    scene.second = engine(scene.folders[1])
    assert all_computed(scene) <= len(SOME)
    assert not [path.name for path in scene.folders[1].folder.iterdir() if path.name not in known(scene.folders[1])]


def known(folder: TextFolder) -> set[str]:
    return {"index", "lock"} | set(folder._index._known)


def test_texts_that_are_in_cells_are_written_before_they_are_given(tmp_path: Path) -> None:
    scene = Scene(tmp_path, cache_cells=10**6)
    try:
        assert scene.first.engine.stats()["kv_cells_used"] > 1000
        scene.take(*SOME)
        assert all_computed(scene) == len(SOME)
        assert any(not command.no_longer for command in scene.leaving.asked)
    finally:
        scene.close()


def test_of_a_request_what_its_prompt_needs_is_taken_and_no_other_branch(scene: Scene) -> None:
    story = "story 4"
    for last in (3, 4, 6):
        computed(scene.first, story, [last, 7, 9] * 30)
    scene.second.engine.serve_query(TakeTexts("", (digest_of(story),), scene.leaving.place, is_coming=True))
    assert computed(scene.second, story, [4, 7, 9] * 30) == 1
    assert computed(scene.second, story, [3, 7, 9] * 30) > 60


def test_folders_on_one_path_are_linked_and_nothing_passes_the_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(tmp_path, shared=True)
    monkeypatch.setattr(giving, "_send", None)
    try:
        scene.take(*SOME)
        assert all_computed(scene) == len(SOME)
    finally:
        scene.close()


def test_links_to_what_stands_behind_a_part_that_does_not_come_are_removed(tmp_path: Path) -> None:
    scene = Scene(tmp_path, shared=True)
    try:
        computed(scene.first, "story 1", [4, 7, 9] * 200)
        scene.first.engine.store_texts(float(DEADLINE))
        records = [
            each
            for each in scene.first.engine._residency.stored._by_id.values()
            if each.asker.endswith(digest_of("story 1"))
        ]
        first = min(records, key=lambda each: each.start)
        (scene.folders[0].folder / first.id).unlink()
        assert len(records) > 1
        scene.take("story 1")
        folder = scene.folders[1]
        wait_for(lambda: {path.name for path in folder.folder.iterdir()} <= known(folder), "the links are removed")
    finally:
        scene.close()


def test_texts_of_another_model_are_refused_in_words(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    scene = Scene(tmp_path, model="1" * 32)
    try:
        scene.take("story 1")
        assert "it has another model, another build of llama.cpp, other adapters or other cell types" in caplog.text
        assert computed(scene.second, "story 1") == len(STORIES["story 1"])
    finally:
        scene.close()


def test_a_replica_that_keeps_no_texts_says_so(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")

    def refuse(value: Any) -> Any:
        raise NotSupported("it keeps no texts (cache_disk)")

    scene.leaving.change = refuse
    scene.take("story 1")
    assert "it keeps no texts (cache_disk)" in caplog.text
    assert computed(scene.second, "story 1") == len(STORIES["story 1"])


def without_first(value: Any) -> Any:
    return {**value, "entries": value["entries"][1:]}


def damaged(value: Any) -> Any:
    first, *rest = value["entries"]
    return {**value, "entries": [*rest, first[:40] + ("A" if first[40] != "A" else "B") + first[41:]]}


@pytest.mark.parametrize(
    "change",
    [
        without_first,
        damaged,
        lambda value: {**value, "entries": [1]},
        lambda value: {**value, "entries": ["!"]},
        lambda value: {**value, "folder": "/nowhere"},
        lambda value: {"entries": []},
        lambda value: {**value, "entries": [*value["entries"], ""]},
    ],
)
def test_what_is_no_text_is_not_taken(scene: Scene, change: Callable[[Any], Any]) -> None:
    scene.leaving.change = lambda value: value if value["entries"] is None else change(value)
    scene.take("story 1")
    assert computed(scene.second, "story 1") == len(STORIES["story 1"])
    scene.second.engine.check_invariants()
    scene.leaving.change = lambda value: value
    scene.take("story 2")
    assert computed(scene.second, "story 2") == 1, "the next story is taken all the same"


@pytest.mark.parametrize("fault", ["damaged", "cut", "gone"])
def test_kv_that_is_damaged_or_does_not_come_is_computed_again_and_what_came_before_is_kept(
    scene: Scene, fault: str
) -> None:
    turn = [4, 7, 9] * 200
    length = len(STORIES["story 1"]) + len(turn)
    computed(scene.first, "story 1", turn)
    records = scene.first.engine._residency.stored._by_id.values()
    last = max((each for each in records if each.start < length - 1), key=lambda each: each.end)
    path = scene.folders[0].folder / last.id
    whole = path.read_bytes()
    if fault == "gone":
        path.unlink()
    else:
        path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]) if fault == "damaged" else whole[:-1])
    scene.take("story 1")
    assert length - last.start <= computed(scene.second, "story 1", turn) < length
    scene.second.engine.check_invariants()


def test_a_full_disk_takes_nothing_and_the_request_is_answered(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    monkeypatch.setattr(text_folder, "MIN_FREE", 2**62)
    scene.take("story 1")
    assert "would be free on the disk" in caplog.text
    assert computed(scene.second, "story 1") == len(STORIES["story 1"])


def test_two_replicas_may_take_one_story(scene: Scene, tmp_path: Path) -> None:
    other = TextFolder(tmp_path / "third", MODEL, 10**9)
    third = engine(other)
    third.engine.serve_query(TakeTexts("", ALL, scene.leaving.place))
    scene.take(*SOME)
    assert all_computed(scene) == len(SOME)
    wait_for(lambda: third.engine.collect() or not third.engine._residency.stored.taking.num_going_on, "it has them")
    run(third)
    assert sum(computed(third, story) for story in SOME) == len(SOME)
    other.close(DEADLINE)


@pytest.mark.parametrize("token", [TOKEN.upper(), watch_token(TOKEN), "x" * TOKEN_LENGTH])
def test_who_has_another_token_gets_no_texts(scene: Scene, token: str) -> None:
    host, port, _ = scene.leaving.place
    scene.second.engine.serve_query(TakeTexts("", ALL[:1], (host, port, token)))
    scene.settle()
    assert not scene.leaving.asked
    assert not scene.leaving.door.num_open


@pytest.mark.parametrize(
    "said", [b"nonsense", b"{}", b"[]", b'{"story": "../x"}', b'{"story": 5}', orjson.dumps({"story": "a" * 23})]
)
def test_a_receiver_that_asks_for_something_else_is_closed(scene: Scene, said: bytes) -> None:
    async def ask() -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", scene.leaving.port)
        writer.write(texts_token(TOKEN).encode() + frame(said))
        found = await reader.read()
        writer.close()
        return found

    assert asyncio.run(ask()) == b""
    wait_for(lambda: not scene.leaving.door.num_open, "the door waits for nobody")


@pytest.mark.parametrize("wanted", [["/etc/passwd"], ["0" * 32], [["x"]], {"a": 1}, 5])
def test_a_receiver_gets_no_other_file(scene: Scene, wanted: Any) -> None:
    async def ask() -> tuple[Any, bytes]:
        reader, writer = await asyncio.open_connection("127.0.0.1", scene.leaving.port)
        writer.write(texts_token(TOKEN).encode() + frame(orjson.dumps({"story": ALL[0]})))
        offered = orjson.loads(await read_frame(reader))
        writer.write(frame(orjson.dumps(wanted)))
        found = await reader.read()
        writer.close()
        return offered, found

    offered, found = asyncio.run(ask())
    assert offered["entries"]
    assert found == b""
    wait_for(lambda: not scene.leaving.door.num_open, "the door waits for nobody")


def test_a_receiver_that_dies_in_the_middle_holds_nothing(scene: Scene) -> None:
    async def ask() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", scene.leaving.port)
        writer.write(texts_token(TOKEN).encode() + frame(orjson.dumps({"story": ALL[0]})))
        await read_frame(reader)
        writer.transport.abort()

    asyncio.run(ask())
    wait_for(lambda: not scene.leaving.door.num_open, "the door waits for nobody")
    scene.take(*SOME)
    assert all_computed(scene) == len(SOME)


def test_a_giver_that_sends_a_byte_now_and_then_is_given_up(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")

    async def send(writer: asyncio.StreamWriter, path: Path, nbytes: int) -> None:
        writer.write(frame(bytes(10**6))[:4])
        while True:
            writer.write(b"\0")
            await writer.drain()
            await asyncio.sleep(0.01)

    monkeypatch.setattr(giving, "_send", send)
    monkeypatch.setattr(texts_elsewhere, "_GIVING_SECONDS", 0.5)
    scene.take("story 1")
    assert "no more of a story's texts is taken over" in caplog.text
    assert computed(scene.second, "story 1") == len(STORIES["story 1"])


class Unwalked(dict[str, Any]):
    """A mapping that nobody may go through."""

    def __iter__(self) -> Any:
        raise AssertionError("all records are visited")

    items = values = keys = __iter__


def test_the_records_of_a_story_are_found_without_a_look_at_others(scene: Scene) -> None:
    stored = scene.first.engine._residency.stored
    own = stored.given(ALL[1])
    stored._by_id = Unwalked(stored._by_id)
    assert stored.given(ALL[1]) == own
    assert len(own) >= 2


@pytest.mark.parametrize("memory", [{"has_states": True}, {"supports_partial_reuse": False}])
def test_texts_of_memory_with_states_or_that_cannot_be_cut_are_given_too(
    tmp_path: Path, memory: dict[str, bool]
) -> None:
    scene = Scene(tmp_path, memory=memory)
    try:
        scene.take(*SOME)
        assert sum(computed(scene.second, story, [7, 8]) for story in SOME) == 2 * len(SOME)
    finally:
        scene.close()
