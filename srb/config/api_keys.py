"""API keys with the names of the people who have them, as `api_key_file` lists them: `KEY` or `NAME:KEY` per line.

A line may end with limits of its key, such as `max_n=8 weight=3`: each is a number above 0, and names a field of ApiKey.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from srb.errors import ConfigError

METRICS = "metrics"  # the name whose keys read /metrics and /health, and nothing else
_NAME = re.compile(r"[\w.@-]{1,64}")  # it stands in log lines, and in lists of who shares a story
# Digits of the largest number of each limit.
_DIGITS = {"max_n": 4, "weight": 2, "max_requests": 4, "tokens_per_day": 15, "tokens_per_month": 15, "stories_mib": 7}
_LIMIT = re.compile(rf"\s+({'|'.join(_DIGITS)})=(\S*)$")


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key; all keys with one name are one person's, and people without a name share what they keep.

    Each limit that is 0 is none of its own: the server's, where it has one.
    """

    key: str = field(repr=False)
    name: str = ""
    max_n: int = 0  # branches of a request
    weight: int = 1  # share of the engine beside others' weights
    max_requests: int = 0  # that run or wait at once
    tokens_per_day: int = 0
    tokens_per_month: int = 0
    stories_mib: int = 0  # of all stories that the person owns

    @property
    def is_for_metrics(self) -> bool:
        return self.name == METRICS


def _is_one_word(key: str) -> bool:
    """Whether a key has no blanks and no invisible signs inside: nobody would see that they belong to it."""
    return key.split() == [key] and key.isprintable()


def read_api_keys(text: str) -> list[ApiKey]:
    """Return the keys of a file's text. Raise ConfigError with the line's number; no message quotes a key."""
    found: dict[str, ApiKey] = {}
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if line.startswith("#") or not line:
            continue
        limits: dict[str, int] = {}
        while (limit := _LIMIT.search(line)) and limit[1] not in limits:
            of, value, digits = limit[1], limit[2], _DIGITS[limit[1]]
            if not re.fullmatch(f"[1-9][0-9]{{0,{digits - 1}}}", value):
                raise ConfigError(f"api_key_file: {of} in line {number} should be 1 to {'9' * digits}, not {value!r}")
            limits[of], line = int(value), line[: limit.start()].rstrip()
        name, separator, key = line.partition(":")
        if not separator:
            name, key = "", name
        name, key = name.strip(), key.strip()
        if not key or (name and not _NAME.fullmatch(name)):
            raise ConfigError(
                f"api_key_file: line {number} should be KEY, or NAME:KEY with a name of at most 64 letters, digits, "
                "'.', '_', '-' and '@'; a key that has a colon itself begins after one (:KEY)"
            )
        if not _is_one_word(key):
            raise ConfigError(
                f"api_key_file: the key in line {number} has a blank or an invisible sign inside; behind a key only "
                f"{', '.join(f'{name}=N' for name in _DIGITS)} may stand, a name ends with a colon, and a comment is a "
                "line that begins with #"
            )
        own = ApiKey(key, name, **limits)
        if found.setdefault(key, own).name != name:
            raise ConfigError(f"api_key_file: the key in line {number} is also another's")
        if found[key] != own:
            raise ConfigError(f"api_key_file: the key in line {number} has other limits in a line before")
    return list(found.values())


def rooms_of(keys: Iterable[ApiKey]) -> dict[str, int]:
    """Return the bytes that all stories of a person may take, by name, of those for whom a key has a limit: the largest."""
    rooms: dict[str, int] = {}
    for key in keys:
        if key.stories_mib:
            rooms[key.name] = max(rooms.get(key.name, 0), key.stories_mib << 20)
    return rooms
