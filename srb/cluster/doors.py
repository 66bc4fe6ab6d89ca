"""The list of doors of replicas without Ray: a TOML file, or the addresses of a DNS name. Reads files, asks no network."""

import hashlib
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from srb.config.settings import Settings, explain
from srb.errors import ConfigError
from srb.reasons import reason_of

_DNS = "dns:"
_LEAST_SECRET = 16  # characters
# Built at the first use: a pattern with so many letters takes 20 ms, and most servers have no doors.
_STRICT = ConfigDict(extra="forbid", strict=True, defer_build=True)
_NO_SECRET = "door_token_file is missing: the secret that replicas and web machines share"


@dataclass(frozen=True, slots=True)
class DoorAddress:
    """The host and port of a door, and its token."""

    host: str
    port: int
    token: str

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class _Listed(BaseModel):
    """One door of the file."""

    model_config = _STRICT

    name: Annotated[str, Field(pattern=r"^[\w.-]{1,64}$")]
    host: Annotated[str, Field(pattern=r"^[\w.:%-]+$")]
    port: Annotated[int, Field(gt=0, lt=65536)]


class _File(BaseModel):
    """The file: its doors, and the file of their secret, if that is not a setting."""

    model_config = _STRICT

    token_file: str = ""
    doors: list[_Listed] = []


def dns_name(settings: Settings) -> tuple[str, int] | None:
    """Return the name and the port, if the replicas are found by DNS."""
    if not settings.replicas.startswith(_DNS):
        return None
    name, _, port = settings.replicas.removeprefix(_DNS).rpartition(":")
    return name, int(port)


def read_token(settings: Settings, file: str = "") -> str:
    """Return the token of the doors, from the secret in `file`, or in that of the settings. Raise ConfigError."""
    path = file or settings.door_token_file
    if not path:
        raise ConfigError(_NO_SECRET)
    secret = _read(path, "door_token_file").decode("utf-8", "replace").strip()
    if len(secret) < _LEAST_SECRET:
        raise ConfigError(f"{path}: a secret of the doors has at least {_LEAST_SECRET} characters, not {len(secret)}")
    return hashlib.sha256(secret.encode()).hexdigest()  # a door's token has one length, a secret any


def read_doors(settings: Settings) -> dict[str, DoorAddress]:
    """Return the doors of the file by their names. Raise ConfigError, which says what is missing."""
    path = settings.replicas
    try:
        file = _File.model_validate(tomllib.loads(_read(path, "replicas").decode()))
    except ValidationError as error:
        raise ConfigError(f"replicas: {path}: {explain(error, {})}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"replicas: {path} is not valid TOML: {error}") from None
    names = [door.name for door in file.doors]
    if twice := {name for name in names if names.count(name) > 1}:
        raise ConfigError(f"replicas: {path}: two doors have the name {min(twice)}")
    own = str(Path(path).parent / file.token_file) if file.token_file else ""
    token = read_token(settings, own)
    return {door.name: DoorAddress(door.host, door.port, token) for door in file.doors}


def check_doors(settings: Settings) -> None:
    """Raise ConfigError for a list that cannot be read, or a secret that is missing."""
    if dns_name(settings) is None:
        read_doors(settings)
    else:
        read_token(settings)


def _read(path: str, setting: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(f"{setting}: cannot read {path}: {reason_of(error, path)}") from None
