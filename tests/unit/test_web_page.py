"""The page at /: served whole, guarded by its headers, public, and away where `ui` is off."""

from __future__ import annotations

import gzip
import os
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import orjson
import pytest
from flask.testing import FlaskClient

from srb.config.settings import Settings
from srb.web import page_files as page
from srb.web.app import create_app
from srb.web.page_files import FOLDER, KEEP, MEDIA_TYPES, Edition
from tests.scripted import ScriptedClient


def client(**settings: Any) -> FlaskClient:
    chosen = Settings(**settings)
    return create_app(chosen, ScriptedClient(chosen)).test_client()


@pytest.fixture
def http() -> FlaskClient:
    return client()


# The document ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "shown"),
    [
        ("localhost:9091", "http://localhost:9091/v1/srb/completions"), ("box.example", "http://box.example/v1/srb/completions"),
        ("[::1]:7", "&#39;http://[::1]:7/v1/srb/completions&#39;"),
        ("<b>&$(x)", "http://localhost:9090/v1/srb/completions"),
    ],
)  # fmt: skip
def test_the_document_has_the_address_that_the_visitor_used(host: str, shown: str) -> None:
    assert f"<pre>curl -N {shown} -d" in client(allowed_hosts="*").get("/", headers={"Host": host}).text


def test_the_address_has_the_prefix_of_the_paths() -> None:
    assert "curl -N http://localhost/srb/v1/srb/completions" in client(api_prefix="/srb").get("/srb/").text


def test_without_javascript_the_document_says_what_to_try(http: FlaskClient) -> None:
    text = http.get("/").text.partition("<noscript>")[2].partition("</noscript>")[0]
    assert "http://localhost/v1/srb/completions" in text
    assert orjson.loads(text.split("-d '")[1].split("'")[0]) == {"prompt": "Once upon a time,", "n": 8}


class _Links(HTMLParser):
    """Collects the addresses in a document, and elements that a strict policy would refuse."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.refused: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.addresses += [value for name in ("src", "href") if (value := given.get(name)) is not None]
        inline = tag == "style" or (tag == "script" and "src" not in given)
        if inline or any(name == "style" or name.startswith("on") for name in given):
            self.refused.append(tag)


def test_the_documents_addresses_are_relative_and_lead_somewhere(http: FlaskClient) -> None:
    links = _Links()
    links.feed(http.get("/").text)
    edition = Edition.of_now().name
    assert {f"page/{edition}/main.js", f"page/{edition}/page.css", "page/icon.svg"} <= set(links.addresses)
    for address in links.addresses:
        assert not re.match(r"[a-z]+:|/", address)
        assert http.get("/" + address).status_code == 200, address


def test_nothing_in_the_document_is_inline(http: FlaskClient) -> None:
    links = _Links()
    links.feed(http.get("/").text)
    assert links.refused == []


# Files ----------------------------------------------------------------------------------------------------------------


def test_each_file_of_the_page_is_served_own_modules_without_comments(http: FlaskClient) -> None:
    names = {path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*") if path.is_file()} - {"index.html"}
    assert len(names) > 200
    for name in sorted(names):
        response = http.get(f"/page/{name}")
        content = (FOLDER / name).read_bytes()
        if name.endswith(".js") and not name.startswith("vendor/"):
            assert response.data == page.without_comments(content.decode()).encode(), name
            assert response.data.count(b"\n") == content.count(b"\n"), name
        else:
            assert response.data == content, name
        assert response.content_type == MEDIA_TYPES.get(Path(name).suffix, "text/plain; charset=utf-8"), name


@pytest.mark.parametrize(
    "name",
    [
        "", "nowhere.js", "vendor", "../app.py", "vendor/../../app.py", "..%2fapp.py", "%2e%2e/app.py", "/etc/passwd",
        "..\\app.py", "main.js\0", "main.js/x", "index.html", "x" * 5000, "\xff",
    ],
)  # fmt: skip
def test_nothing_else_is_served(http: FlaskClient, name: str) -> None:
    assert http.get("/", environ_overrides={"PATH_INFO": f"/page/{name}"}).status_code == 404


@pytest.mark.parametrize("path", ["/", "/page/main.js", "/page/page.css", "/page/vendor/lit.js"])
def test_a_browser_asks_again_and_is_sent_only_what_has_changed(http: FlaskClient, path: str) -> None:
    first = http.get(path)
    tag = first.headers["ETag"]
    assert first.headers["Cache-Control"] == "no-cache"
    for method in ("GET", "HEAD"):
        again = http.open(path, method=method, headers={"If-None-Match": tag})
        assert (again.status_code, again.data, again.headers["ETag"]) == (304, b"", tag)
        assert again.headers["Content-Security-Policy"] == first.headers["Content-Security-Policy"]
        assert http.open(path, method=method, headers={"If-None-Match": '"other"'}).status_code == 200
    head = http.head(path)
    assert head.data == b""
    assert head.headers["Content-Length"] == str(len(first.data))


@pytest.mark.parametrize("path", ["/", "/page/main.js", "/page/page.css", "/page/vendor/codemirror.js"])
def test_files_are_compressed_for_clients_that_take_it(http: FlaskClient, path: str) -> None:
    plain = http.get(path)
    packed = http.get(path, headers={"Accept-Encoding": "gzip, deflate, br"})
    assert (plain.headers.get("Content-Encoding"), packed.headers["Content-Encoding"]) == (None, "gzip")
    assert gzip.decompress(packed.data) == plain.data
    assert len(packed.data) < 0.7 * len(plain.data)
    assert plain.headers["ETag"] != packed.headers["ETag"]  # each names its own bytes
    assert plain.headers["Vary"] == packed.headers["Vary"] == "Accept-Encoding"
    again = {"Accept-Encoding": "gzip", "If-None-Match": packed.headers["ETag"]}
    assert http.get(path, headers=again).status_code == 304
    assert http.get(path, headers={"If-None-Match": packed.headers["ETag"]}).data == plain.data
    refused = http.get(path, headers={"Accept-Encoding": "gzip;q=0, identity"})
    assert refused.data == plain.data


def test_a_file_that_changes_is_served_anew(http: FlaskClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "FOLDER", tmp_path)
    for text in ("one", "two"):
        file = tmp_path / f"{text}.tmp"
        file.write_text(text)
        os.utime(file, (1, 1))  # as installed files may have it: both of one time and one size
        file.rename(tmp_path / "a.js")
        assert http.get("/page/a.js").text == text


def test_a_file_of_the_edition_that_is_there_is_kept_and_no_other(
    http: FlaskClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where another worker or machine, with the same contents at other times, has sent the document."""
    monkeypatch.setattr(page, "FOLDER", tmp_path)
    for name, text in (("a.js", "one"), ("b.css", "two"), ("~c.js", "three")):
        (tmp_path / name).write_text(text)
    first = Edition.of_now().name

    def get(name: str) -> tuple[str, str]:
        answer = http.get(f"/page/{name}")
        return answer.text, answer.headers["Cache-Control"]

    assert [get(f"{first}/a.js"), get(f"{first}/b.css")] == [("one", KEEP), ("two", KEEP)]
    os.utime(tmp_path / "a.js", (1, 1))
    assert Edition.of_now().name == first
    assert get(f"{first}/a.js") == ("one", "no-cache"), "it may be another file by now"
    monkeypatch.setattr(page, "_newest", None)  # another worker
    assert get(f"{first}/a.js") == ("one", KEEP)
    (tmp_path / "a.js").write_text("new")
    assert [get(f"{first}/a.js"), get("~0/b.css")] == [("new", "no-cache"), ("two", "no-cache")]
    second = Edition.of_now().name
    assert [get(f"{second}/a.js"), get(f"{first}/b.css")] == [("new", KEEP), ("two", "no-cache")]
    assert [get("a.js"), get("~c.js")] == [("new", "no-cache"), ("three", "no-cache")]
    for name in (first, f"{first}/", f"{first}/nowhere.js", f"{first}/index.html", f"{first}/../a.js"):
        assert http.get("/", environ_overrides={"PATH_INFO": f"/page/{name}"}).status_code == 404, name


def test_only_reading_is_possible(http: FlaskClient) -> None:
    for path in ("/", "/page/main.js"):
        for method in ("POST", "PUT", "DELETE", "PATCH"):
            assert http.open(path, method=method).status_code == 405


# Guards ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/", "/page/main.js", "/page/page.css"])
def test_the_headers_let_the_page_load_and_send_to_its_own_server_only(http: FlaskClient, path: str) -> None:
    headers = http.get(path).headers
    policy = dict(part.split(" ", 1) for part in headers["Content-Security-Policy"].split("; "))
    assert policy == {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": "'self'",
        "connect-src": "'self'",
        "img-src": "'self' data: blob:",
        "media-src": "blob:",
        "font-src": "'self'",
        "manifest-src": "'self'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
        "require-trusted-types-for": "'script'",
        "trusted-types": "lit-html srb-worker",
    }
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cross-Origin-Opener-Policy"] == "same-origin"


def test_the_page_needs_no_key_but_only_to_read() -> None:
    http = client(api_key="secret")
    for path in ("/", "/page/main.js", "/page/vendor/lit.js", "//page//main.js"):
        assert http.get("/", environ_overrides={"PATH_INFO": path}).status_code == 200
        assert http.head("/", environ_overrides={"PATH_INFO": path}).status_code == 200
        assert http.post("/", environ_overrides={"PATH_INFO": path}).status_code == 401
    for path in ("/page", "/pages/x", "/Page/main.js"):
        assert http.get("/", environ_overrides={"PATH_INFO": path}).status_code == 401
    for path in ("/page/../v1/models", "/page/..%2fv1%2fmodels", "/page/nowhere"):
        assert http.get("/", environ_overrides={"PATH_INFO": path}).status_code == 404


def test_without_ui_there_is_no_page() -> None:
    http = client(ui=False)
    for path in ("/", "/page/main.js", "/page/vendor/lit.js", "/completion.js"):
        assert http.get(path).status_code == 404


def test_the_users_own_files_come_before_the_page(tmp_path: Path) -> None:
    (tmp_path / "page").mkdir()
    (tmp_path / "page" / "page.css").write_text("mine")
    http = client(static_path=str(tmp_path))
    (tmp_path / "index.html").write_text("my page")
    assert 'href="page/page.css"' in client(static_path=str(tmp_path / "page")).get("/").text, "where theirs are found"
    for path, text in (("/", "my page"), ("/page/page.css", "mine")):
        with http.get(path) as response:
            assert response.text == text
            assert "Content-Security-Policy" not in response.headers
    assert http.get("/page/main.js").status_code == 200


# The prefix -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("prefix", "leads_to"), [("/srb", "srb/"), ("/tools/llm", "llm/")])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_the_prefix_alone_leads_to_the_page(prefix: str, leads_to: str, method: str) -> None:
    http = client(api_prefix=prefix, api_key="secret")
    response = http.open(prefix, method=method)
    assert (response.status_code, response.headers["Location"]) == (307, leads_to)
    assert http.get(f"{prefix}/").status_code == 200
    assert http.get(f"{prefix}/page/main.js").status_code == 200
    assert http.get("/page/main.js").status_code == 401
    assert http.get(f"{prefix}/x{prefix}", headers={"X-Api-Key": "secret"}).status_code == 404
