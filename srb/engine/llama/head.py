"""The head of a model that drafts (multi-token prediction): a second context over the model's last layers.

From a token and the model's hidden state before it the head finds what follows the token, and a hidden state for going on.
Its KV store has the sequences of the model's context under the same ids, but for what still waits to be read.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import llama_cpp as lib
import numpy as np

from srb.config.settings import Settings
from srb.engine.llama.batch import NativeBatch, compute
from srb.engine.llama.log import native_log
from srb.engine.llama.memory import floats_at
from srb.engine.llama.params import head_params
from srb.engine.llama.rows import Rows
from srb.engine.llama.strings import string_of
from srb.engine.llama.swa import SwaCache
from srb.engine.llama.threads import Threads
from srb.engine.media import Vectors
from srb.engine.model import Batch, DecodeStatus, Logits
from srb.errors import ModelLoadFailed
from srb.files.gguf import has_head

# Architectures for which llama.cpp computes a head, with a memory of plain attention; with others it would abort.
ARCHITECTURES = (
    "cohere2moe", "deepseek2", "deepseek32", "glm-dsa", "glm4moe", "hy_v3", "mimo2", "qwen35", "qwen35moe", "step35"
)  # fmt: skip
_WITH_SEVERAL = ("hy_v3", "mimo2", "step35")  # of these, whose first head is computed where a file has more
_MOST_WAITING = 64  # tokens of a sequence that wait; older ones are forgotten, where drafts do not pay
# Of llama-ext.h, which has no functions in C.
_TELL = "_Z26llama_set_embeddings_nextnP13llama_contextbb"
_STATES = "_Z26llama_get_embeddings_nextnP13llama_context"

Row = tuple[int, int, int, Vectors]  # sequence, position, token, and the hidden state before it


@dataclass(slots=True)
class _Text:
    """A sequence as the head has it: the tokens `start` … `end` are in its KV store, and those after them wait."""

    start: int  # 1 or more: there is no state before a text's first token
    end: int
    tokens: list[int] = field(default_factory=list)
    states: list[Vectors] = field(default_factory=list)  # the model's before each of these tokens, and at their end
    ahead: int | None = None  # the newest token, which the model has not computed yet, where it is in the KV store
    is_lost: bool = False  # it has media, which a head cannot read

    @property
    def length(self) -> int:
        """Number of tokens of the sequence that the model has computed."""
        return self.end + len(self.tokens)

    def copy(self) -> _Text:
        return _Text(self.start, self.end, self.tokens[:], self.states[:], None, self.is_lost)


class LlamaHead:
    """The head of a model. Its sequences follow those of the model, whose edits are told here in their order."""

    kind = "draft-mtp"  # llama-server's name
    _offset = 0  # of the state that goes with a token: 0: the one before it, 1: its own
    _stride = 1  # places between drafted tokens

    def __init__(self, context: Any, own_context: Any) -> None:
        """Follow a model's `context` with one for its head, which is freed by `close`. Raise ModelLoadFailed."""
        self._model_context, self.context = context, own_context
        self._memory = lib.llama_get_memory(own_context)
        own_model = lib.llama_get_model(own_context)
        self._width: int = lib.llama_model_n_embd_out(own_model)  # of a hidden state
        self._states_of = native_function(_STATES, ctypes.POINTER(ctypes.c_float), lib.llama_context_p_ctypes)
        tell_states(own_context, of_wanted_alone=True)
        self._n_batch: int = lib.llama_n_batch(context)
        self._unknown = np.zeros(self._width, np.float32)
        self._rows = Rows(own_context, lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(own_model)))
        self._room = self._n_batch  # tokens that are read at once
        self._batch = NativeBatch(self._n_batch)
        self._texts: dict[int, _Text] = {}  # by sequence id
        self._latest: list[Row] = []  # that were computed for drafts
        self._drafted: dict[int, int] = {}  # by sequence: the position of its first drafted token
        self._has_failed = False  # after a decode that leaves the memory in doubt; it drafts nothing more
        self.threads: Threads  # the model's
        self._reads_prompts = True
        self.tokens_total = 0
        self._be_told()

    # ---- the model's sequences

    def computed(self, batch: Batch) -> None:
        """Take the hidden states of a batch that the model has computed."""
        if self._has_failed:
            return
        states, prompts = self._told(batch), list[int]()
        for seq_id, first, end in _runs(batch.seq_ids):
            text = self._text_at(seq_id, batch.positions[first])
            is_prompt, length = not all(batch.wanted[first:end]), batch.positions[end - 1] + 1
            if batch.vectors is not None or text.is_lost:
                self._texts[seq_id] = _Text(text.length, length, is_lost=True)
            elif is_prompt and not self._reads_prompts:
                self._forget(seq_id, length)
                if batch.wanted[end - 1]:
                    self._texts[seq_id].states = [states[end - 1].copy()]
            else:
                self._take(seq_id, text, batch.tokens[first:end], states[first:end])
                if is_prompt:
                    prompts.append(seq_id)
                elif len(text.tokens) > _MOST_WAITING:
                    self._shorten(seq_id, text)
        if prompts:
            self.read(prompts)

    def follow_prompts(self, pays: bool) -> None:
        """Read prompts from now on, or not: the model then computes no states of tokens whose logits are not wanted."""
        if pays != self._reads_prompts:
            self._reads_prompts = pays
            self._be_told()

    def fork(self, source: int, target: int, end: int | None) -> None:
        self.remove(target)
        if (text := self._texts.get(source)) is None:
            return
        made = self._texts[target] = text.copy()
        self._share(source, target, text.end)
        if end is not None:
            self._shrink(target, made, end)

    def truncate(self, seq_id: int, end: int) -> None:
        if (text := self._texts.get(seq_id)) is not None:
            self._shrink(seq_id, text, end)

    def splice(self, source: int, target: int, end: int) -> None:
        """Share cells of the same text, where both sequences have them."""
        one, other = self._texts.get(source), self._texts.get(target)
        if one is not None and other is not None and end <= min(one.end, other.end) and one.start <= other.start < end:
            lib.llama_memory_seq_rm(self._memory, target, -1, end)
            self._share(source, target, end)
            other.start = one.start

    def remove(self, seq_id: int) -> None:
        if self._texts.pop(seq_id, None) is not None:
            self._cut(seq_id, 0)

    def clear(self) -> None:
        self._texts.clear()
        lib.llama_memory_clear(self._memory, True)

    def _take(self, seq_id: int, text: _Text, tokens: Sequence[int], states: Vectors) -> None:
        """Let computed tokens wait, but for one that was read before the model computed it."""
        if text.ahead is not None:
            if text.ahead == tokens[0]:
                text.end += 1
                text.states.clear()
                tokens = tokens[1:]
            else:
                self._cut(seq_id, text.end)
            text.ahead = None
        text.tokens += tokens
        text.states += list(states.copy())
        if not self._offset and text.start == text.end and text.states[0] is self._unknown:  # it begins with the next
            text.start = text.end = text.end + 1
            del text.tokens[0], text.states[0]

    def _shorten(self, seq_id: int, text: _Text) -> None:
        """Forget what came before the last tokens that wait."""
        if text.start < text.end:
            self._cut(seq_id, 0)
        more = len(text.tokens) - _MOST_WAITING
        text.start = text.end = text.end + more
        del text.tokens[:more]
        del text.states[:more]

    def _shrink(self, seq_id: int, text: _Text, end: int) -> None:
        """Cut a text behind its first `end` tokens."""
        if end >= text.length:
            return
        self._cut(seq_id, min(end, text.end))
        text.ahead = None
        if end < text.end:
            text.start, text.end = min(text.start, end), end
            text.tokens, text.states = [], [self._unknown]
        else:
            del text.tokens[end - text.end :]
            del text.states[end - text.end + 1 :]

    def _text_at(self, seq_id: int, length: int) -> _Text:
        """Return a sequence's text, begun anew where it is not of this length: a part was restored."""
        text = self._texts.get(seq_id)
        if text is None or text.length != length:
            self._forget(seq_id, length)
        return self._texts[seq_id]

    def _forget(self, seq_id: int, length: int) -> None:
        """Have nothing of a sequence's text of this length."""
        is_lost = seq_id in self._texts and self._texts[seq_id].is_lost
        self._cut(seq_id, 0)
        self._texts[seq_id] = _Text(length, length, [], [self._unknown], None, is_lost)

    def _cut(self, seq_id: int, start: int) -> None:
        lib.llama_memory_seq_rm(self._memory, seq_id, start, -1)

    def _share(self, source: int, target: int, end: int) -> None:
        lib.llama_memory_seq_cp(self._memory, source, target, -1, end)

    # ---- reading and drafting

    def lag(self, seq_id: int, length: int) -> int | None:
        """Return how many tokens of a sequence with so many tokens wait; None if it cannot be followed."""
        text = self._texts.get(seq_id)
        if self._has_failed or (text is not None and text.is_lost):
            return None
        return len(text.tokens) if text is not None and text.length == length else 0

    def read(self, seq_ids: Sequence[int]) -> int:
        """Compute what waits of sequences; return how many tokens that were. One for which there is no room is forgotten."""
        texts = {seq_id: text for seq_id in seq_ids if (text := self._texts.get(seq_id)) is not None and text.tokens}
        rows = [
            (seq_id, text.end + place, token, text.states[place + self._offset])
            for seq_id, text in texts.items()
            for place, token in enumerate(text.tokens)
        ]
        for first in range(0, len(rows), self._room):
            if not self._compute(rows[first : first + self._room], want_logits=False):
                for seq_id, text in texts.items():
                    self._forget(seq_id, text.length)
                return 0
        for text in texts.values():
            text.end, text.tokens, text.states = text.length, [], [text.states[-1].copy()]
        return len(rows)

    def begin(self, rows: Sequence[tuple[int, int, int]]) -> bool:
        """Compute the newest token of each sequence, given with its place; return False if there is no room."""
        self.read([seq_id for seq_id, _, _ in rows])
        self._latest = []
        for seq_id, position, token in rows:
            text = self._text_at(seq_id, position)
            if text.ahead is not None:
                self._cut(seq_id, position)
            self._latest.append((seq_id, position, token, text.states[-1]))
        if not self._compute(self._latest, want_logits=True):
            for seq_id, position, _ in rows:
                self._forget(seq_id, position)
            return False
        for seq_id, _, token in rows:
            self._texts[seq_id].ahead = token
        return True

    def go_on(self, drafted: Sequence[tuple[int, int]]) -> bool:
        """Compute the token that was drafted at each place of the latest call, from the head's own hidden state there."""
        states = self._states(self.context, len(self._latest), len(self._latest))
        latest, self._latest = self._latest, []
        for place, token in drafted:
            seq_id, position, _, _ = latest[place]
            self._drafted.setdefault(seq_id, position + self._stride)
            self._latest.append((seq_id, position + self._stride, token, states[place]))
        return self._compute(self._latest, want_logits=True, are_own=True)

    def logits(self, place: int) -> Logits:
        return self._rows.logits(place)

    def drop(self) -> None:
        """Forget drafted tokens."""
        for seq_id, position in self._drafted.items():
            self._cut(seq_id, position)
        self._drafted.clear()

    def _compute(self, rows: Sequence[Row], want_logits: bool, *, are_own: bool = False) -> bool:
        """Compute rows, all with their logits or none: llama.cpp's heads give hidden states by the one or the other.

        `are_own`: their states are the head's, and not the model's.
        """
        batch = Batch()
        for seq_id, position, token, _ in rows:
            batch.add(seq_id, position, [token], want_logits)
        native_log.forget_error()
        with self.threads.step():
            states = np.stack([state for *_, state in rows])
            batch.states = states if are_own else self._inputs(states)
            return self._run(batch)

    def _run(self, batch: Batch) -> bool:
        self._rows.follow(batch.wanted)
        status = compute(self.context, self._batch.fill(batch))
        self._has_failed = self._has_failed or status in (DecodeStatus.INVALID, DecodeStatus.FATAL)
        self.tokens_total += len(batch) if status is DecodeStatus.OK else 0
        return status is DecodeStatus.OK

    def _be_told(self) -> None:
        """Let the model tell its states."""
        tell_states(self._model_context, of_wanted_alone=not self._reads_prompts)

    def _told(self, batch: Batch) -> Vectors:
        """Return the states of a batch that the model has computed, shape (tokens, width); those that are not told are 0."""
        if self._reads_prompts:
            return self._states(self._model_context, len(batch), self._n_batch)
        told = self._states(self._model_context, count := sum(batch.wanted), count)
        if count == len(batch):
            return told
        states = np.zeros((len(batch), self._width), np.float32)
        states[np.flatnonzero(batch.wanted)] = told
        return states

    def _inputs(self, states: Vectors) -> Vectors:
        """Return the head's states for those of the model."""
        return states

    def _states(self, context: Any, count: int, room: int) -> Vectors:
        """Return a view of the hidden states of a context's latest `count` tokens, which has room for so many."""
        return floats_at(self._states_of(context), room * self._width).reshape(room, self._width)[:count]

    def close(self) -> None:
        """Free the context."""
        lib.llama_free(self.context)


def own_head(settings: Settings, model: Any, context: Any, windows: SwaCache) -> LlamaHead:
    """Return the head in a model's own file. Raise ModelLoadFailed if there is none that llama.cpp computes."""
    check_head(settings, model)
    own_context = lib.llama_init_from_model(model, head_params(settings, model, windows, context))
    if not own_context:
        raise ModelLoadFailed(f"spec_type mtp: no context for the model's head: {native_log.last_error}")
    return LlamaHead(context, own_context)


def check_head(settings: Settings, model: Any) -> None:
    """Raise ModelLoadFailed if a model has no head that llama.cpp computes."""
    path, architecture = settings.model_path, string_of(lib.llama_model_meta_val_str, model, b"general.architecture")
    count = lib.llama_model_n_layer_nextn(model)
    if not has_head(path) or not count:
        raise ModelLoadFailed(
            f"spec_type mtp: {path} has no head that drafts (multi-token prediction); files of some models are made "
            "without it"
        )
    if architecture not in ARCHITECTURES:
        raise ModelLoadFailed(
            f"spec_type mtp: llama.cpp computes no head for {architecture}; it does for {', '.join(ARCHITECTURES)}"
        )
    if count > 1 and architecture not in _WITH_SEVERAL:
        raise ModelLoadFailed(f"spec_type mtp: {path} has {count} heads, and llama.cpp computes one for {architecture}")


def tell_states(context: Any, *, of_wanted_alone: bool) -> None:
    """Let a context tell its hidden states, of all tokens or of those whose logits are wanted. Raise ModelLoadFailed."""
    native_function(_TELL, None, lib.llama_context_p_ctypes, ctypes.c_bool, ctypes.c_bool)(
        context, True, of_wanted_alone
    )


def native_function(name: str, result: Any, *arguments: Any) -> Any:
    """Return a function of llama.cpp by its C++ name. Raise ModelLoadFailed where this build has none."""
    try:
        function = getattr(lib.llama_cpp._lib, name)
    except AttributeError:
        raise ModelLoadFailed(
            "spec_type: this build of llama.cpp tells no hidden states for a head that drafts"
        ) from None
    function.restype, function.argtypes = result, list(arguments)
    return function


def _runs(seq_ids: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """Yield for each sequence its id, and the first and the last place after it, in a batch that has its tokens together."""
    first = 0
    for place in range(1, len(seq_ids) + 1):
        if place == len(seq_ids) or seq_ids[place] != seq_ids[first]:
            yield seq_ids[first], first, place
            first = place
