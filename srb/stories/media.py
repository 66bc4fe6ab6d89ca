"""Media of stories: pictures and sounds that its texts name by `![alt](srb:ID)`, each stored once beside the nodes.

A medium's id follows from its bytes, so copies of a story have the same ids, and a medium never changes.
"""

import binascii
import hashlib
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass

from srb.errors import bad_field, in_field
from srb.files.media_files import type_of
from srb.stories.forms import MediumShape
from srb.stories.limits import MAX_MEDIUM

ID_DIGITS = 32  # of the hash, in hexadecimal: 128 bits, so that no two media meet by chance


@dataclass(frozen=True, slots=True)
class Medium:
    """A file whose header is sound, and its media type by its bytes, such as `image/png`."""

    type: str
    data: bytes

    @property
    def id(self) -> str:
        return hashlib.sha256(self.data).hexdigest()[:ID_DIGITS]


def medium_of(text: str, field: str) -> Medium:
    """Return the medium that base64 stands for. Raise InvalidRequest, which names `field`."""
    try:
        data = b64decode(text, validate=True)
    except (binascii.Error, ValueError):  # ValueError: characters beyond ASCII
        raise bad_field(field, "is not base64") from None
    if len(data) > MAX_MEDIUM:
        raise bad_field(field, f"has {len(data)} bytes; a picture or sound may have {MAX_MEDIUM}")
    with in_field(field):
        return Medium(type_of(data), data)


def media_of(given: Mapping[str, MediumShape]) -> dict[str, Medium]:
    """Return media of a file by their ids. Raise InvalidRequest for one that is damaged, or has another's id."""
    media = {}
    for name, shape in given.items():
        medium = medium_of(shape.data, f"media.{name}.data")
        if medium.id != name:
            raise bad_field(f"media.{name}", f"has the bytes of another medium, whose id is {medium.id}")
        media[name] = medium
    return media
