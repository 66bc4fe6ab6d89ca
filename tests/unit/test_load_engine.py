"""The engine that is loaded: the drafts that it makes, and those that it says it cannot make."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from srb.config.settings import Settings
from srb.engine import fake
from srb.engine.grammar import matcher
from srb.engine.process.__main__ import load_engine


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


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"spec_type": "ngram"}, "spec_type ngram"),
        ({"spec_type": "mtp"}, "spec_type mtp"),
        ({"spec_draft_model": "d.gguf"}, "spec_draft_model"),
    ],
)
def test_a_memory_that_cannot_be_cut_has_no_drafts_which_is_said_once(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    settings: dict[str, str],
    named: str,
) -> None:
    monkeypatch.setattr(fake, "FakeModel", partial(fake.FakeModel, supports_partial_reuse=False))
    assert load(tmp_path, **settings) == "none"
    [said] = [each.getMessage() for each in caplog.records if "no effect" in each.getMessage()]
    assert said == f"{named} has no effect: this model's memory cannot go back to any token"


def test_the_vocabulary_of_grammars_is_made_before_requests_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes a second or more for a large vocabulary, and nothing else runs meanwhile."""
    engine, _, close = load_engine(Settings(model="fake:", n_ctx=512, runtime_dir=str(tmp_path)), lambda percent: None)
    monkeypatch.setattr(matcher, "LLTokenizer", None)  # whoever made one now would fail
    assert engine.model.grammars.matcher('root ::= "a"').allowed.size == 1
    close()
