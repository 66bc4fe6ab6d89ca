"""Facts of llama.cpp's libraries: another build may compute other sums."""

from __future__ import annotations

from pathlib import Path

import llama_cpp


def library_facts() -> list[str]:
    """Return the names, sizes and times of the files. Raise OSError."""
    files = sorted(Path(llama_cpp.__file__).parent.glob("lib/*"))
    return [f"{path.name} {(facts := path.stat()).st_size} {facts.st_mtime_ns}" for path in files]
