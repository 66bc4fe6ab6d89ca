"""Drafts of a model's own head: a few layers that a model is shipped with, which draft from its hidden states.

The head follows the sequences of the model, so prompts are read once for all branches, and nothing has to be remembered
here but what was drafted. Of texts that were restored it knows only what came after; of those with pictures nothing.
"""

from collections.abc import Sequence

from srb.engine.drafting import Drafted
from srb.engine.guesses import Guesses, first_chances
from srb.engine.lookup import Chances
from srb.engine.model import Head, Model
from srb.engine.request import Branch, Prefix
from srb.engine.sampling import is_greedy


class HeadDrafter:
    """Drafts of the head that a model has."""

    needs_trim = False

    def __init__(self, model: Model, head: Head) -> None:
        self.model = model
        self._head = head
        self._chances = first_chances()
        self._chances_of: dict[Prefix, Chances] = {}
        self._guesses: dict[Branch, Guesses] = {}
        self.passes_total = 0

    @property
    def tokens_total(self) -> int:
        """Number of tokens that the head has computed, drafted ones included."""
        return self._head.tokens_total

    def lag(self, branch: Branch) -> int | None:
        if branch.lease is None or branch.end >= self.model.n_ctx_seq:
            return None
        if (guesses := self._guesses.get(branch)) is not None:
            guesses.learn(branch.tokens)
        self.model.flush()
        return self._head.lag(branch.lease.seq_id, branch.end - 1)

    def has(self, branch: Branch) -> bool:
        return branch.lease is not None

    def compute(self, branch: Branch, most: int) -> int:
        assert branch.lease is not None
        return self._head.read([branch.lease.seq_id])

    def draft(self, wanted: Sequence[tuple[Branch, int]], n_vocab: int, least: float = 0.0) -> list[Drafted]:
        rows: list[tuple[int, int, int]] = []
        drafts = [self._guesses_of(branch) for branch, _ in wanted]
        for guesses, (branch, _) in zip(drafts, wanted, strict=True):
            assert branch.lease is not None
            guesses.begin(len(branch.tokens))
            rows.append((branch.lease.seq_id, branch.end - 1, branch.tokens[-1]))
        live, is_computed = list(range(len(wanted))), self._head.begin(rows)
        while is_computed:
            self.passes_total += 1
            places = [
                place
                for place, number in enumerate(live)
                if drafts[number].extend(
                    self._head.logits(place)[:n_vocab], self.model.is_eog, wanted[number][1], least
                )
            ]
            live = [live[place] for place in places]
            tokens = [drafts[number].tokens[-1] for number in live]
            is_computed = bool(live) and self._head.go_on(list(zip(places, tokens, strict=True)))
        self._head.drop()
        return [(guesses.tokens, guesses.chances) for guesses in drafts]

    def _guesses_of(self, branch: Branch) -> Guesses:
        found = self._guesses.get(branch)
        if found is None:
            own = self._chances_of.setdefault(branch.request.prefix, self._chances.copy())
            found = self._guesses[branch] = Guesses(own, self._chances, is_greedy(branch.spec.sampling))
        return found

    def follow_prompts(self, pays: bool) -> None:
        self._head.follow_prompts(pays)

    def forget(self, branch: Branch, keep: bool) -> None:
        if (guesses := self._guesses.pop(branch, None)) is not None:
            guesses.learn(branch.tokens)

    def forget_prompt(self, prefix: Prefix) -> None:
        self._chances_of.pop(prefix, None)

    def trim(self) -> None:
        """Do nothing: the head has no texts but the model's."""

    def close(self) -> None:
        """Do nothing: the head is closed with its model."""

    def check_invariants(self) -> None:
        for branch in self._guesses:
            assert branch.lease is not None, f"{branch!r} does not run and has a draft"
        for prefix in self._chances_of:
            assert prefix.node is not None, f"{prefix!r} was released and is followed"
