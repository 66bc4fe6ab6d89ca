"""The tokens that one bridge passes on in a second of CPU time, without web workers and engines.

`python -m bench.bridge` runs a bridge between two processes: a feeder in the place of two replicas, which writes frames of
one token for each branch as fast as they are taken, and a reader in the place of a web worker, which drops them.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import socket
import tempfile
import time
from pathlib import Path
from typing import Any

from srb.cluster.bridge import Bridge
from srb.cluster.door import TOKEN_LENGTH
from srb.cluster.members_file import MembersFile
from srb.cluster.registry import Entry
from srb.config.settings import SOCKET_NAME
from srb.wire.codec import VERSION, decode, encode
from srb.wire.commands import BranchSpec, Generate
from srb.wire.events import Accepted, BranchEnded, Delta, Done, Hello, PromptDone, Ready
from srb.wire.framing import FrameSocket, frame, read_frame

_SEQUENCES = 64  # of each replica: a request with more branches is divided
_PROMPT = ("A story that begins here. " * 10,)


class _NoReports:
    def report_state(self, state: str, message: str = "", percent: int | None = None) -> None:
        pass

    def beat(self) -> None:
        pass


def _feed(ports: Any, steps: int) -> None:
    """Be two replicas: answer each request with `steps` frames."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(TOKEN_LENGTH)
        writer.write(frame(encode([Hello(VERSION, 1), Ready({"n_seq_max": _SEQUENCES})])))
        try:
            while True:
                for command in decode(await read_frame(reader)):
                    if isinstance(command, Generate):
                        await answer(writer, command)
        except (EOFError, OSError):
            writer.close()

    async def answer(writer: asyncio.StreamWriter, command: Generate) -> None:
        name = command.request_id
        writer.write(frame(encode([Accepted(name, 60), PromptDone(name, 0, 0, 1.0, [0] * len(command.branches))])))
        step = frame(encode([Delta(name, index, " word", [17]) for index in range(len(command.branches))]))
        for _ in range(steps):
            writer.write(step)
            await writer.drain()
        writer.write(frame(encode([BranchEnded(name, i, "limit", steps) for i in range(len(command.branches))])))
        writer.write(frame(encode([Done(name, 60, 0, steps * len(command.branches), 1.0, 1.0)])))

    async def serve() -> None:
        servers = [await asyncio.start_server(connected, "127.0.0.1", 0) for _ in range(2)]
        ports.put([server.sockets[0].getsockname()[1] for server in servers])
        await asyncio.gather(*(server.serve_forever() for server in servers))

    asyncio.run(serve())


def _read(path: str, n: int, ended: Any) -> None:
    """Be a web worker: send a request of `n` branches, and read until it is done."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.connect(path)
        frames = FrameSocket(sock)
        frames.send(encode([Generate("bench", _PROMPT, tuple(BranchSpec(seed) for seed in range(n)))]))
        done = encode([Done("bench", 0, 0, 0, 0.0, 0.0)])[:4]  # its tag
        while done not in frames.receive():
            pass
        ended.put(True)


async def _measure(ports: list[int], n: int, steps: int) -> tuple[float, float]:
    """Return the tokens for each second of the bridge's CPU time, and for each second that passed."""
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        file = MembersFile(Path(folder), "")
        bridge = Bridge(_NoReports(), "", file)  # type: ignore[arg-type]  # as much of a Reporter as is used
        path = str(Path(folder) / SOCKET_NAME)
        server = await asyncio.start_unix_server(bridge.connected, path)
        entry = {"host": "127.0.0.1", "token": "t" * TOKEN_LENGTH, "node": "n", "gpus": [], "state": "running"}
        bridge.members.update({f"r{port}": Entry(**entry, port=port, alias="", pid=1) for port in ports})  # type: ignore[typeddict-item]
        while len(bridge.members.ready) < len(ports):
            await asyncio.sleep(0.01)
        ended = context.Queue()
        reader = context.Process(target=_read, args=(path, n, ended))
        reader.start()
        while not any(relay._open for relay in bridge._relays):
            await asyncio.sleep(0.001)
        began, cpu = time.perf_counter(), time.thread_time()
        await asyncio.to_thread(ended.get)
        cpu, passed = time.thread_time() - cpu, time.perf_counter() - began
        server.close()
        bridge.members.close()
        reader.join()
    return n * steps / cpu, n * steps / passed


def main() -> None:
    """Print a row for each number of branches."""
    parser = argparse.ArgumentParser(prog="python -m bench.bridge", description=__doc__)
    parser.add_argument("--steps", type=int, default=5000, help="tokens of each branch (default: 5000)")
    parser.add_argument("--n", default="1,8,32,128", help="numbers of branches (default: 1,8,32,128)")
    asked = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    ports = context.Queue()
    feeder = context.Process(target=_feed, args=(ports, asked.steps), daemon=True)
    feeder.start()
    at = ports.get()
    print("branches  tokens per CPU second  tokens per second")
    for n in map(int, asked.n.split(",")):
        of_cpu, of_time = asyncio.run(_measure(at, n, asked.steps))
        divided = ", divided between two replicas" if n > _SEQUENCES else ""
        print(f"{n:8}  {of_cpu:21,.0f}  {of_time:17,.0f}{divided}", flush=True)
    feeder.terminate()


if __name__ == "__main__":
    main()
