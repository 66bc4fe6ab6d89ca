"""The level below host memory: a store keeps texts beyond the server's life, on a disk, and writes them behind the work.

A *record* is the KV of a span of a text, as it was parked; it never changes. It stands behind the record that is its
parent, or begins a text. A node has slices of records: a parked node one for all of its tokens, or none; a node in the KV
store, into which others have merged, any number of them. A record is removed when no node has a slice of it.

Only a text whose beginning is stored is written itself, so the records that are there always make whole texts.

The *state* at a place of a text, of memory that has states, is a record without tokens, behind the one that has the token
before the place. A checkpoint has it; it is written when the text is.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from heapq import heapify, heappop, heappush
from typing import TypeAlias

import numpy as np

from srb.engine.model import Blob, Door, Record, Scope, TextStore, with_beginnings
from srb.engine.tokens import Tokens, common_length, num_unmarked, run_end, run_start, tokens_of
from srb.engine.tree.checkpoints import LEVEL_OF_ENDS, Checkpoint
from srb.engine.tree.host import HostMemory
from srb.engine.tree.match import Match
from srb.engine.tree.node import Children, Node, NodeState, Slice
from srb.engine.tree.taking import Taking
from srb.engine.tree.whole import find_text

MAX_ASKED = 256  # requests, of which some may have been cancelled
MAX_WRITES = 4  # records that are with the store at a time: each holds memory, and what waits may be evicted meanwhile


@dataclass(slots=True)
class StoredCounters:
    """Counters since the start."""

    stored_tokens_written_total: int = 0
    stored_tokens_read_total: int = 0
    stored_hits_total: int = 0  # requests for which something was read
    stored_texts_lost_total: int = 0  # records that could not be read


@dataclass(slots=True)
class _Write:
    record: Record
    blob: Blob
    tokens: Tokens


Kept: TypeAlias = "Node | Checkpoint"  # what a record is of


@dataclass(slots=True)
class StoredTexts:
    """The part of the tree that is in a store. This class alone writes the slices of nodes.

    Nodes come and go as in memory alone; Residency tells of it here.
    """

    store: TextStore | None
    host: HostMemory
    evict: Callable[[Node], None]
    attach: Callable[[Node], None]
    key_of: Callable[[Tokens], int | None]  # as Residency's
    split_blob: Callable[[Blob, int, int], tuple[Blob, Blob] | None]
    states_of: Callable[[Node], list[Checkpoint]]  # those of a node that are worth their room
    has_states: bool  # whether memory has
    wake: Callable[[], None] = lambda: None  # called by other threads when there is something to collect
    counters: StoredCounters = field(default_factory=StoredCounters)
    _scopes: dict[Node, Scope] = field(default_factory=dict)  # of roots
    _root: Callable[[Scope], Node] | None = None
    taking: Taking = field(default_factory=Taking)
    _nodes: dict[Record, dict[Node, None]] = field(default_factory=dict)
    _states: dict[Record, Checkpoint] = field(default_factory=dict)
    _used: dict[Record, int] = field(default_factory=dict)  # the number of its last use
    _num_uses: int = 0
    _ends: list[tuple[int, str]] = field(default_factory=list)  # heap of last uses and ids; some are not so any more
    _by_id: dict[str, Record] = field(default_factory=dict)
    _behind: dict[str, dict[Record, None]] = field(default_factory=dict)  # by id: the records whose parent it is
    _by_story: dict[str, dict[Record, None]] = field(default_factory=dict)
    _waiting: OrderedDict[Node, None] = field(default_factory=OrderedDict)  # to be written
    _waiting_states: OrderedDict[Checkpoint, Node] = field(default_factory=OrderedDict)  # behind all texts
    _writes: dict[Kept, _Write] = field(default_factory=dict)
    _fetches: dict[Kept, Node] = field(default_factory=dict)  # with the node that each is of
    # By request: each is fetched once for it.
    _asked: OrderedDict[str, set[Kept]] = field(default_factory=OrderedDict)
    _results: deque[tuple[Kept, Record, Blob | bool | None]] = field(default_factory=deque)  # of other threads
    nbytes: int = 0
    beginning: Node | None = None  # that stays in the KV store, behind which a parked node waits
    may_lack: bool = False  # texts that stay in the KV store may be lacking
    pressed: Node | None = None  # the end of a text that is being written for its name: it is not forgotten for room
    has_failed: bool = False  # a record could not be written; who presses takes it back

    def stats(self) -> dict[str, float]:
        """Return counters (`…_total`) and gauges by name."""
        return asdict(self.counters) | {"stored_texts": len(self._by_id), "stored_bytes": self.nbytes}

    @property
    def keeps_all(self) -> bool:
        """Whether all texts are stored, and not those alone that are pressed."""
        return self.store is not None and self.store.keeps_all

    # ---- the beginning

    def load(self, root: Callable[[Scope], Node]) -> None:
        """Put the records of an earlier life into the tree, as nodes that are parked in the store alone."""
        self._root = root
        if self.store is None:
            return
        self.host.checkpoints.on_drop = self._remove
        found = list(self.store.load())
        for record, tokens in sorted(found, key=lambda each: each[0].start):  # each after the text before it
            if record.is_state and self.has_states and self._place_state(record):
                continue
            if (node := self._place(record, tokens, root)) is None:
                self.store.remove(record)
                continue
            node.asker = record.asker
            self._count(record)
            own = (Slice(record, node.start, record.end),)
            if node.stored:
                self._nodes[record] = {}
                self._set(node, own)
            else:
                node.stored, self._nodes[record] = own, {node: None}
                self.host.note_found(node)
        for record, _ in found:
            for node in self._nodes.get(record, ()):
                if node.is_childless:
                    self.host.touch(node)
        known = (record for record, _ in found if record.id in self._by_id)
        self._used = {record: place for place, record in enumerate(known)}
        self._num_uses = len(self._used)
        self._list_ends()
        self.host.make_room()
        self._keep_budget()

    def _place(self, record: Record, tokens: Tokens, root: Callable[[Scope], Node]) -> Node | None:
        """Return a new node for a record's tokens; None if it has no place, or is one too many.

        The tree may have its first tokens from another record, whose end was dropped, so that they were computed again.
        """
        at, before = record.start, self._by_id.get(record.parent)
        if len(tokens) != record.end - at or not tokens:
            return None
        if (key := self.key_of(tokens)) is not None:
            return self._place_whole(record, tokens, root(record.scope), key)
        if before is not None and before.start < at <= before.end and before.scope == record.scope:
            node = self._last(before)
            if node.end < at:
                return None
            while node.start >= at and node.parent is not None:
                node = node.parent
        elif not record.parent and not at:
            node = root(record.scope)
        else:
            return None
        done = 0
        while True:
            common = common_length(node.tokens[at - node.start :], tokens, done) if at < node.end else 0
            at, done = at + common, done + common
            if run_start(tokens, done) < done:
                return None  # of a medium that has two forms
            if done == len(tokens):
                return self._part_until(node, at, record)
            siblings = (node.children if at == node.end else node.children_at(at)).get(tokens[done])
            if not siblings:
                break
            node = siblings[0]
        parent = node
        node = Node(parent, tokens[done:] if done else tokens, NodeState.PARKED)
        if at < parent.end:
            node.place, node.start = parent.inner.setdefault(at, Children(parent)), at
        self.attach(node)
        return node

    def _last(self, record: Record) -> Node:
        """Return the node that has the last tokens of a record."""
        nodes = self._nodes[record]
        return next(iter(nodes)) if len(nodes) == 1 else max(nodes, key=lambda each: each.end)

    def _tokens(self, record: Record) -> Tokens:
        """Return the tokens of a record, as far as the tree has them."""
        node: Node | None = self._last(record)
        parts: list[Tokens] = []
        end = record.end
        while node is not None and end > record.start:
            start = max(node.start, record.start)
            parts.append(node.tokens[start - node.start : end - node.start])
            node, end = node.parent, start
        tokens = tokens_of(())
        for part in reversed(parts):
            tokens += part
        return tokens

    def _before_place(self, record: Record, at: int) -> Node:
        """Return the node of a record with the token before a place; the text there may be another record's."""
        node = self._last(record)
        while node.start >= at and node.parent is not None:
            node = node.parent
        return node

    def _place_whole(self, record: Record, tokens: Tokens, root: Node, key: int) -> Node | None:
        """Return a new node for a text of memory that cannot be cut; None if there is one."""
        if record.parent or record.start or find_text(tokens, root, key) is not None:
            return None
        node = Node(root, tokens, NodeState.PARKED, key=key)
        self.attach(node)
        return node

    def _place_state(self, record: Record) -> bool:
        """Give the node that has the token before a place the state there; return False if there is none."""
        before, at = self._by_id.get(record.parent), record.start
        if before is None or before.is_state or not before.start < at <= before.end:
            return False
        node = self._before_place(before, at)
        if at > node.end or at in node.checkpoints:
            return False
        state = Checkpoint(at, None, record.nbytes, node.checkpoints, LEVEL_OF_ENDS)
        node.checkpoints[at] = state
        self._add_state(record, state)
        return True

    def _part_until(self, node: Node, end: int, record: Record) -> Node | None:
        """Return a node for the last tokens of a record that the tree has from another; None if that had none left."""
        start = max(node.start, record.start)
        if (start, end) == (node.start, node.end):
            return None
        for place in (end, start):
            if node.start < place < node.end:
                upper = node.split(place - node.start)
                self.note_split(upper, node)
                self.host.note_split(upper, node, None)
                node = upper if place == end else node
        return node

    def note_root(self, root: Node, scope: Scope) -> None:
        """Note whose texts stand below a root."""
        self._scopes[root] = scope

    def forget_root(self, root: Node) -> None:
        self._scopes.pop(root, None)

    # ---- nodes change

    def note_split(self, upper: Node, lower: Node) -> None:
        """Divide the slices of a node, which were all the lower part's, at the place where it was split."""
        if lower.stored:
            slices = lower.stored
            self._set(upper, _clip(slices, upper.start, upper.end))
            self._set(lower, _clip(slices, lower.start, lower.end))

    def note_absorbed(self, node: Node, upper: Node) -> None:
        """Give a node the slices of its parent, which it has absorbed."""
        if upper.stored:
            self._set(node, upper.stored + node.stored)  # first: a record of no node is removed
            self._set(upper, ())

    def note_later(self, node: Node, other: Node | None = None) -> None:
        """Drop the slices of tokens that a node has lost at its beginning; `other` has these now."""
        if node.stored:
            slices = node.stored
            if other is not None:
                self._set(other, other.stored + _clip(slices, other.start, node.start))
            self._set(node, _clip(slices, node.start, node.end))

    def release(self, node: Node) -> None:
        """Drop all slices of a node that leaves the tree."""
        self._waiting.pop(node, None)
        if node.stored:
            self._set(node, ())

    def _add_state(self, record: Record, checkpoint: Checkpoint) -> None:
        self._states[record], checkpoint.record = checkpoint, record
        self.host.checkpoints.note_stored(checkpoint)
        self._count(record)

    def cut(self, node: Node, most: int) -> int:
        """Return after how many tokens to split a leaf that is to be parked, so that what is stored is not written again.

        Of what is not, at most `most` tokens are parked at once; 0: the node is parked as it is.
        """
        place = node.end - most if len(node.tokens) > most else node.start
        if node.stored:
            last = node.stored[-1]
            place = last.start if last.end == node.end else max(place, last.end)
        return max(0, place - node.start)

    def _set(self, node: Node, slices: tuple[Slice, ...]) -> None:
        before, node.stored = {each.record for each in node.stored}, slices
        after = {each.record for each in slices}
        for record in after - before:
            self._nodes[record][node] = None
        for record in before - after:
            nodes = self._nodes[record]
            nodes.pop(node, None)
            if not nodes:
                self._remove(record)
        self.host.note_stored(node)

    def _add(self, node: Node, part: Slice) -> None:
        self._set(node, tuple(sorted([*node.stored, part], key=lambda each: each.start)))

    def _count(self, record: Record) -> None:
        self._by_id[record.id] = record
        self._behind.setdefault(record.parent, {})[record] = None
        self._by_story.setdefault(record.story, {})[record] = None
        self.nbytes += record.nbytes

    def _remove(self, record: Record) -> None:
        """Remove a record that no node has a slice of, with the states behind it, or the record of a state."""
        assert self.store is not None
        for state in [each for each in self._behind.get(record.id, ()) if each.is_state]:
            self._forget(state)
        self._nodes.pop(record, None)
        if (checkpoint := self._states.pop(record, None)) is not None:
            checkpoint.record = None
            self.host.checkpoints.note_stored(checkpoint)
        del self._by_id[record.id]
        self._used.pop(record, None)  # while they are loaded, none has been used
        del self._behind[record.parent][record]
        if not self._behind[record.parent]:
            del self._behind[record.parent]
            if (parent := self._by_id.get(record.parent)) is not None:
                self._note_end(parent)
        self._leave_story(record)
        self.nbytes -= record.nbytes
        self.store.remove(record)

    def _leave_story(self, record: Record) -> None:
        own = self._by_story.get(record.story, {})
        own.pop(record, None)
        if not own:
            self._by_story.pop(record.story, None)

    # ---- writing

    def offer(self, node: Node) -> None:
        """Write a parked node, if the text before it is stored, and the states of what is."""
        if node.state is not NodeState.PARKED or not self.keeps_all:
            return
        self._offer_states(node)
        if node.blob is None:
            return
        if node.is_private or node.is_stored or node in self._writes:
            return
        if self._before(node, node.start) is not None:
            self._waiting[node] = None
            self._write_more()
        elif node.parent is not None and node.parent.is_live:
            self.beginning = node.parent

    def _offer_states(self, node: Node) -> None:
        """Write the states of a node, as far as its text is stored."""
        for checkpoint in self.states_of(node) if node.checkpoints else ():
            if checkpoint.record is None and checkpoint not in self._writes:
                self._waiting_states.setdefault(checkpoint, node)
        self._write_more()

    def _before(self, node: Node, start: int) -> str | None:
        """Return the id of the record behind which one from `start` on would stand; "" at a text's beginning.

        None: there is none.
        """
        if (parent := node.parent) is None:
            return None
        if not start:
            return ""
        before = node.stored if start > node.start else parent.stored
        return next((each.record.id for each in before if each.start < start <= each.end), None)

    def lacking(self, node: Node, most: int) -> tuple[int, int] | None:
        """Return the first `most` tokens of a node, all computed, that can be written and are not; None: there are none."""
        start = node.start
        for each in node.stored:
            start = each.end if each.start == start else start
        end = node.start + num_unmarked(node.tokens)
        if start >= end or self._before(node, start) is None:
            return None
        return start, min(end, node.start + run_end(node.tokens, start + most - node.start))

    def chain(self, node: Node, position: int) -> list[Record] | None:
        """Return the records of the text up to a place of a node, each behind its parent; None: some are not written yet."""
        checkpoint = node.checkpoints.get(position)
        if self.has_states:
            last = None if checkpoint is None else checkpoint.record
        else:
            last = next((each.record for each in node.stored if each.start < position <= each.end), None)
        found: list[Record] = []
        while last is not None:
            found.append(last)
            last = self._by_id.get(last.parent)
        return found[::-1] or None

    def press(self, node: Node, position: int) -> None:
        """Write what is lacking of a path's parked nodes, and the state at a place of the last one."""
        for each in node.path():
            if each in self._writes:
                return  # those behind it come after it
            if each.state is NodeState.PARKED and each.blob is not None and not each.is_stored:
                if self._before(each, each.start) is not None:
                    self._waiting[each] = None
                    self._write_more()
                return
        checkpoint = node.checkpoints.get(position)
        if checkpoint is not None and checkpoint.record is None and checkpoint not in self._writes:
            self._waiting_states.setdefault(checkpoint, node)
            self._write_more()

    def is_writing(self, node: Node) -> bool:
        """Whether a part of a node is being written."""
        return node in self._writes

    def write_copy(self, node: Node, start: int, end: int, blob: Blob) -> None:
        """Write a part of a node that stays in the KV store, which `lacking` has named."""
        self._begin(node, start, node.tokens[start - node.start : end - node.start], blob)

    def _write_more(self) -> None:
        while self._waiting and len(self._writes) < MAX_WRITES:
            node, _ = self._waiting.popitem(last=False)
            blob = node.blob
            if node.state is not NodeState.PARKED or blob is None or node.is_stored or node in self._writes:
                continue
            self._begin(node, node.start, node.tokens[:], blob)
        while self._waiting_states and len(self._writes) < MAX_WRITES:
            self._begin_state(*self._waiting_states.popitem(last=False))

    def _begin_state(self, checkpoint: Checkpoint, node: Node | None) -> None:
        """Write a state, if it is known still; it was offered with `node`, from which upper parts may have been split."""
        at, state = checkpoint.position, checkpoint.state
        while node is not None and node.checkpoints is not checkpoint.place:
            node = node.parent
        if node is None or checkpoint.is_dropped or checkpoint.record is not None or not isinstance(state, np.ndarray):
            return
        parent = next((each.record for each in node.stored if each.start < at <= each.end), None)
        if parent is not None:
            assert self.store is not None
            record = Record(self.store.new_id(), parent.id, at, at, len(state), parent.scope)
            self._writes[checkpoint] = _Write(record, state, tokens_of(()))
            self.store.write(record, tokens_of(()), state, partial(self._note, checkpoint, record))

    def _begin(self, node: Node, start: int, tokens: Tokens, blob: Blob) -> None:
        before, scope = self._before(node, start), self._scopes.get(node.root)
        if self.store is None or before is None or scope is None or num_unmarked(tokens) < len(tokens):
            return  # marks are this process's
        record = Record(self.store.new_id(), before, start, start + len(tokens), len(blob), scope, node.asker)
        self._writes[node] = _Write(record, blob, tokens)
        self.store.write(record, tokens, blob, partial(self._note, node, record))

    def _note(self, kept: Kept, record: Record, result: Blob | bool | None) -> None:
        """Take a result, in any thread."""
        self._results.append((kept, record, result))
        self.wake()

    def _note_written(self, node: Kept, record: Record, is_done: bool) -> None:
        write = self._writes.pop(node)
        assert self.store is not None
        if not is_done:
            self.may_lack = False  # until another text comes: a full disk would be asked without end
            self.has_failed = True
            return
        if isinstance(node, Checkpoint):
            if node.is_dropped or record.parent not in self._by_id:
                self.store.remove(record)
            else:
                self._add_state(record, node)
                self._count_use(record)
                self._keep_budget()
            return
        is_whole = node.state is not NodeState.EVICTED and node.start <= record.start and record.end <= node.end
        first = record.start - node.start
        has_parent = not record.parent or record.parent in self._by_id
        is_known = any(each.start < record.end and record.start < each.end for each in node.stored)  # one was adopted
        if is_known or not (is_whole and has_parent and node.tokens[first : first + len(write.tokens)] == write.tokens):
            self.store.remove(record)  # the tree has let go of the text meanwhile, or has divided it
            self.offer(node)
            return
        if record.asker != node.asker:  # who began it may be gone by now
            self._give(record, node.asker, write.tokens)
        self._nodes[record] = {}
        self._count(record)
        self._count_use(record)
        self.counters.stored_tokens_written_total += len(write.tokens)
        self._add(node, Slice(record, record.start, record.end))
        self._offer_states(node)
        for child in list(node.offspring()):
            self.offer(child)
        self._keep_budget()

    def set_pressed(self, node: Node | None) -> None:
        """Note which text is being written for its name, by its last node."""
        if self.store is not None and node is not self.pressed:
            self.pressed, self.store.is_asked = node, node is not None
            self._keep_budget()

    def _pressed_records(self) -> set[Record]:
        """Return the records of the text that is being written for its name, as far as they are written."""
        path = [] if self.pressed is None else self.pressed.path()
        return {each.record for node in path for each in node.stored}

    def _keep_budget(self) -> None:
        """Forget the least recently used records behind which nothing is stored, until the store's budget holds.

        Those of texts with a name come last, and those of a text that is being written for its name stay.
        """
        assert self.store is not None
        if self.nbytes <= self.store.budget:
            return
        named, staying = list[tuple[int, str]](), list[tuple[int, str]]()
        pressed = self._pressed_records()
        while self.nbytes > self.store.budget and (self._ends or named):
            is_last = not self._ends
            used, id_ = named.pop(0) if is_last else heappop(self._ends)
            record = self._by_id.get(id_)
            if record is None or self._used[record] != used or id_ in self._behind:
                continue
            of_tokens = self._by_id[record.parent] if record.is_state else record
            if of_tokens in pressed:
                staying.append((used, id_))
                continue
            nodes = self._nodes.get(of_tokens, {})
            if any(node.names for node in nodes) and not is_last:
                named.append((used, id_))
                continue
            if any(node.is_live for node in self._nodes.get(record, ())):
                self.may_lack = False  # until another text comes: what is in the KV store alone is more than the budget
            self._forget(record)
        for end in named + staying:
            heappush(self._ends, end)

    def _count_use(self, record: Record) -> None:
        if record.id in self._by_id:
            self._num_uses += 1
            self._used[record] = self._num_uses
            self._note_end(record)

    def _note_end(self, record: Record) -> None:
        """List a record as one that may be forgotten, unless there are others behind it."""
        if record.id not in self._behind:
            heappush(self._ends, (self._used[record], record.id))
            if len(self._ends) > 2 * len(self._by_id) + 64:
                self._list_ends()

    def _list_ends(self) -> None:
        self._ends = [(use, each.id) for each, use in self._used.items() if each.id not in self._behind]
        heapify(self._ends)

    def _forget(self, record: Record) -> None:
        """Let nodes do without a record, and without those behind it: those that have their KV nowhere else are evicted."""
        while (behind := self._behind.get(record.id)) is not None:
            self._forget(next(iter(behind)))
        if (checkpoint := self._states.get(record)) is not None:
            self._remove(record)
            if checkpoint.state is None:
                self.host.checkpoints.drop(checkpoint)
        if record not in self._nodes:
            return
        for node in list(self._nodes[record]):
            if node.state is NodeState.PARKED and node.blob is None:
                self.evict(node)
            elif node.stored:
                self._set(node, tuple(each for each in node.stored if each.record is not record))
            if record not in self._nodes:
                return

    def hand_on(self, is_gone: Callable[[str], bool]) -> list[Record]:
        """Let the records of askers who are gone be those of whoever has their text now.

        Return those of which a part was evicted: their whole text is nobody's.
        """
        parts: list[Record] = []
        for record in [each for each in self._nodes if is_gone(each.asker)]:
            own = [each for node in self._nodes[record] for each in node.stored if each.record is record]
            if sum(each.end - each.start for each in own) < record.end - record.start:
                parts.append(record)
            else:
                self._give(record, self._last(record).asker, self._tokens(record))
        return parts

    def _give(self, record: Record, asker: str, tokens: Tokens) -> None:
        assert self.store is not None
        self._leave_story(record)
        record.asker = asker
        if record.id in self._by_id:
            self._by_story.setdefault(record.story, {})[record] = None
        self.store.keep(record, tokens)

    def wipe(self, records: Iterable[Record]) -> None:
        """Forget records of which a part was evicted, and leave nothing of them; what others have is written anew."""
        if self.store is None:
            return
        for record in records:
            if record not in self._nodes:
                continue  # it is gone, perhaps with one of these that stood before it
            nodes = [node for other in self._nodes[record] for node in other.subtree()]
            self._forget(record)
            for node in nodes:
                self.offer(node)
        self.store.wipe()

    # ---- texts of other engines

    def is_taking(self, request_id: str, story: str, tokens: Tokens, num_known: int) -> bool:
        """Look for a story's texts at other engines, if that is due; return whether a request should wait for them.

        Of its `tokens` so many are known here.
        """
        return self.store is not None and self.taking.is_for(self.store, request_id, story, tokens, num_known)

    def take(self, stories: Sequence[str], door: Door | None, is_coming: bool) -> int:
        """Look for stories at the engine that had them, now or when their requests come; return how many."""
        if self.store is None:
            return 0
        if is_coming:
            self.taking.expect(stories, door)
        else:
            self.taking.ahead(self.store, stories, door)
        return len(stories)

    def given(self, story: str) -> list[bytes]:
        """Return the entries of a story's records and of those before them, each behind its parent, for another engine.

        A record of which the tree has a part alone is left out, with those behind it.
        """
        assert self.store is not None
        found: list[bytes] = []
        ids = {""}
        own = [*with_beginnings(self._by_story.get(story, ()), self._by_id).values()]
        states = (each for record in own for each in self._behind.get(record.id, ()) if each.is_state)
        for record in sorted(dict.fromkeys([*own, *states]), key=lambda each: each.start):
            if record.parent not in ids:
                continue
            tokens = tokens_of(()) if record.is_state else self._tokens(record)
            if len(tokens) == record.end - record.start and (entry := self.store.entry(record, tokens)) is not None:
                ids.add(record.id)
                found.append(entry)
        return found

    def adopt(self, found: Iterable[tuple[Record, Tokens]]) -> None:
        """Put records of another engine into the tree, as nodes that are parked in the store alone.

        Those whose tokens are known stay out; what stands behind them stands behind the record here that has their end.
        """
        assert self.store is not None
        here = {"": ""}  # by the id of a record there: that of the record here
        for record, tokens in sorted(found, key=lambda each: each[0].start):
            parent = here.get(record.parent, record.parent if record.parent in self._by_id else None)
            if record.id in self._by_id:
                here[record.id] = record.id
                continue
            is_gone = parent is None or self.taking.is_forgotten(record)
            known = None if parent is None or is_gone else self._adopt(replace(record, parent=parent), tokens)
            if known is not None:
                here[record.id] = known
            if known != record.id:
                self.store.remove(record)
        self.host.make_room()
        self._keep_budget()

    def note_at_hand(self, id_: str, blob: Blob) -> None:
        """Let memory have the KV of a record that was adopted, as if it had been fetched."""
        if (record := self._by_id.get(id_)) is None:
            return
        kept: list[tuple[Kept, Node]] = [
            (node, node) for node in self._nodes.get(record, ()) if node.state is NodeState.PARKED and node.blob is None
        ]
        if (checkpoint := self._states.get(record)) is not None and checkpoint.state is None:
            kept.append((checkpoint, self._before_place(self._by_id[record.parent], record.start)))
        for each, node in kept:
            if each not in self._fetches:
                self._fetches[each] = node
                self._note_fetched(each, record, blob)

    def _adopt(self, record: Record, tokens: Tokens) -> str | None:
        """Let the tree have a record, unless others have its tokens; return the id of that which has the last of them."""
        assert self.store is not None
        if record.is_state:
            if not (self.has_states and self._place_state(record)):
                return None
        elif (node := self._place_beside(record, tokens)) is not None:
            node.asker = record.asker
            self._count(record)
            node.stored, self._nodes[record] = (Slice(record, node.start, record.end),), {node: None}
            self.host.note_found(node)
            self.host.touch(node)
        elif (known := self._record_at(record, tokens)) is not None:
            return known.id
        elif (node := self._end_without(record, tokens)) is not None:
            self._nodes[record] = {}
            self._count(record)
            self._add(node, Slice(record, max(node.start, record.start), min(node.end, record.end)))
        else:
            return None
        self._count_use(record)
        self.store.keep(record, tokens)
        return record.id

    def _place_beside(self, record: Record, tokens: Tokens) -> Node | None:
        """Return a new node for the tokens of a record that are not known; None if all are, or their place is not."""
        if (key := self.key_of(tokens)) is not None:
            assert self._root is not None
            return self._place_whole(record, tokens, self._root(record.scope), key)
        if (place := self._reach(record, tokens)) is None or place[1] == record.end:
            return None
        parent, at = place
        node = Node(parent, tokens[at - record.start :], NodeState.PARKED)
        if at < parent.end:
            node.place, node.start = parent.inner.setdefault(at, Children(parent)), at
        self.attach(node)
        return node

    def _record_at(self, record: Record, tokens: Tokens) -> Record | None:
        """Return the record here that has the last token of one whose tokens are known; None if none has."""
        if not tokens or self.key_of(tokens) is not None:
            return None
        node, end = self._reach(record, tokens) or (None, 0)
        found = node.stored if node is not None and end == record.end else ()
        return next((each.record for each in found if each.start < end <= each.end), None)

    def _end_without(self, record: Record, tokens: Tokens) -> Node | None:
        """Return the node of the last token of a record whose tokens are known, if nothing that it has of them is stored."""
        node, end = self._reach(record, tokens) or (None, 0)
        if node is None or end != record.end:
            return None
        start, end = max(node.start, record.start), min(node.end, end)
        is_free = all(each.end <= start or end <= each.start for each in node.stored)
        is_whole = (start, end) == (node.start, node.end)
        can_have = node.state is NodeState.RESIDENT or (node.state is NodeState.PARKED and is_whole)
        return node if is_free and can_have else None

    def _reach(self, record: Record, tokens: Tokens) -> tuple[Node, int] | None:
        """Return how far the tree has a record's tokens: the node there, and the position; None without the text before."""
        before, at = self._by_id.get(record.parent), record.start
        if len(tokens) != record.end - at or not tokens or self._root is None:
            return None
        if before is None:
            if record.parent or at:
                return None
            node = self._root(record.scope)
        elif before.scope != record.scope or not before.start < at <= before.end:
            return None
        else:
            node = self._before_place(before, at)
            if node.end < at:
                return None
        done = 0
        while True:
            common = common_length(node.tokens[at - node.start :], tokens, done)
            at, done = at + common, done + common
            if done == len(tokens):
                return node, at
            siblings = (node.children if at == node.end else node.children_at(at)).get(tokens[done])
            if not siblings or siblings[0].state is NodeState.COMPUTING:
                return node, at
            node = siblings[0]

    # ---- reading

    def is_coming(self, match: Match, request_id: str) -> bool:
        """Fetch what a match has in the store alone, once for each request; return whether some of it is on its way."""
        if self.store is None or not self._by_id:
            return False
        asked, is_coming = self._asked.setdefault(request_id, set()), False
        if len(self._asked) > MAX_ASKED:
            self._asked.popitem(last=False)
        node: Node | None = match.into or match.node
        assert node is not None
        lacking: list[tuple[Kept, Record, Node]] = []
        if (checkpoint := node.checkpoints.get(match.length)) and checkpoint.state is None:
            assert checkpoint.record is not None
            lacking.append((checkpoint, checkpoint.record, node))
        while node is not None and node.parent is not None:
            if node.state is NodeState.PARKED and node.blob is None:
                [part] = node.stored
                lacking.append((node, part.record, node))
            node = node.parent
        for kept, record, of in lacking:
            if kept not in asked and kept not in self._fetches:
                self._fetches[kept] = of
                self.store.fetch(record, partial(self._note, kept, record))
            asked.add(kept)
            is_coming = is_coming or kept in self._fetches
        return is_coming

    def forget_request(self, request_id: str) -> None:
        """Forget what was fetched for a request, which begins: it may be fetched anew for what the request does later."""
        self.counters.stored_hits_total += bool(self._asked.pop(request_id, None))
        self.taking.forget_request(request_id)

    def _note_fetched(self, kept: Kept, record: Record, blob: Blob | None) -> None:
        node = self._fetches.pop(kept)
        if isinstance(kept, Checkpoint):
            if kept.state is None and kept.record is record and kept.place is node.checkpoints:
                self._take_state(kept, blob)
                self.host.add_checkpoint(kept, is_needed=node.pins > 0 and kept.position == node.end)
            return
        if node.state is not NodeState.PARKED or node.blob is not None or not node.is_stored:
            return
        [part] = node.stored
        if part.record is record and (own := self._part(part, blob)) is not None:
            self.host.note_loaded(node, own)

    def read(self, node: Node) -> Blob | None:
        """Return the KV of a node that only the store has, waiting for the disk; None if it is lost."""
        assert self.store is not None
        [part] = node.stored
        return self._part(part, self.store.read(part.record))

    def read_state(self, checkpoint: Checkpoint) -> None:
        """Let memory have a state that only the store has, waiting for the disk; it is dropped if it is lost."""
        assert self.store is not None
        assert checkpoint.record is not None
        self._take_state(checkpoint, self.store.read(checkpoint.record))

    def _take_state(self, checkpoint: Checkpoint, state: Blob | None) -> None:
        assert checkpoint.record is not None
        if state is None:
            self.counters.stored_texts_lost_total += 1
            self._forget(checkpoint.record)
        else:
            checkpoint.state = state
            self._use(checkpoint.record)

    def note_use(self, node: Node) -> None:
        """Note that a node is used now: its records are forgotten after those that are not."""
        for each in node.stored:
            self._use(each.record)
        if (checkpoint := node.checkpoints.get(node.end)) is not None and checkpoint.record is not None:
            self._use(checkpoint.record)

    def _use(self, record: Record) -> None:
        assert self.store is not None
        self._count_use(record)
        self.store.use(record)

    def _part(self, part: Slice, blob: Blob | None) -> Blob | None:
        """Return the KV of a slice from that of its record; without it all that hangs on the record is forgotten."""
        record = part.record
        if blob is not None and part.start > record.start:
            parts = self.split_blob(blob, record.start, part.start)
            blob = None if parts is None else parts[1]
        if blob is not None and part.end < record.end:
            parts = self.split_blob(blob, part.start, part.end)
            blob = None if parts is None else parts[0]
        if blob is not None:
            self.counters.stored_tokens_read_total += part.end - part.start
        elif record in self._nodes:
            self.counters.stored_texts_lost_total += 1
            self._forget(record)
        return blob

    # ---- results of other threads

    @property
    def is_busy(self) -> bool:
        """Whether the store writes, or is to write, something."""
        return bool(self._waiting or self._waiting_states or self._writes or self._results)

    @property
    def is_fetching(self) -> bool:
        """Whether something is being read, or looked for, for a request."""
        return bool(self._fetches) or self.taking.num_waited_for > 0

    def collect(self) -> None:
        """Take what other threads have written and read."""
        while self._results:
            node, record, result = self._results.popleft()
            if isinstance(result, bool):
                self._note_written(node, record, result)
            else:
                self._note_fetched(node, record, result)
        for found in self.taking.collect():
            self.adopt(found)
        if self.store is not None:
            self._write_more()

    def wait(self, seconds: float) -> None:
        """Wait until there is something to collect."""
        if self.store is not None:
            self.store.wait(seconds)

    # ---- self-check

    def check_invariants(self, nodes: Iterable[Node]) -> None:
        """Assert that slices and records know each other, and that every record's text is whole."""
        nodes, found = list(nodes), {record: set[Node]() for record in self._nodes}
        for node in nodes:
            places = [each.start for each in node.stored]
            assert places == sorted(places), f"{node!r}: slices in disorder"
            for each in node.stored:
                assert node.start <= each.start < each.end <= node.end, f"{node!r}: {each}"
                assert each.record.start <= each.start < each.end <= each.record.end, f"{node!r}: {each}"
                found[each.record].add(node)
            if node.state is NodeState.PARKED and len(node.stored) > 1:
                raise AssertionError(f"{node!r} is parked with several slices")
        assert found == {record: set(nodes) for record, nodes in self._nodes.items()}, "nodes of records"
        assert all(found.values()), "a record of no node"
        assert {*self._nodes, *self._states} == {*self._by_id.values()} == {*self._used}, "records"
        stories = {record: story for story, own in self._by_story.items() for record in own}
        assert stories == {record: record.story for record in self._by_id.values()}, "records of stories"
        assert self.nbytes == sum(record.nbytes for record in self._by_id.values()), "bytes of records"
        states = [each for node in nodes for each in node.checkpoints.values()]
        assert all(each.record is not None for each in states if each.state is None), "a state is nowhere"
        assert {each.record: each for each in states if each.record is not None} == self._states, "records of states"
        for record in self._by_id.values():
            assert not record.parent or record.parent in self._by_id, f"{record} has lost the text before it"


def _clip(slices: Iterable[Slice], start: int, end: int) -> tuple[Slice, ...]:
    """Return the parts of slices between two positions."""
    parts = (Slice(each.record, max(each.start, start), min(each.end, end)) for each in slices)
    return tuple(each for each in parts if each.start < each.end)
