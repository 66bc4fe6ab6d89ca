"""Forms of tool calls and grammars that explode, on vocabularies of real models: a mask has all of their tokens."""

from __future__ import annotations

import json
import random
import time
from contextlib import suppress
from typing import Any

import pytest

from srb.config.sampling_params import SamplingParams
from srb.engine.fake import FakeModel
from srb.engine.grammar.limits import CALL_SECONDS
from srb.engine.grammar.schemas import prepared
from srb.engine.llama.model import LlamaModel
from srb.engine.preparing import Preparer
from srb.errors import GrammarTooComplex, InvalidRequest
from srb.web.chat.families import FAMILIES, HERMES, LLAMA_3
from tests import vocabularies
from tests.needs import long
from tests.real.conftest import need_model
from tests.unit.test_grammar_limits import BOMBS, KINDS

BY_NAME = {family.name: family for family in (*FAMILIES, HERMES, LLAMA_3)}
STARTS = {"gpt-oss"}  # families whose calls begin with control tokens that these vocabularies have not
PARTS: list[dict[str, Any]] = [
    {"type": "string", "description": "The absolute path to the file to modify (must be absolute, not relative)"},
    {"type": "string", "pattern": "^[a-z0-9_-]{1,64}$"},
    {"type": "string", "format": "uri"},
    {"enum": ["content", "files_with_matches", "count"], "type": "string"},
    {"type": "boolean", "default": False},
    {"type": "integer", "minimum": 0, "maximum": 600000},
    {"type": "number"},
    {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
    {"type": "array", "minItems": 1, "items": {
        "type": "object", "properties": {"old": {"type": "string"}, "new": {"type": "string"}, "all": {"type": "boolean"}},
        "required": ["old", "new"], "additionalProperties": False,
    }},
]  # fmt: skip
TEXT = 'The <b>king</b> is at /home/me (it, "parameter" < 3).'


def tools_of(count: int) -> list[dict[str, Any]]:
    """Return tools as agents and MCP servers have them: the first takes two texts, each other one eight arguments."""
    texts = {"path": {"type": "string"}, "text": {"type": "string"}}
    made = [{"name": "tool_0", "parameters": {"type": "object", "properties": texts, "required": ["path"]}}]
    for number in range(1, count):
        draws = random.Random(number)
        own = {f"argument_{place}_{number}": draws.choice(PARTS) for place in range(8)}
        parameters = {"type": "object", "properties": own, "required": list(own)[:3], "additionalProperties": False}
        made.append({"name": f"tool_{number}", "parameters": parameters})
    return made


@pytest.fixture(scope="module")
def llama(name: str) -> LlamaModel:
    return vocabularies.load(need_model(name))


@pytest.mark.parametrize("count", [1, 24])
@pytest.mark.parametrize("family", sorted(BY_NAME.keys() - STARTS))
def test_a_call_with_free_text_is_written_to_its_end(llama: LlamaModel, family: str, count: int) -> None:
    """By characters, a mask of free text was too complex for each vocabulary of more than a few thousand tokens."""
    made = BY_NAME[family].grammar(tools_of(count), True, True)
    asked = SamplingParams(grammar=made.text, grammar_schemas=made.schemas, grammar_triggers=made.triggers)
    model = FakeModel()
    model.grammars = llama.grammars
    params = Preparer(model, None)._checked(asked)
    assert params.grammar, "the tools are free"
    matcher = llama.grammars.matcher(params.grammar, params.grammar_schemas, "tools")
    call = BY_NAME[family].forms[0].write([("tool_0", {"path": TEXT, "text": TEXT})])
    for token in llama.grammars._vocabulary(call):
        assert len(matcher.allowed)
        matcher.accept(token)


def tools_with(count: int, family: str) -> dict[str, Any]:
    made = BY_NAME[family].grammar(tools_of(count), True, False)
    return {"grammar": made.text, "schemas": [prepared(schema, "tools").text for schema in made.schemas]}


ATTACKS = {
    **BOMBS,
    **{
        f"{count} tools of {family}": lambda count=count, family=family: tools_with(count, family)
        for count in (24, 128)
        for family in ("hermes", "qwen3-coder", "glm-4", "kimi-k3", "minimax-m3")
    },
}


BY_DAY = [*KINDS, "24 tools of hermes", "24 tools of qwen3-coder", "128 tools of kimi-k3"]


class Watch:
    """A clock of the processor that knows how long each call took between two of its readings."""

    def __init__(self) -> None:
        self.calls: list[float] = []
        self._began: float | None = None

    def __call__(self) -> float:
        now = time.thread_time()
        if self._began is None:
            self._began = now
        else:
            self.calls.append(now - self._began)
            self._began = None
        return now


@pytest.mark.parametrize("name", ["gemma3"], indirect=True)  # a vocabulary five times as large
@pytest.mark.parametrize("attack", [*BY_DAY, *long(*(attack for attack in ATTACKS if attack not in BY_DAY))])
def test_each_call_for_a_grammar_that_explodes_is_bounded_and_one_that_took_long_is_the_last(
    llama: LlamaModel, attack: str
) -> None:
    """A call cannot be interrupted; a grammar whose call took too long is used for no other one, by whichever text."""
    watch = llama.grammars.clock = Watch()
    fields = ATTACKS[attack]()
    try:
        if "json_schema" in fields:
            schema = prepared(json.dumps(fields["json_schema"]), "json_schema").text
            fields = {"grammar": "root ::= schema-0", "schemas": [schema]}
        texts = [llama.grammars.matcher(**fields) for _ in range(64)]
    except InvalidRequest:
        texts = []  # when it was made
    draws = random.Random(1)
    for number, matcher in enumerate(texts):
        with suppress(GrammarTooComplex):
            for _ in range(4 if number % 16 else 40):
                allowed = [token for token in matcher.allowed.tolist() if not llama.is_eog(token)]
                if not allowed:
                    break
                matcher.accept(draws.choice(allowed))
    assert not [took for took in watch.calls[:-1] if took > CALL_SECONDS], "a grammar went on after such a call"


def test_64_texts_of_7000_words_are_of_these_words(llama: LlamaModel) -> None:
    [(_, form)] = BOMBS["7,000 words"]().items()
    schema = prepared(json.dumps(form), "json_schema").text
    draws = random.Random(1)
    for number in range(64):
        matcher, text = llama.grammars.matcher("root ::= schema-0", (schema,)), b""
        while not llama.is_eog(token := draws.choice(matcher.allowed.tolist())):
            matcher.accept(token)
            text += llama.piece(token)
        assert json.loads(text) in form["enum"], number
