"""Tools of an automatic choice whose schemas make no grammar: each loosens itself alone, and the others keep theirs."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from srb.config.sampling_params import SamplingParams
from srb.engine import preparing
from srb.engine.fake import FakeModel
from srb.engine.preparing import KINDS, Preparer, any_of_type
from srb.engine.tokens import tokens_of
from srb.errors import GrammarDeadEnd, InvalidRequest
from srb.web.chat.families import FAMILIES, HERMES, LLAMA_3
from srb.wire.commands import BranchSpec

IMPOSSIBLE: dict[str, Any] = {
    "a reference to nothing": {"type": "array", "items": {"$ref": "#/$defs/Nothing"}},
    "too deep": {"type": "array", "items": {"type": "array", "items": {}}},
    "too many at once": {"type": "array", "items": {"enum": [f"word {number}" for number in range(6000)]}},
}
for _ in range(80):
    IMPOSSIBLE["too deep"] = {"type": "array", "items": IMPOSSIBLE["too deep"]}
KEPT = {"type": "array", "items": {"enum": [1, 2]}}
BY_NAME = {family.name: family for family in (*FAMILIES, HERMES, LLAMA_3)}


def tool(number: int, days: Any) -> dict[str, Any]:
    parameters = {"type": "object", "properties": {"days": days}, "required": ["days"], "additionalProperties": False}
    return {"name": f"tool_{number}", "parameters": parameters}


def params_of(tools: list[dict[str, Any]], name: str, lazy: bool) -> SamplingParams:
    made = BY_NAME[name].grammar(tools, True, lazy)
    return SamplingParams(grammar=made.text, grammar_schemas=made.schemas, grammar_triggers=made.triggers)


def takes(preparer: Preparer, model: FakeModel, params: SamplingParams, text: str) -> bool:
    pieces = {model.piece(token): token for token in range(model.n_vocab)}
    written = [pieces[bytes([byte])] for byte in text.encode()]
    try:
        preparer.sampler(BranchSpec(seed=1, max_tokens=9, sampling=params), tokens_of([5]), (), written).close()
    except GrammarDeadEnd:
        return False
    return True


@pytest.fixture(autouse=True)
def nothing_was_told() -> None:
    """Lines that are written once for each text of a request would be missing after another test with the same one."""
    preparing._warn.cache_clear()


@pytest.mark.parametrize("kind", IMPOSSIBLE)
@pytest.mark.parametrize("name", ["hermes", "qwen3-coder", "lfm2", "kimi-k3", "glm-4"])
def test_of_24_tools_one_that_is_impossible_loosens_itself_alone(
    name: str, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    tools = [tool(number, IMPOSSIBLE[kind] if number == 7 else KEPT) for number in range(24)]
    model = FakeModel()
    preparer = Preparer(model, None)
    params = params_of(tools, name, lazy=True)
    form = BY_NAME[name].forms[0]
    with caplog.at_level(logging.WARNING, "srb.engine"):
        for number in (0, 6, 8, 23):
            assert takes(preparer, model, params, form.write([(f"tool_{number}", {"days": [2, 1]})]))
            assert not takes(preparer, model, params, form.write([(f"tool_{number}", {"days": [3]})]))
        assert takes(preparer, model, params, form.write([("tool_7", {"days": [[3], 5]})]))
        assert not takes(preparer, model, params, form.write([("tool_77", {"days": [1]})]))
    assert "since its schema makes no grammar" in caplog.text
    with pytest.raises(InvalidRequest, match="tools"):
        takes(preparer, model, params_of(tools, name, lazy=False), "")


def test_a_schema_that_loosens_keeps_its_type() -> None:
    assert json.loads(any_of_type('{"type":["array","null"],"items":{"$ref":"#/x"}}')) == {"type": ["array", "null"]}
    for unknown in ('{"$ref":"#/x"}', '{"type":"text"}', '{"type":[]}', '{"type":[["array"]]}'):
        assert json.loads(any_of_type(unknown)) == {"type": "object"}
    assert set(json.loads(any_of_type("true"))["type"]) == set(KINDS)


@pytest.mark.parametrize("name", ["kimi-k3", "hunyuan-3", "hermes"])
def test_tools_that_make_no_grammar_together_are_free_and_forced_ones_are_refused_by_name(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    wide = {"type": "object", "properties": {f"argument_{number}": {"enum": [1, "b"]} for number in range(40)}}
    tools = [{"name": f"tool_{number}_{'x' * 900}", "parameters": wide} for number in range(256)]
    model = FakeModel()
    preparer = Preparer(model, None)
    with caplog.at_level(logging.WARNING, "srb.engine"):
        assert takes(preparer, model, params_of(tools, name, lazy=True), "<tool_call>anything")
    assert "together they make no grammar" in caplog.text
    with pytest.raises(InvalidRequest, match="Field 'tools'"):
        takes(preparer, model, params_of(tools, name, lazy=False), "")


TWO = {"type": "object", "properties": {"b": {"type": "integer"}, "a": {"type": "integer"}}, "required": ["b"]}
ARGUMENTS: list[tuple[dict[str, Any], str, bool]] = [
    (TWO, '{"b": 1, "a": 2}', True), (TWO, '{"b":1,"a":2}', True), (TWO, '{\n    "b": 1,\n    "a": 2\n}', True),
    (TWO, '{"a": 2, "b": 1}', False), (TWO, '{"a": 2}', False),  # the order is as written
    (TWO, '{"b":  1}', False), (TWO, '{"b": 1,\n\n\n', False), (TWO, "{\n" + " " * 21, False),  # space has an end
    (TWO, '{"b": 1, "c": 2}', False), ({**TWO, "additionalProperties": False}, '{"b": 1, "c"', False),
    ({**TWO, "additionalProperties": True}, '{"b": 1, "c": "x"}', True),
    ({**TWO, "additionalProperties": {"type": "null"}}, '{"b": 1, "c": null}', True),
    ({**TWO, "additionalProperties": {"type": "null"}}, '{"b": 1, "c": 2', False),
]  # fmt: skip


@pytest.mark.parametrize("strict", [True, False, None])
@pytest.mark.parametrize(("schema", "arguments", "right"), ARGUMENTS)
@pytest.mark.parametrize("lazy", [True, False])
def test_arguments_are_written_in_the_order_and_with_the_space_of_models(
    schema: dict[str, Any], arguments: str, right: bool, strict: bool | None, lazy: bool
) -> None:
    model = FakeModel()
    function = {"name": "f", "parameters": schema} | ({} if strict is None else {"strict": strict})
    text = '<tool_call>\n{"name": "f", "arguments": ' + arguments
    assert takes(Preparer(model, None), model, params_of([function], "hermes", lazy), text) is right
