"""Rules that end with themselves, turned round: `c ::= [a-z] c | ""` becomes a rule that begins with itself. Pure.

llguidance has an Earley parser. At the end of each character it ends all rules that may end there, so a text of a
thousand characters in the rule above would take a thousand ends for its last one, and be too complex.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from graphlib import CycleError, TopologicalSorter

from srb.engine.grammar.gbnf import EMPTY, Choice, Node, Parts, Repeat, Rule, names_in
from srb.engine.grammar.limits import MAX_SIZE

Ways = dict[str, list[Node]]  # what comes before the rule that an expression ends with; "" for expressions without one


def turned(rules: Mapping[str, Node]) -> dict[str, Node]:
    """Return rules that make the same texts, in which none ends with itself, be it through others.

    Rules that end with each other are the states of an automaton. Each of them that others name becomes, for each state,
    the texts that lead from it to there.
    """
    states = _between_cycles({name: _Split(rules, name).ways().keys() - {""} for name in rules})
    if not states:
        return dict(rules)
    made = {name: node for name, node in rules.items() if name not in states}
    ways: dict[str, Ways] = {}
    for name in states:
        split = _Split({state: rules[state] for state in states}, name)
        ways[name] = split.ways()
        made |= split.helpers
    named = {"root"}.union(*map(names_in, made.values()))
    named.update(*(names_in(node) for each in ways.values() for nodes in each.values() for node in nodes))
    size = 0
    for first in sorted(named & states):
        reached = _reached(first, ways)
        size += sum(map(len, (ways[state] for state in reached)))
        if size > MAX_SIZE or not any("" in ways[state] for state in reached):  # too many, or texts that never end
            return dict(rules)
        made |= _turned(first, reached, ways)
    return made


class _Split:
    """One rule, by the states that its ways end with. The beginning that several ways share becomes a rule."""

    def __init__(self, states: Mapping[str, Node], name: str) -> None:
        self._states, self._name = states, name
        self.helpers: dict[str, Node] = {}

    def ways(self) -> Ways:
        return self._ways(self._states[self._name])

    def _ways(self, node: Node) -> Ways:
        match node:
            case Rule(name) if name in self._states:
                return {name: [EMPTY]}
            case Parts((*begin, last)):
                found = self._ways(last)
                if found.keys() == {""}:
                    return {"": [node]}
                before = tuple(begin) if len(found) == 1 else (self._helper(Parts(tuple(begin))),)
                return {name: [Parts((*before, each)) for each in nodes] for name, nodes in found.items()}
            case Choice(ways):
                return _joined(map(self._ways, ways))
            case Repeat(part, 0, 1):
                return _joined((self._ways(part), {"": [EMPTY]}))
        return {"": [node]}

    def _helper(self, node: Node) -> Node:
        name = f"{self._name} {len(self.helpers)}"
        self.helpers[name] = node
        return Rule(name)


def _joined(found: Iterable[Ways]) -> Ways:
    joined: Ways = {}
    for ways in found:
        for name, nodes in ways.items():
            joined.setdefault(name, []).extend(nodes)
    return joined


def _between_cycles(edges: Mapping[str, Iterable[str]]) -> set[str]:
    """Return what lies on a cycle, or on a way from one to another."""
    left = set(edges)
    backwards: dict[str, list[str]] = {name: [] for name in edges}
    for name, others in edges.items():
        for other in others:
            backwards[other].append(name)
    for graph in (edges, backwards):
        sorter = TopologicalSorter({name: left.intersection(graph[name]) for name in left})
        with suppress(CycleError):  # it goes on up to the cycles
            sorter.prepare()
        while ready := sorter.get_ready():
            left.difference_update(ready)
            sorter.done(*ready)
    return left


def _reached(first: str, ways: Mapping[str, Ways]) -> list[str]:
    found, waiting = {first: None}, [first]
    while waiting:
        for name in ways[waiting.pop()].keys() - found.keys() - {""}:
            found[name] = None
            waiting.append(name)
    return list(found)


def _turned(first: str, reached: Iterable[str], ways: Mapping[str, Ways]) -> dict[str, Node]:
    """Return the rule `first`, and for each state the rule of the texts from `first` to there."""
    to: dict[str, list[Node]] = {name: [] for name in reached}
    to[first].append(EMPTY)
    ends: list[Node] = []
    for name in reached:
        here = Rule(f"{first} to {name}")
        for other, nodes in ways[name].items():
            (to[other] if other else ends).extend(Parts((here, node)) for node in nodes)
    return {first: Choice(tuple(ends)), **{f"{first} to {name}": Choice(tuple(nodes)) for name, nodes in to.items()}}
