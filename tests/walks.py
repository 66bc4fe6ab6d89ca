"""How many examples the walks and the other random tests draw: TEST_EXAMPLES multiplies the number of each."""

from __future__ import annotations

import math
import os

VARIABLE = "TEST_EXAMPLES"  # not SRB_…: settings are read from these, and one that is unknown is refused


def factor() -> float:
    """Return the number that TEST_EXAMPLES is, 1 without it. Raise ValueError for any but a positive number."""
    text = os.environ.get(VARIABLE) or "1"
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise ValueError(f"{VARIABLE} is {text!r}; it has to be a positive number, such as 0.3 or 20")
    return number


def examples(number: int) -> int:
    """Return how many examples to draw of a test that has `number` of them by itself; one at least."""
    return max(1, round(number * factor()))
