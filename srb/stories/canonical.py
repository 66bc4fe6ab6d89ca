"""The canonical form of RFC 8785 (JSON Canonicalization Scheme), by which server and page order versions of equal times.

It is what JavaScript would write: keys in the order of their UTF-16 units, and numbers as ECMAScript shows doubles. The page
has its own writer of it in story/merge.js, tested with the same table, tests/page/unit/canonical.json. Stored texts are
compact JSON with sorted keys (`nodes.stored_json`), and need not be canonical.
"""

from decimal import Decimal
from typing import Any

import orjson

_EXACT = 2**53  # up to which every integer is a double
_MOST_PLAIN = 21  # digits before the point, from which on ECMAScript writes an exponent
_MOST_ZEROS = 6  # zeros after the point, likewise


def canonical(value: Any) -> str:
    """Return the canonical text of a JSON value, which is nested at most as deep as the limits of stories allow."""
    match value:
        case dict():
            names = sorted(value, key=in_utf16)
            return "{" + ",".join(f"{_string(name)}:{canonical(value[name])}" for name in names) + "}"
        case list():
            return "[" + ",".join(map(canonical, value)) + "]"
        case bool() | None:
            return {True: "true", False: "false", None: "null"}[value]
        case int() | float():
            return _number(value)
        case _:
            return _string(value)


def in_utf16(text: str) -> bytes:
    """Return a key that orders texts as JavaScript does."""
    return text.encode("utf-16-be")


def _string(text: str) -> str:
    return orjson.dumps(text).decode()  # escapes what JSON.stringify escapes


def _number(value: float) -> str:
    """Return a number as ECMAScript's Number::toString does, which reads integers beyond 2**53 as the nearest double."""
    if isinstance(value, int) and abs(value) <= _EXACT:
        return str(value)
    sign, places, exponent = Decimal(repr(float(value))).normalize().as_tuple()
    assert isinstance(exponent, int), "only finite numbers are stored"
    digits = "".join(map(str, places))
    point = len(digits) + exponent  # where the decimal point stands in the digits
    if digits == "0":
        return "0"  # also for -0, as JSON.stringify does
    if len(digits) <= point <= _MOST_PLAIN:
        text = digits + "0" * exponent
    elif 0 < point <= _MOST_PLAIN:
        text = f"{digits[:point]}.{digits[point:]}"
    elif -_MOST_ZEROS < point <= 0:
        text = f"0.{'0' * -point}{digits}"
    else:
        fraction = f".{digits[1:]}" if len(digits) > 1 else ""
        text = f"{digits[0]}{fraction}e{point - 1:+d}"
    return f"-{text}" if sign else text
