"""A streaming client that uses little CPU, since it shares the cores with the server: it parses no JSON in a stream."""

import re
import socket
import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import orjson


@dataclass(frozen=True)
class Work:
    """One request: `n` branches of `tokens` tokens each, after `prompt`; end of text is ignored."""

    prompt: str
    n: int
    tokens: int
    cache_prompt: bool = False


@dataclass(frozen=True)
class Measure:
    """The tokens of all branches, and seconds from the request to its first token and to its last."""

    tokens: int
    seconds: float
    first_token: float
    prompt_tokens: int = 0

    @property
    def tokens_per_second(self) -> float:
        return self.tokens / self.seconds


TIMEOUT_SECONDS = 600  # for each read: a prompt on a slow core takes minutes before its first token
_LENGTH = re.compile(rb'"length":(\d+)')
_PROMPT_TOKENS = re.compile(rb'"prompt_tokens":(\d+)')


class BenchFailed(Exception):
    """The server refused a request, or answered with another number of tokens; the message is one line."""


@dataclass(frozen=True)
class Server:
    """A server to measure: its URL, with a path if its routes have a prefix, and a key if it asks for one."""

    url: str
    key: str = ""

    def describe(self) -> dict[str, Any]:
        """Return the answer of GET /v1/srb/server: the model, its context, the limits of requests."""
        with post(self.url, "/v1/srb/server", b"", method="GET", key=self.key) as sock:
            answer = b"".join(iter(lambda: sock.recv(65536), b""))
        head, _, body = answer.partition(b"\r\n\r\n")
        if b" 200 " not in head[:20]:
            raise BenchFailed(f"{self.url} is not an SRB server that is ready: {_one_line(answer)}")
        description: dict[str, Any] = orjson.loads(body[body.index(b"{") : body.rindex(b"}") + 1])  # chunked or not
        return description

    def run(self, work: Work) -> Measure:
        """Stream one completion in the srb dialect and time it."""
        return run(self.url, work, self.key)


def run(base_url: str, work: Work, key: str = "") -> Measure:
    """Stream one completion in the srb dialect and time it. Raise BenchFailed unless all its tokens arrive."""
    body = {
        "prompt": work.prompt,
        "n": work.n,
        "max_tokens": work.tokens,
        "seed": 0,
        "ignore_eos": True,
        "cache_prompt": work.cache_prompt,
    }
    began = time.perf_counter()
    first = 0.0
    received = bytearray()
    with post(base_url, "/v1/srb/completions", orjson.dumps(body), key=key) as sock:
        while chunk := sock.recv(65536):
            received += chunk
            if not first and b'"stream"' in received:
                first = time.perf_counter()
            if b'"done"' in chunk or received.endswith(b"0\r\n\r\n"):
                break
    ended = time.perf_counter()
    if b" 200 " not in received[:20] or not first:
        raise BenchFailed(f"the server answered {_one_line(received)}")
    produced = sum(map(int, _LENGTH.findall(received)))
    if produced != work.n * work.tokens:
        raise BenchFailed(f"the answer has {produced} tokens instead of {work.n * work.tokens}")
    prompt = _PROMPT_TOKENS.search(received)
    return Measure(produced, ended - began, first - began, int(prompt[1]) if prompt else 0)


def post(
    base_url: str, path: str, body: bytes, timeout: float = TIMEOUT_SECONDS, method: str = "POST", key: str = ""
) -> socket.socket:
    """Send a request and return the socket of the answer; `timeout`, in seconds, applies to each wait."""
    parts = urlsplit(base_url)
    sock = socket.create_connection((parts.hostname or "127.0.0.1", parts.port or 80), timeout)
    path = parts.path.rstrip("/") + path
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: {parts.netloc}\r\nContent-Type: application/json\r\nConnection: close\r\n"
    )
    if key:
        head += f"Authorization: Bearer {key}\r\n"
    sock.sendall(head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body)
    return sock


def _one_line(answer: bytes | bytearray) -> str:
    """Return the status and the beginning of an answer."""
    head, _, body = bytes(answer).decode("utf-8", "replace").partition("\r\n\r\n")
    return " ".join(f"{head.splitlines()[0] if head else 'nothing'} {body[:300]}".split())
