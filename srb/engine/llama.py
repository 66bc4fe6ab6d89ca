"""llama.cpp behind the Model protocol: only files whose name begins with llama import llama_cpp.

What llama.cpp answers with abort() is checked before the call here: batch sizes, sequence ids, rows without logits.
"""

from __future__ import annotations

import ctypes
import logging
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

os.environ.setdefault("GGML_NO_BACKTRACE", "1")  # or an abort() forks a debugger and hangs

import llama_cpp as lib

from srb.engine.llama_adapters import LlamaAdapters
from srb.engine.llama_batch import NativeBatch
from srb.engine.llama_embedder import LlamaEmbedder, pooling_of
from srb.engine.llama_schema import SchemaConverter
from srb.engine.llama_strings import string_of
from srb.engine.model import Batch, Blob, Candidates, DecodeStatus, Logits, Scales
from srb.engine.sampling import Stage, chain, remembered_tokens
from srb.errors import GrammarDeadEnd, ModelLoadFailed, bad_field
from srb.gguf import check_model_file
from srb.protocol import ModelInfo, SamplingParams
from srb.settings import Settings

log = logging.getLogger("srb.llama")

MAX_SEQUENCES = 256  # LLAMA_MAX_SEQ
MAX_SAMPLING_THREADS = 8
LOGITS_A_THREAD = 250_000  # to be sampled from, which takes about 0.3 ms: less is not worth waking a thread for
RECURRENT_SEQUENCES = 32  # where every sequence has a state of its own, allocated at the start

_CACHE_TYPES = {  # enum ggml_type
    "f32": 0, "f16": 1, "q4_0": 2, "q4_1": 3, "q5_0": 6, "q5_1": 7, "q8_0": 8, "iq4_nl": 20, "bf16": 30,
}  # fmt: skip
_ROPE_SCALINGS = {
    "auto": lib.LLAMA_ROPE_SCALING_TYPE_UNSPECIFIED,
    "none": lib.LLAMA_ROPE_SCALING_TYPE_NONE,
    "linear": lib.LLAMA_ROPE_SCALING_TYPE_LINEAR,
    "yarn": lib.LLAMA_ROPE_SCALING_TYPE_YARN,
}
_YARN_FACTORS = ("yarn_ext_factor", "yarn_attn_factor", "yarn_beta_slow", "yarn_beta_fast")
_FLASH_ATTENTION = {"auto": -1, "off": 0, "on": 1}  # enum llama_flash_attn_type
_SPLIT_MODES = {"none": 0, "layer": 1, "row": 2, "tensor": 3}  # enum llama_split_mode
_LOAD_MODES = {(False, False): 0, (True, False): 1, (False, True): 2, (True, True): 3}  # (mmap, mlock)
FORBIDDEN = float("-inf")  # as a bias
_TOKEN_DATA = np.dtype([("id", np.int32), ("logit", np.float32), ("p", np.float32)])
assert _TOKEN_DATA.itemsize == ctypes.sizeof(lib.llama_token_data)


class _NativeLog:
    """llama.cpp's own log: warnings and errors go to ours; the last error explains a load that failed."""

    _LEVELS = {2: logging.DEBUG, 3: logging.WARNING, 4: logging.ERROR}  # enum ggml_log_level, less none and debug

    def __init__(self) -> None:
        self.last_error = ""
        self.is_muted = False
        self._level = logging.DEBUG
        self._callback = lib.llama_log_callback(self._write)
        lib.llama_log_set(self._callback, ctypes.c_void_p(0))

    def _write(self, level: int, text: bytes, _data: Any) -> None:
        if level != 5:  # a continuation keeps the level of what it continues
            self._level = self._LEVELS.get(level, logging.DEBUG)
        message = text.decode("utf-8", "replace").strip()
        if self._level == logging.ERROR and message:
            self.last_error = message
        if message.strip(".") and not self.is_muted:
            # What llama.cpp warns of concerns its developers as often as ours; a person sees its errors.
            log.log(logging.DEBUG if self._level == logging.WARNING else self._level, "%s", message)


_native_log = _NativeLog()


def _usable_cores() -> int:
    """Return the physical cores this process may run on: a second hardware thread of a core makes decoding slower."""
    cores = set()
    for cpu in os.sched_getaffinity(0):
        siblings = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        cores.add(siblings.read_text() if siblings.exists() else str(cpu))
    return len(cores)


class LlamaModel:
    """One GGUF model with one context, whose unified KV store all sequences share."""

    def __init__(
        self,
        model: Any,
        context: Any,
        settings: Settings,
        adapters: LlamaAdapters,
        embedder: LlamaEmbedder | None,
        ranker: LlamaEmbedder | None,
    ) -> None:
        self._adapters = adapters
        self.adapters = adapters.adapters
        self._lora: Scales = ()  # those of the context
        self._model = model
        self._embedder = embedder
        self._ranker = ranker
        self._context = context
        self._settings = settings
        self._vocab = lib.llama_model_get_vocab(model)
        self._memory = lib.llama_get_memory(context)
        self.n_vocab: int = lib.llama_vocab_n_tokens(self._vocab)
        self.n_ctx: int = lib.llama_n_ctx(context)
        self.n_ctx_train: int = lib.llama_model_n_ctx_train(model)
        self.n_ctx_seq: int = min(self.n_ctx, _reach(settings, self.n_ctx_train))
        self.n_batch: int = lib.llama_n_batch(context)
        self.n_ubatch: int = lib.llama_n_ubatch(context)
        self.n_seq_max: int = lib.llama_n_seq_max(context) - 1
        self._scratch = self.n_seq_max  # the last sequence is this file's own, for spans on their way in or out
        self.can_cut = _memory_kind(model) == "attention"
        self.is_on_gpu = bool(lib.llama_supports_gpu_offload()) and settings.n_gpu_layers != 0
        self.n_embd: int = lib.llama_model_n_embd_out(model)
        limits = [each for each in (embedder, ranker) if each]
        self.n_embed_tokens = min((each.n_tokens for each in limits), default=0)
        self.n_embed_inputs = min((each.n_inputs for each in limits), default=0)
        self.pooling = _pooling(settings, model)
        self.can_generate = bool(self._memory)
        self.can_embed, self.can_rank = embedder is not None, ranker is not None
        self._pieces: dict[int, bytes] = {}
        self._wanted: list[int] = []  # for each row of the last decode, 1 where it has logits
        self._batch = NativeBatch(self.n_batch)
        self._candidates = _Candidates(self.n_vocab)
        # Between two decodes llama.cpp's own threads spin: their cores are not free.
        busy = 0 if self.is_on_gpu else lib.llama_n_threads_batch(context) - 1
        self._sampling_threads = min(MAX_SAMPLING_THREADS, max(1, _usable_cores() - busy))
        self._pool = ThreadPoolExecutor(MAX_SAMPLING_THREADS, "sampler")  # starts its threads when they are needed

    @classmethod
    def load(cls, settings: Settings) -> LlamaModel:
        """Load the model that `settings` name. Raise ModelLoadFailed with one line that says why."""
        check_model_file(settings)
        path = settings.model_path
        lib.llama_backend_init()
        params, _keep_alive = _model_params(settings)
        model = lib.llama_model_load_from_file(str(path).encode(), params)
        if not model:
            raise ModelLoadFailed(f"model: {path} cannot be loaded: {_native_log.last_error or 'no reason given'}")
        try:
            if not lib.llama_model_has_decoder(model):
                raise ModelLoadFailed(f"model: {path} is an encoder and cannot continue a text")
            adapters = LlamaAdapters(model, settings.adapters)
            embedder, ranker = _embedders(settings, model, adapters)
            context = lib.llama_init_from_model(model, _context_params(settings, model))
            if not context:
                reason = _native_log.last_error or "no reason given"
                raise ModelLoadFailed(f"model: no context of {settings.n_ctx} cells for {path}: {reason}")
            if not lib.llama_get_memory(context) and not embedder and not ranker:
                raise ModelLoadFailed(f"model: {path} cannot continue a text; set embedding or reranking to use it")
        except ModelLoadFailed:
            lib.llama_model_free(model)
            raise
        return cls(model, context, settings, adapters, embedder, ranker)

    # ---- any thread

    def info(self, alias: str) -> ModelInfo:
        """Describe the model; `alias` is its name in answers."""
        vocab = self._vocab
        fim = {name: getattr(lib, f"llama_vocab_fim_{name}")(vocab) for name in ("pre", "suf", "mid", "rep", "sep")}
        return ModelInfo(
            alias=alias,
            path=str(self._settings.model_path),
            description=string_of(lib.llama_model_desc, self._model),
            architecture=self._metadata("general.architecture"),
            memory=self.memory_kind,
            n_vocab=self.n_vocab,
            vocab_type=lib.llama_vocab_type(self._vocab),
            n_ctx=self.n_ctx,
            n_ctx_seq=self.n_ctx_seq,
            n_ctx_train=self.n_ctx_train,
            n_embd=lib.llama_model_n_embd(self._model),
            n_params=lib.llama_model_n_params(self._model),
            size=lib.llama_model_size(self._model),
            n_seq_max=self.n_seq_max,
            chat_template=self._metadata("tokenizer.chat_template"),
            bos_token=self._token_text(lib.llama_vocab_bos(vocab)),
            eos_token=self._token_text(lib.llama_vocab_eos(vocab)),
            has_fill_in_the_middle=min(fim["pre"], fim["suf"], fim["mid"]) >= 0,
            build_info=f"llama-cpp-python {lib.__version__}",
            bos_id=lib.llama_vocab_bos(vocab),
            eos_id=lib.llama_vocab_eos(vocab),
            eot_id=lib.llama_vocab_eot(vocab),
            sep_id=lib.llama_vocab_sep(vocab),
            nl_id=lib.llama_vocab_nl(vocab),
            pad_id=lib.llama_vocab_pad(vocab),
            fim=fim,
            add_bos=lib.llama_vocab_get_add_bos(vocab),
            ftype=lib.llama_ftype_name(lib.llama_model_ftype(self._model)).decode(),
            chat_template_tool_use=self._metadata("tokenizer.chat_template.tool_use"),
            embedding=self.can_embed,
            pooling=self.pooling,
            reranking=self.can_rank,
            can_shift=self.can_generate,
        )

    @property
    def memory_kind(self) -> str:
        return _memory_kind(self._model)

    def tokenize(self, text: str, add_special: bool, parse_special: bool) -> list[int]:
        """Return the token ids of `text`, with BOS or EOS where the vocabulary wants them and `add_special` is set."""
        data = text.encode("utf-8")
        room = len(data) + 8
        while True:
            tokens = (lib.llama_token * room)()
            count = lib.llama_tokenize(self._vocab, data, len(data), tokens, room, add_special, parse_special)
            if count >= 0:
                return list(tokens[:count])
            room = -count

    def piece(self, token: int, special: bool = False) -> bytes:
        """Return a token's bytes; control tokens have none, or with `special` their text."""
        if special:
            return self._read_piece(token, special=True)
        piece = self._pieces.get(token)
        if piece is None:
            piece = self._pieces[token] = self._read_piece(token, special=False)
        return piece

    def is_eog(self, token: int) -> bool:
        return token in self._eog_tokens

    def new_sampler(
        self, params: SamplingParams, seed: int, history: Sequence[int], min_tokens: int = 0
    ) -> LlamaSampler:
        """Build a branch's sampler; `history` are the prompt's tokens, which penalties look at.

        The text cannot end before `min_tokens`. Raise InvalidRequest for a grammar that llama.cpp cannot parse.
        """
        return LlamaSampler(self, params, seed, history, min_tokens)

    def grammar_of(self, json_schema: str) -> str:
        """Return a JSON schema, whose size and depth have been checked, as GBNF. Raise InvalidRequest."""
        return SchemaConverter.grammar_of(json_schema)

    def pair(self, query: str, document: str) -> list[int]:
        """Return the tokens by which `rank` compares two texts, as the model was trained on them."""
        vocab = self._vocab
        template = lib.llama_model_chat_template(self._model, b"rerank")
        if template:
            text = template.decode().replace("{query}", query).replace("{document}", document)
            return self.tokenize(text, add_special=False, parse_special=True)
        bos, eos, sep = (getattr(lib, f"llama_vocab_{name}")(vocab) for name in ("bos", "eos", "sep"))
        begin = [bos] if lib.llama_vocab_get_add_bos(vocab) else []
        end = [eos if eos >= 0 else sep] if lib.llama_vocab_get_add_eos(vocab) else []
        between = [*end, *([sep] if lib.llama_vocab_get_add_sep(vocab) else [])]
        texts = [self.tokenize(text, add_special=False, parse_special=False) for text in (query, document)]
        return [*begin, *texts[0], *between, *texts[1], *end]

    # ---- the decode thread's alone

    def decode(self, batch: Batch) -> DecodeStatus:
        """Compute a batch of 1 to n_batch tokens."""
        if not 0 < len(batch) <= self.n_batch:
            raise AssertionError(f"a batch of {len(batch)} tokens; n_batch is {self.n_batch}")
        if min(batch.seq_ids) < 0 or max(batch.seq_ids) >= self.n_seq_max:
            raise AssertionError("a sequence id out of range")
        if sum(batch.wanted) > self.n_seq_max:
            raise AssertionError(f"{sum(batch.wanted)} rows are wanted, and there is room for {self.n_seq_max}")
        if batch.lora != self._lora:
            self._adapters.apply(self._context, batch.lora)
            self._lora = batch.lora
        self._wanted = batch.wanted
        code = lib.llama_decode(self._context, self._batch.fill(batch))
        if code == 0:
            return DecodeStatus.OK
        self._wanted = []
        log.warning("llama_decode returned %d for %d tokens: %s", code, len(batch), _native_log.last_error)
        return {1: DecodeStatus.NO_ROOM, -1: DecodeStatus.INVALID}.get(code, DecodeStatus.FATAL)

    def logits(self, row: int) -> Logits:
        """Return a wanted row of the last decode, shape (n_vocab,); a view that the next decode overwrites."""
        self._check_row(row)
        return np.ctypeslib.as_array(lib.llama_get_logits_ith(self._context, row), shape=(self.n_vocab,))

    def fork(self, source: int, target: int, end: int | None = None) -> None:
        """Let `target`, which is empty, share the cells of `source`: all, or those before position `end`."""
        lib.llama_memory_seq_cp(self._memory, source, target, *((-1, -1) if end is None else (0, end)))

    def truncate(self, seq_id: int, end: int) -> None:
        """Forget what a sequence holds from position `end` on."""
        lib.llama_memory_seq_rm(self._memory, seq_id, end, -1)

    def splice(self, source: int, target: int, end: int) -> None:
        """Replace the cells of `target` before position `end`, computed from the same text, by those of `source`."""
        lib.llama_memory_seq_rm(self._memory, target, 0, end)
        lib.llama_memory_seq_cp(self._memory, source, target, 0, end)

    def save(self, seq_id: int, start: int) -> Blob:
        """Return the KV of a sequence from position `start` on, which is 0 unless it can be cut."""
        if start:
            lib.llama_memory_seq_cp(self._memory, seq_id, self._scratch, start, -1)
            seq_id = self._scratch
        size = lib.llama_state_seq_get_size(self._context, seq_id)
        blob = np.empty(size, np.uint8)
        if lib.llama_state_seq_get_data(self._context, _bytes_pointer(blob), size, seq_id) != size:
            raise AssertionError(f"sequence {seq_id} could not be saved")
        if seq_id == self._scratch:
            self.remove(self._scratch)
        return blob

    def restore(self, seq_id: int, blob: Blob) -> bool:
        """Glue a saved span onto a sequence that holds what was before it; False where llama.cpp does not take it."""
        target = self._scratch if self.can_cut else seq_id
        if lib.llama_state_seq_set_data(self._context, _bytes_pointer(blob), len(blob), target) != len(blob):
            self.remove(target)
            return False
        if target == self._scratch:
            lib.llama_memory_seq_cp(self._memory, self._scratch, seq_id, -1, -1)
            self.remove(self._scratch)
        return True

    def remove(self, seq_id: int) -> None:
        """Forget a whole sequence; cells that others share stay."""
        lib.llama_memory_seq_rm(self._memory, seq_id, -1, -1)

    def clear(self) -> None:
        lib.llama_memory_clear(self._memory, True)

    def embed(self, inputs: Sequence[list[int]], lora: Scales = ()) -> list[Logits] | None:
        """Return the vectors of each input's tokens, shape (tokens, n_embd); None where the computation failed."""
        assert self._embedder is not None
        return self._embedder.vectors(inputs, lora)

    def rank(self, inputs: Sequence[list[int]], lora: Scales = ()) -> list[float] | None:
        """Return the score of each pair; None where the computation failed."""
        assert self._ranker is not None
        return self._ranker.scores(inputs, lora)

    def close(self) -> None:
        """Free the context and the model; may be called again."""
        for embedder in (self._embedder, self._ranker):
            if embedder:
                embedder.close()
        if self._context:
            lib.llama_free(self._context)
            lib.llama_model_free(self._model)
            self._context = self._model = None
            self._pool.shutdown()

    # ---- for the samplers

    @property
    def vocab(self) -> Any:
        return self._vocab

    @property
    def candidates(self) -> _Candidates:
        """The decode thread's scratch array."""
        return self._candidates

    def sample_ahead(self, choices: Sequence[tuple[LlamaSampler, int]]) -> None:
        """Choose the tokens of many rows of the last decode in threads, where that pays; each sampler keeps its own.

        llama.cpp's calls release the GIL, and a chain is touched by one thread only.
        """
        plain = [(sampler, row) for sampler, row in choices if sampler.is_plain]
        shares = min(self._sampling_threads, len(plain) * self.n_vocab // LOGITS_A_THREAD)
        if shares < 2:
            return
        lib.llama_get_logits_ith(self._context, plain[0][1])  # the first call puts the rows into order
        others = [self._pool.submit(_sample_ahead, plain[share::shares]) for share in range(1, shares)]
        _sample_ahead(plain[::shares])
        for other in others:
            other.result()

    def sample_row(self, sampler: Any, row: int) -> int:
        """Sample and accept from a row of the last decode, wholly in native code."""
        self._check_row(row)
        return int(lib.llama_sampler_sample(sampler, self._context, row))

    @cached_property
    def eog_token_list(self) -> list[int]:
        return sorted(self._eog_tokens)

    # ---- private

    @cached_property
    def _eog_tokens(self) -> frozenset[int]:
        is_eog, vocab = lib.llama_vocab_is_eog, self._vocab
        return frozenset(token for token in range(self.n_vocab) if is_eog(vocab, token))

    def _check_row(self, row: int) -> None:
        if not 0 <= row < len(self._wanted) or not self._wanted[row]:
            raise AssertionError(f"row {row} of the last decode has no logits")

    def _read_piece(self, token: int, special: bool) -> bytes:
        room = 32
        while True:
            buffer = ctypes.create_string_buffer(room)
            size = lib.llama_token_to_piece(self._vocab, token, buffer, room, 0, special)
            if size >= 0:
                return buffer.raw[:size]
            room = -size

    def _token_text(self, token: int) -> str:
        return self._read_piece(token, special=True).decode("utf-8", "replace") if token >= 0 else ""

    def _metadata(self, key: str) -> str:
        return string_of(lib.llama_model_meta_val_str, self._model, key.encode())


class _Candidates:
    """A llama_token_data_array over the whole vocabulary, for sampling from logits that Python holds."""

    def __init__(self, n_vocab: int) -> None:
        self._ids = np.arange(n_vocab, dtype=np.int32)
        self._data = np.zeros(n_vocab, _TOKEN_DATA)
        self._array = lib.llama_token_data_array()

    def fill(self, logits: Logits) -> Any:
        """Return the array by reference, holding every token with its logit."""
        self._data["id"] = self._ids
        self._data["logit"] = logits
        self._data["p"] = 0.0
        return self._point(self._data)

    def single(self, token: int) -> tuple[Any, np.ndarray[Any, Any]]:
        """Return an array of one token with logit 1, and its storage."""
        data = np.array([(token, 1.0, 0.0)], _TOKEN_DATA)
        return self._point(data), data

    @property
    def is_exhausted(self) -> bool:
        """Whether no token is left with a chance."""
        return not np.isfinite(self._data["logit"][: self._array.size]).any()

    def left(self) -> Candidates:
        """Return a copy of what a chain has left, with the probabilities that it chose by."""
        # Through the pointer: a sampler that drops the likeliest moves it.
        left = np.ctypeslib.as_array(self._array.data, shape=(self._array.size,))
        weights = np.exp(left["logit"] - left["logit"].max())
        return Candidates(left["id"].copy(), weights / weights.sum())

    @property
    def selected(self) -> int:
        if not 0 <= self._array.selected < self._array.size:
            raise AssertionError("the sampler chain chose no token")
        return int(self._array.data[self._array.selected].id)

    def _point(self, data: np.ndarray[Any, Any]) -> Any:
        self._array.data = ctypes.cast(data.ctypes.data, ctypes.POINTER(lib.llama_token_data))
        self._array.size = len(data)
        self._array.selected = -1
        self._array.sorted = False
        return ctypes.byref(self._array)


def _sample_ahead(choices: Sequence[tuple[LlamaSampler, int]]) -> None:
    for sampler, row in choices:
        sampler.look_ahead(row)


class LlamaSampler:
    """A llama.cpp sampler chain and, beside it, a grammar, as llama-server has them."""

    def __init__(
        self, model: LlamaModel, params: SamplingParams, seed: int, history: Sequence[int], min_tokens: int
    ) -> None:
        self._model = model
        self._grammar = _grammar(model, params.grammar) if params.grammar else None
        self._chain = lib.llama_sampler_chain_init(lib.llama_sampler_chain_params(no_perf=True))
        ban = _bias_sampler(model, dict.fromkeys(model.eog_token_list, FORBIDDEN)) if min_tokens > 0 else None
        self._tokens_to_come = min_tokens if ban else 0  # before the ban of the text's end is lifted
        biases = _biases(model, params)
        self._forbidden = frozenset(token for token, bias in biases.items() if bias == FORBIDDEN)
        for native in (ban, _bias_sampler(model, biases), *(_build(model, stage) for stage in chain(params, seed))):
            if native:
                lib.llama_sampler_chain_add(self._chain, native)
        self._keeps_candidates = params.post_sampling_probs
        self._candidates: Candidates | None = None
        self._ahead: int | None = None
        remembered = remembered_tokens(params)
        for token in history[-remembered:] if remembered else ():
            lib.llama_sampler_accept(self._chain, token)

    @property
    def is_plain(self) -> bool:
        """Whether a token is chosen by the native chain alone."""
        return self._grammar is None and not self._keeps_candidates

    def look_ahead(self, row: int) -> None:
        """Choose already what `sample` will return next; only where `is_plain`."""
        self._ahead = self._model.sample_row(self._chain, row)

    def sample(self, row: int) -> int:
        if self._ahead is not None:
            token, self._ahead = self._ahead, None
            return self._count(token)
        if self.is_plain:
            return self._count(self._model.sample_row(self._chain, row))
        return self.sample_from(self._model.logits(row))

    def sample_from(self, logits: Logits) -> int:
        candidates = self._model.candidates
        token = self._choose(candidates.fill(logits))
        if self._grammar is not None:
            if not self._grammar_allows(token):
                token = self._sample_within_grammar(logits)
            lib.llama_sampler_accept(self._grammar, token)
        lib.llama_sampler_accept(self._chain, token)
        return self._count(token)

    def _count(self, token: int) -> int:
        """Lift the ban of the text's end when it is time to. Raise GrammarDeadEnd for a token that is forbidden.

        Where every token is, the chain still chooses one.
        """
        if token in self._forbidden or (self._tokens_to_come > 0 and self._model.is_eog(token)):
            raise GrammarDeadEnd("the request's settings allow no token here")
        self._tokens_to_come -= 1
        if self._tokens_to_come == 0:
            lib.llama_sampler_free(lib.llama_sampler_chain_remove(self._chain, 0))
        return token

    @property
    def candidates(self) -> Candidates:
        if self._candidates is None:
            raise AssertionError("the candidates were not asked for")
        return self._candidates

    def close(self) -> None:
        for native in (self._chain, self._grammar):
            if native:
                lib.llama_sampler_free(native)
        self._chain = self._grammar = None

    def _choose(self, array: Any) -> int:
        """Apply the chain and return what it selects."""
        lib.llama_sampler_apply(self._chain, array)
        token = self._model.candidates.selected
        if self._keeps_candidates:
            self._candidates = self._model.candidates.left()
        return token

    def _grammar_allows(self, token: int) -> bool:
        array, data = self._model.candidates.single(token)
        lib.llama_sampler_apply(self._grammar, array)
        return bool(np.isfinite(data["logit"][0]))

    def _sample_within_grammar(self, logits: Logits) -> int:
        """Choose again, with the grammar applied to the whole vocabulary first: slower, so only when it is needed."""
        candidates = self._model.candidates
        array = candidates.fill(logits)
        lib.llama_sampler_apply(self._grammar, array)
        if candidates.is_exhausted:
            raise GrammarDeadEnd("the grammar allows no token here")
        token = self._choose(array)
        if not self._grammar_allows(token):  # the chain's biases may leave only what the grammar forbids
            raise GrammarDeadEnd("the grammar and the other settings allow no common token here")
        return token


def _build(model: LlamaModel, stage: Stage) -> Any:
    """Return the native sampler of a stage."""
    vocab, args = model.vocab, stage.args
    match stage.name:
        case "penalties":
            return lib.llama_sampler_init_penalties(model.n_vocab, *args)
        case "mirostat":
            return lib.llama_sampler_init_mirostat(model.n_vocab, *args)
        case "infill":
            return lib.llama_sampler_init_infill(vocab)
        case "dry":
            breakers = [breaker.encode() for breaker in args[4]]
            native = (ctypes.c_char_p * len(breakers))(*breakers)
            return lib.llama_sampler_init_dry(vocab, *args[:4], native, len(breakers))
        case name:
            return getattr(lib, f"llama_sampler_init_{name}")(*args)


def _grammar(model: LlamaModel, text: str) -> Any:
    _native_log.is_muted = True  # what a client got wrong is no error of the server's
    try:
        native = lib.llama_sampler_init_grammar(model.vocab, text.encode(), b"root")
    finally:
        _native_log.is_muted = False
    if not native:
        raise bad_field("grammar", "is not valid GBNF, or has no rule named root")
    return native


def _biases(model: LlamaModel, params: SamplingParams) -> dict[int, float]:
    """Return the user's biases, added up for each token, with the vocabulary's suppressed tokens."""
    biases: dict[int, float] = {}
    for token, bias in params.logit_bias:
        value = FORBIDDEN if bias is None else bias
        tokens = [token] if isinstance(token, int) else model.tokenize(token, add_special=False, parse_special=False)
        for each in tokens:
            biases[each] = biases.get(each, 0.0) + value
    count = ctypes.c_int32()
    suppressed = lib.llama_vocab_get_suppress_tokens(model.vocab, ctypes.byref(count))
    biases |= dict.fromkeys(suppressed[: count.value] if count.value else (), FORBIDDEN)
    if params.ignore_eos:
        biases |= dict.fromkeys(model.eog_token_list, FORBIDDEN)
    return biases


def _bias_sampler(model: LlamaModel, biases: dict[int, float]) -> Any:
    if not biases:
        return None
    native = (lib.llama_logit_bias * len(biases))(*biases.items())
    return lib.llama_sampler_init_logit_bias(model.n_vocab, len(biases), native)


def _model_params(settings: Settings) -> tuple[Any, Any]:
    """Return llama_model_params, and what must outlive the call that takes them."""
    params = lib.llama_model_default_params()
    params.n_gpu_layers = settings.n_gpu_layers
    params.split_mode = _SPLIT_MODES[settings.split_mode]
    params.main_gpu = settings.main_gpu
    params.load_mode = _LOAD_MODES[settings.mmap, settings.mlock]
    params.check_tensors = settings.check_tensors
    shares = None
    if settings.tensor_split:
        given = [float(share) for share in settings.tensor_split.split(",") if share.strip()]
        shares = (ctypes.c_float * lib.llama_max_devices())(*given[: lib.llama_max_devices()])
        params.tensor_split = shares
    return params, shares


def _context_params(settings: Settings, model: Any) -> Any:
    kind = _memory_kind(model)
    most = MAX_SEQUENCES if kind in ("attention", "sliding_window") else RECURRENT_SEQUENCES
    threads = settings.threads or _usable_cores()
    params = lib.llama_context_default_params()
    params.n_ctx = settings.n_ctx
    params.n_seq_max = min(MAX_SEQUENCES, max(2, settings.n_seq_max or most) + 1)  # a prefix, a branch, our scratch
    params.n_batch = max(settings.n_batch, params.n_seq_max)  # every running branch has its place in every step
    params.n_ubatch = min(settings.n_ubatch, params.n_batch)
    params.n_outputs_max = params.n_seq_max
    params.n_threads = threads
    params.n_threads_batch = settings.threads_batch or threads
    params.flash_attn_type = _FLASH_ATTENTION[settings.flash_attn]
    params.type_k = _CACHE_TYPES[settings.cache_type_k]
    params.type_v = _CACHE_TYPES[settings.cache_type_v]
    params.kv_unified = True  # otherwise the cells are divided among the sequences, and a partial fork aborts
    params.no_perf = True
    params.offload_kqv = settings.kv_offload
    params.op_offload = settings.op_offload
    params.rope_scaling_type = _ROPE_SCALINGS[settings.rope_scaling]
    for name in ("rope_freq_base", "rope_freq_scale", "yarn_orig_ctx", *_YARN_FACTORS):
        setattr(params, name, getattr(settings, name))
    return params


def _reach(settings: Settings, n_ctx_train: int) -> int:
    """Return the longest text that makes sense: who changes RoPE knows better than the model's file."""
    changed = settings.rope_scaling != "auto" or settings.rope_freq_base or settings.rope_freq_scale
    return n_ctx_train if n_ctx_train > 0 and not changed else 2**31 - 1


def _pooling(settings: Settings, model: Any) -> str:
    if settings.pooling != "auto":
        return settings.pooling
    architecture = string_of(lib.llama_model_meta_val_str, model, b"general.architecture")
    return pooling_of(string_of(lib.llama_model_meta_val_str, model, f"{architecture}.pooling_type".encode()))


def _embedders(
    settings: Settings, model: Any, adapters: LlamaAdapters
) -> tuple[LlamaEmbedder | None, LlamaEmbedder | None]:
    """Return what makes embeddings and what ranks, where the settings ask for it. Raise ModelLoadFailed."""
    pooling = _pooling(settings, model)
    ranks = settings.reranking or settings.pooling == "rank"
    if ranks and pooling != "rank":
        raise ModelLoadFailed(
            f"reranking: {settings.model_path} is not made for it (its pooling is {pooling}); pooling = rank tries it"
        )
    made = []
    for wanted, as_ranker in ((settings.embedding, False), (ranks, True)):
        params = _context_params(settings, model)
        try:
            made.append(LlamaEmbedder(model, params, adapters, as_ranker) if wanted else None)
        except MemoryError as error:
            raise ModelLoadFailed(f"model: {error}: {_native_log.last_error or 'no reason given'}") from None
    return made[0], made[1]


def _memory_kind(model: Any) -> str:
    if lib.llama_model_is_recurrent(model):
        return "recurrent"
    if lib.llama_model_is_hybrid(model):
        return "hybrid"
    return "sliding_window" if lib.llama_model_n_swa(model) > 0 else "attention"


def _bytes_pointer(blob: Blob) -> Any:
    return blob.ctypes.data_as(ctypes.POINTER(ctypes.c_uint8))
