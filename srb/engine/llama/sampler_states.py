"""Earlier states of a sampler chain, to which it can be rewound."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import llama_cpp as lib

from srb.engine.sampling import SEEDED

REMEMBERING = frozenset({"penalties", "dry"})  # stages that look at past tokens
CLONED = SEEDED - {"dist"}  # stages that are cloned for each state, as their draws depend on the candidates
LAG = 64  # draws, or four times as many while tokens are held back; each is made again in half a microsecond


@dataclass(slots=True)
class _State:
    """The state before a token: clones of the drawing stages, and the sampler's counts of then."""

    drawing: list[Any]
    tokens_to_come: int
    draws: int
    token: int = -1  # sampled from this state


@dataclass(frozen=True, slots=True)
class StateParts:
    """The parts of a state that a sampler is to have: native stages, which are its own, and tokens to come."""

    drawing: list[Any]
    remembering: list[Any]
    dist: Any
    tokens_to_come: int


class SamplerStates:
    """The states before a sampler's last tokens.

    Stages that draw random numbers are cloned for each state. Stages that remember tokens are cloned once: these clones
    have accepted all tokens before the oldest state, and a rewind has clones of them accept the others.
    `dist`, the usual one, draws once a choice, and is treated alike: its clone lags behind, and a rewind draws again.
    """

    def __init__(self, remembering: Sequence[Any], drawing: Sequence[Any], dist: Any) -> None:
        """Take ownership of `remembering`, clones as they are now; `drawing` and `dist` (or None) are the sampler's own."""
        self._remembering = list(remembering)
        self._states: list[_State] = []
        self.follow(drawing, dist)
        self._lagging = lib.llama_sampler_clone(dist) if dist else None
        self._lagging_draws = 0
        self.draws = 0  # so far, by the last stage

    def follow(self, drawing: Sequence[Any], dist: Any) -> None:
        """Take note of the stages that the sampler now has."""
        self._drawing, self._dist = drawing, dist

    def add(self, tokens_to_come: int) -> None:
        """Add the state before the next token."""
        clones = [lib.llama_sampler_clone(native) for native in self._drawing] if self._drawing else []
        self._states.append(_State(clones, tokens_to_come, self.draws))

    def note(self, token: int) -> None:
        """Note the token that was sampled from the newest state."""
        self._states[-1].token = token

    def forget(self, count: int) -> None:
        """Forget all but the newest `count` states."""
        old = len(self._states) - count
        if self._remembering or self._drawing:
            for state in self._states[:old]:
                for native in self._remembering:
                    lib.llama_sampler_accept(native, state.token)
                _free(state.drawing)
        del self._states[:old]
        behind = self.draws - self._lagging_draws
        if behind > LAG and self._dist and (not self._states or behind > 4 * LAG):
            self._catch_up()

    def _catch_up(self) -> None:
        """Bring the lagging clone of `dist` to the oldest state."""
        if self._states:
            draw_again(self._lagging, self._states[0].draws - self._lagging_draws)
            self._lagging_draws = self._states[0].draws
        else:
            lib.llama_sampler_free(self._lagging)
            self._lagging, self._lagging_draws = lib.llama_sampler_clone(self._dist), self.draws

    def take(self, count: int) -> StateParts:
        """Remove the newest `count` states; return the parts of the oldest of them."""
        taken = self._states[-count:]
        del self._states[-count:]
        for state in taken[1:]:
            _free(state.drawing)
        remembering = [lib.llama_sampler_clone(native) for native in self._remembering]
        for native in remembering:
            for state in self._states:
                lib.llama_sampler_accept(native, state.token)
        self.draws = taken[0].draws
        dist = lib.llama_sampler_clone(self._lagging) if self._dist else None
        if dist:
            draw_again(dist, self.draws - self._lagging_draws)
        return StateParts(taken[0].drawing, remembering, dist, taken[0].tokens_to_come)

    def close(self) -> None:
        for state in self._states:
            _free(state.drawing)
        _free(self._remembering)
        if self._lagging:
            lib.llama_sampler_free(self._lagging)
        self._states, self._remembering, self._lagging = [], [], None


def draw_again(native: Any, count: int) -> None:
    """Have `dist` or `adaptive_p` draw `count` random numbers, by choosing between two tokens."""
    data = (lib.llama_token_data * 2)()
    array = lib.llama_token_data_array(data, 2, -1, False)
    apply, reference = lib.llama_sampler_apply, ctypes.byref(array)
    for _ in range(count):
        apply(native, reference)


def complete_adaptive(native: Any, draws: int) -> None:
    """Have a new clone of `adaptive_p` draw as often as the original did: llama.cpp gives clones the seed's first number."""
    draw_again(native, draws)
    if draws:  # without a choice before it, this call would abort
        lib.llama_sampler_accept(native, lib.LLAMA_TOKEN_NULL)  # none was accepted, so the average stays


def _free(natives: Iterable[Any]) -> None:
    for native in natives:
        lib.llama_sampler_free(native)
