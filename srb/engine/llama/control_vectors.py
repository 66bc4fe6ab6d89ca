"""Control vectors of llama.cpp by sequence: in one decode each sequence is computed with its own, or with none.

llama.cpp has one control vector for a context. SRB's patch `sequence-vectors` adds to each row of a batch the vector of its
sequence, from a table of slots (native/sequence_vectors.h): the row is then what the context's vector would make of it.
"""

import ctypes
import logging
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any

import llama_cpp as lib
import numpy as np
import numpy.typing as npt

from srb.config.settings import Settings
from srb.engine.llama.vector_files import Directions, read_vector
from srb.engine.model import ControlVector, Mood
from srb.errors import ModelLoadFailed
from srb.reasons import reason_of

log = logging.getLogger("srb.llama")

FEW_SLOTS = 8  # at first; twice as many when branches with other moods run at once


class LlamaControlVectors:
    """The control vectors of one model, and those that its context applies now."""

    def __init__(self, settings: Settings, model: Any, context: Any, num_sequences: int) -> None:
        """Read the files that the settings name. Raise ModelLoadFailed for one that is in force and cannot be used."""
        self._context, self._num_sequences = context, num_sequences
        self._shape = lib.llama_model_n_layer(model) - 1, lib.llama_model_n_embd(model)
        self._layers = settings.vector_layers
        self._floats: dict[str, npt.NDArray[np.float32]] = {}  # by key, each of shape (layers, n_embd), from layer 1 on
        self._slots: dict[Mood, int] = {}  # of the moods that the context has, the latest last
        self._room = 0
        self._moods: Mapping[int, Mood] = {}  # of the latest decode
        self.vectors = [self._load(path, scale) for path, scale in settings.control_vectors]
        named = {vector.name for vector in self.vectors}
        if settings.control_vector_dir:
            self.vectors += self._found(Path(settings.control_vector_dir), named)
        self.refusal = self._prepare() if self.vectors else ""
        if self.refusal and settings.control_vector:
            raise ModelLoadFailed(f"control_vector: {self.refusal}")

    def _found(self, folder: Path, named: set[str]) -> list[ControlVector]:
        """Return the vectors of a folder that fit the model and are not `named` already. Raise ModelLoadFailed."""
        if not folder.is_dir():
            raise ModelLoadFailed(f"control_vector_dir: {folder} is not a folder")
        found = []
        for path in sorted(folder.glob("*.gguf")):
            try:
                found += [self._load(path)] if path.stem not in named else []
            except ModelLoadFailed as error:  # it may be another model's
                log.warning("%s; requests cannot name it", error.message)
        return found

    def _load(self, path: Path, scale: float = 0.0) -> ControlVector:
        try:
            floats = self._of_layers(read_vector(path))
        except (OSError, ValueError) as error:
            why = reason_of(error, path) if isinstance(error, OSError) else str(error)
            raise ModelLoadFailed(f"control_vector: {path} {why}") from None
        key = f"{path.stem}@{blake2b(floats.tobytes(), digest_size=6).hexdigest()}"
        self._floats[key] = floats
        return ControlVector(path.stem, key, str(path), scale)

    def _of_layers(self, directions: Directions) -> npt.NDArray[np.float32]:
        """Return the directions of all layers, zeros where there is none. Raise ValueError if they do not fit the model."""
        count, size = self._shape
        length = len(next(iter(directions.values())))
        if length != size:
            raise ValueError(f"is made for another model: it has {length} numbers for a layer, and the model {size}")
        first, last = self._layers
        floats = np.zeros(self._shape, np.float32)
        for layer, direction in directions.items():
            if layer <= count and first <= layer <= last:
                floats[layer - 1] = direction
        return floats

    def _prepare(self) -> str:
        """Have the context make room for vectors; return why there can be none."""
        try:
            self._init, self._set, self._use = _functions()
        except AttributeError:
            return "llama.cpp was built without SRB's patch sequence-vectors (docs/internals/engine.md)"
        return (
            "" if self._make_room(FEW_SLOTS) else "this kind of model has no place for them in llama.cpp, or no memory"
        )

    def _make_room(self, room: int) -> bool:
        self._slots.clear()
        self._room = min(room, self._num_sequences)
        return bool(self._init(self._context, 1 + self._room))  # the first slot is that of sequences without a vector

    def apply(self, moods: Mapping[int, Mood]) -> None:
        """Let the next decodes compute each sequence of `moods` under its mood, and others under none."""
        if moods == self._moods:
            return
        wanted = dict.fromkeys(moods.values())
        if len(wanted) > self._room and not self._make_room(max(len(wanted), 2 * self._room)):
            raise MemoryError("there is no memory for more control vectors")
        for mood in wanted:
            if mood in self._slots:
                self._slots[mood] = self._slots.pop(mood)
        for mood in wanted.keys() - self._slots.keys():
            free = len(self._slots) + 1
            if free > self._room:
                free = self._slots.pop(next(each for each in self._slots if each not in wanted))
            self._slots[mood] = free
            self._set(self._context, free, _pointer(self._sum(mood), ctypes.c_float))
        slots = np.zeros(self._num_sequences if moods else 0, np.int32)
        for seq_id, mood in moods.items():
            slots[seq_id] = self._slots[mood]
        self._use(self._context, _pointer(slots, ctypes.c_int32), len(slots))
        self._moods = dict(moods)

    def _sum(self, mood: Mood) -> npt.NDArray[np.float32]:
        """Return the sum of a mood's vectors, each times its scale, as llama.cpp adds them up."""
        total = np.zeros(self._shape, np.float32)
        for key, scale in mood:
            total += self._floats[key] * np.float32(scale)
        return total


def _functions() -> tuple[Any, Any, Any]:
    """Return the patch's functions: init, set, use. Raise AttributeError where llama.cpp lacks them."""
    library = lib.llama_cpp._lib
    init, fill, use = (getattr(library, f"llama_sequence_vectors_{name}") for name in ("init", "set", "use"))
    init.restype, init.argtypes = ctypes.c_bool, [ctypes.c_void_p, ctypes.c_int32]
    fill.restype, fill.argtypes = None, [ctypes.c_void_p, ctypes.c_int32, ctypes.POINTER(ctypes.c_float)]
    use.restype, use.argtypes = None, [ctypes.c_void_p, ctypes.POINTER(ctypes.c_int32), ctypes.c_size_t]
    return init, fill, use


def _pointer(values: npt.NDArray[Any], kind: Any) -> Any:
    return values.ctypes.data_as(ctypes.POINTER(kind))
