"""The loop of a command-line chat of 2023, which takes each chunk for an event, run by Node against a whole server.

The model writes 2 words a second: where Node, or its machine, is slower than the model, two chunks come in one read.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator

import orjson
import pytest

from tests.processes import DEADLINE, ROOT
from tests.servers import Server

pytestmark = [pytest.mark.e2e, pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")]


@pytest.fixture(scope="module")
def writer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("chat"), model="fake:2") as server:
        yield server.start()


def chat(server: Server, *words: str) -> list[str]:
    """Return the answers that the loop has read."""
    command = ["node", str(ROOT / "tests" / "e2e" / "node" / "chat.mjs"), server.url, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE, check=False)
    assert done.returncode == 0, done.stderr
    answers: list[str] = orjson.loads(done.stdout)
    return answers


def test_a_dialogue_of_three_questions(writer: Server) -> None:
    answers = chat(writer, "Once upon a time,", "And then?", "Tell me the end.")
    assert len(answers) == 3
    assert all(answers)


def test_an_infill_streams_by_itself(storyteller: Server) -> None:
    [answer] = chat(storyteller, "--infill", "Once upon a time there was ", " and they lived happily.")
    assert answer


def test_the_loop_fails_where_it_is_refused(storyteller: Server) -> None:
    with pytest.raises(AssertionError, match="400"):
        chat(storyteller, "the sea " * 12000)
