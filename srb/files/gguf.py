"""Facts about the files of a model and its adapters, read without loading them."""

import hashlib
import mmap
import re
import struct
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from srb.config.named_models import named_model_at
from srb.config.settings import Settings
from srb.errors import ConfigError, ModelLoadFailed
from srb.host.cgroups import memory_limit
from srb.host.memory import total_memory
from srb.reasons import reason_of

# The `model` setting that serves FakeModel, for tests; "fake:25" decodes 25 times a second, and "fake:25:3000" takes a
# 3,000th of a second more for each token.
FAKE_MODEL = "fake:"
# Files of at most this part of the memory are read by default: eight engines of one model on a machine then take half of it.
_PART_READ = 16
POOLING_TYPES = ("none", "mean", "cls", "last", "rank")  # enum llama_pooling_type
MAGIC = b"GGUF"
_VERSIONS = (2, 3)  # their headers have the same form
_FORMATS = dict(zip((*range(8), 10, 11, 12), "BbHhIif?Qqd", strict=True))  # enum gguf_type: the numbers
_TEXT, _ARRAY = 8, 9
_ARCHITECTURE = "general.architecture"
_MODEL, _PROJECTOR, _ADAPTER, _VECTOR = (
    "a model",
    "a projector of pictures or sounds",
    "a LoRA adapter",
    "a control vector",
)
_KINDS = {"mmproj": _PROJECTOR, "spec_draft_model": _MODEL, "lora": _ADAPTER, "control_vector": _VECTOR}
# Heads that are not served, by a tensor that they have.
_HEADS = {
    "markov_w1.weight": "a DSpark drafter",
    "selector_hidden.weight": "a drafter of DFlash 2",
}
_PART = re.compile(r"-\d{5}-of-(\d{5})\.gguf$")
_LITERAL = str.maketrans({sign: f"[{sign}]" for sign in "[?*"})  # for glob

_SAMPLES, _SAMPLE_BYTES = 64, 16384  # of a model's file: to read 100 GB takes minutes at each start


def model_fingerprint(path: Path, *context: str) -> str:
    """Return a fingerprint of a model file: its size, samples of its bytes, and `context` (cell types, adapters)."""
    size = path.stat().st_size
    digest = hashlib.blake2b(repr((size, context)).encode(), digest_size=16)
    with path.open("rb") as file:
        for place in range(_SAMPLES):
            file.seek(max(0, size - _SAMPLE_BYTES) * place // (_SAMPLES - 1))
            digest.update(file.read(_SAMPLE_BYTES))
    return digest.hexdigest()


@dataclass
class _Header:
    """The header of a GGUF file; of a damaged one what can be read. llama.cpp says what is wrong, when it loads the file."""

    facts: dict[str, str | int | float] = field(default_factory=dict)  # of the metadata, without its lists
    tensors: dict[str, tuple[int, tuple[int, ...], int]] = field(default_factory=dict)  # type, sizes, place in the file
    least_size: int = 0  # bytes up to the beginning of the tensor that lies last
    refusal: str = ""  # why llama.cpp never loads such a file


def is_fake(settings: Settings) -> bool:
    """Whether the settings ask for FakeModel."""
    name, _, pace = settings.model.partition(":")
    return f"{name}:" == FAKE_MODEL and (not pace or pace.replace(":", "", 1).isdecimal())


def check_model_file(settings: Settings) -> None:
    """Raise ModelLoadFailed if the header of the model's file shows that it cannot be what the settings want of it."""
    if is_fake(settings):
        return
    path = settings.model_path
    try:
        is_gguf = _is_gguf(path)
    except OSError as error:
        if isinstance(error, FileNotFoundError) and (named := named_model_at(path)):
            raise ModelLoadFailed(
                f"the model {named.name} is not on this machine; `srb models fetch {named.name}` fetches it"
            ) from None
        raise ModelLoadFailed(f"cannot read the model {path}: {reason_of(error, path)}") from None
    if not is_gguf:
        raise ModelLoadFailed(f"the model {path} is not a GGUF file")
    try:
        headers = {each: _header(each) for each in (path, *model_files(path))}
    except OSError as error:  # of a part
        raise ModelLoadFailed(f"cannot read the model {error.filename}: {reason_of(error, error.filename)}") from None
    facts = headers[path].facts
    if (kind := _kind(facts)) and kind != _MODEL:
        raise ModelLoadFailed(f"the model {path} is {kind}, which needs a model beside it")
    for part, header in headers.items():
        if header.refusal:
            raise ModelLoadFailed(f"the model {part} {header.refusal}")
        if part.stat().st_size <= header.least_size:
            raise ModelLoadFailed(f"the model {part} is incomplete: a download that was stopped leaves such a file")
    _check_parts(path, facts)
    if settings.reranking and facts and (pooling := pooling_of(settings)) != "rank":
        raise ModelLoadFailed(
            f"reranking: {path} is no reranking model (its pooling is {pooling}); pooling = rank tries it"
        )


def _check_parts(path: Path, facts: Mapping[str, str | int | float]) -> None:
    """Raise ModelLoadFailed for a part of a model, unless it is the first and the others are beside it."""
    number, count = (facts.get(key) for key in ("split.no", "split.count"))
    if not isinstance(number, int) or not isinstance(count, int) or count < 2:
        return
    ending, named = f"-of-{count:05}.gguf", _PART.search(path.name)
    stem = path.name[: named.start()] if named else path.stem
    first, *others = (f"{stem}-{part:05}{ending}" for part in range(1, count + 1))
    if number:
        raise ModelLoadFailed(
            f"the model {path} is part {number + 1} of {count}: the first one has to be named, {first}"
        )
    if path.name != first:
        raise ModelLoadFailed(f"the model {path} is part 1 of {count}, which llama.cpp finds as …-00001{ending} alone")
    if missing := next((each for each in others if not path.with_name(each).exists()), ""):
        raise ModelLoadFailed(f"the model {path} is part 1 of {count}, and {missing} is not beside it")


def check_adapter_files(settings: Settings) -> None:
    """Raise ConfigError where a header shows that it is no adapter, control vector, projector or draft model.

    Whether its tensors fit the model shows at loading.
    """
    if is_fake(settings):
        return
    others = [("control_vector", path) for path, _ in settings.control_vectors]
    others += [("mmproj", settings.mmproj_path)] if settings.mmproj else []
    others += [("spec_draft_model", settings.draft_model_path)] if settings.has_draft_model else []
    own: dict[str, str | int | float] = {}  # the model's facts, read for the first adapter
    for name, path in [*(("lora", path) for path, _ in settings.adapters), *others]:
        try:
            is_gguf = _is_gguf(path)
        except OSError as error:
            raise ConfigError(f"{name}: cannot read {path}: {reason_of(error, path)}") from None
        if not is_gguf:
            raise ConfigError(f"{name}: {path} is not a GGUF file")
        header = _header(path)
        if header.refusal:
            raise ConfigError(f"{name}: {path} {header.refusal}")
        facts = header.facts
        if (kind := _kind(facts)) and kind != _KINDS[name]:
            raise ConfigError(f"{name}: {path} is {kind}, and should be {_KINDS[name]}")
        if kind == _ADAPTER and (wanted := facts.get(_ARCHITECTURE)) is not None:
            own = own or _header(settings.model_path).facts
            if own.get(_ARCHITECTURE) != wanted:
                raise ConfigError(f"{name}: {path} is made for {wanted}, and the model is {own.get(_ARCHITECTURE)}")


def pooling_of(settings: Settings) -> str:
    """Return how vectors of a text's tokens become one where a request does not say: as set, else as the file says."""
    if settings.pooling != "auto":
        return settings.pooling
    facts = _header(settings.model_path).facts
    number = facts.get(f"{facts.get(_ARCHITECTURE)}.pooling_type")
    return POOLING_TYPES[number] if isinstance(number, int) and 0 <= number < len(POOLING_TYPES) else "none"


def has_head_file(settings: Settings) -> bool:
    """Whether the draft model is a head in a file of its own. Raise ModelLoadFailed for one of a kind that is not served."""
    if not settings.has_draft_model or is_fake(settings):
        return False
    path = settings.draft_model_path
    header = _header(path)
    kind = next((kind for name, kind in _HEADS.items() if name in header.tensors), "")
    if has_head(path) and "blk.0.attn_norm.weight" not in header.tensors and len(model_files(path)) == 1:
        kind = "the head of a model without its other layers"
    if kind:
        raise ModelLoadFailed(
            f"spec_draft_model: {path} is {kind}, which is not served; a small model of the same family, an EAGLE-3 head "
            "and a DFlash drafter are"
        )
    return header.facts.get(_ARCHITECTURE) in ("eagle3", "dflash", "gemma4-assistant")


def has_head(path: Path) -> bool:
    """Whether the model at `path` has layers that draft (multi-token prediction), and not only the number of them."""
    return any(".nextn.eh_proj." in name for part in model_files(path) for name in _header(part).tensors)


def _header(path: Path) -> _Header:
    header = _Header()
    damaged = suppress(KeyError, ValueError, ZeroDivisionError)
    with path.open("rb") as file, damaged, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        try:
            _read(data, header)
        except (struct.error, OverflowError):
            header.refusal = "is incomplete or damaged: its header goes beyond its end"
    return header


def _read(data: mmap.mmap, header: _Header) -> None:
    """Read a header. Raise struct.error or OverflowError where it goes beyond the file's end, others where it is damaged."""
    found = header.facts
    (version,) = struct.unpack_from("<I", data, len(MAGIC))
    if version not in _VERSIONS:
        header.refusal = _refusal(version)
        return
    tensors, count = struct.unpack_from("<QQ", data, len(MAGIC) + 4)
    at = 24
    for _ in range(count):
        key, at = _text(data, at)
        (kind,) = struct.unpack_from("<I", data, at)
        at += 4
        if kind == _ARRAY:
            at = _after_list(data, at)
        elif kind == _TEXT:
            found[key], at = _text(data, at)
        else:
            (found[key],) = struct.unpack_from(f"<{_FORMATS[kind]}", data, at)
            at += struct.calcsize(_FORMATS[kind])
    read: dict[str, tuple[int, tuple[int, ...], int]] = {}
    for _ in range(tensors):
        name, at = _text(data, at)
        (dimensions,) = struct.unpack_from("<I", data, at)
        *sizes, kind, offset = struct.unpack_from(f"<{dimensions}QIQ", data, at + 4)
        at += 4 + 8 * dimensions + 12
        read[name] = kind, tuple(sizes), offset
    alignment = int(found.get("general.alignment", 32))
    begin = -(-at // alignment) * alignment
    header.tensors = {name: (kind, sizes, begin + offset) for name, (kind, sizes, offset) in read.items()}
    header.least_size = max((at for *_, at in header.tensors.values()), default=0)


def read_tensors(data: mmap.mmap) -> dict[str, tuple[int, tuple[int, ...], int]]:
    """Return type, sizes and place of each tensor of a file. Raise ValueError, KeyError, OverflowError or struct.error."""
    header = _Header()
    if data[: len(MAGIC)] == MAGIC:
        _read(data, header)
    return header.tensors


def _refusal(version: int) -> str:
    """Return why llama.cpp does not load a file whose header has this version, which is not among _VERSIONS."""
    known = " and ".join(map(str, _VERSIONS))
    swapped = int.from_bytes(version.to_bytes(4, "little"), "big")
    if swapped in _VERSIONS:
        is_readable = sys.byteorder == "big"
        return "" if is_readable else "is of big-endian byte order, which this machine does not have; convert it anew"
    return f"is of version {version} of GGUF, and {known} are read; convert or download it anew"


def _text(data: mmap.mmap, at: int) -> tuple[str, int]:
    (size,) = struct.unpack_from("<Q", data, at)
    end = at + 8 + size
    if end > len(data):
        raise struct.error
    return data[at + 8 : end].decode(), end


def _after_list(data: mmap.mmap, at: int) -> int:
    kind, count = struct.unpack_from("<IQ", data, at)
    at += 12
    if kind != _TEXT:
        return int(at + count * struct.calcsize(_FORMATS[kind]))
    for _ in range(count):
        at += 8 + struct.unpack_from("<Q", data, at)[0]
    return at


def _kind(facts: Mapping[str, str | int | float]) -> str:
    """Return what a file is by its metadata; "" if they could not be read."""
    if facts.get("general.type") == "adapter":
        return _ADAPTER
    architecture = facts.get(_ARCHITECTURE, "")
    named = {"clip": _PROJECTOR, "controlvector": _VECTOR, "": ""}
    return named.get(str(architecture), _MODEL)


def model_files(path: Path) -> list[Path]:
    """Return the model's files: the one at `path` and, if it is a part of a split model, all parts that exist."""
    part = _PART.search(path.name)
    if part is None:
        return [path]
    stem = path.name[: part.start()]
    return sorted(path.parent.glob(f"{stem.translate(_LITERAL)}-?????-of-{part[1]}.gguf"))


def is_mapped(settings: Settings) -> bool:
    """Whether an engine maps its model's files: any process has the same answer, whatever memory is free now."""
    if settings.mmap != "auto":
        return settings.mmap == "on"
    limit = memory_limit()
    total = min(filter(None, (total_memory(), limit.limit if limit else None)), default=0)
    try:
        return sum(path.stat().st_size for path in model_files(settings.model_path)) > total // _PART_READ
    except OSError:  # it is gone, or not there yet
        return True


def _is_gguf(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC
