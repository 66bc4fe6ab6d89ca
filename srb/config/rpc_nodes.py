"""RPC nodes: machines that compute a part of the model for llama.cpp's RPC backend; their addresses; whether they answer.

llama.cpp aborts the process if a node does not answer or speaks another version, so nodes are greeted here first. A greeting
is the first message of ggml-rpc's protocol; the node ends the connection after it and waits for the next client.
"""

import logging
import re
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from srb.errors import ConfigError

log = logging.getLogger("srb.rpc")

DEFAULT_PORT = 50052  # of llama.cpp's rpc-server
PROTOCOL = (7, 0, 0)  # RPC_PROTO_*_VERSION of the pinned llama.cpp; a test greets one of its nodes
MAX_NODES = 16  # llama.cpp's limit of devices
_HELLO, _CAPS_BYTES = 14, 24  # RPC_CMD_HELLO, RPC_CONN_CAPS_SIZE
_ANSWER_BYTES = 8 + 4 + _CAPS_BYTES  # its length, three numbers and padding, what the connection can do
_SECONDS = 3.0  # for the connection, and again for the answer: a lost packet is sent again after one
_FIRST_PAUSE, _MAX_PAUSE = 0.1, 10.0  # seconds between attempts, as between the starts of an engine (srb/backoff.py)

_ADDRESS = re.compile(r"([A-Za-z0-9][A-Za-z0-9.-]*):(\d{1,5})")


class NodeAway(Exception):
    """The error of a node that does not answer now, and may do so later."""


@dataclass(frozen=True, slots=True)
class Node:
    """The address of a node."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def nodes_of(text: str) -> tuple[Node, ...]:
    """Return the nodes of a setting such as `10.0.0.2:50052,10.0.0.3:50052`. Raise ValueError."""
    nodes: list[Node] = []
    for part in filter(None, map(str.strip, text.split(","))):
        match = _ADDRESS.fullmatch(part)
        if match is None or not 0 < int(match[2]) < 65536:
            raise ValueError(
                f"should be HOST:PORT, several separated by commas, with names or IPv4 addresses, not {part}"
            )
        nodes.append(Node(match[1], int(match[2])))
    if len(set(nodes)) < len(nodes):
        raise ValueError("names a node twice, and a node serves one client at a time")
    if len(nodes) > MAX_NODES:
        raise ValueError(f"has {len(nodes)} nodes; llama.cpp takes {MAX_NODES}")
    return tuple(nodes)


def greet(node: Node, seconds: float = _SECONDS) -> None:
    """Check that a node answers, and in our version. Raise NodeAway if it may do so later, else ConfigError."""
    try:
        # llama.cpp connects by IPv4 alone
        [(_, _, _, _, address), *_] = socket.getaddrinfo(node.host, node.port, socket.AF_INET, socket.SOCK_STREAM)
        with socket.create_connection((str(address[0]), node.port), seconds) as sock:
            answer = _greeting(node, sock)
    except TimeoutError:  # also of the connection: a node that serves another client has room for two that wait
        why = "it serves another client (one at a time), is no RPC node, or its machine is away"
        raise NodeAway(f"the RPC node {node} is silent: {why}") from None
    except OSError as error:
        raise NodeAway(f"the RPC node {node} does not answer ({error.strerror or error})") from None
    if int.from_bytes(answer[:8], "little") != _ANSWER_BYTES - 8:
        raise ConfigError(f"rpc: at {node} is no RPC node: it speaks another protocol")
    version = tuple(answer[8:11])
    if version != PROTOCOL:
        theirs, ours = (".".join(map(str, each)) for each in (version, PROTOCOL))
        raise ConfigError(
            f"rpc: the node {node} has version {theirs} of the protocol, and this server {ours}; "
            "all machines need the same llama.cpp"
        )


def trouble_of(node: Node) -> str:
    """Return why a node cannot be used now; "" if it can."""
    try:
        greet(node)
    except NodeAway as away:
        return str(away)
    except ConfigError as error:
        return error.message
    return ""


def _greeting(node: Node, sock: socket.socket) -> bytes:
    """Return the node's answer, or as much as shows that it is none. Raise OSError or NodeAway."""
    sock.sendall(bytes([_HELLO]) + _CAPS_BYTES.to_bytes(8, "little") + bytes(_CAPS_BYTES))
    answer = b""
    while len(answer) < _ANSWER_BYTES:
        try:
            chunk = sock.recv(_ANSWER_BYTES - len(answer))
        except TimeoutError:
            if len(answer) >= 8:
                return answer
            raise
        if not chunk:
            if answer:
                return answer
            raise NodeAway(f"the RPC node {node} closes the connection: it is just ending, or is no RPC node")
        answer += chunk
    return answer


def wait_for_nodes(
    nodes: Sequence[Node], report: Callable[[str], None], sleep: Callable[[float], None] = time.sleep
) -> None:
    """Wait until all nodes answer; `report` gets which do not, and why, whenever that changes. Raise ConfigError."""
    pause, told = _FIRST_PAUSE, ""
    while message := "; ".join(filter(None, map(_why_away, nodes))):
        if message != told:
            log.warning("%s; the model is loaded as soon as all nodes answer", message)
            report(message)
            told = message
        sleep(pause)
        pause = min(2 * pause, _MAX_PAUSE)
    if told:
        log.info("all RPC nodes answer")


def _why_away(node: Node) -> str:
    try:
        greet(node)
    except NodeAway as away:
        return str(away)
    return ""
