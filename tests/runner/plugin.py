"""A plugin of pytest: selects a tier, shows how far a run is, stops at a given time, and records what happened.

Without its options it changes nothing.
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import orjson
import pytest
from xdist.scheduler import LoadFileScheduling

from tests.runner.tiers import Tier, folder_of
from tests.runner.times import Times, seconds_in_words

EVERY = 20.0  # seconds between two lines of progress where the output is no terminal
AT_A_TERMINAL = 0.5
ANY = 10_000  # more files than there are


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("runs of many tests (tests/runner)")
    group.addoption("--tier", type=Tier, choices=list(Tier), help="run only the tests of a tier")
    group.addoption("--until", type=float, metavar="TIME", help="begin no test after this time (Unix, seconds)")
    group.addoption(
        "--ahead",
        type=int,
        default=ANY,
        metavar="FILES",
        help="among so many a worker looks for one of its last folder",
    )
    group.addoption(
        "--record", type=Path, metavar="FILE", help="write failures, counts and times to a file, and show progress"
    )


def pytest_configure(config: pytest.Config) -> None:
    until = config.getoption("--until")
    if until is not None:
        config.pluginmanager.register(Clock(until))
    config.pluginmanager.register(CpuTimes())
    record = config.getoption("--record")
    if record is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Record(record, config))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    tier = config.getoption("--tier")
    if tier is None:
        return
    left = {item for item in items if not tier.holds(folder_of(item.path), {mark.name for mark in item.iter_markers()})}
    if left:
        config.hook.pytest_deselected(items=list(left))
        items[:] = [item for item in items if item not in left]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    return ByServers(config, log) if config.getoption("dist") == "loadfile" else None


class ByServers(LoadFileScheduling):  # type: ignore[misc]
    """Whole files, one after another, to whoever is free; all files of the cluster, which share machines, to one.

    Whoever is free stays in the folder of its last file, if one of the next `--ahead` files is from there: the browser and
    the servers that a folder's tests share end when a test of another folder begins.
    """

    def _split_scope(self, nodeid: str) -> str:
        return "tests/cluster" if nodeid.startswith("tests/cluster/") else nodeid.partition("::")[0]

    def _assign_work_unit(self, node: Any) -> None:
        last = next(reversed(self.assigned_work[node]), "")
        ahead = islice(self.workqueue, self.config.getoption("ahead"))
        if chosen := next((file for file in ahead if _folder(file) == _folder(last)), ""):
            self.workqueue.move_to_end(chosen, last=False)
        super()._assign_work_unit(node)


def _folder(file: str) -> str:
    return file.rpartition("/")[0]


class Clock:
    """A time after which no test begins: those that are left have no result."""

    def __init__(self, until: float) -> None:
        self._until = until

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self) -> bool | None:
        return True if time.time() > self._until else None


class CpuTimes:
    """CPU seconds of each phase of a test, with those of its processes that have ended, as `cpu_seconds` of its report."""

    def __init__(self) -> None:
        self._before = 0.0

    def pytest_runtest_logstart(self) -> None:
        self._before = _cpu_seconds()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Iterator[None]:
        report = yield
        now = _cpu_seconds()
        report.cpu_seconds, self._before = now - self._before, now
        return report


def _cpu_seconds() -> float:
    return sum(os.times()[:4])


class Record:
    """Failures, counts and times of a run, written to a file at its end; meanwhile lines that say how far it is."""

    def __init__(self, path: Path, config: pytest.Config) -> None:
        self._path = path
        self._times = Times.read()
        self._began = self._told = time.monotonic()
        self._every = AT_A_TERMINAL if sys.stdout.isatty() else EVERY
        self._collected: list[str] = []
        self._expected: dict[str, float] = {}  # seconds of one test, by file
        self._all = self._done = 0.0  # expected seconds of all tests, and of those that have ended
        self._ended: set[str] = set()
        self._counts: Counter[str] = Counter()
        self._failures: dict[str, str] = {}
        self._spent: defaultdict[str, list[float]] = defaultdict(lambda: [0, 0.0, 0.0])  # by file: tests, CPU, wall
        self._plugins = config.pluginmanager

    # ---- which tests there are

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        if session.items:  # with xdist the workers have them
            self._expect([item.nodeid for item in session.items])

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        self._expect(list(ids))

    def _expect(self, ids: list[str]) -> None:
        if self._collected:
            return
        self._collected = ids
        per_file = Counter(map(_file, ids))
        self._expected = {file: self._times.seconds(file, number) / number for file, number in per_file.items()}
        self._all = sum(self._expected[_file(nodeid)] for nodeid in ids)
        self._began = time.monotonic()

    # ---- what becomes of them

    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        """Show no dot for a test that has passed: lines of progress say it."""
        return ("passed" if report.when == "call" else "", "", "") if report.passed else None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        spent = self._spent[_file(report.nodeid)]
        spent[1] += getattr(report, "cpu_seconds", 0.0)
        spent[2] += report.duration
        if report.failed:
            self._failures.setdefault(report.nodeid, f"{report.when}: {report.longreprtext}")
        elif report.skipped:
            self._counts["skipped"] += 1
        if report.nodeid not in self._ended and (report.when == "call" or not report.passed):
            self._ended.add(report.nodeid)
            spent[0] += 1
            self._done += self._expected.get(_file(report.nodeid), 0.0)
        self._tell()

    def _tell(self) -> None:
        now = time.monotonic()
        if now - self._told < self._every or not self._all:
            return
        self._told = now
        part, spent = min(self._done / self._all, 1.0), now - self._began
        line = f"{part:4.0%}  {len(self._ended)} of {len(self._collected)} tests  {seconds_in_words(spent)}"
        if part > 0.02:
            line += f", about {seconds_in_words(spent * (1 - part) / part)} left"
        if self._failures:
            line += f"  {len(self._failures)} failed"
        terminal: Any = self._plugins.get_plugin("terminalreporter")
        if sys.stdout.isatty():
            terminal.rewrite(line, erase=True)
        else:
            terminal.ensure_newline()
            terminal.write_line(line)

    def pytest_sessionfinish(self) -> None:
        self._counts["passed"] = len(self._ended - self._failures.keys()) - self._counts["skipped"]
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_bytes(
            orjson.dumps(
                {
                    "counts": self._counts,
                    "failures": self._failures,
                    "left_out": [nodeid for nodeid in self._collected if nodeid not in self._ended],
                    "files": self._spent,
                    "wall": time.monotonic() - self._began,
                }
            )
        )


def _file(nodeid: str) -> str:
    return nodeid.partition("::")[0]
