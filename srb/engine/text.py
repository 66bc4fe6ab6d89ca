"""A branch's tokens as text: whole characters only, ended by stop strings (never shown), boundaries or indentation."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from srb.engine.boundaries import Finder
from srb.protocol import TokenProbs

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

    def __bool__(self) -> bool:
        return bool(self.text or self.tokens or self.stop or self.is_outdented or self.is_boundary)


@dataclass(slots=True)
class _PendingToken:
    """A token that is not emitted yet; `start` is the position of its text, in characters from the branch's start."""

    token: int
    start: int
    text: str
    prob: Prob | None

    @property
    def end(self) -> int:
        return self.start + len(self.text)


class BranchText:
    """The text of one branch, decoded token by token.

    Incomplete characters are held back, and so is a tail that may be the beginning of a stop string, or may lie behind
    the end of a sentence. Nothing is lost: `finish` emits the rest (a truncated character becomes U+FFFD, as does an
    invalid byte).
    """

    def __init__(self, stops: Sequence[str] = (), n_indent: int = 0, finder: Finder | None = None) -> None:
        """Look for `stops`, for lines after the first that begin with fewer than `n_indent` spaces and tabs, and for the
        end that `finder` finds.
        """
        self._stops = tuple(stop for stop in stops if stop)
        self._longest = max(map(len, self._stops), default=0)
        self._decoder = _Utf8("replace")
        self._tail = ""  # decoded, not emitted
        self._shown = 0  # emitted characters
        self._pending: list[_PendingToken] = []
        self._n_indent = n_indent
        self._finder = finder
        self._finder_start = 0  # position at which the finder's text begins
        self._is_plain = not (self._stops or n_indent or finder)
        self._indent = -1  # of the current line while only spaces and tabs are in it; −1 later, and in the first line

    def push(self, token: int, piece: bytes, prob: Prob | None = None) -> Emission:
        """Add one token's bytes; return the text that may be emitted now."""
        if self._is_plain and not self._pending and piece.isascii() and piece:
            self._shown += len(piece)
            return Emission(piece.decode("ascii"), [token], [prob] if prob else [])
        text = self._decoder.decode(piece)
        if prob:
            prob["token"] = text  # the last token of a character has its text, so that tokens concatenate to the text
        self._pending.append(_PendingToken(token, self._shown + len(self._tail), text, prob))
        edge = self._find_outdent(text)
        stop, at, end = self._find_end(text, edge)
        if end is not None:
            return self._cut(end, is_boundary=True)
        if stop and (edge is None or at <= edge):
            return self._cut(at, stop)
        if edge is not None:
            return self._cut(edge, is_outdented=True)
        return self._release(len(self._tail) - self._held())

    def change_ends(self, stops: Sequence[str], finder: Finder | None) -> None:
        """Look for other stop strings and another boundary from here on; text that is held back may begin the stops."""
        self._stops = tuple(stop for stop in stops if stop)
        self._longest = max(map(len, self._stops), default=0)
        self._finder, self._finder_start = finder, self._shown + len(self._tail)
        self._is_plain = not (self._stops or self._n_indent or finder)

    def finish(self) -> Emission:
        """End the text: emit the rest, or nothing if `push` found the end. A branch that goes on pushes again."""
        broken = self._decoder.decode(b"", final=True)
        if broken and self._pending:
            last = self._pending[-1]
            last.text += broken
            if last.prob:
                last.prob["token"] = last.text
        stop, at, end = self._find_end(broken)
        if end is not None:
            return self._cut(end, is_boundary=True)
        if stop:
            return self._cut(at, stop)
        emission = self._release(len(self._tail))
        emission.tokens += [pending.token for pending in self._pending]
        emission.probs += [pending.prob for pending in self._pending if pending.prob]
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

    def _find_end(self, text: str, edge: int | None = None) -> tuple[str, int, int | None]:
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
        return "", 0, found.end + start

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
        text, self._tail = self._tail[:count], self._tail[count:]
        self._shown += count
        # A token with a part of an incomplete character stands at the very end of the decoded text.
        whole = not self._decoder.getstate()[0]
        total = self._shown + len(self._tail)
        ready = list(takewhile(lambda h: h.end <= self._shown and (whole or h.end < total), self._pending))
        del self._pending[: len(ready)]
        return Emission(text, [h.token for h in ready], [h.prob for h in ready if h.prob])

    def _cut(self, at: int, stop: str = "", is_outdented: bool = False, is_boundary: bool = False) -> Emission:
        """Emit the tail before `at`; a token that reaches beyond keeps only its part before."""
        edge = self._shown + at
        emission = Emission(self._tail[:at], stop=stop, is_outdented=is_outdented, is_boundary=is_boundary)
        for pending in self._pending:
            if pending.start >= edge:
                continue
            emission.tokens.append(pending.token)
            if pending.prob:
                if pending.end > edge:
                    kept = pending.text[: edge - pending.start]
                    pending.prob |= {"token": kept, "bytes": list(kept.encode())}
                emission.probs.append(pending.prob)
        self._shown, self._tail = edge, ""
        self._pending.clear()
        self._decoder.reset()
        return emission
