"""GBNF as llguidance's Lark. Pure.

llguidance's lexer takes the longest lexeme and never goes back, and GBNF has no lexemes: with lexemes of several
characters `[a-z]+ "b"` would never find its b. Its parser, with a lexeme for each character, is exact but takes 30 ms for
a mask of an ordinary grammar, and without a bound: a single row of its table may take seconds. So a grammar is one
lexeme, a regular expression, whose automaton is made as texts need it and whose work is counted. Only the forms of tool
calls, whose schemas are grammars of their own, have a lexeme for each character; and for each repetition of a negated
class, which names all characters that may begin what follows it: a mask of free text by characters would be too complex.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from srb.engine.grammar.gbnf import MAX_CHAR, Chars, Choice, Node, Parts, Repeat, Rule, Text, Token, names_in
from srb.engine.grammar.limits import MAX_SIZE, MAX_TOKENS
from srb.engine.grammar.recursion import DEEPER, size_of, without_recursion
from srb.engine.grammar.tails import turned
from srb.errors import bad_field

HEAD = "%llguidance {}\n"
# Characters of the last private plane stand for tokens, and for what nests too deeply; no class of a grammar has them.
LAST_PRIVATE = ord(DEEPER)
TOKEN_CHARS = [chr(MAX_CHAR + 1 + number) for number in range(MAX_TOKENS)]


@dataclass(frozen=True, slots=True)
class Lark:
    """A grammar for llguidance, the vocabulary's tokens for which TOKEN_CHARS stand, and whether DEEPER is in it."""

    text: str
    tokens: tuple[int, ...] = ()
    has_levels: bool = False


def lark_of(rules: Mapping[str, Node], schemas: Sequence[str] = (), field: str = "grammar") -> Lark:
    """Return the grammar with these rules, all of which are defined; `schemas` are its rules `schema-0`, `schema-1`, …

    Each is a JSON schema, or a regular expression between slashes. Raise InvalidRequest, which names `field`.
    """
    if schemas:
        return _by_character(rules, schemas)
    made = without_recursion(rules, field)
    if size_of(made) > 2 * MAX_SIZE:
        raise bad_field(
            field, f"has more than {2 * MAX_SIZE} elements, those of rules within sequences counted each time"
        )
    tokens = tuple(dict.fromkeys(token for node in made.values() for token in _tokens(node)))
    if len(tokens) > MAX_TOKENS:
        raise bad_field(field, f"names {len(tokens)} tokens; at most {MAX_TOKENS} are taken")
    names = {name: f"R{place}" for place, name in enumerate(made)}
    chars = {token: _quoted(char) for token, char in zip(tokens, TOKEN_CHARS, strict=False)}
    lines = [f"start: {names['root']}"]
    lines += [
        f"{names[name]}: {_written(node, names, lambda text: [_quoted(text)], chars)}" for name, node in made.items()
    ]
    text = HEAD + "\n".join(lines) + "\n"
    return Lark(text, tokens, DEEPER in text)


def _by_character(rules: Mapping[str, Node], schemas: Sequence[str]) -> Lark:
    """Return the grammar of a form of tool calls."""
    rules = turned(rules)
    reachable = _reachable(rules)
    names = {name: f"r{place}" for place, name in enumerate(reachable)}
    literals: dict[str, str] = {}  # their rules; each is one, since llguidance takes 65,000 signs and groups

    def spelled(text: str) -> Iterable[str]:
        return [literals.setdefault(text, f"l{len(literals)}")] if len(text) > 1 else map(_quoted, text)

    lines = [f"start: {names['root']}"]
    for name in reachable:
        body = _written(rules[name], names, spelled, {}) if name in rules else _foreign(schemas, name)
        lines.append(f"{names[name]}: {body}")
    lines += [f"{name}: {' '.join(map(_quoted, text))}" for text, name in literals.items()]
    return Lark(HEAD + "\n".join(lines) + "\n")


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


def _tokens(node: Node) -> Iterable[int]:
    match node:
        case Token(token):
            yield token
        case Parts(parts) | Choice(parts):
            for part in parts:
                yield from _tokens(part)
        case Repeat(part, _, _):
            yield from _tokens(part)


def _written(
    node: Node, names: Mapping[str, str], literal: Callable[[str], Iterable[str]], tokens: Mapping[int, str]
) -> str:
    match node:
        case Text(text):
            return " ".join(literal(text)) or '""'
        case Chars(ranges, is_negated):
            return f"/{_char_class(ranges, is_negated)}/"
        case Rule(name):
            return names[name]
        case Token(token):
            return tokens[token]
        case Parts(parts):
            return " ".join(_grouped(part, names, literal, tokens) for part in parts) or '""'
        case Choice(ways):
            return " | ".join(_grouped(way, names, literal, tokens) for way in ways)
        case Repeat(_, _, 0):
            return '""'
        case Repeat(Chars(ranges, True), 0 | 1 as least, None):
            return f"/{_char_class(ranges, True)}+/{'' if least else '?'}"
        case Repeat(part, least, most):
            inner = f"({_written(part, names, literal, tokens)})"
            match least, most:
                case 0, None:
                    return f"{inner}*"
                case 1, None:
                    return f"{inner}+"
                case 0, 1:
                    return f"{inner}?"
            return f"{inner}{{{least},{'' if most is None else most}}}"
    raise AssertionError(node)


def _grouped(
    node: Node, names: Mapping[str, str], literal: Callable[[str], Iterable[str]], tokens: Mapping[int, str]
) -> str:
    text = _written(node, names, literal, tokens)
    return f"({text})" if isinstance(node, Choice | Parts) else text


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _char_class(ranges: Sequence[tuple[int, int]], is_negated: bool) -> str:
    ranges = [*ranges, (MAX_CHAR + 1, LAST_PRIVATE)] if is_negated else ranges
    inner = "".join(f"\\u{{{first:X}}}-\\u{{{last:X}}}" for first, last in ranges)
    return f"[{'^' if is_negated else ''}{inner}]"
