"""The story routes: what they answer, what they refuse and with which field, and that the engine goes on without them."""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import gevent
import orjson
import pytest
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from srb.config.settings import Settings
from srb.stories import pieces, rows, sqlite
from srb.stories.limits import MAX_POST
from srb.stories.store import Store
from srb.web.answers import ErrorAnswer
from srb.web.app import create_app
from srb.web.stories import routes
from tests.logs import lines_of
from tests.postgresql import MakePlace
from tests.scripted import ScriptedClient
from tests.shapes import read
from tests.stories import at, model, person

ROOT = "/v1/srb/stories"
ONE = f"{ROOT}/lighthouse"
TALE = {"a": person("Once upon a time,"), "b": model(" there 😀 lived", "a", 17)}


def client(stories: Path | str, **settings: Any) -> FlaskClient:
    chosen = Settings(stories=str(stories), **settings)
    return create_app(chosen, ScriptedClient(chosen)).test_client()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "stories.sqlite3"


@pytest.fixture
def http(place: MakePlace) -> Iterator[FlaskClient]:
    made = client(str(place()))
    yield made
    made.application.extensions["srb"].stories.close()


def error_of(response: TestResponse, status: int) -> dict[str, Any]:
    assert response.status_code == status, response.text
    error: dict[str, Any] = read(ErrorAnswer, response.data)["error"]
    assert error["code"] == status
    return error


# Answers --------------------------------------------------------------------------------------------------------------


def test_a_story_is_saved_listed_and_read(http: FlaskClient) -> None:
    body = {
        "nodes": TALE,
        "meta": {"title": at("T", 5)},
        "marks": {"a": {"star": at(True, 5)}},
        "runs": {"r": {"made": 1}},
    }
    posted = read("srb.StoryPosted", http.post(ONE, json=body).data)
    assert (posted["seq"], posted["refused"]) == (1, [])
    listed = read("srb.StoryList", http.get(ROOT).data)
    assert listed["state"] == "ok"
    assert [(each["id"], each["title"], each["nodes"]) for each in listed["stories"]] == [("lighthouse", "T", 2)]
    found = read("srb.StoryParts", http.get(ONE).data)
    assert {name: found[name] for name in body} == body


def test_a_poll_that_finds_nothing_new_has_an_empty_answer(http: FlaskClient) -> None:
    seq = http.post(ONE, json={"nodes": TALE}).json["seq"]  # type: ignore[index]
    quiet = http.get(f"{ONE}?since={seq}")
    assert (quiet.status_code, quiet.data) == (204, b"")
    http.post(ONE, json={"nodes": {"c": person("!", "b", 17)}})
    assert list(read("srb.StoryParts", http.get(f"{ONE}?since={seq}").data)["nodes"]) == ["c"]
    assert list(read("srb.StoryParts", http.get(f"{ONE}?since={seq + 1}&server=another").data)["nodes"]) == [
        "a",
        "b",
        "c",
    ]


def test_an_answer_names_refused_nodes_and_has_what_the_sender_lacks(http: FlaskClient) -> None:
    seq = http.post(ONE, json={"nodes": TALE}).json["seq"]  # type: ignore[index]
    http.post(ONE, json={"nodes": {"c": person("of another tab", "b", 17)}})
    body = {"nodes": {"d": person("x", "b", 99), "e": person("mine", "b", 17)}, "since": seq}
    answer = read("srb.StoryPosted", http.post(ONE, json=body).data)
    assert [(each["node"], each["reason"]) for each in answer["refused"]] == [("d", "beyond")]
    assert list(answer["nodes"]) == ["c"]


def test_the_bin_keeps_a_story_until_it_is_taken_out(http: FlaskClient) -> None:
    http.post(ONE, json={"nodes": TALE})
    assert "deleted" in read("srb.StoryState", http.delete(ONE).data)
    assert read("srb.StoryList", http.get(ROOT).data)["stories"] == []
    assert [each["id"] for each in read("srb.StoryList", http.get(f"{ROOT}?deleted=1").data)["stories"]] == [
        "lighthouse"
    ]
    restored = http.post(f"{ONE}/restore", content_type="application/json")
    assert "deleted" not in read("srb.StoryState", restored.data)
    assert len(read("srb.StoryList", http.get(ROOT).data)["stories"]) == 1


def test_a_file_goes_out_and_comes_in(http: FlaskClient, place: MakePlace) -> None:
    http.post(ONE, json={"nodes": TALE, "meta": {"title": at("T", 5)}})
    file = http.get(f"{ONE}/export")
    assert file.headers["Content-Disposition"] == 'attachment; filename="srb-story-lighthouse.json"'
    assert file.json is not None
    assert file.json["format"] == "srb-story"
    other = client(str(place("other")))
    done = read("srb.StoryImported", other.post(ROOT, data=file.data, content_type="application/json").data)
    assert done == {"id": "lighthouse", "seq": 1, "nodes": 2, "copied": False}
    assert other.get(f"{ONE}/export").data == file.data
    other.application.extensions["srb"].stories.close()


def test_what_does_not_exist_is_404(http: FlaskClient) -> None:
    for response in (http.get(ONE), http.delete(ONE), http.get(f"{ONE}/export"), http.get(f"{ONE}/nowhere")):
        error_of(response, 404)
    error_of(http.post(f"{ONE}/restore", content_type="application/json"), 404)


def test_a_method_that_a_route_has_not_is_405(http: FlaskClient) -> None:
    for response in (http.delete(ROOT), http.put(ONE, json={}), http.patch(ONE, json={}), http.delete(f"{ONE}/export")):
        error_of(response, 405)


# Bad input ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b'{"nodes": {"__proto__": {"text": "x", "by": "person"}}}', "nodes.__proto__"),
        (b'{"nodes": {"a": {"text": "\\ud800", "by": "person"}}}', "nodes.a.text"),
        (b'{"nodes": {"a": {"text": "x", "by": "person", "logprob": NaN}}}', "nodes.a.logprob"),
        (b'{"nodes": {"a": {"text": "x", "by": "person", "parent": "a", "keep": 0}}}', "nodes.a.parent"),
        (b'{"nodes": {"a": {"text": ["x"], "by": "person"}}}', "nodes.a.text"),
        (b'{"nodes": {"a": {"text": "x", "by": "person", "parent": "b", "keep": 2, "tail": 1}}}', "nodes.a"),
        (b'{"meta": {"title": {"value": 1, "changed": 1}}}', "meta.title"),
        (b'{"surprise": 1}', "surprise"),
    ],
)
def test_a_malformed_post_is_400_with_its_field_and_stores_nothing(http: FlaskClient, body: bytes, field: str) -> None:
    good = b'{"nodes": {"g": {"text": "x", "by": "person"}}, ' + body[1:]
    for data in (body, good):
        error = error_of(http.post(ONE, data=data, content_type="application/json"), 400)
        assert error["param"] == field or data == good  # of two keys `nodes` the last counts
    error_of(http.get(ONE), 404)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b'{"a": "\xff"}', b"[" * 100_000])
def test_a_body_that_is_no_json_object_is_400(http: FlaskClient, body: bytes) -> None:
    for url in (ONE, ROOT):
        error_of(http.post(url, data=body, content_type="application/json"), 400)


@pytest.mark.parametrize("name", ["a b", "a.b", "é", "x" * 65, "a%00"])
def test_a_name_that_no_story_may_have_is_400_and_found_nowhere(http: FlaskClient, name: str) -> None:
    assert error_of(http.post(f"{ROOT}/{name}", json={}), 400)["param"] == "story_id"
    error_of(http.get(f"{ROOT}/{name}"), 404)


@pytest.mark.parametrize("since", ["x", "-1", "1.5", "9" * 17, "0x1", "1e3", "٣"])
def test_a_number_that_is_none_is_400(http: FlaskClient, since: str) -> None:
    assert error_of(http.get(ONE, query_string={"since": since}), 400)["param"] == "since"


@pytest.mark.parametrize("announced", [True, False])
def test_a_post_of_more_than_a_mebibyte_is_413(http: FlaskClient, announced: bool) -> None:
    body = orjson.dumps({"nodes": {"a": person("x" * MAX_POST)}})
    environ = (
        {} if announced else {"CONTENT_LENGTH": "", "HTTP_TRANSFER_ENCODING": "chunked", "wsgi.input_terminated": True}
    )
    error = error_of(http.post(ONE, data=body, content_type="application/json", environ_overrides=environ), 413)
    assert (error["param"], str(MAX_POST) in error["message"]) == ("body", True)
    error_of(http.get(ONE), 404)
    nearly = orjson.dumps({"nodes": {"a": person("x" * (MAX_POST - 100))}})
    assert http.post(ONE, data=nearly, content_type="application/json").status_code == 200


def test_a_posts_limit_is_its_own_and_not_that_of_other_bodies(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    http = client(path, max_body_bytes=1024)
    assert http.post(ONE, json={"nodes": {"a": person("x" * 50_000)}}).status_code == 200
    file = http.get(f"{ONE}/export").data
    assert http.post(ROOT, data=file, content_type="application/json").status_code == 200
    monkeypatch.setattr(routes, "MAX_STORY", 1000)
    error = error_of(http.post(ROOT, data=file, content_type="application/json"), 413)
    assert (error["param"], "srb stories import" in error["message"]) == ("body", True)
    monkeypatch.setattr(routes, "MAX_STORY", 10**6)
    monkeypatch.setattr(rows, "MAX_STORY", 100)
    longer = orjson.dumps(orjson.loads(file) | {"memory": "x" * 1000})
    error = error_of(http.post(ROOT, data=longer, content_type="application/json"), 413)
    assert (error["param"], "srb stories import" in error["message"]) == ("nodes", True)
    monkeypatch.setattr(pieces, "MAX_NODES", 0)
    error = error_of(http.post(ROOT, data=file, content_type="application/json"), 413)
    assert (error["param"], "srb stories import" in error["message"]) == ("nodes", True)


def test_a_story_that_grows_beyond_its_limit_is_413(http: FlaskClient, monkeypatch: pytest.MonkeyPatch) -> None:
    http.post(ONE, json={"nodes": TALE})
    monkeypatch.setattr(rows, "MAX_STORY", 1000)
    error = error_of(http.post(ONE, json={"nodes": {"c": person("x" * 1000)}}), 413)
    assert (error["param"], "1000" in error["message"]) == ("nodes", True)
    assert list(read("srb.StoryParts", http.get(ONE).data)["nodes"]) == ["a", "b"]


# Troubles -------------------------------------------------------------------------------------------------------------


def test_without_stories_every_route_says_so_and_no_file_is_made(path: Path) -> None:
    http = client("")
    for response in (http.get(ROOT), http.get(ONE), http.post(ONE, json={}), http.delete(ONE)):
        assert error_of(response, 404)["type"] == "stories_off"
    assert http.get("/livez").status_code == 200


def test_a_server_that_nobody_writes_with_makes_no_file(path: Path) -> None:
    http = client(path)
    http.application.extensions["srb"].stories.start()
    assert http.post("/v1/completions", json={"prompt": "x"}).status_code == 200
    assert not path.exists()


def test_row_47_a_damaged_file_is_503_logged_once_and_completions_go_on(
    path: Path, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    path.write_text("Dear diary, " * 1000)
    http = client(path)
    with caplog.at_level(logging.INFO, "srb.web"):
        for _ in range(3):
            for response in (http.get(ROOT), http.post(ONE, json={"nodes": TALE})):
                error = error_of(response, 503)
                assert error["type"] == "stories_damaged"
                assert str(path) in error["message"]
                assert "Move it away" in error["message"]
        assert http.post("/v1/completions", json={"prompt": "x"}).status_code == 200
        path.rename(tmp_path / "aside")
        assert http.get(ROOT).status_code == 200
    told = [record.getMessage() for record in caplog.records if record.getMessage().startswith("stories: ")]
    assert [line.split(" is ")[1][:7] for line in told] == ["damaged", "used ag"]
    assert (tmp_path / "aside").read_text().startswith("Dear diary, ")


def test_row_48_a_file_that_may_only_be_read_is_shown_and_not_written(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    http = client(path)
    http.post(ONE, json={"nodes": TALE})
    http.application.extensions["srb"].stories.use(lambda store: store.close())
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK and access(path, mode))
    assert read("srb.StoryList", http.get(ROOT).data)["state"] == "read_only"
    assert list(read("srb.StoryParts", http.get(ONE).data)["nodes"]) == ["a", "b"]
    for response in (http.post(ONE, json={"nodes": TALE}), http.delete(ONE)):
        assert error_of(response, 503)["type"] == "stories_read_only"


def test_an_error_in_the_store_is_500_and_the_next_call_is_served(
    http: FlaskClient, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as breaking:
        breaking.setattr("srb.stories.store.merge", broken)
        error_of(http.post(ONE, json={"nodes": TALE}), 500)
    assert http.post(ONE, json={"nodes": TALE}).status_code == 200
    assert "ThreadPoolWorker" not in capfd.readouterr().err


def test_saves_are_not_in_the_log_and_titles_never(http: FlaskClient, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "srb.web"):
        http.post(ONE, json={"nodes": TALE, "meta": {"title": at("A secret", 1)}})
        http.get(ONE)
        assert lines_of("srb.web", caplog) == []
        http.post(ONE, json={"meta": {"title": at(1, 1)}})
        [line] = lines_of("srb.web", caplog)
        assert line.split()[:3] == ["POST", ONE, "127.0.0.1"]
    with caplog.at_level(logging.DEBUG, "srb.web"):
        http.post(ONE, json={"nodes": TALE, "meta": {"title": at("A secret", 2)}})
    assert "secret" not in caplog.text


# The search -----------------------------------------------------------------------------------------------------------


def test_words_are_found_in_all_stories(http: FlaskClient) -> None:
    http.post(ONE, json={"nodes": TALE})
    answer = read("srb.StoryPlaces", http.get(f"{ROOT}/~search", query_string={"q": "😀 LIVED"}).data)
    assert [(each["story"], each["node"], each["begin"]) for each in answer["results"]] == [("lighthouse", "b", 24)]
    assert not answer["more"]


@pytest.mark.parametrize("wanted", ["", "  ", "x" * 201])
def test_a_search_for_nothing_or_for_too_much_is_refused(http: FlaskClient, wanted: str) -> None:
    assert error_of(http.get(f"{ROOT}/~search", query_string={"q": wanted}), 400)["param"] == "q"


# Watched --------------------------------------------------------------------------------------------------------------


def told(http: FlaskClient) -> tuple[str, str | None]:
    """Return what the metrics and GET /health say of the stories, after a look at the file."""
    stories = http.application.extensions["srb"].stories
    http.get("/metrics")
    gevent.sleep(0)  # the look is in the background
    with stories._turn:
        pass
    lines = http.get("/metrics?names=plain").text.splitlines()
    [state] = [line.split('"')[1] for line in lines if line.startswith("srb_stories_state{") and line.endswith(" 1.0")]
    health = http.get("/health")
    assert health.status_code == 200
    return state, health.json.get("degraded")  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("fault", "state"),
    [
        (lambda path: path.write_bytes(b"torn" * 4096), "damaged"),
        (lambda path: sqlite3.connect(path).execute("PRAGMA user_version = 900"), "newer"),
        (lambda path: (path.unlink(), path.mkdir()), "unavailable"),
    ],
)
def test_a_file_that_cannot_be_used_is_told_to_who_watches(
    path: Path, fault: Callable[[Path], object], state: str
) -> None:
    http = client(path)
    assert http.post(ONE, json={"nodes": TALE}).status_code == 200
    assert told(http) == ("ok", None)
    http.application.extensions["srb"].stories.close()
    fault(path)
    http = client(path)
    assert told(http) == (state, f"stories: {state}")


def test_a_file_that_may_only_be_read_and_one_that_is_missing_are_told(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert told(client(path)) == ("ok", None)
    assert not path.exists(), "whoever watches makes no file"
    assert client(path).post(ONE, json={"nodes": TALE}).status_code == 200
    access = os.access
    with monkeypatch.context() as unwritable:
        unwritable.setattr(os, "access", lambda path, mode: mode != os.W_OK and access(path, mode))
        assert told(client(path)) == ("read_only", "stories: read_only")
    assert told(client(path)) == ("ok", None)
    assert "srb_stories_state" not in client("").get("/metrics").text


def test_a_large_file_is_read_and_written_while_its_pages_are_checked(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    http = client(path)
    assert http.post(ONE, json={"nodes": TALE}).status_code == 200
    http.application.extensions["srb"].stories.close()
    path.write_bytes(path.read_bytes())
    monkeypatch.setattr(sqlite, "_CHECKED_AT_ONCE", 0)
    go_on = threading.Event()
    check = sqlite.SQLite._quick_check

    def slow(self: sqlite.SQLite, connection: sqlite3.Connection) -> str:
        go_on.wait()
        return check(self, connection)

    monkeypatch.setattr(sqlite.SQLite, "_quick_check", slow)
    http = client(path)
    try:
        assert read("srb.StoryList", http.get(ROOT).data)["state"] == "checking"
        assert http.post(ONE, json={"nodes": {"c": person("x")}}).status_code == 200
        assert told(http) == ("checking", "stories: checking")
    finally:
        go_on.set()
    while read("srb.StoryList", http.get(ROOT).data)["state"] != "ok":
        gevent.sleep(0.01)
    assert told(http) == ("ok", None)
    http.application.extensions["srb"].stories.close()


def test_a_folder_in_which_no_file_can_be_made_is_told_before_a_writer_meets_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    http = client(tmp_path / "home/share/stories.sqlite3")
    access = os.access
    with monkeypatch.context() as unwritable:
        unwritable.setattr(os, "access", lambda path, mode: mode != os.W_OK and access(path, mode))
        assert told(http) == ("read_only", "stories: read_only")
    assert f"({tmp_path} belongs to" in lines_of("srb.web", caplog)[0]
    http.application.extensions["srb"].stories._looked_at = -1e9
    assert told(http) == ("ok", None)
    assert not (tmp_path / "home").exists()


def test_the_time_of_the_last_backup_is_told(path: Path, tmp_path: Path) -> None:
    http = client(path)

    def backed_up() -> float:
        lines = http.get("/metrics?names=plain").text.splitlines()
        [line] = [line for line in lines if line.startswith("srb_stories_backup_timestamp_seconds ")]
        return float(line.split()[1])

    assert "srb_stories_backup" not in http.get("/metrics").text, "there is nothing to copy"
    assert http.post(ONE, json={"nodes": TALE}).status_code == 200
    assert backed_up() == 0
    with closing(Store(path)) as store:
        store.backup(tmp_path / "copy.sqlite3")
    assert backed_up() == pytest.approx((tmp_path / "copy.sqlite3").stat().st_mtime, abs=60)
