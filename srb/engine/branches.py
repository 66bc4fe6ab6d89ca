"""What a branch goes through: it starts, chooses its tokens one by one, may pause or shift, and ends."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from srb.engine.model import Model
from srb.engine.prefix_tree import PrefixTree
from srb.engine.probs import chosen_probs, token_probs
from srb.engine.request import Branch, BranchState
from srb.engine.text import Emission, Prob
from srb.errors import GrammarDeadEnd, SRBError
from srb.protocol import BranchEnded, Delta, Event, FinishReason

SMALLEST_PROB = 1e-45  # in 32 bits


@dataclass(slots=True)
class BranchCounters:
    """What branches have done since the start."""

    tokens_predicted_total: int = 0
    n_tokens_max: int = 0
    branches_paused_total: int = 0
    context_shifts_total: int = 0


class Branches:
    """The one writer of a branch's state, tokens and text; what there is to tell of it goes into `events`."""

    def __init__(
        self,
        model: Model,
        tree: PrefixTree,
        clock: Callable[[], float],
        count_special: Callable[[Sequence[int]], int],
        note_end: Callable[[Branch], None],
    ) -> None:
        """`count_special` counts the tokens at a prompt's beginning that every text has.

        `note_end` is told of each branch that has ended and whose KV the tree keeps.
        """
        self._model = model
        self._tree = tree
        self._clock = clock
        self._count_special = count_special
        self._note_end = note_end
        self.counters = BranchCounters()

    def start(self, branch: Branch, events: list[Event]) -> None:
        """Fork the prefix of a branch, which samples its own first token; or let it go on that has been paused."""
        self._tree.start(branch)
        branch.move(BranchState.RUNNING)
        if branch.spec.max_tokens == 0:
            self.end(branch, FinishReason.LIMIT, events)
        elif not branch.tokens:
            self.sample(branch, None, events)

    def sample(self, branch: Branch, row: int | None, events: list[Event]) -> None:
        """Choose a branch's next token from a row of the last decode, or from its prefix's logits where row is None."""
        prefix_logits = branch.request.prefix.logits
        try:
            if row is not None:
                token = branch.sampler.sample(row)
            else:
                assert prefix_logits is not None
                token = branch.sampler.sample_from(prefix_logits)
        except GrammarDeadEnd as error:
            self.end(branch, FinishReason.ERROR, events, error=error)
            return
        if self._model.is_eog(token):
            self.end(branch, FinishReason.EOS, events)
            return
        prob: Prob | None = None
        if branch.spec.sampling.n_probs >= 0:
            prob = self._prob(branch, row, token)
        self._append(branch, token, prob, events)

    def pause(self, branch: Branch) -> None:
        """Take a branch's sequence under pressure; the tree keeps what it can of its KV until there is room again."""
        branch.move(BranchState.WAITING)
        self._tree.end(branch, keep=self._model.can_cut and branch.request.cache_prompt)
        self.counters.branches_paused_total += 1

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
        """End one branch, whatever its siblings do: its text is completed, its sequence and cells are free at once."""
        if not stop:
            emission = branch.text.finish()
            self._show(branch, emission, events)
            if emission.stop:
                reason, stop = FinishReason.WORD, emission.stop
        self._tree.end(branch, keep=branch.request.cache_prompt)
        if branch.request.cache_prompt:
            self._note_end(branch)
        branch.move(BranchState.ENDED)
        branch.sampler.close()
        length, truncated = branch.length, truncated or branch.num_shifted > 0
        self.counters.n_tokens_max = max(self.counters.n_tokens_max, branch.end)
        logprob = branch.logprob_sum / length if length and branch.spec.sampling.n_probs >= 0 else None
        slug, message = (error.slug, error.message) if error else ("", "")
        events.append(
            BranchEnded(
                branch.request.request_id, branch.index, reason, length, stop, truncated, logprob, slug, message
            )
        )

    def _prob(self, branch: Branch, row: int | None, token: int) -> Prob:
        """Return how probable the token that was just sampled is, and the likeliest others."""
        sampling = branch.spec.sampling
        if sampling.post_sampling_probs:
            prob = chosen_probs(self._model, branch.sampler.candidates, token, sampling.n_probs)
            branch.logprob_sum += math.log(max(prob["prob"], SMALLEST_PROB))
            return prob
        logits = self._model.logits(row) if row is not None else branch.request.prefix.logits
        assert logits is not None
        prob = token_probs(self._model, logits, token, sampling.n_probs)
        branch.logprob_sum += prob["logprob"]
        return prob

    def _append(self, branch: Branch, token: int, prob: Prob | None, events: list[Event]) -> None:
        branch.tokens.append(token)
        self.counters.tokens_predicted_total += 1
        emission = branch.text.push(token, self._model.piece(token), prob)
        self._show(branch, emission, events)
        if emission.stop:
            self.end(branch, FinishReason.WORD, events, stop=emission.stop)
        elif (
            emission.is_outdented
            or branch.length == branch.spec.max_tokens
            or self._is_out_of_time(branch, emission.text)
        ):
            self.end(branch, FinishReason.LIMIT, events)
        elif branch.end >= self._model.n_ctx_seq and branch.request.can_shift:
            self._shift(branch)
        elif branch.end >= self._model.n_ctx_seq:
            self.end(branch, FinishReason.LIMIT, events, truncated=True)

    def _shift(self, branch: Branch) -> None:
        """Let a branch go on that has reached the context's end: discard some of its text and compute the rest anew."""
        request = branch.request
        branch.move(BranchState.WAITING)
        self._tree.end(branch, keep=request.cache_prompt)
        self._tree.release(request.prefix)
        request.shift_context(self._count_special(request.prefix.tokens))
        self.counters.context_shifts_total += 1

    def _is_out_of_time(self, branch: Branch, text: str) -> bool:
        """Whether a branch with a time limit has reached the end of a line after it."""
        if branch.spec.max_ms <= 0:
            return False
        now = self._clock()
        if branch.began_at is None:
            branch.began_at = now
        return "\n" in text and (now - branch.began_at) * 1000 > branch.spec.max_ms

    def _show(self, branch: Branch, emission: Emission, events: list[Event]) -> None:
        if emission.text or emission.tokens:
            branch.has_new_line = branch.has_new_line or "\n" in emission.text
            probs = emission.probs if branch.spec.sampling.n_probs >= 0 else None
            events.append(Delta(branch.request.request_id, branch.index, emission.text, emission.tokens, probs))
