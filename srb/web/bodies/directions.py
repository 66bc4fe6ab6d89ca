"""Directions of a request: an instruction for each branch, and its place in the prompt that all branches share."""

import re
from dataclasses import replace
from typing import Annotated

from pydantic import AfterValidator, ConfigDict, Field

from srb.errors import bad_field
from srb.web.bodies.fields import MAX_BANNED_LENGTH, Natural, ObjectFields, Prompt, at_most
from srb.wire.commands import MAX_BRANCHES, MAX_DIRECTION, BranchSpec, Generate, Place

BEFORE, BEHIND = "[What happens next: ", "]"  # around a direction in a text without a template: a writer's note
MAX_FRAME = 8192  # characters of `before`
# Characters of a last paragraph that each branch computes again behind its direction. A direction stands inside a longer
# one, else n branches would compute a text without paragraphs n times.
MOST = 2000
_SENTENCE = re.compile(r"[.!?…。！？][\"'”’»)]*\s*(?=\S)")
_WORD = re.compile(r"\s(?=\S)")

Direction = Annotated[str, Field(max_length=MAX_DIRECTION), AfterValidator(str.strip)]
DirectionList = Annotated[list[Direction], Field(min_length=1), at_most(MAX_BRANCHES)]


class DirectionPlace(ObjectFields):
    """The body's `direction_place`: before character `at` of the prompt; a branch reads `before`, its direction, `rest`."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")

    at: Natural
    before: Annotated[str, Field(max_length=MAX_FRAME)] = BEFORE
    rest: str | None = None


def place_in(prompt: Prompt, asked: DirectionPlace | None = None) -> Place:
    """Return where directions stand in a prompt that ends with a text: before its last paragraph, or where it is `asked`.

    Raise InvalidRequest, which names the field.
    """
    part, text = len(prompt) - 1, prompt[-1]
    if not isinstance(text, str):
        raise bad_field("directions", "need a prompt that ends with a text, not with token ids")
    if asked is not None:
        if asked.at > len(text):
            raise bad_field("direction_place.at", f"is {asked.at}, and the prompt has {len(text)} characters")
        rest = f"{BEHIND}\n\n{text[asked.at :]}" if asked.rest is None else asked.rest
        return Place(part, asked.at, asked.before, (rest,))
    at = last_paragraph(text)
    begin = BEFORE if not at or text[at - 1] == "\n" else f"\n\n{BEFORE}"
    return Place(part, at, begin, (f"{BEHIND}{_gap(text, at)}{text[at:]}",))


def last_paragraph(text: str) -> int:
    """Return where a text's last paragraph begins, or a sentence or word in it if it has more than MOST characters."""
    end = len(text.rstrip("\n"))
    at = text.rfind("\n", 0, end) + 1
    if end - at <= MOST:
        return at
    for beginning in (_SENTENCE, _WORD):
        if found := beginning.search(text, end - MOST, end):
            return found.end()
    return end - MOST


def _gap(text: str, at: int) -> str:
    """Return the line ends before a place, which stand behind a direction there as well."""
    before = text[max(0, at - 8) : at]
    return before[len(before.rstrip("\n")) :] or "\n\n"


def without_notes(command: Generate) -> Generate:
    """Return a command whose branches do not write notes like those in which their directions stand, as models go on to do.

    A branch with a grammar writes what that allows.
    """
    note = command.place.before.strip() if command.place else ""
    if not note.startswith("[") or len(note) > MAX_BANNED_LENGTH:
        return command

    def without(spec: BranchSpec) -> BranchSpec:
        return spec if spec.has_grammar else replace(spec, banned_strings=(*spec.banned_strings, note))

    base = without(command.base or command.branches[0])
    return replace(command, base=base, branches=tuple(map(without, command.branches)))


def dealt(directions: list[str], n: int) -> list[str]:
    """Return the direction of each of `n` branches: they are dealt in turn. Raise InvalidRequest for more than `n`."""
    if len(directions) > n:
        raise bad_field("directions", f"has {len(directions)} entries for {n} branches; leave some out, or raise n")
    return [directions[index % len(directions)] if directions else "" for index in range(n)]
