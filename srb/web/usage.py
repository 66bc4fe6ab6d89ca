"""Tokens of each client by day, in an SQLite file that outlives the server, and the budgets of keys.

A budget is of work: prompt tokens that were computed, and new ones. A prompt that the server knows costs
nothing, and branches share theirs. Calls count when they end, so those that run may go beyond a budget.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from srb.atomic import private
from srb.config.api_keys import ApiKey
from srb.errors import RateLimited
from srb.web.limits import Table
from srb.web.request_log import Work
from srb.wire.commands import KEY

_COUNTS = ("requests", "prompt_tokens", "cached_tokens", "computed_tokens", "completion_tokens")
_SPENT = "computed_tokens + completion_tokens"
_SCHEMA = f"""
    CREATE TABLE IF NOT EXISTS usage (
        client TEXT NOT NULL, day TEXT NOT NULL, {", ".join(f"{name} INTEGER NOT NULL" for name in _COUNTS)},
        PRIMARY KEY (client, day)
    ) WITHOUT ROWID;
"""
_NOTE = f"""
    INSERT INTO usage VALUES (:client, :day, {", ".join(f":{name}" for name in _COUNTS)})
    ON CONFLICT (client, day) DO UPDATE SET {", ".join(f"{name} = {name} + :{name}" for name in _COUNTS)}
"""
_ROWS = f"SELECT client, day, {', '.join(_COUNTS)} FROM usage WHERE day BETWEEN :first AND :last"
_DAY = "%Y-%m-%d"


class Usage:
    """The tokens that clients have used. Days are UTC's."""

    def __init__(self, path: Path, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        with suppress(OSError):  # the table tells whether it can be used
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            open(path, "ab", opener=private).close()
        self._table = Table(path, _SCHEMA, is_durable=True)
        self._clock = clock

    def note(self, client: str, work: Work) -> None:
        """Count a call that has ended. Clients without a key count together."""
        counts = (1, work.prompt, work.cached, work.computed, work.new)
        day = self._clock().strftime(_DAY)
        self._table.change(_NOTE, client=name_of(client), day=day, **dict(zip(_COUNTS, counts, strict=True)))

    def check(self, client: str, key: ApiKey) -> None:
        """Raise RateLimited, with the seconds until there are tokens again, if a budget of the client's key is spent."""
        for of, tokens, spent, until in self._state(client, key):
            if spent >= tokens:
                raise RateLimited(
                    f"This key has spent its {tokens} tokens of the {of}; there are more from {until.isoformat()} on",
                    max(1, round((until - self._clock()).total_seconds())),
                )

    def spent(self, client: str, key: ApiKey) -> list[Any]:
        """Return of each budget its tokens, how many are spent, and when it begins again."""
        return [
            {"of": of, "tokens": tokens, "spent": spent, "until": until.isoformat()}
            for of, tokens, spent, until in self._state(client, key)
        ]

    def _state(self, client: str, key: ApiKey) -> Iterator[tuple[str, int, int, datetime]]:
        """Yield of each budget that is set its name, tokens, those that are spent, and when it begins again."""
        now = self._clock()
        today = datetime(now.year, now.month, now.day, tzinfo=UTC)
        first = today.replace(day=1)
        query = f"SELECT coalesce(sum({_SPENT}), 0) FROM usage WHERE client = :client AND day >= :first"
        for of, tokens, begin, end in (
            ("day", key.tokens_per_day, today, today + timedelta(days=1)),
            ("month", key.tokens_per_month, first, (first + timedelta(days=31)).replace(day=1)),
        ):
            if tokens:
                rows = self._table.select(query, client=name_of(client), first=begin.strftime(_DAY))
                [(spent,)] = rows or [(0,)]  # that it cannot be read is in the log: limits fail open
                yield of, tokens, spent, end

    def days(self, first: str, last: str, client: str | None = None) -> list[Any]:
        """Return the counts of each client and day, both as `2026-11-30` and included; of one client, or of all."""
        values = {"first": first, "last": last}
        if client is None:
            rows = self._table.select(f"{_ROWS} ORDER BY day, client", **values)
        else:
            rows = self._table.select(f"{_ROWS} AND client = :client ORDER BY day", **values, client=name_of(client))
        return [dict(zip(("client", "day", *_COUNTS), row, strict=True)) for row in rows]

    def totals(self) -> list[tuple[str, int, int]]:
        """Return the prompt tokens that were computed of each client, and the new ones, of all days."""
        sums = "SELECT client, sum(computed_tokens), sum(completion_tokens) FROM usage GROUP BY client"
        return self._table.select(sums)

    def present_month(self) -> tuple[str, str]:
        """Return the first and the last day of this month that can have counts."""
        now = self._clock()
        return now.strftime("%Y-%m-01"), now.strftime(_DAY)


def name_of(client: str) -> str:
    """Return a client's name in the file: a key's, or its digest; "" of all that have none."""
    return client.removeprefix(KEY)[1:] if client.startswith(KEY) else ""
