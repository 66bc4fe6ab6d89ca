"""Drafts on every kind of memory: right or wrong, they change no text and leave nothing behind."""

from __future__ import annotations

import pytest

from srb.engine.engine import Engine, EngineOptions
from srb.engine.lookup import Lookup
from srb.engine.model import Model
from srb.engine.speculation import can_draft
from srb.engine.tokens import Tokens
from tests.contract.rounding import needs_equal_texts
from tests.contract.test_model import generate


def engine_of(model: Model, max_draft: int) -> Engine:
    model.clear()
    ticks = iter(range(10**6))
    return Engine(model, EngineOptions(max_queue=10, max_draft=max_draft), clock=lambda: next(ticks) / 1000)


@needs_equal_texts
def test_drafts_change_no_text(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = generate(engine_of(model, 0), [50, 51, 52])

    def draft(_: Lookup, tokens: Tokens, most: int) -> list[int]:
        """Return what follows in the text that begins so; of each three tokens the last is wrong."""
        known = list(tokens)
        text = next((text for text in expected if text[: len(known)] == known), known)
        following = text[len(known) : len(known) + most]
        return [token if place % 3 < 2 else (token + 1) % model.n_vocab for place, token in enumerate(following)]

    monkeypatch.setattr(Lookup, "draft", draft)
    engine = engine_of(model, 4)
    assert generate(engine, [50, 51, 52]) == expected
    stats = engine.stats()
    assert (stats["spec_decode_num_accepted_tokens_total"] > 0) is can_draft(model)
    assert generate(engine, [50, 51, 52]) == expected  # the tree has no token that was not drawn
