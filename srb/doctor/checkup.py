"""A checkup: all facts that the findings and the report are made of, gathered once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from srb.config.rpc_nodes import trouble_of
from srb.config.settings import Settings
from srb.doctor.activity import Activity, watch
from srb.doctor.machine import Machine, read_machine
from srb.doctor.model import native_facts
from srb.doctor.places import Obstacle
from srb.errors import ModelLoadFailed
from srb.files.gguf import check_model_file, is_fake, model_files
from srb.files.native_facts import Build, MemoryEstimate
from srb.host.page_cache import cached_part
from srb.models.listed import ListedModel, list_models

_SPARE = 0.95  # of the free memory that a server may take, as in models; the rest is for web workers and texts
_STEP = 1024  # cells, to which recommendations are rounded down: a number that people type


@dataclass(frozen=True)
class Neighbour:
    """One of several models: its name, and the bytes that it takes with its settings; None if they are not known."""

    name: str
    total: int | None


@dataclass(frozen=True)
class Checkup:
    """The machine, its activity, llama.cpp, and the model with its files."""

    settings: Settings
    machine: Machine
    activity: Activity
    build: Build
    model: MemoryEstimate
    file_size: int
    cached: float | None  # part of the files in the page cache
    nodes: Mapping[str, str] = field(default_factory=dict)  # why each RPC node cannot be used; "": it can
    largest: tuple[Neighbour, ...] = ()  # of several models, as many as may be loaded at once
    obstacles: tuple[Obstacle, ...] = ()  # places that the server could not use

    @property
    def knows_room(self) -> bool:
        """Whether the memory for the model is known: not if it is on RPC nodes that do not answer, or no system tells it."""
        return not any(self.nodes.values()) and (self.on_gpu or self.machine.memory_free is not None)

    @property
    def on_gpu(self) -> bool:
        """Whether the model's layers are computed on a GPU."""
        return self.settings.n_gpu_layers != 0 and any(device.is_gpu for device in self.build.devices)

    @property
    def adapts_threads(self) -> bool:
        """Whether the server leaves cores to other programs by itself."""
        return self.settings.adapts_threads and self.machine.tells_waits and not self.on_gpu

    @property
    def room(self) -> int:
        """Bytes for the weights, the KV store and the buffers: free memory of the GPUs, or of the machine."""
        if self.on_gpu:
            free = sum(device.free for device in self.build.devices if device.is_gpu)
        else:
            free = self.machine.memory_free or 0
        return int(free * _SPARE)

    def cells(self, bytes_per_cell: float) -> int | None:
        """Return how many cells fit beside the weights; None for a model whose memory does not grow with them."""
        model = self.model
        if not bytes_per_cell:
            return None
        more = model.compute_per_cell + model.draft_per_cell
        buffers = model.compute + model.draft - model.n_ctx * more
        fixed = model.weights + model.projector_beside + model.states + buffers
        return max(0, int((self.room - fixed) / (bytes_per_cell + more)))

    @property
    def recommended(self) -> int:
        """The cells to set: those of the settings if they fit and suffice, else more or fewer.

        They suffice for a text of the trained length with the default number of branches. More are recommended only up to
        half of what fits, since the store takes its memory at the start.
        """
        settings, model, fit = self.settings, self.model, self.cells(self.model.bytes_per_cell)
        if fit is None or not self.knows_room:
            return model.n_ctx
        if fit < model.n_ctx:
            return max(_STEP, fit // _STEP * _STEP)
        longest = model.n_ctx_train + settings.n * max(0, settings.max_tokens_of_srb)
        return max(model.n_ctx, min(longest, fit // 2) // _STEP * _STEP)  # never fewer than are set, as those fit


def examine(settings: Settings, environ: Mapping[str, str]) -> Checkup:
    """Gather the facts about a server with these settings; `environ` has them as variables. Raise ModelLoadFailed."""
    if is_fake(settings):
        raise ModelLoadFailed(f"{settings.model} is no file; name a GGUF file with -m")
    check_model_file(settings)
    files = model_files(settings.model_path)
    cached = cached_part(files)  # before anything reads them
    nodes = {str(node): trouble_of(node) for node in settings.rpc_nodes}
    answering = environ if not any(nodes.values()) else {**environ, "SRB_RPC": ""}
    facts = native_facts(answering)
    if facts.model is None:
        raise ModelLoadFailed(facts.error)
    size = _size(files)
    return Checkup(settings, read_machine(), watch(), facts.build, facts.model, size, cached, nodes)


def largest_models(settings: Settings, environ: Mapping[str, str]) -> tuple[Neighbour, ...]:
    """Return the largest of several models by their files, as many as `max_engines`; none if only one is loaded at once."""
    if settings.max_engines == 1:
        return ()
    sizes: list[tuple[int, ListedModel]] = []
    for listed in list_models(settings).values():
        own = listed.settings(settings)
        if not is_fake(own):
            with suppress(OSError):  # a file that is missing takes no memory
                sizes.append((_size(model_files(own.model_path)), listed))
    sizes.sort(key=lambda pair: pair[0], reverse=True)
    return tuple(Neighbour(each.name, _total(each, settings, environ)) for _, each in sizes[: settings.max_engines])


def _total(listed: ListedModel, settings: Settings, environ: Mapping[str, str]) -> int | None:
    try:
        model = native_facts({**environ, **listed.environ(settings)}).model
    except ModelLoadFailed:
        return None
    return None if model is None or model.refused else model.total


def _size(files: Iterable[Path]) -> int:
    return sum(path.stat().st_size for path in files)
