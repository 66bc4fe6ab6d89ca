"""The constraints of vLLM's and SGLang's clients, as `grammar` and `json_schema`."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any

import orjson
from pydantic import WithJsonSchema, model_validator

from srb.errors import bad_field, in_field
from srb.web.bodies.fields import OBJECT, SCHEMA_SCHEMA, TEXT, array, either, schema_text
from srb.web.bodies.sampling import FieldsBody
from srb.web.bodies.unread import Within
from srb.web.chat.grammar import quoted

MAX_CHOICES = 1024
_TEXT = WithJsonSchema(TEXT)
_CHOICES = WithJsonSchema(array(TEXT, maxItems=MAX_CHOICES))
_SCHEMA = WithJsonSchema(either(*SCHEMA_SCHEMA["anyOf"], TEXT))
_OUTPUTS = WithJsonSchema(OBJECT)
_BOOLEAN = WithJsonSchema({"type": "boolean"})


class GuidedFields(FieldsBody):
    """The names of others for a constraint of the text; at most one of all is given."""

    guided_json: Annotated[Any, _SCHEMA] = None
    guided_json_object: Annotated[Any, _BOOLEAN] = None
    guided_regex: Annotated[Any, _TEXT] = None
    guided_choice: Annotated[Any, _CHOICES] = None
    guided_grammar: Annotated[Any, _TEXT] = None
    structured_outputs: Annotated[Any, _OUTPUTS, Within("Outputs")] = None
    regex: Annotated[Any, _TEXT] = None
    regex_pattern: Annotated[Any, _TEXT] = None
    ebnf: Annotated[Any, _TEXT] = None

    @property
    def schema_place(self) -> str:
        if self.guided_json is not None:
            return "guided_json"
        outputs = self.structured_outputs
        has_schema = isinstance(outputs, dict) and outputs.get("json") is not None
        return "structured_outputs.json" if has_schema else super().schema_place

    @property
    def grammar_place(self) -> str:
        outputs = self.structured_outputs if isinstance(self.structured_outputs, dict) else {}
        kinds = {f"structured_outputs.{kind}": outputs.get(kind) for kind in ("regex", "choice", "grammar")}
        given = {name: getattr(self, name) for name in _FIELDS} | kinds
        reply = getattr(self, "response_format", None)
        given["response_format.value"] = reply is not None and reply.place == ".value" and not reply.schema
        return next((name for name, value in given.items() if value), super().grammar_place)

    @model_validator(mode="before")
    @classmethod
    def _under_our_names(cls, body: Any) -> Any:
        return {**body, **_constraint(body)} if isinstance(body, dict) else body


def _constraint(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the `grammar` or `json_schema` that a body asks for under other names. Raise InvalidRequest."""
    given = [(name, name, body[name]) for name in _FIELDS if body.get(name) is not None]
    outputs = body.get("structured_outputs")
    if outputs is not None and not isinstance(outputs, dict):
        raise bad_field("structured_outputs", "should be an object")
    given += [
        (f"structured_outputs.{kind}", f"guided_{kind}", value)
        for kind, value in (outputs or {}).items()
        if f"guided_{kind}" in _MADE and value is not None
    ]
    given = [
        (name, field, value) for name, field, value in given if field != "guided_json_object" or value is not False
    ]
    reply = body.get("response_format")
    is_regex = False
    if isinstance(reply, dict) and reply.get("type") == "regex":  # text-generation-inference's
        is_regex = True
        given.append(("response_format.value", "guided_regex", reply.get("value")))
    said = {name: value for name, value in body.items() if name.startswith("guided_") or name == "structural_tag"}
    said |= {f"structured_outputs.{name}": value for name, value in (outputs or {}).items()}
    known = {name for name, _, _ in given}
    for name, value in said.items():
        if value not in (None, False) and name not in known and name.rpartition(".")[2] not in _WITHOUT_EFFECT:
            raise bad_field(name, "is not supported; json, json_object, regex, choice and grammar are")
    if not given:
        return {}
    name, field, value = given[0]
    ours = [other for other in ("grammar", "json_schema", "response_format") if body.get(other)]
    if is_regex:
        ours.remove("response_format")
    if others := [other for other, _, _ in given[1:]] + ours:
        raise bad_field(others[0], f"cannot be used together with {name}")
    return _MADE[field](value, name)


def _json(value: Any, name: str) -> dict[str, Any]:
    if isinstance(value, str):
        try:
            value = orjson.loads(value)
        except orjson.JSONDecodeError:
            raise bad_field(name, "is not valid JSON") from None
    with in_field(name):
        schema_text(value)
    return {"json_schema": value}


def _choice(value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, list) or not 0 < len(value) <= MAX_CHOICES or not all(map(_is_text, value)):
        raise bad_field(name, f"should be a list of 1 to {MAX_CHOICES} strings")
    return {"grammar": f"root ::= {' | '.join(map(quoted, value))}"}


def _grammar(value: Any, name: str) -> dict[str, Any]:
    if not _is_text(value):
        raise bad_field(name, "should be a grammar (GBNF or Lark), as a string")
    return {"grammar": value}


def _regex(value: Any, name: str) -> dict[str, Any]:
    if not _is_text(value):
        raise bad_field(name, "should be a regular expression, as a string")
    return {"grammar": f"/{value}/"}


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _object(value: Any, name: str) -> dict[str, Any]:
    if value is not True:
        raise bad_field(name, "should be true or false")
    return {"json_schema": {}}


_MADE: dict[str, Callable[[Any, str], dict[str, Any]]] = {
    "guided_json": _json, "guided_json_object": _object, "guided_regex": _regex, "guided_choice": _choice,
    "guided_grammar": _grammar, "regex": _regex, "regex_pattern": _regex, "ebnf": _grammar,
}  # fmt: skip
_FIELDS = tuple(_MADE)
_WITHOUT_EFFECT = ("guided_decoding_backend", "disable_fallback", "_backend", "_backend_was_auto")  # whose work it is
