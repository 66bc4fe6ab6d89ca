"""The report of `srb doctor`: facts in aligned sections, findings last; as text, or as JSON."""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from srb.doctor.checkup import Checkup
from srb.doctor.findings import Finding, Level
from srb.doctor.units import cores_text, count_text
from srb.host.memory import size_text
from srb.version import version

_NAMES = 13  # width of the column of names: the longest is `deterministic`
_WIDTH = 110  # as `srb serve --help`
_SIGNS = {Level.PROBLEM: "✗", Level.SLOW: "!", Level.NOTE: "·"}
_MEMORY = {
    "attention": "attention",
    "sliding_window": "attention, partly in a sliding window",
    "recurrent": "recurrent: one state for each sequence",
    "hybrid": "hybrid: attention, and one state for each sequence",
}
_UNKNOWN = "not known"
_DETERMINISTIC = "yes: a token's probabilities are the same whatever is computed beside it"

Line = tuple[str, str]


def as_text(checkup: Checkup, found: Sequence[Finding]) -> str:
    """Return the report for people."""
    sections = (
        ("This machine", _machine(checkup)),
        ("llama.cpp", _build(checkup)),
        (f"Model {checkup.settings.model_path}", _model(checkup)),
        ("Memory", _needs(checkup)),
        ("KV store, for each 1,000 cells", _types(checkup)),
        *([("The largest models, of which several are loaded at once", _largest(checkup))] if checkup.largest else []),
    )
    blocks = [_section(title, list(lines)) for title, lines in sections]
    return "\n\n".join([*blocks, _findings(found)]) + "\n"


def as_json(checkup: Checkup, found: Sequence[Finding]) -> dict[str, Any]:
    """Return the same facts and findings as an object."""
    machine = dataclasses.asdict(checkup.machine) | {"instructions": sorted(checkup.machine.instructions)}
    model = dataclasses.asdict(checkup.model) | {"store": checkup.model.store, "total": checkup.model.total}
    model["deterministic"] = not checkup.model.nondeterminism
    for size in model["kv_types"]:
        is_told = checkup.knows_room and not size["refused"]
        size["cells_that_fit"] = checkup.cells(size["bytes_per_cell"]) if is_told else None
    return {
        "srb": version(),
        "machine": machine,
        "activity": dataclasses.asdict(checkup.activity) | {"by_others": checkup.activity.by_others},
        "build": dataclasses.asdict(checkup.build) | {"patches": sorted(checkup.build.patches)},
        "rpc_nodes": dict(checkup.nodes),
        "model": {
            "path": str(checkup.settings.model_path),
            "file_size": checkup.file_size,
            "cached": checkup.cached,
            **model,
        },
        "largest_models": [dataclasses.asdict(each) for each in checkup.largest],
        "fits": {
            "room": checkup.room if checkup.knows_room else None,
            "on_gpu": checkup.on_gpu,
            "recommended_n_ctx": checkup.recommended,
        },
        "findings": [dataclasses.asdict(each) | {"level": each.level.value} for each in found],
    }


def _section(title: str, lines: list[Line]) -> str:
    return "\n".join([title, *(f"  {name:<{_NAMES}} {text}".rstrip() for name, text in lines)])


def _machine(checkup: Checkup) -> Iterator[Line]:
    machine, activity = checkup.machine, checkup.activity
    parts = [f"{machine.cores} of {machine.cpus} CPUs" if machine.cores != machine.cpus else f"{machine.cores}"]
    if machine.quota is not None:
        parts.append(f"a quota of {cores_text(machine.quota)}")
    yield "cores", ", ".join(parts) + (f" ({machine.cpu})" if machine.cpu else "")
    each = ", one for each usable core" + (" that other programs leave" if checkup.adapts_threads else "")
    yield "threads", f"{checkup.model.threads}" + ("" if checkup.settings.threads else each)
    others = cores_text(activity.by_others)
    busy = f"{others} by other programs, {cores_text(activity.busy)} in all; load {activity.load:.1f}"
    yield "busy", busy if activity.is_told else _UNKNOWN
    limit = f", limited to {size_text(machine.memory_limit)}" if machine.memory_limit else ""
    free = _UNKNOWN if machine.memory_free is None else size_text(machine.memory_free)
    yield "memory", f"{free} free of {_UNKNOWN if machine.memory is None else size_text(machine.memory)}{limit}"
    swap = f"{size_text(machine.swap_used)} used of {size_text(machine.swap)}" if machine.swap else "none"
    yield "swap", _UNKNOWN if machine.swap is None else swap


def _build(checkup: Checkup) -> Iterator[Line]:
    build = checkup.build
    yield "version", f"{build.package}, ggml {build.ggml}{', debug build' if build.is_debug else ''}"
    for device in filter(lambda each: each.is_gpu, build.devices):
        free = f"{size_text(device.free)} free of {size_text(device.total)}"
        yield "RPC" if device.is_remote else "GPU", f"{device.name}, {device.description}: {free}"
    if not any(device.is_gpu and not device.is_remote for device in build.devices):
        yield "GPU", "none that this build can use"
    for node, trouble in checkup.nodes.items():
        yield "RPC node", trouble or f"{node} answers"
    for name, words in (("features", build.features), ("patches", build.patches)):
        yield from _wrapped(name, ", ".join(sorted(words)) or "none")


def _model(checkup: Checkup) -> Iterator[Line]:
    model = checkup.model
    architecture, _guess, kind = model.description.split(" ", 2)  # llama.cpp guesses a size by the layers, even ?B
    yield "kind", f"{architecture} {kind}, {count_text(model.n_params)} parameters in {model.n_layers} layers"
    yield "memory", _MEMORY[model.memory] + (f" ({model.windows} cache)" if model.windows else "")
    yield "trained for", f"texts of {count_text(model.n_ctx_train)} tokens"
    cached = "page cache unknown" if checkup.cached is None else f"{checkup.cached:.0%} of it in the page cache"
    yield "file", f"{size_text(checkup.file_size)}, {cached}"
    yield from _wrapped("deterministic", f"no: {model.nondeterminism}" if model.nondeterminism else _DETERMINISTIC)


def _wrapped(name: str, text: str) -> Iterator[Line]:
    for number, line in enumerate(textwrap.wrap(text, _WIDTH - _NAMES, break_on_hyphens=False)):
        yield "" if number else name, line


def _needs(checkup: Checkup) -> Iterator[Line]:
    model = checkup.model
    yield "weights", f"{size_text(model.weights):>10}"
    if not model.refused:
        types = sorted({checkup.settings.cache_type_k, checkup.settings.cache_type_v})
        cells = f"n_ctx {count_text(model.n_ctx)} cells, {' and '.join(types)}"
        yield "KV store", f"{size_text(model.store):>10}  {cells}, {model.n_seq_max} sequences{_states(checkup)}"
        yield "computing", f"{size_text(model.compute):>10}"
        if model.projector:
            apart = ", on the CPU" if model.is_projector_apart else ""
            yield "projector", f"{size_text(model.projector):>10}  weights and buffers for pictures and sounds{apart}"
        if model.draft:
            name, parts = ("head", "") if checkup.settings.uses_head else ("draft model", "weights, ")
            yield name, f"{size_text(model.draft):>10}  {parts}KV store and computing"
        where = "GPU memory" if checkup.on_gpu else "memory"
        of = f"of {size_text(checkup.room)} of {where} that a server may take" if checkup.knows_room else ""
        yield "together", f"{size_text(model.total):>10}  {of}"
        fit = checkup.cells(model.bytes_per_cell)
        fits = "any number of cells" if fit is None else f"{count_text(fit)} cells"
        told = f"{fits} beside the weights; recommended: n_ctx = {checkup.recommended}"
        yield "fits", told if checkup.knows_room else f"{_UNKNOWN}: the system does not tell how much memory is free"
    parked = checkup.settings.cache_ram_mib << 20
    yield "kept texts", f"{size_text(parked):>10}  at most, as they come (cache_ram_mib)" if parked else "none"
    if (folder := checkup.settings.texts_path) is not None:
        mib = checkup.settings.cache_disk_mib
        most = f"{size_text(mib << 20):>10}" if mib > 0 else "1/10 of the free space"
        yield "on the disk", f"{most}  at most, in {folder} (cache_disk_mib){_there(folder)}"


def _there(folder: Path) -> str:
    """Return how much a folder of texts has, of all models; nothing if it has none."""
    sizes = [path.stat().st_size for path in folder.glob("*/*") if path.is_file()]
    return f"; {size_text(sum(sizes))} are there, in {len(sizes):,} files" if sum(sizes) else ""


def _largest(checkup: Checkup) -> Iterator[Line]:
    for each in checkup.largest:
        yield each.name, "not known" if each.total is None else f"{size_text(each.total):>10}"


def _states(checkup: Checkup) -> str:
    states = checkup.model.states
    return f" (their states: {size_text(states)})" if states else ""


def _types(checkup: Checkup) -> Iterator[Line]:
    if not any(size.bytes_per_cell or size.refused for size in checkup.model.kv_types):
        yield "none", "its memory is one state for each sequence, however long the text"
        return
    for size in checkup.model.kv_types:
        if size.refused:
            yield size.type, f"not with this model: {size.refused.partition(': ')[2] or size.refused}"
            continue
        fit = checkup.cells(size.bytes_per_cell)
        assert fit is not None, "a type that takes no memory beside types that do"
        fits = f"{count_text(fit):>13} cells fit" if checkup.knows_room else ""
        yield size.type, f"{size_text(1000 * size.bytes_per_cell):>10} {fits}"


def _findings(found: Sequence[Finding]) -> str:
    if not found:
        return "✓ Nothing stops the server, and nothing slows it down."
    blocks = []
    for each in found:
        text = textwrap.wrap(f"{_SIGNS[each.level]} {_capital(each.text)}.", _WIDTH, subsequent_indent="  ")
        change = textwrap.wrap(f"change: {each.change}", _WIDTH - 2, break_on_hyphens=False, break_long_words=False)
        blocks.append("\n".join([*text, *(f"  {line}" for line in change)]))
    return "\n".join(blocks)


def _capital(text: str) -> str:
    """Return a sentence with a capital, unless it begins with a name such as n_ctx or llama.cpp."""
    first = text.split()[0]
    return text if "_" in first or "." in first or first == "threads" else text[0].upper() + text[1:]
