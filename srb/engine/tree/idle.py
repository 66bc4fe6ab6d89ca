"""Needed and idle nodes of the KV store: a node is needed while it or a node below it is pinned, else idle.

Cells, needed leaves and the order of the idle leaves are kept as nodes change. A change costs as many steps as there
are nodes above that change with it, and none of them looks at other nodes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

from srb.engine.tree.node import Node


class IdleNodes:
    """The one writer of pins, and the idle leaves in the order of their last use.

    `cells` are those of idle nodes. `needed_leaves` are the needed nodes without a needed child, private children aside:
    if every idle node were parked, each of them would hold one sequence, and no other node would.
    """

    def __init__(self) -> None:
        self.cells = 0
        self.needed_leaves = 0
        self._leaves: OrderedDict[Node, None] = OrderedDict()  # least recently used first

    def __repr__(self) -> str:
        return f"<idle: {self.cells} cells, {len(self._leaves)} leaves>"

    @property
    def oldest_leaf(self) -> Node | None:
        """The idle leaf that was used longest ago."""
        return next(iter(self._leaves), None)

    def newest_leaves(self) -> Iterator[Node]:
        """Yield the idle leaves, the one that was used last first."""
        return iter(reversed(self._leaves))

    # ---- nodes come and go

    def add(self, node: Node) -> None:
        """Add a node that has come into the KV store, and that nothing needs yet."""
        assert node.parent is not None
        self.cells += node.cells
        if not node.is_private:
            self._leaves.pop(node.parent, None)
        self.update_leaf(node)

    def remove(self, node: Node) -> None:
        """Remove an idle node that leaves the KV store."""
        self.cells -= node.cells
        self._leaves.pop(node, None)

    def note_child_left(self, node: Node) -> None:
        """List a node as the oldest leaf, if it is one now: it was used when the child that has left was used."""
        if node.is_idle_leaf:
            self._leaves[node] = None
            self._leaves.move_to_end(node, last=False)

    def update_leaf(self, node: Node) -> None:
        """List a node as the newest leaf, or take it from the list where it is no idle leaf."""
        if node.is_idle_leaf and not node.is_private:
            self._leaves[node] = None
            self._leaves.move_to_end(node)
        else:
            self._leaves.pop(node, None)

    def touch(self, node: Node) -> None:
        """Mark a node as used now."""
        if node in self._leaves:
            self._leaves.move_to_end(node)

    # ---- pins

    def pin(self, node: Node) -> bool:
        """Count a pin; return whether it is the node's first."""
        node.pins += 1
        if node.pins == 1 and not node.needed_children and node.parent is not None:
            self._mark_needed(node)
        return node.pins == 1

    def unpin(self, node: Node) -> bool:
        """Take a pin back; return whether it was the node's last."""
        assert node.pins > 0, f"{node!r} is not pinned"
        node.pins -= 1
        if not node.pins and not node.needed_children and node.parent is not None:
            self._mark_idle(node)
        return not node.pins

    def _mark_needed(self, node: Node) -> None:
        """Remove a newly needed node and its ancestors from the idle sums."""
        self.needed_leaves += 1
        self._leaves.pop(node, None)
        while (parent := node.parent) is not None:
            self.cells -= node.num_computed
            if self._count_child(parent, node, 1):
                return
            node = parent

    def _mark_idle(self, node: Node) -> None:
        """Add a node that is no longer needed, and the ancestors that were needed for it alone, to the idle sums."""
        self.needed_leaves -= 1
        self.update_leaf(node)
        while (parent := node.parent) is not None:
            self.cells += node.num_computed
            self._count_child(parent, node, -1)
            if parent.is_needed:
                return
            node = parent
            if not node.live_children:  # only a private node used it
                self.update_leaf(node)

    def _count_child(self, parent: Node, child: Node, change: int) -> bool:
        """Count a child that has become needed (1) or idle (-1); return whether its parent was needed before."""
        was_needed, was_leaf = parent.is_needed, parent.is_needed_leaf
        parent.needed_children += change
        parent.needed_private += change * child.is_private
        self.needed_leaves += parent.is_needed_leaf - was_leaf
        return was_needed

    # ---- self-check

    def check_invariants(self, live: list[Node]) -> None:
        """Assert that the sums and the list are those of `live`, all nodes of the KV store."""
        assert self.needed_leaves == sum(node.is_needed_leaf for node in live), "needed leaves"
        assert self.cells == sum(node.cells for node in live if not node.is_needed), "idle cells"
        assert set(self._leaves) == {node for node in live if node.is_idle_leaf and not node.is_private}, "idle leaves"
