"""llama-server's dialect, as it is registered."""

from srb.web.dialect import Dialect
from srb.web.dialects.llamacpp import completions, embeddings, server, tokens
from srb.web.dialects.openai import chat
from srb.web.dialects.openai.frame import openai_error

DIALECT = Dialect(
    "llama-server's completions, tokens, embeddings, rankings and slots",
    (completions.routes, tokens.routes, embeddings.routes, server.routes, server.adapters, chat.templates),
    {"/v1/embeddings": openai_error},
    documents="https://github.com/ggml-org/llama.cpp/tree/master/tools/server",
)
