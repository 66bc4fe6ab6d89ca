"""Exit codes of SRB's processes, by which the supervisor and systemd decide on a restart; and the line before one."""

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

EXIT_FAILED = 1  # a command could not do what it was asked for
EXIT_CONFIG = 2  # a setting is wrong
EXIT_MODEL = 3  # the model cannot be loaded; a restart would not help
EXIT_FAULT = 4  # the engine is broken beyond repair; a restart helps
EXIT_MACHINE = 5  # the machine lacks something now, such as room on a disk; a later start may have it
EXIT_WORKER = 6  # a web worker cannot start, for another reason than the settings; a later start may


class OneLineParser(argparse.ArgumentParser):
    """A parser that prints its errors as one line."""

    def error(self, message: str) -> NoReturn:
        fail(message)


def fail(message: str, status: int = EXIT_CONFIG) -> NoReturn:
    """End the process after one line that says why."""
    print(f"srb: {message}", file=sys.stderr)
    sys.exit(status)


@contextmanager
def reader_may_leave() -> Iterator[None]:
    """End the block without an error if the reader of standard output has enough, as in `srb config | head`."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the flush at the exit would complain otherwise
