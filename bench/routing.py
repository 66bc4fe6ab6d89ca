"""`python -m bench.routing`: evenings of many writers on a cluster, simulated with the cluster's own choice of replicas.

For each number of replicas, of open requests on each and of bridges, with a preface of all stories or none, and with turns
that cut the end of what was written: how many turns find their story where it was computed, how many requests the busiest
replica had to the mean, and a choice's time. Nothing is decoded and no time passes.

With `--waits` it simulates time too, beside the rules of others (`bench.waiting`); with `--cost` it measures a choice by the
length of the text.
"""

from __future__ import annotations

import argparse
import heapq
import itertools
import math
import random
import time
from collections import Counter, OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

from bench import waiting
from srb.cluster.affinity import CROWD, Affinity
from srb.cluster.routing import choose
from srb.cluster.shared_marks import START, SharedMarks
from srb.wire.commands import BranchSpec, Generate

_TURN, _PAUSE = 10.0, 30.0  # seconds on average that a turn is written, and that a writer reads and types
_EXCHANGE = 0.25  # seconds between two exchanges of a bridge's news
_PREFACE = "You are a patient teller of long tales. "
_WORDS = ("river", "lamp", "winter", "keeper", "harbour", "letter", "stone", "quiet", "garden", "bell")
_CUT = (50, 1500)  # bytes
_KEPT = 4 / 3  # of the mean number of stories: how many a replica has room for, one more at least


@dataclass(frozen=True)
class Evening:
    """The writers of an evening, and what they write through."""

    replicas: int
    load: float  # open requests of each replica on average
    bridges: int = 1
    preface: int = 0  # bytes that all stories begin with
    turns: int = 6  # of each story
    edits: float = 0.0  # share of turns that cut CUT bytes of the text's end before they go on
    popular: int = 1  # times as many turns of the first story, by as many writers at once
    opening: int = 20  # words
    seed: int = 1

    @property
    def writers(self) -> int:
        return max(2, round(self.replicas * self.load * (_TURN + _PAUSE) / _TURN))


@dataclass
class Outcome:
    """An evening's numbers."""

    continued: int = 0  # turns after a story's first
    found: int = 0  # of those, at a replica that still had the story
    requests: Counter[str] = field(default_factory=Counter)  # of each replica
    crowd: float = 0.0  # requests that one replica had open at once, beyond CROWD times the mean
    seconds: float = 0.0  # of all choices

    def busiest(self, replicas: int) -> float:
        """Return how many requests the busiest replica had, to the mean."""
        return max(self.requests.values()) * replicas / self.requests.total()


def simulate(evening: Evening) -> Outcome:
    """Tell one story for each writer."""
    chance = random.Random(evening.seed)
    names = [f"replica-{number}" for number in range(evening.replicas)]
    bridges = [Affinity() for _ in range(evening.bridges)]
    for bridge, name in itertools.product(bridges, names):
        bridge.join(name)
    shared, places = SharedMarks(), [START] * evening.bridges
    preface = (_PREFACE * (evening.preface // len(_PREFACE) + 1))[: evening.preface]
    texts: dict[int, str] = {}
    begins: dict[int, int] = {}  # bytes of their openings, which no writer cuts
    kept = math.ceil(_KEPT * evening.writers / evening.replicas) + 1
    stories: dict[str, OrderedDict[int, None]] = {name: OrderedDict() for name in names}
    is_open: Counter[str] = Counter()
    outcome = Outcome()
    events: list[
        tuple[float, int, int, Affinity | None, str]
    ] = []  # when, a number, the story, and of an end whose it is
    numbers = itertools.count()

    def words(count: int) -> str:
        return " ".join(chance.choices(_WORDS, k=count)) + " "

    def turn(now: float, story: int) -> None:
        bridge = chance.choice(bridges)
        if story not in texts:
            texts[story] = f"{preface}{story} {words(evening.opening)}"
            begins[story] = len(texts[story])
        else:
            outcome.continued += 1
            if chance.random() < evening.edits:
                own = len(texts[story]) - begins[story]
                texts[story] = texts[story][: -max(1, min(chance.randint(*_CUT), int(own * chance.random())))] + words(
                    5
                )
        command = Generate(str(story), (texts[story],), (BranchSpec(1),))
        began = time.perf_counter()
        chosen = choose(bridge, command)
        outcome.seconds += time.perf_counter() - began
        assert chosen is not None
        has = stories[chosen]
        outcome.found += story in has
        has[story] = None
        has.move_to_end(story)
        while len(has) > kept:
            has.popitem(last=False)
        outcome.requests[chosen] += 1
        is_open[chosen] += 1
        outcome.crowd = max(outcome.crowd, is_open[chosen] - CROWD * is_open.total() / evening.replicas)
        bridge.begin(chosen)
        texts[story] += words(30)
        heapq.heappush(events, (now + chance.expovariate(1 / _TURN), next(numbers), story, bridge, chosen))

    def exchange() -> None:
        for number, bridge in enumerate(bridges):
            places[number], heard = shared.exchange(str(number), places[number], bridge.take_news())
            for news in heard:
                bridge.hear(news)

    left = dict.fromkeys(range(evening.writers), evening.turns)
    left[0] *= evening.popular
    for story in [*left, *[0] * (evening.popular - 1)]:
        heapq.heappush(events, (chance.uniform(0, _TURN + _PAUSE), next(numbers), story, None, ""))
    told = 0.0
    while events:
        now, _, story, ended, name = heapq.heappop(events)
        while told <= now:
            exchange()
            told += _EXCHANGE
        if ended is not None:
            ended.end(name)
            is_open[name] -= 1
            heapq.heappush(events, (now + chance.expovariate(1 / _PAUSE), next(numbers), story, None, ""))
        elif left[story] > 0:
            left[story] -= 1
            turn(now, story)
    return outcome


def costs(size: int, replicas: int = 8, stories: int = 20, turns: int = 12) -> float:
    """Return the microseconds of CPU time of a choice for a turn that goes on with a text of so many bytes."""
    chance = random.Random(1)
    bridge = Affinity()
    for number in range(replicas):
        bridge.join(f"replica-{number}", 32)
    texts = [f"{story} {chance.random()} {_long(chance, size)}" for story in range(stories)]
    spent = 0.0
    for turn in range(turns):
        for story in range(stories):
            command = Generate("r", (texts[story],), (BranchSpec(1),))
            began = time.process_time()
            choose(bridge, command)
            spent += (time.process_time() - began) * (turn > 0)
            texts[story] += _long(chance, 500)
    return spent / (stories * (turns - 1)) * 1e6


def _long(chance: random.Random, size: int) -> str:
    return " ".join(chance.choices(_WORDS, k=size // 5))[:size]


def _numbers(text: str) -> Sequence[float]:
    return [float(number) for number in text.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.routing", description=__doc__)
    parser.add_argument("--replicas", type=_numbers, default="3,8,40,200,1000", help="default: %(default)s")
    parser.add_argument(
        "--load", type=_numbers, default="0.3,1,3,8", help="open requests of each (default: %(default)s)"
    )
    parser.add_argument("--bridges", type=_numbers, default="1,3,5", help="default: %(default)s")
    parser.add_argument("--preface", type=_numbers, default="0,2000", help="bytes (default: %(default)s)")
    parser.add_argument("--edits", type=_numbers, default="0,0.15", help="share of turns (default: %(default)s)")
    parser.add_argument("--turns", type=int, default=6, help="of each story (default: %(default)s)")
    parser.add_argument("--waits", nargs="*", metavar="RULE", help=f"of {', '.join(waiting.RULES)} (default: all)")
    parser.add_argument(
        "--columns", nargs="*", choices=waiting.COLUMNS, default=list(waiting.COLUMNS), help="default: all"
    )
    parser.add_argument("--cost", action="store_true")
    options = parser.parse_args()
    if options.cost:
        for size in (2000, 20_000, 100_000, 250_000):
            print(f"{size:8,} bytes {costs(size):6.0f} µs, with 1,000 replicas {costs(size, 1000):6.0f} µs", flush=True)
        return
    if options.waits is not None:
        waiting.print_table(options.columns, options.waits or list(waiting.RULES))
        return
    print("replicas  open  writers  bridges  preface  edits    found  busiest  µs a choice", flush=True)
    for replicas, load, bridges, preface, edits in itertools.product(
        options.replicas, options.load, options.bridges, options.preface, options.edits
    ):
        evening = Evening(int(replicas), load, int(bridges), int(preface), options.turns, edits=edits)
        done = simulate(evening)
        print(
            f"{replicas:8.0f} {load:5.1f} {evening.writers:8} {bridges:8.0f} {preface:8.0f} {edits:6.0%} "
            f"{done.found / max(1, done.continued):8.1%} {done.busiest(int(replicas)):8.2f} "
            f"{done.seconds / done.requests.total() * 1e6:12.0f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
