"""API keys with the names of the people who have them, as `api_key_file` lists them: `KEY` or `NAME:KEY` per line.

A line may end with `max_n=N`, which limits the branches of a request with this key.
"""

import re
from dataclasses import dataclass, field

from srb.errors import ConfigError

METRICS = "metrics"  # the name whose keys read /metrics and /health, and nothing else
_NAME = re.compile(r"[\w.@-]{1,64}")  # it stands in log lines, and in lists of who shares a story
_LIMIT = re.compile(r"\s+max_n=(\S*)$")


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key; all keys with one name are one person's, and people without a name share what they keep."""

    key: str = field(repr=False)
    name: str = ""
    max_n: int = 0  # branches of a request; 0: as many as the server allows

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
        limit = _LIMIT.search(line)
        if limit and not re.fullmatch("[1-9][0-9]{0,3}", limit[1]):
            raise ConfigError(f"api_key_file: max_n in line {number} should be 1 to 9999, not {limit[1]!r}")
        name, separator, key = (line[: limit.start()] if limit else line).strip().partition(":")
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
                "max_n=N may stand, a name ends with a colon, and a comment is a line that begins with #"
            )
        own = ApiKey(key, name, int(limit[1]) if limit else 0)
        if found.setdefault(key, own).name != name:
            raise ConfigError(f"api_key_file: the key in line {number} is also another's")
        if found[key] != own:
            raise ConfigError(f"api_key_file: the key in line {number} has another max_n in a line before")
    return list(found.values())
