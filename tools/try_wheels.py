"""The wheels in dist/ on processors that are not here: QEMU emulates each, and the bundled model writes a text on it.

    make wheels PROCESSORS=all && python -m tools.try_wheels            Nehalem, Haswell, what QEMU has most, this processor
    python -m tools.try_wheels Westmere IvyBridge                       others that `qemu-x86_64 -cpu help` names
    python -m tools.try_wheels --arm FOLDER cortex-a72 neoverse-n1      those of ARM, with wheels for it in dist/

FOLDER has a Debian for arm64 with Python and libgomp1, as debootstrap unpacks it; what SRB needs beside dist/ is fetched.

It needs Debian's package qemu-user. A line for each processor has the plugin that was loaded, and the likeliest text. The
exit status is 1 if one of them does not write, or writes another text than the first. QEMU knows no AVX512.
"""

from __future__ import annotations

import json
import os
import re
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


def install_for_arm(root: Path) -> Path:
    """Install the wheels for ARM beside a Debian's Python, which is not run; return the folder of its modules."""
    modules = root / "srb"
    [python] = (root / "usr/lib").glob("python3.*")
    tags = [f"--platform={tag}_aarch64" for tag in ("linux", "manylinux2014", "manylinux_2_28", "manylinux_2_31")]
    version = ["--python-version", python.name.removeprefix("python"), "--only-binary", ":all:"]
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--upgrade", "--target", modules, *tags, *version]
    subprocess.run([*command, "--find-links", DIST, "llama-srb"], check=True)
    return modules


def main() -> int:
    if sys.argv[1:] == ["--write"]:
        print(json.dumps(write()))
        return 0
    failed, first, environ = False, "", dict(os.environ)
    if sys.argv[1:2] == ["--arm"]:
        root, processors = Path(sys.argv[2]), sys.argv[3:]
        environ["PYTHONPATH"] = str(install_for_arm(root))
        emulator, python = ["qemu-aarch64", "-L", str(root)], root / "usr/bin/python3"
    else:
        emulator, python, processors = ["qemu-x86_64"], install(), sys.argv[1:] or list(PROCESSORS)
    for processor in processors:
        emulated = [*emulator, "-cpu", processor] if processor else []
        # numpy's OpenBLAS may take an emulated processor for one with AVX2, and ends then; it is told the oldest one.
        blas = {"OPENBLAS_CORETYPE": "Nehalem"} if emulated and emulator[0] == "qemu-x86_64" else {}
        command = [*emulated, str(python), "-P", str(Path(__file__)), "--write"]
        done = subprocess.run(command, capture_output=True, text=True, env=environ | blas)
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
