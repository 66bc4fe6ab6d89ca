"""What a prompt goes through: it begins, is computed and scored in parts, and is complete."""

from __future__ import annotations

from collections.abc import Callable

from srb.engine.model import Model
from srb.engine.named_states import NamedStates
from srb.engine.prefix_tree import PrefixTree
from srb.engine.probs import token_probs, unknown_prob
from srb.engine.request import Prefix, Request
from srb.engine.residency import Residency
from srb.protocol import Event, Progress, PromptDone, PromptProbs


class Prompts:
    """Makes the tree compute and keep prompts; what there is to tell of them goes into `events`."""

    def __init__(
        self, model: Model, tree: PrefixTree, residency: Residency, states: NamedStates, clock: Callable[[], float]
    ) -> None:
        self._model = model
        self._tree = tree
        self._residency = residency
        self._states = states
        self._clock = clock
        self.tokens_total = 0  # computed since the start

    def begin(self, request: Request, events: list[Event]) -> None:
        """Give a request what the tree holds of its prompt, for the first time or after it was dropped."""
        if request.started_at is None:
            request.started_at = self._clock()
        if request.saved is not None:
            self._states.adopt(request.saved)
        self._tree.begin(request.prefix, request.cache_prompt, request.reuses)
        self._report_progress(request, events)
        if request.prefix.is_complete:  # the very same prompt is there, with its logits
            self._tell_done(request, events)

    def score(self, prefix: Prefix, count: int, last_row: int, events: list[Event]) -> None:
        """Tell the probabilities of the tokens that follow the `count` that were just computed, up to `last_row`."""
        n_top = max(0, prefix.request.branches[0].spec.sampling.n_probs)
        first, done = prefix.num_computed, prefix.num_scored
        probs = [unknown_prob(self._model, prefix.tokens[0])] if done == 0 else []
        for place in range(max(first + 1, done + len(probs)), min(first + count + 1, len(prefix.tokens))):
            logits = self._model.logits(last_row - (first + count - place))
            probs.append(token_probs(self._model, logits, prefix.tokens[place], n_top))
        prefix.num_scored += len(probs)
        if probs:
            events.append(PromptProbs(prefix.request.request_id, probs))

    def advance(self, prefix: Prefix, count: int, events: list[Event]) -> None:
        """Record that `count` further tokens have been computed."""
        self._residency.computed(prefix, count)
        self.tokens_total += count
        self._report_progress(prefix.request, events)

    def complete(self, prefix: Prefix, row: int, events: list[Event]) -> None:
        """Keep the logits of the last token: branches that begin later than others need nothing computed again."""
        self._tree.complete(prefix, self._model.logits(row).copy(), prefix.request.cache_prompt)
        self._tell_done(prefix.request, events)

    def _report_progress(self, request: Request, events: list[Event]) -> None:
        if not request.report_progress or request.prefix_done_at is not None:
            return
        assert request.started_at is not None
        prefix, time_ms = request.prefix, (self._clock() - request.started_at) * 1000
        progress = (len(prefix.tokens), prefix.num_cached or 0, prefix.num_computed, time_ms)
        events.append(Progress(request.request_id, *progress))

    def _tell_done(self, request: Request, events: list[Event]) -> None:
        """Say PromptDone, the first time that a prompt is there, and keep its state where that has a name."""
        if request.prefix_done_at is None:
            assert request.started_at is not None
            request.prefix_done_at = self._clock()
            prompt_ms = (request.prefix_done_at - request.started_at) * 1000
            cached, restored = request.prefix.num_cached or 0, request.prefix.num_restored
            events.append(PromptDone(request.request_id, cached, restored, prompt_ms))
        if request.state_name:
            self._states.keep_prompt(request)
