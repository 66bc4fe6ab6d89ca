"""Defaults of requests from the settings: the sampling parameters and the stop strings."""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import orjson

from srb.config.sampling_params import PARAMETERS, SamplingParams, known_samplers, with_penalties
from srb.config.settings import Settings
from srb.config.values import strings_of
from srb.web.bodies.fields import schema_text


@lru_cache(maxsize=64)  # settings: one for each listed model
def default_sampling(settings: Settings) -> SamplingParams:
    given = {name: getattr(settings, name) for name, parameter in PARAMETERS.items() if parameter.is_setting}
    parsed = {name: _PARSERS[name](value) if name in _PARSERS else value for name, value in given.items()}
    return with_penalties(SamplingParams(**parsed))


@lru_cache(maxsize=64)
def default_stop(settings: Settings) -> tuple[str, ...]:
    return tuple(strings_of(settings.stop))


def _biases(text: str) -> tuple[tuple[int | str, float | None], ...]:
    return tuple(_bias(part) for part in text.split(",") if part.strip())


def _bias(text: str) -> tuple[int | str, float | None]:
    token, bias = re.split(r"(?=[+-])", text.strip(), maxsplit=1)
    return int(token), None if bias == "-inf" else float(bias)


# Parsers of the settings that are written as text.
_PARSERS: dict[str, Callable[[str], Any]] = {
    "samplers": lambda text: known_samplers(text.split(";")),
    "dry_sequence_breakers": lambda text: tuple(strings_of(text)),
    "logit_bias": _biases,
    "json_schema": lambda text: schema_text(orjson.loads(text)) if text else "",
}
