"""Mailbox: the events of one HTTP call, between the greenlet that reads the engine's socket and the one that answers."""

import math
import time
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import gevent.event

from srb.errors import Unavailable
from srb.web.calls.answer_size import weight
from srb.web.calls.catching_up import Seen
from srb.wire.events import (
    TERMINAL,
    Accepted,
    Attached,
    BranchEnded,
    Delta,
    Done,
    Failed,
    PromptDone,
    PromptLogprobs,
    Rejected,
    Reply,
)

MAX_SEPARATE = 256  # unread events of a call that are kept apart; more deltas are merged by branch, or memory fills


class Mailbox:
    """The events of one HTTP call's requests, in order, until each request has had its terminal event.

    One greenlet takes them. By request id, `prompt_tokens` has the number from each Accepted, `prompts_done` each PromptDone
    with its time on time.monotonic()'s clock, `new_tokens` the number of tokens in Deltas; `ended` has the terminal events.
    If the reader is behind, unread deltas of a branch are merged, so that they take little more memory than their text.
    """

    def __init__(self, request_ids: Iterable[str], max_unread: float = math.inf) -> None:
        """Set `max_unread`, the limit of unread bytes at the next frame's arrival (see is_overfull)."""
        self.prompt_tokens: dict[str, int] = {}
        self.prompts_done: dict[str, tuple[PromptDone, float]] = {}
        self.new_tokens: defaultdict[str, int] = defaultdict(int)
        self.ended: list[Done | Reply | Failed | Rejected] = []
        self.snapshot: dict[str, Any] = {}  # the state of the request that a reader was attached to
        self.owner = ""  # of the request, for a reader that attaches to it
        self.seen: Seen | None = None  # set if the reader can be attached again after a bridge's death
        self.unread = 0  # approximate bytes of memory
        self._max_unread = max_unread
        self._requests = tuple(request_ids)
        self._events: list[Any] = []
        self._coalesce_at = MAX_SEPARATE
        self._wake = gevent.event.Event()

    def __repr__(self) -> str:
        state = f"{len(self.prompt_tokens)} accepted, {len(self.ended)} ended, {len(self._events)} events waiting"
        return f"<Mailbox of {len(self._requests)} requests: {state}>"

    @property
    def done(self) -> bool:
        """Whether every request has had its terminal event; events may still be unread."""
        return len(self.ended) == len(self._requests)

    @property
    def is_overfull(self) -> bool:
        """Whether more than max_unread bytes are unread; checked when a frame arrives, before its events are put."""
        return self.unread > self._max_unread

    @property
    def request_ids(self) -> tuple[str, ...]:
        return self._requests

    def attach(self, event: Attached) -> None:
        """Become the mailbox of a running request's later events."""
        self._requests, self.snapshot = (event.target,), event.value
        self.prompt_tokens[event.target] = event.value["prompt_tokens"]
        self._wake.set()

    def catch_up(self, value: dict[str, Any]) -> None:
        """Put the events that the reader lacks of its request, which `value` describes."""
        assert self.seen is not None
        for event in self.seen.lacking(value):
            self.put(event)

    def wait_attached(self, timeout: float) -> None:
        """Wait until the mailbox is attached. Raise the SRBError of a refusal, Unavailable after `timeout` seconds."""
        until = time.monotonic() + timeout
        while not self.snapshot:
            refusal = next((event for event in self.ended if isinstance(event, Rejected | Failed)), None)
            if refusal is not None:
                raise refusal.error
            if (left := until - time.monotonic()) <= 0:
                raise Unavailable("The engine did not answer in time")
            self._wake.clear()
            self._wake.wait(left)

    def put(self, event: Any) -> None:
        if self.seen is not None:
            self.seen.note(event)
        if type(event) is Accepted:
            self.prompt_tokens[event.request_id] = event.prompt_tokens
        else:
            self._events.append(event)
            if type(event) is Delta:
                self.new_tokens[event.request_id] += len(event.tokens)
            elif type(event) is PromptDone:
                self.prompts_done[event.request_id] = (event, time.monotonic())
            if type(event) is Delta or type(event) is PromptLogprobs:
                self.unread += weight(event)
                if len(self._events) > self._coalesce_at:
                    self._events = coalesced(self._events)
                    self._coalesce_at = max(MAX_SEPARATE, 2 * len(self._events))
            elif isinstance(event, TERMINAL):
                self.ended.append(event)
        self._wake.set()

    def take(self, timeout: float | None = None) -> list[Any]:
        """Wait for events and return all unread ones; an empty list means `timeout` seconds without any."""
        if not self._events:
            self._wake.clear()
            self._wake.wait(timeout)
        events, self._events = self._events, []
        self.unread, self._coalesce_at = 0, MAX_SEPARATE
        return events

    def wait_accepted(self) -> None:
        """Wait until the engine has accepted every request; raise the SRBError of the first refusal."""
        while len(self.prompt_tokens) < len(self._requests):
            refusal = next((event for event in self.ended if isinstance(event, Rejected | Failed)), None)
            if refusal is not None:
                raise refusal.error
            self._wake.clear()
            self._wake.wait()

    def wait_reply(self, timeout: float) -> Any:
        """Return the value of the one Reply; raise the SRBError of a refusal, Unavailable after `timeout` seconds."""
        reply = next(iter(self.take(timeout)), None)
        if isinstance(reply, Reply):
            return reply.value
        raise reply.error if reply else Unavailable("The engine did not answer in time")


def coalesced(events: list[Any]) -> list[Any]:
    """Return the events with the deltas of each branch merged into one, in the place of the first.

    Deltas with probabilities stay apart: clients read one token's of each event, and joining them saves no memory.
    """
    deltas: dict[tuple[str, int], list[Delta]] = {}
    kept: list[Any] = []
    for event in events:
        if type(event) is not Delta or event.probs is not None:
            kept.append(event)
            if type(event) is BranchEnded:  # the branch may go on later
                deltas.pop((event.request_id, event.index), None)
        elif (key := (event.request_id, event.index)) in deltas:
            deltas[key].append(event)
        else:
            deltas[key] = parts = [event]
            kept.append(parts)
    return [_joined(event) if type(event) is list else event for event in kept]


def _joined(parts: list[Delta]) -> Delta:
    first = parts[0]
    tokens = [token for part in parts for token in part.tokens]
    text = "".join(part.text for part in parts)
    return Delta(first.request_id, first.index, text, tokens, predicted_ms=parts[-1].predicted_ms)
