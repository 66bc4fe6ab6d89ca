"""Errors as Ollama's clients read them, before a stream and within it."""

from srb.errors import SRBError
from srb.web.answers import JSONObject


def ollama_error(error: SRBError) -> JSONObject:
    return {"error": error.message}
