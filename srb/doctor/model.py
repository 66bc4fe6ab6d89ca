"""llama.cpp's facts about itself and the model's files, from a child process."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping

from srb.errors import ModelLoadFailed
from srb.files.native_facts import NEEDS_MODULE, NativeFacts, read_facts
from srb.process.engine_child import describe
from srb.python import module_command

_TIMEOUT = 120  # seconds, in which even a file on a slow disk tells its header


def native_facts(environ: Mapping[str, str]) -> NativeFacts:
    """Return llama.cpp's facts about itself and the model of a server with this environment. Raise ModelLoadFailed."""
    command = module_command(NEEDS_MODULE)
    try:
        child = subprocess.run(
            command, env=dict(environ), stdin=subprocess.DEVNULL, capture_output=True, timeout=_TIMEOUT, check=False
        )
    except subprocess.TimeoutExpired:
        raise ModelLoadFailed(f"the model's header was not read within {_TIMEOUT} seconds") from None
    if child.returncode:
        last = child.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
        why = f"llama.cpp ended while it read the model's header ({describe(child.returncode)})"
        raise ModelLoadFailed(": ".join([why, *last]))
    return read_facts(child.stdout)
