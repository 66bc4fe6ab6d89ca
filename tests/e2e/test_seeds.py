"""The examples of the servers whose clients this one serves: sent by curl as their documents have them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.processes import DEADLINE, PYTHON, wait_for
from tests.servers import MakeServer, Server

pytestmark = [pytest.mark.e2e, pytest.mark.smoke]

FOLDER = Path(__file__).parent / "seeds"


@dataclass(frozen=True)
class Example:
    """A request of a document, and the shape of its answer; see seeds/examples.toml."""

    name: str
    method: str
    path: str
    answer: str
    headers: tuple[str, ...] = ()
    body: str = ""
    shape: str = ""
    first: str = ""
    some: tuple[str, ...] = ()
    last: str = ""

    def send(self, url: str) -> tuple[str, str]:
        """Return the content type and the body of the answer, as curl gets them."""
        words = ["curl", "-sS", "--max-time", str(DEADLINE), "-w", "\n%{content_type} %{http_code}", "-X", self.method]
        words += [word for header in self.headers for word in ("-H", header)]
        words += ["-d", self.body] if self.body else []
        done = subprocess.run([*words, url + self.path], capture_output=True, text=True, check=True)
        text, _, last = done.stdout.rpartition("\n")
        content_type, _, status = last.rpartition(" ")
        assert status == "200", text
        return content_type, text


EXAMPLES = [Example(**example) for example in tomllib.loads((FOLDER / "examples.toml").read_text())["example"]]


def has_shape(value: Any, shape: Any) -> bool:
    if isinstance(shape, dict):
        return isinstance(value, dict) and all(
            key in value
            and (has_shape(value[key], part) if key not in ("event", "object", "role") else value[key] == part)
            for key, part in shape.items()
        )
    if isinstance(shape, list):
        return isinstance(value, list) and bool(value) and all(has_shape(item, shape[0]) for item in value)
    if shape is None:
        return True
    if isinstance(shape, bool):
        return isinstance(value, bool)
    if isinstance(shape, (int, float)):
        return type(value) in (int, float)
    return isinstance(value, str)


def events(text: str) -> list[Any]:
    assert text.endswith("\n\n")
    lines = [line for line in text.split("\n") if line]
    assert all(line.startswith("data: ") for line in lines), text
    return [json.loads(line.removeprefix("data: ")) for line in lines]


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with the bundled model that also makes embeddings."""
    folder = tmp_path_factory.mktemp("seeds")
    with Server(
        folder, model="storyteller", embedding=True, pooling="mean", threads=1, default_max_tokens=200, state_dir=folder
    ) as shared:
        yield shared.start()


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_an_example_is_answered_in_the_shape_that_its_document_shows(everything: Server, example: Example) -> None:
    content_type, text = example.send(everything.url)
    if example.answer == "json":
        assert content_type == "application/json"
        assert has_shape(json.loads(text), json.loads(example.shape)), text
    elif example.answer == "events":
        assert content_type.startswith("text/event-stream")
        found = events(text)
        if example.first:
            assert has_shape(found[0], json.loads(example.first)), found[0]
        for shape in example.some:
            assert any(has_shape(event, json.loads(shape)) for event in found), shape
        assert has_shape(found[-1], json.loads(example.last)), found[-1]
    else:
        assert content_type.startswith("text/plain")
        assert len(text.splitlines()) > 3


def test_the_first_example_makes_eight_completions_and_ends_each_once(everything: Server) -> None:
    _, text = EXAMPLES[0].send(everything.url)
    found = events(text)
    assert found[0]["count"] == found[-1]["count"] == 8
    assert sorted(event["index"] for event in found if event["event"] == "stop") == list(range(8))
    assert {event["index"] for event in found if event["event"] == "stream"} == set(range(8))


def test_a_cached_prompt_is_not_read_again_after_a_restart(make_server: MakeServer, tmp_path: Path) -> None:
    body = {"prompt": "Once upon a time there was a fox. " * 8, "num_predict": 4, "cache": 42, "temp": 0}
    texts = []
    for cached in (False, True):
        server = make_server(model="storyteller", threads=1, state_dir=tmp_path / "states").start()
        response = server.post("/stream", body)
        assert response.headers["Content-Type"] == "text/plain; charset=utf-8"
        texts.append(response.text)
        wait_for(lambda server=server: re.search(r": done, 1 branches", server.logs), "the end is logged")  # type: ignore[misc]
        [numbers] = re.findall(r"cached (\d+), restored \d+, computed (\d+)", server.logs)
        assert (int(numbers[0]) > 0) == cached
        assert server.stop() == 0
    assert texts[0] == texts[1]
    assert len(texts[0].splitlines()) == 4


def test_crias_script_runs_to_its_end(make_server: MakeServer) -> None:
    server = make_server(model="storyteller", threads=1, default_max_tokens=40, profile="cria").start()
    command = [PYTHON, "-W", "ignore::ResourceWarning", FOLDER / "cria.py", server.url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE)
    assert done.returncode == 0, done.stderr
    story, _, seconds = done.stdout.rpartition("\nGeneration from completion took ")
    assert story.strip()
    assert re.fullmatch(r"\d+\.\d\d !\n", seconds)


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_a_page_continues_prompts_with_our_module(make_server: MakeServer) -> None:
    server = make_server(api_key="k").start()
    command = ["node", str(FOLDER / "completion.mjs"), server.url, "k"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    # Tokens that are ready together come in one event: at least one of text, then the last, which has none.
    assert len(said["looped"]) >= 2
    assert said["looped"][-1] == ""
    assert "".join(said["looped"]) == said["whole"] == said["told"]
    assert "n_predict" in said["refused"]
    assert said["complete"] == "function"
    wait_for(
        lambda: "requests_processing 0.0" in server.get("/metrics", headers={"X-Api-Key": "k"}).text,
        "what the page has broken off is not gone on with",
    )


def test_props_tell_the_names_of_a_system_prompt_that_was_set(make_server: MakeServer) -> None:
    server = make_server().start()
    [example] = [example for example in EXAMPLES if "system prompt for all" in example.name]
    body = json.loads(example.body)
    body["system_prompt"] |= {"anti_prompt": "You:", "assistant_name": "Me:"}
    assert requests.post(f"{server.url}/completion", json=body, timeout=DEADLINE).status_code == 200
    props = server.get("/props").json()
    assert (props["user_name"], props["assistant_name"]) == ("You:", "Me:")
