"""`srb replica` and `srb serve --replicas`: replicas without Ray that come, go, die or are not what the list says."""

from __future__ import annotations

import os
import re
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.cluster.conftest import replicas
from tests.cluster.test_faults import close_all, go_on, running, serves, streams_on_each
from tests.cluster.test_serving import usage
from tests.e2e.rolling import Writers
from tests.processes import PYTHON, NoticeListener, Process, clean_environ, wait_for
from tests.servers import MakeServer, Server, free_port

SECRET = "a secret of these tests"
WITHOUT_RAY = Path(__file__).parent / "without_ray"


class Doors:
    """Replicas of the fake model as processes, by name, and the file that lists them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "doors.toml"
        self.ports: dict[str, int] = {}  # those that are listed
        self.processes: dict[str, Process] = {}
        self._exits = ExitStack()
        (folder / "secret").write_text(f"{SECRET}\n")

    def start(self, name: str, *, model: str = "fake:200", secret: str = SECRET, **environ: str) -> Process:
        """Start a replica at its port, a new one if it has none yet; it is not waited for."""
        port = self.ports.setdefault(name, free_port())
        command = (
            PYTHON,
            "-m",
            "srb.cli.main",
            "replica",
            "--door",
            f"127.0.0.1:{port}",
            "-m",
            model,
            "-c",
            "100000",
        )
        file = self.folder / f"{name}.secret"
        file.write_text(secret)
        process = Process(command, clean_environ(door_token_file=file) | environ, self.folder / f"{name}.log")
        self.processes[name] = self._exits.enter_context(process)
        return process

    def wait_open(self, name: str) -> None:
        wait_for(lambda: "the door is open" in self.processes[name].logs, f"the door of {name} is open")

    def write(self, **changed: Any) -> None:
        """Write the file, in one step; of a name in `changed` with other fields."""
        lines = ['token_file = "secret"']
        for name, port in self.ports.items():
            fields = {"name": name, "host": "127.0.0.1", "port": port, **changed.get(name, {})}
            lines += ["[[doors]]", *(f"{key} = {orjson.dumps(value).decode()}" for key, value in fields.items())]
        scratch = self.folder / "doors.new"
        scratch.write_text("\n".join(lines))
        scratch.replace(self.file)

    def __enter__(self) -> Doors:
        return self

    def __exit__(self, *raised: object) -> None:
        for process in self.processes.values():  # all begin to end now, and a second signal ends each at once
            if process.popen.poll() is None:
                process.send(signal.SIGTERM)
        self._exits.__exit__(None, None, None)


@pytest.fixture
def doors(tmp_path: Path) -> Iterator[Doors]:
    with Doors(tmp_path) as made:
        yield made


@pytest.fixture(scope="module")
def trio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    """Three replicas that tests share; who ends one starts it again."""
    with Doors(tmp_path_factory.mktemp("trio")) as made:
        for name in "abc":
            made.start(name)
        for name in "abc":
            made.wait_open(name)
        made.write()
        yield made


@pytest.fixture(scope="module")
def shared_web(trio: Doors, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("web"), replicas=trio.file, max_n=64) as server:
        yield ready(server, 3)


@pytest.fixture
def web(shared_web: Server) -> Server:
    """A server with the three replicas, which tests share. Its processes find no Ray."""
    wait_for_replicas(shared_web, 3)
    wait_for(lambda: not sum(running(shared_web).values()), "nothing of other tests runs")
    return shared_web


def ready(server: Server, number: int) -> Server:
    server.environ["PYTHONPATH"] = os.pathsep.join((str(WITHOUT_RAY), server.environ.get("PYTHONPATH", "")))
    server.start(wait=False)
    wait_for_replicas(server, number)
    return server


def wait_for_replicas(server: Server, number: int) -> None:
    wait_for(lambda: server.has_ended or replicas(server) == number, f"{number} replicas are ready")
    assert not server.has_ended, server.logs


def degraded(server: Server) -> str:
    """Return the troubles that GET /health tells."""
    return str(server.get("/health").json().get("degraded", ""))


def test_a_killed_replica_takes_its_own_streams_along_and_comes_back_under_its_name(web: Server, trio: Doors) -> None:
    streams, lines = streams_on_each(web, "A river"), web.logs.count("cannot be used")
    try:
        before = running(web)
        trio.processes["b"].send(signal.SIGKILL)
        wait_for(lambda: sum(bool(stream.error) for stream in streams) == before["b"], "the streams of b end")
        assert all("engine_restarted" in stream.error for stream in streams if stream.error)
        serves(web)
        go_on([stream for stream in streams if not stream.error])
        told = wait_for(lambda: degraded(web), "it is told")
        assert f"replica b at 127.0.0.1:{trio.ports['b']} cannot be used: Connection refused" in told
        assert replicas(web) == 2
    finally:
        close_all(streams)
    trio.start("b")
    wait_for_replicas(web, 3)
    wait_for(lambda: not degraded(web), "nothing is degraded any more")
    assert web.logs.count("cannot be used") == lines + 1, "one line"
    assert "Ray" not in web.logs


def test_a_replica_that_is_added_to_the_file_serves_and_one_that_is_taken_out_ends_what_it_has(
    web: Server, trio: Doors
) -> None:
    streams = streams_on_each(web, "A road")
    try:
        trio.start("d")
        trio.write()
        wait_for_replicas(web, 4)
        port = trio.ports.pop("a")
        trio.write()
        wait_for_replicas(web, 3)
        go_on(streams)
        assert "replica a takes no more requests" in web.logs
        trio.ports["a"] = port
        trio.write()
        wait_for_replicas(web, 4)
        go_on(streams)
    finally:
        close_all(streams)
    trio.file.write_text("[[doors]]\nname = 5\n")
    wait_for(lambda: "doors.0.name" in web.logs, "the log says what is wrong with the file")
    assert replicas(web) == 4, "those that are known go on"
    serves(web)
    trio.ports.pop("d")
    trio.write()
    wait_for_replicas(web, 3)


def test_a_replica_that_is_told_to_end_finishes_its_requests_first(web: Server, trio: Doors) -> None:
    streams = streams_on_each(web, "A canal", fewest=3)
    try:
        drained = trio.processes["c"]
        drained.send(signal.SIGTERM)
        wait_for_replicas(web, 2)
        serves(web)
        go_on(streams)
        assert drained.popen.poll() is None, "its requests still run"
    finally:
        close_all(streams)
    assert drained.wait() == 0
    assert "no more requests are taken" in drained.logs
    assert "Traceback" not in drained.logs
    assert not any(stream.error for stream in streams)
    trio.start("c")
    wait_for_replicas(web, 3)


def test_a_second_signal_ends_a_replica_at_once(web: Server, trio: Doors) -> None:
    streams = streams_on_each(web, "A ferry", fewest=3)
    try:
        trio.processes["a"].send(signal.SIGTERM)
        wait_for_replicas(web, 2)
        assert trio.processes["a"].stop() == 0
        wait_for(lambda: any(stream.error for stream in streams), "its streams end")
    finally:
        close_all(streams)
    trio.start("a")
    wait_for_replicas(web, 3)


def test_stories_find_their_replica_turn_by_turn(web: Server) -> None:
    preface = "All of these stories are told in one calm voice, and each of them begins with these same words. " * 20
    for story in range(6):
        text, known = f"{preface}{story} is the number of this one. ", 0
        for turn in range(3):
            added, cached = usage(web, text)
            assert cached >= known, f"turn {turn} of story {story}"
            known = len(preface.split())
            text += added + f" And then, in turn {turn}, "


def test_turns_through_two_web_machines_find_their_story(
    web: Server, trio: Doors, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """All stories begin alike; without news between the machines two turns in three would not find theirs."""
    with Server(tmp_path_factory.mktemp("other"), replicas=trio.file, max_n=64) as server:
        machines = web, ready(server, 3)
        preface = (
            "All of these stories are told in one calm voice, and each of them begins with these same words. " * 20
        )
        for story in range(8):
            text, known = f"{preface}{story} is the story of a bridge and of another. ", 0
            for turn in range(3):
                body = {"prompt": text, "model": "m", "n": 1, "max_tokens": 20}
                answer = machines[(story + turn) % 2].post("/v1/completions", body).json()
                used = answer["usage"]
                assert used["prompt_tokens_details"]["cached_tokens"] >= known, f"turn {turn} of story {story}"
                known = used["prompt_tokens"] - 2  # but for what stands at the end, which may go on otherwise
                text += answer["choices"][0]["text"] + f" And then, in turn {turn}, "
                time.sleep(1.5)  # as a writer, who reads


def test_each_door_that_cannot_be_used_is_told_in_a_line_and_the_others_serve(
    doors: Doors, make_server: MakeServer
) -> None:
    doors.start("good")
    doors.start("stranger", secret="another secret, of others")
    with socket.socket() as web_page, socket.socket() as silent:
        for name, sock in (("page", web_page), ("silent", silent)):
            sock.bind(("127.0.0.1", 0))
            doors.ports[name] = sock.getsockname()[1]
        web_page.listen()  # and says nothing
        doors.ports |= {"elsewhere": 1, "nowhere": 80}
        doors.write(nowhere={"host": "no-such-host.invalid"})
        server = make_server(replicas=doors.file)
        ready(server, 1)
        lines = {
            f"replica stranger at 127.0.0.1:{doors.ports['stranger']}": "its secret is another one",
            "replica elsewhere at 127.0.0.1:1": "Connection refused",
            "replica nowhere at no-such-host.invalid:80": "",
            f"replica page at 127.0.0.1:{doors.ports['page']}": "no answer within 2 seconds",
            f"replica silent at 127.0.0.1:{doors.ports['silent']}": "Connection refused",
        }
        for line, why in lines.items():
            wait_for(lambda line=line, why=why: f"{line} cannot be used: {why}" in server.logs, line)  # type: ignore[misc]
        serves(server)
        assert replicas(server) == 1
        log = doors.processes["stranger"].logs
        assert log.count("refused a connection with a wrong token from 127.0.0.1") == 1


def test_replicas_are_found_by_a_dns_name_and_systemd_hears_of_one(doors: Doors, make_server: MakeServer) -> None:
    listener = NoticeListener(str(doors.folder / "notify"))
    replica = doors.start("a", NOTIFY_SOCKET=str(doors.folder / "notify"))
    listener.until("READY=1")
    server = make_server(replicas=f"dns:localhost:{doors.ports['a']}", door_token_file=doors.folder / "secret")
    ready(server, 1)
    serves(server)
    assert replica.stop() == 0
    listener.until("STOPPING=1")
    listener.sock.close()
    wait_for(lambda: server.health() == 503, "no replica is left")
    wait_for(lambda: "127.0.0.1" in server.get("/health").text, "why none is left")


@pytest.mark.parametrize("disk", ["all", ""])
def test_a_rolling_update_under_writers_computes_no_story_again(
    doors: Doors, make_server: MakeServer, disk: str
) -> None:
    """Whether the replicas share a disk or each has its own: one is replaced after the other, and the stories move along."""
    server = with_texts(doors, make_server, disk)
    with Writers(server, 4, 100) as writers:
        writers.wait_for_turns(2)
        for name in "ab":
            doors.processes[name].send(signal.SIGTERM)
            assert doors.processes[name].wait() == 0
            start_with_texts(doors, name, disk)
            wait_for_replicas(server, 2)
            writers.wait_for_turns(2)
    assert not writers.errors
    assert [writer.again for writer in writers.all] == [0] * 4
    assert "Traceback" not in server.logs


def test_a_story_that_rests_while_its_replica_ends_goes_on_at_another_with_a_disk_of_its_own(
    doors: Doors, make_server: MakeServer
) -> None:
    server = with_texts(doors, make_server, "")
    with Writers(server, 4, 100) as writers:
        writers.wait_for_turns(2)
    assert not writers.errors
    before = served(server, writers)
    writers.all[0].go_on()
    after = served(server, writers)
    here, there = sorted("ab", key=lambda name: before[name] - after[name])  # where her story is, and the other
    doors.processes[here].send(signal.SIGTERM)
    assert doors.processes[here].wait() == 0
    moved = re.search(rf"replica {there} takes over (\d+) stories", server.logs)
    assert moved is not None
    assert int(moved[1]) >= 1
    for writer in writers.all:
        writer.go_on()
    assert [writer.again for writer in writers.all] == [0] * 4
    taken = re.findall(
        r"parts of a story are taken over from the replica at \S+, (\S+ \S+) of them", doors.processes[there].logs
    )
    assert len(taken) >= int(moved[1])


def served(server: Server, writers: Writers) -> dict[str, int]:
    """Return how many requests each replica has had, when all turns are among them."""
    number = sum(len(writer.turns) for writer in writers.all)

    def known() -> dict[str, int]:
        lines = server.get("/metrics").text.splitlines()
        found = [re.match(r'srb:replica_requests_total\{.*replica="(\w+)"\} (\S+)', line) for line in lines]
        each = {match[1]: int(float(match[2])) for match in found if match}
        return each if sum(each.values()) == number else {}

    return wait_for(known, f"the replicas tell of {number} turns")


def with_texts(doors: Doors, make_server: MakeServer, disk: str) -> Server:
    """Return a server over two replicas, a and b, of `start_with_texts`."""
    for name in "ab":
        start_with_texts(doors, name, disk)
    for name in "ab":
        doors.wait_open(name)
    doors.write()
    return ready(make_server(replicas=doors.file), 2)


def start_with_texts(doors: Doors, name: str, disk: str) -> None:
    """Start a replica that keeps texts on a disk, its own or a common one, and computes 30 tokens a second.

    A request waits for its text as long as computing would take, which is some seconds then.
    """
    folder = doors.folder / "texts" / (disk or name)
    doors.start(name, model="fake:200:30", SRB_CACHE_DISK=str(folder), SRB_CACHE_DISK_MIB="200")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            {"replicas": "/nonexistent/doors.toml"},
            "replicas: cannot read /nonexistent/doors.toml: No such file or directory",
        ),
        (
            {"replicas": "dns:name:70000"},
            "replicas (from SRB_REPLICAS): should be the path of a TOML file, or dns:NAME:PORT",
        ),
        ({"replicas": "dns:name:80"}, "door_token_file is missing"),
        (
            {"replicas": "dns:name:80", "door_token": "short"},
            "door_token (from SRB_DOOR_TOKEN) is no setting any more, leave it out: put the secret into a file, and name it",
        ),
        ({"replicas": "dns:name:80", "cluster": "auto"}, "cluster and replicas exclude each other"),
        ({"replicas": "dns:name:80", "models": "a=fake:"}, "models and replicas exclude each other"),
    ],
)
def test_a_list_that_cannot_be_used_ends_the_start_in_a_line(
    make_server: MakeServer, settings: dict[str, str], said: str
) -> None:
    server = make_server(**settings)
    server.start(wait=False)
    assert server.wait() == 2
    assert said in server.logs
    assert server.logs.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--door", "127.0.0.1"), "--door should be HOST:PORT, not 127.0.0.1"),
        (("--door", "127.0.0.1:0"), "--door should be HOST:PORT, not 127.0.0.1:0"),
        (("--door", "192.0.2.1:9191"), "--door 192.0.2.1:9191: Cannot assign requested address"),
        (
            ("--door", "127.0.0.1:9191", "--max-n", "16"),
            "--max-n: replicas do not read this; give it to `srb serve --replicas`",
        ),
        ((), "the following arguments are required: --door"),
    ],
)
def test_a_replica_that_cannot_begin_says_so_in_a_line(tmp_path: Path, options: tuple[str, ...], said: str) -> None:
    command = (PYTHON, "-m", "srb.cli.main", "replica", "-m", "fake:", *options)
    (tmp_path / "secret").write_text(SECRET)
    with Process(command, clean_environ(door_token_file=tmp_path / "secret"), tmp_path / "log") as process:
        assert process.wait() == 2
        assert said in process.logs
        assert process.logs.count("\n") == 1


def test_a_model_that_cannot_be_loaded_ends_the_replica_with_its_status(doors: Doors) -> None:
    replica = doors.start("a", model=str(doors.folder / "no.gguf"))
    assert replica.wait() == 3
    assert "no.gguf" in replica.logs
