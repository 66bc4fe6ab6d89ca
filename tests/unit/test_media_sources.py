"""Media that chats name by URLs: only what the settings allow is read or asked for."""

from __future__ import annotations

import os
import threading
from base64 import b64encode
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult

import gevent
import pytest
from gevent.event import Event

from srb.config.settings import Settings
from srb.errors import InvalidRequest, NotSupported
from srb.web import media_sources
from srb.web.bodies.media import MAX_FILES
from srb.web.chat.media import MEDIA_PART, MarkedMessages
from srb.web.media_sources import AT_ONCE, MAX_BYTES, is_public, load_media
from tests.processes import DEADLINE


def load(*sources: str | dict[str, str], most: int = 10**9, **settings: Any) -> list[str]:
    named = [
        {"place": f"part {place}", **({"url": source} if isinstance(source, str) else source)}
        for place, source in enumerate(sources)
    ]
    return load_media(named, Settings(**settings), "messages", most)


def read(url: str, **settings: Any) -> str:
    [data] = load(url, **settings)
    return data


def test_a_data_url_is_its_base64() -> None:
    assert read("data:image/png;base64,aGk=") == "aGk="
    assert read("data:;base64,aGk=") == "aGk="


def test_files_are_read_below_the_folder_only(tmp_path: Path) -> None:
    folder = tmp_path / "media"
    folder.mkdir()
    (folder / "a b.png").write_bytes(b"picture")
    (tmp_path / "secret").write_bytes(b"no")
    (folder / "link").symlink_to(tmp_path / "secret")
    allowed = {"media_path": str(folder)}
    assert read("file://a%20b.png", **allowed) == read("file:///a b.png", **allowed) == b64encode(b"picture").decode()
    assert read(f"file://{folder}/a b.png", **allowed) == b64encode(b"picture").decode()
    for url in (
        "file://../secret",
        "file:///../secret",
        f"file://{tmp_path}/secret",
        "file://link",
        "file://%2e%2e/secret",
    ):
        with pytest.raises(InvalidRequest, match="'messages'"):
            read(url, **allowed)
    with pytest.raises(InvalidRequest, match="cannot be read"):
        read("file://missing", **allowed)
    with pytest.raises(NotSupported, match="--media-path"):
        read("file://a b.png")
    os.mkfifo(folder / "pipe")
    for name in ("pipe", "", "."):
        with pytest.raises(InvalidRequest, match="no regular file"):
            read(f"file://{name}", **allowed)


class Pictures(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        codes = {"/moved": 302, "/none": 404}
        self.send_response(codes.get(self.path, 200))
        if self.path == "/moved":
            self.send_header("Location", "/picture")
        self.end_headers()
        self.wfile.write(bytes(MAX_BYTES + 1) if self.path == "/huge" else b"picture " + self.path.encode())

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def site() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Pictures)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://localhost:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_urls_are_fetched_from_the_hosts_that_are_named(site: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(media_sources, "is_public", lambda address: True)
    assert read(f"{site}/a?b=1", media_hosts="example.org, localhost") == b64encode(b"picture /a?b=1").decode()
    assert read(f"{site}/a", media_hosts="*") == b64encode(b"picture /a").decode()
    assert read(f"{site}/é%20 b", media_hosts="*") == b64encode(b"picture /%C3%A9%20%20b").decode()
    with pytest.raises(NotSupported, match="media_hosts"):
        read(f"{site}/a")
    with pytest.raises(NotSupported, match="nothing from 'localhost'"):
        read(f"{site}/a", media_hosts="example.org")
    for path, why in (("moved", "answers 302"), ("none", "answers 404"), ("huge", "more than")):
        with pytest.raises(InvalidRequest, match=why):
            read(f"{site}/{path}", media_hosts="*")
    with pytest.raises(InvalidRequest, match="cannot be fetched"):
        read("http://localhost:1/", media_hosts="*")


def test_no_name_leads_into_a_private_network(site: str) -> None:
    for url in (site, "http://127.0.0.1/", "http://[::1]/", "http://10.0.0.1/", "http://169.254.169.254/latest"):
        with pytest.raises(InvalidRequest, match="private network"):
            read(url, media_hosts="*")


def test_addresses_of_the_public_internet_are_told_from_others() -> None:
    assert all(map(is_public, ["8.8.8.8", "2001:4860:4860::8888", "::ffff:8.8.8.8", "64:ff9b::808:808"]))
    private = ["127.0.0.1", "10.1.2.3", "192.168.0.1", "172.16.0.1", "169.254.1.1", "0.0.0.0", "::1", "fe80::1%eth0"]
    assert not any(map(is_public, [*private, "fc00::1", "::ffff:127.0.0.1", "100.64.0.1", "224.0.0.1"]))
    assert not any(map(is_public, ["64:ff9b::7f00:1", "2002:a00:1::", "::7f00:1", "fec0::1", "ff02::1"]))
    # whatever this Python's own tables say
    assert not any(map(is_public, ["64:ff9b:1::a00:1", "64:ff9b:1:fffe::1", "64:ff9b:0:1::808:808", "::ffff:0:a00:1"]))
    assert not any(
        map(is_public, ["2001:0:808:808::f5ff:fffe", "3fff::1", "5f00::1", "192.0.0.9", "4000::1", "100::1"])
    )


@pytest.mark.parametrize(
    "host",
    [
        "a" * 300 + ".com", "a" * 64 + ".com", "a..com", ".com", "\u00fc" * 80 + ".com", "a\0b.com",
        ".".join(["a" * 60] * 9), "\u2024\u2024.com", "xn--" + "9" * 300,
    ],
)  # fmt: skip
def test_a_name_that_no_host_can_have_is_refused_and_logs_nothing(
    host: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(InvalidRequest, match="Field 'messages'"):
        read(f"http://{host}/a.png", media_hosts="*")
    gevent.sleep(0)
    assert capsys.readouterr().err == ""


def test_a_chat_loads_no_more_media_than_a_body_may_have() -> None:
    marked = MarkedMessages.of([{"role": "user", "content": [{"type": MEDIA_PART, "data": "aaaa"}] * (MAX_FILES + 1)}])
    loaded: list[dict[str, str]] = []

    def load(sources: list[dict[str, str]]) -> list[str]:
        loaded.extend(sources)
        return [source["data"] for source in sources]

    texts = [part["text"] for part in marked.messages[0]["content"]]
    with pytest.raises(ValueError, match="at most 64"):
        marked.prompt("".join(texts), load, MAX_FILES)
    assert not loaded
    assert marked.prompt(f"a {texts[0]}{texts[1]} b", load, MAX_FILES) == (("a ", -1, -2, " b"), ["aaaa", "aaaa"])


class Fetches:
    """Stands in for the network: URLs that are asked for, and how many at once; paths that are to fail or to hang."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[str] = []
        self.running = self.most = 0
        self.answers_after = 0  # how many must be asked before any answers
        self._enough = Event()
        monkeypatch.setattr(media_sources, "_fetched", self._fetch)

    def _fetch(self, parts: SplitResult, settings: Settings) -> bytes:
        self.asked.append(parts.path)
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            if len(self.asked) >= self.answers_after:
                self._enough.set()
            if parts.path == "/fails":
                raise ValueError("the URL answers 404")
            assert self._enough.wait(DEADLINE)
            if parts.path.startswith("/hangs"):
                Event().wait()
            gevent.sleep(0)
            return parts.path.encode()
        finally:
            self.running -= 1


@pytest.fixture
def fetches(monkeypatch: pytest.MonkeyPatch) -> Fetches:
    return Fetches(monkeypatch)


def test_the_urls_of_a_chat_are_asked_side_by_side_and_keep_their_order(fetches: Fetches) -> None:
    fetches.answers_after = AT_ONCE
    urls = [f"http://a/{number}" for number in range(3 * AT_ONCE)]
    assert load(*urls) == [b64encode(b"/%d" % number).decode() for number in range(3 * AT_ONCE)]
    assert fetches.most == AT_ONCE


def test_a_url_that_comes_again_is_asked_once(fetches: Fetches) -> None:
    one, two = (b64encode(path).decode() for path in (b"/1", b"/2"))
    sources = ["http://a/1", {"data": "aGk="}, "http://a/2", "http://a/1", "data:image/png;base64,aGE="]
    assert load(*sources) == [one, "aGk=", two, one, "aGE="]
    assert sorted(fetches.asked) == ["/1", "/2"]


def test_the_first_url_that_fails_ends_the_others(fetches: Fetches) -> None:
    urls = [*(f"http://a/hangs{number}" for number in range(AT_ONCE - 1)), "http://a/fails"]
    with pytest.raises(InvalidRequest, match="'messages': part 5: http://a/fails: the URL answers 404"):
        load(*urls, *(f"http://a/{number}" for number in range(20)))
    assert fetches.running == 0
    assert len(fetches.asked) <= AT_ONCE + 1


def test_urls_that_do_not_answer_in_time_are_told_of_and_given_up(
    fetches: Fetches, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(media_sources, "MAX_SECONDS_OF_ALL", 0.01)
    with pytest.raises(InvalidRequest, match=r"'messages': its URLs did not all answer within 0\.01 seconds"):
        load("http://a/hangs", "http://a/1")
    assert fetches.running == 0


def test_a_chat_has_at_most_so_much_base64(fetches: Fetches) -> None:
    with pytest.raises(InvalidRequest, match="more than 10 characters"):
        load({"data": "aaaa"}, {"data": "aaaa"}, "data:;base64,aaaa", "http://a/1", most=10)
    assert not fetches.asked
    assert len(load("http://a/1", "http://a/1", most=8)) == 2
    with pytest.raises(InvalidRequest, match="more than 7 characters"):
        load("http://a/1", "http://a/1", *(f"http://a/hangs{number}" for number in range(3)), most=7)
    assert fetches.running == 0


def test_a_disk_that_is_slow_does_not_hold_up_the_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    released = threading.Event()

    def read_slowly(media_path: str, name: str) -> bytes:
        assert released.wait(DEADLINE)
        return b"picture"

    monkeypatch.setattr(media_sources, "_file", read_slowly)
    gevent.spawn(released.set)  # runs only if the reading does not hold up this thread
    assert read("file://a.png", media_path=str(tmp_path)) == b64encode(b"picture").decode()


def test_an_error_shows_the_beginning_of_a_long_url() -> None:
    with pytest.raises(InvalidRequest) as refused:
        read("ftp://a/" + 500 * "b")
    assert len(refused.value.message) < 250
    assert "…: should be a data URL" in refused.value.message
