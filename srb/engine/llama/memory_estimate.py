"""Memory that a model needs, told by llama.cpp: `python -m srb.engine.llama.memory_estimate` prints NativeFacts as JSON.

llama.cpp plans all its buffers without allocating them (`no_alloc`), which takes milliseconds for a model of any size and
any architecture. This is a process of its own, since llama.cpp may abort on a damaged file.
"""

from __future__ import annotations

import ctypes
import logging
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, get_args

import orjson

os.environ.setdefault("GGML_NO_BACKTRACE", "1")  # else abort() forks a debugger and hangs

import llama_cpp as lib

from srb.config.settings import Settings
from srb.config.values import CacheType
from srb.engine.llama.devices import begin, devices, ggml, gpu_of, library_folder, package, system_info
from srb.engine.llama.head import check_head
from srb.engine.llama.head_files import load_head, params_beside
from srb.engine.llama.log import native_log
from srb.engine.llama.params import (
    changed_settings,
    context_params,
    head_params,
    max_sequence_length,
    memory_kind,
    model_params,
    uses_gpu,
)
from srb.engine.llama.projector_memory import projector_bytes
from srb.engine.llama.rounding import why_rounding_varies
from srb.engine.llama.rpc import add_nodes, has_rpc
from srb.engine.llama.std_map import map_function
from srb.engine.llama.strings import string_of
from srb.engine.llama.swa import SwaCache, room_remarks, swa_cache_of, usable_sequences
from srb.errors import ConfigError, ModelLoadFailed
from srb.files.gguf import check_adapter_files, check_model_file, has_head_file
from srb.files.native_facts import Build, KVSize, MemoryEstimate, MemoryUse, NativeFacts

_MIB = 1 << 20
_CELLS = 1 << 16  # llama.cpp tells sizes in hundredths of a MiB, so two sizes far apart give the bytes of one cell
_STORE = re.compile(r"^llama_(?:kv_cache|memory_recurrent)\w*: size = +([\d.]+) MiB")
_BREAKDOWN = "_Z26llama_get_memory_breakdownPK13llama_context"
_COMPUTE = re.compile(r"compute buffer size = +([\d.]+) MiB")
_LOGITS = re.compile(r"output buffer size = +([\d.]+) MiB")


@dataclass
class _Sizes:
    """Bytes of a context that was planned, and its numbers of cells and sequences; `compute` includes the logits."""

    store: float = 0
    compute: float = 0
    logits: float = 0
    n_ctx: int = 0
    n_seq_max: int = 0
    n_batch: int = 0
    places: MemoryUse | None = None


class _SizeLines(logging.Handler):
    """Gathers the sizes that llama.cpp logs while it plans a context."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes = _Sizes()
        self.found_store = False

    def emit(self, record: logging.LogRecord) -> None:
        line = record.getMessage()
        if match := _STORE.search(line):
            self.sizes.store += float(match[1]) * _MIB
            self.found_store = True
        elif match := _COMPUTE.search(line):
            self.sizes.compute += float(match[1]) * _MIB
        elif match := _LOGITS.search(line):
            self.sizes.logits += float(match[1]) * _MIB
            self.sizes.compute += float(match[1]) * _MIB


def build() -> Build:
    """Return how llama.cpp was built."""
    texts = []
    for name in ("ggml_version", "ggml_commit"):
        function = getattr(ggml(), name)
        function.restype = ctypes.c_char_p
        texts.append(function().decode())
    ggml_text = f"{texts[0]} ({texts[1]})"
    return Build(package(), ggml_text, system_info().strip(" |"), _is_debug(), tuple(devices()), has_rpc())


def _is_debug() -> bool:
    """Return whether llama.cpp's library calls C's assertions, as only a build without optimization does."""
    return any(b"__assert_fail" in path.read_bytes() for path in library_folder().glob("libggml-cpu*.so"))


def memory_estimate(settings: Settings) -> MemoryEstimate:
    """Return the needs of the model that `settings` name, of its projector, and of its draft model if they name one.

    Raise ModelLoadFailed or ConfigError with one line that says why.
    """
    found = _model_estimate(settings)
    if not settings.has_draft_model or has_head_file(settings):
        return found
    try:
        draft = _model_estimate(settings.of_draft_model.model_copy(update={"n_ctx": found.n_ctx}))
    except ModelLoadFailed as error:
        raise ModelLoadFailed(f"spec_draft_model: {error.message.removeprefix('model: ')}") from None
    return replace(
        found,
        draft=draft.total,
        draft_per_cell=draft.bytes_per_cell + draft.compute_per_cell,
        refused=found.refused or draft.refused,
        places=found.places + draft.places if found.places and draft.places else None,
    )


def _model_estimate(settings: Settings) -> MemoryEstimate:
    check_model_file(settings)
    check_adapter_files(settings)
    params, _keep_alive = model_params(settings)
    params.no_alloc = True
    params.load_mode = 0  # mmap and mlock would touch the weights
    native_log.forget_error()
    model = lib.llama_model_load_from_file(str(settings.model_path).encode(), params)
    if not model:
        raise ModelLoadFailed(f"model: {settings.model_path} cannot be loaded: {native_log.first_error}")
    try:
        return _estimate(model, settings)
    finally:
        lib.llama_model_free(model)


def _estimate(model: Any, settings: Settings) -> MemoryEstimate:
    refused, windows = "", swa_cache_of(settings, model, uses_gpu(settings))
    planned, beyond = _Sizes(n_ctx=settings.n_ctx), _Sizes(n_ctx=settings.n_ctx + _CELLS)
    try:
        planned = _plan(model, settings, windows)
        beyond = _plan(model, settings.model_copy(update={"n_ctx": planned.n_ctx + _CELLS}), windows)
    except ModelLoadFailed as error:
        refused = error.message
    per_cell = _slope(planned.store, beyond.store, planned, beyond)
    params = context_params(settings, model, windows)
    projector, projector_refused = _projector(settings)
    draft, draft_per_cell, draft_refused = _head(model, settings, windows, planned)
    n_ctx_train = lib.llama_model_n_ctx_train(model)
    longest = min(planned.n_ctx, max_sequence_length(settings, n_ctx_train))
    return MemoryEstimate(
        description=string_of(lib.llama_model_desc, model),
        memory=memory_kind(model),
        n_params=lib.llama_model_n_params(model),
        n_layers=lib.llama_model_n_layer(model),
        n_ctx_train=n_ctx_train,
        weights=lib.llama_model_size(model),
        n_ctx=planned.n_ctx,
        n_seq_max=usable_sequences(params.n_seq_max, windows),
        threads=params.n_threads,
        threads_batch=params.n_threads_batch,
        kv_types=tuple(_kv_size(model, settings, name, windows) for name in get_args(CacheType)),
        bytes_per_cell=per_cell,
        states=max(0, round(planned.store - planned.n_ctx * per_cell)),
        compute=round(planned.compute),
        compute_per_cell=_slope(planned.compute, beyond.compute, planned, beyond),
        refused=refused or draft_refused,
        remarks=(
            *changed_settings(settings, planned.n_batch or settings.n_batch, longest),
            *room_remarks(settings, model),
        ),
        projector=projector,
        projector_refused=projector_refused,
        draft=draft,
        draft_per_cell=draft_per_cell,
        is_projector_apart=uses_gpu(settings) and not settings.mmproj_offload,
        windows=windows.name.lower() if windows in (SwaCache.FULL, SwaCache.SMALL) else "",
        full_store=_full_store(model, settings, windows),
        places=planned.places + _projector_places(settings, projector) if planned.places else None,
        nondeterminism=why_rounding_varies(settings, model, windows),
    )


def _head(model: Any, settings: Settings, windows: SwaCache, planned: _Sizes) -> tuple[int, float, str]:
    """Return the bytes that a drafting head takes beside the model, those of each cell, and why it cannot be made."""
    kind, has_whole_texts = memory_kind(model), windows not in (SwaCache.SMALL, SwaCache.BESIDE_STATES)
    width = 4 * lib.llama_model_n_embd(model) * planned.n_batch  # bytes of what a batch tells of one layer
    try:
        if settings.uses_head and kind != "recurrent" and has_whole_texts:
            check_head(settings, model)
            beside = settings.model_copy(update={"n_ctx": planned.n_ctx})
            size, per_cell = _sizes_beside(model, beside, windows, head_params)
            return size + width, per_cell, ""
        if has_head_file(settings) and kind in ("attention", "sliding_window") and has_whole_texts:
            context = lib.llama_init_from_model(model, context_params(settings, model, windows))
            if not context:
                return 0, 0.0, ""  # why, the model's own estimate tells
            try:
                own_model, _, layers = load_head(settings, model, no_alloc=True)
                beside = settings.of_draft_model.model_copy(update={"n_ctx": planned.n_ctx})
                size, per_cell = _sizes_beside(
                    own_model, beside, SwaCache.NONE, partial(params_beside, context=context)
                )
                size += lib.llama_model_size(own_model)
                lib.llama_model_free(own_model)
            finally:
                lib.llama_free(context)
            return size + max(1, len(layers)) * width, per_cell, ""
    except ModelLoadFailed as error:
        return 0, 0.0, error.message
    return 0, 0.0, ""


def _sizes_beside(model: Any, settings: Settings, windows: SwaCache, make: Any) -> tuple[int, float]:
    """Return the bytes of the KV store and buffers of a context that `make` gives parameters for, and those of each cell."""
    cells = (settings.n_ctx, settings.n_ctx + _CELLS)
    less, more = (_plan(model, settings.model_copy(update={"n_ctx": each}), windows, make) for each in cells)
    return round(less.store + less.compute), _slope(less.store + less.compute, more.store + more.compute, less, more)


def _full_store(model: Any, settings: Settings, windows: SwaCache) -> int:
    """Return the bytes of the KV store with the full-size cache of windows, where the settings give the small one."""
    if windows is not SwaCache.SMALL:
        return 0
    try:
        return round(_plan(model, settings, SwaCache.FULL).store)
    except ModelLoadFailed:
        return 0


def _projector(settings: Settings) -> tuple[int, str]:
    """Return the bytes that the projector takes, and the reason if it cannot be loaded."""
    if not settings.mmproj:
        return 0, ""
    try:
        return projector_bytes(settings), ""
    except ModelLoadFailed as error:
        return 0, error.message


def _projector_places(settings: Settings, size: int) -> MemoryUse:
    """Return where a projector's bytes are: on the first GPU, if the model uses one and the settings let it."""
    if uses_gpu(settings) and settings.mmproj_offload:
        for device in devices():
            if device.has_own_memory:
                return MemoryUse(0, {device.name: size})
    return MemoryUse(size)


def _kv_size(model: Any, settings: Settings, name: CacheType, windows: SwaCache) -> KVSize:
    types = {"cache_type_k": name, "cache_type_v": name}
    try:
        less, more = (
            _plan(model, settings.model_copy(update={**types, "n_ctx": cells}), windows)
            for cells in (_CELLS, 2 * _CELLS)
        )
    except ModelLoadFailed as error:
        return KVSize(name, 0, error.message)
    return KVSize(name, _slope(less.store, more.store, less, more))


def _slope(low: float, high: float, less: _Sizes, more: _Sizes) -> float:
    return max(0.0, round((high - low) / (more.n_ctx - less.n_ctx), 1))


def _plan(model: Any, settings: Settings, windows: SwaCache, make: Any = context_params) -> _Sizes:
    """Return the sizes of the context that the server would make. Raise ModelLoadFailed with llama.cpp's reason."""
    params = make(settings, model, windows)
    with _size_lines() as lines:
        native_log.forget_error()
        context = lib.llama_init_from_model(model, params)
    if not context:
        raise ModelLoadFailed(native_log.last_error)
    try:
        if lib.llama_get_memory(context) and not lines.found_store:
            raise AssertionError("llama.cpp has not told the size of its KV store")
        lines.sizes.n_ctx = lib.llama_n_ctx(context)
        lines.sizes.n_seq_max = lib.llama_n_seq_max(context)
        lines.sizes.n_batch = lib.llama_n_batch(context)
        if places := _places(context):
            lines.sizes.places = places + MemoryUse(round(lines.sizes.logits))
    finally:
        lib.llama_free(context)
    return lines.sizes


def _places(context: Any) -> MemoryUse | None:
    """Return where a planned context is but for its logits, and its model; None where no function of this build tells."""
    try:
        breakdown = map_function(lib.llama_cpp._lib, _BREAKDOWN, ctypes.c_void_p)
    except AttributeError:
        return None
    machine, gpus = 0, dict[str, int]()
    for buffer_type, sizes in breakdown(context).items(3):  # the model's, the KV store's, those for computing
        size, device = sum(sizes), gpu_of(buffer_type)
        if device is None:
            machine += size
        else:
            gpus[device] = gpus.get(device, 0) + size
    return MemoryUse(machine, gpus)


@contextmanager
def _size_lines() -> Iterator[_SizeLines]:
    """Read llama.cpp's log lines inside, and show none of them."""
    log, lines = logging.getLogger("srb.llama"), _SizeLines()
    level, propagate = log.level, log.propagate
    log.setLevel(logging.DEBUG)
    log.propagate = False
    log.addHandler(lines)
    try:
        yield lines
    finally:
        log.removeHandler(lines)
        log.setLevel(level)
        log.propagate = propagate


def _facts(settings: Settings) -> NativeFacts:
    try:
        add_nodes(settings.rpc_nodes)
        return NativeFacts(build(), memory_estimate(settings))
    except (ModelLoadFailed, ConfigError) as error:
        return NativeFacts(build(), error=error.message)


def main() -> None:
    logging.getLogger("srb.llama").addHandler(logging.NullHandler())
    settings = Settings.load()
    try:
        begin()
    except ModelLoadFailed as error:  # a build for other processors, of which nothing else can be asked
        facts = NativeFacts(Build(package(), "", "", False, ()), error=error.message)
    else:
        facts = _facts(settings)
    sys.stdout.buffer.write(orjson.dumps(facts))


if __name__ == "__main__":
    main()
