"""The time that drafts may lose: what they have saved lately, and a small share of all time to find out."""

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
