"""Facts that macOS tells by name, see sysctlbyname(3); nothing on other systems."""

import ctypes
import platform


def sysctl(name: str) -> int | None:
    """Return a number such as hw.memsize; None where the system has no such name."""
    if platform.system() != "Darwin" or (ask := getattr(ctypes.CDLL(None), "sysctlbyname", None)) is None:
        return None
    value, size = ctypes.c_uint64(0), ctypes.c_size_t(8)  # of 4 bytes or 8, the low ones first
    failed = ask(name.encode(), ctypes.byref(value), ctypes.byref(size), None, ctypes.c_size_t(0))
    return None if failed else value.value
