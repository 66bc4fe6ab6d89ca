"""The benchmark on a screen: a bar while it runs, one table at its end."""

import dataclasses
from typing import Any, TextIO

from srb.bench.speed import Plan, Row, Speed
from srb.version import version

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
