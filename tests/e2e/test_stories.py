"""Stories in whole servers: killed fifty times, on a full disk, in a read-only folder, damaged, copied and moved."""

from __future__ import annotations

import os
import random
import resource
import signal
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.disks import remount
from tests.needs import long
from tests.processes import DEADLINE, PYTHON, ROOT, wait_for
from tests.servers import GUNICORN, MakeServer, Server
from tests.stories import model, person, texts

pytestmark = pytest.mark.e2e

STORIES = "/v1/srb/stories"
ONE = f"{STORIES}/lighthouse"
# Workers that are forked with everything loaded: a hundred of them are started. No engine, since no text is generated.
QUICK: dict[str, Any] = {"command": (*GUNICORN, "--preload"), "engine_managed": False, "workers": 2}
TALE = {"a": person("Once upon a time,"), "b": model(" there lived", "a", 17)}


def started(server: Server) -> Server:
    server.start(wait=False)
    wait_for(lambda: server.has_ended or server.live() == 200, "GET /livez answers 200")
    return server


def command(server: Server, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run `srb stories` on a server's file."""
    words = [PYTHON, "-m", "srb.cli.main", "stories", *map(str, arguments)]
    return subprocess.run(
        words, cwd=ROOT, env=server.environ, capture_output=True, text=True, timeout=DEADLINE, check=False
    )


class Writer:
    """A tab that writes without a pause: each node is a model's that grows, is closed, and continued by a person's.

    `saved` has the last version of each that the server has answered as saved. A post without an answer is sent again;
    `unanswered` counts those that had reached a server when it was killed.
    """

    def __init__(self, server: Server, name: str) -> None:
        self.saved: dict[str, dict[str, Any]] = {}
        self.unanswered = 0
        self._server = server
        self._name = name
        self._stop = threading.Event()
        self._session = requests.Session()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        parent, length = None, 0
        for number in range(10**6):
            name, text = f"{self._name}{number}", f" {number} 😀 words of {self._name}"
            made = (model, person)[number % 2]
            for node in (made(text[:5], parent, length, open=True, changed=1), made(text, parent, length)):
                node = {key: value for key, value in node.items() if key != "keep" or parent is not None}
                if not self._save(name, node):
                    return
            parent, length = name, length + len(text) + 1  # of UTF-16 units; the face has two

    def _save(self, name: str, node: dict[str, Any]) -> bool:
        """Post until it is answered; return False if the writer is to stop."""
        while not self._stop.is_set():
            try:
                answer = self._session.post(self._server.url + ONE, json={"nodes": {name: node}}, timeout=DEADLINE)
            except requests.RequestException as error:  # also an answer that ends in its middle
                if "Connection refused" in str(error):
                    self._stop.wait(0.1)  # there is no server
                else:
                    self.unanswered += 1
                continue
            assert answer.status_code == 200, answer.text
            assert answer.json()["refused"] == []
            self.saved[name] = node
            return True
        return False

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(DEADLINE)
        self._session.close()


@pytest.mark.smoke
def test_what_was_answered_as_saved_is_there_after_kills(make_server: MakeServer) -> None:
    kill_while_writing(make_server, 5)


@pytest.mark.long
@pytest.mark.timeout(5 * DEADLINE)
def test_row_51_fifty_kills_in_the_middle_of_writes_lose_nothing_that_was_answered_as_saved(
    make_server: MakeServer,
) -> None:
    kill_while_writing(make_server, 50)


def kill_while_writing(make_server: MakeServer, kills: int) -> None:
    """Kill a server while three writers save, and check that nothing is lost.

    Of five kills two end all processes of the server, the others one or all of its workers: a restart takes a second.
    """
    server = started(make_server(**QUICK))
    settings = {**QUICK, "port": server.port, "stories": server.environ["SRB_STORIES"]}
    chance = random.Random(5)
    writers = [Writer(server, name) for name in "xyz"]
    try:
        for round_ in range(kills):
            wait_for_more(writers, 3)
            if round_ % 5 in (2, 4):
                server.kill()
                server = started(make_server(**settings))
            else:
                kill_workers(server, None if round_ % 5 == 1 else chance)
    finally:
        for writer in writers:
            writer.stop()
    assert all(writer.unanswered >= kills // 5 for writer in writers), "the kills met few writes"
    stored = server.get(ONE).json()["nodes"]
    for writer in writers:
        for name, node in writer.saved.items():
            assert stored[name]["text"].startswith(node["text"]), name
            if not node.get("open"):
                assert stored[name] == {key: value for key, value in node.items() if value is not None}
    assert len(texts(stored)) >= 3 * kills
    checked = command(server, "check")
    assert checked.returncode == 0, checked.stdout


def wait_for_more(writers: Sequence[Writer], number: int) -> None:
    """Wait until the writers together have saved so many more nodes."""

    def saved() -> int:
        return sum(len(writer.saved) for writer in writers)

    least = saved() + number
    wait_for(lambda: saved() >= least, "more is saved")


def kill_workers(server: Server, chance: random.Random | None) -> None:
    """Kill all workers that write, or one by chance while another writes."""
    workers = wait_for(lambda: server.workers, "there are workers")
    for pid in [chance.choice(workers)] if chance else workers:
        os.kill(pid, signal.SIGKILL)


def test_a_copy_made_while_others_write_is_whole(make_server: MakeServer, tmp_path: Path) -> None:
    server = started(make_server(**QUICK))
    writer = Writer(server, "x")
    try:
        for number in range(3):
            wait_for_more([writer], 5)
            known = dict(writer.saved)
            copied = command(server, "backup", tmp_path / f"{number}.sqlite3")
            assert copied.returncode == 0, copied.stderr
            assert command(server, "--file", tmp_path / f"{number}.sqlite3", "check").returncode == 0
            exported = command(
                server, "--file", tmp_path / f"{number}.sqlite3", "export", "lighthouse", tmp_path / "one.json"
            )
            assert exported.returncode == 0, exported.stderr
            assert (
                known.keys() <= requests.models.complexjson.loads((tmp_path / "one.json").read_text())["nodes"].keys()
            )
    finally:
        writer.stop()


def test_stories_move_to_another_server_through_files(make_server: MakeServer, tmp_path: Path) -> None:
    one, other = started(make_server(**QUICK)), started(make_server(**QUICK))
    one.post(ONE, {"nodes": TALE, "meta": {"title": {"value": "The lighthouse", "changed": 5}}})
    assert command(one, "export", "--all", tmp_path).returncode == 0
    moved = command(other, "import", tmp_path / "The-lighthouse-lighthouse.json")
    assert moved.returncode == 0, moved.stderr
    assert other.get(f"{ONE}/export").content == one.get(f"{ONE}/export").content
    assert "The lighthouse" in command(other, "list").stdout


# Disks and folders ----------------------------------------------------------------------------------------------------


def fill(server: Server) -> requests.Response:
    """Save nodes of 100 KB until one is not saved; return that answer."""
    for number in range(1000):
        answer = server.post(ONE, {"nodes": {f"n{number}": person("x" * 100_000)}})
        if answer.status_code != 200:
            return answer
    raise AssertionError("the disk is endless")


def assert_full_and_alive(server: Server, refused: requests.Response) -> None:
    assert refused.status_code == 507, refused.text
    assert refused.json()["error"]["type"] == "stories_full"
    assert refused.headers.get("Access-Control-Allow-Origin") is None
    names = list(server.get(ONE).json()["nodes"])
    assert names == [f"n{number}" for number in range(len(names))]
    assert len(names) >= 3
    wait_for(lambda: "There is no room to save" in server.logs, "it is logged")
    assert server.logs.count("There is no room to save") == 1


def test_row_49_a_full_disk_is_507_and_generation_goes_on(make_server: MakeServer, small_disk: Path) -> None:
    server = make_server(stories=small_disk / "stories.sqlite3").start()
    assert_full_and_alive(server, fill(server))
    assert server.get(STORIES).json()["state"] == "full"
    assert server.post("/v1/completions", {"prompt": "Once", "n": 2, "max_tokens": 3}).status_code == 200
    remount(small_disk, "size=8m")
    assert server.post(ONE, {"nodes": {"more": person("y" * 100_000)}}).status_code == 200
    assert server.get(STORIES).json()["state"] == "ok"
    assert command(server, "check").returncode == 0


def test_row_49_a_limit_of_the_files_size_is_507(make_server: MakeServer) -> None:
    """For all who are not root, and cannot mount a disk."""
    server = make_server(**{**QUICK, "workers": 1})
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_500_000, limits[1]))  # the server inherits it
    try:
        started(server)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert_full_and_alive(server, fill(server))
    assert command(server, "check").returncode == 0


@pytest.mark.parametrize("is_killed", [True, *long(False)], ids=["killed", "stopped"])
def test_row_48_on_a_read_only_disk_stories_are_read_and_generation_goes_on(
    make_server: MakeServer, small_disk: Path, is_killed: bool
) -> None:
    """A killed server leaves its last writes in the log beside the file."""
    path = small_disk / "stories.sqlite3"
    first = started(make_server(**{**QUICK, "workers": 1}, stories=path))
    first.post(ONE, {"nodes": TALE})
    first.kill() if is_killed else first.stop()
    assert Path(f"{path}-wal").exists() is is_killed
    remount(small_disk, "ro")
    server = make_server(stories=path).start()
    assert server.get(STORIES).json()["state"] == "read_only"
    assert list(server.get(ONE).json()["nodes"]) == ["a", "b"]
    refused = server.post(ONE, {"nodes": {"c": person("c")}})
    assert (refused.status_code, refused.json()["error"]["type"]) == (503, "stories_read_only")
    assert server.post("/v1/completions", {"prompt": "Once", "n": 2, "max_tokens": 3}).status_code == 200
    remount(small_disk, "rw")
    assert server.post(ONE, {"nodes": {"c": person("c")}}).status_code == 200
    assert list(server.get(ONE).json()["nodes"]) == ["a", "b", "c"]


def test_row_47_a_damaged_file_is_told_at_the_start_and_generation_goes_on(make_server: MakeServer) -> None:
    server = make_server()
    path = Path(server.environ["SRB_STORIES"])
    path.write_text("Dear diary, " * 1000)
    server.start()
    wait_for(lambda: "is damaged" in server.logs, "the log tells of the damage")
    refused = server.get(STORIES)
    assert (refused.status_code, refused.json()["error"]["type"]) == (503, "stories_damaged")
    assert server.post("/v1/completions", {"prompt": "Once", "n": 2, "max_tokens": 3}).status_code == 200
    assert path.read_text() == "Dear diary, " * 1000


# Foreign pages --------------------------------------------------------------------------------------------------------


def test_a_foreign_page_reads_and_writes_nothing_over_real_sockets(make_server: MakeServer) -> None:
    server = started(make_server(**QUICK, host="0.0.0.0"))
    assert server.post(ONE, {"nodes": TALE}).status_code == 200
    own = {"Origin": server.url}
    assert requests.get(server.url + ONE, headers=own, timeout=DEADLINE).status_code == 200
    evil = f"http://127.0.0.1:{server.port + 1}"
    for method, headers in (
        ("GET", {"Origin": evil}),
        ("POST", {"Origin": evil, "Content-Type": "text/plain"}),
        ("POST", {"Origin": evil, "Content-Type": "application/json"}),
        ("POST", {"Content-Type": "text/plain"}),
        ("DELETE", {"Origin": evil}),
        ("GET", {"Host": "evil.example"}),
        ("GET", {"Sec-Fetch-Site": "cross-site"}),
        ("OPTIONS", {"Origin": evil, "Access-Control-Request-Method": "POST"}),
    ):
        body = b'{"nodes": {"evil": {"text": "x", "by": "person"}}}' if method == "POST" else None
        answer = requests.request(method, server.url + ONE, headers=headers, data=body, timeout=DEADLINE)
        assert not [name for name in answer.headers if name.lower().startswith("access-control")], headers
        assert answer.status_code in ((200,) if method == "OPTIONS" else (403, 415)), headers
        assert b"Once" not in answer.content
    assert list(server.get(ONE).json()["nodes"]) == ["a", "b"]
    assert server.get(STORIES).json()["stories"][0]["id"] == "lighthouse"
