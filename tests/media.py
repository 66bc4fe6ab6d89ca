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
