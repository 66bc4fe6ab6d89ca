"""JSON schemas before llguidance reads them: limits, habits, and what stands for nothing."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from srb.config.sampling_params import MAX_GRAMMAR
from srb.engine.fake import FakeModel
from srb.engine.grammar.apart import nested_alternatives
from srb.engine.grammar.limits import MAX_MULTIPLE, MAX_NESTED
from srb.engine.grammar.patterns import in_rust
from srb.engine.grammar.references import MAX_PAIRS, References
from srb.engine.grammar.schemas import MAX_INTEGER, prepared
from srb.errors import InvalidRequest
from tests.made_schemas import takes


def nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(depth):
        schema = {"items": schema}
    return schema


def made(schema: dict[str, Any]) -> dict[str, Any]:
    found = json.loads(prepared(json.dumps(schema), "json_schema").text)
    del found["x-guidance"]
    return found


MANY: dict[str, Any] = {"properties": {f"a{i}": {"type": "string", "maxLength": 524288} for i in range(500)}}


@pytest.mark.parametrize("schema", [{}, nested(60), MANY], ids=["any", "deep", "wide"])
def test_ordinary_schemas_pass(schema: dict[str, Any]) -> None:
    made(schema)


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ("{", "not valid JSON"),
        ("[" * 100_000, "bytes|nested"),
        ("[" * 30_000, "not valid JSON"),
        ("false", "should be an object, or true"),
        ('{"a": "' + "x" * 70_000 + '"}', "at most 65536"),
        (json.dumps(nested(65)), "nested deeper than 64"),
    ],
)
def test_bombs_are_refused_with_the_limit_they_exceed(schema: str, reason: str) -> None:
    with pytest.raises(InvalidRequest, match=reason) as caught:
        prepared(schema, "json_schema")
    assert caught.value.extra["param"] == "json_schema"


@pytest.mark.parametrize("key", ["required", "items", "anyOf", "properties", "type", "pattern", "maxLength", "$ref"])
def test_null_as_a_keywords_value_stands_for_nothing(key: str) -> None:
    assert made({"type": "string", key: None}) == ({"type": "string"} if key != "type" else {})
    within = {"type": "object", "properties": {"a": {"type": "boolean", key: None}}}
    assert made(within)["properties"]["a"] == ({"type": "boolean"} if key != "type" else {})


def test_data_is_no_schema() -> None:
    data = {"maxLength": 99999, "pattern": "a{9999}", "type": None, "$ref": "a b"}
    schema = {"const": data, "default": data, "enum": [data, None], "examples": [data]}
    assert made(schema) == schema
    names = {"type": "object", "properties": {"const": {"type": "string", "pattern": None}, "pattern": {"const": None}}}
    assert made(names)["properties"] == {"const": {"type": "string"}, "pattern": {"const": None}}


def test_a_schema_without_a_type_has_the_type_that_its_keywords_speak_of() -> None:
    assert made({"properties": {"a": {"items": {}}}}) == {
        "type": "object", "properties": {"a": {"type": "array", "items": {}}}, "additionalProperties": False,
    }  # fmt: skip
    parts = {"anyOf": [{"properties": {"a": {}}}, {"type": "null"}], "properties": {"b": {}}}
    assert made(parts) == parts


OPEN: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "string"}}}
CLOSED: dict[str, Any] = {**OPEN, "additionalProperties": False}


@pytest.mark.parametrize(
    ("schema", "right"),
    [
        (OPEN, CLOSED),
        ({"type": "array", "items": OPEN}, {"type": "array", "items": CLOSED}),
        ({"anyOf": [OPEN, {"type": "null"}]}, {"anyOf": [CLOSED, {"type": "null"}]}),
        ({"$defs": {"A": OPEN}, "$ref": "#/$defs/A"}, {"$defs": {"A": CLOSED}, "$ref": "#/$defs/A"}),
        ({"$defs": {"A": OPEN}, "allOf": [{"$ref": "#/$defs/A"}], "default": {}},
         {"$defs": {"A": CLOSED}, "allOf": [{"$ref": "#/$defs/A"}], "default": {}}),
        ({"properties": {"a": OPEN, "b": {"allOf": [{"$ref": "#/properties/a"}, {"required": ["b"]}]}}},
         {"type": "object", "additionalProperties": False,
          "properties": {"a": OPEN, "b": {"allOf": [{"$ref": "#/properties/a"}, {"required": ["b"]}]}}}),
        ({"$defs": {"A": OPEN}, "items": {"$ref": "#/$defs/A"}, "type": "array"},
         {"$defs": {"A": CLOSED}, "items": {"$ref": "#/$defs/A"}, "type": "array"}),
        *(
            (same, same)
            for same in (
                {**OPEN, "additionalProperties": True}, {**OPEN, "patternProperties": {"^x": {}}},
                {"allOf": [OPEN, {"type": "object", "properties": {"b": {}}}]}, {**OPEN, "anyOf": [{"required": ["a"]}, {}]},
                {"$defs": {"A": OPEN}, "allOf": [{"$ref": "#/$defs/A"}, {"type": "object", "properties": {"b": {}}}]},
                {"$defs": {"A": OPEN}, "$ref": "#/$defs/A", "required": ["b"]}, {"type": "object"},
                {"$defs": {"A": OPEN, "B": {"$ref": "#/$defs/A"}}, "$ref": "#/$defs/B", "required": ["b"]},
                {"$defs": {"A": OPEN, "B": {"anyOf": [{"$ref": "#/$defs/A"}, {}]}},
                 "allOf": [{"$ref": "#/$defs/B"}, {"required": ["b"]}]},
                {"$defs": {"A": OPEN}, "anyOf": [{"$ref": "#/$defs/A"}], "required": ["b"]},
            )
        ),
    ],
    ids=str,
)  # fmt: skip
def test_an_object_has_the_properties_that_its_schema_names_and_no_others(
    schema: dict[str, Any], right: dict[str, Any]
) -> None:
    """Like llama-server's; with additionalProperties, or where schemas come together, the standard's word counts."""
    assert made(schema) == right


A, B, BOTH = ({"type": "object", "properties": dict.fromkeys(names, True)} for names in ("a", "b", "ab"))


def is_closed(schema: Any, path: tuple[str | int, ...]) -> bool:
    """Whether the part of a schema at a path has no further properties."""
    for key in path:
        schema = schema[key]
    return bool(schema["additionalProperties"] is False) if "additionalProperties" in schema else False


@pytest.mark.parametrize(
    ("schema", "path", "closed"),
    [
        # Two schemas of one property, of one item, or of what a reference names: each would close what the other names.
        ({"allOf": [{"properties": {"p": A}}, {"properties": {"p": B}}]}, ("allOf", 0, "properties", "p"), False),
        ({"properties": {"p": A}, "allOf": [{"properties": {"p": B}}]}, ("properties", "p"), False),
        ({"properties": {"p": A}, "anyOf": [{"properties": {"p": B}}]}, ("properties", "p"), False),
        ({"properties": {"p": A}, "if": {}, "then": {"properties": {"p": B}}}, ("properties", "p"), False),
        ({"properties": {"p": A}, "patternProperties": {"^p": B}}, ("properties", "p"), False),
        ({"properties": {"p": A}, "allOf": [{"additionalProperties": B}]}, ("properties", "p"), False),
        ({"allOf": [{"items": A}, {"prefixItems": [B]}]}, ("allOf", 0, "items"), False),
        ({"items": A, "contains": B}, ("items",), False),
        ({"$defs": {"D": {"properties": {"p": A}}}, "$ref": "#/$defs/D", "properties": {"p": B}},
         ("$defs", "D", "properties", "p"), False),
        ({"$defs": {"D": {"properties": {"p": {"$ref": "#/$defs/A"}}}, "A": A},
          "allOf": [{"$ref": "#/$defs/D"}, {"properties": {"p": {"allOf": [B]}}}]}, ("$defs", "A"), False),
        ({"properties": {"a": {}}, "dependencies": {"a": B}}, (), False),
        # Another one that says nothing of names, or names no more, leaves a schema closed.
        ({"allOf": [{"properties": {"p": A}}, {"properties": {"p": {"description": "of A"}}}]},
         ("allOf", 0, "properties", "p"), True),
        ({"allOf": [{"properties": {"p": A}}, {"properties": {"p": {"required": ["a"]}}}]},
         ("allOf", 0, "properties", "p"), True),
        ({"allOf": [{"properties": {"p": A}}, {"properties": {"q": B}}]}, ("allOf", 0, "properties", "p"), True),
        ({"allOf": [BOTH, A]}, ("allOf", 0), True), ({"allOf": [BOTH, A]}, ("allOf", 1), False),
        ({"anyOf": [{"properties": {"p": A}}, {"properties": {"p": B}}]}, ("anyOf", 0, "properties", "p"), True),
        ({**BOTH, "if": A, "then": {"required": ["b"]}}, (), True),
        ({"$defs": {"A": A}, "$ref": "#/$defs/A", "unevaluatedProperties": False}, ("$defs", "A"), True),
    ],
    ids=str,
)  # fmt: skip
def test_a_schema_is_closed_but_where_another_one_asks_for_more_of_the_same_value(
    schema: dict[str, Any], path: tuple[str | int, ...], closed: bool
) -> None:
    assert is_closed(made(schema), path) is closed


@pytest.mark.parametrize("big", [{"minimum": 10**17}, {"const": 10**17}, {"multipleOf": 10**17}])
def test_whole_numbers_have_no_bounds_of_ours_where_another_schema_has_some(big: dict[str, Any]) -> None:
    number = {"type": "integer"}
    assert made({"allOf": [number, big]})["allOf"][0] == number
    within = made({"properties": {"n": number}, "patternProperties": {"n": big}})
    assert within["properties"]["n"] == number


NONE = {"type": "object", "properties": {}}  # as tools have it that take no arguments


@pytest.mark.parametrize(
    ("schema", "path", "closed"),
    [
        (NONE, (), True),
        ({"properties": {}}, (), True),
        ({**NONE, "title": "now_Arguments", "$schema": "http://json-schema.org/draft-07/schema#"}, (), True),
        ({"properties": {"p": NONE}}, ("properties", "p"), True),
        ({"type": "object"}, (), False),
        ({**NONE, "additionalProperties": True}, (), False),
        ({**NONE, "additionalProperties": {"type": "string"}}, (), False),
        ({**NONE, "patternProperties": {"^x": {}}}, (), False),
        ({**NONE, "minProperties": 1}, (), False),
        ({"allOf": [A, NONE]}, ("allOf", 1), False),
        ({"properties": {"p": A}, "allOf": [{"properties": {"p": NONE}}]}, ("allOf", 0, "properties", "p"), False),
    ],
    ids=str,
)  # fmt: skip
def test_an_object_that_names_no_properties_and_asks_for_none_has_none(
    schema: dict[str, Any], path: tuple[str | int, ...], closed: bool
) -> None:
    assert is_closed(made(schema), path) is closed


def test_a_required_property_is_one_that_a_closed_schema_names() -> None:
    assert made({**OPEN, "required": ["b", "a"]})["properties"] == {"a": {"type": "string"}, "b": {}}


def test_more_schemas_of_one_value_than_are_compared_are_none_of_them_closed() -> None:
    many = {"allOf": [{"properties": {f"a{number}": A}} for number in range(MAX_PAIRS)]}
    whole = {"properties": {"p": A}, "$defs": many}
    assert len(json.dumps(whole)) > MAX_GRAMMAR
    assert References(whole).is_shared(whole["properties"]["p"])


def test_references_that_lead_to_each_other_end() -> None:
    loops = {"$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"$ref": "#/$defs/A"}}}
    for each in ({"oneOf": [{"$ref": "#/$defs/A"}, A]}, {"allOf": [{"$ref": "#/$defs/B"}, A]}, {"$ref": "#/$defs/A"}):
        made({**loops, **each})


def test_whole_numbers_without_bounds_have_some_and_others_keep_theirs() -> None:
    found = made({"type": "object", "properties": {"a": {"type": "integer", "title": "A"}, "b": {"type": "integer"}}})
    [number] = {each["$ref"] for each in found["properties"].values()}
    bounded = {"type": "integer", "minimum": -MAX_INTEGER, "maximum": MAX_INTEGER}
    assert found["definitions"] == {number: {"$id": number, "id": number, **bounded}}
    own = {"A": {"type": "null"}}
    assert made({"type": "integer", "definitions": own})["definitions"].keys() == {"A", number}
    assert made({"type": "integer", "minimum": 3}) == {"type": "integer", "minimum": 3}


_N: dict[str, Any] = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
_REST = {"type": "object", "required": ["a"]}
WITH_IDS: dict[str, dict[str, Any]] = {
    "a part with an id": {**_REST, "properties": {"a": {"$id": "https://x.org/a.json", **_N}}},
    "parts within parts": {
        "$id": "https://x.org/", **_REST,
        "properties": {"a": {"$id": "b/", "allOf": [{"$id": "c", **_N}]}},
    },
    "a bundle": {
        "$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "https://x.org/whole", **_REST,
        "properties": {"a": {"$ref": "a"}}, "$defs": {"https://x.org/a": {"$id": "https://x.org/a", **_N}},
    },
    "a bundle of draft 7": {
        "$schema": "http://json-schema.org/draft-07/schema#", "$id": "https://x.org/whole", **_REST,
        "properties": {"a": {"$ref": "a"}}, "definitions": {"A": {"$id": "https://x.org/a", **_N}},
    },
    "draft 6, an anchor": {
        "$schema": "http://json-schema.org/draft-06/schema#", **_REST,
        "properties": {"a": {"$ref": "#a"}}, "definitions": {"A": {"$id": "#a", **_N}},
    },
    "draft 4": {
        "$schema": "http://json-schema.org/draft-04/schema#", "id": "https://x.org/", **_REST,
        "properties": {"a": {"id": "a", **_N}},
    },
    "an id that draft 2020-12 does not know": {**_REST, "properties": {"a": {"id": "https://x.org/a", **_N}}},
    "a definition of the same name": {
        **_REST, "properties": {"a": _N}, "$defs": {"whole number": {"enum": ["one"]}},
        "definitions": {"urn:srb:whole-number": {"$id": "urn:srb:whole-number", "enum": ["one"]}},
    },
}  # fmt: skip


@pytest.mark.parametrize("name", WITH_IDS)
def test_whole_numbers_hold_below_ids_of_every_draft(name: str) -> None:
    text = prepared(json.dumps(WITH_IDS[name]), "json_schema").text
    matcher = FakeModel(n_ctx=64, n_seq_max=1, n_batch=16).grammars.matcher("root ::= schema-0", (text,))
    assert takes(matcher, {"a": {"n": -12}})
    assert takes(matcher, {"a": {"n": MAX_INTEGER}})
    assert not any(takes(matcher, {"a": {"n": wrong}}) for wrong in (1.5, 10 * MAX_INTEGER, "one", None))


def test_the_definition_of_whole_numbers_has_a_name_that_the_schema_has_not() -> None:
    texts = {"type": "string"}
    number = made({"type": "integer"})["$ref"]
    whole = {
        "definitions": {number: texts, f"{number}1": texts, "A": {"$id": f"{number}2", **texts}},
        "properties": {"a": {"type": "integer"}, "b": {"$ref": f"#/definitions/{number}"}},
    }
    found = made(whole)
    assert found["definitions"][number] == texts
    assert found["properties"]["a"]["$ref"] not in json.dumps(whole)


# A part of a schema, what holds of it, and the remark's end.
LOOSE: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    (
        {"type": "string", "pattern": "^(?!tmp)[a-z]+$", "maxLength": 9},
        {"type": "string", "maxLength": 9},
        "look-around",
    ),
    ({"type": "string", "pattern": "(?<=a)b"}, {"type": "string"}, "look-around"),
    ({"type": "string", "pattern": r"(a)\1"}, {"type": "string"}, "backreferences"),
    ({"type": "string", "pattern": r"\bfoo\b"}, {"type": "string"}, "lookarounds"),
    ({"type": "integer", "minimum": 1, "not": {"const": 3}}, {"type": "integer", "minimum": 1}, "box.not"),
    ({"type": "array", "uniqueItems": True}, {"type": "array"}, "box.uniqueItems"),
    (
        {"type": "string", "format": "regex"},
        {"type": "string"},
        "box.format is not supported and does not hold: 'regex'",
    ),
    ({"type": "string", "enum": []}, {"type": "string"}, "box.enum"),
    ({"format": "iri"}, {}, "box.format"),
    ({"type": "string", "required": True}, {"type": "string"}, "box.required"),
    (
        {"type": "number", "minimum": 0, "maximum": 1.7976931348623157e308},
        {"type": "number", "minimum": 0},
        "box.maximum",
    ),
    ({"type": "integer", "minimum": -1e308, "maximum": 3}, {"type": "integer", "maximum": 3}, "box.minimum"),
    ({"type": "number", "multipleOf": 1e-12}, {"type": "number"}, "box.multipleOf"),
    ({"type": "null", "$schema": "http://json-schema.org/schema#"}, {"type": "null"}, "box.$schema"),
    (
        {"type": "object", "properties": {"a": {}, "b": {}}, "required": ["a"], "minProperties": 2},
        {"type": "object", "properties": {"a": {}, "b": {}}, "required": ["a"], "additionalProperties": False},
        "box.minProperties is not supported and does not hold: min/maxProperties only supported when all",
    ),
    (
        {"allOf": [{"type": "object", "properties": {"a": {}}}, {"maxProperties": 1}]},
        {"allOf": [{"type": "object", "properties": {"a": {}}, "additionalProperties": False}, {}]},
        "box.allOf[1].maxProperties",
    ),
    (
        {"type": "object", "patternProperties": {"^a": {"type": "null"}, "a$": {}}, "additionalProperties": False},
        {"type": "object", "additionalProperties": True},
        "are not disjoint",
    ),
    (
        {"type": "object", "patternProperties": {"^(?!a)": {}}},
        {"type": "object", "additionalProperties": True},
        "look-around",
    ),
]


@pytest.mark.parametrize(("part", "holds", "remark"), LOOSE, ids=[str(each[0]) for each in LOOSE])
def test_what_cannot_hold_is_loosened_at_its_place_alone(
    part: dict[str, Any], holds: dict[str, Any], remark: str
) -> None:
    schema = {"type": "object", "properties": {"box": part, "other": {"type": "string", "pattern": "^a$"}}}
    found = prepared(json.dumps(schema), "tools[2].function.parameters")
    assert json.loads(found.text)["properties"] == {"box": holds, "other": {"type": "string", "pattern": "^a$"}}
    assert len(found.remarks) == 1
    assert found.remarks[0].startswith("tools[2].function.parameters.properties.box.")
    assert remark in found.remarks[0]


# A part of a schema as clients write it, and as llguidance takes it, without a remark.
MEANT: list[tuple[dict[str, Any], Any]] = [
    ({"not": {}}, False),
    ({"type": "string", "not": True}, False),
    ({"type": "null", "not": False}, {"type": "null"}),
    ({"type": "number", "minimum": 3, "exclusiveMinimum": True}, {"type": "number", "exclusiveMinimum": 3}),
    ({"type": "number", "maximum": 3, "exclusiveMaximum": False}, {"type": "number", "maximum": 3}),
    ({"type": "array", "prefixItems": [{}], "unevaluatedItems": False},
     {"items": False, "type": "array", "prefixItems": [{}]}),
    ({"properties": {"a": {}}, "unevaluatedProperties": {"type": "null"}},
     {"additionalProperties": {"type": "null"}, "properties": {"a": {}}, "type": "object"}),
    ({"$dynamicAnchor": "a", "type": "null"}, {"$anchor": "a", "type": "null"}),
    ({"type": "number", "maximum": 1234567890}, {"type": "number", "maximum": 1234567890}),
    ({"type": "object", "properties": {"a": {}}, "required": ["a"], "minProperties": 2.0},
     {"type": "object", "properties": {"a": {}}, "required": ["a"], "minProperties": 2}),
    ({"type": "integer", "minimum": -(2**53) + 1}, {"type": "integer", "minimum": -(2**53) + 1}),
    ({"type": "integer", "format": "int32", "x-note": {"pattern": "("}}, {"type": "integer", "x-note": {"pattern": "("}}),
    ({"type": "object", "patternProperties": {r"^[\w-]\/": {}}}, {"type": "object", "patternProperties": {r"^[\w-]/": {}}}),
]  # fmt: skip


@pytest.mark.parametrize(("part", "right"), MEANT, ids=[str(each[0]) for each in MEANT])
def test_other_words_for_the_same_hold(part: dict[str, Any], right: dict[str, Any]) -> None:
    found = prepared(json.dumps({"type": "array", "items": part}), "json_schema")
    assert (json.loads(found.text)["items"], found.remarks) == (right, ())


def test_a_schema_that_allows_nothing_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="Field 'json_schema': allows no value"):
        prepared('{"not": {}}', "json_schema")


def test_a_remark_is_one_line_whatever_names_it_quotes() -> None:
    schema = {"type": "object", "properties": {"a\n2026 ERROR srb: forged\x1b[31m": {"not": {"type": "null"}}}}
    [remark] = prepared(json.dumps(schema), "json_schema").remarks
    assert remark.isprintable()


@pytest.mark.parametrize(
    ("schema", "place"),
    [
        ({"type": "string", "pattern": "("}, "pattern: is no regular expression"),
        ({"items": {"pattern": "a" * 9000}}, r"items\.pattern: has 9000 characters; at most 8192"),
        ({"properties": {"a": {"allOf": [{"pattern": f".*{i}"} for i in range(9)]}}}, "properties.a: has 9 patterns"),
        ({"anyOf": [{}, {"items": {"type": "text"}}]}, r"anyOf\[1\]\.items\.type: should be of null, boolean"),
        ({"properties": {"a": {"maxLength": "3"}}}, "properties.a.maxLength: should be a whole number, 0 or more"),
        ({"properties": {"a": {"minItems": -1}}}, "properties.a.minItems: should be a whole number"),
        ({"items": {"maximum": "3"}}, "items.maximum: should be a number"),
        ({"multipleOf": 0}, "multipleOf: should be a number above 0"),
        ({"items": {"const": "a" * 20_000}}, "items.const: has a value of 20000 characters; at most 16384"),
        ({"items": {"enum": [1, ["a" * 20_000]]}}, "items.enum: has a value of 20004 characters"),
        ({"properties": []}, "properties: should be an object"), ({"enum": "a"}, "enum: should be a list"),
        ({"required": "a"}, "required: should be a list of names"), ({"items": 3}, "items: should be a schema"),
        ({"properties": {"a": "string"}}, r"properties\.a: should be a schema"),
        ({"items": {"$ref": "#/$defs/Missing"}}, r"items\.\$ref: #/\$defs/Missing is not in the schema"),
        ({"items": {"$ref": "https://example.com/a"}}, r"items\.\$ref: names a schema elsewhere"),
    ],
    ids=str,
)  # fmt: skip
def test_what_is_refused_is_named_with_its_place(schema: dict[str, Any], place: str) -> None:
    where, _, problem = place.partition(": ")
    with pytest.raises(InvalidRequest, match=rf"Field 'json_schema\.{where}': {problem}") as caught:
        prepared(json.dumps(schema), "json_schema")
    assert re.fullmatch(rf"json_schema\.{where}", caught.value.extra["param"])


LISTS = [{"type": "array", "items": {"$ref": "#/$defs/n"}, "maxItems": i + 1} for i in range(120)]
OBJECTS = [{"type": "object", "properties": {"a": {"$ref": "#/$defs/n"}, f"b{i}": {}}} for i in range(120)]
FLAT = [{"type": "object", "properties": {"kind": {"const": f"k{i}"}, "v": {"type": "string"}}} for i in range(300)]


@pytest.mark.parametrize(
    ("schema", "count"),
    [
        ({"$ref": "#/$defs/n", "$defs": {"n": {"anyOf": LISTS}}}, 120),
        ({"$ref": "#/$defs/n", "$defs": {"n": {"oneOf": OBJECTS[:97]}}}, 97),
        ({"$ref": "#/$defs/n", "$defs": {"n": {"oneOf": OBJECTS[:96]}}}, 0),
        ({"anyOf": LISTS, "$defs": {"n": {"anyOf": [{"$ref": f"#/$defs/l{i}"} for i in range(2)]}, "l0": LISTS[0],
                                    "l1": {"type": ["object", "null"]}}}, 121),  # the object leads nowhere
        ({"anyOf": [{"$ref": "#/$defs/n"}, {"type": "null"}], "$defs": {"n": {"oneOf": FLAT}}}, 0),
        ({"anyOf": FLAT}, 0),
        ({"anyOf": [{"type": "string", "pattern": f"^a{i}"} for i in range(300)]}, 0),
        ({"items": {"allOf": [{"anyOf": LISTS}]}, "$defs": {"n": {"anyOf": [*LISTS[:3], {}]}}}, 123),
    ],
)  # fmt: skip
def test_alternatives_that_lead_to_alternatives_are_counted_before_anything_is_compiled(
    schema: dict[str, Any], count: int
) -> None:
    schema = json.loads(json.dumps(schema))  # of which no part is another one
    assert nested_alternatives(schema, References(schema)) == count
    if count > MAX_NESTED:
        with pytest.raises(
            InvalidRequest, match=f"Field 'json_schema': has {count} lists and objects that are alternatives"
        ):
            prepared(json.dumps(schema), "json_schema")
    else:
        prepared(json.dumps(schema), "json_schema")


def test_a_long_chain_of_schemas_that_hold_together_is_bounded() -> None:
    def chain(count: int) -> str:
        links = {f"a{place}": {"allOf": [{"$ref": f"#/$defs/a{place + 1}"}]} for place in range(count)}
        return json.dumps({"$ref": "#/$defs/a0", "$defs": links | {f"a{count}": {"type": "null"}}})

    prepared(chain(90), "json_schema")
    for count in (300, 1000):
        with pytest.raises(
            InvalidRequest, match=r"json_schema\.\$defs\.a\d+': has, with those before it, more than 10000"
        ):
            prepared(chain(count), "json_schema")


@pytest.mark.parametrize("value", [99991, 12345.67])
def test_a_multiple_of_many_digits_does_not_hold(value: float) -> None:
    found = prepared(json.dumps({"items": {"type": "number", "multipleOf": value}}), "json_schema")
    assert json.loads(found.text)["items"] == {"type": "number"}
    assert found.remarks[0].startswith(
        f"json_schema.items.multipleOf is not supported and does not hold: the digits of {value} and of"
    )


def test_multiples_beyond_a_limit_for_all_of_a_schema_do_not_hold() -> None:
    """900 keys of them took 8 s to compile."""
    keys = {f"k{i}": {"type": "integer", "multipleOf": 900 + i} for i in range(900)}
    found = prepared(
        json.dumps({"type": "object", "properties": keys | {"price": {"multipleOf": 0.01}}}), "json_schema"
    )
    held = [key for key, each in json.loads(found.text)["properties"].items() if "multipleOf" in each]
    assert held[:3] == ["k0", "k1", "k2"]
    assert sum(int(str(900 + int(key[1:])).rstrip("0")) for key in held if key != "price") <= MAX_MULTIPLE
    assert held[-1] == "price"
    assert len(found.remarks) == 901 - len(held)


def test_property_names_are_properties_or_patterns() -> None:
    schema = {"propertyNames": {"enum": ["a", "b"]}, "additionalProperties": {"type": "boolean"}}
    assert made(schema) == {
        "type": "object", "properties": {"a": {"type": "boolean"}, "b": {"type": "boolean"}}, "additionalProperties": False,
    }  # fmt: skip
    assert made({"propertyNames": {"pattern": "^x-"}})["patternProperties"] == {"^x-": {}}


@pytest.mark.parametrize(
    ("pattern", "rust"),
    [
        ("[[a&&b~~+--d]", r"[\[a\&\&b\~\~+-\-d]"), (r"^\$\{x\}{$", r"^\$\{x\}\{$"), ("a{2}b{3,}c{,3}", r"a{2}b{3,}c\{,3\}"),
        (r"^https:\/\/a\.b\_\-\@$", r"^https://a\.b_-@$"), (r"[\w-]\cJ", r"[\w-]\x0a"), (r"[^\]\d]", r"[^\]\d]"),
        (r"^\p{L}[\p{Nd}_]{2}$", r"^\p{L}[\p{Nd}_]{2}$"),
    ],
)  # fmt: skip
def test_patterns_are_ecmascripts(pattern: str, rust: str) -> None:
    assert in_rust(pattern) == rust
    assert made({"type": "string", "pattern": pattern}) == {"type": "string", "pattern": rust}


def test_references_are_uris() -> None:
    for written, right in (("#/$defs/a b", "#/$defs/a%20b"), ("#/$defs/Bar%3Cstring%3E", "#/$defs/Bar%3Cstring%3E")):
        assert made({"$ref": written, "$defs": {"a b": {}, "Bar<string>": {}}})["$ref"] == right


SPACES = r"\t-\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"


@pytest.mark.parametrize(
    ("pattern", "rust"),
    [(r"\s", f"[{SPACES}]"), (r"\S", f"[^{SPACES}]"), (r"[\s\d]", rf"[{SPACES}\d]"), (r"[^\S,]", f"[^[^{SPACES}],]")],
)
def test_white_space_is_ecmascripts(pattern: str, rust: str) -> None:
    assert in_rust(pattern) == rust
    assert made({"type": "string", "pattern": pattern})["pattern"] == rust


TAGGED = [{"type": "object", "properties": {"kind": {"const": name}}, "required": ["kind"]} for name in "ab"]
CAT, DOG = ({"$ref": f"#/$defs/{name}"} for name in ("Cat", "Dog"))
DEFINED = {"$defs": dict(zip(("Cat", "Dog"), TAGGED, strict=True))}


@pytest.mark.parametrize(
    ("schemas", "is_exact"),
    [
        (TAGGED, True), ([CAT, DOG, {"type": "null"}], True), ([{"const": 1}, {"enum": ["1", None]}], True),
        ([{"const": 1}, {"const": 1.0}], False), ([CAT, CAT], False), ([{"type": "integer"}, {"type": "number"}], False),
        ([{"type": "string"}, {"type": ["number", "boolean"]}], True), ([{}, {"type": "null"}], False), ([{}], True),
        ([{"properties": {name: {}}, "required": [name]} for name in "ab"], True),  # since they have no further properties
        ([{"type": "object", "properties": {name: {}}} for name in "ab"], False),
        ([{"minLength": 2}, {"maxLength": 4}], False),
        ([{"const": number} for number in range(65)], False),  # more than are compared
        ([{"$ref": "#/$defs/Loop"}, {"type": "null"}], False),
    ],
)  # fmt: skip
def test_one_of_is_told_where_its_schemas_may_have_values_in_common(schemas: list[Any], is_exact: bool) -> None:
    loop = {"Loop": {"$ref": "#/$defs/Loop"}}
    schema = {"type": "array", "items": {"oneOf": schemas}, "$defs": DEFINED["$defs"] | loop}
    remarks = prepared(json.dumps(schema), "json_schema").remarks
    assert len(remarks) == (0 if is_exact else 1)
    assert all(remark.startswith("json_schema.items.oneOf holds as anyOf") for remark in remarks)
