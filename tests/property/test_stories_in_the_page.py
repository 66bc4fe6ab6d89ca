"""The page's own modules, run by Node, beside the server: the same versions stay, and files are read both ways."""

from __future__ import annotations

import json
import shutil
import subprocess
from itertools import combinations
from pathlib import Path
from random import Random
from typing import Any

from srb.stories.canonical import canonical
from tests.needs import need
from tests.processes import DEADLINE, ROOT
from tests.property.test_story_merging import Tale
from tests.stories import ID, Stories, at

PAGE = (ROOT / "srb" / "page").as_uri()
READ = 'import { readFileSync } from "node:fs"; const given = JSON.parse(readFileSync(0, "utf8"));'
MERGE = f'import {{ unionOf }} from "{PAGE}/story/merge.js"; {READ} show(given.map(([a, b]) => unionOf(a, b)));'
CANONICAL = f'import {{ canonical }} from "{PAGE}/story/merge.js"; {READ} show(given.map(canonical));'
FILES = f'import {{ storyOf }} from "{PAGE}/story/read.js"; {READ} show(given.map((file) => storyOf(file).toJSON()));'


def in_the_page(script: str, given: Any) -> Any:
    """Return what a script shows of a JSON value."""
    need(shutil.which("node"), "Node")
    command = [
        "node",
        "--input-type=module",
        "-e",
        f"{script} function show(value) {{ console.log(JSON.stringify(value)); }}",
    ]
    text = json.dumps(given)
    run = subprocess.run(command, input=text, capture_output=True, text=True, timeout=DEADLINE, check=False)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def pairs_of_versions() -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return pairs of posts, each with a version of the same node, value, mark or run of a random story.

    Nodes come without parents, since only versions are compared.
    """
    found = []
    for seed in range(80):
        by_name: dict[str, list[dict[str, Any]]] = {}
        for number, item in enumerate(Tale(seed).items):
            [(section, parts)] = item.items()
            [(name, part)] = parts.items()
            if section == "nodes":
                own = {key: value for key, value in part.items() if key not in ("parent", "keep", "tail")}
                part = {**own, "made": 5, "mood": ("dark", "bright")[number % 2]}
            by_name.setdefault(f"{section}.{name}", []).append({section: {name: part}})
        found += [pair for versions in by_name.values() for pair in combinations(versions, 2)]
    return found


def test_page_and_server_settle_on_the_same_version_in_any_order(tmp_path: Path) -> None:
    pairs = pairs_of_versions()
    assert len(pairs) > 200
    stories = Stories(tmp_path / "stories.sqlite3")
    for number, (pair, union) in enumerate(zip(pairs, in_the_page(MERGE, pairs), strict=True)):
        for order in (pair, pair[::-1]):
            story = f"s{number}-{order is pair}"
            for post in order:
                assert stories.post(story, **post)["refused"] == [], post
            parts = stories.read(story)
            assert parts is not None
            assert {name: parts[name] for name in union} == union, pair
    stories.store.close()


def random_value(random: Random, depth: int = 0) -> Any:
    """Return a JSON value with what the two languages write and order differently."""
    kind = random.choice("nnsskwll" if depth < 3 else "nsw")
    if kind == "n":
        return random.choice(
            [random.uniform(-1, 1) * 10.0 ** random.randint(-30, 30), random.randint(-(2**63), 2**64 - 1)]
        )
    if kind == "s":
        return "".join(random.choices('a"\\\n\x01\x7f\u2028\uff5e\U0001f600', k=random.randint(0, 4)))
    if kind == "w":
        return random.choice([None, True, False, 0, 1.0, -0.0, 1e21])
    if kind == "l":
        return [random_value(random, depth + 1) for _ in range(random.randint(0, 3))]
    names = random.sample(["9", "10", "01", "a", "", "\uff5e", "\U0001f600", "Z"], k=random.randint(0, 5))
    return {name: random_value(random, depth + 1) for name in names}


def test_page_and_server_have_one_canonical_form_of_any_value() -> None:
    values = [random_value(Random(seed)) for seed in range(2000)]
    assert in_the_page(CANONICAL, values) == [canonical(value) for value in values]


def test_the_page_reads_the_servers_files_and_the_server_the_pages(tmp_path: Path) -> None:
    stories = Stories(tmp_path / "stories.sqlite3")
    settings = {"settings.top_k": at(8, 4), "settings.top_p": at(None, 5), "settings": at({"top_k": 3, "stop": "x"}, 3)}
    for seed in range(40):
        for item in Tale(seed).items:
            stories.post(f"{ID}-{seed}", **item)
        stories.post(f"{ID}-{seed}", meta={"title": at("T", 5), "memory": at(None, 6), **settings})
    files = [stories.export(f"{ID}-{seed}") for seed in range(40)]
    other = Stories(tmp_path / "other.sqlite3")
    for file, written in zip(files, in_the_page(FILES, files), strict=True):
        assert {name: {**node, "made": 0} for name, node in file["nodes"].items()} == written["nodes"]
        assert {**file["settings"], "top_k": 8, "stop": "x"} == file["settings"] == written["settings"]
        assert (written["title"], "memory" in written) == ("T", False)
        assert written["marks"] == file["marks"]
        done = other.bring_in(written)
        assert (done.nodes, done.copied) == (len(file["nodes"]), False)
        again = other.export(file["id"])
        assert (again["nodes"], again["settings"], again["marks"]) == (
            written["nodes"],
            written["settings"],
            file["marks"],
        )
    stories.store.close()
    other.store.close()
