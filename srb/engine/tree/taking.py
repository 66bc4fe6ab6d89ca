"""The search for a story's texts at other engines of the model: in folders beside the store's, and at a door that is named.

Each story is looked for once, and again when the cluster tells that another replica had it. Its request waits meanwhile,
but no longer than computing would take.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial

from srb.engine.model import Door, Record, TextStore
from srb.engine.tokens import Tokens, tokens_of

MAX_STORIES = 4096  # that were looked for, or are to be: one that comes later is looked for again
MAX_WAITING = 256  # requests, of which some may have been cancelled
LEAST_SECONDS = 0.5  # that a request waits, however little it lacks: an engine that leaves may have to write first

Found = list[tuple[Record, Tokens]]


@dataclass(slots=True)
class Taking:
    """The stories that are looked for, and what was found of them."""

    clock: Callable[[], float] = lambda: 0.0
    seconds_of: Callable[[int], float] = lambda tokens: 0.0  # that so many tokens of a prompt take to compute
    wake: Callable[[], None] = lambda: None  # called by other threads when there is something to collect
    num_going_on: int = 0
    num_waited_for: int = 0  # of these, by requests
    _stories: OrderedDict[str, int] = field(
        default_factory=OrderedDict
    )  # that were looked for, and for how many requests they are now
    _expected: OrderedDict[str, Door | None] = field(default_factory=OrderedDict)  # to be looked for again, and where
    _until: OrderedDict[str, float] = field(default_factory=OrderedDict)  # by request: how long it waits
    # By other threads: the story, where it was looked for, whether that was ahead, and what was there.
    _found: deque[tuple[str, Door | None, bool, Found]] = field(default_factory=deque)
    _gone: list[Callable[[str], bool]] = field(default_factory=list)  # askers, forgotten while something goes on

    def expect(self, stories: Iterable[str], door: Door | None) -> None:
        """Note that another replica had these stories: each is looked for again when its next request comes."""
        for story in stories:
            self._expected[story] = door
            if len(self._expected) > MAX_STORIES:
                self._expected.popitem(last=False)

    def ahead(self, store: TextStore, stories: Iterable[str], door: Door | None) -> None:
        """Look for all of these stories' texts now. One whose request comes before it is found is looked for beside."""
        stories = list(stories)
        self.expect(stories, door)
        for story in stories:
            self._begin(store, story, door, tokens_of(()))

    def _begin(self, store: TextStore, story: str, door: Door | None, tokens: Tokens) -> None:
        """Look for a story; of the door's texts those alone that a prompt of `tokens` needs, if there are any."""
        self._stories[story] = self._stories.get(story, 0) + bool(tokens)
        self.num_going_on += 1
        self.num_waited_for += bool(tokens)
        if len(self._stories) > MAX_STORIES and not self._stories[oldest := next(iter(self._stories))]:
            del self._stories[oldest]
        store.take(story, door, tokens, partial(self._note, story, door, not tokens))

    def is_for(self, store: TextStore, request_id: str, story: str, tokens: Tokens, num_known: int) -> bool:
        """Look for a request's story, if that is due; return whether the request should wait for it."""
        if not story:
            return False
        if story in self._expected or story not in self._stories:
            self._begin(store, story, self._expected.pop(story, None), tokens)
        if not self._stories[story]:
            return False
        if request_id not in self._until:
            seconds = max(LEAST_SECONDS, self.seconds_of(len(tokens) - num_known))
            self._until[request_id] = self.clock() + seconds
            if len(self._until) > MAX_WAITING:
                self._until.popitem(last=False)
        return self.clock() < self._until[request_id]

    def forget_request(self, request_id: str) -> None:
        """Forget how long a request waits, which begins."""
        self._until.pop(request_id, None)

    def forget(self, is_gone: Callable[[str], bool]) -> None:
        """Take no texts of these askers that are on their way."""
        if self.num_going_on:
            self._gone.append(is_gone)

    def is_forgotten(self, record: Record) -> bool:
        """Whether a record's asker was forgotten while it was on its way."""
        return any(is_gone(record.asker) for is_gone in self._gone)

    def _note(self, story: str, door: Door | None, is_ahead: bool, found: Found) -> None:
        """Take what was found, in any thread."""
        self._found.append((story, door, is_ahead, found))
        self.wake()

    def collect(self) -> Iterator[Found]:
        """Yield what was found since; the caller asks `is_forgotten` of each record before the next."""
        while self._found:
            story, door, is_ahead, found = self._found.popleft()
            yield found
            if not is_ahead:
                self._stories[story] -= 1
                self.num_waited_for -= 1
            elif self._expected.get(story, door) == door:  # else it was at another replica meanwhile
                self._expected.pop(story, None)
            self.num_going_on -= 1
            if not self.num_going_on:
                self._gone.clear()
