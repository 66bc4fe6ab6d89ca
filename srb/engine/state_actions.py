"""Saving, restoring and erasing the text of a branch by hand, under a name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from srb.engine.model import SavedState, Scales
from srb.engine.named_states import NamedStates
from srb.engine.request import Branch
from srb.errors import InvalidRequest, bad_field

ACTIONS = ("save", "restore", "erase")


@dataclass(slots=True)
class StateJob:
    """A StateAction command with what its file holds."""

    request_id: str
    action: str
    name: str
    slot: int
    saved: SavedState | None

    def close(self) -> None:
        """Release nothing: a job holds no sampler."""


@dataclass(frozen=True, slots=True)
class _Text:
    """A prompt and what a branch has added to it; the lists are the branch's own, not copies."""

    prompt: list[int]
    added: list[int]
    lora: Scales

    @property
    def tokens(self) -> list[int]:
        return [*self.prompt, *self.added]


_NOTHING = _Text([], [], ())


class StateActions:
    """Remembers which text the branch of each index had that ended last, and acts on it."""

    def __init__(self, states: NamedStates, clock: Callable[[], float]) -> None:
        self._states = states
        self._clock = clock
        self._texts: dict[int, _Text] = {}  # by index

    def note_end(self, branch: Branch) -> None:
        """Remember the text of a branch whose KV the tree keeps."""
        self._texts[branch.index] = _Text(branch.request.prefix.tokens, branch.tokens, branch.request.lora)

    def act(self, job: StateJob) -> dict[str, Any]:
        """Return {"tokens", "bytes", "ms"}. Raise InvalidRequest where there is nothing to act on."""
        began = self._clock()
        match job.action:
            case "save":
                tokens, size = self._save(job)
            case "restore":
                tokens, size = self._restore(job)
            case _:
                text = self._texts.pop(job.slot, _NOTHING)
                tokens, size = self._states.forget(text.tokens, text.lora), 0
        return {"tokens": tokens, "bytes": size, "ms": (self._clock() - began) * 1000}

    def _save(self, job: StateJob) -> tuple[int, int]:
        text = self._texts.get(job.slot, _NOTHING)
        state = self._states.save(job.name, text.tokens, text.lora)
        if state is None:
            raise InvalidRequest(f"Slot {job.slot} has no text that could be saved")
        return len(state.tokens), len(state.blob)

    def _restore(self, job: StateJob) -> tuple[int, int]:
        kept = self._states.kept(job.name)
        if kept is None and job.saved is not None:
            self._states.adopt(job.saved)
            kept = (job.saved.tokens, job.saved.lora)
        held = self._states.held(*kept) if kept else 0
        if kept is None or not held:
            raise InvalidRequest("Unable to restore slot, no available space in KV cache or invalid slot save file")
        tokens, lora = kept
        self._texts[job.slot] = _Text(tokens, [], lora)
        return held, len(job.saved.blob) if job.saved else 0


def check_action(action: str, name: str, slot: int) -> None:
    """Raise InvalidRequest for an action that does not exist, or lacks its name."""
    if action not in ACTIONS:
        raise bad_field("action", f"should be one of {', '.join(ACTIONS)}")
    if action != "erase" and not name:
        raise bad_field("filename", "should not be empty")
    if slot < 0:
        raise bad_field("id_slot", "should not be negative")
