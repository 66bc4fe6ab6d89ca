"""The tables of request fields in docs/api.md, made from the OpenAPI description of the bodies.

A comment `<!-- fields of BODY -->` before a table names its body, or two. The order of rows, and of the names in one, is the
page's; every other word is the description's. A field that no table has gets a row behind that of the field declared before
it. A phrase "see HEADING" becomes a link to that part of the page.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import orjson

from srb.config.sampling_params import PARAMETERS, Outside, Parameter
from srb.config.settings import Settings
from srb.web.app import create_app
from srb.web.bodies.fields import DEFAULT, FORM
from srb.web.bodies.unread import field_names
from srb.web.openapi import body_models, describe

_TABLE = re.compile(r"(<!-- fields of (\w+)(?: and (\w+))? -->\n\n\|.*\n\|---.*\n)((?:\|.*\n)+)")
_SAMPLING = {name: each for name, each in PARAMETERS.items() if each.is_field}
_NULL = {"type": "null"}
_POWERS = {2**31 - 1: "2³¹−1", 2**32 - 1: "2³²−1", 2**63 - 1: "2⁶³−1", -(2**63): "-2⁶³", 2**64 - 1: "2⁶⁴−1"}
_WIDEST = 10**30  # bounds beyond are those of a float

Fields = dict[str, tuple[list[str], dict[str, Any]]]  # by each name of a field: all of its names, and its schema


def page(text: str) -> str:
    """Return docs/api.md with all rows of request fields written anew. Raise ValueError for a row of no field."""
    bodies = _bodies()
    headings = re.findall(r"(?m)^#+ (.*)$", text)
    named = {name for found in _TABLE.finditer(text) for line in found[4].splitlines() for name in _names(line)}
    return _TABLE.sub(partial(_table, bodies, headings, named), text)


def _bodies() -> dict[str, Fields]:
    """Return the fields of each body."""
    app = create_app(Settings())
    schemas = describe(app)["components"]["schemas"]
    bodies: dict[str, Fields] = {}
    for model in body_models(app):
        schema = schemas[model.__name__]
        properties, required = (
            schema["properties"],
            {name: {DEFAULT: "required"} for name in schema.get("required", ())},
        )
        fields = [names for names in field_names(model).values() if names[0] in properties]
        bodies[model.__name__] = {
            name: (names, properties[names[0]] | required.get(names[0], {})) for names in fields for name in names
        }
    return bodies


def _names(line: str) -> list[str]:
    return re.findall(r"`(\w+)`", line.split("|")[1])


def _table(bodies: dict[str, Fields], headings: list[str], named: set[str], found: re.Match[str]) -> str:
    """Return a table with its rows written anew; `named` are the fields that some table of the page has."""
    fields = {name: field for body in found.group(2, 3) if body for name, field in bodies[body].items()}
    rows, before = [_names(line) for line in found[4].splitlines()], ""
    for names, _ in fields.values():
        place = next((place for place, row in enumerate(rows, 1) if before in row), None)
        if named.isdisjoint(names) and place is not None:
            rows.insert(place, names)
            named.update(names)
        before = names[0]
    return found[1] + "".join(_row(row, fields, headings) for row in rows)


def _row(written: list[str], fields: Fields, headings: list[str]) -> str:
    """Return the row of one or several fields, by all their names, beginning with those that are written."""
    if unknown := [name for name in written if name not in fields]:
        raise ValueError(f"docs/api.md has a row of `{unknown[0]}`, which is no field")
    found = {fields[name][0][0]: fields[name] for name in written}.values()
    names = dict.fromkeys([*written, *(name for aliases, _ in found for name in aliases)])
    told = [(aliases[0], _plain(schema)) for aliases, schema in found]
    columns = [
        ", ".join(f"`{name}`" for name in names),
        _joined(form(*each) for each in told),
        _joined(_default(*each) for each in told),
        _linked(_joined(schema.get("description", "") for _, schema in told), headings),
    ]
    return "|" + "".join(f" {column} |" if column else " |" for column in columns) + "\n"


def _joined(words: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(filter(None, words)))


def _linked(words: str, headings: list[str]) -> str:
    """Return words with links to the parts of the page, and to the pages of docs/, that they name."""
    for heading in headings:
        anchor = re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
        words = re.sub(rf"\bsee {re.escape(heading)}\b", f"see [{heading}](#{anchor})", words)
    return re.sub(r"\bdocs/(\w+\.md)", r"[\1](\1)", words)


def _plain(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema without the null that every field takes; all that is said of a field stands at one level."""
    options = [option for option in schema.get("anyOf", ()) if option != _NULL]
    if len(options) != 1:
        return {**schema, "anyOf": options} if options else schema
    outer = {key: value for key, value in schema.items() if key != "anyOf"}
    return _plain({**options[0], **outer})


def form(name: str, schema: dict[str, Any]) -> str:
    """Return the words for the type and range of a field."""
    if FORM in schema:
        return str(schema[FORM])
    if name in _SAMPLING:
        return _parameter_form(_SAMPLING[name])
    return " or ".join(_kinds(schema))


def _kinds(schema: dict[str, Any]) -> Iterator[str]:
    kind = schema.get("type")
    if "anyOf" in schema:
        for option in schema["anyOf"]:
            yield from _kinds(option)
    elif "enum" in schema:
        yield ", ".join(_code(value) for value in schema["enum"])
    elif kind == "boolean":
        yield "bool"
    elif kind in ("integer", "number"):
        yield _range(schema.get("minimum"), schema.get("maximum"), str(kind))
    elif kind == "string":
        yield f"string of at most {schema['maxLength']} characters" if "maxLength" in schema else "string"
    elif kind == "array":
        entries = f"at most {schema['maxItems']:,} " if "maxItems" in schema else ""
        item = schema.get("items", {})
        items = {"string": "strings", "object": "objects"}.get(item.get("type"), "")
        items = "base64 strings" if item.get("contentEncoding") == "base64" else items
        yield f"list of {entries}{items or 'entries'}" if entries or items else "list"
    elif kind:
        yield str(kind)


def _parameter_form(parameter: Parameter) -> str:
    if not parameter.is_plain:
        return parameter.form
    if parameter.type is bool:
        return "bool"
    text = _parameter_range(parameter) + (f" {parameter.unit}" if parameter.unit else "")
    if parameter.outside is Outside.CLAMPED:
        return f"clamped to {text.replace(' to ', ' … ')}"
    return f"{text}; else the default" if parameter.outside is Outside.DEFAULT else text


def _parameter_range(parameter: Parameter) -> str:
    if parameter.above is not None:
        return f"more than {parameter.above:g}"
    if parameter.outside is Outside.TAKEN:
        return "number"
    is_bounded = parameter.type is int and parameter.least is not None and parameter.outside is Outside.REFUSED
    return _range(parameter.least, 2**31 - 1 if is_bounded and parameter.most is None else parameter.most)


def _range(least: float | None, most: float | None, unbounded: str = "number") -> str:
    has_least, has_most = (bound is not None and abs(bound) < _WIDEST for bound in (least, most))
    if has_least and has_most:
        return f"{_number(least)} to {_number(most)}"
    return f"at least {_number(least)}" if has_least else f"at most {_number(most)}" if has_most else unbounded


def _number(value: Any) -> str:
    return _POWERS.get(value) or (f"{value:,}" if isinstance(value, int) else f"{value:g}")


def _default(name: str, schema: dict[str, Any]) -> str:
    if DEFAULT in schema:
        return str(schema[DEFAULT])
    value = _SAMPLING[name].default if name in _SAMPLING else schema.get("default")
    is_empty = value is None or value in ([], ()) or isinstance(value, dict) or (value == "" and name in _SAMPLING)
    return "none" if is_empty else _code(value)


def _code(value: Any) -> str:
    """Return a value as JSON, in backticks unless it is a number or a switch; a word stands there without its quotes."""
    if isinstance(value, bool | int | float):
        return str(value).lower() if isinstance(value, bool) else f"{value:g}"
    text = value if value and isinstance(value, str) else orjson.dumps(value).decode().replace(",", ", ")
    return f"`{text}`"
