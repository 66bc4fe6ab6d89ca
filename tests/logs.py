"""What a test finds in the log: the lines of one logger, beside which other threads may write theirs."""

from __future__ import annotations

import pytest


def lines_of(logger: str, caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the messages of a logger; the garbage collector makes asyncio log what another test has left."""
    return [record.getMessage() for record in caplog.records if record.name == logger]
