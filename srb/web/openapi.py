"""The OpenAPI document of the HTTP interface, made from the routes and the types of their bodies and answers.

The decorator `operation` declares a route's types; the first line of the route's docstring is its summary.
"""

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import orjson
from flask import Flask
from pydantic import BaseModel, TypeAdapter
from werkzeug.routing import Rule

from srb.version import version
from srb.web.answers import ErrorAnswer
from srb.web.bodies.unread import field_names
from srb.web.dialect import DIALECTS, Dialect

VERSION = "3.2.0"  # the first that can describe the events of a stream
OLDER = "3.1.2"  # which more programs read
_REF = "#/components/schemas/{model}"
SSE, LINES = "text/event-stream", "application/x-ndjson"  # server-sent events, or a JSON object on each line
_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")

View = TypeVar("View", bound=Callable[..., Any])


@dataclass(frozen=True)
class Operation:
    """Types of a route: `body` is a pydantic model, `answer` any type that pydantic describes (None unless JSON), the name
    of a recorded answer (`schemas_of`), or a tuple of these; `events` likewise, of the events of routes that can
    stream. `query` names parameters of the URL.
    `error` is the type of an error before the first byte, `stream_type` how events come: SSE or LINES.
    `foreign`: pages of other origins may use it without a key; never a route to what is everybody's (foreign_pages).
    """

    body: Any = None
    answer: Any = None
    events: Any = None
    media_type: str = "application/json"
    query: tuple[str, ...] = ()
    error: Any = ErrorAnswer
    stream_type: str = SSE
    _: KW_ONLY
    foreign: bool

    def __call__(self, view: View) -> View:
        view.__dict__["operation"] = self
        return view


operation = Operation  # as a decorator, below the route's


def operation_of(view: Callable[..., Any]) -> Operation:
    """Return what a route declares; one that declares nothing is closed to foreign pages."""
    return getattr(view, "operation", None) or Operation(foreign=False)


def describe(app: Flask, openapi: str = VERSION) -> dict[str, Any]:
    """Return the OpenAPI document of every route of `app`, in the form of VERSION or OLDER."""
    routes = list(_routes(app))
    schemas = _Schemas([described for _, _, _, described in routes])
    paths: dict[str, dict[str, Any]] = {}
    dialects: Mapping[str, Dialect] = app.extensions[DIALECTS]
    tags: dict[str, list[str]] = {}  # by the blueprint's name
    for name, dialect in dialects.items():
        for blueprint in dialect.blueprints:
            tags.setdefault(blueprint.name, []).append(name)
    for rule, method, view, described in routes:
        path = re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", rule.rule)
        paths.setdefault(path, {})[method.lower()] = {
            "operationId": f"{method.lower()}{re.sub(r'[^A-Za-z0-9]+', '_', rule.rule)}".rstrip("_"),
            "tags": tags.get(rule.endpoint.partition(".")[0], []),
            "summary": (inspect.getdoc(view) or rule.rule).partition("\n")[0],
            **_parameters(rule, described),
            **_body(described, schemas),
            "responses": _responses(described, schemas, openapi),
        }
    return {
        "openapi": openapi,
        "info": {
            "title": "SRB",
            "summary": "One prompt, many continuations",
            "description": "Unknown fields of a body are ignored, and null fields count as absent. A known field with a bad "
            "value is answered 400.",
            "version": version(),
        },
        "tags": [_tag(name, dialect) for name, dialect in dialects.items()],
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": schemas.components,
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "key": {"type": "apiKey", "in": "header", "name": "X-Api-Key"},
            },
        },
        "security": [{}, {"bearer": []}, {"key": []}],
    }


def _tag(name: str, dialect: Dialect) -> dict[str, Any]:
    documents = {"externalDocs": {"url": dialect.documents}} if dialect.documents else {}
    return {"name": name, "description": dialect.about, **documents}


def body_models(app: Flask) -> list[type[BaseModel]]:
    """Return the models of all bodies of `app`, each once."""
    models = {described.body: None for _, _, _, described in _routes(app)}
    return [model for model in models if inspect.isclass(model) and issubclass(model, BaseModel)]


def _routes(app: Flask) -> Iterator[tuple[Rule, str, Any, Operation]]:
    for rule in app.url_map.iter_rules():
        view = app.view_functions[rule.endpoint]
        for method in _METHODS:
            if method in (rule.methods or ()):
                yield rule, method, view, operation_of(view)


class _Schemas:
    """JSON schemas of all bodies and answers; models used more than once are in `components`."""

    def __init__(self, described: list[Operation]) -> None:
        inputs = {id(each.body): each.body for each in described if each.body is not None}
        declared = (kind for each in described for kind in (each.answer, each.events, each.error) if kind is not None)
        answers = [part for kind in declared for part in (kind if isinstance(kind, tuple) else (kind,))]
        outputs = {id(kind): kind for kind in answers if not isinstance(kind, str)}
        wanted = [(key, "validation", TypeAdapter(kind)) for key, kind in {**inputs, **outputs}.items()]
        found, shared = TypeAdapter.json_schemas(wanted, ref_template=_REF)  # type: ignore[arg-type]
        self._by_id = {key: schema for (key, _), schema in found.items()}
        self.components: dict[str, Any] = shared.get("$defs", {})
        for name in (kind for kind in answers if isinstance(kind, str)):
            self.components |= schemas_of(name)
        for schema in self.components.values():
            for found in schema.get("properties", {}).values():
                if _is_inner(found):
                    del found["default"]
        for kind in inputs.values():
            if inspect.isclass(kind) and issubclass(kind, BaseModel):
                # Not by its name: if another package has a model of the same one, both get longer names here.
                name = self._by_id[id(kind)]["$ref"].rpartition("/")[2]
                _add_aliases_and_null(self.components[name], kind)

    def of(self, kind: Any) -> dict[str, Any]:
        if isinstance(kind, tuple):
            return {"anyOf": [self.of(each) for each in kind]}
        if isinstance(kind, str):
            return {"$ref": _REF.format(model=kind)}
        return {} if kind is None else self._by_id[id(kind)]


def _is_inner(found: Mapping[str, Any]) -> bool:
    """Whether a field's default is no plain value, or not in the form that a client sends but in the one made of it."""
    default = found.get("default")
    return isinstance(default, dict | list) or (isinstance(default, str) and found.get("type") == "object")


def _add_aliases_and_null(schema: dict[str, Any], model: type[BaseModel]) -> None:
    """Add a property for each alias of a field, and allow null, which counts as an absent field."""
    properties: dict[str, Any] = {}
    for names in field_names(model).values():
        found = schema["properties"].get(names[0])
        if found is None:
            continue  # the model leaves out a field that it inherits
        options = found.get("anyOf", [])
        if {"type": "null"} not in options:
            marks = {key: found[key] for key in ("default", "description") if key in found}
            inner = {key: value for key, value in found.items() if key not in (*marks, "title")}
            found = {"anyOf": [inner, {"type": "null"}], **marks}
        for name in names:
            properties[name] = {key: value for key, value in found.items() if key != "title"}
    schema["properties"] = properties


def _parameters(rule: Rule, described: Operation) -> dict[str, Any]:
    text = {"type": "string"}
    in_path = [{"name": name, "in": "path", "required": True, "schema": text} for name in sorted(rule.arguments)]
    in_query = [{"name": name, "in": "query", "required": False, "schema": text} for name in described.query]
    return {"parameters": in_path + in_query} if in_path or in_query else {}


def _body(described: Operation, schemas: _Schemas) -> dict[str, Any]:
    if described.body is None:
        return {}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schemas.of(described.body)}}}}


def _event(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a server-sent event whose data is JSON of `schema`, or `[DONE]`, the end of OpenAI's streams."""
    data = {"type": "string", "contentMediaType": "application/json", "contentSchema": schema}
    return {"type": "object", "properties": {"data": {"anyOf": [data, {"const": "[DONE]"}]}}}


def _responses(described: Operation, schemas: _Schemas, openapi: str) -> dict[str, Any]:
    answer = schemas.of(described.answer) if described.media_type == "application/json" else {"type": "string"}
    content: dict[str, Any] = {described.media_type: {"schema": answer}}
    if described.events is not None:
        item = schemas.of(described.events)
        item = _event(item) if described.stream_type == SSE else item
        stream = {"itemSchema": item} if openapi == VERSION else {"schema": {"type": "string"}, "x-itemSchema": item}
        content[described.stream_type] = stream
    return {
        "200": {"description": "The answer", "content": content},
        "default": {
            "description": "An error",
            "content": {"application/json": {"schema": schemas.of(described.error)}},
        },
    }


_ANY, _ABSENT, _NULL, _OTHER, _ONE_OF, _ABOUT = "…", "?", "|null", "@", "|", "#"
_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}


@cache
def schemas_of(name: str) -> dict[str, Any]:
    """Return the schema of an answer in a format of others, as `dialect.Name` names it, and of those that it refers to.

    It follows from examples, in the dialect's `answers.json`: an answer is like one of them, with the same keys and values
    of the same types. In a file a key that ends with ? may be absent, and the value of one that ends with |null may be null;
    "…" stands for any value or, as a key, for any further keys, "|a|b" for one of these words, and "@Name" for another
    answer; "#" has the description.
    """
    dialect, _, answer = name.partition(".")
    found = {name: _schema(_examples(dialect)[answer], dialect)}
    for place, option in enumerate(
        options := found[name].get("anyOf", [])
    ):  # by names, as generators of clients want it
        if "$ref" not in option:
            found[f"{name}.{place}"] = option
            options[place] = {"$ref": f"#/components/schemas/{name}.{place}"}
    for other in {each for schema in list(found.values()) for each in _references(schema)} - found.keys():
        found |= schemas_of(other)
    return found


@cache
def _examples(dialect: str) -> dict[str, list[Any]]:
    file = Path(__file__).with_name("dialects") / dialect / "answers.json"
    found: dict[str, list[Any]] = orjson.loads(file.read_bytes())
    return found


def _schema(examples: Sequence[Any], dialect: str) -> dict[str, Any]:
    found: list[dict[str, Any]] = []
    for example in examples:
        if (schema := _of(example, dialect)) not in found:
            found.append(schema)
    return found[0] if len(found) == 1 else {"anyOf": found}


def _of(example: Any, dialect: str) -> dict[str, Any]:
    """Return the schema of one example."""
    if isinstance(example, dict):
        further = _of(example[_ANY], dialect) if _ANY in example else False
        schema: dict[str, Any] = {"type": "object", "properties": {}, "required": [], "additionalProperties": further}
        if _ABOUT in example:
            schema["description"] = example[_ABOUT]
        for key, value in example.items():
            name = key.removesuffix(_ABSENT).removesuffix(_NULL)
            if key not in (_ANY, _ABOUT):
                schema["properties"][name] = _schema([value, None] if _NULL in key else [value], dialect)
                schema["required"] += [] if key.endswith(_ABSENT) else [name]
        return schema
    if isinstance(example, list):
        return {"type": "array", "items": _schema(example, dialect)} if example else {"type": "array"}
    if example == _ANY:
        return {}
    if isinstance(example, str) and example.startswith(_ONE_OF):
        return {"type": "string", "enum": example.split(_ONE_OF)[1:]}
    if isinstance(example, str) and example.startswith(_OTHER):
        name = example.removeprefix(_OTHER)
        return {"$ref": f"#/components/schemas/{name if '.' in name else f'{dialect}.{name}'}"}
    return {"type": _TYPES[type(example)]}


def _references(schema: dict[str, Any]) -> Iterator[str]:
    if "$ref" in schema:
        yield schema["$ref"].rpartition("/")[2]
    inner = [
        *schema.get("properties", {}).values(),
        *schema.get("anyOf", ()),
        schema.get("items"),
        schema.get("additionalProperties"),
    ]
    for each in inner:
        if isinstance(each, dict):
            yield from _references(each)
