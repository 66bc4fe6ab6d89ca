"""The scheduler plans the next step. It changes nothing; the engine acts on its plan.

A request is *waiting* until it begins and *running* until its branches have all ended; one that lingers is then *idle*, and
no business of the scheduler.

First come the decode tokens of all running branches, then prompts in chunks, as far as batch and cells reach. Cells of
idle nodes count as free, since the tree parks those nodes when cells are needed. Requests that wait are served by the fair
shares of their owners (`shares.py`), and in the order of arrival among those of one owner. Under pressure the youngest of
the owner with the most branches give way: branches are paused, then prompts are dropped; both continue from the tokens
that the tree still has when there is room. The oldest request keeps what it has begun, so no request waits for ever. Where
the branches of one person hold all sequences or cells, some are paused for another person, too, as far as her share goes.

Each step is shared by time (`pace.py`): beside other people's, the branches of a person with many take part in some steps.

Requests that linger without a reader, or were sent with a `priority` above 0, come after all that are read, in everything:
they start last, take part in one of UNREAD_EVERY steps, and give back cells and sequences that a request with a reader waits
for. Alone they run as others do, in steps that are no longer than those beside branches: a reader may come.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from srb.engine.media import MediaRun
from srb.engine.model import Batch, Model
from srb.engine.pace import Pace
from srb.engine.request import Branch, BranchState, Prefix, Request
from srb.engine.shares import count_running, divide, in_order_of_claims, in_order_of_shares, next_to_begin, weights_of
from srb.engine.tree.match import Match
from srb.engine.tree.node import Node, NodeState
from srb.engine.tree.prefix_tree import PrefixTree
from srb.engine.tree.residency import Residency

_ANY_PACE = Pace(0.0)
MAX_PROMPT_LOGPROBS = 32  # prompt tokens per step; each takes a row of logits and 1 ms, for which all branches wait
UNREAD_EVERY = 8  # steps, while requests with a reader compute: the others then cost an eighth, and still go on
HEADROOM = 16  # free cells per running branch that a new branch must leave, so that branches do not pause each other


@dataclass(slots=True)
class Chunk:
    """`count` pending tokens of a prefix or branch, to compute in this step."""

    span: Prefix | Branch
    count: int
    draft: Sequence[int] = ()  # of a branch's newest token: tokens that may follow it, computed at once
    num_again: int = 0  # tokens before a branch's newest one: see there
    is_followed: bool = False  # whether a head is told what is computed again: it is told of wanted rows

    @property
    def completes(self) -> bool:
        """Whether the chunk includes the span's last token, whose logits are needed."""
        return self.count == self.span.pending

    @property
    def num_tokens(self) -> int:
        """Number of tokens that are computed, those of the draft included."""
        return self.count + len(self.draft)

    @property
    def wants_all(self) -> bool:
        """Whether the logits of several tokens are needed: of a pilot's, or of a prompt's with log-probabilities."""
        span = self.span
        if isinstance(span, Prefix):
            return span.request.wants_prompt_logprobs
        return span.ending is not None or (self.is_followed and self.num_again > 0)

    @property
    def num_without_logits(self) -> int:
        """Number of first tokens here whose logits are not needed, where those of several others are."""
        span = self.span
        if isinstance(span, Prefix):
            return max(0, span.num_prompt_logprobs - 1 - span.num_computed)
        return max(0, span.ending.num_without_logits - span.num_computed) if span.ending is not None else 0

    @property
    def is_newest(self) -> bool:
        """Whether it is the newest token of a branch, as a step has of each that runs."""
        return self.count == 1 + self.num_again and isinstance(self.span, Branch)

    @property
    def media(self) -> MediaRun | None:
        """The run of media that the tokens belong to: either all or none of them do."""
        span = self.span
        if not isinstance(span, Prefix) or not span.media:
            return None
        run = span.media_from(span.num_computed)
        return run if run is not None and run.start <= span.num_computed else None

    @property
    def can_be_less(self) -> bool:
        """Whether fewer of the tokens could be computed in a step."""
        return self.count > 1 and ((run := self.media) is None or not run.chunk.is_whole)

    def add_to(self, batch: Batch) -> int:
        """Append the tokens to a batch; return the row of the last one, which its draft's rows follow."""
        span, count, first = self.span, self.count, self.span.num_computed
        seq_id, position = span.seq_id, span.start + first
        assert seq_id is not None, f"{span!r} is planned and has no sequence"
        if self.draft:
            tokens = [span.tokens[first], *self.draft]
            return batch.add(seq_id, position, tokens, True, want_all=True) - len(self.draft)
        if count == 1 == len(span.tokens) - first and isinstance(span, Branch):
            return batch.add_newest(seq_id, position, span.tokens[first])
        if (run := self.media) is not None:
            assert isinstance(span, Prefix)
            batch.vectors = run.chunk.vectors[first - run.start : first - run.start + count]
            batch.is_whole, batch.run = run.chunk.is_whole, run
        if self.wants_all:
            without = min(self.num_without_logits, count)
            row = batch.add(seq_id, position, span.tokens[first : first + without], False) if without else -1
            wanted = span.tokens[first + without : first + count]
            return batch.add(seq_id, position + without, wanted, True, want_all=True) if wanted else row
        return batch.add(seq_id, position, span.tokens[first : first + count], self.completes)


@dataclass(slots=True)
class StepPlan:
    """One step: first `pauses`, `drops` and `ends`, which free cells, then one decode of all `chunks`."""

    pauses: list[Branch] = field(default_factory=list)
    drops: list[Request] = field(default_factory=list)
    ends: list[Branch] = field(default_factory=list)  # branches that can never fit
    chunks: list[Chunk] = field(default_factory=list)
    num_tokens: int = 0  # of all chunks
    num_prompt_tokens: int = 0
    sum_of_places: int = 0  # in their texts, of the tokens that are no branch's newest
    took: dict[str, int] = field(default_factory=dict)  # tokens of branches of each person who has any; 0: sits out
    weights: dict[str, int] = field(default_factory=dict)  # of all who have branches or prompts, if any has branches

    def add_newest(self, branches: list[Branch], *, is_followed: bool = False) -> None:
        """Add the newest token of each branch; `is_followed`: by a head that drafts."""
        added = [Chunk(branch, 1 + branch.num_again, (), branch.num_again, is_followed) for branch in branches]
        self.chunks += added
        self.num_tokens += sum(chunk.count for chunk in added)

    def add(self, span: Prefix | Branch, count: int) -> None:
        """Add a chunk of `count` tokens."""
        self.chunks.append(chunk := Chunk(span, count))
        self.num_tokens += count
        self.num_prompt_tokens += count if isinstance(span, Prefix) else 0
        self.sum_of_places += 0 if chunk.is_newest else count * (_place(span) + count // 2)


@dataclass(frozen=True, slots=True)
class Shortage:
    """The sequences and cells that a request needed to begin, or to start a branch, when there were fewer."""

    request: Request
    ids: int
    cells: int

    @property
    def is_of_prompt(self) -> bool:
        """Whether a sequence is for the prompt."""
        return self.request.prefix.node is None


class Scheduler:
    """Decides what a step computes, and which requests and branches begin, wait and give way; the engine does it."""

    def __init__(self, model: Model, tree: PrefixTree, residency: Residency, max_running: int = 0) -> None:
        """Let at most `max_running` requests run at once; 0: as many as there is room for."""
        self._max_running = max_running
        self._model = model
        self._tree = tree
        self._residency = residency
        self._begin_short: Shortage | None = None  # of the first request that could not begin at the latest look
        self._start_short: Shortage | None = None  # of the first branch that could not start then

    def runnable(self, requests: Sequence[Request]) -> list[Request]:
        """Return the requests that may run now, those with a reader first, each kind in the order of arrival.

        Without a limit these are all. The other methods take these alone, since the first one that they are given always
        runs.
        """
        ranked = sorted(requests, key=lambda request: request.is_unread)
        if self._max_running:
            # What holds cells keeps its turn, unless it is unread: cells of a request out of turn could not be freed.
            waiting = [request for request in ranked if request.prefix.node is None]
            fair = [each for each in ranked if each.prefix.node is not None]
            fair += in_order_of_shares(waiting, count_running(ranked))
            first = sorted(fair, key=lambda each: (each.is_unread, each.prefix.node is None, each.is_waiting))
            chosen = {request.request_id for request in first[: self._max_running]}
            ranked = [request for request in ranked if request.request_id in chosen]
        return ranked

    def to_preempt(self, requests: Sequence[Request]) -> list[Request]:
        """Return the requests without a reader that have to give back cells and sequences now.

        Those are the ones that are not runnable, or else the youngest if a request with a reader waits for room: one in a
        step, until there is enough.
        """
        holders = [request for request in requests if request.is_unread and request.prefix.node is not None]
        if not holders:
            return []
        runnable = self.runnable(requests)
        excluded = [request for request in holders if request not in runnable]
        return excluded or (holders[-1:] if self._is_short(runnable) else [])

    def to_yield(self, requests: Sequence[Request]) -> list[Branch]:
        """Return running branches of one person that are to be paused, since another one has less than her share of room.

        Such a request could not begin, or start a branch, in the last step. Nobody gives way to less than her
        own share of sequences and of cells, and not for what would still be too little.
        """
        for short in (self._begin_short, self._start_short):
            if short is not None and (branches := self._for_room(short, requests)):
                return branches
        return []

    def _for_room(self, short: Shortage, requests: Sequence[Request]) -> list[Branch]:
        """Return the youngest branches of the person who has most above her share, if they are enough."""
        read = [request for request in requests if not request.is_unread]
        weights = weights_of(read)
        if short.request not in read or len(weights) < 2:
            return []
        running = list(_running(read))
        has = Counter(branch.request.owner for branch in running)
        wants = has.copy()
        for request in read:
            wants[request.owner] += len(request.in_state(BranchState.WAITING))
        shares = divide(wants, len(running) + self._residency.available_ids - short.is_of_prompt, weights)
        poor, rich = short.request.owner, max(has, key=lambda owner: has[owner] - shares[owner], default="")
        if rich in ("", poor) or has[poor] >= shares[poor]:
            return []
        held = sum(branch.own_cells for branch in running if branch.request.owner == rich)
        most_cells, found = self._model.n_ctx * weights[rich] // sum(weights.values()), list[Branch]()
        # What is missing now: branches may have ended since.
        ids, cells = short.ids - self._residency.available_ids, short.cells - self._residency.available_cells
        left = Counter(branch.request.request_id for branch in running)
        for _, branch in reversed(in_order_of_claims(read, running)):
            if branch is None or branch.request.owner != rich:
                continue
            held -= branch.own_cells
            # With no more than the other one, by their weights, she would have the next turn, and take back what she gave.
            least = max(1, has[poor] * weights[rich] // weights[poor] + 1, shares[rich] if ids > 0 else 0)
            if (ids <= 0 and cells <= 0) or has[rich] <= least:
                break
            if cells > 0 and held < most_cells:
                break
            found.append(branch)
            left[branch.request.request_id] -= 1
            # A request that loses its only branch gives its prompt's sequence back as well.
            ids -= 1 if left[branch.request.request_id] else 2
            cells, has[rich] = cells - branch.own_cells - HEADROOM, has[rich] - 1
        return found if ids <= 0 and cells <= 0 else []

    def _is_short(self, requests: Sequence[Request]) -> bool:
        """Whether a request with a reader, or a branch of one, waits for room."""
        begins = next(self.to_begin(requests), None)
        if begins is None or begins[0].is_unread:
            read = [request for request in requests if not request.is_unread]
            if any(request.prefix.node is None and request.awaits is None for request in read):
                return True
        starts = next(self.to_start(requests), None)
        if starts is not None and not starts.request.is_unread:
            return False
        return any(
            request.prefix.node is not None and request.prefix.is_complete and request.in_state(BranchState.WAITING)
            for request in requests
            if not request.is_unread
        )

    def schedule(
        self, requests: Sequence[Request], *, with_unread: bool = True, pace: Pace = _ANY_PACE, spent: float = 0.0
    ) -> StepPlan:
        """Plan a step for `requests`, as `runnable` returns them.

        Without `with_unread` those with a reader compute alone, if they have anything to compute. `pace` bounds the prompt
        tokens beside branches that somebody reads, and one person's branches beside another person. `spent` are the seconds
        that the step has taken.
        """
        plan = StepPlan()
        running = list(_running(requests))
        free = self._plan_pauses(plan, requests, running)
        if not with_unread and (read := _read_now(requests, running, plan.drops)):
            with_reader = set(read)
            requests, running = read, [branch for branch in running if branch.request in with_reader]
        num_again = sum(branch.num_again for branch in running) if self._model.has_states else 0
        is_followed = self._model.head is not None
        if num_again and len(running) + num_again > min(self._model.n_batch, self._model.n_seq_max, free):
            newest = [branch for branch in running if branch.pending == 1]  # the others go on in pieces
        else:
            newest = [branch for branch in running if branch.pending == 1 + branch.num_again]
        resumed: list[Branch] = []
        if len(newest) < len(running):
            known = set(newest)
            resumed = [branch for branch in running if branch.pending and branch not in known]
        prompts = [request for request in requests if request.prefix.node and not request.prefix.is_complete]
        is_read = any(not branch.request.is_unread for branch in newest)
        held: list[Branch] = []  # that sit this step out for prompts of others
        if newest and len({request.owner for request in requests}) > 1:
            held, newest = newest, _due(plan, newest, [each for each in prompts if each not in plan.drops], pace)
        elif newest:
            only = newest[0].request
            plan.took, plan.weights = {only.owner: len(newest)}, {only.owner: only.weight}
        plan.add_newest(newest[: min(self._model.n_batch, free)], is_followed=is_followed)
        budget, free = self._model.n_batch - plan.num_tokens, free - plan.num_tokens
        # Everything waits for this step to end, so prefill gets at most one ubatch of it.
        budget = min(budget, self._model.n_ubatch - len(plan.chunks) % self._model.n_ubatch)
        spans = list(_to_prefill([request for request in requests if request not in plan.drops], running, resumed))
        if is_read or all(request.comes_last for request in requests):
            most = pace.most_prompt(len(plan.chunks), spent, _place(spans[0]) if spans else 0)
            budget = budget if most is None else min(budget, most)
        # A batch has a row of logits per sequence; scored prompts share the rows that are left.
        spare_rows = max(0, self._model.n_seq_max - len(running) - len(prompts))
        has_whole = False  # a step computes at most one chunk of media that takes more than its share
        for span in spans:
            count = min(self._to_checkpoint(span), budget, free)
            chunk = Chunk(span, count)
            if count > 0 and chunk.wants_all:
                without = chunk.num_without_logits
                is_waited_for = isinstance(span, Prefix) and len(running) > 0
                most = min(MAX_PROMPT_LOGPROBS, 1 + spare_rows) if is_waited_for else 1 + spare_rows
                count = min(count, without + most)
                spare_rows -= max(count - without - 1, 0)
            if isinstance(span, Prefix) and span.media and count > 0:
                count = _up_to_media(span, count, free, may_be_whole=not has_whole)
                has_whole = has_whole or count > budget
            if count <= 0:
                break  # nothing overtakes: the rest of a long prompt would never get room
            plan.add(span, count)
            budget -= count
            free -= count
        if not plan.chunks and held:  # the prompts have no room yet
            plan.took = dict(Counter(branch.request.owner for branch in held))
            plan.add_newest(held[: min(self._model.n_batch, free)], is_followed=is_followed)
        if not plan.chunks and not plan.pauses and not plan.drops:
            plan.ends += [branch for branch in running if branch.pending][-1:]  # others wait for their grammars alone
        return plan

    def _to_checkpoint(self, span: Prefix | Branch) -> int:
        """Return how many pending tokens a chunk may have: up to the next checkpoint, if memory keeps states."""
        states, position = self._residency.states, _place(span)
        if not states.are_kept or not span.request.cache_prompt:
            return span.pending
        if isinstance(span, Branch):
            return min(span.pending, states.spacing.to_next(position))
        return states.next_place(span.tokens, position, span.num_shared) - position

    def to_begin(self, requests: Sequence[Request]) -> Iterator[tuple[Request, Match | None]]:
        """Yield requests that may begin now, each with its match in the tree (None if it does not use the tree).

        The caller begins each before taking the next. A request that shares tokens with a prompt being computed waits
        for that prompt. No other request overtakes the one whose turn it is, so that a long prompt begins when enough
        branches have ended.
        """
        self._begin_short = None
        if all(request.prefix.node is not None for request in requests):
            return
        # A prompt without a running branch needs cells for its pending tokens and one more sequence id.
        promised_cells = sum(request.prefix.pending for request in requests if request.prefix.node is not None)
        promised_ids = sum(
            request.prefix.node is not None and not request.in_state(BranchState.RUNNING) for request in requests
        )
        headroom = HEADROOM * sum(1 for _ in _running(requests))
        readers_wait = any(_may_want_room(request) for request in requests)
        for request, num_before in next_to_begin(requests):
            if request.is_unread and readers_wait:
                return
            if request.awaits is not None and request.awaits.state is NodeState.COMPUTING:
                continue
            root, stored = self._tree.root(request.scope), self._residency.stored
            match = self._tree.match(request.reusable, root) if request.reuses else None
            if match is not None:
                if stored.is_taking(request.request_id, request.story, request.prefix.tokens, match.length):
                    continue
                if stored.is_coming(match, request.request_id):
                    continue
            request.awaits = match.awaits if match is not None else None
            if request is requests[0] and not _is_of_unread(request.awaits, requests):
                request.awaits = None  # the first one never waits for one that may have to give way to it
            if request.awaits is not None:
                continue
            cells = self._residency.cost(request.prefix.tokens, match) if match else len(request.prefix.tokens)
            must = request is requests[0] and not headroom and not promised_ids  # nothing runs that could end
            needed = cells + promised_cells + headroom + HEADROOM * num_before
            enough = needed <= self._residency.available_cells
            # 2: for the prompt and its first branch. A prompt without one would hold its cells and never end.
            ids = 2 + promised_ids + num_before
            if not must and (not enough or self._residency.available_ids < ids):
                self._begin_short = Shortage(request, ids, needed)
                return
            stored.forget_request(request.request_id)
            yield request, match
            promised_cells += request.prefix.pending
            promised_ids += 1

    def num_to_begin(self, requests: Sequence[Request]) -> int:
        """Return how many requests wait for nothing but the next step, as if none found its prompt in the tree."""
        begun = [request for request in requests if request.prefix.node is not None]
        running = sum(1 for _ in _running(begun))
        ids = self._residency.available_ids - sum(not request.in_state(BranchState.RUNNING) for request in begun)
        cells = self._residency.available_cells - sum(request.prefix.pending for request in begun) - HEADROOM * running
        count = 0
        for request, _ in next_to_begin(requests):
            ids, cells = ids - 2, cells - len(request.prefix.tokens)
            if ids < 0 or cells < 0:
                break  # no request overtakes
            count += 1
        return count

    def room(self, requests: Sequence[Request]) -> int:
        """Return the number of branches that a new request with a short prompt could start now; 0: it would wait."""
        if self._max_running and len(requests) >= self._max_running:
            return 0
        waiting = [request for request in requests if request.prefix.node is None]
        fits = next(self.to_begin(requests), None) is not None
        if not fits and any(request.awaits is None for request in waiting):
            return 0  # no request overtakes
        begun = [request for request in requests if request.prefix.node is not None]
        running = sum(1 for _ in _running(begun))
        promised_ids = sum(not request.in_state(BranchState.RUNNING) for request in begun) + 2 * len(waiting)
        promised_cells = sum(request.prefix.pending for request in begun) + HEADROOM * running
        ids = self._residency.available_ids - promised_ids - 1  # the prompt needs one, too
        cells = (self._residency.available_cells - promised_cells) // HEADROOM
        return max(0, min(ids, cells))

    def to_start(self, requests: Sequence[Request]) -> Iterator[Branch]:
        """Yield branches that may start now; the caller starts each before taking the next.

        Requests with a reader come first, of those the ones whose owner has the fewest running branches, and then the ones
        with the fewest of their own, so that a large request leaves room for others. The last sequence ids are kept for
        requests that have not begun, but none for those without a reader while others could use them.
        """
        self._start_short = None
        opened = [request for request in requests if request.prefix.node is not None]
        if not any(branch.state is BranchState.WAITING for request in opened for branch in request.branches):
            return
        running = {request.request_id: len(request.in_state(BranchState.RUNNING)) for request in opened}
        waiting = {request.request_id: request.in_state(BranchState.WAITING) for request in opened}
        shares: Counter[str] = Counter()
        for request in opened:
            shares[request.owner] += running[request.request_id]
        readers_come = any(
            request.prefix.node is None or not request.prefix.is_complete
            for request in requests
            if not request.is_unread
        )
        ready = [request for request in opened if request.prefix.is_complete]
        while candidates := [request for request in ready if waiting[request.request_id]]:
            request = min(
                candidates,
                key=lambda each: (each.is_unread, shares[each.owner] / each.weight, running[each.request_id]),
            )
            if request.is_unread and readers_come:
                return  # what it took now would be taken back in the next step
            branch = waiting[request.request_id].pop(0)
            if branch.ending is not None and branch.ending.is_awaited:
                continue  # it draws when the pilot has computed the rows
            if branch.chooser.is_early(branch) and (not branch.tokens or branch.num_cached is not None):
                # It has nothing to compute before its turn, nor have those after it.
                waiting[request.request_id].clear()
                continue
            total = sum(running.values())
            needed = branch.pending + (HEADROOM * (total + 1) if total else 1)
            kept_back = 0
            if running[request.request_id]:  # a prompt and a branch of one that waits, a first branch of each without
                equals = [other for other in requests if request.is_unread or not other.is_unread]
                mine = shares[request.owner] / request.weight
                before = (other for other in equals if other.is_waiting and shares[other.owner] / other.weight <= mine)
                kept_back += 2 if any(before) else 0
                kept_back += sum(running.get(other.request_id) == 0 for other in equals)
            if self._residency.available_ids <= kept_back or self._residency.available_cells < needed:
                self._start_short = Shortage(request, 1 + kept_back, needed)
                return
            running[request.request_id] += 1
            shares[request.owner] += 1
            yield branch

    def _plan_pauses(self, plan: StepPlan, requests: Sequence[Request], running: list[Branch]) -> int:
        """Pause branches until every running branch can take a step; return the free cells.

        The oldest request keeps its prompt and its first branch.
        """
        free = self._residency.available_cells
        if not requests or (running and free >= len(running)):
            return free
        oldest = requests[0]
        kept = next((branch for branch in running if branch.request is oldest), None)
        for request, branch in reversed(in_order_of_claims(requests, running)):
            if free >= (len(running) or _next_need(oldest)):
                break
            if branch is not None and branch is not kept:
                running.remove(branch)
                plan.pauses.append(branch)
                free += branch.own_cells
            elif branch is None and request is not oldest and (node := request.prefix.node) is not None:
                plan.drops.append(request)
                free += node.cells if node.pins == 1 and not node.live_children else 0  # else others stand on them
        return free


def _due(plan: StepPlan, newest: list[Branch], prompts: Sequence[Request], pace: Pace) -> list[Branch]:
    """Return the branches of which this step computes the newest token: those of the people whose turn it is.

    Where these have more than a step has time for, those that have waited longest come first.
    """
    wanted = Counter(branch.request.owner for branch in newest)
    plan.weights = weights_of([*prompts, *(branch.request for branch in newest)])
    if len(plan.weights) > 1:
        alone = sum(request.prefix.pending for request in prompts if request.owner not in wanted)
        due = pace.due(wanted, plan.weights, alone)
        most = pace.most_newest(wanted, plan.weights)
        left = {owner: number for owner, number in wanted.items() if owner in due}
        if most is not None and sum(left.values()) > most:
            left = divide(left, most, plan.weights)
        plan.took = {owner: left.get(owner, 0) for owner in wanted}
        if plan.took != wanted:
            newest = _longest_waiting(newest, left)
    else:
        plan.took = dict(wanted)
    return newest


def _longest_waiting(newest: list[Branch], numbers: Mapping[str, int]) -> list[Branch]:
    """Return so many branches of each owner, those that have waited longest for a step, in the order of `newest`."""
    left, chosen = dict(numbers), set[Branch]()
    for branch in sorted(newest, key=lambda branch: branch.last_step):
        if left.get(branch.request.owner):
            left[branch.request.owner] -= 1
            chosen.add(branch)
    return [branch for branch in newest if branch in chosen]


def _may_want_room(request: Request) -> bool:
    """Whether a request with a reader has not begun, or has branches that have not started."""
    prefix = request.prefix
    return not request.is_unread and (
        prefix.node is None or not prefix.is_complete or bool(request.in_state(BranchState.WAITING))
    )


def _read_now(requests: Sequence[Request], running: Sequence[Branch], drops: Sequence[Request]) -> list[Request]:
    """Return the requests with a reader, and those whose prompts they wait for; none if there is nothing to compute."""
    awaited = [request.awaits for request in requests if request.awaits is not None and not request.is_unread]
    read = [request for request in requests if not request.is_unread or request.prefix.node in awaited]
    computing = {branch.request for branch in running}
    has_work = any(
        request in computing or (request.prefix.node and not request.prefix.is_complete and request not in drops)
        for request in read
    )
    return read if has_work else []


def _up_to_media(prefix: Prefix, count: int, free: int, may_be_whole: bool) -> int:
    """Return how many of a prompt's next `count` tokens a chunk has: it ends where media begin or end.

    Media that are computed whole are not cut; 0 if they have to wait for the next step or for `free` cells.
    """
    done = prefix.num_computed
    run = prefix.media_from(done)
    if run is None:
        return count
    if done < run.start:
        return min(count, run.start - done)
    if not run.chunk.is_whole or len(run.chunk) <= count:
        return min(count, run.end - done)
    return run.end - done if may_be_whole and run.end - done <= free else 0


def _to_prefill(
    requests: Iterable[Request], running: Iterable[Branch], resumed: list[Branch]
) -> Iterator[Prefix | Branch]:
    """Yield resumed branches with several pending tokens, then prompts by the shares of their owners."""
    yield from resumed
    prompts = [request for request in requests if request.prefix.node and not request.prefix.is_complete]
    counts = Counter(branch.request.owner for branch in running) if len(prompts) > 1 else Counter[str]()
    yield from (request.prefix for request in in_order_of_shares(prompts, counts))


def _place(span: Prefix | Branch) -> int:
    """Return the place in its text of the next token that is computed."""
    return span.start + span.num_computed


def _running(requests: Iterable[Request]) -> Iterator[Branch]:
    return (branch for request in requests for branch in request.in_state(BranchState.RUNNING))


def _is_of_unread(node: Node | None, requests: Iterable[Request]) -> bool:
    """Whether a prompt that is being computed is that of a request without a reader, which is then computed at once."""
    return node is not None and any(request.is_unread and request.prefix.node is node for request in requests)


def _next_need(request: Request) -> int:
    """Return the cells that a request without a running branch needs to start one."""
    waiting = request.in_state(BranchState.WAITING)
    return request.prefix.pending + (waiting[0].pending if waiting else 0) + 1
