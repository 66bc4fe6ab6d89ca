"""A node of a story: one splice of its parent's text, with everything else that its maker noted about it.

Offsets and lengths are UTF-16 units, as JavaScript counts them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

CORE = ("text", "by", "parent", "keep", "tail")  # the keys that a closed node never changes
_KNOWN = (*CORE, "open", "run", "index", "made", "end", "logprob", "changed")  # null in one of these counts as absent


def stored_json(value: Any) -> str:
    """Return the JSON text of a value as it is stored: keys in order, no spaces."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()


def units(text: str) -> int:
    """Return the number of UTF-16 units of a text."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le")) // 2


def splits_pair(text: str, at: int) -> bool:
    """Whether an offset lies between the two halves of a character beyond U+FFFF."""
    if text.isascii():
        return False
    low = text.encode("utf-16-le")[2 * at + 1 : 2 * at + 2]  # the upper byte of the unit after the offset
    return bool(low) and 0xDC <= low[0] <= 0xDF


def common_units(one: str, other: str) -> int:
    """Return how many units two texts have in common at their beginning."""
    places = zip(one, other, strict=False)
    same = next((place for place, (a, b) in enumerate(places) if a != b), min(len(one), len(other)))
    return units(one[:same])


@dataclass(frozen=True, slots=True)
class Node:
    """A node as it was posted or stored; `json` is its stored text, `changed` the time of this version of it."""

    text: str
    by: str
    parent: str | None
    keep: int
    tail: int | None
    open: bool
    changed: int | None
    json: str

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> "Node":
        """Return the node of a JSON object that was checked (`posts`) or stored."""
        kept = {key: value for key, value in given.items() if value is not None or key not in _KNOWN}
        if not kept.get("open"):
            kept.pop("open", None)
        return cls(
            text=kept["text"],
            by=kept["by"],
            parent=kept.get("parent"),
            keep=kept.get("keep", 0),
            tail=kept.get("tail"),
            open=kept.get("open", False),
            changed=kept.get("changed"),
            json=stored_json(kept),
        )

    @property
    def units(self) -> int:
        return units(self.text)

    @property
    def core(self) -> tuple[object, ...]:
        return self.text, self.by, self.parent, self.keep, self.tail
