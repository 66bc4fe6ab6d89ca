"""Control vectors in GGUF files, as llama.cpp's cvector-generator writes them: `direction.N` of each layer N from 1 on."""

import mmap
import struct
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from srb.files.gguf import MAGIC, read_tensors

Directions = dict[int, npt.NDArray[np.float32]]  # of layers, each of shape (n_embd,)
ARCHITECTURE = "controlvector"
_PREFIX = "direction."
_FLOATS, _TEXT, _NUMBER = 0, 8, 5  # types of a tensor and of values
_ALIGNMENT = 32


def read_vector(path: Path) -> Directions:
    """Return a file's direction of each layer. Raise ValueError for a file that is no control vector, or OSError."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        found: Directions = {}
        try:
            tensors = read_tensors(data)
            for name, (kind, sizes, at) in tensors.items():
                layer = name.removeprefix(_PREFIX)
                if (
                    name.startswith(_PREFIX)
                    and layer.isdecimal()
                    and int(layer)
                    and kind == _FLOATS
                    and len(sizes) == 1
                ):
                    found[int(layer)] = np.frombuffer(data[at : at + 4 * sizes[0]], "<f4").astype(np.float32)
                    if len(found[int(layer)]) != sizes[0]:
                        raise ValueError
        except (ValueError, KeyError, struct.error, OverflowError):
            raise ValueError("is damaged, or no GGUF file") from None
    if not found or len({len(each) for each in found.values()}) > 1:
        raise ValueError("is no control vector: it has no direction.1, direction.2 … of one length")
    return found


def write_vector(path: Path, directions: Mapping[int, npt.NDArray[np.float32]], model: str) -> None:
    """Write a control vector for a `model` of this architecture."""
    facts = [
        ("general.architecture", _TEXT, _text(ARCHITECTURE)),
        ("controlvector.model_hint", _TEXT, _text(model)),
        ("controlvector.layer_count", _NUMBER, struct.pack("<i", len(directions))),
    ]
    header = MAGIC + struct.pack("<IQQ", 3, len(directions), len(facts))
    header += b"".join(_text(name) + struct.pack("<I", kind) + value for name, kind, value in facts)
    body = b""
    for layer, direction in sorted(directions.items()):
        header += _text(f"{_PREFIX}{layer}") + struct.pack("<IQIQ", 1, len(direction), _FLOATS, len(body))
        body += _padded(direction.astype("<f4").tobytes())
    path.write_bytes(_padded(header) + body)


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % _ALIGNMENT)
