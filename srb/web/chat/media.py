"""Pictures and sounds in messages: each is a mark in the text until the conversation is rendered.

The marks of one conversation are drawn at random, so that no text of a client can be taken for one.
"""

import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from srb.web.loop.yielding import yielding
from srb.wire.commands import MEDIA_MARK

MEDIA_PART = "media_marker"  # the type of a part whose text is a mark
_URLS = {"image_url": "image_url", "audio_url": "audio_url", "input_image": "image_url", "image": "image"}
_NOT_SUPPORTED = ("video", "video_url", "input_video", "file", "input_file")


class PlacedPart(dict[str, Any]):
    """A part of a message in the form of chats, with what errors call its place in the client's body."""

    def __init__(self, part: Mapping[str, Any], place: str) -> None:
        super().__init__(part)
        self.place = place


def media_part(part: dict[str, Any], place: str) -> dict[str, str] | None:
    """Return a message's part of media as {"type", "place"} with "url", "data" or, of what is never read, "unread".

    Return None for a part of another type. Raise ValueError.
    """
    kind = str(part.get("type"))
    if kind in _NOT_SUPPORTED:
        return {"type": MEDIA_PART, "unread": kind, "place": place}
    if kind == "input_audio":
        sound = part.get("input_audio")
        if not isinstance(sound, dict) or not isinstance(sound.get("data"), str):
            raise ValueError('a part of type "input_audio" must have {"data": base64, "format": "wav" or "mp3"}')
        if sound.get("format", "wav") not in ("wav", "mp3", "flac"):
            raise ValueError(
                f"the format of an input_audio must be wav, mp3 or flac, but got {str(sound['format'])[:40]!r}"
            )
        return {"type": MEDIA_PART, "data": sound["data"], "place": place}
    if kind not in _URLS:
        return None
    given = part.get(_URLS[kind])
    url = given.get("url") if isinstance(given, dict) else given
    if not isinstance(url, str):
        raise ValueError(f'a part of type "{kind}" must have {{"url": "…"}}')
    return {"type": MEDIA_PART, "url": url, "place": place}


UNSEEN = "[a picture or sound, which this model cannot read]"
_UNREAD = "[a document or file, which this server cannot read]"


def without_past_media(messages: Sequence[dict[str, Any]], is_unread: Callable[[Any], bool]) -> list[dict[str, Any]]:
    """Return a history in which media that are unread, and stand before the newest turn, are a text.

    A tool's screenshot would otherwise end a conversation for good. Those of the newest turn stay, and are refused: it
    begins after the assistant's last message, but for one that the reply continues.
    """
    kept = list(messages)
    newest = next((at for at in range(len(kept) - 2, -1, -1) if kept[at]["role"] == "assistant"), 0)
    for place, message in enumerate(kept[:newest]):
        if isinstance(content := message.get("content"), list):
            parts = [_placeholder(part) if part["type"] == MEDIA_PART and is_unread(part) else part for part in content]
            kept[place] = {**message, "content": parts}
    return kept


def _placeholder(part: Mapping[str, str]) -> dict[str, str]:
    return {"type": "text", "text": _UNREAD if "unread" in part else UNSEEN}


def media_of(messages: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, str]]:
    """Yield the parts of media of messages, in their order."""
    for message in messages:
        content = message.get("content")
        yield from (part for part in content if part["type"] == MEDIA_PART) if isinstance(content, list) else ()


@dataclass
class MarkedMessages:
    """Messages whose media are marks, and the media's sources in the order of the marks' numbers."""

    messages: list[dict[str, Any]]
    sources: list[dict[str, str]] = field(default_factory=list)
    _key: str = field(default_factory=lambda: secrets.token_hex(8))

    @classmethod
    def of(cls, messages: Sequence[dict[str, Any]]) -> "MarkedMessages":
        marked = cls([])
        marked.messages = [marked._message(message) for message in yielding(messages)]
        return marked

    def _message(self, message: dict[str, Any]) -> dict[str, Any]:
        content = message.get("content")
        if not isinstance(content, list) or all(part["type"] != MEDIA_PART for part in content):
            return message
        return {**message, "content": [self._part(part) for part in content]}

    def _part(self, part: dict[str, str]) -> dict[str, str]:
        if part["type"] != MEDIA_PART:
            return part
        self.sources.append(part)
        return {"type": MEDIA_PART, "text": f"<__media_{self._key}_{len(self.sources) - 1}__>"}

    def shown(self, text: str) -> str:
        """Return a rendered text with llama-server's mark for every medium."""
        return self._marks.sub(MEDIA_MARK, text) if self.sources else text

    def prompt(
        self, text: str, load: Callable[[list[dict[str, str]]], list[str]], max_files: int
    ) -> tuple[tuple[str | int, ...], list[str]]:
        """Return the prompt of a rendered text, and the base64 of its media, which `load` returns for their sources.

        Raise ValueError for more than `max_files`, before any is loaded.
        """
        pieces = self._marks.split(text)
        sources = [self.sources[int(piece)] for piece in pieces[1::2]]
        if len(sources) > max_files:
            raise ValueError(f"has {len(sources)} files; at most {max_files} are taken")
        parts = [-1 - place // 2 if place % 2 else piece for place, piece in enumerate(pieces)]
        return tuple(part for part in parts if part != ""), load(sources)

    @property
    def _marks(self) -> re.Pattern[str]:
        return re.compile(rf"<__media_{self._key}_(\d+)__>")
