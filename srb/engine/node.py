"""A node of the prefix tree: a span of tokens and where its KV is."""

from __future__ import annotations

from enum import Enum, auto

from srb.engine.model import Blob, Logits


class NodeState(Enum):
    COMPUTING = auto()  # a request's prompt, in the KV store as far as `num_computed`
    RESIDENT = auto()  # wholly in the KV store
    PARKED = auto()  # wholly in host memory


class Node:
    """Tokens at positions `start` … `end`, after the parent's.

    Its methods alone change the shape of the tree; where it is and who needs it, the residency writes.
    """

    __slots__ = (
        "blob", "children", "is_private", "last_used", "logits", "num_computed", "parent", "pins", "seq_id", "start",
        "state", "tokens",
    )  # fmt: skip

    def __init__(
        self,
        parent: Node | None,
        tokens: list[int],
        state: NodeState,
        seq_id: int | None = None,
        num_computed: int | None = None,
        is_private: bool = False,
    ) -> None:
        """Make a node that its parent does not know of yet; it is wholly computed unless it says how far."""
        self.parent = parent
        self.children: list[Node] = []
        self.tokens = tokens
        self.start = parent.end if parent else 0
        self.state = state
        self.num_computed = len(tokens) if num_computed is None else num_computed
        self.is_private = is_private  # no child of its parent, so that no other request finds it
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

    def attach(self) -> None:
        """Let the parent have it as a child, so that it is found; not where it is private."""
        assert self.parent is not None
        if not self.is_private:
            self.parent.children.append(self)

    def detach(self) -> None:
        """Take it out of the tree."""
        assert self.parent is not None
        if not self.is_private:
            self.parent.children.remove(self)

    def split(self, count: int) -> Node:
        """Divide it after `count` tokens, which are computed; return the upper part, which it stays below."""
        assert self.parent is not None
        upper = Node(self.parent, self.tokens[:count], NodeState.RESIDENT)
        upper.last_used = self.last_used
        upper.children.append(self)
        siblings = self.parent.children
        siblings[siblings.index(self)] = upper
        self.parent, self.start = upper, upper.end
        self.tokens = self.tokens[count:]
        self.num_computed -= count
        return upper

    def __repr__(self) -> str:
        return f"<node {self.start}-{self.end} {self.state.name} seq={self.seq_id} pins={self.pins}>"
