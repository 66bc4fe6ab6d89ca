"""What a GBNF grammar must satisfy before llama.cpp's parser, which recurses and expands without limit, sees it."""

from __future__ import annotations

import re

from srb.errors import bad_field

MAX_BYTES = 64 * 1024
MAX_MADE_BYTES = 256 * 1024
MAX_DEPTH = 100
MAX_REPEATS = 2000  # of one element, nested repetitions multiplied

_TOKEN = re.compile(
    r"""
    (?P<skip> \#[^\n]* | "(?:\\.|[^"\\])*" | \[(?:\\.|[^\]\\])*\] )
  | (?P<open> \( )
  | (?P<close> \) (?P<group_repeat> \s*\{[^}]*\} )? )
  | (?P<repeat> \{[^}]*\} )
    """,
    re.VERBOSE | re.DOTALL,
)


def check_grammar(grammar: str, field: str = "grammar") -> None:
    """Raise InvalidRequest for a grammar too long, nested too deeply, or whose repetitions multiply too far.

    `field` is what it came from: one that was made from a JSON schema may be longer than what it was made from.
    """
    max_bytes = MAX_BYTES if field == "grammar" else MAX_MADE_BYTES
    if len(grammar.encode()) > max_bytes:
        raise bad_field(field, f"has {len(grammar.encode())} bytes; at most {max_bytes} are taken")
    if "\0" in grammar:
        raise bad_field(field, "contains a NUL character")
    inner = [1]  # for each open group, the largest repetition inside it
    for match in _TOKEN.finditer(grammar):
        if match["open"]:
            inner.append(1)
            if len(inner) - 1 > MAX_DEPTH:
                raise bad_field(field, f"groups are nested deeper than {MAX_DEPTH}")
        elif match["close"]:
            repeats = inner.pop() if len(inner) > 1 else 1
            repeats *= _times(match["group_repeat"])
            inner[-1] = max(inner[-1], repeats)
        elif match["repeat"]:
            inner[-1] = max(inner[-1], _times(match["repeat"]))
        if inner[-1] > MAX_REPEATS:
            raise bad_field(field, f"repeats an element more than {MAX_REPEATS} times")


def _times(braces: str | None) -> int:
    """Return the largest count in `{m}`, `{m,}` or `{m,n}`; 1 where there is none."""
    counts = [min(int(digits[:9]), 10**9) for digits in re.findall(r"\d+", braces or "")]
    return max(counts, default=1) or 1
