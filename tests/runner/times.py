"""Seconds that the tests of each file took in a run that was recorded, for the order of files and the time that is left."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import orjson

from tests.runner.tiers import TESTS, Tier, folder_of

_FILE = Path(__file__).with_name("times.json")  # written by `python -m tests.runner … --write-times`
_UNKNOWN = 0.05  # seconds of a test in a file that is not recorded
_UNKNOWN_FILE = 30.0  # … and of all its tests: it begins early, since at the end a long one would run alone


@dataclass(frozen=True)
class Times:
    """By file: the number of its tests, and the seconds that they took together, on two quiet cores."""

    files: Mapping[str, tuple[int, float]]

    @classmethod
    def read(cls) -> Times:
        return cls(orjson.loads(_FILE.read_bytes()) if _FILE.exists() else {})

    def seconds(self, file: str, number: int | None = None) -> float:
        """Return the seconds that a file's tests may take, or `number` of them."""
        if file not in self.files:
            return _UNKNOWN_FILE if number is None else _UNKNOWN * number
        tests, seconds = self.files[file]
        return seconds if number is None else seconds * number / max(tests, 1)

    def with_run(self, spent: Mapping[str, tuple[int, float, float]], tier: Tier) -> Times:
        """Return these times with those of a run: by file its tests, CPU seconds and seconds.

        A file of which the tier has some tests alone keeps its time: the next run of all would begin it too late.
        """
        whole = {file: row for file, row in spent.items() if tier.has_whole_files_of(folder_of(TESTS.parent / file))}
        new = {file: (tests, round(wall, 1)) for file, (tests, _, wall) in whole.items()}
        return Times({**self.files, **new})

    def write(self) -> None:
        rows = ",\n".join(f'"{file}": {orjson.dumps(row).decode()}' for file, row in sorted(self.files.items()))
        _FILE.write_text(f"{{\n{rows}\n}}\n")


def seconds_in_words(seconds: float) -> str:
    """Return `45 s`, or `3 min 05 s`."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
