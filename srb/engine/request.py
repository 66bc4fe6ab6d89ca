"""A request, its prefix and its branches: what they hold, the states they pass through, and which moves are legal."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, auto

from srb.engine.model import Logits, Sampler
from srb.engine.text import BranchText
from srb.protocol import BranchSpec


class BranchState(Enum):
    WAITING = auto()  # not begun, or paused under pressure: holds no sequence
    RUNNING = auto()  # holds a sequence; takes part in every step
    ENDED = auto()


_LEGAL = {
    BranchState.WAITING: {BranchState.RUNNING, BranchState.ENDED},
    BranchState.RUNNING: {BranchState.WAITING, BranchState.ENDED},
    BranchState.ENDED: set(),
}


class Span:
    """Tokens at consecutive positions, the first `num_computed` of them in the KV store under `seq_id`.

    Prefill and decode are one subtraction: `pending`, the tokens that are known and not yet computed.
    """

    __slots__ = ("num_computed", "seq_id", "start", "tokens")

    def __init__(self, tokens: list[int], start: int) -> None:
        self.tokens = tokens
        self.start = start  # position of tokens[0]
        self.num_computed = 0
        self.seq_id: int | None = None  # lent by the KV store

    @property
    def pending(self) -> int:
        return len(self.tokens) - self.num_computed


class Prefix(Span):
    """The prompt, shared by all branches of a request. It is no branch, and no branch is it."""

    __slots__ = ("logits", "request")

    def __init__(self, request: Request, tokens: list[int]) -> None:
        super().__init__(tokens, start=0)
        self.request = request
        self.logits: Logits | None = None  # of the last token: every branch samples its first token from them

    @property
    def is_complete(self) -> bool:
        return not self.pending

    def __repr__(self) -> str:
        return f"<prefix {self.num_computed}/{len(self.tokens)} seq={self.seq_id}>"


class Branch(Span):
    """One completion: the tokens it has chosen, the sampler that chooses, the text they make."""

    __slots__ = ("index", "logprob_sum", "request", "sampler", "spec", "state", "text")

    def __init__(self, request: Request, index: int, spec: BranchSpec, sampler: Sampler) -> None:
        super().__init__([], start=len(request.prefix.tokens))
        self.request = request
        self.index = index
        self.spec = spec
        self.sampler = sampler
        self.text = BranchText(spec.stop)
        self.state = BranchState.WAITING
        self.logprob_sum = 0.0

    def move(self, state: BranchState) -> None:
        """Change the state; an illegal move is our own bug and changes nothing."""
        if state not in _LEGAL[self.state]:
            raise AssertionError(f"{self!r} cannot become {state.name}")
        self.state = state

    @property
    def end(self) -> int:
        """Position after the branch's last token."""
        return self.start + len(self.tokens)

    def __repr__(self) -> str:
        return f"<branch {self.index} {self.state.name} {self.num_computed}/{len(self.tokens)} seq={self.seq_id}>"


class Request:
    """One prompt and its branches. What it is doing follows from them; nothing is stored twice."""

    __slots__ = ("branches", "finished_at", "prefix", "prefix_done_at", "request_id", "started_at")

    def __init__(self, request_id: str, prompt: list[int], specs: Iterable[tuple[BranchSpec, Sampler]]) -> None:
        self.request_id = request_id
        self.prefix = Prefix(self, prompt)
        self.branches = [Branch(self, index, spec, sampler) for index, (spec, sampler) in enumerate(specs)]
        self.started_at: float | None = None  # seconds on the engine's clock: the first prompt token was planned
        self.prefix_done_at: float | None = None
        self.finished_at: float | None = None

    def in_state(self, state: BranchState) -> list[Branch]:
        return [branch for branch in self.branches if branch.state is state]

    @property
    def is_over(self) -> bool:
        return all(branch.state is BranchState.ENDED for branch in self.branches)

    @property
    def is_queued(self) -> bool:
        """Nothing has been computed for it yet."""
        return self.started_at is None

    @property
    def cells(self) -> int:
        return self.prefix.num_computed + sum(branch.num_computed for branch in self.branches)

    def close(self) -> None:
        for branch in self.branches:
            branch.sampler.close()

    def __repr__(self) -> str:
        return f"<request {self.request_id} {self.prefix!r} {self.branches!r}>"
