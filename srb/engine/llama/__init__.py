"""llama.cpp behind the core's Model. Every import of llama_cpp comes after this, which sets what libgomp reads once."""

import os

# How often a thread of OpenMP looks for work before it sleeps. libgomp's own 300,000 are milliseconds, in which a thread
# that waits for another keeps the core that this one needs: beside a busy program two threads on two cores take 77 times
# as long. `python -m bench.busy --spins …` compares other numbers.
SPIN_COUNT = 2000

if not os.environ.keys() & {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"}:
    os.environ["GOMP_SPINCOUNT"] = str(SPIN_COUNT)
