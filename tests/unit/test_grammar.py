"""GBNF: which texts are grammars, and what llguidance makes of them."""

from __future__ import annotations

import re

import pytest

from srb.engine.fake import EOS, FakeModel
from srb.engine.grammar.gbnf import parse, preceded
from srb.engine.grammar.limits import MAX_LEVELS, MAX_TOKENS
from srb.errors import GrammarDeadEnd, GrammarTooComplex, InvalidRequest


@pytest.mark.parametrize(
    "grammar",
    [
        'root ::= "yes" | "no"',
        'root ::= ("a" | [b-z]{2,5})+ # (((( {9999}',
        r'root ::= "\"({99999}" [\]({99999}]',
        'root ::= "a"{0,2000}',
        'root ::= ("a"{10} "b"){10}',
        'root ::= "a"{3,}',
        "root ::= (\n  [a]\n  | [b]\n)\n\n# end",
        "root ::=\r\n  a |\r\n  b\r\na ::= [0-9]\r\nb ::= .",
    ],
)
def test_ordinary_grammars_pass(grammar: str) -> None:
    parse(grammar)


@pytest.mark.parametrize(
    ("grammar", "reason"),
    [
        ('root ::= "' + "a" * 270_000 + '"', "bytes"),
        ("root ::= " + "(" * 101 + '"a"' + ")" * 101, "nested deeper than 100"),
        ('root ::= "a"{2001}', "more than 2000 times"),
        ('root ::= ("a"{100}){100}', "more than 2000 times"),
        ('root ::= (("a"{20} "b"){20} "c"){20}', "more than 2000 times"),
        ('root ::= "a"{99999999999999999999}', "more than 2000 times"),
        ('root ::= "a\0"', "NUL"),
        ('root ::= "a', "line 1: this has no end"),
        ('root ::= "a"\nb ::= [a', "line 2: this has no end"),
        (r'root ::= "\q"', "escape"),
        (r'root ::= "\uD800"', "escape"),
        ("root ::= a", "root refers to a, which is not defined"),
        ('other ::= "a"', "no rule named root"),
        ('root ::= ("a"', r"\) *"),
        ('root ::= "a" )', "should end here"),
        ('root ::= "a"{3,2}', "smaller number first"),
        ("", "no rule named root"),
    ],
)
def test_what_is_no_grammar_is_refused_with_the_reason(grammar: str, reason: str) -> None:
    with pytest.raises(InvalidRequest, match=reason) as caught:
        parse(grammar)
    assert caught.value.extra["param"] == "grammar"


def takes(model: FakeModel, grammar: str, text: str, schemas: tuple[str, ...] = ()) -> bool:
    """Whether a text is one that a grammar makes, read byte by byte."""
    matcher = model.grammars.matcher(grammar, schemas)
    pieces = {model.piece(token): token for token in range(model.n_vocab)}
    try:
        for byte in text.encode():
            matcher.accept(pieces[bytes([byte])])
    except GrammarDeadEnd:
        return False
    return matcher.allows(next(filter(model.is_eog, range(model.n_vocab))))


# Grammar, texts that it makes, texts that it does not make.
LANGUAGES: list[tuple[str, list[str], list[str]]] = [
    ('root ::= [a-z]+ "b"', ["ab", "bbb", "abab"], ["b", "aba", ""]),
    ('root ::= ("a" | "ab") "bc"', ["abc", "abbc"], ["ab", "abb"]),
    ('root ::= [a-z]* root? "!"', ["!", "a!", "ab!!"], ["a", "!a"]),
    ('root ::= "(" root ")" | [a-z]* "b"', ["(ab)", "b", "((bb))"], ["(a)", "(b"]),
    (r'root ::= [^"\\\x00-\x1f] "\t\n\r\"\\" [\]\[^-]', ['é\t\n\r"\\]', 'x\t\n\r"\\-'], ['"\t\n\r"\\]', 'x\t\n\r"\\a']),
    (r'root ::= "\x41\u00e9\U0001F600" .', ["Aé😀\n", "Aé😀☃"], ["Aé😀", "a"]),
    ('root ::= "a"{2} "b"{1,2} "c"{0,} "d"?', ["aab", "aabbcccd", "aabd"], ["ab", "aabbb", "aabdd"]),
    ('root ::= [&&a--b~~] "/" #"', ["&/", "~/", "b/"], ["/", "a/", "c/"]),
    ('root ::= a-B\na-B ::= "x" | a_b\na_b ::= "y"', ["x", "y"], ["xy"]),
    ('root ::= "a"\nroot ::= "b"', ["b"], ["a"]),
    ('root ::= ""', [""], ["a"]),
    ('root ::= "a"{0} "b"{0,0} "c"', ["c"], ["a", "ac", "bc"]),
    ('root ::= "x" tail\ntail ::= "," root | ', ["x", "x,x", "x,x,x"], ["x,", ""]),
    ("root ::= [^] []*", ["☃"], ["", "ab"]),
    ('root ::= "a" root | "b" other | "."\nother ::= "c" ("d" root | "e" other)?', [".", "aabc", "bcda.", "bcecec"],
     ["a", "bcd", "bce", "c"]),
    ('root ::= "[" list "]"\nlist ::= (one ("," list)?)?\none ::= "x" | root', ["[]", "[x,[x,x],[]]", "[x,]"],
     ["[,x]", "[x"]),
    ('root ::= "a" ("b" | "c" root | "d" one)\none ::= root | "!" one | two\ntwo ::= "?" one?',
     ["ab", "acab", "ad!!?ab", "ad?"], ["a", "ac", "ad", "ad!"]),
    ('root ::= a b\na ::= "x" a | b\nb ::= "y" b | ""', ["", "xxyyy", "yy", "x"], ["yx", "xyx"]),
    ('root ::= root "+" root | "-" root | root "!" | "1"', ["1", "1+1", "-1!+--1!!", "1+1+1+1"], ["+1", "1+", "!1", "1-1"]),
    ('root ::= root [ab] | "x"', ["x", "xab"], ["", "ax"]),
    ('root ::= a "x" | "y"\na ::= root "1" | root root', ["y", "y1x", "yyx", "y1x1x", "yyx1x"], ["y1", "x", "yx"]),
    ('root ::= root root | "a" | ""', ["", "a", "aaaa"], ["b"]),
    ('root ::= "(" root ")" root | ""', ["", "()", "(())()", "()()()"], ["(", "())", ")("]),
    ('root ::= "a" root tail | "b"\ntail ::= "x"*', ["b", "aab", "aabxxx"], ["xb", "aaxb"]),
    ('root ::= root | "a"', ["a"], ["", "aa"]),
    ('root ::= ("a" root? | "b")* "!"', ["!", "a!", "ab!!", "baa!!b!"], ["a", "!!"]),
    ('root ::= "[" (root ",")* root? "]"', ["[]", "[[],[[]]]", "[[],]"], ["[", "[,]", "[[][]]"]),
]  # fmt: skip


@pytest.mark.parametrize(("grammar", "made", "others"), LANGUAGES, ids=[each[0] for each in LANGUAGES])
def test_a_grammar_makes_its_texts_and_no_others(grammar: str, made: list[str], others: list[str]) -> None:
    model = FakeModel()
    assert [text for text in made if not takes(model, grammar, text)] == []
    assert [text for text in others if takes(model, grammar, text)] == []


@pytest.mark.parametrize(
    ("grammar", "text"),
    [
        ('root ::= "(" text ")"\ntext ::= [^)] text | ""', f"({'a' * 5_000})"),
        ("root ::= ([ \\n] root)?", " " * 5_000),
        ('root ::= "a" other | "b" root | ""\nother ::= "b" root | ""', "ab" * 5_000),
        ('root ::= line (root | "")\nline ::= [a-z] "\\n"', "x\n" * 5_000),
    ],
)
def test_a_rule_may_end_with_itself_as_often_as_a_text_is_long(grammar: str, text: str) -> None:
    assert takes(FakeModel(), grammar, text)


def test_a_grammar_names_schemas_by_their_numbers() -> None:
    model = FakeModel()
    schemas = ('{"const":1}', '{"const":[2],"x-guidance":{"whitespace_flexible":false}}')
    grammar = 'root ::= "a" schema-0 | "b" schema-1'
    assert takes(model, grammar, "a1", schemas)
    assert takes(model, grammar, "b[2]", schemas)
    assert not takes(model, grammar, "a[2]", schemas)
    with pytest.raises(InvalidRequest, match="schema-2"):
        model.grammars.matcher("root ::= schema-2", schemas)


def test_texts_nest_up_to_the_levels_that_there_is_room_for_and_deeper_ones_end_by_the_reason() -> None:
    model, inner = FakeModel(), MAX_LEVELS - 1
    assert takes(model, 'root ::= "(" root ")" | "x"', "(" * inner + "x" + ")" * inner)
    matcher = model.grammars.matcher('root ::= "(" root ")" | "x"')
    opening, closing, end = (next(t for t in range(model.n_vocab) if model.piece(t) == b) for b in (b"(", b")", b"x"))
    for _ in range(inner + 1):
        matcher.accept(opening)
    other = matcher.copy()
    with pytest.raises(GrammarTooComplex, match="nest too deeply"):
        other.accept(end)
    other.rewind(1)
    other.accept(end)
    for _ in range(inner):
        other.accept(closing)
    assert other.allowed.tolist() == [token for token in range(model.n_vocab) if model.is_eog(token)]


@pytest.mark.parametrize("count", [1, 2, 500])
def test_what_refers_to_itself_at_its_end_is_as_long_as_a_text_may_be(count: int) -> None:
    assert takes(FakeModel(), 'root ::= item | item "," root\nitem ::= [a-z]', ",".join("a" * count))


def test_a_token_is_named_by_its_id_within_rules_that_refer_to_themselves() -> None:
    model = FakeModel()
    king, lamp, end = model.tokenize(" king", False, False)[0], model.tokenize(" lamp", False, False)[0], EOS
    matcher = model.grammars.matcher(f'root ::= "(" root ")" | <[{king}]> root | [a-z]+ <[{end}]>')
    assert matcher.allows(king)
    assert not matcher.allows(lamp)
    assert not matcher.allows(end)
    assert king in matcher.allowed
    forked = matcher.copy()
    for token in (king, *model.tokenize("a", False, False)):
        matcher.accept(token)
    assert matcher.allows(end)
    matcher.accept(end)
    assert matcher.length == 3
    matcher.rewind(3)
    assert matcher.allowed.tolist() == forked.allowed.tolist()
    assert model.grammars.matcher(f"root ::= <[{king}]> <[{lamp}]>").forced == [king, lamp]
    names = " ".join(f"<[{token}]>" for token in range(MAX_TOKENS + 1))
    with pytest.raises(InvalidRequest, match="at most 32"):
        model.grammars.matcher(f"root ::= {names}")


def test_a_grammar_takes_no_character_that_stands_for_a_token_or_for_what_nests_too_deeply() -> None:
    model = FakeModel()
    for private in ("\U00100000", "\U0010ffff"):
        for grammar in ("root ::= .*", "root ::= [^a]*", r'root ::= [\U00000000-\U0010FFFF]* | "(" root ")"'):
            assert takes(model, grammar, "\U000fffff")
            assert not takes(model, grammar, private)
        with pytest.raises(InvalidRequest, match="private plane"):
            parse(f'root ::= "{private}"')


@pytest.mark.parametrize(
    ("grammar", "reason"),
    [
        ("root ::= r0\nr20 ::= [a]?\n" + "\n".join(f"r{i} ::= r{i + 1} r{i + 1}" for i in range(20)), "elements"),
        ('root ::= a | "x"\na ::= b "1" | root "2"\nb ::= y root\ny ::= [y]*', "recursive to the left"),
        ("root ::= " + "[a] root [b]? | " * 700 + "[c]", "refer to each other with"),
    ],
)  # fmt: skip
def test_a_grammar_that_is_too_large_or_recursive_to_the_left_in_two_ways_is_refused(grammar: str, reason: str) -> None:
    with pytest.raises(InvalidRequest, match=reason) as caught:
        FakeModel().grammars.matcher(grammar)
    assert caught.value.extra["param"] == "grammar"


def test_text_may_precede_a_grammar() -> None:
    model = FakeModel()
    grammar = preceded('root ::= "(" root ")" | "root" # root', "[ ]{0,2}")
    assert [text for text in ("root", " (root)", "  ((root))") if not takes(model, grammar, text)] == []
    assert not takes(model, grammar, "   root")


def test_a_grammar_without_any_text_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="allows no text") as caught:
        FakeModel().grammars.matcher("root ::= root [a]")
    assert caught.value.extra["param"] == "grammar"


def test_what_an_error_quotes_writes_no_line_of_a_log() -> None:
    with pytest.raises(InvalidRequest) as caught:
        FakeModel().grammars.matcher('root ::= "a"\n\x1b[31m2026-11-26 ERROR srb: forged\r')
    assert re.fullmatch("[ -~]+", caught.value.message)


def test_a_mask_has_what_may_come_and_a_rewound_matcher_stands_where_it_stood() -> None:
    model = FakeModel()
    matcher = model.grammars.matcher('root ::= " the" ( " the" | "!" root )* [xy]')
    walked = [matcher.copy()]
    for text in (" the", " the", "!", " ", "t", "h", "e", "x"):
        [token] = model.tokenize(text, False, False)
        assert matcher.allows(token)
        assert {int(each) for each in matcher.allowed} <= {
            each for each in range(model.n_vocab) if matcher.allows(each)
        }
        matcher.accept(token)
        walked.append(matcher.copy())
    for count in (1, 3, 8):
        other = matcher.copy()
        assert other.allowed.tolist() == matcher.allowed.tolist()  # known here, and wrong where it goes back to
        other.rewind(count)
        assert other.allowed.tolist() == walked[len(walked) - 1 - count].allowed.tolist()
        assert other.length == matcher.length - count


@pytest.mark.parametrize("grammar", ["root ::= .*", "root ::= schema-0"])
def test_each_token_of_a_mask_can_be_accepted(grammar: str) -> None:
    """Bytes of private characters, which no text of a grammar has, are in no mask: not in that of any JSON either."""
    model = FakeModel()
    pieces = {model.piece(token): token for token in range(model.n_vocab)}
    matcher = model.grammars.matcher(grammar, ("{}",))
    matcher.accept(pieces[b'"'])
    assert pieces[b"\xf3"] in matcher.allowed
    assert pieces[b"\xf4"] not in matcher.allowed
    for token in matcher.allowed.tolist():
        assert matcher.allows(token)
        matcher.copy().accept(token)
