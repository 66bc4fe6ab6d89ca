"""What a chat template may not do: leave the sandbox, go on for ever, write without end."""

from __future__ import annotations

from typing import Any

import gevent
import pytest
from jinja2 import TemplateError

from srb.web.chat import sandbox
from srb.web.chat.sandbox import LimitExceeded, Sandbox

LARGE = "x" * 4_000_000


def write(source: str, **variables: Any) -> str:
    box = Sandbox()
    return box.run(box.compile_template(source), variables)


@pytest.mark.parametrize(
    "source",
    [
        "{{ ''.__class__.__mro__ }}",
        "{{ messages.__class__.__base__.__subclasses__() }}",
        "{{ raise_exception.__globals__['os'] }}",
        "{{ ''|attr('__class__') }}{{ ('__class__'|attr('__init__')).x }}",
        "{{ messages.append(1) }}",
        "{{ messages[0].update(role='x') }}",
        "{{ '{0.__class__.__mro__}'.format(1) }}",
        "{% include '/etc/passwd' %}",
        "{% import 'os' as os %}",
        "{{ lipsum() }}",
        "{{ self._TemplateReference__context.environment.globals.x.y }}",
    ],
)
def test_there_is_no_way_out(source: str) -> None:
    messages = [{"role": "user"}]
    with pytest.raises((TemplateError, TypeError)):
        print(write(source, messages=messages))
    assert messages == [{"role": "user"}]


@pytest.mark.parametrize(
    "source",
    [
        "{% for i in range(99999) %}{% for i in range(99999) %}{% endfor %}{% endfor %}",
        "{% for i in range(99999) %}{% for j in range(99999) if j > 99999 %}{% endfor %}{% endfor %}",
        "{% for x in [range(99999)] recursive %}{{ loop(x) if x is iterable else loop([range(99999)]) }}{% endfor %}",
        "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}",
        "{% macro f() %}{{ caller() }}{% endmacro %}{% call f() %}{% for i in range(9 ** 5) %}_{% endfor %}{% endcall %}",
    ],
)
def test_computing_ends_when_its_time_is_up(monkeypatch: pytest.MonkeyPatch, source: str) -> None:
    monkeypatch.setattr(sandbox, "MAX_SECONDS", 0.05)
    with pytest.raises((LimitExceeded, RecursionError)):
        write(source)


@pytest.mark.parametrize(
    "source",
    [
        "{% for i in range(99999) %}{{ large }}{% endfor %}",
        "{% macro f() %}{% for i in range(99999) %}{{ large }}{% endfor %}{% endmacro %}{{ f()|length }}",
        "{% set x %}{% for i in range(99999) %}{{ large }}{% endfor %}{% endset %}",
        "{% set n = namespace(x='ab') %}{% for i in range(60) %}{% set n.x = n.x ~ n.x %}{% endfor %}",
        "{% set n = namespace(x='ab') %}{% for i in range(60) %}{% set n.x = n.x + n.x %}{% endfor %}",
        "{% set n = namespace(x=[1]) %}{% for i in range(60) %}{% set n.x = n.x + n.x %}{% endfor %}",
        "{% set n = namespace(x=[1]) %}{% for i in range(60) %}{% set n.x = [n.x, n.x] %}{% endfor %}{{ n.x }}",
        "{% set n = namespace(x=[1]) %}{% for i in range(60) %}{% set n.x = [n.x, n.x] %}{% endfor %}{{ n.x|tojson }}",
        "{% set n = namespace(x=[1]) %}{% for i in range(60) %}{% set n.x = [n.x, n.x] %}{% endfor %}{{ n.x|upper }}",
        "{{ 'x' * 10 ** 10 }}",
        "{{ [1] * 10 ** 10 }}",
        "{{ 9 ** 9 ** 9 }}{{ 9 ** 99999999 }}",
        "{{ 'x'.ljust(10 ** 10) }}",
        "{{ 'x'.center(width=10 ** 10) }}",
        "{{ '%9999999999d' % 1 }}",
        "{{ '%*d' % (9999999999, 1) }}",
        "{{ '{:9999999999}'.format(1) }}",
        "{{ '{:{}}'.format(1, 9999999) }}",
        "{{ large|replace('x', large) }}",
        "{{ large.replace('x', large) }}",
        "{{ [large] * 99|join }}{{ ([large] * 99)|join }}",
        "{{ large.join([large] * 99) }}",
        "{{ (('x\n' * 99999)|indent(9999999)) }}",
        "{{ [1]|tojson(indent=99999999) }}",
        "{{ strftime_now('%99999999d') }}",
    ],
)
def test_nothing_grows_without_end(source: str) -> None:
    with pytest.raises((LimitExceeded, TypeError)):
        write(source, large=LARGE)


def test_a_range_is_bounded() -> None:
    with pytest.raises(OverflowError):
        write("{% for i in range(10 ** 9) %}{% endfor %}")


def test_a_template_that_is_too_long_or_too_deep_is_not_compiled() -> None:
    with pytest.raises(TemplateError):
        Sandbox().compile_template("x" * (sandbox.MAX_TEMPLATE + 1))
    with pytest.raises(TemplateError):
        Sandbox().compile_template("{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}")


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("{% for m in ms %}\n{{ m.x + '!' }}{% if not loop.last %}, {% endif %}\n{% endfor %}", "a!, b!"),
        ("{% for m in ms %}{% if loop.first %}{% continue %}{% endif %}{{ m.x }}{% endfor %}", "b"),
        ("{% for m in ms %}{{ m.x }}{% break %}{% endfor %}", "a"),
        ("{% for m in ms|selectattr('x', 'equalto', 'b') %}{{ m.x }}{{ loop.length }}{% endfor %}", "b1"),
        ("{{ ms|map(attribute='x')|join('-') }} {{ ms[1:]|length }} {{ ms[-1]['x'] }}", "a-b 1 b"),
        ("{% generation %}{{ 1 }}{% endgeneration %}", "1"),
        ("{% macro f(x) %}<{{ x }}>{% endmacro %}{{ f('a') ~ 1 ~ none }}", "<a>1None"),
        ("{{ {'a': ['é<'], 'b': 1}|tojson }}", '{"a": ["é<"], "b": 1}'),
        ("{{ {'b': 1, 'a': 2}|tojson(separators=(',', ':'), sort_keys=true) }}", '{"a":2,"b":1}'),
        ("{{ [1]|tojson(indent=2) }}", "[\n  1\n]"),
        ("{{ '  a '|trim }}{{ 'a b'.split(' ')[-1] }}{{ 'x'.startswith('x') }}{{ 7 % 2 }}", "abTrue1"),
        ("{{ 'a\nb'|indent(2) }}{{ '%s=%d' % ('n', 3) }}{{ '{}'.format('y') }}", "a\n  bn=3y"),
        ("{% set n = namespace(c=0) %}{% for m in ms %}{% set n.c = n.c + 1 %}{% endfor %}{{ n.c }}", "2"),
        ("{{ nothing }}{{ nothing is defined }}{{ 'd' if nothing is not defined }}", "Falsed"),
        ("{% for t in tree recursive %}{{ t.n }}{{ loop(t.c) }}{% endfor %}", "12"),
    ],
)
def test_what_templates_in_the_wild_use_is_there(source: str, text: str) -> None:
    tree = [{"n": 1, "c": [{"n": 2, "c": []}]}]
    assert write(source, ms=[{"x": "a"}, {"x": "b"}], tree=tree) == text


def test_the_date_can_be_told() -> None:
    assert len(write("{{ strftime_now('%Y-%m-%d') }}")) == 10


def test_an_exception_that_a_template_raises_has_its_words() -> None:
    with pytest.raises(TemplateError, match="roles must alternate"):
        write("{{ raise_exception('roles must alternate') }}")


LOOP = "{% for i in range(n) %}{{ text }}{% endfor %}"


class Clock:
    """A clock of CPU time that goes a millisecond on whenever it is read."""

    now = 0.0

    def thread_time(self) -> float:
        self.now += 0.001
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(sandbox, "time", clock)
    return clock


def test_others_run_while_a_template_renders_and_their_time_is_not_its_own(clock: Clock) -> None:
    turns = 0

    def work() -> None:
        nonlocal turns
        while True:
            turns += 1
            clock.now += 10
            gevent.sleep(0)

    working = gevent.spawn(work)
    try:
        assert write(LOOP, n=100, text="x") == "x" * 100
        assert turns >= 10
        with pytest.raises(LimitExceeded, match="CPU time"):
            write(LOOP, n=100_000, text="x")
    finally:
        working.kill()


def test_two_renderings_of_one_template_have_limits_of_their_own(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "MAX_CHARS", 1500)
    box = Sandbox()
    template = box.compile_template(LOOP)
    renderings = [gevent.spawn(box.run, template, {"n": 100, "text": letter * 10}) for letter in "abc"]
    gevent.joinall(renderings)
    assert [rendering.get() for rendering in renderings] == ["a" * 1000, "b" * 1000, "c" * 1000]
