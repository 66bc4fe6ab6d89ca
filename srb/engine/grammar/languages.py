"""The languages in which requests write grammars: GBNF, regular expressions, and llguidance's Lark."""

import json
import re
from graphlib import CycleError, TopologicalSorter

from llguidance import LLMatcher

from srb.engine.grammar.limits import LIMITS, MAX_IN_LARK, MAX_SYMBOLS
from srb.engine.grammar.schemas import checked_regex, prepared
from srb.errors import bad_field

_RULE = re.compile(r"^[ \t]*[?!]?([A-Za-z_][\w-]*)(?:\.-?\d+)?(?:\[[^]\n]*\])?[ \t]*:(?!:)", re.MULTILINE)
# Comments and texts, in which nothing has a meaning of its own, and what has one.
_PARTS = re.compile(
    r"""(?P<skip>\#[^\n]*|//[^\n]*|"(?:\\.|[^"\\\n])*"|/(?:\\.|[^/\\\n])+/)|(?P<command>%\w+)|[\w<>@-]+""", re.DOTALL
)
_REPEATED = re.compile(r"[\w)\]\"/>]\s*(?:[*+~]|\{\s*[\d,])")
_OWN = ("import", "ignore", "declare", "json")


def rule_of(grammar: str, field: str) -> str:
    """Return a regular expression between slashes, or a grammar in Lark, as a rule of another grammar; "" for GBNF.

    Raise InvalidRequest, which names `field`.
    """
    if is_lark(grammar):
        return checked_lark(grammar, field)
    return checked_regex(grammar, field) if grammar.startswith("/") else ""


def is_lark(grammar: str) -> bool:
    """Whether a grammar is written in Lark: it has rules, and none of GBNF's, as vLLM tells them apart."""
    return "::=" not in _PARTS.sub("", grammar) and _RULE.search(grammar) is not None


def checked_lark(grammar: str, field: str) -> str:
    """Return a grammar in Lark as a rule of another has it. Raise InvalidRequest, which names `field`."""
    count = sum(1 for part in _PARTS.finditer(grammar) if not part[0].startswith(("#", "//")))
    if count > MAX_SYMBOLS:
        raise bad_field(field, f"has {count} names and texts; at most {MAX_SYMBOLS} are taken")
    made: list[str] = []
    plain: list[str] = []  # the same without comments, and with "" for each text, expression and schema
    at = num_schemas = 0
    for part in _PARTS.finditer(grammar):
        if part.start() < at or not (part["skip"] or part["command"]):
            continue
        between, written, bare, at = grammar[at : part.start()], part[0], part[0], part.end()
        if part["skip"]:
            bare = "" if written.startswith(("#", "//")) else '""'
        elif part["command"][1:] not in _OWN:
            raise bad_field(field, f"has {part['command']}, which is not taken within a request's grammar")
        elif part["command"] == "%json":
            begin = at + len(grammar[at:]) - len(grammar[at:].lstrip())
            try:
                _, at = json.JSONDecoder().raw_decode(grammar, begin)
            except (ValueError, RecursionError):
                raise bad_field(field, "has a %json without a JSON schema") from None
            num_schemas += 1
            if num_schemas > MAX_IN_LARK:
                raise bad_field(field, f"has more than {MAX_IN_LARK} schemas")
            written, bare = f"%json {prepared(grammar[begin:at], f'{field}.%json').text}", '""'
        made += between, written
        plain += between, bare
    _bound_rules("".join([*plain, grammar[at:]]), field)
    lark = "".join([*made, grammar[at:]])
    if problem := LLMatcher.validate_grammar(LLMatcher.grammar_from_lark(lark), limits=LIMITS):
        raise bad_field(field, f"is no grammar: {_line(problem)}")
    return f"%lark {{\n{lark}\n}}"


def _bound_rules(plain: str, field: str) -> None:
    """Raise InvalidRequest where the texts of a rule have no end: it is repeated, or refers to itself.

    llguidance looks at its limits between two signs, and the work of one sign of such rules grows with the text before it: a
    grammar of 300 alternatives took 8 s after 300 signs. GBNF has no such rules left when it comes to llguidance, and a
    terminal (in capitals) is one regular expression.
    """
    heads = list(_RULE.finditer(plain))
    uses: dict[str, set[str]] = {}
    for head, following in zip(heads, [*heads[1:], None], strict=True):
        body = plain[head.end() : following.start() if following else len(plain)]
        if head[1].isupper():
            continue
        if found := _REPEATED.search(body):
            what = f"rule {head[1]} repeats a part ({found[0][-1]})"
            raise bad_field(field, f"is Lark whose {what}: only terminals (in capitals) may; GBNF takes all")
        uses.setdefault(head[1], set()).update(re.findall(r"[A-Za-z_][\w-]*", body))
    try:
        tuple(TopologicalSorter(uses).static_order())
    except CycleError as error:
        raise bad_field(field, f"is Lark whose rule {error.args[1][0]} refers to itself; GBNF may do that") from None


def _line(problem: str) -> str:
    return "".join(filter(str.isprintable, problem.partition("\n")[0]))[:300]
