"""Settings of all tests, the order of their files where several run side by side, and the servers that they share."""

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

pytest_plugins = ["tests.servers", "tests.disks"]

# A test's time depends on what else the machine does, so it decides nothing.
settings.register_profile("srb", deadline=None)
settings.load_profile("srb")

# Side by side, files that take long begin first, so that none runs alone at the end.
_LONG_FOLDERS = ("real", "e2e", "page", "process", "contract", "property")
_LONG_FILES = ("test_tree_at_size.py",)  # of other folders


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):  # this process is one of several
        items.sort(key=lambda item: _turn(item.path))


def pytest_collection_finish() -> None:
    """Keep the collected tests out of later collections of garbage: one took a second of a template's CPU time."""
    gc.collect()
    gc.freeze()


def _turn(file: Path) -> int:
    """Return a number that is smaller for files that take longer."""
    if file.name in _LONG_FILES:
        return 0
    folder = file.parent.name
    return _LONG_FOLDERS.index(folder) if folder in _LONG_FOLDERS else len(_LONG_FOLDERS)


@pytest.fixture(scope="session", autouse=True)
def own_data_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the stories that tests save out of the folder of the person who runs the tests."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))
        yield
