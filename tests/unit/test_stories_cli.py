"""`srb stories`: what it prints, what it leaves on the disk, and its exit status; every error is one line."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import orjson
import pytest

from srb.cli import main as cli
from srb.errors import StoryTooLarge
from srb.stories import pieces, rows, tables
from srb.stories.sqlite import FileConnection
from tests.media import b64, wav
from tests.stories import Stories, at, model, person

TALE = {"a": person("Once upon a time,"), "b": model(" there lived", "a", 17)}


class Command:
    """`srb stories` with the arguments of one call, and what it said."""

    def __init__(self, path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
        self.path = path
        self._captured = capsysbinary
        self.out = self.err = ""

    def __call__(self, *arguments: object) -> int:
        """Run it; return the exit status."""
        with pytest.raises(SystemExit) as ended:
            cli.main(["stories", "--file", str(self.path), *map(str, arguments)])
        out, err = self._captured.readouterr()
        self.out, self.err = out.decode(), err.decode()
        return int(ended.value.code or 0)


@pytest.fixture
def srb(tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> Command:
    """The command on a file with a story, and another one in the bin."""
    path = tmp_path / "stories.sqlite3"
    stories = Stories(path)
    stories.post(
        "one", nodes=TALE, meta={"title": at("The light\x1b[31m/house 日本", 1)}, marks={"a": {"star": at(True, 2)}}
    )
    stories.post("two", nodes=TALE)
    stories.store.remove("two")
    stories.store.close()
    return Command(path, capsysbinary)


def test_stories_are_listed_without_the_control_characters_of_their_titles(srb: Command) -> None:
    assert srb("list") == 0
    assert srb.out == "one       2  The light [31m/house 日本\n"
    assert srb("list", "--bin") == 0
    assert srb.out.split() == ["two", "2"]


def test_what_is_exported_is_imported_as_it_was(srb: Command, tmp_path: Path) -> None:
    assert srb("export", "--all", tmp_path / "out") == 0
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == ["The-light-31m-house-日本-one.json", "two.json"]
    assert srb("export", "one", tmp_path / "one.json") == 0
    assert srb("export", "one", "-") == 0
    assert srb.out.encode() == (tmp_path / "one.json").read_bytes()
    other = Command(tmp_path / "new" / "stories.sqlite3", srb._captured)
    assert other("import", *(tmp_path / "out").iterdir()) == 0
    for command in (srb, other):
        assert command("export", "one", tmp_path / f"{command.path.parent.name}.json") == 0
    first, second = (orjson.loads((tmp_path / f"{each.path.parent.name}.json").read_bytes()) for each in (srb, other))
    assert first == second
    assert other("check") == 0


def test_a_file_that_cannot_be_imported_is_named_and_the_others_are_imported(srb: Command, tmp_path: Path) -> None:
    assert srb("export", "one", tmp_path / "one.json") == 0
    (tmp_path / "bad.json").write_text('{"format": "other"}')
    target = Command(tmp_path / "new.sqlite3", srb._captured)
    assert target("import", tmp_path / "bad.json", tmp_path / "nowhere.json", tmp_path / "one.json") == 1
    assert target.out.startswith(f"{tmp_path}/one.json: 2 nodes in story one")
    assert "bad.json: Field 'format'" in target.err
    assert "nowhere.json: No such file or directory" in target.err
    assert target.err.count("nothing of it was imported") == 2


def test_a_story_beyond_the_limits_is_imported_as_it_was_exported(
    srb: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page keeps what the server has no room for, and exports all of it."""
    sound = wav(0.01)
    stories = Stories(srb.path)
    stories.add_medium(b64(sound), "one")
    stories.store.close()
    assert srb("export", "one", tmp_path / "one.json") == 0
    for module in (pieces, rows):
        monkeypatch.setattr(module, "MAX_NODES", 1)
    monkeypatch.setattr(rows, "MAX_STORY", 100)
    monkeypatch.setattr(tables, "MAX_MEDIA", 100)
    target = Command(tmp_path / "new.sqlite3", srb._captured)
    assert target("import", tmp_path / "one.json") == 0, target.err
    assert target("export", "one", tmp_path / "again.json") == 0
    first, again = (orjson.loads((tmp_path / name).read_bytes()) for name in ("one.json", "again.json"))
    assert first == again | {"changed": first["changed"]}
    assert len(again["nodes"]) == 2
    assert again["media"]
    assert target("check") == 0, target.out
    assert target("import", tmp_path / "one.json") == 0, "and merged once more"
    found = Stories(target.path)
    assert (room := found.read("one")) is not None
    assert (room["room"]["nodes"], room["room"]["bytes"]) == (0, 0)
    with pytest.raises(StoryTooLarge, match="more than the 1 nodes"):
        found.bring_in(first)
    found.store.remove("one")
    assert found.store.ids() == []
    found.store.restore("one")
    assert found.store.ids() == ["one"]
    found.store.close()


def test_a_backup_is_whole_and_can_be_imported(srb: Command, tmp_path: Path) -> None:
    assert srb("backup", tmp_path / "backup.sqlite3") == 0
    assert srb("backup", tmp_path / "backup.sqlite3") == 1
    assert "File exists" in srb.err
    backup = Command(tmp_path / "backup.sqlite3", srb._captured)
    assert backup("check") == 0
    target = Command(tmp_path / "new.sqlite3", srb._captured)
    assert target("import", tmp_path / "backup.sqlite3") == 0
    assert target("list") == 0
    assert sorted(line.split()[0] for line in target.out.splitlines()) == ["one", "two"]


def test_a_restored_backup_is_what_there_is_and_the_file_from_before_is_kept(srb: Command, tmp_path: Path) -> None:
    assert srb("backup", tmp_path / "backup.sqlite3") == 0
    later = Stories(srb.path)
    later.post("three", nodes=TALE)
    later.store.close()
    (tmp_path / "backup.sqlite3").chmod(0o644)
    assert srb("restore", tmp_path / "backup.sqlite3") == 0
    assert not srb.path.with_name("stories.sqlite3-wal").exists()
    assert srb.path.stat().st_mode & 0o777 == 0o600
    assert srb("check") == 0
    kept = Command(next(tmp_path.glob("stories-before-*.sqlite3")), srb._captured)
    assert kept("list") == 0
    assert sorted(line.split()[0] for line in kept.out.splitlines()) == ["one", "three"]
    assert srb("restore", kept.path) == 0
    assert srb("list") == 0
    assert "three" in srb.out
    assert not list(tmp_path.glob("*.partial*"))


def test_a_backup_takes_the_place_of_a_damaged_file_with_its_log_and_of_none(srb: Command, tmp_path: Path) -> None:
    assert srb("backup", tmp_path / "backup.sqlite3") == 0
    srb.path.write_bytes(b"torn" * 4096)
    srb.path.with_name("stories.sqlite3-wal").write_bytes(b"another file's")
    assert srb("restore", tmp_path / "backup.sqlite3") == 0
    [kept] = tmp_path.glob("stories-before-*.sqlite3")
    assert kept.read_bytes().startswith(b"torn")
    assert kept.with_name(f"{kept.name}-wal").read_bytes() == b"another file's"
    assert srb("check") == 0
    new = Command(tmp_path / "new" / "stories.sqlite3", srb._captured)
    assert new("restore", tmp_path / "backup.sqlite3") == 0
    assert "what was there" not in new.out
    assert new("check") == 0


def test_nothing_is_restored_while_a_server_has_the_file_open(srb: Command, tmp_path: Path) -> None:
    assert srb("backup", tmp_path / "backup.sqlite3") == 0
    server = Stories(srb.path)
    server.post("three", nodes=TALE)
    before = srb.path.stat()
    assert srb("restore", tmp_path / "backup.sqlite3") == 1
    assert srb.err == f"srb: a server has {srb.path} open; stop it first, then restore\n"
    assert srb.path.stat().st_ino == before.st_ino
    assert sorted(server.store.ids()) == ["one", "three"]
    server.post("four", nodes=TALE)
    server.store.close()
    assert srb("restore", tmp_path / "backup.sqlite3") == 0


@pytest.mark.parametrize(
    "fault", ["a page", "a splice", "another program's", "a newer version's", "a story's", "empty"]
)
def test_a_backup_that_is_not_sound_changes_nothing(srb: Command, tmp_path: Path, fault: str) -> None:
    bad = tmp_path / "bad.sqlite3"
    assert srb("backup", bad) == 0
    if fault == "a page":
        bad.write_bytes(bad.read_bytes()[:8192] + b"\xff" * 4096 + bad.read_bytes()[12288:])
    elif fault == "a story's":
        bad.write_text('{"format": "srb-story", "version": 1, "id": "x", "nodes": {}}')
    elif fault == "empty":
        bad.write_bytes(b"")
    else:
        change = {
            "a splice": "UPDATE node SET length = 3 WHERE id = 'a'",
            "another program's": "PRAGMA application_id = 7",
            "a newer version's": "PRAGMA user_version = 900",
        }
        with closing(sqlite3.connect(bad)) as connection:
            connection.execute(change[fault])
            connection.commit()
    before, given = srb.path.read_bytes(), bad.read_bytes()
    assert srb("restore", bad) == 1
    assert str(bad) in srb.err
    assert srb.err.count("\n") == 1
    assert srb.path.read_bytes() == before
    assert bad.read_bytes() == given
    assert not list(tmp_path.glob("*.partial*"))
    assert not list(tmp_path.glob("stories-before-*"))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root restores for others")
def test_root_restores_for_the_user_whose_file_it_is(srb: Command, tmp_path: Path) -> None:
    assert srb("backup", tmp_path / "backup.sqlite3") == 0
    os.chown(srb.path, 1234, 1235)
    assert srb("restore", tmp_path / "backup.sqlite3") == 0
    assert (srb.path.stat().st_uid, srb.path.stat().st_gid) == (1234, 1235)
    srb.path.unlink()
    os.chown(tmp_path, 1236, 1237)
    assert srb("restore", tmp_path / "backup.sqlite3") == 0
    assert (srb.path.stat().st_uid, srb.path.stat().st_gid) == (1236, 1237)


def test_what_is_whole_in_a_damaged_file_can_be_imported(srb: Command, tmp_path: Path) -> None:
    stories = Stories(srb.path)
    for number in range(5):
        stories.save({"a": person(" and" * 3000)}, f"long-{number}")
    stories.store.close()
    data = srb.path.read_bytes()
    with closing(sqlite3.connect(srb.path)) as connection:
        query = "SELECT pageno FROM dbstat WHERE name = 'node' AND pagetype = 'overflow' ORDER BY pageno"
        [first, *_] = [page for (page,) in connection.execute(query)]
    srb.path.write_bytes(data[: (first - 1) * 4096] + b"\xff" * 4096 + data[first * 4096 :])
    for command in (["check"], ["backup", tmp_path / "copy.sqlite3"]):
        assert srb(*command) == 1
        assert "is damaged" in srb.err
    target = Command(tmp_path / "new.sqlite3", srb._captured)
    assert target("import", srb.path) == 1
    assert target.err.count("nothing of it was imported") == 1
    assert target("list") == 0
    assert len(target.out.splitlines()) == 6


def test_the_check_names_what_is_wrong(srb: Command) -> None:
    assert srb("check") == 0
    assert srb.out == f"{srb.path}: 1 stories, 1 in the bin; nothing is wrong\n"
    with closing(sqlite3.connect(srb.path)) as connection:
        connection.execute("UPDATE node SET length = 3 WHERE id = 'a'")
        connection.commit()
    assert srb("check") == 1
    assert srb.out.count("node a: its splice is") == 2


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        ([], 2, "required"),
        (["burn"], 2, "invalid choice"),
        (["export", "one"], 2, "export needs ID and FILE"),
        (["export", "--all", "one", "two"], 2, "export needs ID and FILE"),
        (["export", "nowhere", "/dev/null"], 1, "There is no such story"),
        (["export", "one", "/nowhere/x.json"], 1, "/nowhere/x.json: No such file"),
        (["backup", "/nowhere/x.sqlite3"], 1, "/nowhere/x.sqlite3: No such file"),
        (["restore", "/nowhere/x.sqlite3"], 1, "/nowhere/x.sqlite3: No such file"),
    ],
)
def test_what_cannot_be_done_is_one_line(srb: Command, arguments: list[str], status: int, words: str) -> None:
    assert srb(*arguments) == status
    assert srb.err.startswith("srb: ")
    assert srb.err.count("\n") == 1
    assert words in srb.err


def test_without_a_file_there_is_nothing_to_list(srb: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = Command(tmp_path / "missing.sqlite3", srb._captured)
    assert missing("list") == 1
    assert "no story has been saved yet" in missing.err
    assert not missing.path.exists()
    monkeypatch.setenv("SRB_STORIES", "")
    with pytest.raises(SystemExit) as ended:
        cli.main(["stories", "list"])
    assert ended.value.code == 2
    monkeypatch.setenv("SRB_STORIES", str(srb.path))
    with pytest.raises(SystemExit) as ended:
        cli.main(["stories", "list"])
    assert ended.value.code == 0


def test_a_copy_is_brought_up_to_date_until_either_of_both_is_restored(srb: Command, tmp_path: Path) -> None:
    copy = Command(tmp_path / "copy.sqlite3", srb._captured)
    assert srb("copy", srb.path, copy.path) == 0
    assert srb.out == "2 stories were copied\n"
    assert srb("copy", srb.path, copy.path) == 1
    assert "has stories already" in srb.err
    assert srb("share", "one", "bob") == 0
    assert srb("copy", "--update", srb.path, copy.path) == 0
    assert srb.out == "1 stories were copied\n"
    assert copy("check") == 0
    assert srb("restore", copy.path) == 0
    assert srb("list") == 0
    assert srb("copy", "--update", srb.path, copy.path) == 1
    assert "is no copy of" in srb.err
    assert srb("copy", "--update", copy.path, srb.path) == 1
    assert "is no copy of" in srb.err


def test_a_copy_tells_of_which_file_an_error_is_and_leaves_nothing(
    srb: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = Command(tmp_path / "copy.sqlite3", srb._captured)
    stream = FileConnection.stream

    def failing(self: FileConnection, query: str, *more: Any) -> Iterator[tuple[Any, ...]]:
        yield from stream(self, query, *more)
        if "FROM mark" in query:
            error = sqlite3.DatabaseError("database disk image is malformed")
            error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
            raise error

    with monkeypatch.context() as broken:
        broken.setattr(FileConnection, "stream", failing)
        assert srb("copy", srb.path, copy.path) == 1
    assert str(srb.path) in srb.err
    assert "malformed" in srb.err
    assert str(copy.path) not in srb.err
    assert copy("list") == 0
    assert copy.out == ""
    assert srb("copy", srb.path, copy.path) == 0


@pytest.mark.parametrize("command", ["check", "list", "backup", "import"])
def test_a_file_with_other_tables_is_told_in_one_line(srb: Command, tmp_path: Path, command: str) -> None:
    with closing(sqlite3.connect(srb.path)) as connection:
        connection.execute("ALTER TABLE story DROP COLUMN has_pairs")
    more = {"backup": [tmp_path / "copy"], "import": [tmp_path / "tale.json"]}.get(command, [])
    (tmp_path / "tale.json").write_text('{"format": "srb-story", "version": 1, "id": "x", "nodes": {}}')
    assert srb(command, *more) == 1
    assert srb.err.count("\n") == 1
    assert "no column has_pairs" in srb.err
