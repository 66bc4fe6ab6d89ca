"""One tree of errors: each class says whose fault it was, with a code, a type and an HTTP status.

The JSON body is `{"error": {"code", "message", "type"}}` with llama-server's types (and the extra keys that an error
carries); `slug` is the word that a stream's error event uses, since there the status line has already been sent.
"""

from __future__ import annotations

from typing import Any, ClassVar


class SRBError(Exception):
    """Base of every error that a client may see."""

    slug: ClassVar[str] = "internal_error"
    type: ClassVar[str] = "server_error"
    http_status: ClassVar[int] = 500
    retry_after: int | None = None  # seconds

    def __init__(self, message: str, **extra: Any) -> None:
        """Keep `message` for people and `extra` (JSON values) as further keys of the error object."""
        super().__init__(message)
        self.message = message
        self.extra = extra

    def body(self) -> dict[str, Any]:
        """Return the JSON body of a response that carries this error."""
        return {"error": {"code": self.http_status, "message": self.message, "type": self.type, **self.extra}}


class InvalidRequest(SRBError):
    """The request is wrong; `param`, where given, names the field at fault."""

    slug, type, http_status = "invalid_request", "invalid_request_error", 400


def bad_field(name: str, problem: str) -> InvalidRequest:
    """Say in one form, here and in the engine, which field of a request is wrong and why."""
    return InvalidRequest(f"Field '{name}': {problem}", param=name)


class ContextExceeded(InvalidRequest):
    """The prompt alone does not fit; carries `n_prompt_tokens` and `n_ctx`."""

    slug, type = "context_exceeded", "exceed_context_size_error"


class Unauthorized(SRBError):
    slug, type, http_status = "unauthorized", "authentication_error", 401


class Forbidden(SRBError):
    slug, type, http_status = "forbidden", "permission_error", 403


class Cancelled(SRBError):
    """The client has left or the request was cancelled; nobody reads the answer (the status is nginx's)."""

    slug, type, http_status = "cancelled", "cancelled_error", 499


class NotFound(SRBError):
    slug, type, http_status = "not_found", "not_found_error", 404


class MethodNotAllowed(InvalidRequest):
    slug, http_status = "method_not_allowed", 405


class BodyTooSlow(InvalidRequest):
    slug, http_status = "body_too_slow", 408


class BodyTooLarge(InvalidRequest):
    slug, http_status = "body_too_large", 413


class QueueFull(SRBError):
    slug, type, http_status, retry_after = "queue_full", "rate_limit_error", 429, 1


class RateLimited(SRBError):
    """This client has sent too many requests, or has too many open."""

    slug, type, http_status = "rate_limited", "rate_limit_error", 429

    def __init__(self, message: str, retry_after: int = 1) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class SlowClient(SRBError):
    """The client reads more slowly than text is written, or not at all."""

    slug, type, http_status = "slow_client", "cancelled_error", 499


class NotSupported(SRBError):
    slug, type, http_status = "not_supported", "not_supported_error", 501


class Unavailable(SRBError):
    """The server cannot answer now but will later: loading, restarting or shutting down."""

    slug, type, http_status = "unavailable", "unavailable_error", 503
    retry_after: int | None = 1


class QueueTimeout(Unavailable):
    """The request waited for room as long as a request may."""

    slug, retry_after = "queue_timeout", 5


class EngineLoading(Unavailable):
    slug = "loading"


class EngineRestarted(Unavailable):
    slug = "engine_restarted"


class EngineHung(Unavailable):
    """The engine does not get on; its supervisor is about to start another."""

    slug = "engine_hung"


class ShuttingDown(Unavailable):
    slug = "shutting_down"


class ModelLoadFailed(Unavailable):
    slug, retry_after = "model_load_failed", None


class DecodeFailed(SRBError):
    """llama.cpp could not compute a step that this request was part of."""

    slug = "decode_failed"


class GrammarDeadEnd(SRBError):
    """The grammar allows no further token for this branch."""

    slug, type, http_status = "grammar_dead_end", "invalid_request_error", 400


class ProtocolError(SRBError):
    """A frame on the engine's socket was not understood; the connection that sent it is closed."""

    slug = "protocol_error"


class ConfigError(SRBError):
    """A setting is unknown or has a bad value; fatal at start."""

    slug = "config_error"


def _tree(cls: type[SRBError]) -> dict[str, type[SRBError]]:
    found = {cls.slug: cls}
    for sub in cls.__subclasses__():
        found.update(_tree(sub))
    return found


_BY_SLUG = _tree(SRBError)


def from_slug(slug: str, message: str, extra: dict[str, Any] | None = None) -> SRBError:
    """Rebuild an error that crossed the engine's socket; an unknown `slug` becomes a plain SRBError."""
    return _BY_SLUG.get(slug, SRBError)(message, **(extra or {}))
