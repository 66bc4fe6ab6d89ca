"""Checkpoints: saved states of recurrent memory, from which a text goes on at a place within it.

Recurrent layers keep one state for a sequence, that of its end, so a text can be cut only where its state was saved. The
checkpoints of a long text are thinned as the budget fills: places that are rounder numbers stay longer, so the oldest
texts keep a few, far apart, and the newest keep all.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from srb.engine.model import Blob, Record

AUTO = -1  # `checkpoint_every`: by the size of the states; 0 means none
MIN_EVERY = 256  # tokens between checkpoints where the setting is AUTO; a chunk of a prompt is no longer, so not fewer
MIN_EVERY_ON_GPU = 512  # short chunks cost a GPU more
STATE_BYTES_PER_TOKEN = 2**17  # most bytes of checkpoints per token where it is AUTO: as the KV of a model of 8B
WORTH_A_STEP = 16  # tokens; to save the state of fewer is not worth a step of its own for a prompt
# The last tokens of a prompt, where most edits are, have so many times as many checkpoints; half of that for large states.
NEAR_THE_END = 4
BRANCH_EVERY = 32  # tokens between those of a branch, of which often a part is taken; more for large states
CHECKPOINT_BYTES = 512  # per checkpoint: the object and its entries in dicts
_ROUND = 16  # tokens: a place's level is how often its number of these can be halved
_TOP_LEVEL = 14  # of 16 · 2^14 tokens, a long context; a list for each level is all that thinning looks at
LEVEL_OF_ENDS = 3  # ends of prompts and branches are where texts usually go on


LineEnd = Callable[[int, int], int]


def _doubled(count: int, most: int, nbytes: int) -> int:
    """Return a number of tokens, doubled up to `most` until their KV in a model of 8B would have so many bytes."""
    while count < most and count * STATE_BYTES_PER_TOKEN < nbytes:
        count = min(2 * count, most)
    return count


@dataclass(eq=False, slots=True)
class Checkpoint:
    """The state after the first `position` tokens of a text. It is found in `place`, which a node or a lease has.

    Until it is saved, which takes a while, a sequence of the KV store has the state, and nothing else.
    """

    position: int
    state: Blob | int | None  # the saved state, or the sequence that has it; None: a store alone has it
    size: int  # bytes of the state; all states of a model have one size
    place: dict[int, Checkpoint]
    level: int = 0
    record: Record | None = None  # of the state in a store; StoredTexts writes it

    @property
    def nbytes(self) -> int:
        return self.size + CHECKPOINT_BYTES

    @property
    def is_dropped(self) -> bool:
        return self.place.get(self.position) is not self

    def move(self, place: dict[int, Checkpoint]) -> None:
        """Move to another place, which has none at this position."""
        del self.place[self.position]
        self.place = place
        place[self.position] = self


class Spacing:
    """The places of checkpoints: at most `every` tokens apart; 0: at the ends of prompts and branches only."""

    def __init__(self, every: int, on_gpu: bool = False) -> None:
        """AUTO depends on the machine, and on the size of a state, which `note_size` tells."""
        self._is_auto = every == AUTO
        self.every = (MIN_EVERY_ON_GPU if on_gpu else MIN_EVERY) if self._is_auto else every
        self.note_size(0)

    def note_size(self, nbytes: int) -> None:
        """Note the size of a state: checkpoints of large states are further apart."""
        while self._is_auto and self.every * STATE_BYTES_PER_TOKEN < nbytes:
            self.every *= 2
        self._slack = near = max(1, self.every // NEAR_THE_END)  # a place is so far before a round number at most
        worth = min(WORTH_A_STEP, near)
        if self._is_auto:
            near = _doubled(near, self.every // 2, nbytes // 2)
            worth = _doubled(worth, near // 2, nbytes // 2)
        self.near = near  # tokens between checkpoints in the last tokens of a prompt
        self._worth = worth  # a prompt is computed in one step more only to save the state of at least so many tokens
        self._of_branches = _doubled(min(BRANCH_EVERY, self.every), self.every, nbytes)

    def next(self, position: int, total: int, shared: int = 0, line_end: LineEnd = lambda low, high: high) -> int:
        """Return where the next checkpoint of a prompt of `total` tokens is, after `position`; `total` if there is none.

        The places are the same whatever chunks are computed. They are at round numbers, each moved back to the last end of
        a line or message shortly before it: `line_end` returns it for the places after `low` and up to `high`, or `high`.
        Another is where a known text ends that shares `shared` tokens, since other texts may part there, too.
        """
        if not self.every:
            return total
        near, worth, slack = self.near, self._worth, self._slack
        step = max(1, self.every - slack)
        stop = (position // step + 1) * step
        if stop <= total - self.every:
            place = line_end(stop - slack, stop)
            stop = place if place > position else line_end(stop + step - slack, stop + step)
        else:
            stop = (position // near + 1) * near
            stop += near if stop - position < worth else 0
        if position + worth <= shared < stop:
            stop = shared
        return stop if stop + worth <= total else total

    def to_next(self, position: int) -> int:
        """Return how many tokens of a branch, at `position`, are computed at once at most."""
        return self.every - position % self.every if self.every else 2**31

    def passes(self, before: int, after: int) -> bool:
        """Whether a branch that has grown from `before` to `after` tokens has come to the place of a checkpoint."""
        return self.every > 0 and before // self._of_branches < after // self._of_branches

    def level(self, position: int) -> int:
        """Return how round the number is of a place: 0 for most."""
        number = position // _ROUND
        return min(_TOP_LEVEL, (number & -number).bit_length() - 1) if number else _TOP_LEVEL


class Checkpoints:
    """All checkpoints that may be dropped, in the order of their use for each level; those of pinned ends are not here."""

    def __init__(self) -> None:
        self._levels: list[OrderedDict[Checkpoint, None]] = [OrderedDict() for _ in range(_TOP_LEVEL + 1)]
        self._spare: OrderedDict[Checkpoint, None] = OrderedDict()  # those of them that a store has, too
        self.nbytes = 0
        self.on_drop: Callable[[Record], None] = lambda record: (
            None
        )  # called with what a store has of a forgotten state

    def __len__(self) -> int:
        return sum(map(len, self._levels))

    def __contains__(self, checkpoint: Checkpoint) -> bool:
        return checkpoint in self._levels[checkpoint.level]

    def add(self, checkpoint: Checkpoint) -> None:
        """Let a checkpoint be dropped when room is needed; it counts as used now. One that memory lacks counts nothing."""
        if checkpoint not in self and checkpoint.state is not None:
            self._levels[checkpoint.level][checkpoint] = None
            self.nbytes += checkpoint.nbytes
            self.note_stored(checkpoint)

    def note_stored(self, checkpoint: Checkpoint) -> None:
        """Note that a store has a state, or has it no more."""
        if checkpoint.record is not None and checkpoint in self:
            self._spare[checkpoint] = None
        else:
            self._spare.pop(checkpoint, None)

    def remove(self, checkpoint: Checkpoint) -> None:
        """Stop counting a checkpoint, if it was counted; its place keeps it."""
        if checkpoint in self:
            del self._levels[checkpoint.level][checkpoint]
            self._spare.pop(checkpoint, None)
            self.nbytes -= checkpoint.nbytes

    def drop(self, checkpoint: Checkpoint) -> None:
        """Forget a state, in a store, too."""
        self.remove(checkpoint)
        del checkpoint.place[checkpoint.position]
        if checkpoint.record is not None:
            self.on_drop(checkpoint.record)

    def touch(self, checkpoint: Checkpoint) -> None:
        """Mark a checkpoint as used now."""
        if checkpoint in self:
            for order in (self._levels[checkpoint.level], self._spare):
                if checkpoint in order:
                    order.move_to_end(checkpoint)

    def drop_one(self) -> bool:
        """Drop the checkpoint that is missed least, first those that a store has; return False if there is none.

        It is the oldest of the level that has most, so every level covers twice as much text as the one below: the
        newest places are close together, and the older they are, the further apart.
        """
        if self.unload_one():
            return True
        fullest = max(self._levels, key=len)
        oldest = next(iter(fullest), None)
        if oldest is not None:
            self.drop(oldest)
        return oldest is not None

    def unload_one(self) -> bool:
        """Let a store alone have the least recently used of the states that it has; return False if there is none."""
        oldest = next(iter(self._spare), None)
        if oldest is not None:
            self.remove(oldest)
            oldest.state = None
        return oldest is not None

    def check_invariants(self, placed: set[Checkpoint]) -> None:
        """Assert that the counted checkpoints are `placed`, and that their sum is right."""
        counted = {checkpoint for level in self._levels for checkpoint in level}
        assert counted == placed, "checkpoints that may be dropped"
        assert set(self._spare) == {each for each in counted if each.record is not None}, "spare states"
        assert self.nbytes == sum(checkpoint.nbytes for checkpoint in counted), "bytes of checkpoints"
