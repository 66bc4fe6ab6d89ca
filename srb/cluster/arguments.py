"""The arguments of the application on Serve: those of config/ray/srb.yaml and of `srb cluster deploy`. Without Ray."""

import dataclasses
import math
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from srb.cluster.registry import Entry

_POLICY = "srb.cluster.autoscaling:BranchesPolicy"
_LOOK_BACK_SECONDS = 12.0  # over which the open branches are averaged; Serve looks at them every 10, and warns of less
_SURGE_PERCENT = 20  # of the replicas, and one at least; as many as Serve replaces at a time
_DRAIN_SECONDS = 600.0  # that running requests have when a replica is stopped or replaced


class Arguments(BaseModel):
    """The arguments of the application."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    replicas: int = Field(1, ge=1, description="number of replicas; with max_replicas the fewest")
    max_replicas: int = Field(0, ge=0, description="the most replicas, by their open branches; 0: `replicas` always")
    target_branches: float = Field(
        16, gt=0, description="open branches that each replica should have, with max_replicas"
    )
    scale_up_seconds: float = Field(30, ge=0, description="time that more are needed before more are started")
    scale_down_seconds: float = Field(600, ge=0, description="time that fewer are needed before some are ended")
    gpus: float = Field(0, ge=0, description="GPUs of each replica")
    cpus: float = Field(
        1, ge=0, description="CPUs of each replica, as Ray counts them; the setting `threads` uses them"
    )
    drain_seconds: float = Field(_DRAIN_SECONDS, ge=0)
    surge: bool = Field(
        True, description="in an update, start a new replica before an old one ends, where there is room"
    )
    door_port: int = Field(0, ge=0, le=65535, description="TCP port of a replica, for one replica on each node; 0: any")
    settings: dict[str, Any] = {}

    @model_validator(mode="after")
    def _consistent(self) -> "Arguments":
        if self.max_replicas and self.max_replicas < self.replicas:
            problem = f"max_replicas ({self.max_replicas}) is less than replicas ({self.replicas})"
            raise ValueError(f"{problem}; 0 turns scaling off")
        if self.settings.get("rpc") and max(self.replicas, self.max_replicas) > 1:
            problem = "rpc: a node serves one engine at a time, so only one replica can use it"
            raise ValueError(f"{problem}; leave out replicas and max_replicas")
        return self

    def surge_percent(self, free: Iterable[Mapping[str, float]], running: int) -> int:
        """Return how many replicas more there may be during an update, in percent.

        `free` is what each node has left beside the `running` replicas. 0 if there is only room for those that come with the
        update, which would wait for more, or if two would want the same port or RPC nodes.
        """
        room = sum(self._fit(node) for node in free)
        has_room = room > max(0, self.replicas - running)
        may_be_two = not self.door_port and not self.settings.get("rpc")
        return _SURGE_PERCENT if self.surge and has_room and may_be_two else 0

    def _fit(self, node: Mapping[str, float]) -> float:
        """Return how many replicas fit into what a node has left, which Ray counts in ten-thousandths."""
        wanted = (("CPU", round(self.cpus * 10_000)), ("GPU", round(self.gpus * 10_000)))
        return min((round(node.get(name, 0) * 10_000) // each for name, each in wanted if each), default=math.inf)

    @property
    def number(self) -> dict[str, Any]:
        """The number of replicas, as options of a deployment."""
        if not self.max_replicas:
            return {"num_replicas": self.replicas}
        policy = {"policy_function": _POLICY, "policy_kwargs": {"target": self.target_branches}}
        return {
            "autoscaling_config": {
                "min_replicas": self.replicas,
                "max_replicas": self.max_replicas,
                "upscale_delay_s": self.scale_up_seconds,
                "downscale_delay_s": self.scale_down_seconds,
                "look_back_period_s": _LOOK_BACK_SECONDS,
                "policy": policy,
            }
        }


@dataclasses.dataclass(frozen=True)
class Row:
    """One replica, as operators see it."""

    name: str
    entry: Entry
    stats: dict[str, float]  # empty: it does not answer
