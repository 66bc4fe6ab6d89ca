"""Schemas against a validator: what comes."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import numpy as np
import pytest

from srb.engine.grammar.schemas import prepared
from srb.engine.llama.model import LlamaModel
from srb.protocol import SamplingParams

PYDANTIC_2 = {
    "$defs": {
        "Mood": {"enum": ["calm", "angry"], "title": "Mood", "type": "string"},
        "Item": {
            "properties": {
                "name": {"title": "Name", "type": "string", "maxLength": 8},
                "price": {"anyOf": [{"type": "number"}, {"type": "null"}], "default": None, "title": "Price"},
                "tags": {"default": [], "items": {"type": "string", "maxLength": 4}, "maxItems": 2, "type": "array"},
            },
            "required": ["name"], "title": "Item", "type": "object",
        },
    },
    "properties": {
        "mood": {"allOf": [{"$ref": "#/$defs/Mood"}], "default": "calm"},
        "items": {"items": {"$ref": "#/$defs/Item"}, "maxItems": 2, "title": "Items", "type": "array"},
        "count": {"exclusiveMinimum": 0, "title": "Count", "type": "integer", "maximum": 999},
    },
    "required": ["items", "count"], "title": "Order", "type": "object",
}  # fmt: skip
MADE: dict[str, dict[str, Any]] = {
    "pydantic 2": PYDANTIC_2,
    "pydantic 1": {
        "title": "User", "type": "object",
        "properties": {
            "id": {"title": "Id", "type": "integer"}, "role": {"$ref": "#/definitions/Role"},
            "email": {"title": "Email", "type": "string", "format": "email"},
        },
        "required": ["id", "role"],
        "definitions": {"Role": {"title": "Role", "description": "An enumeration.", "enum": ["admin", "user"]}},
    },
    "pydantic 1, generic": {
        "$ref": "#/definitions/Bar%3Cstring%3E",
        "definitions": {"Bar<string>": {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"]}},
    },
    "a union that is told apart": {
        "discriminator": {"mapping": {"cat": "#/$defs/Cat", "dog": "#/$defs/Dog"}, "propertyName": "kind"},
        "oneOf": [{"$ref": "#/$defs/Cat"}, {"$ref": "#/$defs/Dog"}],
        "$defs": {
            name.title(): {"type": "object", "properties": {"kind": {"const": name}, "n": {"type": "integer", "maximum": 9}},
                           "required": ["kind"]}
            for name in ("cat", "dog")
        },
    },
    "zod": {
        "$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "additionalProperties": False,
        "properties": {
            "when": {"type": "string", "format": "uuid"}, "n": {"type": "number", "minimum": 0, "maximum": 1},
            "pair": {"type": "array", "minItems": 2, "maxItems": 2, "items": [{"type": "boolean"}, {"type": "null"}]},
            "maybe": {"type": ["string", "null"], "maxLength": 5},
        },
        "required": ["when", "n", "pair", "maybe"],
    },
    "zod, a record": {"type": "object", "additionalProperties": {"type": "boolean"}, "propertyNames": {"enum": ["a", "b"]}},
    "TypeScript": {
        "$ref": "#/definitions/Tree",
        "definitions": {"Tree": {
            "type": "object", "additionalProperties": False, "required": ["value"],
            "properties": {"value": {"type": "boolean"}, "left": {"$ref": "#/definitions/Tree"}},
        }},
    },
    "an MCP server's path": {
        "type": "object", "properties": {"path": {"type": "string", "pattern": "^[^/]+$", "maxLength": 9},
                                          "head": {"type": "number", "description": "lines"}}, "required": ["path"],
    },
    "an MCP server's nulls": {
        "type": "object", "properties": {"a": {"type": "boolean", "enum": None, "items": None}}, "required": None,
    },
    "any JSON": {"type": "object", "properties": {"a": {"title": "Any"}, "b": {"enum": [1]}}, "required": ["b"]},
    "enum with null": {"type": ["string", "null"], "enum": ["red", "green", None]},
    "numbers or null": {"type": ["integer", "null"], "enum": [1, 2, None]},
    "nullable object": {"type": ["object", "null"], "properties": {"a": {"type": "boolean"}}, "required": ["a"]},
    "nullable list": {"type": ["array", "null"], "items": {"type": "boolean"}, "maxItems": 3},
    "nullable pattern": {"type": ["string", "null"], "pattern": "^a{1,3}$"},
    "number or text": {"type": ["integer", "string"], "maxLength": 4},
    "an anchor": {"$ref": "#pt", "$defs": {"x": {"$anchor": "pt", "type": "boolean"}}},
    "further properties": {
        "type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"],
        "additionalProperties": {"type": "null"},
    },
    "allOf": {"allOf": [{"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"]},
                        {"type": "object", "properties": {"b": {"type": "null"}}, "required": ["b"]}]},
    "anyOf of required": {"type": "object", "properties": {"a": {"type": "boolean"}, "b": {"type": "null"}},
                          "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
    "a quote": {"type": "string", "pattern": '^"$'}, "a backslash": {"type": "string", "pattern": r"^\\$"},
    "a line end": {"type": "string", "pattern": "^\n$"}, "alternatives": {"type": "string", "pattern": "^foo$|^bar$"},
    "digits": {"type": "string", "pattern": r"^\d{1,4} \d{1,4}$"}, "a word": {"type": "string", "pattern": r"^[\w-]{1,5}$"},
    "no space": {"type": "string", "pattern": r"^[^\s]{1,4}$"}, "letters": {"type": "string", "pattern": r"^\p{L}{1,4}$"},
    "not anchored": {"type": "string", "pattern": "ab", "maxLength": 6},
    "data that is no schema": {"type": "object", "required": ["pattern"], "properties": {"pattern": {"const": "a{9999}"}}},
    "a float's length": {"type": "string", "maxLength": 10.0}, "deep lists": {"type": "array", "items": {
        "type": "array", "items": {"enum": [0, 1]}, "maxItems": 2}, "minItems": 1, "maxItems": 2},
}  # fmt: skip


def without_nulls(schema: Any) -> Any:
    """Return a schema that the validator reads: null as a keyword's value stands for nothing."""
    return {
        key: without_nulls(value) if isinstance(value, dict) else value
        for key, value in schema.items()
        if value is not None
    }


@pytest.mark.parametrize("name", MADE)
def test_every_whole_answer_at_a_high_temperature_follows_its_schema(llama: LlamaModel, name: str) -> None:
    schema = MADE[name]
    validator = jsonschema_rs.validator_for(without_nulls(schema))
    made = prepared(json.dumps(schema), "json_schema")
    params = SamplingParams(grammar="root ::= schema-0", grammar_schemas=(made.text,), temperature=1.5)
    closing = [token for token in range(llama.n_vocab) if llama.piece(token) in (b'"', b"]", b"}")]
    whole = 0
    for seed in range(8):
        sampler, text = llama.new_sampler(params, seed, []), b""
        for row in np.random.default_rng(seed).standard_normal((400, llama.n_vocab)).astype(np.float32):
            row[closing] += 5.0
            row[llama.eog_token_list] += 50.0
            if llama.is_eog(token := sampler.sample_from(row)):
                validator.validate(json.loads(text))
                whole += 1
                break
            text += llama.piece(token)
        sampler.close()
    assert whole >= 6
