"""A Jinja environment for chat templates, which come with models: untrusted programs that run in the worker.

The environment has the functions of Hugging Face's transformers (`raise_exception`, `strftime_now`, `tojson` with its
options, loop controls, `generation` blocks). It limits a template to MAX_SECONDS of CPU time, and a little for each message,
to MAX_CHARS of output, and to MAX_CHARS in any value. The limits are checked in every iteration, every call and every output
of a value, so no loop is endless. A single long native operation ends with gunicorn's worker timeout.
"""

import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, NoReturn

import gevent
from jinja2 import Template, TemplateError, nodes, pass_context
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

from srb.web.loop.yielding import SLICE

MAX_SECONDS = 1.0  # of this thread's CPU time: a loop without end would keep the worker from all other clients
SECONDS_FOR_A_MESSAGE = 0.0005  # added for each message, so that a conversation of thousands is not refused
MAX_CHARS = 32 * 1024 * 1024  # of output, and of any value; a body has no more bytes by default
MAX_NODES = 500_000  # values within one value, which is printed in one call that no deadline ends
MAX_TEMPLATE = 1024 * 1024  # characters of a template's source, which Jinja compiles in one go
MAX_WIDTH = 10_000  # of padding, and of integer arguments of string methods: each is one call, which no deadline ends
MAX_INTEGER = 4096  # bits: products and powers are one call of any length in C, which no deadline ends

# Filters whose output may be much larger than their input (center, format, lipsum, wordwrap, …) or is HTML are left out.
FILTERS = (
    "abs", "attr", "capitalize", "count", "d", "default", "dictsort", "e", "escape", "first", "float", "groupby", "int",
    "items", "last", "length", "list", "lower", "map", "max", "min", "reject", "rejectattr", "reverse", "round", "safe",
    "select", "selectattr", "sort", "sum", "title", "trim", "unique", "upper",
)  # fmt: skip
TEXT_FILTERS = ("capitalize", "escape", "e", "lower", "title", "trim", "upper")
GLOBALS = ("range", "dict", "namespace", "joiner", "cycler")


class LimitExceeded(SecurityError):
    """A template exceeded its CPU time or its output."""


class Generation(Extension):
    """The block `{% generation %}…{% endgeneration %}`, which marks assistant text for training; its content is output."""

    tags = {"generation"}

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class Sandbox(ImmutableSandboxedEnvironment):
    """The environment of one template, with the counters of the rendering that runs now."""

    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=[loopcontrols, Generation],
            finalize=_finalize,
            cache_size=0,
        )
        self._seconds = self._deadline = self._yield_at = 0.0
        self._written = 0
        kept = {name: self.filters[name] for name in FILTERS}
        kept |= {name: _on_text(kept[name]) for name in TEXT_FILTERS}
        self.filters = kept | {"tojson": to_json, "string": text_of, "join": join, "replace": replace, "indent": indent}
        self.globals = {name: self.globals[name] for name in GLOBALS}
        self.globals |= {"raise_exception": raise_exception, "strftime_now": strftime_now}

    def compile_template(self, source: str) -> Template:
        """Compile a template; raise TemplateError if it is malformed, too long or nested too deeply."""
        if len(source) > MAX_TEMPLATE:
            raise TemplateError(f"the template is longer than {MAX_TEMPLATE} characters")
        try:
            tree = self.parse(source)
            _end_loops(tree)
            _instrument(tree)
            tree.set_environment(self)
            return Template.from_code(self, self.compile(tree), self.make_globals(None))
        except RecursionError:
            raise TemplateError("the template is nested too deeply") from None

    def run(self, template: Template, variables: Mapping[str, Any]) -> str:
        """Return the template's output; raise LimitExceeded, TemplateError or any error of the template's code."""
        self._seconds = MAX_SECONDS + SECONDS_FOR_A_MESSAGE * len(variables.get("messages") or ())
        now = time.thread_time()
        self._deadline, self._yield_at = now + self._seconds, now + SLICE
        self._written = 0
        parts: list[str] = []
        length = 0
        for part in template.generate(variables):
            parts.append(part)
            length += len(part)
            self.tick()
            _check_size(length)
        return "".join(parts)

    def tick(self, written: int = 0) -> None:
        """Count `written` characters of output; raise LimitExceeded beyond the output's or the CPU time's limit."""
        self._written += written
        _check_size(self._written)
        now = time.thread_time()
        if now > self._deadline:
            raise LimitExceeded(f"the template took more than {self._seconds:.2g} s of CPU time")
        if now > self._yield_at:
            self._yield(now)

    def _yield(self, now: float) -> None:
        """Let other greenlets run, whose time is not the template's; they may render with this environment as well."""
        seconds, left, written = self._seconds, self._deadline - now, self._written
        gevent.sleep(0)
        now = time.thread_time()
        self._seconds, self._deadline, self._written, self._yield_at = seconds, now + left, written, now + SLICE

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805 (as in Jinja)
        __self.tick()
        owner = getattr(__obj, "__self__", None)
        if isinstance(owner, str):
            _check_text_method(owner, __obj.__name__, args, kwargs)
        return super().call(__context, __obj, *args, **kwargs)

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        """Return a string's format() with a check of its arguments' sizes, besides Jinja's checks."""
        wrapped = super().wrap_str_format(value)
        if wrapped is None:
            return None

        def checked(*args: Any, **kwargs: Any) -> str:
            _check_layout(value.__self__)
            _weigh([*args, *kwargs.values()])
            return wrapped(*args, **kwargs)

        return checked

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        _check_operation(operator, left, right)
        return super().call_binop(context, operator, left, right)

    @staticmethod
    def concatenate(*values: Any) -> str:
        """Implement the operator `~`."""
        return join(values)


def _end_loops(tree: nodes.Template) -> None:
    """Let loops end where nothing can happen any more, since Jinja alone has no `break`.

    The body of such a loop is one `if` whose condition, an attribute of a variable from outside, has become false or true
    for good: only the body could change it. Gemma 4's template goes back through all messages for each message otherwise.
    """
    for loop in tree.find_all(nodes.For):
        if len(loop.body) != 1 or not isinstance(choice := loop.body[0], nodes.If) or loop.recursive or loop.else_:
            continue
        own = {
            "loop",
            *(name.name for name in (loop.target, *loop.target.find_all(nodes.Name)) if isinstance(name, nodes.Name)),
        }
        test = choice.test.node if isinstance(choice.test, nodes.Not) else choice.test
        if not isinstance(test, nodes.Getattr) or not isinstance(test.node, nodes.Name) or test.node.name in own:
            continue
        if isinstance(choice.test, nodes.Not) and not choice.elif_ and not choice.else_:
            choice.else_ = [nodes.Break(lineno=loop.lineno)]
        elif test is choice.test and not choice.body:
            choice.body = [nodes.Break(lineno=loop.lineno)]


def _instrument(tree: nodes.Template) -> None:
    """Add a tick to every iteration of a loop and every call of a macro, and a check of sizes to `~`."""
    for node in list(tree.find_all((nodes.For, nodes.Macro, nodes.CallBlock))):
        assert isinstance(node, (nodes.For, nodes.Macro, nodes.CallBlock))
        constant = sum(len(data.data) for data in node.find_all(nodes.TemplateData))
        tick = _call_environment("tick", [nodes.Const(constant)])
        node.body.insert(0, nodes.ExprStmt(tick))
    _replace_concats(tree)


def _replace_concats(node: nodes.Node) -> None:
    for name, value in node.iter_fields():
        if isinstance(value, list):
            value[:] = [_without_concat(item) for item in value]
        else:
            setattr(node, name, _without_concat(value))


def _without_concat(value: Any) -> Any:
    if isinstance(value, tuple):  # the parts of a For's or a Call's arguments
        return tuple(_without_concat(item) for item in value)
    if not isinstance(value, nodes.Node):
        return value
    _replace_concats(value)
    return _call_environment("concatenate", value.nodes, value.lineno) if isinstance(value, nodes.Concat) else value


def _call_environment(name: str, args: list[Any], lineno: int = 1) -> nodes.Node:
    call = nodes.Call(nodes.EnvironmentAttribute(name), args, [], None, None)
    return call.set_lineno(lineno)  # for all parts without a line number


@pass_context
def _finalize(context: Context, value: Any) -> Any:
    """Count the output of an expression, also inside macros and set blocks."""
    text = text_of(value)
    environment = context.environment
    assert isinstance(environment, Sandbox)
    environment.tick(len(text))
    return text


# Filters and functions ------------------------------------------------------------------------------------------------


def raise_exception(message: object) -> NoReturn:
    raise TemplateError(text_of(message))


def strftime_now(layout: str) -> str:
    # The system writes a width out: `%999999999d` would be a gigabyte in one call.
    if len(layout) > 200 or re.search(r"\d{3}", layout):
        raise LimitExceeded("strftime_now takes at most 200 characters, without widths of three digits")
    return datetime.now().strftime(layout)


def text_of(value: Any) -> str:
    """Return str(value); raise LimitExceeded if it would be longer than MAX_CHARS."""
    if not isinstance(value, str):
        _weigh(value)
        return str(value)
    return value


def to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | str | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Return a value as plain JSON, without escapes for HTML, like transformers' filter `tojson`."""
    width = indent if isinstance(indent, int) else len(indent or "")
    if width > 16:
        raise LimitExceeded("tojson takes an indent of at most 16")
    value = list(value) if isinstance(value, Iterator) else value  # of a filter such as `map`
    _weigh(value)
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def join(values: Iterable[Any], separator: Any = "", attribute: str | None = None) -> str:
    parts = []
    length = 0
    glue = text_of(separator)
    for value in values:
        chosen = value.get(attribute, "") if attribute is not None and isinstance(value, Mapping) else value
        parts.append(text_of(chosen))
        length += len(parts[-1]) + len(glue)
        _check_size(length)
    return glue.join(parts)


def replace(value: Any, old: Any, new: Any, count: int = -1) -> str:
    text, old, new = text_of(value), text_of(old), text_of(new)
    _check_replace(text, old, new)
    return text.replace(old, new, count)


def indent(value: Any, width: int | str = 4, first: bool = False, blank: bool = False) -> str:
    text = text_of(value)
    prefix = " " * min(width, MAX_WIDTH) if isinstance(width, int) else text_of(width)
    lines = text.split("\n")
    _check_size(len(text) + len(lines) * len(prefix))
    return "\n".join(
        prefix + line if (line or blank) and (place or first) else line for place, line in enumerate(lines)
    )


def _on_text(function: Callable[..., Any]) -> Callable[..., Any]:
    def on_text(value: Any, *args: Any, **kwargs: Any) -> Any:
        return function(text_of(value), *args, **kwargs)

    return on_text


# Sizes ----------------------------------------------------------------------------------------------------------------


def _check_size(length: int) -> None:
    if length > MAX_CHARS:
        raise LimitExceeded(f"the template wrote more than {MAX_CHARS} characters")


def _weigh(value: Any) -> None:
    """Raise LimitExceeded for a value whose text would be too long: a small list may contain another one many times."""
    length = count = 0
    waiting: list[Iterator[Any]] = [iter((value,))]
    while waiting:
        for item in waiting[-1]:
            count += 1
            length += len(item) if isinstance(item, str) else 0
            if isinstance(item, Mapping):
                waiting.append(iter([*item.keys(), *item.values()]))
                break
            if isinstance(item, (list, tuple)):
                waiting.append(iter(item))
                break
        else:
            waiting.pop()
        _check_size(length)
        if count > MAX_NODES:
            raise LimitExceeded(f"a value contains more than {MAX_NODES} values")


def _check_operation(operator: str, left: Any, right: Any) -> None:
    if operator == "+":
        if isinstance(left, (str, list, tuple)) and isinstance(right, (str, list, tuple)):
            _check_size(_memory(left) + _memory(right))
    elif operator == "*":
        for sequence, times in ((left, right), (right, left)):
            if isinstance(sequence, (str, list, tuple)) and isinstance(times, int):
                _check_size(_memory(sequence) * times)
        if isinstance(left, int) and isinstance(right, int) and left.bit_length() + right.bit_length() > MAX_INTEGER:
            raise LimitExceeded("a number is too large")
    elif operator == "**":
        if isinstance(left, int) and isinstance(right, int) and left.bit_length() * abs(right) > MAX_INTEGER:
            raise LimitExceeded("a number is too large")
    elif isinstance(left, str):
        _check_layout(left)
        _weigh(right)


def _memory(sequence: str | list[Any] | tuple[Any, ...]) -> int:
    """Return the approximate memory of a sequence, in characters."""
    return len(sequence) if isinstance(sequence, str) else 32 * len(sequence)


def _check_text_method(text: str, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """Raise LimitExceeded for a call of a string's method whose result could be much longer than its arguments."""
    if any(isinstance(arg, int) and arg > MAX_WIDTH for arg in (*args, *kwargs.values())):
        raise LimitExceeded(f"{name}() takes numbers up to {MAX_WIDTH}")
    if name == "replace" and len(args) >= 2 and all(isinstance(arg, str) for arg in args[:2]):
        _check_replace(text, args[0], args[1])
    elif name == "join" and args and isinstance(args[0], (list, tuple)):
        _check_size(sum(len(part) + len(text) for part in args[0] if isinstance(part, str)))
    elif name in ("expandtabs", "translate"):
        raise LimitExceeded(f"{name}() is not allowed in chat templates")


def _check_replace(text: str, old: str, new: str) -> None:
    if len(new) > len(old):
        _check_size(len(text) + text.count(old) * (len(new) - len(old)))


def _check_layout(layout: str) -> None:
    """Raise LimitExceeded for % and format strings with a width of many digits, or one from an argument."""
    if re.search(r"\d{5}|\*|\{[^}]*\{", layout):
        raise LimitExceeded("a format string has too large a width, or one from an argument")
