"""Functions of ggml's CPU backend: in llama.cpp's library, or in the plugin that a build for all processors has loaded."""

from __future__ import annotations

import ctypes
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from srb.engine.llama.devices import ggml


@cache
def cpu_library() -> Any:
    """Return the library that has the functions of ggml-cpu.h."""
    library = ggml()
    if hasattr(library, "ggml_graph_compute"):
        return library
    [plugin] = set(re.findall(r"/\S*libggml-cpu\S*\.so", Path("/proc/self/maps").read_text()))
    return ctypes.CDLL(plugin)


needs_one_processor = pytest.mark.skipif(
    cpu_library() is not ggml(), reason="a build for all processors loads the plugin that fits"
)
