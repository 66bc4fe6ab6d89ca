"""Places that a server needs: its address, folders and files. Each is tried as the server uses it, and left as it was."""

from __future__ import annotations

import contextlib
import http.client
import os
import ssl
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from srb.config.settings import Settings
from srb.errors import ConfigError, SRBError
from srb.host.listening import CannotListen, reachable, try_to_listen
from srb.process.runtime_folder import make_runtime_dir
from srb.reasons import reason_of
from srb.stories.database import postgresql_of

_SECONDS = 2.0  # for the answer of whoever has the port: SRB's takes milliseconds, another program may never send one
_ANSWER_BYTES = 65536  # /health has a few hundred; a stranger may send without end


@dataclass(frozen=True)
class Obstacle:
    """A place that this user's server could not use, and the change that helps."""

    text: str
    change: str
    is_ours: bool = False  # an SRB server has the address: perhaps the one that is asked about


def obstacles(settings: Settings) -> tuple[Obstacle, ...]:
    """Try all places of a server with these settings, as the user of this process."""
    found = [_address(settings, host) for host in settings.hosts]
    if settings.engine_managed:
        found.append(_tried("runtime_dir", settings.runtime_path, make_runtime_dir))
    if settings.state_dir:
        found.append(_tried("state_dir", Path(settings.state_dir), _write_in_folder))
    if settings.texts_path is not None and settings.cache_disk != "auto":  # else the server runs without
        found.append(_tried("cache_disk", settings.texts_path, _write_in_folder))
    if isinstance(settings.stories_place, str):
        found.append(_database(settings.stories_place))
    elif settings.stories_place is not None:
        found.append(_tried("stories", settings.stories_place, _write_story))
    if settings.log_file:
        found.append(_tried("log_file", Path(settings.log_file), _write_line))
    return tuple(each for each in found if each is not None)


def _address(settings: Settings, host: str) -> Obstacle | None:
    if host.endswith(".sock"):
        return _tried("host", Path(host), _write_beside_socket)
    try:
        try_to_listen(host.strip("[]"), settings.port, reuse_port=settings.reuse_port)
    except CannotListen as error:
        if _is_srb(settings, host.strip("[]")):
            return Obstacle(
                f"{error}; an SRB server answers there", "nothing, if you ask about that server", is_ours=True
            )
        return Obstacle(str(error), "end the program that has the port, or another host or port")
    return None


def _is_srb(settings: Settings, host: str) -> bool:
    """Return whether SRB answers at an address, whoever started it."""
    address = reachable(host)
    connection = http.client.HTTPConnection(address, settings.port, timeout=_SECONDS)
    if settings.ssl_cert_file:  # nothing is sent that a stranger may not read
        unverified = ssl._create_unverified_context()
        connection = http.client.HTTPSConnection(address, settings.port, timeout=_SECONDS, context=unverified)
    with contextlib.closing(connection):
        try:
            connection.request("GET", f"{settings.api_prefix}/health", headers={"Host": "localhost"})
            return b'"version":' in connection.getresponse().read(_ANSWER_BYTES)
        except (OSError, http.client.HTTPException):
            return False


def _tried(setting: str, path: Path, attempt: Callable[[Path], None]) -> Obstacle | None:
    """Return why a place cannot be used, or None; folders that the attempt makes are removed."""
    missing = [each for each in (path, *path.parents) if not os.path.lexists(each)]
    try:
        attempt(path)
    except ConfigError as error:
        text = error.message
    except OSError as error:
        text = f"{setting}: {path} cannot be written: {reason_of(error, path)}"
    else:
        return None
    finally:
        for each in missing:
            with contextlib.suppress(OSError):  # it was not made, or a server has just started in it
                each.rmdir()
    return Obstacle(text, f"{setting} = a place where the server's user may write, or give that user this one")


def _database(address: str) -> Obstacle | None:
    """Return why a PostgreSQL database cannot be reached, or None; no tables are made in it."""
    try:
        postgresql_of(address).try_to_connect()
    except SRBError as error:
        return Obstacle(error.message, "start the database, or another address in the setting stories")
    return None


def _write_in_folder(path: Path) -> None:
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    _make_file_in(path)


def _write_story(path: Path) -> None:
    _write_in_folder(path.parent)  # SQLite's log is beside the file
    if path.exists():
        _append(path)


def _write_line(path: Path) -> None:
    if path.exists():
        _append(path)
    else:
        _make_file_in(path.parent)


def _append(path: Path) -> None:
    with path.open("ab"):
        pass


def _make_file_in(folder: Path) -> None:
    with tempfile.TemporaryFile(dir=folder):
        pass


def _write_beside_socket(path: Path) -> None:
    if path.exists() and not path.is_socket():
        raise ConfigError(f"host: {path} is there, and is no socket")
    _make_file_in(path.parent)
