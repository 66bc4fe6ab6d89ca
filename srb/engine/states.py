"""Named states on disk: a prompt's KV under a name, for a later request or a later run of the server.

A file is a magic, the length of a JSON header, the header, the tokens (int32), the logits of the last one (float32)
and the saved KV. The header carries the format's version, the model's fingerprint and a checksum; a file that does not
fit is refused, and the prompt is computed.
"""

from __future__ import annotations

import hashlib
import logging
import os
import queue
import threading
from pathlib import Path

import numpy as np
import orjson

from srb.engine.model import SavedState
from srb.errors import bad_field

log = logging.getLogger("srb.states")

MAGIC = b"SRBSTATE"
VERSION = 1
_MOST_HEADER = 4096
_SAMPLES, _SAMPLE_BYTES = 64, 16384


class StateError(Exception):
    """A state file is damaged, or belongs to another model or version."""


def model_fingerprint(path: Path, *context: str) -> str:
    """Identify a model file by its size and samples of its bytes, and what else its KV depends on (cell types)."""
    size = path.stat().st_size
    digest = hashlib.blake2b(repr((size, context)).encode(), digest_size=16)
    with path.open("rb") as file:
        for place in range(_SAMPLES):
            file.seek(max(0, size - _SAMPLE_BYTES) * place // (_SAMPLES - 1))
            digest.update(file.read(_SAMPLE_BYTES))
    return digest.hexdigest()


def pack(state: SavedState, fingerprint: str) -> bytes:
    """Return the bytes of a state file."""
    body = np.asarray(state.tokens, np.int32).tobytes() + state.logits.tobytes() + state.blob.tobytes()
    header = orjson.dumps(
        {
            "version": VERSION,
            "model": fingerprint,
            "tokens": len(state.tokens),
            "logits": len(state.logits),
            "bytes": len(state.blob),
            "lora": state.lora,
            "checksum": hashlib.blake2b(body, digest_size=16).hexdigest(),
        }
    )
    return MAGIC + len(header).to_bytes(4, "little") + header + body


def unpack(data: bytes, fingerprint: str) -> SavedState:
    """Return what a state file holds. Raise StateError, with the reason, for one that this model cannot use."""
    size = int.from_bytes(data[8:12], "little")
    if data[:8] != MAGIC or size > _MOST_HEADER:
        raise StateError("it is not a state file")
    try:
        header = orjson.loads(data[12 : 12 + size])
        keys = ("version", "model", "tokens", "logits", "bytes", "checksum")
        version, model, n_tokens, n_logits, n_bytes, checksum = (header[key] for key in keys)
        lora = tuple(float(scale) for scale in header.get("lora", ()))
    except (ValueError, KeyError, TypeError):
        raise StateError("its header is damaged") from None
    if version != VERSION:
        raise StateError(f"it is of version {version}, and this server reads version {VERSION}")
    if model != fingerprint:
        raise StateError("it was saved with another model or other cell types")
    body = data[12 + size :]
    if (
        len(body) != 4 * (n_tokens + n_logits) + n_bytes
        or hashlib.blake2b(body, digest_size=16).hexdigest() != checksum
    ):
        raise StateError("it is damaged: its checksum does not fit")
    tokens = np.frombuffer(body, np.int32, n_tokens).tolist()
    logits = np.frombuffer(body, np.float32, n_logits, 4 * n_tokens)
    return SavedState(tokens, np.frombuffer(body, np.uint8, n_bytes, 4 * (n_tokens + n_logits)), logits, lora)


class StateFolder:
    """Named states as files in one folder; saving is done by a thread of its own."""

    def __init__(self, folder: Path, fingerprint: str) -> None:
        """Use `folder`, which is made when it does not exist (mode 0700). Raise OSError when it cannot be."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder = folder
        self._fingerprint = fingerprint
        self._jobs: queue.SimpleQueue[tuple[str, SavedState] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._write_all, name="states", daemon=True)
        self._thread.start()

    def load(self, name: str) -> SavedState | None:
        """Return a state, or None where there is none that this model can use; why is logged."""
        path = self._path(name)
        try:
            return unpack(path.read_bytes(), self._fingerprint)
        except FileNotFoundError:
            return None
        except (OSError, StateError) as error:
            log.warning("state %s is not used: %s; its prompt is computed", path, error)
            return None

    def save(self, name: str, state: SavedState) -> None:
        """Queue a state to be written; it replaces one of the same name."""
        self._jobs.put((name, state))

    def close(self) -> None:
        """Write what is queued and end the thread."""
        self._jobs.put(None)
        self._thread.join()

    def _write_all(self) -> None:
        while job := self._jobs.get():
            name, state = job
            path = self._path(name)
            partial = path.with_suffix(".partial")
            try:
                partial.write_bytes(pack(state, self._fingerprint))
                os.replace(partial, path)
            except OSError as error:
                log.error("state %s was not saved: %s", path, error)
            else:
                log.info("state %s saved: %d tokens, %d bytes", path, len(state.tokens), len(state.blob))

    def _path(self, name: str) -> Path:
        """Return a name's file. The name has been checked where it came in; here once more, since it becomes a path."""
        known = all(char.isascii() and (char.isalnum() or char in "-_.") for char in name)
        if not name or name.startswith(".") or not known:
            raise bad_field("state", "takes letters, digits, -, _ and, not at its beginning, .")
        return self._folder / f"{name}.srbstate"
