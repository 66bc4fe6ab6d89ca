"""A prompt's life: it begins, is computed and scored in chunks, and completes."""

from collections.abc import Callable

import numpy as np

from srb.engine.model import Model
from srb.engine.named_states import NamedStates
from srb.engine.probs import token_probs, unknown_prob
from srb.engine.request import Prefix, Request
from srb.engine.tree.match import Match
from srb.engine.tree.prefix_tree import PrefixTree
from srb.engine.tree.residency import Residency
from srb.wire.events import Event, Progress, PromptDone, PromptLogprobs


class Prompts:
    """Prompts of all requests: begins, records and completes them in the tree, and appends their `events`."""

    def __init__(
        self,
        model: Model,
        tree: PrefixTree,
        residency: Residency,
        states: NamedStates,
        clock: Callable[[], float],
        note_release: Callable[[Prefix], None],
    ) -> None:
        """`note_release` is called with each prompt that is released."""
        self._model = model
        self._tree = tree
        self._residency = residency
        self._states = states
        self._clock = clock
        self._note_release = note_release
        self.tokens_total = 0  # prompt tokens computed since the start
        self.hits_total = 0  # requests whose prompt was in the tree, at least in part
        self.cached_tokens_total = 0  # prompt tokens that were in the tree
        self.image_tokens_total = 0  # prompt tokens of pictures, in the tree or not
        self.audio_tokens_total = 0  # … and of sounds

    def begin(self, request: Request, match: Match | None, events: list[Event]) -> None:
        """Begin a prompt, for the first time or after it was dropped under pressure.

        `match` is the part of it that the tree holds; None if the request does not use the tree.
        """
        request.begin(self._clock())
        prefix = request.prefix
        begun = self._tree.begin(prefix.tokens, request.scope, request.cache_prompt, match, request.asker)
        prefix.node, prefix.logits, prefix.num_shared = begun.node, begun.logits, begun.num_shared
        if prefix.num_cached is None:  # after a drop the request finds its own tokens, which do not count
            prefix.num_cached, prefix.num_restored = begun.num_cached, begun.num_restored
            self.hits_total += begun.num_cached > 0
            self.cached_tokens_total += begun.num_cached
            self.image_tokens_total += prefix.num_image_tokens
            self.audio_tokens_total += prefix.num_audio_tokens
        self._report_progress(request, events)
        if request.prefix.is_complete:  # the tree holds the whole prompt with its logits
            self._report_done(request, events)

    def _score(self, prefix: Prefix, count: int, last_row: int, events: list[Event]) -> None:
        """Emit the log-probabilities of the prompt tokens predicted by the last `count` rows, up to `last_row`."""
        ranked = prefix.request.prompt_top >= 0
        n_top = prefix.request.prompt_top if ranked else max(0, prefix.request.branches[0].spec.sampling.n_probs)
        first, done = prefix.num_computed, prefix.num_prompt_logprobs
        wants_entropy = prefix.request.wants_entropy
        probs = [unknown_prob(self._model, prefix.tokens[0], wants_entropy)] if done == 0 else []
        for place in range(max(first + 1, done + len(probs)), min(first + count + 1, len(prefix.tokens))):
            logits = self._model.logits(last_row - (first + count - place))
            token = prefix.tokens[place]
            probs.append(token_probs(self._model, logits, token, n_top, wants_entropy))
            if ranked:
                probs[-1]["rank"] = 1 + int(np.count_nonzero(logits > logits[token]))
        prefix.num_prompt_logprobs += len(probs)
        if probs:
            events.append(PromptLogprobs(prefix.request.request_id, probs))

    def advance(self, prefix: Prefix, count: int, last_row: int, events: list[Event]) -> None:
        """Record that `count` further tokens have been computed, the last one in `last_row` of the decode."""
        assert prefix.node is not None
        if prefix.request.wants_prompt_logprobs:
            self._score(prefix, count, last_row, events)
        prefix.num_decoded += count if prefix.request.prefix_done_at is None else 0
        self._residency.record_computed(prefix.node, count)
        if prefix.request.cache_prompt:
            self._residency.states.note_prompt(prefix.node, count, prefix.tokens, prefix.num_shared)
        self.tokens_total += count
        self._report_progress(prefix.request, events)

    def complete(self, prefix: Prefix, row: int, events: list[Event]) -> None:
        """Complete a prompt: keep the logits of its last token, from which every branch samples its first."""
        assert prefix.node is not None
        prefix.logits = self._model.logits(row).copy()
        prefix.node = self._tree.complete(prefix.node, prefix.logits, prefix.request.cache_prompt)
        self._report_done(prefix.request, events)

    def release(self, prefix: Prefix) -> None:
        """Release a prompt's node, if it has one. Its computed tokens stay in the tree if the request allows it."""
        node, prefix.node, prefix.lookup = prefix.node, None, None
        if node is not None:
            self._note_release(prefix)
            self._tree.release(node, prefix.request.asker)

    def stats(self) -> dict[str, float]:
        """Return counters (`…_total`) by name."""
        return {
            "prompt_tokens_total": self.tokens_total,
            "prefix_hits_total": self.hits_total,
            "prompt_tokens_cached_total": self.cached_tokens_total,
            "prompt_image_tokens_total": self.image_tokens_total,
            "prompt_audio_tokens_total": self.audio_tokens_total,
        }

    def _report_progress(self, request: Request, events: list[Event]) -> None:
        if not request.report_progress or request.prefix_done_at is not None:
            return
        assert request.started_at is not None
        prefix, time_ms = request.prefix, (self._clock() - request.started_at) * 1000
        slot = request.branches[0].slot
        progress = (len(prefix.tokens), prefix.num_cached or 0, prefix.num_computed, time_ms, slot)
        events.append(Progress(request.request_id, *progress))

    def _report_done(self, request: Request, events: list[Event]) -> None:
        """Emit PromptDone when the prompt first completes, and keep its state if the request names one."""
        if request.prefix_done_at is None:
            assert request.started_at is not None
            request.prefix_done_at = self._clock()
            prompt_ms = (request.prefix_done_at - request.started_at) * 1000
            cached, restored = request.prefix.num_cached or 0, request.prefix.num_restored
            slots = [branch.slot for branch in request.branches]
            counts = request.prefix.num_image_tokens, request.prefix.num_audio_tokens, request.prefix.num_decoded
            events.append(PromptDone(request.request_id, cached, restored, prompt_ms, slots, *counts))
        if request.state_name:
            self._states.keep_prompt(request)
