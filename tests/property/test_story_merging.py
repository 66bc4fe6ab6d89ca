"""Random stories whose parts meet in any order: all copies end alike, and every text is what slicing strings gives."""

from __future__ import annotations

import random
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from srb.stories import audit
from tests.stories import ID, Stories, at, texts
from tests.walks import examples

FOLDER = "/dev/shm" if Path("/dev/shm").is_dir() else None  # a memory disk: each post waits for its disk
LETTERS = "ab é日😀🏳"

Item = dict[str, Any]  # a post


class Tale:
    """A random story: every version of its nodes, values and marks, as posts, and its final state."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.items: list[Item] = []
        self.final: dict[str, dict[str, Any]] = {}
        self.texts: dict[str, str] = {}
        self.replaced: set[str] = set()  # persons' nodes with drafts: whoever adds a child to one has seen the last
        for number in range(self.random.randint(1, 12)):
            self._add_node(f"n{number}")
        for _ in range(self.random.randint(0, 8)):
            self._add_value()

    def words(self, most: int = 6) -> str:
        return "".join(self.random.choices(LETTERS, k=self.random.randint(0, most)))

    def cut(self, text: str, least: int = 0) -> int:
        """Return a random place between two characters of a text, as an offset in UTF-16 units, not below `least`."""
        places = [len(text[:number].encode("utf-16-le")) // 2 for number in range(len(text) + 1)]
        return self.random.choice([place for place in places if place >= least])

    def _add_node(self, name: str) -> None:
        node: dict[str, Any] = {"by": self.random.choice(["person", "model", "import"])}
        whole = ""
        parents = [key for key, each in self.final.items() if not each.get("open") and key not in self.replaced]
        if parents and self.random.random() < 0.9:
            node["parent"] = self.random.choice(parents)
            whole = self.texts[node["parent"]]
            node["keep"] = self.cut(whole)
            if self.random.random() < 0.5:
                node["tail"] = self.cut(whole, node["keep"])
        node["text"] = self.words()
        versions = self._versions(node)
        if node["by"] == "person" and len(versions) > 1:
            self.replaced.add(name)
        self.items += [{"nodes": {name: version}} for version in versions]
        self.final[name] = versions[-1]
        self.texts[name] = texts({**self.final, name: versions[-1]})[name]

    def _versions(self, node: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the versions of a node as its tab or its model sends them, the last one closed or still open."""
        last = node if self.random.random() < 0.8 else {**node, "open": True}
        number = self.random.randint(0, 3)
        if node["by"] == "import":
            return [node]
        if node["by"] == "person":
            drafts = [{**node, "text": self.words(), "open": True, "changed": at_} for at_ in range(1, number + 1)]
            return [*drafts, {**last, "changed": number + 1}]
        cuts = sorted(self.random.randint(0, len(node["text"])) for _ in range(number))
        return [*({**node, "text": node["text"][:cut], "open": True} for cut in cuts), last]

    def _add_value(self) -> None:
        entry = at(self.random.choice([None, True, 1, "x", {"a": 1, "b": [2]}]), self.random.randint(1, 4))
        key = self.random.choice(["title", "mine", "plan"])
        match self.random.choice(["meta", "marks", "runs"]):
            case "meta":
                self.items.append({"meta": {key if key != "title" else "settings.n": entry}})
            case "marks":
                self.items.append({"marks": {f"n{self.random.randint(0, 12)}": {key: entry}}})
            case _:
                self.items.append({"runs": {f"r{self.random.randint(0, 2)}": {"made": entry["changed"], "x": key}}})


def send(stories: Stories, items: list[Item]) -> None:
    """Post in this order; what is refused, since its parent or a longer version of it is not there yet, comes again."""
    waiting = items
    while waiting:
        refused = [item for item in waiting if stories.post(**item)["refused"]]
        assert len(refused) < len(waiting), f"refused for ever: {refused}"
        waiting = refused


def state(stories: Stories) -> dict[str, Any]:
    file = stories.export()
    del file["changed"]
    return file


@settings(max_examples=examples(100))
@given(st.integers(0, 2**32))
def test_any_order_of_arrival_leads_to_the_same_story(seed: int) -> None:
    tale = Tale(seed)
    with TemporaryDirectory(dir=FOLDER) as folder:
        one, other = Stories(Path(folder, "one")), Stories(Path(folder, "other"))
        send(one, tale.items)
        send(other, tale.random.sample(tale.items, len(tale.items)))
        assert state(one) == state(other)
        assert texts(one.nodes()) == tale.texts
        assert list(audit.problems(other.store)) == []
        seq = one.export(), one.post()["seq"]
        for item in tale.items:
            one.post(**item)
        assert (one.export(), one.post()["seq"]) == seq, "what is known changes nothing"
        one.store.close()
        other.store.close()


@settings(max_examples=examples(100))
@given(st.integers(0, 2**32))
def test_three_copies_that_exchange_files_in_any_order_end_alike(seed: int) -> None:
    """Union is associative and commutative: ((a + b) + c) is (c + (b + a)), whatever each of them knew."""
    tale = Tale(seed)
    with TemporaryDirectory(dir=FOLDER) as folder:
        copies = [Stories(Path(folder, str(number))) for number in range(3)]
        known = [[item for item in tale.items if tale.random.random() < 0.6] for _ in copies]
        for copy, items in zip(copies, known, strict=True):
            copy.post()
            for item in items:
                if item.get("marks", {}).keys() <= copy.nodes().keys():  # a file has no marks of nodes that it lacks
                    copy.post(**item)
        files = [copy.export() for copy in copies]
        for target, order in zip(copies, ((1, 2), (0, 2), (1, 0)), strict=True):
            for source in order:
                done = target.bring_in(files[source])
                assert not done.copied
        assert state(copies[0]) == state(copies[1]) == state(copies[2])
        for copy in copies:
            assert list(audit.problems(copy.store)) == []
            assert copy.ids() == [ID]
            copy.store.close()
