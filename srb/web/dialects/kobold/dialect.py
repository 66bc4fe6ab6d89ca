"""KoboldAI's and KoboldCpp's dialect, as it is registered."""

from srb.web.dialect import Dialect
from srb.web.dialects.kobold import routes, server
from srb.web.dialects.kobold.errors import kobold_error

DIALECT = Dialect(
    "KoboldAI's and KoboldCpp's completions",
    (routes.routes, server.routes),
    dict.fromkeys(("/api/v1/", "/api/latest/", "/api/extra/"), kobold_error),
    documents="https://lite.koboldai.net/koboldcpp_api",
)
