"""A direction in a conversation: the user's last words, or a turn within the reply that is continued."""

from collections.abc import Sequence
from typing import Any

from srb.web.bodies.directions import last_paragraph
from srb.web.chat.history import content_text, joined
from srb.wire.commands import Place

Message = dict[str, Any]
# Around a direction. Small models heed it so: of 8 branches of Qwen2.5 0.5B 5.6 really differ, with the direction alone 5.0.
SAID = "What happens in it: {}. Begin with that."


def with_direction(messages: Sequence[Message], direction: str, continues: bool) -> list[Message]:
    """Return a conversation whose reply follows a direction; with `continues` its last message is the reply's beginning.

    A reply that has paragraphs is divided: the user's turn with the direction stands before the last of them.
    """
    direction = SAID.format(direction)
    if not continues:
        return _told(messages, direction)
    *before, last = messages
    text = "" if last.get("reasoning_content") else content_text(last.get("content"), "\n\n")
    at = last_paragraph(text)
    if not text[:at].strip():
        return [*_told(before, direction), last]
    asked = {"role": "user", "content": direction}
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
