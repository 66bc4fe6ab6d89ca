"""Errors as Ollama's clients read them, before a stream and within it."""

from __future__ import annotations

from srb.errors import SRBError
from srb.web.dialects.ollama.answers import OllamaError


def ollama_error(error: SRBError) -> OllamaError:
    return {"error": error.message}
