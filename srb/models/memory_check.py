"""The check before a second engine starts: what its model needs, by llama.cpp's own plan, and what the machine has free."""

import contextlib
import logging
import os
import subprocess
from collections.abc import Iterable, Iterator, Mapping

from srb.config.settings import Settings
from srb.files.gguf import is_fake, is_mapped, model_files
from srb.files.native_facts import NEEDS_MODULE, Device, MemoryUse, NativeFacts, read_facts
from srb.host.memory import free_memory, size_text
from srb.models.listed import ListedModel
from srb.python import module_command

log = logging.getLogger("srb.supervisor")

_SPARE = 0.95  # of the free memory that an engine may take: estimates lack what libraries allocate as they run


class EstimateChild:
    """A process that tells what a model needs; its output is read as it arrives, so nobody waits for it."""

    def __init__(self, listed: ListedModel, settings: Settings) -> None:
        command = module_command(NEEDS_MODULE)
        self._process = subprocess.Popen(
            command,
            env={**os.environ, **listed.environ(settings)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self._process.stdout is not None
        self._stdout = self._process.stdout
        self._printed = b""
        self.is_done = False
        self.is_outdated = False  # whether engines took or left memory of GPUs since, which is told as it was then

    def fileno(self) -> int:
        return self._stdout.fileno()

    def read(self) -> None:
        """Read what has arrived."""
        chunk = os.read(self.fileno(), 65536)
        self._printed += chunk
        if not chunk:
            self.close()

    @property
    def facts(self) -> NativeFacts | None:
        """The facts that it has told; None if there are none: the model's engine then says why."""
        try:
            return read_facts(self._printed)
        except ValueError:
            return None

    @property
    def has_to_ask_again(self) -> bool:
        """Whether what it has told of the memory of GPUs is no longer so."""
        facts = self.facts
        return self.is_outdated and facts is not None and any(each.has_own_memory for each in facts.build.devices)

    def close(self) -> None:
        """End the process; may be called again."""
        if not self.is_done:
            self.is_done = True
            self._process.kill()
            self._process.wait()
            self._stdout.close()


def is_checked(settings: Settings) -> bool:
    """Whether a model of these settings has memory here that is known: not if it is spread over RPC nodes."""
    return not is_fake(settings) and not settings.rpc_nodes


class MemoryCheck:
    """The decision whether the memory has room for one more engine; each remark on it is logged once."""

    def __init__(self) -> None:
        self._said: set[tuple[str, ...]] = set()

    def has_room(
        self, name: str, settings: Settings, facts: NativeFacts | None, others: Mapping[str, Settings]
    ) -> bool:
        """Whether a model has room beside the engines `others`, by name; True if its needs cannot be known."""
        if not others:
            return True
        needed = bytes_needed(facts, settings)
        if facts is None or needed is None:
            self._say("unknown", text=f"the memory that model {name} needs is not known, so it is not checked")
            return True
        for place, bytes_, room in _demands(needed, facts.build.devices, others.values()):
            if room is None:
                self._say("unknown", place, text=f"the system does not tell how much memory is free{place}")
            elif bytes_ > room:
                beside = f"{size_text(room)} are free{' there' * bool(place)} beside {', '.join(others)}"
                text = f"model {name} needs {size_text(bytes_)}{place}, and {beside}: one of them gives way first"
                self._say(name, place, *sorted(others), text=text)
                return False
        return True

    def _say(self, *key: str, text: str) -> None:
        if key not in self._said:
            self._said.add(key)
            log.warning("%s", text)


def bytes_needed(facts: NativeFacts | None, settings: Settings) -> MemoryUse | None:
    """Return the bytes that a model takes; None if they are not known."""
    if facts is None or facts.model is None or facts.model.refused:
        return None
    if any(device.is_gpu for device in facts.build.devices):
        return facts.model.places
    return MemoryUse(facts.model.total)


def _demands(
    needed: MemoryUse, devices: Iterable[Device], others: Iterable[Settings]
) -> Iterator[tuple[str, int, int | None]]:
    """Yield for each memory its place in words, the bytes that a model takes there, and those that it may; None: unknown."""
    gpus = {device.name: device for device in devices if device.has_own_memory}
    for name, bytes_ in needed.gpus.items():
        device = gpus.get(name)
        room = int(device.free * _SPARE) if device is not None and device.total else None
        yield f" on {name}", bytes_, room
    yield "", needed.machine, room_beside(others, has_gpu=bool(gpus))


def room_beside(others: Iterable[Settings], *, has_gpu: bool = False) -> int | None:
    """Return the bytes of this machine's memory that one more engine may take beside loaded ones; None: it is not told.

    The pages of files count as free memory, yet a mapped model needs them, unless its layers are on a GPU.
    """
    free = free_memory()
    if free is None:
        return None
    return max(0, int(free * _SPARE) - sum(_mapped(each) for each in others if not (has_gpu and each.n_gpu_layers)))


def _mapped(settings: Settings) -> int:
    """Return the bytes of the files that an engine has mapped into memory."""
    if is_fake(settings) or not is_mapped(settings) or settings.mlock:
        return 0
    sizes = 0
    for path in model_files(settings.model_path):
        with contextlib.suppress(OSError):  # it was removed, and the engine still has it
            sizes += path.stat().st_size
    return sizes
