"""llama-server's file of presets (`--models-preset`): an INI file with options for each model, read as a list of models.

A section is a model; its keys are options without their dashes, or LLAMA_ARG_* variables. `[*]` is for all models. As in
llama-server, an option of the command line has precedence over a section, and a section over `[*]`.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from srb.cli.flags import FALSE, FLAGS, TRUE
from srb.cli.options import Options, read_options, table
from srb.config.settings import Settings
from srb.errors import ConfigError
from srb.models.listed import items_of

_HEADER = re.compile(r"\[\s*([^]]*?)\s*\]\s*(?:[;#].*)?")
_PAIR = re.compile(r"([A-Za-z_][\w.-]*)\s*=\s*([^;#]*)(?:[;#].*)?")
_ALL = "*"
_STARTS = ("load-on-startup", "LLAMA_ARG_LOAD_ON_STARTUP")
# Keys that only such files have.
_WITHOUT_EFFECT = {"stop-timeout": "a model that is unloaded finishes its requests first"}

Download = Callable[[Mapping[str, str]], dict[str, str]]


@dataclass
class Presets:
    """A file's models as the setting `models`, the settings for all of them, and keys without effect, with reasons."""

    models: str = ""
    first: str = ""  # the model that is loaded at the start; empty: the file does not say
    settings: dict[str, str] = field(default_factory=dict)
    without_effect: dict[str, str] = field(default_factory=dict)


def read_presets(path: str, listed: str, given: Mapping[str, str], download: Download) -> Presets:
    """Read a file of presets.

    `listed` are models from elsewhere (the setting `models`), which sections may configure; `given` are the settings of the
    command line. `download` makes settings of the options that name files to be downloaded. Raise ConfigError with file,
    section and key.
    """
    presets = Presets()
    tables: list[Any] = list(items_of(listed))
    for name, keys in _sections(path).items():
        try:
            options = _options(keys, name, presets)
            own = {key: value for key, value in options.values.items() if key in Settings.model_fields}
            own = {key: value for key, value in own.items() if key == "model" or key not in given}
            files = {} if name == _ALL else download(_named(name, options.values))
            presets.without_effect |= {f"{key} of [{name}]": why for key, why in options.without_effect.items()}
        except ConfigError as error:
            raise ConfigError(f"{path}: [{name}]: {error.message}") from None
        if name == _ALL:
            presets.settings = own
            for key in sorted(options.values.keys() - Settings.model_fields.keys()):
                why = "downloads are chosen by a model's section, or by the command line"
                presets.without_effect[f"{options.sources[key]} of [{_ALL}]"] = why
        else:
            tables.append({"name": name, **own, **files})
    presets.models = json.dumps(tables, ensure_ascii=False)
    return presets


def _sections(path: str) -> dict[str, dict[str, str]]:
    """Return the pairs of each section. Keys before the first section are for all models. Raise ConfigError."""
    try:
        lines = Path(path).expanduser().read_text("utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise ConfigError(f"--models-preset: cannot read {path}: {reason}") from None
    sections: dict[str, dict[str, str]] = {}
    name = _ALL
    for number, line in enumerate(map(str.strip, lines), 1):
        if not line or line[0] in ";#":
            continue
        if header := _HEADER.fullmatch(line):
            name = header[1] or _ALL
            sections.setdefault(name, {})
        elif pair := _PAIR.fullmatch(line):
            sections.setdefault(name, {})[pair[1]] = pair[2].strip()
        else:
            raise ConfigError(f"{path}: line {number}: should be [MODEL] or option = value, got {line!r}")
    return sections


def _options(keys: Mapping[str, str], section: str, presets: Presets) -> Options:
    """Return the options of a section. Raise ConfigError, which names the key."""
    arguments: list[str] = []
    for key, value in keys.items():
        if key == "version":
            continue
        if key in _STARTS:
            if _switched(key, value):
                presets.first = presets.first or section
        elif why := _WITHOUT_EFFECT.get(key):
            presets.without_effect[f"{key} of [{section}]"] = why
        else:
            arguments += _words(key, value)
    return read_options(arguments)


def _words(key: str, value: str) -> list[str]:
    """Return a key and its value as words of the command line."""
    known = table()
    names = [name for flag in FLAGS if key == flag.variable for name in flag.names.split()]
    names += [f"--{key.replace('_', '-')}", f"-{key}"]
    name = next((name for name in names if name in known), None)
    if name is None:
        raise ConfigError(f"{key}: unknown option")
    flag = known[name][0]
    if not flag.switch:
        return [f"{name}={value}"]
    if _switched(key, value):
        return [name]
    opposites = flag.names if name in flag.off.split() else flag.off
    return opposites.split()[:1]  # none, where off is what a switch is without its option


def _switched(key: str, value: str) -> bool:
    """Return a switch's value. Raise ConfigError for another word."""
    if value.lower() not in (*TRUE, *FALSE):
        raise ConfigError(f"{key}: should be on or off, got {value!r}")
    return value.lower() in TRUE


def _named(name: str, values: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a section; a name such as user/model:quant is its repository on Hugging Face."""
    is_named = {"model", "hf_repo", "model_url"} & values.keys() or "/" not in name
    return dict(values) if is_named else {**values, "hf_repo": name}
