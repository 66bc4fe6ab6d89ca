"""Matching: the longest beginning of a text that the tree holds. Nothing here changes the tree."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from srb.engine.model import Logits
from srb.engine.tokens import Tokens, common_length
from srb.engine.tree.node import Node, NodeState

WORTH_WAITING = 16  # tokens; computing fewer again is cheaper than waiting for another request to compute them


@dataclass(frozen=True, slots=True)
class Match:
    """The matched part of a text: the path to the end of `node`, or `cut` tokens into `into`, a child of `node`.

    `awaits` is a node that another request is computing and that will match more of the text. `logits` are those of the
    text's last token, if all of the text matches. With memory that keeps states, the tree holds `shared` tokens, and the
    match ends at the last place among them from which the text can go on.
    """

    node: Node
    into: Node | None = None
    cut: int = 0
    awaits: Node | None = None
    logits: Logits | None = None
    shared: int = 0

    @property
    def length(self) -> int:
        return self.into.start + self.cut if self.into is not None else self.node.end


def longest_match(tokens: Tokens, start: Node, usable: int, deepest: Callable[[Match], Match]) -> Match:
    """Match `tokens`, which follow `start`, with the nodes below `start`; return the longest match.

    At most `usable` tokens match, or all of them if the logits of the last one are known; of these, as many as `deepest`
    tells. The cost depends on the tokens and nodes that match, and on the prompts that are being computed there, alone.
    """
    found, place, done = Match(start), start.children, 0
    computing: list[tuple[Node, int]] = []  # each with the number of tokens before it
    while done < len(tokens) and (siblings := place.get(tokens[done])) is not None:
        computing += [(node, done) for node in siblings if node.state is NodeState.COMPUTING]
        node = siblings[0]
        if node.state is NodeState.COMPUTING:
            break
        common = common_length(node.tokens, tokens, done)
        before, done = done, done + common
        if done == len(tokens) and (logits := node.logits_at(node.start + common)) is not None:
            found = replace(Match(node) if common == len(node.tokens) else _part(node, common), logits=logits)
            break
        if done > usable:
            found = _part(node, usable - before) if usable > before else found
            break
        if common == len(node.tokens):
            found, place = Match(node), node.children
        else:  # the text goes on, if at all, in a child that begins right there
            found, place = _part(node, common), node.children_at(node.start + common)
    found, awaits, most = deepest(found), None, 0
    for node, before in computing:
        common = common_length(node.tokens, tokens, before)
        ready = min(common, node.num_computed, usable - before)
        part = deepest(_part(node, ready)) if ready > 0 else found
        longer = part if part.length >= found.length else found  # of two that are as long, the newer
        found = replace(longer, shared=max(part.shared, found.shared))
        if common > node.num_computed and before + common > most:
            awaits, most = node, before + common
    gain = start.end + most - found.length
    is_whole = awaits is not None and (most == len(tokens) or start.end + most == awaits.end)
    return replace(found, awaits=awaits) if gain >= WORTH_WAITING or (is_whole and gain > 0) else found


def _part(node: Node, cut: int) -> Match:
    assert node.parent is not None
    return Match(node.parent, node, cut)
