"""The application that Serve runs, `srb.cluster.app:build`, and its arguments: those of config/ray/srb.yaml."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from ray import serve

from srb.cluster.replica import Replica

APP = "srb"
DEPLOYMENT = "engine"
_DRAIN_SECONDS = 600.0  # that running requests have when a replica is stopped or replaced


class Arguments(BaseModel):
    """The arguments of the application."""

    model_config = ConfigDict(extra="forbid")

    replicas: int = Field(1, ge=1)
    gpus: float = Field(0, ge=0, description="GPUs of each replica")
    cpus: float = Field(
        1, ge=0, description="CPUs of each replica, as Ray counts them; the setting `threads` uses them"
    )
    drain_seconds: float = Field(_DRAIN_SECONDS, ge=0)
    door_port: int = Field(0, ge=0, le=65535, description="TCP port of a replica, for one replica on each node; 0: any")
    settings: dict[str, Any] = {}


def build(arguments: Arguments) -> serve.Application:
    """Return the application; Serve calls it with the `args` of a config file."""
    deployment = serve.deployment(
        name=DEPLOYMENT,
        num_replicas=arguments.replicas,
        ray_actor_options={"num_cpus": arguments.cpus, "num_gpus": arguments.gpus},
        health_check_period_s=5,
        health_check_timeout_s=30,
        graceful_shutdown_timeout_s=arguments.drain_seconds,
        graceful_shutdown_wait_loop_s=1,
    )(Replica)
    return deployment.bind(arguments.settings, arguments.door_port)
