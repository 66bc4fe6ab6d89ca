"""What a request that does not say gets, from the settings: the sampler's parameters and the stop strings."""

from __future__ import annotations

import re
from dataclasses import fields
from functools import lru_cache
from typing import Any

import orjson

from srb.protocol import SamplingParams
from srb.settings import Settings, strings_of
from srb.web.fields import SAMPLERS, schema_text


@lru_cache(maxsize=4)
def default_sampling(settings: Settings) -> SamplingParams:
    given: dict[str, Any] = {
        field.name: getattr(settings, field.name)
        for field in fields(SamplingParams)
        if field.name in Settings.model_fields
    }
    names = dict.fromkeys(SAMPLERS[name] for name in settings.samplers.split(";") if name in SAMPLERS)
    given["samplers"] = tuple(names)
    given["dry_sequence_breakers"] = tuple(strings_of(settings.dry_sequence_breakers))
    given["logit_bias"] = tuple(_bias(part) for part in settings.logit_bias.split(",") if part.strip())
    if settings.json_schema:
        given["json_schema"] = schema_text(orjson.loads(settings.json_schema))
    return SamplingParams(**given)


@lru_cache(maxsize=4)
def default_stop(settings: Settings) -> tuple[str, ...]:
    return tuple(strings_of(settings.stop))


def _bias(text: str) -> tuple[int | str, float | None]:
    token, bias = re.split(r"(?=[+-])", text.strip(), maxsplit=1)
    return int(token), None if bias == "-inf" else float(bias)
