"""A request, its prefix and its branches: what they hold, the states they pass through, and which moves are legal."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, auto

from srb.engine.model import Logits, Sampler, SavedState, Scales
from srb.engine.node import Node
from srb.engine.text import BranchText
from srb.protocol import BranchSpec, Generate


class BranchState(Enum):
    WAITING = auto()  # not begun, or paused under pressure: holds no sequence
    RUNNING = auto()  # holds a sequence; takes part in every step
    ENDED = auto()


_LEGAL = {
    BranchState.WAITING: {BranchState.RUNNING, BranchState.ENDED},
    BranchState.RUNNING: {BranchState.WAITING, BranchState.ENDED},
    BranchState.ENDED: set(),
}


class Prefix:
    """The prompt, shared by all branches of a request. It is no branch, and no branch is it."""

    __slots__ = ("logits", "node", "num_cached", "num_restored", "num_scored", "request", "tokens")

    start = 0

    def __init__(self, request: Request, tokens: list[int]) -> None:
        self.request = request
        self.tokens = tokens
        self.node: Node | None = None  # the tree's, where the prompt ends; None until the request begins
        self.num_cached: int | None = None  # tokens that the tree had when the request first began
        self.num_restored = 0  # those of them that had been parked
        self.num_scored = 0  # tokens whose probability has been told, where that was asked for
        self.logits: Logits | None = None  # of the last token: every branch samples its first token from them

    @property
    def num_computed(self) -> int:
        return self.node.start + self.node.num_computed if self.node else 0

    @property
    def pending(self) -> int:
        """Prefill and decode are one subtraction: tokens that are known and not yet computed."""
        return len(self.tokens) - self.num_computed

    @property
    def seq_id(self) -> int | None:
        return self.node.seq_id if self.node else None

    @property
    def is_complete(self) -> bool:
        return not self.pending

    def __repr__(self) -> str:
        return f"<prefix {self.num_computed}/{len(self.tokens)} {self.node!r}>"


class Branch:
    """One completion: the tokens it has chosen, the sampler that chooses, the text they make."""

    __slots__ = (
        "base", "began_at", "has_new_line", "index", "logprob_sum", "num_computed", "num_shifted",
        "request", "sampler", "seq_id", "spec", "start", "state",
        "text", "tokens",
    )  # fmt: skip

    def __init__(self, request: Request, index: int, spec: BranchSpec, sampler: Sampler) -> None:
        self.request = request
        self.start = len(request.prefix.tokens)  # position of tokens[0]
        self.tokens: list[int] = []
        self.num_computed = 0
        self.num_shifted = 0  # tokens it had chosen when the context was last shifted; `tokens` are those since then
        self.seq_id: int | None = None  # lent by the tree while the branch runs
        self.base: Node | None = None  # the node it was forked from
        self.index = index
        self.spec = spec
        self.sampler = sampler
        self.text = BranchText(spec.stop, spec.n_indent)
        self.began_at: float | None = None  # seconds on the engine's clock: its first token
        self.state = BranchState.WAITING
        self.logprob_sum = 0.0
        self.has_new_line = False  # in the text that was shown

    def move(self, state: BranchState) -> None:
        """Change the state; an illegal move is our own bug and changes nothing."""
        if state not in _LEGAL[self.state]:
            raise AssertionError(f"{self!r} cannot become {state.name}")
        self.state = state

    @property
    def length(self) -> int:
        """How many tokens it has chosen."""
        return self.num_shifted + len(self.tokens)

    @property
    def end(self) -> int:
        """Position after the branch's last token."""
        return self.start + len(self.tokens)

    @property
    def pending(self) -> int:
        return len(self.tokens) - self.num_computed

    @property
    def own_cells(self) -> int:
        """Cells of tokens that the branch computed itself, and no node holds."""
        return self.num_computed - (self.base.end - self.start) if self.base else 0

    def __repr__(self) -> str:
        return f"<branch {self.index} {self.state.name} {self.num_computed}/{len(self.tokens)} seq={self.seq_id}>"


class Request:
    """One prompt and its branches. What it is doing follows from them; nothing is stored twice."""

    __slots__ = (
        "arrived_at", "awaits", "branches", "cache_prompt", "lora", "num_prompt", "prefix", "prefix_done_at", "prompt_probs",
        "report_progress", "request_id", "saved", "shift", "started_at", "state_name",
    )  # fmt: skip

    def __init__(
        self,
        command: Generate,
        prompt: list[int],
        samplers: Iterable[Sampler],
        saved: SavedState | None = None,
        lora: Scales = (),
    ) -> None:
        self.request_id = command.request_id
        self.awaits: Node | None = None  # another request's prompt, being computed, that holds more of this one
        self.state_name = command.state  # under which the prompt's KV is to be kept
        self.saved = saved  # what the state's file held
        self.lora = lora  # with which all of it is computed
        self.report_progress = command.report_progress
        self.prompt_probs = command.prompt_probs
        self.cache_prompt = command.cache_prompt  # use what the tree holds, and leave there what is computed
        self.prefix = Prefix(self, prompt)
        specs = zip(command.branches, samplers, strict=True)
        self.num_prompt = len(prompt)  # as it was given: a shift of the context replaces the prefix's tokens
        self.shift = command.shift
        self.branches = [Branch(self, index, spec, sampler) for index, (spec, sampler) in enumerate(specs)]
        self.arrived_at = 0.0  # seconds on the engine's clock
        self.started_at: float | None = None
        self.prefix_done_at: float | None = None

    @property
    def wants_scores(self) -> bool:
        """Whether the prompt's tokens are to be told with their probabilities, and some have not been yet."""
        return self.prompt_probs and self.prefix.num_scored < len(self.prefix.tokens)

    @property
    def reuses(self) -> bool:
        """Whether the prompt begins with what the tree holds of it; scoring needs the logits of every token."""
        return self.cache_prompt and not self.wants_scores

    def in_state(self, state: BranchState) -> list[Branch]:
        return [branch for branch in self.branches if branch.state is state]

    @property
    def can_shift(self) -> bool:
        """Whether the beginning of its text may be discarded; branches that share a prompt cannot each have another."""
        return self.shift is not None and len(self.branches) == 1

    def shift_context(self, n_special: int) -> None:
        """Make a text of the only branch's tokens, less some of the oldest, that is computed anew as a prompt.

        `n_special` tokens at the beginning (BOS) are kept besides shift.n_keep. Nothing of it is in the KV store now.
        As llama-server counts; but that moves the KV of what is left, which still holds traces of what is gone.
        """
        [branch] = self.branches
        assert self.shift is not None
        assert self.prefix.node is None
        tokens = [*self.prefix.tokens, *branch.tokens]
        n_keep = self.num_prompt if self.shift.n_keep < 0 else self.shift.n_keep + n_special
        n_keep = max(0, min(n_keep, len(tokens) - 4))
        n_left = len(tokens) - n_keep
        n_discard = min(self.shift.n_discard or n_left // 2, n_left - 1)
        self.prefix.tokens = tokens[:n_keep] + tokens[n_keep + n_discard :]
        self.prefix.logits = None
        branch.num_shifted, branch.tokens = branch.length, []
        branch.start = len(self.prefix.tokens)
        self.state_name, self.prompt_probs = "", False  # they were about the prompt as it was given

    @property
    def is_over(self) -> bool:
        return all(branch.state is BranchState.ENDED for branch in self.branches)

    @property
    def is_queued(self) -> bool:
        """Nothing has been computed for it yet."""
        return self.started_at is None

    def close(self) -> None:
        for branch in self.branches:
            branch.sampler.close()

    def __repr__(self) -> str:
        return f"<request {self.request_id} {self.prefix!r} {self.branches!r}>"
