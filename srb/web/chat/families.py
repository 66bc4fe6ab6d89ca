"""The families of models: how each writes reasoning and tool calls. One entry a family, found by its template.

`signs` are texts that the templates of a family have; the first family of the table whose signs are all in a template is
its family. A template without tools gets Hermes' form, in which SRB then describes the tools.
"""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

from srb.extensions import FAMILIES as EXTENSIONS
from srb.extensions import broken, distinct, load, of_others
from srb.web.chat.call_forms import Form, JsonCalls, NamedCalls, TaggedCalls, spaced_json
from srb.web.chat.gemma_calls import GemmaCalls
from srb.web.chat.grammar import Rules, quoted
from srb.web.chat.messages import MESSAGE, Messages
from srb.web.chat.nested_tags import NestedTags
from srb.web.chat.python_calls import PythonCalls
from srb.web.chat.reader import Reader, Steps
from srb.web.chat.tool_schemas import Tool, parameters_of


def _read_call(reader: Reader, name: str) -> Steps:
    reader.begin(name)
    yield from reader.space()
    yield from reader.arguments()
    reader.finish()


# The form of gpt-oss' replies: messages with a channel each, and calls that are messages to a function.
HARMONY = Messages(
    heads=("<|start|>", "<|channel|>", "to=", "<|constrain|>"),
    starts=("<|start|>", "<|channel|>"),
    ends=("<|end|>", "<|return|>", "<|call|>"),
    thinking=re.compile(r"^(?:(?!<\|channel\|>).)*<\|channel\|>\s*analysis\b", re.DOTALL),
    calling=re.compile(r"to=functions\.([\w.:/-]+)"),
    read_call=_read_call,
)


@dataclass(frozen=True)
class HarmonyCalls(Form):
    """Messages to functions, whose text is JSON."""

    def markers(self) -> tuple[str, ...]:
        return (*HARMONY.markers, "<|constrain|>")

    @property
    def prefix(self) -> str:
        return quoted("<|channel|>commentary ")

    def triggers(self, tools: Sequence[Tool]) -> tuple[tuple[str, str | int], ...]:
        return (("word", "to=functions."),)

    def rules(self, tools: Sequence[Tool], rules: Rules, parallel: bool) -> str:
        calls = " | ".join(self._tool(tool, rules) for tool in tools)
        return f'"to=functions." ( {calls} )'

    def _tool(self, tool: Tool, rules: Rules) -> str:
        channel = '( "<|channel|>" ( "commentary" | "analysis" ) )? ( ( " "? "<|constrain|>" | " " ) "json" )?'
        return f"{quoted(tool['name'])} {channel} {quoted(MESSAGE)} {rules.schema(parameters_of(tool))}"

    def write(self, calls: Sequence[tuple[str, Any]]) -> str:
        told = (f"to=functions.{name} <|constrain|>json{MESSAGE}{spaced_json(given)}<|call|>" for name, given in calls)
        return "".join(f"<|channel|>commentary {call}" for call in told)


THINK, END_THINK = "<think>", "</think>"
BLANK = "[ \\n]{0,4}"  # GBNF of the space between reasoning and an answer


@dataclass(frozen=True)
class Family:
    """One family; `forms` are read in this order. A call that is forced has the first one, and a lazy grammar begins at
    the triggers of each.

    `reasoning` has the tags around it, `wrappers` the markers around content, which are no part of it. `before_answer` and
    `before_call` are GBNF of the text between reasoning and an answer or a call that a grammar holds for.
    """

    name: str
    signs: tuple[str, ...]
    forms: tuple[Form, ...]
    reasoning: tuple[str, str] = (THINK, END_THINK)
    wrappers: tuple[str, ...] = ()
    messages: Messages | None = None  # the form of replies that are several messages
    content_begin: str = ""  # before content, where a reply is continued
    before_answer: str = BLANK
    before_call: str = BLANK
    hides_tags: bool = False  # templates put the tags of reasoning together from parts
    prompt_end: str = ""  # ends the template's prompt, but is left to the model, since calls are found by it

    @property
    def markers(self) -> tuple[str, ...]:
        """All markers; a model may have control tokens for them, whose text a reply then keeps."""
        of_forms = [marker for form in self.forms for marker in form.markers()]
        return tuple(dict.fromkeys((*of_forms, *self.reasoning, *self.wrappers)))

    def begins_thinking(self, prompt: str) -> bool:
        """Whether a reply to a prompt begins inside reasoning."""
        return prompt.rstrip().endswith(self.reasoning[0].rstrip())

    def has_thought(self, prompt: str) -> bool:
        """Whether a prompt ends with reasoning that is over, so that a reply has none."""
        return prompt.rstrip().endswith(self.reasoning[1].rstrip())

    def can_think(self, source: str) -> bool:
        """Whether a template of the family has reasoning."""
        return self.hides_tags or any(tag.strip() in source for tag in self.reasoning)

    def without_open_thinking(self, prompt: str) -> str:
        """Return a prompt without the tag that begins reasoning, with which some templates end."""
        return prompt.rstrip().removesuffix(self.reasoning[0].rstrip()) if self.begins_thinking(prompt) else prompt

    def either(self, tools: Sequence[Tool], parallel: bool, answer: Mapping[str, Any], awaited: bool) -> "CallGrammar":
        """Return the grammar of calls of these tools, or else of an answer that follows a schema.

        It begins at the reply's beginning, or where it is awaited after reasoning, or after a header.
        """
        rules, form = Rules(), self.forms[0]
        calls = f"{form.prefix} ( {form.rules_beside_json(tools, rules, parallel)} )"
        text = rules.schema(answer)
        if awaited:
            calls, text = f"( {self.before_call} ) {calls}", f"( {self.before_answer} ) {text}"
        return CallGrammar(rules.text(f"{calls} | {text}"), rules.schemas, ())

    def grammar(self, tools: Sequence[Tool], parallel: bool, lazy: bool) -> "CallGrammar":
        """Return the grammar of calls of these tools: `lazy` ones begin at a trigger, others at the reply's beginning."""
        rules, form = Rules(), self.forms[0]
        section = form.rules(tools, rules, parallel)
        if not lazy:
            return CallGrammar(rules.text(form.prefix + " " + section if form.prefix else section), rules.schemas, ())
        triggers = form.triggers(tools)
        for other in self.forms[1:]:
            named = [tool for tool in tools if other.takes_name(tool["name"])]
            further = other.further_triggers(named)
            if named and not set(further) & set(triggers):
                section += " | " + other.rules(named, rules, parallel)
                triggers += further
        return CallGrammar(rules.text(section), rules.schemas, triggers)


@dataclass(frozen=True)
class CallGrammar:
    """A grammar of tool calls; SamplingParams has the same three."""

    text: str
    schemas: tuple[str, ...]
    triggers: tuple[tuple[str, str | int], ...]


_KINDS: Mapping[str, type[Form]] = {
    "gemma": GemmaCalls, "harmony": HarmonyCalls, "json": JsonCalls, "named": NamedCalls, "nested": NestedTags,
    "python": PythonCalls, "tagged": TaggedCalls,
}  # fmt: skip
_MESSAGES = {"harmony": HARMONY}


def _fields(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a form or a family, as families.toml has them, without its kind and what is named."""
    named = ("kind", "forms", "messages")
    return {key: tuple(value) if isinstance(value, list) else value for key, value in row.items() if key not in named}


_TABLE = tomllib.loads(Path(__file__).with_name("families.toml").read_text("utf-8"))
_FORMS = {name: _KINDS[row["kind"]](**_fields(row)) for name, row in _TABLE["forms"].items()}
_BY_NAME = {
    row["name"]: Family(
        forms=tuple(_FORMS[name] for name in row["forms"]), messages=_MESSAGES.get(row.get("messages")), **_fields(row)
    )
    for row in _TABLE["family"]
}
HERMES, LLAMA_3 = _BY_NAME.pop("hermes"), _BY_NAME.pop("llama-3")  # without signs
FAMILIES = tuple(_BY_NAME.values())
PLAIN = Family("plain", (), ())  # without reasoning and calls: all text is content


@cache
def families() -> tuple[Family, ...]:
    """Return all families in the order in which a template is searched for their signs: first those of other packages.

    Raise ConfigError for one that is broken.
    """
    return (*(_of_another(point) for point in distinct(of_others(EXTENSIONS))), *FAMILIES)


def _of_another(point: EntryPoint) -> Family:
    """Return the family of another package; raise ConfigError for one that could not be used, or would hide one of SRB's."""
    family = load(point, Family)
    if family.name != point.name:
        raise broken(point, f"has another name in its package: {family.name!r}")
    if family.name in {own.name for own in (*FAMILIES, HERMES, LLAMA_3, PLAIN)}:
        raise broken(point, "has the name of a family of SRB's own")
    if not family.signs or not all(isinstance(sign, str) and sign for sign in family.signs):
        raise broken(point, "should have signs: texts that only the templates of its models have")
    if not family.forms or not all(isinstance(form, Form) for form in family.forms):
        raise broken(point, "should have forms, in which its models write calls")
    for own in FAMILIES:
        if all(any(sign in text for text in own.signs) for sign in family.signs):
            raise broken(point, f"has signs that the templates of the family {own.name!r} have too")
    return family


def family_of(source: str, knows_tools: bool) -> Family:
    """Return the family of a template's text."""
    for family in families():
        if all(sign in source for sign in family.signs):
            return family
    if knows_tools and "<tool_call>" not in source and '"parameters"' in source:
        return LLAMA_3
    return HERMES
