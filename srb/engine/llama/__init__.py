"""llama.cpp behind the core's Model. Every import of llama_cpp comes after this, which says which one."""

import os

from srb import native

native.put_on_path()

# How often a thread of OpenMP looks for work before it sleeps. libgomp's own 300,000 are milliseconds, in which a thread
# that waits for another keeps the core that this one needs: beside a busy program two threads on two cores take 77 times
# as long. With 500 it is 1.7 times, with 2,000 3 and with 10,000 8; on quiet cores all take the same time
# (`python -m bench.busy --threads 2 --spins …`, SmolLM2, n = 8).
SPIN_COUNT = 500

if not os.environ.keys() & {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"}:
    os.environ["GOMP_SPINCOUNT"] = str(SPIN_COUNT)
