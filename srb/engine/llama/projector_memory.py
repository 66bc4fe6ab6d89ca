"""The memory that a projector takes, as llama.cpp plans it, without loading its weights.

The one function that tells is C++: it returns a std::map of bytes by device.
"""

from __future__ import annotations

import ctypes

from srb.config.settings import Settings
from srb.engine.llama.log import native_log
from srb.engine.llama.media import _library as mtmd_library
from srb.engine.llama.std_map import map_function
from srb.errors import ModelLoadFailed

_FUNCTION = "_Z21mtmd_get_memory_usagePKc19mtmd_context_params"


def projector_bytes(settings: Settings) -> int:
    """Return the bytes of the projector's weights and buffers. Raise ModelLoadFailed if it is none, with the reason.

    They are planned on the CPU, since planning on a GPU takes the memory; a GPU's buffers are as large, nearly. A build
    without the function tells the size of the file, which is that of the weights.
    """
    mtmd, path = mtmd_library(), settings.mmproj_path
    try:
        plan = map_function(mtmd._libmtmd, _FUNCTION, ctypes.c_char_p, mtmd.mtmd_context_params)
    except AttributeError:
        return path.stat().st_size
    mtmd.mtmd_helper_log_set(native_log.callback, ctypes.c_void_p(0))
    params = mtmd.mtmd_context_params_default()
    params.use_gpu = False
    params.image_min_tokens, params.image_max_tokens = settings.image_min_tokens, settings.image_max_tokens
    native_log.forget_error()
    found = plan(str(path).encode(), params)
    if not found.count:
        raise ModelLoadFailed(f"mmproj: {path} cannot be loaded: {' '.join(native_log.first_error.split())}")
    return sum(size for _, [size] in found.items())
