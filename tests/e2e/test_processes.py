"""The life of a whole server: how it starts, what it says when it cannot, what it survives, how it ends."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
import requests

from tests.disks import fill
from tests.e2e.streams import BRIEF, ENDLESS, Stream, texts
from tests.needs import long
from tests.processes import DEADLINE, PYTHON, ROOT, is_alive, wait_for
from tests.servers import GUNICORN, PACED, MakeServer, Server, everything_ends, free_port

pytestmark = pytest.mark.e2e

STORY = str(ROOT / "srb/models/storyteller.gguf")

# Starting -----------------------------------------------------------------------------------------------------------


@pytest.mark.smoke
def test_a_server_starts_says_what_to_try_and_leaves_nothing_behind(make_server: MakeServer) -> None:
    server = make_server().start()
    assert len(texts(server)) == 2
    wait_for(lambda: f"curl -N {server.url}/v1/srb/completions" in server.logs, "the first screen is shown")
    assert server.status["state"] == "running"
    with everything_ends(server):
        assert server.stop() == 0
    assert "Traceback" not in server.logs


def test_a_workers_garbage_collections_visit_only_what_its_calls_have_made(
    make_server: MakeServer, tmp_path: Path
) -> None:
    """A collection that visited all modules would hold up every call for a tenth of a second."""
    config = tmp_path / "counting.py"
    config.write_text(
        textwrap.dedent(
            """
            import gc
            from srb.serve import gunicorn_conf
            from srb.serve.gunicorn_conf import *

            def post_worker_init(worker):
                gunicorn_conf.post_worker_init(worker)
                print(f"{len(gc.get_objects())} objects to visit, {gc.get_freeze_count()} frozen", flush=True)
            """
        )
    )
    server = make_server(command=(PYTHON, "-m", "gunicorn", "-c", config, "wsgi:app")).start()
    found = re.search(r"(\d+) objects to visit, (\d+) frozen", server.logs)
    assert found is not None, server.logs
    visited, frozen = map(int, found.groups())
    assert visited < 5_000 < frozen


def test_srb_serve_is_the_same_server_with_flags(make_server: MakeServer) -> None:
    command = (PYTHON, "-m", "srb.cli.main", "serve", "-m", "fake:", "--n", "3", "-c", "9000", "--alias", "mine")
    server = make_server(command=command, model="storyteller").start()
    events = Stream(server, {"prompt": "Once", "max_tokens": 2}).rest()
    assert events[0]["count"] == 3
    assert server.get("/v1/models").json()["data"][0]["id"] == "mine"
    with everything_ends(server):
        assert server.stop() == 0


@pytest.mark.parametrize("name", ["srb/__init__.py", "http.py", *long("srb/README.md", "flask/__init__.py")])
def test_a_folder_of_a_packages_name_in_the_working_directory_is_not_the_package(
    make_server: MakeServer, tmp_path: Path, name: str
) -> None:
    """As beside a clone of this repository; relative paths are still the working directory's."""
    own = tmp_path / "home" / name
    own.parent.mkdir(parents=True)
    own.write_text("raise RuntimeError('another program')" if name.endswith(".py") else "")
    (tmp_path / "home/tale.gguf").symlink_to(STORY)
    srb = ("env", "-C", tmp_path / "home", PYTHON, "-P", "-m", "srb.cli.main")  # the installed command's way
    server = make_server(command=(*srb, "serve", "-m", "tale.gguf")).start()
    assert server.get("/v1/models").json()["data"][0]["id"] == "tale"
    assert server.stop() == 0
    assert "another program" not in server.logs
    done = subprocess.run(
        [*map(str, srb), "doctor", "-m", "tale.gguf"], env=server.environ, capture_output=True, text=True, check=False
    )
    assert "tale.gguf" in done.stdout, done.stderr


@pytest.mark.parametrize(
    ("settings", "is_protected"),
    [
        ({"api_key": "", "config": "keys.toml"}, False),  # the variable has precedence over the file's key
        ({"config": "keys.toml"}, True),
        *long(({"api_key": ""}, False), ({"api_key_file": ""}, False), ({"api_key": "k"}, True)),
    ],
)
def test_the_first_screen_shows_a_key_only_where_one_is_wanted(
    make_server: MakeServer, tmp_path: Path, settings: dict[str, object], is_protected: bool
) -> None:
    (tmp_path / "keys.toml").write_text('api_key = "k"')
    if "config" in settings:
        settings = settings | {"config": tmp_path / "keys.toml"}
    server = make_server(**settings).start()
    wait_for(lambda: f"curl -N {server.url}/v1/srb/completions" in server.logs, "the first screen is shown")
    assert ("X-Api-Key" in server.logs) == is_protected
    assert server.get("/v1/models").status_code == (401 if is_protected else 200)


@pytest.mark.parametrize(
    ("settings", "exit_status", "message"),
    [
        ({"api_key": "  "}, 2, "srb: api_key or api_key_file is set, but has no key"),
        ({"n_cxt": 1}, 2, "srb: unknown setting 'n_cxt' (from SRB_N_CXT)"),
        ({"config": "/nowhere.toml"}, 2, "srb: SRB_CONFIG: cannot read /nowhere.toml"),
        ({"model": "/nowhere.gguf"}, 3, "srb: cannot read the model /nowhere.gguf: No such file"),
        ({"model": __file__}, 3, f"srb: the model {__file__} is not a GGUF file"),
        ({"host": "203.0.113.1"}, 5, "srb: port "),
        ({"static_path": "/nowhere"}, 2, "srb: static_path: /nowhere is not a folder"),
        ({"api_key_file": "/nowhere"}, 2, "srb: api_key_file: cannot read /nowhere: No such file"),
        ({"ssl_cert_file": "/nowhere", "ssl_key_file": "/nowhere"}, 2, "srb: ssl_cert_file and ssl_key_file: No such"),
        ({"ssl_cert_file": __file__, "ssl_key_file": __file__}, 2, "srb: ssl_cert_file and ssl_key_file: "),
        ({"chat_template": "{% if %}"}, 2, "srb: chat_template: not a Jinja template: "),
        ({"chat_template_file": "/nowhere.jinja"}, 2, "srb: chat_template_file: cannot read /nowhere.jinja: "),
        (
            {"system_prompt_file": "/nowhere.json"},
            2,
            "srb: system_prompt_file: cannot read /nowhere.json: No such file",
        ),
        ({"model": STORY, "lora": "/nowhere.gguf"}, 2, "srb: lora: cannot read /nowhere.gguf: No such file"),
        ({"model": STORY, "lora": f"{__file__}=0.5"}, 2, f"srb: lora: {__file__} is not a GGUF file"),
        (
            {"model": STORY, "reranking": True},
            3,
            f"srb: reranking: {STORY} is no reranking model (its pooling is none)",
        ),
        ({"model": STORY, "mmproj": STORY}, 2, f"srb: mmproj: {STORY} is a model, and should be a projector"),
        ({"model": STORY, "lora": STORY}, 2, f"srb: lora: {STORY} is a model, and should be a LoRA adapter"),
    ],
)
def test_a_start_that_cannot_succeed_is_one_line_and_an_exit_status(
    make_server: MakeServer, settings: dict[str, object], exit_status: int, message: str
) -> None:
    server = make_server(**settings).start(wait=False)
    assert server.wait() == exit_status
    assert server.logs.startswith(message)
    assert server.logs.count("\n") == 1
    assert not server.runtime.exists()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda whole: whole[:4] + b"\1" + whole[5:], "is of version 1 of GGUF"),
        (lambda whole: whole[:4] + whole[4:8][::-1] + whole[8:], "is of big-endian byte order"),
        (lambda whole: whole[:3000], "is incomplete"),
    ],
    ids=["old", "big-endian", "cut"],
)
def test_a_file_that_is_never_loaded_ends_the_start(
    make_server: MakeServer, tmp_path: Path, change: Callable[[bytes], bytes], reason: str
) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(change(Path(STORY).read_bytes()))
    server = make_server(model=str(path)).start(wait=False)
    assert server.wait() == 3
    assert server.logs.startswith(f"srb: the model {path} {reason}")
    assert server.logs.count("\n") == 1


def test_a_current_folder_that_the_user_may_not_enter_is_none_that_the_server_needs(
    make_server: MakeServer, tmp_path: Path
) -> None:
    """As `cd /root; sudo -u srb srb serve` has it."""
    locked = tmp_path / "locked"
    locked.mkdir()
    powerless = "setpriv --bounding-set=-all --inh-caps=-all" if os.geteuid() == 0 else ""
    shell = f"cd {locked} && chmod 000 . && exec {powerless} {PYTHON} -m srb.cli.main serve"
    server = make_server(command=("sh", "-c", shell))
    server.environ["PYTHONPATH"] = str(ROOT)
    try:
        assert len(texts(server.start())) == 2
        assert server.stop() == 0
    finally:
        locked.chmod(0o700)


def test_a_port_in_use_is_said_at_once(make_server: MakeServer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        server = make_server(port=port).start(wait=False)
        assert server.wait() in statuses_without_restart("srb.service")
    assert server.logs.startswith(f"srb: port {port} is already in use")
    assert server.logs.count("\n") == 1


def test_a_runtime_folder_on_a_full_disk_is_one_line_and_a_status_that_systemd_restarts(
    make_server: MakeServer, small_disk: Path
) -> None:
    fill(small_disk)
    # Time for the worker, which is just being started and ends when it has been: gunicorn would say that it killed it.
    server = make_server(runtime_dir=small_disk / "run", graceful_timeout=60).start(wait=False)
    assert server.wait() not in statuses_without_restart("srb.service")
    version, *lines = server.logs.splitlines()
    assert " SRB " in version
    assert lines == [f"srb: runtime_dir: cannot write in {small_disk / 'run'}: No space left on device"]


def test_a_disk_of_runtime_folder_and_log_that_gets_full_ends_nothing(
    make_server: MakeServer, small_disk: Path
) -> None:
    server = make_server(model=PACED, runtime_dir=small_disk / "run", log_file=small_disk / "log").start()
    full = fill(small_disk)
    assert len(texts(server)) == 2
    stream = Stream(server, ENDLESS)
    stream.until("stream")
    os.kill(server.engine, signal.SIGKILL)
    # Not waiting for a 503 of /health: in the room of the old status.json the next engine may start at once.
    assert "engine_restarted" in orjson.dumps(stream.rest()).decode()
    full.unlink()
    server.wait_ready()
    assert len(texts(server)) == 2
    wait_for(lambda: server.metric("engine_restarts_total") == 1, "the state is written again")
    assert "Logging error" not in server.logs
    assert "Traceback" not in server.logs


def test_row_66_a_full_temporary_folder_ends_no_worker_and_the_next_one_begins(
    make_server: MakeServer, small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(small_disk))
    server = make_server().start()
    full = fill(small_disk)
    workers = server.workers
    for path in ("/props", "/slots", "/v1/models", "/api/version", "/api/tags", "/nothing", "/lora-adapters"):
        for method in ("GET", "POST", "PUT"):  # each with counts of its own
            assert requests.request(method, server.url + path, timeout=60).status_code
    assert len(texts(server)) == 2
    assert server.workers == workers
    os.kill(workers[0], signal.SIGKILL)
    wait_for(lambda: server.workers and server.workers != workers, "another worker begins")
    assert len(texts(server)) == 2
    assert server.metric("requests_processing") == 0
    counted = 'route="/v1/srb/completions",status="200"} 2.0'
    assert counted not in requests.get(f"{server.url}/metrics", timeout=60).text
    full.unlink()
    assert counted in requests.get(f"{server.url}/metrics", timeout=60).text
    assert "SIGBUS" not in server.logs
    assert server.logs.count("has no room") == 1


def statuses_without_restart(unit: str) -> set[int]:
    """Return the exit statuses after which systemd leaves a unit of config/systemd down."""
    lines = (ROOT / "config" / "systemd" / unit).read_text().splitlines()
    [words] = [line.partition("=")[2] for line in lines if line.startswith("RestartPreventExitStatus=")]
    return {0, *map(int, words.split())}


def test_with_port_0_the_system_chooses_and_servers_do_not_wait_for_each_other(make_server: MakeServer) -> None:
    urls = set()
    for _ in range(2):
        server = make_server(port=0, runtime_dir="").start(wait=False)
        wait_for(lambda server=server: "curl -N " in server.logs, "the first screen is shown")  # type: ignore[misc]
        url = server.logs.partition("curl -N ")[2].partition("/v1/")[0]
        assert requests.get(f"{url}/health", timeout=60).status_code == 200
        urls.add(url)
    assert len(urls) == 2


@pytest.mark.parametrize("scheme", ["port", "socket"])
def test_two_servers_of_one_configuration_answer_each_from_its_own_engine(
    make_server: MakeServer, tmp_path: Path, scheme: str
) -> None:
    servers = {}
    for alias in ("one", "other"):
        bind = f"127.0.0.1:{free_port()}" if scheme == "port" else f"unix:{tmp_path / alias}.sock"
        command = (*GUNICORN, "-b", bind, "--workers", "2")
        servers[alias] = server = make_server(command=command, runtime_dir="", port=9090, alias=alias)
        server.environ["XDG_RUNTIME_DIR"] = str(tmp_path)
        server.url = f"http://{bind}" if scheme == "port" else ""
        server.start(wait=False)
    for alias, server in servers.items():
        wait_for(lambda server=server: "curl " in server.logs, "the first screen is shown")  # type: ignore[misc]
        for _ in range(8):
            assert _model(server, f"{tmp_path / alias}.sock") == alias
    assert len(list(tmp_path.glob("srb-*"))) == 2
    assert [server.stop() for server in servers.values()] == [0, 0]
    assert not list(tmp_path.glob("srb-*"))


def _model(server: Server, path: str) -> str:
    """Return the model that answers, over TCP or over the Unix socket of a server without a URL."""
    if server.url:
        return str(server.post("/v1/completions", BRIEF | {"stream": False, "model": "any"}).json()["model"])
    done = subprocess.run(
        ["curl", "-s", "--unix-socket", path, "http://localhost/v1/models"], capture_output=True, timeout=DEADLINE
    )
    return str(orjson.loads(done.stdout)["data"][0]["id"])


def test_a_server_in_the_folder_of_another_waits_for_its_own_engine(make_server: MakeServer) -> None:
    first = make_server(alias="one").start()
    second = make_server(alias="other", runtime_dir=first.runtime).start(wait=False)
    wait_for(
        lambda: second.health() == 503 and "belongs to another server" in second.get("/health").text, "it says why not"
    )
    answer = second.post("/v1/completions", BRIEF)
    assert answer.status_code == 503
    assert "set runtime_dir" in answer.json()["error"]["message"]
    assert second.logs.count("another server") == 1
    assert first.post("/v1/completions", BRIEF | {"stream": False, "model": "any"}).json()["model"] == "one"
    assert first.stop() == 0
    second.wait_ready()
    assert second.post("/v1/completions", BRIEF | {"stream": False, "model": "any"}).json()["model"] == "other"


def test_servers_that_share_a_port_each_answer_from_their_own_engine(make_server: MakeServer, tmp_path: Path) -> None:
    port = free_port()
    servers = [make_server(port=port, alias=alias, reuse_port=True, runtime_dir="") for alias in ("one", "other")]
    for server in servers:
        server.environ["XDG_RUNTIME_DIR"] = str(tmp_path)
        server.start(wait=False)
        wait_for(lambda server=server: "curl " in server.logs, "the first screen is shown")  # type: ignore[misc]
    answers = {server.get("/v1/models").json()["data"][0]["id"] for server in servers for _ in range(50)}
    assert answers == {"one", "other"}


# Surviving ----------------------------------------------------------------------------------------------------------


@pytest.mark.smoke
def test_a_killed_worker_is_replaced_and_takes_only_its_own_requests_along(make_server: MakeServer) -> None:
    server = make_server(model=PACED).start()
    stream = Stream(server, ENDLESS)
    stream.until("stream")
    [worker], engine = server.workers, server.engine
    os.kill(worker, signal.SIGKILL)
    with pytest.raises(requests.RequestException):
        stream.rest()
    wait_for(lambda: worker not in server.workers and server.health() == 200, "another worker serves")
    wait_for(lambda: server.metric("requests_processing") == 0, "its request has ended")
    assert server.engine == engine


@pytest.mark.smoke
@pytest.mark.parametrize("body", [ENDLESS, ENDLESS | {"stream": False, "n": 2}], ids=["streamed", "whole"])
def test_a_client_that_leaves_frees_its_branches(paced: Server, body: dict[str, Any]) -> None:
    server = paced
    wait_for(lambda: server.metric("requests_processing") == 0, "those of other tests have ended")
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as client:
        payload = orjson.dumps(body)
        head = f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(payload)}\r\n\r\n"
        client.sendall(head.encode() + payload)
        wait_for(lambda: server.metric("requests_processing") == 1, "the request runs")
    wait_for(lambda: server.metric("requests_processing") == 0, "the request has ended")
    assert texts(server)


# Ending -------------------------------------------------------------------------------------------------------------


@pytest.mark.smoke
def test_sigterm_ends_running_streams_cleanly(make_server: MakeServer) -> None:
    server = make_server(model=PACED, graceful_timeout=1).start()
    stream = Stream(server, ENDLESS)
    stream.until("stream")
    with everything_ends(server):
        server.process.send(signal.SIGTERM)
        assert "shutting_down" in orjson.dumps(stream.rest()).decode()
        assert server.wait() == 0
    assert "Traceback" not in server.logs


def test_ctrl_c_ends_everything_soon(make_server: MakeServer) -> None:
    server = make_server(model=PACED, graceful_timeout=60).start()
    stream = Stream(server, ENDLESS)
    stream.until("stream")
    with everything_ends(server):
        for pid in [*server.workers, server.pid]:  # a terminal sends it to all of the foreground
            os.kill(pid, signal.SIGINT)
        assert "shutting_down" in orjson.dumps(stream.rest()).decode()
        assert server.wait() == 0
    assert "SystemExit" not in server.logs


def test_ctrl_c_says_nothing_of_an_idle_server(make_server: MakeServer) -> None:
    server = make_server().start()
    with everything_ends(server):
        for pid in [*server.workers, server.pid]:
            os.kill(pid, signal.SIGINT)
        assert server.wait() == 0
    assert "Traceback" not in server.logs
    assert "SystemExit" not in server.logs


def test_a_connection_kept_for_a_next_request_does_not_hold_up_the_end(make_server: MakeServer) -> None:
    server = make_server(graceful_timeout=600, keepalive=600).start()
    with requests.Session() as browser:
        assert browser.get(f"{server.url}/health", timeout=60).status_code == 200
        with everything_ends(server):
            assert server.stop() == 0


@pytest.mark.parametrize("part", ["pid", "supervisor"])
def test_nothing_is_orphaned_when_a_part_is_killed(make_server: MakeServer, part: str) -> None:
    server = make_server().start()
    pids = server.all_pids()
    os.kill(getattr(server, part), signal.SIGKILL)
    assert server.wait() != 0
    wait_for(lambda: not any(map(is_alive, pids)), f"all of {pids} have ended")


def test_a_killed_servers_folder_is_removed_by_the_next_server_and_a_living_servers_is_not(
    make_server: MakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    notes = tmp_path / "srb-web-my_notes"
    notes.mkdir()
    (notes / "my-novel.txt").write_text("Once upon a time")
    killed, living = make_server().start(), make_server().start()
    folders = set(tmp_path.glob("srb-web-*")) - {notes}
    assert len(folders) == 2
    pids = killed.all_pids()
    os.kill(killed.pid, signal.SIGKILL)
    killed.wait()
    wait_for(lambda: not any(map(is_alive, pids)), "the killed server's workers have ended")
    assert set(tmp_path.glob("srb-web-*")) == {*folders, notes}
    make_server().start()
    assert len(folders & set(tmp_path.glob("srb-web-*"))) == 1
    assert (notes / "my-novel.txt").read_text() == "Once upon a time"
    assert living.metric("requests_processing") == 0
    assert "Traceback" not in living.logs
