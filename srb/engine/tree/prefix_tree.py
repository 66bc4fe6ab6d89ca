"""The prefix tree: computed texts, as nodes that requests match and branches are forked from.

A path from a root is a computed text. Each scope has a root of its own: other LoRA scales and moods give other KV, and with
another salt nobody finds out what the text is. A branch under another mood than its prompt stands below it with marked
tokens (see `marked`), which no other text has.
When a request ends, its texts stay in the tree until their room is needed. Residency decides which nodes are in the KV
store, which are parked in host memory, and which are evicted.

Memory that keeps states (recurrent, hybrid) has the same tree, but a text goes on only from places whose state is known:
checkpoints, and the ends of sequences. Memory that cannot be cut (the small cache of sliding windows) is reused at the
ends of nodes only. Its tree is flat: each node is a whole text under the root, with a sequence of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from srb.engine.model import Logits, Model, Mood, Record, Scope
from srb.engine.tokens import MAX_MARK, Tokens, run_start, tokens_of
from srb.engine.tree.checkpoints import Checkpoint
from srb.engine.tree.match import Match, longest_match
from srb.engine.tree.node import Children, Node, NodeState
from srb.engine.tree.residency import Residency
from srb.engine.tree.whole import longest_whole_match

MAX_ROOTS = 64  # one for each scope, of which clients may send new ones for ever; beyond, empty ones go


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
        self._roots: dict[Scope, Node] = {}
        self._max_roots = MAX_ROOTS
        self._marks: dict[Mood, int] = {}
        residency.stored.load(self.root)

    # ---- looking up

    def root(self, scope: Scope) -> Node:
        """Return the root of a scope's texts."""
        if scope not in self._roots:
            if len(self._roots) >= self._max_roots:
                for key in [key for key, root in self._roots.items() if not (root.children or root.is_needed)]:
                    root = self._roots.pop(key)
                    root.forget_children()
                    self._residency.stored.forget_root(root)
                self._max_roots = max(
                    MAX_ROOTS, 2 * len(self._roots)
                )  # that all are looked at as seldom as roots are new
            root = self._roots[scope] = Node(None, tokens_of(()), NodeState.RESIDENT)
            self._residency.stored.note_root(root, scope)
        return self._roots[scope]

    def mark(self, mood: Mood) -> int:
        """Return the mark of tokens under a mood that is not their prompt's; −1: there is none left, and no text is kept."""
        if mood not in self._marks and len(self._marks) == MAX_MARK:
            return -1
        return self._marks.setdefault(mood, len(self._marks) + 1)

    def scope(self, root: Node) -> Scope:
        """Return the scope of the texts under a root."""
        return next(scope for scope, other in self._roots.items() if other is root)

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
            return longest_match(tokens, root, usable, self._states.deepest)
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

    def begin(self, tokens: Tokens, scope: Scope, keep: bool, match: Match | None, asker: str = "") -> Begun:
        """Begin a prompt: make its `match` resident and insert a node for the remaining tokens, as the `asker`'s.

        With `match` None all of the prompt is computed. With `keep` other requests may find the new node. The caller
        has made sure that cells and sequence ids are available.
        """
        residency, root = self._residency, self.root(scope)
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
            seq_id, num_computed = residency.lend(at), at.end - parent.end
            key = residency.key_of(rest)
            node = Node(parent, rest, NodeState.COMPUTING, seq_id, num_computed, is_private=not keep, key=key)
            node.asker = asker  # from now on: parts of it are stored while it is in use
            residency.insert(node)
            residency.move_pin(at, node)
        restored = residency.counters.tokens_restored_total - restored_before
        return Begun(node, logits, num_cached, min(num_cached, restored), match.shared)

    def complete(self, node: Node, logits: Logits, keep: bool) -> Node:
        """Keep a prompt with its last token's logits, shape (n_vocab,); return its node, pinned, which may be another."""
        node = self._residency.settle(node)
        if keep:
            self._residency.host.set_logits(node, logits)
        return node

    def release(self, node: Node, asker: str = "") -> None:
        """Release a prompt's node. Its computed tokens stay in the tree as the `asker`'s, unless the node is private."""
        if node.state is NodeState.COMPUTING:
            self._residency.stop_computing(node)
            node = self._residency.settle(node)
        for each in node.path():
            each.asker = asker
        self._residency.unpin(node)
        if node.is_private and not node.is_needed:
            self._residency.evict(node)

    # ---- a branch

    def start(self, prompt: Node, tokens: Tokens, is_end_known: bool = False) -> Lease:
        """Lend a branch a sequence that holds its prompt and the part of its earlier `tokens` that the tree still has.

        The last of `tokens` is left to compute, since its logits are needed, unless `is_end_known`: the caller has them.
        """
        residency = self._residency
        residency.pin(prompt)
        at = prompt
        usable = len(tokens) - (not is_end_known)
        if usable > 0 and self._partial_reuse and not prompt.is_private:
            known = longest_match(tokens[:usable], prompt, usable, self._states.deepest)
            found = residency.make_resident(known)
            if found.end > prompt.end and residency.make_room(0, 1):  # the branch needs a sequence beside the restored
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

        With memory that keeps states it ends at the last checkpoint before, and of a branch that has computed less, where
        it is. Return where it ends; None, and change nothing, if memory cannot be cut or nodes of the tree hold some of
        the tokens.
        """
        if not self._partial_reuse or end < lease.node.end:
            return None
        if end >= computed:
            return computed
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

    def copy_state(self, lease: Lease) -> int | None:
        """Return a free sequence that has the state of a branch's end from now on; None if none is free."""
        return self._states.copy(lease.seq_id)

    def free_copy(self, seq_id: int) -> None:
        """Free the sequence of a copied state."""
        self._residency.free_seq(seq_id)

    def go_back(self, lease: Lease, computed: int, end: int, copy: int) -> None:
        """Let a branch's sequence end at `end` instead of `computed`, with the state there, which is that of `copy`."""
        self._model.truncate(lease.seq_id, end)
        self._model.copy_state(copy, lease.seq_id)
        self._residency.record_branch(end - computed)

    @property
    def has_spare_sequence(self) -> bool:
        """Whether a sequence is free, or held by a text that can be parked."""
        return self._residency.available_ids > 0

    def end(self, lease: Lease, own: Tokens, keep: bool, asker: str = "") -> None:
        """End a branch's lease. `own` are the tokens that the branch computed; with `keep` they become an asker's node."""
        base, residency = lease.node, self._residency
        anchor, tokens, keep, num_own = base, own, keep and not base.is_private, len(own)
        if not self._partial_reuse:  # no child of its own: the whole text is a node
            assert base.parent is not None
            anchor, tokens = base.parent, base.tokens + own
            keep = keep and residency.make_room(len(base.tokens), 0)
        if keep and tokens:
            node = Node(anchor, tokens, NodeState.COMPUTING, lease.seq_id, key=residency.key_of(tokens))
            node.checkpoints = lease.checkpoints
            at = end = residency.settle(node)
            while at is not anchor and at.parent is not None:
                at.asker, at = asker, at.parent
            residency.unpin(end)
        else:
            residency.free_seq(lease.seq_id)
            self._states.drop(lease.checkpoints)
        residency.record_branch(-num_own)  # after `settle`: before, cells in use would count as free
        residency.unpin(base)

    # ---- all of it

    def forget(self, is_gone: Callable[[str], bool]) -> int:
        """Evict the texts of askers who are gone, as far as nobody else's text goes on from them; return how many tokens.

        A text that others had before them goes, too, and is computed again; what runs, and what has a name, stays. Records
        of which others have a part are forgotten. Visits every node.
        """
        residency, count, shared = self._residency, 0, dict[Record, None]()
        residency.drop_kept()
        residency.stored.taking.forget(is_gone)
        for node in reversed([each for each in self.nodes() if is_gone(each.asker)]):  # those below before those above
            if node.state is NodeState.EVICTED or node.is_needed or node.is_private or node.names:
                continue
            if node.children:
                node.asker = next(node.offspring()).asker
                continue
            shared.update(dict.fromkeys(each.record for each in node.stored))
            upper = residency.cut(node, max(node.inner) - node.start) if node.inner else node
            if upper is None:
                continue  # it is gone with all below it
            count += len(node.tokens)
            residency.evict(node)
            if upper.state is not NodeState.EVICTED:  # others begin within what was the node
                upper.asker = next(upper.offspring()).asker
        residency.stored.wipe(dict.fromkeys([*shared, *residency.stored.hand_on(is_gone)]))
        return count

    def clear(self) -> None:
        """Evict everything in the KV store, after a failure that leaves it in doubt. Nothing is running."""
        self._states.forget_unsaved()
        self._residency.let_go()
        for root in self._roots.values():
            for node in list(root.live_children):
                self._residency.evict(node)
        self._residency.drop_kept()
        self._model.clear()

    def check_invariants(self, prompts: Sequence[Node], leases: Sequence[Lease], branch_cells: int) -> None:
        """Assert that every node is in its place, that pins match their users, and that sums are right.

        `prompts` are the nodes of live prompts, `leases` those of live branches, which own `branch_cells` cells.
        """
        nodes, pinned = list(self.nodes()), [*prompts, *(lease.node for lease in leases)]
        pinned += [held] if (held := self._residency.held) is not None else []
        for node in (*self._roots.values(), *nodes):
            assert node.pins == sum(base is node for base in pinned), f"{node!r}: pins"
            private = [other for other in self._residency.private_nodes if other.parent is node]
            assert node.needed_children == sum(child.is_needed for child in (*node.offspring(), *private)), repr(node)
            assert node.needed_private == sum(child.is_needed for child in private), repr(node)
            live = {child for child in node.offspring() if child.is_live}
            assert set(node.live_children) == {child for child in live if not child.is_inner}, repr(node)
            assert node.num_live_inner == sum(child.is_inner for child in live), repr(node)
            assert all(node.start < position < node.end for position in node.inner), repr(node)
            for position, children in ((node.end, node.children), *node.inner.items()):
                assert children.parent is node or not children, repr(node)
                if self._partial_reuse:
                    self._check_alone(node, position, children)
                assert children.num_live == sum(each.is_live for some in children.values() for each in some), repr(node)
        for node in nodes:
            assert node.parent is not None
            assert node.tokens, f"{node!r} is empty"
            place = node.parent.inner[node.start] if node.is_inner else node.parent.children
            assert node.is_private or node in place[node.key], f"{node!r} is not found by its key"
            assert self._partial_reuse or node.parent.parent is None, f"{node!r} is below another node"
        lent, places = [lease.seq_id for lease in leases], [lease.checkpoints for lease in leases]
        self._residency.check_invariants(nodes, branch_cells, lent, places)

    def _check_alone(self, node: Node, position: int, children: Children) -> None:
        """Assert that no two texts of children hold the same token after the same text, computing prompts aside."""
        known = {node.tokens[position - node.start]} if position < node.end else set[int]()
        assert not known & children.keys(), f"{node!r} and its child at {position} go on alike"
        for key, siblings in children.items():
            assert all(child.tokens[0] == key for child in siblings), f"{node!r}: a child's key"
            assert all(child.state is NodeState.COMPUTING for child in siblings[1:]), f"{node!r}: children begin alike"
