"""The choice of a branch's next token. Its chooser is made with it: its sampler alone, or with others that have a say."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar, Protocol

from srb.engine.model import Logits, Model

if TYPE_CHECKING:
    from srb.engine.request import Branch


class Rows:
    """The logits that next tokens are drawn from."""

    def __init__(self, model: Model) -> None:
        self._model = model

    def of(self, branch: Branch, row: int | None) -> Logits:
        """Return a row of the last decode, shape (n_vocab,); if `row` is None, the branch's logits, or its prefix's."""
        if row is not None:
            return self._model.logits(row)
        if branch.logits is not None:
            return branch.logits
        if (cover := branch.next_cover) is not None and cover.logits is not None:
            return cover.logits
        assert branch.request.prefix.logits is not None
        return branch.request.prefix.logits


class Chooser(Protocol):
    """Draws and accepts the next tokens of a branch."""

    is_plain: ClassVar[bool]  # whether the sampler alone draws each token, and all of them are final

    def choose(self, branch: Branch, row: int | None, rows: Rows, logits: Logits | None = None) -> int:
        """Return the next token, drawn from a row of the last decode, or from stored logits if `row` is None.

        `logits`, shape (n_vocab,), are those, if a chooser around this one has changed them; None: as `rows` has them.
        Raise GrammarDeadEnd, BannedDeadEnd or GrammarTooComplex.
        """

    def is_free(self, branch: Branch) -> bool:
        """Whether the next token depends on the branch alone, and none is forbidden: it may be drawn ahead."""

    def is_early(self, branch: Branch) -> bool:
        """Whether the next token has to wait for the first ones of the branches before this one."""


class Plain:
    """The branch's sampler."""

    is_plain: ClassVar[bool] = True

    def choose(self, branch: Branch, row: int | None, rows: Rows, logits: Logits | None = None) -> int:
        """Return the next token, as `Chooser` says."""
        if row is not None:
            return branch.sampler.sample(row)  # which reads changed logits where they stand
        return branch.sampler.sample_from(rows.of(branch, row) if logits is None else logits)

    def is_free(self, branch: Branch) -> bool:
        return True

    def is_early(self, branch: Branch) -> bool:
        return False


PLAIN = Plain()


class TakingBack:
    """Another chooser, for a branch whose tokens may be taken back: none comes again where it was."""

    is_plain: ClassVar[bool] = False

    def __init__(self, inner: Chooser) -> None:
        self._inner = inner

    def choose(self, branch: Branch, row: int | None, rows: Rows, logits: Logits | None = None) -> int:
        """Return the next token, as `Chooser` says."""
        rewinding = branch.rewinding
        if rewinding is None:  # its first word is settled
            return self._inner.choose(branch, row, rows, logits)
        rewinding.note_sum(branch.logprob_sum)
        if not rewinding.forbidden:
            return self._inner.choose(branch, row, rows, logits)
        draw = partial(self._inner.choose, branch, row, rows)
        return rewinding.sample(draw, rows.of(branch, row), is_shared=row is None)

    def is_free(self, branch: Branch) -> bool:
        return not (branch.rewinding is not None and branch.rewinding.forbidden) and self._inner.is_free(branch)

    def is_early(self, branch: Branch) -> bool:
        return self._inner.is_early(branch)
