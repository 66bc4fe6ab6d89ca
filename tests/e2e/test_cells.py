"""The example for nginx before several cells: three of them, each a web machine with a replica of the fake model."""

from __future__ import annotations

import re
import shutil
import signal
import socket
import ssl
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.e2e.streams import ENDLESS
from tests.e2e.test_nginx import AROUND
from tests.processes import DEADLINE, PYTHON, ROOT, Process, clean_environ, self_signed, wait_for
from tests.servers import Server, free_port

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.filterwarnings("ignore:Unverified HTTPS request"),
    pytest.mark.skipif(
        shutil.which("nginx") is None, reason="nginx is not installed (Debian: apt install nginx-light)"
    ),
]

NAMES = ("one", "two", "three")
SECRET = "a secret of these tests"
STORIES = [f"story {number}" for number in range(24)]


class Cell:
    """A web machine and its only replica, whose model has the cell's name."""

    def __init__(self, folder: Path, name: str, exits: ExitStack) -> None:
        folder.mkdir()
        self.name = name
        self._folder = folder
        self._exits = exits
        self._door = free_port()
        (folder / "secret").write_text(SECRET)
        door = f'[[doors]]\nname = "r"\nhost = "127.0.0.1"\nport = {self._door}\n'
        (folder / "doors.toml").write_text(f'token_file = "secret"\n{door}')
        settings: dict[str, Any] = {"replicas": folder / "doors.toml", "allowed_hosts": "srb.example.org", "workers": 1}
        self.server = exits.enter_context(Server(folder, **settings))

    def start_replica(self) -> None:
        command = [PYTHON, "-m", "srb.cli.main", "replica", "--door", f"127.0.0.1:{self._door}"]
        command += ["-m", "fake:200", "--alias", self.name, "-c", "100000"]
        environ = clean_environ(door_token_file=self._folder / "secret")
        self.replica = self._exits.enter_context(Process(command, environ, self._folder / "replica.log"))


class Edge:
    """The nginx before the cells."""

    def __init__(self, url: str, cells: dict[str, Cell]) -> None:
        self.url = url
        self.cells = cells

    def ask(self, method: str, path: str, story: str = "", **options: Any) -> requests.Response:
        headers = {"Host": "srb.example.org", "Authorization": "Bearer of-a-program", **options.pop("headers", {})}
        if story:
            headers["X-Story"] = story
        return requests.request(
            method, self.url + path, headers=headers, verify=False, timeout=DEADLINE, allow_redirects=False, **options
        )

    def turn(self, story: str, text: str, max_tokens: int = 20) -> dict[str, Any]:
        """Return the answer to a turn of a story."""
        body = {"prompt": text, "model": "m", "n": 2, "max_tokens": max_tokens}
        answer = self.ask("POST", "/v1/completions", story, json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()  # type: ignore[no-any-return]

    def cell_of(self, story: str) -> str:
        """Return the cell that answers a story, by the name of its model."""
        return str(self.turn(story, "Once", 1)["model"])


@pytest.fixture(scope="module")
def edge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Edge]:
    folder = tmp_path_factory.mktemp("cells")
    with ExitStack() as exits:
        cells = {name: Cell(folder / name, name, exits) for name in NAMES}
        for cell in cells.values():
            cell.start_replica()
            cell.server.start(wait=False)
        for cell in cells.values():
            cell.server.wait_ready()
        yield exits.enter_context(_nginx(folder, cells))


class _nginx:  # noqa: N801  # a context manager, used as a function
    def __init__(self, folder: Path, cells: dict[str, Cell]) -> None:
        self._exits = ExitStack()
        self._folder = folder
        self._cells = cells

    def __enter__(self) -> Edge:
        folder, port = self._folder, free_port()
        self_signed(folder, "srb.example.org")
        text = (ROOT / "config" / "nginx" / "cells.conf").read_text()
        text = text.replace("fail_timeout=10s", "fail_timeout=1s")  # tests wait for its end
        text = text.replace("listen 443 ssl", f"listen 127.0.0.1:{port} ssl").replace("/etc/ssl/srb", str(folder))
        for number, cell in enumerate(self._cells.values(), 1):
            text = text.replace(f"10.0.{number}.1:9090", f"127.0.0.1:{cell.server.port}")
        (folder / "srb.conf").write_text(text)
        (folder / "nginx.conf").write_text(AROUND.format(folder=folder))
        command = ["nginx", "-e", "stderr", "-c", str(folder / "nginx.conf")]
        subprocess.run([*command, "-t"], check=True, timeout=DEADLINE)
        self._exits.enter_context(Process(command, clean_environ(), folder / "nginx.log"))
        edge = Edge(f"https://127.0.0.1:{port}", self._cells)
        wait_for(lambda: _listens(edge), "nginx listens")
        return edge

    def __exit__(self, *raised: object) -> None:
        self._exits.close()


def _listens(edge: Edge) -> bool:
    try:
        return edge.ask("GET", "/livez").status_code == 200
    except requests.ConnectionError:
        return False


def test_a_story_goes_on_in_its_cell_and_stories_are_spread_over_all(edge: Edge) -> None:
    homes = Counter(edge.cell_of(story) for story in STORIES)
    assert homes.keys() == set(NAMES)
    assert max(homes.values()) <= 2 * len(STORIES) / len(NAMES)
    for story in STORIES[:6]:
        text, cells = f"The beginning of {story}, as it is told. ", set()
        for turn in range(3):
            answer = edge.turn(story, text)
            cells.add(answer["model"])
            cached = answer["usage"]["prompt_tokens_details"]["cached_tokens"]
            assert not turn or cached > 5, f"turn {turn} of {story} finds the one before"
            text += answer["choices"][0]["text"] + " And then "
        assert len(cells) == 1


def test_without_a_story_in_the_header_a_writer_stays_in_one_cell(edge: Edge) -> None:
    keys = [{"Authorization": f"Bearer key-{number}"} for number in range(24)]

    def cell(headers: dict[str, str]) -> str:
        body = {"prompt": "Once", "model": "m", "max_tokens": 1}
        return str(edge.ask("POST", "/v1/completions", headers=headers, json=body).json()["model"])

    homes = [cell(headers) for headers in keys]
    assert set(homes) == set(NAMES)
    assert [cell(headers) for headers in keys] == homes


def test_stories_are_in_one_place_whichever_cell_computes(edge: Edge) -> None:
    origin = {"Host": "srb.example.org", "Origin": "https://srb.example.org"}
    body = {"nodes": {"a": {"text": "Once", "by": "person"}}}
    for story in STORIES[:9]:
        path = f"/v1/srb/stories/{story.replace(' ', '-')}"
        assert edge.ask("POST", path, story, json=body, headers=origin).status_code == 200
        assert edge.ask("GET", path, "another story", headers=origin).status_code == 200
    assert {cell.name for cell in edge.cells.values() if cell.server.get("/v1/srb/stories").json()["stories"]} == {
        "one"
    }


def test_events_pass_one_by_one_and_a_client_that_leaves_ends_its_request(edge: Edge) -> None:
    with edge.ask("POST", "/v1/completions", STORIES[0], json=ENDLESS, stream=True) as answer:
        assert b'"event":"start"' in next(answer.iter_lines(chunk_size=1))  # of a stream that has no end
    for cell in edge.cells.values():
        wait_for(lambda cell=cell: cell.server.metric("requests_processing") == 0, "its request has ended")  # type: ignore[misc]


@pytest.mark.parametrize("lost", ["replica", "web machine"])
def test_the_stories_of_a_cell_that_is_out_go_on_in_others_and_no_other_story_moves(edge: Edge, lost: str) -> None:
    homes = {story: edge.cell_of(story) for story in STORIES}
    cell = edge.cells["two"]
    if lost == "replica":
        cell.replica.send(signal.SIGKILL)
        cell.replica.wait()
        wait_for(lambda: cell.server.health() == 503, "the cell has no replica")
    else:
        cell.server.kill()
    for story, home in homes.items():
        moved = edge.cell_of(story)
        assert moved == home if home != "two" else moved in ("one", "three"), story
    if lost == "replica":
        cell.start_replica()
    else:
        cell.server.start(wait=False)
    cell.server.wait_ready()
    own = [story for story, home in homes.items() if home == "two"]
    wait_for(lambda: all(edge.cell_of(story) == "two" for story in own), "all are at home again")
    assert {story: edge.cell_of(story) for story in STORIES} == homes


def test_a_writer_has_a_bounded_number_of_requests_at_once_wherever_they_go(edge: Edge) -> None:
    found = re.search(r"limit_conn writers (\d+);", (ROOT / "config" / "nginx" / "cells.conf").read_text())
    assert found is not None
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    asked = "POST /v1/completions HTTP/1.1\r\nHost: srb.example.org\r\nAuthorization: Bearer of-a-loop\r\n"
    address = ("127.0.0.1", int(edge.url.rpartition(":")[2]))

    def status(key: str) -> int:
        return edge.ask("GET", "/livez", headers={"Authorization": f"Bearer {key}"}).status_code

    with ExitStack() as held:
        for number in range(int(found[1])):
            sock = held.enter_context(socket.create_connection(address))
            half = f"{asked}X-Story: {number}\r\nContent-Length: 9\r\n\r\n{{"
            held.enter_context(trusting.wrap_socket(sock)).sendall(half.encode())
        wait_for(lambda: status("of-a-loop") == 429, "there is no room for another")
        assert status("of-another") == 200
    wait_for(lambda: status("of-a-loop") == 200, "there is room again")
