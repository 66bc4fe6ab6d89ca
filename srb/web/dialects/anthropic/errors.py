"""Errors in the form of Anthropic's API, with its types; `code` and further keys are as in the other dialects."""

from srb.errors import ContextExceeded, SRBError
from srb.web.answers import JSONObject

_TYPES = {
    401: "authentication_error", 403: "permission_error", 404: "not_found_error", 413: "request_too_large",
    429: "rate_limit_error", 501: "invalid_request_error", 503: "overloaded_error",
}  # fmt: skip


def anthropic_error(error: SRBError) -> JSONObject:
    """Return the body of an error's answer, and the data of its event in a stream.

    Claude Code knows by the words of the message that a conversation has become too long.
    """
    status = error.http_status
    kind = _TYPES.get(status) or ("invalid_request_error" if status < 500 else "api_error")
    message = error.message
    if isinstance(error, ContextExceeded) and {"n_prompt_tokens", "n_ctx"} <= error.extra.keys():
        message = f"prompt is too long: {error.extra['n_prompt_tokens']} tokens > {error.extra['n_ctx']} maximum"
    return {"type": "error", "error": {**error.body()["error"], "type": kind, "message": message}}
