"""A draft model: a second, smaller model that reads the texts of branches along, and drafts what it finds likeliest.

Its memory has a prefix tree of its own, so the prompt of many branches is computed once, and a text that was kept goes on
from where it ended. A text that it cannot follow, for lack of room or for pictures in it, has no drafts; that is no error.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import isnan, log2

import numpy as np

from srb.engine.lookup import Chances
from srb.engine.model import Batch, DecodeStatus, Logits, Model, Scope
from srb.engine.request import Branch, Prefix
from srb.engine.sampling import is_greedy
from srb.engine.tokens import Tokens
from srb.engine.tree.node import Node, NodeState
from srb.engine.tree.prefix_tree import Lease, PrefixTree
from srb.engine.tree.residency import Residency
from srb.errors import ModelLoadFailed

# Drafted tokens are of kinds, by how near the draft model was to another one; each kind is half as near as the second
# before it. Tokens for branches that always draw the likeliest one are of kinds of their own.
_KINDS = 12  # in the last one all other tokens have 2 % at most; finer kinds would have too few tokens to learn from
_FIRST_CHANCES = 2 * tuple(1 - 2 ** (-(kind + 0.5) / 2) for kind in range(_KINDS))
_PADDING = 128  # tokens by which vocabularies may differ at their ends; some models of one family do
_SAMPLE = 4096  # pieces that are compared: all 262,144 of a large vocabulary would hold up the start


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
    chances: Chances  # of the drafted tokens of all branches of its prompt
    is_greedy: bool  # whether it always draws the likeliest token
    ahead: list[int] = field(default_factory=list)  # drafted tokens in the sequence, after those
    proposed: Sequence[int] = ()  # the latest draft, after the branch's first `proposed_at` tokens
    kinds: list[int] = field(default_factory=list)  # of its tokens
    proposed_at: int = 0
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
        self._chances = Chances(_FIRST_CHANCES)
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
            self._copies[branch] = _Copy(lease, computed, chances, is_greedy(branch.spec.sampling))
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
        for place, token in enumerate(copy.proposed, copy.proposed_at):
            if place >= len(tokens):
                break
            is_right = tokens[place] == token
            kind = copy.kinds[place - copy.proposed_at]
            copy.chances.note(kind, is_right)
            self._chances.note(kind, is_right)
            if not is_right:
                break
        copy.proposed = ()
        known, end = copy.num_computed, copy.num_computed + len(copy.ahead)
        for token in copy.ahead:
            if known >= len(tokens) or tokens[known] != token:
                break
            known += 1
        copy.num_computed, copy.ahead = min(known, most), []
        if copy.num_computed < end:
            self._tree.shorten(copy.lease, branch.start + end, branch.start + copy.num_computed)

    # ---- drafting

    def draft(
        self, wanted: Sequence[tuple[Branch, int]], n_vocab: int, least: float = 0.0
    ) -> list[tuple[list[int], list[float]]]:
        """Return for each branch tokens that may follow, likeliest ones of the first `n_vocab`, and their chances.

        A chance is that of all tokens up to one. Each branch has at most as many tokens as `wanted` says; after the
        first it has another one only while the chance of that is probably `least` or more. `lag` has told of each that few
        tokens are to be computed before. All branches are computed together, as many times as the longest draft has
        tokens.
        """
        drafts: list[tuple[list[int], list[float]]] = [([], []) for _ in wanted]
        batch, live, cells = Batch(), list[int](), 0
        for number, (branch, most) in enumerate(wanted):
            copy = self._copies[branch]
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
            return drafts
        for number in live:
            branch = wanted[number][0]
            copy = self._copies[branch]
            copy.num_computed = len(branch.tokens)
            copy.proposed, copy.proposed_at, copy.kinds = drafts[number][0], len(branch.tokens), []
        while True:
            self.passes_total += 1
            self._residency.record_branch(len(batch))
            rows = [row for row, is_wanted in enumerate(batch.wanted) if is_wanted]
            going: list[int] = []
            for number, row in zip(live, rows, strict=True):
                branch, most = wanted[number]
                copy, (drafted, chances) = self._copies[branch], drafts[number]
                if not self._extend(copy, drafted, chances, self.model.logits(row)[:n_vocab]) or len(drafted) >= most:
                    continue
                if chances[-1] * copy.chances.mean >= least:
                    going.append(number)
            live = going
            if not live:
                return drafts
            batch = Batch()
            for number in live:
                branch = wanted[number][0]
                copy = self._copies[branch]
                position = branch.start + copy.num_computed + len(copy.ahead)
                batch.add_newest(copy.lease.seq_id, position, drafts[number][0][-1])
            if not self._decode(batch):
                return drafts
            for number in live:
                self._copies[wanted[number][0]].ahead.append(drafts[number][0][-1])

    def _extend(self, copy: _Copy, tokens: list[int], chances: list[float], logits: Logits) -> bool:
        """Append the likeliest token of `logits`, shape (n_vocab,), and its chance; return whether there is one."""
        token = int(logits.argmax())
        if self.model.is_eog(token):
            return False  # a branch that draws it ends, and needs no draft for that
        weights = np.exp(logits - logits[token])
        total = float(weights.sum())
        if isnan(total):  # a model whose numbers overflow drafts nothing
            return False
        if copy.is_greedy:  # the second likeliest alone matters
            weights[token] = 0.0
            total = 1 + float(weights.max())
        kind = _KINDS * copy.is_greedy + min(_KINDS - 1, int(-2 * log2(max(1 - 1 / total, 2**-_KINDS))))
        tokens.append(token)
        chances.append((chances[-1] if chances else 1.0) * copy.chances[kind])
        copy.kinds.append(kind)
        return True

    def _decode(self, batch: Batch) -> bool:
        status = self.model.decode(batch)
        self.has_failed = self.has_failed or status in (DecodeStatus.INVALID, DecodeStatus.FATAL)
        self.tokens_total += len(batch) if status is DecodeStatus.OK else 0
        return status is DecodeStatus.OK

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
