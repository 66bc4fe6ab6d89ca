"""Walks of both supervisors on a machine short of anything: none ends them, and none is lost, kept or started twice."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srb.config.settings import SOCKET_NAME, Settings
from srb.errors import ModelLoadFailed
from srb.exit_codes import EXIT_CONFIG, EXIT_MODEL
from srb.models import memory_check
from srb.models.control import (
    CONTROL_SOCKET,
    MAX_CONTROL_FRAME,
    Command,
    Granted,
    Leave,
    Load,
    Look,
    Refused,
    Unload,
    Want,
    decode_event,
    encode,
)
from srb.models.supervisor import ModelsSupervisor
from srb.process.supervisor import Supervisor
from srb.status import read_status
from srb.wire.codec import VERSION
from srb.wire.codec import encode as encode_events
from srb.wire.events import Hello, Reply
from srb.wire.framing import Unframer, frame
from tests.short_machine import SHORTAGES, FakeProcess, ShortMachine, open_descriptors
from tests.unit.test_memory_check import facts
from tests.walks import examples

STATUSES = [0, 1, EXIT_CONFIG, EXIT_MODEL, 4, 5, -signal.SIGKILL, -signal.SIGABRT, -signal.SIGSEGV, -signal.SIGTERM]
CRASHES = (-signal.SIGABRT, -signal.SIGSEGV)  # of STATUSES
GARBAGE = [b"{", b"[]", b"1", b'{"state": 1, "message": ""}', b'{"state": "running"}', b"\xff\xfe", b'"running"']
BEHAVIOUR = [
    "loads",
    "loads",
    "runs",
    "runs",
    "runs",
    "hangs",
    "beats",
    "beats",
    "babbles",
    "is deaf",
    "leaves",
    "exits",
    "exits",
]
WORLD = ["passes", "passes", "short", "short", "full", "read-only", "plenty", "stops"]
WORKERS = [
    "connects",
    "wants",
    "wants",
    "wants",
    "leaves it",
    "commands",
    "dies",
    "nonsense",
    "tells",
    "crowded",
    "answers",
]
STALL_SECONDS = 5
SILENT = ("hung", "the engine sends no heartbeat")  # the state and message of an engine that says nothing
MOST = 2  # engines at once

Script = list[tuple[str, int]]


def scripts(events: list[str], size: int) -> st.SearchStrategy[Script]:
    """Return strategies of what happens, each with a number that says to whom or how."""
    return st.lists(st.tuples(st.sampled_from(events), st.integers(0, 59)), max_size=size)


class ScriptedMachine(ShortMachine):
    """A machine on which a script happens; after it, `settle` is called until it says that all is done, then SIGTERM."""

    def __init__(self, folder: Path, script: Script) -> None:
        super().__init__(folder)
        self.script = script[::-1]
        self.is_told = False  # to stop
        self.turns_left = 2000
        self.passed_at = 0.0  # the end of the last time in which the supervisor had no turn

    def act(self) -> None:
        self.check()
        if self.is_told:
            return
        if self.script:
            event, number = self.script.pop()
            self.happen(event, number)
        elif self.settle():
            self.stop()

    def stop(self) -> None:
        self.is_told = True
        super().stop()

    def check(self) -> None:
        """Check what holds whenever the supervisor waits."""
        self.turns_left -= 1
        assert self.turns_left, "it is busy without end"

    def settle(self) -> bool:
        return True

    def close(self) -> None:
        """Close what is the test's own."""

    def happen(self, event: str, number: int) -> None:
        match event:
            case "passes":
                self.now += [0.05, 0.3, 1.0, 24.77, 31.0][number % 5]
                self.passed_at = self.now
            case "short":
                self.number_of_error = number // 20
                self.short[SHORTAGES[number % len(SHORTAGES)]] = 1 + number // 12
            case "full":
                self.is_full = True
            case "read-only":
                self.is_read_only = True
            case "plenty":
                self.plenty()
            case "stops":
                if number < 20:  # or no script were long
                    self.stop()
            case _ if engines := [each for each in self.living if each.status is None and each.stdout is None]:
                self.behave(engines[number % len(engines)], event, number)

    def behave(self, process: FakeProcess, event: str, number: int) -> None:
        """Let an engine do something."""
        match event:
            case "loads" if not process.has_beaten:
                process.say("starting", f"{number} %")
            case "runs":
                self.run(process)
            case "hangs":
                process.say("hung", f"a step takes longer than {number} s")
            case "beats" if process.reported is not None:
                process.report(b"")
            case "babbles" if process.reported is not None:
                process.report(GARBAGE[number % len(GARBAGE)])
            case "is deaf":
                process.is_deaf = True
            case "leaves":
                process.close_pipes()
            case "exits":
                process.exit(STATUSES[number % len(STATUSES)])

    def run(self, process: FakeProcess) -> None:
        process.say("running")

    def while_waited_for(self, process: FakeProcess) -> None:
        if self.script and self.script[-1][0] == "stops":
            self.stop()


def walk(
    make: Callable[[Path], ScriptedMachine], supervise: Callable[[Settings], Any], **given: Any
) -> ScriptedMachine:
    """Run a supervisor to its end, and check that it has left nothing."""
    with tempfile.TemporaryDirectory(prefix="srb") as name:
        folder = Path(name) / "run"
        machine = make(folder)
        chosen = Settings(runtime_dir=str(folder), stall_timeout=STALL_SECONDS, **given)
        before = open_descriptors()
        try:
            with machine.around(lambda: supervise(chosen)) as supervisor:
                assert supervisor.run() == 0
                assert machine.is_told
                assert all(each.returncode is not None for each in machine.processes), "an engine is left"
        finally:
            machine.close()
        assert open_descriptors() == before
        if not machine.is_full and not machine.is_read_only:
            assert not folder.exists()
        return machine


def says_of_silence(process: FakeProcess, found: dict[str, Any]) -> bool:
    """Whether a status tells of an engine's silence."""
    return (found["state"], found["message"]) == SILENT and process.quiet >= 3


# One engine -------------------------------------------------------------------------------------------------------------


class OneEngine(ScriptedMachine):
    """A machine with one engine at a time, whose next start is expected when the last one has ended."""

    def __init__(self, folder: Path, script: Script) -> None:
        super().__init__(folder, script)
        self.delay = 0.1  # before the next start
        self.crashes = 0
        self.starts_at: float | None = self.now  # None: while one runs, and when another start would not help
        self.ready_at: float | None = None
        self.is_good = True  # the disk
        self.says: tuple[str, str] | None = None  # status.json, while no engine has reported; None: that is not known

    def note_start(self, name: str) -> None:
        assert not self.is_told
        assert self.starts_at is not None, "an engine is started where none should be"
        assert self.starts_at - 1e-3 <= self.now <= max(self.starts_at, self.passed_at) + 1e-3
        assert not self.living
        self.starts_at = self.ready_at = None

    def note_no_start(self, name: str) -> None:
        self.note_pause(0.0, "the engine cannot be started: ")

    def note_pause(self, healthy: float, reason: str) -> None:
        if healthy >= 30:
            self.delay = 0.1
        self.starts_at, self.delay = self.now + self.delay, min(self.delay * 2, 10.0)
        self.says = ("restarting", reason)

    def note_end(self, process: FakeProcess) -> None:
        if self.is_told:
            return
        is_final = process.status in (EXIT_MODEL, EXIT_CONFIG)
        self.crashes = self.crashes + 1 if process.status in CRASHES and self.ready_at is None else 0
        if self.crashes == 3:
            self.says = ("failed", "the model cannot be loaded: ")
        elif not is_final:
            self.note_pause(self.now - self.ready_at if self.ready_at is not None else 0.0, "the engine exited (")
        else:
            self.says = process.reported if process.quiet < 3 else None  # as it was when it fell silent

    def run(self, process: FakeProcess) -> None:
        super().run(process)
        if self.ready_at is None and process.pipes:
            self.ready_at = self.now

    def check(self) -> None:
        super().check()
        if self.is_told:
            return
        engines = self.living
        for each in engines:
            each.quiet += 1
        was_good, self.is_good = self.is_good, not self.is_full and not self.is_read_only
        if not self.is_good or not was_good:  # it is written again in the first second with room
            return
        if engines:
            self.says = engines[0].reported or self.says
            assert engines[0].quiet <= STALL_SECONDS + 1 or not engines[0].has_beaten, "it hangs and is not ended"
        if self.says is not None:
            found = read_status(self.folder, is_connected=True)
            is_as_said = found["state"] == self.says[0] and found["message"].startswith(self.says[1])
            assert is_as_said or any(says_of_silence(each, found) for each in engines), found

    def settle(self) -> bool:
        self.plenty()
        if not self.living:
            return self.starts_at is None
        [engine] = self.living
        if engine.reported is not None and engine.reported[0] == "running":
            return True
        self.run(engine)
        return False


@settings(max_examples=examples(150), deadline=None)
@given(script=scripts(BEHAVIOUR + WORLD, 60))
def test_one_engine_after_another_is_started_when_it_is_due_whatever_the_machine_lacks(script: Script) -> None:
    walk(lambda folder: OneEngine(folder, script), lambda chosen: Supervisor(chosen, "http://here"), model="fake:")


# Several models ---------------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class Peer:
    """A worker's end of the control socket."""

    sock: socket.socket
    unframer: Unframer = field(default_factory=lambda: Unframer(MAX_CONTROL_FRAME))
    wishes: dict[str, str] = field(
        default_factory=dict
    )  # models by the ids of wishes that are neither answered nor left
    granted: list[str] = field(default_factory=list)
    is_known: bool = False  # it was told of the models
    is_bad: bool = False  # it has sent nonsense

    def send(self, command: Command) -> None:
        self.sock.send(frame(encode(command)))


class SeveralModels(ScriptedMachine):
    """A machine whose workers wish for models, of which two may be there at once."""

    def __init__(self, folder: Path, script: Script) -> None:
        super().__init__(folder, script)
        self.free = 2**40  # bytes of memory
        self.peers: list[Peer] = []
        self.answers: Counter[str] = Counter()
        self.wished: dict[str, str] = {}  # every model by the id of its wish
        self.ends: Counter[str] = Counter()
        self.finals: set[str] = set()
        self.pauses: Counter[str] = Counter()  # starts that failed, in a row
        self.paused_at: dict[str, float] = {}
        self.is_good = True  # the disk
        self.good_at = 0.0  # from then on all is written that there was no room for

    # Engines

    def note_start(self, name: str) -> None:
        assert len(self.living) < MOST, "too many engines"
        if count := self.pauses[name]:
            assert self.now >= self.paused_at[name] + min(0.1 * 2 ** (count - 1), 10.0) - 1e-3

    def note_no_start(self, name: str) -> None:
        self.pauses[name] += 1
        self.paused_at[name] = self.now

    def popen(self, *options: Any, **named: Any) -> FakeProcess:
        process = super().popen(*options, **named)
        if not self.short["thread"]:
            self.pauses[process.environ["SRB_ALIAS"]] = 0
        return process

    def popen_printing(self, *options: Any, **named: Any) -> FakeProcess:
        assert len(self.living) < MOST, "too many engines"
        return super().popen_printing(*options, **named)

    def note_end(self, process: FakeProcess) -> None:
        name = process.environ["SRB_ALIAS"]
        self.ends[name] += process.stdout is None
        if process.stdout is None and process.status in (EXIT_MODEL, EXIT_CONFIG):
            self.finals.add(name)

    def run(self, process: FakeProcess) -> None:
        super().run(process)
        process.listen(Path(process.environ["SRB_RUNTIME_DIR"]) / SOCKET_NAME)

    def answer(self, process: FakeProcess, *, is_writing: bool) -> None:
        """Let an engine answer those that ask whether requests run."""
        stats = {"requests_processing": int(is_writing), "requests_deferred": 0, "requests_last": 0}
        while process.listener is not None and process.status is None:
            try:
                asking, _ = process.listener.accept()
            except BlockingIOError:
                return
            with contextlib.suppress(ConnectionError):  # it waits no longer
                asking.sendall(frame(encode_events([Hello(VERSION, 1, "")])))
                asking.sendall(frame(encode_events([Reply("supervisor", stats)])))
            asking.close()

    # What happens

    def happen(self, event: str, number: int) -> None:
        peers = [peer for peer in self.peers if not peer.is_bad]
        peer = peers[number % len(peers)] if peers else None
        name, id_ = "abc"[number % 3], f"wish {len(self.wished)}"
        match event:
            case "connects":
                sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                sock.connect(str(self.folder / CONTROL_SOCKET))
                sock.setblocking(False)
                self.peers.append(Peer(sock))
            case "tells":
                for estimate in [each for each in self.living if each.stdout is not None and each.status is None]:
                    os.write(estimate.pipes[0], orjson.dumps(facts()) if number % 3 else b"{")
                    estimate.exit(0)
            case "crowded":
                self.free = 2**31 if number % 2 else 2**40
            case "answers":
                for process in self.living:
                    self.answer(process, is_writing=bool(number % 2))
            case "wants" | "leaves it" | "commands" | "dies" | "nonsense" if peer is not None:
                self.speak(peer, event, number, name, id_)
            case _:
                super().happen(event, number)

    def speak(self, peer: Peer, event: str, number: int, name: str, id_: str) -> None:
        """Let a worker say something."""
        match event:
            case "wants":
                self.wished[id_] = peer.wishes[id_] = name
                peer.send(Want(id_, name))
            case "leaves it":
                left = [*peer.wishes, *peer.granted]
                if left:
                    self.leave(peer, left[number % len(left)])
            case "commands":
                peer.send(
                    [Load("load", name), Unload("unload", name), Look("look"), Want("none", "no such")][number % 4]
                )
            case "dies":
                self.peers.remove(peer)
                peer.sock.close()
            case "nonsense":
                peer.is_bad = True
                peer.sock.send(b"\xff\xff\xff\xff")

    def leave(self, peer: Peer, id_: str) -> None:
        peer.wishes.pop(id_, None)
        if id_ in peer.granted:
            peer.granted.remove(id_)
        peer.send(Leave(id_))

    # What holds

    def check(self) -> None:
        super().check()
        for peer in self.peers:
            self.read(peer)
        for process in self.living:
            process.quiet += 1
        if self.is_told:
            return
        was_good, self.is_good = self.is_good, not self.is_full and not self.is_read_only
        if not self.is_good or self.now < self.good_at:
            self.good_at = self.good_at if self.is_good and was_good else self.now + 1.1
            return
        for process in self.living:
            if process.reported is not None and process.pipes:
                found = read_status(Path(process.environ["SRB_RUNTIME_DIR"]), is_connected=True)
                assert (found["state"], found["message"]) == process.reported or says_of_silence(process, found), found
        assert read_status(self.folder, is_connected=True)["state"] in ("starting", "running", "failed")

    def read(self, peer: Peer) -> None:
        try:
            data = peer.sock.recv(2**20)
        except BlockingIOError:
            return
        except ConnectionResetError:
            data = b""
        assert data or peer.is_bad or self.is_told, "a worker was disconnected"
        for payload in peer.unframer.feed(data):
            event = decode_event(payload)
            peer.is_known = True
            if isinstance(event, Granted | Refused) and event.id in self.wished:
                self.answers[event.id] += 1
                assert self.answers[event.id] == 1, "a wish is answered twice"
                if peer.wishes.pop(event.id, None) and isinstance(event, Granted):
                    peer.granted.append(event.id)
                if isinstance(event, Refused) and event.code == ModelLoadFailed.code:
                    name = self.wished[event.id]
                    assert "cannot be started" not in event.message, (
                        "a machine's shortage is taken for the model's fault"
                    )
                    assert name in self.finals or self.ends[name] >= 3

    def settle(self) -> bool:
        """Let everything go well until each wish is answered."""
        self.plenty()
        self.free = 2**40
        self.now += 0.05  # also where there is always something to be read
        self.happen("tells", 1)
        for process in [each for each in self.living if each.status is None and each.stdout is None]:
            process.is_deaf = False
            if not process.pipes:
                process.exit(1)
            elif process.reported is None or process.reported[0] != "running":
                self.run(process)
            else:
                process.report(b"")
                self.answer(process, is_writing=False)
        good = [peer for peer in self.peers if not peer.is_bad]
        for peer in good:
            for id_ in list(peer.granted):
                self.leave(peer, id_)
        return all(peer.is_known and not peer.wishes for peer in good)

    def close(self) -> None:
        for peer in self.peers:
            peer.sock.close()


@settings(max_examples=examples(150), deadline=None)
@given(script=scripts(BEHAVIOUR + WORLD + WORKERS, 80))
def test_every_wish_is_answered_once_whatever_the_machine_lacks(script: Script) -> None:
    def make(folder: Path) -> SeveralModels:
        machine = SeveralModels(folder, [("connects", 0), *script])
        patch.setattr(memory_check, "free_memory", lambda: machine.free)
        return machine

    with pytest.MonkeyPatch.context() as patch:
        models = {"models": "a=fake:,b=fake:,c=/nowhere/c.gguf", "model": "", "model_seconds": 1}
        walk(make, lambda chosen: ModelsSupervisor(chosen, "http://here"), **models, max_engines=MOST, max_queue=4)
