"""Random stories in both databases, and copied from one to the other and back: byte for byte the same."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srb.errors import InvalidRequest
from srb.stories import audit
from srb.stories.copying import Copied, copy_stories
from srb.stories.database import Place
from srb.stories.limits import BIN_DAYS, DAY
from srb.stories.store import Store
from tests.media import b64, png
from tests.postgresql import PostgreSQL
from tests.processes import DEADLINE
from tests.property.test_story_merging import FOLDER, Item, Tale, send, state
from tests.stories import ID, Stories
from tests.walks import examples

Whole = dict[str, tuple[bytes, bytes, bytes]]


def whole(place: Place) -> Whole:
    """Return all that a place has: each story's file, its rows with their numbers, and its people."""
    with closing(Store(place)) as store:
        assert list(audit.problems(store)) == []
        found = {}
        for story in (*store.ids(), *store.ids(binned=True)):
            rows = orjson.loads(store.read(story) or b"")
            del rows["server"]
            found[story] = store.export(story), orjson.dumps(rows), store.shares(story)
        return found


def change_some(place: Place) -> None:
    """Change all stories of a place but one: by a text, by the owner alone, by being new, and by its end."""
    day = [1_795_300_000.0]
    stories = Stories(place, clock=lambda: day[0])
    stories.save({"z": {"text": "more", "by": "person"}})
    stories.store.give("anns", "bob")
    stories.save({"a": {"text": "x", "by": "person"}}, "third")
    day[0] += (BIN_DAYS + 2) * DAY / 1000
    assert stories.store.ids(binned=True) == ["binned"]
    stories.overview()
    assert stories.store.ids(binned=True) == []
    stories.store.close()


@settings(max_examples=examples(12))
@given(st.integers(0, 2**32))
def test_a_story_is_the_same_in_both_databases_and_in_copies(postgresql: PostgreSQL, seed: int) -> None:
    tale = Tale(seed)
    with TemporaryDirectory(dir=FOLDER) as folder:
        file, database = Path(folder, "stories.sqlite3"), postgresql.make("walk")
        for place in (file, database):
            stories = Stories(place, clock=lambda: 1_795_300_000.0)
            send(stories, tale.items)
            picture = stories.add_medium(b64(png(seed=seed % 7)))
            stories.post("binned", nodes={"a": {"text": f"![x](srb:{picture.id}) \0 \U0001f600", "by": "person"}})
            stories.store.remove("binned")
            stories.store.of("ann").post("anns", Stories.read_post(nodes={"a": {"text": "mine", "by": "person"}}))
            stories.store.of("ann").share("anns", "bob", "write")
            stories.store.of("ann").share("anns", "eve", "read")
            stories.store.close()
        before = whole(file)
        assert before.keys() == {ID, "binned", "anns"}
        assert whole(database) == before
        there, back = postgresql.make("there"), Path(folder, "back.sqlite3")
        assert copy_stories(file, there) == copy_stories(there, back) == Copied(3, 0)
        assert whole(there) == whole(back) == before
        change_some(file)
        assert copy_stories(file, there, update=True) == copy_stories(there, back, update=True) == Copied(3, 1)
        assert whole(there) == whole(back) == whole(file)
        assert copy_stories(file, there, update=True) == copy_stories(there, back, update=True) == Copied(0, 0)
        with pytest.raises(InvalidRequest, match="is no copy of"):
            copy_stories(database, back, update=True)
        for target in (there, back):
            with pytest.raises(InvalidRequest, match="has stories already"):
                copy_stories(database, target)
            made = Stories(target)
            assert made.save({"later": {"text": "x", "by": "person"}}, "new") == 1
            assert made.ids()[0] == "new"
            made.store.close()


@settings(max_examples=examples(12))
@given(st.integers(0, 2**32))
def test_writers_side_by_side_end_as_one_writer_does(postgresql: PostgreSQL, seed: int) -> None:
    tale = Tale(seed)
    with TemporaryDirectory(dir=FOLDER) as folder:
        alone, address = Stories(Path(folder, "stories.sqlite3")), postgresql.make("many")
        send(alone, tale.items)

        def write(items: list[Item]) -> None:
            """Post until nothing is refused: what is refused stands on what another writer has not sent yet."""
            mine = Stories(address)
            while items:
                items = [item for item in items if mine.post(**item)["refused"]]
            mine.store.close()

        shares: list[list[Item]] = [[], [], []]
        for item in tale.items:
            tale.random.choice(shares).append(item)
        with ThreadPoolExecutor(len(shares)) as pool:
            for done in [pool.submit(write, share) for share in shares]:
                done.result(DEADLINE)
        together = Stories(address)
        assert state(together) == state(alone)
        assert list(audit.problems(together.store)) == []
        together.store.close()
        alone.store.close()
