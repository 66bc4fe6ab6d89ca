"""Dialects and families of models that other packages bring, and the server's own dialects, all of them as entry points.

The own ones are a table: a clone has no metadata, and those of an older installation may lie beside newer code. Reading the
metadata of 140 packages takes 5 ms, once in a process. A broken package ends the start: without it, the clients that it was
installed for would get 404, or a model's calls as plain text, and nobody would know why.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from srb.errors import ConfigError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

DIALECTS, FAMILIES = "srb.dialects", "srb.families"  # the groups of entry points
ALL = "all"  # in the setting `dialects`
_NAME = re.compile(r"[a-z][a-z0-9_-]*")
_OWN = ("srb", "openai", "responses", "anthropic", "llamacpp", "legacy", "ollama", "kobold")

Kind = TypeVar("Kind")


def of_others(group: str) -> tuple[EntryPoint, ...]:
    """Return what other packages bring, by name; nothing of it is imported."""
    return tuple(each for each in all_of_others() if each.group == group)


@cache
def of_all_packages() -> Any:
    """Return the entry points of all packages, as they were at the first call, or the first after `forget`."""
    from importlib.metadata import entry_points  # 13 ms, which the engine's process does without

    return entry_points()


@cache
def all_of_others() -> tuple[EntryPoint, ...]:
    """Return the entry points of both groups, by name."""
    found = [each for group in (DIALECTS, FAMILIES) for each in of_all_packages().select(group=group)]
    return tuple(sorted(found, key=lambda each: (each.name, told(each))))


def forget() -> None:
    """Look for packages anew at the next question, since some may have come or gone."""
    all_of_others.cache_clear()
    of_all_packages.cache_clear()


def _dialects() -> tuple[EntryPoint, ...]:
    from importlib.metadata import EntryPoint

    own = (EntryPoint(name, f"srb.web.dialects.{name}.dialect:DIALECT", DIALECTS) for name in _OWN)
    return (*own, *of_others(DIALECTS))


def dialect_names() -> tuple[str, ...]:
    """Return the names of all dialects, the server's own first."""
    return tuple(dict.fromkeys(point.name for point in _dialects()))


def chosen_dialects(names: str) -> Sequence[EntryPoint]:
    """Return the dialects that the setting `dialects` names, the server's own first. Raise ConfigError for doubled ones."""
    wanted = dialect_names() if names == ALL else names.split(",")
    return distinct([point for point in _dialects() if point.name in wanted])


def distinct(points: Sequence[EntryPoint]) -> Sequence[EntryPoint]:
    """Return the entry points of a group; raise ConfigError if two have one name, or one has a bad name."""
    seen: dict[str, EntryPoint] = {}
    for point in points:
        if _NAME.fullmatch(point.name) is None or point.name == ALL:
            raise ConfigError(f"{told(point)} has a bad name: small letters, digits, - and _, and not {ALL!r}")
        if point.name in seen:
            raise ConfigError(f"{told(point)} has the name of {told(seen[point.name])}: uninstall one of them")
        seen[point.name] = point
    return points


def load(point: EntryPoint, kind: type[Kind]) -> Kind:
    """Import an object of this kind; raise ConfigError, with the package's name, if another package's is broken."""
    if point.dist is None:
        found = point.load()
        assert isinstance(found, kind)
        return found
    try:
        found = point.load()
    except Exception as error:  # the module is another's, and may raise anything
        raise broken(point, f"cannot be loaded: {type(error).__name__}: {error}") from error
    if not isinstance(found, kind):
        raise broken(point, f"({point.value}) is no {kind.__name__}, but {type(found).__name__}")
    return found


def broken(point: EntryPoint, how: str) -> ConfigError:
    """Return the error for an entry point that cannot be used, in one line that says what to do."""
    leave = ", or leave it out of the setting dialects" if point.group == DIALECTS else ""
    line = " ".join(f"{told(point)} {how}".split())
    return ConfigError(f"{line}. Mend or uninstall the package{leave}")


def told(point: EntryPoint) -> str:
    """Return an entry point in words, with its package."""
    kind = "dialect" if point.group == DIALECTS else "family"
    package = f"of the package {point.dist.name} {point.dist.version}" if point.dist is not None else "of SRB's own"
    return f"the {kind} {point.name!r} {package}"
