"""A web machine's bridge is killed: requests that linger go on at their replicas, and their readers read on."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.test_faults import Stream, go_on, serves
from tests.e2e.test_replicas import Doors, ready
from tests.processes import DEADLINE, began_at, children, command_line, is_alive, wait_for
from tests.servers import MakeServer, Server

ASKED = {"n": 3, "max_tokens": 600, "ignore_eos": True, "seed": 7}


@pytest.fixture
def web(tmp_path: Path, make_server: MakeServer) -> Iterator[Server]:
    """A server with two replicas."""
    with Doors(tmp_path) as doors:
        for name in "ab":
            doors.start(name)
        for name in "ab":
            doors.wait_open(name)
        doors.write()
        # A stream that rests is left when it hears something.
        yield ready(make_server(replicas=doors.file, max_n=64, sse_ping_interval=1), 2)


def texts(stream: Stream) -> dict[int, str]:
    """Return the text of each branch, from a snapshot or the beginning on."""
    found: dict[int, str] = {}
    for event in list(stream.events):
        if event["event"] == "snapshot":
            found = {branch["index"]: branch["text"] for branch in event["branches"]}
        elif event["event"] == "stream":
            found[event["index"]] = found.get(event["index"], "") + event["text"]
    return found


class Reader(Stream):
    """A second reader of a stream's request."""

    def __init__(self, server: Server, first: Stream) -> None:
        self.prompt, self.events, self._cut, self._closing = first.prompt, [], "", False
        path = f"/v1/srb/completions/{first.events[0]['id']}/events"
        self._answer = server.get(path, stream=True)
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()


def all_write(running: list[dict[str, Any]]) -> bool:
    """Whether each request has written something: its worker has been told by then that the engine has it."""
    return all(branch["length"] > 0 for each in running for branch in each["branches"])


def kill_bridge(server: Server) -> None:
    bridge = server.engine
    os.kill(bridge, signal.SIGKILL)
    wait_for(lambda: server.engine != bridge, "there is another bridge")


def test_readers_of_a_request_that_lingers_read_on_and_lack_nothing(web: Server) -> None:
    prompts = [f"Tale {number} of a long river, told at length to all who sit by it. " for number in range(4)]
    streams = [Stream(web, prompt, **ASKED, linger=60) for prompt in prompts]
    for stream in streams:
        stream.wait_for_text()
    seconds = [Reader(web, stream) for stream in streams]
    without = Stream(web, "A tale without a rest. ", **ASKED)
    without.wait_for_text()
    gathered: list[dict[str, Any]] = []
    body = {"prompt": prompts[0], **ASKED, "stream": False, "linger": 60}
    asking = threading.Thread(target=lambda: gathered.append(web.post("/v1/srb/completions", body).json()))
    asking.start()
    wait_for(
        lambda: len(running := web.get("/v1/srb/completions").json()["completions"]) == 6 and all_write(running),
        "all run",
    )
    for reader in seconds:
        wait_for(lambda reader=reader: reader.events, "it is attached")  # type: ignore[misc]
    kill_bridge(web)
    kill_bridge(web)  # also while readers wait
    wait_for(lambda: "engine_restarted" in without.error, "one that does not linger ends")
    for stream in [*streams, *seconds]:
        wait_for(
            lambda stream=stream: stream.error or any(each["event"] == "rest" for each in stream.events), "it rests"
        )  # type: ignore[misc]
        assert not stream.error, stream.error
    asking.join(DEADLINE)
    for number, prompt in enumerate(prompts):
        undisturbed = web.post("/v1/srb/completions", {"prompt": prompt, **ASKED, "stream": False}).json()
        expected = dict(enumerate(each["text"] for each in undisturbed["completions"]))
        assert texts(streams[number]) == texts(seconds[number]) == expected
        if not number:
            assert "completions" in gathered[0], gathered
            assert dict(enumerate(each["text"] for each in gathered[0]["completions"])) == expected
        stops = [event["index"] for event in streams[number].events if event["event"] == "stop"]
        assert sorted(stops) == [0, 1, 2], "each once"
    for stream in [*streams, *seconds, without]:
        stream.close()
    assert "Traceback" not in web.logs


def seconds_of(pid: int) -> float:
    """Return how long a process has run."""
    uptime = float(Path("/proc/uptime").read_text().split()[0])
    return uptime - int(began_at(pid)) / os.sysconf("SC_CLK_TCK")


def test_row_27_a_killed_supervisor_is_replaced_and_no_stream_is_cut(web: Server) -> None:
    streams = [Stream(web, f"Tale {number} of a river that goes on. " * 3, **ASKED) for number in range(4)]
    for stream in streams:
        stream.wait_for_text()
    supervisor, bridge = web.supervisor, web.engine
    wait_for(lambda: seconds_of(supervisor) > 3.5, "the supervisor is no newborn, whose death ends the server")
    os.kill(supervisor, signal.SIGKILL)
    wait_for(
        lambda: any(pid != supervisor and "srb.process.supervisor" in command_line(pid) for pid in children(web.pid)),
        "there is another supervisor",
    )
    go_on(streams)
    for stream in streams:
        wait_for(lambda stream=stream: stream.is_done or stream.error, "it ends")  # type: ignore[misc]
        assert not stream.error, stream.error
        assert {event["index"] for event in stream.events if event["event"] == "stop"} == {0, 1, 2}
        stream.close()
    wait_for(lambda: not is_alive(bridge), "the old bridge has no more to do, and ends")
    wait_for(lambda: web.health() == 200, "the next bridge serves")
    serves(web)
    assert web.engine != bridge
    assert web.logs.count("the supervisor has died") == 1
    assert web.stop() == 0
    assert "Traceback" not in web.logs
