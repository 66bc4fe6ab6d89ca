"""Sampler chains of llama.cpp, with a grammar beside them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence, Set
from itertools import takewhile
from random import Random
from typing import Any, Protocol

import llama_cpp as lib
import numpy as np
import numpy.typing as npt

from srb.config.sampling_params import SamplingParams
from srb.engine.diversity import BEYOND_SEEDS, other_candidate
from srb.engine.grammar.matcher import Matcher
from srb.engine.llama import quadratic
from srb.engine.llama.dry import DrySamplers
from srb.engine.llama.quadratic import TOKEN_DATA
from srb.engine.llama.sampler_states import CLONED, REMEMBERING, SamplerStates, complete_adaptive
from srb.engine.model import Candidates, Logits, Model
from srb.engine.sampling import SEEDED, Stage, chain, is_greedy, remembered_tokens
from srb.engine.watching import MAX_TRIES, Watch, watch_of
from srb.errors import GrammarDeadEnd

FORBIDDEN = float("-inf")  # the bias of a forbidden token


class CandidateArray:
    """A llama_token_data_array over the whole vocabulary, for sampling from logits that Python holds.

    The decode thread alone may use it: llama.cpp computes on it while other threads run.
    """

    def __init__(self, n_vocab: int) -> None:
        self._ids = np.arange(n_vocab, dtype=np.int32)
        self._data = np.zeros(n_vocab, TOKEN_DATA)
        self._array = lib.llama_token_data_array()

    def fill(self, logits: Logits) -> Any:
        """Return the array by reference, holding every token with its logit; `logits` has shape (n_vocab,)."""
        self._data["id"] = self._ids
        self._data["logit"] = logits
        self._data["p"] = 0.0
        return _point(self._array, self._data)

    def fill_only(self, logits: Logits, tokens: npt.NDArray[np.intp]) -> Any:
        """Return the array by reference, holding the ids `tokens`, shape (n,), alone; `logits` has shape (n_vocab,)."""
        data = self._data[: len(tokens)]
        data["id"] = tokens
        data["logit"] = logits[tokens]
        data["p"] = 0.0
        return _point(self._array, data)

    @property
    def is_choice(self) -> bool:
        """Whether more than one candidate was left."""
        return bool(self._array.size > 1)

    @property
    def is_exhausted(self) -> bool:
        """Whether no token has a finite logit any more."""
        return not np.isfinite(self._data["logit"][: self._array.size]).any()

    def left(self) -> Candidates:
        """Return a copy of the candidates that the chain has left, with their probabilities."""
        # A sampler that drops the likeliest tokens moves the pointer.
        first = (ctypes.addressof(self._array.data.contents) - self._data.ctypes.data) // TOKEN_DATA.itemsize
        assert 0 <= first <= len(self._data) - self._array.size, "the candidates are elsewhere"
        left = self._data[first : first + self._array.size]
        with np.errstate(invalid="ignore"):  # of forbidden tokens alone: NaN
            weights = np.exp(left["logit"] - left["logit"].max())
        return Candidates(left["id"].copy(), weights / weights.sum())

    @property
    def selected(self) -> int:
        if not 0 <= self._array.selected < self._array.size:
            raise AssertionError("the sampler chain chose no token")
        return int(self._array.data[self._array.selected].id)


def _point(array: Any, data: np.ndarray[Any, Any]) -> Any:
    """Let a llama_token_data_array have `data`, which has to outlive it; return it by reference."""
    array.data = ctypes.cast(data.ctypes.data, ctypes.POINTER(lib.llama_token_data))
    array.size = len(data)
    array.selected = -1
    array.sorted = False
    return ctypes.byref(array)


def sample_ahead(choices: Sequence[tuple[LlamaSampler, int]]) -> None:
    for sampler, row in choices:
        sampler.look_ahead(row)


class SampledModel(Model, Protocol):
    """A model of llama.cpp as its samplers use it: its vocabulary, and the rows of the last decode."""

    dry: DrySamplers

    @property
    def unreadable(self) -> frozenset[int]: ...  # tokens that may not come
    @property
    def eog_token_list(self) -> list[int]: ...
    @property
    def vocab(self) -> Any: ...
    @property
    def candidates(self) -> CandidateArray: ...
    def tokens_of_bytes(self, text: bytes) -> list[int]: ...
    def sample_row(self, sampler: Any, row: int) -> int: ...


class LlamaSampler:
    """A llama.cpp sampler chain, with a grammar beside it as in llama-server.

    The chain begins with a ban of the tokens that end a text while `min_tokens` are to come; `_parts` follow.
    """

    def __init__(
        self, model: SampledModel, params: SamplingParams, seed: int, history: Sequence[int], min_tokens: int
    ) -> None:
        grammar = model.grammars.matcher(params.grammar, params.grammar_schemas) if params.grammar else None
        biases = biases_of(model, params, grammar.named if grammar else frozenset())
        self._forbidden = frozenset(token for token, bias in biases.items() if bias == FORBIDDEN)
        self._parts: tuple[Stage | None, ...] = ((None,) if biases else ()) + tuple(chain(params, seed))  # None: biases
        if params.grammar_triggers:
            model.tokens_of_bytes(b"")  # its table takes a while, and later the decode thread waits for it
        self._assemble(model, params, grammar, watch_of(params, model), min_tokens)
        for part in self._parts:
            lib.llama_sampler_chain_add(self._chain, build_stage(model, part) if part else _bias_sampler(model, biases))
        remembered = remembered_tokens(params)
        for token in history[-remembered:] if remembered else ():
            lib.llama_sampler_accept(self._chain, token)

    def _assemble(
        self, model: SampledModel, params: SamplingParams, grammar: Matcher | None, watch: Watch | None, min_tokens: int
    ) -> None:
        """Begin the chain and all other state that samplers do not share."""
        self._model = model
        self._params = params
        self._ends = frozenset((*model.eog_token_list, *params.stop_token_ids))
        self._allowed = np.unique(np.array(params.allowed_token_ids, np.intp)) if params.allowed_token_ids else None
        self._grammar = grammar
        self._watch = watch
        self._places: list[tuple[Any, int]] = []  # of watch and grammar, before each remembered token
        self._states: SamplerStates | None = None  # None: nothing is remembered
        self._chain = lib.llama_sampler_chain_init(lib.llama_sampler_chain_params(no_perf=True))
        # tokens before the ban of end-of-text tokens is lifted
        self._tokens_to_come = min_tokens if self._add_ban(min_tokens) else 0
        self._keeps_candidates = params.post_sampling_probs
        self._is_plain = self._can_be_plain
        self._candidates: Candidates | None = None
        self._ahead: int | None = None

    def _add_ban(self, tokens_to_come: int) -> bool:
        """Add a ban of the tokens that end a text to the empty chain if it is to last; return whether it was added."""
        model = self._model
        ban = _bias_sampler(model, dict.fromkeys(self._ends, FORBIDDEN)) if tokens_to_come > 0 else None
        if ban:
            lib.llama_sampler_chain_add(self._chain, ban)
        return bool(ban)

    def clone(self, seed: int, min_tokens: int = 0) -> LlamaSampler:
        """Return a sampler with the same settings, past tokens and place in the grammar, which draws by `seed`.

        The costly parts are cloned: DRY's sequence breakers, which are searched for in every token of the vocabulary, the
        grammar, and the biases. Stages that draw random numbers are built anew.
        """
        clone = LlamaSampler.__new__(LlamaSampler)
        clone._forbidden = self._forbidden
        drawing = {stage.name: stage for stage in chain(self._params, seed) if stage.name in SEEDED}
        clone._parts = tuple(drawing.get(part.name, part) if part else None for part in self._parts)
        watch = self._watch.copy() if self._watch is not None else None
        grammar = self._grammar.copy() if self._grammar is not None else None
        clone._assemble(self._model, self._params, grammar, watch, min_tokens)
        first = lib.llama_sampler_chain_n(self._chain) - len(self._parts)  # after the ban
        for place, part in enumerate(clone._parts, first):
            if part and part.name in SEEDED:
                native = build_stage(self._model, part)
            else:
                native = lib.llama_sampler_clone(lib.llama_sampler_chain_get(self._chain, place))
            lib.llama_sampler_chain_add(clone._chain, native)
        return clone

    @property
    def _can_be_plain(self) -> bool:
        looks = self._grammar is not None or self._watch is not None or self._allowed is not None
        return not looks and not self._keeps_candidates

    @property
    def is_plain(self) -> bool:
        """Whether the native chain alone samples the token."""
        return self._is_plain

    def look_ahead(self, row: int) -> None:
        """Sample the token that `sample` will return next; only if `is_plain`."""
        if self._states is not None:
            self._note_draw(self._states)
        self._ahead = self._model.sample_row(self._chain, row)

    def sample(self, row: int) -> int:
        if self._ahead is not None:
            token, self._ahead = self._ahead, None
            return self._count(token)
        if self._is_plain:
            if self._states is not None:
                self._note_draw(self._states)
            return self._count(self._model.sample_row(self._chain, row))
        return self.sample_from(self._model.logits(row))

    def sample_from(self, logits: Logits) -> int:
        self._note_state()
        if (forced := self._forced()) is not None:
            return self._accept(forced)
        token = self._choose(self._fill(logits))
        if (grammar := self._grammar_here) is not None and not grammar.allows(token):
            token = self._choose_within_grammar(logits)
        return self._accept(self._fitting(token, logits))

    def sample_apart(self, logits: Logits, taken: Set[int], seed: int) -> int:
        self._note_state()
        if (forced := self._forced()) is not None:
            return self._accept(forced)
        token = self._choose_within_grammar(logits)
        if token in taken:
            other = other_candidate(self._model.candidates.left(), taken, Random(seed + BEYOND_SEEDS).random())
            if other is None and is_greedy(self._params):
                other = self._next_likeliest(logits, taken)
            token = token if other is None else other
        return self._accept(self._fitting(token, logits))

    def sample_by(self, logits: Logits, take: Callable[[Candidates], int]) -> int:
        self._note_state()
        if (forced := self._forced()) is not None:
            return self._accept(forced)
        self._choose_within_grammar(logits)
        return self._accept(self._fitting(take(self._model.candidates.left()), logits))

    def _next_likeliest(self, logits: Logits, taken: Set[int]) -> int | None:
        """Return the likeliest token that may be sampled and is not taken; None if there is none."""
        ended = self._ends if self._tokens_to_come > 0 else ()
        rest = logits.copy()
        rest[[*taken, *self._forbidden, *ended]] = FORBIDDEN
        array = self._fill_within_grammar(rest)
        return None if self._model.candidates.is_exhausted else self._choose(array)

    # A lazy grammar and a reasoning budget ------------------------------------------------------------------------------

    @property
    def _grammar_here(self) -> Matcher | None:
        """The grammar, if it constrains the next token."""
        return self._grammar if self._watch is None or self._watch.is_on else None

    def _forced(self) -> int | None:
        """Return the token that has to come next, if there is one."""
        forced = self._watch.forced if self._watch is not None else None
        return None if forced is None else self._alone(forced)

    def _alone(self, token: int) -> int:
        """Return a token that has to come, which is then the only candidate."""
        if self._keeps_candidates:
            self._candidates = Candidates(np.array([token], np.int32), np.ones(1, np.float32))
        return token

    def _fitting(self, token: int, logits: Logits) -> int:
        """Return `token`, or another one where it would keep the grammar from beginning. Raise GrammarDeadEnd."""
        if self._watch is None or self._grammar is None or self._watch.is_on:
            return token
        if (other := self._watch.instead_of(token)) != token:
            return self._alone(other)
        return self._undecided(token, logits) if self._watch.is_undecided else self._beginning_well(token, logits)

    def _undecided(self, token: int, logits: Logits) -> int:
        """Return `token` if it goes on with the tag of reasoning or begins an answer, else the choice among such ones."""
        assert self._watch is not None
        begun = self._watch.begun_by(token)
        is_end = self._model.is_eog(token)
        if not is_end and (begun is None or self._begin_tokens(begun) is not None):
            return token
        text, lacking = self._watch.begun
        allowed = np.array([self._first_token(lacking)])
        if (tokens := self._begin_tokens(text)) is not None:
            assert self._grammar is not None
            trial = self._grammar.copy()
            for each in tokens:
                trial.accept(each)
            allowed = np.union1d(trial.allowed, allowed)
        array = self._fill(logits, allowed)
        if self._model.candidates.is_exhausted:
            raise GrammarDeadEnd("the grammar allows no token here")
        return self._choose(array)

    def _first_token(self, text: bytes) -> int:
        """Return the first token of a text that stands within another, where no space is put before it."""
        first = self._model.tokenize(text.decode(errors="replace"), add_special=False, parse_special=True)[0]
        piece = self._model.piece(first, special=True)
        return first if piece and text.startswith(piece) else self._model.tokens_of_bytes(text)[0]

    def _beginning_well(self, token: int, logits: Logits) -> int:
        """Return `token`, or another one where it completes a trigger of the grammar with text that the grammar forbids.

        Raise GrammarDeadEnd if many others do the same.
        """
        assert self._watch is not None
        rest: Logits | None = None
        for _ in range(MAX_TRIES):
            begun = self._watch.begun_by(token)
            if begun is None or self._begin_tokens(begun) is not None:
                return token
            rest = logits.copy() if rest is None else rest
            rest[token] = FORBIDDEN
            array = self._fill(rest)
            if self._model.candidates.is_exhausted:
                break
            token = self._choose(array)
        raise GrammarDeadEnd("every token begins the grammar in a way that it forbids")

    def _begin_tokens(self, begun: bytes) -> list[int] | None:
        """Return tokens of the text with which a lazy grammar begins; None if the grammar forbids it."""
        if not begun:
            return []
        assert self._grammar is not None
        tokens = self._model.tokens_of_bytes(begun)
        return tokens if self._grammar.takes(tokens) else None

    def _go_on_in_grammar(self, token: int) -> None:
        """Have grammar and watch accept a token."""
        tokens = [token] if self._grammar_here is not None else []
        begun = self._watch.accept(token) if self._watch is not None else None
        if begun is not None and self._grammar is not None:
            begin = self._begin_tokens(begun)
            if begin is None:
                raise GrammarDeadEnd("the text so far does not fit the grammar")
            tokens = begin
        for each in tokens:
            assert self._grammar is not None
            self._grammar.accept(each)

    def _accept(self, token: int) -> int:
        self._count(token)  # first: a forbidden token leaves the grammar where it is
        self._go_on_in_grammar(token)
        lib.llama_sampler_accept(self._chain, token)
        return token

    @property
    def grammar(self) -> Matcher | None:
        return self._grammar

    @property
    def forced(self) -> list[int]:
        tokens = self._grammar_here.forced if self._grammar_here is not None else []
        return list(takewhile(self._may_come, tokens))

    def _may_come(self, token: int) -> bool:
        """Whether the request's biases and its list of tokens leave a token."""
        return token not in self._forbidden and (self._allowed is None or token in self._allowed)

    def accept(self, token: int) -> None:
        self._accept(token)

    def accept_in_grammar(self, tokens: Sequence[int]) -> None:
        if self._grammar is None and self._watch is None:
            return
        for token in tokens:
            self._go_on_in_grammar(token)

    def _count(self, token: int) -> int:
        """Count a sampled token, and lift the ban of tokens that end the text when it is time.

        Raise GrammarDeadEnd for a forbidden token: the chain samples one even if all tokens are forbidden.
        """
        if token in self._forbidden or (self._tokens_to_come > 0 and token in self._ends):
            raise GrammarDeadEnd("the request's settings allow no token here")
        if self._states is not None:
            self._states.note(token)
        self._tokens_to_come -= 1
        if self._tokens_to_come == 0:
            lib.llama_sampler_free(lib.llama_sampler_chain_remove(self._chain, 0))
        return token

    def remember(self) -> None:
        remembering = [lib.llama_sampler_clone(native) for native in self._natives(REMEMBERING)]
        self._states = SamplerStates(remembering, self._natives(CLONED), self._dist)
        self._is_plain = self._is_plain and not self._is_adaptive  # whose draws are counted: only choices draw

    def stop_remembering(self) -> None:
        if self._states is not None:
            self._states.close()
        self._places.clear()
        self._states, self._is_plain = None, self._can_be_plain

    def forget(self, count: int) -> None:
        assert self._states is not None
        self._states.forget(count)
        del self._places[: len(self._places) - count]

    def rewind(self, count: int) -> None:
        assert self._states is not None
        state = self._states.take(count)
        self._tokens_to_come = state.tokens_to_come
        if self._is_adaptive:
            complete_adaptive(state.drawing[-1], self._states.draws)
        if self._places:
            watch_state, place = self._places[-count]
            del self._places[-count:]
            if self._watch is not None:
                self._watch.state = watch_state
            if self._grammar is not None:
                self._grammar.rewind(self._grammar.length - place)
        # All stages leave and come back, since a chain takes new ones at its end alone.
        old = [lib.llama_sampler_chain_remove(self._chain, 0) for _ in range(lib.llama_sampler_chain_n(self._chain))]
        for native in old[: len(old) - len(self._parts)]:  # the ban
            lib.llama_sampler_free(native)
        self._add_ban(self._tokens_to_come)
        fresh = {"dist": [state.dist]}
        fresh |= dict.fromkeys(CLONED, state.drawing) | dict.fromkeys(REMEMBERING, state.remembering)
        for part, native in zip(self._parts, old[len(old) - len(self._parts) :], strict=True):
            if part and part.name in fresh:
                lib.llama_sampler_free(native)
                lib.llama_sampler_chain_add(self._chain, fresh[part.name].pop(0))
            else:
                lib.llama_sampler_chain_add(self._chain, native)
        self._states.follow(self._natives(CLONED), self._dist)

    @property
    def _dist(self) -> Any:
        """The native stage `dist`, or None."""
        return next(iter(self._natives(frozenset({"dist"}))), None)

    @property
    def _is_adaptive(self) -> bool:
        last = self._parts[-1]
        return last is not None and last.name == "adaptive_p"

    def _natives(self, names: frozenset[str]) -> list[Any]:
        """Return the native stages of these names, in their order."""
        first = lib.llama_sampler_chain_n(self._chain) - len(self._parts)  # after the ban
        places = [place for place, part in enumerate(self._parts, first) if part and part.name in names]
        return [lib.llama_sampler_chain_get(self._chain, place) for place in places]

    def _note_state(self) -> None:
        """Note the state before a token is sampled, if states are remembered."""
        if self._states is not None:
            self._states.add(self._tokens_to_come)
            if self._grammar is not None or self._watch is not None:
                state = self._watch.state if self._watch is not None else None
                self._places.append((state, self._grammar.length if self._grammar is not None else 0))

    def _note_draw(self, states: SamplerStates) -> None:
        """Note the state before the native chain alone samples a token, with one draw."""
        states.add(self._tokens_to_come)
        states.draws += 1

    @property
    def candidates(self) -> Candidates:
        if self._candidates is None:
            raise AssertionError("the candidates were not asked for")
        return self._candidates

    def end_reasoning(self) -> bool:
        return self._watch is not None and self._watch.end_reasoning()

    def close(self) -> None:
        if self._chain:
            lib.llama_sampler_free(self._chain)
        self._chain = self._grammar = None
        self._places.clear()
        if self._states is not None:
            self._states.close()

    def _choose(self, array: Any) -> int:
        """Apply the chain; return the selected token."""
        lib.llama_sampler_apply(self._chain, array)
        token = self._model.candidates.selected
        if self._states is not None:
            self._states.draws += self._model.candidates.is_choice or not self._is_adaptive  # which draws for a choice
        if self._keeps_candidates:
            self._candidates = self._model.candidates.left()
        return token

    def _choose_within_grammar(self, logits: Logits) -> int:
        array = self._fill_within_grammar(logits)
        if self._grammar_here is not None and self._model.candidates.is_exhausted:
            raise GrammarDeadEnd("the grammar allows no token here")
        return self._choose(array)

    def _fill_within_grammar(self, logits: Logits) -> Any:
        return self._fill(logits, self._grammar_here.allowed if self._grammar_here is not None else None)

    def _fill(self, logits: Logits, allowed: npt.NDArray[np.intp] | None = None) -> Any:
        """Return the candidates: of `allowed`, None for all, those that the request allows."""
        if self._allowed is not None:
            allowed = self._allowed if allowed is None else np.intersect1d(self._allowed, allowed)
        candidates = self._model.candidates
        return candidates.fill(logits) if allowed is None else candidates.fill_only(logits, allowed)


def build_stage(model: SampledModel, stage: Stage) -> Any:
    """Return the native sampler of a stage."""
    vocab, args = model.vocab, stage.args
    match stage.name:
        case "penalties":
            return lib.llama_sampler_init_penalties(model.n_vocab, *args)
        case "mirostat":
            return lib.llama_sampler_init_mirostat(model.n_vocab, *args)
        case "infill":
            return lib.llama_sampler_init_infill(vocab)
        case "quadratic":
            return quadratic.new(*args)
        case "dry":
            return model.dry.new(*args)
        case name:
            return getattr(lib, f"llama_sampler_init_{name}")(*args)


def biases_of(model: SampledModel, params: SamplingParams, named: Set[int] = frozenset()) -> dict[int, float]:
    """Return the request's biases, summed per token, and the vocabulary's suppressed tokens as forbidden.

    So are marks of pictures where none are read, but those that its `logit_bias` or its grammar (`named`) asks for.
    """
    biases: dict[int, float] = {}
    for token, bias in params.logit_bias:
        value = FORBIDDEN if bias is None else bias
        tokens = [token] if isinstance(token, int) else model.tokenize(token, add_special=False, parse_special=False)
        for each in tokens:
            biases[each] = biases.get(each, 0.0) + value
    count = ctypes.c_int32()
    suppressed = lib.llama_vocab_get_suppress_tokens(model.vocab, ctypes.byref(count))
    biases |= dict.fromkeys(suppressed[: count.value] if count.value else (), FORBIDDEN)
    biases = dict.fromkeys(model.unreadable - named, FORBIDDEN) | biases
    if params.ignore_eos:
        biases |= dict.fromkeys(model.eog_token_list, FORBIDDEN)
    return biases


def _bias_sampler(model: SampledModel, biases: dict[int, float]) -> Any:
    if not biases:
        return None
    native = (lib.llama_logit_bias * len(biases))(*biases.items())
    return lib.llama_sampler_init_logit_bias(model.n_vocab, len(biases), native)
