"""Grammars of one vocabulary: compiled, each once, in turns that let no request wait for all grammars of another one."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from typing import TypeVar
from weakref import WeakSet, WeakValueDictionary

from llguidance import LLMatcher

from srb.engine.grammar.gbnf import parse
from srb.engine.grammar.lark import Lark, lark_of
from srb.engine.grammar.limits import LIMITS
from srb.engine.grammar.matcher import Grammar, Matcher, Vocabulary, reason_of
from srb.errors import GrammarTooComplex, QueueFull, bad_field
from srb.progress import FairSemaphore, taken

# Of grammars that are kept, since every turn of a chat has the same tools: bytes of Lark, for each of which llguidance takes
# about 100. 128 tools have up to 300 KiB.
MAX_KEPT_BYTES = 2 * 1024 * 1024
ENTRY_BYTES = 512  # that a grammar of no length counts as, and why there is none
LARGE_BYTES = 8 * 1024  # of Lark; one that is not large takes up to 60 ms to compile, and 128 tools 1 s
MAX_LARGE = 2  # large grammars compiled at once, beside one that is not: more would take the cores that compute tokens
STACK_BYTES = 512 * 2**20  # of a thread that compiles: llguidance recurses, and untouched pages cost nothing
COMPILE_SECONDS = 10  # far more than what the limits leave; a thread that takes longer is given up
MAX_GIVEN_UP = 2  # threads that still compute, each a core for nothing; no more grammars are compiled meanwhile
MAX_ANEW = 16  # grammars compiled anew for texts that have spent a lexer; each may have 100 MB
ATTEMPTS = 2  # to make a text's beginning in time: the first may have been slow since the machine was busy
TRIAL_STEPS = 3  # tokens of a text that a new grammar has to make, so that one that is too complex is refused at once

_Made = TypeVar("_Made")
_starting = threading.Lock()  # the size of a stack is the process's until the thread has begun


class Grammars:
    """The grammars of one vocabulary. Any thread may compile."""

    def __init__(self, vocabulary: Vocabulary, clock: Callable[[], float] = time.thread_time) -> None:
        """`clock` returns the seconds of a processor that the calling thread has had."""
        self._vocabulary = vocabulary
        self.clock = clock
        self._kept: OrderedDict[bytes, _Entry] = OrderedDict()  # by what they are made of; the latest use is last
        self._kept_bytes = 0
        # Of grammars that threads wait for: one of them compiles it.
        self._making: WeakValueDictionary[bytes, threading.Lock] = WeakValueDictionary()
        self._given_up: list[threading.Thread] = []
        self._anew = WeakSet[Grammar]()  # compiled anew for texts that go on in them
        self._lock = threading.Lock()  # guards all of these
        self._small, self._large = FairSemaphore(1), FairSemaphore(MAX_LARGE)

    def make_ready(self) -> None:
        """Make what the first grammar needs; it holds the interpreter's lock, so it is best done before requests come."""
        self._vocabulary.make()

    def matcher(self, grammar: str, schemas: Sequence[str] = (), field: str = "grammar") -> Matcher:
        """Return a matcher at the beginning of a text of GBNF, whose rules `schema-0`, … are of these JSON schemas.

        Raise InvalidRequest, which names `field`, or QueueFull.
        """
        key = blake2b(repr((grammar, *schemas)).encode(), digest_size=32).digest()
        found = self._known(key)
        if found is None:
            with self._lock:
                making = self._making.setdefault(key, threading.Lock())
            with taken(making):
                found = self._known(key)  # another thread may have compiled it
                if found is None:
                    found = self._compiled(lark_of(parse(grammar, len(schemas), field), schemas, field), field)
                    self._keep(key, found)
        if found.grammar is None or found.grammar.problem:
            raise bad_field(field, found.problem if found.grammar is None else found.grammar.problem)
        return Matcher(found.grammar, found.grammar.native.deep_copy())

    def _known(self, key: bytes) -> _Entry | None:
        """Return what is kept and of use; it is now the last to go. Nobody waits here for a grammar that is compiled."""
        with self._lock:
            found = self._kept.get(key)
            if found is None or (found.grammar is not None and found.grammar.is_spent):
                return None
            self._kept.move_to_end(key)
        return found

    def _keep(self, key: bytes, entry: _Entry) -> None:
        with self._lock:
            if before := self._kept.pop(key, None):
                self._kept_bytes -= before.weight
            self._kept[key] = entry
            self._kept_bytes += entry.weight
            while self._kept_bytes > MAX_KEPT_BYTES and len(self._kept) > 1:
                self._kept_bytes -= self._kept.popitem(last=False)[1].weight

    def close(self) -> None:
        """Forget all grammars."""
        with self._lock:
            self._kept.clear()
            self._kept_bytes = 0

    def _compiled(self, lark: Lark, field: str) -> _Entry:
        """Return a grammar that a thread of its own has compiled, or its problem. Raise InvalidRequest or QueueFull."""
        with self._large if len(lark.text) > LARGE_BYTES else self._small:
            made: _Entry | None = self._in_thread(partial(self._compile, lark))
            if made is None:
                raise bad_field(field, f"takes longer than {COMPILE_SECONDS} seconds to become a grammar")
        return made

    def _in_thread(self, compile_one: Callable[[list[_Made | Exception]], None]) -> _Made | None:
        """Return what a thread of its own has compiled; None if it takes too long. Raise its exception, or QueueFull."""
        made: list[_Made | Exception] = []
        with self._lock:
            self._given_up = [thread for thread in self._given_up if thread.is_alive()]
            if len(self._given_up) >= MAX_GIVEN_UP:
                raise QueueFull("the grammars of other requests take too long to compile; try again in a moment")
        thread = threading.Thread(target=compile_one, args=(made,), name="grammar", daemon=True)
        with _starting:
            before = threading.stack_size(STACK_BYTES)
            try:
                thread.start()
            finally:
                threading.stack_size(before)
        thread.join(COMPILE_SECONDS)
        if not made:
            with self._lock:
                self._given_up.append(thread)
            return None
        if isinstance(made[0], Exception):
            raise made[0]
        return made[0]

    def _renewed(self, lark: Lark) -> tuple[Grammar, float]:
        """Return a grammar compiled anew, for a text within it, and the seconds that it took. It waits for no turn.

        Raise GrammarTooComplex.
        """
        if len(self._anew) >= MAX_ANEW:
            raise GrammarTooComplex(f"the grammar is too complex: {MAX_ANEW} texts have grammars of their own already")
        try:
            made: tuple[Grammar, float] | None = self._in_thread(partial(self._compile_anew, lark))
        except QueueFull as error:
            raise GrammarTooComplex(error.message) from None
        if made is None:
            raise GrammarTooComplex(
                f"the grammar is too complex: compiling it anew takes over {COMPILE_SECONDS} seconds"
            )
        self._anew.add(made[0])
        return made

    def _compile_anew(self, lark: Lark, made: list[tuple[Grammar, float] | Exception]) -> None:
        try:
            began = self.clock()
            grammar = self._grammar_of(lark, is_shared=False)
            made.append((grammar, self.clock() - began))
        except Exception as error:  # raised by the thread that waits
            made.append(error)

    def _grammar_of(self, lark: Lark, is_shared: bool = True) -> Grammar:
        native = LLMatcher(self._vocabulary.native, lark.text, log_level=0, limits=LIMITS)
        return Grammar(native, self._vocabulary, lark, self.clock, partial(self._renewed, lark), is_shared)

    def _compile(self, lark: Lark, made: list[_Entry | Exception]) -> None:
        try:
            # What took too long once is compiled and measured anew: a machine that stands still for a moment looks alike.
            for _ in range(ATTEMPTS):
                grammar = self._grammar_of(lark)
                if grammar.native.is_error():
                    made.append(_Entry(problem=f"cannot be used as a grammar: {reason_of(grammar.native)}"))
                    return
                problem = self._problem(Matcher(grammar, grammar.native.deep_copy()))
                if not grammar.problem:
                    break
            made.append(_Entry(problem=problem) if problem else _Entry(grammar, weight=ENTRY_BYTES + len(lark.text)))
        except Exception as error:  # raised by the thread that waits
            made.append(error)

    def _problem(self, trial: Matcher) -> str:
        """Begin a text. Return why there is none; "" if there is."""
        try:
            for step in range(TRIAL_STEPS):
                allowed = trial.allowed
                if not len(allowed) and not step:
                    return "allows no text"
                if not len(allowed) or (token := int(allowed[0])) in self._vocabulary.ends:
                    break
                trial.accept(token)
        except GrammarTooComplex as error:
            return error.message
        return ""


@dataclass(frozen=True, slots=True)
class _Entry:
    """A grammar that was compiled, or why there is none."""

    grammar: Grammar | None = None
    problem: str = ""
    weight: int = ENTRY_BYTES
