"""The model as Ollama names and describes it: `name:tag`, sizes in words, and its abilities."""

import hashlib
import time
from datetime import UTC, datetime
from pathlib import Path

from srb.config.settings import Settings
from srb.errors import InvalidRequest, NotFound
from srb.models.listed import LATEST, resolve
from srb.web.answers import JSONObject
from srb.web.chat.template import can_think, template_capabilities
from srb.web.dialects.llamacpp.infill import missing_infill
from srb.wire.events import ModelInfo

STARTED = time.time()  # of this worker, in Unix seconds


def check_name(given: str, settings: Settings, model: ModelInfo) -> None:
    """Raise InvalidRequest for a request without a model, NotFound for another model than the server's.

    A tag `:latest` may be there or not, and upper and lower case are alike.
    """
    if not given:
        raise InvalidRequest("model is required", param="model")
    if resolve(given, (model.alias, *settings.model_aliases)) is None:
        raise NotFound(f"model '{given}' not found; this server has '{tagged_name(model.alias)}'", param="model")


def tagged_name(name: str) -> str:
    """Return a model's name with a tag, as lists of models have it."""
    return name if ":" in name else name + LATEST


def timestamp(seconds: float | None = None) -> str:
    """Return a time in Unix seconds, by default now, as RFC 3339 has it."""
    at = datetime.now(UTC) if seconds is None else datetime.fromtimestamp(seconds, UTC)
    return at.isoformat().replace("+00:00", "Z")


def changed_at(path: str | Path) -> str:
    """Return when a model's file was changed; if this process cannot see it, when the worker was started."""
    try:
        return timestamp(Path(path).stat().st_mtime)
    except OSError:
        return timestamp(STARTED)


def digest_of(*facts: object) -> str:
    """Return 64 hexadecimal digits that differ from model to model; they are no checksum of the file's bytes."""
    return hashlib.sha256(repr(facts).encode()).hexdigest()


def details(model: ModelInfo | None) -> JSONObject:
    """Return a model's facts; empty ones of a model that was not loaded yet."""
    found: JSONObject = {
        "parent_model": "",
        "format": "gguf",
        "family": model.architecture if model else "",
        "families": [model.architecture] if model else [],
        "parameter_size": _in_words(model.n_params) if model else "",
        "quantization_level": model.ftype if model else "",
    }
    if model is not None:
        found["context_length"] = model.n_ctx_seq
    return found


def tagged(settings: Settings, model: ModelInfo) -> JSONObject:
    """Return the entry of a loaded model in a list."""
    name = tagged_name(model.alias)
    return {
        "name": name,
        "model": name,
        "modified_at": changed_at(model.path),
        "size": model.size,
        "digest": digest_of(model.alias, model.architecture, model.n_params, model.size, model.ftype),
        "details": details(model),
        "capabilities": capabilities(settings, model),
    }


def _in_words(count: int) -> str:
    """Return a number of parameters such as 7.6B, 494.03M or 12K."""
    for unit, letter, digits in ((10**9, "B", 1), (10**6, "M", 2), (10**3, "K", 0)):
        if count >= unit:
            return f"{count / unit:.{digits}f}{letter}"
    return str(count)


def capabilities(settings: Settings, model: ModelInfo) -> list[str]:
    found: list[str] = ["completion"]
    if template_capabilities(settings, model):  # a template without tools has them described in a message
        found.append("tools")
    if not missing_infill(model):
        found.append("insert")
    if can_think(settings, model):
        found.append("thinking")
    if model.sees:
        found.append("vision")
    if model.embedding:
        found.append("embedding")
    return found
