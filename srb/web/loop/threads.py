"""Threads: work that waits for a disk or computes for long, done beside the worker's loop."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

import gevent

P = ParamSpec("P")
T = TypeVar("T")


def in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return the function's value, computed in a thread: the worker's other calls continue meanwhile."""
    value: T = gevent.get_hub().threadpool.apply(function, args, kwargs)
    return value
