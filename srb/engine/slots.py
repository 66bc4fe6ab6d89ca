"""Slots: numbers of branches, under which clients of llama-server save texts and watch what runs."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import fields
from itertools import chain, cycle
from typing import Any

from srb.config.sampling_params import SamplingParams
from srb.engine.model import Model
from srb.engine.request import Branch, BranchState, Request

_PLAIN = (int, float, bool)
_SHOWN = ("samplers",)  # the parameters that are no numbers and tell nothing of a text


class Slots:
    """Numbers of branches: one for each sequence, or with a limit of requests first one for each of those.

    A slot that a request asks for, or that a state is restored into, is *pinned*: other requests leave it alone while
    there are others. `assign` alone writes Branch.slot.
    """

    def __init__(self, n_seq_max: int, max_running: int) -> None:
        """`max_running` is the limit of requests; 0: none."""
        self._by_request = max_running > 0
        self.total = max_running or n_seq_max
        self._count = max(n_seq_max, self.total)
        self._pinned: set[int] = set()

    def assign(self, request: Request, begun: Iterable[Request]) -> None:
        """Give each branch of a request that begins its slot; `begun` are the requests that run.

        The first branch gets the slot that the request asks for, modulo `total`. All others get free slots, at first those
        that are not pinned, and share slots once none is free.
        """
        used = {
            branch.slot
            for other in begun
            for branch in other.branches
            if branch.state is not BranchState.ENDED or branch.index == 0
        }
        first, *others = request.branches
        if request.id_slot >= 0:
            first.slot = request.id_slot % self.total
            self.pin(first.slot)
        else:
            self._take_free([first], range(self.total), used)
        used.add(first.slot)
        self._take_free(others, range(self.total, self._count) or range(self._count), used)

    def assign_added(self, branches: Collection[Branch], begun: Iterable[Request]) -> None:
        """Give branches that were added to a running request their slots, free ones as long as there are any."""
        used = {
            branch.slot
            for request in begun
            for branch in request.branches
            if branch not in branches and branch.state is not BranchState.ENDED
        }
        self._take_free(branches, range(self.total, self._count) or range(self._count), used)

    def pin(self, slot: int) -> None:
        self._pinned.add(slot)

    def unpin(self, slot: int) -> None:
        self._pinned.discard(slot)

    def show(self, model: Model, requests: Iterable[Request]) -> list[dict[str, Any]]:
        """Return a dict for each slot.

        Keys: id, n_ctx, is_processing. Where something runs also request_id, index, n_prompt_tokens,
        n_prompt_tokens_processed, n_prompt_tokens_cache, n_keep, max_tokens, seed, lora (scales), sampling (the fields of
        SamplingParams that tell nothing of a text), and branches: has_new_line, n_decoded and n_remain (−1: no limit)
        of each branch.
        """
        shown = self._places(requests)
        return [
            {"id": slot, "n_ctx": model.n_ctx_seq, "is_processing": slot in shown}
            | (_running(shown[slot]) if slot in shown else {})
            for slot in range(self.total)
        ]

    def _take_free(self, branches: Iterable[Branch], numbers: Collection[int], used: set[int]) -> None:
        free = chain(
            (slot for slot in numbers if slot not in used and slot not in self._pinned),
            (slot for slot in numbers if slot not in used),
            cycle(numbers),
        )
        for branch, slot in zip(branches, free, strict=False):
            branch.slot = slot
            used.add(slot)
            self.unpin(slot)

    def _places(self, requests: Iterable[Request]) -> dict[int, list[Branch]]:
        """Return what runs in each slot: a branch, or the branches of a request. Those that share one get free ones."""
        shown: dict[int, list[Branch]] = {}
        others: list[list[Branch]] = []
        for slot, branches in self._groups(requests):
            if slot in shown or slot >= self.total:
                others.append(branches)
            else:
                shown[slot] = branches
        free = [slot for slot in range(self.total) if slot not in shown]
        return shown | dict(zip(free, others, strict=False))

    def _groups(self, requests: Iterable[Request]) -> Iterator[tuple[int, list[Branch]]]:
        for request in requests:
            running = request.in_state(BranchState.RUNNING)
            if self._by_request and request.takes_place:
                yield request.branches[0].slot, running or request.branches[:1]
            elif not self._by_request:
                yield from ((branch.slot, [branch]) for branch in running)


def _running(branches: list[Branch]) -> dict[str, Any]:
    first, request = branches[0], branches[0].request
    cached = (request.prefix.num_cached or 0) + first.num_given_cached
    sampling = {field.name: getattr(first.spec.sampling, field.name) for field in fields(SamplingParams)}
    return {
        "request_id": request.request_id,
        "index": first.index,
        "n_prompt_tokens": request.num_sent + first.num_appended,
        "n_prompt_tokens_processed": request.prefix.num_decoded + first.num_decoded,
        "n_prompt_tokens_cache": cached,
        "n_keep": request.shift.n_keep if request.shift else 0,
        "max_tokens": first.spec.max_tokens,
        "seed": first.spec.seed,
        "lora": request.lora,
        "sampling": {name: value for name, value in sampling.items() if name in _SHOWN or type(value) in _PLAIN},
        "branches": [
            {
                "has_new_line": branch.has_new_line,
                "n_decoded": branch.length,
                "n_remain": branch.spec.max_tokens - branch.length if branch.spec.max_tokens >= 0 else -1,
            }
            for branch in branches
        ],
    }
