"""Die with the parent, and of nothing that was meant for it: no engine may outlive the server that wanted it."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time

_PR_SET_PDEATHSIG = 1
_POLL_SECONDS = 0.5


def die_with_parent(parent: int) -> None:
    """Arrange for SIGTERM to this process when process `parent`, which started it, ends in any way."""
    if sys.platform == "linux":
        # The kernel's signal is immediate. It is tied to the *thread* that started us, so that has to be a main thread.
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    else:
        threading.Thread(target=_watch, args=(parent,), name="lifeline", daemon=True).start()
    if os.getppid() != parent:  # it ended before we asked
        os.kill(os.getpid(), signal.SIGTERM)


def ignore_reloads() -> None:
    """Ignore what tells a web server to load its settings or open its log again, where it is sent to all processes."""
    for signum in (signal.SIGHUP, signal.SIGUSR1):
        signal.signal(signum, signal.SIG_IGN)


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_POLL_SECONDS)
    os.kill(os.getpid(), signal.SIGTERM)
