"""The forms in which models write tool calls: how each is read, and the grammar of each.

A form's `read` stands at the form's first marker. It raises NoCall where the text is not in the form; calls that it has
finished before stay calls.
"""

import json
import re
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import orjson

from srb.config.sampling_params import MARKS
from srb.web.chat import tool_schemas
from srb.web.chat.grammar import Rules, any_text_until, quoted
from srb.web.chat.pieces import call_id
from srb.web.chat.reader import NoCall, Reader, Steps, object_text
from srb.web.chat.tool_schemas import Tool

NAME = re.compile(r"[\w.:/-]+")
ANY_KEY = "[A-Za-z_] [A-Za-z0-9_.-]*"  # GBNF of an argument that no schema names


@dataclass(frozen=True)
class Form:
    """The markers around a section of calls, and around each call; "" for none.

    `at_start`: calls are only found at the beginning of the content, without a marker, and of tools that exist.
    `apart`: models write a section for each call. `ids`: the form of the ids that models give their calls, as a regular
    expression and in GBNF; an id of another form is replaced, since templates refuse it.
    """

    opening: str = ""
    closing: str = ""
    call: str = ""
    call_end: str = ""
    at_start: bool = False
    apart: bool = False
    ids: str = ""

    def kept_id(self, given: str) -> str:
        """Return a call's id if it is of the form's kind, else ""."""
        return given if self.ids and re.fullmatch(self.ids, given) else ""

    def takes_name(self, name: str) -> bool:
        """Whether a tool of this name can be called."""
        return NAME.fullmatch(name) is not None

    @property
    def marker(self) -> str:
        """The text that begins a section, or a call where there are no sections."""
        return self.opening or self.call

    def markers(self) -> tuple[str, ...]:
        """Return all markers, some of which may be control tokens of the model."""
        return tuple(filter(None, (self.opening, self.closing, self.call, self.call_end)))

    @property
    def prefix(self) -> str:
        """The grammar of text that stands before the trigger."""
        return ""

    def triggers(self, tools: Sequence[Tool]) -> tuple[tuple[str, str | int], ...]:
        """Return the texts at which a lazy grammar begins, as SamplingParams has them."""
        return (("word", self.marker),)

    def further_triggers(self, tools: Sequence[Tool]) -> tuple[tuple[str, str | int], ...]:
        """Return the triggers of a form that is not its family's first; without a marker they have a tool's name."""
        return self.triggers(tools)

    def read(self, reader: Reader) -> Steps:
        """Read a section of calls, or one call where there are no sections."""
        if self.opening:
            yield from reader.expect(self.opening)
        yield from self._call(reader)
        while self.opening:
            reader.drop()
            yield from reader.space()
            if self.closing and (yield from reader.literal(self.closing)):
                break
            yield from reader.literal(",")
            yield from reader.space()
            if not (yield from reader.peek()):
                break
            reader.drop()
            yield from self._call(reader)
        reader.drop()

    def _call(self, reader: Reader) -> Steps:
        yield from reader.space()
        if self.call:
            yield from reader.expect(self.call)
            yield from reader.space()
        yield from self._body(reader)
        if self.call_end:
            yield from reader.ending(self.call_end)

    def _body(self, reader: Reader) -> Steps:
        raise NotImplementedError

    def write(self, calls: Sequence[tuple[str, Any]]) -> str:
        """Return calls (name, arguments) as the model writes them, for templates that render none."""
        told = (self.call + self._written(name, arguments) + self.call_end for name, arguments in calls)
        return self.opening + "".join(told) + self.closing

    def _written(self, name: str, arguments: Any) -> str:
        raise NotImplementedError

    # The grammar ------------------------------------------------------------------------------------------------------

    def rules(self, tools: Sequence[Tool], rules: Rules, parallel: bool) -> str:
        """Return the expression of a section, with its rules added."""
        one = rules.add("call", f"{quoted(self.call)} ( {self._calls(tools, rules)} ) {quoted(self.call_end)}")
        more = f" ( {self._separator} {one} )*" if parallel else ""
        if self.apart and parallel:
            one = rules.add("section", f"{quoted(self.opening)} {one} {quoted(self.closing)}")
            return f"{one} ( {self._separator} {one} )*"
        line = "[\\n]?" if self.opening and self.call else ""
        return f"{quoted(self.opening)} {line} {one}{more} {line} {quoted(self.closing)}"

    def rules_beside_json(self, tools: Sequence[Tool], rules: Rules, parallel: bool) -> str:
        """Return the expression of a section in whose place an answer in JSON may stand."""
        return self.rules(tools, rules, parallel)

    _separator = "[\\n]?"

    def _calls(self, tools: Sequence[Tool], rules: Rules) -> str:
        return " | ".join(self._tool(tool, rules) for tool in tools)

    def _tool(self, tool: Tool, rules: Rules) -> str:
        raise NotImplementedError


@dataclass(frozen=True)
class JsonCalls(Form):
    """JSON objects with a name and arguments; `is_list`: a section is a list of them.

    `keyed`: an object has the name as its only key, and the arguments as its value. With `ids`, an `id` follows the
    arguments, which wait for it. `number` is the key of a call's number, which comes first: templates count the calls of
    a conversation for themselves.
    """

    name: str = "name"
    arguments: str = "arguments"
    is_list: bool = False
    keyed: bool = False
    newlines: bool = False  # around the object of a call
    number: str = ""
    typed: bool = False  # "type": "function" may precede the name

    def triggers(self, tools: Sequence[Tool]) -> tuple[tuple[str, str | int], ...]:
        if self.marker:
            return super().triggers(tools)
        return (("start", '{"name"'), *(("start", f"{{{each}") for each in _TYPES if self.typed))

    def further_triggers(self, tools: Sequence[Tool]) -> tuple[tuple[str, str | int], ...]:
        if self.marker:
            return self.triggers(tools)
        names = [orjson.dumps(tool["name"]).decode() for tool in tools]
        kinds = ("", '"type":{0}"function",{0}') if self.typed else ("",)
        return tuple(
            ("start", f'{{{kind.format(space)}"name":{space}{name}')
            for name in names
            for kind in kinds
            for space in (" ", "")
        )

    def takes_name(self, name: str) -> bool:
        return True  # JSON has any text

    def read(self, reader: Reader) -> Steps:
        if not self.opening:
            yield from super().read(reader)
            while self.at_start:  # Llama 3 separates calls by semicolons
                yield from reader.space()
                if not (yield from reader.literal(";")):
                    reader.go_back()
                    return
                yield from reader.space()
                if (yield from reader.peek()) != "{":
                    reader.go_back()
                    return
                reader.drop()
                yield from self._body(reader)
            return
        yield from reader.expect(self.opening)
        yield from reader.space()
        is_list = yield from reader.literal("[")
        while True:
            yield from reader.space()
            yield from self._call(reader)
            reader.drop()
            yield from reader.space()
            if is_list and (yield from reader.literal("]")):
                reader.drop()
                if self.closing:
                    yield from reader.ending(self.closing)
                break
            if self.closing and (yield from reader.literal(self.closing)):
                break
            has_comma = yield from reader.literal(",")
            if not has_comma and (yield from reader.peek()) != "{":
                reader.go_back()
                return
            yield from reader.space()
        reader.drop()

    def _body(self, reader: Reader) -> Steps:
        yield from reader.expect("{")
        name, held, told, given_id = "", "", False, ""
        is_first = True
        while True:
            yield from reader.space()
            if is_first and (yield from reader.literal("}")):
                break
            key = yield from reader.string()
            yield from reader.space()
            yield from reader.expect(":")
            yield from reader.space()
            if self.keyed and is_first:
                reader.begin(key)
                yield from reader.arguments()
                name, told = key, True
            elif key == self.name and not name:
                name = yield from reader.string()
                if not name or (self.at_start and name not in reader.tools):
                    raise NoCall
            elif key in _ARGUMENTS and name and not told and (given_id or not self.ids):
                reader.begin(name, given_id)
                yield from reader.arguments()
                told = True
            elif key in _ARGUMENTS and not told:
                held = yield from reader.value()
                held = orjson.loads(held) if held.startswith('"') else "{}" if held == "null" else held
            elif key == "id" and (yield from reader.peek()) == '"':
                given_id = self.kept_id((yield from reader.string()))
            else:
                yield from reader.value()
            is_first = False
            yield from reader.space()
            if (yield from reader.literal(",")):
                continue
            yield from reader.expect("}")
            break
        if not name or (self.at_start and not told and not held):
            raise NoCall
        if not told:
            given = object_text(held or "{}")
            reader.begin(name, given_id)
            reader.tell(given)
        reader.finish()

    def _written(self, name: str, arguments: Any) -> str:
        given = {name: arguments} if self.keyed else {self.name: name, self.arguments: arguments}
        line = "\n" if self.newlines else ""
        return line + spaced_json(given) + line

    def write(self, calls: Sequence[tuple[str, Any]]) -> str:
        if not self.is_list:
            return super().write(calls)
        return f"{self.opening}[{', '.join(self._written(*call) for call in calls)}]{self.closing}"

    def rules(self, tools: Sequence[Tool], rules: Rules, parallel: bool) -> str:
        if not self.is_list:
            return super().rules(tools, rules, parallel)
        one = rules.add("call", self._calls(tools, rules))
        more = f'( "," {_LIST_SPACE} {one} )*' if parallel else ""
        return f'{quoted(self.opening)} "[" {_LIST_SPACE} {one} {more} {_LIST_SPACE} "]" {quoted(self.closing)}'

    def rules_beside_json(self, tools: Sequence[Tool], rules: Rules, parallel: bool) -> str:
        """Return calls that begin as an answer may as schemas: by characters they were lost where a key begins alike."""
        if not self.at_start or any(map(tool_schemas.refers_to_itself, map(tool_schemas.parameters_of, tools))):
            return self.rules(tools, rules, parallel)
        one = rules.add("call", " | ".join(rules.schema(self._schema(tool)) for tool in tools))
        return f"{one} ( {self._separator} {one} )*" if parallel else one

    def _schema(self, tool: Tool) -> Any:
        parameters = tool_schemas.parameters_of(tool)
        given = {key: value for key, value in parameters.items() if key not in ("$defs", "definitions")}
        return tool_schemas.with_definitions(
            {
                **{mark: parameters[mark] for mark in MARKS if mark in parameters},
                "type": "object",
                "properties": {
                    "type": {"const": "function"},
                    self.name: {"const": tool["name"]},
                    self.arguments: given,
                },
                "required": [self.name, self.arguments],
                "additionalProperties": False,
            },
            parameters,
        )

    @property
    def _separator(self) -> str:  # type: ignore[override]
        return '( ";" " "? )' if self.at_start else "[\\n]?"

    def _tool(self, tool: Tool, rules: Rules) -> str:
        line = "[\\n]? " if self.newlines else ""
        name, schema = quoted(orjson.dumps(tool["name"]).decode()), rules.schema(tool_schemas.parameters_of(tool))
        if self.keyed:
            return f'"{{" {name} ":" " "? {schema} "}}"'
        key = quoted(f'"{self.name}":')
        given = quoted(f'"{self.arguments}":')
        kind = f"""( {quoted('"type":')} " "? {quoted('"function",')} " "? )?""" if self.typed else ""
        if self.typed:
            arguments = quoted('"arguments":')
            given = f"( {given} | {arguments} )"
        number = f"""( {quoted(f'"{self.number}":')} " "? "\\"" [0-9]+ "\\"," " "? )?""" if self.number else ""
        given_id = f"""( "," " "? {quoted('"id":')} " "? "\\"" {self.ids} "\\"" )?""" if self.ids else ""
        return f'{line}"{{" {kind} {number} {key} " "? {name} "," " "? {given} " "? {schema} {given_id} "}}" {line}'


_LIST_SPACE = "[ \\n]{0,9}"  # GBNF of the space in a list of calls
_TYPES = ('"type": "function"', '"type":"function"')
_ARGUMENTS = ("arguments", "parameters")


@dataclass(frozen=True)
class NamedCalls(Form):
    """A call's name and then its arguments as JSON: `name_end` stands between, `fence` after the arguments."""

    before_name: str = ""
    name_end: str = ""
    fence: str = ""
    id_mark: str = ""  # after the name: an id follows up to `name_end`
    id_first: str = ""  # an id stands before the name, up to this
    names_are_ids: bool = False  # Kimi's: functions.NAME:0
    is_common: bool = False  # other text has the marker, so a grammar begins with the name as well

    def markers(self) -> tuple[str, ...]:
        return (*super().markers(), *filter(None, (self.before_name, self.name_end.strip(), self.id_mark)))

    def triggers(self, tools: Sequence[Tool]) -> tuple[tuple[str, str | int], ...]:
        if not self.is_common:
            return super().triggers(tools)
        return tuple(("word", self.marker + tool["name"] + self.name_end) for tool in tools)

    def _body(self, reader: Reader) -> Steps:
        yield from reader.expect(self.before_name)
        given_id = ""
        if self.id_first:
            given_id, _ = yield from reader.until(self.id_first)
        ends = (self.name_end, self.id_mark) if self.id_mark else (self.name_end,)
        written, end = yield from reader.until(*ends)
        if end == self.id_mark:
            given_id = self.kept_id((yield from reader.until(self.name_end))[0])
        name = written.strip()
        if self.names_are_ids:
            name = re.sub(r":\d+$", "", name.removeprefix("functions."))
        if not NAME.fullmatch(name):
            raise NoCall
        yield from reader.space()
        if (yield from reader.peek()) != "{":
            raise NoCall
        reader.begin(name, written.strip() if self.names_are_ids else given_id.strip())
        yield from reader.value(reader.tell)
        reader.finish()
        if self.fence:
            yield from reader.ending(self.fence)

    def _written(self, name: str, arguments: Any) -> str:
        name = f"functions.{name}:0" if self.names_are_ids else name
        fence = f"\n{self.fence}" if self.fence else ""
        given_id = f"{call_id()}{self.id_first}" if self.id_first else ""
        return given_id + self.before_name + name + self.name_end + spaced_json(arguments) + fence

    def _tool(self, tool: Tool, rules: Rules) -> str:
        number = '":" [0-9]+' if self.names_are_ids else '""'
        name = f"functions.{tool['name']}" if self.names_are_ids else tool["name"]
        fence = f"[\\n]? {quoted(self.fence)}" if self.fence else '""'
        given_id = f"[A-Za-z0-9_-]+ {quoted(self.id_first)} " if self.id_first else ""
        mark = f"( {quoted(self.id_mark)} {self.ids} )?" if self.id_mark else ""
        begin = f"{given_id}{quoted(self.before_name + name)} {number} {mark} {quoted(self.name_end)}"
        return f"{begin} {rules.schema(tool_schemas.parameters_of(tool))} {fence}"


@dataclass(frozen=True)
class TaggedCalls(Form):
    """A call's name between markers, and each argument's name and value between others.

    Values of strings are written as they are, all others as JSON. `newlines` stand around values, and between arguments.
    """

    name_begin: str = ""
    name_end: str = ""  # "": the name ends at the first key, or at the call's end
    number_end: str = ""  # the call's number follows the name, up to this
    key: str = ""
    key_end: str = ""
    value: str = ""  # anything may stand between `key_end` and this
    value_end: str = ""
    newlines: bool = False
    end: str = ""  # of the tags within the call
    cdata: bool = False  # values may be XML's CDATA
    types: tuple[str, ...] = ()  # attributes that say of which type a value is; the first stands for strings

    def markers(self) -> tuple[str, ...]:
        return (*super().markers(), *filter(None, (self.key, self.key_end, self.value, self.value_end)))

    def _body(self, reader: Reader) -> Steps:
        yield from reader.expect(self.name_begin)
        end = self.end or self.call_end or self.closing
        if self.name_end:
            name, _ = yield from reader.until(self.name_end)
        else:
            name = yield from reader.match(NAME)
            yield from reader.space()
            follows = yield from self._next(reader, end)
            if not follows:
                raise NoCall
            reader.at -= len(follows)
        if not NAME.fullmatch(name):
            raise NoCall
        if self.number_end:
            yield from reader.until(self.number_end)
        reader.begin(name)
        reader.tell("{")
        schemas = tool_schemas.properties_of(reader.tools.get(name))
        is_first = True
        while True:
            yield from reader.space()
            found = yield from self._next(reader, end)
            if not found:
                raise NoCall
            if found != self.key:
                if found == self.call_end and not self.end:
                    reader.at -= len(found)
                break
            key, _ = yield from reader.until(self.key_end)
            attributes = ""
            if self.value:
                attributes, _ = yield from reader.until(self.value)
            reader.tell(("" if is_first else ", ") + orjson.dumps(key.strip()).decode() + ": ")
            is_first = False
            schema = schemas.get(key.strip())
            if self.types:
                schema = {"type": "string"} if self.types[0] in attributes else {"type": "object"}
            yield from self._value(reader, schema)
        reader.tell("}")
        reader.finish()

    def _next(self, reader: Reader, end: str) -> Generator[None, None, str]:
        """Skip and return the next key's beginning or the call's end; "" for anything else."""
        for marker in (self.key, end):
            if marker and (yield from reader.literal(marker)):
                return marker
        return ""

    def _value(self, reader: Reader, schema: Any) -> Steps:
        ends = ("\n" + self.value_end, self.value_end) if self.newlines else (self.value_end,)
        if self.newlines:
            yield from reader.literal("\n")
        if self.cdata and (yield from reader.literal("<![CDATA[")):
            ends = ("]]>" + self.value_end,)
        if tool_schemas.may_be_string(schema):
            if tool_schemas.may_be_null(schema):
                for null, end in product(tool_schemas.NULLS, ends):
                    if (yield from reader.literal(null + end)):
                        reader.tell("null")
                        return
            reader.tell('"')
            yield from reader.streamed(ends, lambda text: reader.tell(orjson.dumps(text).decode()[1:-1]))
            reader.tell('"')
            return
        parts: list[str] = []
        yield from reader.streamed(ends, parts.append)
        reader.tell(tool_schemas.json_or_text("".join(parts)))

    def _written(self, name: str, arguments: Any) -> str:
        line = "\n" if self.newlines else ""
        told = (
            f"{self.key}{key}{self.key_end}{self._type(isinstance(value, str))}{self.value}{line}"
            f"{value if isinstance(value, str) else spaced_json(value)}"
            f"{line}{self.value_end}{line}"
            for key, value in arguments.items()
        )
        number = f"1{self.number_end}" if self.number_end else ""
        return f"{line}{self.name_begin}{name}{self.name_end}{number}{line}{''.join(told)}{self.end}{line}"

    def _type(self, is_text: bool) -> str:
        return self.types[0 if is_text else 1] if self.types else ""

    def _tool(self, tool: Tool, rules: Rules) -> str:
        line, schemas = '"\\n"' if self.newlines else "[\\n]?", tool_schemas.parameters_of(tool)
        wrap = '"\\n"' if self.newlines else '""'
        number = f"[0-9]+ {quoted(self.number_end)}" if self.number_end else ""
        required = tool_schemas.required_of(schemas)
        parts = []
        for key, schema in tool_schemas.properties_of(schemas).items():
            begin, end = quoted(self.key + key + self.key_end), f"{wrap} {quoted(self.value_end)} [\\n]?"
            argument = f"{begin} ( {self._value_rules(schema, rules, wrap)} ) {end}"
            parts.append(argument if key in required else f"( {argument} )?")
        if tool_schemas.has_any_properties(tool_schemas.parameters_of(tool)):
            begin, end = (
                f"{quoted(self.key)} {ANY_KEY} {quoted(self.key_end)}",
                f"{wrap} {quoted(self.value_end)} [\\n]?",
            )
            ways = [(self.types[:1], rules.add("text", self._text_rule(rules)))]
            ways += [(self.types[1:], rules.schema(tool_schemas.ANY_VALUE))] if self.types else []
            parts.append(f"( {begin} ( {self._ways(ways, wrap)} ) {end} )*")
        return (
            f"[\\n]? {quoted(self.name_begin + tool['name'] + self.name_end)} {number} {line} {' '.join(parts)} "
            f"{quoted(self.end)} [\\n]?"
        )

    def _value_rules(self, schema: Any, rules: Rules, wrap: str) -> str:
        """Return the grammar of a value, from the end of its key on."""
        ways = []
        if tool_schemas.may_be_string(schema):
            values = [value for value in tool_schemas.values_of(schema) if isinstance(value, str) or not self.types]
            texts = " | ".join(quoted(tool_schemas.text_of(value)) for value in values)
            ways.append((self.types[:1], texts or rules.add("text", self._text_rule(rules))))
        if not ways or (self.types and not tool_schemas.is_string(schema)):
            ways.append((self.types[1:], rules.schema(schema)))
        return self._ways(ways, wrap)

    def _text_rule(self, rules: Rules) -> str:
        return any_text_until(rules, self.value_end, "\n" if self.newlines else "")

    def _ways(self, ways: Sequence[tuple[Sequence[str], str]], wrap: str) -> str:
        """Return the grammar of a value that is written in one of several ways: attributes, and what follows them."""
        return " | ".join(f"{self._between(types)} {wrap} ( {value} )" for types, value in ways)

    def _between(self, types: Sequence[str]) -> str:
        if self.types:
            return f"( {' | '.join(map(quoted, types))} ) {quoted(self.value)}"
        return f"[\\n]? {quoted(self.value)}" if self.value else '""'


def spaced_json(value: Any) -> str:
    """Return JSON with a space after commas and colons, as most templates write it."""
    return json.dumps(value, ensure_ascii=False)
