"""What is computed and where it lies: a tree of token spans, each in KV cells, in host memory, or being computed.

A path from a root is a text that has been computed; there is a root for each set of LoRA scales, since texts that were
computed with others have other KV. Whatever a request computes stays here when it ends, until the
budgets (cells, sequence ids, host bytes) ask for the room: the least recently used leaves are parked first.

A sequence holds a whole path, so a fork is one call, and an inner node needs no sequence of its own while a descendant
has one: ids are spent on leaves alone. A node owns the cells of its own span and shares those of its ancestors.
Memory that cannot be cut (recurrent, hybrid, sliding window) is reused at the end of a node only: there the tree is
flat, each node a whole text under the root with a sequence of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from srb.engine.model import Logits, Model, SavedState, Scales
from srb.engine.node import Node, NodeState, common_length
from srb.engine.request import Branch, Prefix, Request

WORTH_SHARING = 16  # tokens: fewer are computed sooner than waited for, and cheaper kept twice than split off
MOST_KEPT = 256  # names
MOST_ROOTS = 64  # before those are forgotten under which nothing stands
MOST_PARKED = 4096  # nodes, so that looking a text up stays cheap
PARK_TOKENS = 256  # most tokens saved in one step, so that saving does not hold up the branches that run


@dataclass(slots=True)
class TreeCounters:
    """What the tree has done since the start."""

    prefix_hits_total: int = 0  # requests that found a part of their prompt
    prompt_tokens_cached_total: int = 0
    tokens_restored_total: int = 0
    nodes_parked_total: int = 0
    nodes_dropped_total: int = 0


@dataclass(frozen=True, slots=True)
class _Idle:
    nodes: list[Node]
    cells: int
    ids: int


@dataclass(frozen=True, slots=True)
class Match:
    """How much of a text the tree holds: `node`'s whole path and `cut` tokens of its child `into`.

    `awaits` is a node that another request is computing and that holds more of this text: worth waiting for.
    """

    node: Node
    into: Node | None = None
    cut: int = 0
    awaits: Node | None = None

    @property
    def length(self) -> int:
        return self.node.end + self.cut


class PrefixTree:
    """The one writer of residency, pins and sequence ids."""

    def __init__(self, model: Model, cache_cells: int, cache_bytes: int) -> None:
        """Keep at most `cache_cells` idle cells in the KV store and `cache_bytes` of parked nodes in host memory."""
        self._model = model
        self._cache_cells = cache_cells
        self._cache_bytes = cache_bytes
        self._free_ids = list(range(model.n_seq_max - 1, -1, -1))
        self._roots: dict[Scales, Node] = {}
        self._kept: dict[str, Node] = {}  # by the name of a state: the last to be dropped
        self._live: dict[Node, None] = {}  # all nodes in the KV store, in order
        self._parked: dict[Node, None] = {}  # all nodes in host memory
        self._private: list[Node] = []  # nodes that no other request may find
        self._branch_cells = 0  # owned by running branches
        self._node_cells = 0
        self._uses = 0
        self._idle: _Idle | None = None  # what can be parked, until something changes
        self.parked_bytes = 0
        self.counters = TreeCounters()

    # ---- figures

    @property
    def used_cells(self) -> int:
        return self._branch_cells + self._node_cells

    @property
    def used_ids(self) -> int:
        return self._model.n_seq_max - len(self._free_ids)

    @property
    def idle(self) -> _Idle:
        """Resident nodes that nothing alive stands on, on themselves or further down."""
        if self._idle is None:
            needed: set[Node] = set()
            for node in self._live:
                above: Node | None = node if node.pins or node.state is NodeState.COMPUTING else None
                while above is not None and above not in needed:
                    needed.add(above)
                    above = above.parent
            nodes = [node for node in self._live if node not in needed]
            ids = sum(node.seq_id is not None for node in nodes)
            # A node that is needed and held by idle children alone takes over the sequence of the last of them.
            inherited = sum(
                node.seq_id is None and not any(child in needed for child in node.children)
                for node in needed
                if node.parent is not None
            )
            self._idle = _Idle(nodes, sum(node.cells for node in nodes), ids - inherited)
        return self._idle

    @property
    def available_cells(self) -> int:
        """Cells that are free, or would be if every idle node were parked."""
        return self._model.n_ctx - self.used_cells + self.idle.cells

    @property
    def available_ids(self) -> int:
        return len(self._free_ids) + self.idle.ids

    def nodes(self) -> Iterator[Node]:
        """Yield every node but the root, parents first."""
        waiting = [*(child for root in self._roots.values() for child in root.children), *self._private]
        while waiting:
            node = waiting.pop()
            yield node
            waiting += node.children

    # ---- looking up

    def root(self, lora: Scales) -> Node:
        """Return where texts that are computed with these LoRA scales begin."""
        if lora not in self._roots:
            if len(self._roots) >= MOST_ROOTS:
                used = {node.parent for node in self._private}
                empty = [key for key, root in self._roots.items() if not (root.children or root.pins or root in used)]
                for key in empty:
                    del self._roots[key]
            self._roots[lora] = Node(None, [], NodeState.RESIDENT)
        return self._roots[lora]

    def match(self, tokens: Sequence[int], start: Node) -> Match:
        """Find how much of a text is there, at or below `start`; all of it only with the logits of its last token."""
        node, usable = start, len(tokens) - 1
        while True:
            child, common = self._best_child(node, tokens, node.end)
            if child is None:
                return Match(node)
            whole = common == len(child.tokens)
            if child.state is NodeState.COMPUTING:
                gains = common > child.num_computed
                cut = min(common, child.num_computed, usable - node.end) if self._model.can_cut else 0
                return Match(node, child if cut else None, cut, child if gains else None)
            if whole and (child.end <= usable or child.logits is not None):
                node = child
                if node.end == len(tokens):
                    return Match(node)
                continue
            cut = min(common, usable - node.end) if self._model.can_cut else 0
            return Match(node, child if cut else None, cut)

    def cost(self, prompt: Sequence[int], match: Match) -> int:
        """Return how many of the available cells a prompt takes: all but those that something alive holds already."""
        idle = set(self.idle.nodes)
        held = sum(node.cells for node in match.node.path() if node.is_live and node not in idle)
        if match.into is not None and match.into.is_live and match.into not in idle:
            held += match.cut
        return len(prompt) - held

    def _best_child(self, node: Node, tokens: Sequence[int], offset: int) -> tuple[Node | None, int]:
        """Return the child that shares most of `tokens[offset:]`, and how many, where that is worth anything."""
        best, most = None, 0
        for child in node.children:
            common = common_length(child.tokens, tokens, offset)
            if common > most and self._is_worth_sharing(child, common, len(tokens) - offset):
                best, most = child, common
        return best, most

    def _is_worth_sharing(self, child: Node, common: int, wanted: int) -> bool:
        if not self._model.can_cut:
            return common == len(child.tokens)
        return common >= WORTH_SHARING or common in (len(child.tokens), wanted)

    # ---- a request's prompt

    def begin(self, prefix: Prefix, keep: bool, reuse: bool = True) -> None:
        """Give a prompt what the tree holds of it, and a node for the rest; `keep` says whether others may find that.

        Without `reuse` or `keep` all of it is computed.

        The caller has made sure that cells and ids are available.
        """
        root = self.root(prefix.request.lora)
        match = self.match(prefix.tokens, root) if keep and reuse else Match(root)
        restored_before = self.counters.tokens_restored_total
        at = self._make_resident(match)
        if at.end == len(prefix.tokens):
            assert at.logits is not None
            prefix.node, prefix.logits = at, at.logits
            self._note_hit(prefix, at.end, restored_before)
            return
        parent = at if self._model.can_cut else root
        if not self.make_room(at.end - parent.end, 1):  # the match itself is what would have to be parked
            at = parent = self._move_pin(at, root)
        node = Node(parent, prefix.tokens[parent.end :], NodeState.COMPUTING, self._fork(at))
        self._live[node] = None
        self._count(node, at.end - parent.end)
        if keep and self._best_child(parent, node.tokens, 0)[0] is None:
            parent.children.append(node)
            self._settle(parent)
        else:
            self._private.append(node)
        node.pins += 1
        self._unpin(at)
        prefix.node = node
        self._touch(node)
        self._note_hit(prefix, at.end, restored_before)

    def _note_hit(self, prefix: Prefix, length: int, restored_before: int) -> None:
        """Record what a prompt found when it first began; what it finds later, after a pause, is its own."""
        if prefix.num_cached is not None:
            return
        prefix.num_cached = length
        prefix.num_restored = min(length, self.counters.tokens_restored_total - restored_before)
        self.counters.prefix_hits_total += length > 0
        self.counters.prompt_tokens_cached_total += length

    def computed(self, prefix: Prefix, count: int) -> None:
        """Record that `count` further tokens of a prompt have been computed."""
        node = prefix.node
        assert node is not None
        self._count(node, count)
        if node.num_computed == len(node.tokens):
            node.state = NodeState.RESIDENT
        self._idle = None

    def _count(self, node: Node, count: int) -> None:
        node.num_computed += count
        self._node_cells += count

    def complete(self, prefix: Prefix, logits: Logits, keep: bool) -> None:
        """Keep the logits of a prompt's last token, for its branches and for whoever asks for the same prompt."""
        node = prefix.node
        assert node is not None
        if keep and node in self._private:
            assert node.parent is not None
            assert node.seq_id is not None
            self._private.remove(node)
            del self._live[node]
            prefix.node = self._insert(node.parent, node.tokens, node.seq_id)
            self._node_cells -= node.cells
            prefix.node.pins += 1
            self._idle = None
        assert prefix.node is not None
        prefix.logits = prefix.node.logits = logits

    def release(self, prefix: Prefix) -> None:
        """Let go of a prompt; what was computed of it stays, as far as it may be found."""
        node, prefix.node = prefix.node, None
        if node is None:
            return
        self._unpin(node)
        if node.state is NodeState.COMPUTING:
            node.tokens = node.tokens[: node.num_computed]
            node.state = NodeState.RESIDENT
            if not node.tokens:
                self._remove(node)
        if node in self._private and not node.pins:
            self._remove(node)

    # ---- named states

    def adopt(self, saved: SavedState) -> None:
        """Take in a text that was saved elsewhere, as a parked node, unless it is here or has no place."""
        root = self.root(saved.lora)
        if len(saved.blob) > self._cache_bytes or self.match(saved.tokens, root).length >= len(saved.tokens) - 1:
            return
        node = Node(root, saved.tokens, NodeState.PARKED)
        node.blob, node.logits = saved.blob, saved.logits if len(saved.logits) else None
        root.children.append(node)
        self._parked[node] = None
        self.parked_bytes += node.host_bytes
        self._touch(node)
        self._drop_parked()

    def keep(self, name: str, prefix: Prefix) -> None:
        """Let the node where a complete prompt ends be the last that is dropped, in place of an older one of the name."""
        assert prefix.node is not None
        self._kept.pop(name, None)
        self._kept[name] = prefix.node
        while len(self._kept) > MOST_KEPT:
            del self._kept[next(iter(self._kept))]

    def keep_text(self, name: str, tokens: Sequence[int], lora: Scales) -> None:
        """As `keep`, for the node where a text ends that the tree holds."""
        match = self.match([*tokens, -1], self.root(lora))  # −1 is no token: it stands for what would come next
        node = match.into or match.node
        if node.parent is not None:
            self._kept.pop(name, None)
            self._kept[name] = node

    def kept_text(self, name: str) -> tuple[list[int], Scales] | None:
        """Return the tokens that are kept under a name, and the scales they were computed with."""
        node = self._kept.get(name)
        if node is None:
            return None
        lora = next(lora for lora, root in self._roots.items() if root is node.root)
        return [token for each in node.path() for token in each.tokens], lora

    def held(self, tokens: Sequence[int], lora: Scales) -> int:
        """Return how many tokens of a text the tree holds."""
        return self.match([*tokens, -1], self.root(lora)).length

    def save_text(self, tokens: Sequence[int], lora: Scales) -> SavedState | None:
        """Return the state of a text as far as the tree holds it; None where that is nothing, or no room to take it."""
        at = self._make_resident(self.match([*tokens, -1], self.root(lora)))
        try:
            if not at.end or not self.make_room(0, 1):
                return None
            seq_id = self._fork(at)
            blob = self._model.save(seq_id, 0)
            self._take_back(seq_id)
            logits = at.logits if at.logits is not None else np.empty(0, np.float32)
            return SavedState(list(tokens[: at.end]), blob, logits, lora)
        finally:
            self._unpin(at)

    def forget(self, tokens: Sequence[int], lora: Scales) -> int:
        """Drop a text as far as nothing else stands on it; return how many tokens that were."""
        match, count = self.match([*tokens, -1], self.root(lora)), 0
        node = match.node
        while match.into is None and node.parent is not None and not node.pins and not node.children:
            parent, count = node.parent, count + len(node.tokens)
            self._remove(node)
            node = parent
        return count

    def save(self, prefix: Prefix) -> SavedState | None:
        """Return a complete prompt's state; None where no sequence is free to take it from."""
        assert prefix.node is not None
        assert prefix.logits is not None
        if not self.make_room(0, 1):
            return None
        seq_id = self._fork(prefix.node)
        blob = self._model.save(seq_id, 0)
        self._take_back(seq_id)
        return SavedState(prefix.tokens, blob, prefix.logits, prefix.request.lora)

    # ---- a branch

    def start(self, branch: Branch) -> None:
        """Lend a branch a sequence that holds its prefix and what the tree still has of its own tokens."""
        prefix = branch.request.prefix
        assert prefix.node is not None
        base = prefix.node
        base.pins += 1
        branch.base = base
        if branch.tokens and self._model.can_cut and base not in self._private:
            # Below the prefix: the same text may stand elsewhere too, and would hold its cells a second time.
            found = self._make_resident(self.match([*prefix.tokens, *branch.tokens], start=base))
            self._unpin(found)
            if found.end > branch.start and self._resume(branch, found):
                return
        branch.seq_id = self._fork(base)
        self._touch(base)

    def _resume(self, branch: Branch, found: Node) -> bool:
        """Stand a branch on a node of its own earlier tokens; False where that leaves no sequence for it."""
        assert branch.base is not None
        branch.base = self._move_pin(branch.base, found)
        if not self.make_room(0, 1):
            assert branch.request.prefix.node is not None
            branch.base = self._move_pin(found, branch.request.prefix.node)
            return False
        branch.seq_id = self._fork(found)
        branch.num_computed = found.end - branch.start
        return True

    def advance(self, branch: Branch, count: int) -> None:
        """Record that `count` further tokens of a branch have been computed."""
        branch.num_computed += count
        self._branch_cells += count

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
            keep = keep and self.make_room(len(text) - len(own), 0)
            self._end_at(self.root(branch.request.lora), text if keep else [], seq_id)
        elif base in self._private:  # another node has its place, or part of it; below that the text belongs
            assert base.parent is not None
            self._end_at(base.parent, [*base.tokens, *own] if keep else [], seq_id)
        else:
            self._end_at(base, own if keep else [], seq_id)
        self._branch_cells -= len(own)
        self._touch(base)
        self._unpin(base)

    def _end_at(self, anchor: Node, tokens: list[int], seq_id: int) -> None:
        if tokens:
            self._insert(anchor, tokens, seq_id)
        else:
            self._take_back(seq_id)

    # ---- budgets

    def make_room(self, cells: int, ids: int) -> bool:
        """Park idle nodes until so many cells and ids are free; False when there are not as many to be had."""
        while self._model.n_ctx - self.used_cells < cells or len(self._free_ids) < ids:
            if not self.park_one():
                return False
        return True

    @property
    def is_over_budget(self) -> bool:
        return self.idle.cells > self._cache_cells

    def park_one(self) -> bool:
        """Park the idle leaf that was used longest ago; False where nothing is idle."""
        victim = self._least_recent()
        if victim is not None:
            self._park(victim)
        return victim is not None

    def trim(self) -> None:
        """Park a little of what is idle beyond `cache_cells`: at most PARK_TOKENS a call."""
        saved = 0
        while self.is_over_budget and saved < PARK_TOKENS and (victim := self._least_recent()):
            if self._model.can_cut and len(victim.tokens) > PARK_TOKENS:
                self._split(victim, len(victim.tokens) - PARK_TOKENS)
            saved += len(victim.tokens)
            self._park(victim)

    def _least_recent(self) -> Node | None:
        """Return the idle leaf that was used longest ago; a leaf has no child in the KV store."""
        leaves = (node for node in self.idle.nodes if not node.has_live_children)
        return min(leaves, key=lambda node: node.last_used, default=None)

    def _park(self, node: Node) -> None:
        """Move a node to host memory, or drop it where it has no place there."""
        assert node.seq_id is not None
        if self._cache_bytes:
            blob = self._model.save(node.seq_id, node.start if self._model.can_cut else 0)
            if len(blob) <= self._cache_bytes:
                self._leave_store(node)
                node.state, node.blob = NodeState.PARKED, blob
                if node.host_bytes > self._cache_bytes:
                    node.logits = None  # one token computes them again
                self._parked[node] = None
                self.parked_bytes += node.host_bytes
                self.counters.nodes_parked_total += 1
                self._drop_parked()
                return
        self._remove(node)
        self.counters.nodes_dropped_total += 1

    def _drop_parked(self) -> None:
        while self.parked_bytes > self._cache_bytes or len(self._parked) > MOST_PARKED:
            kept = set(self._kept.values())
            leaves = (node for node in self._parked if not node.children)
            self._remove(min(leaves, key=lambda node: (node in kept, node.last_used)))
            self.counters.nodes_dropped_total += 1

    # ---- in and out of the KV store

    def _make_resident(self, match: Match) -> Node:
        """Bring a match into the KV store as far as there is room; return the node where it ends, pinned."""
        self._touch(match.into or match.node)  # so that making room for its beginning does not drop its end
        at = match.node.root
        at.pins += 1
        for node in match.node.path():
            if node.state is NodeState.PARKED and not self._restore(node):
                return at
            at = self._move_pin(at, node)
        child = match.into
        if child is None or (child.state is NodeState.PARKED and not self._restore(child)):
            return at
        return self._move_pin(at, self._split(child, match.cut))

    def _restore(self, node: Node) -> bool:
        """Bring a parked node back; its parent is resident and pinned. False when there is no room."""
        assert node.parent is not None
        cells = len(node.tokens)
        # One id for it, and one for who will stand on it.
        if not self.make_room(cells, 2) or node.blob is None:  # making room may have dropped the node itself
            return False
        seq_id = self._fork(node.parent) if self._model.can_cut else self._free_ids.pop()
        if not self._model.restore(seq_id, node.blob):
            self._take_back(seq_id)
            self._remove(node)
            return False
        self._arrive(node, seq_id)
        self.counters.tokens_restored_total += len(node.tokens)
        self._settle(node.parent)
        return True

    def _arrive(self, node: Node, seq_id: int) -> None:
        """Record that a parked node is in the KV store again, in `seq_id`."""
        self.parked_bytes -= node.host_bytes
        node.blob, node.state, node.seq_id = None, NodeState.RESIDENT, seq_id
        del self._parked[node]
        self._live[node] = None
        self._node_cells += node.cells
        self._idle = None

    def _fork(self, node: Node) -> int:
        """Lend a sequence that shares everything up to the end of `node`, which is pinned."""
        there_is = self.make_room(0, 1)
        assert there_is, "no sequence id is left"
        seq_id = self._free_ids.pop()
        if node.parent is not None:
            holder = node.holder()
            assert holder is not None
            self._model.fork(holder, seq_id, None if holder == node.seq_id else node.end)
        return seq_id

    def _settle(self, node: Node) -> None:
        """Take back the sequence of an inner node whose cells a child's sequence holds as well."""
        if self._model.can_cut and node.seq_id is not None and node.has_live_children:
            self._take_back(node.seq_id)
            node.seq_id = None

    def _leave_store(self, node: Node) -> None:
        """Free a leaf's own cells; its sequence, cut to the parent's end, goes to a parent that would have none."""
        self._node_cells -= node.cells
        del self._live[node]
        seq_id, node.seq_id, self._idle = node.seq_id, None, None
        parent = node.parent
        assert seq_id is not None
        assert parent is not None
        if parent.parent is not None and parent.holder() is None:
            self._model.truncate(seq_id, parent.end)
            parent.seq_id = seq_id
        else:
            self._take_back(seq_id)

    def _remove(self, node: Node) -> None:
        """Forget a node that nothing stands on, and the parked ones below it."""
        assert node.parent is not None
        for child in list(node.children):
            self._remove(child)
        if node.is_live:
            self._leave_store(node)
        self._parked.pop(node, None)
        self.parked_bytes -= node.host_bytes
        node.blob = None
        (self._private if node in self._private else node.parent.children).remove(node)
        self._kept = {name: kept for name, kept in self._kept.items() if kept is not node}
        self._idle = None

    def _take_back(self, seq_id: int) -> None:
        self._model.remove(seq_id)
        self._free_ids.append(seq_id)

    # ---- shape

    def _split(self, node: Node, count: int) -> Node:
        """Divide a node after `count` tokens; return the upper part, which `node` stays below."""
        if count == len(node.tokens):
            return node
        assert node.parent is not None
        upper = Node(node.parent, node.tokens[:count], NodeState.RESIDENT)
        self._live[upper] = None
        upper.last_used = node.last_used
        upper.children.append(node)
        siblings = node.parent.children
        siblings[siblings.index(node)] = upper
        node.parent, node.start = upper, upper.end
        node.tokens = node.tokens[count:]
        node.num_computed -= count
        self._idle = None
        return upper

    def _insert(self, anchor: Node, tokens: list[int], seq_id: int) -> Node:
        """Keep `tokens`, computed in `seq_id` after `anchor`; return the node where they end.

        What the tree has already is shared and not kept twice, unless it is being computed or cannot be restored now.
        """
        at = anchor
        at.pins += 1
        while tokens:
            child, common = self._best_child(at, tokens, 0)
            if child is None or child.state is NodeState.COMPUTING:
                break
            if not self._model.can_cut and common < len(tokens):
                break
            if child.state is NodeState.PARKED and common == len(tokens) == len(child.tokens):
                self._arrive(child, seq_id)  # what was just computed is what had been saved
                self._settle(at)
                self._unpin(at)
                self._touch(child)
                return child
            if child.state is NodeState.PARKED and not self._restore(child):
                break
            at = self._move_pin(at, self._split(child, common))
            if common < len(tokens):
                holder = at.holder()
                assert holder is not None
                self._model.splice(holder, seq_id, at.end)
            tokens = tokens[common:]
        if tokens:
            node = Node(at, tokens, NodeState.RESIDENT, seq_id)
            self._live[node] = None
            self._node_cells += node.cells
            at.children.append(node)
            self._settle(at)
        else:
            self._take_back(seq_id)
            node = at
        self._unpin(at)
        self._touch(node)
        return node

    # ---- pins and use

    def _move_pin(self, source: Node, target: Node) -> Node:
        target.pins += 1
        source.pins -= 1
        self._idle = None
        return target

    def _unpin(self, node: Node) -> None:
        assert node.pins > 0, f"{node!r} is not pinned"
        node.pins -= 1
        self._idle = None

    def _touch(self, node: Node) -> None:
        """Mark a path as used now."""
        self._uses += 1
        for each in node.path():
            each.last_used = self._uses

    def clear(self) -> None:
        """Forget all that is in the KV store, after a failure that leaves it in doubt. Nothing is running."""
        for node in [child for root in self._roots.values() for child in root.children if child.is_live]:
            self._remove(node)
        self._model.clear()

    def stats(self) -> dict[str, float]:
        """Return counters (`…_total`) and gauges by name."""
        nodes = list(self.nodes())
        return asdict(self.counters) | {
            "kv_cells_used": self.used_cells,
            "kv_cells_idle": self.idle.cells,
            "sequences_used": self.used_ids,
            "sequences_idle": self.idle.ids,
            "tree_nodes": len(nodes),
            "tree_tokens_resident": sum(node.cells for node in nodes),
            "tree_tokens_parked": sum(len(node.tokens) for node in nodes if not node.is_live),
            "tree_parked_bytes": self.parked_bytes,
        }

    # ---- self-check

    def check_invariants(self, requests: Iterable[Request]) -> None:
        """Assert that ids, cells and bytes are conserved, pins are who they say, and budgets hold."""
        requests = list(requests)
        nodes = list(self.nodes())
        branches = [branch for request in requests for branch in request.branches if branch.seq_id is not None]
        lent = [node.seq_id for node in nodes if node.seq_id is not None]
        lent += [branch.seq_id for branch in branches if branch.seq_id is not None]
        assert sorted(lent + self._free_ids) == list(range(self._model.n_seq_max)), "sequence ids are not conserved"
        assert self._node_cells == sum(node.cells for node in nodes), "cells of nodes are not conserved"
        assert self._branch_cells == sum(branch.own_cells for branch in branches), "cells of branches are not conserved"
        assert 0 <= self.used_cells <= self._model.n_ctx, "more cells in use than there are"
        assert self.parked_bytes == sum(node.host_bytes for node in nodes), "bytes are not conserved"
        assert self.parked_bytes <= self._cache_bytes, "more bytes parked than allowed"
        standing = [request.prefix.node for request in requests] + [branch.base for branch in branches]
        for root in self._roots.values():
            assert root.pins == sum(base is root for base in standing), "a root's pins"
        for branch in branches:
            assert branch.base is not None
            assert branch.request.prefix.node in branch.base.path(), f"{branch!r} stands beside its prefix"
        for node in nodes:
            assert node.pins == sum(base is node for base in standing), f"{node!r}: pins"
            self._check_node(node)

    def _check_node(self, node: Node) -> None:
        parent = node.parent
        assert parent is not None
        assert node.tokens, f"{node!r} is empty"
        assert node.start == parent.end, f"{node!r} does not follow {parent!r}"
        assert (node.state is NodeState.PARKED) == (node.blob is not None), f"{node!r}: state"
        if node.is_live:
            assert parent.is_live, f"{node!r} stands on a parked node"
            assert node.holder() is not None, f"{node!r}: no sequence holds it"
        assert node.is_live == (node in self._live) != (node in self._parked), f"{node!r}: is it in the KV store?"
        if self._model.can_cut:
            assert node.seq_id is None or not node.has_live_children, f"{node!r}: an inner node with a sequence"
        else:
            assert parent.parent is None, f"{node!r} is below another node"
