"""Ollama's dialect, as it is registered."""

from srb.web.dialect import Dialect
from srb.web.dialects.ollama import routes, server
from srb.web.dialects.ollama.render import ollama_error

DIALECT = Dialect(
    "Ollama's chats, completions, embeddings and models",
    (routes.routes, server.routes),
    {"/api/": ollama_error},  # KoboldCpp's beginnings are longer
    documents="https://github.com/ollama/ollama/blob/main/docs/api.md",
)
