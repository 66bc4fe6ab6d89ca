"""Fetching a model before the start: which file is chosen, what is passed on, and that a failure is one line."""

from __future__ import annotations

import base64
import contextlib
import errno
import http.client
import os
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from srb.errors import ConfigError
from srb.fetch import download, hub
from tests.processes import DEADLINE, wait_for

FILES = [
    "README.md", "mmproj-model-f16.gguf", "model.imatrix.gguf", "model-IQ4_XS.gguf", "model-Q3_K_M.gguf",
    "model-Q4_K_M.gguf", "model-Q4_K_M_L.gguf", "model-Q8_0-00001-of-00002.gguf", "model-Q8_0-00002-of-00002.gguf",
    "big/model-BF16.gguf",
]  # fmt: skip


@pytest.mark.parametrize(
    ("quant", "chosen"),
    [
        ("", ["model-Q4_K_M.gguf"]),
        ("q3_k_m", ["model-Q3_K_M.gguf"]),
        ("IQ4_XS", ["model-IQ4_XS.gguf"]),
        ("BF16", ["big/model-BF16.gguf"]),
        ("Q8_0", ["model-Q8_0-00001-of-00002.gguf", "model-Q8_0-00002-of-00002.gguf"]),
    ],
)
def test_the_file_is_the_one_of_that_quantization(quant: str, chosen: list[str]) -> None:
    assert hub.choose(FILES, quant) == chosen


def test_without_q4_k_m_it_is_the_first() -> None:
    assert hub.choose(["b-Q8_0.gguf", "a-Q2_K.gguf"]) == ["a-Q2_K.gguf"]


@pytest.mark.parametrize(("quant", "message"), [("Q5_K", "no file for Q5_K; it has "), ("4_K_M", "no file for 4_K_M")])
def test_a_quantization_that_is_not_there_is_said_with_those_that_are(quant: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        hub.choose(FILES, quant)


def test_a_repository_without_a_model_is_said() -> None:
    with pytest.raises(ConfigError, match="the repository has no GGUF file"):
        hub.choose(["model.safetensors", "mmproj.gguf"])


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Any]:
    """Stand in for huggingface_hub; return what it was asked for."""
    asked: list[Any] = []

    def download(name: str, file: str, **options: Any) -> str:
        asked.append((name, file, options))
        if name == "no/where":
            raise RuntimeError("404: no such repository\n\n" + "and much more " * 100)
        return f"/cache/{name}/{file}"

    (tmp_path / "cached-Q4_K_M.gguf").touch()
    fake = SimpleNamespace(
        HfApi=lambda token: SimpleNamespace(list_repo_files=lambda name: FILES),
        hf_hub_download=download,
        snapshot_download=lambda name, local_files_only: str(tmp_path),
    )
    monkeypatch.setitem(sys.modules, "huggingface_hub", fake)
    return asked


def test_every_part_of_a_split_model_is_fetched_and_the_first_is_named(package: list[Any]) -> None:
    assert hub.fetch_from_hub("us/er:Q8_0", token="t") == Path("/cache/us/er/model-Q8_0-00001-of-00002.gguf")
    assert [(name, options) for name, _, options in package] == [
        ("us/er", {"token": "t", "local_files_only": False})
    ] * 2


def test_a_file_that_is_named_is_fetched(package: list[Any]) -> None:
    assert hub.fetch_from_hub("us/er:Q8_0", "x/y.gguf") == Path("/cache/us/er/x/y.gguf")


def test_offline_the_cache_is_looked_at(package: list[Any]) -> None:
    assert hub.fetch_from_hub("us/er", offline=True) == Path("/cache/us/er/cached-Q4_K_M.gguf")
    assert package[0][2]["local_files_only"] is True


def test_a_failed_download_is_one_line(package: list[Any]) -> None:
    with pytest.raises(ConfigError) as caught:
        hub.fetch_from_hub("no/where")
    assert caught.value.message.startswith("--hf-repo no/where: 404: no such repository and much more")
    assert "\n" not in caught.value.message
    assert len(caught.value.message) < 400


def test_without_the_package_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ConfigError, match="-m pip install huggingface_hub"):
        hub.fetch_from_hub("us/er")


MODEL = b"GGUF" * 1000


class Site:
    """A site in memory: the file of each path and query with its ETag, what was asked, and how it misbehaves."""

    def __init__(self) -> None:
        self.files: dict[str, tuple[bytes, str]] = {}
        self.asked: list[tuple[str, dict[str, str]]] = []  # paths, and headers by their names in lower case
        self.breaks_after = 0  # bytes; 0: never
        self.has_ranges = True
        self.gate: threading.Event | None = None  # answers wait for it, half-way
        self.address = ""

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        self.asked.append((handler.path, {name.lower(): value for name, value in handler.headers.items()}))
        if handler.path not in self.files:
            return handler.send_error(404)
        data, mark = self.files[handler.path]
        begin = handler.headers.get("Range", "")
        start = (
            int(begin[len("bytes=") : -1]) if begin and self.has_ranges and handler.headers["If-Range"] == mark else 0
        )
        handler.send_response(206 if start else 200)
        if start:
            handler.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        if mark:
            handler.send_header("ETag", mark)
        handler.send_header("Content-Length", str(len(data) - start))
        handler.end_headers()
        half = start + (self.breaks_after or (len(data) - start) // 2)
        handler.wfile.write(data[start:half])
        if self.gate:
            assert self.gate.wait(DEADLINE)
        if not self.breaks_after:
            handler.wfile.write(data[half:])
        return None


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    site = Site()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            with contextlib.suppress(ConnectionError):  # of who needs no more than the headers
                site.answer(self)

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        site.address = f"http://127.0.0.1:{server.server_port}"
        site.files["/a/model.gguf"] = (MODEL, '"1"')
        yield site
        server.shutdown()
        thread.join()


def cached(tmp_path: Path) -> set[str]:
    """Return the names of the files in the cache, without what stands beside a model."""
    folder = tmp_path / "cache/srb/models"
    names = {str(path.relative_to(folder)) for path in folder.glob("*/*")}
    return {name for name in names if not name.endswith((".version", ".lock"))}


def test_a_model_is_fetched_from_an_address_once(
    site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = hub.fetch_from_url(f"{site.address}/a/model.gguf")
    assert path.read_bytes() == MODEL
    assert path.name == "model.gguf"  # whose stem is the model's name
    assert path.is_relative_to(tmp_path / "cache")
    assert "100 %" in capsys.readouterr().err
    first = path.stat()
    assert hub.fetch_from_url(f"{site.address}/a/model.gguf#part") == path
    assert "downloading" not in capsys.readouterr().err
    site.files.clear()
    assert hub.fetch_from_url(f"{site.address}/a/model.gguf", offline=True) == path
    assert path.stat() == first
    assert cached(tmp_path) == {f"{path.parent.name}/model.gguf"}


def test_a_file_that_is_named_is_downloaded_there_and_used_as_it_is_afterwards(site: Site, tmp_path: Path) -> None:
    url, target = f"{site.address}/a/model.gguf", tmp_path / "mine" / "small.gguf"
    assert hub.fetch_from_url(url, target=str(target)) == target
    assert target.read_bytes() == MODEL
    target.write_bytes(b"mine")
    site.asked.clear()
    assert hub.fetch_from_url(url, target=str(target)) == target
    assert hub.fetch_from_url(url, offline=True, target=str(target)) == target
    assert (target.read_bytes(), site.asked) == (b"mine", [])
    assert not cached(tmp_path)
    with pytest.raises(ConfigError, match="--offline forbids the download"):
        hub.fetch_from_url(url, offline=True, target=str(tmp_path / "other.gguf"))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("/download?id=1", "/download?id=2"),
        ("/a/model.gguf", "/a/model.gguf?raw=true"),
        ("/a/b.gguf", "/a--b.gguf"),
        ("/a/b.gguf", "/A/b.gguf"),
    ],
)
def test_two_addresses_are_two_models(site: Site, one: str, other: str) -> None:
    site.files = {one: (b"one", '"1"'), other: (b"other", '"1"')}
    paths = [hub.fetch_from_url(site.address + path) for path in (one, other)]
    assert [path.read_bytes() for path in paths] == [b"one", b"other"]
    assert [hub.fetch_from_url(site.address + path, offline=True) for path in (one, other)] == paths


def test_a_login_is_sent_and_is_in_no_name_and_no_message(
    site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = site.address.replace("//", "//me:s%40cret@")
    path = hub.fetch_from_url(f"{url}/a/model.gguf")
    assert site.asked[-1][1]["authorization"] == "Basic " + base64.b64encode(b"me:s@cret").decode()
    assert path == hub.fetch_from_url(f"{site.address}/a/model.gguf", offline=True)
    with pytest.raises(ConfigError) as caught:
        hub.fetch_from_url(f"{url}/b.gguf")
    site.files.clear()
    hub.fetch_from_url(f"{url}/a/model.gguf")
    told = caught.value.message + capsys.readouterr().err + "".join(map(str, tmp_path.rglob("*")))
    assert "404" in told
    assert "cret" not in told


def test_a_file_that_has_changed_is_fetched_again(site: Site) -> None:
    url = f"{site.address}/a/model.gguf"
    path = hub.fetch_from_url(url)
    for change in ((b"another", '"2"'), (MODEL, '"3"'), (b"no mark", ""), (b"no mark, longer", "")):
        site.files["/a/model.gguf"] = change
        assert hub.fetch_from_url(url) == path
        assert path.read_bytes() == change[0]
        site.asked.clear()
        before = path.stat()
        hub.fetch_from_url(url)
        assert path.stat() == before
        assert len(site.asked) == 1


def test_a_model_that_is_there_is_used_when_its_address_cannot_be_asked(
    site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"{site.address}/a/model.gguf"
    path = hub.fetch_from_url(url)
    site.files.clear()
    assert hub.fetch_from_url(url) == path
    assert f"srb: {path} is used, which was downloaded before: HTTP Error 404" in capsys.readouterr().err
    site.files["/a/model.gguf"] = (b"a longer one" * 1000, '"2"')
    site.breaks_after = 100
    assert hub.fetch_from_url(url) == path
    assert path.read_bytes() == MODEL
    assert "the connection was closed after 100 of 12000 bytes" in capsys.readouterr().err


@pytest.mark.parametrize("has_ranges", [True, False])
def test_an_interrupted_download_is_gone_on_with(site: Site, tmp_path: Path, has_ranges: bool) -> None:
    url, site.breaks_after, site.has_ranges = f"{site.address}/a/model.gguf", 1000, has_ranges
    with pytest.raises(ConfigError, match="the connection was closed after 1000 of 4000 bytes"):
        hub.fetch_from_url(url)
    site.breaks_after = 0
    assert hub.fetch_from_url(url).read_bytes() == MODEL
    assert [headers.get("range") for _, headers in site.asked] == [None, None, "bytes=1000-"]
    assert [name for name in cached(tmp_path) if "partial" in name] == []


def test_what_has_come_of_another_version_is_not_gone_on_with(site: Site, tmp_path: Path) -> None:
    url, site.breaks_after = f"{site.address}/a/model.gguf", 1000
    with pytest.raises(ConfigError):
        hub.fetch_from_url(url)
    site.breaks_after, site.files["/a/model.gguf"] = 0, (b"FFUG" * 1000, '"2"')
    assert hub.fetch_from_url(url).read_bytes() == b"FFUG" * 1000
    assert [name for name in cached(tmp_path) if "partial" in name] == []


@pytest.mark.parametrize("has_locks", [True, False])
def test_two_starts_at_once_never_have_a_file_with_holes(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_locks: bool
) -> None:
    if not has_locks:

        def refuse(*_: Any) -> None:
            raise OSError(errno.ENOLCK, "No locks available")

        monkeypatch.setattr(download.fcntl, "flock", refuse)
    site.gate = threading.Event()
    written: list[int] = []  # how many bytes each name has when a file gets it
    replace = os.replace

    def count(source: Path, target: Path) -> None:
        written.append(source.stat().st_size)
        replace(source, target)

    monkeypatch.setattr(download.os, "replace", count)
    waits = threading.Event()
    monkeypatch.setattr(download, "_say", lambda text: waits.set() if "waits for it" in text else None)
    with ThreadPoolExecutor(2) as pool:
        starts = [pool.submit(hub.fetch_from_url, f"{site.address}/a/model.gguf") for _ in range(2)]
        if has_locks:
            assert waits.wait(DEADLINE)
        else:
            wait_for(lambda: len(site.asked) == 2, "both starts have asked")
        site.gate.set()
        [path, other] = [start.result(DEADLINE) for start in starts]
    assert path == other
    assert path.read_bytes() == MODEL
    assert written == [len(MODEL)] * (1 if has_locks else 2)
    assert cached(tmp_path) == {f"{path.parent.name}/model.gguf"}


@pytest.mark.parametrize(
    ("url", "offline", "message"),
    [
        ("SITE/b.gguf", False, "HTTP Error 404"),
        ("SITE/b.gguf", True, "and --offline forbids the download"),
        ("file:///etc/passwd", False, "should be the http or https URL of a file"),
        ("SITE/", False, "should be the http or https URL of a file"),
        ("SITE/a/..", False, "should be the http or https URL of a file"),
        ("SITE/a/%2e%2e", False, "should be the http or https URL of a file"),
        ("http:///m.gguf", False, "should be the http or https URL of a file"),
        ("http://me@/m.gguf", False, "should be the http or https URL of a file"),
        ("SITE/my model.gguf", False, "URL can't contain control characters"),
        ("SITE/mod\u00e8le.gguf", False, "'ascii' codec can't encode"),
        ("http://127.0.0.1:abc/m.gguf", False, "nonnumeric port: 'abc'"),
        ("http://[bad/m.gguf", False, "Invalid IPv6 URL"),
        ("SITE/%00.gguf", False, "embedded null byte"),
        ("SITE/" + "x" * 300, False, "File name too long"),
    ],
)
def test_a_wrong_address_is_one_line_and_leaves_no_model(
    site: Site, tmp_path: Path, url: str, offline: bool, message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        hub.fetch_from_url(url.replace("SITE", site.address), offline, "--mmproj-url")
    assert message in caught.value.message
    assert caught.value.message.startswith(f"--mmproj-url {url.replace('SITE', site.address).replace('me@', '')}: ")
    assert "\n" not in caught.value.message
    assert not list((tmp_path / "cache").rglob("*.gguf"))


def test_an_answer_that_breaks_its_own_rules_is_one_line(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def break_off(*_: Any, **__: Any) -> None:
        raise http.client.IncompleteRead(b"GG")

    monkeypatch.setattr(download, "_write", break_off)
    with pytest.raises(ConfigError, match="IncompleteRead"):
        hub.fetch_from_url(f"{site.address}/a/model.gguf")


def test_the_projector_is_the_one_of_that_quantization_or_the_smallest_usual() -> None:
    names = ["mmproj-BF16.gguf", "mmproj-F16.gguf", "mmproj-F32.gguf", "model-Q4_K_M.gguf"]
    assert hub.choose_projector(names) == ["mmproj-F16.gguf"]
    assert hub.choose_projector(names, "F32") == ["mmproj-F32.gguf"]
    assert hub.choose_projector([*names, "sub/mmproj-Q8_0.gguf"]) == ["sub/mmproj-Q8_0.gguf"]
    assert hub.choose_projector(["model.gguf"]) == []


def test_a_repository_without_a_projector_has_none(package: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "_has_mtmd", lambda: True)
    assert hub.fetch_projector("user/model") == Path("/cache/user/model/mmproj-model-f16.gguf")
    monkeypatch.setattr(hub, "_has_mtmd", lambda: False)
    assert hub.fetch_projector("user/model") is None
