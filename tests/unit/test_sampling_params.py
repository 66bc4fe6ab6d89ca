"""Sampling parameters: whatever is declared of one holds in settings, in requests and on the command line."""

from __future__ import annotations

from typing import Any

import pytest

from srb.cli.options import read_options
from srb.config.sampling_params import (
    MAX_BIASES,
    MAX_BREAKERS,
    MAX_GRAMMAR,
    MAX_SAMPLERS,
    PARAMETERS,
    Outside,
    Parameter,
    SamplingParams,
)
from srb.config.settings import Settings
from srb.errors import ConfigError, InvalidRequest
from srb.web.bodies.completion import CompletionBody
from srb.web.bodies.sampling import default_sampling

NUMBERS = [each for each in PARAMETERS.values() if each.type in (int, float)]
BOUNDED = [each for each in NUMBERS if (each.least, each.most, each.above) != (None, None, None)]


def asked(parameter: Parameter, value: Any, name: str = "") -> Any:
    body = CompletionBody.parse({"prompt": "x", name or parameter.name: value})
    return getattr(body.sampling(Settings()), parameter.name)


def outside(parameter: Parameter) -> list[float]:
    """Return a number beyond each bound, of the parameter's type."""
    beyond = [parameter.least - 1] if parameter.least is not None else []
    beyond += [parameter.most + 1] if parameter.most is not None else []
    beyond += [parameter.above] if parameter.above is not None else []
    return [parameter.type(number) for number in beyond]


def test_settings_that_say_nothing_give_the_parameters_defaults() -> None:
    assert default_sampling(Settings()) == SamplingParams()


def test_every_parameter_has_a_meaning_and_names_that_no_other_has() -> None:
    names = [name for each in PARAMETERS.values() for name in (each.name, *each.aliases)]
    assert len(names) == len(set(names))
    assert all(each.description for each in PARAMETERS.values())


@pytest.mark.parametrize("parameter", BOUNDED, ids=lambda each: each.name)
def test_a_number_outside_its_range_is_treated_as_declared(parameter: Parameter) -> None:
    for value in outside(parameter):
        match parameter.outside:
            case Outside.REFUSED:
                with pytest.raises(InvalidRequest, match=f"Field '{parameter.name}'"):
                    asked(parameter, value)
            case Outside.CLAMPED:
                assert asked(parameter, value) in (parameter.least, parameter.most)
            case Outside.DEFAULT:
                assert asked(parameter, value) == parameter.default
            case Outside.TAKEN:
                assert asked(parameter, value) == value


@pytest.mark.parametrize("parameter", BOUNDED, ids=lambda each: each.name)
def test_a_bound_itself_is_inside(parameter: Parameter) -> None:
    for bound in (parameter.least, parameter.most):
        if bound is not None:
            value = asked(parameter, parameter.type(bound))
            assert (value, type(value)) == (bound, parameter.type)


@pytest.mark.parametrize("parameter", [each for each in BOUNDED if each.is_setting], ids=lambda each: each.name)
def test_a_setting_outside_its_range_is_refused(parameter: Parameter) -> None:
    for value in outside(parameter):
        with pytest.raises(ConfigError, match=parameter.name):
            Settings.load({parameter.name: str(value)}, {})


@pytest.mark.parametrize(
    ("parameter", "alias"),
    [pytest.param(each, alias, id=alias) for each in PARAMETERS.values() for alias in each.aliases],
)
def test_a_field_is_known_by_its_other_names(parameter: Parameter, alias: str) -> None:
    value = (3,) if parameter.type == tuple[int, ...] else parameter.type(1 if parameter.default != 1 else 0.5)
    given = list(value) if isinstance(value, tuple) else value
    assert asked(parameter, given, alias) == value != parameter.default


@pytest.mark.parametrize("parameter", [each for each in NUMBERS if each.flags], ids=lambda each: each.name)
def test_an_option_sets_its_parameter(parameter: Parameter) -> None:
    value = parameter.type(1 if parameter.most is None else parameter.most)
    for flag in parameter.flags.split():
        settings = Settings.load(read_options([flag, str(value)]).values, {})
        assert getattr(default_sampling(settings), parameter.name) == value


def test_the_words_about_limits_tell_the_numbers_that_hold() -> None:
    for name, limit in (
        ("samplers", MAX_SAMPLERS),
        ("dry_sequence_breakers", MAX_BREAKERS),
        ("logit_bias", MAX_BIASES),
    ):
        assert f"at most {limit} " in f"{PARAMETERS[name].form} " or f"1 to {limit} " in PARAMETERS[name].form, name
    for name in ("grammar", "json_schema"):
        assert f"at most {MAX_GRAMMAR // 1024} KiB" in PARAMETERS[name].form
