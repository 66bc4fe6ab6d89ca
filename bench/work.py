"""Work and Measure: one request of a benchmark, and its result."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Work:
    """One request: `n` branches of `tokens` tokens each, after `prompt`; end of text is ignored."""

    prompt: str
    n: int
    tokens: int


@dataclass(frozen=True)
class Measure:
    """Tokens per second from the request to its last token, and seconds to the first one."""

    tokens_per_second: float
    first_token: float
