"""RPC nodes: their addresses in a setting, and the greeting that tells whether they answer."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from srb.config.rpc_nodes import PROTOCOL, Node, NodeAway, greet, nodes_of, wait_for_nodes
from srb.config.settings import Settings
from srb.errors import ConfigError
from tests.processes import DEADLINE

MAJOR, MINOR, PATCH = PROTOCOL
Serve = Callable[[bytes], Node]


def hello(major: int = MAJOR, minor: int = MINOR, patch: int = PATCH) -> bytes:
    """A node's answer to a greeting."""
    return (28).to_bytes(8, "little") + bytes([major, minor, patch, 0]) + bytes(24)


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Start a server that gives each client these bytes, once it has greeted, and ends the connection."""
    listeners = []

    def start(answer: bytes) -> Node:
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)

        def run() -> None:
            try:
                while True:
                    client, _ = listener.accept()
                    with client:
                        client.settimeout(DEADLINE)
                        assert client.recv(33, socket.MSG_WAITALL)[0] == 14
                        client.sendall(answer)
            except OSError:
                pass  # the test has ended

        threading.Thread(target=run, daemon=True).start()
        return Node(*listener.getsockname())

    yield start
    for listener in listeners:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def test_nodes_are_hosts_and_ports() -> None:
    assert nodes_of("") == ()
    assert nodes_of("10.0.0.2:50052, big-one.lan:1,") == (Node("10.0.0.2", 50052), Node("big-one.lan", 1))
    assert list(map(str, Settings(rpc="a:1,b:2").rpc_nodes)) == ["a:1", "b:2"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("10.0.0.2", "HOST:PORT"),
        ("10.0.0.2:0", "HOST:PORT"),
        ("10.0.0.2:65536", "HOST:PORT"),
        (":50052", "HOST:PORT"),
        ("[::1]:50052", "IPv4"),
        ("http://a:1", "HOST:PORT"),
        ("a:1;b:2", "HOST:PORT"),
        ("a:1,b:1,a:1", "twice"),
        (",".join(f"a:{port}" for port in range(1, 18)), "17 nodes"),
    ],
)
def test_a_wrong_list_names_the_setting_and_the_form(text: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=rf"^rpc \(from SRB_RPC\): .*{reason}"):
        Settings.load(environ={"SRB_RPC": text})


def test_a_node_of_this_version_is_greeted(serve: Serve) -> None:
    greet(serve(hello()))


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (hello(major=MAJOR + 1), "has version 8.0.0 of the protocol, and this server 7.0.0"),
        (hello(patch=PATCH + 1), "all machines need the same llama.cpp"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n" + bytes(50), "is no RPC node"),
        (b"SSH-2.0-OpenSSH", "is no RPC node"),
    ],
)
def test_an_answer_that_no_waiting_mends_is_an_error_of_the_setting(serve: Serve, answer: bytes, reason: str) -> None:
    with pytest.raises(ConfigError, match=rf"^rpc: .*{reason}"):
        greet(serve(answer))


def test_a_node_that_may_answer_later_is_away_for_a_reason(serve: Serve) -> None:
    with pytest.raises(NodeAway, match="it is just ending, or is no RPC node"):
        greet(serve(b""))
    with socket.create_server(("127.0.0.1", 0), backlog=1) as silent:  # as ggml-rpc's
        node = Node(*silent.getsockname())
        for _ in range(5):  # the later ones are not even connected: those before still wait to be accepted
            with pytest.raises(NodeAway, match=f"{node} is silent: it serves another client"):
                greet(node, seconds=0.05)
    with pytest.raises(NodeAway, match=rf"the RPC node {node} does not answer \(Connection refused\)"):
        greet(node)
    with pytest.raises(NodeAway, match=r"no-such-host\.invalid:1 does not answer"):
        greet(Node("no-such-host.invalid", 1))


def test_nodes_are_waited_for_with_growing_pauses_and_each_change_is_told_once(serve: Serve) -> None:
    pauses: list[float] = []
    told: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = free.getsockname()
    back: list[socket.socket] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 9:
            back.append(socket.create_server(address))
            threading.Thread(target=answer, daemon=True).start()

    def answer() -> None:
        client, _ = back[0].accept()
        with client:
            client.recv(33, socket.MSG_WAITALL)
            client.sendall(hello())

    wait_for_nodes([serve(hello()), Node(*address)], told.append, sleep)
    back[0].close()
    assert told == [f"the RPC node {Node(*address)} does not answer (Connection refused)"]
    assert pauses[:3] == [0.1, 0.2, 0.4]
    assert pauses[-1] == 10
