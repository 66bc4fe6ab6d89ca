"""Matcher: where a text stands in a grammar, by llguidance. And the grammars of one vocabulary, compiled.

Ends of text are no part of a grammar: a text may end where the grammar does, whichever of the vocabulary's ends comes.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt
from llguidance import LLMatcher, LLParserLimits, LLTokenizer, TokenizerWrapper

from srb.engine.grammar.gbnf import parse
from srb.engine.grammar.lark import lark_of
from srb.errors import GrammarDeadEnd, GrammarTooComplex, bad_field

MAX_KEPT = 64  # compiled grammars: every turn of a chat has the same tools
STACK_BYTES = (
    512 * 2**20
)  # of the thread that compiles: llguidance recurses, and pages that it does not touch cost nothing
# Of llguidance. A lexer of 200,000 takes about 40 ms to refuse; one mask of 50,000 items 0.2 s at most.
LIMITS = LLParserLimits(initial_lexer_fuel=200_000, step_lexer_fuel=50_000, step_max_items=50_000, verbose_errors=False)
TRIAL_STEPS = 3  # tokens of a text that a new grammar has to make, so that one that is too complex is refused at once

DEAD_ENDS = ("NoExtension", "NoExtensionBias")  # errors of llguidance where no token is left

_BITS = np.arange(32, dtype=np.uint32)


class Matcher:
    """A place in a grammar. Any thread may use it, one at a time."""

    def __init__(self, native: LLMatcher, vocabulary: Vocabulary, length: int = 0) -> None:
        self._native = native
        self._vocabulary = vocabulary
        self.length = length  # accepted tokens, ends not counted

    def __repr__(self) -> str:
        return f"<Matcher after {self.length} tokens{', accepting' if self._native.is_accepting() else ''}>"

    def copy(self) -> Matcher:
        """Return a matcher at the same place, which goes on by itself."""
        return Matcher(self._native.deep_copy(), self._vocabulary, self.length)

    def allows(self, token: int) -> bool:
        """Whether a token may come next."""
        if token in self._vocabulary.ends:
            return self._native.is_accepting()
        return self._native.validate_tokens([token]) == 1

    def takes(self, tokens: Sequence[int]) -> bool:
        """Whether all of these tokens, none of which is an end, may come one after the other."""
        return self._native.validate_tokens(list(tokens)) == len(tokens)

    def accept(self, token: int) -> None:
        """Go on by a token. Raise GrammarDeadEnd for one that may not come, and GrammarTooComplex."""
        if not self.allows(token):
            self._check()
            raise GrammarDeadEnd("the text so far does not fit the grammar")
        if token not in self._vocabulary.ends:
            self._native.consume_token(token)
            self._check()
            self.length += 1

    def rewind(self, count: int) -> None:
        """Go back by `count` accepted tokens, ends not counted."""
        if count and not self._native.rollback(count):
            raise AssertionError(f"{self!r} cannot go back by {count} tokens")
        self.length -= count

    @property
    def allowed(self) -> npt.NDArray[np.intp]:
        """The tokens that may come next, in the tokenization that the model knows. Raise GrammarTooComplex."""
        mask = np.zeros(self._vocabulary.size // 32 + 1, np.uint32)
        copy = self._native.deep_copy()  # which may fail where no token is left, and then never goes on
        copy.unsafe_compute_mask_ptr(mask.ctypes.data, mask.nbytes)
        if copy.is_error() and _reason(copy) not in DEAD_ENDS:
            raise GrammarTooComplex(f"the grammar is too complex at this place: {_reason(copy)}")
        words = mask.nonzero()[0]  # few: most masks are either nearly empty or nearly full
        tokens = (words[:, None] * 32 + _BITS)[(mask[words, None] >> _BITS & 1).astype(bool)]
        tokens = tokens[tokens < self._vocabulary.size]
        return np.concatenate((tokens, self._vocabulary.end_list)) if self._native.is_accepting() else tokens

    def _check(self) -> None:
        """Raise GrammarTooComplex if llguidance has given up; this matcher then never goes on."""
        if self._native.is_error():
            raise GrammarTooComplex(f"the grammar is too complex at this place: {_reason(self._native)}")


class Tokens(Protocol):
    """The vocabulary of a model, as the Model protocol has it."""

    n_vocab: int

    def piece(self, token: int, special: bool = False) -> bytes: ...
    def is_eog(self, token: int) -> bool: ...
    def tokenize(self, text: str, add_special: bool, parse_special: bool) -> list[int]: ...


class Vocabulary:
    """A vocabulary as llguidance has it; it is made when the first grammar needs it, which takes up to two seconds.

    Control tokens have their text, since grammars of tool calls name them. The end of text is a token more than the
    vocabulary has, so a mask has none of the vocabulary's own.
    """

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self.size = tokens.n_vocab

    @cached_property
    def ends(self) -> frozenset[int]:
        """The tokens that end a text."""
        return frozenset(filter(self._tokens.is_eog, range(self.size)))

    @cached_property
    def end_list(self) -> npt.NDArray[np.intp]:
        return np.array(sorted(self.ends), np.intp)

    @cached_property
    def native(self) -> LLTokenizer:
        return LLTokenizer(TokenizerWrapper(self), eos_token=self.eos_token_id)

    # llguidance's interface of a tokenizer

    bos_token_id = None

    @property
    def eos_token_id(self) -> int:
        return self.size

    @cached_property
    def tokens(self) -> list[bytes]:
        """The bytes of each token; those of tokens without a text stand for no text."""
        pieces = [b"" if self._tokens.is_eog(token) else self._tokens.piece(token, True) for token in range(self.size)]
        return [*(piece or b"\xff[%d]" % token for token, piece in enumerate(pieces)), b"\xff[end]"]

    def __call__(self, text: str) -> list[int]:
        """Return the tokens of a text that stands within another: some tokenizers put a space before any text."""
        data = text.encode()
        for before in ("", "\n"):
            tokens = self._tokens.tokenize(before + text, add_special=False, parse_special=False)
            size = sum(len(self._tokens.piece(token)) for token in tokens)
            while size > len(data):
                size -= len(self._tokens.piece(tokens.pop(0)))
            if b"".join(map(self._tokens.piece, tokens)) == data:
                return tokens
        return self._longest(data)

    def _longest(self, data: bytes) -> list[int]:
        """Return the longest token that data begins with, and so on. A mask would be wrong if the bytes were not these."""
        tokens = []
        while data:
            ends = range(min(len(data), self._longest_piece), 0, -1)
            piece = next(data[:end] for end in ends if data[:end] in self._by_piece)
            tokens.append(self._by_piece[piece])
            data = data[len(piece) :]
        return tokens

    @cached_property
    def _by_piece(self) -> dict[bytes, int]:
        return {piece: token for token, piece in enumerate(self.tokens)}

    @cached_property
    def _longest_piece(self) -> int:
        return max(map(len, self.tokens))


class Grammars:
    """The grammars of one vocabulary. Any thread may compile; one at a time does."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._kept: dict[tuple[str, tuple[str, ...]], Matcher] = {}
        self._lock = threading.Lock()

    @cached_property
    def _thread(self) -> ThreadPoolExecutor:
        """The thread that compiles."""
        before = threading.stack_size(STACK_BYTES)
        try:
            pool = ThreadPoolExecutor(1, "grammar")
            pool.submit(int).result()  # starts it
        finally:
            threading.stack_size(before)
        return pool

    def matcher(self, grammar: str, schemas: Sequence[str] = (), field: str = "grammar") -> Matcher:
        """Return a matcher at the beginning of a text of GBNF, whose rules `schema-0`, … are of these JSON schemas.

        Raise InvalidRequest, which names `field`.
        """
        key = (grammar, tuple(schemas))
        with self._lock:
            matcher = self._kept.pop(key, None)
            if matcher is None:
                matcher = self._thread.submit(self._compiled, grammar, schemas, field).result()
            self._kept[key] = matcher
            if len(self._kept) > MAX_KEPT:
                del self._kept[next(iter(self._kept))]
        return matcher.copy()

    def close(self) -> None:
        """Forget all grammars and end the thread."""
        self._kept.clear()
        if "_thread" in self.__dict__:
            self._thread.shutdown()

    def _compiled(self, grammar: str, schemas: Sequence[str], field: str) -> Matcher:
        lark = lark_of(parse(grammar, len(schemas), field), schemas)
        native = LLMatcher(self._vocabulary.native, lark, log_level=0, limits=LIMITS)
        if native.is_error():
            raise bad_field(field, f"cannot be used as a grammar: {_reason(native)}")
        matcher = Matcher(native, self._vocabulary)
        try:
            self._try(matcher.copy(), field)
        except GrammarTooComplex as error:
            raise bad_field(field, error.message) from None
        return matcher

    def _try(self, trial: Matcher, field: str) -> None:
        """Begin a text. Raise GrammarTooComplex or InvalidRequest."""
        for step in range(TRIAL_STEPS):
            allowed = trial.allowed
            if not len(allowed) and not step:
                raise bad_field(field, "allows no text")
            if not len(allowed) or (token := int(allowed[0])) in self._vocabulary.ends:
                break
            trial.accept(token)


def _reason(native: LLMatcher) -> str:
    """Return the first line of an error, which may quote the grammar; what could write lines of a log is left out."""
    return "".join(filter(str.isprintable, native.get_error().partition("\n")[0]))
