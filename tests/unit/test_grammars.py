"""Grammars are compiled once each, in turns in which no request waits for all the grammars of another one."""

from __future__ import annotations

import queue
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from srb.config.sampling_params import SamplingParams
from srb.engine.fake import FakeModel
from srb.engine.grammar import grammars as module
from srb.engine.grammar.lark import Lark
from srb.engine.grammar.schemas import prepared
from srb.engine.preparing import Preparer
from srb.errors import InvalidRequest
from srb.web.chat.families import FAMILIES, HERMES, Family
from srb.web.chat.tool_schemas import Tool
from tests.processes import DEADLINE, wait_for

BY_NAME = {family.name: family for family in FAMILIES}
LARGE = 'root ::= "{}' + "a" * module.LARGE_BYTES + '"'


class Compiler:
    """The grammars of a model, of which each is compiled when the test lets it."""

    def __init__(self, model: FakeModel, monkeypatch: pytest.MonkeyPatch) -> None:
        self.grammars = model.grammars
        self.begun: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.gate = threading.Semaphore(0)
        self.threads: list[threading.Thread] = []
        compile_one = model.grammars._compile

        def compile_slowly(lark: Lark, made: list[Any]) -> None:
            self.begun.put(lark.text)
            assert self.gate.acquire(timeout=DEADLINE)
            compile_one(lark, made)

        monkeypatch.setattr(model.grammars, "_compile", compile_slowly)

    def start(self, call: Callable[[], Any]) -> None:
        self.threads.append(threading.Thread(target=call))
        self.threads[-1].start()

    def next(self) -> str:
        return self.begun.get(timeout=DEADLINE)

    def join(self) -> None:
        self.gate.release(1000)
        for thread in self.threads:
            thread.join(DEADLINE)
            assert not thread.is_alive()


@pytest.fixture
def model() -> FakeModel:
    return FakeModel()


@pytest.fixture
def compiler(model: FakeModel, monkeypatch: pytest.MonkeyPatch) -> Iterator[Compiler]:
    made = Compiler(model, monkeypatch)
    yield made
    made.join()


def tools(count: int, **more: Any) -> SamplingParams:
    """Return the parameters of a request with so many tools, whose calls are free until one begins."""
    made = HERMES.grammar(
        [
            {"name": f"t{number}", "parameters": {"type": "object", "properties": {f"a{number}": more}}}
            for number in range(count)
        ],
        parallel=True,
        lazy=True,
    )
    return SamplingParams(grammar=made.text, grammar_schemas=made.schemas, grammar_triggers=made.triggers)


def test_a_grammar_waits_for_one_grammar_of_a_request_with_many_and_not_for_all(
    model: FakeModel, compiler: Compiler
) -> None:
    compiler.start(lambda: Preparer(model, None)._checked(tools(20)))
    compiler.next()
    compiler.start(lambda: model.grammars.matcher("root ::= [b]"))
    wait_for(lambda: model.grammars._small._waiting, "the other grammar waits")
    compiler.gate.release(2)
    others = [compiler.next() for _ in range(2)]
    assert "\\u{62}" in others[0]
    assert "a1" in others[1]


def test_a_small_grammar_does_not_wait_for_large_ones_of_which_few_are_compiled_at_once(
    model: FakeModel, compiler: Compiler
) -> None:
    for number in range(module.MAX_LARGE + 2):
        compiler.start(lambda number=number: model.grammars.matcher(LARGE.format(number)))
    running = {compiler.next() for _ in range(module.MAX_LARGE)}
    wait_for(lambda: len(model.grammars._large._waiting) == 2, "two wait")
    compiler.start(lambda: model.grammars.matcher("root ::= [b]"))
    assert "\\u{62}" in compiler.next()
    assert compiler.begun.empty()
    compiler.gate.release(1000)
    assert len(running | {compiler.next() for _ in range(2)}) == module.MAX_LARGE + 2


def test_a_grammar_that_several_ask_for_at_once_is_compiled_once(model: FakeModel, compiler: Compiler) -> None:
    made: list[int] = []
    for _ in range(4):
        compiler.start(lambda: made.append(model.grammars.matcher(LARGE).allowed.size))
    compiler.next()
    compiler.join()
    assert made == [1] * 4
    assert compiler.begun.empty()


def test_threads_that_compile_at_once_have_stacks_of_their_own_size(
    model: FakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a stack of the usual size, llguidance's recursion ends the process."""
    set_to: list[int] = []
    set_size = threading.stack_size

    def record(size: int) -> int:
        set_to.append(size)
        return set_size(size)

    monkeypatch.setattr(threading, "stack_size", record)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [
            threading.Thread(
                target=model.grammars.matcher,
                args=((LARGE if number % 2 else "root ::= [a]") + f'\na{number} ::= "a"',),
            )
            for number in range(24)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert set_to == [module.STACK_BYTES, 0] * 24


@pytest.mark.parametrize("schema", [{"type": "string"}, {"type": "integer", "minimum": 5, "maximum": 1}])
def test_a_later_turn_with_the_same_128_tools_compiles_nothing(model: FakeModel, schema: dict[str, Any]) -> None:
    """Nor where their schemas make no grammar."""
    first = Preparer(model, None)._checked(tools(128, **schema))
    model.grammars._compile = None  # type: ignore[assignment, method-assign]
    assert Preparer(model, None)._checked(tools(128, **schema)) == first


def test_as_many_grammars_are_kept_as_there_is_room_for(model: FakeModel, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    compile_one = model.grammars._compile

    def record(lark: Lark, made: list[Any]) -> None:
        compiled.append(lark.text)
        compile_one(lark, made)

    monkeypatch.setattr(model.grammars, "_compile", record)
    monkeypatch.setattr(module, "MAX_KEPT_BYTES", 2 * (module.ENTRY_BYTES + 100))

    def count(*texts: str) -> int:
        compiled.clear()
        for text in texts:
            model.grammars.matcher(f"root ::= [{text}]")
        return len(compiled)

    assert count("a", "b", "a", "b") == 2
    assert count("a", "c", "a") == 1
    assert count("b") == 1
    model.grammars.matcher(LARGE)
    assert count("b") == 1, "a large one takes the room of many"


def test_a_grammar_that_cannot_be_used_is_compiled_once_and_names_the_field_of_each_request(model: FakeModel) -> None:
    for field in ("tools", "json_schema"):
        with pytest.raises(InvalidRequest, match=f"'{field}': cannot be used"):
            model.grammars.matcher("root ::= schema-0", ("false",), field)
        model.grammars._compile = None  # type: ignore[assignment, method-assign]


def check_taken(model: FakeModel, family: Family, named: list[Tool], call: tuple[str, Any]) -> None:
    made = family.grammar(named, parallel=True, lazy=True)
    matcher = model.grammars.matcher(made.text, [prepared(schema, "tools").text for schema in made.schemas])
    for token in model.tokenize(family.forms[0].write([call]), False, False):
        assert token in matcher.allowed
        matcher.accept(token)


def test_the_calls_of_128_tools_in_a_long_form_make_a_grammar(model: FakeModel) -> None:
    """llguidance takes 65,000 signs. A tool of Kimi K3 with eight arguments had a thousand of its own."""
    parameters = {
        "type": "object",
        "properties": {f"argument_number_{number}": {"type": "string"} for number in range(8)},
    }
    named = [{"name": f"a_tool_{number}", "parameters": parameters} for number in range(128)]
    check_taken(model, BY_NAME["kimi-k3"], named, ("a_tool_100", {"argument_number_3": "x"}))


@pytest.mark.parametrize("text", ["a\nb", "it's\tso", '"it\'s"\r\n', "C:\\new", "\\", ""])
@pytest.mark.parametrize("more", [{"properties": {"a": {"type": "string"}}}, {}])
def test_a_text_in_pythons_form_may_have_what_is_escaped(model: FakeModel, text: str, more: dict[str, Any]) -> None:
    named = [{"name": "t", "parameters": {"type": "object", **more}}]
    check_taken(model, BY_NAME["lfm2"], named, ("t", {"a": text}))


def test_texts_of_a_grammar_whose_masks_nobody_asked_for_go_on_apart(model: FakeModel) -> None:
    """A mask is computed on a copy, which hides that two texts share a place."""
    origin, other = (model.grammars.matcher('root ::= "(a)"') for _ in range(2))
    copy = origin.copy()
    [bracket] = model.tokenize("(", False, False)
    origin.accept(bracket)
    assert bracket not in origin.allowed
    for matcher in (other, copy):
        assert bracket in matcher.allowed
