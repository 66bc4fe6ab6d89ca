"""A std::map that a C++ function of llama.cpp returns, read as libstdc++ lays it out; for processes that end soon.

Some functions have no form in C. Nobody frees such a map here.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

_MOST = 256  # entries; more are no such map: a foreign library's memory must not be walked for ever


class StdMap(ctypes.Structure):
    """std::map from a pointer: an empty comparator, the header node, the number of entries."""

    _fields_ = (
        ("comparator", ctypes.c_void_p),
        ("color", ctypes.c_void_p),
        ("root", ctypes.c_void_p),
        ("first", ctypes.c_void_p),
        ("last", ctypes.c_void_p),
        ("count", ctypes.c_size_t),
    )

    def items(self, numbers: int = 1) -> Iterator[tuple[int, list[int]]]:
        """Yield each key, and its value as so many numbers of C's size_t. Raise AssertionError if it is no such map."""
        if self.count > _MOST:
            raise AssertionError(f"{self.count} entries: not the std::map that is expected")
        left = [self.root]
        while left:
            if (place := left.pop()) is not None:
                node = _Node.from_address(place)
                values = (ctypes.c_size_t * numbers).from_address(place + ctypes.sizeof(_Node))
                yield node.key, list(values)
                left += [node.left, node.right]


class _Node(ctypes.Structure):
    """A node of a std::map with its key; the value follows."""

    _fields_ = (
        ("color", ctypes.c_void_p),
        ("parent", ctypes.c_void_p),
        ("left", ctypes.c_void_p),
        ("right", ctypes.c_void_p),
        ("key", ctypes.c_void_p),
    )


def map_function(library: Any, name: str, *arguments: Any) -> Any:
    """Return a library's function, by its C++ name, that returns a map. Raise AttributeError where there is none."""
    function = getattr(library, name)
    function.restype, function.argtypes = StdMap, list(arguments)
    return function
