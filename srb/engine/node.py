"""A node of the prefix tree: a span of tokens and where its KV is."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto

from srb.engine.model import Blob, Logits


class NodeState(Enum):
    COMPUTING = auto()  # a request's prompt, in the KV store as far as `num_computed`
    RESIDENT = auto()  # wholly in the KV store
    PARKED = auto()  # wholly in host memory


class Node:
    """Tokens at positions `start` … `end`, after the parent's. Only the prefix tree writes here."""

    __slots__ = (
        "blob", "children", "last_used", "logits", "num_computed", "parent", "pins", "seq_id", "start", "state",
        "tokens",
    )  # fmt: skip

    def __init__(self, parent: Node | None, tokens: list[int], state: NodeState, seq_id: int | None = None) -> None:
        self.parent = parent
        self.children: list[Node] = []
        self.tokens = tokens
        self.start = parent.end if parent else 0
        self.state = state
        self.num_computed = 0 if state is NodeState.COMPUTING else len(tokens)
        self.seq_id = seq_id  # holds the whole path; None where a child's sequence does
        self.pins = 0  # live prefixes and branches that stand here
        self.last_used = 0
        self.blob: Blob | None = None  # the saved KV, while parked
        self.logits: Logits | None = None  # of the last token, where a prompt ended here

    @property
    def end(self) -> int:
        return self.start + len(self.tokens)

    @property
    def cells(self) -> int:
        """Cells that it owns in the KV store."""
        return self.num_computed if self.is_live else 0

    @property
    def host_bytes(self) -> int:
        """Bytes of host memory that it takes while it is parked."""
        if self.blob is None:
            return 0
        return len(self.blob) + (self.logits.nbytes if self.logits is not None else 0)

    @property
    def is_live(self) -> bool:
        """Whether any of it is in the KV store."""
        return self.state is not NodeState.PARKED

    @property
    def has_live_children(self) -> bool:
        return any(child.is_live for child in self.children)

    @property
    def root(self) -> Node:
        """The node at the beginning of its path, itself where nothing is above it."""
        node = self
        while node.parent is not None:
            node = node.parent
        return node

    def path(self) -> list[Node]:
        """Return the nodes from below the root to this one."""
        path: list[Node] = []
        node = self
        while node.parent is not None:
            path.append(node)
            node = node.parent
        return path[::-1]

    def holder(self) -> int | None:
        """Return a sequence that holds everything up to this node's end, its own or a descendant's."""
        if self.seq_id is not None:
            return self.seq_id
        return next((seq_id for child in self.children if (seq_id := child.holder()) is not None), None)

    def __repr__(self) -> str:
        return f"<node {self.start}-{self.end} {self.state.name} seq={self.seq_id} pins={self.pins}>"


def common_length(a: Sequence[int], b: Sequence[int], offset: int) -> int:
    """Return how many tokens `a` and `b[offset:]` have in common at their beginning."""
    most = min(len(a), len(b) - offset)
    if most <= 0 or a[0] != b[offset]:
        return 0
    if a[:most] == b[offset : offset + most]:
        return most
    low, high = 1, most  # the first `low` are equal, the first `high` are not
    while high - low > 1:
        middle = (low + high) // 2
        if a[low:middle] == b[offset + low : offset + middle]:
            low = middle
        else:
            high = middle
    return low
