"""Media in bodies: the marks of pictures and sounds in a text, and the base64 that stands for each.

A part −1 − i of a prompt stands for `media[i]` (see `Generate`).
"""

import re
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import BeforeValidator, WithJsonSchema

from srb.errors import bad_field
from srb.web.bodies.fields import EMPTY_PROMPT, Prompt, array, object_of, short_json
from srb.wire.commands import MEDIA_MARK
from srb.wire.events import ModelInfo

MAX_FILES = 64  # in one body: as many pictures are decoded before the request begins
IMAGE_MARK = re.compile(r"\[img-(\d+)\]")  # of the older llama-server

_BASE64 = {"type": "string", "contentEncoding": "base64"}
BASE64_SCHEMA = array(_BASE64, maxItems=MAX_FILES)
IMAGE_DATA_SCHEMA = array(object_of({"data": _BASE64, "id": {"type": "integer"}}, "data", "id"), maxItems=MAX_FILES)


def marked_prompt(text: str, data: Any, media: list[str]) -> list[str | int]:
    """Return the parts of a `prompt_string`, and append its `multimodal_data` to a body's media. Raise ValueError."""
    if not isinstance(data, list) or not all(isinstance(item, str) for item in data):
        raise ValueError("multimodal_data must be a list of base64 strings")
    texts = text.split(MEDIA_MARK)
    if len(texts) - 1 != len(data):
        raise ValueError(f'"prompt_string" has {len(texts) - 1} {MEDIA_MARK}, and multimodal_data {len(data)} files')
    first = len(media)
    media += data
    parts: list[str | int] = [texts[0]]
    for place, after in enumerate(texts[1:]):
        parts += [-1 - first - place, after]
    return parts


def image_prompts(prompts: Sequence[Prompt], image_data: Any) -> tuple[list[Prompt], list[str]]:
    """Return prompts with the places of `image_data` in them, and the files. Raise ValueError."""
    if not isinstance(image_data, list) or len(image_data) > MAX_FILES:
        raise ValueError(f'must be a list of at most {MAX_FILES} of {{"data": base64, "id": number}}')
    places: dict[int, int] = {}
    for place, entry in enumerate(image_data):
        given = (entry.get("id"), entry.get("data")) if isinstance(entry, dict) else (None, None)
        if type(given[0]) is not int or not isinstance(given[1], str):
            raise ValueError(f'must be a list of {{"data": base64, "id": number}}, but has {short_json(entry)}')
        if given[0] in places:
            raise ValueError(f"has two entries with the id {given[0]}")
        places[given[0]] = place
    found = [tuple(piece for part in prompt for piece in _image_parts(part, places)) for prompt in prompts]
    used = {part for prompt in found for part in prompt if isinstance(part, int) and part < 0}
    for number, place in places.items():
        if -1 - place not in used:
            raise ValueError(f"has an entry with the id {number}, and the prompt has no [img-{number}]")
    return found, [entry["data"] for entry in image_data]


def _image_parts(part: str | int, places: dict[int, int]) -> list[str | int]:
    if isinstance(part, int):
        return [part]
    pieces: list[str | int] = []
    for place, piece in enumerate(IMAGE_MARK.split(part)):
        if place % 2 == 0:
            pieces += [piece] if piece else []
        elif int(piece) in places:
            pieces.append(-1 - places[int(piece)])
        else:
            raise ValueError(f"has no entry with the id {piece}, and the prompt has [img-{piece}]")
    return pieces


def check_reads_media(model: ModelInfo, field: str, place: str = "") -> None:
    """Raise InvalidRequest, which names `field` and the `place` in it, if the model reads text only."""
    if not (model.sees or model.hears):
        medium = f"{place} is a picture or sound, and " if place else ""
        raise bad_field(
            field,
            f"{medium}this server reads text only; start it with --mmproj FILE, the model's projector, for pictures and "
            "sounds",
        )


def check_base64(value: Any) -> list[str]:
    """Return a list of files as base64. Raise ValueError for anything else."""
    if not isinstance(value, list) or len(value) > MAX_FILES or not all(isinstance(file, str) for file in value):
        raise ValueError(f"must be a list of at most {MAX_FILES} base64 strings")
    return value


def own_media(prompt: Prompt, media: Sequence[str]) -> tuple[Prompt, tuple[str, ...]]:
    """Return a prompt and its media alone, of those of a body with several prompts."""
    used = dict.fromkeys(part for part in prompt if isinstance(part, int) and part < 0)
    numbers = {part: -1 - place for place, part in enumerate(used)}
    own = tuple(numbers.get(part, part) if isinstance(part, int) else part for part in prompt)
    return own, tuple(media[-1 - part] for part in used)


def shown(prompt: Prompt) -> Prompt:
    """Return a prompt whose media are the text of their mark, as answers show it."""
    return tuple(MEDIA_MARK if isinstance(part, int) and part < 0 else part for part in prompt) or EMPTY_PROMPT


Base64Files = Annotated[list[str], BeforeValidator(check_base64), WithJsonSchema(BASE64_SCHEMA)]
