"""The decode of a step: its chunks in one batch, or in several where llama.cpp refuses it, and a test after a fatal one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from srb.engine.branches import Branches
from srb.engine.model import Batch, DecodeStatus, LoraScales, Model
from srb.engine.open_requests import OpenRequests
from srb.engine.request import Branch, Prefix, Request
from srb.engine.scheduler import Chunk, StepPlan
from srb.engine.speculation import without_drafts
from srb.engine.tree.prefix_tree import PrefixTree
from srb.engine.tree.residency import Residency
from srb.errors import DecodeFailed, SRBError
from srb.wire.events import Event, FinishReason

FATAL_WINDOW = 60.0  # seconds; a second fatal decode within them is no accident: the context is not trusted any more

Commit = Callable[[list[Chunk], list[int], list[Event]], None]


class EngineFault(Exception):
    """llama.cpp's context is broken beyond repair: the process should exit and be restarted."""


@dataclass(slots=True)
class Counters:
    """Counters of decodes and seconds since the start, for /metrics."""

    prompt_seconds_total: float = 0.0
    tokens_predicted_seconds_total: float = 0.0
    n_decode_total: int = 0
    busy_slots_total: int = 0  # prompts and branches in each decode
    decode_failures_total: int = 0


@dataclass(slots=True, kw_only=True, eq=False)
class Decoding:
    """The decodes of one model's context."""

    model: Model
    requests: OpenRequests
    tree: PrefixTree
    residency: Residency
    branches: Branches
    counters: Counters
    commit: Commit  # takes computed chunks, with the row of each one's last logits
    fail: Callable[[Request, SRBError], list[Event]]  # ends a request with an error
    clock: Callable[[], float]  # returns seconds
    _last_fatal: float = field(default=float("-inf"), init=False)

    def decode(self, plan: StepPlan, events: list[Event]) -> None:
        """Compute and commit the chunks of a plan, in one decode or several."""
        groups = _groups(plan.chunks) if self.model.adapters or self.model.encoder else [plan.chunks]
        if len(groups) == 1:
            self._compute(groups[0], events)
            return
        for chunks in groups:
            alive = [chunk for chunk in chunks if self._is_alive(chunk)]
            # Branches that ended in the previous decode may occupy cells that were planned for this one.
            self.residency.make_room(sum(chunk.num_tokens for chunk in alive), 0)
            self._compute(alive, events)

    def _compute(self, chunks: list[Chunk], events: list[Event], parked: int = 0) -> None:
        """Decode `chunks` in one batch and commit them; retry with less if llama.cpp refuses the batch.

        `parked` idle nodes have been parked for this batch already.
        """
        if not chunks:
            return
        if self.model.has_states:
            chunks = [self._with_copy(chunk) for chunk in chunks]
        batch = Batch(chunks[0].span.request.lora)
        rows = [chunk.add_to(batch) for chunk in chunks]
        if self.model.control_vectors:
            spans = (chunk.span for chunk in chunks)
            batch.moods = {span.seq_id: span.mood for span in spans if span.mood and span.seq_id is not None}
        self.counters.n_decode_total += 1
        self.counters.busy_slots_total += len(chunks)
        status = self.model.decode(batch)
        if status is not DecodeStatus.OK:
            for chunk in chunks:
                if isinstance(chunk.span, Branch):
                    self.branches.drop_ahead(chunk.span)
        match status:
            case DecodeStatus.OK:
                self.branches.now = self.clock()
                self.commit(chunks, rows, events)
            case DecodeStatus.NO_ROOM:
                self._compute_less(chunks, events, parked)
            case DecodeStatus.INVALID:
                self._compute_apart(chunks, events)
            case DecodeStatus.FATAL:
                self._recover(events)

    def _with_copy(self, chunk: Chunk) -> Chunk:
        """Return a chunk whose branch has a copy of its state if there is a draft; without the draft if there is no room."""
        if not chunk.draft:
            return chunk
        assert isinstance(chunk.span, Branch)
        return chunk if self.branches.copy_state(chunk.span) else Chunk(chunk.span, chunk.count)

    def _compute_less(self, chunks: list[Chunk], events: list[Event], parked: int) -> None:
        """Retry a batch that found no cells: without drafts, without prompts, then with fewer branches, tokens, nodes."""
        if plain := without_drafts(chunks):
            self._compute(plain, events, parked)
            return
        decodes = [chunk for chunk in chunks if chunk.is_newest]
        first = chunks[0]
        # Prompts wait: they can come in smaller chunks, a running branch cannot.
        if decodes and len(decodes) < len(chunks):
            self._compute(decodes, events)
        elif len(decodes) > 1:
            kept = len(decodes) // 2  # the first half; pausing one at a time would be a refused decode for each
            for chunk in decodes[kept:]:
                assert isinstance(chunk.span, Branch)
                self.branches.pause(chunk.span)
            self._compute(decodes[:kept], events)
        elif len(chunks) > 1 or first.can_be_less:
            count = max(1, first.count // 2) if first.can_be_less else first.count
            self._compute([Chunk(first.span, count)], events)
        elif more := self.residency.park_some(parked + 1):  # twice as many each time, so that retries are few
            self._compute(chunks, events, parked + more)
        elif isinstance(first.span, Branch):
            self.branches.end(first.span, FinishReason.LIMIT, events, truncated=True)
        else:
            events += self.fail(first.span.request, DecodeFailed("the KV store has no room for this prompt"))

    def _compute_apart(self, chunks: list[Chunk], events: list[Event]) -> None:
        """Compute each request's chunks apart after an invalid batch, so that only the request at fault fails."""
        if plain := without_drafts(chunks):
            self._compute(plain, events)
            return
        self.counters.decode_failures_total += 1
        by_request: dict[str, list[Chunk]] = {}
        for chunk in chunks:
            by_request.setdefault(chunk.span.request.request_id, []).append(chunk)
        if len(by_request) == 1:
            events += self.fail(chunks[0].span.request, DecodeFailed("llama.cpp refused this request's tokens"))
            return
        for own in by_request.values():  # an earlier part may have been fatal and have ended all requests
            self._compute([chunk for chunk in own if self._is_alive(chunk)], events)

    def _is_alive(self, chunk: Chunk) -> bool:
        """Whether a chunk's request has not failed, and its branch not ended, since the chunk was planned."""
        span = chunk.span
        return span.request.request_id in self.requests.active and (isinstance(span, Prefix) or span.is_active)

    def _recover(self, events: list[Event]) -> None:
        """Recover from a fatal decode: fail running requests, empty the KV store, and test it with one token.

        Raise EngineFault if the test fails, or if the previous fatal decode was less than FATAL_WINDOW seconds ago.
        """
        self.counters.decode_failures_total += 1
        now = self.clock()
        repeated = now - self._last_fatal < FATAL_WINDOW
        self._last_fatal = now
        for request in list(self.requests.active.values()):
            if not request.is_waiting:
                events += self.fail(request, DecodeFailed("the computation failed; the request can be sent again"))
        self.tree.clear()  # whatever the cells hold now, no later text may be built on it
        if repeated:
            raise EngineFault("the computation failed twice within a minute")
        test = Batch()
        test.add(0, 0, [0], want_logits=True)
        if self.model.decode(test) is not DecodeStatus.OK:
            raise EngineFault("the computation failed, and so did a self-test after it")
        self.model.clear()


def _groups(chunks: list[Chunk]) -> list[list[Chunk]]:
    """Group chunks by decodes: a context has one set of LoRA scales at a time, and media are computed by themselves."""
    groups: dict[LoraScales, list[Chunk]] = {}
    media: list[list[Chunk]] = []
    for chunk in chunks:
        if chunk.media is not None:
            media.append([chunk])
        else:
            groups.setdefault(chunk.span.request.lora, []).append(chunk)
    return [*groups.values(), *media]
