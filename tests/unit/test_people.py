"""Several people on one server: a key has a name, and stories and requests are the name's alone unless they are shared."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import orjson
import pytest
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from srb.cli import stories as command
from srb.config.api_keys import ApiKey, read_api_keys
from srb.config.settings import Settings
from srb.errors import ConfigError, StoriesNewer
from srb.stories import schema
from srb.stories.parts import read_post
from srb.stories.store import Store
from srb.web.answers import ErrorAnswer
from srb.web.app import create_app
from srb.web.limits import CLIENT, PERSON
from srb.wire.commands import Generate
from tests.postgresql import MakePlace
from tests.scripted import ScriptedClient
from tests.shapes import read
from tests.stories import ID, Stories, at, make_older, person

KEYS = """# who has which key
alice:alices-key
alice:alices-phone
bob:bobs-key
first-key
second-key
:a:b
metrics:scrapers-key
"""
ROOT = "/v1/srb/stories"
ONE = f"{ROOT}/{ID}"
BODY = {"nodes": {"a": person("Alice's diary.")}, "meta": {"title": at("Diary", 5)}}


class People:
    """Clients of one server, by their keys."""

    def __init__(self, folder: Path, keys: str | None = None, **settings: Any) -> None:
        (folder / "keys").write_text(KEYS if keys is None else keys)
        own = {"api_key_file": str(folder / "keys"), "stories": str(folder / "stories.sqlite3")}
        chosen = Settings(**{**own, **settings})
        self.client = ScriptedClient(chosen)
        self.app = create_app(chosen, self.client)
        self.http: FlaskClient = self.app.test_client()

    def ask(self, key: str, method: str, path: str, body: object = None) -> TestResponse:
        return self.http.open(path, method=method, json=body, headers={"Authorization": f"Bearer {key}"})

    def ids(self, key: str, query: str = "") -> list[str]:
        return [each["id"] for each in read("srb.StoryList", self.ask(key, "GET", ROOT + query).data)["stories"]]


@pytest.fixture
def people(tmp_path: Path, place: MakePlace) -> Iterator[People]:
    found = People(tmp_path, stories=str(place()))
    yield found
    found.app.extensions["srb"].stories.close()  # type: ignore[attr-defined]


# Keys -----------------------------------------------------------------------------------------------------------------


def test_a_line_is_a_key_or_a_name_and_a_key() -> None:
    assert read_api_keys(KEYS) == [
        ApiKey("alices-key", "alice"), ApiKey("alices-phone", "alice"), ApiKey("bobs-key", "bob"), ApiKey("first-key"),
        ApiKey("second-key"), ApiKey("a:b"), ApiKey("scrapers-key", "metrics"),
    ]  # fmt: skip
    assert read_api_keys(" Zoë : key \r\n  # a comment\n") == [ApiKey("key", "Zoë")]


@pytest.mark.parametrize(
    "line",
    [
        "bob:secret max_N=8", "bob:secret maxn=8", "bob:secret max_n = 8", "bob:secret  # for the laptop", "bob secret",
        "bob:secret max_n=8 max_n=9", "alice:x:secret z=3", "bob:sec\u00a0ret", "bob:sec\u200bret", "sec\x00ret",
    ],
)  # fmt: skip
def test_a_slip_behind_a_key_is_an_error_and_no_part_of_the_key(line: str) -> None:
    with pytest.raises(ConfigError, match="the key in line 3 has a blank or an invisible sign") as caught:
        read_api_keys(f"good\n# more\n{line}\n")
    assert "secret" not in caught.value.message


@pytest.mark.parametrize("line", ["alice:", ":", "a name:secret", "a/b:secret", "x" * 65 + ":secret"])
def test_a_line_without_a_name_or_a_key_is_refused_and_not_quoted(line: str) -> None:
    with pytest.raises(ConfigError, match="line 2") as caught:
        read_api_keys(f"good\n{line}\n")
    assert "secret" not in caught.value.message


def test_a_line_may_end_with_the_keys_own_limit_of_branches() -> None:
    text = "alice:one max_n=8\ntwo\tmax_n=1\n:a:b  max_n=4096 \nbob: max_n=3 \nzoe:max_n=5\n"
    with pytest.raises(ConfigError, match="line 4"):  # bob has no key
        read_api_keys(text)
    assert read_api_keys(text.replace("bob: max_n=3 \n", "")) == [
        ApiKey("one", "alice", 8), ApiKey("two", "", 1), ApiKey("a:b", "", 4096), ApiKey("max_n=5", "zoe"),
    ]  # fmt: skip


def test_a_line_may_have_several_limits_in_any_order_each_once() -> None:
    line = "alice:one stories_mib=64 weight=3 tokens_per_day=9 max_n=8 max_requests=2 tokens_per_month=99"
    [key] = read_api_keys(line)
    assert key == ApiKey("one", "alice", 8, 3, 2, 9, 99, 64)
    with pytest.raises(ConfigError, match="weight in line 1 should be 1 to 99, not '100'"):
        read_api_keys("alice:one max_n=2 weight=100")
    with pytest.raises(ConfigError, match="behind a key only max_n=N, weight=N, "):
        read_api_keys("alice:one weight=1 max_n=2 weight=2")


def test_a_keys_weight_goes_to_the_engine_with_each_of_its_requests(tmp_path: Path) -> None:
    people = People(tmp_path, "alice:alices-key weight=5\nbob:bobs-key\n")
    for key in ("alices-key", "bobs-key"):
        assert people.ask(key, "POST", "/v1/completions", {"prompt": "Hi"}).status_code == 200
    commands = [each for each in people.client.sent if isinstance(each, Generate)]
    assert [command.weight for command in commands] == [5, 1]


def test_stories_of_a_person_take_no_more_room_than_her_key_has(tmp_path: Path) -> None:
    keys = "alice:alices-key stories_mib=1\nalice:alices-phone stories_mib=2\nbob:bobs-key\n"
    people = People(tmp_path, keys)
    text = "x" * 900_000

    def save(key: str, story: str, node: str, words: str = text) -> TestResponse:
        return people.ask(key, "POST", f"{ROOT}/{story}", {"nodes": {node: person(words)}})

    assert save("alices-key", "one", "a").status_code == 200
    assert save("alices-key", "two", "a").status_code == 200  # the larger number of her two keys
    refused = save("alices-phone", "three", "a")
    assert refused.status_code == 413
    assert refused.json is not None
    assert "The stories of alice would take " in refused.json["error"]["message"]
    assert "they may take 2097152" in refused.json["error"]["message"]
    assert people.ids("alices-key") == ["two", "one"], "nothing is left of what was refused"
    assert people.ask("alices-key", "POST", f"{ROOT}/one/shares", {"name": "bob", "access": "write"}).status_code == 200
    assert save("bobs-key", "one", "b").status_code == 413, "the room is the owner's, whoever writes"
    assert save("bobs-key", "one", "b", "short").status_code == 200
    assert save("bobs-key", "three", "a").status_code == 200, "he has no limit"
    people.ask("alices-key", "DELETE", f"{ROOT}/two")
    assert save("alices-key", "four", "a").status_code == 413, "the bin counts until it is emptied"
    file = orjson.dumps({"format": "srb-story", "version": 1, "id": "five", "nodes": {"a": person(text)}})
    headers = {"Authorization": "Bearer alices-key", "Content-Type": "application/json"}
    assert people.http.post(ROOT, data=file, headers=headers).status_code == 413


@pytest.mark.parametrize("limit", ["0", "-1", "", "2.5", "many", "99999"])
def test_a_limit_that_is_none_is_refused_by_its_field_and_line(limit: str) -> None:
    with pytest.raises(ConfigError, match="max_n in line 2 ") as caught:
        read_api_keys(f"good\nalice:secret max_n={limit}\n")
    assert "secret" not in caught.value.message
    with pytest.raises(ConfigError, match="line 2"):
        read_api_keys("alice:one max_n=3\nalice:one max_n=4\n")


def test_a_keys_own_limit_holds_in_every_dialect_for_n_and_its_default(tmp_path: Path) -> None:
    keys = "alice:alices-key max_n=3\nalice:alices-phone\nbob:bobs-key max_n=99\n"
    people = People(tmp_path, keys, n=8, max_n=16)
    for path, body in (
        ("/v1/srb/completions", {"prompt": "Hi", "stream": False}), ("/v1/completions", {"prompt": "Hi"}),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "Hi"}]}), ("/completion", {"prompt": "Hi"}),
    ):  # fmt: skip
        for key, most in (("alices-key", 3), ("alices-phone", 16), ("bobs-key", 16)):
            assert people.ask(key, "POST", path, {**body, "n": most}).status_code == 200, (path, key)
            refused = people.ask(key, "POST", path, {**body, "n": most + 1})
            assert (refused.status_code, "'n'" in refused.text, str(most) in refused.text) == (400, True, True), (
                refused.text
            )
    for key, said, default in (("alices-key", 3, 3), ("alices-phone", 16, 8)):
        server = people.ask(key, "GET", "/v1/srb/server").json
        assert server is not None
        assert (server["max_n"], server["n"]) == (said, default)
        answer = people.ask(key, "POST", "/v1/srb/completions", {"prompt": "Hi", "stream": False}).json
        assert answer is not None
        assert len(answer["completions"]) == default


def test_one_key_of_two_people_is_refused() -> None:
    assert len(read_api_keys("alice:one\nalice:one\n")) == 1
    with pytest.raises(ConfigError, match="line 2"):
        read_api_keys("alice:one\nbob:one\n")


def test_a_key_for_metrics_opens_nothing_else(people: People) -> None:
    for path in ("/metrics", "/metrics/", "//metrics", "/health", "/livez"):
        assert people.ask("scrapers-key", "GET", path).status_code == 200, path
    for method, path in (
        ("GET", "/v1/models"), ("GET", "/slots"), ("GET", ROOT), ("POST", "/v1/completions"), ("POST", "/metrics"),
        ("GET", "/metrics/../v1/models"), ("GET", "/props"), ("DELETE", "/v1/srb/completions/x"),
    ):  # fmt: skip
        assert people.ask("scrapers-key", method, path, {} if method == "POST" else None).status_code == 403, path
    assert people.ask("", "GET", "/metrics").status_code == 401


# Requests -------------------------------------------------------------------------------------------------------------


def clients(people: People, monkeypatch: pytest.MonkeyPatch, *keys: str) -> list[tuple[str, str]]:
    """Return the client and the person that the application is told of for each key."""
    seen: list[tuple[str, str]] = []
    view = people.app.view_functions
    for name, function in list(view.items()):
        if name.endswith(".list_completions"):

            def noted(*args: Any, _function: Any = function, **named: Any) -> Any:
                from flask import request

                seen.append((request.environ[CLIENT], request.environ[PERSON]))
                return _function(*args, **named)

            monkeypatch.setitem(view, name, noted)
    for key in keys:
        people.ask(key, "GET", "/v1/srb/completions")
    return seen


def test_the_keys_of_one_name_are_one_client_and_every_other_key_is_its_own(
    people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = clients(people, monkeypatch, "alices-key", "alices-phone", "bobs-key", "first-key", "second-key")
    assert [name for _, name in seen] == ["alice", "alice", "bob", "", ""]
    assert seen[0] == seen[1]
    assert len({client for client, _ in seen}) == 4


def test_a_revoked_key_leaves_its_place_to_nobody(
    people: People, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request goes on in the engine through a reload; by the key's place it would be the next key's from then on."""
    first, second = clients(people, monkeypatch, "first-key", "second-key")
    monkeypatch.setattr(f"{__name__}.KEYS", KEYS.replace("first-key\n", ""))
    [after] = clients(People(tmp_path), monkeypatch, "second-key")
    assert after == second != first


def test_the_log_has_the_name_of_the_key(people: People, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "srb.web")
    people.ask("alices-key", "GET", "/v1/models")
    people.ask("first-key", "GET", "/v1/models")
    found = [record.getMessage() for record in caplog.records if "/v1/models" in record.getMessage()]
    assert ["alice@127.0.0.1" in line for line in found] == [True, False]
    assert "alices-key" not in caplog.text


# Stories --------------------------------------------------------------------------------------------------------------

ALL = [
    ("GET", ONE, None), ("POST", ONE, {"nodes": {"b": person("Bob was here.")}}), ("DELETE", ONE, None),
    ("POST", f"{ONE}/restore", {}), ("GET", f"{ONE}/export", None), ("GET", f"{ONE}/shares", None),
    ("POST", f"{ONE}/shares", {"name": "bob", "access": "write"}), ("GET", f"{ONE}/media/x", None),
    ("POST", f"{ONE}/media", {"data": "iVBORw0KGgo="}), ("GET", f"{ONE}?since=0", None),
]  # fmt: skip


@pytest.mark.parametrize("other", ["bobs-key", "first-key"])
def test_another_persons_story_is_not_found_and_not_changed_by_any_route(people: People, other: str) -> None:
    assert people.ask("alices-key", "POST", ONE, BODY).status_code == 200
    before = people.ask("alices-key", "GET", ONE).data
    assert {rule.rule for rule in people.app.url_map.iter_rules() if "<story_id>" in rule.rule} == {
        f"{ROOT}/<story_id>", *(f"{ROOT}/<story_id>/{end}" for end in ("restore", "export", "media", "shares")),
        f"{ROOT}/<story_id>/media/<medium_id>",
    }  # fmt: skip
    for method, path, body in ALL:
        answer = people.ask(other, method, path, body)
        assert answer.status_code in ((400, 404) if path.endswith("/media") else (404,)), (method, path, answer.text)
        assert b"diary" not in answer.data
    assert people.ids(other) == people.ids(other, "?deleted=1") == []
    found = [people.ask(key, "GET", f"{ROOT}/~search?q=diary").json for key in (other, "alices-phone")]
    assert [len(each["results"]) for each in found if each is not None] == [0, 1]
    assert people.ask("alices-phone", "GET", ONE).data == before


def test_people_without_a_name_share_their_stories(people: People) -> None:
    people.ask("first-key", "POST", ONE, BODY)
    assert people.ids("second-key") == people.ids(":a:b"[1:]) == [ID]
    assert people.ids("alices-key") == []


def test_a_list_names_its_person_and_owners(people: People) -> None:
    people.ask("alices-key", "POST", ONE, BODY)
    mine = read("srb.StoryList", people.ask("alices-key", "GET", ROOT).data)
    assert (mine.get("person"), "owner" in mine["stories"][0]) == ("alice", False)
    assert "person" not in read("srb.StoryList", people.ask("first-key", "GET", ROOT).data)


def test_a_story_is_shared_to_be_read_then_to_be_written_then_not_any_more(people: People) -> None:
    people.ask("alices-key", "POST", ONE, BODY)

    def share(access: str, key: str = "alices-key") -> TestResponse:
        return people.ask(key, "POST", f"{ONE}/shares", {"name": "bob", "access": access})

    def write(number: int) -> int:
        return people.ask("bobs-key", "POST", ONE, {"nodes": {f"b{number}": person("Bob was here.")}}).status_code

    assert read("srb.StoryShares", share("read").data) == {"id": ID, "owner": "alice", "shares": {"bob": "read"}}
    [listed] = read("srb.StoryList", people.ask("bobs-key", "GET", ROOT).data)["stories"]
    assert (listed.get("owner"), listed.get("access")) == ("alice", "read")
    assert people.ask("bobs-key", "GET", ONE).status_code == 200
    assert write(1) == 403
    share("write")
    assert write(2) == 200
    for method, path, body in (("DELETE", ONE, None), ("POST", f"{ONE}/restore", {})):
        assert people.ask("bobs-key", method, path, body).status_code == 403
    assert share("write", "bobs-key").status_code == 403
    assert people.ids("first-key") == []
    assert read("srb.StoryShares", share("none").data)["shares"] == {}
    assert people.ask("bobs-key", "GET", ONE).status_code == write(3) + 0 == 404
    nodes = orjson.loads(people.ask("alices-key", "GET", ONE).data)["nodes"]
    assert set(nodes) == {"a", "b2"}


def test_a_story_says_its_owner_and_access_and_a_new_share_is_news_of_it(people: People) -> None:
    people.ask("alices-key", "POST", ONE, BODY)

    def share(access: str) -> None:
        people.ask("alices-key", "POST", f"{ONE}/shares", {"name": "bob", "access": access})

    def news(key: str, since: int) -> TestResponse:
        return people.ask(key, "GET", f"{ONE}?since={since}")

    seq = 0
    for access in ("read", "write"):
        share(access)
        answer = orjson.loads(news("bobs-key", seq).data)
        assert (answer["owner"], answer["access"]) == ("alice", access)
        seq = answer["seq"]
        assert news("bobs-key", seq).status_code == 204
    mine = orjson.loads(news("alices-key", 0).data)
    assert {"owner", "access"}.isdisjoint(mine)
    posted = orjson.loads(people.ask("bobs-key", "POST", ONE, {"nodes": {"b": person("Bob was here.")}}).data)
    assert (posted["owner"], posted["access"]) == ("alice", "write")
    share("none")
    assert news("bobs-key", seq).status_code == 404
    assert news("first-key", 0).status_code == 404


def test_a_story_is_shared_with_names_that_there_are(people: People) -> None:
    people.ask("alices-key", "POST", ONE, BODY)
    answer = people.ask("alices-key", "POST", f"{ONE}/shares", {"name": "bop"})
    assert answer.status_code == 400
    assert "name" in str(read(ErrorAnswer, answer.data)["error"])
    assert people.ask("alices-key", "POST", f"{ONE}/shares", {"name": "bob", "access": "own"}).status_code == 400


def test_an_imported_file_with_anothers_id_becomes_a_story_of_its_own(people: People) -> None:
    people.ask("alices-key", "POST", ONE, BODY)
    file = people.ask("alices-key", "GET", f"{ONE}/export").json
    for key in ("bobs-key", "first-key"):
        made = read("srb.StoryImported", people.ask(key, "POST", ROOT, file).data)
        assert made["copied"]
        assert people.ids(key) == [made["id"]] != [ID]
    assert people.ids("alices-key") == [ID]


# The file -------------------------------------------------------------------------------------------------------------


def old_file(path: Path) -> None:
    """Make a file as it was before stories had owners."""
    with closing(Store(path)) as store:
        store.post("old", read_post(orjson.dumps(BODY)))
    make_older(path, 2)


def test_stories_of_before_are_those_of_people_without_a_name_until_they_are_given(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "stories.sqlite3"
    old_file(path)
    with closing(Store(path)) as store:
        assert (store.of("").ids(), store.of("alice").ids(), store.ids()) == (["old"], [], ["old"])

    def run(*arguments: str) -> str:
        with pytest.raises(SystemExit) as ended:
            command.main(["--file", str(path), *arguments])
        assert ended.value.code == 0
        return capsys.readouterr().out

    assert run("give", "alice", "--all") == "old\n"
    assert run("share", "old", "bob", "--write") == "bob  write\n"
    assert "(alice)" in run("list")
    with closing(Store(path)) as store:
        assert [store.of(name).overview().count(b'"old"') for name in ("", "alice", "bob")] == [0, 1, 1]
    assert run("share", "old", "bob", "--end") == ""
    assert run("give", "-", "old") == "old\n"
    with closing(Store(path)) as store:
        assert store.of("").ids() == ["old"]


def test_an_import_of_a_backup_gives_stories_back_to_their_owners(tmp_path: Path) -> None:
    path, copy, new = tmp_path / "stories.sqlite3", tmp_path / "copy.sqlite3", tmp_path / "new.sqlite3"
    with closing(Store(path)) as store:
        store.of("alice").post(ID, read_post(orjson.dumps(BODY)))
        store.backup(copy)
    with pytest.raises(SystemExit) as ended:
        command.main(["--file", str(new), "import", str(copy)])
    assert ended.value.code == 0
    with closing(Store(new)) as store:
        assert (store.of("alice").ids(), store.of("").ids()) == ([ID], [])


def test_a_program_from_before_owners_refuses_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "stories.sqlite3"
    with closing(Stories(path).store) as store:
        store.of("alice").post(ID, read_post(orjson.dumps(BODY)))
    monkeypatch.setattr(schema, "STEPS", schema.STEPS[:2])
    with closing(Store(path)) as store, pytest.raises(StoriesNewer):
        store.ids()


def test_a_file_from_before_owners_is_read_where_it_may_not_be_written(tmp_path: Path) -> None:
    path = tmp_path / "stories.sqlite3"
    old_file(path)
    with closing(Store(path, checks=False)) as store:
        assert (store.ids(), store.of("alice").ids(), store.of("").overview().count(b'"old"')) == (["old"], [], 1)
    with closing(sqlite3.connect(path)) as connection:
        assert schema.version(connection) == 2


# Computed texts --------------------------------------------------------------------------------------------------------


def salt(people: People, key: str, path: str = "/completion", **body: Any) -> str:
    """Return the salt with which the engine gets a request."""
    assert people.ask(key, "POST", path, {"prompt": "Once", **body}).status_code == 200
    sent = [command for command in people.client.sent if isinstance(command, Generate)]
    return sent[-1].cache_salt


def test_computed_texts_are_shared_by_all_unless_a_request_has_a_salt(tmp_path: Path) -> None:
    people = People(tmp_path)
    keys = ("alices-key", "bobs-key", "first-key")
    assert [salt(people, key) for key in keys] == [""] * 3
    salts = [salt(people, key, cache_salt="a") for key in keys]
    assert len({*salts, salt(people, "bobs-key", cache_salt="b"), ""}) == 3


def test_with_cache_apart_computed_texts_are_shared_by_the_keys_of_one_name(tmp_path: Path) -> None:
    people = People(tmp_path, cache_apart=True)
    keys = ("alices-key", "bobs-key", "first-key", "second-key")
    apart = [salt(people, key) for key in keys]
    assert len({*apart, ""}) == 5
    assert salt(people, "alices-phone") == apart[0]
    own = [salt(people, key, cache_salt="a") for key in keys]
    assert len({*own, *apart}) == 8
    assert salt(people, "alices-phone", cache_salt="a") == own[0]
    assert not any("key" in each or "alice" in each for each in (*own, *apart))


def test_without_keys_cache_apart_leaves_texts_shared_and_salts_their_own(tmp_path: Path) -> None:
    engine = ScriptedClient(Settings(cache_apart=True))
    http = create_app(Settings(cache_apart=True), engine).test_client()
    for body in ({}, {"cache_salt": "a"}):
        assert http.post("/completion", json={"prompt": "Once", **body}).status_code == 200
    first, second = (command.cache_salt for command in engine.sent if isinstance(command, Generate))
    assert first == ""
    assert second


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/completions", {}),
        ("/v1/srb/completions", {}),
        ("/v1/chat/completions", {"prompt": None, "messages": [{"role": "user", "content": "a"}]}),
        ("/v1/responses", {"prompt": None, "input": "a"}),
        ("/v1/messages", {"prompt": None, "messages": [{"role": "user", "content": "a"}]}),
    ],
)
def test_each_dialect_takes_a_salt(tmp_path: Path, path: str, body: dict[str, Any]) -> None:
    people = People(tmp_path)
    given = {name: value for name, value in {"prompt": "Once", **body}.items() if value is not None}
    assert people.ask("bobs-key", "POST", path, {**given, "cache_salt": "a"}).status_code == 200
    [sent] = [command for command in people.client.sent if isinstance(command, Generate)]
    assert sent.cache_salt == salt(people, "alices-key", cache_salt="a") != ""


@pytest.mark.parametrize("wrong", ["", 5, "x" * 1025, ["a"]])
def test_a_salt_that_is_none_is_refused_by_its_name(tmp_path: Path, wrong: Any) -> None:
    answer = People(tmp_path).ask("bobs-key", "POST", "/completion", {"prompt": "Once", "cache_salt": wrong})
    assert answer.status_code == 400
    assert "cache_salt" in answer.json["error"]["message"]  # type: ignore[index]


def test_the_log_tells_who_has_shared_deleted_restored_and_exported_a_story(
    people: People, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "srb.stories")
    people.ask("alices-key", "POST", ONE, BODY)
    people.ask("alices-key", "POST", f"{ONE}/shares", {"name": "bob", "access": "read"})
    people.ask("bobs-key", "POST", f"{ONE}/shares", {"name": "bob", "access": "write"})
    people.ask("bobs-key", "GET", f"{ONE}/export")
    people.ask("alices-key", "DELETE", ONE)
    people.ask("alices-key", "POST", f"{ONE}/restore", {})
    assert [record.getMessage() for record in caplog.records if record.name == "srb.stories"] == [
        f"alice@127.0.0.1 shared story {ID} with bob: read",
        f"bob@127.0.0.1 exported story {ID}",
        f"alice@127.0.0.1 deleted story {ID}",
        f"alice@127.0.0.1 restored story {ID}",
    ]
