"""A bridge that chooses replicas by a peer's rule: `python -m bench.ruled_bridge RULE`, for `bench.cluster_table`.

It is SRB's bridge with another choice, so that nothing else differs. A peer counts the branches that this bridge has open.
A request's `session` is the story, by which "bounded hash" chooses; SRB's own rule goes by the text.
"""

from __future__ import annotations

import random
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Collection
from types import SimpleNamespace
from typing import Any

from bench.waiting import BoundedHash, RoundRobin, TwoChoices
from srb.cluster import bridge, relay
from srb.cluster.affinity import Affinity
from srb.cluster.marks import Marks
from srb.cluster.routing import choose as choose_by_text
from srb.wire.commands import Generate

OWN = "SRB"
Choose = Callable[[Affinity, Any, Collection[str]], "str | None"]


class PrefixAware:
    """Ray's `PrefixCacheAffinityRouter` with its defaults.

    The replicas with the longest known beginning are chosen, if it is a tenth of the prompt, else those with the least text;
    of these the one with the fewest open requests.
    """

    MATCH = 0.1

    def __init__(self) -> None:
        self._known: defaultdict[bytes, set[str]] = defaultdict(set)
        self._texts: Counter[str] = Counter()  # bytes that each replica has in the tree

    def __call__(self, affinity: Affinity, command: Generate, exclude: Collection[str]) -> str | None:
        usable = affinity.replicas - set(exclude)
        if not usable:
            return None
        marks = Marks(command.prompt).coarse
        has = (self._known[mark] & usable for mark in reversed(marks))
        place, best = next(((place, names) for place, names in enumerate(has) if names), (len(marks), set[str]()))
        if (len(marks) - place) < self.MATCH * len(marks):
            least = min(self._texts[name] for name in usable)
            best = {name for name in usable if self._texts[name] == least}
        chosen = min(sorted(best), key=affinity._num_requests.__getitem__)
        self._texts[chosen] += sum(chosen not in self._known[mark] for mark in marks)
        for mark in marks:
            self._known[mark].add(chosen)
        return chosen


def by_peer(peer: type[RoundRobin | TwoChoices | BoundedHash]) -> Choose:
    """Return the choice by one of the simulation's peers."""
    replicas: dict[str, Any] = {}
    rule = peer(replicas, [], random.Random(1))

    def choose(affinity: Affinity, command: Generate, exclude: Collection[str]) -> str | None:
        usable = affinity.replicas - set(exclude)
        for name in replicas.keys() - usable:
            rule.leave(name)
            del replicas[name]
        for name in sorted(usable - replicas.keys()):
            replicas[name] = SimpleNamespace()
            rule.join(name)
        for name, each in replicas.items():
            each.open = affinity._open[name]
        story = SimpleNamespace(number=command.session, branches=len(command.branches))
        return rule.choose(SimpleNamespace(story=story)) if replicas else None  # type: ignore[arg-type]

    return choose


RULES: dict[str, Callable[[], Choose]] = {
    "round robin": lambda: by_peer(RoundRobin),
    "Ray, two choices": lambda: by_peer(TwoChoices),
    "Ray, prefix-aware": PrefixAware,
    "bounded hash of the story": lambda: by_peer(BoundedHash),
}


def main() -> int:
    rule = sys.argv.pop(1)
    if rule != OWN:
        by_rule = RULES[rule]()

        def choose(affinity: Affinity, command: Any, exclude: Collection[str] = ()) -> str | None:
            if isinstance(command, Generate):
                return by_rule(affinity, command, exclude)
            return choose_by_text(affinity, command, exclude)

        relay.choose = choose
    return bridge.main()


if __name__ == "__main__":
    sys.exit(main())
