"""Run many tests: `python -m tests.runner main | all | night | more`.

A test that fails is run once more, alone, after the others. Green the second time, the run passes, and lists it under
*Unlucky*. `more` is what continuous integration runs after `main`, for as long as there is time: files that the change
touches, then those that have not run for longest. The last line counts: `14310 passed, 0 failed, 35 skipped`.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from tests.runner import history, touched
from tests.runner.tiers import TESTS, Tier, files_of, folder_of, name_of
from tests.runner.times import Times, seconds_in_words

RECORDS = TESTS.parent / "build" / "tests"
MOST_AGAIN = 40  # failures; more are no bad luck, and are not run again
# Files side by side for each core: most tests of `make test` compute, and those of whole servers wait half of their time.
# With two for each core, a tenth of the cores' time was idle.
AT_ONCE = {Tier.MAIN: 1.5, Tier.REST: 2.5, Tier.ALL: 2.5, Tier.NIGHT: 2.5}
AHEAD = 8  # files, where the order says what may be left out: of these some are of a worker's last folder as a rule
# Examples that hypothesis draws, by what a test asks for. All runs but the night's draw the same ones each time.
EXAMPLES = {Tier.MAIN: 0.3, Tier.REST: 1.0, Tier.ALL: 0.5, Tier.NIGHT: 20.0}


@dataclass
class Outcome:
    """The outcome of one call of pytest or of several."""

    counts: Counter[str] = field(default_factory=Counter)
    failures: dict[str, str] = field(default_factory=dict)  # by node id
    left_out: list[str] = field(default_factory=list)  # node ids
    files: dict[str, tuple[int, float, float]] = field(default_factory=dict)  # tests, CPU seconds, seconds
    broken: int = 0  # pytest's exit status where it did not come to an end of its own


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.runner", description=__doc__)
    parser.add_argument("what", choices=[*(str(tier) for tier in Tier), "more"])
    parser.add_argument(
        "--until", type=float, help="begin no test after this time (Unix, seconds); what is left out is told"
    )
    parser.add_argument(
        "--seed", type=int, default=random.randrange(1, 2**31), help="of hashes, and of the night's examples"
    )
    parser.add_argument(
        "--write-times", action="store_true", help="record how long files took, in tests/runner/times.json"
    )
    given = parser.parse_args(words)
    tier = Tier.REST if given.what == "more" else Tier(given.what)
    print(f"Seed {given.seed}. {at_once(tier)} files run side by side.", flush=True)
    if given.what == "more":
        outcome = run_more(given.until, given.seed)
    else:
        outcome = run(tier, longest_first([name_of(file) for file in files_of(tier)]), given.seed, given.until)
    failed = again(outcome, tier, given.seed)
    print_table(outcome)
    print_left_out(outcome)
    if given.write_times:
        Times.read().with_run(outcome.files, tier).write()
    passed = outcome.counts["passed"] + len(outcome.failures) - len(failed)
    print(f"{passed} passed, {len(failed)} failed, {outcome.counts['skipped']} skipped", flush=True)
    return 1 if failed or outcome.broken else 0


def run_more(until: float | None, seed: int) -> Outcome:
    """Run the rest, in the order in which it says most, and note which files were run whole."""
    rest = [name_of(file) for file in files_of(Tier.REST)]
    changed = touched.touched_by(history.changed_files(), touched.read())
    others = [file for file in rest if file not in changed]
    order = [*changed, *history.in_turn(others, history.read(), history.commit_number(), Times.read())]
    left = "" if until is None else f", for {seconds_in_words(max(0.0, until - time.time()))}"
    print(
        f"What `make test` leaves out{left}: {len(changed)} files that the change touches, then others in turn.",
        flush=True,
    )
    outcome = run(Tier.REST, order, seed, until, AHEAD)
    cut = {nodeid.partition("::")[0] for nodeid in outcome.left_out}
    history.note(file for file in outcome.files if file not in cut)
    return outcome


def at_once(tier: Tier) -> int:
    """Return how many files run side by side."""
    return max(1, int((os.cpu_count() or 1) * AT_ONCE[tier]))


def longest_first(files: list[str]) -> list[str]:
    """Return files so that none that takes long runs alone at the end."""
    times = Times.read()
    return sorted(files, key=lambda file: (-times.seconds(file), file))


def run(tier: Tier, files: Sequence[str], seed: int, until: float | None = None, ahead: int | None = None) -> Outcome:
    """Run files, several side by side, in their order but for those of a folder; begin no test after `until`.

    Whoever is free goes on with a file of its last folder, of which it looks for one among the next `ahead`, or all.
    """
    options = ["-n", str(at_once(tier)), "--dist", "loadfile", "--no-loadscope-reorder", "--tier", tier]
    options.append("--keep-duplicates")  # there are none, and each file would be compared with each
    if ahead is not None:
        options += ["--ahead", str(ahead)]
    if until is not None:
        options += ["--until", str(until)]
    return _pytest([*options, *files], tier, seed)


def again(outcome: Outcome, tier: Tier, seed: int) -> list[str]:
    """Run failed tests once more, alone, with the tier's examples; print those that pass as unlucky, return the others."""
    failed = list(outcome.failures)
    if not failed or len(failed) > MOST_AGAIN:
        return failed
    print(f"\nOnce more, alone: {len(failed)} that failed.", flush=True)
    second = _pytest(failed, tier, seed)
    outcome.broken = outcome.broken or second.broken
    unlucky = [nodeid for nodeid in failed if nodeid not in second.failures and not second.broken]
    if unlucky:
        path = RECORDS / "unlucky.txt"
        path.write_text("\n\n".join(f"{nodeid}\nseed {seed}\n{outcome.failures[nodeid]}" for nodeid in unlucky))
        print("\nUnlucky: failed beside the others, passed alone. Each is a bug, of the product or of the test.")
        for nodeid in unlucky:
            print(f"  {nodeid}\n    seed {seed}; {_last_line(outcome.failures[nodeid])}")
        print(f"  The first failures are in {path.relative_to(TESTS.parent)}.", flush=True)
    return [nodeid for nodeid in failed if nodeid not in unlucky]


def _last_line(text: str) -> str:
    """Return the line of a failure that says most: the error's, or the last one."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return next((line for line in lines if line.startswith("E ")), lines[-1] if lines else "")[:200]


def _pytest(words: Sequence[str], tier: Tier, seed: int) -> Outcome:
    """Run pytest and return what its record says."""
    record = RECORDS / "record.json"
    record.unlink(missing_ok=True)
    # The night's examples are new ones; all others are the same each time, so that no run fails by what it drew.
    drawn = seed if tier is Tier.NIGHT else 0
    command = [sys.executable, "-m", "pytest", "-q", "--record", str(record), f"--hypothesis-seed={drawn}", *words]
    environ = os.environ | {"PYTHONHASHSEED": str(seed % 2**32), "TEST_EXAMPLES": str(EXAMPLES[tier])}
    environ.pop("PYTHONDONTWRITEBYTECODE", None)  # else each of some hundred processes compiles its modules again
    status = subprocess.run(command, cwd=TESTS.parent, env=environ, check=False).returncode
    if not record.exists():
        return Outcome(broken=status or 1)
    said: dict[str, Any] = orjson.loads(record.read_bytes())
    ended_by_itself = status in (0, 1, 5)  # passed, failed, no tests: those of a tier may all be left out
    return Outcome(
        Counter(said["counts"]),
        said["failures"],
        said["left_out"],
        {file: tuple(spent) for file, spent in said["files"].items()},
        0 if ended_by_itself else status,
    )


def print_table(outcome: Outcome) -> None:
    """Print tests, CPU seconds and seconds of each folder, and the files that took longest."""
    folders: dict[str, list[float]] = {}
    for file, spent in outcome.files.items():
        row = folders.setdefault(folder_of(TESTS.parent / file), [0, 0.0, 0.0])
        row[:] = [a + b for a, b in zip(row, spent, strict=True)]
    print(f"\n{'folder':10} {'tests':>7} {'CPU s':>7} {'s':>7}")
    for folder, (tests, cpu, wall) in sorted(folders.items(), key=lambda row: -row[1][2]):
        print(f"{folder:10} {tests:7.0f} {cpu:7.0f} {wall:7.0f}")
    for file, (tests, cpu, wall) in sorted(outcome.files.items(), key=lambda row: -row[1][2])[:10]:
        print(f"  {file}: {tests} tests, {cpu:.0f} CPU s, {wall:.0f} s")


def print_left_out(outcome: Outcome) -> None:
    """Print which tests were not run for want of time."""
    if outcome.left_out:
        files = Counter(nodeid.partition("::")[0] for nodeid in outcome.left_out)
        print(
            f"\nLeft out for want of time, and first in the next run: {len(outcome.left_out)} tests of {len(files)} files:"
        )
        print("  " + ", ".join(Path(file).relative_to("tests").as_posix() for file in files))


if __name__ == "__main__":
    sys.exit(main())
