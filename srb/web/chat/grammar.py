"""GBNF in parts: rules with names, literals, and text that ends before a marker."""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from srb.config.sampling_params import MARKS


class Rules:
    """The rules of a grammar, and the JSON schemas whose rules the engine adds as `schema-0`, `schema-1`, …"""

    def __init__(self) -> None:
        self._rules: dict[str, str] = {}
        self._names: dict[str, str] = {}  # of the rules, by their text
        self._schemas: dict[str, tuple[int, str]] = {}  # their numbers and texts, by their texts without a place

    @property
    def schemas(self) -> tuple[str, ...]:
        """The schemas, as JSON text; never none, since the engine knows by them that a grammar is made of tools."""
        return tuple(text for _, text in self._schemas.values()) or ('{"type":"object"}',)

    def set(self, name: str, rule: str) -> None:
        self._rules[name] = rule
        self._names.setdefault(rule, name)

    def add(self, name: str, rule: str) -> str:
        """Add a rule; return its name, which has a number. An equal rule is added once."""
        if rule not in self._names:
            self.set(f"{name}-{len(self._rules)}", rule)
        return self._names[rule]

    def reserve(self, name: str) -> str:
        """Return a new name, with a number, of a rule that is set later, since it may refer to itself."""
        made = f"{name}-{len(self._rules)}"
        self._rules[made] = '""'
        return made

    def schema(self, schema: Any) -> str:
        """Return the name of the rule of a JSON schema; equal ones of several places have one rule."""
        own = (
            {name: value for name, value in schema.items() if name not in MARKS}
            if isinstance(schema, Mapping)
            else schema
        )
        key = orjson.dumps(own).decode()
        number, _ = self._schemas.setdefault(key, (len(self._schemas), orjson.dumps(schema).decode()))
        return f"schema-{number}"

    def text(self, root: str) -> str:
        """Return the grammar whose first rule is `root`."""
        return "\n".join(f"{name} ::= {rule}" for name, rule in {"root": root, **self._rules}.items()) + "\n"


def quoted(text: str) -> str:
    """Return a literal of GBNF."""
    escaped = (
        text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    )
    return f'"{escaped}"'


def any_text_until(rules: Rules, marker: str, before: str = "") -> str:
    """Return the expression of any text without `marker`, with its rules added; the marker, perhaps after `before`, follows.

    A rule stands for each number of the marker's characters that the text ends with (Knuth, Morris and Pratt's automaton).
    All characters of which none can begin what follows are one repeated class, which llguidance reads as a whole.
    """
    prefix = f"until-{'-'.join(f'{ord(char):x}' for char in before + marker)}"
    for matched in range(len(marker)):
        after = {char: _matched(marker, marker[:matched] + char) for char in dict.fromkeys(marker)}
        steps = [f"{quoted(char)} {prefix}-{count}" for char, count in after.items() if 0 < count < len(marker)]
        held = "".join(_in_class(char) for char, count in after.items() if count)
        if not matched:
            steps += [f"{quoted(char)} {prefix}-0" for char in before]
            held += "".join(map(_in_class, before))
        steps.append(f"[^{held}]{'' if matched else '+'} {prefix}-0")
        rules.set(f"{prefix}-{matched}", " | ".join(steps) + ' | ""')
    return f"{prefix}-0"


def members(rules: Rules, required: Sequence[str], optional: Sequence[str], comma: str) -> str:
    """Return the expression of members of an object: those that are required, then any of the others in their order."""
    more, tails = "", []
    for one in reversed(optional):
        tails.append(more)
        more = rules.add("more", f"( {comma} {one} )? {more}")
    if required:
        return f" {comma} ".join(required) + f" {more}"
    ways = [f"{one} {tail}" for one, tail in zip(optional, reversed(tails), strict=True)]
    return f"( {' | '.join(ways)} )?" if ways else '""'


def _matched(marker: str, text: str) -> int:
    return next(length for length in range(min(len(marker), len(text)), -1, -1) if text.endswith(marker[:length]))


def _in_class(char: str) -> str:
    escapes = {"\n": "n", "\r": "r", "\t": "t", "\\": "\\", "]": "]", "[": "[", "^": "x5E", "-": "x2D"}
    return f"\\{escapes[char]}" if char in escapes else char
