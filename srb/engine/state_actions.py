"""State actions: save, restore and erase the text of a slot under a name."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from srb.engine.model import SavedState, Scope
from srb.engine.named_states import NamedStates
from srb.engine.request import Branch
from srb.engine.slots import Slots
from srb.engine.tokens import Tokens, num_unmarked, tokens_of
from srb.errors import InvalidRequest, SRBError, bad_field
from srb.wire.events import Event, Rejected, Reply

ACTIONS = ("save", "restore", "erase", "forget")
MAX_SLOT_TOKENS = 2**24  # tokens of the texts of all slots, of 4 bytes each: no other budget counts them


@dataclass(slots=True)
class StateJob:
    """A StateAction command, with the state read from its file for `restore`."""

    request_id: str
    action: str
    name: str
    slot: int
    saved: SavedState | None
    is_newer: bool = False  # whether `saved` is later than a text of this name in memory

    def close(self) -> None:
        """Release nothing: a job holds no sampler."""


@dataclass(frozen=True, slots=True)
class _Text:
    """The text of an ended branch: prompt and continuation. The arrays are the branch's own, not copies."""

    prompt: Tokens
    added: Tokens
    scope: Scope
    since: float = 0.0  # UNIX time at which the slot got it

    @property
    def tokens(self) -> Tokens:
        return self.prompt + self.added


class SlotTexts:
    """The latest text of each slot. The oldest are forgotten while all together have more than MAX_SLOT_TOKENS.

    The branches of a request share one prompt, whose tokens count once. Lengths are noted when a text is put: the arrays
    of a branch that goes on grow.
    """

    def __init__(self) -> None:
        self._texts: dict[int, tuple[_Text, int]] = {}  # by slot, the oldest first, with the length of what was added
        self._prompts: dict[int, tuple[int, int]] = {}  # by the array's id: how many texts have it, and its length
        self.num_tokens = 0

    def get(self, slot: int) -> _Text | None:
        text, _ = self._texts.get(slot, (None, 0))
        return text

    def put(self, slot: int, text: _Text) -> None:
        """Replace the text of a slot."""
        self.pop(slot)
        self._texts[slot] = text, len(text.added)
        sharers, length = self._prompts.get(id(text.prompt), (0, len(text.prompt)))
        self._prompts[id(text.prompt)] = sharers + 1, length
        self.num_tokens += len(text.added) + (0 if sharers else length)
        while self.num_tokens > MAX_SLOT_TOKENS and len(self._texts) > 1:
            self.pop(next(iter(self._texts)))

    def pop(self, slot: int) -> _Text | None:
        """Remove and return the text of a slot; None if it has none."""
        text, added = self._texts.pop(slot, (None, 0))
        if text is not None:
            sharers, length = self._prompts.pop(id(text.prompt))
            if sharers > 1:
                self._prompts[id(text.prompt)] = sharers - 1, length
            self.num_tokens -= added + (0 if sharers > 1 else length)
        return text


_NOTHING = _Text(tokens_of(()), tokens_of(()), Scope())


@dataclass(frozen=True, slots=True)
class _Saving:
    """A save that waits until its file is written."""

    name: str
    began: float
    tokens: int


class StateActions:
    """Texts of ended branches, the latest of each slot, and the actions on them."""

    def __init__(
        self,
        states: NamedStates,
        slots: Slots,
        clock: Callable[[], float],
        wall_clock: Callable[[], float],
        on_save_end: Callable[[str, int, SRBError | None], None],
    ) -> None:
        """Call `on_save_end` from any thread with a save's request_id, size and error; `end_save` then makes the reply."""
        self._states = states
        self._slots = slots
        self._clock = clock
        self._wall_clock = wall_clock
        self._on_save_end = on_save_end
        self._texts = SlotTexts()
        self._saving: dict[str, _Saving] = {}  # by request_id

    def note_end(self, branch: Branch) -> None:
        """Remember the text of an ended branch; without KV in the tree, its slot has none."""
        if branch.request.is_waiting:  # it has no slot yet
            return
        self._texts.pop(branch.slot)
        if branch.is_kept:
            prompt, scope = branch.request.prefix.tokens, branch.request.scope
            self._texts.put(branch.slot, _Text(prompt, branch.in_tree(branch.tokens), scope, self._wall_clock()))

    @property
    def slot_tokens(self) -> int:
        """Number of tokens in the texts of all slots."""
        return self._texts.num_tokens

    def since(self, slot: int) -> float | None:
        """Return the UNIX time from which a slot has its text; None if it has none."""
        text = self._texts.get(slot)
        return None if text is None else text.since

    def act(self, job: StateJob) -> list[Event]:
        """Return the Reply ({"tokens", "bytes", "ms"}) or Rejected; nothing yet for a save that waits for its file."""
        began = self._clock()
        try:
            match job.action:
                case "save":
                    tokens, size = self._save(job, began), 0
                    if self._states.has_store:
                        return []
                case "restore":
                    tokens, size = self._restore(job)
                case _:
                    self._slots.unpin(job.slot)
                    text = self._texts.pop(job.slot) or _NOTHING
                    tokens = self._states.evict(text.tokens, text.scope) if job.action == "erase" else 0
                    size = 0
        except SRBError as refusal:
            return [Rejected.of(job.request_id, refusal)]
        return [self._reply(job.request_id, began, tokens, size)]

    def end_save(self, request_id: str, size: int, error: SRBError | None) -> list[Event]:
        """Return the Reply to a save that has been written, or Rejected with its error."""
        saving = self._saving.pop(request_id)
        if error is None:
            return [self._reply(request_id, saving.began, saving.tokens, size)]
        self._states.note_not_saved(saving.name)
        return [Rejected.of(request_id, error)]

    def _reply(self, request_id: str, began: float, tokens: int, size: int) -> Reply:
        return Reply(request_id, {"tokens": tokens, "bytes": size, "ms": (self._clock() - began) * 1000})

    def _save(self, job: StateJob, began: float) -> int:
        text = self._texts.get(job.slot) or _NOTHING
        if num_unmarked(text.tokens) < len(text.tokens):
            raise InvalidRequest(
                f"Slot {job.slot} has a text of a branch with control_vectors of its own, which is not saved; "
                "give them to the whole request"
            )
        count = self._states.save(job.name, text.tokens, text.scope, partial(self._on_save_end, job.request_id))
        if not count:
            raise InvalidRequest(f"Slot {job.slot} has no text that could be saved")
        if self._states.has_store:
            self._saving[job.request_id] = _Saving(job.name, began, count)
        return count

    def _restore(self, job: StateJob) -> tuple[int, int]:
        found = None if job.saved is not None and job.is_newer else self._states.find(job.name)
        if found is None and job.saved is not None:
            self._states.adopt(job.saved)
            found = (job.saved.tokens, job.saved.scope)
        cached = self._states.cached_length(*found) if found else 0
        if found is None or not cached:
            raise InvalidRequest("Unable to restore slot, no available space in KV cache or invalid slot save file")
        tokens, scope = found
        self._texts.put(job.slot, _Text(tokens, tokens_of(()), scope, self._wall_clock()))
        self._slots.pin(job.slot)
        return cached, job.saved.nbytes if job.saved else 0


def check_action(action: str, name: str, slot: int) -> None:
    """Raise InvalidRequest for an unknown action, a missing name or a negative slot."""
    if action not in ACTIONS:
        raise bad_field("action", f"should be one of {', '.join(ACTIONS)}")
    if action in ("save", "restore") and not name:
        raise bad_field("filename", "should not be empty")
    if slot < 0:
        raise bad_field("id_slot", "should not be negative")
