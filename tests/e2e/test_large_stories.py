"""Stories that are too large, or nearly so: each is refused by what it has too much of, and nobody waits for it."""

from __future__ import annotations

import itertools
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import requests

from tests.e2e.test_stories import QUICK, STORIES, started
from tests.servers import Server
from tests.stories import person

pytestmark = pytest.mark.e2e

JSON = {"Content-Type": "application/json"}
FEWEST = 5  # answers that others get while one client attacks, in each of two ways
MOST_ATTACKS = 50  # until then: one is refused faster than it was sent


def file_of(nodes: str, more: str = "") -> bytes:
    return f'{{"format":"srb-story","version":1,"id":"large","nodes":{{{nodes}}}{more}}}'.encode()


def entries(number: int, entry: str) -> str:
    return ",".join(f'"n{each}":{entry}' for each in range(number))


def of_sixty_megabytes(number: int = 95_000) -> bytes:
    return file_of(entries(number, json.dumps({"text": "word " * 110, "by": "person", "made": 1795300000000})))


ATTACKS: dict[str, tuple[Callable[[], bytes], str, str]] = {
    "nodes": (lambda: file_of(entries(1_500_000, "{}")), "nodes", "100000 nodes"),
    "keys": (lambda: file_of("", "," + entries(3_000_000, "1")), "body", "10000 keys"),
    "media": (lambda: file_of("", f',"media":{{{entries(700_000, "{}")}}}'), "media", "20000 media"),
    "runs": (lambda: file_of("", f',"runs":{{{entries(1_500_000, "{}")}}}'), "runs", "100000 runs"),
    "values": (lambda: file_of('"a":{"text":"x","more":[' + "0," * 3_000_000 + "0]}"), "nodes", "131072 values"),
    "60 MB": (of_sixty_megabytes, "nodes", "67108864"),
}


class Victim:
    """Two clients that are served one answer after another: `/livez`, and the saves of another story.

    `answers` counts those that began and ended within one attack.
    """

    def __init__(self, server: Server) -> None:
        self.answers = {"livez": 0, "saves": 0}
        self._url = server.url
        self._attack: int | None = None
        self._attacks = itertools.count()
        self._stopped = threading.Event()
        self._threads = [
            threading.Thread(target=self._ask, args=("livez", lambda session, _: session.get(f"{self._url}/livez"))),
            threading.Thread(target=self._ask, args=("saves", self._save)),
        ]

    def __enter__(self) -> Victim:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join()

    @contextmanager
    def attacked(self) -> Iterator[None]:
        self._attack = next(self._attacks)
        yield
        self._attack = None

    @property
    def is_served(self) -> bool:
        return min(self.answers.values()) >= FEWEST

    def _save(self, session: requests.Session, number: int) -> requests.Response:
        return session.post(f"{self._url}{STORIES}/other", json={"nodes": {f"n{number}": person("x")}})

    def _ask(self, what: str, ask: Callable[[requests.Session, int], requests.Response]) -> None:
        with requests.Session() as session:
            for number in itertools.count():
                if self._stopped.is_set():
                    return
                attack = self._attack
                assert ask(session, number).status_code == 200
                self.answers[what] += attack is not None and attack == self._attack


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server without an engine that the tests of this module share."""
    with Server(tmp_path_factory.mktemp("stories"), **{**QUICK, "workers": 1}) as server:
        yield started(server)


@pytest.mark.parametrize(("make", "field", "limit"), ATTACKS.values(), ids=ATTACKS)
def test_a_story_beyond_a_limit_is_refused_by_its_name_and_nobody_waits(
    server: Server, make: Callable[[], bytes], field: str, limit: str
) -> None:
    body = make()
    with Victim(server) as victim:
        for _ in range(MOST_ATTACKS):
            with victim.attacked():
                refused = requests.post(server.url + STORIES, data=body, headers=JSON, timeout=300)
            assert refused.status_code == 413, refused.text
            error = refused.json()["error"]
            assert (error["param"], limit in error["message"]) == (field, True), error
            if victim.is_served:
                break
    assert victim.is_served, victim.answers
    assert server.get(f"{STORIES}/large").status_code == 404


def test_an_import_ends_when_its_client_leaves(server: Server) -> None:
    body = of_sixty_megabytes(50_000)
    lines = (
        f"POST {STORIES} HTTP/1.1",
        "Host: localhost",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
    )
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        client.sendall("\r\n".join((*lines, "", "")).encode() + body)
    small = file_of('"a":{"text":"x","by":"person"}').replace(b"large", b"small")
    # Imports take turns, so the answer to this one comes after the end of the other.
    assert requests.post(server.url + STORIES, data=small, headers=JSON, timeout=300).status_code == 200
    assert server.get(f"{STORIES}/large").status_code == 404


def test_a_story_of_nearly_all_that_one_may_have_is_imported_while_others_are_saved(server: Server) -> None:
    body = of_sixty_megabytes(50_000)
    for _ in ("new", "merged with itself"):
        with Victim(server) as victim, victim.attacked():
            done = requests.post(server.url + STORIES, data=body, headers=JSON, timeout=300)
        assert done.json() == {"id": "large", "seq": 1, "nodes": 50_000, "copied": False}
        assert victim.is_served, victim.answers
