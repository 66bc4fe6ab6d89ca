"""Texts that lie on the disk go on, after a restart, as if the server had never ended: token by token, logit by logit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from srb.config.sampling_params import SamplingParams
from srb.engine.engine import Engine, EngineOptions
from srb.engine.llama.model import LlamaModel
from srb.engine.process.text_folder import TextFolder
from srb.wire.commands import BranchSpec, Generate
from srb.wire.events import Delta, PromptDone
from tests.contract.conftest import BESIDE_STATES
from tests.contract.writers import words
from tests.models.random_gguf import TINY, WRITERS, write_lora

Load = Callable[..., LlamaModel]
SMALL = {"swa_full": "off"}
MEMORIES = {
    "attention": ("llama", {}),
    "quantized cells": ("llama, 32", {"cache_type_k": "q8_0", "cache_type_v": "q8_0"}),
    "whole windows": ("gemma3", {"swa_full": "on"}),
    "newest windows": ("gemma3", SMALL),
    "newest windows with sinks": ("gpt-oss", SMALL),
    "recurrent": ("mamba2", {}),
    "recurrent, RWKV": ("rwkv7", {}),
    "hybrid": ("lfm2", {}),
    "hybrid, both in a layer": ("falcon-h1", {}),
    "hybrid, delta net": ("qwen3next", {}),
    "hybrid with windows": ("lfm2, windows", {}),
    "whole texts": (BESIDE_STATES, {"n_ctx": 9 * 32 + 63, "n_seq_max": 32}),
}
STORY = words(150, 1)
N = 4
EVERY = 32


def test_a_context_that_changes_what_positions_are_is_a_fact_of_its_texts(
    load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load("llama")
    known = {"general.architecture": "phi3", "phi3.rope.scaling.original_context_length": str(model.n_ctx - 1)}
    assert model.rope_facts == []
    monkeypatch.setattr(model, "_metadata", lambda key: known.get(key, ""))
    assert model.rope_facts == ["long context"]
    known["phi3.rope.scaling.original_context_length"] = str(model.n_ctx)
    assert model.rope_facts == []


class Told:
    """An engine, and what it has told: of each request its branches, its cached tokens and the logits after its prompt."""

    def __init__(self, model: LlamaModel, folder: Path | None, **options: Any) -> None:
        self.texts = TextFolder(folder, "m", 10**9) if folder is not None else None
        options = {"cache_cells": 0, "cache_bytes": 10**8, "checkpoint_every": EVERY} | options
        asked = EngineOptions(max_queue=10, **options)
        self.engine = Engine(model, asked, clock=iter(range(10**6)).__next__, texts=self.texts)

    def ask(self, *prompt: str | int, n: int = N, sampling: dict[str, Any] | None = None, **options: Any) -> Any:
        """Return the tokens of each branch, how many of the prompt's were known, and the logits after it."""
        params = SamplingParams(**({"temperature": 1.0, "ignore_eos": True} | (sampling or {})))
        is_healed = options.pop("token_healing", False)
        specs = tuple(BranchSpec(seed, 24, sampling=params, token_healing=is_healed) for seed in range(n))
        request = self.engine.prepare(Generate("r", prompt, specs, **options))
        self.engine.submit(request)
        tokens: list[list[int]] = [[] for _ in specs]
        cached, logits = -1, np.empty(0, np.float32)
        while self.engine.has_work:
            for event in self.engine.step():
                if isinstance(event, PromptDone):
                    cached, logits = event.cached_tokens, request.prefix.logits.copy()
                elif isinstance(event, Delta):
                    tokens[event.index] += event.tokens
            self.engine.check_invariants()
        return tokens, cached, logits

    def end(self, is_killed: bool) -> None:
        """Leave the texts on the disk: those that were written when nothing was left to write, or all in order."""
        assert self.texts is not None
        if not is_killed:
            self.engine.store_texts(1e6)
        while self.engine._residency.stored.is_busy:
            self.engine.collect()
            self.texts.wait(0.01)
        self.texts.close(60)


@pytest.fixture(params=MEMORIES)
def memory(request: pytest.FixtureRequest, load: Load, tmp_path: Path) -> LlamaModel:
    arch, changes = MEMORIES[request.param]
    if arch == "llama, 32":  # numbers of a head: as many as a block has
        changes, arch = (
            changes
            | {
                "model": str(WRITERS["llama"](tmp_path / "m.gguf", replace(TINY, dim=128))),
            },
            "llama",
        )
    return load(arch, **{"n_seq_max": 8, "flash_attn": "on", "cache_type_k": "f16", "cache_type_v": "f16"} | changes)


def continuations(told: Told, story: list[int], branches: list[list[int]]) -> Iterator[tuple[str, Any]]:
    """Yield the answers to what a writer asks who opens a story again."""
    for index, branch in enumerate(branches):
        yield f"branch {index} goes on", told.ask(*story, *branch, 300)
    yield "half of a branch", told.ask(*story, *branches[1][:12], 301)
    yield "going back", told.ask(*story[:-50], 302)
    yield "the same again", told.ask(*story)


@pytest.mark.parametrize("is_killed", [True, False], ids=["killed", "ended"])
def test_a_story_goes_on_after_a_restart_as_without_one(memory: LlamaModel, tmp_path: Path, is_killed: bool) -> None:
    story, lasting = STORY if memory.supports_partial_reuse else STORY[:60], Told(memory, None)
    branches, _, _ = lasting.ask(*story)
    expected = dict(continuations(lasting, story, branches))
    memory.clear()
    first = Told(memory, tmp_path)
    assert first.ask(*story)[0] == branches
    first.end(is_killed)
    memory.clear()
    second = Told(memory, tmp_path)
    for name, answer in continuations(second, story, branches):
        tokens, cached, logits = expected[name]
        assert answer[0] == tokens, name
        # Not all states that stand close together are stored, nor are the logits after a prompt.
        assert answer[1] >= cached - EVERY * memory.has_states or name == "the same again", name
        assert np.array_equal(answer[2], logits), name
    assert second.engine.stats()["stored_tokens_read_total"] >= len(story)
    second.end(True)


@pytest.mark.parametrize(
    "asked",
    [
        {"token_healing": True},
        {"sampling": {"grammar": 'root ::= ("the " | "king" | [a-z ])+'}},
        {"sampling": {"repeat_penalty": 1.3, "repeat_last_n": 64, "dry_multiplier": 0.8, "mirostat": 2}},
        {"distinct_first": True},
        {"distinct_words": True},
        {"sibling_penalty": 1.5},
        {"lora": ((0, 0.5),)},
        {"cache_salt": "mine"},
    ],
    ids=lambda asked: next(iter(asked.get("sampling", asked))),
)
def test_however_it_is_continued_a_text_is_the_one_of_a_server_that_never_ended(
    load: Load, tmp_path: Path, asked: dict[str, Any]
) -> None:
    prompt = ("the old king said to the girl near the river that the boat was lo", *words(60, 2), "the old ki")
    lora = {"lora": f"{write_lora(tmp_path / 'a.gguf', TINY)}=1"} if "lora" in asked else {}
    model = load("llama", n_seq_max=8, flash_attn="on", cache_type_k="f16", cache_type_v="f16", **lora)
    lasting = Told(model, None)
    lasting.ask(*prompt, **asked)
    expected = lasting.ask(*prompt, **asked)
    model.clear()
    first = Told(model, tmp_path)
    first.ask(*prompt, **asked)
    first.end(is_killed=True)
    model.clear()
    second = Told(model, tmp_path)
    found = second.ask(*prompt, **asked)
    assert found[0] == expected[0]
    assert np.array_equal(found[2], expected[2])
    assert second.engine.stats()["stored_tokens_read_total"] > 60
    second.end(is_killed=True)
