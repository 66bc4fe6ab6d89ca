"""A branch's tokens as text: whole characters only, ended by stop strings (never shown), boundaries or indentation.

Banned strings and patterns are found across tokens, and their tokens taken back before anything of them is shown.
"""

import codecs
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from srb.engine.banned import MAX_LENGTH, START, Banned, Entry, Match, Reading, stands
from srb.engine.boundaries import Finder, Found
from srb.wire.events import TokenProbs

_CLEAN = (b"", 0)  # state of a decoder that waits for no byte
_Utf8 = codecs.getincrementaldecoder("utf-8")
Prob = TokenProbs


@dataclass(slots=True)
class Emission:
    """Text that may be emitted now, and the tokens whose text ends in it."""

    text: str = ""
    tokens: list[int] = field(default_factory=list)
    probs: list[Prob] = field(default_factory=list)
    stop: str = ""  # the stop string that ended the branch
    is_outdented: bool = False  # whether a line with too little indentation ended the branch
    is_boundary: bool = False  # whether the end of a word, line, sentence or paragraph ended the branch
    rewind: int = 0  # number of last tokens taken back: with them a banned text began and was completed
    # Of several tokens: where the text of each ends in `text`.
    ends: list[int] = field(default_factory=list, compare=False)

    @classmethod
    def of(cls, text: str, ready: "Sequence[_PendingToken]", start: int) -> "Emission":
        """Return the emission of a text that begins at `start`, and of the tokens that end in it."""
        probs = [each.prob for each in ready if each.prob]
        return cls(text, [each.token for each in ready], probs, ends=[each.end - start for each in ready])

    def parts(self) -> "Iterator[Emission]":
        """Yield an emission for each token that has probabilities; the last one has the text that is left."""
        if len(self.tokens) < 2 or len(self.probs) < len(self.tokens):
            yield self
            return
        begin = 0
        for token, prob, end in zip(self.tokens[:-1], self.probs, self.ends, strict=False):
            yield Emission(self.text[begin:end], [token], [prob])
            begin = max(begin, end)
        yield Emission(self.text[begin:], self.tokens[-1:], self.probs[-1:])

    def __bool__(self) -> bool:
        return bool(self.text or self.tokens or self.stop or self.is_outdented or self.is_boundary)


_NOTHING = Emission()


@dataclass(slots=True)
class _Before:
    """The state before a token, to which a rewind returns: of the decoder, what is banned, indentation and finder."""

    decoder: tuple[bytes, int]
    banned: Reading
    indent: int
    finder: tuple[Finder, dict[str, Any]] | None = None


@dataclass(frozen=True, slots=True)
class TextState:
    """A branch's text before a token, to which it can return."""

    before: _Before
    tail: str
    shown: int
    pending: "list[_PendingToken]"
    num_held: int

    @property
    def position(self) -> int:
        """Number of characters before the token."""
        return self.shown + len(self.tail)


@dataclass(slots=True)
class _PendingToken:
    """A token that is not emitted yet; `start` is the position of its text, in characters from the branch's start."""

    token: int
    start: int
    text: str
    prob: Prob | None
    before: _Before | None = None  # only where something is banned

    @property
    def end(self) -> int:
        return self.start + len(self.text)


class BranchText:
    """The text of one branch, decoded token by token.

    Incomplete characters are held back, and so is a tail that may be the beginning of a stop string, or may lie behind
    the end of a sentence. Nothing is lost: `finish` emits the rest (a truncated character becomes U+FFFD, as does an
    invalid byte, unless the text may go on). Tokens in which a banned text may begin are held back whole; when one is
    complete, `push` takes them back, and `take_back_end` those of one that the text's end completes.
    """

    def __init__(
        self,
        stops: Sequence[str] = (),
        n_indent: int = 0,
        finder: Finder | None = None,
        banned: Banned | None = None,
        kept: Sequence[str] = (),
        seed: int = 0,
    ) -> None:
        """Look for `stops`, for lines after the first that begin with fewer than `n_indent` spaces and tabs, and for the
        end that `finder` finds. Emit nothing of `banned` but matches that stand with `seed`, and of the stop strings only
        those that are `kept`.
        """
        self._stops = tuple(stop for stop in stops if stop)
        self._longest = max(map(len, self._stops), default=0)
        self._kept = kept
        self._decoder = _Utf8("replace")
        self._tail = ""  # decoded, not emitted
        self._shown = 0  # emitted characters
        self.is_cut = False  # whether an end was found, and the text after it dropped
        self._pending: list[_PendingToken] = []
        self._n_indent = n_indent
        self._finder = finder
        self._finder_start = 0  # position at which the finder's text begins
        self._indent = -1  # of the current line while only spaces and tabs are in it; −1 later, and in the first line
        self._fresh = vars(finder).copy() if finder else {}  # the finder's state at `_finder_start`
        self._banned = banned
        self._seed = seed
        self.lets_stand = False  # whether matches with a weight stand, all of them
        self._reading = START  # of what is banned, at the end of the tail
        self.num_held = 0  # last tokens that a rewind may take back
        self._choose_path()

    def _choose_path(self) -> None:
        """Note whether tokens need no look at all, or only that of the finder."""
        watches = bool(self._stops or self._n_indent)
        self._is_plain = not (watches or self._finder)
        self._lone_finder = None if watches or self._banned else self._finder

    def follow(self, text: str) -> None:
        """Take a text as emitted before the first token: a banned text may begin in it."""
        if self._banned is not None:
            self._reading = self._banned.read_all(text[-MAX_LENGTH - 1 :])

    def push(self, token: int, piece: bytes, prob: Prob | None = None) -> Emission:
        """Add one token's bytes; return the text that may be emitted now."""
        if self._is_plain and piece.isascii() and piece:
            if self._banned is None:
                if not self._pending:
                    self._shown += len(piece)
                    return Emission(piece.decode("ascii"), [token], [prob] if prob else [])
            elif not self._decoder.getstate()[0]:
                return self._push_watched(token, piece.decode("ascii"), prob)
        elif (
            (finder := self._lone_finder)
            and not self._pending
            and piece
            and piece.isascii()
            and finder.skip(text := piece.decode("ascii"))
        ):
            self._shown += len(text)
            return Emission(text, [token], [prob] if prob else [])
        before = self._before() if self._banned else None
        text = self._decoder.decode(piece)
        if prob:
            prob["token"] = text  # the last token of a character has its text, so that tokens concatenate to the text
        self._pending.append(_PendingToken(token, self._shown + len(self._tail), text, prob, before))
        edge = self._find_outdent(text)  # this and the next before `_find_end`, which adds the text to the tail
        end, size = self._read_on(text)
        end += len(self._tail)
        stop, at, found = self._find_end(text, edge)
        # A banned text is taken back unless the text has ended for certain before it is complete.
        is_first = (not stop or end < at + len(stop)) and (edge is None or end <= edge)
        if size and is_first and (found is None or end < found.decided or end <= found.end):
            return self._take_back(end - size)
        is_stop = bool(stop) and (edge is None or at <= edge)
        cut = found.end if found is not None else self._behind(at, stop) if is_stop else edge
        if cut is None:
            return self._release(min(len(self._tail) - self._held(), self._hold()))
        if size := self._size_at_end(cut):
            return self._take_back(cut - size)
        if found is not None:
            return self._cut(cut, is_boundary=True)
        return self._cut(cut, stop) if is_stop else self._cut(cut, is_outdented=True)

    def _push_watched(self, token: int, text: str, prob: Prob | None) -> Emission:
        """Push a token where nothing but what is banned is looked for, and no character is incomplete."""
        reading_before = self._reading
        end, size = self._read_on(text)
        pending, at = self._pending, len(self._tail)
        probs = [prob] if prob else []
        if not self._reading.depth and not size:
            self.num_held = 0
            self._shown += at + len(text)
            if not pending:
                return Emission(text, [token], probs)
            start = self._shown - at - len(text)
            pending.append(_PendingToken(token, start + at, text, prob))
            emission = Emission.of(self._tail + text, pending, start)
            self._tail = ""
            pending.clear()
            return emission
        before = _Before(_CLEAN, reading_before, self._indent)
        if not pending and not size:  # the common case: the token is held back
            pending.append(_PendingToken(token, self._shown, text, prob, before))
            self._tail, self.num_held = text, 1
            return _NOTHING
        pending.append(_PendingToken(token, self._shown + at, text, prob, before))
        self._tail += text
        if size:
            return self._take_back(at + end - size)
        return self._release(self._hold())

    def state(self) -> TextState:
        """Return the state before the next token."""
        return TextState(self._before(), self._tail, self._shown, list(self._pending), self.num_held)

    def return_to(self, state: TextState) -> None:
        """Return to an earlier state, as if the tokens since then had never been; changed ends stay changed."""
        self._tail, self._shown, self._pending = state.tail, state.shown, state.pending
        self.num_held, self.is_cut = state.num_held, False
        self._return_to(state.before)

    def change_ends(self, stops: Sequence[str], finder: Finder | None, kept: Sequence[str] = ()) -> None:
        """Look for other stop strings and another boundary from here on; text that is held back may begin the stops."""
        self._stops = tuple(stop for stop in stops if stop)
        self._longest = max(map(len, self._stops), default=0)
        self._kept = kept
        self._finder, self._finder_start = finder, self._shown + len(self._tail)
        self._fresh = vars(finder).copy() if finder else {}
        self._choose_path()

    def finish(self, may_go_on: bool = False) -> Emission:
        """End the text: emit the rest, or nothing if `push` found the end. A branch that goes on pushes again.

        With `may_go_on` an incomplete character and its tokens are still held back, for the tokens that may complete it.
        """
        broken = "" if may_go_on else self._decoder.decode(b"", final=True)
        if broken and self._banned:
            reading = self._reading
            if self._read_on(broken)[1]:  # it would complete a banned text
                broken, self._reading = "", reading
        if broken and self._pending:
            last = self._pending[-1]
            last.text += broken
            if last.prob:
                last.prob["token"] = last.text
        self.num_held = 0
        stop, at, found = self._find_end(broken)
        if found is not None:
            return self._cut(found.end, is_boundary=True)
        if stop:
            return self._cut(self._behind(at, stop), stop)
        if self._size_at_end(len(self._tail)):
            return self._cut(len(self._tail))
        emission = self._release(len(self._tail))
        if may_go_on:
            return emission
        emission.tokens += [pending.token for pending in self._pending]
        emission.probs += [pending.prob for pending in self._pending if pending.prob]
        emission.ends += [len(emission.text)] * len(self._pending)
        self._pending.clear()
        return emission

    def _find_outdent(self, text: str) -> int | None:
        """Return the position, in the tail plus `text`, where a line with too little indentation begins; else None."""
        if not self._n_indent:
            return None
        for place, char in enumerate(text):
            if self._indent >= 0 and char in " \t":
                self._indent += 1
            elif 0 <= self._indent < self._n_indent:
                return len(self._tail) + place
            else:
                self._indent = 0 if char == "\n" else -1
        return None

    def take_back_end(self) -> int:
        """Take back the tokens of a banned text that is complete if the text ends here; return how many."""
        if not self._reading.depth or not (size := self._size_at_end(len(self._tail))):
            return 0
        return self._take_back(len(self._tail) - size, num_new=0).rewind

    def take_back_token(self) -> int:
        """Take back the last token that is held back; return how many that are: 1 or 0."""
        return self._take_back_from(len(self._pending) - 1, num_new=0).rewind if self.num_held else 0

    def let_stand(self) -> bool:
        """Let all matches with a weight stand from here on; return whether that changes anything."""
        has_weights = self._banned is not None and any(entry.weight for entry in self._banned.entries)
        changes, self.lets_stand = has_weights and not self.lets_stand, True
        return changes

    def _before(self) -> _Before:
        finder = (self._finder, vars(self._finder).copy()) if self._finder else None
        return _Before(self._decoder.getstate(), self._reading, self._indent, finder)

    def _read_on(self, text: str) -> tuple[int, int]:
        """Read `text`, which follows the tail; return the end in it of a banned text, and that one's length, or (0, 0)."""
        if self._banned is None:
            return 0, 0
        at = 0
        while True:
            self._reading, end, matches = self._banned.read(self._reading, text[at:] if at else text)
            if not matches:
                return 0, 0
            at += end
            if size := self._size_of(matches, len(self._tail) + at):
                return at, size

    def _size_of(self, matches: Iterable[Match], end: int) -> int:
        """Return the length of the shortest match that does not stand, of those that are known at `end` of the tail."""
        assert self._banned is not None
        entries, at = self._banned.entries, self._shown + end
        return min(
            (match.shortest for match in matches if not self._stands(entries[match.entry], at - match.longest)),
            default=0,
        )

    def _stands(self, entry: Entry, start: int) -> bool:
        return (self.lets_stand and entry.weight > 0) or stands(entry, self._seed, start)

    def _size_at_end(self, end: int) -> int:
        """Return the length of a banned text that is complete if the text ends at `end` of the tail; 0: none is."""
        banned, pending = self._banned, self._pending
        if banned is None or not banned.has_conditions or not pending:
            return 0
        first = pending[0]
        assert first.before is not None
        text = "".join(each.text for each in pending)[: self._shown + end - first.start]
        return self._size_of(banned.at_end(banned.read_all(text, first.before.banned)), end)

    def _hold(self) -> int:
        """Count the tokens in which a banned text may begin; return the tail's length before the first of them."""
        depth = self._reading.depth
        if not depth:
            self.num_held = 0
            return len(self._tail)
        place = len(self._pending) - 1
        if self._pending[place].start > self._shown + len(self._tail) - depth:  # seldom: it begins in an earlier token
            place = self._token_at(len(self._tail) - depth)
        place = self._held_with(place)
        self.num_held = len(self._pending) - place
        return self._pending[place].start - self._shown

    def _held_with(self, place: int) -> int:
        """Return the first token that is held back with the one at `place`: the text before might have to end there."""
        banned = self._banned
        while place and banned is not None and banned.has_conditions:
            held = self._pending[place]
            assert held.before is not None
            at = held.start - self._shown
            size = self._size_of(banned.at_end(held.before.banned), at)
            if not size or (first := self._token_at(at - size)) >= place:
                break
            place = first
        return place

    def _token_at(self, at: int, num_new: int = 1) -> int:
        """Return the place in `_pending` of the token with the last byte of the tail's character `at`, or of the first held.

        A text may have been emitted that could not begin a banned text, until tokens after it were taken back. The last
        `num_new` tokens are not counted as held yet.
        """
        first = len(self._pending) - num_new - self.num_held
        return max(first, bisect_right(self._pending, self._shown + at, key=lambda pending: pending.end))

    def _take_back(self, at: int, num_new: int = 1) -> Emission:
        """Take back the token in which the banned text at `at` begins, and those after it."""
        return self._take_back_from(self._token_at(at, num_new), num_new)

    def _take_back_from(self, place: int, num_new: int) -> Emission:
        first = self._pending[place]
        assert first.before is not None
        count = len(self._pending) - place
        del self._pending[place:]
        self._tail = self._tail[: first.start - self._shown]
        self.num_held -= count - num_new
        self._return_to(first.before)
        return Emission(rewind=count)

    def _return_to(self, before: _Before) -> None:
        """Return to the state before a token; tail and number of shown characters are those of then."""
        self._decoder.setstate(before.decoder)
        self._reading, self._indent = before.banned, before.indent
        if self._finder is not None:
            self._rewind_finder(self._finder, before.finder)

    def _rewind_finder(self, finder: Finder, before: tuple[Finder, dict[str, Any]] | None) -> None:
        """Bring the finder to its state before a token, or to its beginning if it came after the token."""
        state = self._fresh
        if before is not None and before[0] is finder:
            state = before[1]
        else:
            self._finder_start = self._shown + len(self._tail)
        vars(finder).clear()
        vars(finder).update(state)

    def _find_end(self, text: str, edge: int | None = None) -> tuple[str, int, Found | None]:
        """Add `text` to the tail; return a stop string and its position as `_find_stop`, and the finder's end or None.

        The finder's end counts only if it was certain before the stop string was complete, and not after the character
        at `edge`.
        """
        self._tail += text
        stop, at = self._find_stop()
        found = self._finder.push(text) if self._finder and text else None
        if not found:
            return stop, at, None
        start = self._finder_start - self._shown
        decided = found.decided + start
        if (stop and at + len(stop) <= decided) or (edge is not None and edge < decided - 1):
            return stop, at, None
        return "", 0, Found(found.end + start, decided)

    def _find_stop(self) -> tuple[str, int]:
        """Return the stop string that ends first in the tail, and its position; ("", 0) if there is none."""
        found = [(at + len(stop), at, stop) for stop in self._stops if (at := self._tail.find(stop)) >= 0]
        if not found:
            return "", 0
        _, at, stop = min(found)
        return stop, at

    def _held(self) -> int:
        """Return the number of characters at the tail's end that may not be shown yet."""
        return max(self._possible_stop(), self._finder.held if self._finder else 0)

    def _possible_stop(self) -> int:
        """Return the number of characters at the tail's end that may begin a stop string."""
        for size in range(min(self._longest - 1, len(self._tail)), 0, -1):
            ending = self._tail[-size:]
            if any(stop.startswith(ending) for stop in self._stops):
                return size
        return 0

    def _release(self, count: int) -> Emission:
        """Emit `count` characters of the tail, with every pending token whose text is complete and emitted."""
        if not count and self._pending and self._pending[0].text:
            return Emission()
        text, self._tail = self._tail[:count], self._tail[count:]
        start, self._shown = self._shown, self._shown + count
        # A token with a part of an incomplete character stands at the very end of the decoded text.
        whole = not self._decoder.getstate()[0]
        if whole and not self._tail:
            ready, self._pending = self._pending, []
            return Emission.of(text, ready, start)
        total = self._shown + len(self._tail)
        ready = list(takewhile(lambda h: h.end <= self._shown and (whole or h.end < total), self._pending))
        del self._pending[: len(ready)]
        return Emission.of(text, ready, start)

    def _behind(self, at: int, stop: str) -> int:
        """Return where a text ends that a stop string at `at` of the tail ends: behind it if it stays."""
        return at + len(stop) if stop in self._kept else at

    def _cut(self, at: int, stop: str = "", is_outdented: bool = False, is_boundary: bool = False) -> Emission:
        """Emit the tail before `at`; a token beyond keeps only its part before.

        A banned text that ends there is dropped, and so is one that ends where that began.
        """
        while at > 0 and (size := self._size_at_end(at)):
            at = max(0, at - size)
        edge = self._shown + at
        emission = Emission(self._tail[:at], stop=stop, is_outdented=is_outdented, is_boundary=is_boundary)
        for pending in self._pending:
            if pending.start >= edge:
                continue
            emission.tokens.append(pending.token)
            emission.ends.append(min(pending.end, edge) - self._shown)
            if pending.prob:
                if pending.end > edge:
                    kept = pending.text[: edge - pending.start]
                    pending.prob |= {"token": kept, "bytes": list(kept.encode())}
                emission.probs.append(pending.prob)
        self._shown, self._tail, self.is_cut = edge, "", True
        self.num_held = 0
        self._pending.clear()
        self._decoder.reset()
        return emission
