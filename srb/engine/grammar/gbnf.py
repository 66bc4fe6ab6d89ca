"""GBNF, llama.cpp's language of grammars: its parser. Pure; the limits bound its recursion and what comes after it."""

import re
import sys
from dataclasses import dataclass

from srb.engine.grammar.limits import MAX_DEPTH, MAX_MADE_BYTES, MAX_REPEATS
from srb.errors import bad_field

MAX_CHAR = 0xFFFFF  # the private plane beyond stands for what no text has; no class takes its characters


@dataclass(frozen=True, slots=True)
class Text:
    """A literal; "" matches nothing but itself."""

    text: str


@dataclass(frozen=True, slots=True)
class Chars:
    """One character within the ranges, or outside of them."""

    ranges: tuple[tuple[int, int], ...]
    is_negated: bool = False


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule by its name."""

    name: str


@dataclass(frozen=True, slots=True)
class Token:
    """One token of the vocabulary, whatever its text."""

    token: int


@dataclass(frozen=True, slots=True)
class Parts:
    """Parts, one after the other."""

    parts: "tuple[Node, ...]"


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several ways."""

    ways: "tuple[Node, ...]"


@dataclass(frozen=True, slots=True)
class Repeat:
    """A part, `least` to `most` times; None: any number."""

    part: "Node"
    least: int
    most: int | None


Node = Text | Chars | Rule | Token | Parts | Choice | Repeat
EMPTY = Parts(())
ANY_CHAR = Chars(((0, MAX_CHAR),))

_SPACE = re.compile(r"(?:[ \t]|#[^\r\n]*)*")
_LINES = re.compile(r"(?:\s|#[^\r\n]*)*")
_NAME = re.compile(r"[A-Za-z0-9_-]+")
_TOKEN = re.compile(r"<\[(\d{1,9})\]>")
_REPEAT = re.compile(r"\{\s*(\d+)\s*(?:(,)\s*(\d+)?\s*)?\}|[*+?]")
_HEX = {"x": 2, "u": 4, "U": 8}
_ESCAPES = {"t": "\t", "r": "\r", "n": "\n", "\\": "\\", '"': '"', "[": "[", "]": "]"}


def parse(text: str, num_schemas: int = 0, field: str = "grammar") -> dict[str, Node]:
    """Return the rules of a grammar, of a name that is defined twice the last; it may name schemas by their numbers.

    Raise InvalidRequest, which names `field`.
    """
    if (size := len(text.encode())) > MAX_MADE_BYTES:
        raise bad_field(field, f"makes a grammar of {size} bytes; at most {MAX_MADE_BYTES} are taken")
    if "\0" in text:
        raise bad_field(field, "contains a NUL character")
    rules = _Parser(text, field).rules()
    if "root" not in rules:
        raise bad_field(field, "has no rule named root")
    known = rules.keys() | {f"schema-{number}" for number in range(num_schemas)}
    for name, node in rules.items():
        if missing := names_in(node) - known:
            raise bad_field(field, f"rule {name} refers to {min(missing)}, which is not defined")
    return rules


class _Parser:
    """A position in the text of a grammar; `parse_rule` and its parts are llama.cpp's, with limits."""

    def __init__(self, text: str, field: str) -> None:
        self._text = text
        self._field = field
        self._at = 0

    def rules(self) -> dict[str, Node]:
        found: dict[str, Node] = {}
        self._skip(_LINES)
        while self._at < len(self._text):
            name = self._expect(_NAME, "the name of a rule")
            self._skip(_SPACE)
            if not self._takes("::="):
                raise self._error("::= should follow the name of a rule")
            self._skip(_LINES)
            node, _ = self._choice(depth=0)
            found[name] = node
            if self._at < len(self._text) and self._text[self._at] not in "\r\n":
                raise self._error("a rule should end here")
            self._skip(_LINES)
        return found

    def _choice(self, depth: int) -> tuple[Node, int]:
        """Return ways and the largest repetition within them."""
        if depth > MAX_DEPTH:
            raise bad_field(self._field, f"groups are nested deeper than {MAX_DEPTH}")
        space = _LINES if depth else _SPACE
        ways, times = [], 1
        while True:
            parts: list[Node] = []
            while (found := self._part(depth)) is not None:
                part, inner = found
                self._skip(space)
                while repeat := _REPEAT.match(self._text, self._at):
                    part, count = _repeated(part, repeat)
                    if part.most is not None and part.most < part.least:
                        raise self._error("a repetition has its smaller number first")
                    self._at = repeat.end()
                    inner *= count
                    self._skip(space)
                if inner > MAX_REPEATS:
                    raise bad_field(self._field, f"repeats an element more than {MAX_REPEATS} times")
                times = max(times, inner)
                parts.append(part)
            ways.append(parts[0] if len(parts) == 1 else Parts(tuple(parts)))
            if not self._takes("|"):
                return (ways[0] if len(ways) == 1 else Choice(tuple(ways))), times
            self._skip(_LINES)

    def _part(self, depth: int) -> tuple[Node, int] | None:
        """Return one element and the largest repetition within it; None at the end of a sequence."""
        char = self._text[self._at : self._at + 1]
        if char == "(":
            self._at += 1
            self._skip(_LINES)
            found = self._choice(depth + 1)
            if not self._takes(")"):
                raise self._error("a group should end here with )")
            return found
        if char == '"':
            return Text(self._literal()), 1
        if char == "[":
            return self._chars(), 1
        if char == ".":
            self._at += 1
            return ANY_CHAR, 1
        if char == "<":
            token = _TOKEN.match(self._text, self._at)
            if token is None:
                raise self._error("a token is written <[id]>, with its id")
            self._at = token.end()
            return Token(int(token[1])), 1
        name = _NAME.match(self._text, self._at)
        if name is None:
            return None
        self._at = name.end()
        return Rule(name[0]), 1

    def _literal(self) -> str:
        begin = self._at
        self._at += 1
        chars = []
        while not self._takes('"'):
            chars.append(self._char(begin))
            if ord(chars[-1]) > MAX_CHAR:
                raise self._error("no text may have a character of the last private plane")
        return "".join(chars)

    def _chars(self) -> Chars:
        begin = self._at
        self._at += 1
        is_negated = self._takes("^")
        ranges = []
        while not self._takes("]"):
            first = last = ord(self._char(begin))
            if self._text[self._at : self._at + 1] == "-" and self._text[self._at + 1 : self._at + 2] != "]":
                self._at += 1
                last = ord(self._char(begin))
            if first <= (last := min(last, MAX_CHAR)):
                ranges.append((first, last))
        if not ranges:
            ranges, is_negated = [(0, MAX_CHAR)], not is_negated
        return Chars(tuple(ranges), is_negated)

    def _char(self, begin: int) -> str:
        """Return a character, perhaps escaped, of what began at `begin`."""
        char = self._text[self._at : self._at + 1]
        if not char:
            self._at = begin
            raise self._error("this has no end")
        self._at += 1
        if char != "\\":
            return char
        kind = self._text[self._at : self._at + 1]
        self._at += 1
        if (size := _HEX.get(kind)) is not None:
            digits = self._text[self._at : self._at + size]
            self._at += size
            if re.fullmatch(f"[0-9A-Fa-f]{{{size}}}", digits) and _is_char(code := int(digits, 16)):
                return chr(code)
        elif kind in _ESCAPES:
            return _ESCAPES[kind]
        self._at -= 1
        raise self._error("this escape stands for no character")

    def _skip(self, space: re.Pattern[str]) -> None:
        found = space.match(self._text, self._at)
        assert found is not None
        self._at = found.end()

    def _takes(self, text: str) -> bool:
        if not self._text.startswith(text, self._at):
            return False
        self._at += len(text)
        return True

    def _expect(self, pattern: re.Pattern[str], what: str) -> str:
        found = pattern.match(self._text, self._at)
        if found is None:
            raise self._error(f"{what} should stand here")
        self._at = found.end()
        return found[0]

    def _error(self, problem: str) -> Exception:
        line = self._text.count("\n", 0, self._at) + 1
        return bad_field(self._field, f"line {line}: {problem}: {self._text[self._at : self._at + 20]!r}")


def _is_char(code: int) -> bool:
    return code < 0xD800 or 0xDFFF < code <= sys.maxunicode


def _repeated(part: Node, repeat: re.Match[str]) -> tuple[Repeat, int]:
    """Return a repeated part, and the count that limits nested repetitions."""
    match repeat[0]:
        case "*":
            return Repeat(part, 0, None), 1
        case "+":
            return Repeat(part, 1, None), 1
        case "?":
            return Repeat(part, 0, 1), 1
    least = int(repeat[1][:9])  # nine digits are beyond MAX_REPEATS, too, and int() refuses thousands of them
    most = int(repeat[3][:9]) if repeat[3] else None if repeat[2] else least
    return Repeat(part, least, most), max(least, most or 0, 1)


def names_in(node: Node) -> set[str]:
    """Return the names of the rules that an expression refers to."""
    match node:
        case Rule(name):
            return {name}
        case Parts(parts) | Choice(parts):
            return set().union(*map(names_in, parts))
        case Repeat(part, _, _):
            return names_in(part)
    return set()


def preceded(grammar: str, before: str) -> str:
    """Return a grammar of text that the expression `before` takes, and then of `grammar`'s."""

    def rename(match: re.Match[str]) -> str:
        return "answer-root" if match["name"] == "root" else match[0]

    return f"root ::= {before} answer-root\n{_NAMES.sub(rename, grammar)}"


_NAMES = re.compile(
    r"""(?P<skip>\#[^\n]*|"(?:\\.|[^"\\])*"|\[(?:\\.|[^\]\\])*\]|\{[^}]*\})|(?P<name>[A-Za-z0-9_-]+)""", re.DOTALL
)
