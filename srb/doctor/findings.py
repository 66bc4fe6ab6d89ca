"""Findings: faults that stop the server and facts that slow it down, each with the setting or the command to change."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from srb.doctor.checkup import Checkup
from srb.doctor.units import cores_text, count_text
from srb.files.gguf import is_mapped
from srb.files.native_facts import INSTRUCTIONS, without_patches
from srb.host.memory import size_text

_BUSY = 0.15  # cores that others keep busy, above which a thread of llama.cpp has to wait noticeably
_STOLEN = 0.05  # of the usable cores; any of 0.03 to 0.1 would do: a hundredth or two is stolen on any shared machine
_UNCACHED = 256 << 20  # bytes of the model's files that are not in the page cache; fewer are read in about a second
_SWAPPED = 64  # pages read from swap while watched: 256 KiB, more than a program that wakes up reads beside others


class Level(Enum):
    PROBLEM = "problem"  # the server does not start, may be killed, or cannot keep what it should
    SLOW = "slow"
    NOTE = "note"


@dataclass(frozen=True)
class Finding:
    """One finding: a sentence on the fact and its effect, and the change that helps."""

    level: Level
    text: str
    change: str


def findings(checkup: Checkup) -> list[Finding]:
    """Return all findings, problems first."""
    groups = (_places, _nodes, _memory, _several, _activity, _threads, _files, _system, _build, _settings)
    found = [finding for group in groups for finding in group(checkup)]
    order = list(Level)
    return sorted(found, key=lambda finding: order.index(finding.level))


def _problem(text: str, change: str) -> Finding:
    return Finding(Level.PROBLEM, text, change)


def _slow(text: str, change: str) -> Finding:
    return Finding(Level.SLOW, text, change)


def _note(text: str, change: str) -> Finding:
    return Finding(Level.NOTE, text, change)


def _places(checkup: Checkup) -> Iterator[Finding]:
    for each in checkup.obstacles:
        yield (_note if each.is_ours else _problem)(each.text, each.change)


def _nodes(checkup: Checkup) -> Iterator[Finding]:
    if checkup.nodes and not checkup.build.has_rpc:
        yield _problem("rpc is set, and llama.cpp was built without RPC", _REBUILD)
    for node, trouble in checkup.nodes.items():
        if not trouble:
            continue
        if checkup.activity.engines and "silent" in trouble:
            yield _note(f"{trouble}; an SRB engine runs here and may be that client", "nothing, or end that engine")
        else:
            port = node.rpartition(":")[2]
            yield _problem(trouble, f"on that machine: srb rpc-node --host ITS-ADDRESS --port {port}")


def _memory(checkup: Checkup) -> Iterator[Finding]:
    model, settings, machine = checkup.model, checkup.settings, checkup.machine
    if model.projector_refused:
        text = f"the projector {model.projector_refused.removeprefix('mmproj: ')}"
        yield _problem(text, "mmproj = the file that was made for this model; without one it reads text only")
    if not checkup.knows_room:
        return
    free = machine.memory_free
    if model.is_projector_apart and free is not None and model.projector > free:
        yield _problem(
            f"the projector needs {size_text(model.projector)} in memory, and {size_text(free)} are free",
            "end programs that hold memory, or a projector with fewer bits",
        )
    if model.refused:
        yield _problem(f"llama.cpp makes no context with these settings: {model.refused}", _refusal_change(checkup))
        return
    where = "on the GPU" if checkup.on_gpu else "in memory"
    room, need = size_text(checkup.room), size_text(model.total)
    if model.total > checkup.room:
        needs = "the model and its projector need" if model.projector_beside else "the model needs"
        text = f"{needs} {need} {where}, and {room} are free{_held(checkup)}"
        # What is not read from the file as needed:
        buffers = model.store + model.compute + model.projector_beside + model.draft
        if checkup.on_gpu or buffers > checkup.room or not is_mapped(settings):
            yield _problem(text, _smaller(checkup))
        else:
            yield _slow(f"{text}: its weights are read from the disk again and again", _smaller(checkup))
    elif not checkup.on_gpu and free is not None and model.total + (settings.cache_ram_mib << 20) > free:
        parked = size_text(settings.cache_ram_mib << 20)
        left = max(0, free - model.total) >> 20
        yield _note(
            f"texts that are kept for reuse may take {parked} beside the model, more than is free",
            f"cache_ram_mib = {left // 2}",
        )
    if machine.swap_used and checkup.activity.swapped_in > _SWAPPED:
        yield _slow(
            f"memory is short: {checkup.activity.swapped_in} pages came back from swap within a second",
            "end programs that hold memory, or use a smaller model; mlock = true keeps the weights in memory",
        )


def _several(checkup: Checkup) -> Iterator[Finding]:
    """Yield a finding if several models may be loaded at once, and the largest have no room together."""
    largest, count = checkup.largest, checkup.settings.max_engines
    if len(largest) < 2 or not checkup.knows_room:
        return
    names = ", ".join(each.name for each in largest)
    totals = [each.total for each in largest if each.total is not None]
    if len(totals) == len(largest) and sum(totals) > checkup.room:
        yield _note(
            f"max_engines is {count}, and the largest models ({names}) need {size_text(sum(totals))} together, where "
            f"{size_text(checkup.room)} are free{' on the GPU' * checkup.on_gpu}: "
            "a model without room is loaded once another has given way",
            "max_engines = 1, a smaller n_ctx for one of them (a table of [[models]]), or nothing",
        )


def _held(checkup: Checkup) -> str:
    """Return a remark if a running server holds memory: it may well be the one that is asked about."""
    engines = checkup.activity.engines
    if len(engines) > 1:
        return f" beside the {len(engines)} SRB engines that run"
    return f" beside the SRB engine that runs (pid {engines[0]})" if engines else ""


def _refusal_change(checkup: Checkup) -> str:
    settings, model = checkup.settings, checkup.model
    if settings.cache_type_v not in ("f32", "f16", "bf16") and settings.flash_attn == "off":
        return "flash_attn = auto, or cache_type_v = f16"
    if any(size.type in (settings.cache_type_k, settings.cache_type_v) and size.refused for size in model.kv_types):
        return "cache_type_k = f16 and cache_type_v = f16"
    return "see the reason; the settings of the model and its context are in config/default.toml"


def _smaller(checkup: Checkup) -> str:
    """Return the setting that makes it fit: fewer cells, smaller ones, fewer layers on the GPU, or another model.

    A projector leaves the GPU before layers do; without a GPU it is the last thing to go before the model.
    """
    model = checkup.model
    fit = checkup.cells(model.bytes_per_cell)
    if fit is not None and fit >= min(model.n_ctx_train, 2048):  # a scene and its branches; with less nobody writes
        return f"n_ctx = {checkup.recommended}"
    fits_without = model.total - model.projector_beside <= checkup.room
    if checkup.on_gpu and model.projector_beside and fits_without:
        return "mmproj_offload = false, which leaves the projector on the CPU"
    if checkup.on_gpu:
        left = checkup.room - model.compute - model.projector_beside
        layers = int(model.n_layers * max(0, left) / (model.weights + model.store))
        return f"n_gpu_layers = {layers}, which leaves the other layers on the CPU"
    q8 = next((size for size in model.kv_types if size.type == "q8_0" and not size.refused), None)
    if q8 is not None and (checkup.cells(q8.bytes_per_cell) or 0) >= model.n_ctx:
        return "cache_type_k = q8_0 and cache_type_v = q8_0"
    if model.projector_beside and fits_without:
        return "a projector with fewer bits; without mmproj the model reads text only"
    return "a smaller model, or a quantization of it with fewer bits"


def _activity(checkup: Checkup) -> Iterator[Finding]:
    activity, machine = checkup.activity, checkup.machine
    if not activity.is_told:
        return
    others = activity.by_others
    idle = machine.cpus - others
    if others > _BUSY and not checkup.on_gpu and idle < checkup.model.threads:
        fewer = max(1, int(idle + _BUSY))  # a core that is nearly idle counts
        if checkup.adapts_threads:
            effect = "the server computes with as many threads as have a core of their own"
            change = "end them while you write"
        else:
            effect = "each step waits until all its threads have had a core"
            change = f"end them, or threads = {fewer}" if fewer < checkup.model.threads else "end them while you write"
        yield _slow(
            f"other programs keep {cores_text(others)} of {machine.cpus} busy{_names(checkup)}; {effect}", change
        )
    if activity.stolen > _STOLEN * machine.cpus:
        yield _slow(
            f"other virtual machines on this hardware took {cores_text(activity.stolen)} from this one",
            "a machine with cores of its own; until then, fewer threads",
        )
    if activity.throttled:
        yield _slow(
            f"the control group was stopped {activity.throttled} times within a second, since its CPU quota was used up",
            f"threads = {machine.usable}, or a higher quota (CPUQuota= of systemd, --cpus of docker)",
        )


def _names(checkup: Checkup) -> str:
    programs = [program for program in checkup.activity.programs if not program.is_srb][:3]
    names = ", ".join(f"{each.name} (pid {each.pid}) {each.cores:.0%} of a core" for each in programs)
    return f" ({names})" if names else " (programs that cannot be seen from here)"


def _threads(checkup: Checkup) -> Iterator[Finding]:
    usable, model = checkup.machine.usable, checkup.model
    if checkup.on_gpu:
        return
    for name, count in (("threads", model.threads), ("threads_batch", model.threads_batch)):
        if count > usable:
            yield _slow(
                f"{name} is {count}, more than the {cores_text(usable)} that this process may use: threads take turns",
                f"{name} = 0 (one for each usable core)",
            )
    if model.threads < usable and model.threads == checkup.settings.threads and not _is_crowded(checkup):
        yield _note(f"threads is {model.threads} of {cores_text(usable)}", "threads = 0 (one for each usable core)")


def _is_crowded(checkup: Checkup) -> bool:
    return checkup.activity.by_others > _BUSY


def _files(checkup: Checkup) -> Iterator[Finding]:
    missing = checkup.file_size * (1 - checkup.cached) if checkup.cached is not None else 0
    if missing > _UNCACHED and not checkup.on_gpu:
        yield _note(
            f"about {size_text(missing)} of the model's file are not in the page cache: the first text waits for the disk",
            f"cat {checkup.settings.model_path} > /dev/null reads it now; mlock = true keeps it",
        )


def _system(checkup: Checkup) -> Iterator[Finding]:
    machine = checkup.machine
    if machine.governor == "powersave" and (machine.preference == "power" or not machine.preference):
        yield _slow(
            "the CPU is set to save power: its frequency is low or rises late",
            "sudo cpupower frequency-set -g performance, or your desktop's power mode",
        )
    elif machine.preference == "power":
        yield _slow("the CPU's energy preference is to save power", "your desktop's power mode: performance")
    if machine.huge_pages == "never" and not checkup.on_gpu:
        yield _note(
            "transparent huge pages are off: large buffers are made of pages of 4 KiB",
            "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled",
        )
    if machine.numa_nodes > 1:
        yield _note(
            f"memory is divided among {machine.numa_nodes} NUMA nodes", "try numactl --interleave=all srb serve"
        )


# The instructions that matter most for speed, as in INSTRUCTIONS.
_FAST = {flag: INSTRUCTIONS[flag] for flag in ("avx", "avx2", "fma", "f16c", "avx512f")} | {"amx_int8": "AMX_INT8"}
_REBUILD = (
    "pip install llama-srb-native; or build llama.cpp in a clone of SRB: make clean, then make install; or make wheels "
    "there, and pip install its llama_srb_native-*.whl here"
)


def _build(checkup: Checkup) -> Iterator[Finding]:
    build, machine = checkup.build, checkup.machine
    missing = [name for flag, name in _FAST.items() if flag in machine.instructions and name not in build.features]
    if missing and build.features and not checkup.on_gpu:
        yield _slow(f"llama.cpp was built without {', '.join(missing)}, which this CPU has", _REBUILD)
    if told := without_patches(build.system_info):
        yield _slow(told, _REBUILD)
    if build.is_debug:
        yield _slow("llama.cpp is a debug build", _REBUILD)
    if machine.card and not any(device.is_gpu for device in build.devices):
        card = machine.card
        yield _slow(
            f"this machine has {card.name}, and llama.cpp was built without it or cannot use it",
            f"make install GPU={card.build} (docs/gpu.md)",
        )
    elif checkup.settings.n_gpu_layers == 0 and any(device.is_gpu for device in build.devices):
        yield _slow("n_gpu_layers is 0: nothing is computed on the GPU", "n_gpu_layers = -1 (all layers)")


def _windows(checkup: Checkup) -> Iterator[Finding]:
    """Tell what the small cache of sliding windows costs a writer, and what the full size would take."""
    model, settings = checkup.model, checkup.settings
    if model.windows != "small":
        return
    fits = model.full_store and model.total - model.store + model.full_store <= checkup.room
    yield _note(
        "its sliding windows have the small cache: texts are reused up to checkpoints, and "
        f"{model.n_seq_max} sequences are computed at once",
        f"swa_full = on, whose KV store takes {size_text(model.full_store)}"
        if fits
        else f"n_seq_max = {settings.n + 1}, a window for each of {settings.n} branches and for the prompt",
    )


def _settings(checkup: Checkup) -> Iterator[Finding]:
    model = checkup.model
    for remark in model.remarks:
        yield _note(remark.text, remark.change)
    if model.refused or not checkup.knows_room or model.total > checkup.room:
        return
    yield from _windows(checkup)
    if model.n_ctx < model.n_ctx_train and checkup.recommended > model.n_ctx:
        yield _note(
            f"n_ctx is {count_text(model.n_ctx)}; the model was trained for texts of {count_text(model.n_ctx_train)} "
            f"tokens, and there is memory for longer ones",
            f"n_ctx = {checkup.recommended}",
        )
