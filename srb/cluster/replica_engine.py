"""The engine of a replica: a supervisor as child process, in a runtime folder of its own."""

import asyncio
import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from srb.config.settings import CONFIG_VARIABLE, ENV_PREFIX, REPLICA_VARIABLE, SOCKET_NAME, STATES_SOCKET, Settings
from srb.errors import ModelLoadFailed
from srb.python import module_command
from srb.status import read_status

LOCK_NAME = "replica.lock"  # held as long as the process lives that made the folder
PREFIX = "srb-replica-"
# In which replicas share named states without a state_dir, in Ray's memory: one text of 8192 tokens of a model of 8B.
STATES_MIB = 1024
_LOOK_SECONDS = 0.1  # between looks whether the model is loaded
_STOP_SECONDS = 10.0  # from SIGTERM to SIGKILL, beside the time to write states


class ReplicaEngine:
    """One engine, which its supervisor starts again when it dies. Native code that aborts never takes this process along."""

    def __init__(
        self, settings: Settings, given: Mapping[str, Any], name: str = "", *, shares_states: bool = True
    ) -> None:
        """Start it with the settings that were `given`; all others have their defaults. Its logs have `name`.

        Without `shares_states`, which needs Ray, named states are shared by a common state_dir alone.
        """
        remove_left_folders(Path(tempfile.gettempdir()))
        self._folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        self._lock = _locked(self._folder)
        # Through `states_socket`; they need host memory.
        self.shares_states = shares_states and not settings.state_dir and settings.cache_ram_mib > 0
        if self.shares_states:
            given = {**given, "state_dir": self.states_folder, "state_dir_mib": STATES_MIB}
            settings = settings.model_copy(update={"state_dir": str(self.states_folder)})
        self._stop_seconds = _STOP_SECONDS + settings.state_seconds
        # With --temporary the supervisor removes the folder, should this process be killed.
        command = module_command("srb.process.supervisor", "--parent", str(os.getpid()), "--temporary")
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
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def remove_left_folders(parent: Path) -> None:
    """Remove the folders of replicas that were lost with their supervisors: they have people's named states."""
    for folder in parent.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):  # another user's, in use, just beginning, or just removed
            descriptor = os.open(folder / LOCK_NAME, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder)
            finally:
                os.close(descriptor)


def _locked(folder: Path) -> int:
    """Return the descriptor of the folder's lock, which another process sees only once it is held."""
    descriptor = os.open(folder / f"{LOCK_NAME}.new", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    os.rename(folder / f"{LOCK_NAME}.new", folder / LOCK_NAME)
    return descriptor


def _environ(given: Mapping[str, Any], folder: Path, name: str) -> dict[str, str]:
    """Return the supervisor's environment: this process's without settings, and those that were given.

    Ray sets OMP_NUM_THREADS to the replica's num_cpus; the setting `threads` says how many an engine uses.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ENV_PREFIX)}
    kept.pop("OMP_NUM_THREADS", None)
    assert CONFIG_VARIABLE not in kept
    values = {**given, "runtime_dir": folder, "cluster": "", "replicas": ""}
    return kept | {REPLICA_VARIABLE: name} | {ENV_PREFIX + name.upper(): str(value) for name, value in values.items()}
