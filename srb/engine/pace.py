"""The pace of steps by measured time: the tokens of prompts beside branches that write, and whose branches they compute."""

from collections.abc import Mapping

from srb.engine.step_times import StepTimes

FIRST = 32  # prompt tokens of a step before any time is known
LEAST = 16  # prompt tokens of a step: kernels compute so many columns at once, fewer make a step hardly shorter
# Seconds of a step for prompts, by those that it takes without them, at least: a prompt then takes 1.6 times its time alone
# at most, however long a step of branches is.
_LEAST_SHARE = 5 / 3
# Where a step of LEAST prompt tokens takes long already, twice its time is allowed: this is nearly as long, and large models
# compute a third more tokens in it.
_LEAST_AND = 24  # prompt tokens, beside as long as the step takes without them
# Weights of the newest step: with too quick a pace streams stutter, with too slow a one they do not.
_FASTER, _SLOWER = 0.2, 0.7
_APART = 512  # places of a text whose tokens count as equally long
_MOST_OWED = 1.0  # seconds: who was kept waiting for long, or has kept others, is not paid back for longer
_MOST_SLOWER = 3.0  # times what a token took before: more counts as so much, since another program may have held it up


class _TokenCosts:
    """Seconds that one prompt token adds to a step, by its place in its text: attention reads all tokens before it.

    Without the places each prompt would begin with the small steps in which a long one before it has ended.
    """

    def __init__(self) -> None:
        self._seconds: list[float] = []  # of the first _APART places, of the next ones, …

    def at(self, place: int) -> float | None:
        """Return the seconds of a token at a place, or at the last one that was measured; None: nothing is measured."""
        return self._seconds[min(place // _APART, len(self._seconds) - 1)] if self._seconds else None

    def note(self, place: int, seconds: float, num_tokens: int) -> None:
        """Note what each of so many tokens took; a few of them say little."""
        which = place // _APART
        self._seconds += (self._seconds[-1:] or [seconds]) * (which + 1 - len(self._seconds))
        known = self._seconds[which]
        missed = (min(seconds, _MOST_SLOWER * known) if known else seconds) - known
        self._seconds[which] += (_SLOWER if missed > 0 else _FASTER) * min(1.0, num_tokens / LEAST) * missed


class Pace:
    """The tokens that a step has time for; measured steps tell how long one of them takes."""

    def __init__(self, step_seconds: float) -> None:
        """Let a step take `step_seconds`; 0: as long as it takes."""
        self._step_seconds = step_seconds
        self._plain = StepTimes()  # of steps without prompts, by their tokens
        self._nearest = 0  # the size of the latest of these
        self._line: tuple[float, float] | None = None  # of these (`StepTimes.line`), where `_has_line`
        self._has_line = False  # only steps of several people, or of sizes that were not measured, ask for it
        # Seconds that each person is owed whose branches are written: her share of the time, less what she has had.
        self._owed: dict[str, float] = {}
        self._costs = _TokenCosts()

    def most_prompt(self, num_newest: int, spent: float = 0.0, place: int = 0) -> int | None:
        """Return how many prompt tokens a step may have beside `num_newest` tokens of branches; None: any number.

        `spent` are the seconds that the step has taken already, `place` is that of the first prompt token in its text.
        """
        if not self._step_seconds:
            return None
        if (each := self._costs.at(place)) is None:
            return FIRST
        plain = self._plain_seconds(num_newest)
        seconds = max(self._step_seconds - plain - spent, _LEAST_SHARE * plain, plain + _LEAST_AND * each)
        return max(LEAST, round(seconds / max(each, 1e-9)))

    def note(self, num_newest: int, num_prompt: int, seconds: float, place: int = 0) -> None:
        """Note a step with so many tokens of branches, and of prompts, whose mean place in their texts is `place`."""
        if not self._step_seconds or not num_newest + num_prompt:
            return
        if not num_prompt:
            self._plain.note(num_newest, seconds)
            self._nearest, self._has_line = num_newest, False
            return
        each = max(0.0, seconds - self._plain_seconds(num_newest)) / num_prompt
        self._costs.note(place, each, num_prompt)

    def most_newest(self, wanted: Mapping[str, int], weights: Mapping[str, int]) -> int | None:
        """Return how many of the tokens of several people's branches a step may have; None: any number.

        It takes the time of a step then, or as long as somebody's tokens are her share of. `weights` are the shares of all
        people, also of those who have prompts alone.
        """
        if not self._step_seconds or (line := self._known_line()) is None:
            return None
        fixed, each = line
        least = min((fixed + each * number) / weights[person] for person, number in wanted.items())
        seconds = max(self._step_seconds, sum(weights.values()) * least)
        return max(len(weights), int((seconds - fixed) / each)) if each else None

    def due(self, wanted: Mapping[str, int], weights: Mapping[str, int], prompt: int = 0) -> set[str]:
        """Return those of several people, of whom each has so many tokens of branches, whose turn a step is.

        A person sits out who has had more than her share of the time, by her weight among all `weights`, by more than what
        it takes to compute her tokens for all. `prompt` are the tokens of prompts of those who have no branches: the turn
        is theirs alone if it takes no longer than the branches would. A long prompt has its time beside branches, whose
        streams would stutter.
        """
        if not self._step_seconds:
            return set(wanted)
        fixed, each = self._known_line() or (0.0, 0.0)
        total = sum(weights.values())
        due = {
            person
            for person, number in wanted.items()
            if self._owed.get(person, 0.0) >= (weights[person] / total - 1) * (fixed + each * number)
        }
        if due:
            return due
        if prompt and (each_of_prompt := self._costs.at(0)):
            alone = self._plain_seconds(0) + prompt * each_of_prompt
            if alone <= self._plain_seconds(sum(wanted.values())):
                return due
        return {max(wanted, key=lambda person: self._owed.get(person, 0.0))}

    def note_served(self, took: Mapping[str, int], num_prompt: int, weights: Mapping[str, int], seconds: float) -> None:
        """Note whose step it was: each person's tokens of branches (0: she sat out), and those of prompts.

        `weights` are the shares of all who have either. Whoever has a prompt alone is owed what the step took for others.
        """
        if not self._step_seconds:
            return
        if len(weights) == 1:
            self._owed = dict.fromkeys(took, -seconds)  # who comes now has the next one
            return
        fixed, each = self._known_line() or (0.0, 1.0)
        costs = {person: fixed + each * number if number else 0.0 for person, number in took.items()}
        total, weight = sum(costs.values()) + each * num_prompt or 1.0, sum(weights.values())
        with_prompts_alone = weights.keys() - took.keys()
        costs |= dict.fromkeys(with_prompts_alone, each * num_prompt / max(1, len(with_prompts_alone)))
        most, owed = max(seconds, _MOST_OWED), self._owed.get
        self._owed = {
            # A long prompt is no debt: its own pace leaves the others their time, and its branches would begin late.
            person: max(
                0.0 if person in with_prompts_alone else -most,
                min(most, owed(person, 0.0) + seconds * (weights[person] / weight - cost / total)),
            )
            for person, cost in costs.items()
        }

    def _known_line(self) -> tuple[float, float] | None:
        if not self._has_line:
            self._line, self._has_line = self._plain.line(), True
        return self._line

    def _plain_seconds(self, size: int) -> float:
        """Return the seconds of a step of `size` tokens without prompts: as measured, else by the others, else the latest's.

        0: none is known.
        """
        known = self._plain.seconds(size)
        if known is not None:
            return known
        if (line := self._known_line()) is not None:
            return line[0] + line[1] * size
        return (size and self._plain.seconds(self._nearest)) or 0.0
