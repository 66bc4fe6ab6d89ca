"""Replicas come with the open branches and go with them, and no stream is cut."""

from __future__ import annotations

import pytest

from tests.cluster.conftest import START_SECONDS, Cluster, replicas
from tests.cluster.test_faults import Stream, go_on, serves
from tests.processes import wait_for


@pytest.mark.long
def test_replicas_follow_the_open_branches_and_no_stream_is_cut(tmp_path_factory: pytest.TempPathFactory) -> None:
    with Cluster(tmp_path_factory.mktemp("scaled")) as own:
        scaled = (
            "--max-replicas",
            "2",
            "--target-branches",
            "4",
            "--scale-up-seconds",
            "1",
            "--scale-down-seconds",
            "1",
        )
        own.start().deploy(1, *scaled)
        web = own.server(tmp_path_factory.mktemp("web")).start(wait=False)
        wait_for(lambda: replicas(web) == 1, "one replica is ready", START_SECONDS)
        early = [
            Stream(web, f"{number} streams that came early, and flow for a long time. " * 3) for number in range(6)
        ]
        wait_for(lambda: replicas(web) == 2, "a second one is ready", START_SECONDS)
        late = [Stream(web, f"{number} streams that came late, and flow for a long time. " * 3) for number in range(6)]
        for stream in early + late:
            stream.wait_for_text()
        kept = [early[0], late[0], late[1]]
        for stream in early[1:] + late[2:]:
            stream.close()
        wait_for(lambda: replicas(web) == 1, "one of them takes no more requests", START_SECONDS)
        go_on(kept)
        assert not any(stream.error for stream in early + late)
        serves(web)
        for stream in kept:
            stream.close()
