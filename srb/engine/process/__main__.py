"""The engine process: take the lock, listen, load the model, and run the decode loop until stopped.

`python -m srb.engine.process` reads its settings from the environment. The supervisor starts it, or systemd does.
"""

from __future__ import annotations

import gc

if __name__ == "__main__":
    gc.disable()  # until all modules are there: they leave next to no garbage, which is looked for again and again

import argparse
import faulthandler
import hashlib
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from srb.config.rpc_nodes import wait_for_nodes
from srb.config.settings import SERVER_ID_VARIABLE, STATES_SOCKET, Settings
from srb.engine.process.garbage import spare_old_objects, tidy
from srb.engine.process.heartbeat import Heartbeat
from srb.engine.process.intake import Intake, StopItem
from srb.engine.process.loop import DecodeLoop, EngineCore
from srb.engine.process.state_folder import StateFolder
from srb.engine.process.state_sharing import StateSharing
from srb.engine.process.text_folder import TextFolder
from srb.engine.speculation import can_draft
from srb.errors import ConfigError, ModelLoadFailed, ShuttingDown
from srb.exit_codes import EXIT_CONFIG, EXIT_FAULT, EXIT_MODEL
from srb.files.gguf import FAKE_MODEL, is_fake, model_fingerprint
from srb.host.memory import size_text
from srb.process.child import begin, exit_now, run
from srb.process.connection import Listener
from srb.process.runtime_folder import EngineLock
from srb.process.status_reporter import Reporter
from srb.reasons import reason_of
from srb.status import LOADING
from srb.traces import close_provider, open_provider
from srb.wire.commands import ForgetTexts
from srb.wire.events import ModelInfo, Ready

if TYPE_CHECKING:
    from srb.engine.model import Model
    from srb.engine.process.request_spans import RequestSpans

log = logging.getLogger("srb.engine")

# The decode thread waits at most this long for the GIL while a reader or writer thread is busy (JSON, tokens);
# Python's default of 5 ms is as long as a whole decode step of a small model.
_SWITCH_SECONDS = 0.0005
_IDLE_CELLS = 4096  # if cache_cells is −1 and parking is slow (a GPU) or off: the latest texts stay in cells
_CPU_STEP_MS, _GPU_STEP_MS = (
    200,
    50,
)  # of a step with prompts: at 150 small chunks cost a CPU prompts more than they give
_FLUSH_SECONDS = 1.0  # for the last events, at SIGTERM; a client that does not read them must not hold up the restart
_CANNOT_IMPORT = (ImportError, OSError, RuntimeError, AttributeError)  # of llama_cpp: no libgomp.so.1, no such symbol
_MAX_DRAFT = 16  # tokens that are drafted for a branch in one step; llama-server's
_STOP_SECONDS = 3.0  # from SIGTERM to a forced exit if a decode hangs; the supervisor's deadline is later
_TEXTS = ".texts"  # in state_dir, where texts without a name are not kept: those with one, as they are used
_NO_LIMIT = 2**62
# Settings by which the keys of a text depend on its positions: a state made with others is another model's.
_POSITIONS = ("rope_scaling", "rope_freq_base", "rope_freq_scale", "yarn_orig_ctx")

LoadedEngine = tuple[EngineCore, ModelInfo, Callable[[], None]]  # engine, ModelInfo, and what to call at the end
Load = Callable[[Settings, Callable[[int], None]], LoadedEngine]


def load_engine(settings: Settings, report: Callable[[int], None]) -> LoadedEngine:
    """Load the model and build the engine; `report` gets the percentage. Raise ModelLoadFailed or ConfigError."""
    from srb.engine.engine import Engine, EngineOptions

    model: Model
    if is_fake(settings):
        from srb.engine.fake import FakeModel

        pace, _, tokens = settings.model.removeprefix(FAKE_MODEL).partition(":")
        model = FakeModel(
            n_ctx=settings.n_ctx,
            n_batch=settings.n_batch,
            n_ubatch=settings.n_ubatch if tokens else 16,
            n_seq_max=128 if tokens else 16,
            n_adapters=len(settings.adapters),
            vectors=_vectors_of_fake(settings),
            reads_media=bool(settings.mmproj),
        )
        if int(pace or 0):
            model.before_decode = partial(time.sleep, 1 / int(pace))
        if tokens:
            model.before_tokens = lambda number: time.sleep(number / int(tokens))
    else:
        # Imported here, since importing llama_cpp takes longer than listening, and most tests need no llama_cpp.
        try:
            from srb.engine.llama.model import LlamaModel
        except _CANNOT_IMPORT as error:  # the next start would lack the same library
            raise ModelLoadFailed(f"llama.cpp cannot be loaded: {error}") from error

        model = LlamaModel.load(settings, report)
        if settings.rpc:
            from srb.engine.llama.rpc import watch_nodes

            watch_nodes(_end_without_node)
    if model.can_generate:
        model.grammars.make_ready()
    may_draft = settings.has_drafts and can_draft(model)
    info = replace(model.info(settings.model_alias), speculative=_drafts(settings, model) if may_draft else "none")
    draft_model: Model | None = None
    if settings.has_draft_model and may_draft and model.head is None:
        draft_model = _load_draft_model(settings, model)
    texts, states = _open_folders(settings, info.memory, model)
    if not model.supports_partial_reuse and info.memory != "sliding_window":  # the model has told of its windows
        log.warning(
            "this model's memory cannot be cut: an earlier text is reused only as a whole, "
            "and branches that are paused for lack of room are computed again"
        )
    if model.has_states and info.memory != "sliding_window":
        log.info(
            "%s memory keeps a state for each text: an earlier text is reused up to a checkpoint of its state",
            info.memory,
        )
    engine = Engine(
        model,
        EngineOptions(
            max_queue=settings.max_queue,
            max_running=max(0, settings.parallel),
            queue_timeout=settings.queue_timeout,
            request_timeout=settings.request_timeout,
            cache_cells=_cache_cells(settings, model.is_on_gpu),
            cache_bytes=settings.cache_ram_mib * 1024 * 1024,
            step_seconds=_step_seconds(settings, model.is_on_gpu),
            max_draft=_MAX_DRAFT if may_draft else 0,
            looks_up=settings.looks_up_drafts,
        ),
        clock=time.monotonic,
        wall_clock=time.time,
        states=states,
        draft_model=draft_model,
        texts=texts,
    )
    if texts is not None and texts.keeps_all:
        stories, keys, place = texts.forgotten()
        engine.serve_query(ForgetTexts("", tuple(stories), tuple(keys)))
        texts.note_forgotten(place)
        known = engine.stats()
        log.info(
            "computed texts are kept in %s (cache_disk): %d parts, %s, of at most %s",
            texts.folder, known["stored_texts"], size_text(known["stored_bytes"]), size_text(texts.budget),
        )  # fmt: skip
    if settings.spec_draft_model and not settings.has_draft_model:
        log.warning("spec_draft_model has no effect: spec_type is %s", settings.spec_type)
    if settings.has_drafts and not may_draft:
        kind = "spec_draft_model" if settings.has_draft_model else f"spec_type {settings.spec_type}"
        log.warning("%s has no effect: this model's memory cannot go back to any token", kind)

    def close() -> None:
        """Write texts and states. The model is not freed, since other threads may use it until the process exits."""
        deadline = time.monotonic() + settings.state_seconds
        if texts is not None:
            engine.store_texts(settings.state_seconds / 2)
            texts.close(deadline - time.monotonic())

    return engine, info, close


def _drafts(settings: Settings, model: Model) -> str:
    """Return the kinds of drafts in the order in which they are tried, under llama-server's names."""
    drafter = model.head.kind if model.head is not None else "draft-simple" if settings.has_draft_model else ""
    kinds = ("ngram-simple" if settings.looks_up_drafts else "", drafter)
    return ",".join(filter(None, kinds)) or "none"


def _load_draft_model(settings: Settings, model: Model) -> Model:
    """Load the draft model. Raise ModelLoadFailed if it cannot be used with the model."""
    if is_fake(settings):
        from srb.engine.fake import FakeModel

        return FakeModel(n_ctx=settings.n_ctx, n_batch=settings.n_batch)
    from srb.engine.llama.model import LlamaModel

    assert isinstance(model, LlamaModel)
    return LlamaModel.load_draft(settings, model)


def _end_without_node(address: str) -> None:
    """End the process, before llama.cpp aborts it; the next one waits for the node."""
    log.error("the RPC node %s is lost; the engine has to be restarted", address)
    exit_now(EXIT_FAULT)


def _cache_cells(settings: Settings, is_on_gpu: bool) -> int:
    """Return the budget of idle cells.

    On a CPU attention visits each of them, and those between them and the last one in use, while parking costs
    microseconds and brings the next text's cells together. Measured with 110 million weights: where the newest text kept
    its cells with those of its branches, each step of 8 branches took 38 to 61 ms instead of 33 to 35. So only its
    beginning keeps them, while nothing is computed (see `kept`).
    """
    if settings.cache_cells >= 0:
        return settings.cache_cells
    return _IDLE_CELLS if is_on_gpu or not settings.cache_ram_mib else 0


def _step_seconds(settings: Settings, is_on_gpu: bool) -> float:
    """Return the seconds that a step with prompts may take beside branches that write; 0: no limit."""
    return (settings.step_ms if settings.step_ms >= 0 else _GPU_STEP_MS if is_on_gpu else _CPU_STEP_MS) / 1000


def _vectors_of_fake(settings: Settings) -> dict[str, float]:
    """Return the control vectors that the settings name, whatever is in their files."""
    folder = Path(settings.control_vector_dir) if settings.control_vector_dir else None
    found = dict.fromkeys(sorted(path.stem for path in folder.glob("*.gguf")) if folder else (), 0.0)
    return found | {path.stem: scale for path, scale in settings.control_vectors}


def _default(setting: str) -> object:
    return Settings.model_fields[setting].default


def _kv_facts(settings: Settings, memory: str, model: Model) -> list[str]:
    """Return what saved KV depends on besides the model's file and the adapters' scales.

    KV of `memory` with sliding windows differs in form by whether it can be cut. States of recurrent layers are saved
    apart from the cells. Raise OSError.
    """
    facts: list[str] = [settings.cache_type_k, settings.cache_type_v, settings.flash_attn]
    if memory == "sliding_window":
        facts.append("every window" if model.supports_partial_reuse else "newest windows")
    if model.has_states:
        facts.append("cells and a state")
    if not is_fake(settings):
        from srb.engine.llama.model import LlamaModel

        assert isinstance(model, LlamaModel)
        facts += [*(model_fingerprint(path) for path, _ in settings.adapters), *model.rope_facts]
    return facts + [f"{name}={value}" for name in _POSITIONS if (value := getattr(settings, name)) != _default(name)]


def _hash_of_model(settings: Settings, memory: str, model: Model) -> str:
    """Return a hash of all that saved KV depends on; each fake model of a list is one of its own. Raise OSError.

    Texts of another build of llama.cpp are not used: its sums may differ.
    """
    if is_fake(settings):
        fingerprint = FAKE_MODEL + settings.alias
    else:
        from srb.engine.llama.library import library_facts

        facts = _kv_facts(settings, memory, model) + library_facts()
        fingerprint = model_fingerprint(settings.model_path, *facts)
    return hashlib.blake2b(fingerprint.encode(), digest_size=16).hexdigest()


def _open_folders(settings: Settings, memory: str, model: Model) -> tuple[TextFolder | None, StateFolder | None]:
    """Open the folders of computed texts and of named states, as far as they are set. Raise ConfigError.

    A fake model has a folder of texts only where one is set.
    """
    keeps_all = settings.texts_path is not None and not (is_fake(settings) and settings.cache_disk == "auto")
    if not model.can_generate or not (keeps_all or settings.state_dir):
        return None, None
    try:
        name = _hash_of_model(settings, memory, model)
    except OSError as error:
        raise ConfigError(f"model: {settings.model} cannot be read: {reason_of(error, settings.model)}") from None
    texts = _open_texts(settings, name) if keeps_all else None
    if not settings.state_dir:
        return texts, None
    if not settings.cache_ram_mib:
        raise ConfigError("state_dir: named states need host memory, and cache_ram_mib is 0")
    folder, limit = Path(settings.state_dir), settings.state_dir_mib * 1024 * 1024
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if texts is None:
            texts = TextFolder(folder / _TEXTS, name, limit or _NO_LIMIT, keeps_all=False)
        return texts, StateFolder(folder, name, texts, limit, StateSharing(settings.runtime_path / STATES_SOCKET))
    except OSError as error:
        raise ConfigError(f"state_dir: {folder} cannot be used: {reason_of(error, folder)}") from None


def _open_texts(settings: Settings, name: str) -> TextFolder | None:
    """Open the folder of computed texts of the model with this hash; without it the server runs as well."""
    folder = settings.texts_path
    assert folder is not None
    try:
        return TextFolder(folder, name, settings.cache_disk_mib * 1024 * 1024 if settings.cache_disk_mib > 0 else -1)
    except BlockingIOError:
        log.info("texts are kept in memory only: too many servers have texts of this model in %s", folder)
    except OSError as error:
        if settings.cache_disk != "auto":
            raise ConfigError(f"cache_disk: {folder} cannot be used: {reason_of(error, folder)}") from None
        log.warning(
            "texts are kept in memory only: cache_disk, %s, cannot be used: %s", folder, reason_of(error, folder)
        )
    return None


def serve(settings: Settings, reporter: Reporter, load: Load) -> int:
    """Serve web workers until SIGTERM; return the exit status."""
    lock = EngineLock(settings.runtime_path)
    if not lock.acquire(wait=False):
        log.info("another engine runs in %s; waiting for it to exit", settings.runtime_path)
        lock.acquire(wait=True)
    provider = None
    try:
        provider = open_provider(settings)
        report_loading = partial(reporter.report_state, "starting", LOADING)
        report_loading()
        intake = Intake()
        server_id = os.environ.get(SERVER_ID_VARIABLE, "")
        listener = Listener(settings.socket_path, intake.take, intake.disconnect, server_id)
        listener.start()
        try:
            wait_for_nodes(settings.rpc_nodes, partial(reporter.report_state, "starting"))
            engine, info, close = load(settings, report_loading)
        except (ModelLoadFailed, ConfigError) as error:
            print(f"srb: {error.message}", file=sys.stderr, flush=True)  # first: whoever learns of it looks here
            reporter.report_state("failed", error.message)
            return EXIT_MODEL if isinstance(error, ModelLoadFailed) else EXIT_CONFIG
        spare_old_objects()
        # Only now: while a model loads, the main thread runs no signal handler, and no request has to be ended.
        decode_ended = stop_on_signal(intake, settings.state_seconds)
        intake.open(engine)
        listener.announce(Ready(info.as_dict()))
        reporter.report_state("running")
        loop = DecodeLoop(engine, intake.inbox, tidy, _open_spans(provider, info))
        heartbeat = Heartbeat(reporter, settings.stall_timeout, loop, intake.works)
        heartbeat.start()
        try:
            loop.run()
        except Exception:
            log.exception("the engine stops and has to be restarted")
            return EXIT_FAULT
        heartbeat.leave_state_alone()
        decode_ended.set()
        reporter.report_state("stopping")
        intake.refuse_all()
        loop.fail_all(ShuttingDown("the server is shutting down"))
        close()
        loop.finish(ShuttingDown("the server is shutting down"))
        listener.close(_FLUSH_SECONDS)
        return 0
    finally:
        if provider is not None:
            close_provider(provider)
        lock.release()


def _open_spans(provider: Any | None, info: ModelInfo) -> RequestSpans | None:
    if provider is None:
        return None
    from srb.engine.process.request_spans import RequestSpans  # which imports OpenTelemetry

    return RequestSpans(provider, info.alias)


def stop_on_signal(intake: Intake, state_seconds: float) -> threading.Event:
    """Stop the decode loop on SIGTERM and SIGINT, and exit soon after if the loop does not react.

    Return an event to set when the loop has ended; the process then has `state_seconds` more to write states.

    A Python handler runs only between two bytecodes of the main thread: never while a native call hangs, and not if the
    signal came just before that thread began to wait for the inbox. Therefore a thread acts, woken by the byte that
    Python's C-level signal handler writes to the wake-up descriptor.
    """
    decode_ended = threading.Event()
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)

    def act() -> None:
        os.read(read_end, 1)
        intake.inbox.put(StopItem())
        if decode_ended.wait(_STOP_SECONDS):
            time.sleep(state_seconds + _STOP_SECONDS)
            log.error("the engine did not end in time")
        else:
            log.error("the decode loop did not end in time")
        os._exit(EXIT_FAULT)

    signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    for signum in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signum, lambda *_: None)
    threading.Thread(target=act, name="stop", daemon=True).start()
    return decode_ended


def main(argv: list[str] | None = None, load: Load = load_engine) -> int:
    """Run the engine process; return the exit status. `load` is replaced in tests."""
    parser = argparse.ArgumentParser(
        prog="python -m srb.engine.process", description="Run the engine of an SRB server."
    )
    supervisor = begin(parser, argv)
    faulthandler.enable(2)  # print the Python stack when native code aborts, or hangs and is aborted
    os.environ["GGML_NO_BACKTRACE"] = "1"  # else an abort in native code forks a debugger and hangs
    sys.setswitchinterval(_SWITCH_SECONDS)

    def work(settings: Settings, reporter: Reporter) -> int:
        os.nice(settings.nice)  # the threads that compute inherit it
        return serve(settings, reporter, load)

    return run(supervisor, work)


if __name__ == "__main__":
    gc.freeze()
    gc.enable()  # an engine may wait for its nodes for hours
    exit_now(main())
