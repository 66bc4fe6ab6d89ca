"""Grammars against llama.cpp's own parser, and schemas against a validator: what is taken, and what comes."""

from __future__ import annotations

import json
import random
from typing import Any

import jsonschema_rs
import llama_cpp as lib
import numpy as np
import pytest

from srb.engine.grammar.schemas import prepared
from srb.engine.llama.model import LlamaModel
from srb.errors import InvalidRequest
from srb.protocol import SamplingParams

# Of llama.cpp's folder of grammars, shortened.
PUBLISHED = {
    "arithmetic": (
        'root ::= (expr "=" ws term "\\n")+\nexpr ::= term ([-+*/] term)*\nterm ::= ident | num | "(" ws expr ")" ws\n'
        "ident ::= [a-z] [a-z0-9_]* ws\nnum ::= [0-9]+ ws\nws ::= [ \\t\\n]*"
    ),
    "chess": (
        'root ::= "1. " move " " move "\\n" ([1-9] [0-9]? ". " move " " move "\\n")+\n'
        'move ::= (pawn | nonpawn | castle) [+#]?\nnonpawn ::= [NBKQR] [a-h]? [1-8]? "x"? [a-h] [1-8]\n'
        'pawn ::= ([a-h] "x")? [a-h] [1-8] ("=" [NBKQR])?\ncastle ::= "O-O" "-O"?'
    ),
    "json": (
        'root ::= object\nvalue ::= object | array | string | number | ("true" | "false" | "null") ws\n'
        'object ::= "{" ws ( string ":" ws value ("," ws string ":" ws value)* )? "}" ws\n'
        'array ::= "[" ws ( value ("," ws value)* )? "]" ws\n'
        'string ::= "\\"" ( [^"\\\\\\x7F\\x00-\\x1F] | "\\\\" (["\\\\bfnrt] | "u" [0-9a-fA-F]{4}) )* "\\"" ws\n'
        'number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})? ws\n'
        'ws ::= | " " | "\\n" [ \\t]{0,20}'
    ),
    "list": 'root ::= item+\nitem ::= "- " [^\\r\\n\\x0b\\x0c\\x85\\u2028\\u2029]+ "\\n"',
    "japanese": (
        "root ::= jp-char+ ([ \\t\\n] jp-char+)*\njp-char ::= hiragana | katakana | punctuation\n"
        "hiragana ::= [ぁ-ゟ]\nkatakana ::= [ァ-ヿ]\npunctuation ::= [、-〾]"
    ),
    "c": (
        'root ::= (declaration)*\ndeclaration ::= type identifier "(" param? ")" "{" statement* "}"\n'
        'type ::= "int" | "float" | "char"\nidentifier ::= [a-zA-Z_] [a-zA-Z_0-9]*\nparam ::= identifier\n'
        'statement ::= type identifier " = " expr ";" | identifier "(" (expr ("," expr)*)? ")" ";" | "return " expr ";"\n'
        'expr ::= term (("+" | "-") term)*\nterm ::= [0-9]+ | identifier | "(" expr ")"'
    ),
}
ALPHABET = 'ab1 +=-()[]{}":,.\n☃ぁxO'


class Ours:
    def __init__(self, llama: LlamaModel, grammar: str) -> None:
        self._matcher = llama.grammars.matcher(grammar)
        self._llama = llama

    def takes(self, token: int) -> bool:
        return self._matcher.allows(token)

    def accept(self, token: int) -> None:
        self._matcher.accept(token)


class Theirs:
    """llama.cpp's grammar, which ends the process if it accepts what it does not take."""

    def __init__(self, llama: LlamaModel, grammar: str) -> None:
        self._native = lib.llama_sampler_init_grammar(llama.vocab, grammar.encode(), b"root")
        assert self._native, grammar

    def takes(self, token: int) -> bool:
        data = lib.llama_token_data(token, 1.0, 0.0)
        array = lib.llama_token_data_array((lib.llama_token_data * 1)(data), 1, -1, False)
        lib.llama_sampler_apply(self._native, array)
        return bool(np.isfinite(array.data[0].logit))

    def accept(self, token: int) -> None:
        lib.llama_sampler_accept(self._native, token)

    def close(self) -> None:
        lib.llama_sampler_free(self._native)


def is_plain(piece: bytes, grammar: str) -> bool:
    """Whether both read a piece alike: llama.cpp also takes bytes that are no UTF-8."""
    return (piece.isascii() and piece not in (b"", b"\0")) or (piece[:1] in b"\xe3\x80\x81\x82" and "ぁ" in grammar)


def compare(llama: LlamaModel, grammar: str, draws: random.Random, texts: int = 6, length: int = 24) -> int:
    """Walk through texts that the grammar makes; at each place both have to take the same tokens. Return the steps."""
    ends = [token for token in range(llama.n_vocab) if llama.is_eog(token)][:1]
    tokens = [token for token in range(llama.n_vocab) if is_plain(llama.piece(token), grammar)]
    steps = 0
    for _ in range(texts):
        ours, theirs, text = Ours(llama, grammar), Theirs(llama, grammar), b""
        for _ in range(length):
            both = [(token, ours.takes(token), theirs.takes(token)) for token in (*tokens, *ends)]
            differing = [(llama.piece(token), mine) for token, mine, yours in both if mine != yours]
            assert not differing, f"{grammar!r} after {text!r}: {differing}"
            steps += 1
            taken = [token for token, mine, _ in both if mine and token not in ends]
            if not taken:
                break
            token = draws.choice(taken)
            text += llama.piece(token)
            ours.accept(token)
            theirs.accept(token)
        theirs.close()
    return steps


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_grammar_takes_what_llama_cpps_takes(llama: LlamaModel, name: str) -> None:
    assert compare(llama, PUBLISHED[name], random.Random(1)) > 20


def random_grammar(draws: random.Random) -> str:
    """Return a grammar of some rules, which refer to later ones, or to any after a character: never to the left."""
    names = [f"r{number}" for number in range(draws.randint(1, 4))]

    def element(place: int, depth: int) -> str:
        kind = draws.random()
        if kind < 0.3:
            return json.dumps("".join(draws.choice("abx1") for _ in range(draws.randint(1, 3))))
        if kind < 0.55:
            return draws.choice(["[a-c]", "[^a]", "[1x]", "[a-z ]", "."])
        if kind < 0.7 and place + 1 < len(names):
            return draws.choice(names[place + 1 :])
        if kind < 0.8 and depth < 2:
            return f"( {choice(place, depth + 1)} )"
        if kind < 0.9:
            first = draws.choice(['"a"', "[x1]"])
            return f"( {first} {draws.choice(names)} )?"
        return '"b"'

    def choice(place: int, depth: int) -> str:
        ways = []
        for _ in range(draws.randint(1, 3)):
            repeats = ["", "", "", "?", "*", "+", "{2}", "{0,2}"]
            ways.append(" ".join(element(place, depth) + draws.choice(repeats) for _ in range(draws.randint(1, 3))))
        return " | ".join(ways)

    rules = [f"{name} ::= {choice(place, 0)}" for place, name in enumerate(names)]
    return "\n".join(["root ::= r0", *rules])


def test_random_grammars_take_what_llama_cpps_take(llama: LlamaModel) -> None:
    compared = 0
    for seed in range(50):
        draws = random.Random(seed)
        grammar = random_grammar(draws)
        native = lib.llama_sampler_init_grammar(llama.vocab, grammar.encode(), b"root")
        if not native:  # it has rules that may refer to themselves before any character
            continue
        lib.llama_sampler_free(native)
        try:
            compare(llama, grammar, draws, texts=3, length=10)
            compared += 1
        except InvalidRequest as error:
            if "too complex" not in error.message:
                raise
    assert compared > 15


# Schemas as generators make them -------------------------------------------------------------------------------------

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
