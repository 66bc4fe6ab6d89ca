"""KoboldAI's and KoboldCpp's dialect, as it is registered."""

from srb.errors import SRBError
from srb.web.answers import JSONObject
from srb.web.dialect import Dialect
from srb.web.dialects.kobold import routes, server


def kobold_error(error: SRBError) -> JSONObject:
    return {"detail": {"msg": error.message, "type": error.type}}


DIALECT = Dialect(
    "KoboldAI's and KoboldCpp's completions",
    (routes.routes, server.routes),
    dict.fromkeys(("/api/v1/", "/api/latest/", "/api/extra/"), kobold_error),
    documents="https://lite.koboldai.net/koboldcpp_api",
)
