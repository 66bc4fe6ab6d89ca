"""The choice of a branch's next token. Its chooser is made with it: its sampler alone, or with others that have a say."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar, Protocol

from srb.engine.healing import Cover
from srb.engine.model import Logits, Model, Sampler
from srb.engine.rewinding import Rewinding
from srb.engine.text import Prob
from srb.engine.tokens import Tokens
from srb.wire.commands import BranchSpec


@dataclass(slots=True)
class Path:
    """An explored branch's way from the prompt: the log-probability of all its tokens together."""

    logprob: float = 0.0  # with that of the end of the text, if the model chose it
    of_text: float = 0.0  # without
    probs: list[Prob] = field(default_factory=list)  # of each token, if the answer tells them
    num_shared: int = 0  # tokens that the branch has from its origin


class Drawing(Protocol):
    """As much of a branch as the choice of its tokens depends on; `Branch` says what each is."""

    index: int
    spec: BranchSpec
    sampler: Sampler
    tokens: Tokens
    num_directed: int
    num_given: int
    num_hidden: int
    num_shifted: int
    logits: Logits | None
    logprob_sum: float
    path: Path | None
    rewinding: Rewinding | None

    @property
    def siblings(self) -> "Sequence[Drawing]": ...
    @property
    def length(self) -> int: ...
    @property
    def num_held(self) -> int: ...
    @property
    def is_active(self) -> bool: ...
    @property
    def is_held(self) -> bool: ...
    @property
    def first_word(self) -> object | None: ...
    @property
    def next_cover(self) -> Cover | None: ...
    @property
    def prompt_logits(self) -> Logits | None: ...


class Rows:
    """The logits that next tokens are drawn from."""

    def __init__(self, model: Model) -> None:
        self._model = model

    def of(self, branch: Drawing, row: int | None) -> Logits:
        """Return a row of the last decode, shape (n_vocab,); if `row` is None, the branch's logits, or its prefix's."""
        if row is not None:
            return self._model.logits(row)
        if branch.logits is not None:
            return branch.logits
        if (cover := branch.next_cover) is not None and cover.logits is not None:
            return cover.logits
        assert branch.prompt_logits is not None
        return branch.prompt_logits


class Chooser(Protocol):
    """Draws and accepts the next tokens of a branch."""

    is_plain: ClassVar[bool]  # whether the sampler alone draws each token, and all of them are final

    def choose(self, branch: Drawing, row: int | None, rows: Rows, logits: Logits | None = None) -> int:
        """Return the next token, drawn from a row of the last decode, or from stored logits if `row` is None.

        `logits`, shape (n_vocab,), are those, if a chooser around this one has changed them; None: as `rows` has them.
        Raise GrammarDeadEnd, BannedDeadEnd or GrammarTooComplex.
        """

    def is_free(self, branch: Drawing) -> bool:
        """Whether the next token depends on the branch alone, and none is forbidden: it may be drawn ahead."""

    def is_early(self, branch: Drawing) -> bool:
        """Whether the next token has to wait for the first ones of the branches before this one."""


class Plain:
    """The branch's sampler."""

    is_plain: ClassVar[bool] = True

    def choose(self, branch: Drawing, row: int | None, rows: Rows, logits: Logits | None = None) -> int:
        """Return the next token, as `Chooser` says."""
        if row is not None:
            return branch.sampler.sample(row)  # which reads changed logits where they stand
        return branch.sampler.sample_from(rows.of(branch, row) if logits is None else logits)

    def is_free(self, branch: Drawing) -> bool:
        return True

    def is_early(self, branch: Drawing) -> bool:
        return False


PLAIN = Plain()


class TakingBack:
    """Another chooser, for a branch whose tokens may be taken back: none comes again where it was."""

    is_plain: ClassVar[bool] = False

    def __init__(self, inner: Chooser) -> None:
        self._inner = inner

    def choose(self, branch: Drawing, row: int | None, rows: Rows, logits: Logits | None = None) -> int:
        """Return the next token, as `Chooser` says."""
        rewinding = branch.rewinding
        if rewinding is None:  # its first word is settled
            return self._inner.choose(branch, row, rows, logits)
        rewinding.note_sum(branch.logprob_sum)
        if not rewinding.forbidden:
            return self._inner.choose(branch, row, rows, logits)
        draw = partial(self._inner.choose, branch, row, rows)
        return rewinding.sample(draw, rows.of(branch, row), is_shared=row is None)

    def is_free(self, branch: Drawing) -> bool:
        return not (branch.rewinding is not None and branch.rewinding.forbidden) and self._inner.is_free(branch)

    def is_early(self, branch: Drawing) -> bool:
        return self._inner.is_early(branch)
