"""Matching: the longest beginning of a text that the tree holds. Nothing here changes the tree."""

from __future__ import annotations

from dataclasses import dataclass, replace

from srb.engine.model import Logits
from srb.engine.tokens import Tokens, common_length, has_at
from srb.engine.tree.node import Children, Node, NodeState

WORTH_SHARING = 16  # tokens; computing fewer again is cheaper than waiting for them or splitting a node
CROWD = 8  # siblings with the same first token; from here on every shared token makes a node: short lists


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


def longest_match(tokens: Tokens, start: Node, usable: int, worth: int = WORTH_SHARING) -> Match:
    """Match `tokens`, which follow `start`, with the nodes below `start`; return the longest match.

    A part of a node matches if it has at least `worth` tokens. At most `usable` tokens match, or all of them if the
    logits of the last one are known. The cost depends on the tokens and nodes that match alone.
    """
    found, children, done = Match(start), start.children, 0
    while done < len(tokens):
        whole, done = _whole_nodes(children, tokens, done, usable)
        if whole is not None:
            found, children = Match(whole), whole.children
        child, common = best_child(children, tokens, done, worth)
        if child is None:
            break
        if child.state is NodeState.COMPUTING:
            cut = max(0, min(common, child.num_computed, usable - done))
            awaits = child if common > child.num_computed else None
            return _part(found, child, cut, awaits)
        end = done + common
        if common == len(child.tokens) and end <= usable:
            found, children, done = Match(child), child.children, end
        elif end == len(tokens) and (logits := child.logits_at(child.start + common)) is not None:
            is_whole = common == len(child.tokens)
            return replace(Match(child) if is_whole else _part(found, child, common, None), logits=logits)
        else:
            found = _part(found, child, max(0, min(common, usable - done)), None)
            inner = _parted(child, tokens, done, common)
            if inner is None:
                break
            children, done = child.inner[inner], done + inner - child.start
    return found


def _whole_nodes(children: Children, tokens: Tokens, done: int, usable: int) -> tuple[Node | None, int]:
    """Follow `tokens[done:]` through nodes without siblings that match whole: most of a long text, so it is quick.

    Return the last of them, None if there is none, and the number of tokens that match up to its end.
    """
    last: Node | None = None
    while done < usable and (siblings := children.get(tokens[done])) is not None and len(siblings) == 1:
        [node] = siblings
        end = done + len(node.tokens)
        if end > usable or node.state is NodeState.COMPUTING or not has_at(tokens, done, node.tokens):
            break
        last, children, done = node, node.children, end
    return last, done


def _part(found: Match, child: Node, cut: int, awaits: Node | None) -> Match:
    """Return the match that ends `cut` tokens into `child`, or `found` if `cut` is 0."""
    if not cut:
        return replace(found, awaits=awaits)
    assert child.parent is not None
    return Match(child.parent, child, cut, awaits)


def _parted(node: Node, tokens: Tokens, done: int, common: int) -> int | None:
    """Return the position of inner children that match more of `tokens[done:]` than the node does, or None."""
    for shared in range(common, max(0, common - WORTH_SHARING), -1) if node.inner else ():
        children = node.inner.get(node.start + shared)
        if children and best_child(children, tokens, done + shared)[1] > common - shared:
            return node.start + shared
    return None


def best_child(children: Children, tokens: Tokens, offset: int, worth: int = WORTH_SHARING) -> tuple[Node | None, int]:
    """Return the child that shares most of `tokens[offset:]`, and the number of shared tokens.

    Return (None, 0) if no child shares enough tokens to be worth sharing. Of children that share as many, which only
    memory with states has, it is the newest, since it has a checkpoint where it parted from the others.
    """
    best, most = None, 0
    siblings = children.get(tokens[offset], ()) if offset < len(tokens) else ()
    enough = 1 if len(siblings) >= CROWD else worth
    for child in siblings:
        common = common_length(child.tokens, tokens, offset)
        if common >= max(most, 1) and (common >= enough or common in (len(child.tokens), len(tokens) - offset)):
            best, most = child, common
    return best, most
