"""The engine that is loaded: the drafts that it makes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from srb.engine.process.__main__ import load_engine
from srb.settings import Settings


def load(tmp_path: Path, **settings: Any) -> str:
    """Return the kinds of drafts of the loaded engine."""
    _, info, close = load_engine(
        Settings(model="fake:", n_ctx=512, runtime_dir=str(tmp_path), **settings), lambda percent: None
    )
    close()
    return info.speculative


@pytest.mark.parametrize(
    ("settings", "drafts"),
    [
        ({}, "none"),
        ({"spec_type": "ngram"}, "ngram-simple"),
        ({"spec_draft_model": "d.gguf"}, "draft-simple"),
        ({"spec_draft_model": "d.gguf", "spec_type": "both"}, "ngram-simple,draft-simple"),
        ({"spec_draft_model": "d.gguf", "spec_type": "none"}, "none"),
    ],
)
def test_the_model_tells_of_its_drafts(tmp_path: Path, settings: dict[str, str], drafts: str) -> None:
    assert load(tmp_path, **settings) == drafts
