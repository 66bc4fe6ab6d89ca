"""The oracle of rewinds: the text of a run that begins anew, with one more token forbidden, whenever a string completes."""

from __future__ import annotations

import codecs
from collections import Counter
from collections.abc import Sequence

import numpy as np

from srb.config.sampling_params import SamplingParams
from srb.engine.fake import EOS, FakeModel, _hash
from srb.engine.patterns import fold
from srb.engine.rewinding import MAX_REWINDS
from srb.wire.commands import ContextShift


class Oracle:
    """One branch over the fake, computed from its first token after every ban; its text is searched anew every time."""

    def __init__(
        self,
        prompt: Sequence[int],
        seed: int,
        banned: Sequence[str],
        max_tokens: int,
        min_tokens: int = 0,
        shift: ContextShift | None = None,
        n_ctx_seq: int = 4096,
        **sampling: object,
    ) -> None:
        self._model = FakeModel(n_ctx=4096)
        self._prompt = prompt
        self._shift, self._n_ctx_seq = shift, n_ctx_seq
        self._banned = [fold(string) for string in banned]
        self.forbidden: dict[int, set[int]] = {}
        self.rewinds: Counter[int] = Counter()
        self.is_dead = False
        self._first_held = 0  # the first token of which nothing is sent
        while True:
            self.tokens: list[int] = []
            if self._is_written(seed, max_tokens, min_tokens, SamplingParams(**sampling)):  # type: ignore[arg-type]
                break
        self.text = b"".join(self._model.piece(token) for token in self.tokens).decode(errors="replace")

    def _is_written(self, seed: int, max_tokens: int, min_tokens: int, params: SamplingParams) -> bool:
        sampler = self._model.new_sampler(params, seed, [], min_tokens)
        context = list(self._prompt)
        for place in range(max_tokens):
            visible = b""
            for token in context:
                visible = _hash(visible, [token])
            logits = self._model._next_logits(visible)
            logits[list(self.forbidden.get(place, ()))] = -np.inf
            token = sampler.sample_from(logits)
            if token == EOS:
                return True
            self.tokens.append(token)
            if (first := self._first_of_banned()) is not None:
                self._forbid(first)
                return self.is_dead
            self._note_held()
            context.append(token)
            if self._shift is not None and len(context) >= self._n_ctx_seq:
                kept, lost = self._shifted(len(context), self._shift)
                del context[kept : kept + lost]
        return True

    def _shifted(self, count: int, shift: ContextShift) -> tuple[int, int]:
        """Return how many tokens a context shift keeps at the beginning, and how many it discards after them."""
        kept = min(len(self._prompt) if shift.n_keep < 0 else shift.n_keep + 1, count - 4)
        return kept, min(shift.n_discard or (count - kept) // 2, count - kept - 1)

    def _forbid(self, place: int) -> None:
        for later in [other for other in self.forbidden if other > place]:
            del self.forbidden[later]
        self.forbidden.setdefault(place, set()).add(self.tokens[place])
        self.rewinds[place] += 1
        del self.tokens[place:]
        if self.rewinds[place] >= MAX_REWINDS:
            if place > self._first_held:
                self._forbid(place - 1)
            else:
                self.is_dead = True

    def _first_of_banned(self) -> int | None:
        """Return the place of the token in which a banned string begins that the text has, or None."""
        text, ends = self._read()
        found = [(at + len(string), len(string)) for string in self._banned if (at := text.find(string)) >= 0]
        if not found:
            return None
        end, size = min(found)
        return max(self._first_held, sum(other <= end - size for other in ends))

    def _note_held(self) -> None:
        """Note which tokens are sent: those before the token in which the text's end begins a banned string."""
        text, ends = self._read()
        sizes = [size for string in self._banned for size in range(len(string)) if text.endswith(string[:size])]
        first = sum(end <= len(text) - max(sizes) for end in ends) if max(sizes, default=0) else len(ends)
        self._first_held = max(self._first_held, first)

    def _read(self) -> tuple[str, list[int]]:
        """Return the text of all tokens without its case, and where each one's ends."""
        decoder, text, ends = codecs.getincrementaldecoder("utf-8")("replace"), "", []
        for token in self.tokens:
            text += decoder.decode(self._model.piece(token))
            ends.append(len(text))
        return fold(text), ends
