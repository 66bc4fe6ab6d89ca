"""Marks: the hashes of a text's beginnings, by which a bridge knows the replicas that have computed them.

The marks of one key are its own: what another has written neither draws a text to a replica nor tells that it is known.

Pure: no I/O and no clock.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from hashlib import blake2b, sha1
from itertools import pairwise
from typing import Any

FIRST_MARK = 64  # bytes: the shortest beginning that texts have in common
_FINEST, _FINER = 16, 16  # bytes at least, and parts at most, between two marks: the finer marks of a text's end
_SHORTEST = 8  # bytes: of a text that is known again by what continues it; shorter ones begin too many others
_MOST_BYTES = 256 * 1024  # of a text; a longer beginning is not told from this one
_KEPT = 3  # hashers at a text's last marks: where turns go on, and most edits are

Mark = bytes  # the hash of a beginning
MARK_SIZE = 16  # bytes: two of 200,000 texts share a mark once in 10**28 times


def _ends() -> Iterator[int]:
    end = FIRST_MARK
    while end <= _MOST_BYTES:
        yield end
        end += max(FIRST_MARK, end // 8)


ENDS = tuple(_ends())  # the length of each mark's beginning: 64 bytes apart at first, later an eighth of the length
_PARTS = tuple(pairwise((0, *ENDS)))  # from each mark to the next


class Marks:
    """The marks of one text, each byte of which is hashed once; but for the part before an edit far from its end."""

    def __init__(self, prompt: Sequence[str | int], key: str = "") -> None:
        self._text = b"".join(_bytes(prompt))
        self._key = key
        self._hashers: dict[int, Any] = {}  # at the ends of the last of `coarse`, by their place
        self._finer: dict[int, list[Mark]] = {}

    @cached_property
    def coarse(self) -> list[Mark]:
        """The marks at ENDS, shortest first. A text shorter than FIRST_MARK has one, of the whole; see `openings`."""
        text, running, marks = self._text, _hasher(self._key), []
        update, digest = running.update, running.digest
        number = bisect_right(ENDS, len(text))
        for start, end in _PARTS[: max(0, number - _KEPT)]:
            update(text[start:end])
            marks.append(digest()[:MARK_SIZE])
        for place in range(len(marks), number):
            update(text[slice(*_PARTS[place])])
            marks.append(digest()[:MARK_SIZE])
            self._hashers[place] = running.copy()
        return marks or [self._hash(text)]

    def size(self, number: int) -> int:
        """Return the bytes of the beginning of one of `coarse`."""
        return ENDS[number]

    @property
    def openings(self) -> list[Mark]:
        """The marks of the texts shorter than FIRST_MARK that this one may continue, shortest first."""
        return [self._hash(self._text[:end]) for end in range(_SHORTEST, min(FIRST_MARK, len(self._text)))]

    def finer(self, number: int) -> list[Mark]:
        """Return the marks of the beginnings between one of `coarse` and the next one, or the text's end.

        Only those after a text's last mark are remembered. So its end is known within 16 bytes, or a 16th of the way to the
        next mark, and texts that differ only there are told apart.
        """
        if number not in self._finer:
            self._finer[number] = self._finer_marks(number)
        return self._finer[number]

    def _finer_marks(self, number: int) -> list[Mark]:
        if number + 1 >= len(ENDS):
            return []
        text, start, marks = self._text, ENDS[number], []
        end = min(ENDS[number + 1], len(text) + 1)
        step = max(_FINEST, (ENDS[number + 1] - start) // _FINER)
        if kept := self._hashers.get(number):
            running = kept.copy()
        else:
            running = _hasher(self._key)
            running.update(text[:start])
        update, digest = running.update, running.digest
        for begin in range(start, end - step, step):
            update(text[begin : begin + step])
            marks.append(digest()[:MARK_SIZE])
        return marks

    def _hash(self, text: bytes) -> Mark:
        hasher = _hasher(self._key)
        hasher.update(text)
        return bytes(hasher.digest()[:MARK_SIZE])


class NamedMark:
    """The one mark of something that a client has named, such as a session: its text does not count."""

    openings: Sequence[Mark] = ()

    def __init__(self, *words: str, prompt: Sequence[str | int] = (), mark: Mark = b"") -> None:
        """Mark what has these words as its name; or else give its `mark`, which is known."""
        named = mark or blake2b("\0".join(words).encode(), digest_size=MARK_SIZE, person=b"name").digest()
        self.coarse = [named]
        self._prompt = prompt

    def size(self, number: int) -> int:
        """Return the bytes of the text: who has what is named is taken to have all of it, however long if nobody says."""
        return sum(len(part) if isinstance(part, str) else 1 for part in self._prompt) or _MOST_BYTES

    def finer(self, number: int) -> Sequence[Mark]:
        return ()


def with_media(prompt: Sequence[str | int], media: Sequence[str]) -> list[str | int]:
    """Return a prompt with a hash of each of its files in the file's place (see `Generate`)."""
    hashes = [blake2b(data.encode(), digest_size=MARK_SIZE).hexdigest() for data in media]
    return [hashes[-1 - part] if isinstance(part, int) and part < 0 else part for part in prompt]


def _hasher(key: str) -> Any:
    """Return a new hasher of one key's texts."""
    return _first_hasher(key).copy()


@lru_cache(1000)
def _first_hasher(key: str) -> Any:
    """Return a hasher of SHA-1, which processors compute themselves: an enemy of it could only mislead his own texts."""
    return sha1(blake2b(key.encode(), digest_size=MARK_SIZE).digest(), usedforsecurity=False)


def _bytes(prompt: Sequence[str | int]) -> Iterator[bytes]:
    length = 0
    for part in prompt:
        data = part.encode(errors="surrogatepass") if isinstance(part, str) else b"\xff%d" % part
        yield data
        length += len(data)
        if length > _MOST_BYTES:
            return
