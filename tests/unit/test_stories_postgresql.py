"""Stories in PostgreSQL: writers side by side, a database that goes away, restored ones, errors without a password."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest

from srb.cli import main as cli
from srb.config.settings import Settings
from srb.doctor.places import obstacles
from srb.errors import (
    ConfigError,
    InvalidRequest,
    SRBError,
    StoriesAway,
    StoriesDamaged,
    StoriesFull,
    StoriesLocked,
    StoriesNewer,
    StoriesReadOnly,
    StoriesUnavailable,
    StoryTooLarge,
)
from srb.stories.copying import copy_stories
from srb.stories.store import Store
from tests.postgresql import PASSWORD, PostgreSQL
from tests.processes import DEADLINE
from tests.servers import free_port
from tests.stories import ID, Stories, at, model, person

module = pytest.importorskip("srb.stories.postgresql", reason="the extra `postgresql` is not installed")

TALE = {"a": person("Once upon a time,"), "b": model(" there lived", "a", 17)}
NAME = "unit"


@pytest.fixture
def stories(postgresql: PostgreSQL) -> Iterator[Stories]:
    made = Stories(postgresql.make(NAME))
    yield made
    made.store.close()


def side_by_side(acts: list[Callable[[], None]]) -> None:
    threads = [threading.Thread(target=act) for act in acts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE)


# Writers --------------------------------------------------------------------------------------------------------------


def test_processes_that_begin_at_once_make_the_tables_once(postgresql: PostgreSQL) -> None:
    address, errors = postgresql.make(NAME), []

    def begin() -> None:
        try:
            with closing(Store(address)) as store:
                store.ids()
        except Exception as error:  # any would be a fault
            errors.append(error)

    side_by_side([begin] * 6)
    assert errors == []


def test_posts_to_one_story_wait_for_each_other_and_lose_nothing(stories: Stories, postgresql: PostgreSQL) -> None:
    seqs: list[int] = []

    def write(name: str) -> Callable[[], None]:
        def run() -> None:
            mine = Stories(postgresql.address(NAME))
            for number in range(25):
                seqs.append(mine.save({f"{name}{number}": person("x")}))
            mine.store.close()

        return run

    side_by_side([write(name) for name in "abcd"])
    assert sorted(seqs) == list(range(1, 101)), "each post has a number of its own"
    assert len(stories.nodes()) == 100


def test_what_a_person_may_keep_is_counted_over_posts_that_come_at_once(postgresql: PostgreSQL) -> None:
    address, refused = postgresql.make(NAME), []

    def write(story: str) -> Callable[[], None]:
        def run() -> None:
            with closing(Store(address, rooms={"ann": 4000})) as store:
                try:
                    store.of("ann").post(story, Stories.read_post(nodes={"a": person("x" * 1500)}))
                except StoryTooLarge as error:
                    refused.append(error)

        return run

    side_by_side([write(f"story{number}") for number in range(6)])
    with closing(Store(address)) as store, store.connection() as connection:
        assert connection.execute("SELECT sum(bytes) <= 4000 FROM story").fetchone() == (True,)
    assert len(refused) == 4


def test_a_story_that_another_transaction_keeps_is_told(
    stories: Stories, postgresql: PostgreSQL, monkeypatch: pytest.MonkeyPatch
) -> None:
    stories.save(TALE)
    monkeypatch.setattr(module, "_BUSY_SECONDS", 1)
    other = Stories(postgresql.address(NAME))
    with stories.store.writing() as connection:
        connection.execute("SELECT 1 FROM story FOR UPDATE")
        with pytest.raises(StoriesLocked, match=f"/{NAME} waiting"):
            other.save({"c": person("x")})
        assert other.nodes() == TALE, "reading does not wait"
    other.save({"c": person("x")})
    other.store.close()


# The database goes, and comes back --------------------------------------------------------------------------------------


def test_a_session_that_was_cut_is_opened_again_without_a_word(stories: Stories, postgresql: PostgreSQL) -> None:
    stories.save(TALE)
    cut = f"SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = '{NAME}'"
    assert postgresql.sql("postgres", cut) == "1\n"
    assert stories.nodes() == TALE
    postgresql.sql("postgres", cut)
    stories.save({"c": person("x")})


def test_a_session_that_is_cut_in_a_transaction_is_told_and_nothing_of_the_post_is_there(
    stories: Stories, postgresql: PostgreSQL
) -> None:
    stories.save(TALE)

    def half() -> None:
        with stories.store.writing() as connection:
            connection.execute("DELETE FROM story")
            cut = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{NAME}'"
            postgresql.sql("postgres", cut)
            connection.execute("DELETE FROM story")

    with pytest.raises(StoriesAway, match="does not answer"):
        half()
    assert stories.nodes() == TALE


def test_a_statement_without_an_answer_ends(stories: Stories, monkeypatch: pytest.MonkeyPatch) -> None:
    stories.save(TALE)
    monkeypatch.setattr(module._Session, "seconds", 0.1)
    with pytest.raises(StoriesAway, match="no answer for"), stories.store.connection() as connection:
        connection.execute("SELECT pg_sleep(20)")
    monkeypatch.undo()
    assert stories.nodes() == TALE


def test_whoever_waits_behind_a_call_that_found_nobody_does_not_wait_again(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []
    times = iter([100.0, 105.0, 105.1, 111.0, 111.0, 111.0])
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: next(times)))

    def connect(**_: object) -> None:
        tried.append(1)
        raise module.psycopg.OperationalError("connection timeout expired")

    monkeypatch.setattr(module._Session, "connect", connect)
    store = Store("postgresql://nobody@localhost/nothing")
    for attempts in (1, 1, 2):
        with pytest.raises(StoriesAway, match="timeout"):
            store.ids()
        assert len(tried) == attempts


def test_a_database_that_may_only_be_read_is_read(stories: Stories, postgresql: PostgreSQL) -> None:
    stories.save(TALE)
    postgresql.sql("postgres", f"ALTER DATABASE {NAME} SET default_transaction_read_only = on")
    reader = Stories(postgresql.address(NAME))
    assert reader.nodes() == TALE
    assert reader.overview()["state"] == "read_only"
    reader.store.close()
    postgresql.sql(
        NAME,
        "SET default_transaction_read_only = off",
        "CREATE ROLE reader LOGIN",
        "GRANT USAGE ON SCHEMA srb_stories TO reader",
        "GRANT SELECT ON ALL TABLES IN SCHEMA srb_stories TO reader",
        f"ALTER DATABASE {NAME} RESET default_transaction_read_only",
    )
    reader = Stories(postgresql.address(NAME).replace("user=srb", "user=reader"))
    assert reader.nodes() == TALE
    with pytest.raises(StoriesReadOnly, match="permission denied"):
        reader.save({"c": person("x")})
    assert reader.nodes() == TALE
    reader.store.close()


@pytest.mark.parametrize(
    ("code", "error", "state"),
    [
        ("53100", StoriesFull, "full"),  # the database's disk is full
        ("53300", StoriesAway, "ok"),  # too many sessions
        ("57P03", StoriesAway, "ok"),  # it is starting
        ("25006", StoriesReadOnly, "read_only"),  # another host has become the one that writes
        ("40P01", StoriesLocked, "ok"),
        ("26000", StoriesUnavailable, "ok"),
        ("XX001", StoriesDamaged, "ok"),
    ],
)
def test_each_trouble_of_the_database_has_its_name_and_ends_with_the_trouble(
    stories: Stories, postgresql: PostgreSQL, code: str, error: type[SRBError], state: str
) -> None:
    stories.save(TALE)
    body = f"BEGIN RAISE EXCEPTION 'of a test' USING ERRCODE = '{code}'; END"
    postgresql.sql(
        NAME,
        f"CREATE FUNCTION trouble() RETURNS trigger LANGUAGE plpgsql AS $${body}$$",
        "CREATE TRIGGER trouble BEFORE INSERT ON srb_stories.node EXECUTE FUNCTION trouble()",
    )
    with pytest.raises(error) as caught:
        stories.save({"c": person("x")})
    assert type(caught.value) is error
    assert stories.store.state == state
    assert stories.nodes() == TALE
    postgresql.sql(NAME, "DROP FUNCTION trouble CASCADE")
    stories.save({"c": person("x")})
    assert stories.store.state == "ok"


def test_a_commit_waits_for_the_disk_whatever_the_database_does_otherwise(postgresql: PostgreSQL) -> None:
    address = postgresql.make(NAME)
    postgresql.sql("postgres", f"ALTER DATABASE {NAME} SET synchronous_commit = off")
    with closing(Store(address)) as store, store.connection() as connection:
        assert connection.execute("SHOW synchronous_commit").fetchone() == ("on",)


# Backups and copies -----------------------------------------------------------------------------------------------------


def test_a_restored_dump_is_another_file_for_those_who_know_this_one(stories: Stories, postgresql: PostgreSQL) -> None:
    seq, server = stories.save(TALE), stories.overview()["server"]
    other = Stories(postgresql.address(NAME))
    assert other.overview()["server"] == server, "a second session has the same name for it"
    other.store.close()
    dump = postgresql.folder / "stories.dump"
    where = ("-h", postgresql.folder, "-p", str(postgresql.port), "-U", "srb", f"--dbname={NAME}")
    postgresql.run("pg_dump", *where, "--format=custom", "--schema=srb_stories", f"--file={dump}")
    stories.post(nodes={"c": person("x")})
    stories.store.close()
    postgresql.run("pg_restore", *where, "--clean", "--if-exists", dump)
    assert stories.nodes() == TALE
    assert stories.overview()["server"] != server
    assert stories.read(since=seq, server=server) is not None


def command(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str]:
    """Run `srb stories`; return its exit status and all that it said."""
    with pytest.raises(SystemExit) as ended:
        cli.main(["stories", *map(str, arguments)])
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), out + err


def test_the_commands_work_on_an_address_and_name_the_tools_that_take_the_place_of_others(
    stories: Stories, postgresql: PostgreSQL, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stories.post(nodes=TALE, meta={"title": at("The lighthouse", 5)})
    where = ("--file", postgresql.far_address(NAME))
    file = tmp_path / "tale.json"
    assert command(capsys, *where, "list") == (0, f"{ID}       2  The lighthouse\n")
    assert command(capsys, *where, "export", ID, file) == (0, "")
    assert command(capsys, *where, "import", file) == (0, f"{file}: 2 nodes in story {ID}\n")
    assert command(capsys, *where, "share", ID, "bob") == (0, "bob  read\n")
    assert command(capsys, *where, "give", "ann", ID) == (0, f"{ID}\n")
    shown = f"postgresql://127.0.0.1:{postgresql.port}/{NAME}"
    assert command(capsys, *where, "check") == (0, f"{shown}: 1 stories, 0 in the bin; nothing is wrong\n")
    status, said = command(capsys, *where, "backup", tmp_path / "copy")
    assert (status, "pg_dump" in said, PASSWORD in said) == (1, True, False)
    copy = tmp_path / "copy.sqlite3"
    assert command(capsys, "copy", where[1], copy) == (0, "1 stories were copied\n")
    stories.post("another", nodes=TALE)
    assert command(capsys, "copy", "--update", where[1], copy) == (0, "1 stories were copied\n")
    assert command(capsys, "--file", copy, "check") == (0, f"{copy}: 2 stories, 0 in the bin; nothing is wrong\n")
    status, said = command(capsys, *where, "restore", copy)
    assert (status, "pg_restore" in said, PASSWORD in said) == (1, True, False)
    status, said = command(capsys, "copy", copy, where[1])
    assert (status, said) == (1, f"srb: {shown} has stories already; a copy is made where there are none, or updated\n")
    assert command(capsys, "copy", tmp_path / "missing", copy) == (1, f"srb: {tmp_path / 'missing'} does not exist\n")


def test_a_copy_that_cannot_be_finished_leaves_nothing(
    stories: Stories, postgresql: PostgreSQL, tmp_path: Path
) -> None:
    """Here a key has a character that PostgreSQL does not keep."""
    old = Stories(tmp_path / "old.sqlite3")
    old.post(nodes=TALE, meta={"no\0ne": at(1, 1)})
    old.store.close()
    with pytest.raises(InvalidRequest, match="PostgreSQL does not keep"):
        copy_stories(old.path, postgresql.address(NAME))
    assert stories.ids() == []
    with pytest.raises(InvalidRequest, match="PostgreSQL does not keep"):
        stories.post(meta={"no\0ne": at(1, 1)})


# Addresses and foreign databases ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ("UPDATE srb_stories.file SET value = '99' WHERE key = 'version'", StoriesNewer, "have version 99"),
        ("DELETE FROM srb_stories.file", StoriesDamaged, "another program"),
        ("ALTER TABLE srb_stories.story DROP COLUMN seq", StoriesDamaged, "seq"),
        ("DROP TABLE srb_stories.node CASCADE", StoriesDamaged, "node"),
    ],
)
def test_tables_that_are_others_are_told(
    stories: Stories, postgresql: PostgreSQL, change: str, error: type[SRBError], words: str
) -> None:
    stories.save(TALE)
    stories.store.close()
    postgresql.sql(NAME, change)
    with pytest.raises(error, match=words):
        stories.read()


def test_a_database_of_another_encoding_is_told(postgresql: PostgreSQL) -> None:
    postgresql.make(NAME)
    more = "ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0"
    postgresql.sql("postgres", f"DROP DATABASE {NAME}", f"CREATE DATABASE {NAME} {more}")
    with closing(Store(postgresql.address(NAME))) as store, pytest.raises(StoriesUnavailable, match="LATIN1"):
        store.ids()


def test_no_message_has_the_password(postgresql: PostgreSQL) -> None:
    port = free_port()
    postgresql.make(NAME)
    addresses = [
        f"postgresql://srb:{PASSWORD}@127.0.0.1:{port}/x",
        f"postgresql://srb@127.0.0.1:{port}/x?password={PASSWORD}",
        f"postgresql://srb:{PASSWORD}-wrong@127.0.0.1:{postgresql.port}/{NAME}",
        f"postgresql://srb:{PASSWORD}@127.0.0.1:{postgresql.port}/nowhere",
    ]
    for address in addresses:
        with closing(Store(address)) as store, pytest.raises(StoriesAway) as caught:
            store.ids()
        assert PASSWORD not in caught.value.message
        assert caught.value.message.startswith("postgresql://127.0.0.1:")


@pytest.mark.parametrize(
    "address",
    [
        f"postgresql://srb:{PASSWORD}@x@host/name",
        f"postgresql://srb:{PASSWORD}/x@host/name",
        f"postgresql://srb:{PASSWORD}#x@host/name",
        f"postgresql://srb:{PASSWORD} x@host/name",
        f"postgresql://host/name?passwrod={PASSWORD}",
    ],
)
def test_an_address_that_cannot_be_read_is_not_quoted(address: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Store(str(Settings.load({"stories": address}, {}).stories_place))
    assert PASSWORD not in caught.value.message
    assert "stories" in caught.value.message


def test_the_setting_may_be_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    address = "postgresql://srb:a%40b@one,two:5433/stories?target_session_attrs=read-write"
    assert Settings.load({"stories": address}, {}).stories_place == address
    assert Settings.load({"stories": "postgresql.sqlite3"}, {}).stories_place == Path("postgresql.sqlite3")
    monkeypatch.setitem(sys.modules, "srb.stories.postgresql", None)
    with pytest.raises(ConfigError, match="llama-srb\\[postgresql\\]"):
        Store(address)


def test_the_doctor_tells_of_a_database_that_cannot_be_reached_and_makes_no_tables(postgresql: PostgreSQL) -> None:
    address = postgresql.make(NAME)

    def told(place: str) -> list[str]:
        chosen = Settings(stories=place, port=free_port(), engine_managed=False)
        return [each.text for each in obstacles(chosen) if "postgresql" in each.text]

    assert told(address) == []
    assert postgresql.sql(NAME, "SELECT to_regnamespace('srb_stories')") == "\n"
    [text] = told(postgresql.far_address("nowhere"))
    assert "does not exist" in text
    assert PASSWORD not in text
