"""Values of settings: their types, and checks of those that are written as text."""

import json
import os
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from srb.config.rpc_nodes import nodes_of
from srb.config.sampling_params import MAX_GRAMMAR
from srb.config.trusted_proxies import proxies_of
from srb.extensions import ALL, dialect_names

_TABLE = tomllib.loads(Path(__file__).with_name("settings.toml").read_text("utf-8"))


def setting(name: str) -> Any:
    """Return the pydantic field of a setting, as settings.toml has it."""
    return Field(**_TABLE[name])


CacheType = Literal["f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1"]


def _read_by(read: Callable[[str], object]) -> AfterValidator:
    """Return the check of a setting's text that `read` reads, or raises ValueError for."""

    def check(text: str) -> str:
        read(text)
        return text

    return AfterValidator(check)


def _on_or_off(value: object) -> object:
    """Return "on" or "off" for a boolean, in TOML or as a word; anything else as it is."""
    words = {"true": "on", "1": "on", "false": "off", "0": "off"}
    return words.get(str(value).lower(), value)


SwitchOrAuto = Annotated[Literal["auto", "on", "off"], BeforeValidator(_on_or_off)]


def _hosts(text: str) -> str:
    return ",".join(map(expanded, split_commas(text)))


Hosts = Annotated[str, AfterValidator(_hosts)]


def _dialects(text: str) -> str:
    """Return names of dialects without the space around them; raise ValueError for one that no package has."""
    names = split_commas(text)
    if names == [ALL]:
        return ALL
    known = dialect_names()
    if unknown := [name for name in names if name not in known]:
        raise ValueError(f"there is no dialect {', '.join(map(repr, unknown))}; there are {', '.join(known)}")
    if not names:
        raise ValueError(f"should be {ALL}, or some of {', '.join(known)}")
    return ",".join(dict.fromkeys(names))


Dialects = Annotated[str, AfterValidator(_dialects)]


def _proportions(text: str) -> None:
    try:
        shares = [float(part) for part in text.split(",") if part.strip()]
    except ValueError:
        raise ValueError("should be numbers separated by commas, such as 3,2") from None
    if any(share < 0 for share in shares):
        raise ValueError("shares cannot be negative")


Proportions = Annotated[str, _read_by(_proportions)]


def _biases(text: str) -> None:
    """Check pairs of a token id and a signed bias, separated by commas; the bias may be -inf."""
    for part in filter(None, text.split(",")):
        if not re.fullmatch(r"\s*\d{1,9}([+-]\d{1,6}(\.\d+)?|-inf)\s*", part):
            raise ValueError("should be token ids with a bias, such as 15043+1,29-inf")


Biases = Annotated[str, _read_by(_biases)]


def _schema(text: str) -> None:
    try:
        schema = json.loads(text or "{}")
    except ValueError as error:
        raise ValueError(f"should be JSON: {error}") from None
    if schema is not True and not isinstance(schema, dict):
        raise ValueError("should be a JSON schema, an object or true")


JsonSchema = Annotated[str, Field(max_length=MAX_GRAMMAR), _read_by(_schema)]


def strings_of(text: str) -> list[str]:
    """Return the strings of a setting: one, several written as a JSON list, or none if it is empty."""
    if not text.startswith("["):
        return [text] if text else []
    try:
        strings = json.loads(text)
    except ValueError:
        strings = None
    if not isinstance(strings, list) or not all(isinstance(string, str) for string in strings):
        raise ValueError('should be a string, or a JSON list of strings such as ["User:", "\\n"]')
    return strings


Strings = Annotated[str, _read_by(strings_of)]


def expanded(path: str) -> str:
    """Return a path with the home folder that a ~ at its beginning stands for. Raise ValueError if there is none."""
    found = os.path.expanduser(path)
    if found.startswith("~"):
        raise ValueError(f"there is no home folder {found.partition('/')[0]}")
    return found


FilePath = Annotated[str, AfterValidator(expanded)]

_ADDRESS = re.compile(r"postgres(?:ql)?://(?:[^:@/?#\s]+(?::[^:@/?#\s]*)?@)?[^@?#\s]*(?:\?[^#\s]*)?")


def is_address(place: str) -> bool:
    """Whether a place of stories is the address of a PostgreSQL database, and no file."""
    return place.startswith(("postgresql://", "postgres://"))


def place_of_stories(place: str) -> str:
    """Return the path of a file, or an address. Raise ValueError for one that cannot be read."""
    if not is_address(place):
        return expanded(place)
    if not _ADDRESS.fullmatch(place):  # libpq would take a part of the password for the host, and quote it
        raise ValueError(
            "an address is postgresql://USER:PASSWORD@HOST:PORT/NAME, with %40 for @, %3A for : and %2F for / within a part"
        )
    return place


StoriesPlace = Annotated[str, AfterValidator(place_of_stories)]

OF_ONE_MODEL = (
    "mmproj",
    "spec_draft_model",
    "lora",
    "control_vector",
)  # files that fit one model, and not all of a list


def _object(text: str) -> None:
    try:
        value = json.loads(text or "{}")
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise ValueError("should be a JSON object")


JsonObject = Annotated[str, _read_by(_object)]


def _not_zero(number: int) -> int:
    if number == 0:
        raise ValueError("should be 1 or more, or -1 for no limit")
    return number


NotZero = Annotated[int, AfterValidator(_not_zero)]


Nodes = Annotated[str, _read_by(nodes_of)]
Proxies = Annotated[str, _read_by(proxies_of)]


def _replicas(text: str) -> str:
    if not text.startswith("dns:"):
        return expanded(text)
    found = re.fullmatch(r"dns:([A-Za-z0-9][A-Za-z0-9._-]*):(\d{1,5})", text)
    if found is None or not 0 < int(found[2]) < 65536:
        raise ValueError("should be the path of a TOML file, or dns:NAME:PORT")
    labels = found[1].removesuffix(".").split(".")
    if len(found[1]) > 253 or not all(0 < len(label) <= 63 for label in labels):  # DNS has no other; asking would raise
        raise ValueError(
            "has a NAME that DNS cannot have: between two dots there are 1 to 63 characters, in all at most 253"
        )
    return text


ReplicaList = Annotated[str, AfterValidator(_replicas)]


def _adapters(text: str) -> None:
    for part in split_commas(text):
        path, separator, scale = part.rpartition("=")
        expanded(path or part)
        try:
            finite = not separator or abs(float(scale)) < 1e6  # any of 1e2 to 1e30 would do: inf and nan are refused
        except ValueError:
            finite = False
        if not finite:
            raise ValueError("should be paths separated by commas, each optionally followed by =scale")


Adapters = Annotated[str, _read_by(_adapters)]


def _layers(text: str) -> None:
    if text and not re.fullmatch(r"\s*\d{1,9}\s*,\s*\d{1,9}\s*", text):
        raise ValueError("should be the first and the last layer, as in 10,20")


Layers = Annotated[str, _read_by(_layers)]


def _listed(value: object) -> object:
    """Return a list of models, as TOML has it, as text: separated by commas, or JSON if it has tables; all else as it is."""
    if not isinstance(value, list) or not all(isinstance(each, str | dict) for each in value):
        return value
    if all(isinstance(each, str) and "," not in each for each in value):
        return ",".join(value)
    return json.dumps(value, ensure_ascii=False, default=str)


ModelList = Annotated[str, BeforeValidator(_listed)]


def setting_text(value: object) -> str:
    """Return a setting's value as help, first screen and docs show it."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value).replace("\n", "\\n") or "empty"


def split_commas(text: str) -> list[str]:
    """Return the non-empty items of a text separated by commas, without the space around them."""
    return [item for part in text.split(",") if (item := part.strip())]
