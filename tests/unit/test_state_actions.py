"""Saving, restoring and erasing a slot's text, in memory and on disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from srb.engine.core import Engine
from srb.engine.fake import FakeModel
from srb.engine.model import StateStore
from srb.engine.states import StateFolder
from srb.protocol import Answer, BranchSpec, Delta, Done, Generate, Rejected, StateAction
from tests.engine_helpers import solo

PROMPT = "the old king said to the girl near the river that the boat was lost"


class Session:
    """One run of a server."""

    def __init__(self, states: StateStore | None, can_cut: bool = True, cache_bytes: int = 10**6) -> None:
        model = FakeModel(can_cut=can_cut)
        clock = iter(range(10**6)).__next__
        self.engine = Engine(model, max_queue=9, clock=clock, cache_bytes=cache_bytes, states=states)

    def generate(self, prompt: tuple[str | int, ...], n: int = 1) -> tuple[list[list[int]], Done]:
        specs = tuple(BranchSpec(seed, 10) for seed in range(n))
        events: list[Any] = self.engine.submit(self.engine.prepare(Generate("r", prompt, specs)))
        while self.engine.has_work:
            events += self.engine.step()
            self.engine.check_invariants()
        deltas = [event for event in events if isinstance(event, Delta)]
        tokens = [[token for event in deltas if event.index == i for token in event.tokens] for i in range(n)]
        return tokens, next(event for event in events if isinstance(event, Done))

    def act(self, action: str, name: str = "", slot: int = 0) -> Any:
        [event] = self.engine.submit(self.engine.prepare(StateAction("s", action, name, slot)))
        self.engine.check_invariants()
        assert isinstance(event, Answer | Rejected)
        return event.value if isinstance(event, Answer) else event.message


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[StateFolder]:
    made = StateFolder(tmp_path / "states", "model-a")
    yield made
    made.close()


@pytest.mark.parametrize("can_cut", [True, False])
def test_a_slots_text_is_restored_in_another_run_and_continued(tmp_path: Path, can_cut: bool) -> None:
    folder = StateFolder(tmp_path / "states", "model-a")
    first = Session(folder, can_cut)
    texts, _ = first.generate((PROMPT,), n=3)
    saved = first.act("save", "chapter", slot=2)
    folder.close()
    tokens = [*FakeModel().tokenize(PROMPT, True, True), *texts[2]]
    assert saved["tokens"] == len(tokens) - 1  # the last one has not been computed
    assert saved["bytes"] > 0

    second = Session(StateFolder(tmp_path / "states", "model-a"), can_cut)
    restored = second.act("restore", "chapter")
    assert (restored["tokens"], restored["bytes"]) == (saved["tokens"], saved["bytes"])
    [[*text]], done = second.generate((*tokens, 7))
    assert done.cached_tokens == saved["tokens"]
    assert text == solo((*tokens, 7), seed=0).tokens[0]
    assert second.act("save", "again")["tokens"] > saved["tokens"]


def test_without_a_folder_states_live_in_memory() -> None:
    session = Session(None)
    session.generate((PROMPT,))
    saved = session.act("save", "x")
    assert session.act("restore", "x", slot=5)["tokens"] == saved["tokens"]
    assert session.act("save", "y", slot=5)["tokens"] == saved["tokens"]


def test_erasing_forgets_the_slots_text_and_nothing_that_others_stand_on() -> None:
    session = Session(None)
    texts, _ = session.generate((PROMPT,), n=2)
    prompt = FakeModel().tokenize(PROMPT, True, True)
    assert session.act("erase", slot=0)["tokens"] == len(texts[0]) - 1
    _, other = session.generate((*prompt, *texts[1]))
    assert other.cached_tokens == len(prompt) + len(texts[1]) - 1
    assert session.act("erase", slot=0)["tokens"] > 0
    assert session.act("erase", slot=0)["tokens"] == 0


def test_what_is_not_there_cannot_be_saved_or_restored(folder: StateFolder) -> None:
    session = Session(folder)
    assert "has no text" in session.act("save", "x")
    assert "Unable to restore" in session.act("restore", "x")
    session.generate((PROMPT,))
    assert "has no text" in session.act("save", "x", slot=1)


def test_what_the_memory_has_no_place_for_is_not_restored(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path / "states", "model-a")
    session = Session(folder)
    session.generate((PROMPT,))
    session.act("save", "x")
    folder.close()
    assert "Unable to restore" in Session(StateFolder(tmp_path / "states", "model-a"), cache_bytes=10).act(
        "restore", "x"
    )


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
