"""The application that Serve runs, `srb.cluster.app:build`."""

from typing import Any

import ray
from ray import serve
from ray._private.state import available_resources_per_node  # ray.available_resources() has the sums of all nodes alone

from srb.cluster.arguments import Arguments
from srb.cluster.replica import Replica

APP = "srb"
DEPLOYMENT = "engine"


def build(given: Arguments | dict[str, Any]) -> serve.Application:
    """Return the application; Serve calls it with the `args` of a config file. Raise ValidationError.

    Without a connection to Ray nothing is known of the room for a surge.
    """
    arguments = Arguments.model_validate(given)
    free = available_resources_per_node() if ray.is_initialized() else {}
    running = _running() if free else 0
    deployment = serve.deployment(
        name=DEPLOYMENT,
        **arguments.number,
        ray_actor_options={"num_cpus": arguments.cpus, "num_gpus": arguments.gpus},
        health_check_period_s=5,
        health_check_timeout_s=30,
        graceful_shutdown_timeout_s=arguments.drain_seconds,
        graceful_shutdown_wait_loop_s=1,
        max_surge_percent=arguments.surge_percent(free.values(), running),
    )(Replica)
    return deployment.bind(arguments.settings, arguments.door_port)


def _running() -> int:
    """Return how many replicas there are, those that start included."""
    applications = serve.status().applications.values()
    found = (each.deployments[DEPLOYMENT] for each in applications if DEPLOYMENT in each.deployments)
    return sum(number for each in found for state, number in each.replica_states.items() if state != "STOPPING")
