"""Log to stderr, one line an event, in every process alike."""

from __future__ import annotations

import logging
import sys

FORMAT = "%(asctime)s %(levelname)s %(name)s[%(process)d]: %(message)s"
DATE_FORMAT = "%Y-%m-%d %H:%M:%S"


def configure(level: str) -> None:
    """Send `srb.*` loggers to stderr from `level` (debug, info, warning, error) upwards; may be called again."""
    logger = logging.getLogger("srb")
    logger.setLevel(level.upper())
    logger.propagate = False
    if not logger.handlers:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter(FORMAT, DATE_FORMAT))
        logger.addHandler(handler)
