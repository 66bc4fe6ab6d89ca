"""Differences between two answers: the places where keys, types, statuses or texts are not the same."""

from __future__ import annotations

import base64
import json
import math
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from bench.differential.answers import Answer, kind_of

_CLOSE = 2e-3  # of numbers that are sums of floating-point numbers, whose order differs
_INDEX = re.compile(r"(?<!^events)(?:\.|^)\d+(?=\.|$)")
_MOST_SHOWN = 110  # characters of a value

# Values that differ from run to run, or name the machine, the build or the file: only their types are compared.
_BY_TYPE = re.compile(
    r"created|id_slot|.*_ms|.*_per_second|t_.*|time|date|modified_at|id_task|cache_n|prompt_n|cached_tokens|n_decoded|n_prompt_.*"
    r"|model|model_alias|aliases|media_marker|name|model_path|path|build_info|system_fingerprint|digest|n_erased|n_saved|n_written|n_restored|n_read"
)
_NAMES_BY_TYPE = {"id"}  # as above where they are strings: a number is a token's id, an adapter's or a slot's


@dataclass(frozen=True)
class Difference:
    """One place and the two values there; `place` is the dotted path of keys and indices, or `status` or `type`."""

    place: str
    what: str

    @property
    def key(self) -> str:
        """The place without indices, except of events: further differences at it say no more than the first."""
        return _INDEX.sub("", self.place).removeprefix(".")


def differences(a: Answer, b: Answer) -> list[Difference]:
    """Return all differences, of several at the elements of one list the first; of two statuses or types nothing else."""
    if a.status != b.status:
        return [Difference("status", f"A {a.status}{_reason(a)}, B {b.status}{_reason(b)}")]
    found = {}
    if a.type != b.type and (a.value, b.value) != ("", ""):
        return [Difference("type", f"A {a.type or 'none'}, B {b.type or 'none'}")]
    for each in _compare("", a.value, b.value):
        found.setdefault(each.key, each)
    return list(found.values())


def _reason(answer: Answer) -> str:
    """Return the message of an error."""
    error = answer.value.get("error") if isinstance(answer.value, dict) else None
    return f" ({shown(error.get('message'))[1:-1]})" if isinstance(error, dict) else ""


def _compare(place: str, a: Any, b: Any) -> Iterator[Difference]:
    if kind_of(a) != kind_of(b):
        yield Difference(place or "body", f"A is {kind_of(a)} {shown(a)}, B is {kind_of(b)} {shown(b)}")
    elif isinstance(a, dict):
        for name in dict.fromkeys([*a, *b]):
            inner = f"{place}.{name}".removeprefix(".")
            if name not in b:
                yield Difference(inner, f"only A has it: {shown(a[name])}")
            elif name not in a:
                yield Difference(inner, f"only B has it: {shown(b[name])}")
            else:
                yield from _compare(inner, a[name], b[name])
    elif isinstance(a, list):
        if len(a) != len(b):
            yield Difference(f"{place}.length", f"A {len(a)}, B {len(b)}: A {shown(a)}, B {shown(b)}")
        for index, (one, other) in enumerate(zip(a, b, strict=False)):
            yield from _compare(f"{place}.{index}".removeprefix("."), one, other)
    elif not _same(re.sub(r"(\.\d+)+$", "", place).rpartition(".")[2], a, b):
        start = _first_difference(a, b) if isinstance(a, str) else 0
        yield Difference(place or "body", f"A {shown(a, start)}, B {shown(b, start)}")


def _same(name: str, a: Any, b: Any) -> bool:
    if _BY_TYPE.fullmatch(name) or (name in _NAMES_BY_TYPE and isinstance(a, str)):
        return True
    if name == "embedding" and isinstance(a, str):
        a, b = (struct.unpack(f"<{len(data) // 4}f", data) for data in map(base64.b64decode, (a, b)))
        return len(a) == len(b) and all(_same("", one, other) for one, other in zip(a, b, strict=True))
    if kind_of(a) == "number":
        return a == b or math.isclose(a, b, rel_tol=_CLOSE, abs_tol=_CLOSE)
    return bool(a == b)


def _first_difference(a: str, b: str) -> int:
    return next(
        (place for place, (one, other) in enumerate(zip(a, b, strict=False)) if one != other), min(len(a), len(b))
    )


def shown(value: Any, start: int = 0) -> str:
    """Return a value as JSON on one line, cut where it is long; of a long text show what surrounds `start`."""
    if isinstance(value, str) and len(value) > _MOST_SHOWN and start > _MOST_SHOWN // 2:
        value = "…" + value[start - _MOST_SHOWN // 2 :]
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}… ({len(text)} characters)"
