"""A second context for long chunks of prompts, on a CPU.

llama.cpp's flash attention is the faster where many tokens of one text are computed together. For one token of each of many
branches that share a long text it is, on many processors, two to nine times slower than attention without it, which
multiplies the shared keys with all branches at once. A context has the one or the other. So there the context of the
branches has none, and long chunks of prompts are computed in a context of their own; their KV is copied to the branches'
context.

Attention without flash attention multiplies each token with the cells of all texts. So a crowd, many branches of texts that
share nothing, is computed here, too, and a text's KV is copied only when something else is done than to go on with it. Of
models with latent attention nothing else is computed here, since all of their heads have the same keys: without flash
attention they read prompts one and a half times as fast.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import llama_cpp as lib

from srb.engine.llama.batch import NativeBatch, compute
from srb.engine.llama.devices import system_info
from srb.engine.llama.log import native_log
from srb.engine.llama.params import memory_kind, prompt_params, uses_gpu
from srb.engine.llama.rows import Rows
from srb.engine.llama.sections import NUM_SECTIONS, sequences_of
from srb.engine.llama.sequences import Sequences
from srb.engine.llama.windows import Windows, free_memory, has_latent_attention, kv_bytes, num_cells
from srb.engine.model import Batch, Blob, DecodeStatus, LoraScales
from srb.engine.tokens import Tokens, common_length
from srb.settings import Settings

log = logging.getLogger("srb.llama")

# Tokens of a batch from which on ggml's flash attention takes them by so many, and multiplies each with the cells of all;
# with shared keys, too, branches that share nothing are the faster in a batch of their own.
FLASH_TILE = 64
LEAST = FLASH_TILE  # tokens of a chunk
# To copy a token's KV takes as long as flash attention saves on so many pairs of a token and a cell before it: 30 with AMX,
# 130 with AVX2.
COPYING = 64
# The time of such a pair in a small step with flash attention, in those of one without: 8 with AVX2, 13 with AMX.
_FLASH_PAIR = 8
_CROWD = 1.5  # times as long a crowd's step would take with the branches

_MIB = 1 << 20
_PLAIN_TYPES = {"f16", "bf16", "f32"}  # of KV; llama.cpp has others only with flash attention
_FEWEST_CELLS = 1024  # with fewer there are no long texts
_MOST_BYTES = 2048 * _MIB  # of the context's KV …
_SHARE = 4  # … and of the free memory
# Plain attention has the scores of all cells in memory, for each head and each token that is computed at once: so many
# tokens that they take _SCORES, or LEAST, which may take _MOST_SCORES.
_SCORES, _MOST_SCORES = 256 * _MIB, 1024 * _MIB
_WINDOWS_UBATCH = 256  # with fewer tokens at once flash attention gains little


@dataclass(frozen=True)
class Split:
    """Sizes of the two contexts: the cells of the one for prompts, and most tokens that each computes at once."""

    prompt_cells: int
    prompt_ubatch: int
    branch_ubatch: int


def split_of(settings: Settings, model: Any, windows: Windows) -> Split | None:
    """Return the sizes of two contexts; None if one computes all: on a GPU, by the settings, where flash attention is fast
    for branches, too, or for lack of memory.
    """
    is_by_settings = settings.flash_attn == "auto" and {settings.cache_type_k, settings.cache_type_v} <= _PLAIN_TYPES
    if uses_gpu(settings) or settings.rpc or not is_by_settings or not _can_be_copied(model, windows):
        return None
    if not flash_is_slow(system_info()):
        return None
    scores = 4 * num_cells(settings, model) * lib.llama_model_n_head(model)  # bytes for each token
    prompt_ubatch = n_ubatch = min(settings.n_ubatch, settings.n_batch)
    if not settings.mmproj:  # whose pictures may have to be computed at once
        n_ubatch = min(n_ubatch, max(LEAST, 1 << (_SCORES // scores).bit_length() - 1 if scores <= _SCORES else 0))
    if windows is Windows.FULL:  # which can compute no more than a ubatch at once
        if n_ubatch < min(prompt_ubatch, _WINDOWS_UBATCH):
            return None
        prompt_ubatch = n_ubatch
    size = kv_bytes(settings, model)
    room = min(_MOST_BYTES, (free_memory(settings, model, on_gpu=False) - size) // _SHARE)
    cells = min(num_cells(settings, model), int(num_cells(settings, model) * room / size)) if room > 0 else 0
    if cells < _FEWEST_CELLS or scores * n_ubatch > _MOST_SCORES:
        return None
    return Split(cells, prompt_ubatch, n_ubatch)


def flash_is_slow(system_info: str) -> bool:
    """Whether flash attention takes several times as long as plain attention for a pair in a step of 8 branches.

    It does not with native/shared_keys.h. Without it, microseconds with flash attention and with plain attention, 110
    million weights, 8 and 32 branches: kernels for AVX512 on an EPYC 1.7 and 1.4, 1.4 and 0.9; those for AVX2 on the same
    3.4 and 0.9, 2.2 and 0.3; with AMX 13 times.
    """
    has_shared_keys = "SHARED_KEYS = 1" in system_info
    return not has_shared_keys and ("AVX512 = 1" not in system_info or "AMX_INT8 = 1" in system_info)


def _can_be_copied(model: Any, windows: Windows) -> bool:
    """Whether the KV of a model can be copied as it grows: sequences can be cut anywhere, at least their cells."""
    kind, has_windows = memory_kind(model), lib.llama_model_n_swa(model) > 0
    return kind != "recurrent" and windows is not Windows.SMALL and has_windows is (windows is Windows.FULL)


def prompt_context(
    settings: Settings, model: Any, windows: Windows, split: Split, home: Sequences
) -> PromptContext | None:
    """Return the context for prompts, or None if llama.cpp cannot make it."""
    params = prompt_params(settings, model, windows, split.prompt_cells, split.prompt_ubatch)
    context = lib.llama_init_from_model(model, params)
    if not context:
        return None
    n_vocab = lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(model))
    own = sequences_of(context, model, windows)
    return PromptContext(context, own, home, n_vocab, reads_prompts=not has_latent_attention(model))


@dataclass(frozen=True)
class Chunk:
    """Tokens `start` to `stop` of a batch, which follow each other in one sequence."""

    seq_id: int
    start: int
    stop: int
    position: int

    def __len__(self) -> int:
        return self.stop - self.start


@dataclass
class _Text:
    """A sequence's text in the context for prompts: its sequence and its number of tokens there."""

    slot: int
    end: int = 0
    num_behind: int = 0  # of its last tokens, which the branches' context has not got yet
    has_state: bool = False  # of its end, if memory has states
    tokens: Tokens | None = None  # the text, at least `end` of them, if it is known, …
    lora: LoraScales = ()  # … and the scales that it was computed with


class PromptContext:
    """The context of long chunks and crowds, beside that of the branches. For the decode thread only.

    It keeps the texts that are being read, as far as it has computed them, until their room is needed. A prompt whose
    sequence is cut or removed is kept without one, until a prompt goes on with it or another text is computed.
    """

    def __init__(self, context: Any, own: Sequences, home: Sequences, n_vocab: int, reads_prompts: bool = True) -> None:
        """Compute in `context`, whose sequences are `own`, for those of `home`.

        These are crowds, and with `reads_prompts` long chunks of prompts.
        """
        self.context = context
        self.rows = Rows(context, n_vocab)
        self.n_cells = int(lib.llama_n_ctx(context))
        self._home, self._own = home, own
        self._reads_prompts = reads_prompts
        self._batch = NativeBatch(int(lib.llama_n_batch(context)), NUM_SECTIONS)
        self._texts: dict[int, _Text] = {}  # by sequence, the longest unused first
        self._left: _Text | None = None  # the newest prompt that has lost its sequence
        self._states: dict[int, Blob] = {}  # of the last batch's sequences, before their chunks
        self._state_tokens = 0.0  # so many tokens' KV takes as long to copy as a state
        self._is_off = False  # whether llama.cpp saves this model's sequences in a form that is not known
        self._has_copied = False  # so the form is known
        self._behind: set[int] = set()  # sequences whose texts have tokens that the branches' context has not got yet

    def chunks(self, batch: Batch) -> list[Chunk]:
        """Return the chunks of a batch that are computed here."""
        if batch.vectors is not None or self._is_off:
            return []
        if self._is_crowd(batch) and self._has_room(chosen := _chunks(batch)):
            return chosen
        if len(batch) < LEAST or not self._reads_prompts:
            return []
        long = [chunk for chunk in _chunks(batch) if len(chunk) >= LEAST]
        for chunk in long:
            self._go_on(chunk, batch)
        chosen = [chunk for chunk in long if self._pays(chunk, batch.to_come.get(chunk.seq_id, 0))]
        return chosen if chosen and self._has_room(chosen) else []

    def compute(self, batch: Batch, chunks: Sequence[Chunk]) -> DecodeStatus | None:
        """Compute chunks of a batch, and copy their KV to the branches' context; without room nothing is computed.

        Return None if that cannot be done for this model, which is found out here.
        """
        is_crowd = self._is_crowd(batch)
        self._drop_left()
        if not is_crowd:
            self.bring_all_home(chunk.seq_id for chunk in chunks)
        if self._home.has_states:
            self._states = {chunk.seq_id: self._home.save_state(chunk.seq_id) for chunk in chunks if chunk.position}
        own = Batch(batch.lora)
        for chunk in chunks:
            if not self._fetch(chunk):
                self._give_up()
                return None
            own.tokens += batch.tokens[chunk.start : chunk.stop]
            own.positions += batch.positions[chunk.start : chunk.stop]
            own.seq_ids += [self._texts[chunk.seq_id].slot] * len(chunk)
            own.wanted += batch.wanted[chunk.start : chunk.stop]
        self.rows.follow(own.wanted)
        status = compute(self.context, self._batch.fill(own, self._own.positions(own)))
        if status is not DecodeStatus.OK:
            if status is not DecodeStatus.FATAL:
                self._forget()
            return status
        self._own.computed(own)
        for done, chunk in enumerate(chunks):
            text = self._texts[chunk.seq_id]
            text.end, text.has_state = chunk.position + len(chunk), True
            text.tokens, text.lora = batch.texts.get(chunk.seq_id), batch.lora
            if is_crowd and self._has_copied:
                text.num_behind += len(chunk)
                self._behind.add(chunk.seq_id)
                continue
            size = _copy(self._own, text.slot, self._home, chunk.seq_id, chunk.position, text.end)
            if size is None:
                self.undo(chunks[: done + 1])
                self._give_up()
                return None
            if not size:
                log.warning("there are no cells for %d tokens of a prompt: %s", len(chunk), native_log.last_error)
                self.undo(chunks[: done + 1])
                self._forget()
                return DecodeStatus.NO_ROOM
            self._has_copied = True
            if self._home.has_states:
                state = self._own.save_state(text.slot)
                _set_state(self._home, chunk.seq_id, state)
                self._state_tokens = len(state) * len(chunk) / size
        return DecodeStatus.OK

    def undo(self, chunks: Sequence[Chunk]) -> None:
        """Remove the chunks of the last batch, here and in the branches' context."""
        for chunk in chunks:
            self._home.truncate(chunk.seq_id, chunk.position)
            if (state := self._states.get(chunk.seq_id)) is not None:
                _set_state(self._home, chunk.seq_id, state)
            self._cut(chunk.seq_id, chunk.position)

    def truncate(self, seq_id: int, end: int) -> None:
        """Note that a sequence was cut at position `end`, or removed with `end` 0."""
        text = self._texts.get(seq_id)
        if text is None or text.end <= end:
            return
        if text.tokens is None or text.num_behind:
            self._cut(seq_id, end)
            return
        self._drop_left()
        self._left = self._texts.pop(seq_id)

    def _go_on(self, chunk: Chunk, batch: Batch) -> None:
        """Give a chunk's sequence the prompt that was left, as far as its own text begins with it."""
        left, tokens = self._left, batch.texts.get(chunk.seq_id)
        if left is None or tokens is None or chunk.seq_id in self._texts or left.lora != batch.lora:
            return
        assert left.tokens is not None
        end = min(common_length(left.tokens, tokens, 0), left.end, chunk.position)
        if end >= LEAST:
            self._left, self._texts[chunk.seq_id] = None, left
            left.tokens = tokens
            if end < left.end:
                self._own.truncate(left.slot, end)
                left.end, left.has_state = end, False

    def _drop_left(self) -> None:
        if self._left is not None:
            self._own.remove(self._left.slot)
            self._left = None

    def _cut(self, seq_id: int, end: int) -> None:
        """Cut a sequence's text here at position `end`."""
        text = self._texts.get(seq_id)
        if text is None or text.end <= end:
            return
        text.num_behind = max(0, text.num_behind - (text.end - end))
        if not text.num_behind:
            self._behind.discard(seq_id)
        if end:
            self._own.truncate(text.slot, end)
            text.end, text.has_state = end, False
        else:
            self._own.remove(text.slot)
            del self._texts[seq_id]

    def bring_home(self, seq_id: int) -> None:
        """Copy what the branches' context has not got yet of a sequence's text."""
        if seq_id not in self._behind:
            return
        text = self._texts[seq_id]
        if not _copy(self._own, text.slot, self._home, seq_id, text.end - text.num_behind, text.end):
            raise AssertionError(f"{text.num_behind} tokens did not fit into the branches' context")
        text.num_behind = 0
        self._behind.discard(seq_id)

    def bring_all_home(self, seq_ids: Iterable[int]) -> None:
        """Copy what the branches' context has not got yet of these sequences' texts."""
        if self._behind:
            for seq_id in self._behind.intersection(seq_ids):
                self.bring_home(seq_id)

    def clear(self) -> None:
        """Drop all texts, as the branches' context has dropped its own."""
        if self._texts or self._left is not None:
            self._own.clear()
            self._texts.clear()
            self._behind.clear()
            self._left = None

    def _forget(self) -> None:
        """Drop all texts, of which the branches' context has all tokens then."""
        self.bring_all_home(self._behind)
        self.clear()

    def close(self) -> None:
        lib.llama_free(self.context)

    def _is_crowd(self, batch: Batch) -> bool:
        """Whether a batch takes longer where each token is multiplied with all cells in use than with those before it.

        No text with a state is in a crowd.
        """
        if self._home.has_states:
            return False
        count = len(batch)
        return count * (batch.cells + count) > _CROWD * _FLASH_PAIR * (sum(batch.positions) + count)

    def _pays(self, chunk: Chunk, to_come: int) -> bool:
        """Whether flash attention saves more than copies take, for a chunk and `to_come` further tokens of its text."""
        text, count = self._texts.get(chunk.seq_id), len(chunk) + to_come
        states = self._state_tokens * count / len(chunk)
        copied = max(0, chunk.position - (text.end if text else 0)) + count + states
        return len(chunk) >= LEAST and count * (chunk.position + count // 2) >= COPYING * copied

    def _has_room(self, chunks: Sequence[Chunk]) -> bool:
        """Whether the chunks fit beside the texts that are here; drop others' if that makes room."""
        own = {chunk.seq_id for chunk in chunks}
        cells = sum(chunk.position + len(chunk) for chunk in chunks)
        if cells > self.n_cells or len(own) > self._own.count:
            return False
        others = [seq_id for seq_id in self._texts if seq_id not in own]
        cells += sum(self._texts[seq_id].end for seq_id in others)
        for number, seq_id in enumerate(others):
            if cells <= self.n_cells and len(own) + len(others) - number <= self._own.count:
                break
            cells -= self._texts[seq_id].end
            self.bring_home(seq_id)
            self._cut(seq_id, 0)
        return True

    def _fetch(self, chunk: Chunk) -> bool:
        """Copy from the branches' context what lacks here of the text before a chunk; return False for an unknown form.

        `_has_room` has said that it fits.
        """
        self._cut(chunk.seq_id, chunk.position)
        text = self._texts.pop(chunk.seq_id, None) or _Text(self._free_slot())
        self._texts[chunk.seq_id] = text
        if text.end < chunk.position:
            size = _copy(self._home, chunk.seq_id, self._own, text.slot, text.end, chunk.position)
            if size is None:
                return False
            if not size:
                raise AssertionError(f"{chunk.position - text.end} tokens did not fit into the context for prompts")
            text.end, text.has_state = chunk.position, False
        if self._home.has_states and chunk.position and not text.has_state:
            _set_state(self._own, text.slot, self._states[chunk.seq_id])
        return True

    def _free_slot(self) -> int:
        taken = {text.slot for text in self._texts.values()}  # that of a prompt that was left is free by now
        return next(slot for slot in range(self._own.count) if slot not in taken)

    def _give_up(self) -> None:
        """Compute nothing here any more: the KV of this model cannot be copied."""
        log.warning("the KV of this model cannot be copied, so its prompts are computed without flash attention")
        self._is_off = True
        self._forget()


def _copy(source: Sequences, seq_id: int, target: Sequences, target_id: int, start: int, end: int) -> int | None:
    """Append a sequence's tokens from `start` to `end`, its own, to one of the other context; return their bytes.

    0: there is no room for all of them. None: their form is not known.
    """
    size = 0
    for blob in source.spans(seq_id, start, end):
        converted = source.in_other_layout(blob)
        if converted is None:
            return None
        if not target.restore(target_id, converted):
            return 0
        size += len(converted)
    return size


def _set_state(sequences: Sequences, seq_id: int, state: Blob) -> None:
    if not sequences.restore_state(seq_id, state):
        raise AssertionError(f"the state of sequence {seq_id} could not be copied")


def _chunks(batch: Batch) -> list[Chunk]:
    """Return the spans of a batch that are each of one sequence."""
    seq_ids, found, start = batch.seq_ids, [], 0
    for stop in range(1, len(seq_ids) + 1):
        if stop == len(seq_ids) or seq_ids[stop] != seq_ids[start]:
            found.append(Chunk(seq_ids[start], start, stop, batch.positions[start]))
            start = stop
    return found
