"""`srb serve`: flags become variables, gunicorn takes over; whatever is wrong is one line and exit status 2."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from srb import cli
from srb.settings import Settings


class Executed(Exception):
    """Stands for the exec that ends this process's program."""

    def __init__(self, command: Sequence[str], environ: Mapping[str, str]) -> None:
        self.command, self.environ = list(command), dict(environ)


@pytest.fixture(autouse=True)
def no_exec(monkeypatch: pytest.MonkeyPatch) -> None:
    def execve(path: str, command: Sequence[str], environ: Mapping[str, str]) -> None:
        assert path == sys.executable
        raise Executed(command, environ)

    monkeypatch.setattr(os, "execve", execve)
    for name in [name for name in os.environ if name.startswith("SRB_")]:
        monkeypatch.delenv(name)


def serve(*flags: str) -> Settings:
    """Return the settings that the server would load."""
    with pytest.raises(Executed) as executed:
        cli.main(["serve", *flags])
    return Settings.load({}, executed.value.environ)


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    assert ended.value.code == 2
    text = capsys.readouterr().err
    assert text.startswith("srb: ")
    assert text.count("\n") == 1
    return text


def test_without_flags_the_defaults_are_served() -> None:
    assert serve() == Settings()


def test_the_flags_of_the_first_server_of_this_kind_mean_the_same() -> None:
    settings = serve("--model", "m.gguf", "--port", "1234", "--n", "4")
    assert (settings.model, settings.port, settings.n) == ("m.gguf", 1234, 4)


def test_llama_servers_names_mean_the_same() -> None:
    flags = "-m m.gguf -c 100 -b 64 -ub 32 -ngl all -t 3 -tb 4 -fa -ctk q8_0 -ctv q4_0 -a mine --host :: -mg 1 -sm row"
    settings = serve(*flags.split(), "-ts", "3,1", "--mlock", "--no-mmap", "--no-metrics", "--predict", "7")
    assert settings == Settings(
        model="m.gguf", n_ctx=100, n_batch=64, n_ubatch=32, n_gpu_layers=-1, threads=3, threads_batch=4,
        flash_attn="on", cache_type_k="q8_0", cache_type_v="q4_0", alias="mine", host="::", main_gpu=1,
        split_mode="row", tensor_split="3,1", mlock=True, mmap=False, metrics=False, n_predict=7,
    )  # fmt: skip


@pytest.mark.parametrize("name", sorted(Settings.model_fields))
def test_every_setting_has_a_flag(name: str) -> None:
    field = Settings.model_fields[name]
    flag = name.replace("_", "-")
    if field.annotation is bool:
        changed = serve(f"--no-{flag}" if field.default else f"--{flag}")
        assert getattr(changed, name) is not field.default
    else:
        assert serve(f"--{flag}", str(field.default)) == Settings()


def test_a_flag_wins_over_the_environment_and_that_over_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "srb.toml").write_text("port = 1\nworkers = 2\nn = 3\n")
    monkeypatch.setenv("SRB_WORKERS", "4")
    monkeypatch.chdir(tmp_path)
    settings = serve("--config", "srb.toml", "--n", "5")
    assert (settings.port, settings.workers, settings.n) == (1, 4, 5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["serve", "--port", "x"], "port (from --port): "),
        (["serve", "--ports", "1"], "unknown option --ports"),
        (["serve", "--n-ct", "1"], "unknown option --n-ct"),
        (["serve", "-np", "4"], "-np is not needed: branches share one context; see --max-n"),
        (["serve", "--config", "/nowhere.toml"], "cannot read /nowhere.toml"),
        (["serve", "--n"], "expected one argument"),
        (["sevre"], "invalid choice: 'sevre'"),
        ([], "required: COMMAND"),
    ],
)
def test_what_is_wrong_is_one_line(capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    assert message in refusal(capsys, *arguments)


def test_version_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("srb 0.")
