"""DRY samplers. Building one searches the whole vocabulary for its sequence breakers, so built ones are kept and cloned."""

from __future__ import annotations

import ctypes
from collections import OrderedDict
from threading import Lock
from typing import Any

import llama_cpp as lib

MAX_BREAKERS = 64  # of all kept samplers; one that many tokens contain takes 1 MiB, so these are 64 MiB at most


class DrySamplers:
    """The samplers that were built last, each before its first token. Safe from any thread."""

    def __init__(self, vocab: Any) -> None:
        self._vocab = vocab
        self._lock = Lock()  # held while one is cloned, too: another thread may free it
        self._kept: OrderedDict[tuple[Any, ...], Any] = OrderedDict()  # by arguments, latest use last
        self.num_built = 0

    def new(self, *args: Any) -> Any:
        """Return a new sampler: multiplier, base, allowed length, window and sequence breakers are `args`."""
        with self._lock:
            if args not in self._kept:
                native = self._build(*args)
                if len(args[-1]) > MAX_BREAKERS:
                    return native
                self._kept[args] = native
                self._forget_oldest()
            self._kept.move_to_end(args)
            return lib.llama_sampler_clone(self._kept[args])

    def close(self) -> None:
        """Free all kept samplers; may be called again."""
        with self._lock:
            while self._kept:
                lib.llama_sampler_free(self._kept.popitem()[1])

    def _build(self, multiplier: float, base: float, allowed: int, last_n: int, breakers: tuple[str, ...]) -> Any:
        self.num_built += 1
        texts = [breaker.encode() for breaker in breakers]
        native = (ctypes.c_char_p * len(texts))(*texts)
        return lib.llama_sampler_init_dry(self._vocab, multiplier, base, allowed, last_n, native, len(texts))

    def _forget_oldest(self) -> None:
        """Free the samplers whose last use is the longest ago, until the rest has few enough breakers."""
        while sum(max(1, len(args[-1])) for args in self._kept) > MAX_BREAKERS:
            lib.llama_sampler_free(self._kept.popitem(last=False)[1])
