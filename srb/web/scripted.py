"""ScriptedClient: an EngineClient whose engine is a function, for tests and benchmarks of the web side.

Only the connection is replaced: mailboxes, acceptance, cancelling and the ends of requests are the real ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import gevent

from srb.client import EngineClient
from srb.protocol import (
    Accepted,
    BranchEnded,
    Cancel,
    Delta,
    Done,
    Event,
    Failed,
    Generate,
    GetStats,
    ModelInfo,
    Ready,
    Stats,
    decode,
)
from srb.settings import Settings

Script = Callable[[Generate], Iterable[list[Event]]]

MODEL = ModelInfo(
    alias="storyteller", path="storyteller.gguf", description="llama 5M F16", architecture="llama", memory="attention",
    n_vocab=4096, vocab_type=1, n_ctx=8192, n_ctx_seq=8192, n_ctx_train=2048, n_embd=256, n_params=5_000_000,
    size=10_000_000, n_seq_max=256, chat_template="", bos_token="<s>", eos_token="</s>", has_fill_in_the_middle=False,
    build_info="b1-scripted",
)  # fmt: skip


def count_to_three(command: Generate) -> Iterable[list[Event]]:
    """Accept, give each branch the words " i.0", " i.1", " i.2" (or fewer, by max_tokens) in three steps, and end."""
    request_id = command.request_id
    yield [Accepted(request_id, 5)]
    lengths = [min(3, branch.max_tokens) if branch.max_tokens >= 0 else 3 for branch in command.branches]
    for step in range(3):
        yield [
            Delta(request_id, index, f" {index}.{step}", [step])
            for index, length in enumerate(lengths)
            if step < length
        ]
    yield [
        *(BranchEnded(request_id, i, "eos" if length == 3 else "limit", length) for i, length in enumerate(lengths)),
        Done(request_id, 5, 2, sum(lengths), 10.0, 30.0),
    ]


class ScriptedClient(EngineClient):
    """Play `script` for every Generate, a frame for each list that it yields; `sent` keeps the commands."""

    def __init__(self, settings: Settings, script: Script = count_to_three) -> None:
        super().__init__(settings)
        self.sent: list[Any] = []
        self.script = script
        self.values = {"n_decode_total": 7.0, "prompt_tokens_total": 100.0, "kv_cells_used": 12.0}

    @property
    def cancelled(self) -> list[str]:
        """The ids of the requests that the engine was told to cancel, in order."""
        return [command.request_id for command in self.sent if isinstance(command, Cancel)]

    def start(self) -> None:
        if self._connection is None and not self._closed:
            connection: Any = _ScriptedConnection(self)
            self._deliver(connection, [Ready(MODEL.as_dict())])

    def receive(self, events: list[Event]) -> None:
        """Take events as if a frame with them had come from the engine."""
        assert self._connection is not None
        self._deliver(self._connection, events)

    def lose_engine(self) -> None:
        """End every request as the loss of the connection does."""
        self._fail_all()


class _ScriptedConnection:
    def __init__(self, client: ScriptedClient) -> None:
        self._client = client

    def send(self, payload: bytes) -> None:
        for command in decode(payload):
            self._client.sent.append(command)
            if isinstance(command, Generate):
                gevent.spawn(self._play, command)
            elif isinstance(command, GetStats):
                gevent.spawn(self._client.receive, [Stats(command.request_id, self._client.values)])

    def _play(self, command: Generate) -> None:
        for events in self._client.script(command):
            if command.request_id in self._client.cancelled:
                self._client.receive([Failed(command.request_id, "cancelled", "the request was cancelled")])
                return
            self._client.receive(events)
            gevent.sleep(0)
