"""Requests, prefixes and branches: their data, their states, and the legal moves between states."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import replace
from enum import Enum, auto
from operator import attrgetter

from srb.engine.arithmetic import Arithmetic
from srb.engine.banned import Banned
from srb.engine.boundaries import Finder, finder
from srb.engine.choosing import PLAIN, Chooser, Path, TakingBack
from srb.engine.directions import Directed
from srb.engine.diversity import Diversity
from srb.engine.exploring import Exploration, Fork
from srb.engine.first_words import FirstWord, FirstWords
from srb.engine.healing import Cover, Ending, Healing
from srb.engine.lookup import Draft, PromptLookup
from srb.engine.media import MediaRun
from srb.engine.model import Logits, LoraScales, Mood, Sampler, SavedState, Scope
from srb.engine.rewinding import Rewinding, Shift
from srb.engine.text import BranchText, Emission, Prob
from srb.engine.tokens import Tokens, marked, tokens_of
from srb.engine.tree.node import Node
from srb.engine.tree.prefix_tree import Lease
from srb.files.media_files import MediaKind
from srb.wire.commands import BranchSpec, Explore, Generate, digest_of
from srb.wire.events import BranchEnded, FinishReason


class BranchState(Enum):
    WAITING = auto()  # not started, or paused under pressure; holds no sequence
    RUNNING = auto()  # holds a sequence; takes part in every step
    HELD = auto()  # its first word waits for those of the branches before it; holds no sequence
    ENDED = auto()


class RequestState(Enum):
    WAITING = auto()  # new, or goes on after a rest; has not begun since
    RUNNING = auto()  # has begun; its prompt is computed, or its branches run, or wait under pressure
    RESTING = auto()  # all branches have ended and it lingers; holds texts and samplers alone
    ENDED = auto()  # it has had its terminal event


MAX_KEPT_TOKENS = 8192  # chosen and likely ones of a request with `keep_probs`: four megabytes

_LEGAL = {
    BranchState.WAITING: {BranchState.RUNNING, BranchState.ENDED},
    BranchState.RUNNING: {BranchState.WAITING, BranchState.HELD, BranchState.ENDED},
    BranchState.HELD: {BranchState.WAITING, BranchState.ENDED},
    BranchState.ENDED: {BranchState.WAITING},  # a branch that ended by its limit and got a later one
}

_LEGAL_FOR_REQUESTS = {
    RequestState.WAITING: {RequestState.RUNNING, RequestState.RESTING, RequestState.ENDED},
    RequestState.RUNNING: {RequestState.RESTING, RequestState.ENDED},
    RequestState.RESTING: {RequestState.WAITING, RequestState.ENDED},
    RequestState.ENDED: set[RequestState](),
}


def finder_of(spec: BranchSpec) -> Finder | None:
    """Return the finder of the boundary at which a branch ends, if it ends at one."""
    return finder(spec.stop_at, spec.stop_after) if spec.stop_at else None


class Prefix:
    """The prompt's tokens, shared by all branches of a request; an object of its own, not a branch."""

    __slots__ = (
        "logits", "lookup", "media", "node", "num_cached", "num_decoded", "num_prompt_logprobs", "num_restored",
        "num_shared", "request", "tokens",
    )  # fmt: skip

    start = 0

    def __init__(self, request: Request, tokens: Tokens, media: Sequence[MediaRun] = ()) -> None:
        self.request = request
        self.tokens = tokens
        self.node: Node | None = None  # the tree's node at the prompt's end; None until the request begins
        self.num_cached: int | None = None  # tokens that the tree held when the request first began
        self.num_restored = 0  # how many of the cached tokens were parked
        self.num_decoded = 0  # tokens that were decoded until it was first complete
        self.num_shared = 0  # tokens that a text of the tree begins with, too; memory with states computes some again
        self.media = media  # in the order of their places
        self.num_prompt_logprobs = 0  # tokens whose log-probability was emitted, if requested
        self.logits: Logits | None = None  # of the last token; every branch samples its first token from them
        self.lookup: PromptLookup | None = None  # where branches draft from its tokens

    @property
    def num_computed(self) -> int:
        return self.node.start + self.node.num_computed if self.node else 0

    def media_from(self, position: int) -> MediaRun | None:
        """Return the first run of media that ends after a position, if there is one."""
        at = bisect_right(self.media, position, key=attrgetter("end"))
        return self.media[at] if at < len(self.media) else None

    @property
    def num_image_tokens(self) -> int:
        return sum(len(run.chunk) for run in self.media if run.kind is MediaKind.IMAGE)

    @property
    def num_audio_tokens(self) -> int:
        return sum(len(run.chunk) for run in self.media if run.kind is MediaKind.AUDIO)

    @property
    def pending(self) -> int:
        """Number of tokens that are known and not yet computed. Prefill and decode are this one subtraction."""
        return len(self.tokens) - self.num_computed

    @property
    def seq_id(self) -> int | None:
        return self.node.seq_id if self.node else None

    @property
    def mood(self) -> Mood:
        return self.request.scope.mood

    @property
    def is_complete(self) -> bool:
        return not self.pending

    def __repr__(self) -> str:
        return f"<prefix {self.num_computed}/{len(self.tokens)} {self.node!r}>"


class Branch:
    """One continuation of a prompt: its tokens, its sampler and its text.

    The first `num_given` tokens were given, and count as prompt; the branch samples those after them. Readers do not see the
    first `num_hidden` of them (`append`), and see the others (a fork's beginning) as its text.
    """

    __slots__ = (
        "began_at", "chooser", "draft", "end_token", "ended", "first_word", "forced", "grammar_from", "has_new_line",
        "healing", "index", "last_step", "lease", "logits", "logprob_sum", "mark", "num_accepted", "num_again",
        "num_appended", "num_cached", "num_computed", "num_decoded", "num_directed", "num_drafted", "num_given",
        "num_hidden", "num_of_prompt", "num_rewinds", "num_shifted", "num_shown", "num_unverified", "origin", "path",
        "probs", "request", "rewinding", "sampler", "shown", "slot", "spec", "start", "state", "state_copy", "text",
        "tokens",
    )  # fmt: skip

    def __init__(
        self,
        request: Request,
        index: int,
        spec: BranchSpec,
        sampler: Sampler,
        given: Sequence[int] = (),
        ending: Ending | None = None,
    ) -> None:
        self.request = request
        self.start = len(request.prefix.tokens)  # position of tokens[0]
        self.healing = Healing(ending) if ending is not None else None  # None: nothing is healed
        self.num_of_prompt = 0  # given tokens that count with the prompt already
        self.shown: list[str] = []  # the text that readers have seen, in pieces
        self.probs: list[Prob] = []  # … and its first tokens', if the request keeps them
        self.give(given)
        healed = 0 if ending is None or ending.is_of_prompt else ending.num_sent
        self.num_appended = self.num_given - self.num_of_prompt + healed  # as sent, whatever cover is drawn
        self.num_cached: int | None = None  # given tokens that the tree held when the branch first started
        self.num_decoded = 0  # given tokens that were decoded before its own first one
        self.num_computed = 0
        self.num_unverified = 0  # drafted tokens that are computed and not yet drawn; never between two steps
        # Where memory has states: a sequence with that before a draft, and how many tokens were computed then.
        self.state_copy: tuple[int, int] | None = None
        self.num_again = 0  # drawn tokens that are computed once more with the newest one, since such a draft was wrong
        self.draft: Draft | None = None
        self.forced: list[int] = []  # tokens that its grammar leaves no choice of and that are not appended yet
        self.num_drafted = self.num_accepted = 0  # computed tokens of drafts, and of those the ones that it drew
        self.num_shifted = 0  # tokens before the latest context shift, given ones included; `tokens` has those after it
        self.lease: Lease | None = None  # its node and sequence in the tree, while the branch runs
        self.mark = 0  # of its tokens in the tree, under a mood of its own; −1: the tree keeps none of them
        self.num_directed = 0  # given tokens with its direction and what follows that in the prompt
        self.index = index
        self.slot = index  # its number in the llamacpp dialect, assigned when the request begins
        self.spec = spec
        self.sampler = sampler
        banned = Banned.of(spec.banned_strings, spec.banned_patterns)
        self.text = BranchText(spec.stop, spec.n_indent, finder_of(spec), banned, spec.kept_stops, spec.seed)
        self.first_word = FirstWord() if request.words is not None else None  # None: settled, or like any other
        self.rewinding: Rewinding | None = None  # None: its tokens are final
        if banned or self.first_word is not None:
            self.rewinding = Rewinding(sampler)
        self.num_rewinds = 0
        self.last_step = 0  # the latest step that computed it where others' branches were left for later ones
        chooser: Chooser = request.diversity or request.arithmetic or PLAIN
        self.chooser = chooser if self.rewinding is None else TakingBack(chooser)
        self.began_at: float | None = None  # time of its first token, in seconds on the engine's clock
        self.state = BranchState.WAITING
        self.logits: Logits | None = None  # of its newest token, if it has waited for its grammar
        self.logprob_sum = 0.0
        self.has_new_line = False  # whether the emitted text has one
        self.num_shown = 0  # emitted tokens
        self.origin: tuple[int, int] | None = None  # of a fork: its origin's index, and how many of its tokens it has
        self.path: Path | None = None  # of a request that explores
        self.ended: BranchEnded | None = None
        self.end_token: int | None = None  # with which the model has ended it

    def give(self, tokens: Sequence[int]) -> None:
        """Let the branch begin with given tokens in place of those that it has; of a fork readers have seen the text."""
        self.tokens = tokens_of(tokens)
        self.num_given = len(tokens)
        self.grammar_from = self.num_given  # the grammar's text begins there
        if not self.shown:
            self.num_hidden = self.num_given
        ending = self.ending
        is_of_prompt = ending is not None and ending.is_of_prompt
        self.num_of_prompt = self.num_given if is_of_prompt else min(len(self.request.removed), self.num_given)

    def fork(self, fork: Fork) -> Branch:
        """Add a branch to the request that explores another token than this one's; return it. It has no tokens yet."""
        branch = Branch(self.request, len(self.request.branches), self.spec, self.sampler)  # which draws nothing
        branch.origin, branch.num_cached, branch.began_at = (self.index, fork.at), 0, self.began_at
        branch.path, branch.chooser = Path(fork.logprob, num_shared=fork.at), self.chooser
        self.request.branches.append(branch)
        return branch

    def finish_text(self, reason: FinishReason, truncated: bool) -> Emission:
        """End the text for `reason`; return what is still to be shown.

        A character that a limit cuts is held back in a request that lingers, so that it can be completed.
        """
        is_limit = reason is FinishReason.LIMIT and not truncated
        return self.text.finish(may_go_on=is_limit and self.request.linger > 0 and not self.text.is_cut)

    def keep(self, probs: Sequence[Prob]) -> None:
        """Keep tokens' probabilities for later readers, up to the branch's share of MAX_KEPT_TOKENS."""
        room = MAX_KEPT_TOKENS // (len(self.siblings) * (1 + self.spec.sampling.n_probs)) - len(self.probs)
        self.probs += probs[: max(0, room)]

    def follow(self, text: str) -> None:
        """Take a text that readers have seen before the first token: a fork's beginning."""
        self.shown = [text] if text else []
        self.text.follow(text)
        if self.first_word is not None:
            self.first_word.follow(text)
            if self.first_word.is_complete:
                self.free_word()

    def free_word(self) -> None:
        """Stop holding back the first word, which is settled."""
        self.first_word = None
        if self.rewinding is not None and not self.spec.has_bans:
            self.rewinding.close()
            self.rewinding = None

    def move(self, state: BranchState) -> None:
        """Change the state. Raise AssertionError for an illegal move, which changes nothing."""
        if state not in _LEGAL[self.state]:
            raise AssertionError(f"{self!r} cannot become {state.name}")
        self.state = state

    @property
    def length(self) -> int:
        """Number of sampled tokens."""
        return self.num_shifted + len(self.tokens) - self.num_given

    @property
    def num_sampled(self) -> int:
        """Number of tokens that the branch itself sampled; an explored branch has others from its origin."""
        return self.length - (self.path.num_shared if self.path is not None else 0)

    @property
    def is_active(self) -> bool:
        """Whether the branch has not ended."""
        return self.state is not BranchState.ENDED

    @property
    def is_held(self) -> bool:
        """Whether the branch waits for the first words of others."""
        return self.state is BranchState.HELD

    @property
    def num_held(self) -> int:
        """Number of last tokens that may still be taken back."""
        return self.length if self.first_word is not None else self.text.num_held

    @property
    def can_resume(self) -> bool:
        """Whether the branch has ended and can go on: by its limit, not by the context's end or its indentation."""
        if self.ended is None or self.ended.reason != FinishReason.LIMIT:
            return False
        return not (self.ended.truncated or self.text.is_cut or self.request.keep_probs)

    @property
    def num_readable(self) -> int:
        """Number of tokens that readers have seen: of a fork's beginning, and emitted ones."""
        return self.num_given - self.num_hidden + self.num_shown

    @property
    def num_given_cached(self) -> int:
        """Number of the branch's own given tokens that the tree held when it first started."""
        return max(0, (self.num_cached or 0) - self.num_of_prompt)

    @property
    def siblings(self) -> list[Branch]:
        """All branches of the request, this one included, by index."""
        return self.request.branches

    @property
    def prompt_logits(self) -> Logits | None:
        """The logits behind the prompt's last token, once they are known."""
        return self.request.prefix.logits

    @property
    def ending(self) -> Ending | None:
        """The end of a text whose cover the branch has not drawn yet; None: there is none."""
        return self.healing.ending if self.healing is not None else None

    @property
    def next_cover(self) -> Cover | None:
        """The cover whose bytes the next token, which is the first, has to begin with; None: any token may come."""
        return self.healing.cover if self.healing is not None and not self.length else None

    @property
    def prompt_bytes(self) -> bytes:
        """The bytes of the prompt with which the readable tokens begin, and the text does not."""
        return self.healing.prompt_bytes if self.healing is not None else b""

    @property
    def end(self) -> int:
        """Position after the last token."""
        return self.start + len(self.tokens)

    @property
    def is_free(self) -> bool:
        """Whether the next token depends on the branch alone, and none is forbidden."""
        if self.healing is not None and not self.healing.is_over(self.length):
            return False
        return self.chooser.is_free(self)

    @property
    def may_jump(self) -> bool:
        """Whether tokens that a grammar forces are appended without a step of their own, and so without probabilities."""
        if not self.spec.has_grammar or not self.chooser.is_plain or self.spec.is_scored:
            return False
        return self.healing is None or self.healing.cover is None

    @property
    def pending(self) -> int:
        return len(self.tokens) - self.num_computed

    @property
    def own_cells(self) -> int:
        """Cells of tokens that the branch computed and no node owns."""
        return self.num_computed - (self.lease.node.end - self.start) if self.lease else 0

    @property
    def seq_id(self) -> int | None:
        return self.lease.seq_id if self.lease else None

    @property
    def mood(self) -> Mood:
        """The control vectors under which its own tokens are computed; those of the prompt are under the request's."""
        return self.spec.control_vectors or ()

    @property
    def is_kept(self) -> bool:
        """Whether its computed tokens may stay in the tree."""
        return self.request.cache_prompt and self.mark >= 0

    def in_tree(self, tokens: Tokens) -> Tokens:
        """Return some of its tokens as the tree knows them."""
        return marked(tokens, self.mark) if self.mark >= 0 else tokens_of(())

    def __repr__(self) -> str:
        return f"<branch {self.index} {self.state.name} {self.num_computed}/{len(self.tokens)} seq={self.seq_id}>"


class Request:
    """One prompt and its branches, and whether it waits, runs or rests."""

    __slots__ = (
        "alone_since", "arithmetic", "arrived_at", "asker", "awaits", "base", "branches", "cache_prompt", "can_grow",
        "ceased_at", "comes_last", "directed", "diversity", "endings", "exploration", "id_slot", "keep_probs",
        "linger", "lora", "max_lingering", "max_unread", "num_prompt", "owner", "prefix", "prefix_done_at", "preserved",
        "prompt_logprobs", "prompt_top", "removed", "report_progress", "request_id", "saved", "scope", "shift", "since",
        "started_at", "state", "state_name", "story", "wants_entropy", "weight", "words",
    )  # fmt: skip

    def __init__(
        self,
        command: Generate,
        prompt: Tokens,
        samplers: Iterable[Sampler],
        saved: SavedState | None = None,
        lora: LoraScales = (),
        given: Iterable[Sequence[int]] | None = None,
        preserved: frozenset[int] = frozenset(),
        media: Sequence[MediaRun] = (),
        endings: Iterable[Ending | None] | None = None,
        removed: Tokens | None = None,
        directed: Directed | None = None,
    ) -> None:
        """Take ownership of the samplers, one for each branch.

        `given` has each branch's tokens of its direction and of `append`, `media` the runs of media in the prompt, and
        `endings` what each branch heals. `removed` are the last tokens as they were sent, which the `prompt` lacks.
        """
        self.request_id = command.request_id
        self.awaits: Node | None = None  # another request's prompt that is being computed and shares more of this one
        self.state_name = command.state  # name of the state that keeps the prompt's KV; empty: none
        self.saved = saved  # the state read from its file
        self.lora = lora  # scales of the LoRA adapters
        self.scope = Scope(lora, command.cache_salt, command.control_vectors or ())
        self.preserved = preserved  # control tokens whose text is part of the branches' texts
        self.report_progress = command.report_progress
        self.prompt_logprobs, self.prompt_top = command.prompt_logprobs, command.prompt_top
        self.wants_entropy = command.surprise_from >= 0  # beside each of them
        self.id_slot = command.id_slot  # asked for; −1: any
        self.cache_prompt = command.cache_prompt  # reuse the tree's texts, and leave computed text in the tree
        self.prefix = Prefix(self, prompt, media)
        self.num_prompt = len(prompt)  # as given, without `append`; a context shift replaces the prefix's tokens
        self.removed = tokens_of(()) if removed is None else removed
        self.shift = command.shift
        self.diversity: Diversity | None = None  # None: branches do not depend on each other
        if command.distinct_first or command.sibling_penalty:
            self.diversity = Diversity(distinct_first=command.distinct_first, sibling_penalty=command.sibling_penalty)
        self.arithmetic = Arithmetic(command.branches[0].seed) if command.arithmetic else None
        self.words: FirstWords | None = None  # None: first words may be the same
        if command.distinct_words and (command.shift is None or len(command.branches) > 1):  # else there is one branch
            self.words = FirstWords()
        self.exploration: Exploration | None = None  # None: branches are added by commands alone
        none = [None] * len(command.branches)
        parts = zip(command.branches, samplers, given or [()] * len(none), endings or none, strict=True)
        self.branches = [Branch(self, index, *part) for index, part in enumerate(parts)]
        self.directed = directed  # None: the whole prompt is shared
        if directed is not None:
            for branch in self.branches:
                branch.num_directed = len(directed.behind[branch.spec.direction])
        # By mood, for branches that are added; {}: the prompt is not healed.
        self.endings = {each.mood: each.ending for each in self.branches if each.ending and each.ending.is_of_prompt}
        self.base = command.base or command.branches[0]  # of branches that are added
        self.owner, self.weight = command.owner, command.weight
        self.asker = command.asker
        self.story = digest_of(command.session)
        self.max_unread = command.max_unread
        self.max_lingering = command.max_lingering
        self.can_grow = command.can_grow
        self.linger = command.linger
        self.comes_last = command.priority > 0
        self.keep_probs = command.keep_probs
        self.state = RequestState.WAITING
        self.since = 0.0  # time at which it came, went on after a rest, began to rest, or got a reader in its rest
        self.alone_since: float | None = None  # time at which the last reader left; None while there are readers
        self.arrived_at = 0.0  # seconds on the engine's clock
        # Times of the work, as if no rest had been: `begin` moves the first two on by the time from `ceased_at` to now.
        self.started_at: float | None = None  # time at which it first began
        self.prefix_done_at: float | None = None
        self.ceased_at: float | None = None  # time at which the work ended or the rest began; None while it goes on

    def move(self, state: RequestState) -> None:
        """Change the state. Raise AssertionError for an illegal move, which changes nothing."""
        if state not in _LEGAL_FOR_REQUESTS[self.state]:
            raise AssertionError(f"{self!r} is {self.state.name} and cannot become {state.name}")
        self.state = state

    def begin(self, now: float) -> None:
        """Note that the work begins, goes on after a rest, or goes on after the prompt was dropped under pressure."""
        if self.state is RequestState.WAITING:
            self.move(RequestState.RUNNING)
        if self.started_at is None:
            self.started_at = now
        elif self.ceased_at is not None:  # neither the rest nor the queue after it counts as work
            idle = now - self.ceased_at
            self.started_at += idle
            self.prefix_done_at = None if self.prefix_done_at is None else self.prefix_done_at + idle
        self.ceased_at = None

    def cease(self, now: float) -> None:
        """Note that all branches have ended: the request rests if it lingers."""
        self.move(RequestState.RESTING if self.linger else RequestState.ENDED)
        self.since = now
        if self.ceased_at is None:  # else it had to wait after a rest, and has ended before its turn came
            self.ceased_at = now

    def predicted_ms(self, now: float) -> float:
        """Return the milliseconds of work since the prompt was done, to the microsecond; 0 before that."""
        return 0.0 if self.prefix_done_at is None else max(0.0, round((now - self.prefix_done_at) * 1000, 3))

    def explore(self, exploration: Exploration, asked: Explore) -> None:
        """Let the request explore; it has not begun."""
        self.exploration = exploration
        for branch in self.branches:
            branch.path, branch.chooser = Path(), exploration
            branch.spec = replace(branch.spec, max_tokens=asked.limit(branch.spec.max_tokens))

    @property
    def wants_prompt_logprobs(self) -> bool:
        """Whether prompt log-probabilities were requested and some are still to be emitted."""
        return self.prompt_logprobs and self.prefix.num_prompt_logprobs < len(self.prefix.tokens)

    @property
    def reusable(self) -> Tokens:
        """The tokens of a prompt that `reuses`: those with log-probabilities, and the one before, are computed."""
        tokens, scored = self.prefix.tokens, self.prefix.num_prompt_logprobs
        return tokens[: max(0, scored - 1)] if self.wants_prompt_logprobs else tokens

    @property
    def reuses(self) -> bool:
        """Whether the prompt reuses the tree's texts."""
        return self.cache_prompt and (self.prefix.num_prompt_logprobs > 1 or not self.wants_prompt_logprobs)

    @property
    def num_sent(self) -> int:
        """Number of the shared prompt's tokens as it was sent."""
        return self.num_prompt + len(self.removed)

    @property
    def prompt_tokens(self) -> int:
        """Number of given tokens: the shared prompt's, and those of each branch's `append`."""
        return self.num_sent + sum(branch.num_appended for branch in self.branches)

    @property
    def cached_tokens(self) -> int:
        """Number of given tokens that the tree held when they were first needed."""
        return (self.prefix.num_cached or 0) + sum(branch.num_given_cached for branch in self.branches)

    @property
    def computed_tokens(self) -> int:
        """Number of tokens that were decoded for the prompt, and for each branch before its first one."""
        return self.prefix.num_decoded + sum(branch.num_decoded for branch in self.branches)

    def in_state(self, state: BranchState) -> list[Branch]:
        return [branch for branch in self.branches if branch.state is state]

    @property
    def can_shift(self) -> bool:
        """Whether the context may be shifted; branches that share a prompt cannot each discard a part of it."""
        return self.shift is not None and len(self.branches) == 1

    def shift_context(self, n_special: int) -> Shift:
        """Shift the context: discard some of the oldest tokens, and compute the rest again as the prompt.

        The request has one branch and no node. `n_special` tokens at the beginning (BOS) are kept besides shift.n_keep.
        The number of discarded tokens is llama-server's. llama-server moves the KV of the remaining tokens instead,
        which keeps traces of the discarded ones.
        """
        [branch] = self.branches
        assert self.shift is not None
        assert self.prefix.node is None
        tokens = self.prefix.tokens + branch.tokens
        n_keep = self.num_prompt + branch.num_given if self.shift.n_keep < 0 else self.shift.n_keep + n_special
        n_keep = max(0, min(n_keep, len(tokens) - 4))  # 4 as llama-server: some have to be left to discard
        n_left = len(tokens) - n_keep
        n_discard = min(self.shift.n_discard or n_left // 2, n_left - 1)
        shift = Shift(n_keep, tokens_of(tokens[n_keep : n_keep + n_discard]), branch.start)
        self.prefix.tokens = tokens[:n_keep] + tokens[n_keep + n_discard :]
        self.prefix.logits = self.prefix.lookup = branch.draft = None
        branch.num_shifted, branch.tokens = branch.num_shifted + len(branch.tokens), tokens_of(())
        branch.start = len(self.prefix.tokens)
        self.state_name, self.prompt_logprobs = "", False  # both refer to the prompt as given
        return shift

    def unshift_context(self, shift: Shift) -> None:
        """Undo the latest context shift; the branch has no own tokens, and the request has no node."""
        [branch] = self.branches
        assert not branch.tokens
        assert self.prefix.node is None
        tokens, place = self.prefix.tokens, shift.place
        tokens = tokens[:place] + shift.discarded + tokens[place:]
        self.prefix.tokens, branch.tokens = tokens[: shift.start], tokens[shift.start :]
        self.prefix.logits = self.prefix.lookup = branch.draft = None
        branch.num_shifted -= len(branch.tokens)
        branch.start = shift.start

    @property
    def is_over(self) -> bool:
        return all(branch.state is BranchState.ENDED for branch in self.branches)

    @property
    def is_unread(self) -> bool:
        """Whether it gives way to those that are read: nobody reads it while it lingers, or it was sent to come last."""
        return self.comes_last or self.alone_since is not None

    @property
    def is_waiting(self) -> bool:
        """Whether the request has not begun, or goes on after a rest and has not begun again."""
        return self.state is RequestState.WAITING

    @property
    def takes_place(self) -> bool:
        """Whether it is one of those that run: it has begun, and has not given way to others."""
        return not self.is_waiting and self.prefix.node is not None

    def close(self) -> None:
        """Free the samplers, and part from prefix and branches: with no cycle left, Python frees all of them at once.

        Cycles would stay until the collector runs, which is after thousands of requests. May be called again.
        """
        for branch in self.branches:
            branch.sampler.close()
        self.branches, self.diversity, self.words, self.exploration = [], None, None, None
        self.saved = None
        if hasattr(self, "prefix"):
            del self.prefix

    def __repr__(self) -> str:
        return f"<request {self.request_id} {getattr(self, 'prefix', 'closed')!r} {self.branches!r}>"
