"""Texts of the files that settings name: as the arbiter found them last in its workers, elsewhere as they are."""

from collections.abc import Mapping
from pathlib import Path

from srb.errors import ConfigError
from srb.reasons import reason_of

_held: Mapping[str, str] = {}


def hold_texts(texts: Mapping[str, str]) -> None:
    """Hold the texts of files by their paths, for this process and those that are forked from now on."""
    global _held
    _held = texts


def read_text(setting: str, path: str) -> str:
    """Return the text of a file that a setting names, as it was held or as it is. Raise ConfigError if it is unreadable."""
    held = _held.get(path)
    return read_text_now(setting, path) if held is None else held


def read_text_now(setting: str, path: str) -> str:
    """Return the same from the disk."""
    try:
        return Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = reason_of(error, path) if isinstance(error, OSError) else "it is not text"
        raise ConfigError(f"{setting}: cannot read {path}: {reason}") from None
