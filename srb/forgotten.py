"""The list of what is to be forgotten of computed texts, in the folder that has those of all models (`cache_disk`).

A line is JSON: `story` is the digest of a deleted story; `keys` are those of all keys of a server (`of`), and `gone` those
that it has revoked. An engine that runs is told at once; each applies what came since to its texts when it starts.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import orjson

from srb.atomic import private

NAME = "forgotten"


def note_story(folder: Path, story: str) -> None:
    """Note a deleted story. Raise OSError."""
    _append(folder, {"story": story})


def note_keys(folder: Path, server: str, keys: Iterable[str]) -> list[str]:
    """Note the keys of a server, if they have changed; return those that were revoked. Raise OSError."""
    now, known = sorted(set(keys)), [line for line in _lines(folder)[0] if line.get("of") == server]
    before = known[-1].get("keys", []) if known else []
    if now == before:
        return []
    gone = sorted(set(before) - set(now))
    _append(folder, {"of": server, "keys": now, "gone": gone})
    return gone


def since(folder: Path, place: int) -> tuple[list[str], list[str], int]:
    """Return the stories and keys that came behind a place in the list, and the list's end. Raise OSError."""
    lines, end = _lines(folder, place)
    stories = [line["story"] for line in lines if isinstance(line.get("story"), str)]
    keys = [key for line in lines for key in line.get("gone", ()) if isinstance(key, str)]
    return stories, keys, end


def _append(folder: Path, line: dict[str, Any]) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with open(folder / NAME, "ab", buffering=0, opener=private) as file:
        file.write(orjson.dumps(line) + b"\n")  # at once: several servers may write


def _lines(folder: Path, place: int = 0) -> tuple[list[dict[str, Any]], int]:
    try:
        data = (folder / NAME).read_bytes()
    except FileNotFoundError:
        return [], 0
    found = []
    for line in data[place if place <= len(data) else 0 :].splitlines():
        try:
            value = orjson.loads(line)
        except orjson.JSONDecodeError:  # cut by a full disk
            continue
        if isinstance(value, dict):
            found.append(value)
    return found, len(data)
