"""Where nodes are and who needs them: in the KV store, which has cells and sequence ids, or parked in host memory.

A sequence holds a whole path, so a fork is one call, and an inner node needs no sequence of its own while a descendant
has one: ids are spent on leaves alone. A node owns the cells of its own span and shares those of its ancestors.
What nothing alive stands on is idle. When the budgets (cells, sequence ids, host bytes) ask for the room, the least
recently used leaves are parked first, and what has been parked longest is dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

from srb.engine.match import Match
from srb.engine.model import Blob, Model
from srb.engine.node import Node, NodeState
from srb.engine.request import Branch, Prefix

MOST_KEPT = 256  # names
MOST_PARKED = 4096  # nodes, so that looking a text up stays cheap
PARK_TOKENS = 256  # most tokens saved in one step, so that saving does not hold up the branches that run


@dataclass(slots=True)
class MoveCounters:
    """What has been moved and dropped since the start."""

    tokens_restored_total: int = 0
    nodes_parked_total: int = 0
    nodes_dropped_total: int = 0


@dataclass(frozen=True, slots=True)
class _Idle:
    nodes: list[Node]
    cells: int
    ids: int


class Residency:
    """The one writer of sequence ids, cells, host bytes, pins and the order of use."""

    def __init__(self, model: Model, cache_cells: int, cache_bytes: int) -> None:
        """Keep at most `cache_cells` idle cells in the KV store and `cache_bytes` of parked nodes in host memory."""
        self._model = model
        self._cache_cells = cache_cells
        self.cache_bytes = cache_bytes
        self._free_ids = list(range(model.n_seq_max - 1, -1, -1))
        self._live: dict[Node, None] = {}  # all nodes in the KV store, in order
        self._parked: dict[Node, None] = {}  # all nodes in host memory
        self._kept: dict[str, Node] = {}  # by the name of a state: the last to be dropped
        self._branch_cells = 0  # owned by running branches
        self._node_cells = 0
        self._uses = 0
        self._idle: _Idle | None = None  # what can be parked, until something changes
        self._parked_bytes = 0
        self.counters = MoveCounters()

    # ---- figures

    @property
    def used_cells(self) -> int:
        return self._branch_cells + self._node_cells

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

    @property
    def is_over_budget(self) -> bool:
        return self.idle.cells > self._cache_cells

    @property
    def private_nodes(self) -> list[Node]:
        """Nodes that no other request may find; all of them are in the KV store."""
        return [node for node in self._live if node.is_private]

    def cost(self, prompt: Sequence[int], match: Match) -> int:
        """Return how many of the available cells a prompt takes: all but those that something alive holds already."""
        idle = set(self.idle.nodes)
        held = sum(node.cells for node in match.node.path() if node.is_live and node not in idle)
        if match.into is not None and match.into.is_live and match.into not in idle:
            held += match.cut
        return len(prompt) - held

    def stats(self) -> dict[str, float]:
        """Return counters (`…_total`) and gauges by name."""
        return asdict(self.counters) | {
            "kv_cells_used": self.used_cells,
            "kv_cells_idle": self.idle.cells,
            "sequences_used": self._model.n_seq_max - len(self._free_ids),
            "sequences_idle": self.idle.ids,
            "tree_nodes": len(self._live) + len(self._parked),
            "tree_tokens_resident": self._node_cells,
            "tree_tokens_parked": sum(len(node.tokens) for node in self._parked),
            "tree_parked_bytes": self._parked_bytes,
        }

    # ---- what is computed

    def enter(self, node: Node) -> None:
        """Take in a node whose KV is in its sequence, as far as it is computed."""
        self._live[node] = None
        self._node_cells += node.cells
        assert node.parent is not None
        node.attach()
        self.settle(node.parent)
        self._idle = None

    def computed(self, prefix: Prefix, count: int) -> None:
        """Record that `count` further tokens of a prompt have been computed."""
        node = prefix.node
        assert node is not None
        node.num_computed += count
        self._node_cells += count
        if node.num_computed == len(node.tokens):
            node.state = NodeState.RESIDENT
        self._idle = None

    def advance(self, branch: Branch, count: int) -> None:
        """Record that `count` further tokens of a branch have been computed."""
        branch.num_computed += count
        self._branch_cells += count

    def disown(self, count: int) -> None:
        """Record that a branch owns `count` cells no more: they are a node's, or free."""
        self._branch_cells -= count

    def give_up(self, node: Node) -> None:
        """Compute no more of a node: it is what there is of it, which may be nothing."""
        node.tokens = node.tokens[: node.num_computed]
        node.state = NodeState.RESIDENT

    def hand_over(self, node: Node) -> None:
        """Take out a private node whose sequence and KV another node has now."""
        del self._live[node]
        self._node_cells -= node.cells
        self._idle = None

    # ---- sequences

    def fork(self, node: Node) -> int:
        """Lend a sequence that shares everything up to the end of `node`, which is pinned."""
        there_is = self.make_room(0, 1)
        assert there_is, "no sequence id is left"
        seq_id = self._free_ids.pop()
        if node.parent is not None:
            holder = node.holder()
            assert holder is not None
            self._model.fork(holder, seq_id, None if holder == node.seq_id else node.end)
        return seq_id

    def take_back(self, seq_id: int) -> None:
        self._model.remove(seq_id)
        self._free_ids.append(seq_id)

    def settle(self, node: Node) -> None:
        """Take back the sequence of an inner node whose cells a child's sequence holds as well."""
        if self._model.can_cut and node.seq_id is not None and node.has_live_children:
            self.take_back(node.seq_id)
            node.seq_id = None

    def snapshot(self, node: Node) -> Blob | None:
        """Return the KV of everything up to the end of `node`, which is pinned; None where no sequence is free."""
        if not self.make_room(0, 1):
            return None
        seq_id = self.fork(node)
        blob = self._model.save(seq_id, 0)
        self.take_back(seq_id)
        return blob

    # ---- room

    def make_room(self, cells: int, ids: int) -> bool:
        """Park idle nodes until so many cells and ids are free; False when there are not as many to be had."""
        while self._model.n_ctx - self.used_cells < cells or len(self._free_ids) < ids:
            if not self.park_one():
                return False
        return True

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
                self.split(victim, len(victim.tokens) - PARK_TOKENS)
            saved += len(victim.tokens)
            self._park(victim)

    def _least_recent(self) -> Node | None:
        """Return the idle leaf that was used longest ago; a leaf has no child in the KV store."""
        leaves = (node for node in self.idle.nodes if not node.has_live_children)
        return min(leaves, key=lambda node: node.last_used, default=None)

    def _park(self, node: Node) -> None:
        """Move a node to host memory, or drop it where it has no place there."""
        assert node.seq_id is not None
        if self.cache_bytes:
            blob = self._model.save(node.seq_id, node.start if self._model.can_cut else 0)
            if len(blob) <= self.cache_bytes:
                self._leave(node)
                node.state, node.blob = NodeState.PARKED, blob
                if node.host_bytes > self.cache_bytes:
                    node.logits = None  # one token computes them again
                self.counters.nodes_parked_total += 1
                self._hold(node)
                return
        self.drop(node)
        self.counters.nodes_dropped_total += 1

    def _leave(self, node: Node) -> None:
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
            self.take_back(seq_id)

    # ---- host memory

    def adopt(self, node: Node) -> None:
        """Take in a node that was parked elsewhere."""
        node.attach()
        self.touch(node)
        self._hold(node)

    def keep(self, name: str, node: Node) -> None:
        """Let a node be the last that is dropped, in place of an older one of the name."""
        self._kept.pop(name, None)
        self._kept[name] = node
        while len(self._kept) > MOST_KEPT:
            del self._kept[next(iter(self._kept))]

    def kept(self, name: str) -> Node | None:
        return self._kept.get(name)

    def _hold(self, node: Node) -> None:
        self._parked[node] = None
        self._parked_bytes += node.host_bytes
        while self._parked_bytes > self.cache_bytes or len(self._parked) > MOST_PARKED:
            kept = set(self._kept.values())
            leaves = (node for node in self._parked if not node.children)
            self.drop(min(leaves, key=lambda node: (node in kept, node.last_used)))
            self.counters.nodes_dropped_total += 1

    def drop(self, node: Node) -> None:
        """Forget a node that nothing stands on, and the parked ones below it."""
        for child in list(node.children):
            self.drop(child)
        if node.is_live:
            self._leave(node)
        self._parked.pop(node, None)
        self._parked_bytes -= node.host_bytes
        node.blob = None
        node.detach()
        self._kept = {name: kept for name, kept in self._kept.items() if kept is not node}
        self._idle = None

    # ---- back into the KV store

    def bring(self, match: Match) -> Node:
        """Bring a match into the KV store as far as there is room; return the node where it ends, pinned."""
        self.touch(match.into or match.node)  # so that making room for its beginning does not drop its end
        at = match.node.root
        self.pin(at)
        for node in match.node.path():
            if node.state is NodeState.PARKED and not self.restore(node):
                return at
            at = self.move_pin(at, node)
        child = match.into
        if child is None or (child.state is NodeState.PARKED and not self.restore(child)):
            return at
        return self.move_pin(at, self.split(child, match.cut))

    def restore(self, node: Node) -> bool:
        """Bring a parked node back; its parent is resident and pinned. False when there is no room."""
        assert node.parent is not None
        cells = len(node.tokens)
        # One id for it, and one for who will stand on it.
        if not self.make_room(cells, 2) or node.blob is None:  # making room may have dropped the node itself
            return False
        seq_id = self.fork(node.parent) if self._model.can_cut else self._free_ids.pop()
        if not self._model.restore(seq_id, node.blob):
            self.take_back(seq_id)
            self.drop(node)
            return False
        self.arrive(node, seq_id)
        self.counters.tokens_restored_total += len(node.tokens)
        return True

    def arrive(self, node: Node, seq_id: int) -> None:
        """Record that a parked node is in the KV store again, in `seq_id`."""
        assert node.parent is not None
        self._parked_bytes -= node.host_bytes
        node.blob, node.state, node.seq_id = None, NodeState.RESIDENT, seq_id
        del self._parked[node]
        self._live[node] = None
        self._node_cells += node.cells
        self._idle = None
        self.settle(node.parent)

    def split(self, node: Node, count: int) -> Node:
        """Divide a resident node after `count` tokens; return the upper part, which is `node` where that is all of it."""
        if count == len(node.tokens):
            return node
        upper = node.split(count)
        self._live[upper] = None
        self._idle = None
        return upper

    # ---- pins and use

    def pin(self, node: Node) -> None:
        """Say that something alive stands on a node, which keeps its whole path where it is."""
        node.pins += 1
        self._idle = None

    def unpin(self, node: Node) -> None:
        assert node.pins > 0, f"{node!r} is not pinned"
        node.pins -= 1
        self._idle = None

    def move_pin(self, source: Node, target: Node) -> Node:
        self.pin(target)
        self.unpin(source)
        return target

    def touch(self, node: Node) -> None:
        """Mark a path as used now."""
        self._uses += 1
        for each in node.path():
            each.last_used = self._uses

    # ---- self-check

    def check_invariants(self, nodes: Sequence[Node], branches: Iterable[Branch]) -> None:
        """Assert that ids, cells and bytes are conserved between all nodes and running branches, and budgets hold."""
        branches = list(branches)
        lent = [node.seq_id for node in nodes if node.seq_id is not None]
        lent += [branch.seq_id for branch in branches if branch.seq_id is not None]
        assert sorted(lent + self._free_ids) == list(range(self._model.n_seq_max)), "sequence ids are not conserved"
        assert self._node_cells == sum(node.cells for node in nodes), "cells of nodes are not conserved"
        assert self._branch_cells == sum(branch.own_cells for branch in branches), "cells of branches are not conserved"
        assert 0 <= self.used_cells <= self._model.n_ctx, "more cells in use than there are"
        assert self._parked_bytes == sum(node.host_bytes for node in nodes), "bytes are not conserved"
        assert self._parked_bytes <= self.cache_bytes, "more bytes parked than allowed"
        assert len(nodes) == len(self._live) + len(self._parked), "nodes that are nowhere"
        for node in nodes:
            self._check_node(node)

    def _check_node(self, node: Node) -> None:
        assert node.parent is not None
        assert (node.state is NodeState.PARKED) == (node.blob is not None), f"{node!r}: state"
        assert node.is_live == (node in self._live) != (node in self._parked), f"{node!r}: is it in the KV store?"
        if node.is_live:
            assert node.parent.is_live, f"{node!r} stands on a parked node"
            assert node.holder() is not None, f"{node!r}: no sequence holds it"
        if self._model.can_cut:
            assert node.seq_id is None or not node.has_live_children, f"{node!r}: an inner node with a sequence"
