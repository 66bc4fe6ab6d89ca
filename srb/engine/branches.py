"""A branch's life: it starts, samples its tokens one by one, may pause or shift, and ends."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass

from srb.engine.choosing import Rows
from srb.engine.distinct_first import DistinctFirst
from srb.engine.exploring import Fork
from srb.engine.first_words import Ending
from srb.engine.grammar.limits import STEP_SECONDS
from srb.engine.healing import KnownEndings
from srb.engine.model import Logits, Model
from srb.engine.probs import behind, chosen_probs, token_probs
from srb.engine.prompts import Prompts
from srb.engine.request import Branch, BranchState
from srb.engine.rewinding import Rewinding, dead_end
from srb.engine.text import Emission, Prob
from srb.engine.tokens import tokens_of
from srb.engine.tree.prefix_tree import PrefixTree
from srb.errors import BannedDeadEnd, GrammarDeadEnd, GrammarTooComplex, SRBError
from srb.wire.events import BranchAdded, BranchEnded, Delta, Event, FinishReason

MAX_JUMP = 64  # forced tokens of a branch in a step: a constant of 60,000 characters took a second for each branch
MIN_PROB = 1e-45  # the smallest positive number in 32 bits: rounding may make a probability 0, which has no logarithm


@dataclass(slots=True)
class BranchCounters:
    """Counters of tokens, pauses and shifts since the start."""

    tokens_predicted_total: int = 0
    decode_steps_total: int = 0  # sampled tokens without each branch's first, which comes from the prompt's logits
    n_tokens_max: int = 0
    branches_paused_total: int = 0
    context_shifts_total: int = 0
    rewinds_total: int = 0
    tokens_rewound_total: int = 0
    tokens_forced_total: int = 0  # by grammars, without a step of their own


class Branches:
    """Branches of all requests. This class alone writes their state, tokens and text, and appends their `events`."""

    def __init__(
        self,
        model: Model,
        tree: PrefixTree,
        prompts: Prompts,
        clock: Callable[[], float],
        count_special: Callable[[Sequence[int]], int],
        note_end: Callable[[Branch], None],
        note_stop: Callable[[Branch, bool], None],
    ) -> None:
        """`count_special` counts the special tokens (BOS) at a prompt's beginning.

        `note_end` is called with each branch that ends, `note_stop` with each that gives its sequence back, before that, and
        whether its text is kept.
        """
        self._model = model
        self._rows = Rows(model)
        self._tree = tree
        self._prompts = prompts
        self._clock = clock
        self.now = 0.0  # seconds of the clock, read once a step and where a branch begins: each text tells it
        self._count_special = count_special
        self._note_end = note_end
        self._note_stop = note_stop
        self._distinct = DistinctFirst(self)
        self._known_endings = KnownEndings()
        # Branches whose newest token is not read yet, with its probability: what it says is found during the next decode.
        self._unread: dict[Branch, Prob | None] = {}
        # Branches whose newest token is computed and whose grammar takes too long for this step, with its logits; None:
        # those of the prompt.
        self._deferred: dict[Branch, Logits | None] = {}
        self._grammar_seconds = 0.0  # of this step
        self.counters = BranchCounters()

    def start(self, branch: Branch, events: list[Event]) -> None:
        """Start a branch: fork its prefix and sample its own first token, or resume it where it was paused."""
        self.now = self._clock()  # its prompt was done in this step
        prompt = branch.request.prefix.node
        assert prompt is not None
        known = branch.tokens
        logits = None
        if (healing := branch.healing) is not None:
            if healing.ending is not None:
                self._begin_healing(branch)
            # A pilot computes what the tree may have: it needs the logits.
            known = branch.tokens if healing.ending is None else branch.tokens[: healing.ending.num_without_logits + 1]
            logits = None if branch.length else self._known_endings.behind(healing.whole_key)
        if branch.mood != branch.request.scope.mood:
            branch.mark = self._tree.mark(branch.mood)
        branch.lease = self._tree.start(prompt, branch.in_tree(known), is_end_known=logits is not None)
        branch.num_computed = branch.lease.node.end - branch.start
        if branch.num_cached is None:
            branch.num_cached = branch.num_computed
        branch.move(BranchState.RUNNING)
        if branch.spec.max_tokens == 0:
            self.end(branch, FinishReason.LIMIT, events)
        elif not branch.tokens or branch.next_cover is not None:
            self.sample(branch, None, events)
        elif not branch.pending:
            branch.logits = logits
            self.sample(branch, None, events)
            branch.logits = None

    def _begin_healing(self, branch: Branch) -> None:
        """Draw the cover of a branch that has no sequence yet, or let the branch be the pilot that computes the rows."""
        ending = branch.ending
        assert ending is not None
        self._known_endings.join(ending)
        if ending.is_known:
            self._draw_cover(branch)
        else:
            branch.give(ending.path)
            ending.pilot = branch

    def note_rows(self, branch: Branch, count: int, last_row: int) -> None:
        """Note the rows of a pilot's next `count` tokens, the last one in `last_row` of the decode."""
        ending = branch.ending
        assert ending is not None
        for index in range(max(branch.num_computed, ending.num_without_logits), branch.num_computed + count):
            ending.note(index, self._model.logits(last_row - (branch.num_computed + count - 1 - index)))

    def _end_pilot(self, branch: Branch) -> None:
        """Draw the cover of a pilot that has computed all rows; it starts again as all that wait for it do."""
        # What was appended is left for the branches with the same `append`, this one included.
        self._set_aside(branch, BranchState.WAITING)
        self._draw_cover(branch)

    def _draw_cover(self, branch: Branch) -> None:
        healing, prompt_logits = branch.healing, branch.request.prefix.logits
        assert healing is not None
        assert healing.ending is not None
        assert prompt_logits is not None
        drawn = healing.ending.draw(branch.spec.sampling, branch.spec.seed, prompt_logits)
        branch.give(drawn.tokens)
        healing.whole_key = drawn.key
        if drawn.logits is not None:
            healing.cover = drawn
            if not branch.shown:  # else the hidden bytes are the end of a fork's beginning, which is text
                healing.prompt_bytes = drawn.hidden
                branch.text.follow(drawn.hidden.decode("utf-8", "replace"))
        healing.ending = None  # last: another thread that forks the branch reads the rest only then

    def note_computed(self, branch: Branch, count: int) -> None:
        """Note that `count` further tokens of a branch were computed; memory with states may leave a checkpoint."""
        assert branch.lease is not None
        self._tree.note_grown(branch.lease, branch.start + branch.num_computed, count)

    def sample(self, branch: Branch, row: int | None, events: list[Event]) -> None:
        """Sample a branch's next token from a row of the last decode, or from its prefix's logits if `row` is None."""
        healing = branch.healing
        if healing is not None and not healing.is_over(branch.length):
            if healing.ending is not None:
                self._end_pilot(branch)
                return
            if healing.whole_key:
                if row is not None and not branch.length:
                    self._known_endings.note_behind(healing.whole_key, self._model.logits(row))
                healing.whole_key = b""
            else:
                row = None  # the cover has the logits
        if branch.chooser.is_early(branch):
            self._set_aside(branch, BranchState.WAITING)
            return
        self.counters.decode_steps_total += row is not None
        grammar = branch.sampler.grammar
        if grammar is None:
            self._sample(branch, row, events)
        elif self._grammar_seconds >= STEP_SECONDS and not grammar.is_quick:
            # A copy, since the next decode overwrites the row.
            self._deferred[branch] = branch.logits if row is None else self._model.logits(row).copy()
        else:
            before = grammar.seconds
            self._sample(branch, row, events)
            self._grammar_seconds += grammar.seconds - before

    def go_on(self, events: list[Event]) -> bool:
        """Begin a step: sample the tokens that the last one had no time for, as far as this one has.

        The longest wait comes first. Return whether there were any.
        """
        self._grammar_seconds = 0.0
        waiting = list(self._deferred)
        for branch in waiting:
            if branch in self._deferred:  # the token of another may have ended it
                branch.logits = self._deferred.pop(branch)
                self.sample(branch, None, events)
                branch.logits = None
        return bool(waiting)

    def is_deferred(self, branch: Branch) -> bool:
        """Whether a branch waits for its grammar alone."""
        return branch in self._deferred

    def _sample(self, branch: Branch, row: int | None, events: list[Event]) -> None:
        if branch.forced:
            self._jump(branch, events)
            return
        try:
            token = branch.chooser.choose(branch, row, self._rows)
        except (GrammarDeadEnd, BannedDeadEnd) as error:
            if not self._leave_dead_end(branch, row, events):
                self.end(branch, FinishReason.ERROR, events, error=error)
            return
        except GrammarTooComplex as error:  # no draw can follow, so there is nothing to go back to
            self.end(branch, FinishReason.ERROR, events, error=error)
            return
        if self._model.is_eog(token):
            if count := branch.text.take_back_end():
                self.undo(branch)
                self._avoid_banned(branch, count, events)
                return
            branch.end_token = token
            self._end(branch, FinishReason.EOS, events)
            return
        prob: Prob | None = None
        if branch.spec.is_scored:
            prob = self._prob(branch, row, token)
            if branch.spec.sampling.n_probs < 0:
                prob = None  # scored, but not told
        self._append(branch, token, prob, events, may_wait=row is not None)
        self.jump_ahead(branch, events)

    def jump_ahead(self, branch: Branch, events: list[Event]) -> None:
        """Append the tokens that the branch's grammar leaves no choice of; the next step computes all of them at once.

        Call it wherever a token follows, also when the branch goes on after its limit: forced tokens draw no numbers.
        """
        if not branch.may_jump or not branch.is_active:
            return
        self.read_newest(branch, events)  # it may end the branch
        if branch.is_active:
            branch.forced = branch.sampler.forced
            self._jump(branch, events)

    def _jump(self, branch: Branch, events: list[Event]) -> None:
        """Append forced tokens, as many as a branch may have in a step; the others follow when these are computed."""
        state, room = branch.state, self._model.n_ctx_seq - branch.end - 1  # one more token is drawn behind them
        tokens = branch.forced[: min(room, MAX_JUMP)]
        branch.forced = branch.forced[MAX_JUMP:] if room > MAX_JUMP else []
        try:
            for token in tokens:
                branch.sampler.accept(token)
                self._append(branch, token, None, events)
                self.counters.tokens_forced_total += 1
                if branch.state is not state:  # the token has ended the branch
                    branch.forced = []
                    return
        except (GrammarDeadEnd, GrammarTooComplex) as error:
            self.end(branch, FinishReason.ERROR, events, error=error)

    def read(self, events: list[Event]) -> bool:
        """Read the tokens that have waited for a decode to begin, which may end branches; return whether there were any."""
        if not self._unread:
            return False
        for branch in list(self._unread):
            self._read_unread(branch, events)
        return True

    def read_newest(self, branch: Branch, events: list[Event]) -> None:
        """Read a branch's newest token if it has waited, before another one is drawn."""
        if branch in self._unread:
            self._read_unread(branch, events)

    def rewind(self, branch: Branch, count: int) -> None:
        """Take back a branch's last `count` tokens, forbid the first of them at its place, and go on from there.

        Its text has taken them back. The branch goes on in the next steps.
        """
        rewinding = branch.rewinding
        assert rewinding is not None
        self._deferred.pop(branch, None)
        place, keep = branch.length - count, len(branch.tokens) - count
        end = None
        if keep > 0 and branch.lease is not None:  # the last token that stays is computed again, for its logits
            computed = branch.start + branch.num_computed
            end = self._tree.shorten(branch.lease, computed, branch.start + keep - 1)
        if end is not None:
            branch.num_computed = end - branch.start
        elif branch.state is not BranchState.WAITING:
            branch.move(BranchState.WAITING)
            self.return_lease(branch, keep=False)
        if keep < 0:
            keep = self._unshift(branch, rewinding, count)
        first = branch.tokens[keep]
        del branch.tokens[keep:]
        if branch.request.diversity is not None:
            branch.request.diversity.forget(branch, count)
        branch.logprob_sum = rewinding.rewind(place, first, count)
        branch.num_rewinds += 1
        self.counters.rewinds_total += 1
        self.counters.tokens_rewound_total += count

    def undo(self, branch: Branch) -> None:
        """Take back a branch's latest draw, which has given no token."""
        assert branch.rewinding is not None
        branch.rewinding.undo()
        if branch.request.diversity is not None:
            branch.request.diversity.forget(branch, 1)

    def hold(self, branch: Branch) -> None:
        """Take a branch out of the steps until the first words before its own are settled."""
        self._set_aside(branch, BranchState.HELD)

    def show(self, branch: Branch, events: list[Event]) -> None:
        """Show a branch's first word, which is settled, and all that was held back with it."""
        word, words = branch.first_word, branch.request.words
        assert word is not None
        assert words is not None
        assert branch.rewinding is not None
        words.add(branch, word)
        self.counters.tokens_predicted_total += branch.length - branch.text.num_held
        branch.rewinding.release(branch.length, branch.text.num_held)
        branch.free_word()
        for emission in word.held:
            self._emit(branch, emission, events)

    def abandon(self, branch: Branch) -> None:
        """Take back all that a branch of a failed request holds, and keep nothing of it."""
        self._unread.pop(branch, None)
        self.return_lease(branch, keep=False)

    def pause(self, branch: Branch) -> None:
        """Pause a branch under pressure."""
        self._set_aside(branch, BranchState.WAITING)
        self.counters.branches_paused_total += 1

    def _set_aside(self, branch: Branch, state: BranchState) -> None:
        """Take a branch out of the steps: free its sequence; its computed tokens stay in the tree if they can."""
        branch.move(state)
        self.return_lease(branch, keep=self._model.supports_partial_reuse and branch.is_kept)

    def drop_ahead(self, branch: Branch) -> None:
        """Drop the cells of drafted tokens that were not drawn.

        Memory with states goes back to where the draft began: what was drawn is computed again with the next token.
        """
        copy, branch.state_copy = branch.state_copy, None
        if branch.num_unverified:
            assert branch.lease is not None
            end = branch.start + branch.num_computed
            if copy is None:
                self._tree.shorten(branch.lease, end + branch.num_unverified, end)
            else:
                self._deferred.pop(branch, None)  # its logits come again
                seq_id, before = copy
                branch.num_again, branch.num_computed = len(branch.tokens) - 1 - before, before
                self._tree.go_back(branch.lease, end + branch.num_unverified, branch.start + before, seq_id)
            branch.num_unverified = 0
        if copy is not None:
            self._tree.free_copy(copy[0])

    def copy_state(self, branch: Branch) -> bool:
        """Keep the state of a branch that is about to compute a draft; return whether there is a sequence for it."""
        assert branch.lease is not None
        seq_id = self._tree.copy_state(branch.lease)
        branch.state_copy = None if seq_id is None else (seq_id, branch.num_computed)
        return seq_id is not None

    def return_lease(self, branch: Branch, keep: bool) -> None:
        """End a branch's lease; with `keep` its computed tokens stay in the tree. Does nothing without a lease."""
        if branch.lease is None:
            return
        self._deferred.pop(branch, None)
        self._note_stop(branch, keep)
        self.drop_ahead(branch)  # or cells of tokens that were not drawn would become the node's
        lease, branch.lease = branch.lease, None
        own = branch.tokens[lease.node.end - branch.start : branch.num_computed]
        branch.num_computed = branch.num_again = 0
        self._tree.end(lease, branch.in_tree(own) if keep else own, keep, branch.request.asker)

    def end(
        self,
        branch: Branch,
        reason: FinishReason,
        events: list[Event],
        *,
        stop: str = "",
        truncated: bool = False,
        error: SRBError | None = None,
    ) -> None:
        """End one branch: flush its text, free its sequence and cells at once, and emit BranchEnded.

        Its unread token may end it in its own way.
        """
        self.read_newest(branch, events)
        if not branch.is_active:
            return  # or a client would see two ends of one branch
        is_settled = branch.first_word is None  # asked before `show`, which frees the word
        if branch.first_word is not None:  # it counts as it stands
            ending = branch.first_word.finish(Ending(reason, stop, truncated), branch.finish_text)
            reason, stop = ending.reason, ending.stop
            self.show(branch, events)
        self.counters.tokens_predicted_total += branch.text.num_held
        if branch.rewinding is not None and reason is FinishReason.LIMIT:  # it may go on later, with all of this shown
            branch.rewinding.release(branch.length, 0)
        if not stop:
            emission = branch.finish_text(reason, truncated)
            self._emit(branch, emission, events)
            if emission.stop:
                reason, stop = FinishReason.WORD, emission.stop
            elif emission.is_boundary:
                reason = FinishReason.BOUNDARY
        self.return_lease(branch, keep=branch.is_kept)
        self._note_end(branch)
        branch.move(BranchState.ENDED)
        branch.draft, branch.forced = None, []  # it may rest for long
        self.counters.n_tokens_max = max(self.counters.n_tokens_max, branch.end)
        branch.ended = _ended(branch, reason, stop, truncated, error, self.now)
        if not branch.can_resume:  # else its sampler has the state to go on from
            branch.sampler.close()
        events.append(branch.ended)
        if not is_settled:  # last: siblings that have waited for its word go on, and may end in turn
            self._distinct.release(branch.request, events)

    def begin_fork(self, branch: Branch, fork: Fork, events: list[Event]) -> None:
        """Begin an explored branch: it has its origin's tokens up to the fork, computed once, and then its own first one."""
        origin, path = branch.siblings[fork.origin.index], branch.path
        assert path is not None
        if origin.num_computed >= fork.at:
            self.share(origin, fork.at)
        branch.tokens = origin.tokens[: fork.at]
        shown: list[int] = []
        for place, token in enumerate(branch.tokens):
            prob = copy(origin.path.probs[place]) if origin.path and origin.path.probs else None
            emission = branch.text.push(token, self._piece(branch, token), prob)
            path.probs += [prob] if prob else []
            shown += emission.tokens
            branch.shown += [emission.text] if emission.text else []
        branch.num_shown, text = len(shown), "".join(branch.shown)
        branch.has_new_line = "\n" in text
        said = (False, origin.index, fork.at, text, fork.logprob, shown)
        self.now = self._clock()  # its prompt may have been done in this step
        spent_ms = branch.request.predicted_ms(self.now)
        events.append(
            BranchAdded(branch.request.request_id, branch.index, branch.spec.seed, *said, predicted_ms=spent_ms)
        )
        if self._model.is_eog(fork.token):
            branch.end_token = fork.token
            path.of_text = fork.before
            self.end(branch, FinishReason.EOS, events)
        else:
            path.of_text = fork.logprob
            self._append(branch, fork.token, copy(fork.prob), events)

    def share(self, branch: Branch, at: int | None = None) -> None:
        """Leave a running branch's computed tokens in the tree, so that forks share them; the branch goes on from there.

        Do nothing if the tree has the first `at` of them already, or if there would be no sequence to go on with.
        """
        if branch.lease is None or not branch.is_kept or not self._model.supports_partial_reuse:
            return
        if at is not None and (branch.lease.node.end >= branch.start + at or not self._tree.has_spare_sequence):
            return
        prompt = branch.request.prefix.node
        assert prompt is not None
        is_deferred, logits = branch in self._deferred, self._deferred.get(branch)
        self.return_lease(branch, keep=True)
        branch.lease = self._tree.start(prompt, branch.in_tree(branch.tokens))
        branch.num_computed = branch.lease.node.end - branch.start
        if is_deferred and not branch.pending:  # nothing would bring its logits again, and it would wait for ever
            self._deferred[branch] = logits

    def resume(self, branch: Branch) -> None:
        """Let a branch go on that has ended by its limit."""
        branch.move(BranchState.WAITING)
        branch.ended = None
        branch.began_at = None  # else its rest would count as generating

    def _prob(self, branch: Branch, row: int | None, token: int) -> Prob:
        """Return the probability of the token that was just sampled, and the likeliest others; add it to the sum."""
        sampling = branch.spec.sampling
        n_top = max(0, sampling.n_probs)
        if sampling.post_sampling_probs:
            prob = chosen_probs(self._model, branch.sampler.candidates, token, n_top)
            if (cover := branch.next_cover) is not None:
                prob = behind(prob, cover.hidden)
            branch.logprob_sum += math.log(max(prob["prob"], MIN_PROB))
            return prob
        prob = token_probs(self._model, self._rows.of(branch, row), token, n_top)
        if (cover := branch.next_cover) is not None:
            prob = behind(prob, cover.hidden, cover.logprob)
        branch.logprob_sum += prob["logprob"] or 0.0  # None is only for a prompt's first token
        return prob

    def _append(
        self, branch: Branch, token: int, prob: Prob | None, events: list[Event], may_wait: bool = False
    ) -> None:
        """Append a token and read it; with `may_wait` it is read during the next decode if the model decodes ahead.

        A branch that the token ends by its text is then computed for one token more, the token itself.
        """
        branch.tokens.append(token)
        if branch.path is not None and prob is not None:
            branch.path.probs.append(prob)
        if may_wait and self._model.decodes_ahead and branch.chooser.is_plain and not self._is_at_limit(branch):
            self._unread[branch] = prob
        else:
            self._read(branch, token, prob, events)

    def _is_at_limit(self, branch: Branch) -> bool:
        return branch.length == branch.spec.max_tokens or branch.end >= self._model.n_ctx_seq

    def _read_unread(self, branch: Branch, events: list[Event]) -> None:
        prob = self._unread.pop(branch)
        self._read(branch, branch.tokens[-1], prob, events)

    def _read(self, branch: Branch, token: int, prob: Prob | None, events: list[Event]) -> None:
        """Add a branch's newest token to its text, emit what may be shown, and end the branch if that says so."""
        if branch.first_word is not None:
            branch.first_word.note(branch.text)
        emission = branch.text.push(token, self._piece(branch, token), prob)
        if branch.rewinding is None:
            self.counters.tokens_predicted_total += 1
        elif emission.rewind:
            self._avoid_banned(branch, emission.rewind, events)
            return
        else:
            self.counters.tokens_predicted_total += branch.rewinding.commit(branch.length, branch.num_held)
        if branch.first_word is None:
            self._emit(branch, emission, events)
        else:
            branch.first_word.take(emission)
        if emission.stop:
            self._end(branch, FinishReason.WORD, events, stop=emission.stop)
        elif emission.is_boundary:
            self._end(branch, FinishReason.BOUNDARY, events)
        elif emission.is_outdented:
            self._end(branch, FinishReason.LIMIT, events)
        elif (ending := self._ending(branch, token, emission.text)) is not None:
            if count := branch.text.take_back_end():
                self._avoid_banned(branch, count, events)
                return
            branch.end_token = token if ending.reason is FinishReason.WORD else None
            self._end(branch, ending.reason, events, truncated=ending.truncated)
        elif branch.end >= self._model.n_ctx_seq:
            self._shift(branch)
        elif branch.first_word is not None and branch.first_word.is_complete:
            self._distinct.commit(branch, events)

    def _ending(self, branch: Branch, token: int, text: str) -> Ending | None:
        """Return how a branch ends with a token that adds `text`, if not by its text; None: it goes on."""
        if token in branch.spec.sampling.stop_token_ids:
            return Ending(FinishReason.WORD)
        is_over = branch.length == branch.spec.max_tokens
        if is_over or (branch.spec.t_max_predict_ms > 0 and self._is_out_of_time(branch, text)):
            return Ending(FinishReason.LIMIT)
        if branch.end >= self._model.n_ctx_seq and not branch.request.can_shift:
            return Ending(FinishReason.LIMIT, truncated=True)
        return None

    def _piece(self, branch: Branch, token: int) -> bytes:
        """Return the bytes of a branch's newest token, less those that the prompt has."""
        if token in branch.spec.sampling.stop_token_ids and not branch.spec.include_stop:
            return b""
        piece = self._model.piece(token, token in branch.request.preserved)
        if not piece and branch.spec.stop:  # a control token, which a stop string may name
            shown = self._model.piece(token, special=True)
            piece = shown if shown and shown.decode(errors="replace") in branch.spec.stop else piece
        if branch.length > 1 or branch.healing is None or branch.healing.cover is None:
            return piece
        return piece[len(branch.healing.cover.hidden) :]

    def _end(
        self, branch: Branch, reason: FinishReason, events: list[Event], *, stop: str = "", truncated: bool = False
    ) -> None:
        """End a branch by its own text, unless its first word has to be settled before."""
        if branch.first_word is None:
            self.end(branch, reason, events, stop=stop, truncated=truncated)
        else:
            self._distinct.end(branch, Ending(reason, stop, truncated), events)

    def _avoid_banned(self, branch: Branch, count: int, events: list[Event]) -> None:
        """Rewind a branch whose text has taken back a banned text's tokens; end it at a dead end."""
        self._rewind_text(branch, count)
        rewinding = branch.rewinding
        assert rewinding is not None
        if rewinding.is_dead_end(branch.length) and not self._go_further(branch) and not self._distinct.go_back(branch):
            self.end(branch, FinishReason.ERROR, events, error=dead_end(len(rewinding.forbidden)))

    def _rewind_text(self, branch: Branch, count: int) -> None:
        if branch.first_word is not None:
            branch.first_word.forget(count)
        self.rewind(branch, count)

    def _go_further(self, branch: Branch) -> bool:
        """Take a branch out of a dead end: back to an earlier token that is held back; return False if that does not help.

        Where there is none, matches with a weight stand from then on: they end no branch.
        """
        rewinding = branch.rewinding
        assert rewinding is not None
        while count := branch.text.take_back_token():
            self._rewind_text(branch, count)
            if not rewinding.is_dead_end(branch.length):
                return True
        if not branch.text.let_stand():
            return False
        rewinding.pardon(branch.length)
        return True

    def _leave_dead_end(self, branch: Branch, row: int | None, events: list[Event]) -> bool:
        """Go on after a draw that failed, if bans or the words of siblings are why it did; return whether it goes on."""
        rewinding, length = branch.rewinding, branch.length
        has_tried = branch.first_word is not None and branch.first_word.has_tried
        if rewinding is None or not (rewinding.forbidden or has_tried):
            return False
        self.undo(branch)
        if not self._go_further(branch) and not self._distinct.go_back(branch):
            return False
        if branch.length == length:  # every token is allowed again
            self.counters.decode_steps_total -= row is not None
            self.sample(branch, row, events)
        return True

    def _shift(self, branch: Branch) -> None:
        """Shift the context of a branch that has reached its end: discard some text and compute the rest again."""
        request = branch.request
        branch.move(BranchState.WAITING)
        self.return_lease(branch, keep=branch.is_kept)
        self._prompts.release(request.prefix)
        shift = request.shift_context(self._count_special(request.prefix.tokens))
        if branch.text.num_held and branch.rewinding is not None:
            branch.rewinding.shifts.append(shift)
        self.counters.context_shifts_total += 1

    def _unshift(self, branch: Branch, rewinding: Rewinding, count: int) -> int:
        """Undo the context shifts during the last `count` tokens; return how many of the branch's tokens are before them.

        The branch has no lease. The prompt begins again.
        """
        self._prompts.release(branch.request.prefix)
        while count > len(branch.tokens):
            count -= len(branch.tokens)
            branch.tokens = tokens_of(())
            branch.request.unshift_context(rewinding.shifts.pop())
        return len(branch.tokens) - count

    def _is_out_of_time(self, branch: Branch, text: str) -> bool:
        """Whether `text` ends a line after the branch's time limit (t_max_predict_ms)."""
        now = self._clock()
        if branch.began_at is None:
            branch.began_at = now
        return "\n" in text and (now - branch.began_at) * 1000 > branch.spec.t_max_predict_ms

    def _emit(self, branch: Branch, emission: Emission, events: list[Event]) -> None:
        if emission.text or emission.tokens:
            branch.shown.append(emission.text)
            branch.num_shown += len(emission.tokens)
            branch.has_new_line = branch.has_new_line or "\n" in emission.text
            request, spent_ms = branch.request, branch.request.predicted_ms(self.now)
            has_probs = branch.spec.sampling.n_probs >= 0
            for part in emission.parts() if has_probs else (emission,):
                probs = part.probs if has_probs else None
                if request.keep_probs and probs:
                    branch.keep(probs)
                events.append(Delta(request.request_id, branch.index, part.text, part.tokens, probs, spent_ms))


def _ended(
    branch: Branch, reason: FinishReason, stop: str, truncated: bool, error: SRBError | None, now: float
) -> BranchEnded:
    """Return the end of a branch, with its counts and log-probabilities. `now` is in seconds of the engine's clock."""
    path = branch.path
    total = path.of_text if path is not None else branch.logprob_sum
    has_logprob = branch.length > 0 and (path is not None or branch.spec.is_scored)
    return BranchEnded(
        branch.request.request_id,
        branch.index,
        reason,
        branch.length,
        stop,
        truncated=truncated or branch.num_shifted > 0,
        logprob=total / branch.length if has_logprob else None,
        code=error.code if error else "",
        message=error.message if error else "",
        rewinds=branch.num_rewinds,
        path_logprob=path.logprob if path is not None else None,
        drafted=branch.num_drafted,
        accepted=branch.num_accepted,
        given_computed=branch.num_decoded,
        end_token=branch.end_token if reason in (FinishReason.EOS, FinishReason.WORD) and not stop else None,
        predicted_ms=branch.request.predicted_ms(now),
    )
