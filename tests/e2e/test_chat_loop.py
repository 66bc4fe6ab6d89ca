"""The loop of a command-line chat of 2023, run by Node against a whole server."""

from __future__ import annotations

import shutil
import subprocess

import orjson
import pytest

from tests.processes import DEADLINE, ROOT
from tests.servers import Server

pytestmark = [pytest.mark.e2e, pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")]


def chat(server: Server, *words: str) -> list[str]:
    """Return the answers that the loop has read."""
    command = ["node", str(ROOT / "tests" / "e2e" / "node" / "chat.mjs"), server.url, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE, check=False)
    assert done.returncode == 0, done.stderr
    answers: list[str] = orjson.loads(done.stdout)
    return answers


def test_a_dialogue_of_three_questions(storyteller: Server) -> None:
    answers = chat(storyteller, "Once upon a time,", "And then?", "Tell me the end.")
    assert len(answers) == 3
    assert all(answers)


def test_an_infill_streams_by_itself(storyteller: Server) -> None:
    [answer] = chat(storyteller, "--infill", "Once upon a time there was ", " and they lived happily.")
    assert answer


def test_the_loop_fails_where_it_is_refused(storyteller: Server) -> None:
    with pytest.raises(AssertionError, match="400"):
        chat(storyteller, "the sea " * 12000)
