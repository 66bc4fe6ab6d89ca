"""Token healing: a text that ends within a word goes on as if its last characters could still be part of a longer token.

How the end of a text is tokenized depends on what follows. A model that reads " fire" and "pl" hardly ever writes "ace", and
after a lone space it writes numbers, since in its training that word was one token, " fireplace". So the last tokens
of the text are removed, and what a branch draws has to begin with their bytes. The ways to do so are *covers*: a beginning
of the removed tokens (which may be none of them), and one token that reaches to the end of the removed bytes or beyond.
All covers have a probability under the model; a branch draws one, and its text begins behind the removed bytes.

The probabilities are those of characters, not of tokens (Vieira et al. 2024, "From Language Models over Tokens to Language
Models over Characters"), up to what is left out: more than MAX_REMOVED tokens are never removed, and covers that begin
with other tokens than the tokenizer's own do not count. TabbyAPI and guidance restrict the next token alone.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Protocol

import numpy as np
import numpy.typing as npt

from srb.config.sampling_params import SamplingParams
from srb.engine.model import Logits, Model, Mood, Scope
from srb.engine.tokens import Tokens, is_media, tokens_of

MAX_REMOVED = 8  # tokens; a long run without spaces, as of Chinese, is cut no further back than that
MAX_KNOWN = 64  # prompts whose rows and covers are remembered: asked again, they need no further decode
KNOWN_BYTES = 32 * 1024 * 1024  # of these; a space's rows and covers are 3 MB each of Gemma's vocabulary
MAX_DRAWN = 4  # ways of sampling that a prompt's covers are remembered for: clients try a few temperatures on it
MAX_WHOLE = 64  # whole covers whose logits are remembered, as many as ends of prompts in the tree; 1 MB each of Gemma

MAX_HEADS = 64  # ends of prompts whose tokens are remembered, a megabyte each at most; as many as MAX_KNOWN

Ids = npt.NDArray[np.int32]


def num_removed(tokens: Sequence[int], model: Model, least: int = 1) -> int:
    """Return how many of the last tokens are removed: back to the beginning of a word, with the space before it.

    At least `least` tokens stay; control tokens and media are never removed.
    """
    count, text = 0, b""
    while count < MAX_REMOVED and len(tokens) - count > least:
        token = tokens[-1 - count]
        piece = b"" if is_media(token) else model.piece(token)
        if not piece or (_as_text(text)[:1].isspace() and not _as_text(piece)[-1:].isspace()):
            break
        text = piece + text
        count += 1
    return count


def divided(removed: Tokens, model: Model, pieces: Pieces) -> Tokens:
    """Return a text's last tokens with those of some spaces as they are where a word follows.

    Spaces at a text's end are one token in many vocabularies. Before a word, the last of them is a part of the word's token,
    and here a token of its own; no word's token begins with a line break, but two breaks may be two tokens there.
    """
    texts = [_as_text(b"".join(map(model.piece, removed[place:]))) for place in range(len(removed))]
    first, spaces = next(((place, text) for place, text in enumerate(texts) if text.isspace()), (0, ""))
    if len(spaces) < 2:
        return removed
    data, last = f"{spaces}x".encode(), b"" if spaces[-1] in "\n\r" else spaces[-1].encode()
    tokens = model.tokenize(f"x{spaces}x", add_special=False, parse_special=False)  # some put a space before any text
    ends = list(accumulate((len(model.piece(token)) for token in tokens), initial=0))
    begin, end = ends[-1] - len(data), ends[-1] - 1 - len(last)
    is_whole = b"".join(map(model.piece, tokens)).endswith(data) and begin in ends and end in ends
    if not is_whole:
        return removed
    before = removed[:first] + tokens_of(tokens[ends.index(begin) : ends.index(end)])
    if not last:
        return max(removed, before, key=len)  # some vocabularies have breaks apart behind a full stop alone
    ids, num_alone = pieces.beginning_with(last)
    if not num_alone:
        return removed
    alone = int(ids[:num_alone].max())  # a byte's token, which vocabularies have too, comes before
    return before + tokens_of([alone])


def _as_text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


class Pieces:
    """The vocabulary's tokens by their bytes, but those that are never drawn.

    Safe from any thread: what two make at once is the same.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self._by_byte: dict[int, list[tuple[bytes, int]]] | None = None  # by their first byte, in any order
        self._sorted: dict[int, list[tuple[bytes, int]]] = {}  # only those that were needed
        # A space alone begins half of a vocabulary, and most prompts that are healed end with one.
        self.beginning_with = lru_cache(MAX_HEADS)(self._beginning_with)

    def _beginning_with(self, head: bytes) -> tuple[Ids, int]:
        """Return the tokens, shape (n,), whose text begins with `head`, those that are all of it first, and their number."""
        pieces = self._of_byte(head[0])
        first = bisect_left(pieces, (head, -1))
        last = bisect_left(pieces, (head + b"\xff" * (self._model.max_piece_bytes or 256), self._model.n_vocab), first)
        found = pieces[first:last]
        ids = np.fromiter((token for _, token in found), np.int32, len(found))
        return ids, sum(piece == head for piece, _ in found)

    def _of_byte(self, byte: int) -> list[tuple[bytes, int]]:
        """Return the tokens that begin with a byte, sorted."""
        if byte not in self._sorted:
            if self._by_byte is None:
                found: dict[int, list[tuple[bytes, int]]] = {}
                biases = self._model.biases(SamplingParams())
                for token in range(self._model.n_vocab):
                    if (piece := self._model.piece(token)) and biases.get(token) != -np.inf:
                        found.setdefault(piece[0], []).append((piece, token))
                self._by_byte = found
            self._sorted[byte] = sorted(self._by_byte.get(byte, []))
        return self._sorted[byte]


@dataclass(frozen=True, slots=True)
class Row:
    """The covers' last tokens after some removed ones: their logits, and what turns these into log-probabilities."""

    logits: npt.NDArray[np.float32]  # of the covers' last tokens, shape (covers,)
    norm: float  # logarithm of the sum over the vocabulary
    next_logit: float  # of the next removed token


@dataclass(frozen=True, slots=True)
class Cover:
    """The beginning that a branch has drawn: given `tokens`, and the `logits` of those that may be its first own token.

    The first own token begins with the prompt's bytes `hidden`. Where the given tokens end as the prompt does there are no
    logits: the cover is whole, and those behind it are remembered by its `key` (b"": they are not). `logprob` is that of all
    such covers together, under the model alone: without temperature and the like.
    """

    tokens: Tokens
    logits: Logits | None = None
    hidden: bytes = b""
    logprob: float = 0.0
    key: bytes = b""


class Known:
    """A prompt's end as far as it is known: the rows of its places, and the covers that ways of sampling leave."""

    __slots__ = ("drawn", "nbytes", "rows")

    def __init__(self, count: int) -> None:
        self.rows: list[Row | None] = [None] * count
        # By the way of sampling: the upper bounds of covers' shares, shape (covers,), and the covers.
        self.drawn: dict[tuple[float, ...], tuple[npt.NDArray[np.float64], list[Cover]]] = {}
        self.nbytes = 0

    def add_row(self, place: int, row: Row) -> None:
        self.nbytes += row.logits.nbytes if self.rows[place] is None else 0
        self.rows[place] = row

    def add_drawn(self, asked: tuple[float, ...], bounds: npt.NDArray[np.float64], covers: list[Cover]) -> None:
        if len(self.drawn) >= MAX_DRAWN:
            self.nbytes -= _nbytes(self.drawn.pop(next(iter(self.drawn)))[1])
        self.drawn[asked] = bounds, covers
        self.nbytes += _nbytes(covers)


def _nbytes(covers: list[Cover]) -> int:
    return sum(cover.logits.nbytes for cover in covers if cover.logits is not None)


class Pilot(Protocol):
    """A branch, as far as an ending knows it."""

    @property
    def seq_id(self) -> int | None: ...


class Ending:
    """The removed end of a prompt, or of a branch's `append`, and the probabilities of its covers.

    Place j is that behind j removed tokens. Its row comes from the prompt's logits (place 0, if nothing is appended), from a
    *pilot* — the first branch, which computes the removed tokens — or from an earlier request with the same prompt.
    """

    __slots__ = (
        "before", "covers", "is_of_prompt", "key", "known", "n_vocab", "num_sent", "num_whole", "pilot", "removed", "rests",
    )  # fmt: skip

    def __init__(
        self, removed: Tokens, pieces: Pieces, model: Model, before: Tokens | None = None, key: bytes = b""
    ) -> None:
        """`removed` are the last tokens sent, of the prompt or an `append`: then `before` are the given ones before them.

        The rows behind a prompt are remembered by its `key`; b"": they are not.
        """
        self.num_sent = len(removed)
        self.removed = removed = divided(removed, model, pieces)
        self.is_of_prompt = before is None
        self.before = tokens_of(()) if before is None else before
        texts = [model.piece(token) for token in removed]
        self.rests = [b"".join(texts[place:]) for place in range(len(removed))]  # the removed bytes from a place on
        found = [pieces.beginning_with(rest) for rest in self.rests]
        self.covers = [ids for ids, _ in found]
        self.num_whole = [count for _, count in found]  # of a place's covers, the first that end as the prompt does
        self.n_vocab = model.n_vocab
        self.known = Known(len(removed))
        self.pilot: Pilot | None = None  # the branch that computes the rows
        self.key = key

    @property
    def path(self) -> Tokens:
        """The tokens that a pilot computes: all but the last removed one, behind which nothing is covered."""
        return self.before + self.removed[:-1]

    @property
    def num_without_logits(self) -> int:
        """Number of the path's tokens behind which there is no place."""
        return max(0, len(self.before) - 1)

    @property
    def is_known(self) -> bool:
        """Whether nothing has to be computed before a branch draws, but the prompt's own logits."""
        return None not in self.known.rows[0 if self.before else 1 :]

    @property
    def is_awaited(self) -> bool:
        """Whether a pilot is computing the rows."""
        return self.pilot is not None and self.pilot.seq_id is not None and not self.is_known

    def note(self, index: int, logits: Logits) -> None:
        """Note the logits, shape (n_vocab,), behind the token `index` of the path."""
        if (place := index + 1 - len(self.before)) >= 0:
            self.known.add_row(place, self._row(place, logits))

    def _row(self, place: int, logits: Logits) -> Row:
        largest = float(logits.max())
        norm = largest + float(np.log(np.exp(logits - np.float32(largest)).sum(dtype=np.float64)))
        return Row(logits[self.covers[place]], norm, float(logits[self.removed[place]]))

    def draw(self, params: SamplingParams, seed: int, prompt_logits: Logits) -> Cover:
        """Return the cover that `seed` draws; the order of the request's branches does not matter.

        `top_k`, `top_p`, `min_p` and the temperature apply to the covers as to any tokens; the longer tokens of a place
        count together, and the branch's own sampler chooses among them.
        """
        asked = float(params.top_k), params.top_p, params.min_p, params.temperature
        if asked not in self.known.drawn:
            if self.known.rows[0] is None:
                self.known.add_row(0, self._row(0, prompt_logits))
            self.known.add_drawn(asked, *self._weigh(*asked))
        bounds, covers = self.known.drawn[asked]
        digest = hashlib.blake2b(seed.to_bytes(8, "little"), digest_size=8, person=b"srb-healing").digest()
        return covers[int(np.searchsorted(bounds, int.from_bytes(digest, "little") / 2**64, side="right"))]

    def _weigh(
        self, top_k: float, top_p: float, min_p: float, temperature: float
    ) -> tuple[npt.NDArray[np.float64], list[Cover]]:
        """Return the upper bounds of covers' shares of the interval 0 … 1, shape (covers,), and the covers."""
        logprobs, firsts, so_far = [], [], 0.0
        for row in self.known.rows:
            assert row is not None
            logprobs.append(row.logits + np.float64(so_far - row.norm))
            so_far += row.next_logit - row.norm
        for place, first in enumerate(np.cumsum([0, *map(len, logprobs[:-1])]).tolist()):
            firsts += [first, first + self.num_whole[place]]  # of the whole covers, and of the longer ones
        everything = np.concatenate(logprobs)
        chosen = _sums(_chosen_from(everything, int(top_k), top_p, min_p, temperature), firsts)
        plain = _sums(_chosen_from(everything, 0, 1.0, 0.0, 1.0), firsts)
        drawn = [int(each) for each in np.flatnonzero(chosen)]
        bounds = np.cumsum(chosen[drawn], dtype=np.float64)
        bounds[-1] = 1.0  # up to rounding
        return bounds, [self._cover(each // 2, bool(each % 2), float(np.log(plain[each]))) for each in drawn]

    def _cover(self, place: int, is_longer: bool, logprob: float) -> Cover:
        row, covers, num_whole = self.known.rows[place], self.covers[place], self.num_whole[place]
        assert row is not None
        tokens = self.before + self.removed[:place]
        if not is_longer:  # of several tokens with the same text, such as a byte's, the likeliest
            tokens += tokens_of([int(covers[int(row.logits[:num_whole].argmax())])])
            return Cover(tokens, key=self.key and self.key + tokens.tobytes())
        logits = np.full(self.n_vocab, -np.inf, np.float32)
        logits[covers[num_whole:]] = row.logits[num_whole:]
        return Cover(tokens, logits, self.rests[place], logprob)


def _sums(values: npt.NDArray[np.float64], firsts: Sequence[int]) -> npt.NDArray[np.float64]:
    """Return the sums, shape (parts,), of the parts of some values; parts, which may be empty, begin at `firsts`."""
    return np.array([values[first:end].sum() for first, end in pairwise([*firsts, len(values)])])


def _chosen_from(
    logprobs: npt.NDArray[np.float64], top_k: int, top_p: float, min_p: float, temperature: float
) -> npt.NDArray[np.float64]:
    """Return what top-k, top-p, min-p and the temperature, in the chain's order, leave of probabilities, shape (n,)."""
    kept: npt.NDArray[np.intp] | slice = slice(None)
    # Only where it must be: what begins with a space is half of a vocabulary, and sorting takes time.
    if temperature == 0 or top_k > 0 or top_p < 1.0:
        kept = _largest(logprobs, 1 if temperature == 0 else top_k or len(logprobs))
    largest = logprobs.max()
    probs = np.exp(logprobs[kept] - largest)
    if top_p < 1.0:
        share = np.cumsum(probs)
        probs[1:][share[:-1] >= top_p * share[-1]] = 0.0
    probs[probs < min_p] = 0.0
    left = probs if temperature in (0, 1) else probs ** (1 / temperature)
    chosen = np.zeros(len(logprobs))
    chosen[kept] = left / left.sum()
    return chosen


def _largest(values: npt.NDArray[np.float64], count: int) -> npt.NDArray[np.intp]:
    """Return the places of the `count` largest values, the largest first; of equal ones the first places."""
    places = np.arange(len(values))
    if count < len(values):
        places = np.flatnonzero(values >= np.partition(values, -count)[-count])
    return places[np.argsort(-values[places], kind="stable")][:count]


class Healing:
    """The part of one branch that is healed: an ending, and then the cover that the branch has drawn of it."""

    __slots__ = ("cover", "ending", "prompt_bytes", "whole_key")

    def __init__(self, ending: Ending | None = None, prompt_bytes: bytes = b"") -> None:
        """A fork of a healed branch has the `prompt_bytes` with which its tokens begin, and its text does not."""
        self.ending = ending  # None: the cover is drawn
        self.cover: Cover | None = None  # with which the first own token begins; None: a whole one, or none is drawn
        self.whole_key = b""  # of a whole cover, while the logits behind it are of use
        self.prompt_bytes = prompt_bytes

    def is_over(self, length: int) -> bool:
        """Whether the next token of a branch that has sampled `length` tokens is drawn as any other."""
        return self.ending is None and not self.whole_key and (length > 0 or self.cover is None)


class KnownEndings:
    """Ends of the prompts that were healed last, and the logits behind their whole covers.

    A prompt that is asked again is so not computed further. For the decode thread alone.
    """

    def __init__(self) -> None:
        self._known: OrderedDict[bytes, Known] = OrderedDict()
        self._behind: OrderedDict[bytes, Logits] = OrderedDict()

    def join(self, ending: Ending) -> None:
        """Give an ending the rows and covers that its prompt's end is known to have, and remember those that it adds."""
        if ending.key:
            ending.known = self._known.setdefault(ending.key, ending.known)
            self._known.move_to_end(ending.key)
            while len(self._known) > MAX_KNOWN or (self._nbytes > KNOWN_BYTES and len(self._known) > 1):
                self._known.popitem(last=False)

    @property
    def _nbytes(self) -> int:
        return sum(known.nbytes for known in self._known.values())

    def behind(self, key: bytes) -> Logits | None:
        """Return the logits, shape (n_vocab,), behind a whole cover, if they are known."""
        if key not in self._behind:
            return None
        self._behind.move_to_end(key)
        return self._behind[key]

    def note_behind(self, key: bytes, logits: Logits) -> None:
        """Remember the logits behind a whole cover, which several branches may have computed."""
        if key not in self._behind:
            self._behind[key] = logits.copy()
            while len(self._behind) > MAX_WHOLE:
                self._behind.popitem(last=False)


def key_of(prompt: Tokens, removed: Sequence[int], scope: Scope, mood: Mood) -> bytes:
    """Return the key of a prompt's rows: a digest of all its tokens and its scope, and of the mood that they are under."""
    digest = hashlib.blake2b(repr((scope, mood)).encode(), digest_size=16)
    digest.update(prompt.tobytes())
    digest.update(tokens_of(removed).tobytes())
    return digest.digest()
