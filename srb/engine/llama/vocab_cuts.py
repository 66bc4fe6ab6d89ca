"""Cuts of a llama.cpp vocabulary: after which letters no token goes on with a space or a mark."""

from __future__ import annotations

import re
from typing import Any

import llama_cpp as lib

from srb.engine.cuts import MARKS, Cuts, spellings
from srb.engine.llama.strings import string_of

_SPECIAL = lib.LLAMA_TOKEN_ATTR_CONTROL | lib.LLAMA_TOKEN_ATTR_USER_DEFINED | lib.LLAMA_TOKEN_ATTR_UNKNOWN
_BEFORE = {sign: re.compile(f"(.)(?={'|'.join(spellings(sign))})", re.DOTALL) for sign in " " + MARKS}
_ANY = re.compile(f".[{''.join({spelling[0] for sign in _BEFORE for spelling in spellings(sign)})}]", re.DOTALL)
_MODELS = {"llama", "gpt2", "gemma4"}  # SPM and BPE, which merge neighbours into tokens of the vocabulary


def cuts_of(model: Any) -> Cuts | None:
    """Return the cuts of texts for a model's tokenizer, or None for a kind of vocabulary whose tokens may reach further.

    SPM merges two neighbours only into a token of the vocabulary, and no merge elsewhere plays a part in it. BPE does so
    within the words of its pre-tokenizer, and none of llama.cpp's (`llm_tokenizer_bpe` in llama-vocab.cpp) both has words
    with spaces or marks between letters and takes whole words before merges (`ignore_merges`). UGM compares sums of
    probabilities over the whole text, whose rounding depends on all of it; vocabularies of WPM are of models that
    generate nothing.
    """
    if string_of(lib.llama_model_meta_val_str, model, b"tokenizer.ggml.model") not in _MODELS:
        return None
    vocab = lib.llama_model_get_vocab(model)
    joined: dict[str, set[str]] = {sign: set() for sign in _BEFORE}
    for token in range(lib.llama_vocab_n_tokens(vocab)):
        text = lib.llama_vocab_get_text(vocab, token).decode("utf-8", "replace")
        if _ANY.search(text):
            for sign, before in _BEFORE.items():
                joined[sign].update(before.findall(text))
        if text and lib.llama_vocab_get_attr(vocab, token) & _SPECIAL:
            for letters in joined.values():
                letters.add(text[-1])
    return Cuts(joined)
