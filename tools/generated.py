"""Generated files: config/default.toml, and the tables of sampling parameters, options, profiles and JSON schemas in docs/.

`python -m tools.generated` writes them; tests compare them with the code.
"""

from __future__ import annotations

import re
from pathlib import Path

import orjson

from srb.sampling_params import PARAMETERS, Outside, Parameter
from tools import coming_from, compatibility, default_config, schema_table

ROOT = Path(__file__).parents[1]
CONFIG, API, COMPATIBILITY = (ROOT / "config/default.toml", ROOT / "docs/api.md", ROOT / "docs/compatibility.md")
COMING_FROM = ROOT / "docs/coming-from.md"
REQUEST_FIELDS, FIELDS_OF_COMPLETIONS = "## Request fields", "## Fields of completions and chats"

_FIELDS = [each for each in PARAMETERS.values() if each.is_field]
_NAMES = {name for each in _FIELDS for name in (each.name, *each.aliases)}
_INT32 = "2³¹−1"


def api_page(text: str) -> str:
    """Return docs/api.md with a row for each sampling parameter's request field, and the table of what no schema holds."""
    return schema_table.page(_with_rows(text, REQUEST_FIELDS, [_request_row(each) for each in _FIELDS]))


def compatibility_page(text: str) -> str:
    """Return docs/compatibility.md with the state of each sampling parameter and each option."""
    alike = tuple(each.name for each in _FIELDS if not each.differs)
    rows = [f"| {_code(alike)} | same | |"]
    rows += [f"| `{each.name}` | different | {each.differs} |" for each in _FIELDS if each.differs]
    rows += [f"| {_code(each.aliases)} | ours | for `{each.name}` |" for each in _FIELDS if each.aliases]
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


def _request_row(parameter: Parameter) -> str:
    meaning = "; ".join(filter(None, (parameter.description, parameter.note)))
    names = _code((parameter.name, *parameter.aliases))
    return f"| {names} | {_form(parameter)} | {_default(parameter)} | {meaning} |"


def _form(parameter: Parameter) -> str:
    if not parameter.is_plain:
        return parameter.form
    if parameter.type is bool:
        return "bool"
    text = _range(parameter) + (f" {parameter.unit}" if parameter.unit else "")
    if parameter.outside is Outside.CLAMPED:
        return f"clamped to {text.replace(' to ', ' … ')}"
    return f"{text}; else the default" if parameter.outside is Outside.DEFAULT else text


def _range(parameter: Parameter) -> str:
    least, most = parameter.least, parameter.most
    if parameter.above is not None:
        return f"more than {parameter.above:g}"
    if (least, most) == (None, None) or parameter.outside is Outside.TAKEN:
        return "number"
    if most is None and parameter.type is int and parameter.outside is Outside.REFUSED:
        return f"{least:g} to {_INT32}"
    if most is None:
        return f"at least {least:g}"
    return f"at most {most:g}" if least is None else f"{least:g} to {most:g}"


def _default(parameter: Parameter) -> str:
    if parameter.type is bool:
        return str(parameter.default).lower()
    if parameter.is_plain:
        return f"{parameter.default:g}"
    return f"`{orjson.dumps(parameter.default).decode().replace(',', ', ')}`" if parameter.default else "none"


def _code(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def main() -> None:
    CONFIG.write_text(default_config.render())
    API.write_text(api_page(API.read_text()))
    COMPATIBILITY.write_text(compatibility_page(COMPATIBILITY.read_text()))
    COMING_FROM.write_text(coming_from.page(COMING_FROM.read_text()))


if __name__ == "__main__":
    main()
