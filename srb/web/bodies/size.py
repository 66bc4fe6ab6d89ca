"""The size of a JSON body, in entries: checked for every body before a reader or a validator looks at one of them.

A body of 4 MiB has room for 1.4 million entries, each of which costs some microseconds, and kilobytes in errors. Token ids
are left out: a text may be sent as ids, and checks of whole numbers run in C.
"""

from collections.abc import Collection
from typing import Any, cast

from srb.errors import InvalidRequest, bad_field
from srb.web.loop.yielding import batches

MAX_ENTRIES = 8192  # of one list, besides whole numbers, or of one object: each costs µs, and kilobytes in errors
MAX_VALUES = 100_000  # of a body in all: a long chat of an agent has some thousands


def refusal_of(body: Any) -> InvalidRequest | None:
    """Return the error, which names the field, if a parsed body has a longer list or more values than are taken.

    It is not raised here: as long as it is handled, its traceback would keep the body.
    """
    fields = body.items() if isinstance(body, dict) else [("", body)]
    if len(fields) > MAX_ENTRIES:
        return InvalidRequest(f"The body has {len(fields)} fields; at most {MAX_ENTRIES} are allowed")
    values = 0
    for name, value in fields:
        rest = [value] if isinstance(value, (list, dict)) else []
        while rest:
            each = rest.pop()
            members = _members(each)
            values += len(members)
            if len(members) > MAX_ENTRIES:
                return _problem(name, f"has {len(each)} entries; at most {MAX_ENTRIES} are allowed")
            if values > MAX_VALUES:
                return _problem(name, f"has too many values; a body may have {MAX_VALUES} in all, besides token ids")
            rest += [member for member in members if isinstance(member, (list, dict))]
    return None


def _members(value: Any) -> Collection[Any]:
    """Return the values of an object, or the entries of a list: of a long one those that are no whole numbers.

    Of a list with too many of them the first ones are enough.
    """
    if isinstance(value, dict):
        return value.values()
    if len(value) <= MAX_ENTRIES:
        return cast(list[Any], value)
    others: list[Any] = []
    for batch in batches(value):
        if set(map(type, batch)) != {int}:
            others += [entry for entry in batch if type(entry) is not int]
        if len(others) > MAX_ENTRIES:
            break
    return others


def _problem(name: str, problem: str) -> InvalidRequest:
    return bad_field(name, problem) if name else InvalidRequest(f"The body {problem}")
