"""Facts that only llama.cpp knows, for processes that must not load it: its build, and the memory that a model needs."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Device:
    """A device that llama.cpp computes on; `kind` is cpu, gpu, igpu, accel or meta, sizes are bytes."""

    name: str
    description: str
    kind: str
    free: int
    total: int

    @property
    def is_gpu(self) -> bool:
        return self.kind in ("gpu", "igpu")


@dataclass(frozen=True)
class Build:
    """llama.cpp as it was built: versions, the CPU's instructions that it uses, its devices."""

    binding: str  # version of llama-cpp-python
    ggml: str
    system_info: str  # of llama.cpp: parts and their features, such as CPU : AVX2 = 1
    is_debug: bool
    devices: tuple[Device, ...]
    has_rpc: bool = False  # whether RPC nodes can compute a part of a model

    @property
    def features(self) -> frozenset[str]:
        return frozenset(
            name.strip()
            for part in self.system_info.replace(":", "|").split("|")
            for name, sign, value in [part.partition("=")]
            if sign and value.strip() != "0"
        )


@dataclass(frozen=True)
class KVSize:
    """Memory of the KV store with one data type for keys and values; `refused` is llama.cpp's reason against the type."""

    type: str
    bytes_per_cell: float
    refused: str = ""


@dataclass(frozen=True)
class ModelNeeds:
    """A model, and the memory that it takes with the settings that were given; sizes are bytes."""

    description: str
    memory: str  # attention, sliding_window, recurrent or hybrid
    n_params: int
    n_layers: int
    n_ctx_train: int
    weights: int
    n_ctx: int
    n_seq_max: int  # sequences that requests can use
    threads: int
    threads_batch: int
    kv_types: tuple[KVSize, ...]
    bytes_per_cell: float  # with the types of the settings
    states: int  # of all sequences, whatever n_ctx is: recurrent states, small windows
    compute: int  # buffers for computing, at n_ctx
    compute_per_cell: float
    refused: str = ""  # llama.cpp's reason why there is no context with these settings
    remarks: tuple[str, ...] = ()  # settings with another effect than their number says
    projector: int = 0  # weights and buffers of the projector, if there is one
    projector_refused: str = ""  # the reason why it cannot be loaded
    is_projector_apart: bool = False  # on the CPU, while the model is on a GPU
    draft: int = 0  # of the draft model, all together at n_ctx
    draft_per_cell: float = 0.0

    @property
    def store(self) -> int:
        """The KV store at n_ctx, with the states."""
        return int(self.n_ctx * self.bytes_per_cell) + self.states

    @property
    def projector_beside(self) -> int:
        """The projector's bytes in the memory where the model is."""
        return 0 if self.is_projector_apart else self.projector

    @property
    def total(self) -> int:
        """All that is in the memory where the model is."""
        return self.weights + self.store + self.compute + self.projector_beside + self.draft


@dataclass(frozen=True)
class NativeFacts:
    """llama.cpp's build, and the model or the reason why it cannot be loaded."""

    build: Build
    model: ModelNeeds | None = None
    error: str = field(default="")
