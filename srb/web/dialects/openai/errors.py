"""Errors of OpenAI's routes, typed as OpenAI's description has them: clients that were made from it take no others."""

from srb.errors import ContextExceeded, RateLimited, SRBError, Unauthorized
from srb.web.answers import JSONObject

_WORDS: dict[type[SRBError], str] = {  # OpenAI's for what it has, too
    ContextExceeded: "context_length_exceeded",
    RateLimited: "rate_limit_exceeded",
    Unauthorized: "invalid_api_key",
}


def openai_error(error: SRBError) -> JSONObject:
    """Return an error whose `code` is a word, and whose `param` is null if no field is at fault."""
    said = error.body()["error"]
    return {"error": {**said, "code": _WORDS.get(type(error), error.code), "param": said.get("param")}}
