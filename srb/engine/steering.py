"""Steering: controls of a request while it runs or rests. Branches are described, added, forked and changed.

A fork begins with a part of its origin's text. It gets this text as tokens, like `append`, so the prefix tree
shares its KV, and its sampler has the past that a new request with the same text would have.
"""

import codecs
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, get_args

from srb.config.sampling_params import with_penalties
from srb.engine.banned import Banned
from srb.engine.branch_specs import MAX_SEED, check_banned, check_branches
from srb.engine.healing import Ending, Healing
from srb.engine.model import Model, Sampler
from srb.engine.preparing import BranchBeginning, Preparer, beginning_of, heals
from srb.engine.request import Branch, BranchState, Request, RequestState, finder_of
from srb.engine.tokens import Tokens, tokens_of
from srb.errors import Conflict, InvalidRequest, NotFound, bad_field
from srb.wire.commands import MAX_BRANCHES, AddBranches, Boundary, BranchSpec, ChangeBranch, NewBranch


@dataclass(slots=True)
class ForkPoint:
    """The place in a branch where another one begins: its tokens up to there, and their text."""

    tokens: Tokens
    text: str
    origin: Branch
    num_hidden: int  # of the tokens, those that readers do not see
    prompt_bytes: bytes = b""  # with which the other tokens begin
    ending: Ending | None = None  # what a branch heals here that appends nothing, as its origin will

    @property
    def whole(self) -> Tokens:
        """The tokens with those that are healed here."""
        return self.tokens if self.ending is None else self.tokens + self.ending.removed


@dataclass(slots=True)
class PreparedBranch:
    """A branch that is to be added: its sampler is built, its index and request are not known yet."""

    spec: BranchSpec
    sampler: Sampler
    has_own_seed: bool
    given: Tokens
    num_hidden: int
    grammar_from: int
    text: str  # of the given tokens that readers see
    banned: Banned | None  # built here, since the branch is made by the decode thread
    ending: Ending | None = None
    num_directed: int = 0


@dataclass(slots=True)
class Growth:
    """An AddBranches command whose samplers are built. The caller must submit or close it."""

    request_id: str
    command: AddBranches
    prepared: list[PreparedBranch]
    point: ForkPoint | None

    def close(self) -> None:
        for branch in self.prepared:
            branch.sampler.close()


class Steering:
    """Prepares the controls of requests, and applies them."""

    def __init__(self, model: Model, preparer: Preparer, clock: Callable[[], float]) -> None:
        self._model = model
        self._preparer = preparer
        self._clock = clock

    # ---- any thread

    def growth(self, command: AddBranches, request: Request) -> Growth:
        """Return the branches to add, with their samplers. Raise InvalidRequest, NotFound, Conflict or ContextExceeded."""
        _check_can_grow(request)
        if not command.branches:
            raise bad_field("count", "should be at least 1")
        prefix = getattr(request, "prefix", None)
        if prefix is None:  # the decode thread has just closed the request
            raise NotFound("the request has ended")
        point, base = None, request.base
        if command.origin is not None:
            source = branch_of(request, command.origin)
            point, base = self._fork_point(source, command.token, command.character), source.spec
        prepared: list[PreparedBranch] = []
        endings: dict[BranchBeginning, Ending | None] = {}  # one branch computes each for all
        try:
            for entry in command.branches:
                prepared.append(self._prepared(request, prefix.tokens, base, entry, point, len(prepared), endings))
        except BaseException:
            for branch in prepared:
                branch.sampler.close()
            raise
        return Growth(command.request_id, command, prepared, point)

    def _prepared(
        self,
        request: Request,
        prompt: Tokens,
        base: BranchSpec,
        entry: NewBranch,
        point: ForkPoint | None,
        place: int,
        endings: dict[BranchBeginning, Ending | None],
    ) -> PreparedBranch:
        own_seed, append, changes, sampling_changes = entry
        spec = self._preparer.with_mood(_changed(base, changes, sampling_changes), request.scope.mood)
        seed = next_seed(request, len(request.branches) + place) if own_seed is None else own_seed
        spec = replace(spec, seed=seed, append=append)
        directed = request.directed if point is None else None  # a fork has its origin's direction in its tokens
        if "direction" not in dict(changes):
            if directed is not None:
                spec = replace(spec, direction=directed.of_added(len(request.branches) + place))
        elif point is not None:
            raise bad_field("direction", "is that of the branch that is forked; leave it out")
        elif directed is None and spec.direction:
            raise bad_field("direction", "has no place: the request's branches have none, and share the whole prompt")
        check_branches([spec])
        behind = tokens_of(()) if directed is None else self._preparer.directed(directed, spec.direction)
        added = self._preparer.appended(append, len(prompt) + len(behind)) if append else []
        before, of_place = self._healed_here(request, prompt, point, spec)
        parts = append or (() if directed is None else (directed.last_of(spec.direction),))
        own = behind + tokens_of(added)
        if parts and beginning_of(spec) not in endings:
            endings[beginning_of(spec)] = self._preparer.ending(parts, own, before)
        ending = None
        if heals(spec):
            ending = endings[beginning_of(spec)] if parts else of_place
        given = self._preparer.given_before(own, before, ending)
        self._preparer.check_fits(len(prompt) + len(given))
        same_grammar = point is not None and not append and _grammar(spec) == _grammar(point.origin.spec)
        grammar_from = min(point.origin.grammar_from, len(given)) if point and same_grammar else len(given)
        sampler = self._preparer.sampler(spec, prompt, given, given[grammar_from:])
        banned = Banned.of(spec.banned_strings, spec.banned_patterns)
        if point is None:
            return PreparedBranch(
                spec, sampler, own_seed is not None, given, len(given), len(given), "", banned, ending, len(behind)
            )
        pieces = [self._model.piece(token, token in request.preserved) for token in added]
        text = point.text + _text(pieces)[0]
        return PreparedBranch(
            *(spec, sampler, own_seed is not None, given, point.num_hidden, grammar_from, text, banned, ending),
            num_directed=point.origin.num_directed,
        )

    def _healed_here(
        self, request: Request, prompt: Tokens, point: ForkPoint | None, spec: BranchSpec
    ) -> tuple[Tokens, Ending | None]:
        """Return the given tokens where a branch begins, and what it heals there if it appends nothing."""
        mood = spec.control_vectors or ()
        if point is not None:  # under another mood than its origin's it begins with these tokens as they are
            return point.whole, point.ending if mood == point.origin.mood else None
        if not request.endings or mood in request.endings:
            return request.removed, request.endings.get(mood)
        removed = request.removed
        return removed, self._preparer.ending_of_prompt(prompt + removed, removed, request.scope, mood)

    def _fork_point(self, source: Branch, token: int | None, character: int | None) -> ForkPoint:
        """Return the place in a branch that a fork names; without a number, the end of what its readers have seen."""
        if source.num_shifted:
            raise Conflict("the branch has shifted its context, so it cannot be forked", state=state_of(source))
        shown = "".join(source.shown)
        if (ending := source.ending) is not None:  # read after the text, which is then a fork's beginning or none
            num_hidden = source.num_hidden if shown else len(ending.before)
            hidden, own = ending.before[:num_hidden], ending.before[num_hidden:]
        else:
            # The count first: what the decode thread adds meanwhile is then in the text alone.
            num_readable, shown = source.num_readable, "".join(source.shown)
            hidden, own = source.tokens[: source.num_hidden], source.tokens[source.num_hidden :][:num_readable]
        pieces = _pieces(self._model, source, own)
        if token is not None and not 0 <= token <= len(own):
            raise bad_field("from", f"branch {source.index} has {len(own)} tokens so far, so there is no token {token}")
        if character is not None and not 0 <= character <= len(shown):
            problem = f"branch {source.index} has {len(shown)} characters so far, so there is no character {character}"
            raise bad_field("from", problem)
        at = 0 if token == 0 else len(shown) if character is None else character
        if ending is not None and not token and at == len(shown):
            return ForkPoint(ending.before, shown, source, len(hidden), source.prompt_bytes, ending)
        if token is not None:
            text, is_whole = _text(pieces[:token])
            if not is_whole:
                raise bad_field("from", f"token {token} of branch {source.index} ends inside a character")
            # Else a part of the text is held back, or token 0 begins within the prompt.
            if len(text) <= len(shown) and (token or not source.prompt_bytes):
                return ForkPoint(hidden + own[:token], text, source, len(hidden), source.prompt_bytes)
        count, length = _tokens_before(pieces, at)
        left = source.prompt_bytes[sum(len(self._model.piece(each)) for each in own[:count]) :]
        ahead = _decoded(left) + shown[length:at]
        tokens = hidden + own[:count]
        tokens += tokens_of(self._preparer.tokenize([ahead], False, False, "from") if ahead else ())
        if not at:
            return ForkPoint(tokens, "", source, len(tokens))
        return ForkPoint(tokens, shown[:at], source, len(hidden), source.prompt_bytes)

    # ---- the decode thread

    def grow(self, request: Request, growth: Growth) -> list[Branch]:
        """Add the prepared branches to their request; return them. Raise InvalidRequest or Conflict, which adds none."""
        _check_can_grow(request)
        command, prepared = growth.command, growth.prepared
        _check_running(request, command.max_running, len(prepared), "count")
        if len(request.branches) + len(prepared) > MAX_BRANCHES:
            raise bad_field("count", f"a request may have {MAX_BRANCHES} branches in its whole life")
        _check_tokens(request, command.max_tokens, [branch.spec.max_tokens for branch in prepared])
        specs = [*(branch.spec for branch in request.branches), *(branch.spec for branch in prepared)]
        check_banned(specs)
        open_specs = [branch.spec for branch in request.branches if branch.ended is None or branch.can_resume]
        self._preparer.check_together([*open_specs, *(branch.spec for branch in prepared)])
        first = len(request.branches)
        for index, new in enumerate(prepared, first):
            spec, sampler = new.spec, new.sampler
            seed = spec.seed if new.has_own_seed else next_seed(request, index)
            if seed != spec.seed:  # other branches were added meanwhile
                spec, sampler = replace(spec, seed=seed), sampler.clone(seed, spec.min_tokens)
                new.sampler.close()
            branch = Branch(request, index, spec, sampler, new.given, new.ending)
            branch.num_hidden, branch.grammar_from = new.num_hidden, new.grammar_from
            branch.num_directed = new.num_directed
            if growth.point:
                if growth.point.prompt_bytes:
                    branch.healing = Healing(new.ending, growth.point.prompt_bytes)
                branch.origin = growth.point.origin.index, len(growth.point.tokens) - growth.point.num_hidden
                branch.follow(new.text)
            request.branches.append(branch)
        return request.branches[first:]

    def change(self, branch: Branch, command: ChangeBranch) -> None:
        """Give a branch more tokens or other rules. Raise InvalidRequest, or Conflict if it has ended otherwise."""
        if branch.state is BranchState.ENDED and not branch.can_resume:
            raise Conflict(f"branch {branch.index} has ended and cannot go on", state=state_of(branch))
        if command.more < 0:
            raise bad_field("max_tokens", f"should be at least 0, not {command.more}")
        if branch.state is BranchState.ENDED and not command.more:
            problem = "has ended by its limit; give it max_tokens more"
            raise Conflict(f"branch {branch.index} {problem}", state=state_of(branch))
        spec = _changed(branch.spec, command.changes, ())
        if command.more:
            limit = branch.length if branch.state is BranchState.ENDED else spec.max_tokens
            spec = replace(spec, max_tokens=limit + command.more if limit >= 0 else -1)  # more than no limit is none
        check_branches([spec])
        if branch.state is BranchState.ENDED:
            _check_running(branch.request, command.max_running, 1, "max_tokens")
        _check_tokens(branch.request, command.max_tokens, [spec.max_tokens], instead_of=branch)
        branch.spec = spec
        if command.changes:
            branch.text.change_ends(spec.stop, finder_of(spec), spec.kept_stops)

    def end_reasoning(self, request: Request, index: int | None) -> list[int]:
        """Have the reasoning of one branch, or of all, end now; return the branches whose reasoning was not over.

        Raise Conflict unless `reasoning_control` allows it, InvalidRequest for a branch that there is not.
        """
        if index is not None and not 0 <= index < len(request.branches):
            raise bad_field(
                "index", f"the request has {len(request.branches)} branches, from 0 on, and no branch {index}"
            )
        asked = request.branches if index is None else [request.branches[index]]
        if not any(branch.spec.sampling.reasoning_control for branch in asked):
            raise Conflict("reasoning control not enabled for this completion", state=_state_of_request(request))
        running = (branch for branch in asked if branch.state is not BranchState.ENDED)
        ended = [branch for branch in running if branch.sampler.end_reasoning()]
        return [branch.index for branch in ended]

    def describe(self, request: Request, texts: bool = True) -> dict[str, Any]:
        """Return id, state (queued, running or resting), age in seconds, prompt_tokens, linger, and branches."""
        return {
            "id": request.request_id,
            "state": _state_of_request(request),
            "age": self._clock() - request.arrived_at,
            "prompt_tokens": request.num_sent,
            "linger": request.linger,
            "branches": [describe_branch(branch, texts) for branch in request.branches],
        }


def describe_branch(branch: Branch, text: bool = True) -> dict[str, Any]:
    """Return index, seed, state (waiting, running or ended), length and max_tokens of a branch.

    A fork also has `origin` and `token`, an ended branch `ended` with BranchEnded's fields; with `text` its text so far, and
    its tokens unless its context was shifted, which drops tokens.
    """
    said: dict[str, Any] = {
        "index": branch.index,
        "seed": branch.spec.seed,
        "state": state_of(branch),
        "length": branch.length,
        "max_tokens": branch.spec.max_tokens,
    }
    if branch.spec.direction:
        said["direction"] = branch.spec.direction
    if branch.origin is not None:
        said["origin"], said["token"] = branch.origin
    if branch.ended is not None:
        said["ended"] = asdict(branch.ended)
    if text:
        said["text"] = "".join(branch.shown)
        if branch.probs:
            said["probs"] = branch.probs
        if not branch.num_shifted:
            said["tokens"] = list(branch.tokens[branch.num_hidden :][: branch.num_readable])
    return said


def state_of(branch: Branch) -> str:
    return "waiting" if branch.is_held else branch.state.name.lower()


def branch_of(request: Request, index: int) -> Branch:
    """Return a request's branch by its index. Raise NotFound."""
    if not 0 <= index < len(request.branches):
        raise NotFound(f"the request has no branch {index}; it has {len(request.branches)}, from 0 on")
    return request.branches[index]


def next_seed(request: Request, index: int) -> int:
    """Return the seed of a branch with this index, if it has none of its own."""
    return (request.base.seed + index) % (MAX_SEED + 1)


def _check_can_grow(request: Request) -> None:
    if not request.can_grow:
        raise Conflict("branches can be added to requests of the srb dialect only", state=_state_of_request(request))
    if request.exploration is not None:
        raise Conflict("a request that explores adds its branches by itself", state=_state_of_request(request))
    if request.shift is not None:
        raise Conflict("a request that may shift its context has one branch", state=_state_of_request(request))


def _check_running(request: Request, limit: int, more: int, field: str) -> None:
    """Raise InvalidRequest, which names `field`, if more than `limit` branches would run or wait; 0: no limit."""
    active = sum(branch.is_active for branch in request.branches)
    if limit and active + more > limit:
        raise bad_field(field, f"{active} branches run already; at most {limit} may run at once (max_n)")


def _check_tokens(request: Request, limit: int, new: Sequence[int], instead_of: Branch | None = None) -> None:
    """Raise InvalidRequest if the branches together may get more than `limit` tokens; 0: no limit."""
    if not limit:
        return
    ended = BranchState.ENDED
    others = (branch for branch in request.branches if branch is not instead_of)
    counts = [branch.length if branch.state is ended else branch.spec.max_tokens for branch in others]
    if any(count < 0 for count in new) or sum(counts) + sum(new) > limit:
        raise bad_field("max_tokens", f"the branches of a request may have {limit} tokens together")


def _changed(base: BranchSpec, changes: Any, sampling_changes: Any) -> BranchSpec:
    try:
        sampling = with_penalties(replace(base.sampling, **dict(sampling_changes)))
        spec = replace(base, **dict(changes), sampling=sampling)
    except TypeError as error:
        raise InvalidRequest(f"a branch has no such field: {error}") from None
    if not spec.stop_at and "stop_after" in dict(changes):
        raise bad_field("stop_after", f"needs stop_at, which is one of {', '.join(get_args(Boundary))}")
    return spec


def _grammar(spec: BranchSpec) -> tuple[object, ...]:
    """Return all that decides which tokens may come at a place of the text."""
    params = spec.sampling
    return (params.grammar, params.json_schema, params.grammar_triggers, params.grammar_schemas, params.reasoning_tags)


def _state_of_request(request: Request) -> str:
    return {RequestState.WAITING: "queued", RequestState.RUNNING: "running"}.get(request.state, "resting")


def _pieces(model: Model, branch: Branch, tokens: Sequence[int]) -> list[bytes]:
    """Return what each of a branch's readable tokens adds to its text; the first ones may begin with the prompt's end."""
    pieces, hidden = [], len(branch.prompt_bytes)
    for token in tokens:
        piece = model.piece(token, token in branch.request.preserved)
        pieces.append(piece[hidden:])
        hidden = max(0, hidden - len(piece))
    return pieces


def _decoded(hidden: bytes) -> str:
    """Return the end of a prompt as text. Raise InvalidRequest if it is a part of a character."""
    try:
        return hidden.decode()
    except UnicodeDecodeError:
        raise bad_field("from", "is inside the first token, which begins within a character of the prompt") from None


def _text(pieces: Sequence[bytes]) -> tuple[str, bool]:
    """Return the text of tokens without an incomplete character at the end, and whether there is none."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    return decoder.decode(b"".join(pieces)), not decoder.getstate()[0]


def _tokens_before(pieces: Sequence[bytes], at: int) -> tuple[int, int]:
    """Return how many tokens have whole characters before character `at`, as many as possible, and their length."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    best, length = (0, 0), 0
    for count, piece in enumerate(pieces, 1):
        length += len(decoder.decode(piece))
        if length > at:
            break
        if not decoder.getstate()[0]:
            best = count, length
    return best
