"""The shape of a chat's replies: the grammar of their calls, the limits of their reasoning, and where a grammar begins."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from srb.errors import bad_field
from srb.web.bodies.directions import last_paragraph
from srb.web.bodies.fields import short_json
from srb.web.chat.families import Family
from srb.web.chat.history import content_text, joined
from srb.web.chat.template import ChatPrompt, ChatTemplate
from srb.wire.commands import BranchSpec, Generate, Place


@dataclass(frozen=True)
class ReplyShape:
    """The parameters that shape the branches of a chat: of `calls` and of `thoughts`, as SamplingParams has them.

    `tags` are those of reasoning. A grammar that is not lazy waits for the answer: after `awaited_tags`, () for none, it
    begins with `awaited`. With `answer`, a schema, the grammar of `calls` is that of an answer as well.
    """

    family: Family
    stops: tuple[str, ...]
    tags: tuple[str, ...]
    awaited_tags: tuple[str, ...] = ()
    awaited: tuple[tuple[str, str | int], ...] = ()
    calls: Mapping[str, Any] = field(default_factory=dict)
    thoughts: Mapping[str, Any] = field(default_factory=dict)
    answer: str = ""

    @classmethod
    def of(
        cls,
        template: ChatTemplate,
        prompt: ChatPrompt,
        calls: Mapping[str, Any],
        thoughts: Mapping[str, Any],
        may_think: bool,
        answer: str = "",
    ) -> "ReplyShape":
        """Return the shape of the replies to a prompt; a reply `may_think` as far as request and settings say."""
        family = template.family
        opening, closing = family.reasoning
        tags = ("" if prompt.thinking else opening, closing)
        thinks = _may_begin_with_thoughts(template, prompt, may_think)
        must_call = bool(calls) and not calls["grammar_triggers"]
        before = "" if answer else family.before_call if must_call else family.before_answer
        is_awaited = waits_for_answer(template, prompt, may_think)
        awaited: tuple[tuple[str, str | int], ...] = (("answer", before),) if is_awaited else ()
        return cls(family, template.stops, tags, tags if thinks else (), awaited, calls, thoughts, answer)

    def command(self, command: Generate) -> Generate:
        """Return a command whose branches end at the template's stop strings, and have this shape."""
        preserved = (*self.family.reasoning, *self.family.wrappers)
        if self.calls or self.family.messages is not None:
            preserved = self.family.markers
        base = self._branch(command.base) if command.base is not None else None
        branches = tuple(map(self._branch, command.branches))
        return replace(command, branches=branches, base=base, preserved_tokens=preserved)

    def _branch(self, branch: BranchSpec) -> BranchSpec:
        """Return a branch in this shape; one with a grammar of its own keeps it, if calls are not forced."""
        is_forced = bool(self.calls) and not self.calls["grammar_triggers"]
        if self.answer:
            is_forced = not branch.sampling.grammar and branch.sampling.json_schema == self.answer
        is_whole = is_forced or bool(branch.sampling.grammar or branch.sampling.json_schema)
        given = {**self.thoughts, **(self.calls if is_forced or not is_whole else {})}
        if is_whole:
            given |= {"grammar_triggers": self.awaited, "reasoning_tags": self.awaited_tags}
        elif given:
            given["reasoning_tags"] = self.tags
        sampling = replace(branch.sampling, **given) if given else branch.sampling
        return replace(branch, stop=(*branch.stop, *self.stops), hidden_stops=self.stops, sampling=sampling)


def _may_begin_with_thoughts(template: ChatTemplate, prompt: ChatPrompt, may_think: bool) -> bool:
    is_over = prompt.has_begun or template.family.has_thought(prompt.text) or not template.can_think
    return prompt.thinking or (not is_over and may_think)


def waits_for_answer(template: ChatTemplate, prompt: ChatPrompt, may_think: bool) -> bool:
    """Whether a reply to a prompt may begin with reasoning or a header, after which a grammar begins."""
    has_header = template.family.messages is not None and not prompt.has_begun
    return has_header or _may_begin_with_thoughts(template, prompt, may_think)


def calls_of(
    family: Family,
    tools: Sequence[Mapping[str, Any]],
    choice: str,
    parallel: bool | None,
    answer: Mapping[str, Any] | None = None,
    awaited: bool = False,
) -> dict[str, Any]:
    """Return the parameters of the calls of these tools; `choice` is auto, required, or `=name` of a tool.

    With `parallel` None, a required call of the only tool is a single one. With `answer`, a schema, a reply is a call or
    follows the schema; `awaited` says whether something may precede it.
    Raise InvalidRequest for a tool whose name has no place in the family's calls.
    """
    for place, tool in enumerate(tools):
        name = tool["function"]["name"]
        if not family.forms[0].takes_name(name):
            raise bad_field(
                "tools", f"tool {place}: calls of this model ({family.name}) have no place for the name "
                f"{short_json(name)}; letters, digits and _ . : / - are taken",
            )  # fmt: skip
    called = choice.removeprefix("=") if choice.startswith("=") else None
    functions = [tool["function"] for tool in tools if called in (None, tool["function"]["name"])]
    is_forced = choice != "auto"
    if parallel is None:
        parallel = not (is_forced and len(functions) == 1)
    if answer is not None and not is_forced:
        grammar = family.either(functions, parallel, answer, awaited)
    else:
        grammar = family.grammar(functions, parallel and called is None, not is_forced)
    return {
        "grammar": grammar.text,
        "json_schema": "",
        "grammar_schemas": grammar.schemas,
        "grammar_triggers": grammar.triggers,
    }


Message = dict[str, Any]
# Around a direction. Small models heed it so: of 8 branches of Qwen2.5 Coder 0.5B 5.8 really differ, with the direction
# alone 4.4. Words about the text, as "in the next sentence", do no more, and half of the texts speak of sentences then.
SAID = "Begin with this: {}. Show who is there, what they do and what they say."


def with_direction(messages: Sequence[Message], direction: str, continues: bool) -> list[Message]:
    """Return a conversation whose reply follows a direction; with `continues` its last message is the reply's beginning.

    A reply that has paragraphs is divided: the user's turn with the direction stands before the last of them, or behind all
    of them where the last one is complete: a reply that has said all that it was asked for ends there.
    """
    direction = SAID.format(direction)
    if not continues:
        return _told(messages, direction)
    *before, last = messages
    text = "" if last.get("reasoning_content") else content_text(last.get("content"), "\n\n")
    asked = {"role": "user", "content": direction}
    if text.strip() and text.endswith("\n"):
        return [*messages, asked, {"role": last["role"], "content": ""}]
    at = last_paragraph(text)
    if not text[:at].strip():
        return [*_told(before, direction), last]
    return [*before, {**last, "content": text[:at]}, asked, {**last, "content": text[at:]}]


def _told(messages: Sequence[Message], direction: str) -> list[Message]:
    """Return messages that end with a turn of the user's, whose last words are a direction."""
    if not messages or messages[-1]["role"] != "user":
        return [*messages, {"role": "user", "content": direction}]
    *before, last = messages
    return [*before, {**last, "content": joined(last.get("content"), direction)}]


def place_between(plain: str, directed: str, mark: str, part: int = 0, start: int = 0) -> Place | None:
    """Return the place of directions in a rendered conversation, by the one that has `mark` for a direction.

    Part `part` of the prompt begins at character `start` of `plain`. None: the template has no place for it.
    """
    before, found, rest = directed.partition(mark)
    if not found or mark in rest:
        return None
    at, most = 0, min(len(plain), len(before))
    while at < most:  # a text of millions of characters in a few comparisons
        middle = (at + most + 1) // 2
        at, most = (middle, most) if before.startswith(plain[at:middle], at) else (at, middle - 1)
    return Place(part, at - start, before[at:], (rest,)) if at >= start else None
