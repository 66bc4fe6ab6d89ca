"""What a process must not load it does not load, also not through what it imports."""

from __future__ import annotations

import subprocess
import textwrap

import pytest

from tests.processes import PYTHON, ROOT


def printed(script: str) -> str:
    return subprocess.run([PYTHON, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(
    ("module", "unwanted"),
    [
        ("srb.serve.gunicorn_conf", {"llama_cpp", "gevent", "flask", "numpy"}),
        ("srb.process.supervisor", {"llama_cpp", "gevent", "flask", "gunicorn", "numpy", "srb.engine"}),
        ("srb.models.supervisor", {"llama_cpp", "gevent", "flask", "gunicorn", "numpy", "srb.engine"}),
        ("srb.engine.process.__main__", {"gevent", "flask", "gunicorn", "llama_cpp"}),
        ("srb.web.app", {"llama_cpp", "srb.engine", "numpy"}),
        (
            "srb.cli.main",
            {"llama_cpp", "flask", "numpy", "srb.bench", "srb.cluster", "srb.doctor", "srb.stories", "srb.top"},
        ),
    ],
)
def test_processes_load_no_unneeded_library(module: str, unwanted: set[str]) -> None:
    script = f"import os; os.environ['SRB_MODEL'] = 'fake:'; import sys, {module}; print(*sys.modules)"
    assert not unwanted & set(printed(script).split())


def test_a_worker_reads_the_metadata_of_packages_once_although_gevent_asks_for_each_module_that_it_patches() -> None:
    script = textwrap.dedent("""
    from importlib import metadata
    from srb.serve.gunicorn_worker import Worker

    asked = []
    distributions = metadata.distributions
    metadata.distributions = lambda **options: asked.append(options) or distributions(**options)
    worker = object.__new__(Worker)
    worker.sockets = []
    worker.patch()
    from gevent import monkey
    print(len(asked), monkey.is_module_patched("socket"), metadata.entry_points.__module__)
    """)
    assert printed(script).split() == ["1", "True", "importlib.metadata"]


def test_no_check_of_a_pattern_is_built_for_doors_where_there_are_none() -> None:
    script = (
        "from srb.cluster import doors; print(doors._Listed.__pydantic_complete__, doors._File.__pydantic_complete__)"
    )
    assert printed(script).split() == ["False", "False"]
