"""Host memory: the KV of parked nodes, checkpoints, and the logits of prompts that ended in the tree, within a budget."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from srb.engine.model import Blob, Logits
from srb.engine.tree.checkpoints import Checkpoint, Checkpoints
from srb.engine.tree.node import Node, NodeState, PromptEnd

MAX_NAMES = 256  # of saved texts; with a name a text is evicted last, so without a limit names would fill the budget
MAX_LOGITS = 64  # ends of prompts that keep their logits while idle; recomputing them costs one decoded token
MAX_RECENT = 8  # of these, the newest: they stay the ends of nodes, so a prompt that is sent again splits no node
NODE_BYTES = 1024  # per parked node: the object, its dicts and lists, its entries in other dicts
TOKEN_BYTES = 5  # per token of a parked node: 4, and the spare room of an array that has changed its length
LOGITS_SHARE = 8  # logits may take 1/8 of the budget: 64 ends of a large vocabulary take 64 MB, and texts matter more
CHECKPOINTS_SHARE = 2  # beyond 1/2 of the budget, checkpoints are dropped before parked nodes: texts count more


class HostMemory:
    """Parked KV, checkpoints, idle logits and names. This class alone writes them, and decides the order of eviction.

    The cost of a change does not depend on the number of nodes. Least recently used leaves are evicted first, named
    leaves last.
    """

    def __init__(self, budget: int, evict: Callable[[Node], None], on_mergeable: Callable[[Node], None]) -> None:
        """Hold at most `budget` bytes.

        `evict` evicts a node from the tree. `on_mergeable` is called with a node that is no longer kept apart.
        """
        self.budget = budget
        self._evict = evict
        self._on_mergeable = on_mergeable
        self._leaves: OrderedDict[Node, None] = OrderedDict()  # parked, childless, without a name; oldest use first
        self._named_leaves: OrderedDict[Node, None] = OrderedDict()
        self._stored_leaves: OrderedDict[Node, None] = OrderedDict()  # those that a store has, too
        self._spare: OrderedDict[Node, None] = OrderedDict()  # parked nodes whose KV a store has, too
        self._recent_ends: OrderedDict[PromptEnd, None] = OrderedDict()  # idle ends of prompts, oldest use first
        self._older_ends: OrderedDict[PromptEnd, None] = OrderedDict()  # all other idle ones
        self._names: dict[str, Node] = {}
        self.checkpoints = Checkpoints()
        self._protected: Node | None = None
        self._logits_bytes = 0
        self._blob_bytes = 0
        self.num_nodes = 0
        self.num_tokens = 0

    @property
    def used_bytes(self) -> int:
        texts = self._blob_bytes + NODE_BYTES * self.num_nodes + TOKEN_BYTES * self.num_tokens
        return texts + self._logits_bytes + self.checkpoints.nbytes

    def __repr__(self) -> str:
        return f"<host memory {self.num_nodes} nodes, {self.used_bytes}/{self.budget} bytes, {len(self._names)} names>"

    # ---- parked nodes

    def fits(self, node: Node, blob: Blob) -> bool:
        """Whether a node with its blob fits the budget once all else is evicted."""
        return len(blob) + NODE_BYTES + TOKEN_BYTES * len(node.tokens) <= self.budget

    def add(self, node: Node, blob: Blob) -> None:
        """Park a node: keep its KV, and evict least recently used leaves until the budget holds."""
        node.state, node.blob = NodeState.PARKED, blob
        self._blob_bytes += len(blob)
        self.note_stored(node)
        self.note_found(node)
        self.make_room()

    def note_found(self, node: Node) -> None:
        """Count a parked node, as which it was made; `make_room` follows."""
        self.num_nodes += 1
        self.num_tokens += len(node.tokens)
        self._note_leaf(node)

    def note_stored(self, node: Node) -> None:
        """Note that a store has a node, or has it no more."""
        if node.state is not NodeState.PARKED:
            return
        if node.is_stored and node.blob is not None:
            self._spare[node] = None
        else:
            self._spare.pop(node, None)
        for leaves in (self._leaves, self._stored_leaves):
            if node in leaves and leaves is not self._order(node):
                del leaves[node]
                self._order(node)[node] = None

    def note_loaded(self, node: Node, blob: Blob) -> None:
        """Let a parked node that a store has be in memory, too."""
        node.blob = blob
        self._blob_bytes += len(blob)
        self.note_stored(node)
        self.make_room()

    def note_split(self, upper: Node, lower: Node, blobs: tuple[Blob, Blob] | None) -> None:
        """Let both parts of a parked node have their own KV; `make_room` follows when it is known which of them stays.

        None: a store has it.
        """
        if blobs is not None:
            assert lower.blob is not None
            self._blob_bytes += sum(map(len, blobs)) - len(lower.blob)
            upper.blob, lower.blob = blobs
        self.note_stored(upper)
        self.note_stored(lower)
        self.num_nodes += 1
        self._note_leaf(lower)  # its inner children may have gone to the upper part

    def note_shortened(self, node: Node, blob: Blob | None, count: int) -> None:
        """Let a parked node that has lost its first `count` tokens have the KV of the others; None: a store has it."""
        self.num_tokens -= count
        if blob is not None:
            assert node.blob is not None
            self._blob_bytes += len(blob) - len(node.blob)
            node.blob = blob
        self._note_leaf(node)  # its inner children may have gone with the tokens

    def remove(self, node: Node) -> None:
        """Drop a parked node's blob, since the node is being restored or evicted."""
        self._blob_bytes -= 0 if node.blob is None else len(node.blob)
        self.num_nodes -= 1
        self.num_tokens -= len(node.tokens)
        node.blob = None
        for order in (self._leaves, self._named_leaves, self._stored_leaves, self._spare):
            order.pop(node, None)

    def protect(self, node: Node | None) -> None:
        """Protect a node from eviction while its ancestors are restored; None ends the protection."""
        self._protected = node
        if node is not None:
            self.touch(node)

    def touch(self, node: Node) -> None:
        """Mark a node as used now."""
        for order in (self._leaves, self._named_leaves, self._stored_leaves, self._spare):
            if node in order:
                order.move_to_end(node)
        if (end := node.prompt_end) is not None:
            for ends in (self._recent_ends, self._older_ends):
                if end in ends:
                    ends.move_to_end(end)

    def note_child_removed(self, node: Node) -> None:
        """List a parked node as a leaf when its last child is gone. It is evicted next: that child was the oldest."""
        if node.state is NodeState.PARKED and node.is_childless:
            self._note_leaf(node)
            if node is not self._protected:
                self._order(node).move_to_end(node, last=False)

    def note_child_added(self, node: Node) -> None:
        for order in (self._leaves, self._named_leaves, self._stored_leaves):
            order.pop(node, None)

    def make_room(self) -> None:
        """Drop checkpoints beyond their share, then what a store has, then least recently used leaves, then logits.

        All that is done until the budget holds.
        """
        while self.used_bytes > self.budget:
            leaves = self._leaves or self._stored_leaves or self._named_leaves
            has_too_many = self.checkpoints.nbytes > self.budget // CHECKPOINTS_SHARE
            if (has_too_many or not leaves) and self.checkpoints.drop_one():
                continue
            spare = next((node for node in self._spare if node is not self._protected), None)
            if spare is not None:
                assert spare.blob is not None
                self._blob_bytes -= len(spare.blob)
                spare.blob = None
                del self._spare[spare]
            elif self.checkpoints.unload_one():
                continue
            elif leaves:
                self._evict(next(iter(leaves)))
            elif not self._evict_oldest_end():
                return

    def _note_leaf(self, node: Node) -> None:
        if node.is_childless:
            self._order(node)[node] = None

    def _order(self, node: Node) -> OrderedDict[Node, None]:
        return self._named_leaves if node.names else self._stored_leaves if node.is_stored else self._leaves

    # ---- checkpoints

    def add_checkpoint(self, checkpoint: Checkpoint, is_needed: bool = False) -> None:
        """Keep a checkpoint. It may be dropped, and counts in the budget, unless something alive goes on there."""
        if not is_needed:
            self.checkpoints.add(checkpoint)
            self.make_room()

    # ---- ends of prompts

    def keeps_apart(self, node: Node) -> bool:
        """Whether a recent prompt ended where an unpinned node ends, so that the node is not to be merged."""
        return node.prompt_end in self._recent_ends

    def set_logits(self, node: Node, logits: Logits | None) -> None:
        """Set the logits of a node's last token, shape (n_vocab,); they count in the budget unless the node is pinned."""
        if (end := node.prompt_end) is not None:
            self._drop_end(end)
        if logits is not None:
            node.prompt_ends[node.end] = PromptEnd(node, node.end, logits)
            self.note_idle(node)

    def drop_prompt_ends(self, node: Node) -> None:
        for end in list(node.prompt_ends.values()):
            self._drop_end(end)

    def note_idle(self, node: Node) -> None:
        """Count the logits and the state at the end of a node that is no longer pinned."""
        if node.pins:
            return
        checkpoint, end = node.checkpoints.get(node.end), node.prompt_end
        if checkpoint is not None:
            self.checkpoints.add(checkpoint)
        if end is not None and end not in self._recent_ends and end not in self._older_ends:
            self._count(end)
        elif checkpoint is None:
            return
        self.make_room()  # now that all is counted, since it may evict and merge nodes

    def _count(self, end: PromptEnd) -> None:
        """Count the logits at an end of a prompt, and drop the oldest beyond the limits."""
        self._recent_ends[end] = None
        self._logits_bytes += end.logits.nbytes
        if len(self._recent_ends) > MAX_RECENT:
            older, _ = self._recent_ends.popitem(last=False)
            self._older_ends[older] = None
            self._on_mergeable(older.node)
        while len(self._older_ends) + MAX_RECENT > MAX_LOGITS or self._logits_bytes > self.budget // LOGITS_SHARE:
            self._evict_oldest_end()

    def note_pinned(self, node: Node) -> None:
        """Stop counting the logits and the state at the end of a node that is pinned now."""
        if (checkpoint := node.checkpoints.get(node.end)) is not None:
            self.checkpoints.remove(checkpoint)
        if (end := node.prompt_end) is not None:
            self._stop_counting(end)

    def _stop_counting(self, end: PromptEnd) -> None:
        for ends in (self._recent_ends, self._older_ends):
            if end in ends:
                del ends[end]
                self._logits_bytes -= end.logits.nbytes

    def _drop_end(self, end: PromptEnd) -> None:
        self._stop_counting(end)
        del end.node.prompt_ends[end.position]

    def _evict_oldest_end(self) -> bool:
        """Drop the logits of the idle end of a prompt that was used longest ago; return False if there is none."""
        end = next(iter(self._older_ends or self._recent_ends), None)
        if end is None:
            return False
        was_apart = end in self._recent_ends
        self._drop_end(end)
        if was_apart:
            self._on_mergeable(end.node)
        return True

    # ---- names

    def set_name(self, name: str, node: Node) -> None:
        """Name a node, so that it is evicted last. An older node of the same name loses the name."""
        self.remove_name(name)
        self._names[name] = node
        node.names += (name,)
        if self._leaves.pop(node, node) is None or self._stored_leaves.pop(node, node) is None:
            self._named_leaves[node] = None
        while len(self._names) > MAX_NAMES:
            self.remove_name(next(iter(self._names)))

    def named(self, name: str) -> Node | None:
        """Return the node of a name, or None. Safe from any thread."""
        return self._names.get(name)

    def remove_name(self, name: str) -> None:
        """Remove a name from its node; unknown names are ignored."""
        node = self._names.pop(name, None)
        if node is not None:
            node.names = tuple(other for other in node.names if other != name)
            if not node.names and self._named_leaves.pop(node, node) is None:
                self._order(node)[node] = None

    def remove_names(self, node: Node) -> None:
        for name in node.names:
            self.remove_name(name)

    # ---- self-check

    def check_invariants(self, nodes: list[Node]) -> None:
        """Assert that every sum equals the sum over `nodes`, and that the budget holds."""
        parked = [node for node in nodes if node.state is NodeState.PARKED]
        leaves = {node for node in parked if node.is_childless}
        listed = [*self._leaves, *self._named_leaves, *self._stored_leaves]
        assert leaves == set(listed), "parked leaves are not listed"
        assert len(leaves) == len(listed), "a leaf is listed twice"
        assert all(node.names for node in self._named_leaves), "a leaf without a name is listed as named"
        assert not any(node.names for node in [*self._leaves, *self._stored_leaves]), (
            "a named leaf is listed among others"
        )
        assert all(node.is_stored for node in self._stored_leaves), "a leaf that no store has is listed as stored"
        assert not any(node.is_stored for node in self._leaves), "a stored leaf is listed among the others"
        assert set(self._spare) == {node for node in parked if node.is_stored and node.blob is not None}, "spare KV"
        assert (self.num_nodes, self.num_tokens) == (len(parked), sum(len(node.tokens) for node in parked))
        assert self._blob_bytes == sum(len(node.blob) for node in parked if node.blob is not None), "bytes of KV"
        ends = [(node, end) for node in nodes for end in node.prompt_ends.values()]
        assert all(node is end.node and node.start < end.position <= node.end for node, end in ends), "ends of prompts"
        idle = {end for node, end in ends if not node.pins or end.position < node.end}
        assert idle == {*self._recent_ends, *self._older_ends}, "idle logits are not counted"
        assert all(end.position == end.node.end for end in self._recent_ends), "a recent prompt ends within a node"
        assert len(self._recent_ends) <= MAX_RECENT, "recent prompts"
        assert self._logits_bytes == sum(end.logits.nbytes for end in idle), "bytes of logits"
        assert self.used_bytes <= self.budget, "more bytes held than allowed"
        assert {(name, node) for node in nodes for name in node.names} == set(self._names.items()), "names"
