"""How much one client may ask for: tokens of a request, requests at once, requests a minute. All of it is off by default.

A client is a key, or where there are none an address. Each web worker counts by itself.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from srb.errors import RateLimited, bad_field
from srb.protocol import Generate

CLIENT = "srb.client"  # key of a WSGI environ: who asks, as Access found
_MOST_BUCKETS = 10_000


def within(commands: Sequence[Generate], most: int) -> list[Generate]:
    """Return the commands of one call, whose branches together may have `most` tokens; 0: any number.

    Branches without a limit get an equal share. Raise InvalidRequest where those with one have more than there is.
    """
    branches = [branch for command in commands for branch in command.branches]
    if not most:
        return list(commands)
    share = most // len(branches)
    asked = sum(branch.max_tokens if branch.max_tokens >= 0 else share for branch in branches)
    if asked > most or share == 0:
        limit = f"all branches of a request may have {most} tokens together, but got {len(branches)} with {asked}"
        raise bad_field("max_tokens", limit)
    return [
        replace(
            command,
            branches=tuple(replace(b, max_tokens=share) if b.max_tokens < 0 else b for b in command.branches),
        )
        for command in commands
    ]


@dataclass(slots=True)
class _Bucket:
    tokens: float
    filled_at: float


class RateLimit:
    """A token bucket for each client: `per_minute` requests at once, and as many more each minute."""

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = float(per_minute)
        self._per_second = per_minute / 60
        self._clock = clock
        self._buckets: dict[str, _Bucket] = {}

    def take(self, client: str) -> None:
        """Count a request. Raise RateLimited, with the seconds until the next one, where there were too many."""
        now = self._clock()
        if len(self._buckets) >= _MOST_BUCKETS:
            self._forget(now)
        bucket = self._buckets.setdefault(client, _Bucket(self._most, now))
        self._fill(bucket, now)
        if bucket.tokens < 1:
            seconds = math.ceil((1 - bucket.tokens) / self._per_second)
            raise RateLimited(f"More than {self._most:.0f} requests a minute", seconds)
        bucket.tokens -= 1

    def _fill(self, bucket: _Bucket, now: float) -> None:
        bucket.tokens = min(self._most, bucket.tokens + (now - bucket.filled_at) * self._per_second)
        bucket.filled_at = now

    def _forget(self, now: float) -> None:
        """Drop who has not asked for a minute, and at least the older half: nobody may fill the memory with addresses."""
        recent = [item for item in self._buckets.items() if now - item[1].filled_at < 60]
        self._buckets = dict(recent[-_MOST_BUCKETS // 2 :])
