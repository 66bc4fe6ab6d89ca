"""Row: one replica as operators see it; apart from `operate`, since the table needs no Ray."""

import dataclasses

from srb.cluster.registry import Entry


@dataclasses.dataclass(frozen=True)
class Row:
    """One replica, as operators see it."""

    name: str
    entry: Entry
    stats: dict[str, float]  # empty: it does not answer
