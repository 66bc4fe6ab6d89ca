"""Workers that die while settings go bad, and workers that are replaced. Tests of rows in docs/faults.md begin with them."""

from __future__ import annotations

import os
import re
import signal
import textwrap
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import requests

from tests.e2e.streams import Stream, texts
from tests.e2e.test_deploys import reload
from tests.e2e.test_processes import statuses_without_restart
from tests.needs import long
from tests.processes import DEADLINE, PYTHON, wait_for
from tests.servers import MakeServer, Server

pytestmark = pytest.mark.e2e

HELD = "a new worker has the settings that were valid last"
CHANGED = "a new worker has the settings of the last start or reload"


def kill_a_worker(server: Server) -> int:
    """Kill a worker, wait until it is replaced, and return the other's pid."""
    [killed] = server.workers
    os.kill(killed, signal.SIGKILL)
    [other] = wait_for(lambda: server.has_ended or [pid for pid in server.workers if pid != killed], "another worker")
    return int(other)


def remove(path: Path) -> None:
    path.unlink()


def empty(path: Path) -> None:
    path.write_text("")


def replace_the_key(path: Path) -> None:
    path.write_text("another")


@pytest.mark.parametrize(
    ("change", "message"),
    [(remove, HELD), (replace_the_key, CHANGED), *long((empty, CHANGED))],
)
def test_row_59_after_a_workers_death_the_keys_are_the_old_ones(
    make_server: MakeServer, tmp_path: Path, change: Callable[[Path], None], message: str
) -> None:
    keys = tmp_path / "keys"
    keys.write_text("secret")
    server = make_server(api_key_file=keys).start()
    change(keys)
    kill_a_worker(server)
    server.wait_ready()
    assert server.get("/v1/models", headers={"X-Api-Key": "secret"}).status_code == 200
    for wrong in ("", "another"):
        assert server.get("/v1/models", headers={"X-Api-Key": wrong}).status_code == 401
    assert server.logs.count(message) == 1


@pytest.mark.parametrize("name", ["config", "chat_template_file", *long("system_prompt_file")])
def test_row_59_a_worker_starts_although_a_file_of_the_settings_is_gone(
    make_server: MakeServer, tmp_path: Path, name: str
) -> None:
    file = tmp_path / "file"
    file.write_text(
        {"config": "n = 2", "chat_template_file": "{{ 'of the file' }}", "system_prompt_file": "Once"}[name]
    )
    server = make_server(**{name: file}).start()
    before = server.get("/props").json()
    file.write_text("n = ") if name == "config" else file.unlink()
    kill_a_worker(server)
    server.wait_ready()
    assert server.get("/props").json() == before
    assert server.logs.count(HELD) == 1


def test_row_59_a_worker_that_cannot_start_is_tried_again_and_ends_nothing(
    make_server: MakeServer, tmp_path: Path
) -> None:
    files, away = tmp_path / "files", tmp_path / "away"
    files.mkdir()
    server = make_server(static_path=files).start()
    engine = server.engine
    files.rename(away)
    [killed] = server.workers
    os.kill(killed, signal.SIGKILL)
    wait_for(lambda: server.logs.count("static_path: ") >= 3, "a worker says why it cannot start, more than once")
    away.rename(files)
    server.wait_ready()
    assert server.engine == engine
    assert len(texts(server)) == 2


def test_row_59_a_start_without_a_worker_has_a_status_that_systemd_restarts(
    make_server: MakeServer, tmp_path: Path
) -> None:
    config = tmp_path / "failing.py"
    config.write_text(
        textwrap.dedent(
            """
            from srb.serve.gunicorn_conf import *

            def post_worker_init(worker):
                raise RuntimeError("no room")
            """
        )
    )
    server = make_server(command=(PYTHON, "-m", "gunicorn", "-c", config, "wsgi:app")).start(wait=False)
    assert server.wait() not in statuses_without_restart("srb.service") | statuses_without_restart("srb-web.service")
    assert "no room" in server.logs


# Reloads ------------------------------------------------------------------------------------------------------------


CLIENTS = 3  # that ask all the time


@contextmanager
def asked_all_the_time(server: Server) -> Iterator[Counter[str]]:
    """Ask for /livez all the time while the block runs; yield the number of each outcome."""
    outcomes: Counter[str] = Counter()
    stop = threading.Event()

    def ask() -> None:
        while not stop.is_set():
            try:
                outcome = str(requests.get(f"{server.url}/livez", timeout=DEADLINE).status_code)
            except requests.RequestException as error:
                outcome = repr(error)
            outcomes[outcome] += 1

    threads = [threading.Thread(target=ask) for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    try:
        wait_for(lambda: outcomes, "the first answer")
        yield outcomes
    finally:
        stop.set()
        for thread in threads:
            thread.join(DEADLINE)


def connected(server: Server) -> set[int]:
    """Return the pids of all workers that have said that they are connected to the engine."""
    return {int(pid) for pid in re.findall(r"srb\.client\[(\d+)\]: the engine is ready", server.logs)}


def branches(server: Server) -> int:
    """Return the number of branches that a request has by the settings."""
    return int(Stream(server, {"prompt": "Once", "max_tokens": 2}).next()["count"])


@pytest.mark.parametrize("workers", [1, *long(2)])
def test_row_28_the_old_workers_answer_until_the_new_ones_do(make_server: MakeServer, workers: int) -> None:
    server = make_server(workers=workers).start()
    old = set(wait_for(lambda: len(connected(server)) == workers and server.workers, "all workers serve"))
    with asked_all_the_time(server) as outcomes:
        before = outcomes.total()
        reload(server)
        new = connected(server) - old
        while_new_ones_start, then = outcomes.total() - before, outcomes.total()
        wait_for(lambda: outcomes.total() > then + 3, "the new ones answer")
    assert outcomes.keys() == {"200"}
    assert len(new) == workers, "new workers are connected before the old ones end"
    assert while_new_ones_start > 2 * CLIENTS, "more answers than may have been under way"


def test_row_28_ten_reloads_at_once_are_one(make_server: MakeServer) -> None:
    server = make_server(workers=2).start()
    old = set(wait_for(lambda: len(connected(server)) == 2 and server.workers, "all workers serve"))
    for _ in range(10):
        server.process.send(signal.SIGHUP)
    wait_for(lambda: not old & set(server.workers), "the old workers have ended")
    server.process.send(signal.SIGTERM)
    assert server.wait() == 0
    assert len(connected(server) - old) == 2


def test_row_28_a_reload_whose_workers_cannot_start_leaves_the_old_ones(
    make_server: MakeServer, tmp_path: Path
) -> None:
    config = tmp_path / "failing.py"
    config.write_text(
        textwrap.dedent(
            f"""
            from pathlib import Path
            from srb.serve import gunicorn_conf
            from srb.serve.gunicorn_conf import *

            def post_worker_init(worker):
                if Path({str(tmp_path / "fails")!r}).exists():
                    raise RuntimeError("no room")
                gunicorn_conf.post_worker_init(worker)
            """
        )
    )
    settings = tmp_path / "srb.toml"
    settings.write_text("n = 2")
    server = make_server(command=(PYTHON, "-m", "gunicorn", "-c", config, "wsgi:app"), config=settings).start()
    workers = server.workers
    settings.write_text("n = 3")
    (tmp_path / "fails").touch()
    server.process.send(signal.SIGHUP)
    wait_for(lambda: "not reloaded: a new worker could not start" in server.logs, "it says so")
    wait_for(lambda: server.workers == workers, "the new ones are gone")
    assert branches(server) == 2
    (tmp_path / "fails").unlink()
    kill_a_worker(server)
    server.wait_ready()
    assert branches(server) == 2, "its settings are those of the last start or reload"
    server.process.send(signal.SIGHUP)
    wait_for(lambda: branches(server) == 3, "the next reload has the new settings")
