"""The seam: what the engine asks of a model, and of the place where named states are kept.

`llama` and `fake` implement Model, and one contract suite tests both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from srb.protocol import ModelInfo, SamplingParams

Blob = npt.NDArray[np.uint8]  # saved KV
Scales = tuple[float, ...]  # of the model's LoRA adapters, in their order
Logits = npt.NDArray[np.float32]  # one row, shape (n_vocab,)


class DecodeStatus(Enum):
    """What became of a batch; only OK computes anything, and only FATAL leaves the KV store in doubt."""

    OK = auto()
    NO_ROOM = auto()  # no cells for it: send less, or free some
    INVALID = auto()  # the batch itself is wrong
    FATAL = auto()  # the computation failed


class Batch:
    """The tokens of one decode, flat, as llama_batch has them; each belongs to one sequence."""

    __slots__ = ("lora", "positions", "seq_ids", "tokens", "wanted")

    def __init__(self, lora: Scales = ()) -> None:
        self.lora = lora  # with which all of it is computed
        self.tokens: list[int] = []
        self.positions: list[int] = []
        self.seq_ids: list[int] = []
        self.wanted: list[int] = []  # 1 where logits are to be computed

    def __len__(self) -> int:
        return len(self.tokens)

    def add(self, seq_id: int, position: int, tokens: Sequence[int], want_logits: bool, want_all: bool = False) -> int:
        """Append `tokens` at `position` … of `seq_id`; return the row of the last one (its logits, where wanted).

        `want_all` asks for the logits of every one of them. At most n_seq_max rows of a batch may be wanted.
        """
        count = len(tokens)
        self.tokens += tokens
        self.positions += range(position, position + count)
        self.seq_ids += [seq_id] * count
        self.wanted += [int(want_all)] * (count - 1)
        self.wanted.append(1 if want_logits or want_all else 0)
        return len(self.tokens) - 1


@dataclass(frozen=True, slots=True)
class Candidates:
    """What a sampler chain has left of the vocabulary: token ids and their probabilities, each of shape (n,)."""

    ids: npt.NDArray[np.int32]
    probs: npt.NDArray[np.float32]


class Sampler(Protocol):
    """One branch's sampler chain, with its random state and its memory of past tokens."""

    def sample(self, row: int) -> int:
        """Choose and accept a token from a wanted row of the last decode. Raise GrammarDeadEnd when none is allowed."""
        ...

    def sample_from(self, logits: Logits) -> int:
        """As `sample`, from logits that were kept."""
        ...

    @property
    def candidates(self) -> Candidates:
        """What the last token was chosen from; only with post_sampling_probs."""
        ...

    def close(self) -> None:
        """Free what the chain holds; may be called again."""
        ...


@dataclass(frozen=True, slots=True)
class Adapter:
    """A LoRA adapter that has been loaded, and the scale that the settings give it."""

    path: str
    scale: float = 1.0
    task_name: str = ""
    prompt_prefix: str = ""


class Model(Protocol):
    """A loaded model and its KV store. One thread calls what is below the line; the rest is safe from any thread."""

    n_ctx: int  # cells, shared by all sequences
    n_ctx_seq: int  # longest one sequence may grow
    n_batch: int  # most tokens in one decode
    n_ubatch: int
    n_seq_max: int  # sequence ids are 0 … n_seq_max − 1
    n_vocab: int
    is_on_gpu: bool  # whether the KV store lies on one
    n_embd: int
    n_embed_tokens: int  # most tokens in one call of `embed` or `rank`, and so in one input
    n_embed_inputs: int  # most inputs in one call
    pooling: str  # how the vectors of a text become one, where a request does not say: none, mean, cls, last or rank
    adapters: list[Adapter]
    can_generate: bool  # whether it continues texts, or only makes embeddings
    can_embed: bool
    can_rank: bool
    can_cut: bool  # whether a sequence can be used and saved in parts, or only whole

    def info(self, alias: str) -> ModelInfo: ...
    def tokenize(self, text: str, add_special: bool, parse_special: bool) -> list[int]: ...
    def piece(self, token: int, special: bool = False) -> bytes: ...
    def is_eog(self, token: int) -> bool: ...
    def new_sampler(
        self, params: SamplingParams, seed: int, history: Sequence[int], min_tokens: int = 0
    ) -> Sampler: ...

    def grammar_of(self, json_schema: str) -> str: ...  # GBNF; InvalidRequest where there is none

    def pair(self, query: str, document: str) -> list[int]: ...  # the tokens by which `rank` compares two texts

    # ---- the decode thread's alone

    def decode(self, batch: Batch) -> DecodeStatus: ...
    def sample_ahead(self, choices: Sequence[tuple[Any, int]]) -> None: ...  # (own sampler, row): a hint
    def logits(self, row: int) -> Logits: ...
    def fork(self, source: int, target: int, end: int | None = None) -> None: ...
    def truncate(self, seq_id: int, end: int) -> None: ...
    def splice(self, source: int, target: int, end: int) -> None: ...
    def save(self, seq_id: int, start: int) -> Blob: ...
    def restore(self, seq_id: int, blob: Blob) -> bool: ...
    def remove(self, seq_id: int) -> None: ...
    def clear(self) -> None: ...

    # One entry for each input, of shape (tokens, n_embd); None where the computation failed.
    def embed(self, inputs: Sequence[list[int]], lora: Scales = ()) -> list[Logits] | None: ...
    def rank(self, inputs: Sequence[list[int]], lora: Scales = ()) -> list[float] | None: ...
    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class SavedState:
    """A prompt's tokens, their KV, and the logits of the last one."""

    tokens: list[int]
    blob: Blob
    logits: Logits
    lora: Scales = ()  # with which it was computed


class StateStore(Protocol):
    """Where named states are kept; both methods are called from any thread and do not raise for a bad file."""

    def load(self, name: str) -> SavedState | None: ...
    def save(self, name: str, state: SavedState) -> None: ...
