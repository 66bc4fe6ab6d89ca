"""The settings that a server's arbiter has found valid last, with the texts of the files that they name.

Its workers inherit them by the fork. So a worker that takes a dead one's place has the settings of the others, whatever
became of the files since: a removed file of keys neither ends the server nor opens it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from srb.errors import ConfigError

if TYPE_CHECKING:
    from srb.config.settings import Settings


@dataclass(frozen=True, slots=True)
class Held:
    """Settings, and the texts of files by their paths."""

    settings: Settings
    texts: Mapping[str, str] = field(default_factory=dict, repr=False)  # API keys among them


_held: Held | None = None


def hold(held: Held | None) -> Held | None:
    """Hold these settings for workers that are forked from now on; return those that were held before."""
    global _held
    before, _held = _held, held
    return before


def held_settings() -> Settings | None:
    """Return the settings that the arbiter holds for this worker; None in a process of another kind."""
    return _held.settings if _held else None


def read_text(setting: str, path: str) -> str:
    """Return the text of a file that a setting names, as it was held or as it is. Raise ConfigError if it is unreadable."""
    if _held is not None and (text := _held.texts.get(path)) is not None:
        return text
    return read_text_now(setting, path)


def read_text_now(setting: str, path: str) -> str:
    """Return the same from the disk."""
    try:
        return Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise ConfigError(f"{setting}: cannot read {path}: {reason}") from None
