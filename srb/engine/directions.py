"""Directions: an instruction for one branch each, at one place of a prompt that all branches share up to there.

Each branch reads what a request with the whole text, its direction in place, would read: the texts are tokenized whole, and
the tokens with which all of them begin are the shared prompt. A direction is a part of no branch's text.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce

from srb.engine.tokens import Tokens, common_length
from srb.errors import bad_field
from srb.wire.commands import Generate


@dataclass(frozen=True, slots=True)
class Directed:
    """The prompt of a request whose branches have directions: the `shared` tokens, and of each direction those behind."""

    command: Generate  # without media
    shared: Tokens
    behind: Mapping[str, Tokens]  # by direction; "": of a branch without one

    def of_added(self, index: int) -> str:
        """Return the direction of an added branch that names none."""
        deal = self.command.directions
        return deal[index % len(deal)] if deal else ""

    def last_of(self, direction: str) -> str | int:
        """Return the last part of the prompt that a branch with a direction reads."""
        return parts_with(self.command, direction)[-1]


def parts_with(command: Generate, direction: str) -> tuple[str | int, ...]:
    """Return the prompt that a branch with a direction reads, as strings and token ids."""
    place = command.place
    if place is None or not direction:
        return command.prompt
    text, first = command.prompt[place.part], place.rest[0]
    assert isinstance(text, str)  # check_place has seen to it
    assert isinstance(first, str)
    return (
        *command.prompt[: place.part],
        f"{text[: place.character]}{place.before}{direction}{first}",
        *place.rest[1:],
    )


def check_place(command: Generate) -> None:
    """Raise InvalidRequest for directions without a place, or with one that the prompt does not have."""
    place, prompt = command.place, command.prompt
    if place is None:
        if any(spec.direction for spec in command.branches):
            raise bad_field("direction", "has no place in the prompt")
        return
    text = prompt[place.part] if 0 <= place.part < len(prompt) else None
    if not isinstance(text, str) or not 0 <= place.character <= len(text):
        raise bad_field("direction_place", "is outside the prompt's text")
    if not place.rest or not isinstance(place.rest[0], str):
        raise bad_field("direction_place", "should have the text that follows a direction")


def num_shared(texts: Mapping[str, Tokens]) -> int:
    """Return the number of tokens with which all texts begin."""
    first, *others = texts.values()
    return reduce(lambda count, other: common_length(first[:count], other, 0), others, len(first))
