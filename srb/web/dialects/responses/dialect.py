"""The dialect of OpenAI's Responses, as it is registered."""

from srb.web.dialect import Dialect
from srb.web.dialects.openai.frame import openai_error
from srb.web.dialects.responses.routes import routes

DIALECT = Dialect(
    "OpenAI's Responses",
    (routes,),
    dict.fromkeys(("/v1/responses", "/responses"), openai_error),
    documents="https://platform.openai.com/docs/api-reference/responses",
)
