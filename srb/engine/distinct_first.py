"""First words are settled: shown, held until those before them are settled, or drawn again where a sibling has the same."""

from typing import Protocol

from srb.engine.first_words import Ending
from srb.engine.request import Branch, BranchState, Request
from srb.wire.events import Event, FinishReason

MAX_REDRAWS = 128  # of one word, which then stays: where the model knows few words, a branch would draw for ever


class Acts(Protocol):
    """Acts of `Branches` on one of them."""

    def hold(self, branch: Branch) -> None: ...
    def show(self, branch: Branch, events: list[Event]) -> None: ...
    def undo(self, branch: Branch) -> None: ...
    def rewind(self, branch: Branch, count: int) -> None: ...
    def end(
        self, branch: Branch, reason: FinishReason, events: list[Event], *, stop: str = "", truncated: bool = False
    ) -> None: ...


class DistinctFirst:
    """Settles the first words of requests with `distinct_words`. The branches do what it decides."""

    def __init__(self, branches: Acts) -> None:
        self._branches = branches

    def end(self, branch: Branch, ending: Ending, events: list[Event]) -> None:
        """End a branch by itself: its first word counts as it stands, and may have to be drawn again."""
        assert branch.first_word is not None
        branch.first_word.finish(ending, branch.finish_text)
        self.commit(branch, events)

    def commit(self, branch: Branch, events: list[Event]) -> None:
        """Settle a branch's first word, which is complete, or hold the branch until it is its turn."""
        words = branch.request.words
        assert words is not None
        if not words.is_turn(branch):
            self._branches.hold(branch)
        elif not self._draw_again(branch):
            self._go_on(branch, events)
            self.release(branch.request, events)

    def release(self, request: Request, events: list[Event]) -> None:
        """Settle the words that waited for one that is settled now."""
        words = request.words
        assert words is not None
        while (branch := words.next_held(request.branches)) is not None:
            if not self._draw_again(branch):
                self._go_on(branch, events)

    def go_back(self, branch: Branch) -> bool:
        """Take a branch out of a place where no token is left: back to an earlier token of its first word, if that helps.

        Return False if siblings' words have nothing to do with it. Where no earlier token can be another one, the first
        word may be a sibling's.
        """
        word, rewinding = branch.first_word, branch.rewinding
        if word is None or word.is_kept or not word.has_tried:
            return False
        assert rewinding is not None
        place = self._place(branch, branch.length - 1)
        if place is not None:
            self._take_back(branch, place)
            return True
        word.is_kept = True
        tried = word.tried(branch.length)
        rewinding.allow(branch.length, tried)
        return bool(tried)

    def _go_on(self, branch: Branch, events: list[Event]) -> None:
        """Show a branch's first word, and let the branch go on or end."""
        assert branch.first_word is not None
        ending = branch.first_word.ending
        self._branches.show(branch, events)
        if ending is not None and (not branch.is_held or _stands(ending, branch)):
            self._branches.end(branch, ending.reason, events, stop=ending.stop, truncated=ending.truncated)
        elif branch.is_held:
            branch.move(BranchState.WAITING)

    def _draw_again(self, branch: Branch) -> bool:
        """Draw a first word again if a sibling has it; return whether it does."""
        word, words = branch.first_word, branch.request.words
        assert word is not None
        assert words is not None
        if word.is_kept or not words.has(word):
            return False
        place = self._place(branch, word.last_place)
        if place is None:
            word.is_kept = True
            return False
        if word.ending is not None and word.ending.reason is FinishReason.EOS:
            self._branches.undo(branch)
        self._take_back(branch, place)
        return True

    def _place(self, branch: Branch, last: int) -> int | None:
        """Return the last place, up to `last`, whose token may be drawn again; None if there is none."""
        rewinding = branch.rewinding
        assert rewinding is not None
        if branch.num_rewinds >= MAX_REDRAWS:
            return None
        return next((place for place in range(last, -1, -1) if not rewinding.is_dead_end(place)), None)

    def _take_back(self, branch: Branch, place: int) -> None:
        """Rewind a branch to a place, where neither its own token nor those that end words of siblings may come again."""
        word, words, rewinding = branch.first_word, branch.request.words, branch.rewinding
        assert word is not None
        assert words is not None
        assert rewinding is not None
        tokens = words.last_tokens(branch, place) | {branch.tokens[branch.num_given + place]}
        word.return_to(place, branch.text, tokens)
        self._branches.rewind(branch, branch.length - place)
        rewinding.forbid(place, tokens)


def _stands(ending: Ending, branch: Branch) -> bool:
    """Whether a branch still ends so: its limit may have been raised meanwhile."""
    if ending.reason is not FinishReason.LIMIT or ending.truncated or branch.text.is_cut:
        return True
    return branch.length == branch.spec.max_tokens
