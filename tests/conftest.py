"""Settings of all tests, and the servers that they share."""

import gc
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings

from tests.walks import examples

pytest_plugins = ["tests.runner.plugin", "tests.servers", "tests.disks", "tests.postgresql"]

# A test's time depends on what else the machine does, so it decides nothing.
settings.register_profile("srb", deadline=None, max_examples=examples(100))
settings.load_profile("srb")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[Any]:
    """Collect tests without looking for garbage, and keep them out of later looks: one took a second of CPU time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="session", autouse=True)
def own_data_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the stories that tests save out of the folder of the person who runs the tests."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))
        yield
