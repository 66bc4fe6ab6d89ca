"""Folders of named states, each with a folder of texts of its own, as engines of different machines have them."""

from __future__ import annotations

import itertools
import queue
from pathlib import Path

import numpy as np

from srb.engine.engine import Engine
from srb.engine.model import Record, SavedState, Scope
from srb.engine.process.state_folder import StateFolder
from srb.engine.process.text_folder import TextFolder
from srb.engine.tokens import tokens_of
from srb.errors import SRBError
from tests.processes import DEADLINE

_ENGINES = itertools.count()


def a_folder(tmp_path: Path, model: str = "model-a", max_bytes: int = 0) -> StateFolder:
    """Open `tmp_path`/states as an engine that has no text of others."""
    texts = TextFolder(tmp_path / "texts" / str(next(_ENGINES)), "a" * 32, 10**9)
    return StateFolder(tmp_path / "states", model, texts, max_bytes)


def texts_of(folder: StateFolder) -> TextFolder:
    return folder._texts_folder


def close(folder: StateFolder) -> None:
    """Write what is queued, and end the thread."""
    texts_of(folder).close(DEADLINE)


def wait_until_written(folder: StateFolder) -> None:
    """Wait for everything that is queued."""
    texts_of(folder).wait_for_writes()


def finish_saves(engine: Engine) -> None:
    """Let an engine write the texts of its names, as the loop does when it is woken."""
    engine.collect()
    while engine._named.is_busy:
        engine._residency.stored.wait(DEADLINE)
        engine.collect()


def a_text(folder: StateFolder, size: int = 1000, token: int = 5) -> SavedState:
    """Return a text of 9 tokens whose KV, so many bytes, is in the folder of texts."""
    texts, tokens = texts_of(folder), tokens_of([token] * 9)
    record = Record(texts.new_id(), "", 0, len(tokens), size, Scope())
    written: queue.SimpleQueue[bool] = queue.SimpleQueue()
    texts.write(record, tokens, np.full(size, token % 256, np.uint8), written.put)
    assert written.get(timeout=DEADLINE)
    return SavedState(tokens, [record])


def save(folder: StateFolder, name: str, size: int = 1000, token: int = 5) -> SRBError | None:
    """Save a state explicitly; return the error or None."""
    told: queue.SimpleQueue[SRBError | None] = queue.SimpleQueue()
    folder.save(name, a_text(folder, size, token), told.put)
    return told.get(timeout=DEADLINE)
