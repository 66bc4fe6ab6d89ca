"""The settings that a server's arbiter has found valid last, with the texts of the files that they name.

Its workers inherit them by the fork. So a worker that takes a dead one's place has the settings of the others, whatever
became of the files since: a removed file of keys neither ends the server nor opens it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from srb.config.settings import Settings
from srb.config.texts import hold_texts


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
    hold_texts(held.texts if held else {})
    return before


def held_settings() -> Settings | None:
    """Return the settings that the arbiter holds for this worker; None in a process of another kind."""
    return _held.settings if _held else None
