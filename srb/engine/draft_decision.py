"""Whether and how much to draft in a step: decided by measured seconds and chances, without a clock.

A step is told here in the order in which it happens: `begin`, then what a draft model is asked for and took, then how many
drafted tokens are computed (`count`), and at its end how long it took (`end`).
"""

from collections.abc import Sequence
from math import inf

from srb.engine.step_times import StepTimes

SHARE = 0.005  # of the time, for tries of drafts that have not paid: it is what all users may lose, so half a percent
_FIRST = 6.0  # steps without drafts, whose time may be lost at first: with less the first slow draft forbids all others
_MOST = 16.0  # such steps, whose time can be saved up: however well drafts have paid, bad ones lose no more at once
_LOW = 4.0  # such steps; with less left drafts are watched more closely. Below _FIRST, or a start would count as low


class DraftBudget:
    """Seconds by which steps may take longer with drafts than their tokens would have taken without.

    Whatever is estimated wrongly, all steps together take at most SHARE longer than without drafts, and a few steps.
    A single step's loss may be owed beside that.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self.owed = 0.0  # lost in a step that may have been slow by chance
        self.is_in_doubt = False  # whether it was the loss of the latest step with drafts
        self._has_begun = False

    def weigh(self, saved: float, is_doubtful: bool) -> float:
        """Return what counts of the seconds that a step's drafts saved.

        A large loss that is doubtful, since such a step was hardly measured before, is owed, so that drafts are tried
        again at once. If the next step with drafts is doubtful as well, or loses much while a loss is owed, that is no
        chance: both count.
        """
        was_in_doubt, self.is_in_doubt = self.is_in_doubt, False
        is_small = not was_in_doubt and -saved <= max(0.0, self.seconds) / 2
        if saved >= 0 or not is_doubtful or is_small:
            return saved
        owed, self.owed = self.owed, 0.0
        if owed:
            return saved - owed
        self.owed, self.is_in_doubt = -saved, True
        return 0.0

    def note(self, seconds: float, plain: float, saved: float = 0.0) -> None:
        """Note a step of some seconds; `plain` are those of such a step without drafts, `saved` what its drafts saved."""
        before = self.seconds if self._has_begun else _FIRST * plain
        self._has_begun = True
        now, most = before + SHARE * seconds + saved, _MOST * plain
        self.seconds = min(now, most)
        self.owed = max(0.0, self.owed - max(0.0, now - most))  # paid by what could not be saved up

    def is_low(self, plain: float) -> bool:
        """Whether drafts have lost lately, so that their measure should be checked."""
        return self.seconds < _LOW * plain


_BEGIN = 1.05  # least expected gain in tokens per second to add drafts, if the latest step had none; less is noise
_GO_ON = 1.02  # the same, if the latest had some: lower, so that drafts do not go on and off with each step
_FRESH = 64  # steps after which a step without drafts is measured again, which costs what drafts gain
_FRESH_IF_LOW = 8  # the same while drafts lose: then the measure is in doubt, and a step without them loses nothing
_HICCUP = 1.5  # times the seconds of a step of its size; what it takes longer is the machine's doing, not the drafts'
_MOST_TRIES = 5.0  # seconds that can be saved up for tries: one after hours must not stop everybody for a minute
_MOST_LOST = -0.3  # least share that a single step counts as: one slow step must not switch a draft model off for long
_A_TOKEN = 1  # a key of StepTimes, which is told the seconds for one token; reading is measured by the token
_DEEP = 3  # drafted tokens of a branch with which a draft model is tried: one or two may not pay where three do
_FAR = 7  # drafted tokens of a branch over which one more's time is averaged: the second alone often takes the longest


class _Worth:
    """The share of a step's time that a draft model saves, and whether it is asked for that."""

    def __init__(self) -> None:
        self.saved = 0.25  # a first guess
        self.is_on = True

    def note(self, saved: float) -> None:
        weight = 0.05 if self.is_on else 0.2  # tries are few, so each tells more
        self.saved += weight * (max(_MOST_LOST, saved) - self.saved)
        self.is_on = self.saved > (0.01 if self.is_on else 0.05)  # two marks: by noise about one it would swing


class DraftDecision:
    """Measured times of steps, with drafts and without, and of a draft model; and the budget of what drafts may lose."""

    def __init__(self) -> None:
        self._times = StepTimes()
        self._passes = StepTimes()  # of the draft model, by branches
        self._reading = StepTimes()  # of the draft model, for one token of a text that it reads
        self._worths: dict[int, _Worth] = {}  # by the number of bits of the number of branches
        self._budget = DraftBudget()
        self._tries = 0.0  # seconds that tries of a draft model that has not paid may take
        self._elapsed = self._next_try = 0.0  # seconds so far, and at which it may be tried again
        self._has_drafted = False  # in the latest step for which there were drafts
        self._size = 0
        self._spent = 0.0  # seconds of the draft model in this step
        self._lost = 0.0  # of these, what has to pay at once: all but the reading that was promised to pay
        self._read = 0.0  # of these, what went into reading
        self._is_asked = self._is_try = self._is_promised = False
        self._is_doubtful = False  # whether the draft model was slow in a way that was hardly measured before

    def begin(self, size: int) -> bool:
        """Begin a step of `size` newest tokens; return whether drafts may be added to it.

        Without them its time is measured, with which steps with drafts have to compete.
        """
        self._size, self._is_asked, self._is_try, self._is_doubtful = size, False, False, False
        self._spent = self._lost = self._read = 0.0
        plain = self._times.seconds(size)
        steps = _FRESH_IF_LOW if plain is not None and self._budget.is_low(plain) else _FRESH
        return self._times.is_fresh(size, steps)

    def count(self, chances: Sequence[float]) -> int:
        """Return how many drafted tokens pay, of some with these chances, the likeliest first."""
        gain = _GO_ON if self._has_drafted else _BEGIN
        most_loss = (max(self._tries, self._budget.seconds) if self._is_try else self._budget.seconds) - self._lost
        if self._budget.is_in_doubt and not self._times.has_larger(self._size):  # found out cheaply
            most_loss = min(most_loss, self._times.seconds(self._size) or 0.0)
        count = self._times.best_addition(self._size, chances, gain, most_loss, self._lost)
        self._has_drafted = count > 0
        return count

    def end(self, num_tokens: int, num_accepted: int, seconds: float) -> None:
        """Note that the step computed so many tokens, accepted so many drafted ones, and took some seconds as a whole."""
        computing = seconds - self._spent
        usual = self._times.seconds(num_tokens)
        is_slow = not self._times.is_settled(num_tokens) and computing > self._foreseen(num_tokens)
        self._times.note(num_tokens, computing)
        plain = self._times.seconds(self._size)
        if plain is None:
            return
        saved = 0.0
        if self._spent or num_tokens > self._size:
            without = plain * (self._size + num_accepted) / self._size
            computing = min(computing, _HICCUP * usual) if usual is not None else computing
            saved = without - computing - self._lost
            if self._is_asked:
                self._worth(self._size).note(saved / without)
            saved = self._budget.weigh(saved, is_slow or self._is_doubtful)
        self._elapsed += seconds
        self._tries = min(_MOST_TRIES, self._tries + SHARE * seconds)
        if self._is_try:
            self._tries += min(0.0, saved)
            self._next_try = self._elapsed + max(0.0, -saved - self._read) / SHARE
            saved = max(0.0, saved)
        self._budget.note(seconds, plain, saved)

    def end_again(self, size: int, seconds: float) -> None:
        """Note a step that computed, beside `size` newest tokens, some anew that wrong drafts had taken back."""
        plain = self._times.seconds(size)
        if plain is not None:
            self._elapsed += seconds
            self._budget.note(seconds, plain, max(plain - seconds, -_HICCUP * plain))

    def _foreseen(self, num_tokens: int) -> float:
        """Return the seconds that a step of so many tokens takes at most, as far as others have been measured."""
        plain = self._times.seconds(self._size)
        return plain + self._times.most_growth(self._size, num_tokens - self._size) if plain is not None else inf

    # ---- a draft model

    @property
    def is_hopeful(self) -> bool:
        """Whether a draft model pays for some number of branches, or has not been tried for any."""
        return not self._worths or any(worth.is_on for worth in self._worths.values())

    def num_passes(self, branches: int) -> int:
        """Return how often at most a draft model may compute for so many branches; 0: it is not asked.

        One that was not measured, or has not paid, is tried with _DEEP passes: a step's second token often takes the
        longest, so that drafts may pay if they are long alone.
        """
        plain = self._times.seconds(self._size)
        if plain is None or not branches:
            return 0
        a_pass, is_settled = self._passes.seconds(branches) or plain, self._passes.is_settled(branches)
        if not is_settled:  # a pass that was slow by chance is tried again soon, and at once no more than it has to be
            a_pass = min(a_pass, plain)
        growth = self._times.most_growth(self._size, branches * _DEEP)
        most = int((self._budget.seconds - growth) / a_pass)
        if self._worth(self._size).is_on and most >= _DEEP:
            return most if is_settled else _DEEP
        if self._elapsed < self._next_try or _DEEP * a_pass + growth > self._tries - self._lost:
            return 0
        self._is_try = True
        return _DEEP

    def least_chance(self, branches: int) -> float:
        """Return the chance that a token has to have, with all drafted ones before it, to be worth a pass for it.

        It is that of a token after a branch's first drafted one. While passes are measured, all are worth one.
        """
        plain = self._times.seconds(self._size)
        if plain is None:
            return 1.0
        if self._is_try or not self._passes.is_settled(branches):
            return 0.0
        written = plain / self._size * (1 - max(0.0, self._worth(self._size).saved))  # seconds for a token
        a_pass = (self._passes.seconds(branches) or 0.0) / branches
        return min(1.0, (a_pass + self._times.growth(self._size, branches, _FAR * branches)) / written)

    def note_asked(self, branches: int, passes: int, seconds: float) -> None:
        """Note that a draft model computed `passes` times for so many branches."""
        self._is_asked = True
        usual, plain = self._passes.seconds(branches), self._times.seconds(self._size) or inf
        self._is_doubtful = passes > 0 and not self._passes.is_settled(branches) and seconds > passes * plain
        self._spent += seconds
        self._lost += min(seconds, _HICCUP * usual * passes) if usual is not None and passes else seconds
        if passes:
            self._passes.note(branches, seconds / passes)

    def may_read(self, lag: int, foreseen: int) -> bool:
        """Whether a draft model should read `lag` tokens of a text of which `foreseen` are still to be written."""
        cost, plain = lag * (self._reading.seconds(_A_TOKEN) or 0.0), self._times.seconds(self._size) or 0.0
        is_measured = self._reading.is_known(_A_TOKEN, 2)  # once may be slow by chance
        worth = self._worth(self._size)
        may_lose = not self._budget.is_low(plain)
        pays = not is_measured or cost <= worth.saved * foreseen * plain / self._size
        self._is_promised = worth.is_on and may_lose and pays
        if self._is_promised:
            return True
        is_try = self._elapsed >= self._next_try and cost <= self._tries - self._lost
        self._is_try = self._is_try or is_try
        return is_try

    def note_read(self, tokens: int, seconds: float) -> None:
        """Note that a draft model read so many tokens of the text for which it last might; what pays later is not lost."""
        self._spent += seconds
        self._read += seconds
        self._lost += 0.0 if self._is_promised else seconds
        if tokens:
            self._reading.note(_A_TOKEN, seconds / tokens)

    def _worth(self, branches: int) -> _Worth:
        return self._worths.setdefault(branches.bit_length(), _Worth())
