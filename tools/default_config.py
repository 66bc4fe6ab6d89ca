"""Write config/default.toml from Settings: `python -m tools.default_config > config/default.toml`; a test compares."""

from __future__ import annotations

import textwrap
from typing import Any, Literal, get_args, get_origin

import orjson
from pydantic.fields import FieldInfo

from srb.settings import Settings

_HEAD = """\
# Every setting of SRB with its default. Copy what you change into a file of your own and name it in SRB_CONFIG or
# `srb serve --config FILE`. An SRB_* variable (n_ctx: SRB_N_CTX) wins over the file, a flag (--n-ctx) over both.
# Written by `python -m tools.default_config`.
"""

_HEADINGS = {
    "host": "Web server",
    "api_key": "Access",
    "n": "What a request gets when it does not say",
    "seed": "Sampling, for requests that do not say",
    "chat_template": "Chat",
    "model": "Model and context",
    "cache_cells": "Prefix tree",
    "max_queue": "Engine",
}


def render() -> str:
    """Return the file's text."""
    parts = [_HEAD]
    for name, field in Settings.model_fields.items():
        if name in _HEADINGS:
            parts.append(f"\n# {_HEADINGS[name]} {'-' * (116 - len(_HEADINGS[name]))}\n")
        comment = textwrap.fill(f"{field.description}{_range(field)}", 118, initial_indent="# ", subsequent_indent="# ")
        parts.append(f"\n{comment}\n{name} = {_toml(field.default)}\n")
    return "".join(parts)


def _range(field: FieldInfo) -> str:
    if get_origin(field.annotation) is Literal:
        return f" ({', '.join(get_args(field.annotation))})"
    low = next((limit.ge for limit in field.metadata if hasattr(limit, "ge")), None)
    high = next((limit.le for limit in field.metadata if hasattr(limit, "le")), None)
    if low is None and high is None:
        return ""
    return f" ({low} to {high})" if high is not None else f" (at least {low})"


def _toml(value: Any) -> str:
    """A bool, a number or a string: their JSON is TOML too."""
    return orjson.dumps(value).decode()


if __name__ == "__main__":
    print(render(), end="")
