"""A Driver of an Engine over a FakeModel for tests: requests in, texts out, invariants checked after every step."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import numpy as np

from srb.config.sampling_params import SamplingParams
from srb.engine.draft_decision import DraftDecision
from srb.engine.drafting import DraftModel
from srb.engine.engine import Engine, EngineOptions
from srb.engine.fake import EOS, FakeModel
from srb.engine.model import Logits, Model, StateStore, TextStore
from srb.engine.request import BranchState, Request
from srb.engine.steering import Growth
from srb.engine.tree.host import NODE_BYTES, TOKEN_BYTES
from srb.wire.commands import AddBranches, BranchSpec, ChangeBranch, EndReasoning, Generate, NewBranch, StopBranches
from srb.wire.events import TERMINAL, BranchAdded, BranchEnded, Delta, Event, Rejected, Reply, Resting
from tests.text_stores import MemoryTexts


class Contrary(FakeModel):
    """A draft model whose likeliest token is the one that the fake finds least likely."""

    def _next_logits(self, visible: bytes) -> Logits:
        logits = super()._next_logits(visible)
        return np.where(np.isfinite(logits), -logits, logits)


class Wavering(FakeModel):
    """A draft model that agrees with the fake at two of three places, and wants to end the text at some."""

    def _next_logits(self, visible: bytes) -> Logits:
        logits = super()._next_logits(visible)
        if visible[0] % 3 == 0:
            logits = np.where(np.isfinite(logits), -logits, logits)
        if visible[0] % 11 == 0:
            logits[EOS] = 100.0
        return logits


class Slowly:
    """A clock of a processor that advances with every reading."""

    def __init__(self, seconds: float) -> None:
        self.now, self.seconds = 0.0, seconds

    def __call__(self) -> float:
        self.now += self.seconds
        return self.now


def always_draft(driver: Driver) -> Driver:
    """Let an engine draft as much as it may, whatever it has measured."""
    always_draft_in(driver.engine)
    return driver


class Always(DraftDecision):
    """A decision to draft as much as there is room for, whatever it takes."""

    def begin(self, size: int) -> bool:
        super().begin(size)
        return True

    def count(self, chances: Sequence[float]) -> int:
        return len(chances)

    def num_passes(self, branches: int) -> int:
        return 1000

    def least_chance(self, branches: int) -> float:
        return 0.0

    def may_read(self, lag: int, foreseen: int) -> bool:
        return True


def always_draft_in(engine: Engine) -> None:
    """Let an engine draft as much as it may, whatever it has measured."""
    engine._speculation._decision = Always()


@dataclass
class Outcome:
    """The outcome of one request, gathered from its events; a fork's text has its beginning, its `tokens` have not."""

    texts: dict[int, str] = field(default_factory=lambda: defaultdict(str))
    tokens: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    ends: dict[int, BranchEnded] = field(default_factory=dict)
    resumed_at: dict[int, list[int]] = field(
        default_factory=lambda: defaultdict(list)
    )  # lengths at ends that were none
    rests: bool = False  # whether the latest event says so
    terminal: list[Any] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)

    def take(self, event: Any) -> None:
        assert not self.terminal, f"{event} after the terminal event"
        assert not self.rests or isinstance(event, (BranchAdded, *TERMINAL)), f"{event} while the request rests"
        self.rests = isinstance(event, Resting)
        self.events.append(event)
        if isinstance(event, Delta):
            assert event.index not in self.ends, f"{event} after its branch ended"
            self.texts[event.index] += event.text
            self.tokens[event.index] += event.tokens
        elif isinstance(event, BranchEnded):
            assert event.index not in self.ends, f"{event}: a branch ends once"
            self.ends[event.index] = event
        elif isinstance(event, BranchAdded) and event.resumed:
            self.resumed_at[event.index].append(self.ends.pop(event.index).length)
        elif isinstance(event, BranchAdded):
            assert event.index not in {**self.texts, **self.ends}, f"{event}: a branch is added once"
            self.texts[event.index] += event.text
        elif isinstance(event, TERMINAL):
            self.terminal.append(event)


def parked_bytes(nodes: int, tokens: int) -> int:
    """Return how much host memory so many parked nodes of the fake take, with so many tokens together."""
    return nodes * (NODE_BYTES + 16) + tokens * (TOKEN_BYTES + 16)


class Driver:
    """An engine, its fake model, a clock that advances with every reading, and the outcomes so far."""

    def __init__(
        self,
        model: FakeModel | None = None,
        max_queue: int = 100,
        cache_cells: int = 10**6,
        cache_bytes: int = 10**6,
        states: StateStore | None = None,
        draft_model: Model | None = None,
        texts: TextStore | None = None,
        **options: Any,
    ) -> None:
        self.model = model or FakeModel()
        self.texts = texts
        self.now = 0.0
        self.engine = Engine(
            self.model,
            EngineOptions(max_queue=max_queue, cache_cells=cache_cells, cache_bytes=cache_bytes, **options),
            clock=self._tick,
            states=states,
            draft_model=draft_model,
            texts=texts,
        )
        self.outcomes: dict[str, Outcome] = defaultdict(Outcome)
        self._controls = (f"c{number}" for number in itertools.count())
        self._ids = (f"r{number}" for number in itertools.count())

    def _tick(self) -> float:
        self.now += 0.001
        return self.now

    def submit(
        self, prompt: str | Sequence[int], n: int = 1, seed: int = 1, max_tokens: int = 10, **options: Any
    ) -> str:
        request_id = next(self._ids)
        options["stop"] = tuple(options.get("stop", ()))
        given = {f.name: options.pop(f.name) for f in fields(BranchSpec) if f.name in options}
        whole = {f.name: options.pop(f.name) for f in fields(Generate) if f.name in options}
        spec = tuple(BranchSpec(seed + i, max_tokens, sampling=SamplingParams(**options), **given) for i in range(n))
        parts = (prompt,) if isinstance(prompt, str) else tuple(prompt)
        request = self.engine.prepare(Generate(request_id, parts, spec, **whole))
        self.take(self.engine.submit(request))
        return request_id

    def take(self, events: Sequence[Any]) -> None:
        for event in events:
            self.outcomes[event.request_id].take(event)
        self.engine.check_invariants()

    def step(self) -> None:
        self.take(self.engine.step())
        self.deliver()

    def collect(self) -> None:
        """Take what stores and lanes have done meanwhile; whether it holds is checked with the next step."""
        events: list[Any] = self.engine.collect()
        for event in events:
            self.outcomes[event.request_id].take(event)

    def deliver(self) -> None:
        """Let the store of texts do a part of what it was asked for."""
        if isinstance(self.texts, MemoryTexts):
            self.texts.deliver(2)

    def cancel(self, request_id: str, index: int | None = None) -> None:
        self.take(self.engine.cancel(request_id, index))

    # controls; each raises the SRBError of a refusal

    def prepare_add(self, request_id: str, *entries: NewBranch, **where: Any) -> Growth:
        """Prepare branches to add, as a lane of the engine does; the caller submits or closes them."""
        command = AddBranches(next(self._controls), request_id, entries or (plain(),), **where)
        growth = self.engine.prepare(command)
        assert isinstance(growth, Growth)
        return growth

    def add(self, request_id: str, *entries: NewBranch, **where: Any) -> list[int]:
        """Add branches; return their indices."""
        return self.grow(self.prepare_add(request_id, *entries, **where))

    def grow(self, growth: Growth) -> list[int]:
        said = self._answer(self.engine.submit(growth))
        assert said["seeds"] == [
            self.request(growth.command.target).branches[index].spec.seed for index in said["indices"]
        ]
        indices: list[int] = said["indices"]
        return indices

    def change(
        self, request_id: str, index: int, more: int = 0, max_tokens: int = 0, max_running: int = 0, **changes: Any
    ) -> dict[str, Any]:
        limits = {"max_tokens": max_tokens, "max_running": max_running}
        command = ChangeBranch(
            next(self._controls), request_id, index, more=more, changes=tuple(changes.items()), **limits
        )
        return self._answer(self.engine.control(command))

    def stop(self, request_id: str, index: int | None = None) -> dict[str, Any]:
        return self._answer(self.engine.control(StopBranches(next(self._controls), request_id, index=index)))

    def end_reasoning(self, request_id: str, index: int | None = None) -> list[int]:
        """End the reasoning of one branch or all; return those whose reasoning was not over."""
        command = EndReasoning(next(self._controls), request_id, index=index)
        indices: list[int] = self._answer(self.engine.control(command))["branches"]
        return indices

    def _answer(self, events: Sequence[Any]) -> dict[str, Any]:
        """Take a control's events; return the value of its Reply."""
        *_, answer = events
        self.take(events)
        if isinstance(answer, Rejected):
            raise answer.error
        assert isinstance(answer, Reply)
        value: dict[str, Any] = answer.value
        return value

    def leave(self, request_id: str) -> None:
        self.take(self.engine.leave(request_id))

    def attach(self, request_id: str) -> dict[str, Any]:
        """Attach; return the snapshot, which has to be what all events so far said together."""
        snapshot, outcome = self.engine.attach(request_id, ""), self.outcomes[request_id]
        for said in snapshot["branches"]:
            index, branch = said["index"], self.request(request_id).branches[said["index"]]
            assert said["text"] == outcome.texts[index], f"branch {index}"
            if branch.num_shifted:
                assert "tokens" not in said
            else:
                assert said["tokens"] == [*branch.tokens[branch.num_hidden : branch.num_given], *outcome.tokens[index]]
            assert said.get("ended") == (asdict(outcome.ends[index]) if index in outcome.ends else None)
        assert (snapshot["state"] == "resting") == outcome.rests
        return snapshot

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds
        self.take(self.engine.step() if self.engine.has_work else self.engine.collect())

    def request(self, request_id: str) -> Request:
        return self.engine.find(request_id, "")

    @property
    def idle(self) -> list[Request]:
        return list(self.engine._requests.idle.values())

    def run(self, limit: int = 1000) -> None:
        """Step until no work is left; `limit` steps without a token or a finished request are a hang."""
        seen, idle = -1.0, 0
        while self.engine.has_work:
            events = self.engine.step()
            self.take(events)
            self.deliver()
            if any(isinstance(event, (Delta, *TERMINAL)) for event in events):
                idle = 0
                continue  # the numbers below take a fifth of a step
            stats = self.engine.stats()
            progress = stats["tokens_predicted_total"] + stats["rewinds_total"]
            idle, seen = (0 if progress > seen else idle + 1), progress
            assert idle < limit, f"no progress in {limit} steps: {stats}"
        self.check_drained()

    def paused(self) -> list[tuple[str, list[int]]]:
        """Return the request_id and the whole text of each branch that was paused under pressure."""
        return [
            (request.request_id, [*request.prefix.tokens, *branch.tokens])
            for request in self.engine._requests.active.values()
            for branch in request.in_state(BranchState.WAITING)
            if branch.tokens
        ]

    def cells_held(self) -> float:
        """Number of cells that needed nodes and running branches own."""
        stats = self.engine.stats()
        return stats["kv_cells_used"] - stats["kv_cells_idle"]

    def check_drained(self) -> None:
        """Assert that the engine is idle: no cell, sequence or sampler in use, one terminal event for every request.

        A request that rests has had none, and keeps the samplers of branches that may go on, but nothing else.
        """
        stats = self.engine.stats()
        in_tree = stats["kv_cells_used"] + stats["kv_cells_kept"]
        assert stats["kv_cells_used"] == stats["kv_cells_idle"] >= self.model.used_cells - stats["kv_cells_kept"]
        assert (
            in_tree == self.model.used_cells or not self.model.supports_partial_reuse
        )  # whole texts that share tokens have cells of their own
        assert stats["sequences_used"] == stats["sequences_idle"]
        assert self.engine.find_leaks() == []
        if isinstance(drafts := self.engine._speculation._drafter, DraftModel):
            assert [*drafts._prompts, *drafts._copies, *drafts._awaits] == []
            cells, kept = drafts._residency.used_cells, drafts._residency.stats()["kv_cells_kept"]
            assert cells == drafts._residency._idle.cells
            assert cells + kept == drafts.model.used_cells  # type: ignore[attr-defined]
        resting = {request.request_id: request for request in self.idle}
        resumable = sum(branch.can_resume for request in resting.values() for branch in request.branches)
        assert self.model.open_samplers == resumable
        for request_id, outcome in self.outcomes.items():
            assert outcome.rests == (request_id in resting), request_id
            assert len(outcome.terminal) == (request_id not in resting), request_id

    def result(self, request_id: str) -> Outcome:
        return self.outcomes[request_id]


def plain(seed: int | None = None, append: tuple[str | int, ...] = (), sampling: Any = (), **changes: Any) -> NewBranch:
    """Return an entry of AddBranches."""
    return seed, append, tuple(changes.items()), tuple(dict(sampling).items())


_alone: dict[str, Outcome] = {}  # of the arguments of `solo`, the latest ones
_MOST_ALONE = 500


def solo(prompt: str | Sequence[int], seed: int, max_tokens: int = 10, **options: Any) -> Outcome:
    """Return the outcome of one branch alone on a roomy model: the oracle of other tests, which change nothing of it."""
    key = repr((prompt if isinstance(prompt, str) else [*prompt], seed, max_tokens, sorted(options.items())))
    if key not in _alone:
        if len(_alone) == _MOST_ALONE:
            del _alone[next(iter(_alone))]
        _alone[key] = _solo(prompt, seed, max_tokens, **options)
    return _alone[key]


def _solo(prompt: str | Sequence[int], seed: int, max_tokens: int, **options: Any) -> Outcome:
    adapters = 1 if options.get("lora") else 0
    reads_media = bool(options.get("media"))
    n_ctx_seq = options.pop("n_ctx_seq", None)
    driver = Driver(FakeModel(n_ctx=4096, n_ctx_seq=n_ctx_seq, n_adapters=adapters, reads_media=reads_media))
    request_id = driver.submit(prompt, 1, seed, max_tokens, **options)
    driver.run()
    return driver.result(request_id)
