"""Saving, restoring and erasing a slot's text, in memory and on disk."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from srb.engine import state_actions
from srb.engine.engine import Engine, EngineOptions
from srb.engine.fake import FakeModel
from srb.engine.model import Blob, Record
from srb.engine.process import state_file
from srb.engine.process.state_folder import StateFolder
from srb.engine.process.text_folder import TextFolder
from srb.wire.commands import BranchSpec, Generate, GetSlotTime, StateAction
from srb.wire.events import Delta, Done, Rejected, Reply
from tests.engine_helpers import solo
from tests.processes import DEADLINE
from tests.state_folders import a_folder, close, finish_saves, texts_of

PROMPT = "the old king said to the girl near the river that the boat was lost"


class Session:
    """One run of a server."""

    def __init__(
        self, states: StateFolder | None, memory: dict[str, bool] | None = None, cache_bytes: int = 10**6
    ) -> None:
        model = FakeModel(**(memory or {}))
        clock = iter(range(10**6)).__next__
        self.unix_time = 1.7e9
        self.engine = Engine(
            model,
            EngineOptions(max_queue=9, cache_bytes=cache_bytes),
            clock=clock,
            wall_clock=lambda: self.unix_time,
            states=states,
            texts=None if states is None else texts_of(states),
        )
        self._woken = threading.Semaphore(0)
        self.engine.wake = lambda: self._woken.release()

    def generate(self, prompt: tuple[str | int, ...], n: int = 1, **options: Any) -> tuple[list[list[int]], Done]:
        specs = tuple(BranchSpec(seed, 10) for seed in range(n))
        events: list[Any] = self.engine.submit(self.engine.prepare(Generate("r", prompt, specs, **options)))
        while self.engine.has_work:
            events += self.engine.step()
            self.engine.check_invariants()
        deltas = [event for event in events if isinstance(event, Delta)]
        tokens = [[token for event in deltas if event.index == i for token in event.tokens] for i in range(n)]
        return tokens, next(event for event in events if isinstance(event, Done))

    def act(self, action: str, name: str = "", slot: int = 0) -> Any:
        events = self.engine.submit(self.engine.prepare(StateAction("s", action, name, slot)))
        while not events:  # the answer comes when the file is written
            assert self._woken.acquire(timeout=DEADLINE)
            events = self.engine.collect()
        [event] = events
        self.engine.check_invariants()
        assert self.engine.collect() == []
        assert isinstance(event, Reply | Rejected)
        return event.value if isinstance(event, Reply) else event.message

    def held(self) -> int:
        """How many tokens of the prompt need not be computed again."""
        return self.generate((PROMPT,))[1].cached_tokens


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[StateFolder]:
    made = a_folder(tmp_path)
    yield made
    close(made)


@pytest.mark.parametrize("memory", [{}, {"has_states": True}, {"supports_partial_reuse": False}])
def test_a_slots_text_is_restored_in_another_run_and_continued(tmp_path: Path, memory: dict[str, bool]) -> None:
    folder = a_folder(tmp_path)
    first = Session(folder, memory)
    texts, _ = first.generate((PROMPT,), n=3)
    saved = first.act("save", "chapter", slot=2)
    close(folder)
    tokens = [*FakeModel().tokenize(PROMPT, True, True), *texts[2]]
    assert saved["tokens"] == len(tokens) - 1  # the last one has not been computed
    assert saved["bytes"] > 0

    second = Session(a_folder(tmp_path), memory)
    restored = second.act("restore", "chapter")
    assert (restored["tokens"], restored["bytes"]) == (saved["tokens"], saved["bytes"])
    [[*text]], done = second.generate((*tokens, 7))
    assert done.cached_tokens == saved["tokens"]
    assert text == solo((*tokens, 7), seed=0).tokens[0]
    assert second.act("save", "again", slot=1)["tokens"] > saved["tokens"]
    assert second.act("save", "beginning", slot=0)["tokens"] == saved["tokens"], "within the text of slot 1"
    assert second.act("restore", "beginning", slot=0)["tokens"] == saved["tokens"]


@pytest.mark.parametrize("memory", [{}, {"has_states": True}, {"supports_partial_reuse": False}])
@pytest.mark.parametrize("at_hand", [2**28, 0])
def test_what_was_summed_as_it_was_restored_is_not_read_again(
    tmp_path: Path, memory: dict[str, bool], at_hand: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = a_folder(tmp_path)
    first = Session(folder, memory)
    first.generate((PROMPT,))
    saved = first.act("save", "chapter")
    tokens = first.engine._state_actions._texts.get(0).tokens  # type: ignore[union-attr]
    close(folder)
    monkeypatch.setattr(state_file, "_AT_HAND", at_hand)
    reads: list[str] = []
    whole = TextFolder.read

    def read(texts: TextFolder, record: Record) -> Blob | None:
        reads.append(record.id)
        return whole(texts, record)

    monkeypatch.setattr(TextFolder, "read", read)
    folder = a_folder(tmp_path)
    second = Session(folder, memory)
    assert second.act("restore", "chapter")["tokens"] == saved["tokens"]
    [[*text]], done = second.generate((*tokens, 7))
    assert done.cached_tokens == saved["tokens"]
    assert text == solo((*tokens, 7), seed=0).tokens[0]
    assert bool(reads) == (not at_hand)
    close(folder)


def test_without_a_folder_states_live_in_memory() -> None:
    session = Session(None)
    session.generate((PROMPT,))
    saved = session.act("save", "x")
    assert session.act("restore", "x", slot=5)["tokens"] == saved["tokens"]
    assert session.act("save", "y", slot=5)["tokens"] == saved["tokens"]


def test_a_text_that_waits_to_be_written_under_a_name_is_not_erased(folder: StateFolder) -> None:
    session = Session(folder)
    tokens = session.generate((PROMPT,))[0][0]
    hurried: list[Any] = []
    submit, prepare = session.engine.submit, session.engine.prepare
    hurried += submit(prepare(StateAction("s", "save", "chapter", 0)))
    hurried += submit(prepare(StateAction("e", "erase", "", 0)))  # another client's, before a part of it is written
    while not any(event.request_id == "s" for event in hurried):
        assert session._woken.acquire(timeout=DEADLINE)
        hurried += session.engine.collect()
    answers = {event.request_id: event for event in hurried}
    assert isinstance(answers["s"], Reply), answers["s"]
    assert answers["s"].value["tokens"] == len(FakeModel().tokenize(PROMPT, True, True)) + len(tokens) - 1
    assert isinstance(answers["e"], Reply)


def test_a_slot_that_is_told_to_forget_its_text_leaves_it_computed() -> None:
    session = Session(None)
    session.generate((PROMPT,))
    held = session.held()
    session.unix_time = 1.8e9
    session.generate((PROMPT,))
    session.unix_time = 1.9e9
    assert session.engine.serve_query(GetSlotTime("q", 0)) == 1.8e9
    assert session.act("forget") == {"tokens": 0, "bytes": 0, "ms": 1000.0}
    assert session.engine.serve_query(GetSlotTime("q", 0)) is None
    assert "has no text" in session.act("save", "none")
    assert session.held() == held


def test_each_conversation_is_saved_from_the_slot_that_it_asked_for() -> None:
    session = Session(None)
    fox, hen = ("the fox said",), ("the girl left a letter at the door",)
    session.generate(fox, id_slot=2)
    session.generate(hen, id_slot=0)
    session.generate((PROMPT,), n=3)  # another client's, which has asked for no slot
    lengths = {}
    for slot, prompt in ((2, fox), (0, hen)):
        lengths[slot] = session.act("save", f"slot-{slot}", slot=slot)["tokens"]
        assert session.act("restore", f"slot-{slot}", slot=slot)["tokens"] == lengths[slot]
        assert lengths[slot] == len(FakeModel().tokenize(prompt[0], True, True)) + 10 - 1
    assert lengths[0] != lengths[2]
    session.generate(fox, id_slot=2, cache_prompt=False)
    assert "has no text" in session.act("save", "none", slot=2)


def test_a_restored_slot_is_left_to_those_who_ask_for_it() -> None:
    session = Session(None)
    session.generate((PROMPT,))
    saved = session.act("save", "x")["tokens"]
    session.act("restore", "x", slot=1)
    session.generate(("the girl left",), n=3)
    assert session.act("save", "y", slot=1)["tokens"] == saved


def test_erasing_evicts_the_slots_text_and_no_shared_prefix() -> None:
    session = Session(None)
    texts, _ = session.generate((PROMPT,), n=2)
    prompt = FakeModel().tokenize(PROMPT, True, True)
    assert session.act("erase", slot=0)["tokens"] == len(texts[0]) - 1
    _, other = session.generate((*prompt, *texts[1]))
    assert other.cached_tokens == len(prompt) + len(texts[1]) - 1
    assert session.act("erase", slot=0)["tokens"] > 0
    assert session.act("erase", slot=0)["tokens"] == 0


def test_a_missing_text_cannot_be_saved_or_restored(folder: StateFolder) -> None:
    session = Session(folder)
    assert "has no text" in session.act("save", "x")
    assert "Unable to restore" in session.act("restore", "x")
    session.generate((PROMPT,))
    assert "has no text" in session.act("save", "x", slot=1)


def test_a_state_larger_than_the_memory_is_not_restored(tmp_path: Path) -> None:
    folder = a_folder(tmp_path)
    session = Session(folder)
    session.generate((PROMPT,))
    session.act("save", "x")
    close(folder)
    assert "Unable to restore" in Session(a_folder(tmp_path), cache_bytes=10).act("restore", "x")


def test_row_44_a_failed_save_is_reported_and_the_name_keeps_its_older_text(
    folder: StateFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = Session(folder)
    texts, _ = session.generate((PROMPT,))
    saved = session.act("save", "x")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    session.generate((PROMPT + " and then the fox",))
    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", full)
        assert "No space left" in session.act("save", "x")
        assert "No space left" in session.act("save", "y")
    assert session.act("restore", "x")["tokens"] == saved["tokens"]
    assert "Unable to restore" in session.act("restore", "y")
    assert session.act("save", "z")["tokens"] == saved["tokens"]
    close(folder)
    assert {path.name for path in (tmp_path / "states").glob("[!.]*")} == {"x.srbstate", "z.srbstate"}
    z = a_folder(tmp_path).load("z")
    assert z is not None
    assert list(z.tokens) == [*FakeModel().tokenize(PROMPT, True, True), *texts[0]][:-1]


def test_a_save_whose_text_cannot_be_written_says_why_and_the_next_one_succeeds(
    folder: StateFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    session = Session(folder)
    with monkeypatch.context() as broken:
        broken.setattr(texts_of(folder), "_write_file", full)
        session.generate((PROMPT,))
        assert session.act("save", "x") == (
            "The state x was not saved: No space left on device; an older one of its name is unchanged"
        )
    assert session.act("save", "x")["tokens"] > 0


def test_a_save_waits_for_the_disk_and_nothing_waits_for_the_save(
    folder: StateFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, fsync = threading.Event(), os.fsync
    monkeypatch.setattr(os, "fsync", lambda number: gate.wait(DEADLINE) and fsync(number))
    session = Session(folder)
    session.generate((PROMPT,))
    engine = session.engine
    assert engine.submit(engine.prepare(StateAction("save", "save", "x", 0))) == []
    assert session.held() > 0
    finish_saves(engine)
    assert engine.collect() == []
    gate.set()
    close(folder)
    [reply] = engine.collect()
    assert isinstance(reply, Reply)
    assert (reply.request_id, reply.value["tokens"] > 0) == ("save", True)


@pytest.mark.parametrize(
    ("action", "name", "slot", "field"),
    [
        ("burn", "x", 0, "action"),
        ("save", "", 0, "filename"),
        ("save", "x", -1, "id_slot"),
        ("restore", "../x", 0, "state"),
    ],
)
def test_bad_actions_are_refused(folder: StateFolder, action: str, name: str, slot: int, field: str) -> None:
    with pytest.raises(Exception, match=field):
        Session(folder).act(action, name, slot)


@pytest.mark.parametrize("n", [1, 3])
def test_the_texts_of_slots_are_counted_and_the_oldest_forgotten_beyond_their_budget(
    monkeypatch: pytest.MonkeyPatch, n: int
) -> None:
    session = Session(None)
    for slot in range(3):
        session.generate((PROMPT + str(slot),), n=n, id_slot=slot * n)
    counted = session.engine.stats()["slot_text_tokens"]
    texts = [session.engine._state_actions._texts.get(slot) for slot in range(3 * n)]
    prompts = {id(text.prompt): len(text.prompt) for text in texts if text is not None}
    assert counted == sum(prompts.values()) + sum(len(text.added) for text in texts if text is not None)
    monkeypatch.setattr(state_actions, "MAX_SLOT_TOKENS", counted - 1)
    session.generate(("a",), id_slot=3 * n)
    assert session.engine.stats()["slot_text_tokens"] <= counted - 1
    assert "has no text" in session.act("save", "oldest", slot=0)
    assert session.act("save", "newest", slot=3 * n)["tokens"]


def test_a_text_longer_than_the_budget_is_kept_while_it_is_the_newest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_actions, "MAX_SLOT_TOKENS", 1)
    session = Session(None)
    session.generate((PROMPT,), id_slot=0)
    session.generate((PROMPT,), id_slot=1)
    assert "has no text" in session.act("save", "older", slot=0)
    assert session.act("save", "newer", slot=1)["tokens"]


def test_an_erased_slot_leaves_no_token_counted() -> None:
    session = Session(None)
    session.generate((PROMPT,), n=3)
    for slot in range(16):
        session.act("erase", slot=slot)
    assert session.engine.stats()["slot_text_tokens"] == 0
