"""Fields of a body that nothing reads, also those within others: an answer's header and the log name them."""

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from inspect import isclass
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

from flask import g, has_request_context
from pydantic import AliasChoices, BaseModel
from pydantic.fields import FieldInfo

from srb.web.bodies.fields import kinds_of
from srb.web.loop.yielding import yielding

# Names in flask.g.
BODY_MODEL = "srb_body_model"  # the model of the route's body, which says what is read
UNREAD = "srb_unread"  # the fields of the body that nothing reads
ALSO_KNOWN = "srb_also_known"  # fields that this request reads besides those of its body's model

MAX_UNREAD = 32  # names that one answer tells
_NAMES = ("model", "name")  # of any body, though a server with one model takes any
_FURTHER, _LIKE = "*", "<"  # in within.toml

# By the path of a field that nothing reads, such as `messages[].content[].citations`: "", or "messages" or "tools", whose
# template may read it (`ChatTemplate.reads`).
Unread = dict[str, str]


@dataclass(frozen=True, slots=True)
class Known:
    """The fields that an object may have, each with those within it; of one with None nothing within is looked at.

    `further`: whose template may read others.
    """

    fields: Mapping[str, "Known | None"]
    further: str = ""


@dataclass(frozen=True)
class Within:
    """The mark of a body's field: the name of a shape in within.toml, or the names of the fields within it.

    `to_template`: the template gets the others, too.
    """

    shape: str | frozenset[str]
    to_template: bool = False

    @property
    def known(self) -> Known:
        return _shape(self.shape, self.to_template) if isinstance(self.shape, str) else Known(dict.fromkeys(self.shape))


def field_names(model: type[BaseModel]) -> dict[str, list[str]]:
    """Return all names of each field of a body: its own and its aliases."""
    return {name: _names(name, field) for name, field in model.model_fields.items()}


def _names(name: str, field: FieldInfo) -> list[str]:
    alias = field.validation_alias
    return [str(each) for each in alias.choices] if isinstance(alias, AliasChoices) else [str(alias or name)]


def unread(model: Any, body: Mapping[str, Any]) -> Unread:
    """Return the first fields of a body that nothing reads, of those that its model does not know or says so of."""
    found: Unread = {}
    if isclass(model) and issubclass(model, BaseModel):
        known = known_fields(model).fields
        found |= dict.fromkeys(
            islice((name for name in body if name not in known and name not in _NAMES), MAX_UNREAD), ""
        )
        for name, value in body.items():
            if (inner := known.get(name)) is not None:
                _walk_in(value, inner, name, found)
    return found


def leave_out(field: str, kinds: Iterable[str]) -> None:
    """Note blocks, items or tools of a body's field that are not read, by their types: `messages[server_tool_use]`."""
    if has_request_context() and (found := g.get(UNREAD)) is not None:
        found |= dict.fromkeys((f"{field}[{kind}]" for kind in islice(kinds, MAX_UNREAD - len(found))), "")


def _walk_in(value: Any, known: Known, place: str, found: Unread) -> None:
    """Add what nothing reads of an object, or of those in a list; a null counts as absent."""
    if isinstance(value, list):
        for entry in yielding(value) if dict in kinds_of(value) else ():
            if isinstance(entry, dict):
                _walk_in(entry, known, f"{place}[]", found)
    elif isinstance(value, dict):
        for name, inner in value.items():
            if name not in known.fields:
                if inner is not None and len(found) < MAX_UNREAD:
                    found[f"{place}.{name}"] = known.further
            elif (within := known.fields[name]) is not None:
                _walk_in(inner, within, f"{place}.{name}", found)


@cache
def known_fields(model: type[BaseModel]) -> Known:
    """Return the fields that a model reads, by all their names: those of which it says "no effect" are none of them."""
    read = {name: field for name, field in model.model_fields.items() if not says_no_effect(field)}
    return Known({each: _within(field) for name, field in read.items() for each in (name, *_names(name, field))})


def says_no_effect(field: FieldInfo) -> bool:
    return (field.description or "").startswith("no effect")


def _within(field: FieldInfo) -> Known | None:
    """Return the fields within a field, as it is marked, or as the models have them that it consists of."""
    return next(_found(field.annotation, tuple(field.metadata)), None)


def _found(kind: Any, marks: tuple[Any, ...]) -> Iterator[Known]:
    yield from (mark.known for mark in marks if isinstance(mark, Within))
    if isclass(kind) and issubclass(kind, BaseModel):
        yield known_fields(kind)
    elif get_origin(kind) is Annotated:
        inner, *own = get_args(kind)
        yield from _found(inner, tuple(own))
    else:
        for each in get_args(kind):
            yield from _found(each, ())


@cache
def _shapes() -> dict[str, dict[str, str]]:
    return tomllib.loads(Path(__file__).with_name("within.toml").read_text("utf-8"))


@cache
def _shape(name: str, to_template: bool) -> Known:
    row = dict(_shapes()[name])
    further = row.pop(_FURTHER, "") if to_template else ""
    like = _shape(row.pop(_LIKE), to_template) if _LIKE in row else Known({})
    row.pop(_FURTHER, None)
    inner = {field: _shape(shape, to_template) if shape else None for field, shape in row.items()}
    return Known({**like.fields, **inner}, further or like.further)
