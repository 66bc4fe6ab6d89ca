"""A writer at an engine over a real model: an evening of continuing, cutting, editing and going back."""

from __future__ import annotations

import random
from typing import Any

from srb.config.sampling_params import SamplingParams
from srb.engine.engine import Engine, EngineOptions
from srb.engine.model import Model
from srb.wire.commands import BranchSpec, Generate
from srb.wire.events import Delta, PromptDone

N_CTX = 1024


def words(count: int, seed: int) -> list[int]:
    return random.Random(seed).choices(range(260, 500), k=count)


class Writer:
    """A writer at an engine: texts in, the likeliest continuation and the number of computed prompt tokens out."""

    def __init__(self, model: Model, cache_cells: int = 0, cache_bytes: int = 10**8, **options: Any) -> None:
        options |= {"cache_cells": cache_cells, "cache_bytes": cache_bytes}
        self.engine = Engine(model, EngineOptions(max_queue=10, **options), clock=iter(range(10**6)).__next__)

    def ask(self, prompt: list[int], n: int = 1, count: int = 12, **options: Any) -> tuple[list[list[int]], int]:
        """Return the tokens of each branch, and how many tokens of the prompt were computed."""
        specs = [
            BranchSpec(seed, count, sampling=SamplingParams(temperature=0 if n == 1 else 1, ignore_eos=True))
            for seed in range(n)
        ]
        self.engine.submit(self.engine.prepare(Generate("r", tuple(prompt), tuple(specs), **options)))
        tokens: list[list[int]] = [[] for _ in specs]
        computed = -1
        while self.engine.has_work:
            for event in self.engine.step():
                if isinstance(event, PromptDone):
                    computed = len(prompt) - event.cached_tokens
                elif isinstance(event, Delta):
                    tokens[event.index] += event.tokens
            self.engine.check_invariants()
        return tokens, computed


def evening(writer: Writer) -> list[tuple[str, list[int], list[int], int]]:
    """Return the name, the prompt, the continuation and the number of computed tokens of each step of a writer."""
    story, asked, turns = words(350, 1), [], []

    def ask(name: str, prompt: list[int]) -> list[int]:
        [tokens], computed = writer.ask(prompt)
        asked.append((name, prompt, tokens, computed))
        return tokens

    for turn in range(4):
        turns.append(story)
        branches, _ = writer.ask(story, n=3)
        story = [*story, *branches[turn % 3], *words(20, 10 + turn)]
    first = ask("continue", story)
    ask("take half", [*story, *first[:6]])
    ask("edit 200 tokens back", [*story[:-200], 499, *story[-199:]])
    ask("go back three turns", [*turns[1], *words(20, 99)])
    ask("fork in the middle of a branch", [*turns[1], 300])
    ask("the first words again", story[:60])
    return asked
