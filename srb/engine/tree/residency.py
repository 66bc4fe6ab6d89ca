"""Residency of nodes: in the KV store, which has cells and sequence ids, or parked in host memory.

A sequence holds a whole path, so a fork is one call, and an inner node needs no sequence of its own while a descendant
has one: sequence ids are spent on leaves alone. A node owns the cells of its own span and shares those of its
ancestors. A node is *needed* while it or a node below it is pinned, else *idle*. When cells, sequence ids or host
memory run short, the least recently used idle leaves are parked first.

Sums are updated as nodes change; nothing here looks through the tree.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass

from srb.engine.model import Blob, Model, Record, TextStore
from srb.engine.tokens import Tokens, common_length, run_start
from srb.engine.tree.checkpoints import AUTO, Checkpoint
from srb.engine.tree.host import HostMemory
from srb.engine.tree.idle import IdleNodes
from srb.engine.tree.kept import KeptText, SolidCells
from srb.engine.tree.match import Match
from srb.engine.tree.node import Node, NodeState
from srb.engine.tree.states import States
from srb.engine.tree.stored import StoredTexts
from srb.engine.tree.whole import Lengths, find_text, text_key

MAX_INNER = 8192  # positions within a node's span at which children begin; a merge or a split handles all of them
PARK_TOKENS = 256  # most tokens saved in one step, so that saving does not hold up running branches
RESTORE_TOKENS = 2 * PARK_TOKENS  # more are restored in several steps beside running branches
PARK_NODES = 16  # most nodes saved in one step, since each is a call of its own


@dataclass(slots=True)
class MoveCounters:
    """Counters of restored tokens, parked nodes and evicted nodes, since the start."""

    tokens_restored_total: int = 0
    nodes_parked_total: int = 0
    nodes_dropped_total: int = 0


class Residency:
    """Sequence ids, cells and pins. This class alone writes them, and decides the order in which nodes are parked."""

    def __init__(
        self,
        model: Model,
        cache_cells: int,
        cache_bytes: int,
        checkpoint_every: int = AUTO,
        texts: TextStore | None = None,
    ) -> None:
        """Keep at most `cache_cells` idle cells in the KV store and `cache_bytes` in host memory, and all texts in `texts`.

        Memory with states has a checkpoint after each `checkpoint_every` tokens; see `Spacing`.
        """
        self._model = model
        self._cache_cells = cache_cells
        self._parks_all = False  # until no idle cells are left
        self._partial_reuse = model.supports_partial_reuse
        self._free_ids = list(range(model.n_seq_max - 1, -1, -1))
        self._branch_cells = 0  # owned by running branches
        self._node_cells = 0
        self._node_ids = 0  # sequences that nodes have
        self._num_live = 0
        self._idle = IdleNodes()
        self._solid = SolidCells()
        self._kept: KeptText | None = None
        self.held: Node | None = None  # the end of a text that is restored in several steps, pinned
        self._restored: list[Blob] = []  # not needed any more; to free their memory takes a while
        self._private: dict[Node, None] = {}
        self.lengths = Lengths()  # of the texts; only used for memory that cannot be cut
        self.host = HostMemory(cache_bytes, self.evict, self._absorb_below)
        self.stored = StoredTexts(
            texts if cache_bytes > 0 else None, self.host, self.evict, self._attach, self.key_of, model.split,
            lambda node: self.states.to_store(node), model.has_states,
        )  # fmt: skip
        self.states = States(model, self.host, checkpoint_every, self._take_free, self.free_seq)
        self.counters = MoveCounters()

    # ---- figures

    @property
    def cache_bytes(self) -> int:
        return self.host.budget

    @property
    def used_cells(self) -> int:
        return self._branch_cells + self._node_cells

    @property
    def available_cells(self) -> int:
        """Free cells, counting those of idle nodes, which can be parked."""
        return self._model.n_ctx - self.used_cells + self._idle.cells

    @property
    def _idle_ids(self) -> int:
        return self._node_ids - self._idle.needed_leaves

    @property
    def _num_free(self) -> int:
        """Free sequence ids, counting those of checkpoints that are to be saved and of a kept text."""
        return len(self._free_ids) + self.states.num_unsaved + (self._kept is not None)

    @property
    def available_ids(self) -> int:
        """Free sequence ids, counting those of idle nodes, which can be parked."""
        return self._num_free + self._idle_ids

    @property
    def _is_over_cache(self) -> bool:
        return self._idle.cells > (0 if self._parks_all else self._cache_cells)

    @property
    def needs_trim(self) -> bool:
        return self._is_over_cache or bool(self._restored) or self.states.num_unsaved > 0 or self.held is not None

    @property
    def private_nodes(self) -> list[Node]:
        """Private nodes, which no other request may find; all of them are in the KV store."""
        return list(self._private)

    def cost(self, prompt: Sequence[int], match: Match) -> int:
        """Return how many of the available cells a prompt takes: its tokens, less those that needed nodes hold."""
        node, into = match.node, match.into
        held = node.end if into is None else into.start + match.cut * into.is_needed
        while not node.is_needed and node.parent is not None:
            held, node = node.start, node.parent
        return len(prompt) - held

    def stats(self) -> dict[str, float]:
        """Return counters (`…_total`) and gauges by name."""
        return asdict(self.counters) | {
            "kv_cells_used": self.used_cells,
            "kv_cells_idle": self._idle.cells,
            "kv_cells_kept": self._kept_cells,
            "sequences_used": self._model.n_seq_max - self._num_free,
            "sequences_idle": self._idle_ids,
            "tree_nodes": self._num_live + self.host.num_nodes,
            "tree_tokens_resident": self._node_cells,
            "tree_tokens_parked": self.host.num_tokens,
            "tree_parked_bytes": self.host.used_bytes,
            "checkpoints_saved_total": self.states.saved_total,
            "checkpoints_loaded_total": self.states.loaded_total,
            "checkpoints": len(self.host.checkpoints),
            "checkpoint_bytes": self.host.checkpoints.nbytes,
            **self.stored.stats(),
        }

    # ---- nodes come and go

    def key_of(self, tokens: Tokens) -> int | None:
        """Return the key by which the root finds a whole text, of memory that cannot be cut; None: the first token."""
        return None if self._partial_reuse else text_key(tokens)

    def insert(self, node: Node) -> None:
        """Insert a node whose computed KV is in its sequence. The node is idle until it is pinned."""
        self._attach(node)
        self._add_live(node)

    def record_computed(self, node: Node, count: int) -> None:
        """Record that `count` further tokens of a prompt's node have been computed."""
        self._solid.note_growth(node.start + node.num_computed, count, self.used_cells)
        node.num_computed += count
        self._node_cells += count

    def record_branch(self, count: int, start: int | None = None) -> None:
        """Add `count`, which may be negative, to the cells that running branches own.

        `start` is the position of the first token in its text, if a branch of the tree has just computed them.
        """
        if start is not None:
            self._solid.note_growth(start, count, self.used_cells)
        self._branch_cells += count
        if count < 0:
            self._solid.cut(self.used_cells)

    def stop_computing(self, node: Node) -> None:
        """Truncate a prompt's node to its computed tokens, of which there may be none: no more of it is computed.

        A run of media that is computed in part is dropped, since no text can go on within it.
        """
        self._drop_part_of_run(node)
        if self._partial_reuse or node.is_private:
            del node.tokens[node.num_computed :]
        else:
            self._detach(node)
            del node.tokens[node.num_computed :]
            node.key = text_key(node.tokens)
            self._attach(node)

    def _drop_part_of_run(self, node: Node) -> None:
        kept = run_start(node.tokens, node.num_computed)
        if kept == node.num_computed or not self._partial_reuse:
            return
        assert node.seq_id is not None
        self._model.truncate(node.seq_id, node.start + kept)
        self.states.note_lost(node.seq_id)
        self.states.drop({place: each for place, each in node.checkpoints.items() if place > node.start + kept})
        self._solid.cut(node.start + kept)
        self._node_cells -= node.num_computed - kept
        node.num_computed = kept

    def evict(self, node: Node) -> None:
        """Evict a node, which is not needed, and every node below it."""
        parent = node.parent
        assert parent is not None
        self.counters.nodes_dropped_total += not node.is_private
        for each in reversed(node.subtree()):
            assert not each.is_needed, f"{each!r} is needed and cannot be evicted"
            self.host.remove_names(each)
            self.host.drop_prompt_ends(each)
            self.states.drop(each.checkpoints)
            self._detach(each)
            self.stored.release(each)
            if each.state is NodeState.PARKED:
                self.host.remove(each)
            else:
                self._remove_live(each)
            each.state = NodeState.EVICTED
            each.forget_children()
        self.host.note_child_removed(parent)
        self._absorb_below(parent)

    # ---- computed texts join the others

    def settle(self, node: Node) -> Node:
        """Let a computed text join the others; return the node where it ends, pinned.

        A prompt's node is pinned once, and gives its pin; a new node of a branch is not in the tree yet.
        """
        is_new = not node.pins
        at = self._join(node, len(node.tokens))
        if at is node and not is_new:
            self._idle.unpin(node)  # the pin of `_join` is left
        return at

    def _join(self, node: Node, count: int) -> Node:
        """Let the first `count` tokens of a node, all computed, join the texts below its parent; return their end, pinned.

        Tokens that the tree has are shared: the node begins after them, or is gone if there are no others. Parked ones come
        back with the node's cells, so nothing is restored and no room is needed.
        """
        at, seq_id, done = node.parent, node.seq_id, 0
        assert at is not None
        assert seq_id is not None
        self.pin(at)  # a cut may evict what it cannot split, but nothing that is pinned
        while done < count and (child := self._known(at, node, done)) is not None:
            common = min(common_length(child.tokens, node.tokens, done), count - done)
            if not done and self._let_pass(node, child, common):
                break
            upper = self.cut(child, common)
            if upper is None:
                break
            done += common
            if upper.state is NodeState.PARKED:
                self.record_restored(upper, None)
            elif done < len(node.tokens):
                holder = upper.holder()
                assert holder is not None
                self._model.splice(holder, seq_id, upper.end)
            at = self.move_pin(at, upper)
            self.states.adopt(at, node.checkpoints)
        rest, pins = len(node.tokens) - done, node.pins
        if pins and (done or not rest):  # its beginning moves: it comes into the sums anew, or its cells count twice
            self._take_out(node)
        if not rest:
            self.stored.release(node)
            node.state = NodeState.EVICTED
            self._give_to_end(at, seq_id, has_tokens=done > 0)
            return at
        if done or not pins:
            node.begin_later(at, done)
            self.stored.note_later(node)
            node.state = node.state if pins else NodeState.RESIDENT
            self._attach(node)
            self._add_live(node)
            for _ in range(pins):
                self._idle.pin(node)
        if done == count:
            return at
        if done + rest > count:
            return self.move_pin(at, self.split(node, count - done))
        if node.state is NodeState.COMPUTING:
            node.detach()  # to be the first of its siblings
            node.state = NodeState.RESIDENT
            node.attach()
            self.stored.may_lack = self.stored.keeps_all
        return self.move_pin(at, node)

    def _let_pass(self, node: Node, child: Node, common: int) -> bool:
        """Let a parked child begin within a short new node, if it may: as it would when their beginning had merged.

        Many branches that end in one step so take no longer where others have begun as they do.
        """
        is_short = common < len(node.tokens) <= PARK_TOKENS and common < len(child.tokens)
        is_plain = self._partial_reuse and not (node.pins or self.states.are_kept or child.prompt_ends or child.is_live)
        if not (is_short and is_plain) or len(child.inner) >= MAX_INNER:
            return False
        if node.tokens[common] in child.children_at(child.start + common):
            return False  # more of the node is there
        blobs = self._split_blob(child, common)
        if blobs is None and child.blob is not None:
            return False
        child.begin_within(node, common)
        self.stored.note_later(child, node)
        self.host.note_shortened(child, None if blobs is None else blobs[1], common)
        return True

    def _split_blob(self, node: Node, count: int) -> tuple[Blob, Blob] | None:
        """Return both parts of a parked node's KV; None if a store has it alone, or if it cannot be split."""
        return None if node.blob is None else self._model.split(node.blob, node.start, node.start + count)

    def _known(self, at: Node, node: Node, done: int) -> Node | None:
        """Return the child of `at` that goes on as a node does after `done` tokens."""
        if node.is_private:
            return None
        if self._partial_reuse:
            return at.known_child(node.tokens[done])
        return find_text(node.tokens, at, node.key)

    def _give_to_end(self, at: Node, seq_id: int, has_tokens: bool) -> None:
        """Let a pinned node have a sequence that ends where it does, or free the sequence if it needs none.

        `has_tokens`: the sequence has computed some to come there, and so may have a state that the node lacks.
        """
        if at.parent is not None and at.holder() is None:
            at.seq_id = seq_id
            self._node_ids += 1
            return
        if has_tokens:
            self.states.keep(at, seq_id)
        self.free_seq(seq_id)

    def _take_out(self, node: Node) -> None:
        """Take a pinned leaf from its place and out of the sums. It keeps its sequence, and loses its pins."""
        while node.pins:
            self._idle.unpin(node)
        self._solid.cut(node.start)
        self._num_live -= 1
        self._node_cells -= node.cells
        self._node_ids -= 1
        self._idle.remove(node)
        self._detach(node)
        node.note_gone()

    def _attach(self, node: Node) -> None:
        assert node.parent is not None
        node.attach()
        if node.is_private:
            self._private[node] = None
        else:
            self.host.note_child_added(node.parent)
            if not self._partial_reuse:
                self.lengths.add(len(node.tokens))

    def _detach(self, node: Node) -> None:
        node.detach()
        if node.is_private:
            del self._private[node]
        elif not self._partial_reuse:
            self.lengths.remove(len(node.tokens))

    def _add_live(self, node: Node) -> None:
        """Add an idle node to the sums of the KV store."""
        assert node.parent is not None
        self._solid.note_growth(node.start, node.cells, self.used_cells)
        self._num_live += 1
        self._node_cells += node.cells
        self._node_ids += node.seq_id is not None
        node.note_live()
        self._idle.add(node)
        self.stored.may_lack = self.stored.keeps_all
        self._free_inner_seq(node.parent)

    def _remove_live(self, node: Node) -> None:
        """Free the cells of an idle leaf. A parent that would have no sequence inherits its sequence, truncated."""
        seq_id, parent = node.seq_id, node.parent
        assert seq_id is not None
        assert parent is not None
        self._solid.cut(node.start)
        self._num_live -= 1
        self._node_cells -= node.cells
        self._idle.remove(node)
        node.note_gone()
        node.seq_id = None
        self._node_ids -= 1
        if parent.parent is not None and parent.seq_id is None and not parent.live_children:
            self._give_back(parent, seq_id)
        else:
            self.free_seq(seq_id)
        self._idle.note_child_left(parent)

    # ---- sequences

    def lend(self, node: Node) -> int:
        """Lend a sequence that goes on at the end of `node`, which is pinned."""
        seq_id = self._take_id()
        if node.parent is None:
            self.states.note_forked(seq_id)
        else:
            holder = node.holder()
            assert holder is not None
            self.states.give(node, holder, seq_id)
        return seq_id

    @property
    def free_ids(self) -> int:
        """Number of sequences that nothing holds."""
        return len(self._free_ids)

    def _take_free(self) -> int | None:
        return self._free_ids.pop() if self._free_ids else None

    def _take_id(self) -> int:
        has_room = self.make_room(0, 1)
        assert has_room, "no sequence id is left"
        return self._free_ids.pop()

    def free_seq(self, seq_id: int) -> None:
        self._model.remove(seq_id)
        self.states.note_lost(seq_id)
        self._free_ids.append(seq_id)

    def _take_from(self, node: Node) -> int | None:
        """Take the sequence of a node, whose end keeps its state; return None if it has none."""
        seq_id = node.seq_id
        if seq_id is not None:
            self.states.keep(node, seq_id)
            self.states.note_lost(seq_id)
            node.seq_id = None
            self._node_ids -= 1
        return seq_id

    def _give_back(self, node: Node, seq_id: int) -> None:
        """Let a node without a sequence have that of a child that leaves, truncated."""
        self._model.truncate(seq_id, node.end)
        self.states.note_lost(seq_id)
        node.seq_id = seq_id
        self._node_ids += 1

    def _free_inner_seq(self, node: Node) -> None:
        """Free the sequence of an inner node, since a child's sequence holds the same cells."""
        if self._partial_reuse and node.live_children and (seq_id := self._take_from(node)) is not None:
            self.free_seq(seq_id)

    # ---- room

    def make_room(self, cells: int, ids: int) -> bool:
        """Park idle nodes until `cells` cells and `ids` sequence ids are free; return False if there are too few.

        Something will be computed, so no parked text keeps its cells.
        """
        if cells or ids:
            self.drop_kept()
        if len(self._free_ids) < ids:  # a checkpoint that waits is cheaper to save than a text to park
            self.states.save_all()
        while self._model.n_ctx - self.used_cells < cells or len(self._free_ids) < ids:
            if not self.park_one():
                return False
        return True

    def park_one(self) -> bool:
        """Park the least recently used idle leaf; return False if nothing is idle."""
        victim = self._victim()
        if victim is not None:
            self._park(victim)
        return victim is not None

    def park_some(self, most: int) -> int:
        """Park at most `most` of the least recently used idle leaves; return how many."""
        count = 0
        while count < most and self.park_one():
            count += 1
        return count

    def park_all(self) -> None:
        """Let all nodes that are idle now be parked in the next steps, and so be stored: other engines ask for them."""
        self._parks_all = self._idle.cells > 0

    def trim(self) -> None:
        """Park idle nodes beyond `cache_cells`, at most PARK_TOKENS tokens and PARK_NODES nodes a call.

        The memory of restored nodes is freed and a state is saved here, and so after the first tokens that were waited for.
        """
        self._restored.clear()
        self.states.save_one()
        tokens = nodes = 0
        while self._is_over_cache and tokens < PARK_TOKENS and nodes < PARK_NODES:
            self._keep_newest()
            victim = self._victim()
            if victim is None:
                self._parks_all = False
                return
            tokens, nodes = tokens + len(victim.tokens), nodes + 1
            self._park(victim)
        self._parks_all = self._parks_all and self._idle.cells > 0
        # Texts in use have a common beginning with parked ones, which wait for it to be stored.
        beginning = self.stored.beginning
        if beginning is not None and self._free_ids and self._partial_reuse and not tokens:
            self.stored.beginning = beginning if beginning.is_live and self._store_part(beginning) else None

    def store_some(self, in_use: Iterable[Node]) -> None:
        """Copy a part of a text that stays in the KV store, for the store: one in use, or the idle one used last."""
        ends = itertools.chain((node for node in in_use if not node.is_private), self._idle.newest_leaves())
        for end in ends if self._free_ids and self._partial_reuse else ():
            if self._store_part(end):
                return
        self.stored.may_lack = False

    @property
    def can_copy(self) -> bool:
        """Whether a sequence is free for a copy, or can be made so."""
        return bool(self._free_ids) or self.make_room(0, 1)

    def press(self, node: Node, position: int) -> list[Record] | None:
        """Return the records of the text up to a place of a node; None: some are not written yet. The next one is begun."""
        if position == node.end and node.seq_id is not None:
            self.states.keep(node, node.seq_id, at_once=True)
        records = self.stored.chain(node, position)
        if records is None and self._free_ids and not self._store_part(node):
            self.stored.press(node, position)
        return records

    def _store_part(self, end: Node) -> bool:
        """Copy the first part of a resident path that the store lacks; return whether some of it is being written."""
        for node in end.path():
            if self.stored.is_writing(node):
                return True  # those behind it come after it
            most = PARK_TOKENS if self._partial_reuse else len(node.tokens)
            if node.state is not NodeState.RESIDENT or (part := self.stored.lacking(node, most)) is None:
                continue
            holder, seq_id = node.holder(), self._free_ids.pop()
            assert holder is not None
            self._model.fork(holder, seq_id, part[1] if self._partial_reuse else None)
            self.stored.write_copy(node, *part, self._model.save(seq_id, part[0]))
            self.free_seq(seq_id)
            return True
        return False

    def _victim(self) -> Node | None:
        """Return the least recently used idle leaf, or of a long one a node of its last PARK_TOKENS tokens.

        The part that is stored already is a node of its own. A node has more tokens if it would begin within a run of media.
        """
        victim = self._idle.oldest_leaf
        if victim is not None:
            self._cut_to_park(victim)
        return victim

    def _cut_to_park(self, leaf: Node) -> None:
        if self._partial_reuse and (count := run_start(leaf.tokens, self.stored.cut(leaf, PARK_TOKENS))):
            self.split(leaf, count)

    def _park(self, node: Node) -> None:
        """Park an idle leaf, or evict it if it does not fit into host memory."""
        assert node.seq_id is not None
        self.states.keep(node, node.seq_id, at_once=True)  # before the cells: it may evict others, and so merge nodes
        self._cut_to_park(node)  # which it may have absorbed
        blob = self._model.save(node.seq_id, node.start if self._partial_reuse else 0) if self.host.budget else None
        if blob is None or not self.host.fits(node, blob):
            self.evict(node)
            return
        self.counters.nodes_parked_total += 1
        self._remove_live(node)
        self.host.add(node, blob)
        self.stored.note_use(node)  # it was in the KV store until now
        self.stored.offer(node)

    # ---- the newest text's cells, while nothing runs

    def _keep_newest(self) -> None:
        """Keep the beginning of the last text that is in the KV store and about to be parked, if nothing is in use."""
        is_last = self._node_ids == 1 and len(self._free_ids) == self._model.n_seq_max - 1
        if not is_last or not self._solid.count or len(self._free_ids) < 2 or not self.host.budget:
            return
        leaf = self._idle.oldest_leaf
        if leaf is not None and leaf.seq_id is not None and self._partial_reuse:
            count, seq_id = min(self._solid.count, leaf.end), self._free_ids.pop()
            self._model.fork(leaf.seq_id, seq_id, count)
            self._kept = KeptText.of(leaf, count, seq_id)

    @property
    def _kept_cells(self) -> int:
        """Cells that a parked text keeps; the beginning of the same text may still be in nodes, which own its cells."""
        return max(0, len(self._kept.tokens) - self.used_cells) if self._kept is not None else 0

    def drop_kept(self) -> None:
        """Free the cells that a parked text keeps, if there are any."""
        if self._kept is not None:
            self.free_seq(self._kept.seq_id)
            self._kept = None

    def _take_back(self, at: Node, match: Match, steps: list[Node]) -> Node:
        """Take the first of `steps`, parked nodes after `at` with the first one last, whose cells are kept off the list.

        Return the last of them, pinned in the place of `at`; all other kept cells are freed.
        """
        kept = self._kept
        if kept is None:
            return at
        nodes = kept.has(at, reversed(steps))
        if not nodes:
            self.drop_kept()
            return at
        self._kept = None
        self._model.truncate(kept.seq_id, nodes[-1].end)
        for node in nodes:
            steps.pop()
            assert node.parent is not None
            if (seq_id := self._take_from(node.parent)) is not None and seq_id != kept.seq_id:
                self.free_seq(seq_id)
            self.record_restored(node, kept.seq_id)
            at = self.move_pin(at, self.split(node, match.cut) if node is match.into else node)
        return at

    # ---- back into the KV store

    def make_resident(self, match: Match) -> Node:
        """Restore a match as far as there is room; return the node where the resident part ends, pinned.

        A text can go on there: with memory that keeps states, the rest may be less than what was restored.
        """
        at = self._make_resident(match)
        while not self._has_state(at):
            upper = self._make_resident(self.states.deepest(Match(at)))  # all of it is resident, so this moves nothing
            self.unpin(at)
            at = upper
        return at

    def _has_state(self, node: Node) -> bool:
        """Whether a text can go on at the end of a pinned node, whose state is read if the store alone has it."""
        if not self.states.is_at_hand(node):
            self.stored.read_state(node.checkpoints[node.end])
        return self.states.has(node)

    def _make_resident(self, match: Match) -> Node:
        self.host.protect(match.into or match.node)  # making room for the beginning must not evict the end
        steps, at = [match.into] if match.into is not None else [], match.node
        while at.parent is not None and not at.is_needed:
            steps.append(at)
            at = at.parent
        while steps and steps[-1].is_live and not steps[-1].is_inner and steps[-1] is not match.into:
            at = steps.pop()  # already resident and whole
        self.pin(at)
        at = self._take_back(at, match, steps)
        while steps:
            node = steps.pop()
            if node.is_inner:
                at = self.move_pin(at, self.split(at, node.start - at.start))
            count = (steps[-1].start if steps else match.length) - node.start
            if node.state is NodeState.COMPUTING:
                upper = self._join(node, count)
                self.unpin(at)
                at = upper
                break
            part = None if node.state is NodeState.EVICTED else self.cut(node, count)
            if part is None:
                break
            if part.state is NodeState.PARKED:
                if not steps:
                    self.host.protect(part)
                if not self.restore(part):
                    break
            at = self.move_pin(at, part)
        self.host.protect(None)
        self.host.make_room()  # for the parts of parked nodes
        return at

    def restore_part(self, match: Match, is_late: Callable[[], bool]) -> bool:
        """Restore nodes of a long match until it is late; return whether the rest is short, else it has to be matched again.

        They are held until `let_go`. Memory with states, or that cannot be cut, is restored at once.
        """
        path = (match.into or match.node).path()
        parked = [place for place, node in enumerate(path) if node.state is NodeState.PARKED]
        is_short = sum(len(path[place].tokens) for place in parked) <= RESTORE_TOKENS
        if is_short or len(parked) < 2 or self.states.are_kept or not self._partial_reuse:
            return True
        for place in parked[:-1]:
            node, end = path[place], path[place + 1].start
            part = Match(node) if end == node.end or node.parent is None else Match(node.parent, node, end - node.start)
            before, self.held = self.held, self._make_resident(part)
            if before is not None:
                self.unpin(before)
            if self.held.end < end:  # there is no room, or it is lost
                return True
            if is_late():
                break
        return False

    def let_go(self) -> None:
        """Let go of what `restore_part` holds: its text has begun, or does not begin now."""
        if self.held is not None:
            held, self.held = self.held, None
            self.unpin(held)

    def restore(self, node: Node) -> bool:
        """Restore a parked node, whose parent is resident and pinned; return False if there is no room."""
        assert node.parent is not None
        # One sequence id is for the node, one for the prefix or branch that will use it.
        if (
            not self.make_room(len(node.tokens), 2) or node.state is not NodeState.PARKED
        ):  # it may have been evicted for it
            return False
        blob = self.stored.read(node) if node.blob is None else node.blob
        if blob is None:
            return False
        is_leaf = self._partial_reuse and not node.parent.live_children
        seq_id = self._take_from(node.parent) if is_leaf else None
        if seq_id is None:
            seq_id = self._take_id()
            if self._partial_reuse and (holder := node.parent.holder()) is not None:
                self._model.fork(holder, seq_id, None if holder == node.parent.seq_id else node.parent.end)
        if not self._model.restore(seq_id, blob):
            if node.parent.holder() is None and node.parent.parent is not None:
                self._give_back(node.parent, seq_id)
            else:
                self.free_seq(seq_id)
            self.evict(node)
            return False
        self.counters.tokens_restored_total += len(node.tokens)
        self.record_restored(node, seq_id)
        if not self._restored or self._restored[-1] is not blob:
            self._restored.append(blob)  # read for this
        return True

    def record_restored(self, node: Node, seq_id: int | None) -> None:
        """Record that a parked node is resident again, in `seq_id`, or in the sequence of a node that will be below it."""
        if node.blob is not None:
            self._restored.append(node.blob)
        self.stored.note_use(node)
        self.host.remove(node)
        node.state, node.seq_id = NodeState.RESIDENT, seq_id
        self._add_live(node)

    def split(self, node: Node, count: int) -> Node:
        """Split a node in the KV store after `count` tokens; return the upper part, `node` if `count` is all of it."""
        if count == len(node.tokens):
            return node
        self._num_live += 1
        upper = node.split(count)
        self.stored.note_split(upper, node)
        self._idle.update_leaf(node)  # its live inner children may have gone to the upper part
        return upper

    def cut(self, node: Node, count: int) -> Node | None:
        """Split any node after `count` tokens; return the upper part, or None if a parked one's KV cannot be split.

        Then it is evicted: it was read from a file of another form.
        """
        if node.state is not NodeState.PARKED or count == len(node.tokens):
            return self.split(node, count)
        blobs = self._split_blob(node, count)
        if blobs is None and node.blob is not None:
            self.evict(node)
            return None
        upper = node.split(count)
        self.stored.note_split(upper, node)
        self.host.note_split(upper, node, blobs)
        return upper

    def _absorb_below(self, node: Node) -> None:
        """Merge a node into its newest live child, if the two may be merged."""
        child = next(reversed(node.live_children), None)
        if child is not None:
            self._absorb_above(child)

    def _absorb_above(self, node: Node) -> None:
        """Merge the nodes above into this one while they are not pinned, end no recent prompt and have no name.

        Beyond PARK_TOKENS tokens an upper node waits until this one is at least half as long, so a token or an inner
        child changes its node as many times as the logarithm of the text's length. Texts that part at the upper node's
        end become inner children. A long story is therefore few nodes, with any number of unused branches beside it. An
        empty node, of a prompt that ended before it was computed, is evicted and merges with nothing.
        """
        while self._partial_reuse and node.state is NodeState.RESIDENT and node.tokens and not node.is_private:
            upper = node.parent
            assert upper is not None
            is_plain = upper.state is NodeState.RESIDENT and not (upper.pins or upper.names)
            if not is_plain or self.host.keeps_apart(upper) or upper.parent is None or node.is_inner:
                return
            is_short = len(upper.tokens) + len(node.tokens) <= PARK_TOKENS
            if not (is_short or len(upper.tokens) <= 2 * len(node.tokens)) or upper.needed_children > node.is_needed:
                return  # too short yet, or another child is needed
            if len(upper.inner) + len(node.inner) >= MAX_INNER:
                return
            assert upper.seq_id is None, f"{upper!r} has a child in the KV store"
            self.stored.note_absorbed(node, node.absorb_parent())
            self._num_live -= 1
            if node.num_live_inner:
                self._idle.update_leaf(node)

    # ---- pins and use

    def pin(self, node: Node) -> None:
        """Keep a node and its whole path in the KV store while something alive stands on it."""
        if self._idle.pin(node):
            self.host.note_pinned(node)

    def unpin(self, node: Node) -> None:
        """Take a pin back; a node that nothing stands on any more may be merged."""
        if self._idle.unpin(node):
            self.host.note_idle(node)
            if node.parent is not None and node.state is not NodeState.EVICTED:
                self._absorb_above(node)
                self._absorb_below(node)

    def move_pin(self, source: Node, target: Node) -> Node:
        self.pin(target)
        self.unpin(source)
        return target

    def touch(self, node: Node) -> None:
        """Mark a node as used now."""
        self._idle.touch(node)
        self.host.touch(node)

    # ---- self-check

    def find_leaks(self) -> list[str]:
        """Return what running branches still hold, or what is counted wrong, where none runs: a line each."""
        found = []
        if self._branch_cells:
            found.append(f"{self._branch_cells} cells belong to branches, and none runs")
        if not 0 <= self.used_cells <= self._model.n_ctx:
            found.append(f"{self.used_cells} of {self._model.n_ctx} cells are counted as used")
        ids = len(self._free_ids) + self._node_ids + len(self.states.lone_ids) + (self._kept is not None)
        if ids != self._model.n_seq_max:
            found.append(f"{ids} of {self._model.n_seq_max} sequences are accounted for")
        return found

    def check_invariants(
        self, nodes: Sequence[Node], branch_cells: int, lent: list[int], places: list[dict[int, Checkpoint]]
    ) -> None:
        """Assert that nodes and branches account for all sequence ids, cells and bytes, and that budgets hold.

        Running branches own `branch_cells` cells, are lent the sequences `lent`, and leave checkpoints in `places`.
        """
        live = [node for node in nodes if node.is_live]
        ids = [node.seq_id for node in live if node.seq_id is not None]
        kept = [] if self._kept is None else [self._kept.seq_id]
        assert not kept or (not lent and len(ids) <= 1), "cells are kept while others are in use"
        in_use = ids + lent + kept + self.states.lone_ids
        assert sorted(in_use + self._free_ids) == list(range(self._model.n_seq_max)), "sequence ids are not conserved"
        assert self._node_ids == len(ids), "sequences of nodes"
        assert self._node_cells == sum(node.cells for node in nodes), "cells of nodes are not conserved"
        assert self._branch_cells == branch_cells, "cells of branches are not conserved"
        assert 0 <= self.used_cells <= self._model.n_ctx, "more cells in use than there are"
        assert self._solid.count <= self.used_cells, "more solid cells than are in use"
        assert self._num_live == len(live), "number of nodes in the KV store"
        self._idle.check_invariants(live)
        for node in nodes:
            self._check_node(node)
        self.host.check_invariants(list(nodes))
        self.stored.check_invariants(nodes)
        self.states.check_invariants(list(nodes), places, {*ids, *lent})

    def _check_node(self, node: Node) -> None:
        assert node.parent is not None
        is_kept = node.blob is not None or (node.state is NodeState.PARKED and node.is_stored)
        assert (node.state is NodeState.PARKED) == is_kept, f"{node!r}: state"
        assert node.state is not NodeState.EVICTED, f"{node!r} is evicted and still in the tree"
        if node.is_live:
            assert node.parent.is_live, f"{node!r} is below a parked node"
            assert node.holder() is not None, f"{node!r}: no sequence holds it"
        if self._partial_reuse:
            assert node.seq_id is None or not node.live_children, f"{node!r}: an inner node with a sequence"
        assert node.start == node.parent.end or (node.is_inner and not node.is_needed), f"{node!r} begins elsewhere"
