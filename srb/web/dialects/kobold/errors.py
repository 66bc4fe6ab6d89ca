"""Errors as KoboldAI's and KoboldCpp's clients read them."""

from __future__ import annotations

from srb.errors import SRBError
from srb.web.dialects.kobold.answers import KoboldError


def kobold_error(error: SRBError) -> KoboldError:
    return {"detail": {"msg": error.message, "type": error.type}}
