"""A cluster end to end beside its peers' rules: tokens a second and the wait for the first token, by the choice of replicas.

`python -m bench.cluster_table` starts engines with FakeModel behind doors, which take as long for a step and for a prompt's
tokens as a 7B on an A10G, and for each rule a bridge of its own (`bench.ruled_bridge`). Turns of open stories arrive by
chance at a steady rate, whatever has been answered; a story has one at a time. It says how many cores all of this took, and
how much of the machine was idle: where others take the rest, engines and bridges come late.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import statistics
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

from bench.cluster import cpu_seconds
from bench.ruled_bridge import OWN, RULES
from srb.config.sampling_params import SamplingParams
from srb.config.settings import SOCKET_NAME
from srb.wire.codec import decode, encode
from srb.wire.commands import BranchSpec, Generate
from srb.wire.events import TERMINAL, Delta, Done, Ready
from srb.wire.framing import frame, read_frame
from tests.e2e.test_replicas import Doors
from tests.processes import PYTHON, Process, clean_environ, descendants

MODEL = "fake:30:3000"  # 30 steps a second without work, and 3,000 tokens of prompts: a 7B as f16 on an A10G
_OPENED_AT_ONCE = 4  # stories for each engine
_WORDS = (
    "river",
    "lamp",
    "house",
    "keeper",
    "boat",
    "letter",
    "stone",
    "quiet",
    "garden",
    "door",
)  # a token or a few each


@dataclass(frozen=True)
class Load:
    """The stories, and how fast their turns arrive."""

    stories: int = 512
    rate: float = 64.0  # turns a second, of all stories
    opening: tuple[int, int] = (250, 650)  # words
    tokens: int = 64  # of a branch
    warm: float = 10.0  # seconds after all openings are computed, that are not counted
    seconds: float = 40.0  # that are


@dataclass
class Row:
    """The figures of one rule."""

    rule: str
    seconds: float
    tokens: int = 0
    waits: list[float] = field(default_factory=list)  # to the first token
    computed: int = 0  # tokens of prompts
    known: int = 0
    late: int = 0  # turns for which no story was free
    cores: float = 0.0  # that the engines, the bridge and the client took
    idle: float = 0.0  # share of the machine's cores

    HEAD = (
        f"{'rule':<28}{'tokens/s':>10}{'mean first':>12}{'p50':>8}{'p99':>8}{'known':>8}{'unsent':>8}"
        f"{'cores':>7}{'idle':>6}"
    )

    def __str__(self) -> str:
        waits = sorted(self.waits) or [0.0]
        part = self.known / max(1, self.known + self.computed)
        return (
            f"{self.rule:<28}{self.tokens / self.seconds:>10,.0f}{statistics.mean(waits):>10.2f} s"
            f"{waits[len(waits) // 2]:>6.2f} s{waits[int(0.99 * (len(waits) - 1))]:>6.2f} s{part:>8.1%}{self.late:>8}"
            f"{self.cores:>7.2f}{self.idle:>6.0%}"
        )


@dataclass
class Turn:
    """One request: its story, and when it was sent."""

    story: int
    sent: float
    has_begun: bool = False
    text: str = ""


class Client:
    """All stories' writers, over one connection to a bridge."""

    def __init__(self, load: Load, row: Row, engines: int) -> None:
        self._engines = engines
        self._load = load
        self._row = row
        self._chance = random.Random(row.rule)
        self._texts = [f"{uuid4().hex} {self._words(self._chance.randint(*load.opening))}" for _ in range(load.stories)]
        self._free = set(range(load.stories))
        self._turns: dict[str, Turn] = {}
        self._counts = False

    def _words(self, number: int) -> str:
        return " ".join(self._chance.choices(_WORDS, k=number))

    async def run(self, socket_path: Path) -> None:
        """Send turns for the load's time, and count what comes meanwhile."""
        reader, self._writer = await asyncio.open_unix_connection(str(socket_path))
        ready = asyncio.Event()
        reading = asyncio.create_task(self._read(reader, ready))
        await ready.wait()
        await self._open()
        sending = asyncio.create_task(self._send())
        await asyncio.sleep(self._load.warm)
        self._counts, before, own = True, _machine_ticks(), _own_seconds()
        await asyncio.sleep(self._load.seconds)
        self._counts, after = False, _machine_ticks()
        self._row.idle = (after[0] - before[0]) / (after[1] - before[1])
        self._row.cores = (_own_seconds() - own) / self._load.seconds
        for task in (sending, reading):
            task.cancel()
        self._writer.close()

    async def _open(self) -> None:
        """Let each story's first turn be answered, some at a time: engines that have just started know none."""
        for story in range(self._load.stories):
            while len(self._turns) >= _OPENED_AT_ONCE * self._engines:
                await asyncio.sleep(0.01)
            self._ask(story, tokens=1)
        while self._turns:
            await asyncio.sleep(0.01)

    async def _send(self) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            due += self._chance.expovariate(self._load.rate)
            await asyncio.sleep(due - loop.time())
            if not self._free:
                self._row.late += self._counts
                continue
            self._ask(self._chance.choice(sorted(self._free)), self._load.tokens)

    def _ask(self, story: int, tokens: int) -> None:
        self._free.remove(story)
        spec = BranchSpec(story, tokens, sampling=SamplingParams(ignore_eos=True))
        session = str(story) if "hash" in self._row.rule else ""
        command = Generate(uuid4().hex, (self._texts[story],), (spec,), session=session)
        self._turns[command.request_id] = Turn(story, asyncio.get_running_loop().time())
        self._writer.write(frame(encode([command])))

    async def _read(self, reader: asyncio.StreamReader, ready: asyncio.Event) -> None:
        now, row = asyncio.get_running_loop().time, self._row
        while True:
            for event in decode(await read_frame(reader)):
                if isinstance(event, Ready):
                    if event.model["replicas"] == self._engines:
                        ready.set()
                    continue
                turn = self._turns.get(getattr(event, "request_id", ""))
                if turn is None:
                    continue
                if isinstance(event, Delta):
                    if not turn.has_begun:
                        turn.has_begun = True
                        if self._counts:
                            row.waits.append(now() - turn.sent)
                    turn.text += event.text
                    row.tokens += len(event.tokens) * self._counts
                elif isinstance(event, TERMINAL):
                    if not isinstance(event, Done):
                        raise RuntimeError(f"a request failed: {event}")
                    if self._counts:
                        row.known += event.cached_tokens
                        row.computed += event.prompt_tokens - event.cached_tokens
                    del self._turns[event.request_id]
                    self._texts[turn.story] += f"{turn.text} {self._words(8)} "
                    self._free.add(turn.story)


def _own_seconds() -> float:
    """Return the CPU time of this process and of all that it has started and that still run."""
    return sum(cpu_seconds(pid) for pid in (os.getpid(), *descendants(os.getpid())))


def _machine_ticks() -> tuple[int, int]:
    """Return the ticks in which the cores were idle, and all."""
    ticks = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return ticks[3] + ticks[4], sum(ticks)


async def measured(doors: Doors, rule: str, load: Load) -> Row:
    """Return the row of one rule, through a bridge of its own."""
    folder = doors.folder / f"bridge-{uuid4().hex[:8]}"
    row = Row(rule, load.seconds)
    command = (PYTHON, "-m", "bench.ruled_bridge", rule)
    environ = clean_environ(replicas=doors.file, runtime_dir=folder)
    with Process(command, environ, doors.folder / f"{folder.name}.log") as bridge:
        while not (folder / SOCKET_NAME).exists():
            if bridge.popen.poll() is not None:
                raise RuntimeError(bridge.logs)
            await asyncio.sleep(0.1)
        client = asyncio.create_task(Client(load, row, len(doors.ports)).run(folder / SOCKET_NAME))
        await client
    return row


def table(rules: list[str], load: Load, engines: int = 8, model: str = MODEL) -> list[Row]:
    """Print and return the rows of some rules, one after another over the same engines."""
    rows = []
    with tempfile.TemporaryDirectory(prefix="srb-bench-") as folder, Doors(Path(folder)) as doors:
        for number in range(engines):
            doors.start(f"engine-{number}", model=model)
        for number in range(engines):
            doors.wait_open(f"engine-{number}")
        doors.write()
        print(f"{engines} engines, {load.stories} stories, {load.rate:g} turns a second of {load.tokens} tokens")
        print(Row.HEAD, flush=True)
        for rule in rules:
            rows.append(asyncio.run(measured(doors, rule, load)))
            print(rows[-1], flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.cluster_table", description=__doc__)
    parser.add_argument("--engines", type=int, default=8, help="default: %(default)s")
    parser.add_argument("--stories", type=int, default=Load.stories, help="open at once (default: %(default)s)")
    parser.add_argument("--rate", type=float, default=Load.rate, help="turns a second (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=Load.seconds, help="of each rule (default: %(default)s)")
    parser.add_argument(
        "--warm", type=float, default=Load.warm, help="seconds before, after the openings (default: %(default)s)"
    )
    parser.add_argument("--rules", nargs="*", choices=[*RULES, OWN], default=[*RULES, OWN], help="default: all")
    asked = parser.parse_args()
    load = Load(asked.stories, asked.rate, warm=asked.warm, seconds=asked.seconds)
    rows = {row.rule: row for row in table(asked.rules, load, asked.engines)}
    if {OWN, "round robin"} <= rows.keys():
        own, robin = rows[OWN], rows["round robin"]
        first = statistics.mean(own.waits) / statistics.mean(robin.waits)
        print(f"SRB to round robin: tokens/s × {own.tokens / robin.tokens:.2f}, mean first token × {first:.3f}")


if __name__ == "__main__":
    main()
