"""How large a regular expression of rules is for llguidance. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from srb.engine.grammar.gbnf import Chars, Choice, Node, Parts, Repeat, Rule, Text
from srb.engine.grammar.limits import MAX_SIZE


@dataclass(frozen=True, slots=True)
class _Size:
    """The size of an expression: of its sequence and its choice, into which llguidance puts those within, and the rest."""

    length: int
    optional: int = 0  # parts of the sequence that may be missing; each follows upon all before it, in pairs
    ways: int = 1
    rest: int = 0

    @property
    def whole(self) -> int:
        # 50 pairs of parts that may be missing are worth an element.
        return min(self.length + self.optional**2 // 50 + self.ways + self.rest, 2 * MAX_SIZE + 1)


def size_of(rules: Mapping[str, Node]) -> int:
    """Return the number of elements of a regular expression; rules stand behind those that they refer to.

    A reference to a rule that does not counts as one.
    """
    sizes: dict[str, _Size] = {}
    whole = 0
    for name, node in rules.items():
        size = _node_size(node, sizes)
        sizes[name] = _Size(*(min(each, 2 * MAX_SIZE + 1) for each in (size.length, size.optional, size.ways)))
        whole += size.whole
    return whole


def _node_size(node: Node, sizes: Mapping[str, _Size]) -> _Size:
    match node:
        case Rule(name):
            return sizes.get(name, _Size(1))
        case Text(text):
            return _Size((len(text) + 7) // 8)  # characters in a row are one element's worth by eights
        case Chars(ranges):
            return _Size(1, rest=len(ranges) // 8)
        case Parts(parts):
            inner = [_node_size(part, sizes) for part in parts]
            lengths, optional = sum(each.length for each in inner), sum(each.optional for each in inner)
            return _Size(lengths, optional, 1, sum(each.rest + each.ways - 1 for each in inner))
        case Choice(ways):
            inner = [_node_size(way, sizes) for way in ways]
            is_optional = any(each.length == each.optional for each in inner)
            return _Size(1, int(is_optional), sum(each.ways for each in inner), sum(each.whole for each in inner))
        case Repeat(part, least, _):
            size = _node_size(part, sizes)
            return _Size(1, int(not least or size.length == size.optional), 1, size.whole)
    return _Size(1)
