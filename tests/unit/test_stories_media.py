"""Pictures and sounds of stories: stored once, with their story in bin, files and copies, and never a document."""

from __future__ import annotations

import hashlib
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import orjson
import pytest
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from srb.config.settings import Settings
from srb.errors import InvalidRequest, NotFound, StoryTooLarge
from srb.stories import audit, media, schema, tables
from srb.stories.limits import BIN_DAYS, DAY
from srb.stories.parts import read_post
from srb.stories.store import Store
from srb.web.app import create_app
from srb.web.stories import origin_check, routes
from tests.media import b64, bmp, png, wav
from tests.postgresql import MakePlace
from tests.scripted import ScriptedClient
from tests.shapes import read
from tests.stories import ID, Stories, make_older, person

PNG, OTHER, SOUND = png(seed=1), png(seed=2), wav(0.01)
TALE = {"a": person("Once upon a time,")}
MEDIA = f"{origin_check.ROOT}/{ID}/media"
JPEG_START = b"\xff\xd8\xff"


def id_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]


@pytest.fixture
def stories(place: MakePlace) -> Iterator[Stories]:
    made = Stories(place(), clock=lambda: 1_795_300_000.0)
    yield made
    made.store.close()


def rows(store: Store) -> int:
    with store.connection() as connection:
        return int(connection.execute("SELECT count(*) FROM medium").fetchone()[0])


# The store ------------------------------------------------------------------------------------------------------------


def test_a_picture_is_stored_once_and_costs_its_base64(stories: Stories) -> None:
    seq = stories.save(TALE)
    assert stories.add_medium(b64(PNG)).id == id_of(PNG)
    assert stories.store.medium(ID, id_of(PNG)) == media.Medium("image/png", PNG)
    stories.add_medium(b64(PNG))
    assert rows(stories.store) == 1
    found = stories.read()
    assert found is not None
    assert found["seq"] == seq + 1, "what is there already changes nothing"
    assert len(stories.store.export(ID)) <= bytes_of(stories)


def bytes_of(stories: Stories) -> int:
    with stories.store.connection() as connection:
        return int(connection.execute("SELECT bytes FROM story").fetchone()[0])


def test_a_picture_of_another_story_is_not_found(stories: Stories) -> None:
    stories.add_medium(b64(PNG))
    stories.save(TALE, "other")
    for story, name in (("other", id_of(PNG)), (ID, id_of(OTHER)), ("nowhere", id_of(PNG))):
        with pytest.raises(NotFound):
            stories.store.medium(story, name)


def test_pictures_go_with_their_story_when_the_bin_is_emptied(place: MakePlace) -> None:
    now = [1_795_300_000.0]
    with closing(Stories(place(), clock=lambda: now[0]).store) as store:
        store.add_medium(ID, media.Medium("image/png", PNG))
        store.add_medium("kept", media.Medium("image/png", PNG))
        store.remove(ID)
        store.restore(ID)
        assert store.medium(ID, id_of(PNG)).data == PNG
        store.remove(ID)
        now[0] += (BIN_DAYS + 1) * DAY / 1000
        store.overview()
        assert store.ids(binned=True) == []
        assert (rows(store), store.medium("kept", id_of(PNG)).data) == (1, PNG)


def test_all_pictures_of_a_story_have_a_limit_that_leaves_room_for_its_texts(
    stories: Stories, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "MAX_MEDIA", len(b64(PNG)) + 10)
    stories.add_medium(b64(PNG))
    before = stories.read()
    with pytest.raises(StoryTooLarge, match="pictures and sounds"):
        stories.add_medium(b64(OTHER))
    assert (stories.read(), rows(stories.store)) == (before, 1)
    stories.save(TALE)


def test_a_file_of_the_version_before_pictures_is_brought_forward(tmp_path: Path) -> None:
    path = tmp_path / "stories.sqlite3"
    with closing(Stories(path).store) as old:
        old.post(ID, read_post(orjson.dumps({"nodes": TALE})))
    make_older(path, 1)
    with closing(Stories(path).store) as store:
        store.add_medium(ID, media.Medium("image/png", PNG))
        with store.connection() as connection:
            assert schema.version(connection) == len(schema.STEPS)
        assert store.medium(ID, id_of(PNG)).data == PNG
        assert b"Once upon a time" in store.export(ID)


def test_a_file_of_the_version_before_pictures_is_read_where_it_may_not_be_written(tmp_path: Path) -> None:
    path = tmp_path / "stories.sqlite3"
    with closing(Stories(path).store) as old:
        old.post(ID, read_post(orjson.dumps({"nodes": TALE})))
    make_older(path, 1)
    with closing(Store(path, checks=False)) as store:
        assert store.ids() == [ID]
        assert b"Once upon a time" in (store.read(ID) or b"")
        assert b"Once upon a time" in store.export(ID)
        with pytest.raises(NotFound):
            store.medium(ID, id_of(PNG))
    with closing(sqlite3.connect(path)) as connection:
        assert schema.version(connection) == 1, "the file was not changed"


# Files of stories -----------------------------------------------------------------------------------------------------


def test_a_story_goes_out_and_comes_in_with_its_pictures(stories: Stories, place: MakePlace) -> None:
    stories.save(TALE)
    for data in (PNG, SOUND):
        stories.add_medium(b64(data))
    file = stories.export()
    assert file["media"][id_of(SOUND)] == {"type": "audio/wav", "data": b64(SOUND)}
    other = Stories(place("other"))
    other.bring_in(file)
    assert other.export() == file
    other.bring_in(file)
    assert rows(other.store) == 2
    other.store.close()


def test_a_story_without_pictures_has_the_file_that_older_servers_read(stories: Stories) -> None:
    stories.save(TALE)
    assert "media" not in stories.export()


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ({"data": "no base64!"}, "Field 'media.{id}.data': is not base64"),
        ({"data": "£"}, "Field 'media.{id}.data': is not base64"),
        ({"data": b64(b"<html>")}, "Field 'media.{id}.data': should be a picture"),
        ({"data": b64(PNG[:60])}, "Field 'media.{id}.data': is damaged"),
        ({"data": b64(OTHER)}, "Field 'media.{id}': has the bytes of another medium"),
        ({}, "Field 'media.{id}.data': is required"),
        (7, "Field 'media.{id}'"),
    ],
)
def test_a_file_with_a_picture_that_is_none_is_refused_whole(stories: Stories, entry: Any, problem: str) -> None:
    file = {"format": "srb-story", "version": 1, "id": ID, "nodes": TALE, "media": {id_of(PNG): entry}}
    with pytest.raises(InvalidRequest) as refused:
        stories.bring_in(file)
    assert problem.format(id=id_of(PNG)) in refused.value.message
    assert stories.ids() == []


def test_the_check_finds_a_picture_whose_bytes_have_changed(stories: Stories) -> None:
    stories.save(TALE)
    stories.add_medium(b64(PNG))
    assert list(audit.problems(stories.store)) == []
    stories.change("UPDATE medium SET data = ?", (OTHER,))
    assert ["bytes of another medium" in each for each in audit.problems(stories.store)] == [True]


# The routes -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def http(tmp_path: Path) -> FlaskClient:
    chosen = Settings(stories=str(tmp_path / "served.sqlite3"))
    return create_app(chosen, ScriptedClient(chosen)).test_client()


def send(http: FlaskClient, data: str) -> TestResponse:
    return http.post(MEDIA, json={"data": data})


def test_a_picture_is_sent_and_read_as_what_its_bytes_are(http: FlaskClient) -> None:
    for data, kind in ((PNG, "image/png"), (bmp(), "image/bmp"), (SOUND, "audio/wav")):
        stored = read("srb.StoredMedium", send(http, b64(data)).data)
        assert stored == {"id": id_of(data), "type": kind, "bytes": len(data)}
        got = http.get(f"{MEDIA}/{stored['id']}")
        assert (got.data, got.mimetype) == (data, kind)


def test_a_picture_is_unpacked_outside_the_thread_that_serves_other_calls(
    http: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = []

    def noting(text: str, field: str) -> media.Medium:
        threads.append(threading.get_native_id())
        return media.medium_of(text, field)

    monkeypatch.setattr(routes, "medium_of", noting)
    assert send(http, b64(PNG)).status_code == 200
    assert threads
    assert threads != [threading.get_native_id()]


def test_no_answer_with_a_picture_can_become_a_document(http: FlaskClient) -> None:
    send(http, b64(PNG))
    headers = http.get(f"{MEDIA}/{id_of(PNG)}").headers
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Content-Security-Policy"] == "sandbox; default-src 'none'"
    assert headers["Content-Disposition"] == "attachment"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert headers["Cache-Control"] == "no-store"
    assert "Access-Control-Allow-Origin" not in headers


@pytest.mark.parametrize(
    "data",
    [b"<svg xmlns='http://www.w3.org/2000/svg'><script>1</script></svg>", b"<!doctype html><script>1</script>",
     b"\x89PNG\r\n\x1a\n<script>", JPEG_START + b"<script>", PNG[:60], b""],
)  # fmt: skip
def test_what_only_pretends_to_be_a_picture_is_400(http: FlaskClient, data: bytes) -> None:
    response = send(http, b64(data))
    assert response.status_code == 400
    assert response.json is not None
    assert response.json["error"]["param"] == "data"
    assert http.get(origin_check.ROOT).json == {**(http.get(origin_check.ROOT).json or {}), "stories": []}, (
        "no story was made"
    )


def test_a_huge_picture_is_refused_by_its_header(http: FlaskClient) -> None:
    assert "50000 × 50000" in send(http, b64(png(50_000, 50_000, raw=b"\0"))).text


def test_a_picture_beyond_the_limit_is_refused(http: FlaskClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(media, "MAX_MEDIUM", 100)
    assert send(http, b64(png(20, 20))).status_code == 400


def test_a_picture_comes_through_the_door_alone(http: FlaskClient) -> None:
    send(http, b64(PNG))
    address = f"{MEDIA}/{id_of(PNG)}"
    foreign = {"Origin": "http://evil.example"}
    assert http.get(address, headers=foreign).status_code == 403
    assert http.get(address, headers={"Sec-Fetch-Site": "cross-site"}).status_code == 403
    assert http.get(address, headers={"Host": "evil.example"}).status_code == 403
    assert http.post(MEDIA, json={"data": b64(PNG)}, headers=foreign).status_code == 403
    assert http.post(MEDIA, data=PNG, content_type="image/png").status_code == 415


def test_an_unknown_picture_is_404(http: FlaskClient) -> None:
    assert http.get(f"{MEDIA}/{id_of(PNG)}").status_code == 404
    send(http, b64(PNG))
    assert http.get(f"{MEDIA}/{id_of(OTHER)}").status_code == 404
