"""Generated files: config/default.toml, completions, a page of the manual, and tables in docs/.

`python -m tools.generated` writes them; tests compare them with the code.
"""

from __future__ import annotations

import re
from pathlib import Path

from srb.config.sampling_params import PARAMETERS
from tools import coming_from, command_line, compatibility, default_config, field_tables, schema_table

ROOT = Path(__file__).parents[1]
CONFIG, API, COMPATIBILITY = (ROOT / "config/default.toml", ROOT / "docs/api.md", ROOT / "docs/compatibility.md")
COMING_FROM = ROOT / "docs/coming-from.md"
FIELDS_OF_COMPLETIONS = "## Fields of completions and chats"

_FIELDS = [each for each in PARAMETERS.values() if each.is_field]
_NAMES = {name for each in _FIELDS for name in (each.name, *each.aliases)}


def api_page(text: str) -> str:
    """Return docs/api.md with the tables of request fields, and that of what no schema holds."""
    return schema_table.page(field_tables.page(text))


def compatibility_page(text: str) -> str:
    """Return docs/compatibility.md with the state of each sampling parameter and each option."""
    alike = tuple(each.name for each in _FIELDS if not each.differs)
    rows = [f"| {_code(alike)} | same | |"]
    rows += [f"| `{each.name}` | different | {each.differs} |" for each in _FIELDS if each.differs]
    return compatibility.page(_with_rows(text, FIELDS_OF_COMPLETIONS, rows))


def _with_rows(text: str, heading: str, rows: list[str]) -> str:
    """Replace all rows of sampling parameters in a section by `rows`, in the place of the first such row.

    Raise ValueError if the section has none.
    """
    before, found, after = text.partition(f"{heading}\n")
    section, separator, rest = after.partition("\n## ")
    lines: list[str] = []
    for line in section.split("\n"):
        names = set(re.findall(r"`(\w+)`", line.split("|")[1])) if line.startswith("|") else set()
        if not names or not names <= _NAMES:
            lines.append(line)
        elif rows:
            lines += rows
            rows = []
    if rows:
        raise ValueError(f"no row of a sampling parameter under {heading!r}: put one in the place of the rows")
    return before + found + "\n".join(lines) + separator + rest


def _code(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def main() -> None:
    CONFIG.write_text(default_config.render())
    command_line.BASH.write_text(command_line.completion("bash"))
    command_line.ZSH.write_text(command_line.completion("zsh"))
    command_line.FISH.write_text(command_line.completion("fish"))
    command_line.MAN.write_text(command_line.man())
    API.write_text(api_page(API.read_text()))
    COMPATIBILITY.write_text(compatibility_page(COMPATIBILITY.read_text()))
    COMING_FROM.write_text(coming_from.page(COMING_FROM.read_text()))


if __name__ == "__main__":
    main()
