"""The engine process: take the lock, listen, load the model, pump frames and steps until told to stop.

`python -m srb.engine.process` takes its settings from the environment. The supervisor starts it, or systemd does.
"""

from __future__ import annotations

import argparse
import faulthandler
import gc
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from srb import logs
from srb.engine.connection import Listener
from srb.engine.lifeline import die_with_parent, ignore_reloads
from srb.engine.loop import DecodeLoop, EngineCore, Intake, Stop
from srb.engine.pulse import Pulse
from srb.engine.reports import Reporter, ToSupervisor, ToSystemd
from srb.engine.runtime import EXIT_CONFIG, EXIT_FAULT, EXIT_MODEL, EngineLock
from srb.engine.states import StateFolder, model_fingerprint
from srb.errors import ConfigError, ModelLoadFailed, ShuttingDown
from srb.gguf import FAKE_MODEL
from srb.protocol import ModelInfo, Ready
from srb.settings import Settings

log = logging.getLogger("srb.engine")

# The decode thread waits at most this long for the GIL when a reader or writer thread is busy with it (JSON, tokens);
# Python's 5 ms are as long as a whole decode step of a small model.
_SWITCH_SECONDS = 0.0005
_GC_THRESHOLD = 50_000  # new containers before a collection; a step makes some hundreds and frees most of them
_IDLE_CELLS = 4096  # kept ready where the setting leaves it to us
_FLUSH_SECONDS = 1.0  # for the last events, when told to stop
_STOP_SECONDS = 3.0  # from SIGTERM to a forced exit, where a decode hangs; the supervisor's deadline is later

LoadedEngine = tuple[EngineCore, ModelInfo, Callable[[], None]]  # the core, its model's facts, how to free it


def load_engine(settings: Settings) -> LoadedEngine:
    """Load the model and build the core. Raise ModelLoadFailed."""
    from srb.engine.core import Engine
    from srb.engine.model import Model

    model: Model
    if settings.model == FAKE_MODEL:
        from srb.engine.fake import FakeModel

        model = FakeModel(n_ctx=settings.n_ctx, n_batch=settings.n_batch, n_adapters=len(settings.adapters))
    else:
        # Here and not above: importing llama_cpp takes longer than listening, and the tests of all else do without.
        from srb.engine.llama import LlamaModel

        model = LlamaModel.load(settings)
    states = _open_states(settings)
    if not model.can_cut:
        log.warning(
            "this model's memory cannot be cut: text is reused only where an earlier one ends, "
            "and branches paused for lack of room are computed again"
        )
    engine = Engine(
        model,
        max_queue=settings.max_queue,
        queue_timeout=settings.queue_timeout,
        request_timeout=settings.request_timeout,
        clock=time.monotonic,
        cache_cells=_cache_cells(settings, model.is_on_gpu),
        cache_bytes=settings.cache_ram_mib * 1024 * 1024,
        states=states,
    )

    def free() -> None:
        engine.close()
        if states is not None:
            states.close()

    return engine, model.info(settings.model_alias), free


def _cache_cells(settings: Settings, is_on_gpu: bool) -> int:
    """Return the budget of idle cells: on a CPU attention looks at each of them, while moving one costs microseconds."""
    if settings.cache_cells >= 0:
        return settings.cache_cells
    return _IDLE_CELLS if is_on_gpu or not settings.cache_ram_mib else 0


def _open_states(settings: Settings) -> StateFolder | None:
    """Open the folder of named states, where one is set. Raise ConfigError where it cannot be used."""
    if not settings.state_dir:
        return None
    cells: list[str] = [settings.cache_type_k, settings.cache_type_v, settings.flash_attn]
    is_fake = settings.model == FAKE_MODEL
    try:
        cells += [model_fingerprint(path) for path, _ in settings.adapters if not is_fake]
        fingerprint = FAKE_MODEL if is_fake else model_fingerprint(settings.model_path, *cells)
        return StateFolder(Path(settings.state_dir).expanduser(), fingerprint)
    except OSError as error:
        raise ConfigError(f"state_dir: {settings.state_dir} cannot be used: {error.strerror}") from None


def serve(settings: Settings, report: Reporter, load: Callable[[Settings], LoadedEngine]) -> int:
    """Serve web workers until SIGTERM; return the exit status."""
    lock = EngineLock(settings.runtime_path)
    if not lock.acquire(wait=False):
        log.info("another engine runs in %s; waiting for it to leave", settings.runtime_path)
        lock.acquire(wait=True)
    try:
        report.tell("starting", "the model is being loaded")
        intake = Intake()
        listener = Listener(settings.socket_path, intake.take, intake.lost)
        listener.start()
        try:
            engine, info, free = load(settings)
        except (ModelLoadFailed, ConfigError) as error:
            report.tell("failed", error.message)
            print(f"srb: {error.message}", file=sys.stderr, flush=True)
            return EXIT_MODEL if isinstance(error, ModelLoadFailed) else EXIT_CONFIG
        gc.freeze()  # what is loaded stays; the collector need not visit it between two steps
        gc.set_threshold(_GC_THRESHOLD)
        # Only now: while a model loads, the main thread runs no signal handler, and there is nothing to end cleanly.
        stop_on_signal(intake)
        intake.open(engine)
        listener.announce(Ready(info.as_dict()))
        report.tell("running")
        loop = DecodeLoop(engine, intake.inbox)
        Pulse(report, settings.stall_timeout, loop).start()
        try:
            loop.run()
        except Exception:
            log.exception("the engine stops and has to be started again")
            return EXIT_FAULT
        report.tell("stopping")
        intake.shut()
        loop.fail_all(ShuttingDown("the server is shutting down"))
        listener.close(_FLUSH_SECONDS)
        free()
        return 0
    finally:
        lock.release()


def stop_on_signal(intake: Intake) -> None:
    """Let SIGTERM and SIGINT end the decode loop, and the process soon after where the loop does not come round.

    A Python handler runs only between two bytecodes of the main thread: never while a native call hangs, and not if the
    signal came just before that thread began to wait for the inbox. So a thread acts, woken by the byte that Python
    writes to the wake-up descriptor from within the real signal handler.
    """
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)

    def act() -> None:
        os.read(read_end, 1)
        intake.inbox.put(Stop())
        time.sleep(_STOP_SECONDS)
        log.error("the decode loop did not end in time")
        os._exit(EXIT_FAULT)

    signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    for signum in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signum, lambda *_: None)
    threading.Thread(target=act, name="stop", daemon=True).start()


def main(argv: list[str] | None = None, load: Callable[[Settings], LoadedEngine] = load_engine) -> int:
    """Run the engine process; `load` is another one in tests."""
    parser = argparse.ArgumentParser(prog="python -m srb.engine.process", description="The engine of an SRB server.")
    parser.add_argument("--parent", type=int, help="pid of the supervisor; the engine ends when it does")
    parser.add_argument("--report", type=int, help="descriptor of the pipe that tells the supervisor how it goes")
    options = parser.parse_args(argv)
    ignore_reloads()
    if options.parent is not None:
        die_with_parent(options.parent)
    faulthandler.enable()  # native code that aborts, or hangs and is made to, shows from where it was called
    os.environ["GGML_NO_BACKTRACE"] = "1"  # or an abort in native code forks a debugger and hangs
    sys.setswitchinterval(_SWITCH_SECONDS)
    supervisor = None if options.report is None else ToSupervisor(options.report)
    try:
        settings = Settings.load()
        logs.configure(settings)
        return serve(settings, supervisor or ToSystemd(settings.runtime_path), load)
    except ConfigError as error:
        if supervisor is not None:
            supervisor.tell("failed", error.message)
        print(f"srb: {error.message}", file=sys.stderr, flush=True)
        return EXIT_CONFIG


def exit_now(status: int) -> None:
    """End without destructors and atexit: after a fault they may hang or abort in native code."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    exit_now(main())
