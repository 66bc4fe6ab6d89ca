"""The route that describes the server to a page: its model, the limits of requests, and the defaults of their fields."""

from dataclasses import asdict
from datetime import date

from flask import Blueprint, Response, request

from srb.config.api_keys import METRICS
from srb.config.settings import Settings
from srb.errors import NotSupported, bad_field
from srb.version import version
from srb.web.bodies.sampling import default_sampling
from srb.web.chat.template import template_source
from srb.web.context import web
from srb.web.dialects.srb.answers import Fill, ServerDescription, SeveralModels, UsageAnswer
from srb.web.limits import CLIENT, NO_KEY, PERSON, SENT_KEY
from srb.web.models.choice import word
from srb.web.openapi import operation
from srb.web.replies import json_reply
from srb.wire.events import ModelInfo

routes = Blueprint("srb_server", __name__)


@routes.get("/v1/srb/usage")
@operation(answer=UsageAnswer, query=("first", "last"), foreign=False)
def usage() -> Response:
    """Tell how many tokens the caller has used on each day of `first` to `last`, and what is left of the key's budgets.

    Keys with the name metrics see those of all.
    """
    counted = web().usage
    if counted is None:
        raise NotSupported("This server does not count tokens: see the setting usage_file")
    first, last = counted.present_month()
    days = {"first": request.args.get("first", first), "last": request.args.get("last", last)}
    for name, day in days.items():
        if not _is_day(day):
            raise bad_field(name, f"should be a day such as {last}, not {day[:20]!r}")
    client = request.environ.get(CLIENT, "")
    of_all = request.environ.get(PERSON) == METRICS
    answer: UsageAnswer = {
        "days": counted.days(days["first"], days["last"], None if of_all else client),
        "budgets": counted.spent(client, request.environ.get(SENT_KEY, NO_KEY)),
    }
    return json_reply(answer)


def _is_day(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


@routes.get("/v1/srb/server")
@operation(answer=ServerDescription, query=("model",), foreign=True)
def describe_server() -> Response:
    """Describe the server: its model, the limits of requests, and the defaults of their fields.

    With several models it is the one that `?model=` names, else the default, and none is loaded for it. Facts that only a
    loaded model tells are null, or 0, until then.
    """
    settings, choice = web().request_settings, web().choice
    if choice is None:
        model: ModelInfo | None = web().client.check_ready()
        several: SeveralModels = {}
        name = model.alias if model is not None else ""
    else:
        state, model = choice.described()
        several = {"models": list(choice.models.states), "status": word(state), "embedding": choice.embedder(True)}
        name, settings = state.name, choice.models.settings(state.name)
    said: ServerDescription = {
        "version": version(),
        "model": name,
        "n_ctx": model.n_ctx_seq if model is not None else 0,
        "modalities": {"vision": model.sees, "audio": model.hears} if model is not None else None,
        "chat_template": bool(template_source(settings, model)) if model is not None else None,
        "fill": _fill(model, settings) if model is not None else None,
        "lacks": model.lacks if model is not None else None,
        "control_vectors": list(model.control_vectors) if model is not None else [],
        **several,
        "max_n": settings.max_n,
        "max_linger": settings.max_linger,
        "max_body_bytes": web().server.max_body_bytes,
        "n": settings.n,
        "max_tokens": settings.max_tokens_of_srb,
        "sampling": asdict(default_sampling(settings)),
    }
    return json_reply(said)


def _fill(model: ModelInfo, settings: Settings) -> Fill | None:
    texts = [model.fim_texts.get(name, "") for name in ("pre", "suf", "mid")]
    if not all(texts):
        return None
    prefix, suffix, middle = texts
    return {"prefix": prefix, "suffix": suffix, "middle": middle, "suffix_first": settings.spm_infill}
