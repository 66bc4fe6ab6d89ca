"""Exit when the parent process exits; ignore reload signals."""

import ctypes
import os
import signal
import sys
import threading
import time

_PR_SET_PDEATHSIG = 1
_POLL_SECONDS = 0.5  # where the system has no signal for it: an orphan may hold memory and socket so long


def exit_with_parent(parent: int) -> None:
    """Send SIGTERM to this process as soon as process `parent`, which started it, ends in any way."""
    if sys.platform == "linux":
        # The kernel's signal is immediate, but tied to the *thread* that started us, which has to be a main thread.
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    else:
        threading.Thread(target=_watch, args=(parent,), name="parent-death", daemon=True).start()
    if os.getppid() != parent:  # it ended before the call
        os.kill(os.getpid(), signal.SIGTERM)


def ignore_reloads() -> None:
    """Ignore SIGHUP and SIGUSR1, which make gunicorn reload, in case they are sent to all processes."""
    for signum in (signal.SIGHUP, signal.SIGUSR1):
        signal.signal(signum, signal.SIG_IGN)


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_POLL_SECONDS)
    os.kill(os.getpid(), signal.SIGTERM)
