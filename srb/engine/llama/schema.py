"""JSON schema to GBNF: llama-cpp-python's converter, made safe for untrusted schemas."""

from __future__ import annotations

import json
from typing import Any

from llama_cpp import llama_grammar

from srb.engine.grammar import MAX_MADE_BYTES
from srb.engine.llama.integer_range import bounds_of, integer_range
from srb.errors import bad_field

_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")


class _References:
    """Targets of the references in a JSON schema."""

    def __init__(self, schema: Any) -> None:
        self._schema = schema

    def __getitem__(self, ref: str) -> Any:
        if not ref.startswith("#"):
            raise ValueError(f"the reference {ref} is not within the schema")
        target = self._schema
        for key in ref[1:].split("/")[1:]:
            key = key.replace("~1", "/").replace("~0", "~")
            if not isinstance(target, dict) or key not in target:
                raise ValueError(f"the reference {ref} has no target in the schema")
            target = target[key]
        return target


class SchemaConverter(llama_grammar.SchemaConverter):  # type: ignore[misc]  # it is untyped
    """llama-cpp-python's converter from JSON schema to GBNF, corrected.

    It has limits, resolves references anywhere in a schema, writes literals as GBNF reads them, and keeps integers within
    their bounds.
    """

    MAX_VISITS = 5000  # visited parts of a schema

    def __init__(self, schema: Any) -> None:
        super().__init__(prop_order={}, allow_fetch=False, dotall=False, raw_pattern=False)
        self._refs = _References(schema)
        self._names: dict[str, str] = {}  # rule name of each reference
        self._visits = self._size = 0

    @classmethod
    def grammar_of(cls, json_schema: str) -> str:
        schema = json.loads(json_schema)
        converter = cls(schema)
        try:
            converter.visit(schema, "")
        except (AssertionError, ValueError, TypeError, AttributeError, LookupError, RecursionError) as error:
            raise bad_field("json_schema", f"cannot be converted to a grammar: {error}") from None
        return str(converter.format_grammar())

    def visit(self, schema: Any, name: str) -> str:
        self._visits += 1
        if self._visits > self.MAX_VISITS:
            raise ValueError(f"it has more than {self.MAX_VISITS} parts")
        kinds = schema.get("type")
        if isinstance(kinds, list) and schema.keys().isdisjoint(("$ref", "oneOf", "anyOf")):
            bounds = {key: schema[key] for key in _BOUNDS if key in schema}
            alternatives = [{"type": kind, **(bounds if kind == "integer" else {})} for kind in kinds]
            return str(super().visit({"anyOf": alternatives}, name))
        if kinds == "integer" and schema.keys().isdisjoint(("$ref", "oneOf", "anyOf", "const", "enum")):
            least, most = bounds_of(schema)
            if least is not None or most is not None:
                rule_name = f"{name}-" if name in llama_grammar.RESERVED_NAMES else name or "root"
                return self._add_rule(rule_name, f"( {integer_range(least, most)} ) space")
        return str(super().visit(schema, name))

    def _add_rule(self, name: str, rule: str) -> str:
        before = len(self._rules)
        key = str(super()._add_rule(name, rule))
        self._size += len(rule) * (len(self._rules) - before)  # only new rules count
        if self._size > MAX_MADE_BYTES:
            raise ValueError(f"its rules have more than {MAX_MADE_BYTES} bytes")
        return key

    def _resolve_ref(self, ref: str) -> str:
        if ref not in self._names:
            self._names[ref] = name = f"reference-{len(self._names)}"
            self._names[ref] = self.visit(self._refs[ref], name)
        return self._names[ref]

    def _format_literal(self, literal: str) -> str:
        """Quote JSON text as a GBNF literal, without JSON's escapes of non-ASCII characters."""
        text = json.dumps(json.loads(literal), ensure_ascii=False)
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _repetition(
    item: str, least: int, most: int | None, separator_rule: str = "", item_rule_is_literal: bool = False
) -> str:
    """Return the GBNF of `least` to `most` items as {m,n}, as llama.cpp's converter writes it."""
    if most == 0:
        return ""
    if not separator_rule:
        return f"{item}{{{least}}}" if least == most else f"{item}{{{least},{'' if most is None else most}}}"
    more = _repetition(f"({separator_rule} {item})", max(least - 1, 0), None if most is None else most - 1)
    return f"{item} {more}" if least else f"({item} {more})?"


llama_grammar._build_repetition = _repetition  # the library's version nests a group for every optional item
# The library's rule allows control characters in strings, which JSON forbids; this one is llama.cpp's.
llama_grammar.PRIMITIVE_RULES["char"] = llama_grammar.BuiltinRule(
    r'[^"\\\x7F\x00-\x1F] | [\\] (["\\bfnrt] | "u" [0-9a-fA-F]{4})', []
)
