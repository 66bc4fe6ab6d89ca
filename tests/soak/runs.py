"""The two runs, soak and fuzz, against a running server, and their reports."""

from __future__ import annotations

import os
import signal
import threading
import time
from dataclasses import dataclass, field

import requests

from tests.processes import children, wait_for
from tests.servers import Server
from tests.soak.fuzz import Fuzzer
from tests.soak.memory import EngineMemory, resident_mib, slope
from tests.soak.traffic import Client, Tally

CACHE_MIB = 32  # of parked text; small, so that the engine's memory soon reaches its final level
SETTINGS = {
    "n_ctx": 8192,
    "threads": 1,
    "client_timeout": 30,  # a client that reads slowly takes some seconds over a part
    "embedding": True,
    "cache_ram_mib": CACHE_MIB,
}
_SAMPLE_SECONDS = 2.0
_QUIET = 1 / 3  # share of the time, at its end, without kills, so that one engine lives long enough to judge


@dataclass
class Report:
    """The result of a run: lines to print, and problems."""

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
    """Let `clients` random clients work for `seconds`, killing the engine every `kill_every` seconds (0: never).

    The server has SETTINGS.
    """
    report, tally = Report(), Tally()
    workers = sorted(server.workers)
    until = time.monotonic() + seconds
    threads = [
        threading.Thread(target=Client(server.port, seed + number, tally, until).run, daemon=True)
        for number in range(clients)
    ]
    watched = Watcher(server)
    for thread in threads:
        thread.start()
    kills = _kill_now_and_then(server, until, until - seconds * _QUIET, kill_every, watched)
    for thread in threads:
        thread.join(120)
    report.demand(not any(thread.is_alive() for thread in threads), "a client got no answer")
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
    """Send `count` invalid requests from `clients` clients at once."""
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
        report.problems += fuzzer.problems
    report.say(f"{sum(statuses.values())} invalid requests in {time.monotonic() - began:.0f} s, by status:")
    report.say("  " + ", ".join(f"{status or 'closed'}: {number}" for status, number in sorted(statuses.items())))
    report.demand((server.engine, sorted(server.workers)) == before, "the engine or a worker was started again")
    report.demand("Traceback" not in server.logs, "there is a traceback in the logs")
    _wait_idle(server, report)
    _report_idle(server, report)
    return report


def _kill_now_and_then(server: Server, until: float, quiet: float, every: float, watched: Watcher) -> int:
    kills, next_kill = 0, time.monotonic() + (every or float("inf"))
    while (now := time.monotonic()) < until:
        time.sleep(min(_SAMPLE_SECONDS, until - now))
        watched.sample()
        if next_kill < now < quiet:
            os.kill(server.engine, signal.SIGKILL)
            kills, next_kill = kills + 1, now + every
    return kills


def _wait_idle(server: Server, report: Report) -> None:
    try:
        wait_for(
            lambda: server.health() == 200 and server.metric("requests_processing") == 0, "it is idle", deadline=30
        )
    except (AssertionError, requests.RequestException) as error:
        report.demand(False, f"the server does not become idle: {error}")


def _report_idle(server: Server, report: Report) -> None:
    """Report sequences, cells and calls that are in use without any request."""
    used, idle = server.metric("sequences_used"), server.metric("sequences_idle")
    cells, idle_cells = server.metric("kv_cells_used"), server.metric("kv_cells_idle")
    calls = server.metric("http_calls_open")
    report.say(
        f"at the end: {used - idle:.0f} sequences leaked, {cells - idle_cells:.0f} cells leaked, {calls:.0f} calls open"
    )
    report.demand(used == idle, "sequences leaked")
    report.demand(cells == idle_cells, "cells leaked")
    report.demand(calls == 0, "calls are still open")


class Watcher:
    """Memory of the engine, and memory and descriptors of the web workers, which are not killed."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._pids = sorted(server.workers)
        self._engine = EngineMemory(CACHE_MIB)
        self._began = time.monotonic()
        self._memory: list[tuple[float, float]] = []  # minutes, MiB
        self._descriptors: list[int] = []
        self.sample()

    def sample(self) -> None:
        minutes = (time.monotonic() - self._began) / 60
        self._memory.append((minutes, sum(map(resident_mib, self._pids))))
        if self._server.status["state"] == "running":
            for pid in children(self._server.supervisor):
                self._engine.sample(pid, minutes, resident_mib(pid))
        self._descriptors.append(sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in self._pids))

    def report(self, report: Report) -> None:
        later = self._memory[len(self._memory) // 2 :]  # at first caches fill
        rise = slope(later)
        report.say(
            f"web workers: {self._memory[0][1]:.0f} MiB at first, {self._memory[-1][1]:.0f} MiB at last, "
            f"{rise:+.2f} MiB a minute in the second half; descriptors {self._descriptors[0]} at first, "
            f"{max(self._descriptors)} at most, {self._descriptors[-1]} at last"
        )
        opened_once = 4 * len(self._pids)  # the engine's connection, files for metrics
        report.demand(self._descriptors[-1] <= self._descriptors[0] + opened_once, "descriptors leak")
        if later[-1][0] - later[0][0] > 5:
            report.demand(rise < 0.5, "memory grows")
        report.lines += self._engine.lines()
        report.problems += self._engine.problems()
