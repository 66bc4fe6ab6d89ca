"""Grammars of requests in Lark: told from GBNF, taken as llguidance takes them, bounded, and errors that name the field."""

from __future__ import annotations

from typing import Any

import pytest

from srb.engine.grammar.languages import is_lark
from srb.engine.grammar.limits import MAX_SYMBOLS
from srb.errors import InvalidRequest
from srb.web.dialects.openai.chat_body import ChatBody
from srb.web.dialects.openai.completion_body import TextCompletionBody
from tests.engine_helpers import Driver

SUM = """
// sums, as vLLM's documentation has them
?start: product | product "+" product -> add
?product: NUMBER   # "x ::= y" is none of GBNF's rules here
NUMBER: /[1-3]{2}/
%ignore / /
"""


@pytest.mark.parametrize(
    "text", [SUM, 'start: "::=" A\nA: "a"', "%import common.INT\nstart: INT", "a.2: b\nstart[capture]: a"]
)
def test_lark_is_known_by_its_rules(text: str) -> None:
    assert is_lark(text)


@pytest.mark.parametrize(
    "text",
    [
        'root ::= "a: b"',
        'root ::= [^"] b\nb ::= "\\"" | [/]',
        'root ::=\n  a # c: d\na ::= "x"',
        "/a: b/",
        "nothing",
        "",
    ],
)
def test_what_has_no_rules_of_lark_is_none(text: str) -> None:
    assert not is_lark(text)


@pytest.mark.parametrize(
    ("grammar", "texts"),
    [
        ('start: "a" B\nB: "b" | "c"', {"ab", "ac"}),
        ('// c\nstart: x y?\nx: "{x" "}"\ny: /[\\/]z/ x', {"{x}", "{x}/z{x}"}),
        ('start: "<" %json {"const": "}"} ">"', {'<"}">'}),
        ('start: "%json" /%(regex|lark)/', {"%json%regex", "%json%lark"}),
    ],
)
def test_a_grammar_in_lark_makes_its_texts(grammar: str, texts: set[str]) -> None:
    driver = Driver()
    outcome = driver.result(driver.submit("the old king", n=8, max_tokens=20, grammar=grammar))
    driver.run()
    assert set(outcome.texts.values()) <= texts
    assert {end.reason for end in outcome.ends.values()} == {"eos"}


def test_a_grammar_in_lark_waits_for_the_answer_like_any() -> None:
    driver = Driver()
    given: dict[str, Any] = {"reasoning_tags": ("", "</t>"), "reasoning_budget_tokens": 2}
    grammar = 'start: "a" B\nB: /[0-9]{3}/'
    request = driver.submit("the", max_tokens=30, grammar=grammar, grammar_triggers=(("answer", "[ ]{2}"),), **given)
    driver.run()
    assert driver.outcomes[request].texts[0].partition("</t>")[2].startswith("  a")


@pytest.mark.parametrize(
    ("grammar", "reason"),
    [
        ("start: b", r"at 1\(8\): unknown name"),
        ('start: "a"\nb: "x" }', r"2\(8\)"),
        ('a: "x"', "no start rule"),
        ("start: /(?=a)b/", "invalid regex"),
        ('start: a\na: "a" (a x | a) | "b"\nx: "y"', "rule a refers to itself"),
        ('start: a\na: b "x"\nb: "[" a "]" | "c"', "refers to itself"),
        ('start: a*\na: "a" | "aa"', r"rule start repeats a part \(\*\)"),
        ('start: x\nx: ("a" | "aa") +', r"rule x repeats a part \(\+\)"),
        ('start: x\nx: "a"{2,300}', r"rule x repeats a part"),
        ('start: x\nx: "a" ~ 2..3', r"rule x repeats a part \(~\)"),
        ('start: %lark { start: "a" }', "%lark, which is not taken"),
        ('start: %regex {"substring_chars": "ab"}', "%regex, which is not taken"),
        ("start: %json {", "without a JSON schema"),
        ('start: %json {"$ref": "#/x"}', "#/x is not in the schema"),
        ("start: " + "A? " * (MAX_SYMBOLS + 1) + '\nA: "a"', f"at most {MAX_SYMBOLS}"),
        ("start: " + "A? " * (MAX_SYMBOLS - 10) + "\nA: /a?/", "too complex"),
        ("start: A\nA: " + " & ".join(f"/(.|\\n)*{chr(97 + place)}(.|\\n){{{place}}}/" for place in range(20)), "fuel"),
    ],
    ids=range(17),
)
def test_a_grammar_in_lark_that_is_none_or_too_complex_is_refused_with_the_reason(grammar: str, reason: str) -> None:
    with pytest.raises(InvalidRequest, match=reason) as caught:
        Driver().submit("the", grammar=grammar, grammar_place="ebnf")
    assert caught.value.extra["param"].startswith("ebnf")


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"guided_grammar": SUM}, "guided_grammar"),
        ({"ebnf": SUM}, "ebnf"),
        ({"structured_outputs": {"grammar": SUM}}, "structured_outputs.grammar"),
        ({"structured_outputs": {"regex": "a", "choice": None}}, "structured_outputs.regex"),
        ({"guided_choice": ["a"]}, "guided_choice"),
        ({"regex": "a"}, "regex"),
        ({"grammar": SUM}, "grammar"),
    ],
)
def test_an_error_of_a_grammar_names_the_clients_field(fields: dict[str, Any], place: str) -> None:
    for body in (
        TextCompletionBody.parse({"prompt": "x", **fields}),
        ChatBody.parse({"messages": [{"role": "user", "content": "x"}], **fields}),
    ):
        assert body.sampling_changes()["grammar_place"] == place
