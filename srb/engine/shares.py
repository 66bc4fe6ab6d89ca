"""The fair share of each key: of requests that wait, those of the key with the fewest running branches come first.

Keys with equally many are served in the order of arrival. All requests without a key count as one key's. Nobody waits for
ever: the branches that run for a key end in time, and then its oldest request is the oldest of those with the fewest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from srb.engine.request import Branch, BranchState, Request


def count_running(requests: Iterable[Request]) -> Counter[str]:
    """Return the number of running branches of each key; a request that has begun counts as one at least."""
    counts: Counter[str] = Counter()
    for request in requests:
        if request.prefix.node is not None:
            counts[request.key] += len(request.in_state(BranchState.RUNNING)) or 1
    return counts


def in_order_of_shares(waiting: Iterable[Request], counts: Counter[str]) -> list[Request]:
    """Return requests in the order in which they have their turns, if each is one branch more of its key's `counts`.

    Requests without a reader come after all others.
    """
    return [request for request, _ in _placed(waiting, counts)]


def next_to_begin(requests: Sequence[Request]) -> list[tuple[Request, int]]:
    """Return the requests that wait for their prompts to be computed, in their order, each with the branches before it.

    Those are the ones that wait in requests that have begun, of other keys, with fewer branches: it has to leave them room.
    """
    waiting = [request for request in requests if request.prefix.node is None]
    if not waiting or len(requests) == 1:
        return [(request, 0) for request in waiting]
    counts = count_running(requests)
    eager: Counter[str] = Counter()
    for request in requests:
        if request.prefix.node is not None and not request.is_unread:
            eager[request.key] += len(request.in_state(BranchState.WAITING))
    return [
        (request, sum(number for key, number in eager.items() if key != request.key and counts[key] < place))
        for request, place in _placed(waiting, counts)
    ]


def _placed(waiting: Iterable[Request], counts: Counter[str]) -> list[tuple[Request, int]]:
    """Return requests in their order, each with the number of branches that its key has before it."""
    counts = counts.copy()
    placed = []
    for request in sorted(waiting, key=lambda request: request.is_unread):
        placed.append((request, counts[request.key]))
        counts[request.key] += 1
    return sorted(placed, key=lambda each: (each[0].is_unread, each[1]))


def in_order_of_claims(requests: Sequence[Request], running: Iterable[Branch]) -> list[tuple[Request, Branch | None]]:
    """Return the prompts (None) and running branches of requests; those that should give way first come last.

    Each key's first branch comes before any key's second one, and so on; equal ones are in the order of `requests`. A prompt
    comes before the branches that need it.
    """
    own: dict[str, list[Branch]] = {}
    for branch in running:
        own.setdefault(branch.request.request_id, []).append(branch)
    counts: Counter[str] = Counter()
    claims: list[tuple[bool, int, Request, Branch | None]] = []
    for request in requests:
        claims.append((request.is_unread, counts[request.key], request, None))
        for branch in own.get(request.request_id, ()):
            claims.append((request.is_unread, counts[request.key], request, branch))
            counts[request.key] += 1
    claims.sort(key=lambda claim: claim[:2])
    return [claim[2:] for claim in claims]
