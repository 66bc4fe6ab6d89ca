"""Two web servers on one PostgreSQL database, as on two machines: kills of either and of the database lose no saved word."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
import requests

from tests.postgresql import PASSWORD, PostgreSQL
from tests.processes import DEADLINE, wait_for
from tests.servers import GUNICORN, MakeServer, Server
from tests.stories import model, person

pytestmark = pytest.mark.e2e

STORIES = "/v1/srb/stories"
QUICK: dict[str, Any] = {"command": (*GUNICORN, "--preload"), "engine_managed": False, "workers": 2}


@pytest.fixture
def tiers(postgresql: PostgreSQL, make_server: MakeServer) -> list[Server]:
    postgresql.make("tiers")
    address = postgresql.far_address("tiers")
    made = [make_server(stories=address, **QUICK) for _ in range(2)]
    for server in made:
        started(server)
    return made


def started(server: Server) -> None:
    server.start(wait=False)
    wait_for(lambda: server.has_ended or server.live() == 200, "GET /livez answers 200")


class Writer:
    """A tab that saves one node after another at its server, in a shared story. `saved` are those that were answered."""

    def __init__(self, server: Server, name: str) -> None:
        self.saved: dict[str, dict[str, Any]] = {}
        self.refusals: list[requests.Response] = []  # all but 200
        self.unanswered = 0
        self._server = server
        self._name = name
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        with requests.Session() as session:
            while not self._stop.is_set():
                name = f"{self._name}{number}"
                parent = {} if number == 0 else {"parent": f"{self._name}{number - 1}", "keep": 0}
                node = {"text": f"word {number} 😀", "by": "person", **parent}
                try:
                    answer = session.post(
                        f"{self._server.url}{STORIES}/shared", json={"nodes": {name: node}}, timeout=DEADLINE
                    )
                except requests.RequestException:
                    self.unanswered += 1
                    self._stop.wait(0.05)
                    continue
                if answer.status_code == 200 and answer.json()["refused"] == []:
                    self.saved[name] = node
                    number += 1
                else:
                    self.refusals.append(answer)
                    self._stop.wait(0.05)

    def go_on(self, why: str, more: int = 20) -> None:
        """Wait until it has saved more nodes than now."""
        before = len(self.saved)
        wait_for(lambda: len(self.saved) >= before + more, why)

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(DEADLINE)


@contextmanager
def writing(servers: list[Server]) -> Iterator[list[Writer]]:
    with ExitStack() as stack:
        writers = [Writer(server, name) for server, name in zip(servers, "ab", strict=True)]
        for writer in writers:
            stack.callback(writer.stop)
        yield writers


def check_all_is_there(servers: list[Server], writers: list[Writer]) -> None:
    for server in servers:
        nodes = server.get(f"{STORIES}/shared").json()["nodes"]
        for writer in writers:
            assert writer.saved.items() <= nodes.items()
    for server in servers:
        assert PASSWORD not in server.logs
        assert "Traceback" not in server.logs


def state(server: Server) -> str:
    lines = server.get("/metrics").text.splitlines()
    [found] = [line for line in lines if line.startswith("srb_stories_state") and line.endswith(" 1.0")]
    return found.partition('"')[2].partition('"')[0]


def test_what_is_saved_at_one_server_is_read_at_the_other(tiers: list[Server]) -> None:
    one, other = tiers
    answer = one.post(f"{STORIES}/tale", {"nodes": {"a": person("Once upon a time,")}})
    assert answer.status_code == 200
    seq = answer.json()["seq"]
    name = answer.json()["server"]
    answer = other.post(
        f"{STORIES}/tale", {"nodes": {"b": model(" there lived", "a", 17)}, "since": seq, "server": name}
    )
    assert (answer.json()["seq"], answer.json()["refused"], answer.json()["nodes"]) == (seq + 1, [], {})
    news = one.get(f"{STORIES}/tale?since={seq}&server={name}").json()
    assert list(news["nodes"]) == ["b"]
    assert [state(server) for server in tiers] == ["ok", "ok"]


def test_row_72_a_server_that_is_killed_takes_nothing_along_and_stops_nobody(tiers: list[Server]) -> None:
    with writing(tiers) as writers:
        for server, survivor in zip(tiers, reversed(writers), strict=True):
            for writer in writers:
                writer.go_on("both save")
            server.kill()
            survivor.go_on("the other one saves")
            started(server)
    assert [writer.refusals for writer in writers] == [[], []]
    check_all_is_there(tiers, writers)


def test_row_73_a_database_that_is_killed_is_told_and_used_again_as_soon_as_it_is_back(
    tiers: list[Server], postgresql: PostgreSQL
) -> None:
    with writing(tiers) as writers:
        for _ in range(2):
            for writer in writers:
                writer.go_on("both save")
            postgresql.kill()
            for writer in writers:
                told = len(writer.refusals)
                wait_for(lambda: len(writer.refusals) > told + 2, "saves are refused")  # noqa: B023
            for server in tiers:
                wait_for(lambda: state(server) == "unavailable", "/metrics says it")  # noqa: B023
                assert server.get("/livez").status_code == 200
                refused = server.get(STORIES)
                assert (refused.status_code, refused.headers["Retry-After"]) == (503, "2")
                assert refused.json()["error"]["type"] == "stories_unavailable"
                assert (
                    f"postgresql://127.0.0.1:{postgresql.port}/tiers does not answer"
                    in refused.json()["error"]["message"]
                )
            postgresql.start()
            for writer in writers:
                writer.go_on("both save again")
            for server in tiers:
                wait_for(lambda: state(server) == "ok", "/metrics says that it is back")  # noqa: B023
    for writer in writers:
        assert writer.unanswered == 0
        assert {answer.status_code for answer in writer.refusals} == {503}
        assert all(answer.headers["Retry-After"] == "2" for answer in writer.refusals)
    check_all_is_there(tiers, writers)


def test_row_73_while_the_database_hangs_a_worker_does_all_else(tiers: list[Server], postgresql: PostgreSQL) -> None:
    server = tiers[0]
    assert server.get(STORIES).status_code == 200
    postgresql.signal(signal.SIGSTOP)
    try:
        asked = threading.Thread(target=server.get, args=(STORIES,))
        asked.start()
        for _ in range(20):
            assert server.get("/livez").status_code == 200
        assert asked.is_alive()
    finally:
        postgresql.signal(signal.SIGCONT)
    asked.join(DEADLINE)
    assert server.get(STORIES).status_code == 200
