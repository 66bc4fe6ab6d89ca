"""Grammars, schemas and patterns that explode: each is refused at once, or goes on in steps of bounded work."""

from __future__ import annotations

import gc
import json
import random
import threading
from collections.abc import Callable
from dataclasses import replace
from itertools import accumulate, count
from typing import Any

import pytest

from srb.config.sampling_params import MAX_GRAMMAR
from srb.engine.fake import FakeModel
from srb.engine.grammar import grammars as grammars_module
from srb.engine.grammar.lark import Lark
from srb.engine.grammar.limits import CALL_SECONDS, FREE_SECONDS, TOKEN_SECONDS
from srb.engine.grammar.matcher import Matcher
from srb.engine.grammar.schemas import prepared
from srb.errors import GrammarTooComplex, InvalidRequest, QueueFull
from srb.web.chat.grammar import Rules, any_text_until, quoted
from srb.wire.events import FinishReason
from tests.engine_helpers import Driver, Slowly, plain, solo
from tests.processes import DEADLINE


def schema(value: Any) -> dict[str, Any]:
    return {"json_schema": value}


def pattern(text: str) -> dict[str, Any]:
    return schema({"type": "string", "pattern": text})


def gbnf(text: str) -> dict[str, Any]:
    return {"grammar": text}


def chained(count: int, link: Callable[[str], Any]) -> Any:
    links = {f"a{place}": link(f"#/$defs/a{place + 1}") for place in range(count)}
    return {"$ref": "#/$defs/a0", "$defs": {**links, f"a{count}": {"type": "null"}}}


def unhurried(model: FakeModel) -> FakeModel:
    """Return a model whose grammars never take too long: beside other programs each call takes several times as long."""
    model.grammars.clock = Slowly(0.0)
    return model


def rules(count: int, rule: str) -> str:
    """Return the rules root, r0, … of a chain, whose last one is not among them."""
    return "root ::= r0\n" + "".join(rule.format(place, place + 1) + "\n" for place in range(count))


JSON = r"""
root ::= object
value ::= object | array | string | number | ("true" | "false" | "null") ws
object ::= "{" ws ( string ":" ws value ("," ws string ":" ws value)* )? "}" ws
array ::= "[" ws ( value ("," ws value)* )? "]" ws
string ::= "\"" ( [^"\\\x7F\x00-\x1F] | "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}) )* "\"" ws
number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})? ws
ws ::= | " " | "\n" [ \t]{0,20}
"""
OPTIONS = "root ::= " + " ".join(f"(a{i})?" for i in range(60)) + "\n"
OPTIONS += "\n".join(f"a{i} ::= [a-z]+ [ ]? [a-z]*" for i in range(1, 60))
# Fields of requests. The comment says what they did to llama.cpp's grammars, or to llguidance without limits.
BOMBS: dict[str, Callable[[], dict[str, Any]]] = {
    "nullable rules": lambda: gbnf("root ::= " + "x " * 20 + "\nx ::= " + "y " * 20 + "\ny ::= [a-z ]*"),  # killed
    "the same, recursive": lambda: gbnf("root ::= " + "x " * 20 + "\nx ::= " + "y " * 20 + '\ny ::= [a-z ]* | "(" root ")"'),
    "repetitions of rules": lambda: gbnf('root ::= a{0,20}\na ::= b{0,20}\nb ::= "x"{0,20}'),  # killed
    "sixty options": lambda: gbnf(OPTIONS + "\na0 ::= [a-z]+"),
    "sixty options, recursive": lambda: gbnf(OPTIONS + '\na0 ::= "(" root ")"'),  # 0.4 s a mask
    "ambiguous": lambda: gbnf('root ::= b b | "a" | ""\nb ::= root root | "a"'),
    "a wide rule that ends with itself": lambda: gbnf(  # 9 s a row by characters
        'root ::= a\na ::= "a" (' + " | ".join(f"a x{i}" for i in range(400)) + ') | "b"\n'
        + "\n".join(f"x{i} ::= {'[x]' if i % 2 else '[y]'}?" for i in range(400))
    ),
    "a wide rule within a repetition": lambda: gbnf(
        "root ::= ([a]? (" + " | ".join(f"b{i}" for i in range(400)) + '))*\nw ::= "a"* "b" | "(" root ")"\n'
        + "\n".join(f'b{i} ::= "a" w "{i}"?' for i in range(400))
    ),
    "thirty levels of operators": lambda: gbnf(
        "root ::= e0\n" + "\n".join(f'e{i} ::= e{i + 1} | e{i + 1} "{chr(97 + i % 26)}" e{i}' for i in range(30))
        + '\ne30 ::= [0-9] | "(" e0 ")"'
    ),
    "two of itself at the end": lambda: gbnf('root ::= "a" root root | ""'),
    "two of itself, anything between": lambda: gbnf('root ::= [a-z] root [a-z ]* root | [a-z]'),
    "stars of stars": lambda: gbnf('root ::= (([a-z]*)* "a")* ([a-z]* [a-z]*)* | "(" root ")"'),
    "places that count": lambda: gbnf('root ::= ([a-z ]{0,40} [a-m]{0,40})* "!" | "(" root ")"'),
    "states, recursive": lambda: gbnf('root ::= [a-z ]* [a-m] [a-z ]{20} | "(" root ")" root'),
    "nested groups": lambda: gbnf("root ::= " + "(" * 99 + "[a] root?" + " [b]?)*" * 99),
    "doubling": lambda: gbnf(rules(14, "r{0} ::= r{1} r{1}") + "r14 ::= [a-z]?"),  # 5 s
    "a chain": lambda: gbnf(rules(3900, "r{0} ::= r{1}") + 'r3900 ::= "x"'),  # SIGSEGV
    "a ring": lambda: gbnf(rules(3900, "r{0} ::= r{1}") + 'r3900 ::= "x" root?'),  # SIGSEGV
    "a chain of references": lambda: schema(chained(1200, lambda target: {"$ref": target})),  # SIGSEGV
    "a chain of objects": lambda: schema(chained(700, lambda target: {"properties": {"x": {"$ref": target}}})),
    "doubling references": lambda: schema(chained(40, lambda target: {"anyOf": [{"$ref": target}, {"$ref": target}]})),
    "7,000 words": lambda: schema({"enum": [f"v{number}" for number in range(6500)]}),
    "2,000 options": lambda: pattern("^(" + "a?" * 2000 + ")$"),
    "classes that may be missing": lambda: pattern("^(" + "[a-z]?" * 1300 + ")$"),
    "nested stars": lambda: pattern("^(a*)*$"),
    "nested pluses": lambda: pattern("^((a+)+)+b$"),
    "nested repetitions": lambda: pattern("^((a{0,100}){0,100}){0,100}$"),
    "a bracket": lambda: pattern("^a]$"),  # for ever
    "a class of POSIX": lambda: pattern("^[[:alpha:]]$"),  # for ever
    "states": lambda: pattern("^([a-z ]*a[a-z ]{20}){20}$"),
    "patterns that hold together": lambda: schema({"allOf": [{"pattern": f"^.*a{i}.*$"} for i in range(8)]}),
    "products of choices": lambda: schema({
        "allOf": [{"anyOf": [{"type": "object", "properties": {f"a{i}{j}": {}}} for j in range(4)]} for i in range(8)]
    }),
    "long texts": lambda: schema({"type": "string", "minLength": 10**6, "maxLength": 10**7}),
    "long lists": lambda: schema({"type": "array", "items": {"type": "array", "maxItems": 10**6}, "minItems": 10**5}),
    "1,500 properties": lambda: schema({"properties": {f"k{i}": {"type": "integer"} for i in range(1500)}}),
    "nested": lambda: schema(eval('{"items":' * 60 + "{}" + "}" * 60)),
    "300 lists within each other": lambda: schema(  # 0.6 s a mask
        {"$ref": "#/$defs/n", "$defs": {"n": {"anyOf": [
            {"type": "array", "items": {"$ref": "#/$defs/n"}, "maxItems": i + 1} for i in range(300)
        ]}}}
    ),
    "1,000 lists behind a key": lambda: schema(  # 25 s a mask
        {"type": "object", "required": ["a"], "properties": {"a": {"type": "boolean"}, "b": {"$ref": "#/$defs/n"}},
         "$defs": {"n": {"anyOf": [{"type": "array", "items": {"$ref": "#/$defs/n"}}] * 1000}}}
    ),
    "300 objects within each other": lambda: schema(
        {"$ref": "#/$defs/n", "$defs": {"n": {"anyOf": [
            {"type": "object", "properties": {"a": {"$ref": "#/$defs/n"}, f"b{i}": {}}, "required": ["a"]}
            for i in range(300)
        ]}}}
    ),
    "a chain that holds together": lambda: schema(chained(700, lambda target: {"allOf": [{"$ref": target}]})),  # 500
    "a constant": lambda: schema({"enum": ["a" * 60_000, 1]}),
    "multiples of a large prime": lambda: schema({"type": "integer", "multipleOf": 99991}),
    "multiples": lambda: schema({"type": "integer", "multipleOf": 999999937}),
}  # fmt: skip
# One of each kind: whole servers and a real vocabulary meet these by day, and all at night.
KINDS = [
    *("nullable rules", "sixty options, recursive", "a wide rule that ends with itself", "thirty levels of operators"),
    *("stars of stars", "doubling", "a chain", "a chain of references", "7,000 words", "states", "long texts"),
    *("1,000 lists behind a key", "300 objects within each other"),
]


@pytest.mark.parametrize("name", BOMBS)
def test_a_grammar_that_explodes_is_refused_or_goes_on(name: str) -> None:
    """No abort, no overflow of a stack, no endless loop; pytest's time limit is the only clock."""
    model = FakeModel()
    [(field, value)] = BOMBS[name]().items()
    assert len(json.dumps(value)) <= MAX_GRAMMAR
    try:
        if field == "grammar":
            matcher = model.grammars.matcher(value)
        else:
            matcher = model.grammars.matcher("root ::= schema-0", (prepared(json.dumps(value), field).text,), field)
    except InvalidRequest:
        return
    for step in range(40):
        try:
            allowed = [token for token in matcher.allowed.tolist() if not model.is_eog(token)]
            if not allowed:
                return
            matcher.copy().accept(allowed[-1])
            matcher.accept(allowed[step % len(allowed)])
        except GrammarTooComplex:
            return


@pytest.mark.parametrize("name", ["a wide rule that ends with itself", "thirty levels of operators", "json"])
def test_an_ordinary_or_wide_recursive_grammar_is_neither_refused_nor_too_complex(name: str) -> None:
    model = FakeModel()
    rules = JSON if name == "json" else BOMBS[name]()["grammar"]
    matcher = model.grammars.matcher(rules)
    draws = random.Random(1)
    for _ in range(200):
        allowed = [token for token in matcher.allowed.tolist() if not model.is_eog(token)]
        if not allowed:
            matcher = model.grammars.matcher(rules)
            continue
        matcher.accept(draws.choice(allowed))


def test_a_text_in_a_form_of_calls_is_as_long_as_it_may_be() -> None:
    """With a rule that refers to itself for each character, a row of the parser's table had an item for each of them."""
    model, rules = unhurried(FakeModel()), Rules()
    ending = rules.schema({"const": 1})
    grammar = rules.text(f"{any_text_until(rules, '</end>')} {quoted('</end>')} {ending}")
    matcher = model.grammars.matcher(grammar, rules.schemas)
    for token in model.tokenize("if a </b: the king " * 200 + "</end>1", False, False):
        assert len(matcher.allowed)
        matcher.accept(token)
    assert matcher.allowed.tolist() == [token for token in range(model.n_vocab) if model.is_eog(token)]


def test_a_branch_whose_grammar_becomes_too_complex_ends_with_an_error_and_the_others_go_on() -> None:
    driver = Driver(FakeModel(n_ctx=2048))
    other = driver.submit("the old king", n=2, max_tokens=30, ignore_eos=True)
    bad = driver.submit("the", n=2, max_tokens=200, ignore_eos=True, **BOMBS["repetitions of rules"]())
    driver.run()
    assert {(end.reason, end.code) for end in driver.result(bad).ends.values()} == {
        (FinishReason.ERROR, "grammar_too_complex")
    }
    assert [(end.reason, end.length) for end in driver.result(other).ends.values()] == [(FinishReason.LIMIT, 30)] * 2


WIDE = json.dumps({"anyOf": [{"type": "string"}, {"properties": {f"k{i}": {"type": "integer"} for i in range(1500)}}]})


def test_a_text_at_whose_place_a_grammar_is_too_complex_ends_alone() -> None:
    """Its siblings stand elsewhere in the grammar, and so may later requests."""
    model = unhurried(FakeModel())
    schema = prepared(WIDE, "json_schema").text
    first, sibling = (model.grammars.matcher("root ::= schema-0", (schema,)) for _ in range(2))
    with pytest.raises(GrammarTooComplex, match="Parser Error"):
        write(model, first, '{"')
    for matcher in (sibling, model.grammars.matcher("root ::= schema-0", (schema,))):
        write(model, matcher, '"the old king')


MANY_STATES = 'root ::= ([a-z ]* [a-m] [a-z ]{20} "!")*'


def test_texts_go_on_where_others_have_spent_the_lexer_that_they_share() -> None:
    """The lexer's states are bounded for all texts of a grammar together; compiled anew, it has room for each of them."""
    model, draws = unhurried(FakeModel()), random.Random(3)
    first, second = (model.grammars.matcher(MANY_STATES) for _ in range(2))
    letters = [model.tokenize(char, False, False)[0] for char in "abcdefghijklmnopqrstuvwxyz"]
    shared, written = first._grammar, list[int]()
    while not shared.is_spent:
        for matcher in (first, second):
            token = draws.choice(letters)
            assert token in matcher.allowed
            matcher.accept(token)
            written += [token] if matcher is first else []
    for matcher in (first, second):
        for token in draws.choices(letters, k=50):
            assert token in matcher.allowed
            matcher.accept(token)
            written += [token] if matcher is first else []
        matcher.copy().accept(letters[0])
        matcher.rewind(60)
    assert first._grammar is second._grammar, "one successor for both"
    later = model.grammars.matcher(MANY_STATES)
    for token in written[:-60]:
        later.accept(token)
    assert later.allowed.tolist() == first.allowed.tolist()


def test_all_branches_go_on_where_they_spend_two_lexers_together() -> None:
    """Behind the second each has one of its own: long texts in one lexer would spend it again by their beginnings."""
    driver = Driver(unhurried(FakeModel(n_ctx=16_000)))
    request_id = driver.submit("the", n=8, max_tokens=1920, ignore_eos=True, temperature=3.0, grammar=MANY_STATES)
    most = 0
    while len(driver.result(request_id).ends) < 8:
        driver.step()
        most = max(most, len(driver.model.grammars._anew))
    assert {(end.reason, end.length) for end in driver.result(request_id).ends.values()} == {(FinishReason.LIMIT, 1920)}
    assert most > 2
    driver.run()
    gc.collect()
    assert not driver.model.grammars._anew, "no text goes on in them"


@pytest.mark.parametrize(
    ("limit", "message"),
    [("MAX_ANEW", "0 texts have grammars of their own"), ("MAX_GIVEN_UP", "take too long to compile")],
)
def test_a_text_whose_grammar_may_not_be_compiled_anew_ends(
    monkeypatch: pytest.MonkeyPatch, limit: str, message: str
) -> None:
    model = unhurried(FakeModel())
    matcher = model.grammars.matcher(MANY_STATES)
    monkeypatch.setattr(grammars_module, limit, 0)
    with pytest.raises(GrammarTooComplex, match=message):
        write(model, matcher, "".join(random.Random(3).choices("abcdefghijklmnopqrstuvwxyz", k=20_000)))


def test_a_text_that_spends_a_lexer_of_its_own_ends_alone() -> None:
    model = unhurried(FakeModel())
    grammar = 'root ::= "y" [a-z]{1,400} | "x" a{0,20}\na ::= b{0,20}\nb ::= "x"{0,20}'
    first, sibling = (model.grammars.matcher(grammar) for _ in range(2))
    with pytest.raises(GrammarTooComplex, match="lexer error"):
        write(model, first, "x" * 400)
    write(model, sibling, "y" + "x" * 100)
    write(model, model.grammars.matcher(grammar), "y" + "x" * 100)


def write(model: FakeModel, matcher: Matcher, text: str) -> None:
    for char in text:
        [token] = model.tokenize(char, False, False)
        assert token in matcher.allowed
        matcher.accept(token)


def test_a_call_that_fails_and_took_long_is_the_last_one() -> None:
    model = FakeModel()
    model.grammars.clock = Slowly(0.0)
    matchers = [model.grammars.matcher(BOMBS["repetitions of rules"]()["grammar"]) for _ in range(2)]
    matchers[0]._grammar.clock = Slowly(CALL_SECONDS * 1.1)
    for matcher in matchers:
        with pytest.raises(GrammarTooComplex, match="a token took 110 ms"):
            len(matcher.allowed)
    with pytest.raises(InvalidRequest, match="a token took 110 ms"):
        model.grammars.matcher(BOMBS["repetitions of rules"]()["grammar"])


@pytest.mark.parametrize(("slow", "is_refused"), [({2}, False), ({2, 6}, True)])
def test_a_grammar_that_took_long_once_is_measured_again(slow: set[int], is_refused: bool) -> None:
    """`slow` are the readings of the clock that come late: of the first call, and of the second attempt's first call."""
    model, readings = FakeModel(), count(1)
    late = iter(float(reading in slow) for reading in readings)
    model.grammars.clock = (times := accumulate(late)).__next__
    if is_refused:
        with pytest.raises(InvalidRequest, match="a token took 1000 ms"):
            model.grammars.matcher(LETTERS)
    else:
        assert len(model.grammars.matcher(LETTERS).allowed)
    assert next(times) == len(slow)


def test_a_grammar_that_compiles_for_ever_is_refused_and_others_are_compiled_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(grammars_module, "COMPILE_SECONDS", 0.05)
    model, end = FakeModel(), threading.Event()
    compile_one = model.grammars._compile

    def compile_slowly(lark: Lark, made: list[Any]) -> None:
        if "!" in lark.text:
            end.wait(DEADLINE)
        else:
            monkeypatch.setattr(grammars_module, "COMPILE_SECONDS", 60)
        compile_one(lark, made)

    monkeypatch.setattr(model.grammars, "_compile", compile_slowly)
    with pytest.raises(InvalidRequest, match="takes longer than"):
        model.grammars.matcher('root ::= "!"')
    assert model.grammars.matcher("root ::= [a]").allowed.size
    monkeypatch.setattr(grammars_module, "COMPILE_SECONDS", 0.05)
    with pytest.raises(InvalidRequest, match="takes longer than"):
        model.grammars.matcher('root ::= "!!"')
    with pytest.raises(QueueFull):
        model.grammars.matcher("root ::= [b]")
    end.set()
    for thread in model.grammars._given_up:
        thread.join()
    monkeypatch.setattr(grammars_module, "COMPILE_SECONDS", 60)
    assert model.grammars.matcher("root ::= [b]").allowed.size


LETTERS = 'root ::= [a-z ]{200,400} "."'
OF_WORDS = json.dumps({"type": "array", "items": {"enum": ["the king", "the fox", "a", 1]}, "minItems": 60})
SLOW_FORMS: dict[str, dict[str, Any]] = {
    "a grammar": {"grammar": LETTERS},
    "a schema": {"json_schema": OF_WORDS},
    "a grammar, and banned strings": {"grammar": LETTERS, "banned_strings": ("the ",)},
}


def slow_driver(seconds: float, **memory: bool) -> Driver:
    """Return a driver in which each call into llguidance takes so long."""
    model = FakeModel(n_ctx=8000, n_seq_max=40, **memory)
    model.grammars.clock = Slowly(seconds)
    return Driver(model)


def test_a_grammar_that_is_known_is_not_waited_for_while_another_one_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    model, begun, end = FakeModel(), threading.Event(), threading.Event()
    model.grammars.matcher("root ::= [a]")
    compile_one = model.grammars._compile

    def compile_slowly(*given: Any) -> None:
        begun.set()
        assert end.wait(DEADLINE)
        compile_one(*given)

    monkeypatch.setattr(model.grammars, "_compile", compile_slowly)
    thread = threading.Thread(target=model.grammars.matcher, args=("root ::= [b]",))
    thread.start()
    assert begun.wait(DEADLINE)
    assert model.grammars.matcher("root ::= [a]").allowed.size
    end.set()
    thread.join()


def lengths(driver: Driver, request_id: str) -> list[int]:
    return [branch.length for branch in driver.request(request_id).branches]


@pytest.mark.parametrize("form", SLOW_FORMS)
def test_branches_with_slow_grammars_sit_steps_out_and_the_others_get_a_token_in_each(form: str) -> None:
    driver = slow_driver(0.002)  # a step has time for a few of them
    victim = driver.submit("the old king", n=2, max_tokens=60, ignore_eos=True)
    driver.step()
    slow = driver.submit("the fox", n=16, max_tokens=40, **SLOW_FORMS[form])
    for _ in range(40):
        before = lengths(driver, victim), lengths(driver, slow)
        driver.step()
        assert lengths(driver, victim) == [length + 1 for length in before[0]]
        assert sum(now != then for now, then in zip(lengths(driver, slow), before[1], strict=True)) < 8
    assert min(lengths(driver, slow)) > 2, "the longest wait comes first: each has had its turns"
    driver.run()
    at_ease = Driver(FakeModel(n_ctx=8000, n_seq_max=40))
    same = at_ease.submit("the fox", n=16, max_tokens=40, **SLOW_FORMS[form])
    at_ease.run()
    assert driver.result(slow).texts == at_ease.result(same).texts
    assert driver.result(slow).ends == {
        index: replace(end, request_id=slow) for index, end in at_ease.result(same).ends.items()
    }


def test_a_fast_grammar_never_waits_for_slow_ones() -> None:
    driver = slow_driver(0.0)
    fast = driver.submit("the old king", n=2, max_tokens=60, grammar=LETTERS)
    driver.step()
    driver.model.grammars.clock = Slowly(0.002)
    slow = driver.submit("the fox", n=16, max_tokens=40, json_schema=OF_WORDS)
    for _ in range(20):
        before = lengths(driver, fast)
        driver.step()
        assert lengths(driver, fast) == [length + 1 for length in before]
    assert max(lengths(driver, slow)) < 20


@pytest.mark.parametrize("memory", [{}, {"has_states": True}])
def test_a_fork_of_a_branch_that_waits_for_its_first_token_leaves_it_waiting(memory: dict[str, bool]) -> None:
    driver = slow_driver(0.002, **memory)
    slow = driver.submit("the fox", n=8, max_tokens=10, grammar=LETTERS, can_grow=True)
    while not (late := [each for each in driver.request(slow).branches if driver.engine._branches.is_deferred(each)]):
        driver.step()
    assert {branch.length for branch in late} == {0}
    forks = [driver.add(slow, plain(seed=99 + each.index), origin=each.index, token=0)[0] for each in late]
    driver.engine.check_invariants()
    driver.run()
    texts = driver.result(slow).texts
    for index in {*texts} - {*forks}:
        assert texts[index] == solo("the fox", 1 + index, 10, grammar=LETTERS).texts[0]


def test_a_branch_that_waits_for_its_grammar_is_paused_cancelled_and_forked_as_any_other() -> None:
    driver = slow_driver(0.002)
    slow = driver.submit("the fox", n=16, max_tokens=30, grammar=LETTERS, can_grow=True)
    for _ in range(14):
        driver.step()
    late = [branch for branch in driver.request(slow).branches if driver.engine._branches.is_deferred(branch)]
    begun = [branch for branch in late if branch.length > 1]
    assert len(late) > 8
    driver.cancel(slow, begun[0].index)
    driver.engine._branches.pause(begun[1])
    driver.engine._branches.share(begun[2])
    driver.engine.check_invariants()
    assert not any(map(driver.engine._branches.is_deferred, begun[:3]))
    [fork] = driver.add(slow, plain(seed=99), origin=begun[3].index)
    driver.run()
    ends, texts = driver.result(slow).ends, driver.result(slow).texts
    assert {index for index, end in ends.items() if end.reason is FinishReason.CANCELLED} == {begun[0].index}
    for index in {*texts} - {begun[0].index, fork}:
        assert texts[index] == solo("the fox", 1 + index, 30, grammar=LETTERS).texts[0]
    assert texts[fork].startswith(texts[begun[3].index][:2])


def test_no_grammar_is_blamed_for_a_collection_of_garbage() -> None:
    driver = slow_driver(0.0)
    clock = driver.model.grammars.clock

    def collect(phase: str, _: dict[str, int]) -> None:
        clock.now += 1.0  # type: ignore[attr-defined]

    gc.callbacks.append(collect)
    thresholds = gc.get_threshold()
    gc.set_threshold(1)
    try:
        request_id = driver.submit("the fox", n=2, max_tokens=30, grammar=LETTERS)
        driver.run()
    finally:
        gc.set_threshold(*thresholds)
        gc.callbacks.remove(collect)
    assert {end.code for end in driver.result(request_id).ends.values()} == {""}


def test_a_text_whose_tokens_take_long_ends_alone_and_its_siblings_with_it_where_one_call_took_too_long() -> None:
    driver = slow_driver(0.0)
    form: dict[str, Any] = {"n": 2, "max_tokens": 30, "grammar": LETTERS}
    request_id = driver.submit("the fox", **form)
    driver.step()
    one = driver.request(request_id).branches[0].sampler.grammar
    assert one is not None
    one.seconds = FREE_SECONDS + 30 * TOKEN_SECONDS
    driver.run()
    reasons = [(end.reason, end.code) for _, end in sorted(driver.result(request_id).ends.items())]
    assert reasons == [(FinishReason.ERROR, "grammar_too_complex"), (FinishReason.LIMIT, "")]
    again = driver.submit("the fox", **form)
    driver.step()
    driver.request(again).branches[0].sampler.grammar._grammar.clock = Slowly(CALL_SECONDS * 1.1)  # type: ignore[union-attr]
    driver.run()
    assert {end.code for end in driver.result(again).ends.values()} == {"grammar_too_complex"}
    with pytest.raises(InvalidRequest, match="too complex"):
        driver.submit("the fox", **form)
