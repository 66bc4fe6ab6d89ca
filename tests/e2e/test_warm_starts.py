"""A story opens warm: its text is not computed again after the engine has died, nor after an orderly end."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.processes import DEADLINE, wait_for
from tests.servers import MakeServer, Server
from tests.stories import person

STORY = "The old king looked at the sea. " * 40
SECRET = "The girl in the garden remembered a grey lamp. " * 30
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


KEYS = {"anna": "key-of-anna", "ben": "key-of-ben"}


def ask_as(server: Server, who: str, prompt: str, **fields: Any) -> int:
    """Return how many tokens of a person's prompt were found."""
    body = {"prompt": prompt, "max_tokens": 4, "ignore_eos": True, "stream": False, **fields}
    headers = {"Authorization": f"Bearer {KEYS[who]}"}
    usage = server.post("/v1/completions", body, headers=headers).json()["usage"]
    found: int = usage["prompt_tokens_details"]["cached_tokens"]
    return found


def tokens_of(server: Server, text: str) -> list[int]:
    headers = {"Authorization": f"Bearer {KEYS['ben']}"}
    tokens: list[int] = server.post("/tokenize", {"content": text}, headers=headers).json()["tokens"]
    return tokens


def has(folder: Path, tokens: list[int]) -> bool:
    """Whether a file of a folder has some tokens, as the index of the texts writes them."""
    wanted = b"".join(token.to_bytes(4, "little") for token in tokens[50:60])
    return any(wanted in each.read_bytes() for each in folder.rglob("index"))


def with_keys(make_server: MakeServer, folder: Path) -> Server:
    (folder / "keys").write_text("".join(f"{name}:{key}\n" for name, key in KEYS.items()))
    kept = {"cache_disk": folder / "texts", "cache_disk_mib": 100, "stories": folder / "stories.sqlite3"}
    return make_server(model="fake:0", n_ctx=4096, api_key_file=folder / "keys", **kept).start()


@pytest.mark.parametrize("runs", [True, False], ids=["engine runs", "engine is away"])
def test_of_a_deleted_story_the_disk_keeps_what_others_have(
    make_server: MakeServer, tmp_path: Path, runs: bool
) -> None:
    server = with_keys(make_server, tmp_path)
    headers = {"Authorization": f"Bearer {KEYS['anna']}"}
    tale = {"nodes": {"a": person("Once upon a time,")}}
    assert server.post("/v1/srb/stories/lighthouse", tale, headers=headers).status_code == 200
    ask_as(server, "anna", STORY + SECRET, session="lighthouse")
    ask_as(server, "ben", STORY, session="other")
    story, secret = (tokens_of(server, text) for text in (STORY, SECRET))
    wait_for(lambda: has(tmp_path / "texts", secret), "the text is on the disk")
    if not runs:
        os.kill(server.engine, signal.SIGSTOP)
    gone = requests.delete(f"{server.url}/v1/srb/stories/lighthouse", headers=headers, timeout=DEADLINE)
    assert gone.status_code == 200
    if not runs:
        wait_for(lambda: (tmp_path / "texts" / "forgotten").read_bytes().count(b"story"), "it is noted")
        os.kill(server.engine, signal.SIGKILL)
        server.wait_ready()
    wait_for(lambda: not has(tmp_path / "texts", secret), "it is forgotten")
    restart(server)
    # A part of the text that reaches over the story's end goes whole; an engine that runs writes the others' again.
    least = len(story) - 1 if runs else len(story) // 2
    assert least <= ask_as(server, "ben", STORY + SECRET) < len(story) + 8


def test_of_a_revoked_key_the_disk_keeps_what_others_have(make_server: MakeServer, tmp_path: Path) -> None:
    server = with_keys(make_server, tmp_path)
    ask_as(server, "anna", SECRET)
    ask_as(server, "ben", STORY)
    story, secret = (tokens_of(server, text) for text in (STORY, SECRET))
    wait_for(lambda: all(has(tmp_path / "texts", each) for each in (story, secret)), "the texts are on the disk")
    wait_for((tmp_path / "texts" / "forgotten").exists, "the keys are noted")
    (tmp_path / "keys").write_text(f"ben:{KEYS['ben']}\n")
    server.process.send(signal.SIGHUP)
    wait_for(lambda: b'"gone":["' in (tmp_path / "texts" / "forgotten").read_bytes(), "the key's end is noted")
    wait_for(lambda: not has(tmp_path / "texts", secret), "its texts are forgotten")
    restart(server)
    assert ask_as(server, "ben", STORY) >= len(story) - 1
    assert ask_as(server, "ben", SECRET) < 8
