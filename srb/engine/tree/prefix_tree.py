"""The prefix tree: computed texts, as nodes that requests match and branches are forked from.

A path from a root is a computed text. Each set of LoRA scales has a root of its own, since other scales give other KV.
When a request ends, its texts stay in the tree until their room is needed. Residency decides which nodes are in the KV
store, which are parked in host memory, and which are evicted.

Memory that keeps states (recurrent, hybrid) has the same tree, but a text goes on only from places whose state is known:
checkpoints, and the ends of sequences. Memory that cannot be cut (the small cache of sliding windows) is reused at the
ends of nodes only. Its tree is flat: each node is a whole text under the root, with a sequence of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from srb.engine.model import Logits, LoraScales, Model
from srb.engine.tokens import Tokens, run_start, tokens_of
from srb.engine.tree.checkpoints import Checkpoint
from srb.engine.tree.match import WORTH_SHARING, Match, best_child, longest_match
from srb.engine.tree.node import Node, NodeState
from srb.engine.tree.residency import Residency
from srb.engine.tree.whole import find_text, longest_whole_match, text_key

MAX_ROOTS = 64  # beyond this number, roots without children are removed


@dataclass(frozen=True, slots=True)
class Lease:
    """A branch's share of the tree: the pinned node that it continues, and the sequence id that it is lent."""

    node: Node
    seq_id: int
    checkpoints: dict[int, Checkpoint] = field(default_factory=dict, compare=False)  # of its own tokens, by position


@dataclass(frozen=True, slots=True)
class Begun:
    """A prompt's pinned node; `num_cached` of the prompt's tokens were in the tree, `num_restored` of these parked.

    `logits` are those of the last token, if all of the prompt was in the tree; else None. A text of the tree has the
    first `num_shared` tokens of the prompt; memory with states may have to compute some of them again.
    """

    node: Node
    logits: Logits | None
    num_cached: int
    num_restored: int
    num_shared: int


class PrefixTree:
    """Computed texts, found by their tokens. The caller returns nodes by `release` and leases by `end`, each once."""

    def __init__(self, model: Model, residency: Residency) -> None:
        self._model = model
        self._partial_reuse = model.supports_partial_reuse
        self._residency = residency
        self._states = residency.states
        self._roots: dict[LoraScales, Node] = {}

    # ---- looking up

    def root(self, lora: LoraScales) -> Node:
        """Return the root of the texts that are computed with these LoRA scales."""
        if lora not in self._roots:
            if len(self._roots) >= MAX_ROOTS:
                for key in [key for key, root in self._roots.items() if not (root.children or root.is_needed)]:
                    self._roots.pop(key).forget_children()
            self._roots[lora] = Node(None, tokens_of(()), NodeState.RESIDENT)
        return self._roots[lora]

    def scales(self, root: Node) -> LoraScales:
        """Return the LoRA scales of the texts under a root."""
        return next(lora for lora, other in self._roots.items() if other is root)

    def match(self, tokens: Tokens, root: Node) -> Match:
        """Match a text with the tree. All of it matches only if the logits of its last token are known.

        No match ends within media, some of which are computed whole.
        """
        found = self._match(tokens, root, len(tokens) - 1)
        while (start := run_start(tokens, found.length)) < found.length:
            found = self._match(tokens, root, start)
        return found

    def _match(self, tokens: Tokens, root: Node, usable: int) -> Match:
        if self._partial_reuse:
            return self._states.deepest(longest_match(tokens, root, usable))
        return longest_whole_match(tokens, root, self._residency.lengths, usable)

    def nodes(self) -> Iterator[Node]:
        """Yield every node except the roots."""
        for root in self._roots.values():
            yield from root.subtree()[1:]
        yield from self._residency.private_nodes

    @property
    def num_roots(self) -> int:
        return len(self._roots)

    # ---- a prompt

    def begin(self, tokens: Tokens, lora: LoraScales, keep: bool, match: Match | None) -> Begun:
        """Begin a prompt: make its `match` resident and insert a node for the remaining tokens.

        With `match` None all of the prompt is computed. With `keep` other requests may find the new node. The caller
        has made sure that cells and sequence ids are available.
        """
        residency, root = self._residency, self.root(lora)
        if not keep or match is None:
            match = Match(root)
        restored_before = residency.counters.tokens_restored_total
        at = residency.make_resident(match)
        num_cached, logits = at.end, match.logits
        if at.end == len(tokens):
            assert logits is not None
            residency.touch(at)
            node = at
        else:
            parent, logits = at if self._partial_reuse else root, None
            if not residency.make_room(at.end - parent.end, 1):  # only parking the match itself would make room
                at = parent = residency.move_pin(at, root)
                num_cached = 0
            rest = tokens[parent.end :]
            is_private = not keep or self._is_known(parent, rest)
            node = Node(parent, rest, NodeState.COMPUTING, residency.lend(at), at.end - parent.end, is_private)
            residency.insert(node)
            residency.move_pin(at, node)
        restored = residency.counters.tokens_restored_total - restored_before
        return Begun(node, logits, num_cached, min(num_cached, restored), match.shared)

    def complete(self, node: Node, logits: Logits, keep: bool) -> Node:
        """Keep a computed prompt with the logits of its last token; return its node, pinned, which may be another."""
        if not keep:
            return node
        if node.is_private:
            anchor, cells = node.parent, node.cells
            assert anchor is not None
            self._residency.pin(anchor)
            self._residency.unpin(node)
            self._residency.record_branch(cells)  # the cells stay in use while the text is inserted
            tokens, seq_id = node.tokens, self._residency.take_seq(node)
            node = self._insert(anchor, tokens, seq_id, node.checkpoints)
            self._residency.record_branch(-cells)
            self._residency.unpin(anchor)
        self._residency.host.set_logits(node, logits)
        return node

    def release(self, node: Node) -> None:
        """Release a prompt's node. Its computed tokens stay in the tree, unless the node is private."""
        if node.state is NodeState.COMPUTING:
            self._residency.stop_computing(node)
        self._residency.unpin(node)
        is_merged = node.state is NodeState.EVICTED  # into its only child
        if not is_merged and (node.is_private or not node.tokens) and not node.is_needed:
            self._residency.evict(node)

    # ---- a branch

    def start(self, prompt: Node, tokens: Tokens, worth: int = WORTH_SHARING) -> Lease:
        """Lend a branch a sequence that holds its prompt and the part of its earlier `tokens` that the tree still has.

        A part of a node is shared if it has at least `worth` tokens. The last of `tokens` is always left to compute,
        since its logits are needed.
        """
        residency = self._residency
        residency.pin(prompt)
        at = prompt
        if len(tokens) > 1 and self._partial_reuse and not prompt.is_private:
            # Match below the prompt only: the same text elsewhere in the tree has cells of its own.
            known = self._states.deepest(longest_match(tokens[:-1], prompt, len(tokens) - 1, worth))
            found = residency.make_resident(known)
            if found.end > prompt.end and residency.make_room(0, 1):
                at = found
                residency.unpin(prompt)
            else:
                residency.unpin(found)
        residency.touch(at)
        return Lease(at, residency.lend(at))

    def note_grown(self, lease: Lease, end: int, count: int) -> None:
        """Note that a branch has computed `count` tokens up to `end`; leave a checkpoint at the spacing."""
        self._states.note_branch(lease.seq_id, lease.checkpoints, end - count, end)

    def shorten(self, lease: Lease, computed: int, end: int) -> int | None:
        """Drop the last tokens that a branch computed, so that its sequence ends at `end` instead of `computed`.

        With memory that keeps states it ends at the last checkpoint before. Return where it ends; None, and change
        nothing, if memory cannot be cut or nodes of the tree hold some of the tokens.
        """
        if not self._partial_reuse or end < lease.node.end:
            return None
        if end == computed:
            return end
        if not self._states.are_kept:
            self._model.truncate(lease.seq_id, end)
        elif (known := max((place for place in lease.checkpoints if place <= end), default=0)) > 0:
            end = known
            for place in [place for place in lease.checkpoints if place > end]:
                self._residency.host.checkpoints.drop(lease.checkpoints[place])
            self._model.truncate(lease.seq_id, end)
            self._states.load(lease.seq_id, lease.checkpoints[end])
        else:
            return None
        self._residency.record_branch(end - computed)
        return end

    @property
    def has_spare_sequence(self) -> bool:
        """Whether a sequence is free, or held by a text that can be parked."""
        return self._residency.available_ids > 0

    def end(self, lease: Lease, own: Tokens, keep: bool) -> None:
        """End a branch's lease. `own` are the tokens that the branch computed; with `keep` they become a node."""
        base, residency = lease.node, self._residency
        anchor, tokens = base, own
        if not self._partial_reuse:
            keep = keep and residency.make_room(len(base.tokens), 0)
        if not self._partial_reuse or base.is_private:  # no child of its own: the whole span goes below its parent
            assert base.parent is not None
            anchor, tokens = base.parent, base.tokens + own
        if keep and tokens:
            residency.unpin(self._insert(anchor, tokens, lease.seq_id, lease.checkpoints))
        else:
            residency.free_seq(lease.seq_id)
        self._states.drop(lease.checkpoints)
        residency.record_branch(-len(own))
        residency.unpin(base)

    def _insert(self, anchor: Node, tokens: Tokens, seq_id: int, checkpoints: dict[int, Checkpoint]) -> Node:
        """Insert `tokens`, computed in `seq_id` after `anchor`; return the node where they end, pinned.

        The nodes take the `checkpoints` within the tokens.
        Tokens that the tree already holds are shared, unless their node is being computed or cannot be restored now.
        """
        residency, at, done = self._residency, anchor, 0
        residency.pin(at)
        while done < len(tokens):
            child, common = self._child(at, tokens, done)
            if child is None or child.state is NodeState.COMPUTING:
                break
            if child.state is NodeState.PARKED and common == len(tokens) - done == len(child.tokens):
                residency.record_restored(child, seq_id)  # its KV was just computed again
                at = residency.move_pin(at, child)
                self._states.adopt(at, checkpoints)
                return at
            if child.state is NodeState.PARKED and not residency.restore(child):
                break
            at = residency.move_pin(at, residency.split(child, common))
            self._states.adopt(at, checkpoints)
            done += common
            if done < len(tokens):
                holder = at.holder()
                assert holder is not None
                self._model.splice(holder, seq_id, at.end)
        if done == len(tokens):
            self._states.keep(at, seq_id)
            residency.free_seq(seq_id)
            return at
        node = Node(at, tokens[done:], NodeState.RESIDENT, seq_id)
        residency.insert(node)
        at = residency.move_pin(at, node)
        self._states.adopt(at, checkpoints)
        return at

    def _is_known(self, node: Node, tokens: Tokens) -> bool:
        """Whether tokens that follow a node are best inserted when they are computed, since the tree has them in part.

        Memory with states computes some known tokens again: if many follow that are new, other requests may find them
        at once, and the known ones take cells twice.
        """
        child, common = self._child(node, tokens, 0)
        is_mostly_new = self._states.are_kept and len(tokens) - common >= WORTH_SHARING
        return child is not None and not is_mostly_new

    def _child(self, node: Node, tokens: Tokens, offset: int) -> tuple[Node | None, int]:
        """Return the child that shares enough of `tokens[offset:]`, and the number of shared tokens."""
        if self._partial_reuse:
            return best_child(node.children, tokens, offset)
        return find_text(tokens, node, text_key(tokens)), len(tokens)

    # ---- all of it

    def clear(self) -> None:
        """Evict everything in the KV store, after a failure that leaves it in doubt. Nothing is running."""
        self._states.forget_unsaved()
        for root in self._roots.values():
            for node in list(root.live_children):
                self._residency.evict(node)
        self._model.clear()

    def check_invariants(self, prompts: Sequence[Node], leases: Sequence[Lease], branch_cells: int) -> None:
        """Assert that every node is in its place, that pins match their users, and that sums are right.

        `prompts` are the nodes of live prompts, `leases` those of live branches, which own `branch_cells` cells.
        """
        nodes, pinned = list(self.nodes()), [*prompts, *(lease.node for lease in leases)]
        for node in (*self._roots.values(), *nodes):
            assert node.pins == sum(base is node for base in pinned), f"{node!r}: pins"
            private = [other for other in self._residency.private_nodes if other.parent is node]
            assert node.needed_children == sum(child.is_needed for child in (*node.offspring(), *private)), repr(node)
            assert node.needed_private == sum(child.is_needed for child in private), repr(node)
            live = {child for child in node.offspring() if child.is_live}
            assert set(node.live_children) == {child for child in live if not child.is_inner}, repr(node)
            assert node.num_live_inner == sum(child.is_inner for child in live), repr(node)
            assert all(node.start < position < node.end for position in node.inner), repr(node)
            for children in (node.children, *node.inner.values()):
                assert children.parent is node or not children, repr(node)
                assert children.num_live == sum(each.is_live for some in children.values() for each in some), repr(node)
        for node in nodes:
            assert node.parent is not None
            assert node.tokens, f"{node!r} is empty"
            place = node.parent.inner[node.start] if node.is_inner else node.parent.children
            assert node.is_private or node in place[node.key], f"{node!r} is not found by its key"
            assert self._partial_reuse or node.parent.parent is None, f"{node!r} is below another node"
        lent, places = [lease.seq_id for lease in leases], [lease.checkpoints for lease in leases]
        self._residency.check_invariants(nodes, branch_cells, lent, places)
