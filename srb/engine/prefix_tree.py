"""What is computed: a tree of token spans, which requests find and branches stand on.

A path from a root is a text that has been computed; there is a root for each set of LoRA scales, since texts that were
computed with others have other KV. Whatever a request computes stays here when it ends, until its room is asked for.
Where the nodes lie, in KV cells or in host memory, and what has to leave, is the residency's part.

Memory that cannot be cut (recurrent, hybrid, sliding window) is reused at the end of a node only: there the tree is
flat, each node a whole text under the root with a sequence of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from srb.engine.match import Match, best_child, longest_match
from srb.engine.model import Logits, Model, Scales
from srb.engine.node import Node, NodeState
from srb.engine.request import Branch, Prefix, Request
from srb.engine.residency import Residency

MOST_ROOTS = 64  # before those are forgotten under which nothing stands


class PrefixTree:
    """The one writer of what a prefix and a branch stand on, and of the sequence that a branch is lent."""

    def __init__(self, model: Model, residency: Residency) -> None:
        self._model = model
        self._residency = residency
        self._roots: dict[Scales, Node] = {}
        self.hits_total = 0  # requests that found a part of their prompt
        self.cached_tokens_total = 0  # of prompts

    # ---- looking up

    def root(self, lora: Scales) -> Node:
        """Return where texts that are computed with these LoRA scales begin."""
        if lora not in self._roots:
            if len(self._roots) >= MOST_ROOTS:
                used = {node.parent for node in self._residency.private_nodes}
                empty = [key for key, root in self._roots.items() if not (root.children or root.pins or root in used)]
                for key in empty:
                    del self._roots[key]
            self._roots[lora] = Node(None, [], NodeState.RESIDENT)
        return self._roots[lora]

    def scales(self, root: Node) -> Scales:
        """Return the LoRA scales of what stands under a root."""
        return next(lora for lora, other in self._roots.items() if other is root)

    def match(self, tokens: Sequence[int], start: Node) -> Match:
        """Find how much of a text is there, at or below `start`; all of it only with the logits of its last token."""
        return longest_match(tokens, start, self._model.can_cut)

    def nodes(self) -> Iterator[Node]:
        """Yield every node but the roots, parents first."""
        waiting = [child for root in self._roots.values() for child in root.children] + self._residency.private_nodes
        while waiting:
            node = waiting.pop()
            yield node
            waiting += node.children

    # ---- a request's prompt

    def begin(self, prefix: Prefix, keep: bool, reuse: bool = True) -> None:
        """Give a prompt what the tree holds of it, and a node for the rest; `keep` says whether others may find that.

        Without `reuse` or `keep` all of it is computed.

        The caller has made sure that cells and ids are available.
        """
        residency, root = self._residency, self.root(prefix.request.lora)
        match = self.match(prefix.tokens, root) if keep and reuse else Match(root)
        restored_before = residency.counters.tokens_restored_total
        at = residency.bring(match)
        if at.end == len(prefix.tokens):
            assert at.logits is not None
            prefix.node, prefix.logits = at, at.logits
        else:
            parent = at if self._model.can_cut else root
            if not residency.make_room(at.end - parent.end, 1):  # the match itself is what would have to be parked
                at = parent = residency.move_pin(at, root)
            rest = prefix.tokens[parent.end :]
            is_private = not keep or best_child(parent, rest, 0, self._model.can_cut)[0] is not None
            node = Node(parent, rest, NodeState.COMPUTING, residency.fork(at), at.end - parent.end, is_private)
            residency.enter(node)
            prefix.node = residency.move_pin(at, node)
            residency.touch(node)
        self._note_hit(prefix, at.end, residency.counters.tokens_restored_total - restored_before)

    def _note_hit(self, prefix: Prefix, length: int, restored: int) -> None:
        """Record what a prompt found when it first began; what it finds later, after a pause, is its own."""
        if prefix.num_cached is not None:
            return
        prefix.num_cached = length
        prefix.num_restored = min(length, restored)
        self.hits_total += length > 0
        self.cached_tokens_total += length

    def complete(self, prefix: Prefix, logits: Logits, keep: bool) -> None:
        """Keep the logits of a prompt's last token, for its branches and for whoever asks for the same prompt."""
        node = prefix.node
        assert node is not None
        if keep and node.is_private:
            assert node.parent is not None
            assert node.seq_id is not None
            prefix.node = self._insert(node.parent, node.tokens, node.seq_id)
            self._residency.hand_over(node)
            self._residency.pin(prefix.node)
        assert prefix.node is not None
        prefix.logits = prefix.node.logits = logits

    def release(self, prefix: Prefix) -> None:
        """Let go of a prompt; what was computed of it stays, as far as it may be found."""
        node, prefix.node = prefix.node, None
        if node is None:
            return
        self._residency.unpin(node)
        if node.state is NodeState.COMPUTING:
            self._residency.give_up(node)
        if not node.tokens or (node.is_private and not node.pins):
            self._residency.drop(node)

    # ---- a branch

    def start(self, branch: Branch) -> None:
        """Lend a branch a sequence that holds its prefix and what the tree still has of its own tokens."""
        prefix = branch.request.prefix
        assert prefix.node is not None
        base = prefix.node
        self._residency.pin(base)
        branch.base = base
        if branch.tokens and self._model.can_cut and not base.is_private:
            # Below the prefix: the same text may stand elsewhere too, and would hold its cells a second time.
            found = self._residency.bring(self.match([*prefix.tokens, *branch.tokens], start=base))
            self._residency.unpin(found)
            if found.end > branch.start and self._resume(branch, found):
                return
        branch.seq_id = self._residency.fork(base)
        self._residency.touch(base)

    def _resume(self, branch: Branch, found: Node) -> bool:
        """Stand a branch on a node of its own earlier tokens; False where that leaves no sequence for it."""
        assert branch.base is not None
        branch.base = self._residency.move_pin(branch.base, found)
        if not self._residency.make_room(0, 1):
            assert branch.request.prefix.node is not None
            branch.base = self._residency.move_pin(found, branch.request.prefix.node)
            return False
        branch.seq_id = self._residency.fork(found)
        branch.num_computed = found.end - branch.start
        return True

    def end(self, branch: Branch, keep: bool) -> None:
        """Take a branch's sequence back; what it computed stays as a node. Nothing to do where none is lent."""
        if branch.seq_id is None:
            return
        base, seq_id = branch.base, branch.seq_id
        assert base is not None
        computed = branch.num_computed
        own = branch.tokens[base.end - branch.start : computed]
        branch.base = branch.seq_id = None
        branch.num_computed = 0
        if not self._model.can_cut:
            text = [*branch.request.prefix.tokens, *branch.tokens[:computed]]
            keep = keep and self._residency.make_room(len(text) - len(own), 0)
            self._end_at(self.root(branch.request.lora), text if keep else [], seq_id)
        elif base.is_private:  # another node has its place, or part of it; below that the text belongs
            assert base.parent is not None
            self._end_at(base.parent, [*base.tokens, *own] if keep else [], seq_id)
        else:
            self._end_at(base, own if keep else [], seq_id)
        self._residency.disown(len(own))
        self._residency.touch(base)
        self._residency.unpin(base)

    def _end_at(self, anchor: Node, tokens: list[int], seq_id: int) -> None:
        if tokens:
            self._insert(anchor, tokens, seq_id)
        else:
            self._residency.take_back(seq_id)

    def _insert(self, anchor: Node, tokens: list[int], seq_id: int) -> Node:
        """Keep `tokens`, computed in `seq_id` after `anchor`; return the node where they end.

        What the tree has already is shared and not kept twice, unless it is being computed or cannot be restored now.
        """
        residency, can_cut, at = self._residency, self._model.can_cut, anchor
        residency.pin(at)
        while tokens:
            child, common = best_child(at, tokens, 0, can_cut)
            if child is None or child.state is NodeState.COMPUTING:
                break
            if not can_cut and common < len(tokens):
                break
            if child.state is NodeState.PARKED and common == len(tokens) == len(child.tokens):
                residency.arrive(child, seq_id)  # what was just computed is what had been saved
                residency.unpin(at)
                residency.touch(child)
                return child
            if child.state is NodeState.PARKED and not residency.restore(child):
                break
            at = residency.move_pin(at, residency.split(child, common))
            if common < len(tokens):
                holder = at.holder()
                assert holder is not None
                self._model.splice(holder, seq_id, at.end)
            tokens = tokens[common:]
        if tokens:
            node = Node(at, tokens, NodeState.RESIDENT, seq_id)
            residency.enter(node)
        else:
            residency.take_back(seq_id)
            node = at
        residency.unpin(at)
        residency.touch(node)
        return node

    # ---- all of it

    def clear(self) -> None:
        """Forget all that is in the KV store, after a failure that leaves it in doubt. Nothing is running."""
        for node in [child for root in self._roots.values() for child in root.children if child.is_live]:
            self._residency.drop(node)
        self._model.clear()

    def stats(self) -> dict[str, float]:
        """Return counters (`…_total`) and gauges by name, the residency's too."""
        hits = {"prefix_hits_total": self.hits_total, "prompt_tokens_cached_total": self.cached_tokens_total}
        return hits | self._residency.stats()

    def check_invariants(self, requests: Iterable[Request]) -> None:
        """Assert that texts are whole, pins are who they say, and nothing is lost or held twice."""
        requests, nodes = list(requests), list(self.nodes())
        branches = [branch for request in requests for branch in request.branches if branch.seq_id is not None]
        standing = [request.prefix.node for request in requests] + [branch.base for branch in branches]
        for branch in branches:
            assert branch.base is not None
            assert branch.request.prefix.node in branch.base.path(), f"{branch!r} stands beside its prefix"
        for node in (*self._roots.values(), *nodes):
            assert node.pins == sum(base is node for base in standing), f"{node!r}: pins"
        for node in nodes:
            assert node.parent is not None
            assert node.tokens, f"{node!r} is empty"
            assert node.start == node.parent.end, f"{node!r} does not follow {node.parent!r}"
            assert self._model.can_cut or node.parent.parent is None, f"{node!r} is below another node"
        self._residency.check_invariants(nodes, branches)
