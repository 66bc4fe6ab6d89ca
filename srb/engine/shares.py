"""The fair share of each owner, a person or an address: the requests of the one with the fewest running branches come first.

An owner's branches are divided by her weight: six of an owner of weight 3 are as two. Owners with equally many are served in
the order of arrival. Nobody waits for ever: the branches that run for an owner end in time, and then the oldest request is
the oldest of those with the fewest.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from srb.engine.request import Branch, BranchState, Request


def count_running(requests: Iterable[Request]) -> Counter[str]:
    """Return the number of running branches of each owner; a request that has begun counts as one at least."""
    counts: Counter[str] = Counter()
    for request in requests:
        if request.prefix.node is not None:
            counts[request.owner] += len(request.in_state(BranchState.RUNNING)) or 1
    return counts


def in_order_of_shares(waiting: Iterable[Request], counts: Counter[str]) -> list[Request]:
    """Return requests in the order in which they have their turns, if each is one branch more of its owner's `counts`.

    Requests without a reader come after all others.
    """
    return [request for request, _ in _placed(waiting, counts)]


def next_to_begin(requests: Sequence[Request]) -> list[tuple[Request, int]]:
    """Return the requests that wait for their prompts to be computed, in their order, each with the branches before it.

    Those wait in requests that have begun, of other owners, with fewer branches: it has to leave them room.
    """
    waiting = [request for request in requests if request.prefix.node is None]
    if not waiting or len(requests) == 1:
        return [(request, 0) for request in waiting]
    counts = count_running(requests)
    eager: Counter[str] = Counter()
    for request in requests:
        if request.prefix.node is not None and not request.is_unread:
            eager[request.owner] += len(request.in_state(BranchState.WAITING))
    weights = weights_of(requests)
    return [
        (
            request,
            sum(n for owner, n in eager.items() if owner != request.owner and counts[owner] / weights[owner] < place),
        )
        for request, place in _placed(waiting, counts)
    ]


def weights_of(requests: Iterable[Request]) -> dict[str, int]:
    """Return the weight of each owner, that of the latest of her requests."""
    return {request.owner: request.weight for request in requests}


def divide(wanted: Mapping[str, int], most: int, weights: Mapping[str, int]) -> dict[str, int]:
    """Return how many of `most` each owner gets who wants so many, by weight; what one leaves of a share is the others'.

    Each gets one at least.
    """
    left, shares, weight = most, dict[str, int](), sum(weights[owner] for owner in wanted)
    for owner in sorted(wanted, key=lambda each: wanted[each] / weights[each]):
        shares[owner] = min(wanted[owner], max(1, left * weights[owner] // weight))
        left, weight = left - shares[owner], weight - weights[owner]
    return shares


def _placed(waiting: Iterable[Request], counts: Counter[str]) -> list[tuple[Request, float]]:
    """Return requests in their order, each with the number of branches that its owner has before it, by her weight."""
    counts = counts.copy()
    placed = []
    for request in sorted(waiting, key=lambda request: request.is_unread):
        placed.append((request, counts[request.owner] / request.weight))
        counts[request.owner] += 1
    return sorted(placed, key=lambda each: (each[0].is_unread, each[1]))


def in_order_of_claims(requests: Sequence[Request], running: Iterable[Branch]) -> list[tuple[Request, Branch | None]]:
    """Return the prompts (None) and running branches of requests; those that should give way first come last.

    Each owner's first branch comes before any owner's second one, and so on; equal ones are in the order of `requests`. A
    prompt comes before the branches that need it.
    """
    own: dict[str, list[Branch]] = {}
    for branch in running:
        own.setdefault(branch.request.request_id, []).append(branch)
    counts: Counter[str] = Counter()
    claims: list[tuple[bool, float, Request, Branch | None]] = []
    for request in requests:
        claims.append((request.is_unread, counts[request.owner] / request.weight, request, None))
        for branch in own.get(request.request_id, ()):
            claims.append((request.is_unread, counts[request.owner] / request.weight, request, branch))
            counts[request.owner] += 1
    claims.sort(key=lambda claim: claim[:2])
    return [claim[2:] for claim in claims]
