"""Places that `srb doctor` tries: each that a server could not use is told, and none is changed by the attempt."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from srb.config.settings import Settings
from srb.doctor.places import Obstacle, obstacles
from tests.servers import free_port


def tried(folder: Path, **settings: object) -> tuple[Obstacle, ...]:
    """Return the obstacles of a server that would be fine in this folder but for these settings."""
    own = {"port": free_port(), "runtime_dir": str(folder / "run"), "stories": str(folder / "stories.sqlite3")}
    return obstacles(Settings(**{**own, **settings}))


def only(found: tuple[Obstacle, ...]) -> str:
    [obstacle] = found
    assert not obstacle.is_ours
    return obstacle.text


def test_a_server_that_would_start_has_none_and_nothing_is_left_behind(tmp_path: Path) -> None:
    deep = tmp_path / "not" / "yet"
    places = {
        "state_dir": str(deep / "states"),
        "cache_disk": str(deep / "texts"),
        "stories": str(deep / "data" / "s.sqlite3"),
        "log_file": str(tmp_path / "x.log"),
    }
    assert tried(deep, **places, host=f"127.0.0.1,::1,localhost,{tmp_path / 'srb.sock'}") == ()
    assert list(tmp_path.iterdir()) == []


def test_files_that_are_there_stay_as_they_are(tmp_path: Path) -> None:
    files = {tmp_path / "stories.sqlite3": b"SQLite format 3\0", tmp_path / "srb.log": b"a line\n"}
    for path, data in files.items():
        path.write_bytes(data)
    times = [path.stat().st_mtime_ns for path in files]
    (tmp_path / "run").mkdir(mode=0o700)
    assert tried(tmp_path, log_file=str(tmp_path / "srb.log")) == ()
    assert {path: path.read_bytes() for path in files} == files
    assert [path.stat().st_mtime_ns for path in files] == times
    assert (tmp_path / "run").is_dir()


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_a_port_that_another_program_has_is_told(tmp_path: Path, host: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert f"port {port} is already in use (on {host};" in only(tried(tmp_path, host=host, port=port))


def test_a_host_that_is_none_is_told(tmp_path: Path) -> None:
    assert "host no-such-host.invalid: " in only(tried(tmp_path, host="no-such-host.invalid"))
    assert "cannot be used: Cannot assign requested address" in only(tried(tmp_path, host="192.0.2.1"))


@pytest.mark.parametrize("name", ["runtime_dir", "state_dir", "cache_disk", "stories", "log_file"])
@pytest.mark.parametrize("place", ["/proc/x", "/proc/x/y/z", "/dev/null/x"])
def test_a_place_where_nobody_can_write_is_told_with_its_setting(tmp_path: Path, name: str, place: str) -> None:
    assert only(tried(tmp_path, **{name: place})).startswith(f"{name}: ")
    assert list(tmp_path.iterdir()) == []


def test_a_runtime_dir_that_the_server_would_refuse_is_told(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    assert "is writable by other users" in only(tried(tmp_path, runtime_dir=str(tmp_path / "open")))
    assert "is too long" in only(tried(tmp_path, runtime_dir=str(tmp_path / ("x" * 200))))


def test_a_folder_in_the_place_of_a_file_is_told(tmp_path: Path) -> None:
    assert "stories: " in only(tried(tmp_path, stories=str(tmp_path)))
    assert "log_file: " in only(tried(tmp_path, log_file=str(tmp_path)))


def test_a_sockets_place_is_tried(tmp_path: Path) -> None:
    (tmp_path / "file.sock").write_text("")
    assert "is there, and is no socket" in only(tried(tmp_path, host=str(tmp_path / "file.sock")))
    assert only(tried(tmp_path, host="/nowhere/srb.sock")).startswith("host: /nowhere/srb.sock cannot be written")


def test_the_engines_own_unit_has_the_runtime_dir(tmp_path: Path) -> None:
    assert tried(tmp_path, runtime_dir="/proc/x", engine_managed=False) == ()
