"""`srb service`: what it writes, which commands of the system it runs, and what it says where they fail."""

from __future__ import annotations

import os
import plistlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from srb.cli import main as cli
from srb.cli import service


class System:
    """A system's commands: those that were run, and the ones that fail, by a word of theirs, with what they say."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.fails: dict[str, str] = {}
        self.is_missing = False

    def run(self, command: Any, **options: object) -> SimpleNamespace:
        if self.is_missing:
            raise FileNotFoundError(2, "No such file or directory", command[0])
        self.ran.append(" ".join(command))
        said = next((said for word, said in self.fails.items() if word in command), "")
        return SimpleNamespace(returncode=int(bool(said)), stderr=said, stdout="")


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> System:
    system = System()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/srb").touch()
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin/python"))
    monkeypatch.setattr(service, "subprocess", system)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return system


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    def run(*words: str) -> tuple[int, str]:
        with pytest.raises(SystemExit) as ended:
            cli.main(["service", *words])
        said = capsys.readouterr()
        return int(ended.value.code or 0), said.out + said.err

    return run


Command = Callable[..., tuple[int, str]]


def test_a_unit_is_written_started_shown_and_removed(system: System, run: Command, tmp_path: Path) -> None:
    unit = tmp_path / ".config/systemd/user/srb.service"
    assert run("status") == (1, "srb: no service is installed; `srb service install` does so\n")
    assert run("uninstall") == (1, "srb: no service is installed\n")
    for _ in range(2):  # once more takes new settings over
        status, said = run("install")
        assert status == 0
        assert str(tmp_path / ".config/srb/environment") in said
    assert f'ExecStart="{tmp_path}/bin/srb" serve\n' in unit.read_text()
    assert f'ExecReload="{tmp_path}/bin/python" -P -m srb.serve.reload $MAINPID\n' in unit.read_text()
    ctl = "systemctl --user"
    assert system.ran == [f"{ctl} daemon-reload", f"{ctl} enable srb.service", f"{ctl} restart srb.service"] * 2
    system.ran.clear()
    assert run("status")[0] == 0
    assert run("uninstall")[0] == 0
    assert not unit.exists()
    assert system.ran == [
        f"{ctl} status --no-pager srb.service",
        f"{ctl} disable --now srb.service",
        f"{ctl} daemon-reload",
    ]


def test_an_agent_of_launchd_has_the_settings_of_the_same_file(
    system: System, run: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service.platform, "system", lambda: "Darwin")
    assert run("install")[0] == 0
    path = tmp_path / "Library/LaunchAgents/org.llama-srb.plist"
    agent = plistlib.loads(path.read_bytes())
    assert agent["ProgramArguments"][3:] == [str(tmp_path / ".config/srb/environment"), str(tmp_path / "bin/srb")]
    assert (agent["RunAtLoad"], agent["KeepAlive"]) == (True, {"SuccessfulExit": False})
    assert system.ran[0].endswith(f"gui/{os.getuid()} org.llama-srb {path}")
    assert run("uninstall")[0] == 0
    assert not path.exists()


def test_a_system_without_a_session_or_without_systemd_is_told_in_one_line(system: System, run: Command) -> None:
    system.fails["daemon-reload"] = "Failed to connect to bus:\nNo medium found\n"
    status, said = run("install")
    assert status == 1
    assert said.endswith("systemctl --user daemon-reload: Failed to connect to bus: No medium found\n")
    system.is_missing = True
    status, said = run("install")
    assert (status, said.count("\n")) == (1, 1)
    assert said.endswith("this system has no systemctl\n")


def test_root_and_a_file_of_another_hand_are_refused(
    system: System, run: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unit = tmp_path / ".config/systemd/user/srb.service"
    unit.parent.mkdir(parents=True)
    unit.write_text("[Service]\nExecStart=/usr/bin/mine\n")
    for command in ("install", "uninstall"):
        status, said = run(command)
        assert (status, "not a file of this command" in said) == (1, True)
    assert "mine" in unit.read_text()
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    status, said = run("install")
    assert (status, "docs/deploy.md" in said) == (2, True)
    assert system.ran == []
