"""llama-server's file of presets: sections are models, keys are options, and what is wrong is said with both."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from srb.config.settings import Settings
from srb.fetch import hub
from srb.models.listed import list_models
from tests.unit.test_cli import no_exec as no_exec
from tests.unit.test_cli import refusal, serve

FILE = """\
version = 1
; for all of them
[*]
c = 4096          # a comment behind a value
n-gpu-layers = 8
LLAMA_ARG_CACHE_TYPE_K = q8_0

[small]
model = /m/small.gguf
ctx-size = 512
no-mmap = true
load-mode = mlock
temp = 0.5

[Large Model]
m = /m/large.gguf
ngl = 99
chat-template-kwargs = {"enable_thinking": false}
context-shift = off
load-on-startup = true
stop-timeout = 5
jinja = true
"""


def write(tmp_path: Path, text: str) -> str:
    path = tmp_path / "models.ini"
    path.write_text(text)
    return str(path)


def tables(settings: Settings) -> list[Any]:
    found: list[Any] = json.loads(settings.models)
    return found


def test_sections_become_models_with_settings_of_their_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = serve("--models-preset", write(tmp_path, FILE))
    assert (settings.n_ctx, settings.n_gpu_layers, settings.cache_type_k) == (4096, 8, "q8_0")
    assert tables(settings) == [
        {
            "name": "small",
            "model": "/m/small.gguf",
            "n_ctx": "512",
            "mmap": "false",
            "mlock": "true",
            "temperature": "0.5",
        },
        {
            "name": "Large Model",
            "model": "/m/large.gguf",
            "n_gpu_layers": "99",
            "context_shift": "false",
            "chat_template_kwargs": '{"enable_thinking": false}',
        },
    ]
    assert settings.model == "Large Model"
    said = capsys.readouterr().err
    assert "stop-timeout of [Large Model] has no effect" in said
    assert "--jinja of [Large Model] has no effect" in said


def test_an_option_has_precedence_over_a_section_and_a_section_over_all(tmp_path: Path) -> None:
    path = write(tmp_path, "[*]\nc = 1024\nub = 64\n[a]\nmodel = /m/a.gguf\nc = 2048\nub = 32\n")
    settings = serve("--models-preset", path, "-c", "512")
    assert (settings.n_ctx, settings.n_ubatch) == (512, 64)
    assert tables(settings) == [{"name": "a", "model": "/m/a.gguf", "n_ubatch": "32"}]


def test_a_section_may_have_further_names(tmp_path: Path) -> None:
    settings = serve("--models-preset", write(tmp_path, "[a]\nmodel = /m/a.gguf\nalias = gpt-4o, x\n"))
    assert list_models(settings)["a"].names == ["a", "gpt-4o", "x"]


def test_sections_configure_the_models_of_a_folder(tmp_path: Path) -> None:
    settings = serve("--models-dir", "/m", "--models-preset", write(tmp_path, "[one]\nc = 512\n"))
    assert tables(settings) == ["/m", {"name": "one", "n_ctx": "512"}]


def test_a_section_may_name_a_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str, bool]] = []

    def fetch(repo: str, file: str = "", token: str = "", offline: bool = False) -> Path:
        asked.append((repo, file, offline))
        return Path("/cache") / repo.replace("/", "-")

    monkeypatch.setattr(hub, "fetch_from_hub", fetch)
    monkeypatch.setattr(hub, "fetch_projector", lambda *_: None)
    path = write(tmp_path, "[a]\nhf = me/a:Q8_0\nc = 9\n[you/b]\nc = 7\n")
    settings = serve("--models-preset", path, "--offline")
    assert asked == [("me/a:Q8_0", "", True), ("you/b", "", True)]
    assert tables(settings) == [
        {"name": "a", "n_ctx": "9", "model": "/cache/me-a:Q8_0"},
        {"name": "you/b", "n_ctx": "7", "model": "/cache/you-b"},
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[a]\nnonsense\n", "line 2: should be [MODEL] or option = value, got 'nonsense'"),
        ("[a]\nmodel = x\nno-such-option = 1\n", "[a]: no-such-option: unknown option"),
        ("[a]\nmodel = x\nmlock = perhaps\n", "[a]: mlock: should be on or off, got 'perhaps'"),
    ],
)
def test_a_wrong_file_is_refused_with_section_and_key(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, message: str
) -> None:
    assert message in refusal(capsys, "serve", "--models-preset", write(tmp_path, text))


def test_a_missing_file_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = refusal(capsys, "serve", "--models-preset", str(tmp_path / "nowhere.ini"))
    assert "--models-preset: cannot read" in said


def test_a_list_of_models_that_is_no_json_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SRB_MODELS", '["/m/a.gguf"')
    said = refusal(capsys, "serve", "--models-preset", write(tmp_path, "[a]\nc = 512\n"))
    assert "models: should be a JSON list" in said


def test_a_download_option_for_all_sections_is_said_to_have_no_effect(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    serve("--models-preset", write(tmp_path, "[*]\nhf-token = secret\n[a]\nmodel = /m/a.gguf\n"))
    said = capsys.readouterr().err
    assert "--hf-token of [*] has no effect" in said
    assert "secret" not in said
