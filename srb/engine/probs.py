"""Probabilities of sampled and likely tokens: of raw logits, or after the sampler chain."""

import re
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from srb.engine.model import Candidates, Logits, Model
from srb.wire.events import LikelyToken, TokenProbs

LEAST_LOGPROB = float(np.finfo(np.float32).min)  # of a probability of 0, as in llama-server: JSON has no infinity
# The beginning of a character that a later token completes; llama-server leaves it out of a token's text.
_CUT_CHARACTER = re.compile(rb"([\xc0-\xdf]|[\xe0-\xef].?|[\xf0-\xf7].{0,2})\Z", re.DOTALL)


def logprobs_of(logits: Logits) -> Logits:
    """Return the log-probabilities, in nats, of all tokens: shape (n_vocab,), as the logits."""
    largest = logits.max()
    logprobs: Logits = logits - (largest + np.log(np.exp(logits - largest).sum()))
    return logprobs


def entropy(logprobs: Logits) -> float:
    """Return the entropy, in nats, of a distribution with these log-probabilities, shape (n_vocab,)."""
    return -float(np.dot(np.exp(logprobs), np.maximum(logprobs, LEAST_LOGPROB)))  # 0 × −inf would be NaN


def token_probs(model: Model, logits: Logits, token: int, n_top: int, with_entropy: bool = False) -> TokenProbs:
    """Return {"id", "token", "bytes", "logprob", "top_logprobs": the `n_top` most likely, likeliest first}.

    `logits` has shape (n_vocab,); log-probabilities are in nats. `with_entropy` adds that of the place.
    """
    logprobs = logprobs_of(logits)
    [entry] = _entries(model, logprobs, [token], n_top)
    return {**entry, "entropy": entropy(logprobs)} if with_entropy else entry


def all_token_probs(model: Model, logits: Logits, tokens: Sequence[int], n_top: int) -> list[TokenProbs]:
    """Return the entries of several tokens at one place, as `token_probs` does."""
    return _entries(model, logprobs_of(logits), tokens, n_top)


def _entries(model: Model, logprobs: Logits, tokens: Sequence[int], n_top: int) -> list[TokenProbs]:
    n_top = min(n_top, len(logprobs))
    if n_top:
        top = np.argpartition(logprobs, len(logprobs) - n_top)[-n_top:]
        top = top[np.argsort(logprobs[top], kind="stable")[::-1]]
    else:
        top = np.empty(0, dtype=np.int64)
    likely: list[LikelyToken] = [_entry(model, int(other), logprobs[other]) for other in top]
    return [{**_entry(model, token, logprobs[token]), "top_logprobs": likely} for token in tokens]


def chosen_probs(model: Model, candidates: Candidates, token: int, n_top: int) -> TokenProbs:
    """Return {"id", "token", "bytes", "prob", "top_probs": the `n_top` likeliest with a probability above 0}."""
    ids, probs = candidates.ids, candidates.probs
    order = np.argsort(-probs, kind="stable")[:n_top]
    return {
        **_chosen(model, token, float(probs[ids == token].sum())),
        "top_probs": [_chosen(model, int(ids[i]), float(probs[i])) for i in order if probs[i] > 0],
    }


def behind(prob: TokenProbs, hidden: bytes, logprob: float = 0.0) -> TokenProbs:
    """Return the entry of a token that begins with the prompt's bytes `hidden`, as one of the text behind them.

    `logprob` is added to each; tokens that do not begin so are left out.
    """
    head = list(hidden)

    def cut(entry: Any) -> Any:
        piece = entry["bytes"][len(head) :]
        moved = {"logprob": max(entry["logprob"] + logprob, LEAST_LOGPROB)} if "logprob" in entry else {}
        return {**entry, **_text(bytes(piece)), **moved}

    lists = {
        name: [cut(each) for each in entries if each["bytes"][: len(head)] == head]
        for name, entries in prob.items()
        if isinstance(entries, list) and name.startswith("top_")
    }
    return cast(TokenProbs, {**cut(prob), **lists})


def unknown_prob(model: Model, token: int, with_entropy: bool = False) -> TokenProbs:
    """Return the entry of a prompt's first token, which nothing predicts."""
    entry: TokenProbs = {**_piece(model, token), "logprob": None, "top_logprobs": []}
    return {**entry, "entropy": None} if with_entropy else entry


def _entry(model: Model, token: int, logprob: np.float32) -> TokenProbs:
    return {**_piece(model, token), "logprob": max(float(logprob), LEAST_LOGPROB)}


def _chosen(model: Model, token: int, prob: float) -> TokenProbs:
    return {**_piece(model, token), "prob": prob}


def _piece(model: Model, token: int) -> TokenProbs:
    return cast(TokenProbs, {"id": token, **_text(model.piece(token))})


def _text(piece: bytes) -> dict[str, Any]:
    return {"token": _CUT_CHARACTER.sub(b"", piece).decode("utf-8", "replace"), "bytes": list(piece)}
