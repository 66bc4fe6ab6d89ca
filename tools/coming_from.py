"""Generated parts of docs/coming-from.md; `python -m tools.generated` writes them.

They are the table of profiles and, in each server's tables of options and fields, the defaults here: without a profile, and
with the profile that the server's section names first.
"""

from __future__ import annotations

import re

from srb.cli.options import table
from srb.config.profiles import PROFILES
from srb.config.settings import Settings
from srb.config.values import setting_text

HEADING = "## Profiles"
COLUMNS = "| there | default there | here | default here | with the profile | |"

_NAMES = [name for name in PROFILES if name != "none"]
_TABLE = r"(?:\|.*\n)+"


def page(text: str) -> str:
    """Return the page `text` with its generated parts written anew."""
    before, heading, after = text.partition(f"{HEADING}\n")
    profiles, *servers = re.split(r"(?m)^(?=## )", after)
    profiles = re.sub(_TABLE, lambda _: _profiles(), profiles, count=1)
    return before + heading + profiles + "".join(map(_with_defaults, servers))


def servers(text: str) -> dict[str, str]:
    """Return the page's section of each server, by its heading."""
    sections = re.split(r"(?m)^## ", text.partition(f"{HEADING}\n")[2])[1:]
    return {section.partition("\n")[0]: section for section in sections}


def profile_of(section: str) -> str:
    """Return the profile that a section names first."""
    found = re.search(r"--profile ([\w-]+)", section)
    if found is None:
        raise ValueError(f"no --profile under {section.splitlines()[0]!r}")
    return found[1]


def rows(section: str) -> list[list[str]]:
    """Return the cells of all rows of a section's tables of options and fields."""
    tables = re.findall(rf"{re.escape(COLUMNS)}\n\|---.*\n({_TABLE})", section)
    return [_cells(line) for found in tables for line in found.splitlines()]


def settings_of(here: str) -> list[str]:
    """Return the settings that the third cell of a row names in backticks: by their names, else by their options."""
    words = re.findall(r"`([^`]+)`", here)
    named = [word for word in words if word in Settings.model_fields]
    options = (flag.sets for word in words for flag in table().get(word, ()))
    return named or list(dict.fromkeys(name for name in options if name in Settings.model_fields))


def _profiles() -> str:
    names = dict.fromkeys(name for profile in _NAMES for name in PROFILES[profile])
    lines = [["setting", "default", *(f"`{profile}`" for profile in _NAMES)]]
    for name in names:
        default = setting_text(Settings.model_fields[name].default)
        values = [setting_text(PROFILES[each][name]) if name in PROFILES[each] else "" for each in _NAMES]
        lines.append([f"`{name}`", default, *values])
    head, *body = map(_line, lines)
    return head + "|---" * (len(_NAMES) + 2) + "|\n" + "".join(body)


def _with_defaults(section: str) -> str:
    if COLUMNS not in section:
        return section
    settings = [Settings.load(flags, {}) for flags in ({}, {"profile": profile_of(section)})]

    def written(found: re.Match[str]) -> str:
        return found[1] + "".join(_line(_row(_cells(line), settings)) for line in found[2].splitlines())

    return re.sub(rf"({re.escape(COLUMNS)}\n\|---.*\n)({_TABLE})", written, section)


def _row(row: list[str], settings: list[Settings]) -> list[str]:
    """Return a row with the defaults here; a row that names no setting keeps its words."""
    names = settings_of(row[2])
    defaults = [
        ", ".join(dict.fromkeys(setting_text(getattr(each, name)) for name in names)) if names else row[column]
        for column, each in enumerate(settings, 3)
    ]
    return [*row[:3], *defaults, row[5]]


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.split("|")[1:-1]]


def _line(row: list[str]) -> str:
    return "|" + "".join(f" {cell} |" if cell else " |" for cell in row) + "\n"
