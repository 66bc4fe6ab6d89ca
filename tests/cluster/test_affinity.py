"""Three machines, three replicas: the turns of a story find what the turns before computed, and no replica has much more."""

from __future__ import annotations

import random
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.cluster.conftest import START_SECONDS, Cluster, replicas
from tests.cluster.test_serving import counts, usage
from tests.processes import wait_for
from tests.servers import Server

STORIES, TURNS = 200, 5


def test_turns_through_two_web_machines_find_their_story_though_all_begin_alike(
    cluster: Cluster, web: Server, tmp_path_factory: pytest.TempPathFactory
) -> None:
    machines = web, cluster.server(tmp_path_factory.mktemp("other")).start(wait=False)
    for machine in machines:
        wait_for(lambda machine=machine: replicas(machine) == 3, "three replicas are ready", START_SECONDS)  # type: ignore[misc]
    preface = "All of these stories are told in one calm voice, and each of them begins with these same words. " * 20
    for story in range(8):
        text, known = f"{preface}{story} is the number of this one. ", 0
        for turn in range(3):
            added, cached = usage(machines[turn % 2], text)
            assert cached >= known, f"turn {turn} of story {story}"
            known = len(preface.split())
            text += added + f" And then, in turn {turn}, "
            time.sleep(1.0)  # as a writer, who reads
    machines[1].stop()


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("popular", [1, 10])
def test_turns_find_their_story_on_three_machines(tmp_path_factory: pytest.TempPathFactory, popular: int) -> None:
    with Cluster(tmp_path_factory.mktemp("three")) as own:
        own.start()
        for _ in range(2):
            own.add_node()
        own.deploy(3, "--cpus", "3")  # of four on each machine, so that each has one
        web = own.server(tmp_path_factory.mktemp("web")).start(wait=False)
        wait_for(lambda: replicas(web) == 3, "three replicas are ready", START_SECONDS)
        assert len({line.split()[1] for line in own.run("status").splitlines()[2:]}) == 3, "three nodes"

        def tell(story: int) -> tuple[int, int]:
            """Tell a story turn by turn; return how many turns continued it, and how many of them found its beginning."""
            text = f"Story {story}. The keeper of the lighthouse number {story} had not slept for days when the boat came. "
            found = turns = 0
            for turn in range(TURNS * (popular if story == 0 else 1)):
                added, cached = usage(web, text)
                found += turn > 0 and cached >= 40
                turns += turn > 0
                text += added + f" And then, in turn {turn}, "
            return turns, found

        order = list(range(STORIES))
        random.Random(1).shuffle(order)
        with ThreadPoolExecutor(8) as writers:
            told: list[Any] = list(writers.map(tell, order))
        turns, found = sum(each for each, _ in told), sum(each for _, each in told)
        assert found >= 0.95 * turns, f"{found} of {turns} turns found their story"
        load = Counter(counts(web))
        assert max(load.values()) <= 1.3 * load.total() / 3, load
