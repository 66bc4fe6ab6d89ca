"""Media that chats name by URLs: only what the settings allow is read or asked for."""

from __future__ import annotations

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
    assert all(map(is_public, ["8.8.8.8", "2001:4860:4860::8888", "::ffff:8.8.8.8"]))
    private = ["127.0.0.1", "10.1.2.3", "192.168.0.1", "172.16.0.1", "169.254.1.1", "0.0.0.0", "::1", "fe80::1%eth0"]
    assert not any(map(is_public, [*private, "fc00::1", "::ffff:127.0.0.1", "100.64.0.1", "224.0.0.1"]))
