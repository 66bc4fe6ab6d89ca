"""The runner of many tests: which it takes, in which order, until when, and what it makes of a failure."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import orjson
import pytest

from tests.runner import __main__ as runner
from tests.runner import history, touched
from tests.runner.tiers import TESTS, Tier, files_of, name_of
from tests.runner.times import Times, seconds_in_words

pytestmark = pytest.mark.smoke

FILES = [f"tests/e2e/test_{letter}.py" for letter in "abcdefghij"]


@pytest.mark.parametrize(
    ("folder", "marks", "tiers"),
    [
        ("unit", [], {Tier.MAIN, Tier.ALL, Tier.NIGHT}),
        ("unit", ["long"], {Tier.NIGHT}),
        ("e2e", ["e2e"], {Tier.REST, Tier.ALL, Tier.NIGHT}),
        ("e2e", ["e2e", "smoke"], {Tier.MAIN, Tier.ALL, Tier.NIGHT}),
        ("page", ["smoke", "long"], {Tier.NIGHT}),
        ("cluster", ["cluster"], {Tier.REST}),
        ("cluster", ["cluster", "long"], set()),
    ],
)
def test_a_test_belongs_to_tiers_by_its_folder_and_marks(folder: str, marks: list[str], tiers: set[Tier]) -> None:
    assert {tier for tier in Tier if tier.holds(folder, marks)} == tiers


def test_no_test_that_a_tier_holds_is_in_a_file_that_it_does_not_read() -> None:
    main, rest = ({name_of(file) for file in files_of(tier)} for tier in (Tier.MAIN, Tier.REST))
    assert main | rest == {name_of(file) for file in files_of(Tier.ALL)} | {
        name for name in rest if "/cluster/" in name
    }
    assert "tests/unit/test_text.py" in main - rest
    smoke = [name for name in main & rest if "smoke" in (TESTS.parent / name).read_text()]
    assert sorted(smoke) == sorted(main & rest)
    assert smoke


def test_every_file_has_its_turn_in_four_commits_one_after_another() -> None:
    times = Times({file: (1, float(place + 1)) for place, file in enumerate(FILES)})
    firsts = []
    for commit in range(7, 7 + history.TURNS):
        order = history.in_turn(FILES, {}, commit, times)
        assert sorted(order) == FILES
        share, seconds = sum(times.seconds(file) for file in FILES) / history.TURNS, 0.0
        for file in order:
            if seconds >= share:
                break
            firsts.append(file)
            seconds += times.seconds(file)
    assert set(firsts) == set(FILES)


def test_files_that_have_not_run_for_longest_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_RUNS", str(tmp_path / "below" / "runs.json"))
    assert history.read() == {}
    history.note(FILES[:4])
    history.note(FILES[4:6])
    history.note(FILES[:1])
    order = history.in_turn(FILES, history.read(), 3, Times({}))
    assert set(order[:4]) == set(FILES[6:])
    assert set(order[4:7]) == set(FILES[1:4])
    assert set(order[7:9]) == set(FILES[4:6])
    assert order[9] == FILES[0]


def test_a_change_touches_the_files_of_the_nearest_row_itself_and_those_that_share_its_help() -> None:
    rows = {"srb": ["e2e/test_units.py"], "srb/stories": ["e2e/test_stories.py", "page/test_keeping.py"]}
    assert touched.touched_by(["srb/stories/store.py"], rows) == [
        "tests/e2e/test_stories.py",
        "tests/page/test_keeping.py",
    ]
    assert touched.touched_by(["srb/errors.py", "docs/api.md"], rows) == ["tests/e2e/test_units.py"]
    assert touched.touched_by(["srb/storiesque.py"], rows) == ["tests/e2e/test_units.py"]
    assert touched.touched_by(["tests/e2e/test_top.py", "tests/unit/test_text.py"], rows) == ["tests/e2e/test_top.py"]
    shared = touched.touched_by(["tests/page/writer.py"], rows)
    assert "tests/page/test_writing.py" in shared
    assert all(file.startswith("tests/page/") for file in shared)


@pytest.fixture
def records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for records, below a root of its own."""
    folder = tmp_path / "build" / "tests"
    folder.mkdir(parents=True)
    monkeypatch.setattr(runner, "RECORDS", folder)
    monkeypatch.setattr(runner, "TESTS", tmp_path / "tests")
    return folder


def failing(*names: str) -> runner.Outcome:
    return runner.Outcome(Counter(passed=5), {name: f"call: E  AssertionError: {name}" for name in names})


def test_a_test_that_fails_once_is_unlucky_and_one_that_fails_twice_fails(
    records: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(runner, "_pytest", lambda words, tier, seed: failing("b"))
    assert runner.again(failing("a", "b"), Tier.MAIN, 7) == ["b"]
    said = capsys.readouterr().out
    assert "Unlucky" in said.partition("Once more")[2]
    assert "a\n    seed 7; E  AssertionError: a" not in said  # the line that says most, without pytest's phase
    assert "  a\n    seed 7; call: E  AssertionError: a" in said
    assert (records / "unlucky.txt").read_text() == "a\nseed 7\ncall: E  AssertionError: a"


@pytest.mark.parametrize("number", [0, runner.MOST_AGAIN + 1])
def test_nothing_is_run_again_where_nothing_or_too_much_failed(records: Path, number: int) -> None:
    outcome = failing(*map(str, range(number)))
    assert runner.again(outcome, Tier.MAIN, 7) == list(outcome.failures)


def test_a_second_run_that_breaks_off_makes_no_failure_unlucky(records: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "_pytest", lambda words, tier, seed: runner.Outcome(broken=3))
    outcome = failing("a")
    assert runner.again(outcome, Tier.MAIN, 7) == ["a"]
    assert outcome.broken


TESTED = """
import pytest
def test_right(): pass
def test_wrong(): assert 1 == 2
@pytest.mark.skip(reason="no")
def test_not(): pass
@pytest.fixture
def broken(): raise OSError("gone")
def test_unready(broken): pass
@pytest.fixture
def leaky():
    yield
    raise OSError("left")
def test_untidy(leaky): pass
"""


@pytest.mark.parametrize("side_by_side", [[], ["-n", "2", "--dist", "loadfile"]], ids=["alone", "side by side"])
def test_a_run_records_what_became_of_each_test(tmp_path: Path, side_by_side: list[str]) -> None:
    (tmp_path / "test_it.py").write_text(TESTED)
    record = tmp_path / "record.json"
    assert run(tmp_path, "--record", str(record), *side_by_side) == 1
    said = orjson.loads(record.read_bytes())
    assert said["counts"] == {"passed": 1, "skipped": 1}
    assert {nodeid.partition("::")[2]: text.partition(":")[0] for nodeid, text in said["failures"].items()} == {
        "test_wrong": "call", "test_unready": "setup", "test_untidy": "teardown",
    }  # fmt: skip
    assert said["left_out"] == []
    assert [spent[0] for spent in said["files"].values()] == [5]


@pytest.mark.parametrize("side_by_side", [[], ["-n", "2", "--dist", "loadfile"]], ids=["alone", "side by side"])
def test_no_test_begins_after_the_given_time_and_each_is_told(tmp_path: Path, side_by_side: list[str]) -> None:
    (tmp_path / "test_it.py").write_text(TESTED)
    record = tmp_path / "record.json"
    assert run(tmp_path, "--record", str(record), "--until", "1", *side_by_side) in (0, 5)
    said = orjson.loads(record.read_bytes())
    assert len(said["left_out"]) == 5
    assert said["failures"] == {}


@pytest.mark.parametrize(("ahead", "order"), [([], "1324"), (["--ahead", "1"], "1234")], ids=["any", "in order"])
def test_whoever_is_free_stays_in_the_folder_of_the_last_file(tmp_path: Path, ahead: list[str], order: str) -> None:
    told = tmp_path / "told"
    files = [tmp_path / place for place in ("a/test_1.py", "b/test_2.py", "a/test_3.py", "b/test_4.py")]
    for file in files:
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"def test_it(): open({str(told)!r}, 'a').write({file.stem[-1]!r})")
    one_by_one = ["-n", "1", "--dist", "loadfile", "--no-loadscope-reorder"]
    assert run(tmp_path, *one_by_one, *ahead, files=files) == 0
    assert told.read_text() == order


def run(folder: Path, *words: str, files: Sequence[Path] = ()) -> int:
    """Run pytest with the plugin in a folder of its own, on its files; return its exit status."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "tests.runner.plugin",
        "--rootdir",
        folder,
        "-c",
        "/dev/null",
    ]
    done = subprocess.run(
        [*command, *words, *(files or [folder / "test_it.py"])],
        cwd=TESTS.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    print(done.stdout, done.stderr)
    return done.returncode


def test_a_run_of_some_tests_of_a_file_leaves_the_time_of_all_of_them() -> None:
    times = Times({"tests/e2e/test_a.py": (40, 180.0), "tests/unit/test_b.py": (3, 9.0)})
    spent = {"tests/e2e/test_a.py": (5, 6.0, 17.3), "tests/unit/test_b.py": (4, 1.0, 2.0)}
    assert times.with_run(spent, Tier.MAIN).files == {
        "tests/e2e/test_a.py": (40, 180.0),
        "tests/unit/test_b.py": (4, 2.0),
    }
    assert times.with_run(spent, Tier.ALL).files["tests/e2e/test_a.py"] == (5, 17.3)


@pytest.mark.parametrize(("seconds", "words"), [(0, "0 s"), (59.4, "59 s"), (60, "1 min 00 s"), (185, "3 min 05 s")])
def test_seconds_are_told_in_minutes(seconds: float, words: str) -> None:
    assert seconds_in_words(seconds) == words
