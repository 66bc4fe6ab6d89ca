"""A streaming client that uses little CPU, since it shares the cores with the server: it parses no JSON."""

from __future__ import annotations

import socket
import time
from urllib.parse import urlsplit

import orjson

from bench.work import Measure, Work

TIMEOUT_SECONDS = 600


def run(base_url: str, work: Work) -> Measure:
    """Stream one completion in the srb dialect and time it."""
    body = {
        "prompt": work.prompt,
        "n": work.n,
        "max_tokens": work.tokens,
        "seed": 0,
        "ignore_eos": True,
        "cache_prompt": False,  # the raw loop computes its prompt each time too
    }
    began = time.perf_counter()
    first = 0.0
    received = bytearray()
    with post(base_url, "/v1/srb/completions", orjson.dumps(body)) as sock:
        while chunk := sock.recv(65536):
            received += chunk
            if not first and b'"stream"' in received:
                first = time.perf_counter()
            if b'"done"' in chunk or received.endswith(b"0\r\n\r\n"):
                break
    ended = time.perf_counter()
    if b" 200 " not in received[:20] or not first:
        raise RuntimeError(f"the server answered {received[:400].decode(errors='replace')}")
    produced = sum(
        int(line.split(b'"length":')[1].split(b",")[0]) for line in received.split(b"\n") if b'"length":' in line
    )
    if produced != work.n * work.tokens:
        raise RuntimeError(f"the answer has {produced} tokens instead of {work.n * work.tokens}")
    return Measure(produced / (ended - began), first - began)


def post(
    base_url: str, path: str, body: bytes, timeout: float = TIMEOUT_SECONDS, method: str = "POST"
) -> socket.socket:
    """Send a request and return the socket of the answer; `timeout`, in seconds, applies to each wait."""
    parts = urlsplit(base_url)
    sock = socket.create_connection((parts.hostname or "127.0.0.1", parts.port or 80), timeout)
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: {parts.netloc}\r\nContent-Type: application/json\r\nConnection: close\r\n"
    )
    sock.sendall(head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body)
    return sock
