"""Slots: the branch that runs in each sequence, for GET /slots."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from srb.engine.model import Model
from srb.engine.request import Branch, BranchState, Request
from srb.protocol import SamplingParams


def slots(model: Model, requests: Iterable[Request]) -> list[dict[str, Any]]:
    """Return a dict for every sequence that a branch may use.

    Keys: id, n_ctx, is_processing. With a running branch also request_id, index, n_prompt_tokens,
    n_prompt_tokens_processed, n_prompt_tokens_cache, has_new_line, n_decoded, n_remain (−1: no limit), max_tokens, seed
    and sampling (SamplingParams' fields).
    """
    running = {branch.seq_id: branch for request in requests for branch in request.in_state(BranchState.RUNNING)}
    return [
        {"id": seq_id, "n_ctx": model.n_ctx_seq, "is_processing": seq_id in running}
        | (_running(running[seq_id]) if seq_id in running else {})
        for seq_id in range(model.n_seq_max)
    ]


def _running(branch: Branch) -> dict[str, Any]:
    request, limit = branch.request, branch.spec.max_tokens
    cached = request.prefix.num_cached or 0
    return {
        "request_id": request.request_id,
        "index": branch.index,
        "n_prompt_tokens": request.num_prompt,
        "n_prompt_tokens_processed": request.num_prompt - cached,
        "n_prompt_tokens_cache": cached,
        "has_new_line": branch.has_new_line,
        "n_decoded": branch.length,
        "n_remain": limit - branch.length if limit >= 0 else -1,
        "max_tokens": limit,
        "seed": branch.spec.seed,
        "sampling": {field.name: getattr(branch.spec.sampling, field.name) for field in fields(SamplingParams)},
    }
