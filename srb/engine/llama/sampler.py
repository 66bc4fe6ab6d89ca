"""Sampler chains and grammars of llama.cpp."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import llama_cpp as lib
import numpy as np

from srb.engine.llama.log import native_log
from srb.engine.llama.memory import copy_at
from srb.engine.model import Candidates, Logits
from srb.engine.sampling import SEEDED, Stage, chain, remembered_tokens
from srb.errors import GrammarDeadEnd, bad_field
from srb.protocol import SamplingParams

if TYPE_CHECKING:
    from srb.engine.llama.model import LlamaModel

FORBIDDEN = float("-inf")  # the bias of a forbidden token
CLONED_GRAMMAR = (
    16 * 1024
)  # characters; cloning a longer grammar, with thousands of alternatives, takes longer than parsing it
_TOKEN_DATA = np.dtype([("id", np.int32), ("logit", np.float32), ("p", np.float32)])
assert _TOKEN_DATA.itemsize == ctypes.sizeof(lib.llama_token_data)


class CandidateArray:
    """A llama_token_data_array over the whole vocabulary, for sampling from logits that Python holds."""

    def __init__(self, n_vocab: int) -> None:
        self._ids = np.arange(n_vocab, dtype=np.int32)
        self._data = np.zeros(n_vocab, _TOKEN_DATA)
        self._array = lib.llama_token_data_array()

    def fill(self, logits: Logits) -> Any:
        """Return the array by reference, holding every token with its logit."""
        self._data["id"] = self._ids
        self._data["logit"] = logits
        self._data["p"] = 0.0
        return self._point(self._data)

    def single(self, token: int) -> tuple[Any, np.ndarray[Any, Any]]:
        """Return an array of one token with logit 1, and its storage."""
        data = np.array([(token, 1.0, 0.0)], _TOKEN_DATA)
        return self._point(data), data

    @property
    def is_exhausted(self) -> bool:
        """Whether no token has a finite logit any more."""
        return not np.isfinite(self._data["logit"][: self._array.size]).any()

    def left(self) -> Candidates:
        """Return a copy of the candidates that the chain has left, with their probabilities."""
        # Read through the pointer: a sampler that drops the likeliest tokens moves it.
        left = copy_at(self._array.data, self._array.size, _TOKEN_DATA)
        weights = np.exp(left["logit"] - left["logit"].max())
        return Candidates(left["id"].copy(), weights / weights.sum())

    @property
    def selected(self) -> int:
        if not 0 <= self._array.selected < self._array.size:
            raise AssertionError("the sampler chain chose no token")
        return int(self._array.data[self._array.selected].id)

    def _point(self, data: np.ndarray[Any, Any]) -> Any:
        self._array.data = ctypes.cast(data.ctypes.data, ctypes.POINTER(lib.llama_token_data))
        self._array.size = len(data)
        self._array.selected = -1
        self._array.sorted = False
        return ctypes.byref(self._array)


def sample_ahead(choices: Sequence[tuple[LlamaSampler, int]]) -> None:
    for sampler, row in choices:
        sampler.look_ahead(row)


class LlamaSampler:
    """A llama.cpp sampler chain, with a grammar beside it as in llama-server.

    The chain begins with a ban of end-of-text tokens while `min_tokens` are to come; `_parts` follow.
    """

    def __init__(
        self, model: LlamaModel, params: SamplingParams, seed: int, history: Sequence[int], min_tokens: int
    ) -> None:
        biases = _biases(model, params)
        self._forbidden = frozenset(token for token, bias in biases.items() if bias == FORBIDDEN)
        self._parts: tuple[Stage | None, ...] = ((None,) if biases else ()) + tuple(chain(params, seed))  # None: biases
        self._assemble(model, params, _grammar(model, params.grammar) if params.grammar else None, min_tokens)
        for part in self._parts:
            lib.llama_sampler_chain_add(self._chain, _build(model, part) if part else _bias_sampler(model, biases))
        remembered = remembered_tokens(params)
        for token in history[-remembered:] if remembered else ():
            lib.llama_sampler_accept(self._chain, token)

    def _assemble(self, model: LlamaModel, params: SamplingParams, grammar: Any, min_tokens: int) -> None:
        """Begin the chain and all other state that samplers do not share."""
        self._model = model
        self._params = params
        self._grammar = grammar
        self._is_in_grammar = False  # whether it has accepted tokens
        self._chain = lib.llama_sampler_chain_init(lib.llama_sampler_chain_params(no_perf=True))
        ban = _bias_sampler(model, dict.fromkeys(model.eog_token_list, FORBIDDEN)) if min_tokens > 0 else None
        self._tokens_to_come = min_tokens if ban else 0  # before the ban of end-of-text tokens is lifted
        if ban:
            lib.llama_sampler_chain_add(self._chain, ban)
        self._keeps_candidates = params.post_sampling_probs
        self._candidates: Candidates | None = None
        self._ahead: int | None = None

    def clone(self, seed: int, min_tokens: int = 0) -> LlamaSampler:
        """Return a sampler with the same settings, past tokens and place in the grammar, which draws by `seed`.

        The costly parts are cloned: DRY's sequence breakers, which are searched for in every token of the vocabulary,
        the grammar's rules, and the biases. Stages that draw random numbers are built anew.
        """
        clone = LlamaSampler.__new__(LlamaSampler)
        clone._forbidden = self._forbidden
        drawing = {stage.name: stage for stage in chain(self._params, seed) if stage.name in SEEDED}
        clone._parts = tuple(drawing.get(part.name, part) if part else None for part in self._parts)
        clone._assemble(self._model, self._params, self._cloned_grammar(), min_tokens)
        clone._is_in_grammar = self._is_in_grammar
        first = lib.llama_sampler_chain_n(self._chain) - len(self._parts)  # after the ban
        for place, part in enumerate(clone._parts, first):
            if part and part.name in SEEDED:
                native = _build(self._model, part)
            else:
                native = lib.llama_sampler_clone(lib.llama_sampler_chain_get(self._chain, place))
            lib.llama_sampler_chain_add(clone._chain, native)
        return clone

    def _cloned_grammar(self) -> Any:
        if self._grammar is None:
            return None
        if not self._is_in_grammar and len(self._params.grammar) > CLONED_GRAMMAR:
            return _grammar(self._model, self._params.grammar)
        return lib.llama_sampler_clone(self._grammar)

    @property
    def is_plain(self) -> bool:
        """Whether the native chain alone samples the token."""
        return self._grammar is None and not self._keeps_candidates

    def look_ahead(self, row: int) -> None:
        """Sample the token that `sample` will return next; only if `is_plain`."""
        self._ahead = self._model.sample_row(self._chain, row)

    def sample(self, row: int) -> int:
        if self._ahead is not None:
            token, self._ahead = self._ahead, None
            return self._count(token)
        if self.is_plain:
            return self._count(self._model.sample_row(self._chain, row))
        return self.sample_from(self._model.logits(row))

    def sample_from(self, logits: Logits) -> int:
        candidates = self._model.candidates
        token = self._choose(candidates.fill(logits))
        if self._grammar is not None:
            if not self._grammar_allows(token):
                token = self._sample_within_grammar(logits)
            lib.llama_sampler_accept(self._grammar, token)
            self._is_in_grammar = True
        lib.llama_sampler_accept(self._chain, token)
        return self._count(token)

    def accept_in_grammar(self, tokens: Sequence[int]) -> None:
        for token in tokens if self._grammar is not None else ():
            if not self._grammar_allows(token):  # llama.cpp aborts
                raise GrammarDeadEnd("the text so far does not fit the grammar")
            lib.llama_sampler_accept(self._grammar, token)
            self._is_in_grammar = True

    def _count(self, token: int) -> int:
        """Count a sampled token, and lift the ban of end-of-text tokens when it is time.

        Raise GrammarDeadEnd for a forbidden token: the chain samples one even if all tokens are forbidden.
        """
        if token in self._forbidden or (self._tokens_to_come > 0 and self._model.is_eog(token)):
            raise GrammarDeadEnd("the request's settings allow no token here")
        self._tokens_to_come -= 1
        if self._tokens_to_come == 0:
            lib.llama_sampler_free(lib.llama_sampler_chain_remove(self._chain, 0))
        return token

    @property
    def candidates(self) -> Candidates:
        if self._candidates is None:
            raise AssertionError("the candidates were not asked for")
        return self._candidates

    def close(self) -> None:
        for native in (self._chain, self._grammar):
            if native:
                lib.llama_sampler_free(native)
        self._chain = self._grammar = None

    def _choose(self, array: Any) -> int:
        """Apply the chain; return the selected token."""
        lib.llama_sampler_apply(self._chain, array)
        token = self._model.candidates.selected
        if self._keeps_candidates:
            self._candidates = self._model.candidates.left()
        return token

    def _grammar_allows(self, token: int) -> bool:
        array, data = self._model.candidates.single(token)
        lib.llama_sampler_apply(self._grammar, array)
        return bool(np.isfinite(data["logit"][0]))

    def _sample_within_grammar(self, logits: Logits) -> int:
        """Sample again with the grammar applied to the whole vocabulary first. Slower, so only done when needed."""
        candidates = self._model.candidates
        array = candidates.fill(logits)
        lib.llama_sampler_apply(self._grammar, array)
        if candidates.is_exhausted:
            raise GrammarDeadEnd("the grammar allows no token here")
        token = self._choose(array)
        if not self._grammar_allows(token):  # the biases may leave only tokens that the grammar forbids
            raise GrammarDeadEnd("the grammar and the other settings allow no common token here")
        return token


def _build(model: LlamaModel, stage: Stage) -> Any:
    """Return the native sampler of a stage."""
    vocab, args = model.vocab, stage.args
    match stage.name:
        case "penalties":
            return lib.llama_sampler_init_penalties(model.n_vocab, *args)
        case "mirostat":
            return lib.llama_sampler_init_mirostat(model.n_vocab, *args)
        case "infill":
            return lib.llama_sampler_init_infill(vocab)
        case "dry":
            breakers = [breaker.encode() for breaker in args[4]]
            native = (ctypes.c_char_p * len(breakers))(*breakers)
            return lib.llama_sampler_init_dry(vocab, *args[:4], native, len(breakers))
        case name:
            return getattr(lib, f"llama_sampler_init_{name}")(*args)


def _grammar(model: LlamaModel, text: str) -> Any:
    with native_log.muted():
        native = lib.llama_sampler_init_grammar(model.vocab, text.encode(), b"root")
    if not native:
        raise bad_field("grammar", "Failed to parse grammar: it is not valid GBNF, or has no rule named root")
    return native


def _biases(model: LlamaModel, params: SamplingParams) -> dict[int, float]:
    """Return the request's biases, summed per token, and the vocabulary's suppressed tokens as forbidden."""
    biases: dict[int, float] = {}
    for token, bias in params.logit_bias:
        value = FORBIDDEN if bias is None else bias
        tokens = [token] if isinstance(token, int) else model.tokenize(token, add_special=False, parse_special=False)
        for each in tokens:
            biases[each] = biases.get(each, 0.0) + value
    count = ctypes.c_int32()
    suppressed = lib.llama_vocab_get_suppress_tokens(model.vocab, ctypes.byref(count))
    biases |= dict.fromkeys(suppressed[: count.value] if count.value else (), FORBIDDEN)
    if params.ignore_eos:
        biases |= dict.fromkeys(model.eog_token_list, FORBIDDEN)
    return biases


def _bias_sampler(model: LlamaModel, biases: dict[int, float]) -> Any:
    if not biases:
        return None
    native = (lib.llama_logit_bias * len(biases))(*biases.items())
    return lib.llama_sampler_init_logit_bias(model.n_vocab, len(biases), native)
