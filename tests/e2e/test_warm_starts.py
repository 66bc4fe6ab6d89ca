"""A story opens warm: its text is not computed again after the engine has died, nor after an orderly end."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.processes import wait_for
from tests.servers import MakeServer, Server

STORY = "The old king looked at the sea. " * 40
ASKED = {"prompt": STORY, "n": 3, "max_tokens": 20, "seed": 5, "ignore_eos": True, "stream": False}


def ask(server: Server) -> tuple[int, list[str]]:
    """Return how many tokens were cached, and the texts."""
    answer = server.post("/v1/srb/completions", ASKED).json()
    return answer["usage"]["prompt_tokens_details"]["cached_tokens"], [each["text"] for each in answer["completions"]]


def kill_engine(server: Server) -> None:
    before = server.engine
    os.kill(before, signal.SIGKILL)
    wait_for(lambda: server.engine not in (0, before), "another engine starts")
    server.wait_ready()


def restart(server: Server) -> None:
    server.stop()
    server.start()


@pytest.mark.parametrize(
    "end", [pytest.param(kill_engine, marks=pytest.mark.smoke), restart], ids=["killed", "restarted"]
)
def test_row_69_the_next_engine_has_the_texts_of_the_one_before(
    make_server: MakeServer, tmp_path: Path, end: Callable[[Server], None]
) -> None:
    server = make_server(model="fake:0", cache_disk=tmp_path / "texts", cache_disk_mib=100).start()
    cached, texts = ask(server)
    assert cached == 0
    length = len(server.post("/tokenize", {"content": STORY}).json()["tokens"])
    wait_for(lambda: server.metric("stored_tokens_written_total") >= length, "its texts are written")
    end(server)
    again, texts_again = ask(server)
    assert again >= length - 1
    assert texts_again == texts
    assert server.metric("stored_tokens_read_total") >= length - 1
    assert server.metric("stored_hits_total") == 1
    told = server.get("/props").json()["kept_texts"]
    assert told["hits"] == 1
    assert told["files"] == server.metric("stored_texts") > 0
    assert told["bytes"] == server.metric("stored_bytes") > 0
    assert told["tokens_saved"] == server.metric("stored_tokens_read_total")
