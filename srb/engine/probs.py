"""Probabilities of chosen and likely tokens: of raw logits, before temperature, penalties and truncation, or after."""

from __future__ import annotations

from typing import Any

import numpy as np

from srb.engine.model import Candidates, Logits, Model


def token_probs(model: Model, logits: Logits, token: int, n_top: int) -> dict[str, Any]:
    """Return {"id", "token", "bytes", "logprob", "top_logprobs": the `n_top` most likely, likeliest first}."""
    largest = logits.max()
    logprobs = logits - (largest + np.log(np.exp(logits - largest).sum()))
    n_top = min(n_top, len(logits))
    if n_top:
        top = np.argpartition(logprobs, len(logprobs) - n_top)[-n_top:]
        top = top[np.argsort(logprobs[top], kind="stable")[::-1]]
    else:
        top = np.empty(0, dtype=np.int64)
    return _entry(model, token, logprobs[token]) | {
        "top_logprobs": [_entry(model, int(other), logprobs[other]) for other in top]
    }


def chosen_probs(model: Model, candidates: Candidates, token: int, n_top: int) -> dict[str, Any]:
    """Return {"id", "token", "bytes", "prob", "top_probs": the `n_top` likeliest that had a chance}."""
    ids, probs = candidates.ids, candidates.probs
    order = np.argsort(-probs, kind="stable")[:n_top]
    return _piece(model, token) | {
        "prob": float(probs[ids == token].sum()),
        "top_probs": [_piece(model, int(ids[i])) | {"prob": float(probs[i])} for i in order if probs[i] > 0],
    }


def unknown_prob(model: Model, token: int) -> dict[str, Any]:
    """Return the entry of a token that nothing comes before."""
    return _piece(model, token) | {"logprob": None, "top_logprobs": []}


def _entry(model: Model, token: int, logprob: np.float32) -> dict[str, Any]:
    # JSON has no infinity; this is what a probability of zero in 32 bits comes to.
    return _piece(model, token) | {"logprob": max(float(logprob), -1e9)}


def _piece(model: Model, token: int) -> dict[str, Any]:
    piece = model.piece(token)
    return {"id": token, "token": piece.decode("utf-8", "replace"), "bytes": list(piece)}
