"""OpenAI's dialect, as it is registered."""

from srb.web.dialect import Dialect
from srb.web.dialects.openai import chat, chat_control, completions

DIALECT = Dialect(
    "OpenAI's completions and chat completions",
    (completions.routes, chat.routes, chat_control.routes),
    documents="https://platform.openai.com/docs/api-reference",
)
