"""Every family's replies, taken apart: whatever a model writes, nothing is lost, and the parts it comes in do not matter."""

from __future__ import annotations

import re
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from srb.config.sampling_params import PLACE, TOOL
from srb.web.chat import grammar, reader
from srb.web.chat.call_forms import TaggedCalls
from srb.web.chat.families import FAMILIES, HERMES, LLAMA_3, Family
from srb.web.chat.nested_tags import NestedTags
from srb.web.chat.pieces import AnyPiece, CallArguments, CallBegan, CallEnded, Content, Reasoning, ToolCall
from srb.web.chat.reply_parser import ReplyParser, parse_reply
from srb.web.chat.tool_schemas import properties_of, variants_of, with_place
from tests.unit.replies import FURTHER, GIVEN, PARALLEL, REPLIES, TWO

BY_NAME = {family.name: family for family in (*FAMILIES, HERMES, LLAMA_3)}
CITY = {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}, "required": ["city"]}
TOOLS: dict[str, Any] = {"weather": CITY, "time": {}}


def raw(family: Family, text: str, sizes: list[int], **options: Any) -> list[tuple[AnyPiece, str]]:
    """Return the pieces of a text that comes in parts of these sizes, again and again, each with its text."""
    parser = ReplyParser(TOOLS, family=family, **options)
    found, at, turn = [], 0, 0
    while at < len(text):
        found += parser.feed_raw(text[at : at + sizes[turn % len(sizes)]])
        at += sizes[turn % len(sizes)]
        turn += 1
    return [*found, *parser.end_raw()]


def summary(pieces: list[tuple[AnyPiece, str]]) -> list[tuple[Any, ...]]:
    """Return pieces with equal neighbours joined, calls without their ids."""
    found: list[list[Any]] = []
    for piece, text in pieces:
        if isinstance(piece, Content | Reasoning | CallArguments):
            if found and found[-1][0] is type(piece):
                found[-1][1] += piece.text
            elif piece.text:
                found.append([type(piece), piece.text])
        elif isinstance(piece, ToolCall):
            found.append([ToolCall, piece.name, piece.arguments])
        elif isinstance(piece, CallBegan):
            found.append([CallBegan, piece.name])
        elif isinstance(piece, CallEnded):
            found.append([CallEnded, piece.is_whole])
        else:
            assert text
    return [tuple(each) for each in found]


def test_every_family_has_a_reply_here() -> None:
    assert set(REPLIES) == set(BY_NAME)


@pytest.mark.parametrize("size", [1, 10_000])
@pytest.mark.parametrize(("name", "text"), [*REPLIES.items(), *FURTHER])
def test_a_reply_has_its_reasoning_its_text_and_its_call(name: str, text: str, size: int) -> None:
    parser = ReplyParser(TOOLS, family=BY_NAME[name])
    pieces = [piece for at in range(0, len(text), size) for piece in parser.feed(text[at : at + size])] + parser.end()
    content = "".join(piece.text for piece in pieces if isinstance(piece, Content))
    assert content == ("Wait." if "Wait." in text else "")
    assert "".join(piece.text for piece in pieces if isinstance(piece, Reasoning)) == ("Hm." if "Hm." in text else "")
    (call,) = (piece for piece in pieces if isinstance(piece, ToolCall))
    assert (call.name, orjson.loads(call.arguments)) == ("weather", orjson.loads(GIVEN))


@pytest.mark.parametrize(("name", "text"), [*REPLIES.items(), *FURTHER])
def test_arguments_come_as_they_are_written(name: str, text: str) -> None:
    pieces = raw(BY_NAME[name], text, [1], in_parts=True)
    arguments = [piece.text for piece, _ in pieces if isinstance(piece, CallArguments)]
    assert orjson.loads("".join(arguments)) == orjson.loads(GIVEN)
    # Gemma's and MiniMax' arguments become JSON when they are complete; Nemo's wait for the call's id, which follows them.
    if name not in ("gemma-4", "minimax-m3", "mistral-nemo"):
        assert len(arguments) > 3


@pytest.mark.parametrize("name", PARALLEL)
def test_several_calls_of_a_reply_are_told_apart(name: str) -> None:
    content, _, calls = parse_reply(ReplyParser(TOOLS, family=BY_NAME[name]), PARALLEL[name])
    assert ([call.name for call in calls], content) == (TWO, "")
    assert {call.arguments for call in calls} == {"{}"}


@pytest.mark.parametrize(("name", "text"), [*REPLIES.items(), *FURTHER])
def test_a_call_that_is_cut_or_damaged_is_content_and_nothing_is_lost(name: str, text: str) -> None:
    family = BY_NAME[name]
    whole = summary(raw(family, text, [7]))
    for cut in range(len(text)):
        pieces = raw(family, text[:cut], [3])
        assert "".join(part for _, part in pieces) == text[:cut]
        for piece, part in pieces:
            if isinstance(piece, Content | Reasoning):
                assert piece.text == part
            elif isinstance(piece, ToolCall):
                assert (ToolCall, piece.name, piece.arguments) in whole


@pytest.mark.parametrize("size", [1, 1000])
@pytest.mark.parametrize(("name", "text"), [*REPLIES.items(), *FURTHER])
def test_no_family_shows_a_marker_of_a_forced_call_wherever_it_is_cut(name: str, text: str, size: int) -> None:
    family = BY_NAME[name]
    for cut in range(len(text)):
        parser = ReplyParser(TOOLS, family=family, in_parts=True, must_call=True)
        parts = [text[begin : min(begin + size, cut)] for begin in range(0, cut, size)]
        pieces = [piece for part in parts for piece in parser.feed(part)] + parser.end()
        assert "Wait.".startswith("".join(piece.text for piece in pieces if isinstance(piece, Content))), text[:cut]


OPTIONAL = (
    {"type": ["string", "null"]},
    {"anyOf": [{"type": "string"}, {"type": "null"}]},
    {"oneOf": [{"type": "integer"}, {"$ref": "#/$defs/Text"}]},
    {"anyOf": [{"$ref": "#/$defs/Self"}, {"enum": ["5", "true", "{}", "Oslo", None]}]},
    {"allOf": [{"$ref": "#/$defs/Text"}], "default": "Rome"},
)
DEFINITIONS = {"Text": {"minLength": 1}, "Self": {"anyOf": [{"$ref": "#/$defs/Self"}, {"type": "boolean"}]}}
TAGGED = sorted(name for name, family in BY_NAME.items() if isinstance(family.forms[0], TaggedCalls | NestedTags))


@pytest.mark.parametrize("schema", OPTIONAL)
@pytest.mark.parametrize("name", TAGGED)
def test_tags_hold_a_value_that_may_be_a_string_as_it_is(name: str, schema: dict[str, Any]) -> None:
    tools = {"weather": {"type": "object", "properties": {"city": schema}, "$defs": DEFINITIONS}}
    for said in ("5", "true", "{}", "Oslo"):
        _, _, [call] = parse_reply(ReplyParser(tools, family=BY_NAME[name]), REPLIES[name].replace("Oslo", said))
        assert orjson.loads(call.arguments) == {"city": said, "days": 2}


@pytest.mark.parametrize("name", TAGGED)
def test_a_string_that_may_be_null_is_null_if_the_tags_say_so(name: str) -> None:
    tools = {"weather": {"type": "object", "properties": {"city": OPTIONAL[1]}}}
    says_types = name.startswith(("kimi", "deepseek"))
    nulls = [(said, said if says_types else None) for said in ("null", "None")]
    for said, value in (*nulls, ("nullable", "nullable"), ("None of them", "None of them")):
        text = REPLIES[name].replace("Oslo", said)
        for parts in ([text], list(text)):
            parser = ReplyParser(tools, family=BY_NAME[name])
            pieces = [piece for part in parts for piece in parser.feed(part)] + parser.end()
            [call] = (piece for piece in pieces if isinstance(piece, ToolCall))
            assert orjson.loads(call.arguments) == {"city": value, "days": 2}


# Templates print values as Python does, so models that were trained on their texts write them so.
AS_IN_PYTHON = [
    ("boolean", "True", True),
    ("boolean", "False", False),
    ("null", "None", None),
    ("array", "['a', None, 1]", ["a", None, 1]),
    ("object", "{'deep': {'is': True}}", {"deep": {"is": True}}),
    ("boolean", "Truest", "Truest"),
    ("array", "[1e999]", "[1e999]"),
    ("array", "[f()]", "[f()]"),
    ("object", "{1, 2}", "{1, 2}"),
    ("array", "[" * 10_000, "[" * 10_000),
    ("integer", "1_000", "1_000"),
]


@pytest.mark.parametrize(("kind", "said", "value"), AS_IN_PYTHON, ids=lambda given: str(given)[:20])
@pytest.mark.parametrize("name", [name for name in TAGGED if not name.startswith(("kimi", "deepseek"))])
def test_a_value_that_is_no_string_may_be_written_as_in_python(name: str, kind: str, said: str, value: Any) -> None:
    tools = {"weather": {"type": "object", "properties": {"city": {"type": kind}}}}
    _, _, [call] = parse_reply(ReplyParser(tools, family=BY_NAME[name]), REPLIES[name].replace("Oslo", said))
    assert orjson.loads(call.arguments) == {"city": value, "days": 2}


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/$defs/Asked"},
        {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/Asked"}, {"type": "object", "properties": {"b": {}}}]},
        {"allOf": [{"$ref": "#/$defs/Asked"}, {"required": ["days"]}]},
        {"type": "object", "properties": {"days": {"type": "string"}}, "oneOf": [{"required": ["days"]}, {}]},
    ],
)
def test_a_schema_that_is_put_together_from_others_knows_its_properties(schema: dict[str, Any]) -> None:
    tools = {"weather": {**schema, "$defs": {"Asked": {"type": "object", "properties": {"days": {"type": "string"}}}}}}
    for name in ("glm-4", "minimax-m3"):
        _, _, [call] = parse_reply(ReplyParser(tools, family=BY_NAME[name]), REPLIES[name])
        assert orjson.loads(call.arguments)["days"] == "2"


def test_a_schema_that_refers_to_itself_costs_no_more_than_its_length() -> None:
    endless = {"anyOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/B"}] * 50}
    whole = {"$ref": "#/$defs/A", "$defs": {"A": endless, "B": {"allOf": [{"properties": {"a": endless}}]}}}
    assert len(variants_of(whole)) < 100
    assert set(properties_of(whole)) == {"a"}


IDS = {
    "mistral": "[TOOL_CALLS]weather[CALL_ID]{}[ARGS]{{}}",
    "mistral-nemo": '[TOOL_CALLS][{{"name": "weather", "arguments": {{}}, "id": "{}"}}]',
    "kimi-k2": "<|tool_calls_section_begin|><|tool_call_begin|>{}<|tool_call_argument_begin|>{{}}<|tool_call_end|>",
    "solar": "<|tool_calls|><|tool_call:begin|>{}<|tool_call:name|>weather<|tool_call:args|>{{}}<|tool_call:end|>",
}


@pytest.mark.parametrize("name", IDS)
def test_a_call_has_the_id_that_the_model_gave_it_but_no_two_calls_have_one(name: str) -> None:
    given = "functions.weather:0" if name == "kimi-k2" else "D681PevKs"
    text = IDS[name].format(given)
    _, _, calls = parse_reply(ReplyParser(TOOLS, family=BY_NAME[name]), text + text)
    ids = [call.id for call in calls]
    assert ids[0] == given
    assert len(set(ids)) == len(ids) == 2


@pytest.mark.parametrize("name", ["mistral", "mistral-nemo"])
def test_an_id_that_the_template_refuses_is_replaced(name: str) -> None:
    _, _, [call] = parse_reply(ReplyParser(TOOLS, family=BY_NAME[name]), IDS[name].format("call_1"))
    assert re.fullmatch("[A-Za-z0-9]{9}", call.id)


@pytest.mark.parametrize("in_parts", [True, False])
@pytest.mark.parametrize("name", REPLIES)
def test_a_call_of_a_tool_that_was_not_offered_is_content(name: str, in_parts: bool) -> None:
    for size in (1, 10_000):
        parser = ReplyParser({"time"}, family=BY_NAME[name], in_parts=in_parts)
        text = REPLIES[name]
        found = [each for at in range(0, len(text), size) for each in parser.feed_raw(text[at : at + size])]
        found += parser.end_raw()
        assert not any(isinstance(piece, CallBegan | ToolCall) for piece, _ in found)
        content = "".join(piece.text for piece, _ in found if isinstance(piece, Content))
        assert "Oslo" in content
        assert name == "gpt-oss" or "weather" in content  # it names it in a header
        assert "".join(part for _, part in found) == text


PARTS = sorted(
    {
        part
        for text in (*REPLIES.values(), *PARALLEL.values())
        for part in re.findall(r"\w+|<[^<>]*>|\[[A-Z_/]*\]|\W", text)
    }
)


@given(
    name=st.sampled_from(sorted(BY_NAME)),
    parts=st.lists(st.sampled_from(PARTS), max_size=25),
    own=st.booleans(),
    cuts=st.tuples(st.integers(0, 200), st.integers(0, 200)),
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=5),
    options=st.fixed_dictionaries(
        {},
        optional={
            each: st.booleans() for each in ("reasoning", "thinking", "has_begun", "in_parts", "hides_reasoning")
        },
    ),
)
def test_every_character_is_part_of_one_piece_and_the_parts_of_a_text_do_not_matter(
    name: str, parts: list[str], own: bool, cuts: tuple[int, int], sizes: list[int], options: dict[str, bool]
) -> None:
    text, family = "".join(parts), BY_NAME[name]
    if own:  # the family's own reply, with noise in place of some of it
        begin, end = sorted(cuts)
        text = REPLIES[name][:begin] + text + REPLIES[name][end:]
    pieces = raw(family, text, sizes, **options)
    assert "".join(part for _, part in pieces) == text
    assert all(piece.text == part for piece, part in pieces if isinstance(piece, Content | Reasoning))
    assert summary(pieces) == summary(raw(family, text, [len(text) + 1], **options))
    calls = [piece for piece, _ in pieces if isinstance(piece, ToolCall)]
    assert all(isinstance(orjson.loads(call.arguments), dict) for call in calls)


# Costs ----------------------------------------------------------------------------------------------------------------


class CountingPattern:
    """A pattern that counts the characters that it has matched."""

    def __init__(self, pattern: re.Pattern[str]) -> None:
        self._pattern = pattern
        self.characters = 0

    def match(self, text: str, start: int) -> re.Match[str] | None:
        found = self._pattern.match(text, start)
        self.characters += len(found[0]) if found else 0
        return found


def test_a_long_string_is_read_once_however_many_parts_it_comes_in(monkeypatch: pytest.MonkeyPatch) -> None:
    counting = CountingPattern(reader._CHARACTERS)
    monkeypatch.setattr(reader, "_CHARACTERS", counting)
    long = 'x\\"' * 5000
    text = f'<tool_call>{{"note": "{long}", "name": "f", "arguments": {{}}}}</tool_call>'
    parser = ReplyParser({"f"}, family=HERMES)
    pieces = [piece for at in range(0, len(text), 4) for piece in parser.feed(text[at : at + 4])] + parser.end()
    assert [type(piece) for piece in pieces] == [ToolCall]
    assert counting.characters < 2 * len(text)


@pytest.mark.parametrize("unit", ['<tool_call>{"a": {', '<tool_call>{"a": [', '<|python_tag|>{"a": [{'])
def test_calls_that_never_close_cost_no_more_than_their_length(monkeypatch: pytest.MonkeyPatch, unit: str) -> None:
    counting = CountingPattern(reader._IN_VALUE)
    monkeypatch.setattr(reader, "_IN_VALUE", counting)
    text = unit * 2000
    parser = ReplyParser({"f"}, family=HERMES)
    assert "".join(piece.text for piece in (*parser.feed(text), *parser.end())) == text  # type: ignore[union-attr]
    assert counting.characters < 200 * len(text)


def test_a_schema_and_a_rule_have_one_name_each() -> None:
    rules = grammar.Rules()
    schemas: list[Any] = [{"type": "string"}, {"type": "number"}, {"type": "string"}]
    assert [rules.schema(schema) for schema in schemas] == ["schema-0", "schema-1", "schema-0"]
    assert rules.schemas == ('{"type":"string"}', '{"type":"number"}')
    assert rules.add("text", '"a"') == rules.add("other", '"a"') != rules.add("text", '"b"')


@pytest.mark.parametrize("family", BY_NAME.values(), ids=BY_NAME)
def test_the_schemas_of_a_call_say_where_in_the_request_they_stand(family: Family) -> None:
    """Some families have one schema for a tool, others one for each argument, or for what is in an argument."""
    inner = {"type": "object", "properties": {"count": {"type": "integer", "minimum": 3}}, "required": ["count"]}
    parameters = {"type": "object", "properties": {"size": {"type": "number"}, "inner": inner, "list": {
        "type": "array", "items": {"type": "integer"}}}, "required": ["size", "inner", "list"]}  # fmt: skip
    places = {"": parameters, **{f".properties.{name}": part for name, part in parameters["properties"].items()},
              ".properties.inner.properties.count": inner["properties"]["count"],
              ".properties.list.items": {"type": "integer"}}  # fmt: skip
    made = family.grammar([with_place({"name": "f", "parameters": parameters}, "tools[3].x")], False, lazy=False)
    schemas = [orjson.loads(schema) for schema in made.schemas]
    assert schemas
    for schema in schemas:
        place, tool = schema.pop(PLACE), schema.pop(TOOL)
        assert tool == "f"
        assert places[place.removeprefix("tools[3].x")] == schema
