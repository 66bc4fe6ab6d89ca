"""The waits of many writers on a cluster, by SRB's choice of replicas and by its peers', in one simulation with time.

`python -m bench.routing --waits` prints a table for each size of cluster. A replica has SEQUENCES, computes prompts one
after another at BYTES_PER_SECOND, decodes a branch at BYTES_WRITTEN a second, and keeps KV of KV_BYTES of text; requests
wait in the order of their arrival. Writers tell stories of 2 to 400 turns, cut ends, think, and leave for up to an hour;
some ask for 16 branches again and again. Replicas are replaced while they write. The peers' rules know the true state of
every replica, without delay.
"""

from __future__ import annotations

import heapq
import itertools
import math
import random
import time
from bisect import bisect_left, insort
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any, Protocol

from srb.cluster.affinity import Affinity
from srb.cluster.routing import choose
from srb.cluster.shared_marks import START, SharedMarks
from srb.wire.commands import BranchSpec, Generate

SEQUENCES = 32
BYTES_PER_SECOND = 6000  # of a prompt: 1,500 tokens
BYTES_WRITTEN = 60  # of a branch a second: 15 tokens, beside 31 others
KV_BYTES = 450_000
_LOAD_SECONDS = 30.0  # that a replica which replaces another loads its model
_EXCHANGE = {"registry": 0.25, "doors": 0.5}  # seconds between two exchanges of bridges' news
_REPORT = 0.5  # seconds between two reports of a replica's load
_PREFACES = 50


@dataclass(frozen=True)
class Life:
    """The writers of a simulation, and the cluster that they write through."""

    writers: int
    replicas: int
    bridges: int = 1
    news: str = "registry"  # by which bridges hear each other: "registry", "doors" or ""
    edits: float = 0.15
    session: bool = False
    replaced_every: float = 600.0  # seconds between two replacements, of one replica in a hundred
    seconds: float = 1800.0
    warm: float = 300.0  # seconds at the start that are not counted
    seed: int = 1


@dataclass
class Story:
    """One story and its writer's habits. `known` has the bytes of its text that each replica has computed."""

    number: int
    preface: int
    text: str
    branches: int
    think: float  # seconds, median
    turns_left: int
    begun: int  # bytes of the opening, which is not cut
    known: dict[str, int] = field(default_factory=dict)


@dataclass
class Turn:
    """One request, from its arrival to its end."""

    story: Story
    size: int
    arrived: float
    adds: int  # bytes that each branch writes
    best: int  # bytes of its text that some replica has
    bridge: int = 0
    replica: str = ""


@dataclass
class Figures:
    """The figures of one simulation, of turns after the warm part."""

    continued: int = 0  # turns of stories that some replica has
    found: int = 0  # of those, at a replica that has nine tenths of what the best one has
    computed: int = 0  # bytes
    waits: list[float] = field(default_factory=list)  # to the first token
    requests: Counter[str] = field(default_factory=Counter)  # of each replica that was there all the time
    choosing: float = 0.0  # CPU seconds of all choices
    choices: int = 0

    def wait(self, part: float) -> float:
        """Return the wait that a part of the turns, 0 to 1, do not exceed."""
        waits = sorted(self.waits)
        return waits[min(len(waits) - 1, int(part * len(waits)))]

    @property
    def busiest(self) -> float:
        return max(self.requests.values()) * len(self.requests) / self.requests.total()


class Replica:
    """One engine's sequences, queue and KV."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.free = SEQUENCES
        self.open = 0  # branches that run or wait
        self.queue: deque[Turn] = deque()
        self.computing_until = 0.0
        self.stories: OrderedDict[int, tuple[Story, int]] = (
            OrderedDict()
        )  # those with KV, the latest last, with its bytes
        self.prefaces: Counter[int] = Counter()
        self.used = 0
        self.is_leaving = False

    def known(self, story: Story, preface: int) -> int:
        return max(story.known.get(self.name, 0), preface if self.prefaces.get(story.preface) else 0)

    def keep(self, story: Story, size: int) -> None:
        """Keep the KV of a story's text, and drop what was used least recently where there is no room."""
        self._drop(story.number)
        self.stories[story.number] = story, size
        self.prefaces[story.preface] += 1
        story.known[self.name] = size
        self.used += size
        while self.used > KV_BYTES and len(self.stories) > 1:
            self._drop(next(iter(self.stories)))

    def _drop(self, number: int) -> None:
        if (entry := self.stories.pop(number, None)) is not None:
            story, size = entry
            self.prefaces[story.preface] -= 1
            self.used -= size
            story.known.pop(self.name, None)


class Rule(Protocol):
    """A way to choose replicas."""

    def join(self, name: str) -> None: ...
    def leave(self, name: str) -> None: ...
    def choose(self, turn: Turn) -> str: ...
    def first_token(self, turn: Turn) -> None: ...
    def ended(self, turn: Turn) -> None: ...


class Peer:
    """A rule that sees the true state of all replicas."""

    def __init__(self, replicas: dict[str, Replica], prefaces: list[str], chance: random.Random) -> None:
        self.replicas = replicas
        self.prefaces = prefaces
        self.chance = chance
        self.usable: list[str] = []

    def join(self, name: str) -> None:
        self.usable.append(name)

    def leave(self, name: str) -> None:
        self.usable.remove(name)

    def first_token(self, turn: Turn) -> None: ...

    def ended(self, turn: Turn) -> None: ...

    def choose(self, turn: Turn) -> str:
        raise NotImplementedError


class RoundRobin(Peer):
    _turn = 0

    def choose(self, turn: Turn) -> str:
        self._turn += 1
        return self.usable[self._turn % len(self.usable)]


class LeastLoaded(Peer):
    def choose(self, turn: Turn) -> str:
        return min(self.usable, key=lambda name: self.replicas[name].open)


class TwoChoices(Peer):
    """Ray Serve's default: of two replicas by chance the one with fewer open requests."""

    def choose(self, turn: Turn) -> str:
        return min(self.chance.sample(self.usable, 2), key=lambda name: self.replicas[name].open)


class BoundedHash(Peer):
    """Consistent hashing of the story, with bounded loads (Mirrokni, Thorup and Zadimoghaddam, 2016)."""

    def __init__(self, *given: object) -> None:
        super().__init__(*given)  # type: ignore[arg-type]
        self._ring: list[tuple[bytes, str]] = []

    def join(self, name: str) -> None:
        super().join(name)
        for point in range(100):
            insort(self._ring, (_hash(f"{name} {point}"), name))

    def leave(self, name: str) -> None:
        super().leave(name)
        self._ring = [each for each in self._ring if each[1] != name]

    def choose(self, turn: Turn) -> str:
        total = sum(self.replicas[name].open for name in self.usable) + turn.story.branches
        bound = math.ceil(1.25 * total / len(self.usable))
        start = bisect_left(self._ring, (_hash(str(turn.story.number)), ""))
        for place in range(len(self._ring)):
            name = self._ring[(start + place) % len(self._ring)][1]
            if self.replicas[name].open < bound:
                return name
        return self._ring[start % len(self._ring)][1]


class Precise(Peer):
    """llm-d's precise prefix scorer: twice the known part of the prompt, free KV, and a short queue among the queues."""

    def choose(self, turn: Turn) -> str:
        replicas = [self.replicas[name] for name in self.usable]
        queues = [len(each.queue) for each in replicas]
        least, most = min(queues), max(queues)
        size, story, preface = turn.size, turn.story, len(self.prefaces[turn.story.preface])
        known, number = story.known, story.preface

        def score(place: int) -> float:
            each = replicas[place]
            has = known.get(each.name, 0) or (preface if each.prefaces.get(number) else 0)
            queue = (most - queues[place]) / (most - least) if most > least else 1.0
            return 2 * has / size + 1 - each.used / KV_BYTES + queue

        return replicas[max(range(len(replicas)), key=score)].name


class SRB:
    """The cluster's own choice, through several bridges."""

    def __init__(self, life: Life, replicas: dict[str, Replica], chance: random.Random) -> None:
        self._life = life
        self._replicas = replicas
        self._chance = chance
        self.bridges = [Affinity() for _ in range(life.bridges)]
        self._shared, self._places = SharedMarks(), [START] * life.bridges
        self.seconds, self.choices = 0.0, 0

    def join(self, name: str) -> None:
        for bridge in self.bridges:
            bridge.join(name, SEQUENCES)

    def leave(self, name: str) -> None:
        for bridge in self.bridges:
            bridge.leave(name)

    def choose(self, turn: Turn) -> str:
        turn.bridge = self._chance.randrange(len(self.bridges))
        bridge, story = self.bridges[turn.bridge], turn.story
        session = str(story.number) if self._life.session else ""
        command = Generate("r", (story.text,), (BranchSpec(1),) * story.branches, session=session)
        began = time.process_time()
        chosen = choose(bridge, command)
        self.seconds += time.process_time() - began
        self.choices += 1
        assert chosen is not None
        bridge.begin(chosen, story.branches)
        return chosen

    def first_token(self, turn: Turn) -> None: ...

    def ended(self, turn: Turn) -> None:
        self.bridges[turn.bridge].end(turn.replica, turn.story.branches)

    def exchange(self) -> None:
        for number, bridge in enumerate(self.bridges):
            self._places[number], heard = self._shared.exchange(str(number), self._places[number], bridge.take_news())
            for news in heard:
                bridge.hear(news)

    def report(self) -> None:
        for bridge in self.bridges:
            for name in bridge.replicas:
                bridge.report(name, self._replicas[name].open)


PEERS: dict[str, type[Peer]] = {
    "round robin": RoundRobin,
    "two choices (Ray)": TwoChoices,
    "least loaded": LeastLoaded,
    "bounded hash of the story": BoundedHash,
    "llm-d precise": Precise,
}


class Simulation:
    """One life under one rule: `PEERS` by name, or SRB."""

    def __init__(self, life: Life, rule: str) -> None:
        self._life = life
        self._chance = random.Random(life.seed)
        self._numbers = itertools.count()
        self._events: list[tuple[float, int, Callable[[float], None]]] = []
        self._replicas: dict[str, Replica] = {}
        self._names = itertools.count()
        chance = self._chance
        # The same prefaces and stories for all rules: what a rule draws by chance is its own.
        sizes = [int(100 * 160 ** chance.random()) for _ in range(_PREFACES)]
        self._prefaces = [_text(f"preface {number}", size) for number, size in enumerate(sizes)]
        self._popularity = [1 / (rank + 1) ** 1.1 for rank in range(_PREFACES)]
        others = random.Random(life.seed + 1)
        self._srb = SRB(life, self._replicas, others) if rule == "SRB" else None
        self._rule: Rule = self._srb or PEERS[rule](self._replicas, self._prefaces, others)
        self._figures = Figures()
        self._always: set[str] = set()

    def run(self) -> Figures:
        """Return the figures."""
        life = self._life
        for _ in range(life.replicas):
            self._join(0.0)
        self._always = set(self._replicas)
        for number in range(life.writers):
            story = self._new_story(number, is_first=True)
            self._at(self._chance.uniform(0, 40), lambda now, story=story: self._begin(story, now))  # type: ignore[misc]
        self._at(life.replaced_every, self._replace)
        if self._srb is not None:
            if life.bridges > 1 and life.news:
                self._at(_EXCHANGE[life.news], self._exchange)
            self._at(_REPORT, self._report)
        while self._events:
            now, _, act = heapq.heappop(self._events)
            if now > life.seconds:
                break
            act(now)
        counted = self._always or {name for name, each in self._replicas.items() if not each.is_leaving}
        self._figures.requests = Counter({name: self._figures.requests[name] for name in counted})
        if self._srb is not None:
            self._figures.choosing, self._figures.choices = self._srb.seconds, self._srb.choices
        return self._figures

    def _at(self, when: float, act: Callable[[float], None]) -> None:
        heapq.heappush(self._events, (when, next(self._numbers), act))

    # Writers ----------------------------------------------------------------------------------------------------------

    def _new_story(self, number: int, is_first: bool = False, hot: bool | None = None) -> Story:
        chance = self._chance
        preface = chance.choices(range(_PREFACES), self._popularity)[0]
        opening = f"{self._prefaces[preface]}{_text(f'story {number} {chance.random()}', 200)}"
        turns = max(2, min(400, round(chance.lognormvariate(math.log(20), 1.2))))
        if hot is None:
            hot = chance.random() < 0.05
        story = Story(number, preface, opening, 16 if hot else chance.choice((1, 4, 8)), 0.5 if hot else 25.0, turns,
                      len(opening))  # fmt: skip
        if is_first:
            done = chance.randrange(turns)
            story.turns_left -= done
            story.text += "".join(
                _text(f"{number} {turn} {chance.random()}", chance.randint(200, 800)) for turn in range(done)
            )
        return story

    def _begin(self, story: Story, now: float) -> None:
        """Ask for one turn of a story."""
        chance = self._chance
        if chance.random() < self._life.edits and len(story.text) > story.begun:
            self._edit(story)
        size = len(story.text)
        best = max(story.known.values(), default=0)
        self._give(Turn(story, size, now, chance.randint(200, 800), best), now)

    def _edit(self, story: Story) -> None:
        """Cut the text's end; in one of five cases change a word in its middle, too."""
        chance, own = self._chance, len(story.text) - story.begun
        end = len(story.text) - max(1, min(chance.randint(50, 1500), own // 2))
        place = end
        if chance.random() < 0.2:
            place = story.begun + chance.randrange(max(1, end - story.begun))
        story.text = f"{story.text[:place]}{_text(str(chance.random()), 20)}{story.text[place:end]}"
        for name, known in story.known.items():
            story.known[name] = min(known, place)

    def _give(self, turn: Turn, now: float) -> None:
        turn.replica = self._rule.choose(turn)
        replica = self._replicas[turn.replica]
        replica.open += turn.story.branches
        replica.queue.append(turn)
        if now > self._life.warm:
            self._figures.requests[turn.replica] += 1
        self._admit(replica, now)

    def _admit(self, replica: Replica, now: float) -> None:
        while replica.queue and replica.queue[0].story.branches <= replica.free:
            turn = replica.queue.popleft()
            story = turn.story
            replica.free -= story.branches
            known = min(replica.known(story, len(self._prefaces[story.preface])), turn.size)
            first = max(now, replica.computing_until) + (turn.size - known) / BYTES_PER_SECOND
            replica.computing_until = first
            if now > self._life.warm:
                figures = self._figures
                if turn.best:
                    figures.continued += 1
                    figures.found += known >= 0.9 * turn.best
                figures.computed += turn.size - known
                figures.waits.append(first - turn.arrived)
            self._at(first, lambda now, turn=turn: self._rule.first_token(turn))  # type: ignore[misc]
            self._at(first + turn.adds / BYTES_WRITTEN, lambda now, turn=turn: self._end(turn, now))  # type: ignore[misc]

    def _end(self, turn: Turn, now: float) -> None:
        replica, story, chance = self._replicas[turn.replica], turn.story, self._chance
        replica.free += story.branches
        replica.open -= story.branches
        self._rule.ended(turn)
        story.text += _text(f"{now} {story.number}", turn.adds)
        story.turns_left -= 1
        if not replica.is_leaving:
            replica.keep(story, len(story.text))
        self._admit(replica, now)
        pause = story.think * chance.lognormvariate(0, 0.8 if story.think > 1 else 0.3)
        if chance.random() < 0.02 and story.think > 1:
            pause = chance.uniform(600, 3600)
        if story.turns_left <= 0:
            story = self._new_story(story.number + self._life.writers, hot=story.think < 1)
        self._at(now + pause, lambda now: self._begin(story, now))

    # The cluster ------------------------------------------------------------------------------------------------------

    def _join(self, now: float) -> None:
        name = f"replica-{next(self._names)}"
        self._replicas[name] = Replica(name)
        self._rule.join(name)

    def _replace(self, now: float) -> None:
        """Let one replica in a hundred take no more requests; what it has is lost, and others come in its place."""
        usable = sorted(name for name, each in self._replicas.items() if not each.is_leaving)
        for name in self._chance.sample(usable, min(len(usable), max(1, self._life.replicas // 100))):
            self._always.discard(name)
            self._rule.leave(name)
            self._replicas[name].is_leaving = True
            for story, _ in self._replicas[name].stories.values():
                story.known.pop(name, None)
            self._at(now + _LOAD_SECONDS, self._join)
        self._at(now + self._life.replaced_every, self._replace)

    def _exchange(self, now: float) -> None:
        assert self._srb is not None
        self._srb.exchange()
        self._at(now + _EXCHANGE[self._life.news], self._exchange)

    def _report(self, now: float) -> None:
        assert self._srb is not None
        self._srb.report()
        self._at(now + _REPORT, self._report)


def _text(start: str, size: int) -> str:
    """Return a text that begins in its own way."""
    return (f"{_hash(start).hex()} and so it went, " * (size // 40 + 1))[:size]


def _hash(text: str) -> bytes:
    return blake2b(text.encode(), digest_size=8).digest()


COLUMNS = {
    "100/8": Life(100, 8, seconds=3600),
    "1,000/64": Life(1000, 64, seconds=1500),
    "180/8": Life(180, 8, seconds=2400),
    "10,000/1,000": Life(10_000, 1000, seconds=400, warm=150, replaced_every=120),
}
# Each rule, and how the life differs under it.
RULES: dict[str, dict[str, Any]] = {
    **{name: {} for name in PEERS},
    "SRB": {},
    "SRB, session": {"session": True},
    "SRB, 4 bridges": {"bridges": 4},
    "SRB, 4 bridges, doors": {"bridges": 4, "news": "doors"},
    "SRB, 4 bridges, no news": {"bridges": 4, "news": ""},
}


def print_table(columns: list[str], rules: list[str]) -> None:
    """Print a row for each rule in each column."""
    print(f"{'column':<14}{'rule':<30}{'found':>7}{'computed':>10}{'p50':>8}{'p99':>8}{'busiest':>9}{'µs':>6}")
    for column in columns:
        for rule in rules:
            done = Simulation(replace(COLUMNS[column], **RULES[rule]), rule if rule in PEERS else "SRB").run()
            print(
                f"{column:<14}{rule:<30}{done.found / done.continued:>7.1%}{done.computed / len(done.waits):>10,.0f}"
                f"{done.wait(0.5):>6.2f} s{done.wait(0.99):>6.1f} s{done.busiest:>9.2f}"
                f"{done.choosing / max(1, done.choices) * 1e6:>6.0f}",
                flush=True,
            )
