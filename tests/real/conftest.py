"""Servers of real models. Without the models these tests are skipped; in CI, which fetches them, they fail."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.needs import long, need
from tests.page.conftest import browser, make_page, page, profile, troubles
from tests.servers import Server
from tools.real_models import path_of

# One thread, since two threads that wait for each other are slow on busy cores.
SETTINGS = {"n_ctx": 8192, "threads": 1, "stories": ""}

# A lead beyond which no other order of sums writes another token. Quantized weights enlarge what is rounded: between two
# kernels, and between two places of the same text in the KV store, leads differ by 0.1 as a rule, and of 1,920 tokens the
# largest lead that was lost was 0.85.
NARROW = 1.0

# The fixtures of tests/page. Imported by a module, a browser for the package would stay for all tests after it, and two of
# Playwright's loops do not go together in a process.
__all__ = ["browser", "make_page", "page", "profile", "troubles"]


@pytest.fixture(scope="package")
def smollm2(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server of SmolLM2 135M Instruct, which tests share."""
    yield from _serve("smollm2", tmp_path_factory)


@pytest.fixture(scope="package")
def gemma3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server of Gemma 3 270M, a base model with sliding windows, which tests share."""
    yield from _serve("gemma3", tmp_path_factory)


@pytest.fixture(scope="module", params=["smollm2", *long("gemma3")])
def name(request: pytest.FixtureRequest) -> str:
    """Return each model's name; at night also that of the second one."""
    return str(request.param)


# For tests of both models of which one is a main way: by day, too.
smoke_with_smollm2 = pytest.mark.parametrize(
    "name", [pytest.param("smollm2", marks=pytest.mark.smoke), "gemma3"], indirect=True
)


@pytest.fixture
def model(name: str, request: pytest.FixtureRequest) -> Server:
    """A server of each of the models in turn."""
    server: Server = request.getfixturevalue(name)
    return server


def need_model(name: str) -> Path:
    """Return a model's path; skip the test, or fail it in CI, if it was not fetched."""
    path = path_of(name)
    need(path.exists(), f"{path.name}: make real-models fetches it")
    return path


def _serve(name: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    path = need_model(name)
    folder = tmp_path_factory.mktemp(name)
    own = {"stories": folder / "stories.sqlite3"} if name == "smollm2" else {}
    with Server(folder, model=path, alias=name, **SETTINGS | own) as server:
        yield server.start()
