"""The list of what is to be forgotten of computed texts, and the folder from which it goes."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from srb.engine.fake import FakeModel
from srb.engine.process.text_folder import TextFolder
from srb.forgotten import NAME, note_keys, note_story, since
from srb.wire.commands import KEY, ForgetTexts, digest_of
from tests.engine_helpers import Driver
from tests.processes import DEADLINE, wait_for
from tests.text_stores import MemoryTexts

MODEL = "0" * 32
STORY = [place % 40 for place in range(600)]
SECRET = [41, 42, 43, 44] * 75  # tokens that no other text has


def test_stories_and_keys_are_noted_and_told_from_a_place_on(tmp_path: Path) -> None:
    folder = tmp_path / "texts"
    note_story(folder, "aa")
    stories, keys, place = since(folder, 0)
    assert (stories, keys) == (["aa"], [])
    assert note_keys(folder, "s", ["k1", "k2"]) == []
    assert note_keys(folder, "s", ["k2", "k3"]) == ["k1"]
    note_story(folder, "bb")
    assert since(folder, place)[:2] == (["bb"], ["k1"])
    assert since(folder, since(folder, 0)[2])[:2] == ([], [])
    assert stat.S_IMODE((folder / NAME).stat().st_mode) == 0o600


def test_equal_keys_are_noted_once_and_those_of_another_server_are_not_revoked(tmp_path: Path) -> None:
    for _ in range(3):
        assert note_keys(tmp_path, "s", ["k1"]) == []
        assert note_keys(tmp_path, "other", ["k2"]) == []
    assert len((tmp_path / NAME).read_bytes().splitlines()) == 2
    assert note_keys(tmp_path, "s", []) == ["k1"]


@pytest.mark.parametrize("damage", [b"{", b"[1]\n", b'{"story": 3}\n', b'{"gone": [1]}\n', b"\xff\n"])
def test_a_line_that_is_none_is_passed_over(tmp_path: Path, damage: bytes) -> None:
    note_story(tmp_path, "aa")
    with open(tmp_path / NAME, "ab") as file:
        file.write(damage + b"\n")
    note_story(tmp_path, "bb")
    assert since(tmp_path, 0)[:2] == (["aa", "bb"], [])
    assert since(tmp_path, 10**6)[0] == ["aa", "bb"]  # a list that was made anew


# ---- the folder


@pytest.fixture
def folders(tmp_path: Path) -> Iterator[list[TextFolder]]:
    opened: list[TextFolder] = []
    yield opened
    for folder in opened:
        folder.close(DEADLINE)


def start(folders: list[TextFolder], path: Path) -> Driver:
    """Start an engine as the process does, after the one before has ended."""
    for folder in folders:
        folder.close(DEADLINE)
    folders.append(TextFolder(path, MODEL, 10**9))
    driver = Driver(FakeModel(n_ctx=4000, n_seq_max=20, n_batch=512), texts=folders[-1], cache_cells=0)
    stories, keys, place = folders[-1].forgotten()
    driver.engine.serve_query(ForgetTexts("", tuple(stories), tuple(keys)))
    folders[-1].note_forgotten(place)
    return driver


def write(driver: Driver, prompt: list[int], story: str = "", key: str = "") -> None:
    driver.submit(prompt, max_tokens=5, ignore_eos=True, session=story, owner=key)
    driver.run()
    driver.engine.store_texts(float(DEADLINE))


def found(driver: Driver, prompt: list[int]) -> int:
    asked = driver.submit(prompt, max_tokens=1, session="looks")
    wait_for(lambda: (driver.step(), driver.result(asked).terminal)[1], "the answer comes")
    return driver.result(asked).terminal[0].cached_tokens


def bytes_with(path: Path, tokens: list[int]) -> list[str]:
    """Return the files of a folder that have these tokens, as the index writes them."""
    wanted = b"".join(token.to_bytes(4, "little") for token in tokens)
    found = []
    for each in path.rglob("*"):
        with suppress(FileNotFoundError):  # it is removed just now
            if each.is_file() and wanted in each.read_bytes():
                found.append(each.name)
    return found


@pytest.mark.parametrize("runs", [True, False], ids=["the engine runs", "the engine starts later"])
def test_nothing_of_a_deleted_story_stays_on_the_disk_and_another_is_found(
    folders: list[TextFolder], tmp_path: Path, runs: bool
) -> None:
    driver = start(folders, tmp_path)
    write(driver, STORY, "kept")
    write(driver, STORY[:300] + SECRET, "deleted")
    assert bytes_with(tmp_path, SECRET[:8])
    if runs:
        driver.engine.serve_query(ForgetTexts("", (digest_of("deleted"),)))
    else:
        note_story(tmp_path, digest_of("deleted"))
        driver = start(folders, tmp_path)
    wait_for(lambda: not bytes_with(tmp_path, SECRET[:8]), "its tokens are gone")
    again = start(folders, tmp_path)
    assert found(again, STORY) >= len(STORY) - 1
    assert found(again, STORY[:300] + SECRET) <= 300


def test_a_record_of_which_two_stories_have_a_part_goes_whole_and_what_is_left_is_written_anew(
    folders: list[TextFolder], tmp_path: Path
) -> None:
    driver = start(folders, tmp_path)
    write(driver, STORY[:300] + SECRET, "deleted")  # one record, or a few
    write(driver, STORY, "kept")
    driver.engine.serve_query(ForgetTexts("", (digest_of("deleted"),)))
    wait_for(lambda: not bytes_with(tmp_path, SECRET[:8]), "its tokens are gone")
    driver.engine.store_texts(float(DEADLINE))
    assert found(start(folders, tmp_path), STORY) >= len(STORY) - 1


def test_a_story_that_is_written_again_after_its_end_is_kept(folders: list[TextFolder], tmp_path: Path) -> None:
    write(start(folders, tmp_path), STORY, "restored")
    note_story(tmp_path, digest_of("restored"))
    driver = start(folders, tmp_path)
    assert found(driver, STORY) == 0
    write(driver, STORY, "restored")
    assert found(start(folders, tmp_path), STORY) >= len(STORY) - 1


def test_texts_of_a_revoked_key_go_and_those_of_others_stay(folders: list[TextFolder], tmp_path: Path) -> None:
    anna, ben = f"{KEY}@anna", f"{KEY}@ben"
    driver = start(folders, tmp_path)
    write(driver, STORY, key=ben)
    write(driver, SECRET, key=anna)
    write(driver, STORY[:100] + SECRET, key="127.0.0.1")
    driver.engine.serve_query(ForgetTexts("", keys=(digest_of(anna),)))
    again = start(folders, tmp_path)
    assert found(again, SECRET) == 0
    assert found(again, STORY) >= len(STORY) - 1
    assert found(again, STORY[:100] + SECRET) >= 100 + len(SECRET) - 1


def test_what_runs_stays(tmp_path: Path) -> None:
    driver = Driver(FakeModel(n_ctx=4000, n_seq_max=20, n_batch=512))
    asked = driver.submit(STORY, 3, max_tokens=20, ignore_eos=True, session="deleted")
    for _ in range(6):
        driver.step()
    driver.engine.serve_query(ForgetTexts("", (digest_of("deleted"),)))
    driver.engine.check_invariants()
    driver.run()
    assert all(end.length == 20 for end in driver.result(asked).ends.values())


@pytest.mark.parametrize("starts", [False, True], ids=["at once", "after a start"])
def test_a_beginning_that_stays_for_another_story_goes_with_that_one(
    folders: list[TextFolder], tmp_path: Path, starts: bool
) -> None:
    driver = start(folders, tmp_path)
    write(driver, [*SECRET, *STORY], "first")
    write(driver, [*SECRET, 7, 8, 9], "last")  # it has passed the beginning after the first
    driver.engine.serve_query(ForgetTexts("", (digest_of("last"),)))
    if starts:
        driver.engine.store_texts(float(DEADLINE))
        driver = start(folders, tmp_path)
    assert bytes_with(tmp_path, SECRET[:8])
    driver.engine.serve_query(ForgetTexts("", (digest_of("first"),)))
    wait_for(lambda: not bytes_with(tmp_path, SECRET[:8]), "its tokens are gone")


def test_a_text_that_was_stored_while_in_use_goes_with_its_story_after_a_crash() -> None:
    store = MemoryTexts()
    driver = Driver(FakeModel(n_ctx=4000, n_seq_max=20), texts=store)
    driver.submit(SECRET, 3, 1, 300, ignore_eos=True, session="deleted")
    while not store.files:
        driver.step()
        store.deliver()
    killed = Driver(FakeModel(n_ctx=4000, n_seq_max=20), texts=store)
    killed.engine.serve_query(ForgetTexts("", (digest_of("deleted"),)))
    assert not store.files


@pytest.mark.parametrize("starts", [0, 1, 2], ids=["at once", "after a start", "with starts between"])
def test_a_text_of_two_stories_goes_with_the_second(folders: list[TextFolder], tmp_path: Path, starts: int) -> None:
    driver = start(folders, tmp_path)
    write(driver, SECRET, "first")
    driver = start(folders, tmp_path) if starts == 2 else driver
    write(driver, SECRET, "second")
    driver.engine.serve_query(ForgetTexts("", (digest_of("first"),)))
    driver = start(folders, tmp_path) if starts else driver
    assert bytes_with(tmp_path, SECRET[:8])
    driver.engine.serve_query(ForgetTexts("", (digest_of("second"),)))
    wait_for(lambda: not bytes_with(tmp_path, SECRET[:8]), "its tokens are gone")
