"""The number of replicas that the open branches need, for Ray Serve's autoscaler. Pure, and without Ray."""

import math
from typing import Any

OPEN_BRANCHES = "open_branches"  # the name under which each replica reports its branches that run or wait


class BranchesPolicy:
    """A policy of Serve's: as many replicas as give each `target` open branches.

    Requests do not pass through Serve, so it cannot count them; the replicas report their branches. Serve itself keeps the
    number within its limits, and waits before it follows a change.
    """

    def __init__(self, target: float) -> None:
        self._target = target

    def __call__(self, context: Any) -> tuple[int, dict[str, Any]]:
        """Return the number of replicas that should run, and nothing to remember; `context` is an AutoscalingContext.

        A replica that has not reported yet counts as without branches. Without any report nothing changes.
        """
        reported = (context.aggregated_metrics or {}).get(OPEN_BRANCHES, {})
        if not reported:
            return context.target_num_replicas, {}
        return max(1, math.ceil(sum(reported.values()) / self._target)), {}
