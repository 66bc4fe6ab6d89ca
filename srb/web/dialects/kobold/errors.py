"""Errors as KoboldAI's and KoboldCpp's clients read them."""

from srb.errors import SRBError
from srb.web.answers import JSONObject


def kobold_error(error: SRBError) -> JSONObject:
    return {"detail": {"msg": error.message, "type": error.type}}
