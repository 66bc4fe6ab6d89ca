"""systemd: its units agree with the settings, and what is said to it arrives or is dropped."""

from __future__ import annotations

import argparse
import configparser
import os
import re
from pathlib import Path

import pytest

from srb.cli import replica
from srb.config.settings import Settings
from srb.exit_codes import EXIT_CONFIG, EXIT_MODEL
from srb.host import systemd
from tests.processes import ROOT, NoticeListener

UNITS = ROOT / "config" / "systemd"
BACKUP = UNITS / "srb-backup.service"
REPLICA = UNITS / "srb-replica.service"
SERVERS = sorted(set(UNITS.glob("*.service")) - {BACKUP, REPLICA})


def read(unit: Path) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(unit)
    return parser


@pytest.fixture(params=SERVERS, ids=lambda path: path.name)
def service(request: pytest.FixtureRequest) -> configparser.SectionProxy:
    return read(request.param)["Service"]


def test_units_use_settings_that_exist_and_agree_on_their_folders(service: configparser.SectionProxy) -> None:
    environ = dict(word.split("=", 1) for word in service["Environment"].replace("\\\n", " ").split())
    environ.pop("SRB_CONFIG")
    settings = Settings.load({}, environ)
    assert settings.runtime_path == Path("/run/srb")
    assert settings.state_dir == "/var/lib/srb"
    if "srb serve" in service["ExecStart"]:
        assert settings.stories_place == Path("/var/lib/srb/stories.sqlite3")
    assert (service["StateDirectory"], service["StateDirectoryMode"]) == ("srb", "0700")
    if "ENGINE_MANAGED=false" not in service["Environment"]:
        assert settings.texts_path == Path("/var/cache/srb/texts")
        assert (service["CacheDirectory"], service["CacheDirectoryMode"]) == ("srb", "0700")


def test_units_let_streams_end_and_the_engine_load(service: configparser.SectionProxy) -> None:
    settings = Settings()
    if "srb serve" in service["ExecStart"]:
        assert service["KillMode"] == "mixed"
        has_engine = "ENGINE_MANAGED=false" not in service["Environment"]  # which writes states after the streams
        assert int(service["TimeoutStopSec"]) > (1 + has_engine) * settings.graceful_timeout + 10
    else:
        assert int(service["TimeoutStopSec"]) > settings.graceful_timeout + 10
        assert service["TimeoutStartSec"] == "1h"
        assert int(service["WatchdogSec"]) > 0


def test_the_backup_reads_the_stories_that_the_server_keeps_and_writes_beside_them() -> None:
    unit, server = read(BACKUP), read(UNITS / "srb.service")["Service"]
    [stories] = re.findall(r"SRB_STORIES=(\S+)", server["Environment"])
    assert unit["Unit"]["ConditionPathExists"] == stories
    assert f"srb stories --file {stories} " in unit["Service"]["ExecStart"]
    state, backups = (Path("/var/lib") / name for name in unit["Service"]["StateDirectory"].split())
    assert state == Path(stories).parent
    assert unit["Service"]["WorkingDirectory"] == str(backups)
    assert f" {backups} " in unit["Service"]["ExecStartPost"]
    assert unit["Service"]["User"] == server["User"]
    assert BACKUP.with_suffix(".timer").exists(), "a timer starts the unit of its name"


def test_the_unit_of_a_replica_waits_for_the_model_and_for_the_drain() -> None:
    service = read(REPLICA)["Service"]
    environ = dict(word.split("=", 1) for word in service["Environment"].split())
    _, command, *words = service["ExecStart"].replace("${DOOR}", environ.pop("DOOR")).split()
    assert (command, environ.keys()) == ("replica", {"SRB_CONFIG", "SRB_CACHE_DISK"})
    parser = argparse.ArgumentParser(exit_on_error=False)
    replica.add_options(parser)
    asked = parser.parse_args(words)
    assert int(service["TimeoutStopSec"]) > asked.drain_seconds + Settings().state_seconds + 10
    assert (service["Type"], service["KillMode"], service["TimeoutStartSec"]) == ("notify", "mixed", "1h")
    assert service["RestartPreventExitStatus"].split() == [str(EXIT_CONFIG), str(EXIT_MODEL)]
    assert "AF_INET" in service["RestrictAddressFamilies"].split()
    assert "PrivateNetwork" not in service


def test_the_socket_unit_listens_where_the_settings_say() -> None:
    settings = Settings()
    text = (UNITS / "srb-web.socket").read_text()
    assert f"\nListenStream={settings.host}:{settings.port}\n" in text


def test_a_notification_without_a_listener_is_dropped_and_the_next_one_arrives(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    systemd.notify("STATUS=for nobody")
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "nobody"))
    systemd.notify("STATUS=to a place where nobody listens")
    listener = NoticeListener(str(tmp_path / "notify"))
    with listener.sock:
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        systemd.notify("READY=1")
        assert listener.until("READY=1") == ["READY=1"]


def test_a_status_is_one_line_and_a_name_may_have_no_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    listener = NoticeListener(f"\0srb-{os.getpid()}-{tmp_path.name}")
    with listener.sock:
        monkeypatch.setenv("NOTIFY_SOCKET", f"@srb-{os.getpid()}-{tmp_path.name}")
        systemd.notify("STATUS=two\nREADY=1", "STOPPING=1")
        assert listener.until("STOPPING=1") == ["STATUS=two READY=1", "STOPPING=1"]


@pytest.mark.parametrize(
    ("microseconds", "pid", "seconds"),
    [("", None, None), ("0", None, None), ("-3", None, None), ("1500000", None, 1.5), ("1500000", "me", 1.5),
     ("1500000", "1", None)],
)  # fmt: skip
def test_the_watchdogs_variables_count_for_one_process(
    monkeypatch: pytest.MonkeyPatch, microseconds: str, pid: str | None, seconds: float | None
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", microseconds)
    monkeypatch.delenv("WATCHDOG_PID", raising=False)
    if pid is not None:
        monkeypatch.setenv("WATCHDOG_PID", str(os.getpid()) if pid == "me" else pid)
    assert systemd.watchdog_seconds() == seconds
