"""Anthropic's dialect, as it is registered."""

from srb.web.dialect import Dialect
from srb.web.dialects.anthropic.render import anthropic_error
from srb.web.dialects.anthropic.routes import routes

DIALECT = Dialect(
    "Anthropic's Messages",
    (routes,),
    {"/v1/messages": anthropic_error},
    documents="https://docs.anthropic.com/en/api/messages",
)
