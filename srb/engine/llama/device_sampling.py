"""Sampling on the device that computes the model, by llama.cpp's backend samplers.

A chain that is attached to a sequence id runs as a part of the decode's graph, and only the chosen tokens have to leave
the device. Each change of the attached chains makes llama.cpp plan its graphs again, so the chains stay attached while
branches come and go: a branch's state is copied into the chain of its sequence id before a decode, and back after it.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import llama_cpp as lib

from srb.engine.model import Batch
from srb.engine.sampling import Stage

if TYPE_CHECKING:
    from srb.engine.llama.model import LlamaModel
    from srb.engine.llama.sampler import LlamaSampler

MOST_CANDIDATES = 1000  # of top_k; more, or a chain without it, would copy more from the device than the logits are
MOST_BIASES = 1000  # tokens; it bounds what each chain keeps on the device, where memory for all branches must be left
BIASES = "logit_bias"  # name of the stage whose arguments are pairs of a token and its bias
IDLE_DECODES = 64  # after so many decodes without its sequence a chain is detached, when others change anyway
_AFTER_TOP_K = frozenset({"top_p", "min_p", "temp_ext"})


def device_stages(stages: Sequence[Stage], biases: Mapping[int, float], n_vocab: int) -> tuple[Stage, ...] | None:
    """Return a chain's stages without their seed, if a device samples the tokens that the CPU would; else None.

    The device rounds otherwise. It has the candidates in the CPU's order only where top_k and then top_p have sorted
    them, ignores min_keep, and measures a varied temperature over other candidates. Biases become the first stage.
    """
    named = {stage.name: stage for stage in stages}
    names = [stage.name for stage in stages]
    from_top_k = names[1:] if names[0] == "penalties" else names
    if len(named) < len(names) or from_top_k[:1] != ["top_k"] or names[-1] != "dist":
        return None
    if "top_p" not in named or not set(from_top_k[1:-1]) <= _AFTER_TOP_K:
        return None
    min_keep = max(named[name].args[1] for name in ("top_p", "min_p") if name in named)
    varies = "temp_ext" in named and named["temp_ext"].args[1] > 0
    if min_keep > 1 or varies or named["top_k"].args[0] > min(MOST_CANDIDATES, n_vocab):
        return None
    if len(biases) > MOST_BIASES or not all(0 <= token < n_vocab for token in biases):  # llama.cpp would abort
        return None
    first = (Stage(BIASES, tuple(sorted(biases.items()))),) if biases else ()
    return (*first, *stages[:-1], Stage("dist", (0,)))


@dataclass(slots=True)
class _Attached:
    """A native chain that llama.cpp runs for a sequence id; `used` is the number of the last decode that did."""

    stages: tuple[Stage, ...]
    chain: Any
    used: int


class DeviceSampling:
    """The chains that are attached to one context, and the rows of the last decode that they sampled."""

    def __init__(self, model: LlamaModel, context: Any) -> None:
        self._model = model
        self._context = context
        self._attached: dict[int, _Attached] = {}  # by sequence id
        self._refused: set[tuple[Stage, ...]] = set()  # chains with a stage that the device cannot compute
        self._rows: dict[int, tuple[LlamaSampler, _Attached]] = {}
        self._decodes = 0
        self.is_on = False

    @property
    def num_rows(self) -> int:
        """Number of rows of the last decode whose tokens are sampled."""
        return len(self._rows)

    def has_sampled(self, row: int) -> bool:
        """Whether a row's token is sampled; its logits are not there."""
        return row in self._rows

    def prepare(self, batch: Batch) -> None:
        """Make the next decode sample those rows of `batch.samplers` that it can, and compute logits for the others."""
        self._decodes += 1
        self._rows = {}
        able = {row: sampler for row, sampler in batch.samplers.items() if self._can_sample(sampler)}
        has_changed = self._detach_from_logits(batch, able)
        for row, sampler in able.items():
            attached = self._attached.get(batch.seq_ids[row])
            if attached is None or attached.stages != sampler.device_stages:
                attached, has_changed = self._attach(batch.seq_ids[row], sampler.device_stages), True
            if attached is not None:
                attached.used = self._decodes
                lib.llama_sampler_copy(sampler.native, attached.chain)
                self._rows[row] = (sampler, attached)
        if has_changed:
            self._detach_idle()

    def finish(self) -> None:
        """Give the samplers the states of their chains, which have drawn; called after a decode that has succeeded."""
        for sampler, attached in self._rows.values():
            lib.llama_sampler_copy(attached.chain, sampler.native)

    def drop(self) -> None:
        """Forget the rows of a decode that has failed."""
        self._rows = {}

    def stop(self) -> None:
        """Detach all chains."""
        self.is_on, self._rows = False, {}
        for seq_id in list(self._attached):
            self._detach(seq_id)

    def _can_sample(self, sampler: LlamaSampler) -> bool:
        return sampler.device_stages is not None and sampler.device_stages not in self._refused

    def _attach(self, seq_id: int, stages: tuple[Stage, ...] | None) -> _Attached | None:
        """Attach a new chain to a sequence id; return None if the device cannot compute all of it."""
        assert stages is not None
        self._detach(seq_id)
        if stages in self._refused:  # for another sequence of this decode
            return None
        chain = self._model.new_chain(stages)
        is_attached = lib.llama_set_sampler(self._context, seq_id, chain)
        names = (lib.llama_sampler_name(lib.llama_sampler_chain_get(chain, place)) for place in range(len(stages)))
        attached = self._attached[seq_id] = _Attached(stages, chain, self._decodes)
        if is_attached and all(name.startswith(b"+") for name in names):  # llama.cpp's mark of a supported stage
            return attached
        self._refused.add(stages)
        self._detach(seq_id)
        return None

    def _detach(self, seq_id: int) -> bool:
        attached = self._attached.pop(seq_id, None)
        if attached is None:
            return False
        lib.llama_set_sampler(self._context, seq_id, None)
        lib.llama_sampler_free(attached.chain)
        return True

    def _detach_from_logits(self, batch: Batch, sampled: Container[int]) -> bool:
        """Detach the chains of the rows whose logits are wanted: llama.cpp would leave the logits on the device."""
        if not self._attached:
            return False
        rows = (row for row, wanted in enumerate(batch.wanted) if wanted and row not in sampled)
        return sum(self._detach(batch.seq_ids[row]) for row in rows) > 0

    def _detach_idle(self) -> None:
        for seq_id, attached in list(self._attached.items()):
            if attached.used + IDLE_DECODES < self._decodes:
                self._detach(seq_id)
