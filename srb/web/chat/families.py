"""The families of models: how each writes reasoning and tool calls. One entry a family, found by its template.

`signs` are texts that the templates of a family have; the first family of the table whose signs are all in a template is
its family. A template without tools gets Hermes' form, in which SRB then describes the tools.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import EntryPoint
from typing import Any

from srb.extensions import FAMILIES as EXTENSIONS
from srb.extensions import broken, distinct, load, of_others
from srb.web.chat.call_forms import Form, JsonCalls, NamedCalls, TaggedCalls
from srb.web.chat.gemma_calls import GemmaCalls
from srb.web.chat.grammar import Rules
from srb.web.chat.harmony import HARMONY, HarmonyCalls
from srb.web.chat.messages import Messages
from srb.web.chat.nested_tags import NestedTags
from srb.web.chat.python_calls import PythonCalls
from srb.web.chat.tool_schemas import Tool

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

    def either(self, tools: Sequence[Tool], parallel: bool, answer: Mapping[str, Any], awaited: bool) -> CallGrammar:
        """Return the grammar of calls of these tools, or else of an answer that follows a schema.

        It begins at the reply's beginning, or where it is awaited after reasoning, or after a header.
        """
        rules, form = Rules(), self.forms[0]
        calls = f"{form.prefix} ( {form.rules_beside_json(tools, rules, parallel)} )"
        text = rules.schema(answer)
        if awaited:
            calls, text = f"( {self.before_call} ) {calls}", f"( {self.before_answer} ) {text}"
        return CallGrammar(rules.text(f"{calls} | {text}"), rules.schemas, ())

    def grammar(self, tools: Sequence[Tool], parallel: bool, lazy: bool) -> CallGrammar:
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


_TOOL_CALL = ("<tool_call>", "</tool_call>")
_LLAMA = JsonCalls(arguments="parameters", at_start=True, typed=True)
_PYTHON_TAG = JsonCalls(call="<|python_tag|>", arguments="parameters", typed=True)
_HERMES = JsonCalls(call=_TOOL_CALL[0], call_end=_TOOL_CALL[1], newlines=True)
_QWEN_CODER = TaggedCalls(
    *_TOOL_CALL, name_begin="<function=", name_end=">", key="<parameter=", key_end=">", value_end="</parameter>",
    end="</function>", newlines=True, apart=True,
)  # fmt: skip
_GLM = TaggedCalls(
    call=_TOOL_CALL[0], call_end=_TOOL_CALL[1], key="<arg_key>", key_end="</arg_key>", value="<arg_value>",
    value_end="</arg_value>",
)  # fmt: skip
_DEEPSEEK = ("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>")
_SEPARATOR = "<｜tool▁sep｜>"
_DEEPSEEK_R1 = NamedCalls(*_DEEPSEEK, before_name=f"function{_SEPARATOR}", name_end="\n```json\n", fence="```")
_DEEPSEEK_V3 = NamedCalls(*_DEEPSEEK, name_end=_SEPARATOR)


def _list_of_calls(opening: str, closing: str = "", **options: str | bool) -> JsonCalls:
    return JsonCalls(opening=opening, closing=closing, is_list=True, **options)  # type: ignore[arg-type]


_LFM2_CALLS = ("<|tool_call_start|>", "<|tool_call_end|>")
_LFM2 = (PythonCalls(*_LFM2_CALLS), _list_of_calls(*_LFM2_CALLS), _HERMES)
_PYTHON = ("<|python_start|>", "<|python_end|>")
_LLAMA_4 = (
    _LLAMA, PythonCalls(at_start=True), _PYTHON_TAG, PythonCalls(*_PYTHON),
    JsonCalls(call=_PYTHON[0], call_end=_PYTHON[1], arguments="parameters", typed=True),
)  # fmt: skip
_NINE = "[A-Za-z0-9]{9}"  # the only ids that Mistral's templates take
_MISTRAL = NamedCalls(call="[TOOL_CALLS]", name_end="[ARGS]", id_mark="[CALL_ID]", ids=_NINE)
_NEMO = _list_of_calls("[TOOL_CALLS]", ids=_NINE)
_IS_STRING = (' string="true"', ' string="false"')
_TYPES = tuple(f' type="{name}"' for name in ("string", "number", "boolean", "object", "array", "null"))
_HY = ":opensource"
_MARK = "]<]minimax[>["


def _invoked(prefix: str, section: str, types: tuple[str, ...] = ()) -> TaggedCalls:
    """Return the form <invoke name="f"><parameter name="k">v</parameter></invoke>, with a prefix in each tag."""
    return TaggedCalls(
        f"<{prefix}{section}>", f"</{prefix}{section}>", name_begin=f'<{prefix}invoke name="', name_end='">',
        key=f'<{prefix}parameter name="', key_end='"', value=">", value_end=f"</{prefix}parameter>",
        end=f"</{prefix}invoke>", types=types,
    )  # fmt: skip


HERMES = Family("hermes", (), (_HERMES, _PYTHON_TAG, _LLAMA))
LLAMA_3 = Family("llama-3", (), (_LLAMA, _PYTHON_TAG, _HERMES))
PLAIN = Family("plain", (), ())  # without reasoning and calls: all text is content

FAMILIES = (
    Family(
        "gpt-oss", ("<|channel|>", "<|message|>", "<|start|>"), (HarmonyCalls(),),
        ("<|channel|>analysis<|message|>", "<|end|>"), messages=HARMONY, content_begin="<|channel|>final<|message|>",
        before_answer='"<|start|>assistant"? "<|channel|>final" ( " "? "<|constrain|>" [A-Za-z]{1,8} )? "<|message|>"',
        before_call='"<|start|>assistant"?', hides_tags=True,
    ),
    Family(
        "gemma-4", ("<|tool_call>call:",), (GemmaCalls(call="<|tool_call>", call_end="<tool_call|>"),),
        ("<|channel>thought\n", "<channel|>"),
    ),
    Family(
        "kimi-k2", ("<|tool_calls_section_begin|>", "<|tool_call_argument_begin|>"),
        (NamedCalls("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>", "<|tool_call_begin|>",
                    "<|tool_call_end|>", name_end="<|tool_call_argument_begin|>", names_are_ids=True),),
    ),
    Family(
        "kimi-k3", ("<|open|>", "<|close|>", "<|sep|>"),
        (TaggedCalls(
            "<|open|>tools<|sep|>", "<|close|>tools<|sep|>", name_begin='<|open|>call tool="', name_end='" index="',
            number_end='"<|sep|>', key='<|open|>argument key="', key_end='"', value="<|sep|>",
            value_end="<|close|>argument<|sep|>", end="<|close|>call<|sep|>", types=_TYPES,
        ),),
        ("<|open|>think<|sep|>", "<|close|>think<|sep|>"),
        ("<|open|>response<|sep|>", "<|close|>response<|sep|>", "<|close|>message<|sep|>"),
        before_answer='"<|open|>response<|sep|>"', hides_tags=True,
        before_call='( "<|open|>response<|sep|>" "<|close|>response<|sep|>" )?',
    ),
    Family(
        "hunyuan-3", ("<tool_sep{}>", "<arg_key{}>"),
        (TaggedCalls(
            f"<tool_calls{_HY}>", f"</tool_calls{_HY}>", f"<tool_call{_HY}>", f"</tool_call{_HY}>",
            name_end=f"<tool_sep{_HY}>", key=f"<arg_key{_HY}>", key_end=f"</arg_key{_HY}>",
            value=f"<arg_value{_HY}>", value_end=f"</arg_value{_HY}>",
        ),),
        (f"<think{_HY}>", f"</think{_HY}>"), hides_tags=True,
        wrappers=tuple(f"<｜reasoning_mode{_HY}｜>reasoning_effort:{word}" for word in ("low", "high", "no_think")),
    ),
    Family(
        "minimax-m3", (_MARK, "<invoke name="),
        (NestedTags(f"{_MARK}<tool_call>", f"{_MARK}</tool_call>", mark=_MARK),), ("<mm:think>", "</mm:think>"),
        wrappers=("</mm:think>",),  # a reply without thoughts may begin with it
    ),
    Family("deepseek-v4", ("DSML", "tool_calls>"), (_invoked("｜DSML｜", "tool_calls", types=_IS_STRING),)),
    Family("deepseek-v3.2", ("DSML", "function_calls"), (_invoked("｜DSML｜", "function_calls", types=_IS_STRING),)),
    Family("deepseek-r1", (_DEEPSEEK[0], "```json"), (_DEEPSEEK_R1, _DEEPSEEK_V3)),
    Family("deepseek-v3.1", (_DEEPSEEK[0],), (_DEEPSEEK_V3, _DEEPSEEK_R1)),
    Family(
        "minimax-m2", ("<minimax:tool_call>",),
        (replace(_invoked("", ""), opening="<minimax:tool_call>", closing="</minimax:tool_call>"),),
    ),
    Family(
        "seed-oss", ("<seed:tool_call>", "<function="),
        (replace(_QWEN_CODER, opening="<seed:tool_call>", closing="</seed:tool_call>", newlines=False),),
        ("<seed:think>", "</seed:think>"),
    ),
    Family("qwen3-coder", ("<tool_call>", "<function=", "<parameter="), (_QWEN_CODER, _HERMES)),
    Family("glm-4", ("<tool_call>", "<arg_key>"), (_GLM,)),
    Family(
        "mistral", ("[TOOL_CALLS]", "[ARGS]"),
        (_MISTRAL, _NEMO),
        ("[THINK]", "[/THINK]"),
    ),
    Family(
        "mistral-nemo", ("[TOOL_CALLS]",),
        (_NEMO, _MISTRAL),
        ("[THINK]", "[/THINK]"),
    ),
    Family(
        "command-r", ("<|START_ACTION|>",),
        (_list_of_calls("<|START_ACTION|>", "<|END_ACTION|>", name="tool_name", arguments="parameters",
                        number="tool_call_id"),),
        ("<|START_THINKING|>", "<|END_THINKING|>"),
        ("<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>", "<|END_TEXT|>"),
        before_answer=f'{BLANK} ( "<|START_RESPONSE|>" | "<|START_TEXT|>" )?',
    ),
    Family(
        "command-r-plus", ("Action:", "```json", "tool_name"),
        (_list_of_calls("Action:\n```json\n", "```", name="tool_name", arguments="parameters"),
         _list_of_calls("Action: ```json\n", "```", name="tool_name", arguments="parameters")),
    ),
    Family(
        "granite-3", ("<|tool_call|>", "<|start_of_role|>"),
        (_list_of_calls("<|tool_call|>"), _list_of_calls(_TOOL_CALL[0])),  # 3.1 to 3.3 write both
        wrappers=("<response>", "</response>", _TOOL_CALL[1]), before_answer=f'{BLANK} "<response>"?',
    ),
    Family("phi-4", ("<|tool_call|>",), (_list_of_calls("<|tool_call|>", "<|/tool_call|>"),)),
    Family("nemotron-v2", ("<TOOLCALL>",), (_list_of_calls("<TOOLCALL>", "</TOOLCALL>"),)),
    Family(
        "apertus", ("<|tools_prefix|>",), (_list_of_calls("<|tools_prefix|>", "<|tools_suffix|>", keyed=True),),
        ("<|inner_prefix|>", "<|inner_suffix|>"),
    ),
    Family(
        "apriel", ("[BEGIN FINAL RESPONSE]",), (_list_of_calls("<tool_calls>", "</tool_calls>"),),
        ("Here are my reasoning steps:\n", "[BEGIN FINAL RESPONSE]"),
    ),
    Family(
        "minimax-m1", ("<tool_calls>", "<beginning_of_sentence>"),
        (JsonCalls("<tool_calls>", "</tool_calls>", newlines=True),),
    ),
    Family("lfm2", ("List of tools: ",), _LFM2),
    Family(
        "functionary-3.1", ("<function=", "</function>", "<|python_tag|>"),
        (NamedCalls(call="<function=", name_end=">", call_end="</function>"), _PYTHON_TAG),
    ),
    Family(
        "minicpm-5", ('<function name="', '<param name="'),
        (TaggedCalls(call='<function name="', name_end='">', key='<param name="', key_end='">',
                     value_end="</param>", call_end="</function>", cdata=True),),
    ),
    Family(
        "solar", ("<|tool_call:begin|>", "<|tool_call:args|>"),
        (NamedCalls("<|tool_calls|>", "<|calls|>", "<|tool_call:begin|>", "<|tool_call:end|>",
                    id_first="<|tool_call:name|>", name_end="<|tool_call:args|>"),),
        ("<|think|>", "<|end|>"), ("<|begin|>assistant", "<|content|>"),
        before_answer='"<|begin|>assistant"? "<|content|>"?', before_call='"<|begin|>assistant"?',
    ),
    Family(
        "functionary-3.2", (">>>all", "recipient"), (NamedCalls(call=">>>", name_end="\n", is_common=True),),
        wrappers=(">>>all\n",), content_begin=">>>all\n", before_answer='">>>all\n"', prompt_end=">>>",
    ),
    Family("gigachat-3.1", ("<|function_call|>", "<|role_sep|>"), (JsonCalls(call="<|function_call|>"),)),
    Family(
        "gigachat-3", ("function call", "<|role_sep|>"),
        (JsonCalls(call="<|message_sep|>\n\nfunction call<|role_sep|>\n"),), wrappers=("<|message_sep|>",),
    ),
    Family("llama-4", ("<|header_start|>",), _LLAMA_4),
)  # fmt: skip


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
    if knows_tools and _TOOL_CALL[0] not in source and '"parameters"' in source:
        return LLAMA_3
    return HERMES
