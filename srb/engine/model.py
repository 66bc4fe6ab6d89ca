"""The Model, Sampler and StateStore protocols: the interface between the engine and a model.

`llama` and `fake` implement Model, and one contract suite tests both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from srb.config.sampling_params import SamplingParams
from srb.engine.grammar.grammars import Grammars
from srb.engine.grammar.matcher import Matcher
from srb.engine.media import Encoder, MediaRun, Vectors
from srb.engine.tokens import Tokens
from srb.errors import SRBError
from srb.wire.commands import Door as Door
from srb.wire.events import ModelInfo

Blob = npt.NDArray[np.uint8]  # saved KV as bytes, shape (bytes,)
LoraScales = tuple[float, ...]  # of the model's LoRA adapters, in their order
Mood = tuple[tuple[str, float], ...]  # control vectors, by their keys in order, each with its scale; (): none
Logits = npt.NDArray[np.float32]  # one row, shape (n_vocab,)


@dataclass(frozen=True, slots=True)
class Scope:
    """The texts that may share cells: with the same LoRA scales and mood, and the same salt, which keeps clients' apart."""

    lora: LoraScales = ()
    salt: str = ""
    mood: Mood = ()


class DecodeStatus(Enum):
    """Result of a decode. Only OK computes anything, and only FATAL leaves the KV store in doubt."""

    OK = auto()
    NO_ROOM = auto()  # not enough free cells: send less, or free some
    INVALID = auto()  # the batch itself is wrong
    FATAL = auto()  # the computation failed


class Batch:
    """The tokens of one decode, flat, as llama_batch has them; each belongs to one sequence.

    A token's position is the number of tokens before it; a model that counts otherwise converts it (see `positions`).
    A batch of media has vectors, which are computed in the place of its tokens, and nothing else.
    """

    __slots__ = ("is_whole", "lora", "moods", "positions", "run", "seq_ids", "states", "tokens", "vectors", "wanted")

    def __init__(self, lora: LoraScales = ()) -> None:
        self.lora = lora  # scales for all tokens
        self.moods: dict[int, Mood] = {}  # of the sequences that have one
        self.tokens: list[int] = []
        self.positions: list[int] = []
        self.seq_ids: list[int] = []
        self.wanted: list[int] = []  # 1 if the row's logits are wanted, else 0
        self.vectors: Vectors | None = None  # of media, one for each token
        self.states: Vectors | None = None  # hidden states beside the tokens, one for each: the input of a head
        self.is_whole = False  # whether the positions of these media see each other
        self.run: MediaRun | None = None  # that these media are a part of

    def __len__(self) -> int:
        return len(self.tokens)

    def add(self, seq_id: int, position: int, tokens: Sequence[int], want_logits: bool, want_all: bool = False) -> int:
        """Append `tokens` at `position` … of `seq_id`; return the row of the last one.

        `want_logits` asks for the logits of the last token, `want_all` for those of all. At most n_seq_max rows of a
        batch may be wanted.
        """
        count = len(tokens)
        self.tokens += tokens
        self.positions += range(position, position + count)
        self.seq_ids += [seq_id] * count
        self.wanted += [int(want_all)] * (count - 1)
        self.wanted.append(1 if want_logits or want_all else 0)
        return len(self.tokens) - 1

    def add_newest(self, seq_id: int, position: int, token: int) -> int:
        """Append one token of `seq_id`, with its logits wanted; return its row. As `add`, and quicker."""
        self.tokens.append(token)
        self.positions.append(position)
        self.seq_ids.append(seq_id)
        self.wanted.append(1)
        return len(self.tokens) - 1


@dataclass(frozen=True, slots=True)
class Candidates:
    """Tokens that a sampler chain has left: their ids and probabilities, each of shape (n,)."""

    ids: npt.NDArray[np.int32]
    probs: npt.NDArray[np.float32]


class Sampler(Protocol):
    """One branch's sampler chain, with its random state and its memory of past tokens."""

    def sample(self, row: int) -> int:
        """Sample and accept a token from a wanted row of the last decode. Raise GrammarDeadEnd if none is allowed."""
        ...

    def sample_from(self, logits: Logits) -> int:
        """Sample and accept a token from stored logits, shape (n_vocab,), as `sample` does."""
        ...

    @property
    def grammar(self) -> Matcher | None:
        """Where its text stands in a grammar, which also tells what it has taken; None without one."""
        ...

    @property
    def forced(self) -> list[int]:
        """Tokens that have to come next, as far as a grammar leaves no choice; they may be accepted in their order."""
        ...

    def accept(self, token: int) -> None:
        """Accept a token that is forced, as if it had been sampled. Only while no states are remembered."""
        ...

    def accept_in_grammar(self, tokens: Sequence[int]) -> None:
        """Accept tokens that were sampled under the same grammar; without one do nothing. Raise GrammarDeadEnd."""
        ...

    def sample_apart(self, logits: Logits, taken: Set[int], seed: int) -> int:
        """Sample and accept a token from logits, shape (n_vocab,), that is not `taken`, while the chain leaves others.

        Free candidates are drawn by their share of the probability that the chain leaves to them; `seed` draws when the
        chain's own draw is taken. A grammar is applied first. At temperature 0 it is the likeliest token that is not
        taken. If all candidates are taken, the token is sampled as by `sample_from`.
        """
        ...

    def sample_by(self, logits: Logits, take: Callable[[Candidates], int]) -> int:
        """Sample and accept the token that `take` returns of those that the chain leaves of logits, shape (n_vocab,).

        A grammar is applied first. Raise GrammarDeadEnd if no token is allowed.
        """
        ...

    @property
    def candidates(self) -> Candidates:
        """Candidates of the last sampled token; only with post_sampling_probs."""
        ...

    def clone(self, seed: int, min_tokens: int = 0) -> Sampler:
        """Return a sampler with the same settings, past tokens and place in the grammar, which draws by `seed`.

        The clone of a new sampler equals a newly built one, and costs much less.
        """
        ...

    def remember(self) -> None:
        """Remember the state before each sampled token, so that `rewind` can return to it.

        Call it before the first token is sampled. Clones remember nothing.
        """
        ...

    def forget(self, count: int) -> None:
        """Forget all remembered states but those before the last `count` tokens."""
        ...

    def rewind(self, count: int) -> None:
        """Return to the state before the last `count` tokens, which is remembered, as if they had never been sampled.

        A sample that raised an error counts as a token here, and can only be taken back.
        """
        ...

    def end_reasoning(self) -> bool:
        """Have the reasoning end now, or as soon as it begins; return whether it is not over yet.

        Only with reasoning_control.
        """
        ...

    def stop_remembering(self) -> None:
        """Forget all states, and remember none from now on."""
        ...

    def close(self) -> None:
        """Free the native chain; may be called again."""
        ...


@dataclass(frozen=True, slots=True)
class Adapter:
    """A loaded LoRA adapter, and the scale that the settings give it."""

    path: str
    scale: float = 1.0
    task_name: str = ""
    prompt_prefix: str = ""


@dataclass(frozen=True, slots=True)
class ControlVector:
    """A vector for each layer, which is added to what the layer gives; `key` is its name with a digest of its numbers.

    Requests that say nothing of control vectors have it with `scale`.
    """

    name: str
    key: str
    path: str
    scale: float = 0.0


class Head(Protocol):
    """Layers of a model that draft from its hidden states, with a KV store of their own. For the decode thread.

    A head follows the model's sequences by their ids: what they compute waits until it is read.
    """

    kind: str  # llama-server's name
    tokens_total: int  # computed tokens

    # Read prompts from now on, at once, or not: then it has of a text what was drafted for, and little before.
    def follow_prompts(self, pays: bool) -> None: ...

    # How many tokens of a sequence with so many tokens wait; None if it cannot be followed.
    def lag(self, seq_id: int, length: int) -> int | None: ...
    def read(self, seq_ids: Sequence[int]) -> int: ...  # compute what waits; return how many tokens that were
    def begin(self, rows: Sequence[tuple[int, int, int]]) -> bool: ...  # sequence, place and token of newest tokens

    # Of each branch that goes on its place in the latest call, and the token that was drafted there.
    def go_on(self, drafted: Sequence[tuple[int, int]]) -> bool: ...
    def logits(self, place: int) -> Logits: ...  # what follows the token at a place of the latest call
    def drop(self) -> None: ...  # drafted tokens


class Model(Protocol):
    """A loaded model and its KV store. Methods above the line are safe from any thread."""

    n_ctx: int  # cells, shared by all sequences
    n_ctx_seq: int  # most tokens in one sequence
    is_as_trained: bool  # whether that is the length that the model was trained for, and more cells do not change it
    n_batch: int  # most tokens in one decode
    n_ubatch: int
    n_seq_max: int  # sequence ids are 0 … n_seq_max − 1
    n_vocab: int
    bos_id: int  # the token that begins a text (BOS); −1: none
    blank_page: list[int]  # the tokens that stand before an empty text; []: none
    is_on_gpu: bool  # whether the KV store is in a GPU's memory
    n_embd: int
    n_embed_tokens: int  # most tokens in one call of `embed` or `rank`, and so in one input
    n_embed_inputs: int  # most inputs in one call
    pooling: str  # default pooling of a text's vectors: none, mean, cls, last or rank
    adapters: list[Adapter]
    control_vectors: list[ControlVector]
    no_control_vectors: str  # the reason why there can be none; "": there can
    can_generate: bool  # False for models that only make embeddings
    can_embed: bool
    can_rank: bool
    supports_partial_reuse: bool  # whether a part of a sequence can be reused and saved, or only the whole
    # Whether a sequence goes on only with the state of its end. Forks of parts, cuts and restores leave none, until
    # `restore_state`; the end may be computed again without one only where the sequence is empty.
    has_states: bool
    shares_states: bool  # whether sequences can have the same state at no cost, by `copy_state`
    encoder: Encoder | None  # of pictures and sounds; None: text only
    head: Head | None  # that drafts; None: there is none, or it is not used
    grammars: Grammars  # of the vocabulary; a sampler's own is `grammar` of its parameters

    # Whether `decode` returns while a device still computes, so that work which needs no result belongs behind it.
    decodes_ahead: bool

    @property
    def threads(self) -> int: ...  # number of threads that compute a batch now
    @property
    def max_piece_bytes(self) -> int: ...  # most bytes of text per token; 0: no limit

    def info(self, alias: str) -> ModelInfo: ...
    def tokenize(self, text: str, add_special: bool, parse_special: bool) -> list[int]: ...
    def find_cut(self, text: str, start: int) -> int: ...  # the first cut (see cuts.py) from `start` on; −1: none
    def piece(self, token: int, special: bool = False) -> bytes: ...
    def is_eog(self, token: int) -> bool: ...
    def new_sampler(
        self, params: SamplingParams, seed: int, history: Sequence[int], min_tokens: int = 0
    ) -> Sampler: ...

    # The number to add to the logit of each token that has one; -inf: forbidden.
    def biases(self, params: SamplingParams) -> dict[int, float]: ...

    def pair(self, query: str, document: str) -> list[int]: ...  # the input of `rank` for two texts

    # ---- the decode thread's alone. Edits of sequences (`fork` to `remove`) may wait for the next call that needs them.

    def decode(self, batch: Batch) -> DecodeStatus: ...
    def samples_in_threads(self, count: int) -> bool: ...  # whether `sample_ahead` pays for so many rows
    def sample_ahead(self, choices: Sequence[tuple[Any, int]]) -> None: ...  # (own sampler, row): a hint
    def logits(self, row: int) -> Logits: ...  # of a wanted row, shape (n_vocab,): a view until the next decode
    def fork(self, source: int, target: int, end: int | None = None) -> None: ...
    def truncate(self, seq_id: int, end: int) -> None: ...
    def splice(self, source: int, target: int, end: int) -> None: ...

    # Share the state of `source`'s end, without cells, where `shares_states`: `target` is empty, and can then be saved and
    # copied from, or it ends at the same place, and goes on from there.
    def copy_state(self, source: int, target: int) -> None: ...
    def remove(self, seq_id: int) -> None: ...
    def flush(self) -> None: ...  # carry out the edits that wait
    def save(self, seq_id: int, start: int) -> Blob: ...  # the KV from position `start` on
    def restore(self, seq_id: int, blob: Blob) -> bool: ...  # behind the sequence's end; False if it is refused

    # The two spans of a saved one from `start` on, without the states of ends: up to the token `at`, and from there on.
    # None if its form is unknown.
    def split(self, blob: Blob, start: int, at: int) -> tuple[Blob, Blob] | None: ...
    def save_state(self, seq_id: int) -> Blob: ...  # the state of a sequence's end
    def restore_state(self, seq_id: int, state: Blob) -> bool: ...  # into a sequence that ends where it was saved
    def clear(self) -> None: ...

    # The vectors of each input, float32 of shape (tokens, n_embd); None if the computation failed.
    def embed(self, inputs: Sequence[list[int]], lora: LoraScales = ()) -> list[Vectors] | None: ...
    def rank(self, inputs: Sequence[list[int]], lora: LoraScales = ()) -> list[float] | None: ...
    def close(self) -> None: ...


@dataclass(slots=True, eq=False)
class Record:
    """The KV of a text's tokens `start` … `end` in a store; `parent` is the record before it, "" at a text's beginning.

    Without tokens it is the state after the text's first `start` tokens; `parent` has the last of them.
    """

    id: str
    parent: str
    start: int
    end: int
    nbytes: int
    scope: Scope
    asker: str = ""  # whose text it is; another's when that one is gone

    @property
    def is_state(self) -> bool:
        return self.start == self.end

    @property
    def story(self) -> str:
        """The digest of the story that it is of, "" for none."""
        return self.asker.rpartition(".")[2]


def with_beginnings(own: Iterable[Record], records: Mapping[str, Record]) -> dict[str, Record]:
    """Return records, and all those of `records` that stand before them, by their ids."""
    found: dict[str, Record] = {}
    for each in own:
        at: Record | None = each
        while at is not None and at.id not in found:
            found[at.id] = at
            at = records.get(at.parent)
    return found


@dataclass(frozen=True, slots=True)
class SavedState:
    """A text that is saved under a name, and the records of its KV in a TextStore, each behind its parent.

    `logits` are those of its last token, if a prompt ended there. One that was loaded has the tokens of each record, and in
    `blobs` the KV of those that are at hand, which need not be read again.
    """

    tokens: Tokens
    records: Sequence[Record]
    logits: Logits | None = None
    parts: Sequence[Tokens] = ()
    blobs: Sequence[Blob | None] = ()

    @property
    def scope(self) -> Scope:
        return self.records[-1].scope

    @property
    def nbytes(self) -> int:
        return sum(record.nbytes for record in self.records)


class StateStore(Protocol):
    """A store of named states. Safe from any thread; only `load`, `is_newer` and `use` wait for a disk."""

    # None if there is no file, or none that can be used. The records' KV is in the TextStore then.
    def load(self, name: str) -> SavedState | None: ...

    # Whether another engine has saved a later text of this name than the one that was loaded or saved here.
    def is_newer(self, name: str) -> bool: ...
    def use(self, name: str) -> None: ...  # note a use of a state that was not loaded
    def holds(self, name: str, tokens: Tokens, scope: Scope) -> bool: ...  # whether the state is this text

    # `on_saved` is called from any thread, with None when the state is safe, or with the error. Without `on_saved` the
    # state was saved automatically, and the store may remove it to make room.
    def save(self, name: str, state: SavedState, on_saved: Callable[[SRBError | None], None] | None = None) -> None: ...


class TextStore(Protocol):
    """A store of records. The decode thread calls it; `done` is called by any thread."""

    budget: int  # bytes
    keeps_all: bool  # else texts with a name alone
    is_asked: bool  # whether a client waits for a text to be written: the last room on the disk is for it
    error: OSError | None  # of the latest record that could not be written

    def new_id(self) -> str: ...  # of a record: 32 hexadecimal digits that no other has
    def wait(self, seconds: float) -> None: ...  # until something is done, so many seconds at most

    # Those of an earlier life with their tokens, the least recently used first. Called once, before anything else.
    def load(self) -> Iterable[tuple[Record, Tokens]]: ...
    def write(self, record: Record, tokens: Tokens, blob: Blob, done: Callable[[bool], None]) -> None: ...
    def read(self, record: Record) -> Blob | None: ...  # waits; None: it is lost
    def fetch(self, record: Record, done: Callable[[Blob | None], None]) -> None: ...  # reads it in another thread
    def remove(self, record: Record) -> None: ...

    # Texts of other engines of the same model: `take` gives the records of a story there, with those before them, whose KV
    # is here then; each is to be kept, perhaps behind another record, or removed. At a door, and with tokens, it gives those
    # alone that a prompt of these tokens goes on with.
    def take(
        self, story: str, door: Door | None, tokens: Tokens, done: Callable[[list[tuple[Record, Tokens]]], None]
    ) -> None: ...
    def entry(self, record: Record, tokens: Tokens) -> bytes | None: ...  # a record for `take`; None: it is gone

    @property
    def place(self) -> dict[str, str]: ...  # `model`, a hash of all that KV depends on, and `folder`, "" for none
    def keep(self, record: Record, tokens: Tokens) -> None: ...
    def wipe(self) -> None: ...  # leaves no tokens of removed records behind
    def use(self, record: Record) -> None: ...  # notes that it is used now, for the order of the next life
    def close(self, seconds: float) -> None: ...
