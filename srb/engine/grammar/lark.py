"""GBNF as llguidance's Lark. Pure.

llguidance's lexer takes the longest lexeme and never goes back, and GBNF has no lexemes: with lexemes of several
characters `[a-z]+ "b"` would never find its b. So a grammar that is a regular expression is one lexeme, and any other has
a lexeme for each character.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence

from srb.engine.grammar.gbnf import Chars, Choice, Node, Parts, Repeat, Rule, Text, Token, names_in
from srb.engine.grammar.limits import MAX_SIZE, OPTIONAL_SIZE
from srb.engine.grammar.tails import turned

HEAD = "%llguidance {}\n"


def lark_of(rules: Mapping[str, Node], schemas: Sequence[str] = ()) -> str:
    """Return the grammar with these rules, all of which are defined; `schemas` are its rules `schema-0`, `schema-1`, …

    Each is a JSON schema, or a regular expression between slashes.
    """
    rules = turned(rules)
    reachable = _reachable(rules)
    is_regular = (_size(rules, reachable) or MAX_SIZE + 1) <= MAX_SIZE
    names = {name: f"{'R' if is_regular else 'r'}{place}" for place, name in enumerate(reachable)}
    write = _written_as_lexeme if is_regular else _written_by_character
    lines = [f"start: {names['root']}"]
    for name in reachable:
        lines.append(f"{names[name]}: {write(rules[name], names) if name in rules else _foreign(schemas, name)}")
    return HEAD + "\n".join(lines) + "\n"


def _foreign(schemas: Sequence[str], name: str) -> str:
    """Return the body of a rule that is a JSON schema, a regular expression between slashes, or a grammar in Lark."""
    text = schemas[int(name.removeprefix("schema-"))]
    return text if text.startswith(("/", "%lark")) else f"%json {text}"


def _reachable(rules: Mapping[str, Node]) -> list[str]:
    """Return the names of the rules that `root` leads to, the schemas' included."""
    found, waiting = {"root": None}, ["root"]
    while waiting:
        for name in sorted(names_in(rules[waiting.pop()]) - found.keys()):
            found[name] = None
            if name in rules:
                waiting.append(name)
    return list(found)


def _size(rules: Mapping[str, Node], reachable: Sequence[str]) -> int | None:
    """Return the number of elements of a regular expression for `root`; None if there is none.

    A rule is measured when all rules that it refers to are, so rules that refer to themselves never are.
    """
    users: dict[str, list[str]] = {name: [] for name in reachable}
    unmeasured: dict[str, int] = {}
    for name in reachable:
        if name not in rules or _has_token(rules[name]):
            continue  # not regular
        others = names_in(rules[name])
        unmeasured[name] = len(others)
        for other in others:
            users[other].append(name)
    sizes: dict[str, int] = {}
    ready = [name for name, count in unmeasured.items() if not count]
    while ready:
        name = ready.pop()
        sizes[name] = min(_node_size(rules[name], sizes), MAX_SIZE + 1)
        for user in users[name]:
            unmeasured[user] -= 1
            if not unmeasured[user]:
                ready.append(user)
    return sizes.get("root")


def _has_token(node: Node) -> bool:
    match node:
        case Token():
            return True
        case Parts(parts) | Choice(parts):
            return any(map(_has_token, parts))
        case Repeat(part, _, _):
            return _has_token(part)
    return False


def _node_size(node: Node, sizes: Mapping[str, int]) -> int:
    match node:
        case Rule(name):
            return sizes[name]
        case Parts(parts) | Choice(parts):
            return 1 + sum(_node_size(part, sizes) for part in parts)
        case Repeat(part, least, _):
            return _node_size(part, sizes) + (1 if least else OPTIONAL_SIZE)
    return 1


def _written_as_lexeme(node: Node, names: Mapping[str, str]) -> str:
    return _written(node, names, lambda text: [_quoted(text)])


def _written_by_character(node: Node, names: Mapping[str, str]) -> str:
    return _written(node, names, lambda text: map(_quoted, text))


def _written(node: Node, names: Mapping[str, str], literal: Callable[[str], Iterable[str]]) -> str:
    match node:
        case Text(text):
            return " ".join(literal(text)) or '""'
        case Chars(ranges, is_negated):
            return f"/{_char_class(ranges, is_negated)}/"
        case Rule(name):
            return names[name]
        case Token(token):
            return f"<[{token}]>"
        case Parts(parts):
            return " ".join(_grouped(part, names, literal) for part in parts) or '""'
        case Choice(ways):
            return " | ".join(_grouped(way, names, literal) for way in ways)
        case Repeat(_, _, 0):
            return '""'
        case Repeat(part, least, most):
            inner = f"({_written(part, names, literal)})"
            match least, most:
                case 0, None:
                    return f"{inner}*"
                case 1, None:
                    return f"{inner}+"
                case 0, 1:
                    return f"{inner}?"
            return f"{inner}{{{least},{'' if most is None else most}}}"
    raise AssertionError(node)


def _grouped(node: Node, names: Mapping[str, str], literal: Callable[[str], Iterable[str]]) -> str:
    text = _written(node, names, literal)
    return f"({text})" if isinstance(node, Choice | Parts) else text


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _char_class(ranges: Sequence[tuple[int, int]], is_negated: bool) -> str:
    inner = "".join(f"\\u{{{first:X}}}-\\u{{{last:X}}}" for first, last in ranges)
    return f"[{'^' if is_negated else ''}{inner}]"
