"""A branch's tokens as text: whole characters only, stop strings found across tokens and never shown."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

_Utf8 = codecs.getincrementaldecoder("utf-8")
Prob = dict[str, Any]


@dataclass(slots=True)
class Emission:
    """Text that may be shown now and the tokens whose text ends in it."""

    text: str = ""
    tokens: list[int] = field(default_factory=list)
    probs: list[Prob] = field(default_factory=list)
    stop: str = ""  # the stop string that was found, which ends the branch
    is_outdented: bool = False  # a line is indented too little, which ends the branch

    def __bool__(self) -> bool:
        return bool(self.text or self.tokens or self.stop or self.is_outdented)


@dataclass(slots=True)
class _Held:
    """A token that is not yet shown; `start` is where its text begins, in characters from the branch's start."""

    token: int
    start: int
    text: str
    prob: Prob | None

    @property
    def end(self) -> int:
        return self.start + len(self.text)


class BranchText:
    """Decode one branch incrementally.

    Bytes that do not yet make a character are held back, and so is a tail that may be the beginning of a stop string.
    Nothing is lost: `finish` releases what is held (a truncated character becomes U+FFFD, as does an invalid byte).
    """

    def __init__(self, stops: Sequence[str] = (), n_indent: int = 0) -> None:
        """Look for `stops`, and for lines after the first with fewer than `n_indent` spaces and tabs before them."""
        self._stops = tuple(stop for stop in stops if stop)
        self._longest = max(map(len, self._stops), default=0)
        self._decoder = _Utf8("replace")
        self._tail = ""  # decoded, not shown
        self._shown = 0  # characters
        self._held: list[_Held] = []
        self._n_indent = n_indent
        self._indent = -1  # of the line that has just begun; −1 once something else stands in it, and in the first

    def push(self, token: int, piece: bytes, prob: Prob | None = None) -> Emission:
        """Take one token's bytes; return what may be shown now."""
        if not self._stops and not self._n_indent and not self._held and piece.isascii() and piece:
            self._shown += len(piece)
            return Emission(piece.decode("ascii"), [token], [prob] if prob else [])
        text = self._decoder.decode(piece)
        if prob:
            prob["token"] = text  # so that the tokens of a character, of which the last has it, make up the text
        self._held.append(_Held(token, self._shown + len(self._tail), text, prob))
        edge = self._find_outdent(text)
        self._tail += text
        stop, at = self._find_stop()
        if stop and (edge is None or at <= edge):
            return self._cut(at, stop)
        if edge is not None:
            return self._cut(edge, is_outdented=True)
        return self._release(len(self._tail) - self._possible_stop())

    def finish(self) -> Emission:
        """End the text: release everything that is held; nothing where `push` found the end. Call once."""
        broken = self._decoder.decode(b"", final=True)
        if broken and self._held:
            last = self._held[-1]
            last.text += broken
            if last.prob:
                last.prob["token"] = last.text
        self._tail += broken
        stop, at = self._find_stop()
        if stop:
            return self._cut(at, stop)
        emission = self._release(len(self._tail))
        emission.tokens += [held.token for held in self._held]
        emission.probs += [held.prob for held in self._held if held.prob]
        self._held.clear()
        return emission

    def _find_outdent(self, text: str) -> int | None:
        """Return where, in the tail with `text` appended, a line begins that is indented too little."""
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

    def _find_stop(self) -> tuple[str, int]:
        """Return the stop string that ends first in the tail, and where it begins."""
        found = [(at + len(stop), at, stop) for stop in self._stops if (at := self._tail.find(stop)) >= 0]
        if not found:
            return "", 0
        _, at, stop = min(found)
        return stop, at

    def _possible_stop(self) -> int:
        """Return how many characters at the tail's end may be the beginning of a stop string."""
        for size in range(min(self._longest - 1, len(self._tail)), 0, -1):
            ending = self._tail[-size:]
            if any(stop.startswith(ending) for stop in self._stops):
                return size
        return 0

    def _release(self, count: int) -> Emission:
        """Show `count` characters of the tail, with every held token whose characters are complete and shown."""
        text, self._tail = self._tail[:count], self._tail[count:]
        self._shown += count
        # A token whose bytes still wait for the rest of a character stands at the very end of what is decoded.
        whole = not self._decoder.getstate()[0]
        total = self._shown + len(self._tail)
        ready = list(takewhile(lambda h: h.end <= self._shown and (whole or h.end < total), self._held))
        del self._held[: len(ready)]
        return Emission(text, [h.token for h in ready], [h.prob for h in ready if h.prob])

    def _cut(self, at: int, stop: str = "", is_outdented: bool = False) -> Emission:
        """Show what stands before `at` in the tail; a token that reaches beyond it keeps only its part before."""
        edge = self._shown + at
        emission = Emission(self._tail[:at], stop=stop, is_outdented=is_outdented)
        for held in self._held:
            if held.start >= edge:
                continue
            emission.tokens.append(held.token)
            if held.prob:
                if held.end > edge:
                    kept = held.text[: edge - held.start]
                    held.prob |= {"token": kept, "bytes": list(kept.encode())}
                emission.probs.append(held.prob)
        self._shown, self._tail = edge, ""
        self._held.clear()
        self._decoder.reset()
        return emission
