"""Checks of media files by their headers, before native code decodes them: kind, size, and no decompression bombs.

llama.cpp's decoders (stb_image, miniaudio) allocate as a header says, so a file that announces, or unpacks to, more than
the limits is refused here.
"""

import struct
import zlib
from enum import StrEnum

MAX_PIXELS = 40_000_000  # 120 MB as RGB, which decoding takes in memory; a phone's photo has 12 to 24 million
MAX_SIDE = 32_768  # any of 16,384 (WebP's limit) to 65,535 (JPEG's) would do
MAX_SECONDS = 1800  # of sound; 115 MB as samples at 16 kHz
MAX_MP3_BYTES = 6 * 2**20  # at the lowest bit rate 64 bytes of samples each
MAX_TAGS = 16  # before an MP3's sound; each is skipped by its own length, and files have one or two
MAX_SCANS = 100  # of a JPEG; each visits all of its pixels

_PNG = b"\x89PNG\r\n\x1a\n"
_PNG_CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
_FRAMES = {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}  # JPEG markers before a frame's size
_WAV_FORMATS = {1, 3, 6, 7}  # samples of a fixed size


# Formats that no decoder here reads, by their brands and by the bytes at their beginning: an error names them.
_BRANDS = {
    **dict.fromkeys((b"avif", b"avis"), "a picture in AVIF"),
    **dict.fromkeys((b"heic", b"heix", b"hevc", b"heim", b"heis", b"mif1", b"msf1"), "a picture in HEIC"),
}
_OTHERS = {
    b"II*\0": "a picture in TIFF",
    b"MM\0*": "a picture in TIFF",
    b"II+\0": "a picture in TIFF",
    b"MM\0+": "a picture in TIFF",
    b"\xff\x0a": "a picture in JPEG XL",
    b"\0\0\0\x0cJXL ": "a picture in JPEG XL",
    b"\0\0\0\x0cjP  ": "a picture in JPEG 2000",
    b"\xff\x4f\xff\x51": "a picture in JPEG 2000",
    b"8BPS": "a picture in PSD",
    b"\0\0\1\0": "a picture in ICO",
    b"%PDF-": "a document in PDF",
    b"\x1aE\xdf\xa3": "a video or sound in Matroska or WebM",
}
MAX_BRANDS = 256  # bytes of the list of an ISO file's brands that are read
MAX_PROLOGUE = 4096  # bytes before `<svg`: a declaration and comments


class MediaKind(StrEnum):
    IMAGE = "image"
    AUDIO = "audio"


def kind_of(data: bytes, reads_webp: bool = False) -> MediaKind:
    """Return the kind of a media file, with `reads_webp` also of a picture in WebP. Raise ValueError as `type_of` does."""
    if reads_webp and is_webp(data):
        check_webp(data)
        return MediaKind.IMAGE
    return MediaKind(type_of(data).partition("/")[0])


def type_of(data: bytes) -> str:
    """Return the media type of a file whose header is sound, such as `image/png`, by its bytes alone.

    Pictures are PNG, JPEG, GIF and BMP, sounds WAV, MP3 and FLAC. Raise ValueError, which fits after "Field 'x': ", for
    other formats, damaged headers, and files beyond the limits.
    """
    try:
        return _inspect(data)
    except (struct.error, IndexError, zlib.error):
        raise ValueError("is damaged: its header cannot be read") from None


def _inspect(data: bytes) -> str:
    if data.startswith(_PNG):
        _check_png(data)
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        _check_jpeg(data)
        return "image/jpeg"
    if data.startswith((b"GIF87a", b"GIF89a")):
        _check_size(*struct.unpack_from("<HH", data, 6))
        return "image/gif"
    if data.startswith(b"BM"):
        _check_bmp(data)
        return "image/bmp"
    if data[:4] == b"RIFF" and data[8:12] == b"WAVE":
        _check_wav(data)
        return "audio/wav"
    if data.startswith(b"fLaC", at := _after_tags(data)):
        packed = int.from_bytes(data[at + 18 : at + 26], "big")  # 20 bits rate, 3 + 5 bits, 36 bits samples
        _check_seconds(packed & (2**36 - 1), packed >> 44)
        return "audio/flac"
    if data.startswith(b"OggS", at):
        raise ValueError("is a sound in Ogg, which is not supported")
    if data.startswith(b"ID3") or (len(data) > 1 and data[0] == 0xFF and data[1] & 0xE0 == 0xE0):
        if len(data) > MAX_MP3_BYTES:
            raise ValueError(f"has {len(data)} bytes of MP3; at most {MAX_MP3_BYTES} are taken")
        return "audio/mpeg"
    known = f"is {name}, which is not supported; it " if (name := _other_format(data)) else ""
    raise ValueError(f"{known}should be a picture (PNG, JPEG, GIF, BMP) or a sound (WAV, MP3, FLAC)")


def is_webp(data: bytes) -> bool:
    """Whether a file is a picture in WebP."""
    return data[:4] == b"RIFF" and data[8:12] == b"WEBP"


def check_webp(data: bytes) -> None:
    """Raise ValueError for a picture in WebP whose header is damaged or gives a size beyond the limits."""
    form = data[12:16]
    try:
        if form == b"VP8X":  # 24 bits each, less one
            width, height = (int.from_bytes(data[at : at + 3], "little") + 1 for at in (24, 27))
            whole = len(data) >= 30
        elif form == b"VP8L" and data[20] == 0x2F:  # 14 bits each, less one
            (bits,) = struct.unpack_from("<I", data, 21)
            width, height, whole = (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1, True
        else:  # the first frame of VP8 begins with its size, 14 bits each
            start, width, height = struct.unpack_from("<3sHH", data, 23)
            width, height, whole = width & 0x3FFF, height & 0x3FFF, form == b"VP8 " and start == b"\x9d\x01\x2a"
    except (struct.error, IndexError):
        whole = False
    if not whole:
        raise ValueError("is damaged: its header cannot be read")
    _check_size(width, height)


def _other_format(data: bytes) -> str:
    """Return what a file is that no decoder reads, as its sender may know it; "" for what is not known here."""
    if data[4:8] == b"ftyp":  # ISO 14496-12: a file names its own brand, and those that it is compatible with
        size = min(int.from_bytes(data[:4], "big"), MAX_BRANDS)
        brands = {data[8:12], *(data[at : at + 4] for at in range(16, size, 4))}
        return next((name for brand, name in _BRANDS.items() if brand in brands), "a video or sound in MP4")
    if data[:4] == b"RIFF":
        return "a picture in WebP" if is_webp(data) else "a video in AVI" if data[8:12] == b"AVI " else ""
    if name := next((name for begin, name in _OTHERS.items() if data.startswith(begin)), ""):
        return name
    begin = data[:MAX_PROLOGUE].removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    return "a picture in SVG" if begin.startswith(b"<") and b"<svg" in begin else ""


def _after_tags(data: bytes) -> int:
    """Return where a sound begins after its ID3 tags, which the decoder of FLAC skips, too. Raise ValueError for many."""
    at = 0
    for _ in range(MAX_TAGS):
        if not data.startswith(b"ID3", at) or len(data) < at + 10:
            return at
        size = sum((byte & 0x7F) << shift for byte, shift in zip(data[at + 6 : at + 10], (21, 14, 7, 0), strict=True))
        at += 10 + size + (10 if data[at + 5] & 0x10 else 0)
    raise ValueError(f"has more than {MAX_TAGS} ID3 tags")


def _check_size(width: int, height: int) -> None:
    if width <= 0 or height <= 0:
        raise ValueError(f"is damaged: it has {width} × {height} pixels")
    if width * height > MAX_PIXELS or max(width, height) > MAX_SIDE:
        limit = f"at most {MAX_PIXELS:,} pixels are taken, and {MAX_SIDE:,} a side"
        raise ValueError(f"has {width} × {height} pixels; {limit}")


def _check_seconds(samples: int, rate: int) -> None:
    if samples <= 0 or rate <= 0:
        raise ValueError("is damaged, or has no sound: its header gives no length")
    if samples > MAX_SECONDS * rate:
        raise ValueError(f"has {samples / rate:.0f} seconds of sound; at most {MAX_SECONDS} are taken")


def _check_png(data: bytes) -> None:
    """Raise ValueError for a PNG beyond the limits, damaged, or whose compressed data are not as long as its pixels."""
    length, name, width, height, depth, color, *_, interlaced = struct.unpack_from(">I4sIIBBBBB", data, 8)
    if length != 13 or name != b"IHDR" or color not in _PNG_CHANNELS:
        raise ValueError("is damaged: its header cannot be read")
    _check_size(width, height)
    lines = 2 * height + 8 if interlaced else height  # each line has a byte of its own; passes round up
    most = height * ((width * depth * _PNG_CHANNELS[color] + 7) // 8 + 1) + (lines * 8 if interlaced else 0)
    unpacker, total, at = zlib.decompressobj(), 0, 8
    while at + 8 <= len(data):
        length, name = struct.unpack_from(">I4s", data, at)
        if name == b"IDAT" and not unpacker.eof:
            part = data[at + 8 : at + 8 + length]
            while part and total <= most:
                total += len(unpacker.decompress(part, 2**20))
                part = unpacker.unconsumed_tail
            if total > most:
                raise ValueError("unpacks to more than its header says")
        at += length + 12
        if name == b"IEND":
            break
    if not unpacker.eof:
        raise ValueError("is damaged: its pixels end too soon")


def _check_bmp(data: bytes) -> None:
    start, header = struct.unpack_from("<II", data, 10)
    width, height, _, bits = struct.unpack_from("<iiHH" if header > 12 else "<HHHH", data, 18)
    _check_size(width, abs(height))
    is_packed = header > 12 and struct.unpack_from("<I", data, 30)[0] not in (0, 3)
    if not is_packed and len(data) < start + (width * bits + 31) // 32 * 4 * abs(height):
        raise ValueError("is damaged: its pixels end too soon")


def _check_jpeg(data: bytes) -> None:
    at = 2
    while True:
        while data[at + 1] == 0xFF:  # fill bytes
            at += 1
        marker, (length,) = data[at + 1], struct.unpack_from(">H", data, at + 2)
        if data[at] != 0xFF or marker in (0xD9, 0xDA) or length < 2:
            raise ValueError("is damaged: it has no size")
        if marker in _FRAMES:
            height, width = struct.unpack_from(">HH", data, at + 5)
            _check_size(width, height)
            break
        at += 2 + length
    if data.rfind(b"\xff\xd9") < data.find(b"\xff\xda", at) or b"\xff\xda" not in data:
        raise ValueError("is damaged: its pixels end too soon")
    if data.count(b"\xff\xda") > MAX_SCANS:
        raise ValueError(f"has more than {MAX_SCANS} scans")


def _check_wav(data: bytes) -> None:
    at, rate, frame = 12, 0, 0
    while True:
        name, length = struct.unpack_from("<4sI", data, at)
        at += 8
        if name == b"fmt ":
            form, channels, rate, _, frame, bits = struct.unpack_from("<HHIIHH", data, at)
            if form == 0xFFFE:  # the true form follows
                (form,) = struct.unpack_from("<H", data, at + 24)
            if form not in _WAV_FORMATS or frame * 8 != channels * bits or not frame:
                raise ValueError("is a WAV of a form that is not supported; plain samples (PCM or float) are")
        elif name == b"data":
            if length > len(data) - at or not frame:
                raise ValueError(f"is damaged: it announces {length} bytes of sound, and has {len(data) - at}")
            _check_seconds(length // frame, rate)
            return
        at += length + length % 2
