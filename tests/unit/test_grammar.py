"""Grammars that would hurt llama.cpp's parser are refused before it sees them."""

from __future__ import annotations

import pytest

from srb.engine.grammar import check_grammar
from srb.errors import InvalidRequest


@pytest.mark.parametrize(
    "grammar",
    [
        'root ::= "yes" | "no"',
        'root ::= ("a" | [b-z]{2,5})+ # (((( {9999}',
        r'root ::= "\"({99999}" [\]({99999}]',
        'root ::= "a"{0,2000}',
        'root ::= ("a"{10} "b"){10}',
        'root ::= "a"{3,}',
    ],
)
def test_ordinary_grammars_pass(grammar: str) -> None:
    check_grammar(grammar)


@pytest.mark.parametrize(
    ("grammar", "reason"),
    [
        ('root ::= "' + "a" * 70_000 + '"', "bytes"),
        ("root ::= " + "(" * 101 + '"a"' + ")" * 101, "nested deeper than 100"),
        ('root ::= "a"{2001}', "more than 2000 times"),
        ('root ::= ("a"{100}){100}', "more than 2000 times"),
        ('root ::= (("a"{20} "b"){20} "c"){20}', "more than 2000 times"),
        ('root ::= "a"{99999999999999999999}', "more than 2000 times"),
        ('root ::= "a\0"', "NUL"),
    ],
)
def test_bombs_are_refused_with_the_limit_they_exceed(grammar: str, reason: str) -> None:
    with pytest.raises(InvalidRequest, match=reason):
        check_grammar(grammar)
