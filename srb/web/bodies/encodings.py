"""A body before its fields: decoded, read in spite of lone surrogates, and with no more entries than are taken."""

import re
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

import brotli
from werkzeug.exceptions import RequestEntityTooLarge

from srb.errors import InvalidRequest, UnsupportedEncoding
from srb.web.loop.yielding import PIECE_BYTES

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

from collections.abc import Collection
from typing import Any, cast

from srb.errors import bad_field
from srb.web.loop.yielding import batches

ACCEPTED = "gzip, deflate, br, zstd"
PIECE = 256 * 1024  # bytes that are decoded at once: a bomb is refused when it exceeds the limit, not when it is over
MAX_LAYERS = 4  # encodings of one body, each of what the one before it made: a client has one, a proxy may add one
MAX_MEMBERS = 1024  # of a gzip or zstd layer: those that are empty cost work, and no byte that counts

_GZIP, _ZLIB, _RAW = 16 + zlib.MAX_WBITS, zlib.MAX_WBITS, -zlib.MAX_WBITS
# A window of 8 MiB at most, as RFC 9659 says: a frame's header may ask for gigabytes.
_ZSTD_WINDOW = {int(zstd.DecompressionParameter.window_log_max): 23}
_ERRORS = (zlib.error, brotli.error, zstd.ZstdError)
_MARK = b"\xef\xbb\xbf"  # UTF-8's byte order mark
MAX_REPAIRS = 1000  # halves of characters that are repaired in one body: clients leave one where they cut a text
_SEARCHED = 4096  # bytes that are looked through for them at once
_LONGEST = 12  # bytes of an escape: that of a pair
_HALF = re.compile(rb"\\u[dD][89a-fA-F]")
# A pair of surrogates, a lone one, or any other escape.
_ESCAPE = re.compile(rb"(?i:(\\ud[89ab]..\\ud[c-f]..)|(\\ud[89a-f][0-9a-f]{2})|\\.)", re.DOTALL)


class _Member(Protocol):
    """A decompressor as those of `bz2`, `lzma` and `compression.zstd`: it keeps what it has not decoded."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int) -> bytes: ...


class _Inflater:
    """zlib's decompressor as a `_Member`."""

    def __init__(self, wbits: int) -> None:
        self._inflating = zlib.decompressobj(wbits)
        self._is_full = False

    @property
    def eof(self) -> bool:
        return self._inflating.eof

    @property
    def needs_input(self) -> bool:
        return not self._is_full

    @property
    def unused_data(self) -> bytes:
        return self._inflating.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        decoded = self._inflating.decompress(self._inflating.unconsumed_tail + data, max_length)
        self._is_full = len(decoded) == max_length  # more may come of what it has, also where no byte is left over
        return decoded


class _Brotli:
    """Brotli's decompressor as a `_Member`. It raises an error itself for bytes that follow the end."""

    unused_data = b""

    def __init__(self) -> None:
        self._decompressor = brotli.Decompressor()

    @property
    def eof(self) -> bool:
        return bool(self._decompressor.is_finished())

    @property
    def needs_input(self) -> bool:
        return bool(self._decompressor.can_accept_more_data())

    def decompress(self, data: bytes, max_length: int) -> bytes:
        return bytes(self._decompressor.process(data, output_buffer_limit=max_length))


def _member(name: str, first_byte: int) -> _Member:
    """Return the decompressor of an encoding, whose data begin with this byte."""
    if name == "zstd":
        return zstd.ZstdDecompressor(options=_ZSTD_WINDOW)
    if name == "br":
        return _Brotli()
    if name == "deflate":  # some clients send it without zlib's header
        return _Inflater(_ZLIB if first_byte & 0x0F == zlib.DEFLATED else _RAW)
    return _Inflater(_GZIP)


class _Layer:
    """An encoding of a body, at most `most` bytes of which are decoded."""

    def __init__(self, name: str, most: float) -> None:
        self._name = name
        self._most = most
        self._member: _Member | None = None
        self._members = self._size = 0

    def decode(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        """Yield what pieces decode to, in pieces that may be empty: between two of them other calls have their turn."""
        for piece in pieces:
            yield b""
            while piece or not (self._member is None or self._member.eof or self._member.needs_input):
                member = self._member = self._next(piece)
                try:
                    decoded = member.decompress(piece, PIECE)
                except _ERRORS as error:
                    raise self._broken(str(error)) from None
                self._size += len(decoded)
                if self._size >= self._most:
                    raise RequestEntityTooLarge
                yield decoded
                piece = member.unused_data if member.eof else b""

    def _next(self, piece: bytes) -> _Member:
        """Return the decompressor that a piece is for: members of gzip and frames of zstd follow each other."""
        if self._member is not None and not self._member.eof:
            return self._member
        if self._member is not None and self._name in ("deflate", "br"):
            raise self._broken("more bytes follow its end")
        self._members += 1
        if self._members > MAX_MEMBERS:
            raise self._broken(f"it has more than {MAX_MEMBERS} members")
        return _member(self._name, piece[0])

    def end(self) -> None:
        """Raise InvalidRequest if the body ended too soon."""
        if self._member is not None and not self._member.eof:
            raise self._broken("it ends too soon")

    def _broken(self, problem: str) -> InvalidRequest:
        return InvalidRequest(f"The body is not valid {self._name}, its Content-Encoding: {problem}")


class Decoder:
    """A body that is decoded as it arrives, piece by piece."""

    def __init__(self, header: str, most: float) -> None:
        """Read the header Content-Encoding; raise UnsupportedEncoding for one that is not in ACCEPTED.

        A layer that decodes to `most` bytes or more raises Werkzeug's 413.
        """
        names = [name.strip().lower() for name in header.split(",")]
        names = [name.replace("x-gzip", "gzip") for name in names if name not in ("", "identity")]
        if len(names) > MAX_LAYERS or not set(names) <= set(ACCEPTED.split(", ")):
            raise UnsupportedEncoding(
                f"Content-Encoding {header[:40]!r} is not understood; send at most {MAX_LAYERS} of {ACCEPTED}, or none"
            )
        self._layers = [_Layer(name, most) for name in reversed(names)]  # the last one was applied last

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """Yield what a piece of the body decodes to, in pieces; raise InvalidRequest for broken data."""
        pieces: Iterable[bytes] = (piece,)
        for layer in self._layers:
            pieces = layer.decode(pieces)
        yield from pieces

    def end(self) -> None:
        """Raise InvalidRequest if the body ended too soon."""
        for layer in self._layers:
            layer.end()


def without_mark(data: bytes) -> bytes:
    """Return a JSON body without a byte order mark, which RFC 8259 lets a reader ignore."""
    return data.removeprefix(_MARK)


def without_lone_surrogates(data: bytes, pause: Callable[[], None] = lambda: None) -> tuple[bytes, int]:
    """Return a JSON body with U+FFFD for each escape of half a character, and the number of them, MAX_REPAIRS at most.

    Pieces without escapes of halves are passed over at once. `pause` is called between pieces, of which each takes a
    millisecond at most.
    """
    if not _has_half(data, pause):
        return data, 0
    made, at, count = bytearray(), 0, 0
    while at < len(data) and count < MAX_REPAIRS:
        window = data[at : at + _SEARCHED + _LONGEST]  # an escape that begins in the first _SEARCHED bytes ends in it
        is_last = at + _SEARCHED >= len(data)
        cut, begin = len(window) if is_last else _SEARCHED, 0
        if _HALF.search(window) is None:
            marks = cut - len(window[:cut].rstrip(b"\\"))
            cut -= 0 if is_last else marks % 2  # the last of an odd number begins an escape
        else:
            for found in _ESCAPE.finditer(window):
                if found.start() >= cut:
                    break
                if found[2] is not None:
                    made += window[begin : found.start()] + rb"\ufffd"
                    begin, count = found.end(), count + 1
                cut = max(cut, found.end())
        made += window[begin:cut]
        at += cut
        pause()
    return bytes(made + data[at:]), count


def _has_half(data: bytes, pause: Callable[[], None]) -> bool:
    for at in range(0, len(data), PIECE_BYTES):
        if _HALF.search(data, at, at + PIECE_BYTES + _LONGEST):
            return True
        pause()
    return False


def wrong_byte(data: bytes, pause: Callable[[], None] = lambda: None) -> str | None:
    """Return where a body is not UTF-8, or None if it is; `pause` is called between pieces."""
    at = 0
    while at < len(data):
        end = at + PIECE_BYTES
        while end < min(len(data), at + PIECE_BYTES + 3) and data[end] & 0xC0 == 0x80:  # within a character
            end += 1
        try:
            data[at:end].decode()
        except UnicodeDecodeError as error:
            wrong = at + error.start
            return f"byte {wrong} is 0x{data[wrong]:02X}, which is not UTF-8 there"
        at = end
        pause()
    return None


MAX_ENTRIES = 8192  # of one list, besides whole numbers, or of one object: each costs µs, and kilobytes in errors
MAX_VALUES = 100_000  # of a body in all: a long chat of an agent has some thousands


def refusal_of(body: Any) -> InvalidRequest | None:
    """Return the error, which names the field, if a parsed body has a longer list or more values than are taken.

    It is asked before a reader or a validator looks at an entry: a body of 4 MiB has room for 1.4 million, each of which
    costs some microseconds, and kilobytes in errors. Token ids are left out: a text may be sent as ids, and checks of whole
    numbers run in C. It is not raised here: as long as it is handled, its traceback would keep the body.
    """
    fields = body.items() if isinstance(body, dict) else [("", body)]
    if len(fields) > MAX_ENTRIES:
        return InvalidRequest(f"The body has {len(fields)} fields; at most {MAX_ENTRIES} are allowed")
    values = 0
    for name, value in fields:
        rest = [value] if isinstance(value, (list, dict)) else []
        while rest:
            each = rest.pop()
            members = _members(each)
            values += len(members)
            if len(members) > MAX_ENTRIES:
                return _problem(name, f"has {len(each)} entries; at most {MAX_ENTRIES} are allowed")
            if values > MAX_VALUES:
                return _problem(name, f"has too many values; a body may have {MAX_VALUES} in all, besides token ids")
            rest += [member for member in members if isinstance(member, (list, dict))]
    return None


def _members(value: Any) -> Collection[Any]:
    """Return the values of an object, or the entries of a list: of a long one those that are no whole numbers.

    Of a list with too many of them the first ones are enough.
    """
    if isinstance(value, dict):
        return value.values()
    if len(value) <= MAX_ENTRIES:
        return cast(list[Any], value)
    others: list[Any] = []
    for batch in batches(value):
        if set(map(type, batch)) != {int}:
            others += [entry for entry in batch if type(entry) is not int]
        if len(others) > MAX_ENTRIES:
            break
    return others


def _problem(name: str, problem: str) -> InvalidRequest:
    return bad_field(name, problem) if name else InvalidRequest(f"The body {problem}")
