"""Stages between the events of a streamed call and the renderer of its dialect: a ranking, and the choice of the best.

A stage is a renderer around a renderer, so a stream needs not know of it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from srb.web.answers import Ranking
from srb.web.bodies.fields import Rank
from srb.web.calls.answer_size import grown_too_large, weight
from srb.web.calls.calls import Call
from srb.web.calls.meaning import By
from srb.web.calls.outcome import BranchOutcome, choose_places, first_choices, ranked
from srb.web.calls.ranking import Candidate, Select
from srb.web.calls.renderer import Renderer
from srb.wire.commands import Generate
from srb.wire.events import BranchAdded, BranchEnded, Delta, PromptDone, PromptEvent


@dataclass(frozen=True, slots=True)
class Best:
    """The choice of `n` branches of each request, for the answer, once all of the request's have ended."""

    n: int
    select: Select = "likely"


def staged(call: Call, render: Callable[[], Renderer], wanted: Rank, best: Best | None = None) -> Renderer:
    """Return the renderer that `render` makes, with the stages that a body asks for around it.

    With `best` the call's commands show only the branches of the answer when `render` is called.
    """
    running = call.commands
    if best is not None:
        call.show(best.n)
    renderer = render()
    if wanted or (best is not None and best.select == "meaning"):
        renderer = cast(Renderer, RankStage(renderer, Ranker(call, wanted)))
    return renderer if best is None else cast(Renderer, BestOfStage(renderer, running, best, call))


class Ranker:
    """The texts and ends of the branches of a stream; branches are known by their events, so others may be added later."""

    def __init__(self, call: Call, wanted: Rank) -> None:
        self._commands, self._embed = call.commands, call.embed
        self._firsts = first_choices(call)
        self._wanted = wanted
        self._texts: dict[tuple[str, int], str] = {}
        self._ended: dict[tuple[str, int], BranchEnded] = {}

    def put(self, event: Delta | BranchEnded | BranchAdded) -> None:
        key = event.request_id, event.index
        if type(event) is Delta:
            self._texts[key] = self._texts.get(key, "") + event.text
        elif type(event) is BranchEnded:
            self._ended[key] = event
        elif type(event) is BranchAdded:
            self._ended.pop(key, None)
            if not event.resumed:
                self._texts[key] = event.text

    def ranking(self) -> Ranking:
        """Return the ranking of the branches that have ended."""
        prompts: dict[str, dict[int, Candidate]] = {request_id: {} for request_id in self._firsts}
        for key, ended in self._ended.items():
            branch = BranchOutcome(0, self._texts.get(key, ""), ended=ended)
            prompts[ended.request_id][self._firsts[ended.request_id] + ended.index] = branch.candidate
        return ranked(list(prompts.values()), self._commands, self._wanted, self._embed) if self._wanted else {}


class Stage:
    """A renderer around another one, to which it passes on all that it does not do itself."""

    def __init__(self, inner: Renderer) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class RankStage(Stage):
    """A stage that lets its renderer say the ranking at the end."""

    def __init__(self, inner: Renderer, ranker: Ranker) -> None:
        super().__init__(inner)
        self._ranker = ranker
        self._chosen: Ranking = {}
        inner.ranking = lambda: {**ranker.ranking(), **self._chosen}

    def note_choice(self, by: By) -> None:
        """Say with the ranking by what the branches of the answer were chosen."""
        self._chosen = {"chosen_by": by}

    def delta(self, event: Delta) -> bytes:
        self._ranker.put(event)
        return self._inner.delta(event)

    def branch_ended(self, event: BranchEnded) -> bytes:
        self._ranker.put(event)
        return self._inner.branch_ended(event)

    def branch_added(self, event: BranchAdded) -> bytes:
        self._ranker.put(event)
        return self._inner.branch_added(event)


class BestOfStage(Stage):
    """A stage that holds a request's branches back until all have ended, and passes on those that are chosen.

    The chosen branches get the indices from 0 in the order of the choice. Raise AnswerTooLarge if all that is held back
    together exceeds the call's `max_answer_bytes`.
    """

    def __init__(self, inner: Renderer, commands: Sequence[Generate], best: Best, call: Call) -> None:
        super().__init__(inner)
        self.follows_rests = False  # the choice is made when all branches have ended
        self._best = best
        self._embed = call.embed
        self._limit = call.max_answer_bytes
        self._size = 0
        self._slots: dict[str, list[int]] = {}
        self._branches = {
            command.request_id: [(spec, BranchOutcome(spec.seed)) for spec in command.branches] for command in commands
        }

    def prompt(self, event: PromptEvent) -> bytes:
        if type(event) is PromptDone:
            self._slots[event.request_id] = event.slots
            event = replace(event, slots=event.slots[: self._best.n])
        return self._inner.prompt(event)

    def delta(self, event: Delta) -> bytes:
        self._size += weight(event)
        if self._size > self._limit:
            raise grown_too_large(self._limit, held_back=True)
        self._branches[event.request_id][event.index][1].add(event)
        return b""

    def branch_ended(self, event: BranchEnded) -> bytes:
        branches = self._branches[event.request_id]
        branches[event.index][1].ended = event
        done = sum(branch.ended is not None for _, branch in branches)
        said = self._inner.choosing(done, len(branches))
        return said + self._chosen(event.request_id) if done == len(branches) else said

    def _chosen(self, request_id: str) -> bytes:
        branches = self._branches.pop(request_id)
        candidates = [branch.candidate for _, branch in branches]
        places, by = choose_places(candidates, self._best.n, self._best.select, self._embed)
        if by is not None and isinstance(self._inner, RankStage):
            self._inner.note_choice(by)
        slots = self._slots.get(request_id)
        chosen = [slots[place] for place in places] if slots else []
        self._inner.choose(request_id, [branches[place][0] for place in places], chosen)
        said = b""
        for index, place in enumerate(places):
            branch = branches[place][1]
            assert branch.ended is not None  # all have
            if branch.text or branch.tokens:
                said += self._inner.delta(Delta(request_id, index, branch.text, branch.tokens, branch.probs or None))
            said += self._inner.branch_ended(replace(branch.ended, index=index))
        return said
