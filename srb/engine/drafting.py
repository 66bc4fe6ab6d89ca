"""A draft model: a second, smaller model that reads the texts of branches along, and drafts what it finds likeliest.

Its memory has a prefix tree of its own, so the prompt of many branches is computed once, and a text that was kept goes on
from where it ended. A text that it cannot follow, for lack of room or for pictures in it, has no drafts; that is no error.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from srb.engine.guesses import Guesses, first_chances
from srb.engine.lookup import Chances
from srb.engine.model import Batch, DecodeStatus, Model, Scope
from srb.engine.request import Branch, Prefix
from srb.engine.sampling import is_greedy
from srb.engine.tokens import Tokens
from srb.engine.tree.node import Node, NodeState
from srb.engine.tree.prefix_tree import Lease, PrefixTree
from srb.engine.tree.residency import Residency
from srb.errors import ModelLoadFailed

_PADDING = 128  # tokens by which vocabularies may differ at their ends; some models of one family do
_SAMPLE = 4096  # pieces that are compared: all 262,144 of a large vocabulary would hold up the start


Drafted = tuple[list[int], list[float]]  # tokens that may follow a branch's, and for each the chance of all up to it


class Drafter(Protocol):
    """A model that reads the texts of branches along, and drafts; what it has of them is released by the `forget`s."""

    model: Model  # whose limits apply
    passes_total: int  # decodes in which it drafted

    @property
    def tokens_total(self) -> int: ...  # computed tokens of texts, drafted ones included

    # How many tokens before a running branch's newest are to be computed; None if it cannot be followed now.
    def lag(self, branch: Branch) -> int | None: ...
    def has(self, branch: Branch) -> bool: ...  # whether it has a branch's prompt, and a sequence for the branch

    # Compute at most so many of the tokens before a branch's newest, of which `lag` has told, those of its prompt first;
    # return how many, 0: there is no room.
    def compute(self, branch: Branch, most: int) -> int: ...

    # For each branch the likeliest tokens, of the first `n_vocab`, that may follow. Each branch has at most as many as
    # `wanted` says; after the first it has another one only while the chance of that is probably `least` or more. `lag`
    # has told of each that few tokens are to be computed before. All branches are computed together, as many times as the
    # longest draft has tokens.
    def draft(self, wanted: Sequence[tuple[Branch, int]], n_vocab: int, least: float = 0.0) -> list[Drafted]: ...
    def follow_prompts(self, pays: bool) -> None: ...  # note whether drafts are worth reading prompts for at all
    def forget(self, branch: Branch, keep: bool) -> None: ...  # with `keep` its text stays in the tree
    def forget_prompt(self, prefix: Prefix) -> None: ...  # whose branches are forgotten
    @property
    def needs_trim(self) -> bool: ...
    def trim(self) -> None: ...  # park texts that are not in use, as far as one step may
    def close(self) -> None: ...
    def check_invariants(self) -> None: ...  # for tests, not for a step


def check_vocabularies(model: Model, draft: Model, paths: tuple[str, str]) -> None:
    """Raise ModelLoadFailed, which names both files, unless a draft model has the model's vocabulary.

    Numbers of tokens, special tokens and a sample of the pieces are compared.
    """
    ours, theirs = model.info(""), draft.info("")
    differ: list[str] = []
    for name in ("vocab_type", "bos_id", "eos_id", "eot_id", "add_bos"):
        if getattr(ours, name) != getattr(theirs, name):
            differ.append(f"{name} is {getattr(ours, name)} and {getattr(theirs, name)}")
    if abs(model.n_vocab - draft.n_vocab) > _PADDING:
        differ.append(f"they have {model.n_vocab} and {draft.n_vocab} tokens")
    shared = min(model.n_vocab, draft.n_vocab)
    for token in range(0, shared, max(1, shared // _SAMPLE)):
        if model.is_eog(token) != draft.is_eog(token) or model.piece(token, True) != draft.piece(token, True):
            differ.append(f"token {token} is {model.piece(token, True)!r} and {draft.piece(token, True)!r}")
            break
    if differ:
        raise ModelLoadFailed(
            f"spec_draft_model: {paths[1]} has another vocabulary than the model {paths[0]}: {'; '.join(differ)}; "
            "a draft model has to be of the same family"
        )


@dataclass(slots=True)
class _Copy:
    """A branch in the draft model's memory: a sequence with its first tokens, and drafted ones after them."""

    lease: Lease
    num_computed: int  # tokens of the branch in the sequence
    guesses: Guesses
    ahead: list[int] = field(default_factory=list)  # drafted tokens in the sequence, after those
    is_lost: bool = False  # the branch has a token that the draft model does not know


class DraftModel:
    """A draft model with the texts that it has read. `forget` and `forget_prompt` release what it holds of them."""

    def __init__(self, model: Model, cache_cells: int, cache_bytes: int) -> None:
        """Keep `cache_cells` and `cache_bytes` of ended texts in a prefix tree, as the engine's does."""
        self.model = model
        self._residency = Residency(model, cache_cells, cache_bytes)
        self._tree = PrefixTree(model, self._residency)
        self._prompts: dict[Prefix, Node | None] = {}  # None: it has tokens that the model does not know
        self._copies: dict[Branch, _Copy] = {}
        self._awaits: dict[Prefix, Node] = {}  # another prompt that is being computed and shares more of this one
        self._refused: set[Prefix] = set()  # that found no room, until something is forgotten
        self._chances = first_chances()
        self._chances_of: dict[Prefix, Chances] = {}
        self.has_failed = False  # after a decode that leaves its memory in doubt; it drafts nothing more
        self.tokens_total = 0  # computed tokens of texts, drafted ones included
        self.passes_total = 0  # decodes in which it drafted

    # ---- following texts

    def has(self, branch: Branch) -> bool:
        """Whether the model has a branch's prompt, and a sequence for the branch."""
        return branch in self._copies

    def lag(self, branch: Branch) -> int | None:
        """Return how many tokens before a running branch's newest are to be computed; None if it cannot be followed now."""
        if self.has_failed or branch.end >= self.model.n_ctx_seq:
            return None
        prefix = branch.request.prefix
        if prefix not in self._prompts and not self._begin(prefix):
            return None
        node = self._prompts[prefix]
        if node is None:
            return None
        pending = len(prefix.tokens) - node.start - node.num_computed
        if pending:
            return pending + len(branch.tokens) - 1
        if branch not in self._copies:
            if not self._residency.available_ids:
                return None
            lease = self._tree.start(node, branch.tokens)
            chances = self._chances_of.setdefault(prefix, self._chances.copy())
            computed = lease.node.end - branch.start
            guesses = Guesses(chances, self._chances, is_greedy(branch.spec.sampling))
            self._copies[branch] = _Copy(lease, computed, guesses)
        copy = self._copies[branch]
        self._settle(branch, copy, len(branch.tokens) - 1)
        lag = len(branch.tokens) - 1 - copy.num_computed
        return None if copy.is_lost else lag

    def compute(self, branch: Branch, most: int) -> int:
        """Compute at most `most` of the tokens before a branch's newest, those of its prompt first; return how many.

        `lag` has told that there are some. 0: there is no room.
        """
        prefix, most = branch.request.prefix, min(most, self.model.n_batch)
        node = self._prompts[prefix]
        assert node is not None
        done = node.start + node.num_computed
        if done == len(prefix.tokens):
            return self._compute_copy(branch, most)
        count = min(most, len(prefix.tokens) - done)
        if not self._residency.make_room(count, 0):
            return 0
        batch, seq_id, is_last = Batch(), node.seq_id, done + count == len(prefix.tokens)
        assert seq_id is not None
        row = batch.add(seq_id, done, prefix.tokens[done : done + count], want_logits=is_last)
        if not self._decode(batch):
            return 0
        self._residency.record_computed(node, count)
        if is_last:
            logits = self.model.logits(row).copy()
            self._prompts[prefix] = self._tree.complete(node, logits, prefix.request.cache_prompt)
        return count

    def _compute_copy(self, branch: Branch, most: int) -> int:
        copy = self._copies.get(branch)
        if copy is None:  # its prompt has just been completed by another branch; `lag` gives it a sequence
            return 0
        done = copy.num_computed
        tokens = branch.tokens[done : min(done + most, len(branch.tokens) - 1)]
        copy.is_lost = not self._knows(tokens)
        if copy.is_lost or not self._residency.make_room(len(tokens), 0):
            return 0
        batch = Batch()
        batch.add(copy.lease.seq_id, branch.start + done, tokens, want_logits=False)
        if not self._decode(batch):
            return 0
        self._residency.record_branch(len(tokens))
        copy.num_computed += len(tokens)
        return len(tokens)

    def _begin(self, prefix: Prefix) -> bool:
        """Begin a prompt; return False if it cannot begin now."""
        if prefix in self._refused:
            return False
        if (node := self._awaits.pop(prefix, None)) is not None and node.state is NodeState.COMPUTING:
            self._awaits[prefix] = node
            return False
        if prefix.media or not self._knows(prefix.tokens):
            self._prompts[prefix] = None
            return True
        residency, keep = self._residency, prefix.request.cache_prompt
        scope = Scope(salt=prefix.request.scope.salt)
        match = self._tree.match(prefix.tokens, self._tree.root(scope)) if keep else None
        if match is not None and match.awaits is not None:
            self._awaits[prefix] = match.awaits
            return False
        cells = residency.cost(prefix.tokens, match) if match is not None else len(prefix.tokens)
        if cells >= residency.available_cells or residency.available_ids < 2:
            self._refused.add(prefix)
            return False
        self._prompts[prefix] = self._tree.begin(prefix.tokens, scope, keep, match).node
        return True

    def _knows(self, tokens: Tokens) -> bool:
        return not tokens or (min(tokens) >= 0 and max(tokens) < self.model.n_vocab)

    def _settle(self, branch: Branch, copy: _Copy, most: int) -> None:
        """Learn from the latest draft; of its tokens in the sequence keep those that the branch drew, and drop the others.

        At most `most` of the branch's tokens stay.
        """
        tokens = branch.tokens
        copy.guesses.learn(tokens)
        known, end = copy.num_computed, copy.num_computed + len(copy.ahead)
        for token in copy.ahead:
            if known >= len(tokens) or tokens[known] != token:
                break
            known += 1
        copy.num_computed, copy.ahead = min(known, most), []
        if copy.num_computed < end:
            self._tree.shorten(copy.lease, branch.start + end, branch.start + copy.num_computed)

    # ---- drafting

    def draft(self, wanted: Sequence[tuple[Branch, int]], n_vocab: int, least: float = 0.0) -> list[Drafted]:
        batch, live, cells = Batch(), list[int](), 0
        copies = [self._copies[branch] for branch, _ in wanted]
        for number, ((branch, most), copy) in enumerate(zip(wanted, copies, strict=True)):
            copy.guesses.begin(len(branch.tokens))
            tokens = branch.tokens[copy.num_computed :]
            needed = len(tokens) + most - 1
            most_cells, most_tokens = self._residency.available_cells, self.model.n_batch
            copy.is_lost = not self._knows(tokens)
            if copy.is_lost or cells + needed > most_cells or len(batch) + len(tokens) > most_tokens:
                continue
            batch.add(copy.lease.seq_id, branch.start + copy.num_computed, tokens, want_logits=True)
            live.append(number)
            cells += needed
        if not live or not self._residency.make_room(cells, 0) or not self._decode(batch):
            return [([], []) for _ in wanted]
        for number in live:
            copies[number].num_computed = len(wanted[number][0].tokens)
        while live:
            self.passes_total += 1
            self._residency.record_branch(len(batch))
            rows = [row for row, is_wanted in enumerate(batch.wanted) if is_wanted]
            live = [
                number
                for number, row in zip(live, rows, strict=True)
                if copies[number].guesses.extend(
                    self.model.logits(row)[:n_vocab], self.model.is_eog, wanted[number][1], least
                )
            ]
            batch = Batch()
            for number in live:
                copy = copies[number]
                position = wanted[number][0].start + copy.num_computed + len(copy.ahead)
                batch.add_newest(copy.lease.seq_id, position, copy.guesses.tokens[-1])
            if live and not self._decode(batch):
                break
            for number in live:
                copies[number].ahead.append(copies[number].guesses.tokens[-1])
        return [(copy.guesses.tokens, copy.guesses.chances) for copy in copies]

    def _decode(self, batch: Batch) -> bool:
        status = self.model.decode(batch)
        self.has_failed = self.has_failed or status in (DecodeStatus.INVALID, DecodeStatus.FATAL)
        self.tokens_total += len(batch) if status is DecodeStatus.OK else 0
        return status is DecodeStatus.OK

    def follow_prompts(self, pays: bool) -> None:
        """Do nothing: each prompt is read where that pays."""

    # ---- forgetting texts

    def forget(self, branch: Branch, keep: bool) -> None:
        """Release a branch's copy, if there is one; with `keep` its text stays in the tree."""
        copy = self._copies.pop(branch, None)
        if copy is None:
            return
        self._settle(branch, copy, len(branch.tokens))
        own = branch.tokens[copy.lease.node.end - branch.start : copy.num_computed]
        self._tree.end(copy.lease, own, keep)
        self._refused.clear()

    def forget_prompt(self, prefix: Prefix) -> None:
        """Release a prompt, whose branches have no copies any more."""
        self._refused.discard(prefix)
        self._awaits.pop(prefix, None)
        self._chances_of.pop(prefix, None)
        node = self._prompts.pop(prefix, None)
        if node is not None:
            self._tree.release(node)
            self._refused.clear()

    @property
    def needs_trim(self) -> bool:
        return self._residency.needs_trim

    def trim(self) -> None:
        """Park texts that are not in use, as far as one step may."""
        self._residency.trim()

    def close(self) -> None:
        """Free the model."""
        self.model.close()

    def check_invariants(self) -> None:
        """Assert the rules that hold between two steps. Visits every node: for tests, not for a step."""
        copies = self._copies
        cells = sum(
            branch.start + copy.num_computed + len(copy.ahead) - copy.lease.node.end for branch, copy in copies.items()
        )
        prompts = [node for node in self._prompts.values() if node is not None]
        self._tree.check_invariants(prompts, [copy.lease for copy in copies.values()], cells)
        for branch in copies:
            assert branch.lease is not None, f"{branch!r} does not run and has a copy"
        for prefix in (*self._prompts, *self._awaits, *self._refused):
            assert prefix.node is not None, f"{prefix!r} was released and is followed"
