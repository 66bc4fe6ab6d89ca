"""What a process must not load it does not load, also not through what it imports."""

from __future__ import annotations

import subprocess

import pytest

from tests.processes import PYTHON, ROOT


@pytest.mark.parametrize(
    ("module", "unwanted"),
    [
        ("srb.serve.gunicorn_conf", {"llama_cpp", "gevent", "flask", "numpy"}),
        ("srb.process.supervisor", {"llama_cpp", "gevent", "flask", "gunicorn", "numpy", "srb.engine"}),
        ("srb.models.supervisor", {"llama_cpp", "gevent", "flask", "gunicorn", "numpy", "srb.engine"}),
        ("srb.engine.process.__main__", {"gevent", "flask", "gunicorn", "llama_cpp"}),
        ("srb.web.app", {"llama_cpp", "srb.engine", "numpy"}),
    ],
)
def test_processes_load_no_unneeded_library(module: str, unwanted: set[str]) -> None:
    script = f"import os; os.environ['SRB_MODEL'] = 'fake:'; import sys, {module}; print(*sys.modules)"
    loaded = subprocess.run([PYTHON, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    assert not unwanted & set(loaded)
