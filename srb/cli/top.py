"""The command `srb top`: a running server's requests, branches, cells, cache and speed, shown anew every few seconds."""

import argparse
import math
import shutil
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NoReturn

from srb.config.settings import Settings
from srb.exit_codes import EXIT_FAILED, fail, reader_may_leave
from srb.top.source import Away, Reading, Source, Unusable
from srb.top.view import plain, view

DESCRIPTION = """Show what a running server does: its requests, branches, cells, cache and tokens per second. Requests are
listed of this key alone, or of this address. Ctrl+C ends it."""
_SECONDS = 2.0  # between two views; any of 1 to 5 would do: shorter rates jump, longer ones come late

# Another screen, from which the shell's comes back, without a cursor, and with lines that are cut where the screen ends.
_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l\x1b[?7l", "\x1b[?7h\x1b[?25h\x1b[?1049l"
_TOP, _END_OF_LINE, _REST = "\x1b[H", "\x1b[K", "\x1b[J"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that `srb serve` does not have."""
    parser.add_argument(
        "--url", metavar="URL", default="", help="the server (default: the one that the settings describe)"
    )
    parser.add_argument("--once", action="store_true", help="print the view once, with the rates of one interval")
    parser.add_argument("--interval", metavar="SECONDS", type=_seconds, default=_SECONDS, help="default: 2")


def run(asked: argparse.Namespace, settings: Settings, environ: Mapping[str, str]) -> NoReturn:
    """Show the view until Ctrl+C; the exit status is 1 if the server cannot be read, or with --once does not answer."""
    keys = sorted(settings.load_api_keys(), key=lambda each: each.is_for_metrics)
    signals = _take_signals()
    try:
        source = Source(settings, asked.url, keys[0].key if keys else "")
        with reader_may_leave():
            if asked.once:
                _show_once(source, asked.interval)
            else:
                with _screen() as is_terminal:
                    _show_until(signals, source, asked.interval, is_terminal)
    except (Away, Unusable) as error:
        fail(plain(str(error)), EXIT_FAILED)
    except KeyboardInterrupt:
        pass
    sys.exit(0)


def _show_once(source: Source, interval: float) -> None:
    before = source.read()
    time.sleep(interval)
    print("\n".join(view(source.url, before, source.read())))


def _take_signals() -> list[int]:
    """Let SIGINT and SIGTERM raise KeyboardInterrupt, so that the terminal is left as it was; return those that came.

    A signal that finds a finalizer at work raises in there, where Python drops what is raised: who presses Ctrl+C between
    two connections would be shown view after view. So after each it is looked whether one has come.
    """
    came: list[int] = []

    def take(signum: int, frame: object) -> NoReturn:
        came.append(signum)
        raise KeyboardInterrupt

    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, take)
    return came


def _show_until(signals: Sequence[int], source: Source, interval: float, is_terminal: bool) -> None:
    """Show a reading after the other until a signal has come; a server that is away is said and waited for."""
    before: Reading | None = None
    while True:
        try:
            now = source.read()
            lines = view(source.url, before, now)
            before = now
        except Away as error:
            lines, before = [f"{plain(str(error))}; waiting for it"], None
        sys.stdout.write(_frame(lines) if is_terminal else "\n".join([*lines, "", ""]))
        sys.stdout.flush()
        if signals:
            return
        time.sleep(interval)


def _frame(lines: list[str]) -> str:
    """Return the text that shows lines in place of the last ones, as many as the terminal has room for."""
    room = shutil.get_terminal_size().lines
    if len(lines) > room:
        lines = [*lines[: room - 1], f"… and {len(lines) - room + 1} more"]
    return _TOP + "\n".join(f"{line}{_END_OF_LINE}" for line in lines) + _REST


@contextmanager
def _screen() -> Iterator[bool]:
    """Give the block a screen of its own if standard output is a terminal; yield whether it is."""
    is_terminal = sys.stdout.isatty()
    try:
        if is_terminal:
            sys.stdout.write(_ENTER)
        yield is_terminal
    finally:
        if is_terminal:
            sys.stdout.write(_LEAVE)
            sys.stdout.flush()


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0.1 <= seconds <= 3600:
        raise argparse.ArgumentTypeError("should be a number of seconds from 0.1 to 3600")
    return seconds
