"""A node of the prefix tree: a span of tokens and where its KV is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto

from srb.engine.model import Blob, Logits, Record
from srb.engine.tokens import Tokens, tokens_of
from srb.engine.tree.checkpoints import Checkpoint


class NodeState(Enum):
    COMPUTING = auto()  # a request's prompt; its first `num_computed` tokens are in the KV store
    RESIDENT = auto()  # in the KV store
    PARKED = auto()  # in host memory, or in a store
    EVICTED = auto()  # removed from the tree


class Children(dict[int, list["Node"]]):
    """The children that begin at one position of `parent`: lists by key.

    Of memory that can be cut no two nodes with the same beginning hold the same token, except prompts that are being
    computed: a list has at most one other node, its first. The children know their parent by this object alone, so all of
    them get another parent at once.
    """

    __slots__ = ("num_live", "parent")

    def __init__(self, parent: Node | None) -> None:
        self.parent = parent
        self.num_live = 0  # number of children in the KV store


@dataclass(frozen=True, slots=True)
class Slice:
    """The tokens `start` … `end` of a text, whose KV a record in a store has (see `stored`)."""

    record: Record
    start: int
    end: int


@dataclass(eq=False, slots=True)
class PromptEnd:
    """The end of a prompt, at a position within a node or at the node's end, with the logits of its last token."""

    node: Node
    position: int
    logits: Logits


_NO_CHILDREN = Children(None)  # of all nodes that never had any: most nodes are leaves


class Node:
    """A span of tokens at positions `start` … `end`, after its parent's. The array of tokens is the node's own.

    Children begin at its end. After short nodes were merged, other children (`inner`) begin within its span. The
    methods of Node alone change the shape of the tree; Residency writes a node's state, sequence and pins.
    """

    __slots__ = (
        "asker", "blob", "checkpoints", "children", "inner", "is_private", "key", "live_children", "names",
        "needed_children",
        "needed_private", "num_computed", "num_live_inner", "pins", "place", "prompt_ends", "seq_id", "start", "state",
        "stored", "tokens",
    )  # fmt: skip

    def __init__(
        self,
        parent: Node | None,
        tokens: Tokens,
        state: NodeState,
        seq_id: int | None = None,
        num_computed: int | None = None,
        is_private: bool = False,
        key: int | None = None,
    ) -> None:
        """Make a node that is not attached to its parent yet. All of it is computed unless `num_computed` is given.

        The parent finds the node by `key`: its first token, or a hash of the whole text (see `whole`).
        """
        self.place = parent.place_at_end() if parent else None  # children of its parent; it is one of them
        self.children = _NO_CHILDREN  # at its end
        self.inner: dict[int, Children] = {}  # children within the span, by the position of their start; none is needed
        self.tokens = tokens
        self.key = key if key is not None else (tokens[0] if tokens else -1)
        self.start = parent.end if parent else 0
        self.state = state
        self.num_computed = len(tokens) if num_computed is None else num_computed
        self.is_private = is_private  # not among its parent's children, so no other request finds it
        self.seq_id = seq_id  # a sequence that holds the whole path; None if a child's sequence holds it
        self.pins = 0  # number of live prefixes and branches whose node this is
        self.needed_children = 0  # number of needed children, private ones included
        self.needed_private = 0  # number of those that are private
        self.live_children: dict[Node, None] = {}  # `children` in the KV store
        self.num_live_inner = 0  # number of `inner` children in the KV store
        self.blob: Blob | None = None  # the saved KV, while parked; None: a store has it
        self.stored: tuple[Slice, ...] = ()  # what a store has of the span, in order; StoredTexts writes it
        self.prompt_ends: dict[int, PromptEnd] = {}  # by position; HostMemory writes it
        self.checkpoints: dict[int, Checkpoint] = {}  # states after tokens of the span, by position; States writes it
        self.names: tuple[str, ...] = ()  # names of states that end here
        self.asker = ""  # whose text it was last: `Generate.asker`; PrefixTree writes it

    @property
    def parent(self) -> Node | None:
        return self.place.parent if self.place is not None else None

    @property
    def _parent(self) -> Node:
        parent = self.parent
        assert parent is not None, f"{self!r} is a root"
        return parent

    def children_at(self, position: int) -> Children:
        """Return the children that begin at a position within the node."""
        return self.inner.get(position, _NO_CHILDREN)

    def known_child(self, token: int) -> Node | None:
        """Return the child at the node's end that begins with a token, unless it is being computed."""
        siblings = self.children.get(token)
        return siblings[0] if siblings and siblings[0].state is not NodeState.COMPUTING else None

    def place_at_end(self) -> Children:
        """Return the node's children, which another one may join."""
        if self.children is _NO_CHILDREN:
            self.children = Children(self)
        return self.children

    @property
    def end(self) -> int:
        return self.start + len(self.tokens)

    @property
    def prompt_end(self) -> PromptEnd | None:
        """The end of the prompt that ended where the node ends."""
        return self.prompt_ends.get(self.end) if self.prompt_ends else None

    @property
    def logits(self) -> Logits | None:
        """The logits of the node's last token, shape (n_vocab,), if a prompt ended there."""
        return self.logits_at(self.end)

    def logits_at(self, position: int) -> Logits | None:
        """Return the logits of the token before a position of the node, if a prompt ended there."""
        end = self.prompt_ends.get(position)
        return None if end is None else end.logits

    @property
    def cells(self) -> int:
        """Cells that the node owns in the KV store."""
        return self.num_computed if self.is_live else 0

    @property
    def is_live(self) -> bool:
        """Whether the node is in the KV store, wholly or in part."""
        return self.state is NodeState.RESIDENT or self.state is NodeState.COMPUTING

    @property
    def is_needed(self) -> bool:
        """Whether the node or a node below it is pinned."""
        return self.pins > 0 or self.needed_children > 0

    @property
    def is_needed_leaf(self) -> bool:
        """Whether the node is needed and no child's sequence would hold its cells: a private child's is its own alone."""
        return self.is_needed and self.needed_children == self.needed_private and self.parent is not None

    @property
    def is_idle_leaf(self) -> bool:
        """Whether the node can be parked: resident, not needed, and no child in the KV store uses its cells."""
        has_live_child = bool(self.live_children or self.num_live_inner)
        return self.state is NodeState.RESIDENT and not (self.is_needed or has_live_child or self.parent is None)

    @property
    def is_stored(self) -> bool:
        """Whether a store has all of the node in one record."""
        return len(self.stored) == 1 and (self.stored[0].start, self.stored[0].end) == (self.start, self.end)

    @property
    def is_childless(self) -> bool:
        return not (self.children or self.inner)

    @property
    def root(self) -> Node:
        """The root of the node's path, which may be the node itself."""
        node = self
        while node.parent is not None:
            node = node.parent
        return node

    def path(self) -> list[Node]:
        """Return the nodes of the path, without the root, this node last."""
        path: list[Node] = []
        node = self
        while node.parent is not None:
            path.append(node)
            node = node.parent
        return path[::-1]

    def text(self) -> Tokens:
        """Return all tokens up to the node's end."""
        tokens = tokens_of(())
        for node in self.path():
            del tokens[node.start :]  # it may begin within its parent's span
            tokens += node.tokens
        return tokens

    def offspring(self) -> Iterator[Node]:
        """Yield the children, inner children included and private ones not."""
        for children in (self.children, *self.inner.values()):
            for siblings in children.values():
                yield from siblings

    def subtree(self) -> list[Node]:
        """Return this node and all below it, parents first."""
        nodes = [self]
        for node in nodes:
            nodes += node.offspring()
        return nodes

    def holder(self) -> int | None:
        """Return a sequence that holds the path up to this node's end: its own or a descendant's. None if none does."""
        node = self
        while node.seq_id is None:
            if not node.live_children:
                return None
            node = next(reversed(node.live_children))  # the newest child: the oldest may lead down a much longer path
        return node.seq_id

    def attach(self) -> None:
        """Add the node to its parent's children, unless it is private."""
        if not self.is_private:
            assert self.place is not None
            siblings = self.place.setdefault(self.key, [])
            siblings.insert(len(siblings) if self.state is NodeState.COMPUTING else 0, self)

    def detach(self) -> None:
        """Remove the node from its parent's children."""
        assert self.place is not None
        if not self.is_private:
            self.place[self.key].remove(self)
            if not self.place[self.key]:
                del self.place[self.key]
            if not self.place and self.is_inner:
                del self._parent.inner[self.start]

    def note_live(self) -> None:
        """Count the node among its parent's live children: it is in the KV store now."""
        assert self.place is not None
        if not self.is_private:
            self.place.num_live += 1
        if self.is_inner:
            self._parent.num_live_inner += 1
        elif not self.is_private:
            self._parent.live_children[self] = None

    def note_gone(self) -> None:
        """Remove the node from its parent's live children: it has left the KV store."""
        assert self.place is not None
        if not self.is_private:
            self.place.num_live -= 1
        if self.is_inner:
            self._parent.num_live_inner -= 1
        else:
            self._parent.live_children.pop(self, None)

    @property
    def is_inner(self) -> bool:
        """Whether the node begins within its parent's span."""
        return self.parent is not None and self.start < self.parent.end

    def begin_later(self, parent: Node, count: int) -> None:
        """Begin `count` tokens later, at the end of another parent. The node has no children and is not attached."""
        if count:
            self.place = parent.place_at_end()
            del self.tokens[:count]
            self.start, self.key = parent.end, self.tokens[0]
            self.num_computed -= count

    def split(self, count: int) -> Node:
        """Split the node after `count` tokens, all computed; return a new node for them, the parent of this one."""
        tail = self.tokens[count:]
        del self.tokens[count:]
        state = NodeState.RESIDENT if self.is_live else self.state
        upper = Node(self.parent, self.tokens, state, key=self.key)
        upper.start, upper.asker = self.start, self.asker
        self._give_place_to(upper)
        self.start, self.tokens, self.key = upper.end, tail, tail[0]
        self.num_computed -= count
        for position in [position for position in self.inner if position <= upper.end]:
            upper._take_children(position, self.inner.pop(position))
        self.num_live_inner -= upper.num_live_inner + upper.children.num_live
        upper._take_prompt_ends(self, upper.end)
        upper._take_checkpoints(self, upper.end)
        self.place = upper.place_at_end()
        self.attach()
        if self.is_live:
            self.note_live()
        upper.needed_children = int(self.is_needed)
        return upper

    def begin_within(self, other: Node, count: int) -> None:
        """Become a child within `other`, a new node with the same beginning, which holds the first `count` tokens, too."""
        self.detach()
        del self.tokens[:count]
        self.start += count
        self.key = self.tokens[0]
        self.num_computed -= count
        for position in [position for position in self.inner if position <= self.start]:
            other._take_children(position, self.inner.pop(position))
        self.place = other.inner.setdefault(self.start, Children(other))
        self.attach()

    def absorb_parent(self) -> Node:
        """Merge the parent into this node: take its tokens and place. Return the parent, which is evicted."""
        upper = self.parent
        assert upper is not None
        assert self.start == upper.end
        self.detach()
        self.note_gone()
        upper._give_place_to(self)
        upper.tokens += self.tokens
        self.start, self.tokens, self.key = upper.start, upper.tokens, upper.key
        self.num_computed += upper.num_computed
        if upper.children:
            self._take_children(upper.start + upper.num_computed, upper.children)
        for position, children in upper.inner.items():
            self._take_children(position, children)
        self._take_prompt_ends(upper, upper.end)
        self._take_checkpoints(upper, upper.end)
        upper.state, upper.tokens = NodeState.EVICTED, tokens_of(())
        upper.forget_children()
        return upper

    def forget_children(self) -> None:
        """Part from the children of a node that has left the tree: with no cycle left, Python frees it at once."""
        self.children, self.inner, self.live_children = _NO_CHILDREN, {}, {}

    def _take_children(self, position: int, children: Children) -> None:
        """Take the children of another node that begin at `position`: within this node or at its end."""
        children.parent = self
        if position < self.end:
            self.inner[position] = children
            self.num_live_inner += children.num_live
        else:
            self.children = children
            self.live_children = {child: None for siblings in children.values() for child in siblings if child.is_live}

    def _take_prompt_ends(self, other: Node, last: int) -> None:
        """Take another node's ends of prompts, up to the position `last`."""
        for position in [position for position in other.prompt_ends if position <= last]:
            end = self.prompt_ends[position] = other.prompt_ends.pop(position)
            end.node = self

    def _take_checkpoints(self, other: Node, last: int) -> None:
        """Take another node's checkpoints, up to the position `last`."""
        for checkpoint in [each for position, each in other.checkpoints.items() if position <= last]:
            checkpoint.move(self.checkpoints)

    def _give_place_to(self, other: Node) -> None:
        """Replace this node by `other`, which has the same start and key, among the parent's children."""
        assert self.place is not None
        siblings = self.place[self.key]
        siblings.remove(self)
        siblings.insert(0, other)
        other.place = self.place
        if self in (live := self._parent.live_children):
            del live[self]
            live[other] = None

    def __repr__(self) -> str:
        return f"<node {self.start}-{self.end} {self.state.name} seq={self.seq_id} pins={self.pins}>"
