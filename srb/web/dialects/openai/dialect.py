"""OpenAI's dialect, as it is registered."""

from srb.web.dialect import Dialect
from srb.web.dialects.openai import chat, completions
from srb.web.dialects.openai.frame import openai_error

DIALECT = Dialect(
    "OpenAI's completions and chat completions",
    (completions.routes, chat.routes),
    dict.fromkeys(("/v1/completions", "/v1/chat/completions", "/chat/completions"), openai_error),
    documents="https://platform.openai.com/docs/api-reference",
)
