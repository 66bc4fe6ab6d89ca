"""The two runs, soak and fuzz, over a server that is there, and what they report."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import requests

from tests.e2e.conftest import Server
from tests.processes import wait_for
from tests.soak.fuzz import Fuzzer
from tests.soak.traffic import Client, Tally

_SAMPLE_SECONDS = 2.0


@dataclass
class Report:
    """Lines for people, and what must not be."""

    lines: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def say(self, line: str) -> None:
        self.lines.append(line)

    def demand(self, holds: bool, problem: str) -> None:
        if not holds:
            self.problems.append(problem)

    def text(self) -> str:
        return "\n".join([*self.lines, *(f"PROBLEM: {problem}" for problem in self.problems), ""])


def soak(server: Server, seconds: float, kill_every: float, clients: int, seed: int) -> Report:
    """Let `clients` random clients work for `seconds`, killing the engine every `kill_every` seconds (0: never)."""
    report, tally = Report(), Tally()
    workers = sorted(server.workers)
    until = time.monotonic() + seconds
    threads = [
        threading.Thread(target=Client(server.port, seed + number, tally, until).run, daemon=True)
        for number in range(clients)
    ]
    watched = Watcher(workers)
    for thread in threads:
        thread.start()
    kills = _kill_now_and_then(server, until, kill_every, watched)
    for thread in threads:
        thread.join(120)
    report.demand(not any(thread.is_alive() for thread in threads), "a client has got no answer")
    _wait_idle(server, report)
    watched.sample()
    report.say(
        f"{seconds:.0f} s, {clients} clients, {tally.outcomes.total()} requests, the engine killed {kills} times"
    )
    for outcome, number in tally.outcomes.most_common():
        report.say(f"  {number:7} {outcome}")
    report.demand(sorted(server.workers) == workers, "a web worker was replaced")
    report.demand(not tally.those("unterminated"), "a stream did not end in exactly one terminal event")
    bad = tally.those("status 5") - tally.those("status 503")
    report.demand(not bad, f"{bad} answers were 5xx but not 503")
    report.demand(not tally.those("lost"), "connections were lost")
    report.demand(
        kills > 0 or not tally.those("status 503", "ended by an error"), "requests failed though nothing was killed"
    )
    _report_idle(server, report)
    watched.report(report)
    return report


def fuzz(server: Server, count: int, clients: int, seed: int) -> Report:
    """Send `count` requests that make no sense, from `clients` at once."""
    report = Report()
    before = (server.engine, sorted(server.workers))
    fuzzers = [Fuzzer(server.port, seed + number) for number in range(clients)]
    threads = [threading.Thread(target=fuzzer.run, args=(count // clients,), daemon=True) for fuzzer in fuzzers]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    statuses: dict[int, int] = {}
    for fuzzer in fuzzers:
        for status, number in fuzzer.statuses.items():
            statuses[status] = statuses.get(status, 0) + number
        report.problems += fuzzer.complaints
    report.say(f"{sum(statuses.values())} requests that make no sense in {time.monotonic() - began:.0f} s, by status:")
    report.say("  " + ", ".join(f"{status or 'closed'}: {number}" for status, number in sorted(statuses.items())))
    report.demand((server.engine, sorted(server.workers)) == before, "the engine or a worker was started again")
    report.demand("Traceback" not in server.logs, "there is a traceback in the logs")
    _wait_idle(server, report)
    _report_idle(server, report)
    return report


def _kill_now_and_then(server: Server, until: float, every: float, watched: Watcher) -> int:
    kills, next_kill = 0, time.monotonic() + (every or float("inf"))
    while (now := time.monotonic()) < until:
        time.sleep(min(_SAMPLE_SECONDS, until - now))
        watched.sample()
        if now > next_kill and until - now > 10:
            os.kill(server.engine, signal.SIGKILL)
            kills, next_kill = kills + 1, now + every
    return kills


def _wait_idle(server: Server, report: Report) -> None:
    try:
        wait_for(
            lambda: server.health() == 200 and server.metric("requests_processing") == 0, "it is idle", deadline=30
        )
    except (AssertionError, requests.RequestException) as error:
        report.demand(False, f"the server is not idle: {error}")


def _report_idle(server: Server, report: Report) -> None:
    """Say what is held though nobody asks for anything: nothing but the tree's."""
    used, idle = server.metric("sequences_used"), server.metric("sequences_idle")
    cells, idle_cells = server.metric("kv_cells_used"), server.metric("kv_cells_idle")
    calls = server.metric("http_calls_open")
    report.say(
        f"at the end: {used - idle:.0f} sequences leaked, {cells - idle_cells:.0f} cells leaked, {calls:.0f} calls open"
    )
    report.demand(used == idle, "sequences are held for nobody")
    report.demand(cells == idle_cells, "cells are held for nobody")
    report.demand(calls == 0, "calls are open for nobody")


class Watcher:
    """Memory and descriptors of the web workers, which nobody kills."""

    def __init__(self, pids: Sequence[int]) -> None:
        self._pids = pids
        self._began = time.monotonic()
        self._memory: list[tuple[float, float]] = []  # minutes, MiB
        self._descriptors: list[int] = []
        self.sample()

    def sample(self) -> None:
        self._memory.append(((time.monotonic() - self._began) / 60, sum(map(_resident_mib, self._pids))))
        self._descriptors.append(sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in self._pids))

    def report(self, report: Report) -> None:
        later = self._memory[len(self._memory) // 2 :]  # at first caches fill
        slope = _slope(later)
        report.say(
            f"web workers: {self._memory[0][1]:.0f} MiB at first, {self._memory[-1][1]:.0f} MiB at last, "
            f"{slope:+.2f} MiB a minute in the second half; descriptors {self._descriptors[0]} at first, "
            f"{max(self._descriptors)} at most, {self._descriptors[-1]} at last"
        )
        opened_once = 4 * len(self._pids)  # the engine's connection, files for metrics
        report.demand(self._descriptors[-1] <= self._descriptors[0] + opened_once, "descriptors leak")
        if later[-1][0] - later[0][0] > 5:
            report.demand(slope < 0.5, "memory grows")


def _slope(points: Sequence[tuple[float, float]]) -> float:
    """Return the slope of the line that fits best."""
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / spread if spread else 0.0


def _resident_mib(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20
