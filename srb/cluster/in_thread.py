"""Work in a thread that keeps no process from ending, as one of asyncio's own would for minutes."""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


async def in_thread(work: Callable[..., T], *arguments: Any) -> T:
    """Return the result of `work`."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def finish(act: Callable[[Any], None], value: Any) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(lambda: None if future.done() else act(value))

    def run() -> None:
        try:
            finish(future.set_result, work(*arguments))
        except Exception as error:
            finish(future.set_exception, error)

    threading.Thread(target=run, daemon=True).start()
    return await future
