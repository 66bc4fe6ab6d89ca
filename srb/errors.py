"""Errors that clients may see, one class per cause, each with a code, a type and an HTTP status.

The JSON body is `{"error": {"code", "message", "type", …}}` with the HTTP status as `code` and llama-server's types. The
class attribute `code` is a word; error events of a stream carry it, since a stream's status line is sent before them.
"""

import errno
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)


class SRBError(Exception):
    """Base of every error that a client may see."""

    code: ClassVar[str] = "internal_error"  # of a subclass: its name with underscores, unless it has another one
    type: ClassVar[str] = "server_error"
    http_status: ClassVar[int] = 500
    retry_after: int | None = None  # seconds

    def __init_subclass__(cls) -> None:
        cls.code = cls.__dict__.get("code") or re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()

    def __init__(self, message: str, **extra: Any) -> None:
        """Keep the message, and `extra` (JSON values) as further keys of the error object."""
        super().__init__(message)
        self.message = message
        self.extra = extra

    def body(self) -> dict[str, Any]:
        """Return the JSON body of this error's response."""
        return {"error": {"code": self.http_status, "message": self.message, "type": self.type, **self.extra}}


class InvalidRequest(SRBError):
    """The request is wrong; the key `param` names the field at fault, if one is."""

    type, http_status = "invalid_request_error", 400


def bad_field(name: str, problem: str) -> InvalidRequest:
    """Return the error for a wrong field of a request; `problem` follows the field's name in the message."""
    return InvalidRequest(f"Field '{name}': {problem}", param=name)


@contextmanager
def in_field(name: str) -> Iterator[None]:
    """Let a ValueError of the block be the error for a field of a request."""
    try:
        yield
    except ValueError as error:
        raise bad_field(name, str(error)) from None


class ContextExceeded(InvalidRequest):
    """The prompt alone exceeds the context; carries `n_prompt_tokens` and `n_ctx`."""

    type = "exceed_context_size_error"


class AnswerTooLarge(InvalidRequest):
    """The answer needs more memory than eight times max_body_bytes."""


class PreparationTooLong(InvalidRequest):
    """The request's preparation does not end, so the engine is restarted; no 503, which clients send again by themselves."""


class Unauthorized(SRBError):
    type, http_status = "authentication_error", 401


class Forbidden(SRBError):
    type, http_status = "permission_error", 403


class Cancelled(SRBError):
    """The client has disconnected, or the request was cancelled; 499 is nginx's status for this."""

    type, http_status = "cancelled_error", 499


class NotFound(SRBError):
    type, http_status = "not_found_error", 404


class ModelNotFound(NotFound):
    """A request names a model that the list of several models lacks."""


class Conflict(SRBError):
    """A control of a running request that its present state does not allow; carries `state`."""

    type, http_status = "invalid_request_error", 409


class MethodNotAllowed(InvalidRequest):
    http_status = 405


class BodyTooSlow(InvalidRequest):
    http_status = 408


class BodyTooLarge(InvalidRequest):
    http_status = 413


class UnsupportedMedia(InvalidRequest):
    """The body has another Content-Type than the route takes."""

    http_status = 415


class UnsupportedEncoding(InvalidRequest):
    """The body has a Content-Encoding that the server does not decode."""

    http_status = 415


class StoryTooLarge(BodyTooLarge):
    """A story would exceed the limits of one story."""


class QueueFull(SRBError):
    """No place is left for the client in the queue; carries `retry_after`, the seconds that it is long, where known."""

    type, http_status = "rate_limit_error", 429

    def __init__(self, message: str, retry_after: int | None = None) -> None:
        super().__init__(message, **({} if retry_after is None else {"retry_after": retry_after}))
        self.retry_after = 1 if retry_after is None else retry_after


class RateLimited(SRBError):
    """The client has sent too many requests, or has too many open."""

    type, http_status = "rate_limit_error", 429

    def __init__(self, message: str, retry_after: int = 1) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class SlowClient(SRBError):
    """The client reads more slowly than text is generated, or not at all."""

    type, http_status = "cancelled_error", 499


class NotSupported(SRBError):
    type, http_status = "not_supported_error", 501


class Unavailable(SRBError):
    """The server cannot answer now, but will later: it is loading, restarting or shutting down."""

    type, http_status = "unavailable_error", 503
    retry_after: int | None = 1


class BodiesFull(Unavailable):
    """The worker receives as many large bodies as it has memory for."""


class QueueTimeout(Unavailable):
    """The request waited in the queue for queue_timeout seconds."""

    retry_after = 5


class EngineLoading(Unavailable):
    """The model is being loaded; carries `engine`, loading or restarting, `model`, its name, and `percent`, once known."""

    code = "loading"


class EngineRestarted(Unavailable): ...


class ForeignEngine(Unavailable):
    """The engine in the runtime folder was started by another server, and may have another model."""

    retry_after = 5


class EngineHung(Unavailable):
    """The engine hangs; its supervisor is about to restart it."""


class ShuttingDown(Unavailable): ...


class ModelLoadFailed(Unavailable):
    retry_after = None


class DecodeFailed(SRBError):
    """llama.cpp failed to compute a step that had tokens of this request."""


class StateNotSaved(SRBError):
    """A named state could not be written; an older state of that name is unchanged."""


class InsufficientStorage(StateNotSaved):
    """The disk is full, or memory, or state_dir_mib is reached."""

    http_status = 507


def not_saved(name: str, error: OSError | None) -> StateNotSaved:
    """Return the error of a state whose file, or a part of whose text, could not be written."""
    kind = InsufficientStorage if error is not None and error.errno in _NO_SPACE else StateNotSaved
    reason = error.strerror if error is not None else "nothing can be written"
    return kind(f"The state {name} was not saved: {reason}; an older one of its name is unchanged")


class StoriesOff(NotFound):
    """The setting `stories` is empty: the server keeps none."""

    type = "stories_off"


class StoriesUnavailable(Unavailable):
    """The stories cannot be used now; the server goes on without it. Pages read `type`."""

    type = "stories_unavailable"
    retry_after: int | None = None


class StoriesReadOnly(StoriesUnavailable):
    """The file of the stories, or its folder, may only be read."""

    type = "stories_read_only"


class StoriesDamaged(StoriesUnavailable):
    """The file of the stories is damaged, or no such file. It is neither read nor changed."""

    type = "stories_damaged"


class StoriesNewer(StoriesUnavailable):
    """The file of the stories was written by a newer version. It is neither read nor changed."""

    type = "stories_newer"


class StoriesLocked(StoriesUnavailable):
    """Another process has been writing into the file of the stories for seconds."""

    type = "stories_locked"
    retry_after = 1


class StoriesAway(StoriesUnavailable):
    """The PostgreSQL database of the stories does not answer; each call tries again."""

    retry_after = 2


class StoriesFull(SRBError):
    """The disk with the file of the stories is full; nothing of the request was stored."""

    type = "stories_full"
    http_status = 507


class GrammarDeadEnd(SRBError):
    """The grammar allows no further token in this branch."""

    type, http_status = "invalid_request_error", 400


class GrammarTooComplex(SRBError):
    """The grammar takes too much work at a place of the text, so the branch ends there."""

    type, http_status = "invalid_request_error", 400


class BannedDeadEnd(SRBError):
    """Every further token that was tried in this branch completes a banned string or pattern."""

    type, http_status = "invalid_request_error", 400


class ProtocolError(SRBError):
    """A frame on the engine's socket is malformed; the connection that sent it is closed."""


class ConfigError(SRBError):
    """A setting is unknown or has a bad value; the server does not start."""


class MachineError(ConfigError):
    """The machine lacks what a setting asks for, such as room on a disk; a later start may find it."""


def _tree(cls: type[SRBError]) -> dict[str, type[SRBError]]:
    found = {cls.code: cls}
    for sub in cls.__subclasses__():
        found.update(_tree(sub))
    return found


_BY_CODE = _tree(SRBError)


def from_code(code: str, message: str, extra: dict[str, Any] | None = None) -> SRBError:
    """Return the error of an event from the engine; an unknown `code` becomes a plain SRBError."""
    return _BY_CODE.get(code, SRBError)(message, **(extra or {}))


@contextmanager
def renamed(names: Mapping[str, str]) -> Iterator[None]:
    """Let errors about a field in `names` name the client's field instead, in `param` and in the message."""
    try:
        yield
    except SRBError as error:
        name = str(error.extra.get("param"))
        if name in names:
            error.extra["param"] = names[name]
            error.message = error.message.replace(f"Field '{name}'", f"Field '{names[name]}'")
            error.args = (error.message,)
        raise
