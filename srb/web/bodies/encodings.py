"""Encodings of a body: its bytes as they were before a client compressed them, and its JSON in spite of lone surrogates."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator

from srb.errors import InvalidRequest, UnsupportedEncoding

ACCEPTED = "gzip, deflate"
PIECE = 256 * 1024  # bytes that are decoded at once: a bomb is refused when it exceeds the limit, not when it is over

_GZIP_OR_ZLIB, _RAW = 32 + zlib.MAX_WBITS, -zlib.MAX_WBITS
_MARK = b"\xef\xbb\xbf"  # UTF-8's byte order mark
# A pair of surrogates, a lone one, or any other escape.
_ESCAPE = re.compile(rb"(?i:(\\ud[89ab]..\\ud[c-f]..)|(\\ud[89a-f][0-9a-f]{2})|\\.)", re.DOTALL)


class Decoder:
    """A body that is decoded as it arrives, piece by piece."""

    def __init__(self, header: str) -> None:
        """Read the header Content-Encoding; raise UnsupportedEncoding for one that is not in ACCEPTED."""
        names = [name.strip().lower() for name in header.split(",")]
        names = [name for name in names if name not in ("", "identity")]
        self._name = names[0] if names else ""
        if len(names) > 1 or self._name not in ("", "gzip", "x-gzip", "deflate"):
            raise UnsupportedEncoding(
                f"Content-Encoding {header[:40]!r} is not understood; send {ACCEPTED} or no encoding"
            )
        self._inflating = zlib.decompressobj(_GZIP_OR_ZLIB)
        self._has_begun = False

    @property
    def is_needed(self) -> bool:
        return bool(self._name)

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """Yield what a piece of the body decodes to, in pieces; raise InvalidRequest for broken data."""
        if not self._has_begun and self._name == "deflate" and piece[0] & 0x0F != zlib.DEFLATED:
            self._inflating = zlib.decompressobj(_RAW)  # as some clients send it, without zlib's header
        self._has_begun = True
        while piece:
            try:
                decoded = self._inflating.decompress(piece, PIECE)
            except zlib.error as error:
                raise self._broken(str(error)) from None
            yield decoded
            piece = self._inflating.unconsumed_tail
            if self._inflating.eof:
                piece = self._inflating.unused_data
                if piece and self._name == "deflate":
                    raise self._broken("more bytes follow its end")
                if piece:  # gzip's members follow each other
                    self._inflating = zlib.decompressobj(_GZIP_OR_ZLIB)

    def end(self) -> None:
        """Raise InvalidRequest if the body ended too soon."""
        if self._has_begun and not self._inflating.eof:
            raise self._broken("it ends too soon")

    def _broken(self, problem: str) -> InvalidRequest:
        return InvalidRequest(f"The body is not valid {self._name}, its Content-Encoding: {problem}")


def without_mark(data: bytes) -> bytes:
    """Return a JSON body without a byte order mark, which RFC 8259 lets a reader ignore."""
    return data.removeprefix(_MARK)


def without_lone_surrogates(data: bytes) -> tuple[bytes, int]:
    """Return a JSON body with U+FFFD for each escape of half a character, and the number of them."""
    count = 0

    def replaced(found: re.Match[bytes]) -> bytes:
        nonlocal count
        if found[2] is None:
            return found[0]
        count += 1
        return rb"\ufffd"

    return _ESCAPE.sub(replaced, data), count


def wrong_byte(data: bytes) -> str | None:
    """Return where a body is not UTF-8, or None if it is."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return f"byte {error.start} is 0x{data[error.start]:02X}, which is not UTF-8 there"
    return None
