"""Logging for every process: one line per event, to standard error or a file, as text or JSON.

With REPLICA_VARIABLE in the environment each line names the replica of a cluster that the process belongs to.
The log file is reopened after it was moved or removed, so logrotate needs no signal.
"""

import contextlib
import logging
import logging.handlers
import os
import re
import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from io import TextIOWrapper
from typing import Any

import orjson

from srb.atomic import private
from srb.config.settings import REPLICA_VARIABLE, Settings
from srb.errors import ConfigError
from srb.reasons import reason_of

FORMAT = "%(asctime)s %(levelname)s %(name)s[%(process)d]: %(message)s"
DATE_FORMAT = "%Y-%m-%d %H:%M:%S%z"
FIELDS = "fields"  # attribute of a LogRecord: further fields of its JSON line (see `with_fields`)
_COMPLAINT_SECONDS = 60.0  # between two lines on standard error about a log file that cannot be written
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


class TextFormatter(logging.Formatter):
    """Text lines. Control characters are escaped: a client's text can neither begin a line nor control a terminal."""

    def __init__(self, replica: str = "") -> None:
        super().__init__(FORMAT.replace("%(name)s", f"{replica} %(name)s") if replica else FORMAT, DATE_FORMAT)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        record.message = _CONTROL.sub(lambda found: repr(found[0])[1:-1], record.message)
        return super().formatMessage(record)


class JSONFormatter(logging.Formatter):
    """JSON lines: time, level, replica, logger, pid, message, the record's fields, and a traceback in `exception`."""

    def __init__(self, replica: str = "") -> None:
        super().__init__()
        self._replica = {"replica": replica} if replica else {}

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "pid": record.process,
            "message": record.getMessage(),
            **self._replica,
        }
        line |= getattr(record, FIELDS, {})
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        # orjson leaves those above U+007F: of them some begin a line or a terminal's command, too.
        return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", orjson.dumps(line, default=str).decode())


class LogFile(logging.handlers.WatchedFileHandler):
    """The log file. While it cannot be written, as on a full disk, standard error says so once a minute.

    logging would write a traceback there for each line, or raise the error where the line was logged.
    """

    def __init__(self, path: str) -> None:
        super().__init__(path, encoding="utf-8")
        self._lost = 0  # lines since the last complaint
        self._next_complaint = 0.0

    def _open(self) -> TextIOWrapper:
        # Prompts may be in it.
        return TextIOWrapper(open(self.baseFilename, self.mode + "b", opener=private), encoding=self.encoding)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            super().emit(record)
        except OSError:  # the file was moved away, and another cannot be opened
            self.handleError(record)

    def close(self) -> None:
        with contextlib.suppress(OSError):  # lines in its buffer, which are lost
            super().close()

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            super().handleError(record)
            return
        self._lost += 1
        if (now := time.monotonic()) >= self._next_complaint:
            lines = "a line is" if self._lost == 1 else f"{self._lost} lines are"
            print(f"srb: log_file: cannot write {self.baseFilename}: {error.strerror}; {lines} lost", file=sys.stderr)
            self._lost, self._next_complaint = 0, now + _COMPLAINT_SECONDS


def with_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the `extra` argument of `log.info` that adds these fields to the JSON line."""
    return {FIELDS: dict(fields)}


def make_handler(settings: Settings) -> logging.Handler:
    """Return a handler for log_file and log_format. Raise ConfigError for a file that cannot be written."""
    handler: logging.Handler
    if settings.log_file:
        try:
            handler = LogFile(settings.log_file)
        except OSError as error:
            raise ConfigError(
                f"log_file: cannot write {settings.log_file}: {reason_of(error, settings.log_file)}"
            ) from None
    else:
        handler = logging.StreamHandler(sys.stderr)
    replica = os.environ.get(REPLICA_VARIABLE, "")
    handler.setFormatter(JSONFormatter(replica) if settings.log_format == "json" else TextFormatter(replica))
    return handler


def configure(settings: Settings) -> None:
    """Set up the `srb.*` loggers by the settings log_level, log_file and log_format; may be called again."""
    logger = logging.getLogger("srb")
    logger.setLevel(settings.log_level.upper())
    logger.propagate = False
    for handler in list(logger.handlers):
        logger.removeHandler(handler)
        handler.close()
    logger.addHandler(make_handler(settings))
