"""The engine: requests go in, events come out, with one llama.cpp decode per step.

`step` reads as the definition of continuous batching: admit, schedule, decode, commit, start. The core does no I/O and
has no clock of its own. The decode thread calls it; `prepare`, `tokenize` and `detokenize` are safe from any thread.
"""

from base64 import b64encode
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from srb.engine.branches import Branches
from srb.engine.decoding import Counters, Decoding
from srb.engine.drafting import Drafter, DraftModel
from srb.engine.embedding import EmbeddingQueue
from srb.engine.head_drafting import HeadDrafter
from srb.engine.lifecycle import Lifecycle, Prepared
from srb.engine.model import Model, StateStore, TextStore
from srb.engine.named_states import NamedStates
from srb.engine.open_requests import OpenRequests
from srb.engine.pace import Pace
from srb.engine.preparing import Preparer
from srb.engine.prompts import Prompts
from srb.engine.request import Branch, BranchState, Prefix, Request
from srb.engine.scheduler import UNREAD_EVERY, Chunk, Scheduler, StepPlan
from srb.engine.slots import Slots
from srb.engine.speculation import Speculation
from srb.engine.state_actions import StateActions
from srb.engine.steering import Steering
from srb.engine.tree.checkpoints import AUTO
from srb.engine.tree.prefix_tree import PrefixTree
from srb.engine.tree.residency import Residency
from srb.errors import NotSupported, SRBError
from srb.progress import IsWanted, always
from srb.wire import commands
from srb.wire.events import Event, FinishReason
from srb.wire.step_seconds import StepSeconds

_UNKNOWN_PACE = 1 / 50  # seconds for a token of a prompt, before any was computed: a slow machine's
STORE_SHARE = 1 / 100  # of the time, for copies of texts that stay in the KV store, while requests run
RESTORE_SHARE = 1 / 4  # of a step's time, for a text that is restored beside branches that are read
_FETCH_SECONDS = 0.005  # that a step without work waits for the disk: new commands are looked at between
MAX_TOLD = 8  # chunks of a plan in a line of the log
_SHARE_OF_DRAFTS = 4  # a draft model gets 1/4 of the host memory: it takes less for a token, and needs the same texts


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions:
    """Limits and sizes of an engine."""

    max_queue: int  # requests that may wait besides those that have room
    max_running: int = 0  # requests that run at once; 0: as many as there is room for
    queue_timeout: float = 0.0  # seconds that a request may wait before it fails; 0: no limit
    request_timeout: float = 0.0  # seconds after which a request ends with the text it has; 0: no limit
    cache_cells: int = 0  # idle cells that the prefix tree keeps in the KV store
    cache_bytes: int = 0  # host memory for parked texts; a quarter of it is for the draft model's, if there is one
    step_seconds: float = 0.0  # of a step with prompts beside branches that are read; 0: as long as it takes
    checkpoint_every: int = AUTO  # tokens between the checkpoints of memory that keeps states; see `Spacing`
    max_draft: int = 0  # tokens that are drafted for a branch in one step; 0: no speculation
    looks_up: bool = True  # drafts come from the text itself, where it has some


class Engine:
    """Continuous batching of requests with many branches each, over one Model."""

    def __init__(
        self,
        model: Model,
        options: EngineOptions,
        *,
        clock: Callable[[], float],
        wall_clock: Callable[[], float] | None = None,
        states: StateStore | None = None,
        draft_model: Model | None = None,
        texts: TextStore | None = None,
    ) -> None:
        """Serve `model` until `close`.

        `clock` returns seconds and never goes back.
        `wall_clock` returns the UNIX time, by which replicas of a cluster tell whose text of a slot is newer; None: `clock`.
        `states` stores named states beyond the server's life; None: nowhere.
        `texts` keeps all texts of the tree beyond the server's life; None: in memory only.
        `draft_model` drafts tokens where the text itself has no draft; without one the model's own head does, if it has one.
        """
        self.model = model
        self._clock = clock
        # Called by other threads when `collect` has events.
        self.wake: Callable[[], None] = lambda: None
        # Takes a step's events that are ready while a device computes; None: `step` returns all of them.
        self.emit: Callable[[list[Event]], None] | None = None

        # Texts: the tree of them, their room in the KV store and in host memory, and those with a name.
        cache_bytes = options.cache_bytes
        drafts: Drafter | None = HeadDrafter(model, model.head) if model.head is not None else None
        if draft_model is not None:
            for_drafts = cache_bytes // _SHARE_OF_DRAFTS
            cache_bytes -= for_drafts
            drafts = DraftModel(draft_model, options.cache_cells, for_drafts)
        self._residency = Residency(model, options.cache_cells, cache_bytes, options.checkpoint_every, texts)
        stored = self._residency.stored
        stored.wake = stored.taking.wake = lambda: self.wake()
        stored.taking.clock, stored.taking.seconds_of = clock, self._prompt_seconds
        self._tree = PrefixTree(model, self._residency)
        self._named = named = NamedStates(self._tree, self._residency, states)

        # Requests and jobs: any thread prepares them, the decode thread keeps them until their last event.
        self._preparer = Preparer(model, states, named.is_in_memory, clock)
        self._requests = OpenRequests(options.queue_timeout, options.request_timeout)
        self._embeddings = EmbeddingQueue(model)
        self._slots = Slots(model.n_seq_max, options.max_running)
        self._state_actions = StateActions(named, self._slots, clock, wall_clock or clock, self._end_save)

        # A step: which prompts and branches are computed, how, and what comes of their rows.
        self._scheduler = Scheduler(model, self._tree, self._residency, options.max_running)
        forget_prompt, forget = (drafts.forget_prompt, drafts.forget) if drafts else (_ignore, _ignore)
        self._most_seconds = options.step_seconds  # 0: any
        self._seconds_saved = 0.0  # by the store
        self._next_copy = 0.0  # when a text may be copied for it beside requests
        self._pace, self._embedding_pace = Pace(options.step_seconds), Pace(options.step_seconds)
        self._prompts = Prompts(model, self._tree, self._residency, named, clock, note_release=forget_prompt)
        self._branches = Branches(
            model,
            self._tree,
            self._prompts,
            clock,
            count_special=self._preparer.count_special,
            note_end=self._state_actions.note_end,
            note_stop=forget,
        )
        self._steering = Steering(model, self._preparer, clock)
        self._speculation = Speculation(
            model,
            self._residency,
            self._branches,
            clock,
            drafts,
            max_draft=options.max_draft,
            looks_up=options.looks_up,
            step_seconds=options.step_seconds,
        )
        self._life = Lifecycle(
            requests=self._requests,
            embeddings=self._embeddings,
            branches=self._branches,
            prompts=self._prompts,
            steering=self._steering,
            scheduler=self._scheduler,
            slots=self._slots,
            state_actions=self._state_actions,
            max_queue=options.max_queue,
            clock=clock,
        )
        self._counters = Counters()
        self._step_seconds = StepSeconds()
        self._decoding = Decoding(
            model=model,
            requests=self._requests,
            tree=self._tree,
            residency=self._residency,
            branches=self._branches,
            counters=self._counters,
            commit=self._commit,
            fail=self._life.fail,
            clock=clock,
        )

        self._has_skipped_decode = False  # in the previous step
        self._num_steps = 0
        self._plan = StepPlan()  # of the step that runs
        self.step_tokens = 0  # of the latest step

    # ---- any thread

    def has_grammar(self, command: commands.Submit | commands.Text) -> bool:
        """Whether a command has a grammar to compile, or to go on in from a fork's beginning. Raise NotFound."""
        match command:
            case commands.Generate(branches=specs):
                return any(spec.has_grammar for spec in specs)
            case commands.AddBranches(target=target, owner=owner, branches=entries):
                own = any(not {"grammar", "json_schema"}.isdisjoint(dict(sampling)) for *_, sampling in entries)
                return own or any(branch.spec.has_grammar for branch in self.find(target, owner).branches)
        return False

    def prepare(self, command: commands.Submit, is_wanted: IsWanted = always) -> Prepared:
        """Tokenize and check a command, and build its samplers. The caller must submit or close the result.

        No further picture is encoded for a command that `is_wanted` no more.
        """
        match command:
            case commands.Generate():
                return self._preparer.request(command, is_wanted)
            case commands.Embed() | commands.Rerank():
                return self._preparer.embedding(command)
            case commands.StateAction():
                return self._preparer.state_job(command)
            case commands.AddBranches():
                return self._steering.growth(command, self.find(command.target, command.owner))

    def tokenize(
        self, parts: Sequence[str | int], add_special: bool, parse_special: bool, field: str = "prompt"
    ) -> list[int]:
        """Return the tokens of strings and ids, as `Preparer.tokenize` does."""
        return self._preparer.tokenize(parts, add_special, parse_special, field)

    def detokenize(self, tokens: Sequence[int], special: bool = True) -> list[bytes]:
        """Return each token's bytes, as `Preparer.detokenize` does."""
        return self._preparer.detokenize(tokens, special)

    def count_tokens(self, command: commands.CountTokens) -> int:
        """Return the number of a prompt's tokens, as `Preparer.count_tokens` does."""
        return self._preparer.count_tokens(command)

    def knows_media(self, command: commands.Generate) -> bool:
        """Whether no medium of a request has to be encoded. Raise InvalidRequest or NotSupported."""
        return self._preparer.knows_media(command)

    def find(self, request_id: str, owner: str) -> Request:
        """Return a request; an empty `owner` may be anybody. Raise NotFound."""
        return self._requests.find(request_id, owner)

    def _end_save(self, request_id: str, size: int, error: SRBError | None) -> None:
        self._life.saves.append((request_id, size, error))
        self.wake()

    # ---- the decode thread

    def submit(self, request: Prepared) -> list[Event]:
        """Queue a request; return Accepted or Rejected, as `Lifecycle.submit` does."""
        if isinstance(request, Request) and request.saved is not None:
            self._named.adopt(request.saved)
            request.saved = None
        return self._life.submit(request)

    def collect(self) -> list[Event]:
        """Return the replies to saves that other threads have ended, and the ends of rests that are over."""
        self._residency.stored.collect()
        self._named.collect()
        return self._life.collect()

    def control(self, command: commands.StopBranches | commands.EndReasoning | commands.ChangeBranch) -> list[Event]:
        """Stop or change branches, or end their reasoning, as `Lifecycle.control` does."""
        return self._life.control(command)

    def attach(self, request_id: str, owner: str) -> dict[str, Any]:
        """Note that a request has a reader; return its description with all texts. Raise NotFound."""
        return self._life.attach(request_id, owner)

    def leave(self, request_id: str) -> list[Event]:
        """Note that nobody reads a request any more: it lingers, or is cancelled."""
        return self._life.leave(request_id)

    def cancel(self, request_id: str, index: int | None = None) -> list[Event]:
        """Cancel a request, or the branch `index` of it; unknown ids are ignored."""
        return self._life.cancel(request_id, index)

    def fail_by_id(self, request_id: str, error: SRBError) -> list[Event]:
        """Fail a request or job with `error`; nothing happens if it has ended."""
        return self._life.fail_by_id(request_id, error)

    def fail_all(self, error: SRBError) -> list[Event]:
        """Fail every request and job with `error`."""
        return self._life.fail_all(error)

    @property
    def seconds_to_rest(self) -> float | None:
        """Seconds until the first idle request ends; None if none is idle."""
        return self._requests.seconds_to_rest(self._clock())

    @property
    def has_work(self) -> bool:
        needs_trim = self._residency.needs_trim or self._speculation.needs_trim
        return bool(self._requests.active or self._embeddings) or needs_trim or self._residency.stored.may_lack

    def step(self) -> list[Event]:
        """Compute one batch and return its events. Raise EngineFault if the context is beyond repair.

        Whatever it raises has a note, for the log, of what the step was about to compute.
        """
        try:
            return self._step()
        except Exception as error:
            error.add_note(self._situation())
            raise
        finally:
            self._plan = StepPlan()  # it would keep ended branches, whose grammars may have 100 MB, until the next one

    def _situation(self) -> str:
        """Return the plan of the step that runs and the engine's counts, in one line, without a text."""
        requests, room = self._requests, self._residency
        of = ", ".join(f"{chunk.count} of {chunk.span!r}" for chunk in self._plan.chunks[:MAX_TOLD])
        more = f" and {rest} more" if (rest := len(self._plan.chunks) - MAX_TOLD) > 0 else ""
        return (
            f"step {self._num_steps} of {self._plan.num_tokens} tokens: {of or 'nothing'}{more}; "
            f"{len(requests.active)} requests, {len(requests.idle)} at rest; {room.used_cells} of {self.model.n_ctx} cells "
            f"used, {room.available_cells} to be had, {room.available_ids} of {self.model.n_seq_max} sequences"
        )

    def find_leaks(self) -> list[str]:
        """Return what is still held although no request is open, a line each: sums alone, no node is visited."""
        return [] if self._requests.active or self._embeddings else self._residency.find_leaks()

    def _step(self) -> list[Event]:
        began = self._branches.now = self._clock()
        events: list[Event] = []
        self._life.expire(began, events)  # before `_admit`: those that wait get what is freed
        self._preempt()
        if self._branches.go_on(events):  # before the plan, which has no chunk for a branch that waits for its grammar
            self._life.finish_ended(events)
        # A request that has just come, and finds no room, waits for no step of those who have more than their share.
        if not (self._admit(events, began) or (self._yield_room() and self._admit(events, began))):
            self._residency.trim()
            self._speculation.trim()
            if self._residency.stored.may_lack and (not self._requests.active or began >= self._next_copy):
                self._store_some()
        elif self._start_branches(events) and not self._has_skipped_decode:
            # Their prompt is cached: send the first tokens before the next decode, but never twice in a row.
            self._has_skipped_decode = True
            self._life.finish_ended(events)
            return events
        self._has_skipped_decode = False
        self._num_steps += 1
        planned = self._clock()
        stored = self._residency.stored
        stored.collect()
        plan = self._plan = self._scheduler.schedule(
            self._life.runnable(),
            with_unread=self._num_steps % UNREAD_EVERY == 0,
            pace=self._pace,
            spent=planned - began,
        )
        more = self._embeddings.next_tokens + self._speculation.most_tokens
        self.step_tokens = plan.num_tokens + more  # told to the heartbeat before anything takes its time
        self._speculation.add_drafts(plan)
        self.step_tokens = plan.num_tokens + more
        if not self.step_tokens and (stored.is_fetching or stored.may_lack):
            stored.wait(_FETCH_SECONDS)
        self._make_room(plan, events)  # after the drafts: they count
        if len(plan.weights) > 1:
            for chunk in plan.chunks:
                if isinstance(chunk.span, Branch):
                    chunk.span.last_step = self._num_steps
        self._decoding.decode(plan, events)
        self._start_branches(events)
        self._life.finish_ended(events)
        now = self._clock()
        self._account(plan, now - began, now - planned)
        return events + self._embed(is_beside=any(chunk.is_newest for chunk in plan.chunks))

    def flush(self) -> None:
        """Carry out what waited until the events were sent: edits of KV stores, forks of new branches above all."""
        self._named.collect()
        self.model.flush()
        self._speculation.flush()

    def serve_query(self, command: commands.Ask | commands.Attach) -> Any:
        """Return a query's value, as the command's docstring describes it. Raise NotSupported for other commands."""
        match command:
            case commands.GetStats():
                return self.stats()
            case commands.GetSlots():
                return self._slots.show(self.model, self._requests.active.values())
            case commands.GetSlotTime(_, slot):
                return self._state_actions.since(slot)
            case commands.ListRequests(_, owner, prefix):
                own = (each for each in self._requests if each.owner == owner or (prefix and not owner))
                return [
                    self._steering.describe(each, texts=False) for each in own if each.request_id.startswith(prefix)
                ]
            case commands.GetRequest(_, target, owner):
                return self._steering.describe(self.find(target, owner))
            case commands.GetAdapters():
                return self.adapters()
            case commands.ForgetTexts():
                return {"tokens": self._tree.forget(command.has)}
            case commands.GetTexts(_, story, no_longer):
                return self._given(story, no_longer)
            case commands.TakeTexts(_, stories, door, is_coming):
                return self._residency.stored.take(stories, door, is_coming)
            case commands.SetAdapters(_, scales):
                self._preparer.lora = self._preparer.scales(scales)
                return self.adapters()
            case _:
                raise NotSupported(f"the engine does not answer {type(command).__name__}")

    def adapters(self) -> list[dict[str, Any]]:
        """Return the LoRA adapters, each with the scale that future requests get unless they name another."""
        scaled = zip(self.model.adapters, self._preparer.lora, strict=True)
        return [{"id": place} | asdict(adapter) | {"scale": scale} for place, (adapter, scale) in enumerate(scaled)]

    def stats(self) -> dict[str, float]:
        """Return counters (`…_total`) and gauges by name."""
        branches = [branch for request in self._requests.active.values() for branch in request.branches]
        waiting = self._requests.num_waiting
        return asdict(self._counters) | {
            "requests_total": self._life.num_requests,
            "requests_processing": len(self._requests.active) - waiting,
            "requests_deferred": waiting,
            "requests_resting": len(self._requests.idle),
            "requests_last": sum(request.comes_last for request in self._requests.active.values()),
            "branches_running": sum(branch.state is BranchState.RUNNING for branch in branches),
            "branches_waiting": sum(branch.state in (BranchState.WAITING, BranchState.HELD) for branch in branches),
            "branches_room": self._scheduler.room(list(self._requests.active.values())),
            "kv_cells": self.model.n_ctx,
            "sequences": self.model.n_seq_max,
            "threads": self.model.threads,
            "slot_text_tokens": self._state_actions.slot_tokens,
            "embedding_tokens_total": self._embeddings.tokens_total,
            **self._step_seconds.stats(),
            **asdict(self._branches.counters),
            **self._speculation.stats(),
            **self._prompts.stats(),
            **self._preparer.media.stats(),
            **(found := self._residency.stats()),
            "stored_seconds_saved_total": self._seconds_of(int(found["stored_tokens_read_total"])),
        }

    def _seconds_of(self, saved_tokens: int) -> float:
        """Return about how long so many saved prompt tokens would have taken, by those that were computed; it only grows."""
        seconds = self._prompt_seconds(saved_tokens) if self._prompts.tokens_total else 0.0
        self._seconds_saved = max(self._seconds_saved, seconds)
        return self._seconds_saved

    def _prompt_seconds(self, tokens: int) -> float:
        """Return about how long so many prompt tokens take, by those that were computed."""
        computed = self._prompts.tokens_total
        return tokens * (self._counters.prompt_seconds_total / computed if computed else _UNKNOWN_PACE)

    def _given(self, story: str, no_longer: bool) -> dict[str, Any]:
        """Return the value of GetTexts. Raise NotSupported."""
        stored = self._residency.stored
        if stored.store is None or not stored.keeps_all:
            raise NotSupported("it keeps no texts (cache_disk)")
        self._residency.park_all()
        if (stored.is_busy or self._residency.needs_trim) and not no_longer:
            return {"entries": None}
        return {"entries": [b64encode(entry).decode() for entry in stored.given(story)], **stored.store.place}

    def check_invariants(self) -> None:
        """Assert the rules that hold between two steps. Visits every node: for tests, not for a step."""
        branches = [branch for request in self._requests.active.values() for branch in request.branches]
        prompts = [node for request in self._requests.active.values() if (node := request.prefix.node) is not None]
        leases = [branch.lease for branch in branches if branch.lease is not None]
        self._tree.check_invariants(prompts, leases, sum(branch.own_cells for branch in branches))
        for branch in branches:
            if branch.lease is not None:
                assert branch.request.prefix.node in branch.lease.node.path(), f"{branch!r} is not below its prefix"
        self._requests.check_invariants()
        self._speculation.check_invariants()
        for branch in branches:
            assert (branch.state is BranchState.RUNNING) == (branch.seq_id is not None), repr(branch)
            has_work = branch.pending or self._branches.is_deferred(branch)
            assert branch.state is not BranchState.RUNNING or has_work, f"{branch!r} has nothing to compute"
        for request in self._requests.active.values():
            held = request.words.next_held(request.branches) if request.words is not None else None
            assert held is None, f"{request!r} holds a branch in vain"

    def store_texts(self, seconds: float) -> None:
        """Park all idle texts, and wait until the store has them, so many seconds at most. Nothing runs any more."""
        deadline, stored = self._clock() + seconds, self._residency.stored
        if stored.store is None:
            return
        while self._residency.park_one() and self._clock() < deadline:
            stored.collect()
        for node in self._tree.nodes():  # those that could not be written when they were parked: the disk was full
            stored.offer(node)
        while (stored.is_busy or self._named.is_busy) and self._clock() < deadline:
            stored.collect()
            self._named.collect()
            stored.wait(_FETCH_SECONDS)

    def _store_some(self) -> None:
        """Copy a part of a text for the store. Beside requests this takes a small share of the time.

        Where somebody always writes nothing would be stored otherwise, and a crash would take all texts.
        """
        began = self._clock()
        self._residency.store_some(
            node for request in self._requests.active.values() if (node := request.prefix.node) is not None
        )
        now = self._clock()
        self._next_copy = now + (now - began) / STORE_SHARE

    def close(self) -> None:
        """Free every sampler and the model."""
        for request in self._requests:
            request.close()
        self._requests.clear()
        self._speculation.close()
        self.model.close()

    # ---- step

    def _preempt(self) -> None:
        """Take back cells and sequences that others need, from requests without a reader and people with many branches.

        Their tokens stay in the tree.
        """
        for request in self._scheduler.to_preempt(list(self._requests.active.values())):
            for branch in request.in_state(BranchState.RUNNING):
                self._branches.pause(branch)
            self._prompts.release(request.prefix)
        self._yield_room()

    def _yield_room(self) -> bool:
        """Pause branches of people with many for those who lacked room at the latest look; return whether there were any."""
        branches = self._scheduler.to_yield(self._life.runnable())
        for branch in branches:
            self._branches.pause(branch)
        for request in {branch.request: None for branch in branches}:
            if not request.in_state(BranchState.RUNNING):  # else a sequence is held back for it, and nothing is won
                self._prompts.release(request.prefix)
        return bool(branches)

    def _is_late(self, began: float, request: Request) -> bool:
        """Whether beginning requests has had a step's time since `began`, while others than `request` write and are read.

        A parked or saved text is restored by one copy of each node, and a first token takes all logits: of many, the others
        come in the next steps.
        """
        return self._has_lasted(began, 1.0) and self._is_beside(request)

    def _has_lasted(self, began: float, share: float) -> bool:
        """Whether a share of a step's time is over since `began`."""
        return self._most_seconds > 0 and self._clock() - began > share * self._most_seconds

    def _is_beside(self, request: Request) -> bool:
        """Whether others than `request` write and are read."""
        others = (each for each in self._requests.active.values() if each is not request and not each.is_unread)
        return any(branch.length for other in others for branch in other.in_state(BranchState.RUNNING))

    def _admit(self, events: list[Event], began_at: float) -> bool:
        """Begin the waiting requests that have room, one at least, as long as the step has time; return whether any was.

        A long text that is parked is restored in several steps beside others, before its request begins.
        """
        began = False
        for request, match in self._scheduler.to_begin(self._life.runnable()):
            began = True
            is_late = partial(self._has_lasted, began_at, RESTORE_SHARE)
            is_shared = self._most_seconds > 0 and self._is_beside(request)
            if is_shared and match is not None and not self._residency.restore_part(match, is_late):
                return True
            if request.is_waiting:
                self._life.note_begun()
                self._slots.assign(request, (other for other in self._requests.active.values() if other.takes_place))
            self._prompts.begin(request, match, events)
            if self._is_late(began_at, request):
                break
        self._residency.let_go()
        return began

    def _make_room(self, plan: StepPlan, events: list[Event]) -> None:
        for branch in plan.pauses:
            self._branches.pause(branch)
        for request in plan.drops:
            self._prompts.release(request.prefix)
        for branch in plan.ends:
            self._branches.end(branch, FinishReason.LIMIT, events, truncated=True)
        has_room = self._residency.make_room(plan.num_tokens, 0)
        assert has_room, "the plan needs more cells than can be freed"

    def _commit(self, chunks: list[Chunk], rows: list[int], events: list[Event]) -> None:
        """Record the computed tokens, and sample the next token of every span that is fully computed."""
        done: list[tuple[Prefix | Branch, int, Sequence[int]]] = []
        for chunk, row in zip(chunks, rows, strict=True):  # all of them first, since ending a branch counts free cells
            span = chunk.span
            if chunk.completes:
                done.append((span, row, chunk.draft))
            if isinstance(span, Branch):
                if span.healing is not None and span.healing.ending is not None:
                    self._branches.note_rows(span, chunk.count, row)
                if not span.length:
                    span.num_decoded += chunk.count
                self._residency.record_branch(chunk.num_tokens, span.start + span.num_computed)
                span.num_computed, span.num_unverified = span.num_computed + chunk.count, len(chunk.draft)
                if self.model.has_states:
                    span.num_again = 0
                    if not chunk.draft:
                        self._branches.note_computed(span, chunk.count)
            else:
                self._prompts.advance(span, chunk.count, row, events)
        if self._branches.read(events):  # while the device computes; branches may have ended
            done = [each for each in done if isinstance(each[0], Prefix) or each[0].is_active]
            if self.emit is not None:
                self.emit(events)
                events.clear()
        if self.model.samples_in_threads(len(done)):
            self.model.sample_ahead(
                [(span.sampler, row) for span, row, _ in done if isinstance(span, Branch) and span.is_free]
            )
        for span, row, draft in done:
            if draft and isinstance(span, Branch):
                self._speculation.draw(span, draft, row, events)
            elif isinstance(span, Branch):
                self._branches.sample(span, row, events)
            else:
                self._prompts.complete(span, row, events)

    def _start_branches(self, events: list[Event]) -> bool:
        """Start branches while there is room, one at least, as long as a step has time; return whether any was.

        Each samples its own first token.
        """
        began, began_at = False, self._clock()
        self._life.explore(events)
        for branch in self._scheduler.to_start(self._life.runnable()):
            began = True
            self._branches.start(branch, events)
            if self._is_late(began_at, branch.request):
                return True
        if self._life.explore(events):  # from first tokens
            return self._start_branches(events) or began
        return began

    def _embed(self, *, is_beside: bool) -> list[Event]:
        """Compute inputs of embeddings, beside branches that write no more than a step has time for."""
        if not self._embeddings:
            return []
        began, before = self._clock(), self._embeddings.tokens_total
        events = self._embeddings.step(self._embedding_pace.most_prompt(0) if is_beside else None)
        self._embedding_pace.note(0, self._embeddings.tokens_total - before, self._clock() - began)
        return events

    def _account(self, plan: StepPlan, seconds: float, since_plan: float) -> None:
        """Count a step's time, and divide it between prefill and decode in proportion to their tokens.

        The time that beginning requests took before the step was planned says nothing of the pace of prompts.
        """
        self._speculation.note(plan, seconds)
        newest = sum(chunk.num_tokens for chunk in plan.chunks if chunk.is_newest)
        num_others = plan.num_tokens - newest
        self._pace.note(newest, num_others, since_plan, plan.sum_of_places // max(1, num_others))
        self._pace.note_served(plan.took, num_others, plan.weights, since_plan)
        total, prompt = plan.num_tokens, plan.num_prompt_tokens
        if total:
            self._step_seconds.observe(seconds)
            self._counters.prompt_seconds_total += seconds * prompt / total
            self._counters.tokens_predicted_seconds_total += seconds * (total - prompt) / total


def _ignore(*_: object) -> None:
    """Note nothing: without a draft model nobody follows the texts."""
