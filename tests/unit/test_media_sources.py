"""Media that chats name by URLs: only what the settings allow is read or asked for."""

from __future__ import annotations

import os
import threading
from base64 import b64encode
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from srb.errors import InvalidRequest, NotSupported
from srb.settings import Settings
from srb.web import media_sources
from srb.web.bodies.media import MAX_FILES
from srb.web.chat.media import MEDIA_PART, MarkedMessages
from srb.web.media_sources import MAX_BYTES, is_public, media_data


def read(url: str, **settings: Any) -> str:
    return media_data(url, Settings(**settings), "messages")


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


def test_a_chat_loads_no_more_media_than_a_body_may_have() -> None:
    marked = MarkedMessages.of([{"role": "user", "content": [{"type": MEDIA_PART, "data": "aaaa"}] * (MAX_FILES + 1)}])
    loaded: list[dict[str, str]] = []

    def load(source: dict[str, str]) -> str:
        loaded.append(source)
        return source["data"]

    texts = [part["text"] for part in marked.messages[0]["content"]]
    with pytest.raises(ValueError, match="at most 64"):
        marked.prompt("".join(texts), load, MAX_FILES, 1000)
    assert not loaded
    with pytest.raises(ValueError, match="more than 10 characters"):
        marked.prompt("".join(texts[:9]), load, MAX_FILES, 10)
    assert len(loaded) == 3
    assert marked.prompt("".join(texts[:2]), load, MAX_FILES, 8)[1] == ["aaaa", "aaaa"]
