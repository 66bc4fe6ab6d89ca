"""A Python of another system than Linux, as far as a process can be made to lack what only Linux has.

Python imports this file at its start where its folder is on PYTHONPATH; tests/e2e/test_elsewhere.py hides /proc and /sys.
"""

import os
import resource
import select
import signal
import socket
import sys
import sysconfig
import time

sysconfig.get_config_vars()  # those of the Python that runs
sys.platform = "freebsd14"  # of macOS, Python's own modules would miss others
for module, beginnings in (
    (os, ("sched_", "posix_fadvise", "POSIX_FADV_", "RWF_", "fdatasync", "memfd_create", "MFD_", "posix_fallocate")),
    (os, ("eventfd", "pidfd_", "copy_file_range", "splice", "setns", "unshare", "getrandom", "setxattr", "getxattr")),
    (resource, ("prlimit",)),
    (select, ("POLLRDHUP", "EPOLLRDHUP")),
    (signal, ("SIGRT", "SIGPWR", "sigtimedwait", "sigwaitinfo", "pidfd_")),
    (socket, ("SO_PEERCRED", "TCP_INFO", "TCP_USER_TIMEOUT", "TCP_KEEPIDLE")),
    (time, ("CLOCK_BOOTTIME", "pthread_getcpuclockid")),
):  # fmt: skip
    for name in [name for name in dir(module) if name.startswith(beginnings)]:
        delattr(module, name)
        if name in getattr(module, "__all__", ()):
            module.__all__.remove(name)

_setrlimit = resource.setrlimit


def _refuse_memory(kind: int, limits: tuple[int, int]) -> None:
    if kind == resource.RLIMIT_AS:
        raise ValueError("current limit exceeds maximum limit")
    _setrlimit(kind, limits)


resource.setrlimit = _refuse_memory
