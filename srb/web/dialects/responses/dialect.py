"""The dialect of OpenAI's Responses, as it is registered."""

from srb.web.dialect import Dialect
from srb.web.dialects.responses.routes import routes

DIALECT = Dialect("OpenAI's Responses", (routes,), documents="https://platform.openai.com/docs/api-reference/responses")
