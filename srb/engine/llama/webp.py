"""Pictures in WebP, which llama.cpp does not read, as PNG, where Pillow is installed.

Pillow holds Python's lock while it decodes WebP, and more native code reads what somebody has sent: a process of its own
converts it, with limits on its time and memory, so that no branch waits and a fault ends one picture.
"""

from __future__ import annotations

import contextlib
import importlib.util
import resource
import subprocess
import sys
from functools import cache
from io import BytesIO

from srb.files.media_files import check_webp, is_webp
from srb.python import module_command

MAX_SECONDS = 30  # to convert a picture, of processor time, and of the clock: a hostile one holds up others' pictures
MAX_MEMORY = 2 * 2**30  # bytes of addresses: the most pixels that `check_webp` lets pass take 160 MB as RGBA
_COMPRESSION = 1  # of 9: the file is read at once, and thrown away


@cache
def has_pillow() -> bool:
    """Whether pictures in WebP can be converted: the extra `images` is installed."""
    return importlib.util.find_spec("PIL") is not None


def readable(data: bytes) -> bytes:
    """Return a picture in WebP as PNG, and any other file as it is. Raise ValueError if it is damaged."""
    if not is_webp(data):
        return data
    command = module_command(__name__)
    try:
        done = subprocess.run(command, input=data, capture_output=True, timeout=MAX_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise ValueError(f"is a picture in WebP that was not converted within {MAX_SECONDS} seconds") from None
    if done.returncode:
        raise ValueError("is damaged: its pixels cannot be read")
    return done.stdout


def main() -> int:
    """Convert the picture that arrives on standard input: its first frame, without transparency, as RGB."""
    from PIL import Image  # the extra `images`; needed in this process alone

    with contextlib.suppress(ValueError, OSError):  # macOS has no limit of memory; that of pixels holds
        resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (MAX_SECONDS, MAX_SECONDS))
    data = sys.stdin.buffer.read()
    try:
        check_webp(data)
        with Image.open(BytesIO(data), formats=["WEBP"]) as picture:
            picture.convert("RGB").save(sys.stdout.buffer, "PNG", compress_level=_COMPRESSION)
    except (OSError, ValueError, EOFError, MemoryError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
