"""Replicas, bridges and nodes are lost or replaced: every request gets an end, and new ones are served."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import orjson
import pytest
import requests

from tests.cluster.conftest import Cluster, replicas
from tests.processes import DEADLINE, children, command_line, descendants, wait_for
from tests.servers import Server

ENDLESS = {"n": 1, "max_tokens": 30_000, "ignore_eos": True}


class Stream:
    """A stream that is read in a thread."""

    def __init__(self, server: Server, prompt: str, **changed: object) -> None:
        self.prompt = prompt
        self.events: list[dict[str, Any]] = []
        self._cut = ""  # why it ended without an event that says so
        self._closing = False
        self._answer = requests.post(
            f"{server.url}/v1/srb/completions",
            json={"prompt": prompt, **ENDLESS, **changed},
            stream=True,
            timeout=DEADLINE,
        )
        assert self._answer.status_code == 200, self._answer.text
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        try:
            for line in self._answer.iter_lines():
                if line.startswith(b"data: {"):
                    self.events.append(orjson.loads(line[6:]))
            if not self.is_done and not self.error:
                self._cut = "the connection was closed"
        except Exception as error:  # closed here: urllib3 has many errors for it
            self._cut = "" if self._closing else repr(error)

    @property
    def has_text(self) -> bool:
        return any(event["event"] == "stream" for event in list(self.events))

    @property
    def is_done(self) -> bool:
        return any(event["event"] == "done" for event in list(self.events))

    @property
    def error(self) -> str:
        """The error event that ended it, "" while it runs. Raise AssertionError if it ended without one."""
        assert not self._cut, f"{self.prompt[:40]}: {self._cut}"
        return next((str(event) for event in list(self.events) if event["event"] == "error"), "")

    def wait_for_text(self) -> None:
        """Wait until it has text; an end before that is shown."""
        wait_for(lambda: self.has_text or self.error, "it has text, or an error")
        assert not self.error, self.error

    def close(self) -> None:
        self._closing = True
        self._answer.close()
        self._thread.join(DEADLINE)


def running(server: Server) -> dict[str, int]:
    """Return how many requests run on each replica that is ready, from GET /metrics."""
    lines = server.get("/metrics").text.splitlines()
    found = [re.match(r'srb:replica_requests_processing\{.*replica="(\w+)"\} (\S+)', line) for line in lines]
    return {match[1]: int(float(match[2])) for match in found if match}


def streams_on_each(server: Server, name: str, fewest: int = 6) -> list[Stream]:
    """Begin streams, until each replica has one: of texts that no replica knows, and not so many that one is full."""
    started: list[Stream] = []
    try:
        for _ in range(100):
            started.append(Stream(server, f"{name} {uuid4().hex} flows for a long time through one country. " * 3))
            started[-1].wait_for_text()
            wait_for(lambda: sum(running(server).values()) >= len(started), "the replicas tell of all streams")
            if len(started) >= fewest and all(running(server).values()):
                return started
            if len(started) > fewest:
                started.pop().close()
                wait_for(lambda: sum(running(server).values()) <= len(started), "the replicas tell of its end")
        raise AssertionError(f"a replica gets no stream: {running(server)}")
    except BaseException:
        close_all(started)
        raise


def go_on(streams: list[Stream]) -> None:
    """Check that streams get more text."""
    counts = [len(stream.events) for stream in streams]
    wait_for(
        lambda: all(len(stream.events) > count for stream, count in zip(streams, counts, strict=True)),
        "the streams go on",
    )


def close_all(streams: list[Stream]) -> None:
    for stream in streams:
        stream.close()


@pytest.fixture
def streams(web: Server) -> Iterator[list[Stream]]:
    """Streams on each of three replicas."""
    wait_for(lambda: replicas(web) == 3, "all replicas are there", 2 * DEADLINE)
    started = streams_on_each(web, "A river")
    yield started
    close_all(started)


def answers(server: Server, prompt: str) -> None:
    """Check that a request is answered."""
    answer = server.post("/v1/srb/completions", {"prompt": prompt, "n": 1, "max_tokens": 3, "stream": False})
    assert answer.status_code == 200, answer.text


def serves(server: Server, number: int = 5) -> None:
    """Check that new requests are answered."""
    for each in range(number):
        answers(server, f"New {each}")


def serves_at_once(server: Server) -> None:
    """Check that a new request is answered within a second, or three where the machine does much else."""
    began = time.monotonic()
    answers(server, "The next one")
    assert time.monotonic() - began < 3


def actors(head: int) -> list[int]:
    """Return the pids of the replicas' actors."""
    found = []
    for pid in children(head):
        found += [pid] if "ServeReplica" in command_line(pid) else actors(pid)
    return found


def supervisor_of(actor: int) -> int:
    """Return the pid of an engine's supervisor, which any thread of the replica's actor has started."""
    lists = [path.read_text().split() for path in Path(f"/proc/{actor}/task").glob("*/children")]
    [supervisor] = [int(pid) for pids in lists for pid in pids]
    return supervisor


def engine_of(actor: int) -> int:
    """Return the pid of a replica's engine."""
    [engine] = children(supervisor_of(actor))
    return engine


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    """Stop a process meanwhile."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
        assert Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T", "it is still stopped"
    finally:
        os.kill(pid, signal.SIGCONT)


def controller(cluster: Cluster) -> int:
    """Return the pid of the actor of Serve's that starts replicas."""
    [pid] = [pid for pid in descendants(cluster.head.pid) if "ServeController" in command_line(pid)]
    return pid


@pytest.mark.parametrize("part", ["actor", "engine"])
def test_a_killed_replica_ends_its_own_streams_and_no_new_request(
    cluster: Cluster, web: Server, streams: list[Stream], part: str
) -> None:
    wait_for(lambda: replicas(web) == 3, "all replicas are there")
    actor = actors(cluster.head.pid)[0]
    starts_it, killed = (controller(cluster), actor) if part == "actor" else (supervisor_of(actor), engine_of(actor))
    with stopped(starts_it):  # so nothing comes in its place
        os.kill(killed, signal.SIGKILL)
        serves_at_once(web)
        serves(web, 20)
        ended = wait_for(lambda: [stream for stream in streams if stream.error], "streams of the killed replica end")
        for stream in ended:  # its replica had their texts
            answers(web, stream.prompt)
        assert replicas(web) == 2, "the others have answered"
    assert all("engine_restarted" in stream.error or "was lost" in stream.error for stream in ended)
    assert len(ended) < len(streams)
    alive = [stream for stream in streams if not stream.error]
    go_on(alive)
    wait_for(lambda: replicas(web) == 3, "another one has been started", 2 * DEADLINE)
    assert not any(stream.error for stream in alive)


@pytest.mark.parametrize(("part", "state"), [("engine", "hung"), ("actor", "silent")])
def test_a_replica_that_hangs_gets_no_new_requests(cluster: Cluster, web: Server, part: str, state: str) -> None:
    wait_for(lambda: replicas(web) == 3, "all replicas are there", 2 * DEADLINE)
    stories = [f"Story {number} of the {part} went on and on, as long as the nights were. " * 2 for number in range(12)]
    for story in stories:  # some on each replica
        answers(web, story)
    actor = actors(cluster.head.pid)[0]
    with stopped(actor if part == "actor" else engine_of(actor)):
        wait_for(lambda: f" {state} " in cluster.run("status"), "it is known to hang")
        for story in stories:
            answers(web, story + "And then")
    wait_for(lambda: cluster.run("status").count(" running ") == 3, "it goes on")


def test_a_killed_bridge_ends_every_stream_and_comes_back(web: Server, streams: list[Stream]) -> None:
    os.kill(web.engine, signal.SIGKILL)  # the supervisor's child
    wait_for(lambda: all(stream.error for stream in streams), "every stream has an end")
    wait_for(lambda: replicas(web) == 3, "the bridge is back")
    serves(web)


@pytest.mark.parametrize("changed", [{"model": "fake:190"}, {"max_queue": 99}], ids=["model", "setting"])
def test_an_update_refuses_nothing_and_lets_streams_finish(
    cluster: Cluster, web: Server, streams: list[Stream], changed: dict[str, object]
) -> None:
    wait_for(lambda: replicas(web) == 3, "all replicas are there")
    before = set(actors(cluster.head.pid))
    finite = [Stream(web, f"Stream {number} has an end. " * 5, max_tokens=2000) for number in range(6)]  # ten seconds
    with asked_meanwhile(web):
        deploying = threading.Thread(target=cluster.deploy, args=(3,), kwargs=changed)
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
    check_ends(finite)
    wait_for(lambda: replicas(web) == 3, "three new replicas")


def check_ends(streams: list[Stream]) -> None:
    """Check that streams are read to their end, without an error."""
    wait_for(lambda: all(stream.is_done or stream.error for stream in streams), "every stream has an end")
    assert [stream.error for stream in streams] == [""] * len(streams)
    close_all(streams)


@contextmanager
def asked_meanwhile(server: Server) -> Iterator[None]:
    """Let several writers ask all the time, and check that none of their requests is refused."""
    ended = threading.Event()
    refused: list[str] = []
    answered = [0] * 4

    def keep_asking(writer: int) -> None:
        while not ended.is_set():
            prompt = f"Writer {writer} asks for the {answered[writer]}th time, and goes on as if nothing had happened."
            answer = server.post("/v1/srb/completions", {"prompt": prompt, "n": 2, "max_tokens": 3, "stream": False})
            answered[writer] += 1
            if answer.status_code != 200:
                refused.append(answer.text)

    writers = [threading.Thread(target=keep_asking, args=(writer,)) for writer in range(len(answered))]
    for writer in writers:
        writer.start()
    try:
        yield
    finally:
        ended.set()
        for writer in writers:
            writer.join(DEADLINE)
    assert refused == []
    assert all(number > 5 for number in answered), answered


@pytest.mark.long
def test_an_update_of_the_only_replica_refuses_nothing(tmp_path_factory: pytest.TempPathFactory) -> None:
    with Cluster(tmp_path_factory.mktemp("one")) as own:
        own.start().deploy(1)
        web = own.server(tmp_path_factory.mktemp("web")).start(wait=False)
        wait_for(lambda: replicas(web) == 1, "the replica is ready", 2 * DEADLINE)
        finite = [Stream(web, f"Stream {number} has an end. " * 5, max_tokens=2000) for number in range(3)]
        [before] = actors(own.head.pid)
        with asked_meanwhile(web):
            own.deploy(1, "--max-queue", "99")
            wait_for(lambda: before not in actors(own.head.pid), "the old replica has ended", 2 * DEADLINE)
        check_ends(finite)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_twenty_killed_replicas_and_bridges_leave_no_stream_without_an_end(cluster: Cluster, web: Server) -> None:
    for number in range(20):
        wait_for(lambda: replicas(web) == 3, "all replicas are there", 4 * DEADLINE)
        streams = streams_on_each(web, f"Night {number}")
        with stopped(controller(cluster)):
            os.kill(actors(cluster.head.pid)[number % 3], signal.SIGKILL)
            serves_at_once(web)
            serves(web, 10)
            ended = wait_for(lambda streams=streams: [each for each in streams if each.error], "streams of it end")
            for stream in ended:
                answers(web, stream.prompt)
            assert replicas(web) == 2, "the others have answered"
            wait_for(
                lambda streams=streams: sum(running(web).values()) == sum(not each.error for each in streams),
                "none of its streams is without an end, and the others go on",
            )
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
    running.wait_for_text()
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
    running.wait_for_text()
    with stopped(cluster.gcs):
        wait_for(lambda: is_degraded(web), "GET /health says so")
        assert web.metric("srb:cluster_degraded") == 1
        count = len(running.events)
        wait_for(lambda: len(running.events) > count, "the stream goes on")
        running.close()
        serves(web)
    wait_for(lambda: not is_degraded(web), "the head is back")


def test_a_bridge_that_starts_without_the_head_begins_with_the_replicas_that_it_knew(
    cluster: Cluster, web: Server
) -> None:
    wait_for(lambda: replicas(web) == 3, "all replicas are there", 2 * DEADLINE)
    with stopped(cluster.gcs):
        killed = web.engine
        os.kill(killed, signal.SIGKILL)
        wait_for(lambda: web.engine != killed and replicas(web) == 3, "the next bridge has all replicas")
        serves(web)
        wait_for(lambda: is_degraded(web), "GET /health says so")
        serves(web)
    wait_for(lambda: not is_degraded(web) and replicas(web) == 3, "the head is found")


def is_degraded(server: Server) -> bool:
    return "degraded" in server.get("/health").json()


@pytest.mark.long
def test_serve_replaces_a_replica_whose_engine_hangs(tmp_path_factory: pytest.TempPathFactory) -> None:
    with Cluster(tmp_path_factory.mktemp("hung")) as own:
        own.start().deploy(2, stall_timeout=1000)  # longer than this test: the supervisor does not start it again
        web = own.server(tmp_path_factory.mktemp("web")).start(wait=False)
        wait_for(lambda: replicas(web) == 2, "two replicas are ready", 2 * DEADLINE)
        before = set(actors(own.head.pid))
        with stopped(engine_of(min(before))), asked_meanwhile(web):
            wait_for(lambda: replicas(web) == 1, "one of them is known to hang")
            wait_for(lambda: set(actors(own.head.pid)) - before, "Serve has started another one")
            wait_for(lambda: replicas(web) == 2, "the other one is ready")
            serves(web)
