"""Fetching a model before the start: which file is chosen, what is passed on, and that a failure is one line."""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from srb.errors import ConfigError
from srb.launch import hub

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


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "site" / "a").mkdir(parents=True)
    (tmp_path / "site" / "a" / "model.gguf").write_bytes(b"GGUF" * 1000)
    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(tmp_path / "site"))) as server:
        threading.Thread(target=server.serve_forever).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_model_is_fetched_from_an_address_once(site: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = hub.fetch_from_url(f"{site}/a/model.gguf?download=true")
    assert path.read_bytes() == b"GGUF" * 1000
    assert path.is_relative_to(tmp_path / "cache")
    assert "100 %" in capsys.readouterr().err
    (tmp_path / "site" / "a" / "model.gguf").unlink()
    assert hub.fetch_from_url(f"{site}/a/model.gguf", offline=True) == path
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_wrong_address_is_one_line_and_leaves_no_model(site: str, tmp_path: Path) -> None:
    for url, offline, message in (
        (f"{site}/b.gguf", False, "HTTP Error 404"),
        (f"{site}/b.gguf", True, "and --offline forbids the download"),
        ("file:///etc/passwd", False, "should be the http or https URL of a file"),
        (f"{site}/", False, "should be the http or https URL of a file"),
    ):
        with pytest.raises(ConfigError, match=message):
            hub.fetch_from_url(url, offline)
    assert not list((tmp_path / "cache").rglob("*.gguf"))


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
