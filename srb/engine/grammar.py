"""Checks of a GBNF grammar before llama.cpp parses it: its parser recurses and expands without limit. And its parts."""

from __future__ import annotations

import re
from collections.abc import Sequence

from srb.errors import bad_field
from srb.sampling_params import MAX_GRAMMAR

MAX_MADE_BYTES = 256 * 1024
MAX_DEPTH = 100
MAX_REPEATS = 2000  # repetitions of one element, nested ones multiplied

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
    """Raise InvalidRequest for a grammar that is too long, nested too deeply, or repeats an element too often.

    `field` is the request's field: "grammar", or "json_schema" for a grammar made from one, which may be longer.
    """
    max_bytes = MAX_GRAMMAR if field == "grammar" else MAX_MADE_BYTES
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


_NAME = re.compile(r"""(?P<skip>\#[^\n]*|"(?:\\.|[^"\\])*"|\[(?:\\.|[^\]\\])*\]|\{[^}]*\})|(?P<name>[A-Za-z0-9-]+)""")


def with_rules(grammar: str, parts: Sequence[str]) -> str:
    """Return `grammar` with the rules of other grammars, the i-th of which it names `schema-i`."""
    return "\n".join((grammar, *(_renamed(part, f"schema-{place}") for place, part in enumerate(parts))))


def _renamed(grammar: str, root: str) -> str:
    """Return a grammar whose rule `root` has another name, with which all others begin."""

    def rename(match: re.Match[str]) -> str:
        name = match["name"]
        return match[0] if name is None else root if name == "root" else f"{root}-{name}"

    return _NAME.sub(rename, grammar)
