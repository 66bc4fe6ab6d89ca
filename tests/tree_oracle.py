"""The longest beginning of a text that a prefix tree holds, found by going through all of its nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from srb.engine.drafting import DraftModel
from srb.engine.engine import Engine
from srb.engine.model import Scope
from srb.engine.tokens import NEXT, Tokens, run_start, tokens_of
from srb.engine.tree.node import Node, NodeState
from srb.engine.tree.prefix_tree import PrefixTree

WORTH_FINDING = (
    16  # tokens of a text's end that may be missing, as the last one always is: it is sampled and not computed
)


def trees(engine: Engine) -> Iterator[PrefixTree]:
    """Yield the prefix trees of an engine: its own, and that of its draft model."""
    yield engine._tree
    if isinstance(drafts := engine._speculation._drafter, DraftModel):
        yield drafts._tree


def texts_of(root: Node) -> dict[Node, Tokens]:
    """Return for each node below a root all computed tokens of its path, private nodes aside."""
    texts = {root: tokens_of(())}
    for node in root.subtree()[1:]:
        assert node.parent is not None
        texts[node] = texts[node.parent][: node.start] + node.tokens[: node.num_computed]
    del texts[root]
    return texts


def common(a: Sequence[int], b: Sequence[int]) -> int:
    """Return how many tokens two texts begin with alike, token by token."""
    pairs = zip(a, b, strict=False)
    return next((place for place, (one, other) in enumerate(pairs) if one != other), min(len(a), len(b)))


def longest_known(texts: dict[Node, Tokens], tokens: Tokens, tree: PrefixTree) -> int:
    """Return how many tokens of a text can be reused.

    All that any node holds; or, of memory that keeps states, up to the last place with a state; or, of memory that cannot be
    cut, the longest text that is there whole.
    """
    longest = 0
    for node, text in texts.items():
        shared = common(text, tokens)
        if not tree._partial_reuse:
            places = [node.end] if shared == len(text) and node.state is not NodeState.COMPUTING else []
        elif tree._states.are_kept:
            places = [position for position in node.checkpoints if position <= shared]
            if shared == node.end and node.state is not NodeState.COMPUTING and tree._states.has(node):
                places.append(shared)
        else:
            places = [shared]
        longest = max(longest, *places, 0)
    return longest


def check_found(engine: Engine, others: Iterable[tuple[Tokens, Scope]] = ()) -> None:
    """Assert that what goes on from each text of a tree, and from each of `others`, is found as far as it is known."""
    asked = list(others)
    for tree in trees(engine):
        for scope, root in list(tree._roots.items()):
            texts = texts_of(root)
            for tokens in (*texts.values(), *(tokens for tokens, own in asked if own == scope)):
                wanted = [*tokens, NEXT]
                known = longest_known(texts, tokens_of(wanted), tree)
                found = tree.match(tokens_of(wanted), root).length
                assert found >= run_start(tokens_of(wanted), known), f"{found} of {known} known tokens: {wanted}"
