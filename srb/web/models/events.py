"""Events of the states of several models, as llama-server's router sends them."""

from collections.abc import Iterable, Mapping, MutableMapping
from contextlib import ExitStack
from typing import Any

import gevent.queue
import orjson

from srb.errors import SRBError
from srb.models.control import ModelState
from srb.web.calls.calls import Calls
from srb.web.calls.streaming import PING
from srb.web.models.choice import word
from srb.web.models.client import ModelsClient

MAX_UNREAD = 1024  # events; the stream of a client that has not read so many ends, or they fill the worker's memory

States = Mapping[str, ModelState]


class ModelEvents:
    """A WSGI iterable over the changes of the models from now on, until its client leaves or the worker stops.

    It counts as an open request of its client; `close()` is idempotent.
    """

    def __init__(
        self, models: ModelsClient, calls: Calls, environ: MutableMapping[str, Any], ping_interval: float | None
    ) -> None:
        """Send a comment after `ping_interval` seconds without an event; None: never. Raise RateLimited, ShuttingDown."""
        self._queue: Any = gevent.queue.Queue(MAX_UNREAD)
        self._ping_interval = ping_interval
        self._has_begun = self._has_ended = False
        with ExitStack() as held:
            held.enter_context(calls.listening(self, environ))
            held.enter_context(models.watched(self._note))
            self._held = held.pop_all()

    def __repr__(self) -> str:
        return f"<ModelEvents{' ended' if self._has_ended else ''}: {self._queue.qsize()} unread>"

    def __iter__(self) -> "ModelEvents":
        return self

    def __next__(self) -> bytes:
        if not self._has_begun:
            self._has_begun = True
            return PING  # the client gets the head of the answer, and knows that no event is missed from now on
        try:
            event: bytes = b"" if self._has_ended else self._queue.get(timeout=self._ping_interval)
        except gevent.queue.Empty:
            event = PING
        if self._has_ended:
            raise StopIteration
        return event

    def close(self) -> None:
        """Watch the models no more. The WSGI server always calls this."""
        self._end()
        self._held.close()

    def lose_client(self) -> None:
        self._end()

    def abandon(self, reason: SRBError) -> None:
        self._end()

    def _end(self) -> None:
        self._has_ended = True
        if not self._queue.full():
            self._queue.put_nowait(b"")  # wakes __next__

    def _note(self, before: States, after: States) -> None:
        for event in changes(before, after):
            if self._queue.full():
                self._end()
                return
            self._queue.put_nowait(b"data: %b\n\n" % orjson.dumps(event))


def changes(before: States, after: States) -> Iterable[dict[str, Any]]:
    """Return llama-server's events of the changes: of states, and of the list itself."""
    for name, state in after.items():
        known = before.get(name)
        if known is None or (word(state), state.reason) == (word(known), known.reason):
            continue
        data: dict[str, Any] = {"status": word(state)}
        if word(state) == "unloaded":
            data["exit_code"] = 1 if state.state == "failed" else 0
        if state.state == "failed":
            data["reason"] = state.reason
        yield {"model": name, "event": "model_status" if word(state) == "loading" else "status_change", "data": data}
    if before.keys() != after.keys():
        yield {"model": "*", "event": "models_reload"}
