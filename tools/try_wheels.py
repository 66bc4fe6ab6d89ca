"""The wheels in dist/ elsewhere: on processors that QEMU emulates, on other systems. The bundled model writes a text there.

    make wheels PROCESSORS=all && python -m tools.try_wheels            Nehalem, Haswell, what QEMU has most, this processor
    python -m tools.try_wheels Westmere IvyBridge                       others that `qemu-x86_64 -cpu help` names
    python -m tools.try_wheels --root FOLDER                            another Debian, of this kind of processor
    python -m tools.try_wheels --root FOLDER cortex-a72 neoverse-n1     one for ARM, with wheels for it in dist/

FOLDER is a system with Python and nothing else, as `debootstrap --variant=minbase --include=python3` unpacks it; what SRB
needs beside dist/ is fetched for its Python. Root alone may enter it.

Processors need Debian's package qemu-user. A line for each has the plugin that was loaded, and the likeliest text. The exit
status is 1 if one of them does not write, or writes another text than the first. QEMU knows no AVX512.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
import venv
from pathlib import Path

PROCESSORS = ("Nehalem", "Haswell", "max", "")  # "": this one, without QEMU
FOLDER, DIST = Path("build/try-wheels"), Path("dist")
PROMPT, BRANCHES, TOKENS = "Once upon a time,", 4, 12


def write() -> dict[str, object]:
    """Return the likeliest text of a request with branches, and the plugin that computed it."""
    from srb.config.named_models import BUNDLED_MODEL
    from srb.config.sampling_params import SamplingParams
    from srb.config.settings import Settings
    from srb.engine.engine import Engine, EngineOptions
    from srb.engine.llama.model import LlamaModel
    from srb.wire.commands import BranchSpec, Generate
    from srb.wire.events import Delta

    model = LlamaModel.load(Settings(model=str(BUNDLED_MODEL), n_ctx=256, n_seq_max=BRANCHES + 1, threads=1))
    engine = Engine(model, EngineOptions(max_queue=10), clock=time.monotonic)
    ways = [SamplingParams(temperature=float(seed > 0), ignore_eos=True) for seed in range(BRANCHES)]
    specs = tuple(BranchSpec(seed, TOKENS, sampling=way) for seed, way in enumerate(ways))
    engine.submit(engine.prepare(Generate("try", (PROMPT,), specs)))
    texts = [""] * BRANCHES
    while engine.has_work:
        for event in engine.step():
            if isinstance(event, Delta):
                texts[event.index] += event.text
    plugins = set(re.findall(r"libggml-cpu[^/\n]*", Path("/proc/self/maps").read_text()))
    return {"plugin": ", ".join(sorted(plugins)), "texts": texts}


def install() -> Path:
    """Install the wheels in an environment of their own; return its Python."""
    venv.create(FOLDER, with_pip=True, clear=True)
    python = FOLDER / "bin" / "python"
    command = [python, "-m", "pip", "install", "--quiet", "--no-index", "--find-links", DIST, "llama-srb"]
    subprocess.run(command, check=True)
    return python


def install_into(root: Path) -> tuple[str, Path]:
    """Install the wheels in another system, with nothing of it run; return its kind of processor, and their folder."""
    modules = root / "srb"
    [library] = root.glob("usr/lib/*-linux-gnu/libc.so.6")
    machine = library.parent.name.removesuffix("-linux-gnu")
    [newest] = re.findall(rb"GNU C Library .* version 2\.(\d+)", library.read_bytes())
    tags = ["linux", "manylinux2014", *(f"manylinux_2_{number}" for number in range(5, int(newest) + 1))]
    [python] = (root / "usr/lib").glob("python3.*")
    version = ["--python-version", python.name.removeprefix("python"), "--only-binary", ":all:"]
    platforms = [f"--platform={tag}_{machine}" for tag in reversed(tags)]
    shutil.rmtree(modules, ignore_errors=True)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", modules, *platforms, *version]
    subprocess.run([*command, "--find-links", DIST, "llama-srb"], check=True)
    shutil.copy(__file__, modules)
    return machine, modules


def main() -> int:
    if sys.argv[1:] == ["--write"]:
        print(json.dumps(write()))
        return 0
    failed, first, environ = False, "", dict(os.environ)
    if sys.argv[1:2] == ["--root"]:
        root, processors = Path(sys.argv[2]), sys.argv[3:] or [""]
        machine, modules = install_into(root)
        emulator, python, script = (
            [f"qemu-{machine}", "-L", str(root)],
            str(root / "usr/bin/python3"),
            modules / "try_wheels.py",
        )
        environ["PYTHONPATH"] = str(modules)
        # With a /proc of its own, which is gone afterwards.
        inside = (
            'mount -t proc proc "$0/proc" && exec chroot "$0" env PYTHONPATH=/srb python3 -P /srb/try_wheels.py "$@"'
        )
        here = ["unshare", "--mount", "--", "sh", "-c", inside, str(root)]
    else:
        emulator, python, script = ["qemu-x86_64"], str(install()), Path(__file__)
        processors = sys.argv[1:] or list(PROCESSORS)
        here = [python, "-P", str(script)]
    for processor in processors:
        # numpy's OpenBLAS may take an emulated processor for one with AVX2, and ends then; it is told the oldest one.
        blas = {"OPENBLAS_CORETYPE": "Nehalem"} if processor and emulator[0] == "qemu-x86_64" else {}
        command = [*emulator, "-cpu", processor, python, "-P", str(script)] if processor else here
        done = subprocess.run([*command, "--write"], capture_output=True, text=True, env=environ | blas)
        if done.returncode:
            failed = True
            print(f"{processor or 'this one'}: exit status {done.returncode}\n{done.stderr[-2000:]}")
        else:
            said = json.loads(done.stdout.splitlines()[-1])
            text = said["texts"][0]
            first = first or text
            failed |= text != first
            print(f"{processor or 'this one'}: {said['plugin']}: {PROMPT}{text}", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
