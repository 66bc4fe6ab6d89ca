"""The speed of a server, for several numbers of branches: time to the first token, tokens per second, and the gain.

The gain is over n separate requests, one after the other: the first of them has a new prompt, the others a known one.
Their time comes from the row with n = 1.
"""

import dataclasses
import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TextIO

from srb.bench.client import Measure, Server, Work
from srb.version import version

_WORDS = [
    "the", "old", "king", "said", "to", "the", "girl", "in", "the", "boat", "that", "the", "sea", "was", "grey",
    "and", "the", "night", "was", "long", "but", "nobody", "on", "the", "island", "had", "seen", "the", "lamp", "in",
    "the", "tower", "burn", "since", "the", "winter", "when", "the", "fishermen", "came", "back", "without", "their",
    "nets",
]  # fmt: skip
_PROMPT_TOKENS = 256  # half of n_ubatch's default: one step computes it
_FIRST_WORDS = 64  # of the first prompt, which tells how many tokens a word has


@dataclass(frozen=True)
class Plan:
    """The measurement: the numbers of branches, the tokens of each branch, and how often each is measured."""

    ns: tuple[int, ...]
    tokens: int
    rounds: int

    @property
    def requests(self) -> int:
        return 2 * len(self.ns) * self.rounds


@dataclass(frozen=True)
class Row:
    """Medians for one number of branches; times are seconds."""

    n: int
    first_token_cold: float  # with a prompt that is new
    first_token_warm: float  # with the same prompt again
    seconds_cold: float  # of the whole request
    seconds_warm: float
    tokens_per_second: float  # of all branches together, with a known prompt
    gain: float  # over n separate requests

    @property
    def tokens_per_second_of_a_branch(self) -> float:
        return self.tokens_per_second / self.n


@dataclass(frozen=True)
class Speed:
    """The rows, and the length of the prompts in tokens."""

    prompt_tokens: int
    rows: tuple[Row, ...]


def plan_for(description: dict[str, Any], ns: Sequence[int], tokens: int, rounds: int) -> Plan:
    """Return a plan within a server's limits; n = 1 is always measured, since the gain is relative to it."""
    allowed = sorted({1, *(n for n in ns if n <= description["max_n"])})
    return Plan(tuple(allowed), max(1, min(tokens, description["n_ctx"] // 4)), rounds)


def measure(server: Server, plan: Plan, n_ctx: int, progress: Callable[[int, str], None]) -> Speed:
    """Measure a server whose longest text has `n_ctx` tokens; `progress` gets the requests done, and the next one's name."""
    prompts = _Prompts(max(1, min(_FIRST_WORDS, n_ctx // 16)))
    progress(0, "first request")
    first = server.run(Work(prompts.new(), 1, min(plan.tokens, 8)))
    prompts.words = max(1, prompts.words * min(_PROMPT_TOKENS, n_ctx // 4) // max(1, first.prompt_tokens))
    cold: dict[int, list[Measure]] = {n: [] for n in plan.ns}
    warm: dict[int, list[Measure]] = {n: [] for n in plan.ns}
    done = 0
    for _ in range(plan.rounds):
        for n in plan.ns:
            work = Work(prompts.new(), n, plan.tokens, cache_prompt=True)
            for measures, name in ((cold, "new prompt"), (warm, "known prompt")):
                progress(done, f"n = {n}, {name}")
                measures[n].append(server.run(work))
                done += 1
    progress(done, "")
    return Speed(cold[1][0].prompt_tokens, tuple(_rows(plan, cold, warm)))


def _rows(plan: Plan, cold: dict[int, list[Measure]], warm: dict[int, list[Measure]]) -> list[Row]:
    median = statistics.median
    one_cold, one_warm = (median(each.seconds for each in measures[1]) for measures in (cold, warm))
    rows = []
    for n in plan.ns:
        seconds_cold, seconds_warm = (median(each.seconds for each in measures[n]) for measures in (cold, warm))
        rows.append(
            Row(
                n=n,
                first_token_cold=median(each.first_token for each in cold[n]),
                first_token_warm=median(each.first_token for each in warm[n]),
                seconds_cold=seconds_cold,
                seconds_warm=seconds_warm,
                tokens_per_second=n * plan.tokens / seconds_warm,
                gain=(one_cold + (n - 1) * one_warm) / seconds_cold,
            )
        )
    return rows


class _Prompts:
    """Prompts of `words` words that the server has not seen before: each begins with a number of its own."""

    def __init__(self, words: int) -> None:
        self.words = words
        self._random = random.Random()
        self._number = time.time_ns() // 1000 % 10**9

    def new(self) -> str:
        self._number += 1
        return f"{self._number} " + " ".join(self._random.choices(_WORDS, k=self.words))


_BAR = 24  # characters; any number would do that leaves room for the text beside it in a line of 80
_CLEAR = "\r\x1b[K"


class ProgressBar:
    """A bar on one line of a terminal, of `total` steps; on anything else nothing is shown."""

    def __init__(self, stream: TextIO, total: int = 1) -> None:
        self._stream = stream
        self.total = total
        self._shown = stream.isatty()

    def show(self, done: int, text: str) -> None:
        """Draw the bar after `done` steps, with the name of the next one."""
        if self._shown:
            full = _BAR * done // self.total
            bar = "█" * full + "·" * (_BAR - full)
            self._stream.write(f"{_CLEAR}{bar} {100 * done // self.total:3d} %  {text}")
            self._stream.flush()

    def close(self) -> None:
        """Remove the bar; may be called again."""
        if self._shown:
            self._stream.write(_CLEAR)
            self._stream.flush()


def as_text(description: dict[str, Any], plan: Plan, speed: Speed) -> str:
    """Return the table for people."""
    times = "once" if plan.rounds == 1 else f"medians of {plan.rounds}"
    title = (
        f"{description['model']}: prompts of {speed.prompt_tokens} tokens, {plan.tokens} tokens a branch, {times}\n\n"
        f"{'':>5}{'ms to the first token':^26}{'tokens per second':^24}{'times faster than':>18}\n"
        f"{'n':>5}{'new prompt':>13}{'known':>11}{'a branch':>13}{'together':>12}{'n requests':>17}\n"
    )
    return title + "\n".join(map(_line, speed.rows)) + "\n"


def _line(row: Row) -> str:
    firsts = f"{1000 * row.first_token_cold:>13.0f}{1000 * row.first_token_warm:>11.0f}"
    rates = f"{row.tokens_per_second_of_a_branch:>13.1f}{row.tokens_per_second:>12.1f}"
    return f"{row.n:>5}{firsts}{rates}{row.gain:>17.1f}"


def as_json(description: dict[str, Any], plan: Plan, speed: Speed) -> dict[str, Any]:
    """Return the same numbers as an object; times are seconds."""
    rows = [
        dataclasses.asdict(row) | {"tokens_per_second_of_a_branch": row.tokens_per_second_of_a_branch}
        for row in speed.rows
    ]
    return {
        "srb": version(),
        "server": description["version"],
        "model": description["model"],
        "prompt_tokens": speed.prompt_tokens,
        "tokens": plan.tokens,
        "rounds": plan.rounds,
        "rows": rows,
    }
