"""FakeModel: a strict, deterministic model without weights, for tests and for trying the server without a GGUF.

The next token's logits are a hash of all that the sequence can see, so a wrong fork, position or eviction changes the
text. Calls on which llama.cpp would abort raise here. Forks share cells, which are counted as llama.cpp does. The cost
of an operation does not depend on the length of sequences or on the number of used cells.

No operation releases the interpreter's lock. Another thread asks for the lock only if it has seen no release for a whole
switch interval, so short releases (numpy's random arrays, argmax, searchsorted) in every step would keep readers and
writers waiting for a tenth of a second. llama.cpp's decode releases it for as long as it computes.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

import numpy as np
import numpy.typing as npt

from srb.config.sampling_params import SamplingParams
from srb.engine.cuts import Cuts
from srb.engine.diversity import BEYOND_SEEDS, other_candidate
from srb.engine.grammar.grammars import Grammars
from srb.engine.grammar.matcher import Matcher, Vocabulary
from srb.engine.media import Encoder, MediaChunk, Sections, Vectors
from srb.engine.model import Adapter, Batch, Blob, Candidates, ControlVector, DecodeStatus, Head, Logits, LoraScales
from srb.engine.positions import Positions
from srb.engine.sampling import is_greedy
from srb.engine.watching import watch_of
from srb.errors import GrammarDeadEnd
from srb.files.media_files import kind_of
from srb.progress import IsWanted, always, check_wanted
from srb.wire.events import ModelInfo

_WORDS = [
    *("the", "a", "one", "old", "young", "small", "grey", "quiet", "house", "river", "boat", "door", "letter", "lamp"),
    *("garden", "keeper", "girl", "fox", "king", "said", "found", "left", "kept", "opened", "lost", "remembered"),
    *("and", "but", "then", "because", "until", "under", "over", "near", "with", "never", "always", ",", ".", "?", "!"),
]
_PIECES = [b"", b"", *(word.encode() if word in ",.?!" else f" {word}".encode() for word in _WORDS)]
_FIRST_BYTE = len(_PIECES)
BOS, EOS = 0, 1
_CONTROL = {BOS: b"<s>", EOS: b"</s>"}
_FIRST_FAULT = _FIRST_BYTE + 256
_IDS = {piece: token for token, piece in enumerate(_PIECES) if piece}
_LONGEST = re.compile(b"|".join(map(re.escape, sorted(_IDS, key=len, reverse=True))) + b"|(?s:.)")
_CUTS = Cuts({})  # no word has a space or a mark within
NO_ROOM, INVALID, FATAL = range(_FIRST_FAULT, _FIRST_FAULT + 3)
_STATUS = {INVALID: DecodeStatus.INVALID, FATAL: DecodeStatus.FATAL}
_HASH_SIZE = 16


class FakeModel:
    """A Model with a vocabulary of BOS, EOS, forty words, the 256 bytes and three tokens that make decodes fail.

    Decodes fail on demand: each decode returns the next status in `failures` instead of computing. Token ids in a
    prompt do the same: a batch with INVALID or FATAL fails with that status, and after a batch with NO_ROOM the next
    two find no room. No text is tokenized to these tokens, and none of them is sampled.
    """

    def __init__(
        self,
        n_ctx: int = 512,
        n_seq_max: int = 16,
        n_batch: int = 64,
        n_ubatch: int = 16,
        n_ctx_seq: int | None = None,
        supports_partial_reuse: bool = True,
        n_adapters: int = 0,
        vectors: Mapping[str, float] | None = None,
        has_states: bool = False,
        reads_media: bool = False,
        decodes_ahead: bool = False,
        has_sections: bool = False,
    ) -> None:
        self.encoder: Encoder | None = FakeEncoder(has_sections) if reads_media else None
        self.head: Head | None = None
        self._positions = Positions()
        # After each cell from the first picture on, by what is visible: the place where its text goes on; with no such
        # place within a picture, where the picture begins; and the number of whole pictures.
        self._next_places: dict[bytes, tuple[int | None, int, int]] = {}
        self.n_ctx = n_ctx
        self.n_ctx_seq = n_ctx_seq or n_ctx
        self.is_as_trained = self.n_ctx_seq < n_ctx
        self.n_batch = max(n_batch, n_seq_max)
        self.n_ubatch = n_ubatch
        self.n_seq_max = n_seq_max
        self.is_on_gpu = False
        self.threads = 1
        self.supports_partial_reuse = supports_partial_reuse
        self.has_states = has_states
        self.shares_states = has_states
        self.decodes_ahead = decodes_ahead
        self.can_generate = self.can_embed = self.can_rank = True
        self.adapters = [Adapter(f"fake-{i}.gguf", 1.0 if i == 0 else 0.0) for i in range(n_adapters)]
        self.control_vectors = [
            ControlVector(name, f"{name}@0", f"{name}.gguf", scale) for name, scale in (vectors or {}).items()
        ]
        self.no_control_vectors = ""
        self.n_embd = _HASH_SIZE
        self.n_embed_tokens = n_ubatch
        self.n_embed_inputs = 4
        self.pooling = "mean"
        self.fails_to_embed = False
        self.n_vocab = FATAL + 1
        self.bos_id = BOS
        self.blank_page = [BOS]
        self.max_piece_bytes = max(len(self.piece(token, special=True)) for token in range(self.n_vocab))
        self.failures: deque[DecodeStatus] = deque()
        self.before_decode: Callable[[], None] | None = None  # called by each decode, so that it may take its time
        self.before_tokens: Callable[[int], None] | None = (
            None  # the same, and it gets the number of the batch's tokens
        )
        self.n_decodes = 0
        self.n_tokens_decoded = 0
        self._tips: dict[int, _Cell] = dict.fromkeys(range(n_seq_max), _EMPTY)  # last cell of each sequence
        self._with_state: set[int] = set()  # sequences that have the state of their end, if memory has states
        self._lone_states: dict[int, bytes] = {}  # of sequences that have a state and no cells
        self.used_cells = 0
        self._rows: dict[int, Logits] = {}
        self.grammars = Grammars(Vocabulary(self))
        self.open_samplers = 0
        self.is_closed = False

    def info(self, alias: str) -> ModelInfo:
        return ModelInfo(
            alias=alias,
            path="",
            description="fake",
            architecture="fake",
            memory="hybrid" if self.has_states else "attention" if self.supports_partial_reuse else "sliding_window",
            n_vocab=self.n_vocab,
            vocab_type=0,
            n_ctx=self.n_ctx,
            n_ctx_seq=self.n_ctx_seq,
            n_ctx_train=self.n_ctx_seq,
            n_embd=self.n_embd,
            n_params=0,
            size=0,
            n_seq_max=self.n_seq_max,
            chat_template="",
            bos_token="<s>",
            eos_token="</s>",
            has_fill_in_the_middle=False,
            build_info="fake",
            bos_id=self.bos_id,
            blank_page=self.blank_page,
            eos_id=EOS,
            eog_ids=[EOS],
            add_bos=True,
            ftype="fake",
            embedding=True,
            pooling="mean",
            reranking=True,
            control_vectors={each.name: each.scale for each in self.control_vectors},
            can_shift=True,
            sees=self.encoder is not None,
            hears=self.encoder is not None,
        )

    def tokenize(self, text: str, add_special: bool, parse_special: bool) -> list[int]:
        found = _LONGEST.findall(text.encode())
        return [*([BOS] if add_special else []), *[_IDS.get(piece, _FIRST_BYTE + piece[0]) for piece in found]]

    def find_cut(self, text: str, start: int) -> int:
        return _CUTS.find(text, start)

    def piece(self, token: int, special: bool = False) -> bytes:
        if token < 0:
            return b""  # of media
        if special and token in _CONTROL:
            return _CONTROL[token]
        if token >= _FIRST_FAULT:
            return b""
        return _PIECES[token] if token < _FIRST_BYTE else bytes([token - _FIRST_BYTE])

    def is_eog(self, token: int) -> bool:
        return token == EOS

    def new_sampler(
        self, params: SamplingParams, seed: int, history: Sequence[int], min_tokens: int = 0
    ) -> FakeSampler:
        return FakeSampler(self, params, seed, min_tokens)

    def biases(self, params: SamplingParams) -> dict[int, float]:
        biases: dict[int, float] = {}
        for token, bias in params.logit_bias:
            if isinstance(token, int):
                biases[token] = biases.get(token, 0.0) + (-np.inf if bias is None else bias)
        return biases | ({EOS: -np.inf} if params.ignore_eos else {})

    def pair(self, query: str, document: str) -> list[int]:
        return [BOS, *self.tokenize(query, False, False), EOS, *self.tokenize(document, False, False)]

    def embed(self, inputs: Sequence[list[int]], lora: LoraScales = ()) -> list[Vectors] | None:
        """Return for each token the bytes of a hash of all tokens up to it in its input."""
        self._check_inputs(inputs)
        if self.fails_to_embed:
            return None
        return [
            np.array([list(_hash(repr(lora).encode(), tokens[: end + 1])) for end in range(len(tokens))], np.float32)
            for tokens in inputs
        ]

    def rank(self, inputs: Sequence[list[int]], lora: LoraScales = ()) -> list[float] | None:
        """Return the number of each document's tokens that are also in the query."""
        self._check_inputs(inputs)
        parts = [(tokens[: tokens.index(EOS)], tokens[tokens.index(EOS) + 1 :]) for tokens in inputs]
        return None if self.fails_to_embed else [float(sum(t in query for t in document)) for query, document in parts]

    def _check_inputs(self, inputs: Sequence[list[int]]) -> None:
        if not 0 < len(inputs) <= self.n_embed_inputs or not all(inputs):
            raise AssertionError(f"{len(inputs)} inputs; {self.n_embed_inputs} fit")
        if (total := sum(map(len, inputs))) > self.n_embed_tokens:
            raise AssertionError(f"inputs of {total} tokens; {self.n_embed_tokens} fit")

    def decode(self, batch: Batch) -> DecodeStatus:
        if not 0 < len(batch) <= self.n_batch:
            raise AssertionError(f"a batch of {len(batch)} tokens; n_batch is {self.n_batch}")
        if sum(batch.wanted) > self.n_seq_max:
            raise AssertionError(f"{sum(batch.wanted)} rows are wanted, and there is room for {self.n_seq_max}")
        self._rows.clear()
        if self.failures and (status := self.failures.popleft()) is not DecodeStatus.OK:
            return status
        if at_fault := _STATUS.keys() & batch.tokens:
            return _STATUS[max(at_fault)]
        if self.used_cells + len(batch) > self.n_ctx:
            return DecodeStatus.NO_ROOM
        if NO_ROOM in batch.tokens:
            self.failures += [DecodeStatus.NO_ROOM] * 2
        if self.before_decode is not None:
            self.before_decode()
        if self.before_tokens is not None:
            self.before_tokens(len(batch))
        self.n_decodes += 1
        self.n_tokens_decoded += len(batch)
        lora = repr(batch.lora).encode() if any(batch.lora) else b""
        if batch.is_whole:
            _check_whole(batch)
        places = self._positions.of(batch)
        entries = zip(batch.tokens, batch.positions, batch.seq_ids, batch.wanted, strict=True)
        for row, (token, position, seq_id, wanted) in enumerate(entries):
            tip = self._tips[seq_id]  # KeyError: a sequence id out of range
            if position != tip.end:
                raise AssertionError(f"position {position} in sequence {seq_id}, which holds {tip.end}")
            next_place = self._check_place(tip, batch, row, places)
            if batch.vectors is None and not 0 <= token < self.n_vocab:
                raise AssertionError(f"token {token} is not in the vocabulary")
            if self.has_states and tip is not _EMPTY and seq_id not in self._with_state:
                raise AssertionError(f"sequence {seq_id} has no state of its end, at {tip.end}")
            self._with_state.add(seq_id)
            vector = b"" if batch.vectors is None else batch.vectors[row].tobytes()
            mood = repr(batch.moods[seq_id]).encode() if seq_id in batch.moods else b""
            visible = _hash(tip.visible + lora + mood + vector, [token])
            self._grow(seq_id, visible)
            if next_place != (tip.end + 1, 0, 0):
                self._next_places[visible] = next_place
            if wanted:
                self._rows[row] = self._next_logits(visible)
        self._positions.computed(batch)
        return DecodeStatus.OK

    def _check_place(
        self, tip: _Cell, batch: Batch, row: int, places: list[int] | npt.NDArray[np.int32]
    ) -> tuple[int | None, int, int]:
        """Check where a token after `tip` is put by `Positions`; return the place after it, as `_next_places` has it."""
        goes_on_at, first, pictures = self._next_places.get(tip.visible, (tip.end, 0, 0))
        if isinstance(places, list):
            if places[row] != goes_on_at:
                raise AssertionError(f"a token is put at {places[row]}, and its text goes on at {goes_on_at}")
            return places[row] + 1, 0, pictures
        run = batch.run
        assert run is not None
        assert run.chunk.sections is not None
        at = batch.positions[row] - run.start
        if at == 0:
            assert goes_on_at is not None, "a picture begins within another"
            first = goes_on_at
        elif goes_on_at is not None:
            raise AssertionError(f"a picture goes on at {at}, and has not begun")
        if places[:, row].tolist() != run.chunk.sections.at(first, pictures)[:, at].tolist():
            raise AssertionError(f"token {at} of a picture that begins at {first} is put at {places[:, row]}")
        if at + 1 < len(run.chunk):
            return None, first, pictures
        return first + run.chunk.num_positions, 0, pictures + 1

    def samples_in_threads(self, count: int) -> bool:
        return False

    def sample_ahead(self, choices: Sequence[tuple[Any, int]]) -> None:
        """Do nothing: sampling from the fake costs nothing."""

    def logits(self, row: int) -> Logits:
        return self._rows[row]  # KeyError: no logits were asked for, where llama.cpp aborts

    def fork(self, source: int, target: int, end: int | None = None) -> None:
        if self._tips[target] is not _EMPTY or target in self._lone_states:
            raise AssertionError(f"sequence {target} is not empty")
        self._move(target, self._cell_at(source, end))
        self._positions.fork(source, target, end)
        if end is None and source in self._with_state:
            self._with_state.add(target)

    def truncate(self, seq_id: int, end: int) -> None:
        self._move(seq_id, self._cell_at(seq_id, end))
        self._positions.cut(seq_id, end)
        self._with_state.discard(seq_id)

    def splice(self, source: int, target: int, end: int) -> None:
        self._positions.at(target, end)
        shared, own = self._cell_at(source, end), self._tips[target].back_to(end)
        if shared.visible != self._cell_at(target, end).visible:
            raise AssertionError(f"sequences {source} and {target} hold different texts before {end}")
        self._move(target, shared)
        for cell in own:
            self._grow(target, cell.visible)

    def save(self, seq_id: int, start: int) -> Blob:
        tip = self._tips[seq_id]
        if start >= tip.end or (start and not self.supports_partial_reuse):
            raise AssertionError(f"sequence {seq_id} of {tip.end} cells cannot be saved from {start}")
        own = tip.back_to(start)
        before = own[0].previous
        assert before is not None
        cells = np.frombuffer(b"".join(cell.visible.ljust(_HASH_SIZE, b"\0") for cell in (before, *own)), np.uint8)
        return self._positions.pack(seq_id, start, cells)

    def split(self, blob: Blob, start: int, at: int) -> tuple[Blob, Blob] | None:
        place = _HASH_SIZE * (at - start)  # each part has the cell before it
        return self._positions.split(blob, at, lambda cells: (cells[: place + _HASH_SIZE], cells[place:]))

    def restore(self, seq_id: int, blob: Blob) -> bool:
        runs, cells = self._positions.unpack(blob)
        data, tip = cells.tobytes(), self._tips[seq_id]
        count = len(data) // _HASH_SIZE - 1
        if data[:_HASH_SIZE] != tip.visible.ljust(_HASH_SIZE, b"\0"):
            raise AssertionError("a span is restored after another text than it was saved after")
        if self.used_cells + count > self.n_ctx:
            raise AssertionError("there is no room to restore")
        for start in range(_HASH_SIZE, len(data), _HASH_SIZE):
            tip = _Cell(data[start : start + _HASH_SIZE], tip)  # the tip is now used by it instead of the sequence
        self._tips[seq_id] = tip
        self._positions.restored(seq_id, runs)
        self.used_cells += count
        self._with_state.discard(seq_id)
        return True

    def save_state(self, seq_id: int) -> Blob:
        return np.frombuffer(self._state(seq_id).ljust(_HASH_SIZE, b"\0"), np.uint8)

    def _state(self, seq_id: int) -> bytes:
        if seq_id in self._lone_states:
            return self._lone_states[seq_id]
        if seq_id not in self._with_state:
            raise AssertionError(f"sequence {seq_id} has no state of its end")
        return self._tips[seq_id].visible

    def restore_state(self, seq_id: int, state: Blob) -> bool:
        if state.tobytes() != self._tips[seq_id].visible.ljust(_HASH_SIZE, b"\0"):
            raise AssertionError("a state is restored after another text than it was saved after")
        self._with_state.add(seq_id)
        return True

    def copy_state(self, source: int, target: int) -> None:
        if self._tips[target] is not _EMPTY:
            self.restore_state(target, self.save_state(source))
        else:
            self._lone_states[target] = self._state(source)

    def _cell_at(self, seq_id: int, end: int | None) -> _Cell:
        """Return cell `end` − 1 of a sequence, or its last cell if `end` is None."""
        tip = self._tips[seq_id]
        if end is not None and (end > tip.end or (end < tip.end and not self.supports_partial_reuse)):
            raise AssertionError(f"sequence {seq_id} of {tip.end} cells cannot be cut at {end}")
        while end is not None and tip.end > end:
            assert tip.previous is not None
            tip = tip.previous
        return tip

    def _grow(self, seq_id: int, visible: bytes) -> None:
        tip = self._tips[seq_id]
        self._tips[seq_id] = _Cell(visible, tip)  # the tip is now used by the new cell instead of the sequence
        self.used_cells += 1

    def _move(self, seq_id: int, tip: _Cell) -> None:
        """Make `tip` the last cell of a sequence, and free the cells that no sequence holds any more."""
        cell: _Cell | None = self._tips[seq_id]
        self._tips[seq_id] = tip
        tip.uses += 1
        while cell is not None and cell is not _EMPTY:
            cell.uses -= 1
            if cell.uses:
                break
            self.used_cells -= 1
            cell = cell.previous

    def remove(self, seq_id: int) -> None:
        self._move(seq_id, _EMPTY)
        self._positions.remove(seq_id)
        self._with_state.discard(seq_id)
        self._lone_states.pop(seq_id, None)

    def flush(self) -> None:
        """Do nothing: edits do not wait here, since they cost next to nothing."""

    def clear(self) -> None:
        for seq_id in self._tips:
            self.remove(seq_id)

    def close(self) -> None:
        self.is_closed = True

    def _next_logits(self, visible: bytes) -> Logits:
        bits = hashlib.shake_128(visible).digest(4 * self.n_vocab)
        noise = (np.frombuffer(bits, np.uint32) * (4 / 2**32)).astype(np.float32)
        noise[2:_FIRST_BYTE] += 4.0  # words are likelier than bytes
        noise[[BOS, NO_ROOM, INVALID, FATAL]] = -np.inf
        return noise


def _hash(past: bytes, tokens: Sequence[int]) -> bytes:
    data = past + b"".join((token & 0xFFFFFFFF).to_bytes(4, "big") for token in tokens)
    return hashlib.blake2b(data, digest_size=_HASH_SIZE).digest()


class _Cell:
    """One computed token; `visible` is the hash of it and of all tokens before it in its sequence.

    `uses` counts the cells that follow it and the sequences that end with it.
    """

    __slots__ = ("end", "previous", "uses", "visible")

    def __init__(self, visible: bytes, previous: _Cell | None) -> None:
        self.visible = visible
        self.previous = previous
        self.end: int = previous.end + 1 if previous else 0
        self.uses = 1

    def back_to(self, start: int) -> list[_Cell]:
        """Return the cells from position `start` to this one."""
        cells: list[_Cell] = []
        cell = self
        while cell.end > start:
            cells.append(cell)
            assert cell.previous is not None
            cell = cell.previous
        return cells[::-1]


_EMPTY = _Cell(b"", None)


class FakeEncoder(Encoder):
    """An encoder of pictures, with brackets around them, and of sounds: all follows from a hash of the file.

    A picture is one whole chunk of 6 to 13 tokens, a sound a chunk of 20 to 27 that can be computed in parts. With
    sections a picture, too, is computed in parts: it has three columns, and takes as many positions as rows or columns;
    the last section counts the pictures before it.
    """

    sees = hears = True
    key = b"fake"

    def __init__(self, has_sections: bool = False) -> None:
        self._has_sections = has_sections

    def count(self, data: bytes, start: int = 0) -> int:
        return sum(map(len, self.encode(data)))

    def encode(self, data: bytes, is_wanted: IsWanted = always) -> list[list[int] | MediaChunk]:
        check_wanted(is_wanted)
        digest, is_image = hashlib.sha256(data).digest(), kind_of(data) == "image"
        count = digest[0] % 8 + (6 if is_image else 20)
        vectors = np.array([[int.from_bytes(digest[1:4]), place, count] for place in range(count)], np.float32)
        if is_image and self._has_sections:
            chunk = MediaChunk(vectors, is_whole=False, sections=_sections(count))
        else:
            chunk = MediaChunk(vectors, is_whole=is_image)
        return [[_FIRST_BYTE + ord("[")], chunk, [_FIRST_BYTE + ord("]")]] if is_image else [chunk]


def _sections(count: int, columns: int = 3) -> Sections:
    places = np.arange(count, dtype=np.int32)
    still = np.zeros(count, np.int32)
    from_zero = np.stack([still, places // columns, places % columns, still])
    moving = np.array([[1], [1], [1], [0]], np.int32).repeat(count, axis=1)
    counting = np.array([[0], [0], [0], [1]], np.int32).repeat(count, axis=1)
    return Sections(from_zero, moving, max(columns, -(-count // columns)), counting)


def _check_whole(batch: Batch) -> None:
    """Raise AssertionError unless a batch has one whole chunk of media."""
    assert batch.vectors is not None
    places = [int(vector[1]) for vector in batch.vectors]
    if places != list(range(int(batch.vectors[0][2]))):
        raise AssertionError(f"places {places} of media that are computed whole")


class FakeSampler:
    """A sampler by temperature alone; honours biases, lists of tokens and min_tokens, and a grammar from its beginning."""

    def __init__(self, model: FakeModel, params: SamplingParams, seed: int, min_tokens: int) -> None:
        model.open_samplers += 1
        self._watch = watch_of(params, model)
        self._min_tokens = min_tokens
        self._model = model
        self._params = params
        self._random = random.Random(seed)
        self._sampled = 0
        self._grammar = model.grammars.matcher(params.grammar, params.grammar_schemas) if params.grammar else None
        self._candidates: Candidates | None = None
        self._states: list[tuple[Any, int, int, Any]] | None = None  # before each remembered token
        self._is_open = True

    def sample(self, row: int) -> int:
        return self.sample_from(self._model.logits(row))

    def sample_from(self, logits: Logits) -> int:
        return self._accept(*self._draw(self._scores(logits)))

    def sample_apart(self, logits: Logits, taken: Set[int], seed: int) -> int:
        scores = self._scores(logits)
        weights, token = self._draw(scores)
        if token in taken and not self._is_forced:
            if is_greedy(self._params):
                free = scores.copy()
                free[list(taken)] = -np.inf
                weights, token = self._draw(free) if np.isfinite(free).any() else (weights, token)
            else:
                other = other_candidate(_candidates(weights), taken, random.Random(seed + BEYOND_SEEDS).random())
                token = token if other is None else other
        return self._accept(weights, token)

    def sample_by(self, logits: Logits, take: Callable[[Candidates], int]) -> int:
        weights, token = self._draw(self._scores(logits))
        return self._accept(weights, token if self._is_forced else take(_candidates(weights)))

    def _scores(self, logits: Logits) -> npt.NDArray[np.float64]:
        """Return the logits with -inf for tokens that may not come. Raise GrammarDeadEnd if none may."""
        if not self._is_open:
            raise AssertionError("the sampler is closed")
        if self._states is not None:
            place = self._watch.state if self._watch is not None else None
            length = self._grammar.length if self._grammar is not None else 0
            self._states.append((self._random.getstate(), self._sampled, length, place))
        scores = logits.astype(np.float64)
        if self._grammar is not None and (self._watch is None or self._watch.is_on):
            allowed = self._grammar.allowed
            scores, given = np.full(len(scores), -np.inf), scores
            scores[allowed] = given[allowed]
        for token, bias in self._params.logit_bias:
            if isinstance(token, int):
                scores[token] += -np.inf if bias is None else bias
        if self._params.ignore_eos or self._sampled < self._min_tokens:
            scores[EOS] = -np.inf
        if self._sampled < self._min_tokens:
            scores[[token for token in self._params.stop_token_ids if token < len(scores)]] = -np.inf
        if self._params.allowed_token_ids:
            scores[np.setdiff1d(np.arange(len(scores)), self._params.allowed_token_ids)] = -np.inf
        if not np.isfinite(scores).any():
            raise GrammarDeadEnd("the settings allow no token here")
        return scores

    @property
    def _is_forced(self) -> bool:
        return self._watch is not None and self._watch.forced is not None

    def _draw(self, scores: npt.NDArray[np.float64]) -> tuple[npt.NDArray[np.float64], int]:
        """Return the weight of each token, and the one that was drawn or forced."""
        if self._watch is not None and (forced := self._watch.forced) is not None:
            weights = np.zeros(len(scores))
            weights[forced] = 1.0
            return weights, forced
        if self._params.temperature <= 0:
            is_best = scores == scores.max()
            return is_best.astype(np.float64), int(is_best.nonzero()[0][0])
        weights = np.exp((scores - scores.max()) / self._params.temperature)
        sums = weights.cumsum()
        return weights, int((sums <= self._random.random() * sums[-1]).sum())

    @property
    def grammar(self) -> Matcher | None:
        return self._grammar

    @property
    def forced(self) -> list[int]:
        is_on = self._grammar is not None and (self._watch is None or self._watch.is_on)
        return self._grammar.forced if is_on and self._grammar is not None else []

    def accept(self, token: int) -> None:
        assert self._states is None
        self._sampled += 1
        self._go_on_in_grammar(token)

    def accept_in_grammar(self, tokens: Sequence[int]) -> None:
        for token in tokens:
            self._go_on_in_grammar(token)

    def _go_on_in_grammar(self, token: int) -> None:
        is_on = self._watch is None or self._watch.is_on
        begun = self._watch.accept(token) if self._watch is not None else None
        if self._grammar is None:
            return
        for each in [token] if is_on else self._model.tokenize((begun or b"").decode(), False, False):
            self._grammar.accept(each)

    def _accept(self, weights: npt.NDArray[np.float64], token: int) -> int:
        if self._watch is not None and (other := self._watch.instead_of(token)) != token:
            token, weights = other, np.eye(1, len(weights), other)[0]
        self._sampled += 1
        self._go_on_in_grammar(token)
        if self._params.post_sampling_probs:
            self._candidates = _candidates(weights)
        return token

    @property
    def candidates(self) -> Candidates:
        assert self._candidates is not None, "post_sampling_probs is off"
        return self._candidates

    def clone(self, seed: int, min_tokens: int = 0) -> FakeSampler:
        if not self._is_open:
            raise AssertionError("the sampler is closed")
        made = type(self)(self._model, self._params, seed, min_tokens)
        made._grammar = self._grammar.copy() if self._grammar is not None else None
        made._watch = self._watch.copy() if self._watch is not None else None
        return made

    def remember(self) -> None:
        self._states = []

    def stop_remembering(self) -> None:
        self._states = None

    def forget(self, count: int) -> None:
        assert self._states is not None
        assert count <= len(self._states)
        del self._states[: len(self._states) - count]

    def rewind(self, count: int) -> None:
        assert self._states is not None
        state, self._sampled, length, place = self._states[-count]
        if self._grammar is not None:
            self._grammar.rewind(self._grammar.length - length)
        if self._watch is not None:
            self._watch.state = place
        self._random.setstate(state)
        del self._states[-count:]

    def end_reasoning(self) -> bool:
        return self._watch is not None and self._watch.end_reasoning()

    def close(self) -> None:
        if self._is_open:
            self._model.open_samplers -= 1
        self._is_open = False


def _candidates(weights: npt.NDArray[np.float64]) -> Candidates:
    ids = np.flatnonzero(weights).astype(np.int32)
    return Candidates(ids, (weights[ids] / weights.sum()).astype(np.float32))
