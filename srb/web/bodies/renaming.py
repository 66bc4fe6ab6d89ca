"""Errors of one dialect's fields under the names that another dialect has for them."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from srb.errors import SRBError


@contextmanager
def renamed(names: Mapping[str, str]) -> Iterator[None]:
    """Let errors about a field in `names` name the client's field instead, in `param` and in the message."""
    try:
        yield
    except SRBError as error:
        name = str(error.extra.get("param"))
        if name in names:
            error.extra["param"] = names[name]
            error.message = error.message.replace(f"Field '{name}'", f"Field '{names[name]}'")
            error.args = (error.message,)
        raise
