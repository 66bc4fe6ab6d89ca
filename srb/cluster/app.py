"""The application that Serve runs, `srb.cluster.app:build`, and its arguments: those of config/ray/srb.yaml."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator
from ray import serve

from srb.cluster.replica import Replica

APP = "srb"
DEPLOYMENT = "engine"
_POLICY = "srb.cluster.autoscaling:BranchesPolicy"
_LOOK_BACK_SECONDS = 5.0  # over which the open branches are averaged; replicas tell them five times as often
_DRAIN_SECONDS = 600.0  # that running requests have when a replica is stopped or replaced


class Arguments(BaseModel):
    """The arguments of the application."""

    model_config = ConfigDict(extra="forbid")

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
    door_port: int = Field(0, ge=0, le=65535, description="TCP port of a replica, for one replica on each node; 0: any")
    settings: dict[str, Any] = {}

    @model_validator(mode="after")
    def _consistent(self) -> Arguments:
        if self.max_replicas and self.max_replicas < self.replicas:
            raise ValueError(f"max_replicas ({self.max_replicas}) is less than replicas ({self.replicas})")
        return self

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


def build(arguments: Arguments) -> serve.Application:
    """Return the application; Serve calls it with the `args` of a config file."""
    deployment = serve.deployment(
        name=DEPLOYMENT,
        **arguments.number,
        ray_actor_options={"num_cpus": arguments.cpus, "num_gpus": arguments.gpus},
        health_check_period_s=5,
        health_check_timeout_s=30,
        graceful_shutdown_timeout_s=arguments.drain_seconds,
        graceful_shutdown_wait_loop_s=1,
    )(Replica)
    return deployment.bind(arguments.settings, arguments.door_port)
