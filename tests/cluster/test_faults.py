"""Replicas, bridges and nodes are lost or replaced: every request gets an end, and new ones are served."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

import orjson
import pytest
import requests

from tests.cluster.conftest import Cluster, replicas
from tests.processes import DEADLINE, children, command_line, wait_for
from tests.servers import Server

ENDLESS = {"n": 1, "max_tokens": 30_000, "ignore_eos": True}


class Stream:
    """A stream that is read in a thread."""

    def __init__(self, server: Server, prompt: str) -> None:
        self.events: list[dict[str, Any]] = []
        self._closing = False
        self._answer = requests.post(
            f"{server.url}/v1/srb/completions", json={"prompt": prompt, **ENDLESS}, stream=True, timeout=DEADLINE
        )
        self.status = self._answer.status_code
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        try:
            for line in self._answer.iter_lines():
                if line.startswith(b"data: {"):
                    self.events.append(orjson.loads(line[6:]))
        except Exception as error:  # closed here: urllib3 has many errors for it
            if not self._closing:
                self.events.append({"event": "cut", "message": str(error)})

    @property
    def has_text(self) -> bool:
        return any(event["event"] == "stream" for event in list(self.events))

    @property
    def error(self) -> str:
        """The message of the error that ended it, "" while it runs."""
        return next((str(event) for event in list(self.events) if event["event"] in ("error", "cut")), "")

    def close(self) -> None:
        self._closing = True
        self._answer.close()
        self._thread.join(DEADLINE)


@pytest.fixture
def streams(web: Server) -> Iterator[list[Stream]]:
    """Streams on every replica."""
    started = [
        Stream(web, f"{number} streams that flow for a long time through one country. " * 3) for number in range(9)
    ]
    wait_for(lambda: all(stream.has_text for stream in started), "all have text")
    yield started
    for stream in started:
        stream.close()


def serves(server: Server, number: int = 5) -> None:
    """Check that new requests are answered, at once."""
    for each in range(number):
        answer = server.post("/v1/srb/completions", {"prompt": f"New {each}", "n": 1, "max_tokens": 3, "stream": False})
        assert answer.status_code == 200, answer.text


def actors(head: int) -> list[int]:
    """Return the pids of the replicas' actors."""
    found = []
    for pid in children(head):
        found += [pid] if "ServeReplica" in command_line(pid) else actors(pid)
    return found


def test_a_killed_replica_ends_its_own_streams_and_no_new_request(
    cluster: Cluster, web: Server, streams: list[Stream]
) -> None:
    wait_for(lambda: replicas(web) == 3, "all replicas are there")
    os.kill(actors(cluster.head.pid)[0], signal.SIGKILL)
    serves(web, 20)
    ended = wait_for(lambda: [stream for stream in streams if stream.error], "streams of the killed replica end")
    assert all("engine_restarted" in stream.error or "was lost" in stream.error for stream in ended)
    assert len(ended) < len(streams)
    alive = [stream for stream in streams if not stream.error]
    counts = [len(stream.events) for stream in alive]
    wait_for(lambda: all(len(s.events) > count for s, count in zip(alive, counts, strict=True)), "the others go on")
    wait_for(lambda: replicas(web) == 3, "Serve has started another one", 2 * DEADLINE)
    assert not any(stream.error for stream in alive)


def test_a_killed_bridge_ends_every_stream_and_comes_back(web: Server, streams: list[Stream]) -> None:
    os.kill(web.engine, signal.SIGKILL)  # the supervisor's child
    wait_for(lambda: all(stream.error for stream in streams), "every stream has an end")
    wait_for(lambda: replicas(web) == 3, "the bridge is back")
    serves(web)


def test_an_update_refuses_nothing_and_lets_streams_finish(
    cluster: Cluster, web: Server, streams: list[Stream]
) -> None:
    wait_for(lambda: replicas(web) == 3, "all replicas are there")
    before = set(actors(cluster.head.pid))
    done = threading.Event()
    refused: list[str] = []

    def keep_asking() -> None:
        while not done.is_set():
            answer = web.post("/v1/srb/completions", {"prompt": "During", "n": 1, "max_tokens": 3, "stream": False})
            if answer.status_code != 200:
                refused.append(answer.text)

    asking = threading.Thread(target=keep_asking)
    asking.start()
    try:
        deploying = threading.Thread(target=cluster.deploy, args=(3, "--max-queue", "99"))
        deploying.start()
        wait_for(lambda: set(actors(cluster.head.pid)) - before, "a new replica is there", 2 * DEADLINE)
        listed = web.get("/v1/srb/completions").json()["completions"]
        running = {request["id"] for request in listed if request["state"] == "running"}
        assert not any(stream.error for stream in streams)
        assert len(running) >= len(streams), "those of the old replicas are found too"
        for stream in streams:  # else they would keep the old replicas
            stream.close()
        deploying.join(2 * DEADLINE)
        wait_for(lambda: not set(actors(cluster.head.pid)) & before, "the old replicas have ended", 2 * DEADLINE)
    finally:
        done.set()
        asking.join(DEADLINE)
    assert refused == []
    wait_for(lambda: replicas(web) == 3, "three new replicas")


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_twenty_killed_replicas_and_bridges_leave_no_stream_without_an_end(cluster: Cluster, web: Server) -> None:
    for number in range(20):
        wait_for(lambda: replicas(web) == 3, "all replicas are there", 4 * DEADLINE)
        streams = [Stream(web, f"{number} {place} streams of a long night that has no end. " * 3) for place in range(6)]
        wait_for(lambda streams=streams: all(stream.has_text for stream in streams), "all have text")
        os.kill(actors(cluster.head.pid)[number % 3], signal.SIGKILL)
        serves(web, 10)
        os.kill(web.engine, signal.SIGKILL)
        wait_for(lambda streams=streams: all(stream.error for stream in streams), "every stream has an end")
        for stream in streams:
            stream.close()


@pytest.mark.long
def test_a_full_queue_is_answered_429(tmp_path_factory: pytest.TempPathFactory) -> None:
    with Cluster(tmp_path_factory.mktemp("small")) as own:
        own.start().deploy(1, "--max-queue", "1", "--parallel", "1")
        web = own.server(tmp_path_factory.mktemp("web")).start(wait=False)
        wait_for(lambda: replicas(web) == 1, "the replica is ready", 2 * DEADLINE)
        _fill_its_queue(web)


def _fill_its_queue(web: Server) -> None:
    body = {"prompt": "One more", "n": 1, "max_tokens": 3, "stream": False}
    running = Stream(web, "The first one")
    wait_for(lambda: running.has_text, "one runs")
    queued = threading.Thread(target=web.post, args=("/v1/srb/completions", body))
    queued.start()
    wait_for(lambda: web.metric("llamacpp:requests_deferred") == 1, "one waits")
    answer = web.post("/v1/srb/completions", body)
    assert answer.status_code == 429
    assert answer.headers["Retry-After"] == "1"
    running.close()
    queued.join(DEADLINE)


def test_without_the_head_what_runs_goes_on(cluster: Cluster, web: Server) -> None:
    running = Stream(web, "A stream that goes on")
    wait_for(lambda: running.has_text, "it runs")
    [gcs] = [pid for pid in children(cluster.head.pid) if "gcs_server" in command_line(pid)]
    os.kill(gcs, signal.SIGSTOP)
    try:
        wait_for(lambda: "degraded" in web.get("/health").json(), "GET /health says so")
        assert web.metric("srb:cluster_degraded") == 1
        count = len(running.events)
        wait_for(lambda: len(running.events) > count, "the stream goes on")
        running.close()
        serves(web)
    finally:
        os.kill(gcs, signal.SIGCONT)
    wait_for(lambda: "degraded" not in web.get("/health").json(), "the head is back")
