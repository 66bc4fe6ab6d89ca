"""Answers of a real model, event by event, with and without a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.e2e.conftest import TINY
from tests.cluster.test_serving import BODIES, check_answers
from tests.servers import Server


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory, model: Path) -> Iterator[Server]:
    """A server with an engine of its own."""
    with Server(tmp_path_factory.mktemp("alone"), model=str(model), **TINY) as server:
        yield server.start()


@pytest.mark.parametrize("name", BODIES)
def test_an_answer_of_a_model_is_the_same_with_and_without_a_cluster(tiny: Server, alone: Server, name: str) -> None:
    check_answers(name, tiny, alone)
