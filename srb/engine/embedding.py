"""Embeddings and rankings: whole texts, one bounded batch of them per step; nothing of them stays in the KV store."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from srb.engine.media import Vectors
from srb.engine.model import LoraScales, Model
from srb.errors import DecodeFailed, SRBError
from srb.wire.events import Event, Failed, Reply

POOLINGS = ("none", "mean", "cls", "last")  # llama.cpp's, except its last one, which ranks


@dataclass(slots=True)
class EmbeddingJob:
    """One Embed or Rerank command: its inputs as tokens, and the results so far, in order."""

    request_id: str
    kind: Literal["embed", "rank"]
    inputs: list[list[int]]
    pooling: str = "none"
    lora: LoraScales = ()
    results: list[Any] = field(default_factory=list)

    @property
    def reply(self) -> Reply:
        name = "embeddings" if self.kind == "embed" else "scores"
        return Reply(self.request_id, {name: self.results, "tokens": [len(tokens) for tokens in self.inputs]})

    def close(self) -> None:
        """Release nothing: a job holds no sampler."""


class EmbeddingQueue:
    """Jobs in the order of arrival; `step` computes the inputs that fit into one batch."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._jobs: dict[str, EmbeddingJob] = {}
        self.tokens_total = 0

    def __len__(self) -> int:
        return len(self._jobs)

    def __contains__(self, request_id: str) -> bool:
        return request_id in self._jobs

    @property
    def num_waiting(self) -> int:
        """Number of jobs of which the next step computes nothing."""
        return len(self._jobs) - len({job.request_id for job, _ in self._take()}) if self._jobs else 0

    @property
    def next_tokens(self) -> int:
        """Most tokens that the next step computes."""
        return self._model.n_embed_tokens if self._jobs else 0

    def add(self, job: EmbeddingJob) -> None:
        self._jobs[job.request_id] = job

    def end(self, request_id: str, error: SRBError) -> list[Event]:
        """Fail a job with `error`; unknown ids are ignored."""
        if self._jobs.pop(request_id, None) is None:
            return []
        return [Failed(request_id, error.code, error.message)]

    def end_all(self, error: SRBError) -> list[Event]:
        return [event for request_id in list(self._jobs) for event in self.end(request_id, error)]

    def step(self, most: int | None = None) -> list[Event]:
        """Compute one batch; return the replies that are complete, or Failed for its jobs.

        It has one input at least, and others as long as they have at most `most` tokens together; None: as many as fit.
        """
        if not self._jobs:
            return []
        taken = self._take(most)
        inputs = [tokens for _, tokens in taken]
        job = taken[0][0]
        results = self._model.embed(inputs, job.lora) if job.kind == "embed" else self._model.rank(inputs, job.lora)
        if results is None:
            error = DecodeFailed("llama.cpp could not compute these inputs")
            failed = dict.fromkeys(job.request_id for job, _ in taken)
            return [event for request_id in failed for event in self.end(request_id, error)]
        for (job, tokens), result in zip(taken, results, strict=True):
            job.results.append(pool(result, job.pooling).tolist() if isinstance(result, np.ndarray) else result)
            self.tokens_total += len(tokens)
        done = [job for job in self._jobs.values() if len(job.results) == len(job.inputs)]
        for job in done:
            del self._jobs[job.request_id]
        return [job.reply for job in done]

    def _take(self, most: int | None = None) -> list[tuple[EmbeddingJob, list[int]]]:
        """Return the next inputs of the oldest job, and of others of its kind, as many as fit into a batch."""
        first = next(iter(self._jobs.values()))
        taken: list[tuple[EmbeddingJob, list[int]]] = []
        room = self._model.n_embed_tokens
        wanted = room if most is None else most
        for job in self._jobs.values():
            for tokens in job.inputs[len(job.results) :] if (job.kind, job.lora) == (first.kind, first.lora) else ():
                if len(tokens) > room or len(taken) == self._model.n_embed_inputs:
                    return taken
                taken.append((job, tokens))
                wanted -= len(tokens)
                room = min(room - len(tokens), wanted)
        return taken


def pool(rows: Vectors, pooling: str) -> Vectors:
    """Pool the vectors of a text's tokens, shape (tokens, n_embd), into one, shape (1, n_embd); "none" returns all."""
    match pooling:
        case "mean":
            mean: Vectors = rows.mean(axis=0, keepdims=True)
            return mean
        case "cls":
            return rows[:1]
        case "last":
            return rows[-1:]
        case _:
            return rows


def truncated(tokens: list[int], most: int, end: list[int]) -> list[int]:
    """Return the first `most` tokens of a text. The `end` that a vocabulary gives to each text stays the last one."""
    if len(tokens) <= most:
        return tokens
    last = end if tokens[-1:] == end else []
    return [*tokens[: most - len(last)], *last]


def count_numbers(inputs: Sequence[Sequence[int]], pooling: str, n_embd: int) -> int:
    """Return the number of floats in the reply."""
    return n_embd * (sum(map(len, inputs)) if pooling == "none" else len(inputs))
