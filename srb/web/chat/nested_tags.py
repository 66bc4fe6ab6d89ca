"""MiniMax M3's calls, whose arguments are tags within tags."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from srb.web.chat import tool_schemas as schemas
from srb.web.chat.call_forms import NAME, Form, spaced_json
from srb.web.chat.grammar import Rules, any_text_until, quoted
from srb.web.chat.reader import MAX_NESTING, NoCall, Reader, Steps
from srb.web.chat.tool_schemas import Tool


@dataclass
class _Element:
    """A tag that is open: its text so far and the elements in it, each a pair of name and JSON text."""

    name: str
    schema: Any
    text: list[str] = field(default_factory=list)
    inner: list[tuple[str, str]] = field(default_factory=list)


@dataclass(frozen=True)
class NestedTags(Form):
    """A call's arguments as tags: objects have a tag for each key, lists one `item` for each value.

    `mark` stands before each tag.
    """

    mark: str = ""

    def markers(self) -> tuple[str, ...]:
        return (*super().markers(), self.mark)

    def _body(self, reader: Reader) -> Steps:
        yield from reader.expect(f'{self.mark}<invoke name="')
        name, _ = yield from reader.until('">')
        if not NAME.fullmatch(name):
            raise NoCall
        reader.begin(name)
        open_ones = [_Element("invoke", reader.tools.get(name) or {"type": "object"})]
        while True:
            top = open_ones[-1]
            yield from reader.streamed((f"{self.mark}<",), top.text.append)
            tag, _ = yield from reader.until(">")
            if not tag.startswith("/"):
                if len(open_ones) > MAX_NESTING:
                    raise NoCall
                open_ones.append(_Element(tag, _schema_within(top.schema, tag)))
                continue
            if tag[1:] != top.name:
                raise NoCall
            open_ones.pop()
            if not open_ones:
                break
            open_ones[-1].inner.append((top.name, _json_of(top)))
        reader.tell(_object_of(top))
        reader.finish()

    def _written(self, name: str, arguments: Any) -> str:
        return f'\n{self.mark}<invoke name="{name}">{self._tags(arguments)}{self.mark}</invoke>\n'

    def _tags(self, value: Any) -> str:
        if isinstance(value, dict | list):
            pairs = value.items() if isinstance(value, dict) else (("item", each) for each in value)
            return "".join(f"{self.mark}<{key}>{self._tags(each)}{self.mark}</{key}>" for key, each in pairs)
        return value if isinstance(value, str) else spaced_json(value)

    def _tool(self, tool: Tool, rules: Rules) -> str:
        mark = quoted(self.mark)
        text = any_text_until(rules, self.mark)
        rules.set("tag-name", "[A-Za-z_] [A-Za-z0-9_.-]*")
        rules.set("tagged", f'{mark} "<" tag-name ">" ( {text} | tagged+ ) {mark} "</" tag-name ">"')
        given = self._inner_rules(schemas.parameters_of(tool), rules, {}, 0)
        begin, end = quoted(f'{self.mark}<invoke name="{tool["name"]}">'), quoted(f"{self.mark}</invoke>")
        return f"[\\n]? {begin} {given} {end} [\\n]?"

    def _inner_rules(self, schema: Any, rules: Rules, known: dict[str, str], depth: int) -> str:
        """Return the expression of an object's tags; `known` are the rules of schemas by their text."""
        if schemas.has_any_properties(schema):
            return "tagged*"
        required, parts = schemas.required_of(schema), []
        for key, inner in schemas.properties_of(schema).items():
            one = self._within(key, self._value_rules(inner, rules, known, depth + 1))
            parts.append(one if key in required else f"( {one} )?")
        return " ".join(parts) or '""'

    def _within(self, key: str, value: str) -> str:
        return f"{quoted(f'{self.mark}<{key}>')} {value} {quoted(f'{self.mark}</{key}>')}"

    def _value_rules(self, schema: Any, rules: Rules, known: dict[str, str], depth: int) -> str:
        """Return the name of a value's rule; a schema that refers to itself has a rule that does so."""
        free = f"( {any_text_until(rules, self.mark)} | tagged+ )"
        if not isinstance(schema, Mapping) or depth > MAX_NESTING // 2:
            return free
        text = schemas.own_text(schema)
        if text in known:
            return known[text]
        name = known[text] = rules.reserve("tags-value")
        ways = [way for each in schemas.variants_of(schema) for way in self._ways(each, rules, known, depth)]
        rules.set(name, " | ".join(dict.fromkeys(ways)) or free)
        return name

    def _ways(self, schema: Mapping[str, Any], rules: Rules, known: dict[str, str], depth: int) -> list[str]:
        """Return the expressions of the values of a schema without branches, one for each type."""
        if values := schemas.values_of(schema):
            return [quoted(schemas.text_of(value)) for value in values]
        ways = []
        for kind in schemas.kinds_of(schema):
            if kind == "string":
                ways.append(any_text_until(rules, self.mark))
            elif kind == "object":
                ways.append(self._inner_rules({**schema, "type": "object"}, rules, known, depth))
            elif kind == "array":
                item = self._value_rules(schemas.items_of(schema), rules, known, depth + 1)
                ways.append(f"( {self._within('item', item)} )*")
            elif kind in ("integer", "number", "boolean", "null"):
                ways.append(rules.schema({**schema, "type": kind}))
        return ways or [any_text_until(rules, self.mark), "tagged+"]


def _schema_within(schema: Any, key: str) -> Any:
    """Return the schema of a key's value, or of a list's items."""
    if key == "item" and schemas.type_of(schema) == "array":
        return schemas.items_of(schema)
    return schemas.properties_of(schema).get(key)


def _json_of(element: _Element) -> str:
    """Return an element's value as JSON."""
    kind = schemas.type_of(element.schema)
    if not element.inner:
        text = "".join(element.text)
        if schemas.may_be_string(element.schema):
            if text in schemas.NULLS and schemas.may_be_null(element.schema):
                return "null"
            return orjson.dumps(text).decode()
        if not text.strip() and kind in ("object", "array"):
            return "{}" if kind == "object" else "[]"
        return schemas.json_or_text(text)
    is_list = kind == "array" or (kind != "object" and {name for name, _ in element.inner} == {"item"})
    return f"[{', '.join(text for _, text in element.inner)}]" if is_list else _object_of(element)


def _object_of(element: _Element) -> str:
    return "{" + ", ".join(f"{orjson.dumps(name).decode()}: {text}" for name, text in element.inner) + "}"
