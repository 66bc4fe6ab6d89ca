"""States of recurrent and hybrid memory: which sequences have one, and where a text can go on.

The cells of such a memory, of its attention layers, are shared, cut and parked as any others. Its recurrent layers keep
a state for each sequence, that of its end. A text goes on from a place where a sequence with its state ends, or where a
checkpoint is. For memory without states nothing here does anything, and every place has what it needs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from srb.engine.model import Blob, Model
from srb.engine.tokens import Tokens, run_end, run_start
from srb.engine.tree.checkpoints import LEVEL_OF_ENDS, Checkpoint, Spacing
from srb.engine.tree.host import HostMemory
from srb.engine.tree.match import Match
from srb.engine.tree.node import Node, NodeState

MAX_UNSAVED = 2  # checkpoints saved only after the first tokens that are waited for; each takes a sequence until then


class States:
    """States in sequences, and their checkpoints in host memory."""

    def __init__(
        self,
        model: Model,
        host: HostMemory,
        every: int,
        take_free: Callable[[], int | None],
        free_seq: Callable[[int], None],
    ) -> None:
        """Leave a checkpoint after each `every` tokens of a text; see `Spacing`.

        A checkpoint that is saved later has a sequence until then, from `take_free`, and gives it back with `free_seq`.
        """
        self._model = model
        self._host = host
        self._take_free = take_free
        self._free_seq = free_seq
        self._size = 0  # bytes of a state, once one has been saved
        self._unsaved: deque[tuple[Checkpoint, Node]] = deque()  # with the nodes for which they were made
        self.are_kept = model.has_states
        self.spacing = Spacing(every, model.is_on_gpu)
        self._at_end: set[int] = set()  # sequences that have the state of their end
        self.saved_total = 0
        self.loaded_total = 0

    # ---- where a text can go on

    def has(self, node: Node) -> bool:
        """Whether a sequence can go on at the end of a node."""
        return not self.are_kept or node.parent is None or node.end in node.checkpoints or node.seq_id in self._at_end

    def deepest(self, match: Match) -> Match:
        """Return the part of a match up to the last place from which a text can go on."""
        if not self.are_kept:
            return match
        node, limit, place = match.into or match.node, match.length, 0
        while node.parent is not None:
            place = self._last_place(node, limit)
            if place:
                break
            node, limit = node.parent, node.start
        logits = match.logits if place == match.length else None
        if place == node.end:
            return Match(node, awaits=match.awaits, logits=logits, shared=match.length)
        assert node.parent is not None
        return Match(node.parent, node, place - node.start, match.awaits, logits, shared=match.length)

    def _last_place(self, node: Node, limit: int) -> int:
        """Return the last place of a node, up to `limit`, from which a text can go on; 0 if there is none."""
        if limit == node.end and node.state is not NodeState.COMPUTING and self.has(node):
            return limit
        return max((position for position in node.checkpoints if node.start < position <= limit), default=0)

    # ---- of sequences

    def note_forked(self, seq_id: int) -> None:
        """Note that a sequence has the state of its end."""
        if self.are_kept:
            self._at_end.add(seq_id)

    def note_lost(self, seq_id: int) -> None:
        """Note that a sequence is empty, or was cut: it has no state."""
        self._at_end.discard(seq_id)

    def give(self, node: Node, holder: int, seq_id: int) -> None:
        """Let an empty sequence share the path to the end of a pinned node, and give it the state there.

        `holder` is a sequence that holds the path.
        """
        if not self.are_kept or node.seq_id in self._at_end:
            self._model.fork(holder, seq_id, None if holder == node.seq_id else node.end)
        else:
            self._model.fork(holder, seq_id, node.end)
            checkpoint = node.checkpoints[node.end]
            self.load(seq_id, checkpoint)
        self.note_forked(seq_id)

    def load(self, seq_id: int, checkpoint: Checkpoint) -> None:
        """Give a sequence that ends at a checkpoint its state."""
        self._host.checkpoints.touch(checkpoint)
        self.loaded_total += 1
        assert checkpoint.state is not None, f"the state at {checkpoint.position} is not in memory"
        if isinstance(checkpoint.state, int):
            self._model.copy_state(checkpoint.state, seq_id)
        elif not self._model.restore_state(seq_id, checkpoint.state):
            raise AssertionError(f"the state of sequence {seq_id} at {checkpoint.position} could not be restored")
        self.note_forked(seq_id)

    # ---- checkpoints

    def keep(self, node: Node, seq_id: int, at_once: bool = False) -> None:
        """Leave a checkpoint at the end of a node, where `seq_id` is about to lose its state, unless there is another."""
        if not self.are_kept or seq_id not in self._at_end or not (node.pins or self._host.budget):
            return
        known = node.checkpoints.get(node.end)
        is_there = known is not None and not (node.pins and known.state is None)
        if not is_there and (node.seq_id == seq_id or node.seq_id not in self._at_end):
            if known is not None:
                self._host.checkpoints.drop(known)
            checkpoint = self._checkpoint(seq_id, node.end, node.checkpoints, None if at_once else node)
            checkpoint.level = max(LEVEL_OF_ENDS, checkpoint.level)
            self._host.add_checkpoint(checkpoint, is_needed=node.pins > 0)

    def next_place(self, tokens: Tokens, position: int, shared: int) -> int:
        """Return where the next checkpoint of a prompt is after `position`, or its end. It is never within media."""

        def line_end(low: int, high: int) -> int:
            return next((place for place in range(high, low, -1) if self._ends_line(tokens[place - 1])), high)

        place = self.spacing.next(position, len(tokens), shared, line_end)
        start = run_start(tokens, place)
        return start if start > position else run_end(tokens, place)

    def _ends_line(self, token: int) -> bool:
        piece = self._model.piece(token)
        return not piece or piece.endswith(b"\n")  # control tokens, which end messages, have no text

    def note_prompt(self, node: Node, count: int, tokens: Tokens, shared: int) -> None:
        """Leave a checkpoint if the last `count` tokens of a prompt that were computed end at the place of one."""
        if not self.are_kept or not self._host.budget or node.num_computed == len(node.tokens):
            return
        position = node.start + node.num_computed
        if self.next_place(tokens, position - count, shared) == position:
            assert node.seq_id is not None
            self._host.add_checkpoint(self._checkpoint(node.seq_id, position, node.checkpoints, node))

    def note_branch(self, seq_id: int, place: dict[int, Checkpoint], before: int, after: int) -> None:
        """Leave a checkpoint of a branch that has grown from `before` to `after` tokens, at the spacing."""
        if self.are_kept and self._host.budget and self.spacing.passes(before, after):
            self._host.add_checkpoint(self._checkpoint(seq_id, after, place))

    def adopt(self, node: Node, place: dict[int, Checkpoint]) -> None:
        """Let a pinned node have the checkpoints of its span that a branch or a private prompt has left in `place`."""
        for position in [position for position in place if node.start < position <= node.end]:
            checkpoint = place[position]
            if (known := node.checkpoints.get(position)) is not None:
                is_worse = known.state is None
                self._host.checkpoints.drop(known if is_worse else checkpoint)
                if not is_worse:
                    continue
            checkpoint.move(node.checkpoints)
            if position == node.end:  # a text goes on there, so it may not be dropped
                self._host.checkpoints.remove(checkpoint)

    def is_at_hand(self, node: Node) -> bool:
        """Whether memory has the state at the end of a node, which is known: not the store alone."""
        checkpoint = node.checkpoints.get(node.end)
        return checkpoint is None or checkpoint.state is not None or node.seq_id in self._at_end

    def to_store(self, node: Node) -> list[Checkpoint]:
        """Return the checkpoints of a node that are worth their room in a store, the last one first.

        Those are the ends of prompts and branches, and of the others one in the spacing: not all that are close together.
        Before a prompt's end there is one more, from which it goes on if it is sent again: its logits are not stored.
        """
        found: list[Checkpoint] = []
        for position in sorted(node.checkpoints, reverse=True):
            checkpoint, last = node.checkpoints[position], found[-1] if found else None
            is_far = last is None or last.position - position >= self.spacing.every or last.position in node.prompt_ends
            if is_far or checkpoint.level >= LEVEL_OF_ENDS:
                found.append(checkpoint)
        return found

    def drop(self, place: dict[int, Checkpoint]) -> None:
        """Drop all checkpoints of a place."""
        for checkpoint in list(place.values()):
            self._host.checkpoints.drop(checkpoint)

    def _checkpoint(
        self, seq_id: int, position: int, place: dict[int, Checkpoint], node: Node | None = None
    ) -> Checkpoint:
        """Make a checkpoint. With `node`, which it is for, it may be saved later, by `save_one`."""
        lone = self._lone_copy(seq_id) if node else None
        state = self._saved(seq_id) if lone is None else lone
        place[position] = checkpoint = Checkpoint(position, state, self._size, place, self.spacing.level(position))
        if node and lone is not None:
            self._unsaved.append((checkpoint, node))
        return checkpoint

    def _saved(self, seq_id: int) -> Blob:
        state = self._model.save_state(seq_id)
        self._size = len(state)
        self.spacing.note_size(self._size)
        self.saved_total += 1
        return state

    # ---- checkpoints that are saved later

    def _lone_copy(self, seq_id: int) -> int | None:
        """Return a sequence that has the state of `seq_id` and nothing else; None if there can be none.

        The first state is saved at once, since the places of others depend on its size.
        """
        if not self._model.shares_states or not self._size:
            return None
        if len(self._unsaved) == MAX_UNSAVED:
            self._save_first()
        return self.copy(seq_id)

    def copy(self, seq_id: int) -> int | None:
        """Return a free sequence that shares the state of another one, and has nothing else; None if none is free."""
        lone = self._take_free()
        if lone is not None:
            self._model.copy_state(seq_id, lone)
        return lone

    @property
    def lone_ids(self) -> list[int]:
        """The sequences of checkpoints that are not saved yet. They are free when they are needed."""
        return [checkpoint.state for checkpoint, _ in self._unsaved if isinstance(checkpoint.state, int)]

    @property
    def num_unsaved(self) -> int:
        return len(self._unsaved)

    def save_one(self) -> None:
        """Save a checkpoint that was to be saved later, unless all are of prompts that are being computed."""
        for _ in range(len(self._unsaved)):
            if self._unsaved[0][1].state is not NodeState.COMPUTING:
                self._save_first()
                return
            self._unsaved.rotate(-1)

    def save_all(self) -> None:
        """Save the checkpoints that were to be saved later; their sequences are free then."""
        while self._unsaved:
            self._save_first()

    def forget_unsaved(self) -> None:
        """Drop the checkpoints that were to be saved later, since the KV store is in doubt."""
        for checkpoint, _ in self._unsaved:
            if not checkpoint.is_dropped:
                self._host.checkpoints.drop(checkpoint)
        self.save_all()  # only frees their sequences now

    def _save_first(self) -> None:
        """Save the oldest of them, unless it was dropped meanwhile, and free its sequence."""
        checkpoint, _ = self._unsaved.popleft()
        seq_id = checkpoint.state
        assert isinstance(seq_id, int)
        if not checkpoint.is_dropped:
            checkpoint.state = self._saved(seq_id)
        self._free_seq(seq_id)

    # ---- self-check

    def check_invariants(self, nodes: list[Node], places: list[dict[int, Checkpoint]], ids: set[int]) -> None:
        """Assert that every checkpoint is where it says, and that sequences in use alone have states.

        `places` are those of branches, `ids` the sequences of nodes and branches.
        """
        for place in [*(node.checkpoints for node in nodes), *places]:
            assert self.are_kept or not place, "checkpoints of memory without states"
            for position, checkpoint in place.items():
                assert checkpoint.place is place, f"checkpoint {position} is elsewhere"
                assert checkpoint.position == position, f"checkpoint {position} is of {checkpoint.position}"
        assert self._at_end <= ids, "a free sequence has a state"
        droppable = {checkpoint for place in places for checkpoint in place.values()}
        for node in nodes:
            assert all(node.start < position <= node.end for position in node.checkpoints), f"{node!r}: checkpoints"
            if node.pins and node.state is NodeState.RESIDENT and node.tokens:
                assert self.has(node), f"{node!r} is in use, and no text can go on at its end"
                assert self.is_at_hand(node), f"{node!r} is in use, and a store alone has its state"
            is_held = node.pins > 0
            droppable |= {
                checkpoint for position, checkpoint in node.checkpoints.items() if position < node.end or not is_held
            }
        self._host.checkpoints.check_invariants({each for each in droppable if each.state is not None})
        assert self.num_unsaved <= MAX_UNSAVED, "checkpoints that are not saved"
        placed = {each for place in [*(node.checkpoints for node in nodes), *places] for each in place.values()}
        unsaved = {checkpoint for checkpoint, _ in self._unsaved if not checkpoint.is_dropped}
        assert unsaved == {each for each in placed if isinstance(each.state, int)}, "checkpoints that are not saved"
