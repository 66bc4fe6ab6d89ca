"""The messages between web workers and the supervisor of several models: frames of JSON on a socket in the runtime folder.

A worker wishes for a model with `Want`, and holds it from `Granted` until `Leave`; its connection's end leaves them all.
"""

from dataclasses import astuple, dataclass, fields
from typing import Any

import orjson

from srb.errors import ProtocolError
from srb.wire.framing import MAX_FRAME

CONTROL_SOCKET = "models.sock"  # in the runtime folder
MAX_CONTROL_FRAME = MAX_FRAME  # bytes; `Models` has the own settings of all models, chat templates among them


@dataclass(frozen=True, slots=True)
class Want:
    """Load a model if it is not, and hold it for one call; answered with Granted or Refused."""

    id: str
    model: str


@dataclass(frozen=True, slots=True)
class Leave:
    """Take back a wish, or hold a model no longer; not answered."""

    id: str


@dataclass(frozen=True, slots=True)
class Load:
    """Load a model in its turn; answered with Done or Refused at once."""

    id: str
    model: str


@dataclass(frozen=True, slots=True)
class Unload:
    """Unload a model when its running requests have ended; answered with Done or Refused at once."""

    id: str
    model: str


@dataclass(frozen=True, slots=True)
class Look:
    """Read the folder of models again; answered with Models, then Done or Refused."""

    id: str


@dataclass(frozen=True, slots=True)
class Granted:
    id: str


@dataclass(frozen=True, slots=True)
class Done:
    id: str


@dataclass(frozen=True, slots=True)
class Refused:
    """The refusal of a command: an error's code and message."""

    id: str
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Models:
    """All models and their states, sent at the beginning and after each change."""

    server_id: str
    default: str
    models: list[dict[str, Any]]  # the fields of ModelState


@dataclass(frozen=True, slots=True)
class ModelState:
    """One model as the supervisor knows it."""

    name: str
    model: str  # its value of the setting `model`
    own: dict[str, Any]  # its own settings
    state: str  # of srb.models.scheduler.State
    reason: str  # why it failed
    waiting: int  # calls that wait for it
    running: int  # calls that hold it
    loads: int  # how often it was loaded


Command = Want | Leave | Load | Unload | Look
Event = Granted | Done | Refused | Models

_COMMANDS: dict[str, type] = {kind.__name__: kind for kind in (Want, Leave, Load, Unload, Look)}
_EVENTS: dict[str, type] = {kind.__name__: kind for kind in (Granted, Done, Refused, Models)}


def encode(message: Command | Event) -> bytes:
    """Return one message as the payload of a frame."""
    return orjson.dumps([type(message).__name__, *astuple(message)])


def decode_command(payload: bytes) -> Command:
    """Return a worker's message; raise ProtocolError for anything else."""
    command: Command = _decode(payload, _COMMANDS)
    return command


def decode_event(payload: bytes) -> Event:
    """Return the supervisor's message; raise ProtocolError for anything else."""
    event: Event = _decode(payload, _EVENTS)
    return event


def _decode(payload: bytes, kinds: dict[str, type]) -> Any:
    try:
        name, *values = orjson.loads(payload)
        kind = kinds[name]
        message = kind(*values)
    except (ValueError, TypeError, KeyError) as error:
        raise ProtocolError(f"a malformed message about models: {error}") from None
    for each in fields(kind):
        if each.type is str and not isinstance(getattr(message, each.name), str):
            raise ProtocolError(f"{name}.{each.name} is no text")
    return message
