"""Grammars that begin at a trigger, and budgets of reasoning, on llama.cpp: nothing aborts, and every call is valid."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import numpy as np
import orjson
import pytest

from srb.config.sampling_params import SamplingParams
from srb.engine.grammar.gbnf import preceded
from srb.engine.grammar.schemas import prepared
from srb.engine.llama.model import LlamaModel
from srb.engine.llama.sampler import LlamaSampler
from srb.errors import GrammarDeadEnd
from srb.web.chat.families import BLANK, FAMILIES, HERMES, LLAMA_3, CallGrammar, Family
from srb.web.chat.reply_parser import Content, Reasoning, ReplyParser, ToolCall, parse_reply
from tests.unit.replies import PARALLEL, REPLIES

BY_NAME = {family.name: family for family in (*FAMILIES, HERMES, LLAMA_3)}
WEATHER = {
    "name": "weather",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
        "required": ["city", "days"],
        "additionalProperties": False,
    },
}
FEW = {
    "name": "weather",
    "parameters": {
        "type": "object",
        "properties": {"city": {"enum": ["Oslo", "Rome"]}, "sure": {"type": "boolean"}},
        "required": ["city", "sure"],
        "additionalProperties": False,
    },
}


def params_of(
    llama: LlamaModel, family: Family, tool: dict[str, Any], lazy: bool, parallel: bool = False
) -> SamplingParams:
    grammar = family.grammar([tool], parallel, lazy)
    tags = family.reasoning if lazy else ()
    return under(grammar, grammar_triggers=grammar.triggers, reasoning_tags=tags)


def under(grammar: CallGrammar, before: str = "", **options: Any) -> SamplingParams:
    """Return the parameters of a reply under a grammar, which `before` may precede."""
    text = preceded(grammar.text, before) if before else grammar.text
    schemas = tuple(prepared(schema, "tools").text for schema in grammar.schemas)
    return SamplingParams(grammar=text, grammar_schemas=schemas, **options)


def favouring(llama: LlamaModel, byte: int, seed: int = 0) -> Any:
    """Return logits of noise in which one byte is far likelier than all else."""
    row = np.random.default_rng(seed).random(llama.n_vocab, dtype=np.float32)
    row[_token(llama, byte)] += 50
    return row


@cache
def _token(llama: LlamaModel, byte: int) -> int:
    return next(token for token in range(llama.n_vocab) if llama.piece(token) == bytes([byte]))


def write(llama: LlamaModel, sampler: LlamaSampler, text: str) -> str:
    """Sample while each byte of `text` is far likelier than all else; return what came."""
    got = b""
    for place, byte in enumerate(text.encode()):
        token = sampler.sample_from(favouring(llama, byte, place))
        if llama.is_eog(token):
            break
        got += llama.piece(token)
    return got.decode("utf-8", "replace")


def go_on(llama: LlamaModel, sampler: LlamaSampler, limit: int = 600) -> str:
    """Go on with noise until the text ends; return the text."""
    text = b""
    for row in np.random.default_rng(3).random((limit, llama.n_vocab), dtype=np.float32):
        if llama.is_eog(token := sampler.sample_from(row)):
            return text.decode()
        text += llama.piece(token)
    raise AssertionError(f"{text!r} does not end")


# Families whose calls begin with a header: the part with which the grammar begins, and the text before.
HEADS = {"gpt-oss": "to=functions."}
BEFORE = {"gpt-oss": "<|channel|>commentary "}


def section(name: str) -> str:
    """Return the call of a family's reply, from its trigger on."""
    text, form = REPLIES[name].replace("Action: ```", "Action:\n```"), BY_NAME[name].forms[0]
    marker = HEADS.get(name, form.marker)
    return text[text.index(marker) :]


@pytest.mark.parametrize("name", REPLIES)
def test_the_grammar_of_a_family_takes_what_its_models_write(llama: LlamaModel, name: str) -> None:
    call = section(name)
    sampler = llama.new_sampler(params_of(llama, BY_NAME[name], WEATHER, lazy=True), 1, [])
    free = "Wait. Text is free" if BY_NAME[name].forms[0].marker else ""
    assert write(llama, sampler, free) == free
    written = write(llama, sampler, call.removesuffix("<|call|>"))
    assert written == call.removesuffix("<|call|>")
    assert go_on(llama, sampler).strip() == ""


@pytest.mark.parametrize("name", REPLIES)
def test_a_call_that_has_begun_is_always_valid(llama: LlamaModel, name: str) -> None:
    family = BY_NAME[name]
    begun = {**HEADS, "functionary-3.2": ">>>weather\n"}.get(name, family.forms[0].marker or '{"name"')
    before = BEFORE.get(name, "Hi! " if family.forms[0].marker else "")
    for seed in range(3):
        sampler = llama.new_sampler(params_of(llama, family, FEW, lazy=True), seed, [])
        text = write(llama, sampler, before + begun)
        assert text == before + begun
        text += go_on(llama, sampler)
        parser = ReplyParser({"weather": FEW["parameters"]}, family=family)
        calls = [piece for piece in (*parser.feed(text), *parser.end()) if isinstance(piece, ToolCall)]
        assert [call.name for call in calls] == ["weather"], text
        given = orjson.loads(calls[0].arguments)
        assert given.keys() == {"city", "sure"}
        assert isinstance(given["sure"], bool)
        assert given["city"] in ("Oslo", "Rome")


@pytest.mark.parametrize("name", REPLIES)
def test_a_call_that_is_required_comes_at_once(llama: LlamaModel, name: str) -> None:
    sampler = llama.new_sampler(params_of(llama, BY_NAME[name], FEW, lazy=False), 1, [])
    text = go_on(llama, sampler)
    parser = ReplyParser({"weather": FEW["parameters"]}, family=BY_NAME[name])
    (call,) = (*parser.feed(text), *parser.end())
    assert isinstance(call, ToolCall), text


def test_a_trigger_in_reasoning_is_none(llama: LlamaModel) -> None:
    sampler = llama.new_sampler(params_of(llama, HERMES, FEW, lazy=True), 1, [])
    assert write(llama, sampler, "<think>a <tool_call> is no</think>Hm.") == "<think>a <tool_call> is no</think>Hm."
    assert write(llama, sampler, '<tool_call>{"name": "x') == '<tool_call>{"name": "w'


def test_text_that_the_grammar_forbids_from_its_beginning_on_never_begins_it(llama: LlamaModel) -> None:
    params = SamplingParams(grammar='root ::= "b"', grammar_triggers=(("word", "a"),))
    sampler = llama.new_sampler(params, 1, [])
    assert "a" not in write(llama, sampler, "xayaza")
    only_a = np.full(llama.n_vocab, -np.inf, np.float32)
    only_a[_token(llama, ord("a"))] = 1.0
    with pytest.raises(GrammarDeadEnd):
        sampler.sample_from(only_a)


def test_a_token_can_be_the_trigger(llama: LlamaModel) -> None:
    params = SamplingParams(grammar='root ::= "!" "ok"', grammar_triggers=(("token", _token(llama, ord("!"))),))
    sampler = llama.new_sampler(params, 1, [])
    assert write(llama, sampler, "what! xy") == "what!ok"


def test_a_lazy_grammar_is_rewound_with_the_text(llama: LlamaModel) -> None:
    """Before, at and after its trigger: the sampler goes on as one that was never rewound."""
    params = SamplingParams(
        grammar='root ::= "☃" [a-e]+ "☃" [0-9] "."', grammar_triggers=(("word", "☃"),), repeat_penalty=1.2
    )
    text = "hi there ☃abc☃7."
    for seed in range(6):
        choices = np.random.default_rng(seed)
        rewound, tokens, held = llama.new_sampler(params, seed, []), [], 0
        rewound.remember()
        goal = text.encode()
        while len(tokens) < len(goal):
            tokens.append(rewound.sample_from(favouring(llama, goal[len(tokens)], len(tokens))))
            held += 1
            if choices.random() < 0.3:
                count = int(choices.integers(1, held + 1))
                rewound.rewind(count)
                del tokens[len(tokens) - count :]
                held -= count
            elif choices.random() < 0.2:
                held = int(choices.integers(0, held + 1))
                rewound.forget(held)
        assert b"".join(map(llama.piece, tokens)) == goal
        assert llama.is_eog(rewound.sample_from(favouring(llama, ord("x"))))
        rewound.close()


def test_clones_and_forks_stand_where_a_lazy_grammar_stands(llama: LlamaModel) -> None:
    params = params_of(llama, HERMES, FEW, lazy=True)
    text = '<think>so</think>Hi <tool_call>{"name": "weather", "arguments": {"city": "Oslo"'
    first = llama.new_sampler(params, 1, [])
    for place, byte in enumerate(text.encode()):
        clone = first.clone(2)
        fork = llama.new_sampler(params, 2, [])
        fork.accept_in_grammar([_token(llama, each) for each in text.encode()[:place]])
        row = favouring(llama, byte, place)
        assert clone.sample_from(row) == fork.sample_from(row) == first.sample_from(row)
        clone.close()
        fork.close()
    assert re.fullmatch(r'\s*,\s*"sure"\s*:\s*(true|false)\s*\}\}\n?(</tool_call>)', go_on(llama, first))
    broken = llama.new_sampler(params, 2, [])
    with pytest.raises(GrammarDeadEnd):
        broken.accept_in_grammar([_token(llama, each) for each in b"<tool_call>no"])


@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize("budget", [0, 1, 5])
def test_reasoning_ends_after_its_budget_with_the_message(llama: LlamaModel, inside: bool, budget: int) -> None:
    opening = "" if inside else "<think>"
    params = SamplingParams(
        reasoning_tags=(opening, "</think>"), reasoning_budget_tokens=budget, reasoning_budget_message="Enough. "
    )
    sampler = llama.new_sampler(params, 1, [])
    assert write(llama, sampler, opening) == opening
    forced = " Enough. </think>"
    assert write(llama, sampler, "x" * (budget + len(forced) + 3)) == "x" * budget + forced + "xxx"


@pytest.mark.parametrize("budget", [-1, 9])
def test_reasoning_ends_when_it_is_told_to(llama: LlamaModel, budget: int) -> None:
    params = SamplingParams(
        reasoning_tags=("<think>", "</think>"), reasoning_budget_tokens=budget, reasoning_budget_message="Enough. ",
        reasoning_control=True,
    )  # fmt: skip
    sampler, other = llama.new_sampler(params, 1, []), llama.new_sampler(params, 1, []).clone(2)
    assert write(llama, sampler, "<think>xxx") == "<think>xxx"
    assert sampler.end_reasoning()
    forced = " Enough. </think>"
    assert write(llama, sampler, "y" * (len(forced) + 2)) == forced + "yy"
    assert not sampler.end_reasoning()
    assert write(llama, other, "<think>xxxxxx") == "<think>xxxxxx"
    plain = llama.new_sampler(SamplingParams(), 1, [])
    assert not plain.end_reasoning()


def test_schemas_of_a_grammar_keep_their_own_rules(llama: LlamaModel) -> None:
    def schema(*words: str) -> str:
        inner = {"type": "object", "properties": {"is": {"enum": words}}, "required": ["is"]}
        return orjson.dumps({"type": "object", "properties": {"1": inner}, "required": ["1"]}).decode()

    schemas = tuple(prepared(schema(*words), "tools").text for words in (("a", "b"), ("c", "d")))
    params = SamplingParams(grammar='root ::= "0" schema-0 | "1" schema-1', grammar_schemas=schemas)
    for text in ('0{"1":{"is":"a"}}', '1{"1":{"is":"d"}}'):
        assert write(llama, llama.new_sampler(params, 1, []), text) == text


def test_a_grammar_from_the_first_token_is_cut_by_no_budget(llama: LlamaModel) -> None:
    """llama.cpp ends the process when a grammar has to accept a token that it forbids."""
    params = SamplingParams(
        grammar='root ::= "{" "x"{9} "}"', reasoning_tags=("", "</think>"), reasoning_budget_tokens=2
    )
    assert write(llama, llama.new_sampler(params, 1, []), "{" + "x" * 9 + "}") == "{" + "x" * 9 + "}"


def test_reasoning_within_its_budget_is_left_alone_and_characters_stay_whole(llama: LlamaModel) -> None:
    params = SamplingParams(reasoning_tags=("", "</think>"), reasoning_budget_tokens=10)
    assert write(llama, llama.new_sampler(params, 1, []), "a</think>" + "b" * 20) == "a</think>" + "b" * 20
    assert write(llama, llama.new_sampler(replace_budget(params, 4), 1, []), "abc☃" + "d" * 12).startswith(
        "abc☃ </think>d"
    )


def replace_budget(params: SamplingParams, budget: int) -> SamplingParams:
    return SamplingParams(reasoning_tags=params.reasoning_tags, reasoning_budget_tokens=budget)


# A grammar that waits for the answer ----------------------------------------------------------------------------------

ANSWER = 'root ::= "{" [ab]{2,4} "}"'


def awaiting(opening: str, before: str = "", **options: Any) -> SamplingParams:
    grammar = preceded(ANSWER, before) if before else ANSWER
    tags = (opening, "</think>")
    return SamplingParams(grammar=grammar, grammar_triggers=(("answer", before),), reasoning_tags=tags, **options)


@pytest.mark.parametrize("opening", ["", "<think>"])
def test_thoughts_are_free_and_the_answer_is_the_grammars(llama: LlamaModel, opening: str) -> None:
    sampler = llama.new_sampler(awaiting(opening, BLANK), 1, [])
    assert write(llama, sampler, f"{opening}Any {{ text }}\n</think>") == f"{opening}Any {{ text }}\n</think>"
    assert re.fullmatch(r"\n{2,4}\{[ab]{2,4}\}", write(llama, sampler, "\n\nSure!!!"))


def test_without_thoughts_the_answer_is_the_grammars_from_its_first_token_on(llama: LlamaModel) -> None:
    pieces = [llama.piece(token, special=True) for token in range(llama.n_vocab)]
    never = [token for token, piece in enumerate(pieces) if piece and b"<think>".startswith(piece)]
    for seed in range(8):
        sampler, text = llama.new_sampler(awaiting("<think>", BLANK), seed, []), b""
        for row in np.random.default_rng(seed).random((40, llama.n_vocab), dtype=np.float32):
            row[never] = -50
            if llama.is_eog(token := sampler.sample_from(row)):
                break
            text += llama.piece(token)
        assert re.fullmatch(rb"[ \n]{0,4}\{[ab]{2,4}\}", text), text


@pytest.mark.parametrize("begun", ["<", "<thin"])
def test_a_tag_that_has_begun_is_completed_if_the_grammar_has_no_such_text(llama: LlamaModel, begun: str) -> None:
    sampler = llama.new_sampler(awaiting("<think>"), 1, [])
    assert write(llama, sampler, begun + "Sure, text")[:7] == "<think>"


def test_a_grammar_that_begins_like_the_tag_is_free_to_go_on(llama: LlamaModel) -> None:
    params = SamplingParams(
        grammar='root ::= "<thorn>" [0-9]', grammar_triggers=(("answer", ""),), reasoning_tags=("<think>", "</think>")
    )
    assert write(llama, llama.new_sampler(params, 1, []), "<thorn>7") == "<thorn>7"
    assert write(llama, llama.new_sampler(params, 1, []), "<think>x</think>hi").startswith("<think>x</think><t")


@pytest.mark.parametrize("opening", ["", "<think>"])
def test_an_end_within_the_thoughts_becomes_their_end_tag(llama: LlamaModel, opening: str) -> None:
    sampler = llama.new_sampler(awaiting(opening, post_sampling_probs=True), 1, [])
    assert write(llama, sampler, f"{opening}Hm") == f"{opening}Hm"
    end = np.zeros(llama.n_vocab, np.float32)
    end[list(llama.eog_token_list)] = 50.0
    text = b""
    for _ in range(40):
        token = sampler.sample_from(end)
        assert token in sampler.candidates.ids
        if llama.is_eog(token):
            break
        text += llama.piece(token)
    assert re.fullmatch(rb" ?</think>\{[ab]{2,4}\}", text), text


def test_a_budget_of_no_tokens_ends_the_thoughts_at_once(llama: LlamaModel) -> None:
    params = awaiting("", BLANK, reasoning_budget_tokens=0)
    text = go_on(llama, llama.new_sampler(params, 1, []))
    assert re.fullmatch(r" ?</think>[ \n]{0,4}\{[ab]{2,4}\}", text), text


def test_clones_forks_and_rewound_samplers_stand_where_the_answer_stands(llama: LlamaModel) -> None:
    text = "<think>so</think>{ab}"
    first = llama.new_sampler(awaiting("<think>"), 1, [])
    for place, byte in enumerate(text.encode()):
        clone = first.clone(2)
        fork = llama.new_sampler(awaiting("<think>"), 2, [])
        fork.accept_in_grammar([_token(llama, each) for each in text.encode()[:place]])
        row = favouring(llama, byte, place)
        rewound = first.clone(2)
        rewound.remember()
        rewound.sample_from(favouring(llama, ord("x"), 3))
        rewound.rewind(1)
        assert rewound.sample_from(row) == clone.sample_from(row) == fork.sample_from(row) == first.sample_from(row)
        for each in (clone, fork, rewound):
            each.close()
    broken = llama.new_sampler(awaiting("<think>"), 2, [])
    with pytest.raises(GrammarDeadEnd):
        broken.accept_in_grammar([_token(llama, each) for each in b"Sure"])


def test_a_fork_that_is_prepared_in_a_lane_leaves_the_decode_threads_candidates_alone(llama: LlamaModel) -> None:
    """While llama.cpp samples, a lane may run: here between the candidates and the chain that chooses one of them."""
    running, fork = (llama.new_sampler(each, 1, []) for each in (SamplingParams(temperature=0.0), awaiting("")))
    array = llama.candidates.fill(favouring(llama, ord("x")))
    fork.accept_in_grammar([_token(llama, each) for each in b"so</think>{a"])
    assert running._choose(array) == _token(llama, ord("x"))


@pytest.mark.parametrize("name", REPLIES)
def test_a_required_call_comes_after_the_thoughts(llama: LlamaModel, name: str) -> None:
    family = BY_NAME[name]
    grammar = family.grammar([FEW], parallel=False, lazy=False)
    opening, closing = family.reasoning
    triggers = (("answer", family.before_call),)
    params = under(grammar, family.before_call, grammar_triggers=triggers, reasoning_tags=(opening, closing))
    thoughts = f"{opening}Hm.{closing}"
    sampler = llama.new_sampler(params, 1, [])
    assert write(llama, sampler, thoughts) == thoughts
    rest = go_on(llama, sampler)
    parser = ReplyParser({"weather": FEW["parameters"]}, family=family)
    pieces = [*parser.feed(thoughts + rest), *parser.end()]
    calls = [piece for piece in pieces if isinstance(piece, ToolCall)]
    assert [call.name for call in calls] == ["weather"], rest
    assert orjson.loads(calls[0].arguments).keys() == {"city", "sure"}
    assert "".join(piece.text for piece in pieces if isinstance(piece, Reasoning)) == "Hm."
    assert not any(isinstance(piece, Content) for piece in pieces), pieces


@pytest.mark.parametrize("name", REPLIES)
def test_an_answer_comes_after_the_thoughts_as_content(llama: LlamaModel, name: str) -> None:
    family = BY_NAME[name]
    text = preceded('root ::= "{}"', family.before_answer)
    triggers = (("answer", family.before_answer),)
    params = SamplingParams(grammar=text, grammar_triggers=triggers, reasoning_tags=family.reasoning)
    thoughts = "Hm.".join(family.reasoning)
    sampler = llama.new_sampler(params, 1, [])
    assert write(llama, sampler, thoughts) == thoughts
    content, reasoning, _ = parse_reply(ReplyParser(family=family), thoughts + go_on(llama, sampler))
    assert (content.strip(), reasoning) == ("{}", "Hm.")


REFERRING = {
    "name": "get-weather_v2.1",
    "strict": True,
    "parameters": {
        "type": "object",
        "properties": {
            "city": {"$ref": "#/$defs/City"},
            "max-days": {"type": "integer"},
            "where": {
                "type": "object",
                "properties": {"city": {"$ref": "#/$defs/City"}},
                "additionalProperties": False,
            },
        },
        "required": ["city", "max-days"],
        "additionalProperties": False,
        "$defs": {"City": {"type": "string", "enum": ["Oslo", "Rome"]}},
    },
}


@pytest.mark.parametrize("name", REPLIES)
def test_a_forced_call_keeps_references_and_names_with_marks(llama: LlamaModel, name: str) -> None:
    family, other = BY_NAME[name], {"name": "time", "parameters": {"type": "object", "additionalProperties": False}}
    for offered, seed in (([REFERRING], 1), ([REFERRING], 2), ([REFERRING, other], 3)):
        grammar = family.grammar(offered, parallel=False, lazy=False)
        sampler = llama.new_sampler(under(grammar), seed, [])
        written = go_on(llama, sampler, 900)
        tools = {tool["name"]: tool.get("parameters") or {} for tool in offered}
        content, _, calls = parse_reply(ReplyParser(tools, family=family), written)
        assert (content, len(calls)) == ("", 1), written
        given = orjson.loads(calls[0].arguments)
        if calls[0].name == "time":
            continue
        assert calls[0].name == "get-weather_v2.1"
        assert given.keys() >= {"city", "max-days"}
        assert isinstance(given["max-days"], int)
        assert given["city"] in ("Oslo", "Rome")


def test_a_call_of_mistrals_may_have_an_id_of_nine_characters(llama: LlamaModel) -> None:
    sampler = llama.new_sampler(params_of(llama, BY_NAME["mistral"], FEW, lazy=True), 1, [])
    call = '[TOOL_CALLS]weather[CALL_ID]D681PevKs[ARGS]{"city": "Oslo", "sure": true}'
    assert write(llama, sampler, call) == call
    sampler = llama.new_sampler(params_of(llama, BY_NAME["mistral"], FEW, lazy=True), 1, [])
    assert write(llama, sampler, "[TOOL_CALLS]weather[CALL_ID]0123456789") == "[TOOL_CALLS]weather[CALL_ID]012345678["


@pytest.mark.parametrize("awaited", [True, False])
@pytest.mark.parametrize("name", REPLIES)
def test_a_reply_is_a_call_or_an_answer_that_follows_a_schema(llama: LlamaModel, name: str, awaited: bool) -> None:
    family = BY_NAME[name]
    grammar = family.either([FEW], True, {"enum": ["Yes", "No"]}, awaited)
    triggers, tags = ((("answer", ""),), family.reasoning) if awaited else ((), ())
    params = under(grammar, grammar_triggers=triggers, reasoning_tags=tags)
    thoughts = "Hm.".join(family.reasoning) if awaited else ""
    rules = preceded('root ::= "\\"No\\""', family.before_answer if awaited else "")
    plain = SamplingParams(grammar=rules, grammar_triggers=triggers, reasoning_tags=tags)
    sampler = llama.new_sampler(plain, 1, [])
    assert write(llama, sampler, thoughts) == thoughts
    said = thoughts + go_on(llama, sampler)
    sampler = llama.new_sampler(params, 1, [])
    assert write(llama, sampler, said) == said
    content, _, calls = parse_reply(ReplyParser({"weather": FEW["parameters"]}, family=family), said)
    assert (content.strip(), calls) == ('"No"', [])
    sampler = llama.new_sampler(params, 1, [])
    begun = family.grammar([FEW], parallel=False, lazy=False)
    call = go_on(llama, llama.new_sampler(under(begun), 1, []))
    before = {"gpt-oss": "<|start|>assistant"}.get(name, "") if awaited else ""
    before = before or ("<|begin|>assistant" if name == "solar" and awaited else "")
    written = write(llama, sampler, thoughts + before + call)
    assert written == thoughts + before + call


# Answers that may begin as calls of some family do, and the schemas that they follow.
BEGIN_ALIKE: list[tuple[str, dict[str, Any]]] = [
    ('{"name": "weather", "age": 3}', {"properties": {"name": {"type": "string"}, "age": {"type": "integer"}}}),
    ('{"name": "wet"}', {"properties": {"name": {"enum": ["weather", "wet"]}}}),
    ('{"name": "weat"}', {"properties": {"name": {"type": "string", "pattern": "^wea[a-z]*$"}}}),
    ('{"nest": null}', {"properties": {"nest": {"type": "null"}}}),
    ('{"type": "x", "parameters": {}}', {"properties": {"type": {"type": "string"}, "parameters": {"type": "object"}}}),
    ("[true]", {"type": "array", "items": {"enum": [True, None, "weather"]}}),
    ('{"anything": {"name": 1}}', {"type": "object"}),
]


@pytest.mark.parametrize("family", BY_NAME.values(), ids=BY_NAME)
def test_a_call_is_not_lost_beside_an_answer_that_begins_like_it(llama: LlamaModel, family: Family) -> None:
    call = go_on(llama, llama.new_sampler(under(family.grammar([FEW], parallel=False, lazy=False)), 1, []))
    for answer, schema in BEGIN_ALIKE:
        params = under(family.either([FEW], True, schema, awaited=False))
        for text, said in ((answer, (answer, 0)), (call, ("", 1))):
            assert write(llama, llama.new_sampler(params, 1, []), text) == text, schema
            content, _, calls = parse_reply(ReplyParser({"weather": FEW["parameters"]}, family=family), text)
            assert (content, len(calls)) == said


def test_a_call_beside_an_answer_has_its_tools_definitions(llama: LlamaModel) -> None:
    parameters = {"properties": {"at": {"$ref": "#/$defs/At"}}, "required": ["at"], "$defs": {"At": {"enum": ["home"]}}}
    tools = [{"name": "go", "parameters": parameters}, FEW]
    answer = {"properties": {"name": {"type": "string"}}}
    params = under(LLAMA_3.either(tools, True, answer, awaited=False))
    said = '{"name": "go", "parameters": {"at": "home"}}; {"name": "go", "parameters": {"at": "home"}}'
    assert write(llama, llama.new_sampler(params, 1, []), said) == said
    astray = '{"name": "go", "parameters": {"at": "away"}}'
    assert write(llama, llama.new_sampler(params, 1, []), astray) != astray


def test_a_tool_whose_schema_refers_to_itself_as_a_whole_is_called_beside_an_answer(llama: LlamaModel) -> None:
    tree = {"properties": {"leaf": {"type": "null"}, "inner": {"$ref": "#"}}}
    params = under(LLAMA_3.either([{"name": "grow", "parameters": tree}], True, {"enum": [7]}, awaited=False))
    said = '{"name": "grow", "parameters": {"inner": {"leaf": null}}}'
    assert write(llama, llama.new_sampler(params, 1, []), said) == said


NESTED = {
    "type": "object",
    "properties": {
        "place": {
            "type": "object",
            "properties": {"city": {"enum": ["Oslo", "Rome"]}, "zone": {"type": "integer", "minimum": 0, "maximum": 9}},
            "required": ["zone"],
        },
        "days": {"type": "array", "items": {"enum": [1, 2, 3]}},
        "unit": {"const": 7},
        "when": {"anyOf": [{"const": "now"}, {"type": "null"}]},
        "sure": {"anyOf": [{"type": "boolean"}, {"type": "null"}]},
        "tree": {"$ref": "#/$defs/Tree"},
    },
    "required": ["place", "days", "unit", "when", "sure"],
    "$defs": {
        "Tree": {"type": "object", "properties": {"left": {"$ref": "#/$defs/Tree"}, "value": {"enum": [5]}}},
    },
}


def is_tree(value: Any) -> bool:
    if not value:
        return True
    return set(value) <= {"left", "value"} and value.get("value", 5) == 5 and is_tree(value.get("left"))


# As MCP servers, LangChain, FastMCP and people describe a tool that takes no arguments.
WITHOUT_ARGUMENTS = {
    "none named": {"name": "now", "parameters": {"type": "object", "properties": {}}},
    "titled": {"name": "now", "parameters": {"properties": {}, "title": "now_Arguments", "type": "object"}},
    "omitted": {"name": "now"},
    "null": {"name": "now", "parameters": None},
    "empty": {"name": "now", "parameters": {}},
}


@pytest.mark.parametrize("tool", WITHOUT_ARGUMENTS.values(), ids=WITHOUT_ARGUMENTS)
@pytest.mark.parametrize("name", REPLIES)
def test_a_tool_that_takes_no_arguments_is_called_with_none(llama: LlamaModel, name: str, tool: dict[str, Any]) -> None:
    family = BY_NAME[name]
    for seed in range(3):
        sampler = llama.new_sampler(params_of(llama, family, tool, lazy=False), seed, [])
        text = go_on(llama, sampler, 2000)
        _, _, [call] = parse_reply(ReplyParser({"now": tool.get("parameters") or {}}, family=family), text)
        assert (call.name, orjson.loads(call.arguments)) == ("now", {})


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("name", ["gemma-4", "minimax-m3"])
def test_values_within_values_follow_the_schema(llama: LlamaModel, name: str, seed: int) -> None:
    family, tool = BY_NAME[name], {"name": "weather", "parameters": NESTED}
    sampler = llama.new_sampler(params_of(llama, family, tool, lazy=False), seed, [])
    text = go_on(llama, sampler, 2000)
    _, _, [call] = parse_reply(ReplyParser({"weather": NESTED}, family=family), text)
    given = orjson.loads(call.arguments)
    assert set(NESTED["required"]) <= set(given) <= set(NESTED["properties"])
    assert set(given["place"]) <= {"city", "zone"}
    assert given["place"]["zone"] in range(10)
    assert given["place"].get("city", "Oslo") in ("Oslo", "Rome")
    assert set(given["days"]) <= {1, 2, 3}
    assert given["unit"] == 7
    assert given["when"] in ("now", None)
    assert given["sure"] in (True, False, None)
    assert is_tree(given.get("tree", {}))


def test_any_of_the_optional_arguments_may_be_left_out(llama: LlamaModel) -> None:
    properties = {name: {"type": "integer"} for name in ("a", "b", "c")}
    tool = {"name": "weather", "parameters": {"type": "object", "properties": properties}}
    for said in ("", "a:1", "c:3", "a:1,c:3", "b:2,c:3"):
        call = f"<|tool_call>call:weather{{{said}}}<tool_call|>"
        sampler = llama.new_sampler(params_of(llama, BY_NAME["gemma-4"], tool, lazy=True), 1, [])
        assert write(llama, sampler, call) == call
        call = f"<|tool_call_start|>[weather({said.replace(':', '=')})]<|tool_call_end|>"
        sampler = llama.new_sampler(params_of(llama, BY_NAME["lfm2"], tool, lazy=True), 1, [])
        assert write(llama, sampler, call) == call


OTHER_FORMS = [
    ("llama-3", '{"type": "function", "name": "', "weather"),
    ("llama-3", '<|python_tag|>{"type": "function", "name": "', "weather"),
    ("llama-3", '<|python_tag|>{"name": "', "weather"),
    ("llama-3", 'Well. <tool_call>{"name": "', "weather"),
    ("llama-4", '[weather(city="', "Oslo"),
    ("hermes", '<|python_tag|>{"name": "', "weather"),
    ("hermes", '{"name": "weather", "parameters": {"city": "', "Oslo"),
    ("hermes", '{"name": "weather", "arguments": {"city": "', "Oslo"),
    ("qwen3-coder", "<tool_call>\n<function=", "weather"),
    ("lfm2", 'Well. <tool_call>{"name": "', "weather"),
    ("functionary-3.1", '<|python_tag|>{"name": "', "weather"),
    ("command-r-plus", 'Action: ```json\n[{"tool_name": "', "weather"),
]


@pytest.mark.parametrize(("name", "begun", "word"), OTHER_FORMS)
def test_a_call_in_another_form_of_its_family_is_valid_too(llama: LlamaModel, name: str, begun: str, word: str) -> None:
    sampler = llama.new_sampler(params_of(llama, BY_NAME[name], FEW, lazy=True), 1, [])
    written = write(llama, sampler, begun + "x")
    assert written.startswith(begun)
    assert written != begun + "x"
    sampler = llama.new_sampler(params_of(llama, BY_NAME[name], FEW, lazy=True), 1, [])
    assert write(llama, sampler, begun + word) == begun + word
    rest = go_on(llama, sampler)
    _, _, [call] = parse_reply(ReplyParser({"weather": FEW["parameters"]}, family=BY_NAME[name]), begun + word + rest)
    assert orjson.loads(call.arguments).keys() == {"city", "sure"}


@pytest.mark.parametrize("name", ["hermes", "llama-4"])
def test_an_answer_that_only_looks_like_a_call_is_free(llama: LlamaModel, name: str) -> None:
    text = '{"name": "Ada", "age": 36}' if name == "hermes" else '[wet, "windy"]'
    sampler = llama.new_sampler(params_of(llama, BY_NAME[name], FEW, lazy=True), 1, [])
    assert write(llama, sampler, text) == text


OPTIONAL = (
    {"type": ["string", "null"]},
    {"anyOf": [{"type": "string"}, {"type": "null"}]},
    {"anyOf": [{"enum": ["Oslo", "Rome"]}, {"$ref": "#/$defs/Nothing"}]},
)


@pytest.mark.parametrize("schema", OPTIONAL)
@pytest.mark.parametrize("name", REPLIES)
def test_a_string_that_may_be_null_is_written_as_any_string(
    llama: LlamaModel, name: str, schema: dict[str, Any]
) -> None:
    tool = orjson.loads(orjson.dumps(WEATHER))
    tool["parameters"] |= {"$defs": {"Nothing": {"type": "null"}}}
    tool["parameters"]["properties"]["city"] = schema
    call = section(name).removesuffix("<|call|>")
    sampler = llama.new_sampler(params_of(llama, BY_NAME[name], tool, lazy=True), 1, [])
    assert write(llama, sampler, call) == call


CITY, DAYS = {"city": {"type": "string"}}, {"days": {"type": "integer"}}
ROOTS: dict[str, dict[str, Any]] = {
    "a reference": {"$ref": "#/$defs/Asked", "$defs": {"Asked": WEATHER["parameters"]}},
    "variants": {
        "anyOf": [
            {"type": "object", "properties": {**CITY, **DAYS}, "required": ["city", "days"]},
            {"type": "object", "properties": {"place": {"type": "integer"}}},
        ]
    },
    "parts": {"allOf": [{"type": "object", "properties": CITY}, {"type": "object", "properties": DAYS}]},
    "any object": {"type": "object"},
    "any object of strings and numbers": {"additionalProperties": {"type": ["string", "integer"]}, "type": "object"},
}


@pytest.mark.parametrize("root", ROOTS)
@pytest.mark.parametrize("name", REPLIES)
def test_a_call_has_arguments_whatever_form_its_schema_has(llama: LlamaModel, name: str, root: str) -> None:
    tool = {"name": "weather", "parameters": ROOTS[root]}
    call = section(name).removesuffix("<|call|>")
    sampler = llama.new_sampler(params_of(llama, BY_NAME[name], tool, lazy=True), 1, [])
    assert write(llama, sampler, call) == call


@pytest.mark.parametrize("parallel", [True, False])
@pytest.mark.parametrize("name", sorted(PARALLEL.keys() - {"gpt-oss"}))  # whose calls end a reply each
def test_a_second_call_follows_where_calls_may_be_parallel(llama: LlamaModel, name: str, parallel: bool) -> None:
    family, empty = BY_NAME[name], {"type": "object", "properties": {}, "additionalProperties": False}
    offered = [{"name": each, "parameters": empty} for each in ("weather", "time")]
    grammar = family.grammar(offered, parallel, lazy=False)
    sampler = llama.new_sampler(under(grammar), 1, [])
    said = PARALLEL[name].removesuffix("<|eot|>").replace('"time"}', '"time", "arguments": {}}')
    written = write(llama, sampler, said)
    _, _, calls = parse_reply(ReplyParser({"weather": empty, "time": empty}, family=family), written)
    assert [call.name for call in calls] == (["weather", "time"] if parallel else ["weather"]), written
