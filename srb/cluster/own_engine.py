"""The engine of a replica: a supervisor as child process, in a runtime folder of its own."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from srb.errors import ModelLoadFailed
from srb.settings import CONFIG_VARIABLE, ENV_PREFIX, REPLICA_VARIABLE, SOCKET_NAME, STATES_SOCKET, Settings
from srb.status import read_status

_LOOK_SECONDS = 0.1
_STOP_SECONDS = 10.0  # from SIGTERM to SIGKILL, beside the time to write states


class OwnEngine:
    """One engine, which its supervisor starts again when it dies. Native code that aborts never takes this process along."""

    def __init__(self, settings: Settings, given: Mapping[str, Any], name: str = "") -> None:
        """Start it with the settings that were `given`; all others have their defaults. Its logs have `name`."""
        self._folder = Path(tempfile.mkdtemp(prefix="srb-replica-"))
        self.shares_states = not settings.state_dir and settings.cluster_states_mib > 0  # through `states_socket`
        if self.shares_states:
            given = {**given, "state_dir": self.states_folder, "state_dir_mib": settings.cluster_states_mib}
            settings = settings.model_copy(update={"state_dir": str(self.states_folder)})
        self._stop_seconds = _STOP_SECONDS + settings.state_seconds
        command = [sys.executable, "-m", "srb.engine.process.supervisor", "--parent", str(os.getpid())]
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, env=_environ(given, self._folder, name), start_new_session=True
        )

    @property
    def socket_path(self) -> Path:
        return self._folder / SOCKET_NAME

    @property
    def states_socket(self) -> Path:
        return self._folder / STATES_SOCKET

    @property
    def states_folder(self) -> Path:
        """The engine's own folder of named states, if it shares them."""
        return self._folder / "states"

    @property
    def state(self) -> str:
        """The engine's state as in status.json; "failed" without a supervisor."""
        if self._process.poll() is not None:
            return "failed"
        return str(read_status(self._folder, is_connected=False)["state"] or "starting")

    @property
    def message(self) -> str:
        return str(read_status(self._folder, is_connected=False)["message"])

    async def wait_ready(self) -> None:
        """Wait until the model is loaded, however long that takes. Raise ModelLoadFailed if it cannot be."""
        while (state := self.state) != "running":
            if state == "failed":
                raise ModelLoadFailed(self.message or "the engine's supervisor has ended")
            await asyncio.sleep(_LOOK_SECONDS)

    def close(self) -> None:
        """End supervisor and engine; may be called again."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(self._stop_seconds)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)


def _environ(given: Mapping[str, Any], folder: Path, name: str) -> dict[str, str]:
    """Return the supervisor's environment: this process's without settings, and those that were given.

    Ray sets OMP_NUM_THREADS to the replica's num_cpus; the setting `threads` says how many an engine uses.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ENV_PREFIX)}
    kept.pop("OMP_NUM_THREADS", None)
    assert CONFIG_VARIABLE not in kept
    values = {**given, "runtime_dir": folder, "cluster": ""}
    return kept | {REPLICA_VARIABLE: name} | {ENV_PREFIX + name.upper(): str(value) for name, value in values.items()}
