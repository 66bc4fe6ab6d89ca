"""The index of a folder's named states: sizes, the order of use, and what may be removed, without a look at the disk."""

from collections import OrderedDict
from collections.abc import Mapping

from srb.files.state_disk import StateEntry


class StateIndex:
    """The states that are known, by name. Every act costs the same, however many there are."""

    def __init__(self, entries: Mapping[str, StateEntry]) -> None:
        """Take states in the order of their use, the least recently used first."""
        self._entries = dict(entries)
        self._automatic = OrderedDict((name, None) for name, entry in self._entries.items() if entry.is_automatic)
        self.size = sum(entry.size for entry in self._entries.values())  # bytes of all
        self.automatic_size = sum(entry.size for entry in self._entries.values() if entry.is_automatic)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    @property
    def entries(self) -> Mapping[str, StateEntry]:
        return self._entries

    def get(self, name: str) -> StateEntry | None:
        return self._entries.get(name)

    def put(self, name: str, entry: StateEntry) -> None:
        """Add a state, in place of an older one of its name; it is the one that was used last."""
        self.drop(name)
        self._entries[name] = entry
        self.size += entry.size
        if entry.is_automatic:
            self._automatic[name] = None
            self.automatic_size += entry.size

    def drop(self, name: str) -> None:
        entry = self._entries.pop(name, None)
        if entry is None:
            return
        self.size -= entry.size
        if entry.is_automatic:
            del self._automatic[name]
            self.automatic_size -= entry.size

    def use(self, name: str) -> bool:
        """Note that a state was used now; return whether it is known."""
        entry = self._entries.get(name)
        if entry is not None:
            self.put(name, entry)
        return entry is not None

    def oldest(self, but: str) -> str | None:
        """Return the automatic state that was used least recently, of those with another name than `but`."""
        return next((name for name in self._automatic if name != but), None)
