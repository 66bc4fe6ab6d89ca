"""The supervisor of several models answers the wishes on its socket, and no worker can harm it."""

from __future__ import annotations

import os
import signal
import socket
import stat
import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest

from srb.models.control import (
    CONTROL_SOCKET,
    MAX_CONTROL_FRAME,
    Done,
    Granted,
    Leave,
    Load,
    Look,
    Models,
    Refused,
    Unload,
    Want,
    decode_event,
    encode,
)
from srb.wire.framing import FrameSocket
from tests.models.random_gguf import write_llama
from tests.process.conftest import MODELS_SUPERVISOR, Start
from tests.process.test_supervisor import supervisor_of
from tests.processes import DEADLINE, PYTHON, Process, children, is_alive, wait_for

MODELS = {"models": "a=fake:,b=fake:", "model": "", "model_seconds": 0}


class Peer:
    """A worker's end of the socket."""

    def __init__(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(DEADLINE)
        self.frames = FrameSocket(self.sock, MAX_CONTROL_FRAME)
        self.states: dict[str, str] = {}

    def send(self, command: Any) -> None:
        self.frames.send(encode(command))

    def next(self) -> Any:
        """Return the next message that is no list of states; note those."""
        while isinstance(event := decode_event(self.frames.receive()), Models):
            self.states = {each["name"]: each["state"] for each in event.models}
        return event

    def is_closed(self) -> bool:
        try:
            while True:
                self.frames.receive()
        except (EOFError, ConnectionError):
            return True

    def until(self, name: str, state: str) -> None:
        while self.states.get(name) != state:
            event = decode_event(self.frames.receive())
            assert isinstance(event, Models), event
            self.states = {each["name"]: each["state"] for each in event.models}


Connect = Callable[[], Peer]


def connected(path: Path) -> Peer | None:
    """Return a connection, or None while nobody listens."""
    peer = Peer()
    try:
        peer.sock.connect(str(path))
    except (FileNotFoundError, ConnectionRefusedError):
        peer.sock.close()
        return None
    return peer


@contextmanager
def connecting(runtime: Path) -> Iterator[Connect]:
    """Connect to the supervisor of a runtime folder; close after the block."""
    with ExitStack() as stack:

        def connect_one() -> Peer:
            peer = wait_for(lambda: connected(runtime / CONTROL_SOCKET), "the supervisor listens")
            stack.callback(peer.frames.close)
            return peer

        yield connect_one


@pytest.fixture
def connect(runtime: Path) -> Iterator[Connect]:
    with connecting(runtime) as connect_one:
        yield connect_one


@pytest.fixture(scope="module")
def supervisor(start_shared: Start) -> Process:
    """A supervisor of two models that the module's tests share, whose user masks nothing; do not end it."""
    before = os.umask(0)
    try:
        return start_shared(*MODELS_SUPERVISOR, **MODELS, max_queue=1, stall_timeout=0)
    finally:
        os.umask(before)


@pytest.fixture
def shared(supervisor: Process, shared_folder: Path) -> Iterator[Connect]:
    """Connect to the shared supervisor, whose first model is loaded and which nobody wishes for anything."""
    with connecting(shared_folder / "run") as connect_one:
        first = connect_one()
        wait_for(lambda: has_wished(first, "a"), "the wishes of the test before are forgotten, and a is loaded")
        yield connect_one


def has_wished(peer: Peer, name: str) -> bool:
    """Wish for a model and leave it at once; return False where there is no room for the wish."""
    peer.send(Want("first", name))
    answer = peer.next()
    peer.send(Leave("first"))
    return bool(answer == Granted("first"))


def supervise(start: Start, **settings: object) -> Process:
    return start(*MODELS_SUPERVISOR, **{**MODELS, **settings})


@pytest.mark.smoke
def test_a_wish_is_granted_when_its_model_is_loaded_and_another_waits_until_it_is_left(
    supervisor: Process, shared: Connect
) -> None:
    one, two = shared(), shared()
    one.send(Want("1", "a"))
    assert one.next() == Granted("1")
    two.send(Want("2", "b"))
    two.until("a", "draining")
    one.send(Leave("1"))
    assert two.next() == Granted("2")
    assert len(children(supervisor.pid)) == 1


def test_a_worker_knows_that_a_model_is_loaded_before_it_is_granted(shared: Connect) -> None:
    one = shared()
    for wish, name in enumerate("ab"):
        one.send(Want(str(wish), name))
        assert one.next() == Granted(str(wish))
        assert one.states[name] == "loaded"
        one.send(Leave(str(wish)))


def test_a_worker_that_goes_leaves_what_it_held_and_wished_for(shared: Connect) -> None:
    one, two = shared(), shared()
    one.send(Want("1", "a"))
    assert one.next() == Granted("1")
    one.send(Want("2", "b"))
    one.until("a", "draining")
    two.until("a", "draining")
    one.frames.close()
    two.until("a", "loaded")
    two.send(Want("3", "a"))
    assert two.next() == Granted("3")


def test_commands_that_make_no_sense_are_refused(shared: Connect) -> None:
    peer = shared()
    peer.send(Want("1", "c"))
    refused = peer.next()
    assert isinstance(refused, Refused)
    assert refused.code == "model_not_found"
    peer.send(Unload("2", "b"))
    assert peer.next().code == "invalid_request"
    peer.until("a", "loaded")
    peer.send(Load("3", "a"))
    assert peer.next().code == "invalid_request"
    peer.send(Look("4"))
    assert peer.next() == Done("4")
    peer.send(Want("5", "a"))
    assert peer.next() == Granted("5")
    peer.send(Want("6", "b"))
    peer.send(Want("7", "b"))
    full = peer.next()
    assert isinstance(full, Refused)
    assert (full.id, full.code) == ("7", "queue_full")
    peer.send(Leave("no such id"))
    peer.send(Leave("5"))
    assert peer.next() == Granted("6")


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\xff\xff\xff\xff", marks=pytest.mark.smoke),
        struct.pack("!i", 2**30),
        struct.pack("!i", 4) + b"nope",
        struct.pack("!i", 2) + b"[]",
        struct.pack("!i", 10) + b'["Want",1]',
        struct.pack("!i", 14) + b'["Want",1,"a"]',
        struct.pack("!i", 10) + b'["Other"]x',
    ],
)
def test_a_malformed_message_ends_only_its_connection(shared: Connect, data: bytes) -> None:
    bad, good = shared(), shared()
    bad.sock.sendall(data)
    assert bad.is_closed()
    good.send(Want("1", "a"))
    assert good.next() == Granted("1")


def test_a_folder_that_vanishes_for_a_while_changes_nothing(start: Start, connect: Connect, tmp_path: Path) -> None:
    folder, away = tmp_path / "models", tmp_path / "away"
    folder.mkdir()
    for name in ("one", "two"):
        (folder / f"{name}.gguf").touch()
    supervise(start, models=folder, model="two")
    peer = connect()

    def look(id_: str) -> Models:
        peer.send(Look(id_))
        found: list[Models] = []
        while not isinstance(event := decode_event(peer.frames.receive()), Done):
            assert isinstance(event, Models)
            found.append(event)
        return found[-1]

    folder.rename(away)
    gone = look("1")
    assert ([each["name"] for each in gone.models], gone.default) == (["one", "two"], "two")
    away.rename(folder)
    (folder / "two.gguf").rename(away)
    assert look("2").default == "one"
    away.rename(folder / "two.gguf")
    assert look("3").default == "two"


def test_only_this_user_may_connect(shared: Connect, shared_folder: Path) -> None:
    shared()
    assert stat.S_IMODE((shared_folder / "run" / CONTROL_SOCKET).stat().st_mode) == 0o600


def test_stopping_it_leaves_no_process_and_no_file(start: Start, connect: Connect, runtime: Path) -> None:
    supervisor = supervise(start, max_engines=2)
    peer = connect()
    for id_, name in (("1", "a"), ("2", "b")):
        peer.send(Want(id_, name))
        assert peer.next() == Granted(id_)
    assert len(children(supervisor.pid)) == 2
    assert supervisor.stop() == 0
    assert not runtime.exists()


def with_free_memory(count: int) -> tuple[str, ...]:
    """Return the command of a supervisor on a machine with so many bytes of free memory."""
    script = f"""
import sys
from srb.models import memory_check, supervisor
memory_check.free_memory = lambda: {count}
sys.exit(supervisor.main())
"""
    return (PYTHON, "-c", script)


def test_a_model_without_room_in_the_memory_is_loaded_when_another_has_given_way(
    start: Start, connect: Connect, tmp_path: Path
) -> None:
    """Three engines are allowed, and beside a fake one that is loaded there is no room for a real model."""
    write_llama(tmp_path / "real.gguf")
    models = f"a=fake:,real={tmp_path}/real.gguf"
    supervisor = start(*with_free_memory(1000), **{**MODELS, "models": models, "n_ctx": 512}, max_engines=3, threads=1)
    peer = connect()
    peer.until("a", "loaded")
    peer.send(Want("1", "real"))
    assert peer.next() == Granted("1")
    peer.until("real", "loaded")
    assert peer.states == {"a": "unloaded", "real": "loaded"}
    wait_for(lambda: "model real needs" in supervisor.logs, "it is logged")
    assert supervisor.logs.count("model real needs") == 1
    assert "are free beside a: one of them gives way first" in supervisor.logs


def test_two_real_models_are_loaded_at_once_where_the_memory_has_room(
    start: Start, connect: Connect, tmp_path: Path
) -> None:
    for name in ("one", "two"):
        write_llama(tmp_path / f"{name}.gguf")
    models = f"{tmp_path}/one.gguf,{tmp_path}/two.gguf"
    supervisor = start(*with_free_memory(2**40), **{**MODELS, "models": models, "n_ctx": 512}, max_engines=2, threads=1)
    peer = connect()
    for id_, name in (("1", "one"), ("2", "two")):
        peer.send(Want(id_, name))
        assert peer.next() == Granted(id_)
        peer.until(name, "loaded")
    assert peer.states == {"one": "loaded", "two": "loaded"}
    assert len(children(supervisor.pid)) == 2


def with_a_gpu(free: int, needed: int) -> tuple[str, ...]:
    """Return the command of a supervisor whose models need so many bytes on a GPU; it tells each question for them."""
    script = f"""
import dataclasses, sys
from srb.models import memory_check, supervisor
from srb.files.native_facts import Device, MemoryUse

class Child(memory_check.EstimateChild):
    def __init__(self, listed, settings):
        super().__init__(listed, settings)
        print("asked for", listed.name, file=sys.stderr, flush=True)

    @property
    def facts(self):
        found = super().facts
        gpu = Device("CUDA0", "a card", "gpu", {free}, 2**33)
        model = dataclasses.replace(found.model, places=MemoryUse(0, {{"CUDA0": {needed}}}))
        return dataclasses.replace(found, build=dataclasses.replace(found.build, devices=(gpu,)), model=model)

supervisor.EstimateChild = Child
sys.exit(supervisor.main())
"""
    return (PYTHON, "-c", script)


def test_a_model_without_room_on_a_gpu_is_loaded_when_another_has_given_way(
    start: Start, connect: Connect, tmp_path: Path
) -> None:
    write_llama(tmp_path / "real.gguf")
    models = f"a=fake:,real={tmp_path}/real.gguf"
    supervisor = start(
        *with_a_gpu(2**30, 2**31), **{**MODELS, "models": models, "n_ctx": 512}, max_engines=3, threads=1
    )
    peer = connect()
    peer.until("a", "loaded")
    peer.send(Want("1", "real"))
    assert peer.next() == Granted("1")
    peer.until("real", "loaded")
    assert peer.states == {"a": "unloaded", "real": "loaded"}
    assert "model real needs 2.00 GiB on CUDA0, and 973 MiB are free there beside a" in supervisor.logs


def test_the_memory_of_a_gpu_is_read_again_after_another_model_has_taken_some(
    start: Start, connect: Connect, tmp_path: Path
) -> None:
    for name in ("one", "two"):
        write_llama(tmp_path / f"{name}.gguf")
    models = f"a=fake:,{tmp_path}/one.gguf,{tmp_path}/two.gguf"
    supervisor = start(
        *with_a_gpu(2**32, 2**30), **{**MODELS, "models": models, "n_ctx": 512}, max_engines=3, threads=1
    )
    peer = connect()
    peer.until("a", "loaded")
    for id_, name in (("1", "one"), ("2", "two")):
        peer.send(Want(id_, name))
    assert {peer.next(), peer.next()} == {Granted("1"), Granted("2")}
    for name in ("a", "one", "two"):
        peer.until(name, "loaded")
    wait_for(lambda: supervisor.logs.count("asked for") >= 3, "each load is logged")
    assert supervisor.logs.count("asked for") == 3


def test_a_model_whose_memory_is_being_asked_for_may_be_unloaded(
    start: Start, connect: Connect, tmp_path: Path
) -> None:
    write_llama(tmp_path / "real.gguf")
    models = f"a=fake:,real={tmp_path}/real.gguf"
    supervisor = start(*with_free_memory(2**40), **{**MODELS, "models": models, "n_ctx": 512}, max_engines=2, threads=1)
    peer = connect()
    peer.until("a", "loaded")
    peer.send(Load("1", "real"))
    assert peer.next() == Done("1")
    peer.until("real", "loading")
    peer.send(Unload("2", "real"))
    assert peer.next() == Done("2")
    peer.until("real", "unloaded")
    wait_for(lambda: len(children(supervisor.pid)) == 1, "only the first engine is left")


def test_workers_are_answered_while_an_engine_that_shall_end_does_not_say_whether_it_writes(
    supervisor: Process, shared: Connect
) -> None:
    peer = shared()
    peer.until("a", "loaded")
    [engine] = children(supervisor.pid)
    os.kill(engine, signal.SIGSTOP)
    try:
        peer.send(Want("1", "b"))
        peer.until("a", "ending")
        for number in range(200):  # at half a second for each question they would take minutes
            peer.send(Look(f"look {number}"))
            assert peer.next() == Done(f"look {number}")
        assert peer.states["a"] == "ending"
    finally:
        os.kill(engine, signal.SIGCONT)
    assert peer.next() == Granted("1")


def test_workers_are_answered_while_an_engine_that_hangs_does_not_end(start: Start, connect: Connect) -> None:
    deaf = """
    import signal
    signal.signal(signal.SIGABRT, signal.SIG_IGN)
    model = FakeModel()
    """
    supervisor = start(PYTHON, "-c", supervisor_of(deaf, "srb.models"), **MODELS, stall_timeout=2)
    peer = connect()
    peer.until("a", "loaded")
    [engine] = children(supervisor.pid)
    os.kill(engine, signal.SIGSTOP)
    wait_for(lambda: "hangs and is aborted" in supervisor.logs, "the engine is aborted")
    for number in range(3):
        peer.send(Look(f"look {number}"))
        assert peer.next() == Done(f"look {number}")
    assert is_alive(engine)  # it is killed only after a while
    wait_for(lambda: not is_alive(engine), "it is killed")
    peer.until("a", "loading")
    peer.send(Want("1", "a"))
    assert peer.next() == Granted("1")


def test_a_socket_that_cannot_listen_is_told_as_what_it_is(start: Start) -> None:
    supervisor = start(PYTHON, "-c", """if True:
        import sys
        from srb.models import supervisor
        def listen(path):
            raise OSError(98, "Address already in use")
        supervisor.listen = listen
        sys.exit(supervisor.main([]))
    """, **MODELS)  # fmt: skip
    assert supervisor.wait() == 1
    assert "Address already in use" in supervisor.logs
    assert "AttributeError" not in supervisor.logs


@pytest.mark.parametrize("size", [17_000, 60_000])
def test_workers_are_told_of_many_models_with_chat_templates_of_their_own(
    start: Start, connect: Connect, tmp_path: Path, size: int
) -> None:
    tables = [{"name": f"m{place}", "model": "fake:", "chat_template": "x" * size} for place in range(64)]
    config = tmp_path / "srb.toml"
    config.write_text(f"models = {orjson.dumps(orjson.dumps(tables).decode()).decode()}")
    start(*MODELS_SUPERVISOR, config=config, model="")
    peer = connect()
    peer.until("m0", "loaded")
    assert len(peer.states) == 64
