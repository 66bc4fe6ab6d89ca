"""GBNF against llama.cpp's own grammars: which tokens may come next, and which texts a grammar makes."""

from __future__ import annotations

import json
import math
import random
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import llama_cpp as lib
import pytest

from srb.engine.grammar.gbnf import Chars, Choice, Node, Parts, Repeat, Rule, Text, parse, preceded
from srb.engine.grammar.schemas import prepared
from srb.engine.llama.model import LlamaModel
from srb.errors import GrammarTooComplex
from srb.web.chat.families import FAMILIES, HERMES, LLAMA_3, CallGrammar
from tests.needs import need
from tests.vocabularies import load, write_signs
from tests.walks import examples
from tools.llama_sources import pinned, sources

PUBLISHED = ("arithmetic", "c", "chess", "english", "japanese", "json", "json_arr", "list")
HARD = "a \n\t\"'\\/[]{}<>&~^-.|,:;0é☃ぁ😀\x7f\x85\u2028"  # that grammars speak of
LETTERS = "".join(map(chr, (*range(1, 0x180), *range(0x2000, 0x2040), *range(0x2500, 0x2540), *range(0x3000, 0x3100),
                              *range(0x4E00, 0x4E20), *range(0x9FE0, 0xA010), 0xFF5C, 0x2581)))  # fmt: skip
KNOWN = "".join(sorted({*LETTERS, *HARD}))
ENOUGH = 12  # rules within one another; where there are more, a text takes the shortest way


class Signs:
    """A vocabulary that has each sign as a token: of some of a sign's bytes llama.cpp takes fewer than of a whole sign."""

    def __init__(self, path: Path) -> None:
        self.model = load(write_signs(path, KNOWN))
        pieces = {self.model.piece(token): token for token in range(self.model.n_vocab)}
        self.tokens = {sign: pieces[sign.encode()] for sign in KNOWN}
        self.end = next(filter(self.model.is_eog, range(self.model.n_vocab)))


@pytest.fixture(scope="module")
def signs(tmp_path_factory: pytest.TempPathFactory) -> Signs:
    return Signs(tmp_path_factory.mktemp("signs") / "signs.gguf")


class Ours:
    def __init__(self, model: LlamaModel, grammar: str) -> None:
        self._matcher = model.grammars.matcher(grammar)

    def takes(self, token: int) -> bool:
        return self._matcher.allows(token)

    def accept(self, token: int) -> None:
        self._matcher.accept(token)

    def close(self) -> None:
        pass

    def check_mask(self, taken: set[int], among: set[int]) -> None:
        """The mask has what may come, but for forced text, of which it has the tokens that the model knows."""
        mask = among.intersection(self._matcher.allowed.tolist())
        assert mask <= taken
        assert mask == taken or self._matcher.forced


class Theirs:
    """llama.cpp's grammar, which ends the process if it accepts what it does not take."""

    def __init__(self, model: LlamaModel, grammar: str) -> None:
        self._native = lib.llama_sampler_init_grammar(model.vocab, grammar.encode(), b"root")
        assert self._native, grammar

    def takes(self, token: int) -> bool:
        return bool(self.taken([token]))

    def taken(self, tokens: list[int]) -> set[int]:
        """Return those of `tokens` that may come next."""
        data = (lib.llama_token_data * len(tokens))(*(lib.llama_token_data(token, 1.0, 0.0) for token in tokens))
        lib.llama_sampler_apply(self._native, lib.llama_token_data_array(data, len(tokens), -1, False))
        return {each.id for each in data if math.isfinite(each.logit)}

    def accept(self, token: int) -> None:
        lib.llama_sampler_accept(self._native, token)

    def close(self) -> None:
        lib.llama_sampler_free(self._native)


@pytest.fixture(scope="module")
def published() -> dict[str, str]:
    """Return llama.cpp's folder of grammars, by their names."""
    try:
        folder = sources(pinned()) / "vendor/llama.cpp/grammars"
    except subprocess.CalledProcessError:
        need(False, "the sources of llama-cpp-python, from PyPI")
        raise
    return {path.stem: path.read_text() for path in Path(folder).glob("*.gbnf")}


# Whole texts ----------------------------------------------------------------------------------------------------------


def taken(reader: Ours | Theirs, signs: Signs, text: str) -> int | None:
    """Return how many of a text's signs a grammar takes; None if the text may end after them all."""
    try:
        for place, sign in enumerate(text):
            if not reader.takes(signs.tokens[sign]):
                return place
            reader.accept(signs.tokens[sign])
        return None if reader.takes(signs.end) else len(text)
    finally:
        reader.close()


def agree(signs: Signs, grammar: str, text: str) -> bool:
    """Both have to take as much of a text; return whether it is one of the grammar's."""
    ours, theirs = (taken(kind(signs.model, grammar), signs, text) for kind in (Ours, Theirs))
    assert ours == theirs, f"{grammar!r}, {text!r}: ours takes {ours}, theirs {theirs} signs"
    return ours is None


class Writer:
    """Random texts of a grammar."""

    def __init__(self, rules: Mapping[str, Node], draws: random.Random) -> None:
        self._rules, self._draws = rules, draws
        self._chars: dict[tuple[tuple[tuple[int, int], ...], bool], list[str]] = {}
        self._heights = dict.fromkeys(rules, ENOUGH * 100)  # rules within one another, at least
        for _ in rules:
            self._heights |= {name: 1 + self._height(node) for name, node in rules.items()}

    def _height(self, node: Node) -> int:
        match node:
            case Rule(name):
                return self._heights[name]
            case Choice(ways):
                return min(map(self._height, ways))
            case Parts(parts):
                return max(map(self._height, parts), default=0)
            case Repeat(part, least, _):
                return self._height(part) if least else 0
        return 0

    def write(self, node: Node, depth: int = 0) -> str:
        is_deep = depth > ENOUGH
        match node:
            case Text(text):
                return text
            case Chars(ranges, is_negated):
                return self._char(ranges, is_negated)
            case Rule(name):
                return self.write(self._rules[name], depth + 1)
            case Parts(parts):
                return "".join(self.write(part, depth) for part in parts)
            case Choice(ways):
                return self.write(min(ways, key=self._height) if is_deep else self._draws.choice(ways), depth)
            case Repeat(part, least, most):
                further = (
                    0 if is_deep else min(self._draws.choice((0, 0, 1, 1, 2, 5)), 9 if most is None else most - least)
                )
                return "".join(self.write(part, depth) for _ in range(least + further))
        raise AssertionError(node)

    def _char(self, ranges: tuple[tuple[int, int], ...], is_negated: bool) -> str:
        if (ranges, is_negated) not in self._chars:
            fitting = [sign for sign in KNOWN if any(low <= ord(sign) <= high for low, high in ranges) != is_negated]
            self._chars[ranges, is_negated] = fitting
        fitting = self._chars[ranges, is_negated]
        return self._draws.choice((fitting[0], fitting[-1], self._draws.choice(fitting)))


def mutated(text: str, draws: random.Random) -> str:
    """Return a text with one to three changes of some characters."""
    signs = list(text)
    for _ in range(draws.choice((1, 1, 2, 3))):
        at, size = draws.randint(0, len(signs)), draws.choice((0, 1, 1, 2))
        match draws.randrange(4):
            case 0:
                del signs[at : at + size + 1]
            case 1:
                signs[at:at] = draws.choices(HARD + text, k=size + 1)
            case 2:
                signs[at : at + 1] = draws.choice(HARD + text)
            case 3:
                signs[at : at + 2 * size] = signs[at + size : at + 2 * size] + signs[at : at + size]
    return "".join(signs)


def compare_texts(signs: Signs, grammar: str, seed: int, count: int = 30, refusals: int = 15, most: int = 600) -> None:
    """Both have to take a grammar's texts, `count` or as TEST_EXAMPLES says, and take those that are changed alike."""
    draws = random.Random(seed)
    rules = parse(grammar)
    writer = Writer(rules, draws)
    refused = 0
    for _ in range(examples(count)):
        text = writer.write(rules["root"])
        if len(text) < most:
            assert agree(signs, grammar, text), f"{grammar!r} should make {text!r}"
        for _ in range(3):
            refused += not agree(signs, grammar, mutated(text[:most], draws))
    assert refused >= examples(refusals) // 2


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_grammar_makes_the_texts_that_llama_cpps_makes(
    signs: Signs, published: dict[str, str], name: str
) -> None:
    compare_texts(signs, published[name], seed=1)


def test_all_published_grammars_are_compared(published: dict[str, str]) -> None:
    assert published.keys() == set(PUBLISHED)


# Tool calls -----------------------------------------------------------------------------------------------------------

# Any JSON, in place of the schemas, of which llama.cpp's grammars know nothing.
JSON = r"""
json ::= "{" ( string ":" " "? json ( "," " "? string ":" " "? json )* )? "}" | "[" json? "]" | string | [0-9]+ | "null"
string ::= "\"" ( [^"\\\x00-\x1f] | "\\" ["\\n] )* "\""
"""
TOOLS: list[dict[str, Any]] = [
    {"name": "weather", "parameters": {
        "type": "object", "required": ["city", "days"], "additionalProperties": False,
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}, "unit": {"enum": ["°C", "°F", 3]},
                       "where": {"type": ["string", "null"]}, "tags": {"type": "array", "items": {"type": "string"}}}}},
    {"name": "get-time_v2.1", "parameters": {
        "type": "object",
        "properties": {"zone": {"type": "object", "properties": {"a": {"const": "b"}}, "required": ["a"]}}}},
    {"name": "run", "parameters": {"type": "object"}}, {"name": "stop"},
]  # fmt: skip
FAMILIES_WITH_CALLS = {family.name: family for family in (*FAMILIES, HERMES, LLAMA_3)}


def with_json(grammar: CallGrammar, before: str = "") -> str:
    """Return a grammar of calls, which `before` may precede, with any JSON in place of its schemas."""
    text = preceded(grammar.text, before) if before else grammar.text
    return "".join([text, *(f"schema-{number} ::= json\n" for number in range(len(grammar.schemas))), JSON])


@pytest.mark.parametrize("parallel", [True, False])
@pytest.mark.parametrize("name", FAMILIES_WITH_CALLS)
def test_a_form_of_calls_makes_the_texts_that_llama_cpps_grammar_makes(signs: Signs, name: str, parallel: bool) -> None:
    family = FAMILIES_WITH_CALLS[name]
    lazy, forced = (family.grammar(TOOLS, parallel, is_lazy) for is_lazy in (True, False))
    either = family.either(TOOLS, parallel, {"type": "object"}, awaited=True)
    for grammar in (with_json(lazy), with_json(forced, family.before_call), with_json(either)):
        compare_texts(signs, grammar, seed=2, count=12, refusals=12)


@pytest.mark.parametrize("name", FAMILIES_WITH_CALLS)
def test_an_argument_of_a_call_may_be_a_whole_file(signs: Signs, name: str) -> None:
    family = FAMILIES_WITH_CALLS[name]
    tool = {
        "name": "write",
        "parameters": {"type": "object", "required": ["text"], "properties": {"text": {"type": "string"}}},
    }
    grammar = family.grammar([tool], False, lazy=False)
    call = family.forms[0].write([("write", {"text": "a <b>, 'c' " * 300})])
    schemas = tuple(prepared(schema, "tools").text for schema in grammar.schemas)
    matcher = signs.model.grammars.matcher(grammar.text, schemas)
    for sign in call.removesuffix("<|call|>"):
        matcher.accept(signs.tokens[sign])
    assert matcher.length > 3300


# Tokens ---------------------------------------------------------------------------------------------------------------


def is_plain(piece: bytes, grammar: str) -> bool:
    """Whether both read a piece alike: llama.cpp also takes bytes that are no UTF-8."""
    return (piece.isascii() and piece not in (b"", b"\0")) or (piece[:1] in b"\xe3\x80\x81\x82" and "ぁ" in grammar)


def compare_tokens(llama: LlamaModel, grammar: str, draws: random.Random, texts: int = 6, length: int = 24) -> int:
    """Walk through texts that the grammar makes; at each place both have to take the same tokens. Return the steps."""
    ends = [token for token in range(llama.n_vocab) if llama.is_eog(token)][:1]
    tokens = [token for token in range(llama.n_vocab) if is_plain(llama.piece(token), grammar)]
    steps = 0
    for _ in range(texts):
        ours, theirs, text = Ours(llama, grammar), Theirs(llama, grammar), b""
        for _ in range(length):
            yours = theirs.taken([*tokens, *ends])
            both = [(token, ours.takes(token), token in yours) for token in (*tokens, *ends)]
            differing = [(llama.piece(token), mine) for token, mine, your in both if mine != your]
            assert not differing, f"{grammar!r} after {text!r}: {differing}"
            ours.check_mask({token for token, mine, _ in both if mine}, {*tokens, *ends})
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
def test_a_published_grammar_takes_the_tokens_that_llama_cpps_takes(
    llama: LlamaModel, published: dict[str, str], name: str
) -> None:
    assert compare_tokens(llama, published[name], random.Random(1)) > 20


# Rules that refer to themselves: at their ends, in their middles, through each other, behind what may be missing.
RECURSIVE = {
    "at the end": 'root ::= [ab] "," root | "x" root "1"? | "b"',
    "at the end, in turn": 'root ::= "a" one | "b"\none ::= "b" root | "x" two\ntwo ::= "1" one | "a" root | ""',
    "within": 'root ::= "(" root ")" | "[" root "," root "]" | [ab1]',
    "within, in turn": 'root ::= list | "a"\nlist ::= "[" (root ("," root)*)? "]" | "{" list "}"',
    "else": 'root ::= "a" root ("b" root)? | "x" | "1" root',
    "twice at the end": 'root ::= "a" root root | "b"',
    "behind what may be missing": 'root ::= space "(" root? ")" space\nspace ::= " "*',
    "operators": 'root ::= term | term [-+] root\nterm ::= "(" root ")" | "-" term | [0-9]+',
    "levels of operators": (
        'root ::= c ("=" root)?\nc ::= d (("+" | "-") d)*\nd ::= e | e "," d\ne ::= [a1] | "(" root ")" | "-" e'
    ),
    "until a mark": 'root ::= a "}"\na ::= "{" b | [^{}] a | ""\nb ::= "{" b | [^{}] a | ""',
    "palindromes": 'root ::= "a" root "a" | "b" root "b" | "x"?',
    "choices of ends": 'root ::= "a" (root | "b" (root | "x")? | "1"*) | ("x" root)?',
}


@pytest.mark.parametrize("name", RECURSIVE)
def test_a_recursive_grammar_takes_what_llama_cpps_takes(llama: LlamaModel, signs: Signs, name: str) -> None:
    assert compare_tokens(llama, RECURSIVE[name], random.Random(2), texts=4, length=12) > 15
    compare_texts(signs, RECURSIVE[name], seed=3, refusals=1)


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


@pytest.mark.timeout(600)  # on a busy machine: each of some hundred tokens is asked for at each place
def test_random_grammars_take_what_llama_cpps_take(llama: LlamaModel, signs: Signs) -> None:
    compared = 0
    for seed in range(24):
        draws = random.Random(seed)
        grammar = random_grammar(draws)
        native = lib.llama_sampler_init_grammar(llama.vocab, grammar.encode(), b"root")
        if not native:  # it has rules that may refer to themselves before any character
            continue
        lib.llama_sampler_free(native)
        with suppress(GrammarTooComplex):  # of several `.*` in a row, one within the other
            compare_texts(signs, grammar, seed, count=6, refusals=0, most=10)  # llama.cpp's time doubles with signs
            compare_tokens(llama, grammar, draws, texts=3, length=10)
            compared += 1
    assert compared > 10
