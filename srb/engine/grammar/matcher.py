"""Matcher: where a text stands in a grammar, by llguidance.

Ends of text are no part of a grammar: a text may end where the grammar does, whichever of the vocabulary's ends comes.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Callable, Sequence, Set
from functools import cached_property, partial
from itertools import takewhile
from typing import Protocol, TypeVar
from weakref import ReferenceType, ref

import numpy as np
import numpy.typing as npt
from llguidance import LLMatcher, LLTokenizer, TokenizerWrapper

from srb.engine.grammar.lark import TOKEN_CHARS, Lark
from srb.engine.grammar.limits import CALL_SECONDS, FREE_SECONDS, SHARE_SECONDS, TOKEN_SECONDS
from srb.engine.grammar.recursion import DEEPER
from srb.errors import GrammarDeadEnd, GrammarTooComplex

MAX_REASON = 300  # characters; some errors have all of a regular expression, and a client and the log are told it
LEXER_ERROR = "lexer error"  # the beginning of such a reason
REFUSED = "doesn't satisfy the grammar"  # of a token that may come: the lexer was spent by it
DEAD_ENDS = ("NoExtension", "NoExtensionBias")  # errors of llguidance where no token is left

_FIRST_BYTE = DEEPER.encode()[0]
_PRIVATE = re.compile(f"([{TOKEN_CHARS[0]}-{DEEPER}])")
_BITS = np.arange(32, dtype=np.uint32)
_Made = TypeVar("_Made")


class Grammar:
    """A compiled grammar, which all matchers in it share."""

    def __init__(
        self,
        native: LLMatcher,
        vocabulary: Vocabulary,
        lark: Lark,
        clock: Callable[[], float],
        compile_anew: Callable[[], tuple[Grammar, float]],
        is_shared: bool = True,
    ) -> None:
        """`compile_anew` returns another one like this, with nothing made, and the seconds of a processor that it took.

        `is_shared`: requests begin texts in it, and these share the first that is compiled anew; where that is spent, too,
        each text has one of its own, since a long text may need most of a lexer.
        """
        self.native = native  # at the beginning of a text
        self._compile_anew = compile_anew
        self.is_shared = is_shared
        self.vocabulary = vocabulary
        self.clock = clock
        self.has_levels = lark.has_levels
        self.aliases = dict(zip(lark.tokens, vocabulary.aliases, strict=False))  # of tokens that it names
        self.named = {alias: token for token, alias in self.aliases.items()}
        self.problem = ""  # why no text goes on in it: a call took so long that no other one is risked
        self.is_spent = False  # its lexer, which all texts share, has made as many states as it may
        self._successor: ReferenceType[Grammar] | None = None

    def renewed(self) -> tuple[Grammar, float]:
        """Return the grammar in which texts of this one, whose lexer is spent, go on, and the seconds to compile it.

        Raise GrammarTooComplex.
        """
        successor = self._successor() if self._successor is not None else None
        if successor is not None and not successor.is_spent:
            return successor, 0.0
        successor, seconds = self._compile_anew()
        if self.is_shared:
            self._successor = ref(successor)  # which its texts alone keep alive: a lexer may have 100 MB
        return successor, seconds


class Matcher:
    """A place in a grammar. Any thread may use it, one at a time."""

    def __init__(self, grammar: Grammar, native: LLMatcher) -> None:
        self._grammar = grammar
        self._native = native
        self._vocabulary = grammar.vocabulary
        self._accepted: list[int] = []  # tokens as llguidance has them, ends not counted
        self._alone_at = -1  # the length at which this text got a grammar of its own
        self.seconds = 0.0  # of a processor that all calls took
        self._num_accepted = 0  # tokens that were accepted, those that were taken back included
        self._allowed: npt.NDArray[np.intp] | None = None  # the mask of this place, if it is known

    def __repr__(self) -> str:
        return f"<Matcher after {self.length} tokens{', accepting' if self._native.is_accepting() else ''}>"

    def copy(self) -> Matcher:
        """Return a matcher at the same place, which goes on by itself."""
        copy = Matcher(self._grammar, self._native.deep_copy())
        copy._accepted, copy._alone_at = self._accepted.copy(), self._alone_at
        copy.seconds, copy._num_accepted = self.seconds, self._num_accepted
        return copy

    @property
    def length(self) -> int:
        """The number of accepted tokens, ends not counted."""
        return len(self._accepted)

    @property
    def named(self) -> Set[int]:
        """The tokens that the grammar names by their ids."""
        return self._grammar.aliases.keys()

    @property
    def is_quick(self) -> bool:
        """Whether its tokens have taken so little time that it never waits for other grammars."""
        return self.seconds < SHARE_SECONDS * self._num_accepted

    def allows(self, token: int) -> bool:
        """Whether a token may come next. Raise GrammarTooComplex."""
        self._make_ready()
        if token in self._vocabulary.ends and token not in self._grammar.aliases:
            return self._native.is_accepting()
        return self._number(token) is not None or token in self.allowed

    def takes(self, tokens: Sequence[int]) -> bool:
        """Whether all of these tokens, none of which is an end, may come one after the other. Raise GrammarTooComplex."""
        self._make_ready()
        if self._timed(lambda: self._native.validate_tokens(list(tokens))) == len(tokens):
            return True
        trial = self.copy()
        try:
            for token in tokens:
                if not trial.allows(token):
                    return False
                trial.accept(token)
            return True
        finally:
            self.seconds = trial.seconds

    def accept(self, token: int) -> None:
        """Go on by a token. Raise GrammarDeadEnd for one that may not come, and GrammarTooComplex."""
        if not self.allows(token):
            raise GrammarDeadEnd("the text so far does not fit the grammar")
        number = self._number(token)
        if number is None and token in self._vocabulary.ends:
            return
        if number is None or not self._timed(lambda: self._native.consume_token(number)):
            self._renew(self._native)
            self.accept(token)
            return
        self._accepted.append(number)
        self._num_accepted += 1
        self._allowed = None

    def rewind(self, count: int) -> None:
        """Go back by `count` accepted tokens, ends not counted. Raise GrammarTooComplex."""
        self._make_ready()
        if count and not self._native.rollback(count):
            raise AssertionError(f"{self!r} cannot go back by {count} tokens")
        del self._accepted[self.length - count :]
        self._alone_at = -1
        self._allowed = None

    def _number(self, token: int) -> int | None:
        """Return a token that may come next, or its alias, as llguidance has it.

        None for one that it refuses at once, which it does also when the work of its last mask is spent.
        """
        alias = self._grammar.aliases.get(token)
        for number in (token,) if alias is None else (alias, token):
            if number in self._vocabulary.unwritten:
                continue
            if self._timed(partial(self._native.validate_tokens, [number])) == 1:
                return number
        return None

    @property
    def allowed(self) -> npt.NDArray[np.intp]:
        """The tokens that may come next, in the tokenization that the model knows: ids, ascending, shape (n,).

        Raise GrammarTooComplex.
        """
        self._make_ready()
        while self._allowed is None:
            if isinstance(made := self._timed(self._masked), LLMatcher):
                self._renew(made)
            else:
                self._allowed = made
        return self._allowed

    def _masked(self) -> npt.NDArray[np.intp] | LLMatcher:
        """Return the tokens that may come next, or what has failed to find them."""
        vocabulary = self._vocabulary
        mask = np.zeros(len(vocabulary.tokens) // 32 + 1, np.uint32)
        copy = self._native.deep_copy()  # which may fail where no token is left, and then never goes on
        copy.unsafe_compute_mask_ptr(mask.ctypes.data, mask.nbytes)
        if not copy.is_error():
            self._native = copy  # with the states that it has made, and room for as much work again
        elif reason_of(copy) not in DEAD_ENDS:
            return copy
        mask &= vocabulary.written
        numbers = _numbers(mask)
        size = int(np.searchsorted(numbers, vocabulary.size))
        tokens, others = numbers[:size], numbers[size:].tolist()
        if self._grammar.has_levels and vocabulary.deeper in others:
            raise _too_complex("rules that refer to each other nest too deeply here")
        named = [self._grammar.named[alias] for alias in others if alias in self._grammar.named]
        # Those whose texts are not allowed already.
        if named := [token for token in named if not mask[token // 32] >> token % 32 & 1]:
            tokens = np.concatenate((tokens, np.array(named, np.intp)))
        if not self._native.is_accepting():
            return tokens
        return np.concatenate((tokens[~np.isin(tokens, vocabulary.end_list)], vocabulary.end_list))

    @property
    def forced(self) -> list[int]:
        """The tokens that have to come next, as far as the grammar leaves no choice; [] where it does."""
        self._make_ready()
        named, size = self._grammar.named, self._vocabulary.size
        tokens = (named.get(token, token) for token in self._timed(self._native.compute_ff_tokens))
        return list(takewhile(lambda token: token < size, tokens))

    def _renew(self, failed: LLMatcher) -> None:
        """Go on in a grammar compiled anew if the lexer, which all texts share, is what ended a call.

        Raise GrammarTooComplex where it is another limit.
        """
        reason = reason_of(failed)
        if not reason.startswith(LEXER_ERROR) and REFUSED not in reason:
            raise _too_complex(reason)
        self._leave(reason)
        self._make_ready()

    def _leave(self, reason: str) -> None:
        """Note that the lexer is spent. Raise GrammarTooComplex where this text alone needs too much at its place."""
        if self._alone_at == self.length:
            raise _too_complex(reason)
        self._grammar.is_spent = True

    def _make_ready(self) -> None:
        """Leave a grammar whose lexer is spent, by this text or another one: it would refuse what it has no states for.

        Raise GrammarTooComplex.
        """
        while self._grammar.is_spent:
            is_own = not self._grammar.is_shared
            self._grammar, seconds = self._grammar.renewed()
            self.seconds += seconds
            if is_own:
                self._alone_at = self.length
            self._native, self._allowed = self._grammar.native.deep_copy(), None
            for number in self._accepted:
                if not self._timed(partial(self._native.consume_token, number)):
                    self._leave(reason_of(self._native))
                    break
        self._check()

    def _check(self) -> None:
        if self._grammar.problem:
            raise GrammarTooComplex(self._grammar.problem)

    def _timed(self, call: Callable[[], _Made]) -> _Made:
        """Return what a call into llguidance returns. Raise GrammarTooComplex if it, or all of the text's, took too long.

        A call cannot be interrupted, and one that took long is not made again: other texts of the grammar end, too, and
        later ones do not begin. A text whose calls are many ends alone, and so does one at whose place llguidance's own
        limits end a call: the others' calls are bounded as well.
        """
        collects = gc.isenabled()
        gc.disable()  # garbage of the whole process may take 0.1 s, for which no grammar is to blame
        began = self._grammar.clock()
        try:
            made = call()
        finally:
            took = self._grammar.clock() - began
            self.seconds += took
            if took > CALL_SECONDS:
                self._grammar.problem = _too_complex(f"a token took {took * 1000:.0f} ms").message
            if collects:
                gc.enable()
        self._check()
        if self.seconds > FREE_SECONDS + TOKEN_SECONDS * self._num_accepted:
            took_ms, each_ms = self.seconds * 1000, TOKEN_SECONDS * 1000
            raise _too_complex(
                f"{self._num_accepted} tokens took {took_ms:.0f} ms, and {each_ms:.0f} ms each are taken"
            )
        return made


def _numbers(mask: npt.NDArray[np.uint32]) -> npt.NDArray[np.intp]:
    """Return the numbers of the bits that are set, ascending, of a mask of shape (words,), its lowest bits first."""
    words = mask.nonzero()[0]
    if len(words) * 4 > len(mask):  # few words are read bit by bit sooner than all
        return np.unpackbits(mask.view(np.uint8), bitorder="little").nonzero()[0]
    found: npt.NDArray[np.intp] = (words[:, None] * 32 + _BITS)[(mask[words, None] >> _BITS & 1).astype(bool)]
    return found


class Tokens(Protocol):
    """The vocabulary of a model, as the Model protocol has it."""

    n_vocab: int

    def piece(self, token: int, special: bool = False) -> bytes: ...
    def is_eog(self, token: int) -> bool: ...
    def tokenize(self, text: str, add_special: bool, parse_special: bool) -> list[int]: ...


class Vocabulary:
    """A vocabulary as llguidance has it; it is made when the first grammar needs it, which takes up to two seconds.

    Control tokens have their text, since grammars of tool calls name them. The end of text is a token more than the
    vocabulary has, so a mask has none of the vocabulary's own. Behind it stand DEEPER and aliases of tokens that a grammar
    names, with private characters as their texts.
    """

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self.size = tokens.n_vocab
        self.deeper = self.size + 1
        self.aliases = range(self.size + 2, self.size + 2 + len(TOKEN_CHARS))

    @cached_property
    def ends(self) -> frozenset[int]:
        """The tokens that end a text."""
        return frozenset(filter(self._tokens.is_eog, range(self.size)))

    @cached_property
    def end_list(self) -> npt.NDArray[np.intp]:
        return np.array(sorted(self.ends), np.intp)

    @cached_property
    def written(self) -> npt.NDArray[np.uint32]:
        """A mask of all tokens but those in `unwritten`, shape (n_vocab // 32 + 1,): a bit a token, the lowest first."""
        bits = np.ones((len(self.tokens) // 32 + 1) * 32, np.uint8)
        bits[list(self.unwritten)] = 0
        return np.packbits(bits, bitorder="little").view(np.uint32)

    def make(self) -> None:
        """Make all of it."""
        self.native, self.end_list, self.written, self._by_piece, self._longest_piece  # noqa: B018  # are made when read

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
        own = (piece or b"\xff[%d]" % token for token, piece in enumerate(pieces))
        return [*own, b"\xff[end]", *(char.encode() for char in (DEEPER, *TOKEN_CHARS))]

    @cached_property
    def unwritten(self) -> frozenset[int]:
        """The tokens with bytes of private characters, which no text of a grammar has, and ends."""
        return self.ends.union(token for token in range(self.size) if _FIRST_BYTE in self.tokens[token])

    def __call__(self, text: str) -> list[int]:
        """Return the tokens of a text that stands within another: some tokenizers put a space before any text."""
        return [token for part in _PRIVATE.split(text) for token in self._of_text(part)]

    def _of_text(self, text: str) -> list[int]:
        data = text.encode()
        if _FIRST_BYTE in data or not data:
            return self._longest(data)
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


def _too_complex(reason: str) -> GrammarTooComplex:
    return GrammarTooComplex(f"the grammar is too complex: {reason}")


def reason_of(native: LLMatcher) -> str:
    """Return the first line of an error, which may quote the grammar; what could write lines of a log is left out.

    Where a schema is at fault its place in Lark, which nobody has written, is left out, too.
    """
    line = re.sub(r"^at \d+\(\d+\): failed to compile JSON schema: ", "", native.get_error().partition("\n")[0])
    return "".join(filter(str.isprintable, line))[:MAX_REASON] or "no reason given"
