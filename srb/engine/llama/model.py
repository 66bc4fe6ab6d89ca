"""llama.cpp behind the Model protocol: only modules of srb.engine.llama import llama_cpp.

Batch sizes, sequence ids and rows without logits are checked here, since llama.cpp would abort on them.
"""

from __future__ import annotations

import ctypes
import logging
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from typing import Any

os.environ.setdefault("GGML_NO_BACKTRACE", "1")  # else abort() forks a debugger and hangs

import llama_cpp as lib

from srb.config.sampling_params import SamplingParams
from srb.config.settings import Settings
from srb.engine.cuts import Cuts
from srb.engine.drafting import check_vocabularies
from srb.engine.grammar.grammars import Grammars
from srb.engine.grammar.matcher import Vocabulary
from srb.engine.llama.adapters import LlamaAdapters
from srb.engine.llama.batch import NativeBatch, compute
from srb.engine.llama.blank_page import reply_before_empty
from srb.engine.llama.control_vectors import LlamaControlVectors
from srb.engine.llama.devices import begin, free_gpu_memory, package, system_info, tell_library
from srb.engine.llama.dry import DrySamplers
from srb.engine.llama.embedder import LlamaEmbedder
from srb.engine.llama.head import LlamaHead, own_head
from srb.engine.llama.head_files import head_of_file
from srb.engine.llama.log import native_log
from srb.engine.llama.media import LlamaEncoder, marks_of
from srb.engine.llama.mrope import NUM_SECTIONS, has_mrope, sequences_of
from srb.engine.llama.params import (
    changed_settings,
    context_params,
    max_sequence_length,
    memory_kind,
    model_params,
    progress_callback,
    uses_cpu,
    uses_gpu,
)
from srb.engine.llama.projector_memory import projector_bytes
from srb.engine.llama.rounding import why_rounding_varies
from srb.engine.llama.rows import Rows
from srb.engine.llama.rpc import add_nodes
from srb.engine.llama.sampler import CandidateArray, LlamaSampler, biases_of, sample_ahead
from srb.engine.llama.sequences import Sequences
from srb.engine.llama.strings import string_of
from srb.engine.llama.swa import SwaCache, description, room_remarks, swa_cache_of
from srb.engine.llama.threads import Threads
from srb.engine.llama.vocab_cuts import cuts_of
from srb.engine.media import Encoder, Vectors
from srb.engine.model import Batch, Blob, DecodeStatus, Head, Logits, LoraScales
from srb.engine.tokens import is_media
from srb.errors import ModelLoadFailed
from srb.files.gguf import check_model_file, has_head_file, pooling_of
from srb.files.native_facts import without_patches
from srb.host.cores import usable_cores
from srb.wire.events import ModelInfo

log = logging.getLogger("srb.llama")

# Vocabularies whose tokens concatenate to the text's bytes; others drop spaces, or share one token for unknown words.
BYTE_FOR_BYTE = (lib.LLAMA_VOCAB_TYPE_SPM, lib.LLAMA_VOCAB_TYPE_BPE, lib.LLAMA_VOCAB_TYPE_RWKV)
MAX_SAMPLING_THREADS = 8  # sampling reads all logits: it is bound by memory, and more threads gain little
_TYPOGRAPHIC = "“”„«»‘’‚–—…\u00a0"  # what programs put in the place of plain characters, as the page's prompt.js has it
LOGITS_A_THREAD = 250_000  # logits to sample from; 250,000 take about 0.3 ms, and waking a thread for less does not pay


class LlamaModel:
    """One GGUF model with one context, whose unified KV store all sequences share."""

    def __init__(
        self,
        model: Any,
        context: Any,
        sequences: Sequences,
        settings: Settings,
        adapters: LlamaAdapters,
        vectors: LlamaControlVectors,
        embedder: LlamaEmbedder | None,
        ranker: LlamaEmbedder | None,
        encoder: LlamaEncoder | None = None,
        windows: SwaCache = SwaCache.NONE,
        head: LlamaHead | None = None,
    ) -> None:
        self._head = head
        self.head: Head | None = head
        self._media = encoder
        self.encoder: Encoder | None = encoder
        self._adapters = adapters
        self.adapters = adapters.adapters
        self._lora: LoraScales = ()  # scales set in the context
        self._vectors = vectors
        self.control_vectors, self.no_control_vectors = vectors.vectors, vectors.refusal
        self._model = model
        self._embedder = embedder
        self._ranker = ranker
        self._context = context
        self._settings = settings
        self._windows = windows
        self._vocab = lib.llama_model_get_vocab(model)
        self.dry = DrySamplers(self._vocab)
        self._sequences = sequences
        self._stores: list[Sequences | LlamaHead] = (
            [sequences, head] if head else [sequences]
        )  # that are edited together
        self._edits: list[Callable[[], None]] = []  # of the KV store, in the order of their calls
        self.n_vocab: int = lib.llama_vocab_n_tokens(self._vocab)
        self.bos_id: int = lib.llama_vocab_bos(self._vocab)
        self.blank_page = self._blank_page()
        self.n_ctx: int = lib.llama_n_ctx(context)
        self.n_ctx_train: int = lib.llama_model_n_ctx_train(model)
        longest = max_sequence_length(settings, self.n_ctx_train)
        self.n_ctx_seq: int = min(self.n_ctx, longest)
        self.is_as_trained = self.n_ctx_seq == longest
        self.n_batch: int = lib.llama_n_batch(context)
        self.n_ubatch: int = lib.llama_n_ubatch(context)
        self.n_seq_max = sequences.count
        self.supports_partial_reuse = sequences.can_be_cut
        self.has_states = sequences.has_states
        self.shares_states = sequences.shares_states
        self.is_on_gpu = uses_gpu(settings)
        self.n_embd: int = lib.llama_model_n_embd_out(model)
        limits = [each for each in (embedder, ranker) if each]
        self.n_embed_tokens = min((each.n_tokens for each in limits), default=0)
        self.n_embed_inputs = min((each.n_inputs for each in limits), default=0)
        self.pooling = pooling_of(settings)
        self.can_generate = bool(lib.llama_get_memory(context))
        self.can_embed, self.can_rank = embedder is not None, ranker is not None
        self.grammars = Grammars(Vocabulary(self))
        self._pieces: dict[int, bytes] = {}
        self._byte_tokens: dict[int, int] | None = None  # the token of each byte
        self._rows = Rows(context, self.n_vocab)
        self._batch = NativeBatch(self.n_batch, NUM_SECTIONS if has_mrope(model) else 1)
        self._candidates = CandidateArray(self.n_vocab)
        contexts = [context, *(each.context for each in (embedder, ranker, head) if each)]
        computes = uses_cpu(settings, lib.llama_model_n_layer(model))
        self._threads = Threads(contexts, adapts=settings.adapts_threads and computes)
        if head:
            head.threads = self._threads
        self.decodes_ahead = (
            self.is_on_gpu and not settings.rpc
        )  # GPUs compute on by themselves, RPC nodes are waited for
        # Between two decodes llama.cpp's threads spin, so their cores are not free.
        busy = 0 if self.is_on_gpu else lib.llama_n_threads_batch(context) - 1
        self._sampling_threads = min(MAX_SAMPLING_THREADS, max(1, usable_cores() - busy))
        self._pool = ThreadPoolExecutor(MAX_SAMPLING_THREADS, "sampler")  # starts its threads when they are first used

    @classmethod
    def load(cls, settings: Settings, report: Callable[[int], None] = lambda percent: None) -> LlamaModel:
        """Load the model that `settings` name. Raise ModelLoadFailed with one line that says why.

        `report` gets the percentage that is loaded, whenever it has grown.
        """
        check_model_file(settings)
        path = settings.model_path
        begin()
        add_nodes(settings.rpc_nodes)
        params, _keep_alive = model_params(settings)
        params.progress_callback = _keep_callback = progress_callback(report)
        native_log.forget_error()
        model = lib.llama_model_load_from_file(str(path).encode(), params)
        if not model:
            raise ModelLoadFailed(f"model: {path} cannot be loaded: {native_log.first_error}")
        try:
            if not lib.llama_model_has_decoder(model):
                raise ModelLoadFailed(f"model: {path} is an encoder-only model, which cannot generate text")
            adapters = LlamaAdapters(model, settings.adapters)
            embedder, ranker = _embedders(settings, model, adapters)
            encoder = _encoder(settings, model)
            windows = swa_cache_of(settings, model, uses_gpu(settings))
            if encoder and windows is not SwaCache.NONE and has_mrope(model):
                encoder.refuse("pictures with M-RoPE beside sliding windows are not supported")
            context = lib.llama_init_from_model(model, context_params(settings, model, windows))
            if not context:
                room = f"{settings.n_ctx} cells for {path}"
                raise ModelLoadFailed(f"model: no context of {room}: {native_log.last_error}")
            if not lib.llama_get_memory(context) and not embedder and not ranker:
                raise ModelLoadFailed(f"model: {path} cannot generate text; set embedding or reranking to use it")
            vectors = LlamaControlVectors(settings, model, context, lib.llama_n_seq_max(context))
            sequences = sequences_of(context, model, windows)
            head = _head(settings, model, context, windows, sequences)
        except ModelLoadFailed:
            lib.llama_model_free(model)
            raise
        loaded = cls(model, context, sequences, settings, adapters, vectors, embedder, ranker, encoder, windows, head)
        if windows is not SwaCache.NONE:
            log.info(description(windows, settings, lib.llama_model_n_swa(model), sequences.count))
        tell_library()
        for remark in (*changed_settings(settings, loaded.n_batch, loaded.n_ctx_seq), *room_remarks(settings, model)):
            log.warning(remark.text)
        return loaded

    @classmethod
    def load_draft(cls, settings: Settings, model: LlamaModel) -> LlamaModel:
        """Load the draft model that `settings` name, which computes with the threads of `model`. Raise ModelLoadFailed."""
        try:
            draft = cls.load(settings.of_draft_model.model_copy(update={"n_ctx": model.n_ctx}))
        except ModelLoadFailed as error:
            raise ModelLoadFailed(f"spec_draft_model: {error.message.removeprefix('model: ')}") from None
        try:
            if draft.has_states or not draft.supports_partial_reuse:
                raise ModelLoadFailed(
                    f"spec_draft_model: the memory of {settings.draft_model_path} ({draft.memory_kind}) cannot be cut "
                    "after a token, as drafts need it; a draft model has attention in every layer"
                )
            check_vocabularies(model, draft, (str(settings.model_path), str(settings.draft_model_path)))
        except ModelLoadFailed:
            draft.close()
            raise
        model._threads.add(draft._context)
        draft._threads = model._threads
        return draft

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
            build_info=f"b{lib.__version__}-{package().partition(' ')[0]}",
            library_lacks=without_patches(system_info()),
            bos_id=self.bos_id,
            blank_page=self.blank_page,
            eos_id=lib.llama_vocab_eos(vocab),
            eot_id=lib.llama_vocab_eot(vocab),
            eog_ids=self.eog_token_list,
            sep_id=lib.llama_vocab_sep(vocab),
            nl_id=lib.llama_vocab_nl(vocab),
            pad_id=lib.llama_vocab_pad(vocab),
            fim=fim,
            fim_texts={name: self._token_text(token) for name, token in fim.items() if token >= 0},
            add_bos=lib.llama_vocab_get_add_bos(vocab),
            ftype=lib.llama_ftype_name(lib.llama_model_ftype(self._model)).decode(),
            chat_template_tool_use=self._metadata("tokenizer.chat_template.tool_use"),
            embedding=self.can_embed,
            pooling=self.pooling,
            reranking=self.can_rank,
            can_shift=self.can_generate,
            sees=self._media is not None and self._media.sees,
            hears=self._media is not None and self._media.hears,
            license=self._metadata("general.license"),
            control_vectors={} if self.no_control_vectors else {each.name: each.scale for each in self.control_vectors},
            nondeterminism=why_rounding_varies(self._settings, self._model, self._windows),
            lacks="".join(filter(self._lacks, _TYPOGRAPHIC)) if self.can_generate else "",
        )

    def _blank_page(self) -> list[int]:
        template, bos = self._metadata("tokenizer.chat_template"), self._token_text(self.bos_id)
        reply = reply_before_empty(template, bos, lib.llama_vocab_get_add_bos(self._vocab))
        if reply:
            return self.tokenize(reply, add_special=False, parse_special=True)
        return [self.bos_id] if self.bos_id >= 0 else []

    def _lacks(self, letter: str) -> bool:
        """Whether the vocabulary has nothing for a character but its single bytes: in its training there was none."""
        tokens = self.tokenize(letter, add_special=False, parse_special=False)
        unknown = any(lib.llama_vocab_get_attr(self._vocab, token) & lib.LLAMA_TOKEN_ATTR_UNKNOWN for token in tokens)
        pieces = [self._read_piece(token, special=False) for token in tokens]  # one may be a space before the text
        return unknown or sum(not piece.isascii() for piece in pieces) == len(letter.encode())

    @property
    def memory_kind(self) -> str:
        return memory_kind(self._model)

    @property
    def threads(self) -> int:
        """Number of threads that compute a batch now."""
        return self._threads.count

    def tokenize(self, text: str, add_special: bool, parse_special: bool) -> list[int]:
        """Return the token ids of `text`; `add_special` adds BOS or EOS if the vocabulary has them added."""
        data = text.encode("utf-8")
        room = len(data) + 8
        while True:
            tokens = (lib.llama_token * room)()
            count = lib.llama_tokenize(self._vocab, data, len(data), tokens, room, add_special, parse_special)
            if count >= 0:
                found: list[int] = tokens[:count]
                return found
            room = -count

    def find_cut(self, text: str, start: int) -> int:
        """Return the first position from `start` on at which a text may be cut without changing its tokens; −1: none."""
        return -1 if self._cuts is None else self._cuts.find(text, start)

    def piece(self, token: int, special: bool = False) -> bytes:
        """Return a token's bytes; control tokens have none, or with `special` their text."""
        if is_media(token):
            return b""
        if special:
            return self._read_piece(token, special=True)
        piece = self._pieces.get(token)
        if piece is None:
            piece = self._pieces[token] = self._read_piece(token, special=False)
        return piece

    def tokens_of_bytes(self, text: bytes) -> list[int]:
        """Return tokens whose bytes are `text`, one for each byte where the vocabulary has such tokens.

        A tokenizer would add a space to the beginning of a text, and cannot tokenize parts of characters.
        """
        if self._byte_tokens is None:
            pieces = ((self.piece(token), token) for token in range(self.n_vocab))
            self._byte_tokens = {piece[0]: token for piece, token in pieces if len(piece) == 1}
        if all(byte in self._byte_tokens for byte in text):
            return [self._byte_tokens[byte] for byte in text]
        return self.tokenize(text.decode("utf-8", "replace"), add_special=False, parse_special=True)

    def is_eog(self, token: int) -> bool:
        return token in self._eog_tokens

    def new_sampler(
        self, params: SamplingParams, seed: int, history: Sequence[int], min_tokens: int = 0
    ) -> LlamaSampler:
        """Build a branch's sampler; `history` are the prompt's tokens, which penalties look at.

        The text cannot end before `min_tokens` tokens. Raise InvalidRequest for a grammar that is none.
        """
        return LlamaSampler(self, params, seed, history, min_tokens)

    def biases(self, params: SamplingParams) -> dict[int, float]:
        """Return the sum of a request's biases for each token; -inf for those that may not come."""
        return biases_of(self, params)

    def pair(self, query: str, document: str) -> list[int]:
        """Return the input of `rank` for a query and a document, in the form that the model was trained on."""
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

    @cached_property
    def max_piece_bytes(self) -> int:
        """Most bytes of text per token; 0 if the tokenizer may skip or merge any number of bytes.

        Computed from the whole vocabulary, when a long text first needs it.
        """
        if lib.llama_vocab_type(self._vocab) not in BYTE_FOR_BYTE:
            return 0
        size = lib.llama_token_to_piece  # without a buffer it returns the negative size
        return max(-int(size(self._vocab, token, None, 0, 0, True)) for token in range(self.n_vocab))

    # ---- the decode thread's alone

    def decode(self, batch: Batch) -> DecodeStatus:
        """Compute a batch of 1 to n_batch tokens."""
        if not 0 < len(batch) <= self.n_batch:
            raise AssertionError(f"a batch of {len(batch)} tokens; n_batch is {self.n_batch}")
        if min(batch.seq_ids) < 0 or max(batch.seq_ids) >= self.n_seq_max:
            raise AssertionError("a sequence id out of range")
        if sum(batch.wanted) > self.n_seq_max:
            raise AssertionError(f"{sum(batch.wanted)} rows are wanted, and there is room for {self.n_seq_max}")
        self.flush()
        if batch.lora != self._lora:
            self._adapters.apply(self._context, batch.lora)
            self._lora = batch.lora
        if self.control_vectors and not self.no_control_vectors:
            self._vectors.apply(batch.moods)
        native_log.forget_error()
        self._rows.follow(batch.wanted)
        native = self._batch.fill(batch, self._sequences.positions(batch))
        if batch.is_whole:
            lib.llama_set_causal_attn(self._context, False)
        with self._threads.step():
            status = compute(self._context, native)
        if batch.is_whole:
            lib.llama_set_causal_attn(self._context, True)
        if status is DecodeStatus.OK:
            for each in self._stores:
                each.computed(batch)
        else:
            self._rows.follow([])
        return status

    def logits(self, row: int) -> Logits:
        """Return a wanted row of the last decode, shape (n_vocab,): a view that the next decode overwrites."""
        self._check_row(row)
        return self._rows.logits(row)

    def fork(self, source: int, target: int, end: int | None = None) -> None:
        """Fork: the empty sequence `target` shares the cells of `source`, all or those before position `end`."""
        self._edits += [partial(each.fork, source, target, end) for each in self._stores]

    def truncate(self, seq_id: int, end: int) -> None:
        """Remove a sequence's tokens from position `end` on."""
        self._edits += [partial(each.truncate, seq_id, end) for each in self._stores]

    def splice(self, source: int, target: int, end: int) -> None:
        """Replace the cells of `target` before position `end` by those of `source`, which hold the same text."""
        self._edits += [partial(each.splice, source, target, end) for each in self._stores]

    def copy_state(self, source: int, target: int) -> None:
        """Let a sequence share the state of another's end, without cells, if memory shares states."""
        if not self.shares_states:
            raise AssertionError("this memory shares no states")
        self._edits.append(partial(self._sequences.copy_state, source, target))

    def remove(self, seq_id: int) -> None:
        """Remove a sequence; cells that other sequences share stay."""
        self._edits += [partial(each.remove, seq_id) for each in self._stores]

    def flush(self) -> None:
        """Carry out the edits of the KV store that wait: llama.cpp takes 0.1 ms for each 1,000 tokens of a fork.

        They wait for the next decode, save or restore, or for this call, so that tokens are sent before.
        """
        edits, self._edits = self._edits, []
        for edit in edits:
            edit()

    def save(self, seq_id: int, start: int) -> Blob:
        """Return the KV of a sequence from position `start` on; 0 unless supports_partial_reuse."""
        self.flush()
        return self._sequences.save(seq_id, start)

    def restore(self, seq_id: int, blob: Blob) -> bool:
        """Append a saved span to a sequence that holds the text before it; return False if llama.cpp refuses it.

        It refuses a span of a server with other settings of flash attention, which has another layout.
        """
        self.flush()
        return self._sequences.restore(seq_id, blob)

    def split(self, blob: Blob, start: int, at: int) -> tuple[Blob, Blob] | None:
        """Return the two spans of a saved one from `start` on: up to the token `at`, and from there on.

        None: its form is unknown.
        """
        return self._sequences.split(blob, start, at)

    def save_state(self, seq_id: int) -> Blob:
        """Return the state of a sequence's end, if memory has states."""
        self.flush()
        return self._sequences.save_state(seq_id)

    def restore_state(self, seq_id: int, state: Blob) -> bool:
        """Give a sequence that ends where `state` was saved that state; return False if llama.cpp refuses it."""
        self.flush()
        return self._sequences.restore_state(seq_id, state)

    def clear(self) -> None:
        self._edits.clear()
        for each in self._stores:
            each.clear()

    def embed(self, inputs: Sequence[list[int]], lora: LoraScales = ()) -> list[Vectors] | None:
        """Return the vectors of each input's tokens, float32 of shape (tokens, n_embd); None if it failed."""
        assert self._embedder is not None
        with self._threads.step():
            return self._embedder.vectors(inputs, lora)

    def rank(self, inputs: Sequence[list[int]], lora: LoraScales = ()) -> list[float] | None:
        """Return the score of each pair; None if the computation failed."""
        assert self._ranker is not None
        with self._threads.step():
            return self._ranker.scores(inputs, lora)

    def close(self) -> None:
        """Free the context and the model; may be called again."""
        for embedder in (self._embedder, self._ranker):
            if embedder:
                embedder.close()
        self.dry.close()
        self.grammars.close()
        if self._media:
            self._media.close()
        if self._context:
            if self._head:
                self._head.close()
            lib.llama_free(self._context)
            lib.llama_model_free(self._model)
            self._context = self._model = None
            self._pool.shutdown()

    # ---- for the samplers

    @property
    def vocab(self) -> Any:
        return self._vocab

    @property
    def candidates(self) -> CandidateArray:
        """The scratch array of the decode thread."""
        return self._candidates

    def samples_in_threads(self, count: int) -> bool:
        """Whether sampling from so many rows takes long enough for several threads."""
        return self._sampling_threads > 1 and count * self.n_vocab >= 2 * LOGITS_A_THREAD

    def sample_ahead(self, choices: Sequence[tuple[LlamaSampler, int]]) -> None:
        """Sample from many rows of the last decode in threads, if that pays; each sampler keeps its token for `sample`.

        llama.cpp's calls release the GIL, and only one thread touches a chain.
        """
        plain = [(sampler, row) for sampler, row in choices if sampler.is_plain]
        shares = min(self._sampling_threads, len(plain) * self.n_vocab // LOGITS_A_THREAD)
        if shares < 2:
            return
        for _, row in plain:
            self._check_row(row)
        self._rows.order(plain[0][1])
        others = [self._pool.submit(sample_ahead, plain[share::shares]) for share in range(1, shares)]
        sample_ahead(plain[::shares])
        for other in others:
            other.result()

    def sample_row(self, sampler: Any, row: int) -> int:
        """Sample and accept a token from a row of the last decode, in native code alone."""
        self._check_row(row)
        return int(lib.llama_sampler_sample(sampler, self._context, row))

    @cached_property
    def unreadable(self) -> frozenset[int]:
        """The tokens that mark pictures and sounds, if there is no projector to read any; control tokens have no text."""
        return frozenset() if self._media else marks_of(self._model)

    @cached_property
    def eog_token_list(self) -> list[int]:
        return sorted(self._eog_tokens)

    # ---- private

    @cached_property
    def _cuts(self) -> Cuts | None:
        return cuts_of(self._model)  # reads the whole vocabulary, when a long text first needs it

    @cached_property
    def _eog_tokens(self) -> frozenset[int]:
        is_eog, vocab = lib.llama_vocab_is_eog, self._vocab
        return frozenset(token for token in range(self.n_vocab) if is_eog(vocab, token))

    def _check_row(self, row: int) -> None:
        """Raise AssertionError for a row of the last decode that has no logits."""
        if not self._rows.has(row):
            raise AssertionError(f"row {row} of the last decode has no logits")

    def _read_piece(self, token: int, special: bool) -> bytes:
        room = 32  # bytes; most pieces are shorter, and a longer one takes a second call
        while True:
            buffer = ctypes.create_string_buffer(room)
            size = lib.llama_token_to_piece(self._vocab, token, buffer, room, 0, special)
            if size >= 0:
                return buffer.raw[:size]
            room = -size

    def _token_text(self, token: int) -> str:
        return self._read_piece(token, special=True).decode("utf-8", "replace") if token >= 0 else ""

    @property
    def rope_facts(self) -> list[str]:
        """Facts that keys depend on beside the file: LongRoPE has other factors in contexts beyond the original one."""
        original = self._metadata(f"{self._metadata('general.architecture')}.rope.scaling.original_context_length")
        return ["long context"] if original.isdecimal() and self.n_ctx > int(original) else []

    def _metadata(self, key: str) -> str:
        return string_of(lib.llama_model_meta_val_str, self._model, key.encode())


def _head(settings: Settings, model: Any, context: Any, windows: SwaCache, sequences: Sequences) -> LlamaHead | None:
    """Return the head that the settings ask for. Raise ModelLoadFailed if there is none, or none for this model.

    None, too, for memory that cannot go back to any token, as drafts need it.
    """
    if not sequences.can_be_cut or (sequences.has_states and not sequences.shares_states):
        return None
    if settings.uses_head:
        return own_head(settings, model, context, windows)
    if sequences.has_states:
        return None
    return head_of_file(settings, model, context) if has_head_file(settings) else None


def _encoder(settings: Settings, model: Any) -> LlamaEncoder | None:
    """Return the encoder of pictures and sounds that the settings ask for. Raise ModelLoadFailed."""
    if not settings.mmproj:
        return None
    on_gpu = settings.mmproj_offload and uses_gpu(settings)
    if on_gpu and (needed := projector_bytes(settings)) > (free := free_gpu_memory()):  # llama.cpp would abort
        raise ModelLoadFailed(
            f"mmproj: {settings.mmproj_path} takes {needed >> 20} MiB, and beside the model {free >> 20} MiB are free on "
            "the GPU; --no-mmproj-offload leaves it on the CPU, and a smaller n_ctx makes room"
        )
    return LlamaEncoder(
        settings.mmproj_path,
        model,
        on_gpu=on_gpu,
        min_tokens=settings.image_min_tokens,
        max_tokens=settings.image_max_tokens,
    )


def _embedders(
    settings: Settings, model: Any, adapters: LlamaAdapters
) -> tuple[LlamaEmbedder | None, LlamaEmbedder | None]:
    """Return the embedder and the ranker, each None unless the settings ask for it. Raise ModelLoadFailed."""
    ranks = settings.reranking or settings.pooling == "rank"
    made = []
    for wanted, as_ranker in ((settings.embedding, False), (ranks, True)):
        params = context_params(settings, model)
        try:
            made.append(LlamaEmbedder(model, params, adapters, as_ranker) if wanted else None)
        except MemoryError as error:
            raise ModelLoadFailed(f"model: {error}: {native_log.last_error}") from None
    return made[0], made[1]
