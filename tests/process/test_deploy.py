"""docs/deploy.md and the units: its commands name files and units that there are, and do what it says, without a systemd."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from srb.exit_codes import EXIT_CONFIG, EXIT_MODEL
from srb.stories.parts import read_post
from srb.stories.store import Store
from tests.processes import DEADLINE, ROOT, clean_environ

DEPLOY = (ROOT / "docs" / "deploy.md").read_text()
UNITS = ROOT / "config" / "systemd"
COMMANDS = [line for block in re.findall(r"```sh\n(.*?)```", DEPLOY, re.DOTALL) for line in block.splitlines()]
IN_TEXT = re.findall(r"`(systemctl [^`]+)`", DEPLOY)
DAY = 24 * 60 * 60


def values(unit: str, name: str) -> list[str]:
    """Return the values of a setting in a unit, a continued line as one."""
    text = (UNITS / unit).read_text().replace("\\\n", " ")
    return [line.partition("=")[2] for line in text.splitlines() if line.startswith(f"{name}=")]


def names_of_units() -> set[str]:
    names = {path.name for path in UNITS.iterdir()}
    return names | {path.stem for path in UNITS.glob("*.service")}


def test_every_file_that_a_command_installs_is_there_and_every_unit_is_installed() -> None:
    named = {word for line in COMMANDS for word in shlex.split(line, comments=True) if word.startswith("config/")}
    assert [name for name in named if not (ROOT / name).exists()] == []
    assert {path.name for path in UNITS.iterdir()} <= {Path(name).name for name in named}


def test_every_systemctl_command_names_units_that_there_are() -> None:
    asked = [line for line in [*COMMANDS, *IN_TEXT] if "systemctl " in line]
    assert len(asked) > 10
    for line in asked:
        words = shlex.split(line.partition("systemctl ")[2], comments=True)
        units = [word for word in words if not word.startswith("-")][1:]
        assert set(units) <= names_of_units() | {"nginx"}, line


def test_a_reader_of_a_printed_file_that_has_enough_is_no_error() -> None:
    command = [sys.executable, "-m", "srb.cli.main", "config"]
    with subprocess.Popen(
        command, cwd=ROOT, env=clean_environ(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as srb:
        assert srb.stdout is not None
        assert srb.stderr is not None
        srb.stdout.close()
        assert srb.stderr.read() == b""
    assert srb.returncode == 0


def test_the_two_set_ups_exclude_each_other_and_one_ends_before_the_other_begins() -> None:
    two = {"srb-engine.service", "srb-web.service", "srb-web.socket"}
    assert set(values("srb.service", "Conflicts")[0].split()) == two
    assert two <= set(values("srb.service", "After")[0].split())


def test_a_reload_returns_when_the_settings_are_in_force() -> None:
    """As tests/e2e/test_deploys.py and test_units.py show of the command."""
    for unit in ("srb.service", "srb-web.service"):
        [command] = values(unit, "ExecReload")
        assert shlex.split(command)[1:] == ["-P", "-m", "srb.serve.reload", "$MAINPID"]
        assert values(unit, "RuntimeDirectory") == [unit.removesuffix(".service")], "where it leaves the outcome"


def test_a_persons_own_unit_ends_and_restarts_as_the_machines_does() -> None:
    own = "../systemd-user/srb-user.service"
    for name in ("Type", "KillMode", "TimeoutStopSec", "Restart", "RestartPreventExitStatus"):
        assert values(own, name) == values("srb.service", name), name
    assert [line for line in COMMANDS if line.startswith("srb service ")]
    assert values(own, "ExecStart") == ["%h/.local/bin/srb serve"]  # `srb service install` writes its own path


@pytest.mark.skipif(os.geteuid() != 0, reason="users and owners are root's to make")
@pytest.mark.parametrize("program", ["systemd-sysusers", "systemd-tmpfiles"])
def test_a_packages_user_and_folders_are_those_of_the_units(tmp_path: Path, program: str) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed (Debian: apt install systemd)")
    keys = tmp_path / "etc/srb/api_keys"
    keys.parent.mkdir(parents=True)
    keys.touch(0o644)

    def run(*command: str) -> None:
        subprocess.run([*command, f"--root={tmp_path}"], check=True, timeout=DEADLINE)

    run("systemd-sysusers", str(ROOT / "config/sysusers.d/srb.conf"))
    [user] = [line.split(":") for line in (tmp_path / "etc/passwd").read_text().splitlines() if line.startswith("srb:")]
    [made] = [shlex.split(line) for line in COMMANDS if line.startswith("useradd ")]
    assert [user[0]] == values("srb.service", "User")
    assert user[5:] == [made[made.index("--home-dir") + 1], made[made.index("--shell") + 1]]
    if program == "systemd-tmpfiles":
        run(program, "--create", str(ROOT / "config/tmpfiles.d/srb.conf"))
        home, uid, gid = tmp_path / user[5].lstrip("/"), int(user[2]), int(user[3])
        assert (home.stat().st_uid, home.stat().st_gid, home.stat().st_mode & 0o777) == (uid, gid, 0o700)
        assert (keys.stat().st_mode & 0o777, keys.stat().st_uid, keys.stat().st_gid) == (0o640, 0, gid)
        folders = [tmp_path / Path(path).relative_to("/") for path in ("/opt/srb", "/etc/srb", "/srv/models")]
        assert [(each.stat().st_uid, each.stat().st_mode & 0o777) for each in folders] == [(0, 0o755)] * 3


def test_the_service_may_write_nothing_that_root_runs() -> None:
    """Root runs pip below /opt/srb: a folder of the service's there would make its user root."""
    programs = {shlex.split(line)[0] for unit in UNITS.glob("*.service") for line in values(unit.name, "ExecStart")}
    assert {word for word in programs if not word.startswith("/bin/")} <= {
        "/opt/srb/.venv/bin/srb",
        "/opt/srb/.venv/bin/python",
    }
    for unit in UNITS.glob("*.service"):
        assert values(unit.name, "ProtectSystem") == ["strict"], unit.name
        assert "ReadWritePaths" not in unit.read_text(), unit.name
    owned = [line for line in COMMANDS if re.search(r" -[og] srb |chown", line)]
    owned += [line for line in (ROOT / "config/tmpfiles.d/srb.conf").read_text().splitlines() if " srb  srb " in line]
    owned += [line for line in COMMANDS if line.startswith("useradd ")]
    owned += (ROOT / "config/sysusers.d/srb.conf").read_text().splitlines()[1:]
    assert len(owned) > 4
    assert [line for line in owned if "/opt" in line or "--create-home" in line] == []


def test_what_root_installs_can_be_read_by_the_service_whatever_roots_umask_is() -> None:
    for block in re.findall(r"```sh\n(.*?)```", DEPLOY, re.DOTALL):
        lines = block.splitlines()
        made = [number for number, line in enumerate(lines) if re.search(r"-m venv /|bin/pip install", line)]
        if made:
            assert any(line.split(" #")[0].strip() == "umask 022" for line in lines[: made[0]]), block
    files = [shlex.split(line, comments=True) for line in COMMANDS if line.startswith("install ") and "config/" in line]
    assert len(files) > 5
    assert [words for words in files if "-m" not in words] == []


def test_a_wrong_setting_and_a_wrong_model_are_not_tried_again() -> None:
    for unit, statuses in (("srb.service", {EXIT_CONFIG, EXIT_MODEL}), ("srb-web.service", {EXIT_CONFIG})):
        assert {int(word) for word in values(unit, "RestartPreventExitStatus")[0].split()} == statuses


def test_the_keys_are_in_a_file_that_a_reload_reads_again() -> None:
    """systemd's credentials are copied when a service starts, so a key that was removed would stay valid."""
    assert not any("LoadCredential" in path.read_text() for path in UNITS.rglob("*") if path.is_file())
    [named] = re.findall(r'^api_key_file = "(.+)"$', DEPLOY, re.MULTILINE)
    [made] = [shlex.split(line) for line in COMMANDS if line.startswith("install") and line.endswith(named)]
    assert made[made.index("-g") + 1] == values("srb.service", "User")[0]
    assert int(made[made.index("-m") + 1], 8) == 0o640
    assert values("srb-engine.service", "InaccessiblePaths") == [f"-{named}"]


def test_a_new_version_takes_the_place_of_one_with_the_same_number() -> None:
    section = DEPLOY.partition("### A new version")[2].partition("\n## ")[0]
    commands = re.search(r"```sh\n(.*?)```", section, re.DOTALL)
    assert commands is not None
    lines = commands[1].splitlines()
    steps = [
        "umask 022",
        "systemctl start srb-backup",
        "git pull",
        "make wheels",
        " install --no-index --find-links dist --force-reinstall llama-srb",
        "systemctl restart",
    ]
    assert [next(step in line for line in lines[at:]) for at, step in enumerate(steps)] == [True] * len(steps)


def test_the_backup_is_made_as_the_unit_has_it_and_old_ones_are_removed(tmp_path: Path) -> None:
    stories, copies = tmp_path / "stories.sqlite3", tmp_path / "copies"
    copies.mkdir()
    store = Store(stories)
    store.post("one", read_post(b'{"meta": {"title": {"value": "A", "changed": 1}}}'))
    store.close()
    old, recent, other = copies / "stories-old.sqlite3", copies / "stories-recent.sqlite3", copies / "notes"
    checked = copies / "stories-old.sqlite3-checked"  # of `srb stories check`
    for path, days in ((old, 40), (checked, 40), (recent, 20), (other, 40)):
        path.touch()
        os.utime(path, (path.stat().st_atime, path.stat().st_mtime - days * DAY))
    for setting in ("ExecStart", "ExecStartPost"):
        [line] = values("srb-backup.service", setting)
        line = line.replace("$$", "$").replace("%%", "%").replace("/var/lib/srb-backups", str(copies))
        line = line.replace("/var/lib/srb/stories.sqlite3", str(stories))
        line = line.replace("/opt/srb/.venv/bin/srb", f"{sys.executable} -m srb.cli.main")
        subprocess.run(shlex.split(line), cwd=copies, env=clean_environ() | {"PYTHONPATH": str(ROOT)}, check=True)
    assert not old.exists()
    assert not checked.exists()
    assert recent.exists()
    assert other.exists()
    [made] = [path for path in copies.iterdir() if path not in (recent, other)]
    assert re.fullmatch(r"stories-\d{4}-\d\d-\d\d-\d{6}\.sqlite3", made.name)
    assert Store(made).ids() == ["one"]


def test_the_backup_runs_as_the_server_does_in_folders_that_systemd_makes() -> None:
    assert values("srb-backup.service", "User") == values("srb.service", "User")
    assert values("srb-backup.service", "StateDirectory") == ["srb srb-backups"]
    assert "/var/lib/srb-backups" in DEPLOY
