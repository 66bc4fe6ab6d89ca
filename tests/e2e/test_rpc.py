"""A model that two RPC nodes compute, the nodes themselves, and their loss."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from srb.config.rpc_nodes import Node, NodeAway, greet
from srb.engine.llama.rpc import has_rpc
from tests.e2e.streams import ENDLESS, Stream
from tests.models.random_gguf import write_llama
from tests.needs import need
from tests.processes import DEADLINE, PYTHON, Process, children, clean_environ, wait_for
from tests.servers import MakeServer, Server, free_port

pytestmark = pytest.mark.e2e

PROMPTS = ("Once upon a time,", "the old king said to the girl", "the sea was old and the boat was")
EXACT = {"n_ctx": 8192, "threads": 1, "flash_attn": "off", "cache_type_k": "f32", "cache_type_v": "f32"}

StartNode = Callable[..., Process]


@pytest.fixture(autouse=True, scope="module")
def _built() -> None:
    need(has_rpc(), "llama.cpp built with RPC (CMAKE_ARGS=-DGGML_RPC=ON)")


@pytest.fixture
def start_node(tmp_path: Path) -> Iterator[StartNode]:
    """Start `srb rpc-node` with options; without `wait`, return before it answers."""
    with ExitStack() as stack:

        def start(port: int, *options: str, wait: bool = True) -> Process:
            command = (PYTHON, "-m", "srb.cli.main", "rpc-node", "--port", port, "--threads", 1, *options)
            log = tmp_path / f"node-{len(list(tmp_path.glob('node-*')))}"
            node = stack.enter_context(Process(command, clean_environ(), log))
            if wait:
                wait_for(lambda: answers(port), "the node answers")
            return node

        yield start


def answers(port: int) -> bool:
    try:
        greet(Node("127.0.0.1", port))  # and in the version that this server expects
    except NodeAway:
        return False
    return True


def greedy(server: Server, prompt: str) -> str:
    body = {"prompt": prompt, "temperature": 0, "n_predict": 40, "ignore_eos": True}
    answer = server.post("/completion", body)
    assert answer.status_code == 200, answer.text
    text: str = answer.json()["content"]
    return text


def serving(make_server: MakeServer, ports: tuple[int, ...], folder: Path, **settings: Any) -> Server:
    rpc = ",".join(f"127.0.0.1:{port}" for port in ports)
    return make_server(model=write_llama(folder / "tiny.gguf"), rpc=rpc, **EXACT, **settings)


def test_greedy_text_over_two_nodes_is_the_local_one(
    make_server: MakeServer, start_node: StartNode, tiny: Server, tmp_path: Path
) -> None:
    ports = free_port(), free_port()
    nodes = [start_node(port) for port in ports]
    server = serving(make_server, ports, tmp_path, tensor_split="1,1", log_level="debug").start()
    assert [greedy(server, prompt) for prompt in PROMPTS] == [greedy(tiny, prompt) for prompt in PROMPTS]
    assert "offloaded 3/3 layers" in server.logs
    for port in ports:  # a part of the weights on each
        assert f"RPC0[127.0.0.1:{port}] model buffer size" in server.logs
    first, again = (server.post("/completion", {"prompt": PROMPTS[0] * 9, "n_predict": 5}).json() for _ in range(2))
    assert again["timings"]["prompt_n"] < first["timings"]["prompt_n"]
    server.stop()
    wait_for(lambda: all(map(answers, ports)), "the nodes are free for another server")
    assert [node.stop() for node in nodes] == [0, 0]


def test_row_22_a_lost_node_ends_the_streams_and_is_waited_for(
    make_server: MakeServer, start_node: StartNode, tmp_path: Path
) -> None:
    ports = free_port(), free_port()
    _, second = (start_node(port) for port in ports)
    server = serving(make_server, ports, tmp_path).start()
    before, workers = greedy(server, PROMPTS[0]), server.workers
    stream = Stream(server, ENDLESS)
    stream.until("stream")
    second.stop(signal.SIGKILL)
    last = stream.rest()[-1]
    assert (last["event"], last["code"]) == ("error", "engine_restarted")
    lost = f"the RPC node 127.0.0.1:{ports[1]} does not answer (Connection refused)"
    assert unhealthy(server, lost)["engine"] == "restarting"
    assert f"the RPC node 127.0.0.1:{ports[1]} is lost" in server.logs or "Remote RPC server crashed" in server.logs
    waiting = server.engine
    refused = server.post("/completion", {"prompt": PROMPTS[0], "n_predict": 3})
    assert (refused.status_code, lost in refused.text) == (503, True)
    start_node(ports[1])
    server.wait_ready()
    assert server.engine == waiting, "one engine has waited"
    assert server.logs.count(lost) == 1, "the log has it once"
    assert server.metric("engine_restarts_total") == 1
    assert greedy(server, PROMPTS[0]) == before
    assert server.workers == workers


def unhealthy(server: Server, text: str) -> dict[str, Any]:
    """Wait until GET /health is 503 with this text; return its error."""

    def error() -> dict[str, Any] | None:
        answer = server.get("/health")
        return answer.json()["error"] if answer.status_code == 503 and text in answer.text else None

    return wait_for(error, f"GET /health says: {text}")  # type: ignore[return-value]


def test_a_node_that_is_lost_while_nothing_runs_fails_no_request(
    make_server: MakeServer, start_node: StartNode, tmp_path: Path
) -> None:
    port = free_port()
    node = start_node(port)
    server = serving(make_server, (port,), tmp_path).start()
    node.stop(signal.SIGKILL)
    wait_for(lambda: server.health() == 503, "the loss is noticed without a request")
    assert f"the RPC node 127.0.0.1:{port} is lost; the engine has to be restarted" in server.logs
    start_node(port)
    server.wait_ready()
    assert greedy(server, PROMPTS[0])


def test_a_server_that_starts_before_its_nodes_waits_for_them(
    make_server: MakeServer, start_node: StartNode, tmp_path: Path
) -> None:
    port = free_port()
    server = serving(make_server, (port,), tmp_path).start(wait=False)
    wait_for(lambda: server.live() == 200, "the web server listens")
    assert unhealthy(server, f"127.0.0.1:{port} does not answer")["engine"] == "loading"
    start_node(port)
    server.wait_ready()


def test_a_node_serves_one_client_and_the_next_waits(
    make_server: MakeServer, start_node: StartNode, tmp_path: Path
) -> None:
    port = free_port()
    start_node(port)
    first = serving(make_server, (port,), tmp_path).start()
    second = serving(make_server, (port,), tmp_path).start(wait=False)
    wait_for(lambda: second.live() == 200, "the second web server listens")
    unhealthy(second, "is silent: it serves another client")
    assert greedy(first, PROMPTS[0])
    first.stop()
    second.wait_ready()


def test_another_program_at_the_address_is_said_once_and_not_tried_again(make_server: MakeServer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            client, _ = listener.accept()
            with client:
                client.recv(33, socket.MSG_WAITALL)
                client.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\nThis is a web server.")

        threading.Thread(target=answer, daemon=True).start()
        node = "{}:{}".format(*listener.getsockname())
        server = make_server(rpc=node).start(wait=False)
        wait_for(lambda: server.live() == 200, "the web server listens")
        line = f"rpc: at {node} is no RPC node: it speaks another protocol"
        assert unhealthy(server, line)["engine"] == "failed"
        wait_for(lambda: not children(server.supervisor), "the engine has ended")
        assert server.logs.count(line) == 1


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_node_ends_with_a_signal_also_while_a_client_is_there(start_node: StartNode, signum: int) -> None:
    port = free_port()
    node = start_node(port)
    with socket.create_connection(("127.0.0.1", port), timeout=DEADLINE):
        assert node.stop(signum) == 0


def test_a_node_that_others_can_reach_warns_and_a_local_one_does_not(start_node: StartNode) -> None:
    far, near = free_port(), free_port()
    assert "private network that you trust, and nowhere else" in start_node(far, "--host", "0.0.0.0").logs
    node = start_node(near)
    assert "warning" not in node.logs
    assert f"RPC node 127.0.0.1:{near} with CPU; protocol 7.0.0" in node.logs


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (("--devices", "CUDA7"), "srb: --devices: there is no device CUDA7; there are CPU"),
        (("--cache", "/proc/nowhere"), "srb: --cache: /proc/nowhere cannot be used: No such file or directory"),
        (("--host", "no-such-host.invalid"), "srb: cannot listen on no-such-host.invalid"),
        (("--colour", "red"), "srb: unrecognized arguments: --colour red"),
    ],
)
def test_a_wrong_option_of_a_node_is_one_line(start_node: StartNode, options: tuple[str, ...], line: str) -> None:
    node = start_node(free_port(), *options, wait=False)
    assert node.wait() == 2
    assert node.logs.startswith(line)
    assert node.logs.count("\n") == 1


def test_a_port_in_use_is_one_line(start_node: StartNode) -> None:
    port = free_port()
    start_node(port)
    second = start_node(port, wait=False)
    assert second.wait() == 2
    assert second.logs == f"srb: cannot listen on 127.0.0.1:{port}: Address already in use\n"


def test_a_cache_folder_keeps_what_was_sent(make_server: MakeServer, start_node: StartNode, tmp_path: Path) -> None:
    """llama.cpp keeps tensors of more than 10 MiB; the tiny model has none, so only the folder is made."""
    port, folder = free_port(), tmp_path / "cache"
    start_node(port, "--cache", str(folder))
    assert folder.stat().st_mode & 0o777 == 0o700
    server = serving(make_server, (port,), tmp_path).start()
    assert greedy(server, PROMPTS[0])
