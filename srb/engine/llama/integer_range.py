"""The GBNF of the whole numbers within bounds, as JSON writes them. Pure."""

from __future__ import annotations

import math
from typing import Any

MAX_DIGITS = 40  # of a bound
FREE_DIGITS = 16  # most digits where there is no bound, as in llama.cpp's converter


def bounds_of(schema: dict[str, Any]) -> tuple[int | None, int | None]:
    """Return the least and the most whole number that a JSON schema allows; None: no bound. Raise ValueError."""
    least, most = _number(schema.get("minimum")), _number(schema.get("maximum"))
    above, below = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    lower = [] if least is None else [math.floor(least) + 1 if above is True else math.ceil(least)]
    upper = [] if most is None else [math.ceil(most) - 1 if below is True else math.floor(most)]
    if (number := _number(above)) is not None:
        lower.append(math.floor(number) + 1)
    if (number := _number(below)) is not None:
        upper.append(math.ceil(number) - 1)
    return max(lower, default=None), min(upper, default=None)


def _number(value: Any) -> int | float | None:
    """Return a bound; None for none, and for the booleans of older schemas. Raise ValueError."""
    if value is None or isinstance(value, bool):
        return None
    if not isinstance(value, int | float) or not abs(value) < 10**MAX_DIGITS:
        raise ValueError(f"a bound should be a number of at most {MAX_DIGITS} digits")
    return value


def integer_range(least: int | None, most: int | None) -> str:
    """Return the expression of the numbers from `least` to `most`; None: no bound. Raise ValueError if there are none."""
    if least is not None and most is not None and least > most:
        raise ValueError(f"no whole number is at least {least} and at most {most}")
    parts = []
    if least is None or least < 0:
        least_size = 1 if most is None or most >= 0 else -most
        parts.append(f'"-" ( {_positive(least_size, None if least is None else -least)} )')
    if most is None or most >= 0:
        parts.append(_positive(max(least or 0, 0), most))
    return " | ".join(parts)


def _positive(least: int, most: int | None) -> str:
    """Return the expression of the numbers from `least`, which is not negative, to `most`."""
    low = str(least)
    if most is None:
        longer = max(FREE_DIGITS, len(low) + 1) - 1  # digits after the first
        return f"{_alike(low, '9' * len(low))} | [1-9] {_digits(len(low), longer)}"
    high = str(most)
    if len(low) == len(high):
        return _alike(low, high)
    parts = [_alike(low, "9" * len(low))]
    if len(high) - len(low) > 1:
        parts.append(f"[1-9] {_digits(len(low), len(high) - 2)}")
    return " | ".join([*parts, _alike("1" + "0" * (len(high) - 1), high)])


def _alike(low: str, high: str) -> str:
    """Return the expression of the digits from `low` to `high`, which are equally many."""
    if not low:
        return ""
    rest = len(low) - 1
    if low[0] == high[0]:
        return f'"{low[0]}" {_grouped(_alike(low[1:], high[1:]))}'.rstrip()
    first, last = int(low[0]), int(high[0])
    parts = []
    if low[1:] != "0" * rest:
        parts.append(f'"{first}" {_grouped(_alike(low[1:], "9" * rest))}')
        first += 1
    above = []
    if high[1:] != "9" * rest:
        above.append(f'"{last}" {_grouped(_alike("0" * rest, high[1:]))}')
        last -= 1
    if first <= last:
        parts.append(f"[{first}-{last}] {_digits(rest, rest)}".rstrip())
    return " | ".join([*parts, *above])


def _digits(least: int, most: int) -> str:
    """Return the expression of `least` to `most` digits."""
    if most == 0:
        return ""
    return f"[0-9]{{{least}}}" if least == most else f"[0-9]{{{least},{most}}}"


def _grouped(text: str) -> str:
    return f"( {text} )" if " | " in text else text
