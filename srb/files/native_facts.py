"""Facts that only llama.cpp knows, for processes that must not load it: its build, and the memory that a model needs."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import TypeAdapter

# The patches in native/patches, with which SRB's llama.cpp is built.
PATCHES = (
    *("pixtral-marks", "special-tokens", "zeros-are-given-back", "cells-in-order", "cells-of-a-sequence"),
    *("shared-keys", "patch-names", "mul-mat", "cells-behind", "likeliest-first", "sequence-vectors", "row-operations"),
    "huge-pages",
)
# Instructions of x86 processors that ggml may be compiled for: /proc/cpuinfo's names, and ggml's. A processor whose name is
# missing there has not got them. Of later ones, such as avx_vnni and amx_int8, kernels that are in use do not tell.
INSTRUCTIONS = {
    "avx": "AVX", "avx2": "AVX2", "fma": "FMA", "f16c": "F16C", "bmi2": "BMI2", "avx512f": "AVX512",
    "avx512vbmi": "AVX512_VBMI", "avx512_vnni": "AVX512_VNNI",
}  # fmt: skip
_PATCHES = "SRB_PATCHES"  # the feature in which llama.cpp tells their names
_LOSS = (
    "many branches and long texts are slower, a seed's text depends on what is computed beside it, "
    "a KV store may take all its memory at once, and requests have no control vectors"
)


def features_of(system_info: str) -> dict[str, str]:
    """Return the features that llama_print_system_info tells, of all its parts, and their values."""
    pairs = [pair.partition("=") for pair in system_info.replace(":", "|").split("|")]
    return {name.strip(): value.strip() for name, sign, value in pairs if sign}


def patches_of(system_info: str) -> frozenset[str]:
    """Return the names of the patches that this llama.cpp was built with."""
    return frozenset(filter(None, features_of(system_info).get(_PATCHES, "").split(",")))


def has_faulty_amx(system_info: str) -> bool:
    """Whether llama.cpp was built with kernels for AMX, and without SRB's own, which take their place.

    They read beyond a weight for several sequences of a layer with states, and for weights of several matrices.
    """
    return features_of(system_info).get("AMX_INT8") == "1" and "mul-mat" not in patches_of(system_info)


def without_patches(system_info: str) -> str:
    """Return the sentence that tells which patches this llama.cpp lacks, and what of; empty: it has all."""
    has = patches_of(system_info)
    missing = [name for name in PATCHES if name not in has]
    if not missing:
        return ""
    which = f"{', '.join(missing)} of SRB's patches" if has else "SRB's patches (native/patches)"
    amx = "; its kernels for AMX are faulty, and not used" if has_faulty_amx(system_info) else ""
    return f"llama.cpp was built without {which}: {_LOSS}{amx}"


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

    @property
    def is_remote(self) -> bool:
        """Whether an RPC node has it, which llama.cpp counts as a GPU, also where it computes on a CPU."""
        return self.name.startswith("RPC")

    @property
    def has_own_memory(self) -> bool:
        """Whether it is a GPU with memory beside the machine's."""
        return self.kind == "gpu"


@dataclass(frozen=True)
class Build:
    """llama.cpp as it was built: versions, the CPU's instructions that it uses, its devices."""

    package: str  # whose it is, with its version: llama-srb-native or llama-cpp-python
    ggml: str
    system_info: str  # of llama.cpp: parts and their features, such as CPU : AVX2 = 1
    is_debug: bool
    devices: tuple[Device, ...]
    has_rpc: bool = False  # whether RPC nodes can compute a part of a model

    @property
    def features(self) -> frozenset[str]:
        """The CPU's instructions and libraries; not the patches, which have a name each."""
        found = features_of(self.system_info)
        return frozenset(name for name, value in found.items() if value != "0" and name != _PATCHES)

    @property
    def patches(self) -> frozenset[str]:
        return patches_of(self.system_info)


@dataclass(frozen=True)
class KVSize:
    """Memory of the KV store with one data type for keys and values; `refused` is llama.cpp's reason against the type."""

    type: str
    bytes_per_cell: float
    refused: str = ""


@dataclass(frozen=True)
class Remark:
    """A setting with another effect than its number says, and the change that ends it."""

    text: str
    change: str


@dataclass(frozen=True)
class MemoryUse:
    """Bytes that an engine takes in the machine's memory, and on each GPU with memory of its own, by the device's name."""

    machine: int
    gpus: Mapping[str, int] = field(default_factory=dict)

    def __add__(self, other: "MemoryUse") -> "MemoryUse":
        gpus = {name: self.gpus.get(name, 0) + other.gpus.get(name, 0) for name in (*self.gpus, *other.gpus)}
        return MemoryUse(self.machine + other.machine, gpus)


@dataclass(frozen=True)
class MemoryEstimate:
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
    remarks: tuple[Remark, ...] = ()
    projector: int = 0  # weights and buffers of the projector, if there is one
    projector_refused: str = ""  # the reason why it cannot be loaded
    is_projector_apart: bool = False  # on the CPU, while the model is on a GPU
    draft: int = 0  # of the draft model, all together at n_ctx
    draft_per_cell: float = 0.0
    windows: str = ""  # the cache of sliding windows: full, small; empty: the model has none, or states beside them
    full_store: int = 0  # the KV store with the full-size cache, where it is small
    places: MemoryUse | None = None  # where all of it is, projector and draft model included; None: it is not told
    nondeterminism: str = ""  # why a token's logits depend on what is computed beside it; empty: they do not

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
    model: MemoryEstimate | None = None
    error: str = field(default="")


NEEDS_MODULE = "srb.engine.llama.memory_estimate"  # prints the facts; a process of its own, since llama.cpp may abort


def read_facts(printed: bytes) -> NativeFacts:
    """Return the facts that the process of NEEDS_MODULE has printed. Raise ValueError for anything else."""
    return TypeAdapter(NativeFacts).validate_json(printed)  # built here: engines, which import this, read none
