"""`srb config`: it prints the files of config/ as they are, and tells the names that there are."""

from __future__ import annotations

import pytest

from srb.cli import config
from srb.cli import main as cli
from tests.processes import ROOT


def printed(capsysbinary: pytest.CaptureFixture[bytes], *arguments: str) -> tuple[int, bytes, str]:
    with pytest.raises(SystemExit) as ended:
        cli.main(["config", *arguments])
    out, err = capsysbinary.readouterr()
    return int(ended.value.code or 0), out, err.decode()


@pytest.mark.parametrize(
    ("arguments", "file"),
    [
        ([], "default.toml"),
        (["default.toml"], "default.toml"),
        (["srb-web.socket"], "systemd/srb-web.socket"),
        (["systemd/srb.service"], "systemd/srb.service"),
        (["logrotate/srb"], "logrotate/srb"),
        (["prometheus/srb.yaml"], "prometheus/srb.yaml"),
    ],
)
def test_a_file_is_printed_byte_for_byte(
    capsysbinary: pytest.CaptureFixture[bytes], arguments: list[str], file: str
) -> None:
    assert printed(capsysbinary, *arguments) == (0, (ROOT / "config" / file).read_bytes(), "")


def test_all_files_of_the_folder_are_listed(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    status, out, _ = printed(capsysbinary, "--list")
    files = {path.relative_to(ROOT / "config").as_posix() for path in (ROOT / "config").rglob("*") if path.is_file()}
    assert (status, set(out.decode().split())) == (0, files)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nothing.service", "there is no file 'nothing.service'"),
        ("../setup.cfg", "there is no file"),
        ("systemd", "there is no file"),
        ("", "there is no file ''"),
        ("srb.yaml", "srb.yaml may be prometheus/srb.yaml or ray/srb.yaml"),
    ],
)
def test_a_name_that_no_file_has_alone_is_one_line(
    capsysbinary: pytest.CaptureFixture[bytes], name: str, said: str
) -> None:
    status, out, err = printed(capsysbinary, name)
    assert (status, out, err.count("\n")) == (2, b"", 1)
    assert said in err


def test_the_folder_is_the_packages_own() -> None:
    assert config.FOLDER.is_relative_to(ROOT / "srb")
