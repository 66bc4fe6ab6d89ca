"""The beginning and end of a process that the supervisor starts: the engine's, or that of the bridge in its place."""

import argparse
import ctypes
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from srb import logs
from srb.config.settings import Settings
from srb.errors import ConfigError, MachineError
from srb.exit_codes import EXIT_CONFIG, EXIT_MACHINE
from srb.host.processes import fields_of
from srb.process.native_output import write_natively_to
from srb.process.status_reporter import Reporter, ToSupervisor, ToSystemd
from srb.version import version

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


def has_died(parent: int) -> bool:
    """Whether process `parent`, which started this one, has died; its other threads may take a moment longer."""
    return os.getppid() != parent or fields_of(Path(f"/proc/{parent}"))[:1] in (["Z"], ["X"])


def ignore_reloads() -> None:
    """Ignore SIGHUP and SIGUSR1, which make gunicorn reload, in case they are sent to all processes."""
    for signum in (signal.SIGHUP, signal.SIGUSR1):
        signal.signal(signum, signal.SIG_IGN)


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_POLL_SECONDS)
    os.kill(os.getpid(), signal.SIGTERM)


log = logging.getLogger("srb.engine")


def begin(parser: argparse.ArgumentParser, argv: Sequence[str] | None) -> ToSupervisor | None:
    """Read the supervisor's options, and end with it from now on; return the way to report to it, if it started this."""
    parser.add_argument("--parent", type=int, help="pid of the supervisor; this process exits when it does")
    parser.add_argument("--report", type=int, help="file descriptor of the pipe to the supervisor")
    parser.add_argument("--native-stderr", type=int, help="file descriptor of the pipe that native code writes to")
    options = parser.parse_args(argv)
    if options.native_stderr is not None:
        write_natively_to(options.native_stderr)
    ignore_reloads()
    if options.parent is not None:
        exit_with_parent(options.parent)
    return None if options.report is None else ToSupervisor(options.report)


def run(supervisor: ToSupervisor | None, work: Callable[[Settings, Reporter], int]) -> int:
    """Set up the logs and return what `work` does: an exit status. An error in the settings is reported, in one line."""
    try:
        settings = Settings.load()
        logs.configure(settings)
        if supervisor is None:
            log.info("SRB %s", version())
        return work(settings, supervisor or ToSystemd(settings.runtime_path))
    except ConfigError as error:
        print(f"srb: {error.message}", file=sys.stderr, flush=True)  # first: whoever learns of it looks here
        if supervisor is not None:
            supervisor.report_state("failed", error.message)
        return EXIT_MACHINE if isinstance(error, MachineError) else EXIT_CONFIG


def exit_now(status: int) -> NoReturn:
    """Exit without destructors and atexit handlers, which may hang or abort in native code, or take seconds."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
