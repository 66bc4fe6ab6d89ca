"""Media files are refused by their headers before anything is decoded."""

from __future__ import annotations

import struct

import pytest

from srb.files.media_files import MAX_PIXELS, MAX_SECONDS, kind_of
from tests.media import bmp, png, wav

JPEG = (
    b"\xff\xd8\xff\xe0\x00\x04\x00\x00"
    b"\xff\xc0\x00\x0b\x08" + struct.pack(">HH", 480, 640) + b"\x01\x01\x11\x00\xff\xda\x00\xff\xd9"
)
GIF = b"GIF89a" + struct.pack("<HH", 3, 5) + b"\0\0\0"
FLAC = b"fLaC\x80\x00\x00\x22" + bytes(10) + (16000 << 44 | 15 << 36 | 16000).to_bytes(8, "big") + bytes(16)


TAG = b"ID3\x04\0\0\0\0\0\x01a"


@pytest.mark.parametrize("data", [png(), png(1, 1), png(300, 200), bmp(), JPEG, GIF])
def test_pictures_are_known_by_their_first_bytes(data: bytes) -> None:
    assert kind_of(data) == "image"


@pytest.mark.parametrize(
    "data", [wav(), wav(0.1, 44100), FLAC, TAG + FLAC, b"ID3\x04" + bytes(100), b"\xff\xfb\x90\x00" + bytes(99)]
)
def test_sounds_are_known_by_their_first_bytes(data: bytes) -> None:
    assert kind_of(data) == "audio"


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (b"RIFF\0\0\0\0WEBPVP8 ", "a picture in WebP"),
        (b"\0\0\0\x18ftypheic\0\0\0\0mif1heic", "a picture in HEIC"),
        (b"\0\0\0\x1cftypmif1\0\0\0\0mif1avifmiaf", "a picture in AVIF"),
        (b"\0\0\0\x18ftypisom\0\0\0\0isommp42", "a video or sound in MP4"),
        (b"II*\0\x08\0\0\0", "a picture in TIFF"),
        (b"MM\0*\0\0\0\x08", "a picture in TIFF"),
        (b'<?xml version="1.0"?>\n<!-- a -->\n<svg xmlns="http://www.w3.org/2000/svg"/>', "a picture in SVG"),
        (b"\xff\x0a\xfa\x1f", "a picture in JPEG XL"),
        (b"%PDF-1.7", "a document in PDF"),
    ],
)
def test_a_format_that_is_not_read_is_named(data: bytes, name: str) -> None:
    with pytest.raises(ValueError, match=f"is {name}, which is not supported; it should be a picture \\(PNG"):
        kind_of(data)


@pytest.mark.parametrize("data", [b"", b"%PDF-1.7", b"RIFF\0\0\0\0WEBPVP8 ", b"hello", bytes(1000)])
def test_other_files_are_refused_with_the_formats_that_are_taken(data: bytes) -> None:
    with pytest.raises(ValueError, match="should be a picture"):
        kind_of(data)


def test_a_picture_that_would_fill_the_memory_is_refused_by_its_header() -> None:
    with pytest.raises(ValueError, match="50000 × 50000 pixels; at most"):
        kind_of(png(50_000, 50_000, raw=b""))
    with pytest.raises(ValueError, match="pixels; at most"):
        kind_of(GIF[:6] + struct.pack("<HH", 65535, 65535) + GIF[10:])
    with pytest.raises(ValueError, match="pixels; at most"):
        kind_of(JPEG.replace(struct.pack(">HH", 480, 640), struct.pack(">HH", 60000, 60000)))
    assert MAX_PIXELS < 50_000**2


def test_a_picture_that_unpacks_to_more_than_its_header_says_is_refused() -> None:
    with pytest.raises(ValueError, match="unpacks to more"):
        kind_of(png(4, 4, raw=bytes(50_000_000)))


@pytest.mark.parametrize("cut", [9, 20, 30, 45, 60])
def test_a_picture_that_ends_too_soon_is_damaged(cut: int) -> None:
    with pytest.raises(ValueError, match="is damaged"):
        kind_of(png(8, 8)[:cut])
    with pytest.raises(ValueError, match="is damaged"):
        kind_of(bmp(8, 8)[: cut + 20])
    with pytest.raises(ValueError, match="is damaged"):
        kind_of(JPEG[:-1])


def test_a_jpeg_without_a_size_or_of_too_many_scans_is_refused() -> None:
    with pytest.raises(ValueError, match="is damaged"):
        kind_of(JPEG[:6])
    with pytest.raises(ValueError, match="is damaged: it has no size"):
        kind_of(b"\xff\xd8\xff\xd9" + bytes(10))
    with pytest.raises(ValueError, match="scans"):
        kind_of(JPEG + b"\xff\xda" * 101 + b"\xff\xd9")


def test_a_sound_that_announces_more_than_it_has_is_damaged() -> None:
    with pytest.raises(ValueError, match="is damaged: it announces 4294967280 bytes"):
        kind_of(wav(announced=2**32 - 16))
    with pytest.raises(ValueError, match="is damaged"):
        kind_of(wav()[:30])
    with pytest.raises(ValueError, match="no sound"):
        kind_of(wav(announced=0))


def test_a_sound_that_is_too_long_is_refused_by_its_header() -> None:
    longest = FLAC[:18] + (8000 << 44 | 15 << 36 | (MAX_SECONDS * 8000 + 1)).to_bytes(8, "big") + FLAC[26:]
    with pytest.raises(ValueError, match=f"at most {MAX_SECONDS} are taken"):
        kind_of(longest)
    with pytest.raises(ValueError, match="seconds of sound"):
        kind_of(wav(0.5, rate=16000).replace(struct.pack("<II", 16000, 32000), struct.pack("<II", 1, 2)))
    with pytest.raises(ValueError, match="bytes of MP3"):
        kind_of(b"ID3" + bytes(7 * 2**20))
    for tags in (b"ID3\x04" + bytes(6), b"ID3\x04" + bytes(5) + b"\x03abc", b"ID3\x04\0\x10" + bytes(14), 3 * TAG):
        with pytest.raises(ValueError, match=f"at most {MAX_SECONDS} are taken"):
            kind_of(tags + longest)
    with pytest.raises(ValueError, match="more than 16 ID3 tags"):
        kind_of(17 * TAG + longest)
    with pytest.raises(ValueError, match="Ogg"):
        kind_of(TAG + b"OggS" + bytes(100))


def test_a_wav_whose_true_form_has_samples_of_no_fixed_size_is_refused() -> None:
    """Of such forms the decoder believes the announced number of samples."""

    def extensible(form: int) -> bytes:
        rest = struct.pack("<HHIH", 22, 16, 4, form) + b"\x00\x00\x00\x00\x10\x00\x80\x00\x00\xaa\x00\x38\x9b\x71"
        fmt = struct.pack("<HHIIHH", 0xFFFE, 1, 16000, 32000, 2, 16) + rest
        data = b"WAVE" + b"fmt " + struct.pack("<I", len(fmt)) + fmt + b"fact" + struct.pack("<II", 4, 2**32 - 1)
        return b"RIFF" + struct.pack("<I", len(data) + 3208) + data + b"data" + struct.pack("<I", 3200) + bytes(3200)

    assert kind_of(extensible(1)) == "audio"
    with pytest.raises(ValueError, match="form that is not supported"):
        kind_of(extensible(2))


def webp(form: bytes, header: bytes) -> bytes:
    return b"RIFF\0\0\0\0WEBP" + form + b"\0\0\0\0" + header


def webp_of_size(form: str, width: int, height: int) -> bytes:
    """Return the beginning of a picture in WebP."""
    if form == "VP8X":
        size = (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
        return webp(b"VP8X", bytes(4) + size)
    if form == "VP8L":
        return webp(b"VP8L", b"\x2f" + struct.pack("<I", (height - 1) << 14 | (width - 1)))
    return webp(b"VP8 ", bytes(3) + b"\x9d\x01\x2a" + struct.pack("<HH", width, height))


@pytest.mark.parametrize("form", ["VP8X", "VP8L", "VP8 "])
def test_a_picture_in_webp_is_checked_by_its_header_where_it_is_read(form: str) -> None:
    good = webp_of_size(form, 640, 480)
    assert kind_of(good, reads_webp=True) == "image"
    with pytest.raises(ValueError, match="WebP, which is not supported"):
        kind_of(good)
    with pytest.raises(ValueError, match=f"has 16000 × 16000 pixels; at most {MAX_PIXELS:,}"):
        kind_of(webp_of_size(form, 16000, 16000), reads_webp=True)
    for size in range(12, len(good)):
        with pytest.raises(ValueError, match="is damaged: its header cannot be read"):
            kind_of(good[:size], reads_webp=True)


def test_a_picture_in_webp_of_an_unknown_form_is_damaged() -> None:
    for form, header in ((b"VP9 ", bytes(10)), (b"VP8L", bytes(10)), (b"VP8 ", bytes(10)), (b"ICCP", bytes(30))):
        with pytest.raises(ValueError, match="is damaged"):
            kind_of(webp(form, header), reads_webp=True)
