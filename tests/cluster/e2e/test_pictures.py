"""Pictures in every dialect, over a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.dialects import suite
from tests.cluster.e2e.conftest import Machines
from tests.e2e import test_pictures
from tests.media import png
from tests.models.random_gguf import write_llama
from tests.models.random_projectors import write_projector
from tests.servers import Server

LEFT_OUT = {
    "test_eight_requests_at_once_about_a_new_picture_encode_it_once",  # each replica that gets some of them does
}

globals().update(suite(test_pictures, LEFT_OUT))


@pytest.fixture(scope="package")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with model, projector and album."""
    folder = tmp_path_factory.mktemp("seer")
    write_llama(folder / "model.gguf")
    write_projector(folder / "mmproj.gguf")
    (folder / "media").mkdir()
    for seed in range(test_pictures.ALBUM):
        (folder / "media" / f"{seed}.png").write_bytes(png(40, 30, seed=seed))
    return folder


@pytest.fixture
def seer(machines: Machines, files: Path) -> Server:
    own = {"model": files / "model.gguf", "mmproj": files / "mmproj.gguf", "media_path": files / "media"}
    return machines.share("seer", **own, n_ctx=4096, alias=test_pictures.NAME, chat_template="chatml")
