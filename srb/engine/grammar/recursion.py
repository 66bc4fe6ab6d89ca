"""Rules that refer to themselves, as a regular expression. Pure.

A rule that refers to itself at its end, or at its beginning, is a repetition (Arden's lemma). Rules that nest, as lists
within lists do, become copies, one for each level. Below the last stands DEEPER, which no text has: texts of fewer levels
are taken exactly, and a mask that has DEEPER belongs to a text that may nest deeper.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import TypeVar

from srb.engine.grammar.gbnf import EMPTY, Chars, Choice, Node, Parts, Repeat, Rule, Text, names_in
from srb.engine.grammar.limits import MAX_LEVELS, MAX_RING, MAX_SIZE, MIN_LEVELS
from srb.errors import bad_field

_Name = TypeVar("_Name", str, int)
DEEPER = "\U0010ffff"  # of the plane that is private and last, whose characters no grammar takes
MAX_SPLIT = 8  # repetitions within each other at whose ends rules may stand: each doubles the equation
_NEVER = Text(DEEPER)  # of a rule that makes no text at all


def without_recursion(rules: Mapping[str, Node], field: str = "grammar") -> dict[str, Node]:
    """Return rules of the same texts, none of which leads back to itself; each stands behind those that it refers to.

    Raise InvalidRequest, which names `field`.
    """
    made: dict[str, Node] = {}
    nullable: set[str] = set()
    for group in _groups_of(rules):
        if _refers_to_itself(group):
            _levels(group, field)
            group = _repeated(group, nullable)
            if group.get("root") == _NEVER:
                raise bad_field(field, "allows no text")
            _note_nullable(group, nullable)
            _check_beginnings(group, nullable, field)
            for names in groups({name: names_in(node) & group.keys() for name, node in group.items()}, list(group)):
                nest = {name: group[name] for name in names}
                made |= _copies(nest, field) if _refers_to_itself(nest) else nest
        else:
            _note_nullable(group, nullable)
            made |= group
    return made


def _groups_of(rules: Mapping[str, Node]) -> Iterable[dict[str, Node]]:
    for names in groups({name: names_in(node) for name, node in rules.items()}, ["root"]):
        if names[0] in rules:
            yield {name: rules[name] for name in names}


def groups(refers: Mapping[_Name, Iterable[_Name]], roots: Sequence[_Name]) -> list[list[_Name]]:
    """Return the strongly connected groups of a graph, each behind those that it refers to (Tarjan, without recursion).

    Within a group a name stands before those that it leads to, but for references that go back.
    """
    places: dict[_Name, int] = {}
    lowest: dict[_Name, int] = {}
    open_names: list[_Name] = []
    is_open: set[_Name] = set()
    found: list[list[_Name]] = []
    left: dict[_Name, int] = {}  # in which order names were left; the later, the further in front
    for root in roots:
        if root in places:
            continue
        path = [(root, iter(sorted(refers.get(root, ()))))]
        places[root] = lowest[root] = len(places)
        open_names.append(root)
        is_open.add(root)
        while path:
            name, others = path[-1]
            other = next(others, None)
            if other is None:
                path.pop()
                left[name] = len(left)
                if path:
                    lowest[path[-1][0]] = min(lowest[path[-1][0]], lowest[name])
                if lowest[name] == places[name]:
                    group = open_names[open_names.index(name) :] if open_names[-1] != name else [name]
                    del open_names[-len(group) :]
                    is_open.difference_update(group)
                    found.append(sorted(group, key=left.__getitem__, reverse=True))
            elif other not in places:
                places[other] = lowest[other] = len(places)
                open_names.append(other)
                is_open.add(other)
                path.append((other, iter(sorted(refers.get(other, ())))))
            elif other in is_open:
                lowest[name] = min(lowest[name], places[other])
    return found


def _refers_to_itself(group: Mapping[str, Node]) -> bool:
    return len(group) > 1 or any(name in names_in(node) for name, node in group.items())


# What may be empty ------------------------------------------------------------------------------------------------------


def _note_nullable(rules: Mapping[str, Node], nullable: set[str]) -> None:
    """Add the rules that make the empty text to those of the rules before."""
    users: dict[str, list[str]] = {}
    for name, node in rules.items():
        for other in names_in(node):
            users.setdefault(other, []).append(name)
    waiting = list(rules)[::-1]
    while waiting:
        name = waiting.pop()
        if name not in nullable and _is_nullable(rules[name], nullable):
            nullable.add(name)
            waiting += users.get(name, ())


def _is_nullable(node: Node, nullable: set[str]) -> bool:
    match node:
        case Text(text):
            return not text
        case Rule(name):
            return name in nullable
        case Parts(parts):
            return all(_is_nullable(part, nullable) for part in parts)
        case Choice(ways):
            return any(_is_nullable(way, nullable) for way in ways)
        case Repeat(part, least, _):
            return not least or _is_nullable(part, nullable)
    return False


def _check_beginnings(rules: Mapping[str, Node], nullable: set[str], field: str) -> None:
    """Refuse rules that can begin with themselves: their copies would nest without any text between them."""
    begins = {name: _first_rules(node, nullable) & rules.keys() for name, node in rules.items()}
    for group in groups(begins, list(rules)):
        if len(group) > 1 or group[0] in begins[group[0]]:
            raise bad_field(field, f"rule {group[0].partition('@')[0]} is recursive to the left in more than one way")


def _first_rules(node: Node, nullable: set[str]) -> set[str]:
    """Return the rules that what an expression makes may begin with."""
    match node:
        case Rule(name):
            return {name}
        case Parts(parts):
            found: set[str] = set()
            for part in parts:
                found |= _first_rules(part, nullable)
                if not _is_nullable(part, nullable):
                    break
            return found
        case Choice(ways):
            return set().union(*(_first_rules(way, nullable) for way in ways))
        case Repeat(part, _, most) if most != 0:
            return _first_rules(part, nullable)
    return set()


# Repetitions ------------------------------------------------------------------------------------------------------------


def _repeated(rules: Mapping[str, Node], nullable: set[str]) -> dict[str, Node]:
    """Return the rules of a group, of which none refers to itself at its end, or at its beginning."""
    _note_nullable(rules, nullable)
    end, begin = _Side(nullable, is_end=True), _Side(nullable, is_end=False)
    made = {name: _without_operators(name, node, end, begin) for name, node in rules.items()}
    for side in (end, begin):
        names = set(made)
        at_side = {name: side.split(node, names).before.keys() for name, node in made.items()}
        for ring in groups(at_side, list(made)):
            if 1 < len(ring) <= MAX_RING or ring[0] in at_side[ring[0]]:
                made |= side.solved({name: made[name] for name in ring}, made)
    return made


def _without_operators(name: str, node: Node, end: "_Side", begin: "_Side") -> Node:
    """Return a rule whose ways are operators before, behind and between what it makes, as operands with operators.

    `e ::= e "+" e | "-" e | e "!" | x` becomes `term ("+" term)*` with `"-"* x "!"*` as term.
    """
    at_end = end.split(node, {name})
    before: list[Node] = []
    between: list[Node] = []
    behind: list[Node] = []
    operands: list[Node] = []
    for way in at_end.before.get(name, ()):
        found = begin.split(way, {name})
        between += found.before.get(name, ())
        before += [each for each in found.others if each != EMPTY]
    for way in at_end.others:
        found = begin.split(way, {name})
        behind += [each for each in found.before.get(name, ()) if each != EMPTY]
        operands += found.others
    if not (before or between or behind):
        return node
    if not operands:
        return _NEVER
    parts = [*_led(before, operands), *([Repeat(_one_of(behind), 0, None)] if behind else ())]
    if between:
        parts.append(Repeat(Parts((_one_of(between), *parts)), 0, None))
    return parts[0] if len(parts) == 1 else Parts(tuple(parts))


def _led(before: Sequence[Node], operands: Sequence[Node]) -> list[Node]:
    """Return the parts of operands with any number of what may stand before them.

    `(x ",")* x` is written as `x ("," x)*`: the end of an x would be two places, and that of each x within it twice as many.
    """
    if not before:
        return [_one_of(operands)]
    first = operands[0].parts if isinstance(operands[0], Parts) else operands[:1]
    rests = [
        way.parts[len(first) :] for way in before if isinstance(way, Parts) and way.parts[: len(first)] == tuple(first)
    ]
    if len(operands) == 1 and len(rests) == len(before):
        return [*first, Repeat(_one_of([Parts((*rest, *first)) for rest in rests]), 0, None)]
    return [Repeat(_one_of(before), 0, None), _one_of(operands)]


@dataclass(slots=True)
class _Equation:
    """A rule: what stands beside each of the rules at its side, and its other ways."""

    before: dict[str, list[Node]]
    others: list[Node]

    def add(self, more: "_Equation") -> None:
        """Add the ways of another expression."""
        self.others += more.others
        for name, ways in more.before.items():
            self.before.setdefault(name, []).extend(ways)


class _Side:
    """The end of rules, or their beginning. Comments speak of the end."""

    def __init__(self, nullable: set[str], is_end: bool) -> None:
        self._nullable = nullable
        self._is_end = is_end

    def split(self, node: Node, names: Set[str], depth: int = MAX_SPLIT) -> _Equation:
        """Return the ways of an expression that end with one of these rules, and the others.

        Within more than `depth` repetitions it is not looked at: each doubles the expression.
        """
        match node:
            case Rule(name) if name in names:
                return _Equation({name: [EMPTY]}, [])
            case Choice(ways):
                made = _Equation({}, [])
                for way in ways:
                    made.add(self.split(way, names, depth))
                return made
            case Parts(parts) if parts:
                return self._split_parts(node, names, depth)
            case Repeat(part, least, most) if depth and (least, most) in ((0, 1), (0, None), (1, None)):
                found = self.split(part, names, depth - 1)
                if found.before:
                    if most is None:
                        found = self._behind(Repeat(part, 0, None), found)
                    found.others += [] if least else [EMPTY]
                    return found
        return _Equation({}, [node])

    def _split_parts(self, node: Parts, names: Set[str], depth: int) -> _Equation:
        last, rest = (node.parts[-1], node.parts[:-1]) if self._is_end else (node.parts[0], node.parts[1:])
        found = self.split(last, names, depth)
        if found.before:
            whole = _Equation(found.before, [each for each in found.others if each != EMPTY])
            made = self._behind(Parts(rest), whole)
            if len(whole.others) < len(found.others):  # the last part may be missing
                made.add(self.split(Parts(rest), names, depth))
            return made
        if rest and isinstance(last, Repeat) and not last.least and not names_in(last) & names:
            found = self.split(Parts(rest), names, depth)
            if found.before and not _is_nullable(last.part, self._nullable):
                found.others.append(self._joined(Parts(rest), Repeat(last.part, 1, last.most)))
                return found  # ends with one of them where the last part is missing
        return _Equation({}, [node])

    def _behind(self, node: Node, found: _Equation) -> _Equation:
        """Return the ways that an expression has before what was found of a part behind it."""
        before = {name: [self._joined(node, each) for each in ways] for name, ways in found.before.items()}
        return _Equation(before, [self._joined(node, each) for each in found.others])

    def _joined(self, before: Node, node: Node) -> Node:
        """Return an expression that stands before another one, at the beginning of rules: behind it."""
        both = [before, node] if self._is_end else [node, before]
        parts = [part for each in both for part in (each.parts if isinstance(each, Parts) else (each,))]
        return parts[0] if len(parts) == 1 else Parts(tuple(parts))

    def solved(self, ring: Mapping[str, Node], taken: Mapping[str, Node]) -> dict[str, Node]:
        """Return rules that refer to each other at their ends without these references, and rules that they share."""
        made: dict[str, Node] = {}

        def shared(node: Node) -> Node:
            if isinstance(node, Text | Rule) or node == EMPTY:
                return node
            name = f"{next(iter(ring))}@{'end' if self._is_end else 'begin'}{len(made)}"
            assert name not in taken
            made[name] = node
            return Rule(name)

        equations = {name: self.split(node, set(ring)) for name, node in ring.items()}
        for place, (name, equation) in enumerate(equations.items()):
            own = [way for way in equation.before.pop(name, []) if way != EMPTY]
            if own and not equation.before and equation.others and self._is_end:
                equation.others = [Parts(tuple(_led(own, equation.others)))]
            elif own:
                again = shared(Repeat(_one_of(own), 0, None))
                equation.before = {
                    other: [self._joined(again, _one_of(ways))] for other, ways in equation.before.items()
                }
                equation.others = [self._joined(again, _one_of(equation.others))] if equation.others else []
            if place + 1 < len(equations):
                equation.before = {other: [shared(_one_of(ways))] for other, ways in equation.before.items()}
                equation.others = [shared(_one_of(equation.others))] if equation.others else []
            for later in list(equations.values())[place + 1 :]:
                if ways := later.before.pop(name, []):
                    later.add(self._behind(shared(_one_of(ways)), equation))
        for name, equation in reversed(equations.items()):
            ways = equation.others
            for other, before in equation.before.items():
                if equations[other].others:
                    ways = [*ways, self._joined(_one_of(before), Rule(other))]
            equation.others = ways
            made[name] = _one_of(ways) if ways else _NEVER
        return made


def _one_of(ways: Sequence[Node]) -> Node:
    return ways[0] if len(ways) == 1 else Choice(tuple(ways))


# Levels -----------------------------------------------------------------------------------------------------------------


def _copies(rules: Mapping[str, Node], field: str) -> dict[str, Node]:
    """Return a copy of the rules of a group for each level, the innermost first; the outermost has their names."""
    levels = _levels(rules, field)
    order = {name: place for place, name in enumerate(rules)}

    def named(name: str, level: int) -> str:
        return name if level == levels else f"{name}@{level}"

    made: dict[str, Node] = {}
    for level in range(1, levels + 1):
        for name in list(order)[::-1]:

            def inner(other: str, level: int = level, place: int = order[name]) -> Node:
                if other not in order:
                    return Rule(other)
                at = level if order[other] > place else level - 1
                return Rule(named(other, at)) if at else Text(DEEPER)

            made[named(name, level)] = _mapped(rules[name], inner)
    return made


def _levels(rules: Mapping[str, Node], field: str) -> int:
    """Return how many levels there is room for. Raise InvalidRequest for too few."""
    size = size_of({name: rules[name] for name in list(rules)[::-1]})
    if size > MAX_SIZE // MIN_LEVELS:
        problem = f"has rules that refer to each other with {size} elements in all"
        raise bad_field(field, f"{problem}; at most {MAX_SIZE // MIN_LEVELS} are taken")
    return min(MAX_LEVELS, MAX_SIZE // size)


def _mapped(node: Node, rule: Callable[[str], Node]) -> Node:
    match node:
        case Rule(name):
            return rule(name)
        case Parts(parts):
            return Parts(tuple(_mapped(part, rule) for part in parts))
        case Choice(ways):
            return Choice(tuple(_mapped(way, rule) for way in ways))
        case Repeat(part, least, most):
            return Repeat(_mapped(part, rule), least, most)
    return node


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
