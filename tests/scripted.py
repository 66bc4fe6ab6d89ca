"""ScriptedClient: an EngineClient whose engine is a function, for tests and benchmarks of the web side.

Only the connection is replaced; mailboxes, acceptance, cancellation and ends of requests are EngineClient's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import gevent

from srb.config.settings import Settings
from srb.errors import NotFound, SRBError, bad_field
from srb.web.calls.engine_client import EngineClient
from srb.wire.codec import decode
from srb.wire.commands import (
    AddBranches,
    Ask,
    Attach,
    Cancel,
    ChangeBranch,
    CountTokens,
    Detokenize,
    Embed,
    EndReasoning,
    Generate,
    GetAdapters,
    GetRequest,
    GetSlots,
    GetStats,
    ListRequests,
    Rerank,
    SetAdapters,
    StateAction,
    StopBranches,
    Tokenize,
)
from srb.wire.events import Accepted, BranchEnded, Delta, Done, Event, Failed, ModelInfo, Ready, Rejected, Reply

Script = Callable[[Generate], Iterable[list[Event]]]

# A running request, as the engine describes it.
DESCRIPTION = {"id": "r1", "state": "running", "age": 1.5, "prompt_tokens": 5, "linger": 0.0}
BRANCH = {"index": 0, "seed": 7, "state": "running", "length": 1, "max_tokens": 3}

MODEL = ModelInfo(
    alias="storyteller", path="storyteller.gguf", description="llama 5M F16", architecture="llama", memory="attention",
    n_vocab=4096, vocab_type=1, n_ctx=8192, n_ctx_seq=8192, n_ctx_train=2048, n_embd=256, n_params=5_000_000,
    size=10_000_000, n_seq_max=256, chat_template="", bos_token="<s>", eos_token="</s>", has_fill_in_the_middle=False,
    build_info="b1-scripted", bos_id=1, blank_page=[1], eos_id=2, eog_ids=[2, 4], add_bos=True, ftype="F16", embedding=True,
    pooling="mean", reranking=True, can_shift=True,
)  # fmt: skip


def count_to_three(command: Generate) -> Iterable[list[Event]]:
    """Script that gives branch i the words " i.0", " i.1", " i.2" (fewer with max_tokens) in three steps."""
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
        Done(request_id, 5, 2, sum(lengths), 10.0, 30.0, computed_tokens=3),
    ]


def answer_simply(command: Ask | Attach, values: dict[str, float]) -> Any:
    """Return the reply of an engine whose tokens are the UTF-8 bytes of a text; `values` are its metrics."""
    match command:
        case Tokenize(_, parts, add_special):
            tokens = [token for part in parts for token in (part.encode() if isinstance(part, str) else [part])]
            return [MODEL.bos_id, *tokens] if add_special and isinstance(parts[0], str) else tokens
        case CountTokens(_, prompt, media):
            return 1 + sum(len(part.encode()) if isinstance(part, str) else 1 for part in prompt) + 9 * len(media)
        case Detokenize(_, tokens, special):
            if tokens and max(tokens) >= MODEL.n_vocab:
                raise bad_field("tokens", f"token id {max(tokens)} is not in the vocabulary (0 to {MODEL.n_vocab - 1})")
            hidden = () if special else (MODEL.bos_id, MODEL.eos_id)
            return ["" if token in hidden else chr(token % 256) for token in tokens]
        case GetStats():
            return values
        case GetSlots():
            return [{"id": slot, "n_ctx": MODEL.n_ctx_seq, "is_processing": False} for slot in range(2)]
        case Embed(inputs=inputs, pooling=pooling):
            lengths = [sum(len(part) if isinstance(part, str) else 1 for part in parts) for parts in inputs]
            vectors = [[[3.0, 4.0]] * (length if pooling == "none" else 1) for length in lengths]
            return {"embeddings": vectors, "tokens": lengths}
        case Rerank(query=query, documents=documents):
            return {"scores": [float(document.count(query)) for document in documents], "tokens": [4] * len(documents)}
        case GetAdapters():
            return [{"id": 0, "path": "a.gguf", "scale": 1.0, "task_name": "", "prompt_prefix": ""}]
        case SetAdapters(_, scales):
            return [
                {"id": 0, "path": "a.gguf", "scale": dict(scales).get(0, 0.0), "task_name": "", "prompt_prefix": ""}
            ]
        case StateAction():
            return {"tokens": 5, "bytes": 100, "ms": 1.5}
        case ListRequests():
            return [DESCRIPTION | {"branches": [BRANCH]}]
        case GetRequest():
            return DESCRIPTION | {"branches": [BRANCH | {"text": " there", "tokens": [5]}]}
        case AddBranches(branches=branches):
            return {"indices": [1 + i for i in range(len(branches))], "seeds": [8 + i for i in range(len(branches))]}
        case ChangeBranch(index=0) | StopBranches(index=0):
            return BRANCH
        case EndReasoning(index=index):
            return {"branches": [0 if index is None else index]}
        case StopBranches(target=target, index=None):
            return {"id": target, "state": "ended"}
        case ChangeBranch(index=index) | StopBranches(index=index):
            raise NotFound(f"the request has no branch {index}; it has 1, from 0 on")
        case Attach():
            raise NotFound("no request with this id is running")


class ScriptedClient(EngineClient):
    """An EngineClient that plays `script` for every Generate, one frame per list that it yields.

    `answers` answers all other commands; it may raise an SRBError as a refusal. `sent` has all commands.
    """

    def __init__(self, settings: Settings, script: Script = count_to_three) -> None:
        super().__init__(settings)
        self.sent: list[Any] = []
        self.script = script
        self.answers: Callable[[Ask | Attach, dict[str, float]], Any] = answer_simply
        self.values = {
            "n_decode_total": 7.0, "prompt_tokens_total": 100.0, "kv_cells": 48.0, "kv_cells_used": 12.0,
            "branches_running": 3.0, "branches_room": 5.0, "sequences": 8.0, "spec_decode_num_drafts_total": 0.0,
            "spec_decode_num_draft_tokens_total": 0.0, "spec_decode_num_accepted_tokens_total": 0.0,
        }  # fmt: skip

    @property
    def cancelled(self) -> list[str]:
        """The ids of the cancelled requests, in order."""
        return [command.request_id for command in self.sent if isinstance(command, Cancel)]

    def engine_status(self) -> dict[str, Any]:
        return {"state": "running", "restarts": 0}

    def start(self) -> None:
        if self._connection is None:
            connection: Any = _ScriptedConnection(self)
            self._deliver(connection, [Ready(MODEL.as_dict())])

    def receive(self, events: list[Event]) -> None:
        """Deliver events like a frame from the engine."""
        assert self._connection is not None
        self._deliver(self._connection, events)

    def lose_engine(self) -> None:
        """End every request like a loss of the connection."""
        self._fail_all()


class _ScriptedConnection:
    def __init__(self, client: ScriptedClient) -> None:
        self._client = client

    def send(self, payload: bytes) -> None:
        for command in decode(payload):
            self._client.sent.append(command)
            if isinstance(command, Generate):
                gevent.spawn(self._play, command)
            elif not isinstance(command, Cancel):
                gevent.spawn(self._answer, command)

    def _answer(self, command: Ask | Attach) -> None:
        event: Event
        try:
            event = Reply(command.request_id, self._client.answers(command, self._client.values))
        except SRBError as error:
            event = Rejected.of(command.request_id, error)
        self._client.receive([event])

    def _play(self, command: Generate) -> None:
        for events in self._client.script(command):
            if command.request_id in self._client.cancelled:
                self._client.receive([Failed(command.request_id, "cancelled", "the request was cancelled")])
                return
            self._client.receive(events)
            gevent.sleep(0)
