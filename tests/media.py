"""Small media files for tests, written byte by byte: pictures of one color or noise, and sounds."""

from __future__ import annotations

import math
import random
import struct
import zlib
from base64 import b64encode


def png(width: int = 4, height: int = 4, seed: int = 0, raw: bytes | None = None) -> bytes:
    """Return a PNG of noise; `raw` are other bytes to compress than those of its lines."""
    noise = random.Random(seed)
    lines = b"".join(b"\0" + noise.randbytes(3 * width) for _ in range(height)) if raw is None else raw
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = [(b"IHDR", header), (b"IDAT", zlib.compress(lines)), (b"IEND", b"")]
    chunks = [
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in parts
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def bmp(width: int = 2, height: int = 2) -> bytes:
    line = 3 * width + -3 * width % 4
    header = struct.pack("<IiiHHIIiiII", 40, width, height, 1, 24, 0, line * height, 2835, 2835, 0, 0)
    return b"BM" + struct.pack("<IHHI", 54 + line * height, 0, 0, 54) + header + b"\x7f" * (line * height)


def jpeg(rows: tuple[tuple[int, ...], ...] = ((0, 90, 255), (200, 10, 128))) -> bytes:
    """Return a baseline JPEG of gray squares, each of 8 × 8 pixels with one value of 0 to 255, row by row."""
    sizes = ["00", "010", "011", "100", "101", "110", "1110", "11110", "111110"]  # codes of the size of a difference
    bits, before = "", 0
    for value in (value for row in rows for value in row):
        change, before = value - 128 - before, value - 128
        size = abs(change).bit_length()
        number = change if change > 0 else change + (1 << size) - 1
        bits += sizes[size] + (f"{number:0{size}b}" if size else "") + "0"  # nothing but the mean of each square
    bits += "1" * (-len(bits) % 8)
    scan = int(bits, 2).to_bytes(len(bits) // 8, "big").replace(b"\xff", b"\xff\x00")
    parts = [
        (0xDB, b"\0" + b"\x08" * 64),  # divisors
        (0xC0, struct.pack(">BHHBBBB", 8, 8 * len(rows), 8 * len(rows[0]), 1, 1, 0x11, 0)),
        (0xC4, b"\0" + bytes([0, 1, 5, 1, 1, 1, *[0] * 10]) + bytes(range(9))),
        (0xC4, b"\x10" + bytes([1, *[0] * 15]) + b"\0"),
        (0xDA, bytes([1, 1, 0, 0, 63, 0])),
    ]
    segments = [struct.pack(">BBH", 0xFF, name, 2 + len(data)) + data for name, data in parts]
    return b"\xff\xd8" + b"".join(segments) + scan + b"\xff\xd9"


def wav(seconds: float = 0.5, rate: int = 16000, pitch: float = 440.0, announced: int | None = None) -> bytes:
    """Return a WAV of a tone, 16 bits a sample; `announced` is another length for its header to say."""
    count = int(seconds * rate)
    samples = b"".join(struct.pack("<h", int(9000 * math.sin(2 * math.pi * pitch * i / rate))) for i in range(count))
    form = struct.pack("<HHIIHH", 1, 1, rate, 2 * rate, 2, 16)
    length = len(samples) if announced is None else announced
    data = b"WAVE" + b"fmt " + struct.pack("<I", len(form)) + form + b"data" + struct.pack("<I", length) + samples
    return b"RIFF" + struct.pack("<I", len(data)) + data


def b64(data: bytes) -> str:
    return b64encode(data).decode()
