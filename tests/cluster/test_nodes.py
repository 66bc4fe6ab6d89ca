"""Machines are lost: one with a replica, or the head. The other replicas' streams go on, and no new request fails."""

from __future__ import annotations

import os
import signal
import subprocess
import time

import pytest

from tests.cluster.conftest import START_SECONDS, Cluster, replicas
from tests.cluster.test_faults import Stream, actors, close_all, go_on, is_degraded, running, serves, streams_on_each
from tests.processes import DEADLINE, PYTHON, command_line, descendants, is_alive, wait_for

PATIENCE = "RAY_gcs_rpc_server_reconnect_timeout_s"
EACH_ITS_MACHINE = ("--cpus", "3")  # of four on each machine


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_twenty_lost_machines_end_their_own_streams_and_no_new_request(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with Cluster(tmp_path_factory.mktemp("lost")) as own:
        own.start().deploy(1, *EACH_ITS_MACHINE)
        web = own.server(tmp_path_factory.mktemp("web")).start(wait=False)
        wait_for(
            lambda: replicas(web) == 1, "one replica is ready", START_SECONDS
        )  # so its bridge is on the head's machine
        node = own.add_node()
        own.deploy(2, *EACH_ITS_MACHINE)
        for number in range(20):
            wait_for(lambda: replicas(web) == 2, "two replicas are ready", START_SECONDS)
            streams = streams_on_each(web, f"Night {number},")
            before = running(web)
            own.kill_node(node)
            serves(web, 5)
            [lost] = wait_for(lambda before=before: before.keys() - running(web).keys(), "its replica is lost")
            ended = before[lost]
            wait_for(lambda streams=streams, ended=ended: _num_ended(streams) == ended, "its streams have an end")
            alive = [stream for stream in streams if not stream.error]
            go_on(alive)
            for stream in streams:
                stream.close()
            node = own.add_node()


def _num_ended(streams: list[Stream]) -> int:
    return sum(bool(stream.error) for stream in streams)


@pytest.mark.long
def test_after_the_heads_death_what_runs_goes_on_and_new_requests_are_served(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with Cluster(tmp_path_factory.mktemp("headless")) as own:
        own.start().deploy(2)
        web = own.server(tmp_path_factory.mktemp("web")).start(wait=False)
        wait_for(lambda: replicas(web) == 2, "two replicas are ready", START_SECONDS)
        streams = streams_on_each(web, "Without a head")
        own.kill_gcs()
        wait_for(lambda: "head" in web.get("/health").json().get("degraded", ""), "GET /health says so", DEADLINE / 2)
        serves(web)
        go_on(streams)
        close_all(streams)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_head_that_is_away_for_longer_than_rays_minute_ends_nothing_and_is_found_again(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with Cluster(tmp_path_factory.mktemp("away")) as own:
        storage = tmp_path_factory.mktemp("storage")
        own.environ |= {"RAY_gcs_storage": "rocksdb", "RAY_gcs_storage_path": str(storage)}
        own.environ |= {PATIENCE: "3600"}
        own.start().deploy(2)
        web = own.server(tmp_path_factory.mktemp("web"))
        del web.environ[PATIENCE]  # the bridge has its own
        web.start(wait=False)
        wait_for(lambda: replicas(web) == 2, "two replicas are ready", START_SECONDS)
        streams = streams_on_each(web, "Without a head")
        bridge = web.engine
        [registry] = [pid for pid in descendants(own.head.pid) if "ray::Registry" in command_line(pid)]
        start_head = own.kill_gcs()
        os.kill(registry, signal.SIGKILL)  # as if it had been on the head's machine
        began = time.monotonic()
        wait_for(lambda: is_degraded(web), "GET /health says so")
        wait_for(lambda: time.monotonic() - began > 80, "more than Ray's minute has passed", 90)
        assert web.engine == bridge
        assert is_degraded(web)
        go_on(streams)
        close_all(streams)
        os.kill(bridge, signal.SIGKILL)
        wait_for(lambda: web.engine != bridge and replicas(web) == 2, "the next bridge has both replicas")
        serves(web)
        wait_for(lambda: is_degraded(web), "the next bridge says so, too")
        bridge = web.engine
        start_head()
        wait_for(lambda: not is_degraded(web), "the head is found")
        os.kill(actors(own.head.pid)[0], signal.SIGKILL)
        wait_for(lambda: replicas(web) == 1, "a replica is lost")
        wait_for(lambda: replicas(web) == 2, "the head has another one started", START_SECONDS)
        assert web.engine == bridge


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_machine_that_is_drained_gets_no_new_request_and_ends_when_its_own_have_ended(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """As the manifest's preStop does it."""
    with Cluster(tmp_path_factory.mktemp("drained")) as own:
        node = own.start().add_node()
        own.deploy(2, *EACH_ITS_MACHINE)
        web = own.server(tmp_path_factory.mktemp("web")).start(wait=False)
        wait_for(lambda: replicas(web) == 2, "two replicas are ready", START_SECONDS)
        streams = streams_on_each(web, "Before the drain", fewest=2)
        actor = next(pid for pid in actors(node.pid))
        subprocess.run([PYTHON, "-c", DRAIN, own.address], env=own.environ, check=True, timeout=START_SECONDS)
        wait_for(lambda: replicas(web) == 1, "its replica gets no new requests", START_SECONDS)
        serves(web)
        go_on(streams)
        assert is_alive(actor)
        close_all(streams)
        wait_for(lambda: not is_alive(actor), "it ends with its last request", START_SECONDS)
        assert not any(stream.error for stream in streams)


DRAIN = """
import subprocess, sys, ray
ray.init(sys.argv[1], log_to_driver=False)
[node] = [each["NodeID"] for each in ray.nodes() if "node:__internal_head__" not in each["Resources"]]
command = [sys.executable, "-m", "ray.scripts.scripts", "drain-node", "--address", sys.argv[1], "--node-id", node]
command += ["--reason", "DRAIN_NODE_REASON_PREEMPTION", "--reason-message", "its machine ends"]
subprocess.run([*command, "--deadline-remaining-seconds", "600"], check=True)
"""
