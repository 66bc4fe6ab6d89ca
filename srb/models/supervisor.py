"""The supervisor of several models: it starts and ends their engines in turns, and serves the wishes of web workers.

`ModelScheduler` decides; this module starts and signals processes, reads their reports, and answers on the control socket.
One thread waits for all of them at once and is never kept waiting by one. Of two supervisors in one runtime folder, while a
new server takes over an old one's sockets, the second begins when the first has ended.
"""

import contextlib
import logging
import math
import os
import select
import signal
import socket
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from srb.config.settings import SERVER_ID_VARIABLE, SOCKET_NAME, Settings
from srb.errors import (
    ConfigError,
    InvalidRequest,
    MachineError,
    ModelLoadFailed,
    ModelNotFound,
    ProtocolError,
    QueueFull,
    SRBError,
)
from srb.exit_codes import EXIT_CONFIG, EXIT_MACHINE, EXIT_MODEL
from srb.files.gguf import model_files
from srb.models import control
from srb.models.control_peer import ControlPeer, listen
from srb.models.engine_question import EngineQuestion
from srb.models.listed import ListedModel, default_model, list_models
from srb.models.memory_check import EstimateChild, MemoryCheck, is_checked
from srb.models.scheduler import Action, Grant, ModelScheduler, Refuse, Start, State, Stop
from srb.process.child import exit_now
from srb.process.engine_child import KILL_SECONDS, TICK_SECONDS, EngineChild, HeartbeatMonitor, describe
from srb.process.runtime_folder import EngineLock, clean_up, make_runtime_dir, take_folder
from srb.process.supervisor import supervise
from srb.status import remove_status, rewrite_status, write_status
from srb.welcome import print_first_screen

log = logging.getLogger("srb.supervisor")

_LOCK_NAME = "models.lock"
_LOCK_SECONDS = 0.2  # between two attempts at another supervisor's lock; to wait in flock() would not hear SIGTERM
_ASK_SECONDS = 0.5  # for an engine's answer whether requests run, given between two steps; later ones count as "yes"
_REAP_SECONDS = 0.05  # between two looks at a process that is ending, whose memory the next model waits for
_ACCEPT_SECONDS = 1.0  # after a connection that could not be taken: it waits, and so it would be tried without end
_AGAIN_SECONDS = 0.2  # until it is asked again: the next model waits no longer than that for nothing


class _Engine:
    """One model's engine while its process lives."""

    def __init__(self, listed: ListedModel, settings: Settings) -> None:
        self.listed = listed
        self.name = listed.name
        self.folder = listed.folder(settings)
        self.settings = listed.settings(settings)
        make_runtime_dir(self.folder)
        self.child = EngineChild(environ=listed.environ(settings), name=listed.name)
        self.monitor = HeartbeatMonitor(self.settings.stall_timeout)
        self.state = "starting"  # as it reported last
        self.message = ""
        self.was_heard = False  # since the last tick
        self.stops = False  # it is to end as soon as no request runs
        self.question: EngineQuestion | None = None  # whether requests run, while it is asked
        self.answer_by = 0.0
        self.ask_again_at = 0.0
        self.kill_at: float | None = None  # set once it was told to end, was aborted, or has left
        self.was_told = False  # to end, for another model's sake or a person's
        self.has_left = False  # it reports no more: it is ending, which may take it a while (a core dump, much memory)

    def may_end(self, now: float) -> bool:
        """Whether no request runs, not even one that no call reads; it is asked, and False until it has answered."""
        if self.state != "running":
            return True
        if self.question is None:
            if now < self.ask_again_at:
                return False
            try:
                self.question = EngineQuestion(self.folder / SOCKET_NAME)
            except OSError:  # no descriptor is left: nobody knows
                self.ask_again_at = now + _AGAIN_SECONDS
                return False
            self.answer_by = now + _ASK_SECONDS
        is_writing = self.question.is_writing
        if is_writing is None and now < self.answer_by:
            return False
        self.forget_question()
        self.ask_again_at = now + _AGAIN_SECONDS
        return is_writing is False

    def forget_question(self) -> None:
        if self.question is not None:
            self.question.close()
            self.question = None

    @property
    def acts_at(self) -> float:
        """The time at which it is to be asked, or its answer given up."""
        return self.ask_again_at if self.question is None else self.answer_by


class ModelsSupervisor:
    """The engines of several models, and the workers that wish for them, until stopped."""

    def __init__(self, settings: Settings, url: str) -> None:
        """Print the first screen with the server's address `url` when the first model is loaded; empty: do not."""
        self._settings = settings
        self._url = url
        self._server_id = os.environ.get(SERVER_ID_VARIABLE, "")
        self._listed = list_models(settings)
        self._default = default_model(settings, self._listed)
        self._turns = ModelScheduler(self._listed, settings.max_engines, settings.model_seconds)
        self._engines: dict[str, _Engine] = {}
        self._estimates: dict[str, EstimateChild] = {}  # of models that are to be started beside others
        self._memory = MemoryCheck()
        self._peers: dict[int, ControlPeer] = {}  # by descriptor
        self._wishers: dict[str, ControlPeer] = {}  # by the id of a wish
        self._restarts: dict[str, int] = {}
        self._failed_files: dict[str, Any] = {}  # the state of a failed model's files
        self._published: list[Any] = []  # facts that the workers know
        self._listener: socket.socket | None = None  # until it listens
        self._accept_at = 0.0  # not before: no descriptor was left
        self._next_tick = 0.0
        self._wake, wake_end = os.pipe()
        os.set_blocking(wake_end, False)
        self._stopping = False
        for signum in (signal.SIGTERM, signal.SIGINT):
            signal.signal(signum, self._on_signal)
        signal.set_wakeup_fd(wake_end, warn_on_full_buffer=False)

    def run(self) -> int:
        """Keep the engines until stopped; return the exit status."""
        runtime = self._settings.runtime_path
        make_runtime_dir(runtime)
        lock = EngineLock(runtime, _LOCK_NAME, control.CONTROL_SOCKET)
        if not take_folder(lock, self._settings, self._goes_on):
            return 0
        try:
            self._listener = listen(runtime / control.CONTROL_SOCKET)
            self._turns.load(self._default, time.monotonic())
            while not self._stopping:
                self.turn()
        finally:
            self._end_all()
            lock.release()
            clean_up(runtime)
        return 0

    def _goes_on(self) -> bool:
        """Wait a moment for another supervisor; return whether this one was not stopped."""
        select.select([self._wake], [], [], _LOCK_SECONDS)
        return not self._stopping

    def turn(self) -> None:
        """Carry out what is to be done now, then wait for what comes, and handle it."""
        for action in self._turns.plan(time.monotonic()):
            self._act(action)
        self._stop_idle()
        self._reap()
        self._start_estimated()
        self._publish()
        self._wait()

    # Engines --------------------------------------------------------------------------------------------------------

    def _act(self, action: Action) -> None:
        match action:
            case Start(name):
                self._start(name)
            case Stop(name):
                self._stop(name)
            case Grant(id_):
                self._publish()  # first: what the worker's client asks next may depend on the model's state
                self._answer(id_, control.Granted(id_))
            case Refuse(id_, reason):
                self._answer(id_, control.Refused(id_, ModelLoadFailed.code, reason))
                self._forget(id_)

    def _start(self, name: str) -> None:
        """Start a model's engine; beside others only when its needs are known, and the memory has room for them."""
        listed = self._listed[name]
        if not self._engines or not is_checked(listed.settings(self._settings)):
            self._begin(name)
            return
        try:
            self._estimates[name] = EstimateChild(listed, self._settings)
        except OSError as error:
            log.warning("the memory that model %s needs cannot be told: %s", name, error)
            self._begin(name)

    def _stop(self, name: str) -> None:
        if (estimate := self._estimates.pop(name, None)) is not None:
            estimate.close()
            self._turns.ended(name, time.monotonic(), "")
        else:
            self._engines[name].stops = True

    def _start_estimated(self) -> None:
        """Start the models whose needs are known and have room; the others wait until an engine gives way.

        Memory is read when no other model is being loaded, so that it is not given twice.
        """
        for name, estimate in list(self._estimates.items()):
            is_loading = any(self._turns.state(each) is State.LOADING for each in self._engines)
            estimate.is_outdated |= is_loading
            if not estimate.is_done or is_loading:
                continue
            del self._estimates[name]
            if estimate.has_to_ask_again:
                self._start(name)
                continue
            others = {each.name: each.settings for each in self._engines.values()}
            if self._memory.has_room(name, self._listed[name].settings(self._settings), estimate.facts, others):
                self._begin(name)
            else:
                self._turns.no_room(name)

    def _begin(self, name: str) -> None:
        log.info("loading model %s", name)
        listed = self._listed[name]
        try:
            self._engines[name] = _Engine(listed, self._settings)
        except (OSError, ConfigError) as error:
            why = error.message if isinstance(error, ConfigError) else error.strerror or str(error)
            is_shortage = isinstance(error, OSError | MachineError)
            self._note_failure(listed, f"its engine cannot be started: {why}", is_shortage=is_shortage)

    def _stop_idle(self) -> None:
        """Tell the engines to end that are to, and have no request; kill those that have not in time."""
        now = time.monotonic()
        for engine in self._engines.values():
            if engine.stops:
                if not engine.may_end(now):
                    continue
                log.info("unloading model %s", engine.name)
                engine.stops, engine.was_told = False, True
                engine.kill_at = now + KILL_SECONDS + self._settings.state_seconds
                engine.child.send(signal.SIGTERM)
            elif engine.kill_at is not None and now >= engine.kill_at:
                log.warning("the engine of %s did not exit in time and is killed", engine.name)
                engine.child.send(signal.SIGKILL)
                engine.kill_at = math.inf

    def _read(self, engine: _Engine) -> None:
        reports = engine.child.read_reports()
        if reports is None:
            engine.has_left = True
            engine.kill_at = engine.kill_at or time.monotonic() + KILL_SECONDS  # or it may keep its memory for ever
            return
        if engine.monitor.is_stale:
            self._write_status(engine.listed, engine.state, engine.message)
        engine.was_heard = True
        engine.monitor.note_reports(reports)
        for report in reports:
            engine.state, engine.message = report["state"], report["message"]
            self._write_status(engine.listed, **report)
            if engine.state == "running":
                self._note_ready(engine)

    def _note_ready(self, engine: _Engine) -> None:
        if self._turns.state(engine.name) is State.LOADING:
            log.info("model %s is loaded", engine.name)
        self._turns.ready(engine.name, time.monotonic())
        if self._url:
            print_first_screen(self._url, self._listed[engine.name].settings(self._settings))
            self._url = ""

    def _reap(self) -> None:
        """Note the ends of the engines that have ended."""
        for engine in list(self._engines.values()):
            if engine.has_left and engine.child.poll() is not None:
                self._note_end(engine, engine.child.end())  # which does not wait

    def _note_end(self, engine: _Engine, status: int) -> None:
        engine.forget_question()
        del self._engines[engine.name]
        for estimate in self._estimates.values():
            estimate.is_outdated = True
        if engine.was_told or engine.stops:
            self._turns.ended(engine.name, time.monotonic(), "")
            remove_status(engine.folder)
            clean_up(engine.folder)
            return
        is_final = status in (EXIT_MODEL, EXIT_CONFIG)
        reason = engine.message if is_final else f"the engine exited ({describe(status)})"
        self._note_failure(engine.listed, reason, is_final=is_final, is_shortage=status == EXIT_MACHINE)

    def _note_failure(
        self, listed: ListedModel, reason: str, *, is_final: bool = False, is_shortage: bool = False
    ) -> None:
        """Note that a model's engine has ended by itself, or could not be started."""
        name = listed.name
        self._turns.ended(name, time.monotonic(), reason, is_final=is_final, is_shortage=is_shortage)
        failed = self._turns.state(name) is State.FAILED
        if failed:
            self._failed_files[name] = self._files_now(name)
        log.error("model %s: %s", name, reason)
        self._restarts[name] = self._restarts.get(name, 0) + 1
        self._write_status(listed, "failed" if failed else "restarting", reason)

    def _write_status(self, listed: ListedModel, state: str, message: str = "", percent: int | None = None) -> None:
        if state != "stopping":
            folder = listed.folder(self._settings)
            write_status(folder, state, message, self._restarts.get(listed.name, 0), percent=percent)

    def _tick(self) -> None:
        """Count a second without a heartbeat for every engine that sent none; abort those that hang."""
        rewrite_status(self._settings.runtime_path)
        for engine in list(self._engines.values()):
            rewrite_status(engine.folder)
            if not engine.was_heard and engine.monitor.tick():
                self._write_status(engine.listed, "hung", "the engine sends no heartbeat")
            engine.was_heard = False
            if engine.monitor.abort_reason and engine.kill_at is None:
                log.error("the engine of %s hangs and is aborted: %s", engine.name, engine.monitor.abort_reason)
                engine.kill_at = time.monotonic() + KILL_SECONDS
                engine.child.send(signal.SIGABRT, signal.SIGCONT)  # a stopped process takes the first with the second

    def _end_all(self) -> None:
        for estimate in self._estimates.values():
            estimate.close()
        for engine in self._engines.values():
            engine.forget_question()
            remove_status(engine.folder)
            engine.child.send(signal.SIGTERM)
        for engine in self._engines.values():
            engine.child.end(more_seconds=self._settings.state_seconds)
        for listed in self._listed.values():
            if (folder := listed.folder(self._settings)).is_dir():
                remove_status(folder)
                clean_up(folder)
        for peer in self._peers.values():
            peer.close()
        if self._listener is not None:
            self._listener.close()
        remove_status(self._settings.runtime_path)

    # Workers --------------------------------------------------------------------------------------------------------

    def _wait(self) -> None:
        """Wait for reports, messages, a signal, or the time of the next decision, and handle what has come."""
        now = time.monotonic()
        times = [self._next_tick, self._turns.wake_at(now)]
        times += [self._accept_at] if self._accept_at > now else []
        times += [max(engine.acts_at, now) for engine in self._engines.values() if engine.stops]
        times += [now + _REAP_SECONDS for engine in self._engines.values() if engine.has_left]
        seconds = min(TICK_SECONDS, max(0.0, min(at for at in times if at is not None) - now))
        engines = {engine.child.reports: engine for engine in self._engines.values() if not engine.has_left}
        questions = {
            engine.question.sock.fileno(): engine.question
            for engine in self._engines.values()
            if engine.question is not None and engine.question.is_writing is None
        }
        estimates = {each.fileno(): each for each in self._estimates.values() if not each.is_done}
        assert self._listener is not None
        accepting = [self._listener.fileno()] if now >= self._accept_at else []
        reading = [self._wake, *accepting, *engines, *questions, *estimates, *self._peers]
        writing = [fd for fd, peer in self._peers.items() if peer.has_unsent]
        readable, writable, _ = select.select(reading, writing, [], seconds)
        for fd in readable:
            if fd in engines:
                self._read(engines[fd])
            elif fd in questions:
                questions[fd].read()
            elif fd in estimates:
                estimates[fd].read()
            elif fd in accepting:
                self._accept()
            elif fd in self._peers:  # one before it may have had it dropped
                self._receive(self._peers[fd])
        for peer in [self._peers[fd] for fd in writable if fd in self._peers]:
            try:
                peer.flush()
            except OSError:
                self._drop(peer)
        if (now := time.monotonic()) >= self._next_tick:
            self._next_tick = now + TICK_SECONDS
            self._tick()

    def _accept(self) -> None:
        assert self._listener is not None
        try:
            sock, _ = self._listener.accept()
        except (BlockingIOError, ConnectionError):
            return
        except OSError as error:
            log.warning("a web worker has to wait for its connection: %s", error.strerror)
            self._accept_at = time.monotonic() + _ACCEPT_SECONDS
            return
        peer = self._peers[sock.fileno()] = ControlPeer(sock)
        self._send(peer, self._state())

    def _receive(self, peer: ControlPeer) -> None:
        try:
            commands = peer.receive()
        except (OSError, EOFError):
            self._drop(peer)
            return
        except ProtocolError as error:
            log.error("a web worker is disconnected: %s", error.message)
            self._drop(peer)
            return
        for command in commands:
            if peer not in self._peers.values():
                return  # it was dropped, and would be granted what nobody leaves
            try:
                self._handle(peer, command)
            except SRBError as error:
                self._send(peer, control.Refused(command.id, error.code, error.message))
            except Exception:  # one command must not end the engines of all
                log.exception("a command of a web worker failed: %r", command)
                self._send(peer, control.Refused(command.id, SRBError.code, "the command failed"))

    def _handle(self, peer: ControlPeer, command: control.Command) -> None:
        """Carry out a worker's command; raise the error with which it is refused."""
        now = time.monotonic()
        if isinstance(command, control.Want | control.Load | control.Unload) and command.model not in self._turns:
            raise ModelNotFound(f"The model '{command.model}' does not exist; there are {', '.join(self._listed)}")
        match command:
            case control.Leave(id_) if self._wishers.get(id_) is peer:
                self._turns.leave(id_, now)
                self._forget(id_)
            case control.Want(id_, name):
                if id_ in self._wishers:
                    raise ProtocolError("a wish with this id exists already")
                if self._turns.state(name) is not State.LOADED and self._turns.waiting >= self._settings.max_queue:
                    raise QueueFull(f"{self._turns.waiting} requests wait for models already (max_queue)")
                if self._turns.state(name) is State.FAILED and self._files_now(name) != self._failed_files.get(name):
                    self._turns.retry(name)
                self._wishers[id_] = peer
                peer.ids.add(id_)
                self._turns.want(id_, name, now)
            case control.Load(id_, name):
                if self._turns.state(name) in (State.LOADING, State.LOADED):
                    raise InvalidRequest(f"model is already {self._turns.state(name)}")
                self._turns.load(name, now)
                self._send(peer, control.Done(id_))
            case control.Unload(id_, name):
                if self._turns.state(name) not in (State.LOADING, State.LOADED, State.DRAINING):
                    raise InvalidRequest("model is not running")
                self._turns.unload(name)
                self._send(peer, control.Done(id_))
            case control.Look(id_):
                self._look()
                self._publish()
                self._send(peer, self._state())  # with the numbers of calls, which are not published
                self._send(peer, control.Done(id_))

    def _look(self) -> None:
        """Read the list again; one that cannot be read, or has equal names, stays as it was."""
        try:
            found = list_models(self._settings)
        except (ConfigError, OSError) as error:
            log.warning("the list of models stays as it was: %s", error)
            return
        self._turns.set_names(found)
        kept = {turn.name: self._listed[turn.name] for turn in self._turns.models if turn.name not in found}
        self._listed = found | kept
        if self._settings.model:
            with contextlib.suppress(ConfigError):  # its file is gone
                self._default = default_model(self._settings, found)
        if self._default not in found:
            self._default = next(iter(found))

    def _files_now(self, name: str) -> list[tuple[str, int, int]]:
        """Return names, sizes and times of a model's files: a failed model is tried again when they have changed."""
        listed = self._listed[name]
        states = []
        others = [listed.own[key] for key in ("mmproj", "spec_draft_model") if listed.own.get(key)]
        for path in [*model_files(Path(listed.model)), *map(Path, others)]:
            with contextlib.suppress(OSError):
                found = path.stat()
                states.append((str(path), found.st_size, found.st_mtime_ns))
        return states

    def _answer(self, id_: str, event: control.Event) -> None:
        if (peer := self._wishers.get(id_)) is not None:
            self._send(peer, event)

    def _send(self, peer: ControlPeer, event: control.Event) -> None:
        try:
            peer.send(event)
        except OSError:
            self._drop(peer)

    def _forget(self, id_: str) -> None:
        if (peer := self._wishers.pop(id_, None)) is not None:
            peer.ids.discard(id_)

    def _drop(self, peer: ControlPeer) -> None:
        """Disconnect a worker, which leaves all that it wished for or held."""
        for fd in [fd for fd, each in self._peers.items() if each is peer]:
            del self._peers[fd]
        for id_ in list(peer.ids):
            self._turns.leave(id_, time.monotonic())
            self._forget(id_)
        peer.close()

    def _state(self) -> control.Models:
        states = []
        for turn in self._turns.models:
            listed = self._listed[turn.name]
            state = control.ModelState(
                name=turn.name,
                model=listed.model,
                own=dict(listed.own),
                state=turn.state.value,
                reason=turn.reason,
                waiting=self._turns.waiting_for(turn.name),
                running=turn.held,
                loads=turn.loads,
            )
            states.append(asdict(state))
        return control.Models(self._server_id, self._default, states)

    def _publish(self) -> None:
        """Tell the workers what has changed, and status.json whether any model is loaded."""
        shown = [(self._listed[turn.name], turn.state, turn.reason, turn.loads) for turn in self._turns.models]
        if shown == self._published:
            return
        self._published = shown
        for peer in list(self._peers.values()):
            self._send(peer, self._state())
        states = [turn.state for turn in self._turns.models]
        if State.LOADED in states or State.DRAINING in states:
            word, reason = "running", ""
        else:
            failed = {turn.name: turn.reason for turn in self._turns.models if turn.state is State.FAILED}
            reason = failed.get(self._default, "") if State.LOADING not in states else ""
            word = "failed" if reason else "starting"
        write_status(self._settings.runtime_path, word, reason, sum(self._restarts.values()))

    def _on_signal(self, *_: object) -> None:
        self._stopping = True


def main(argv: list[str] | None = None) -> int:
    """Run the supervisor of several models; return the exit status."""
    return supervise(ModelsSupervisor, argv)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):  # Ctrl-C before the signal handler is installed
        exit_now(main())
