"""The examples of README.md, docs/using/ and examples/, run as they stand against a server with the bundled model."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.media import png
from tests.processes import DEADLINE, PYTHON, ROOT
from tests.servers import MakeServer, Server

pytestmark = pytest.mark.e2e

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs" / "using").glob("*.md"))]
HERE = "http://localhost:9090"  # the server's address in the pages


@dataclass(frozen=True)
class Block:
    """One fenced block; `shown` is the ```text block that follows it at once, which is its output."""

    language: str
    code: str
    shown: str = ""

    def __str__(self) -> str:
        return re.sub(r"\W+", "-", self.code)[:40].strip("-")


def blocks(page: Path) -> list[Block]:
    fenced = re.compile(r"^```(\w+)\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)
    return [Block(*(part or "" for part in match)) for match in fenced.findall(page.read_text())]


def curls(page: Path) -> list[Block]:
    return [
        block for block in blocks(page) if block.language == "sh" and HERE in block.code and VECTOR not in block.code
    ]


VECTOR = '"control_vectors"'  # of a file that the reader makes; tests/e2e/test_moods.py asks for one
CURLS = [block for page in PAGES for block in curls(page)]
PICTURE = "lighthouse.png"
PROGRAMS = [
    block for page in PAGES for block in blocks(page) if block.language == "python" and PICTURE not in block.code
]
WITH_PICTURE = [
    block for page in PAGES for block in blocks(page) if block.language == "python" and PICTURE in block.code
]


def run(*command: str, folder: Path = ROOT) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def shapes(output: str) -> list[Any]:
    """Return the JSON values of an answer, as it came or as a page shows it, without what differs each time."""
    values = []
    for line in output.splitlines():
        text = line.removeprefix("data: ")
        if text.startswith("{"):
            values.append(shape(json.loads(text.replace("{…}", '"…"').replace(",…", "").replace("[…]", '"…"'))))
    return values


def shape(value: Any) -> Any:
    """Keep the keys of an object and its event's name; a list is like its first element."""
    if isinstance(value, dict) and "event" in value:
        return (value["event"], *value)
    if isinstance(value, dict):
        return {key: shape(part) for key, part in value.items() if key in ("completions", "choices")} | dict.fromkeys(
            key for key in value if key not in ("completions", "choices")
        )
    return [shape(part) for part in value[:1]] if isinstance(value, list) else None


def test_there_are_examples() -> None:
    assert len(CURLS) >= 4
    assert len(PROGRAMS) >= 2
    assert sum(bool(block.shown) for block in CURLS) >= 2


def test_the_readme_has_one_curl_example_and_shows_its_answer() -> None:
    assert [bool(block.shown) for block in curls(PAGES[0])] == [True]


@pytest.mark.smoke
@pytest.mark.parametrize("block", CURLS, ids=str)
def test_a_curl_example_answers_in_the_shape_that_is_shown(storyteller: Server, block: Block) -> None:
    found = shapes(run("bash", "-c", block.code.replace(HERE, storyteller.url)))
    assert found
    assert not any("error" in value for value in found if isinstance(value, dict))
    shown = shapes(block.shown)
    for value in shown:
        assert value in found
    if shown:
        assert (shown[0], shown[-1]) == (found[0], found[-1])


@pytest.mark.smoke
def test_the_fields_against_repetition_go_to_the_path_that_the_readme_names(storyteller: Server) -> None:
    said = r"These fields prevent it.*?:\s`(.*?)`\.\sSend them to `(.*?)`:\son\s`(.*?)` a body with such fields is OpenAI's"
    [(fields, path, other)] = re.findall(said, PAGES[0].read_text(), re.DOTALL)
    body = {"prompt": "Once upon a time,", "max_tokens": 3} | json.loads(f"{{{fields}}}")
    assert storyteller.post(path, body).text.count('"event":"stop"') == 8
    assert len(storyteller.post(other, body).json()["choices"]) == 1
    assert storyteller.post(path, body | {"dry_multiplier": "much"}).status_code == 400, "the fields are read"


@pytest.mark.smoke
@pytest.mark.parametrize("block", PROGRAMS, ids=str)
def test_a_python_example_runs_and_prints_a_line_for_each_branch(storyteller: Server, block: Block) -> None:
    printed = run(PYTHON, "-W", "ignore::ResourceWarning", "-c", block.code.replace(HERE, storyteller.url))
    match = re.search(r"\bn\"?\s*[=:]\s*(\d+)", block.code)
    assert match
    begun = [line for line in printed.splitlines() if re.match(r"\d+: |branch \d+ has \d+ tokens", line)]
    assert len(begun) == int(match[1])


def test_an_example_with_a_picture_prints_a_line_for_each_branch(make_server: MakeServer, tmp_path: Path) -> None:
    server = make_server(mmproj="fake", chat_template="chatml").start()
    (tmp_path / PICTURE).write_bytes(png())
    [block] = WITH_PICTURE
    code = block.code.replace(HERE, server.url)
    printed = run(PYTHON, "-W", "ignore::ResourceWarning", "-c", code, folder=tmp_path)
    assert [line.partition(":")[0] for line in printed.splitlines() if line[:2] in ("0:", "1:", "2:", "3:")] == [
        *"0123"
    ]


def test_a_branch_had_again_by_its_seed_begins_with_the_same_words(storyteller: Server) -> None:
    eight, alone = (
        run("bash", "-c", block.code.replace(HERE, storyteller.url)) for block in CURLS if '"seed"' in block.code
    )

    def text(output: str, index: int) -> str:
        events = [json.loads(line.removeprefix("data: ")) for line in output.splitlines() if line]
        return "".join(event["text"] for event in events if event["event"] == "stream" and event["index"] == index)

    assert text(alone, 0)[:12] == text(eight, 5)[:12]


@pytest.mark.parametrize(
    ("command", "ends"),
    [
        (
            (PYTHON, "examples/many_endings.py", "The old king", "-n", "3", "--tokens", "8", "--url"),
            r"(?m)^\d\. The old",
        ),
        ((PYTHON, "examples/srb_stream.py", "The old king", "--n", "3", "--tokens", "8", "--url"), r"--- seed \d+, "),
        (
            (PYTHON, "examples/ladder.py", "The old king", "0", "0.5", "1.5", "--url"),
            r"--- temperature \S+\nThe old king",
        ),
        (
            (PYTHON, "examples/banned_words.py", "The old king", " was", " said", "--n", "3", "--url"),
            r"--- taken back \d+ times\nThe old king",
        ),
        ((PYTHON, "examples/beginnings.py", "The old king", "--n", "3", "--url"), r"--- branch \d\nThe old king"),
        (
            (PYTHON, "examples/explore.py", "The old king", "--branches", "3", "--depth", "4", "--url"),
            r"(?m)^ *\d+\.\d% ",
        ),
    ],
    ids=["many_endings", "srb_stream", "ladder", "banned_words", "beginnings", "explore"],
)
def test_an_example_program_prints_each_branch(storyteller: Server, command: tuple[str, ...], ends: str) -> None:
    assert len(re.findall(ends, run(*command, storyteller.url))) == 3


def test_the_example_of_steering_forks_stops_extends_and_attaches(storyteller: Server) -> None:
    printed = run(PYTHON, "examples/steering.py", "The old king", "--tokens", "200", "--url", storyteller.url)
    assert len(re.findall(r"(?m)^--- branch \d\nThe old king", printed)) == 4
    for sign in ("forked branch 0", "stopped branch 1", "attached, with", "branch 2 goes on after 200 tokens"):
        assert sign in printed
    forked, origin = (printed.split(f"--- branch {index}\n")[1] for index in (3, 0))
    assert forked[: len("The old king") + 10] == origin[: len("The old king") + 10]


def test_the_example_script_asks_everything(storyteller: Server) -> None:
    printed = run("sh", "examples/curl.sh", storyteller.url)
    for sign in ('{"status":"ok"', '"event":"done"', '"completions":[', '"choices":[', "llamacpp:prompt_tokens_total"):
        assert sign in printed
