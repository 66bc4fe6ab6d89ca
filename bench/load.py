"""Load by many clients: the time to each client's first token, and the time between two reads with new tokens.

One thread serves all clients with a selector, and searches bytes instead of parsing: it shares the cores with the server.
"""

from __future__ import annotations

import selectors
import socket
import statistics
import sys
import time
from dataclasses import dataclass, field
from typing import Any

import orjson

from bench.scenarios import Target
from srb.bench.client import post

SILENCE_SECONDS = 120.0  # without data from any client, after which the run ends
_PROMPT = "the old king said to the girl in the boat that the sea was grey and the night was long"
_COLUMNS = ("server", 7), ("clients", 8), ("n", 3), ("done", 5), ("s", 7), ("tok/s", 7)
_TIMES = ("first p50", 10), ("p99", 9), ("gap p50", 9), ("p99", 9)
HEAD = " ".join(f"{name:>{width}}" for name, width in (*_COLUMNS, *_TIMES))


@dataclass
class _Client:
    sock: socket.socket
    began: float
    received: bytearray = field(default_factory=bytearray)
    arrivals: list[float] = field(default_factory=list)  # of reads with text in them

    @property
    def is_complete(self) -> bool:
        return (
            b" 200 " in self.received[:16] and self.received.endswith(b"0\r\n\r\n") and b'"error"' not in self.received
        )


def run(target: Target, clients: int, n: int, tokens: int) -> dict[str, Any]:
    """Run `clients` streams of n branches and `tokens` tokens at once; return counts, and seconds by percentile."""
    waiting: dict[socket.socket, _Client] = {}
    everyone = []
    began = time.perf_counter()
    with selectors.DefaultSelector() as selector:
        for number in range(clients):
            client = _connect(target, number, n, tokens)
            everyone.append(client)
            waiting[client.sock] = client
            selector.register(client.sock, selectors.EVENT_READ)
        while waiting and (ready := selector.select(SILENCE_SECONDS)):
            for key, _ in ready:
                client = waiting[key.fileobj]  # type: ignore[index]
                if not _read(client):
                    selector.unregister(client.sock)
                    del waiting[client.sock]
    seconds = time.perf_counter() - began
    for client in everyone:
        client.sock.close()
    firsts = [client.arrivals[0] - client.began for client in everyone if client.arrivals]
    gaps = [
        later - earlier
        for client in everyone
        for earlier, later in zip(client.arrivals, client.arrivals[1:], strict=False)
    ]
    failed = [client for client in everyone if not client.is_complete]
    if failed:
        print(
            f"{len(failed)} of {clients} clients failed; the first got: {bytes(failed[0].received[:300])!r}",
            file=sys.stderr,
        )
    complete = clients - len(failed)
    return {
        "server": target.name, "clients": clients, "n": n, "complete": complete, "seconds": seconds,
        "tokens_per_second": complete * n * tokens / seconds,
        "first_p50": _percentile(firsts, 50), "first_p99": _percentile(firsts, 99),
        "gap_p50": _percentile(gaps, 50), "gap_p99": _percentile(gaps, 99),
    }  # fmt: skip


def line(row: dict[str, Any]) -> str:
    """Return the result of a run as a line of the table, with times in milliseconds."""
    names = ("first_p50", "first_p99", "gap_p50", "gap_p99")
    times = " ".join(f"{row[name] * 1000:>{width}.0f}" for name, (_, width) in zip(names, _TIMES, strict=True))
    return (
        f"{row['server']:>7} {row['clients']:>8} {row['n']:>3} {row['complete']:>5} {row['seconds']:>7.1f}"
        f" {row['tokens_per_second']:>7.0f} {times}"
    )


def _connect(target: Target, number: int, n: int, tokens: int) -> _Client:
    prompt = f"In the year {number} {_PROMPT}"
    body = {
        "prompt": prompt, "n_predict": tokens, "seed": number, "ignore_eos": True, "stream": True, "n_cmpl": n,
    }  # fmt: skip
    data = orjson.dumps(body)
    began = time.perf_counter()
    return _Client(post(target.url, target.path, data, SILENCE_SECONDS), began)


def _read(client: _Client) -> bool:
    """Read the received bytes; return whether more may follow."""
    try:
        data = client.sock.recv(65536)
    except OSError:
        return False
    client.received += data
    if b'"text"' in data or b'"content"' in data:
        client.arrivals.append(time.perf_counter())
    return bool(data) and not client.received.endswith(b"0\r\n\r\n")


def _percentile(values: list[float], percent: int) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1] if len(values) > 1 else float("nan")
