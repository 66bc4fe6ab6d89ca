"""The stories' store: values with times, sequence numbers, the bin, files, limits, and what a post costs."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import orjson
import pytest

from srb.errors import InvalidRequest, NotFound, StoryTooLarge
from srb.stories import audit, rows, store
from srb.stories.limits import BIN_DAYS, DAY, MAX_STORY
from srb.stories.parts import read_post
from srb.stories.store import Store
from tests.postgresql import MakePlace
from tests.stories import ID, Stories, at, model, person, texts

TALE = {"a": person("Once upon a time,"), "b": model(" there 😀 lived", "a", 17, run="r1", index=0)}
RUN = {"node": "a", "at": 17, "made": 5, "seeds": [7, 8]}


class Clock:
    """A clock that stands still, in milliseconds."""

    def __init__(self) -> None:
        self.now = 1_795_300_000_000

    def __call__(self) -> float:
        return self.now / 1000


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def stories(place: MakePlace, clock: Clock) -> Iterator[Stories]:
    made = Stories(place(), clock=clock)
    yield made
    made.store.close()


# Reading and numbers --------------------------------------------------------------------------------------------------


def test_a_story_is_read_as_it_was_posted(stories: Stories, clock: Clock) -> None:
    meta, marks = {"title": at("The lighthouse", 5), "mine": at({"x": [1, None]}, 6)}, {"b": {"star": at(True, 7)}}
    answer = stories.post(nodes=TALE, meta=meta, marks=marks, runs={"r1": RUN})
    server = stories.overview()["server"]
    assert answer == {"id": ID, "server": server, "seq": 1, "refused": []}
    assert stories.read() == {
        "id": ID, "server": server, "seq": 1, "changed": clock.now, "meta": meta, "nodes": TALE, "runs": {"r1": RUN},
        "marks": marks,
    }  # fmt: skip


def test_the_list_has_titles_numbers_and_the_last_changed_first(stories: Stories, clock: Clock) -> None:
    stories.post("old", meta={"title": at("Old", 1), "words": at(3214, 1), "opening": at("It was.", 1)})
    clock.now += 1
    stories.post("new", nodes=TALE)
    found = stories.overview()
    assert found["state"] == "ok"
    assert found["stories"] == [
        {"id": "new", "title": "", "changed": clock.now, "nodes": 2, "seq": 1},
        {
            "id": "old",
            "title": "Old",
            "changed": clock.now - 1,
            "nodes": 0,
            "seq": 1,
            "words": 3214,
            "opening": "It was.",
        },
    ]
    stories.post("old", meta={"title": at(None, 2), "words": at(None, 2), "opening": at(None, 2)})
    taken_away = stories.overview()["stories"][0]
    assert (taken_away["title"], {"words", "opening"} & taken_away.keys()) == ("", set())


def test_only_what_is_newer_than_a_number_is_read(stories: Stories) -> None:
    first = stories.save(TALE)
    second = stories.post(meta={"title": at("T", 1)}, marks={"a": {"star": at(True, 1)}})["seq"]
    stories.save({"c": person("!", "b", 32)})
    newer = stories.read(since=first)
    assert newer is not None
    assert (newer["meta"], newer["marks"]) == ({"title": at("T", 1)}, {"a": {"star": at(True, 1)}})
    assert list(newer["nodes"]) == ["c"]
    newer = stories.read(since=second)
    assert newer is not None
    assert (newer["meta"], list(newer["nodes"]), newer["runs"], newer["marks"]) == ({}, ["c"], {}, {})
    assert stories.read(since=newer["seq"]) is None


def test_a_number_of_another_file_or_of_the_future_counts_as_none(stories: Stories) -> None:
    seq = stories.save(TALE)
    everything = stories.read()
    assert stories.read(since=seq + 1) == everything
    assert stories.read(since=seq, server="another") == everything
    assert stories.read(since=seq, server=stories.overview()["server"]) is None
    answer = stories.post(since=seq, server="another")
    assert answer["nodes"] == TALE


def test_a_story_that_does_not_exist_is_not_found(stories: Stories) -> None:
    for act in (stories.read, stories.export, stories.store.remove, stories.store.restore):
        with pytest.raises(NotFound):
            act("nowhere")
    assert stories.ids() == []


def test_a_post_of_which_nothing_is_stored_makes_no_story(stories: Stories) -> None:
    answer = stories.post(nodes={"a": person("x", "nowhere", 0)})
    assert answer["seq"] == 0
    assert stories.ids() == []
    assert stories.post("empty")["seq"] == 1
    assert stories.ids() == ["empty"]


def test_an_answer_has_what_the_sender_lacks_and_not_what_it_sent(stories: Stories) -> None:
    first = stories.post(nodes=TALE, meta={"title": at("T", 5)}, marks={"a": {"star": at(True, 5)}}, runs={"r1": RUN})
    stories.save({"c": person("of the other tab", "b", 32)})
    mine = {"d": person("of this tab", "b", 32)}
    answer = stories.post(nodes=mine, meta={"memory": at("m", 6)}, since=first["seq"])
    assert list(answer["nodes"]) == ["c"]
    assert (answer["meta"], answer["runs"], answer["marks"]) == ({}, {}, {})
    assert stories.post(since=answer["seq"])["nodes"] == {}


def test_an_answer_has_what_is_stored_otherwise_than_it_was_sent(stories: Stories) -> None:
    seq = stories.post(nodes=TALE, meta={"title": at("New", 5)}, marks={"a": {"star": at(True, 5)}}, runs={"r1": RUN})[
        "seq"
    ]
    answer = stories.post(
        nodes={"a": person("Other"), "b": {**TALE["b"], "text": " there"}}, meta={"title": at("Old", 4)},
        marks={"a": {"star": at(False, 4)}}, runs={"r1": {**RUN, "made": 4}}, since=seq,
    )  # fmt: skip
    assert answer["nodes"] == TALE
    assert answer["meta"] == {"title": at("New", 5)}
    assert answer["marks"] == {"a": {"star": at(True, 5)}}
    assert answer["runs"] == {"r1": RUN}


# Values ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0), (1, 0, 2)])
def test_the_last_value_of_each_key_stays_in_any_order_of_arrival(stories: Stories, order: tuple[int, ...]) -> None:
    versions = [("x", 5), ("y", 7), ("z", 6)]
    for number in order:
        value, time = versions[number]
        stories.post(meta={"title": at(value, time)}, marks={"a": {"star": at(value, time)}},
                     runs={"r1": {"made": time, "seeds": [value]}})  # fmt: skip
    found = stories.read()
    assert found is not None
    assert found["meta"] == {"title": at("y", 7)}
    assert found["marks"] == {"a": {"star": at("y", 7)}}
    assert found["runs"] == {"r1": {"made": 7, "seeds": ["y"]}}


@pytest.mark.parametrize("values", [("a", "b"), ({"x": 1, "y": 2}, {"y": 1, "x": 2}), (1, "1"), (None, [])])
def test_at_equal_times_both_orders_end_alike(place: MakePlace, values: tuple[Any, Any]) -> None:
    found = []
    for number, order in enumerate((values, values[::-1])):
        stories = Stories(place(f"order_{number}"))
        for value in order:
            stories.post(meta={"mine": at(value, 5)})
        found.append(stories.read())
        stories.store.close()
    assert found[0] is not None
    assert found[1] is not None
    assert found[0]["meta"] == found[1]["meta"]


def test_different_keys_of_one_node_do_not_replace_each_other(stories: Stories) -> None:
    stories.post(marks={"a": {"star": at(True, 9)}})
    stories.post(marks={"a": {"name": at("One", 3)}})
    stories.post(marks={"a": {"star": at(None, 10)}})
    found = stories.read()
    assert found is not None
    assert found["marks"] == {"a": {"star": at(None, 10), "name": at("One", 3)}}


def test_a_value_that_is_the_same_gives_no_new_number(stories: Stories) -> None:
    seq = stories.post(meta={"note": at({"text": "", "depth": 3}, 5)})["seq"]
    assert stories.post(meta={"note": at({"depth": 3, "text": ""}, 5)})["seq"] == seq
    assert stories.post(meta={"note": at({"text": "older"}, 4)})["seq"] == seq


# The bin --------------------------------------------------------------------------------------------------------------


def test_a_story_in_the_bin_is_listed_there_and_its_tabs_are_told(stories: Stories, clock: Clock) -> None:
    seq = stories.save(TALE)
    state = orjson.loads(stories.store.remove(ID))
    assert state["deleted"] == clock.now
    assert stories.ids() == []
    assert stories.overview(binned=True)["stories"][0]["deleted"] == clock.now
    told = stories.read(since=seq)
    assert told is not None
    assert told["deleted"] == clock.now
    assert told["nodes"] == {}
    assert orjson.loads(stories.store.remove(ID)) == state, "twice is once"


def test_writing_in_a_story_in_the_bin_loses_nothing_and_leaves_it_there(stories: Stories) -> None:
    stories.save(TALE)
    stories.store.remove(ID)
    assert "deleted" in stories.post(nodes={"c": person("more", "b", 32)})
    restored = orjson.loads(stories.store.restore(ID))
    assert "deleted" not in restored
    assert stories.ids() == [ID]
    assert set(stories.nodes()) == {"a", "b", "c"}
    assert orjson.loads(stories.store.restore(ID)) == restored


def test_after_thirty_days_in_the_bin_a_story_is_removed_with_all_its_rows(stories: Stories, clock: Clock) -> None:
    stories.post(nodes=TALE, meta={"title": at("T", 1)}, marks={"a": {"star": at(True, 1)}}, runs={"r1": RUN})
    stories.post("kept", nodes=TALE)
    stories.store.remove(ID)
    clock.now += BIN_DAYS * DAY - DAY // 2
    assert stories.ids(binned=True) == [ID]
    clock.now += DAY + 1
    assert stories.ids(binned=True) == []
    assert stories.ids() == ["kept"]
    with stories.store.connection() as connection:
        for table, rows in (("node", 2), ("meta", 0), ("mark", 0), ("run", 0)):
            assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (rows,)


def test_a_full_bin_is_emptied_in_several_transactions(
    stories: Stories, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5):
        stories.post(f"story{number}", nodes=TALE)
        stories.store.remove(f"story{number}")
    stories.post("kept", nodes=TALE)
    monkeypatch.setattr(store, "_NODES_AT_ONCE", 3)
    database = type(stories.store._database)
    writing, began = database.writing, []

    def noted(self: Any) -> Any:
        began.append("a transaction")
        return writing(self)

    monkeypatch.setattr(database, "writing", noted)
    clock.now += (BIN_DAYS + 1) * DAY
    assert stories.ids(binned=True) == []
    assert stories.ids() == ["kept"]
    assert len(began) == 3, "of two stories, of two, and of one"


def test_the_bin_is_looked_through_once_a_day_whoever_asks(
    stories: Stories, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    stories.post(nodes=TALE)
    clock.now += 2 * DAY
    stories.store.of("ann").overview()
    asked: list[str] = []
    database = type(stories.store._database)
    reading = database.reading

    def noted(self: Any) -> Any:
        asked.append("a transaction")
        return reading(self)

    monkeypatch.setattr(database, "reading", noted)
    for name in ("ann", "bob", None):
        stories.store.of(name).overview()
    assert len(asked) == 3, "one for each list, and none for the bin"
    clock.now += DAY
    stories.store.of("bob").overview()
    assert len(asked) == 5


# Files ----------------------------------------------------------------------------------------------------------------


def test_a_file_has_the_flat_form_and_comes_back_as_it_was(stories: Stories, place: MakePlace, clock: Clock) -> None:
    stories.post(
        nodes=TALE, runs={"r1": RUN},
        meta={"title": at("T", 5), "mine": at([1.5], 6), "settings.n": at(8, 4), "settings.top_p": at(None, 5),
              "memory": at(None, 9), "head": at({"node": "b", "at": 3}, 5)},
        marks={"a": {"star": at(True, 7), "name": at("", 3)}, "b": {"star": at(None, 8)}},
    )  # fmt: skip
    file = stories.export()
    assert file == {
        "format": "srb-story", "version": 1, "id": ID, "title": "T", "mine": [1.5], "head": {"node": "b", "at": 3},
        "changed": clock.now, "settings": {"n": 8}, "nodes": TALE, "runs": {"r1": RUN},
        "marks": {"a": {"star": True, "name": "", "changed": 7}},
        "changes": {
            "meta": {"title": 5, "mine": 6, "settings.n": 4, "settings.top_p": 5, "memory": 9, "head": 5},
            "marks": {"a": {"star": 7, "name": 3}, "b": {"star": 8}},
        },
    }  # fmt: skip
    other = Stories(place("other"))
    done = other.bring_in(file)
    assert (done.id, done.nodes, done.copied) == (ID, 2, False)
    assert other.export() == file
    mine, theirs = stories.read(), other.read()
    assert mine is not None
    assert theirs is not None
    assert mine["meta"] == theirs["meta"], "also what was taken away"
    assert mine["marks"] == theirs["marks"]
    assert other.bring_in(file) == done, "twice is once"
    other.store.close()


def test_the_example_of_the_manual_is_a_story_that_says_what_the_manual_says(stories: Stories) -> None:
    page = (Path(__file__).parents[2] / "docs" / "writing" / "stories.md").read_text()
    example = orjson.loads(page.partition("```json\n")[2].partition("```")[0])
    assert not stories.bring_in(example).copied
    assert f"“{texts(stories.nodes(example['id']))['n4']}”" in page
    written = stories.export(example["id"])
    assert written == example


def test_settings_that_were_posted_as_one_are_single_ones_in_a_file(stories: Stories) -> None:
    stories.post(
        meta={
            "settings": at({"n": 8, "top_p": 0.9, "stop": "x"}, 5),
            "settings.n": at(3, 6),
            "settings.stop": at("", 4),
        }
    )
    file = stories.export()
    assert file["settings"] == {"n": 3, "top_p": 0.9, "stop": "x"}
    assert file["changes"]["meta"] == {"settings.n": 6, "settings.top_p": 5, "settings.stop": 5}


def test_a_file_leaves_out_what_stands_on_nodes_that_are_not_stored(stories: Stories) -> None:
    """The page would refuse the whole file."""
    places = {"r1": {**RUN, "node": "nowhere"}, "r2": {**RUN, "at": 99}, "r3": RUN, "r4": {"made": 1}}
    stories.post(
        nodes=TALE, runs=places, meta={"head": at({"node": "a", "at": 18}, 5)}, marks={"nowhere": {"star": at(True, 1)}}
    )
    file = stories.export()
    assert "head" not in file
    assert file["changes"] == {"meta": {}, "marks": {}}
    assert (list(file["runs"]), file["marks"]) == (["r3", "r4"], {})


def test_a_file_is_merged_into_the_story_of_its_id(stories: Stories) -> None:
    stories.post(nodes=TALE, meta={"title": at("Old", 5)})
    file = stories.export()
    stories.save({"c": person("here", "b", 32)})
    file["nodes"]["d"] = person("there", "b", 32)
    file["title"], file["changes"]["meta"]["title"] = "New", 6
    assert stories.bring_in(file).copied is False
    assert set(stories.nodes()) == {"a", "b", "c", "d"}
    assert stories.export()["title"] == "New"


def test_a_file_with_other_texts_under_the_same_names_becomes_a_story_of_its_own(stories: Stories) -> None:
    stories.post(nodes=TALE, meta={"title": at("First", 5)})
    before = stories.read()
    file = stories.export()
    file["nodes"]["a"]["text"] = "Twice upon a time"
    file["title"], file["changes"]["meta"]["title"] = "Second", 6
    done = stories.bring_in(file)
    assert done.copied
    assert done.id != ID
    assert stories.read() == before
    assert stories.nodes(done.id)["a"]["text"] == "Twice upon a time"


def test_nothing_of_a_file_that_does_not_fit_together_is_imported(stories: Stories) -> None:
    stories.save(TALE)
    before = stories.read()
    file = stories.export()
    for story in (ID, "new"):
        for bad in (person("x", "nowhere", 0), person("x", "a", 18), person("x", "b", 25)):
            nodes = {**file["nodes"], "good": person("y"), "bad": bad}
            with pytest.raises(InvalidRequest) as refused:
                stories.bring_in({**file, "id": story, "nodes": nodes})
            assert refused.value.extra["param"] == "nodes.bad"
    assert stories.read() == before
    assert stories.ids() == [ID]


def test_an_imported_story_leaves_the_bin(stories: Stories) -> None:
    stories.save(TALE)
    file = stories.export()
    stories.store.remove(ID)
    stories.bring_in(file)
    assert stories.ids() == [ID]


# Limits and costs -----------------------------------------------------------------------------------------------------


def test_a_full_story_takes_everything_but_new_nodes(stories: Stories, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "MAX_NODES", 3)
    stories.save(TALE)
    more = {
        "c": {"by": "model", "text": "c", "open": True},
        "d": person("d"),
        "e": person("e", parent="d", keep=1),
        "f": person("f", parent="c", keep=0),
    }
    answer = stories.post(nodes=more, meta={"title": at("Full", 9)}, since=0)
    assert [(each["node"], each["reason"]) for each in answer["refused"]] == [
        ("d", "full"),
        ("e", "full"),
        ("f", "full"),
    ]
    assert "3 nodes" in answer["refused"][0]["message"]
    grown = stories.post(nodes={"c": {"by": "model", "text": "c and more"}})  # what is there still grows, and closes
    assert grown["refused"] == []
    found = stories.read()
    assert found["meta"]["title"]["value"] == "Full"
    assert set(found["nodes"]) == {"a", "b", "c"}
    assert found["nodes"]["c"]["text"] == "c and more"
    assert found["room"]["nodes"] == 0
    assert found["room"]["used"] == 100


def test_answers_tell_the_room_that_a_nearly_full_story_has(stories: Stories, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "MAX_NODES", 20)
    for number in range(17):
        assert "room" not in stories.post(nodes={f"n{number}": person("x")})
    room = stories.post(nodes={"n17": person("x")})["room"]
    assert (room["used"], room["nodes"]) == (90, 2)
    assert 0 < room["bytes"] < rows.MAX_STORY
    monkeypatch.setattr(rows, "MAX_NODES", 10**6)
    assert "room" not in stories.read()
    monkeypatch.setattr(rows, "MAX_STORY", 100 * (rows.MAX_STORY - room["bytes"]) // 95)
    assert stories.read()["room"]["used"] in (94, 95)


def test_a_file_for_which_a_story_has_no_room_is_refused_whole(
    stories: Stories, monkeypatch: pytest.MonkeyPatch
) -> None:
    stories.save(TALE)
    file = stories.export()
    stories.store.remove(ID)
    stories.post(nodes={"c": person("c")})
    before = stories.read()
    monkeypatch.setattr(rows, "MAX_NODES", 3)
    file["nodes"] |= {"d": person("d")}
    with pytest.raises(StoryTooLarge, match="more than"):
        stories.bring_in(file)
    assert stories.read() == before | {"room": stories.read()["room"]}


def test_a_story_beyond_its_limits_is_refused_whole(stories: Stories, monkeypatch: pytest.MonkeyPatch) -> None:
    stories.save(TALE)
    before = stories.read()
    monkeypatch.setattr(rows, "MAX_STORY", 2000)
    with pytest.raises(StoryTooLarge, match="bytes"):
        stories.post(marks={"a": {"note": at("x" * 2000, 1)}})
    assert stories.read() == before
    stories.post(marks={"a": {"note": at("x" * 1000, 1)}})
    stories.post(marks={"a": {"note": at("y" * 1000, 2)}})


def test_a_file_is_never_larger_than_the_story_is_counted(stories: Stories) -> None:
    """So every story that may be saved may be imported."""
    assert MAX_STORY >= 64 * 1024 * 1024
    marks = {f"n{number}": {"star": at(True, 2**53 - 1), "x": at(0, 2**53 - 1)} for number in range(50)}
    nodes = {f"n{number}": person('"\\😀') for number in range(50)}
    meta = {f"key-{number}": at(None, 2**53 - 1) for number in range(50)}
    stories.post(nodes=nodes, meta=meta, marks=marks, runs={f"r{number}": {} for number in range(50)})
    with stories.store.connection() as connection:
        (counted,) = connection.execute("SELECT bytes FROM story").fetchone()
    assert len(stories.store.export(ID)) <= counted


def test_a_post_of_one_node_writes_as_much_in_a_long_story_as_in_a_short_one(tmp_path: Path) -> None:
    stories = Stories(tmp_path / "stories.sqlite3")
    log = Path(f"{stories.path}-wal")

    def pages(story: str, length: int) -> int:
        """Return the bytes that one more node adds to the write-ahead log of a story of so many nodes."""
        chain = {f"n{number}": model(" word" * 20, f"n{number - 1}", 100 * number) for number in range(1, length)}
        stories.save({"n0": model(" word" * 20)} | chain, story)
        with stories.store.connection() as connection:
            connection.execute("COMMIT")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            connection.execute("BEGIN")
        stories.save({"tip": person("!", f"n{length - 1}", 100 * length)}, story)
        return log.stat().st_size

    short, long = pages("short", 50), pages("long", 5000)
    assert long <= short + 3 * 4096 + 100, "at most one more level of each index"
    assert long < 64 * 1024
    stories.store.close()


@pytest.mark.parametrize("asked", ["list", "bin", "search", "ids"])
def test_what_one_person_asks_for_costs_the_same_however_many_stories_others_have(tmp_path: Path, asked: str) -> None:
    clock = Clock()
    store = Store(tmp_path / "stories.sqlite3", clock=clock)

    def cost(person: str) -> int:
        """Return how many hundreds of SQLite's instructions the answer takes."""
        clock.now += 2 * DAY  # the bin is looked through again
        mine = store.of(person)
        calls = {
            "list": mine.overview,
            "bin": lambda: mine.overview(binned=True),
            "search": lambda: mine.search("once"),
        }
        calls |= {"ids": mine.ids}
        steps = [0]
        with store.connection() as connection:
            connection.set_progress_handler(lambda: steps.__setitem__(0, steps[0] + 1), 100)
        calls[asked]()
        with store.connection() as connection:
            connection.set_progress_handler(None, 0)
        return steps[0]

    for name in ("tom", "ann"):
        store.of(name).post(f"{name}-story", read_post(orjson.dumps({"nodes": TALE})))
    store.of("ann").share("ann-story", "tom", "read")
    before = cost("tom"), cost("nobody")
    with store.connection() as connection:
        connection.execute("COMMIT")
        connection.execute("BEGIN IMMEDIATE")
        rows = ((number, f"story {number}", clock.now if number % 7 == 0 else None) for number in range(100, 5000))
        connection.executemany("INSERT INTO story VALUES (?, ?, 1, 1, 1, 0, 0, ?, 'someone else')", rows)
        connection.execute("COMMIT")
        connection.execute("BEGIN")
    after = cost("tom"), cost("nobody")
    assert after[0] <= before[0] + 3, "of a few levels more of an index"
    assert after[1] <= before[1] + 3
    store.close()


# The check ------------------------------------------------------------------------------------------------------------


def test_the_check_of_a_sound_file_finds_nothing(stories: Stories) -> None:
    stories.save(TALE)
    stories.save({"c": person("princess ", "b", 26, tail=28), "d": model("x", "c", 5, open=True)})
    stories.post("binned", nodes=TALE)
    stories.store.remove("binned")
    assert list(audit.problems(stories.store)) == []


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("UPDATE node SET length = 5 WHERE id = 'a'", "its splice is"),
        ("UPDATE node SET json = replace(json, 'Once', 'One') WHERE id = 'a'", "node a: its splice is"),
        ("UPDATE node SET json = '{' WHERE id = 'b'", "node b cannot be read"),
        ("UPDATE story SET nodes = 7", "but 7 were counted"),
        ("UPDATE node SET seq = 9 WHERE id = 'b'", "above the story's 1"),
        ("UPDATE meta SET json = '7' WHERE key = 'title'", "could not be imported: Field 'title'"),
    ],
)
def test_the_check_finds_what_is_wrong(stories: Stories, change: str, problem: str) -> None:
    stories.post(nodes=TALE, meta={"title": at("T", 1)})
    stories.change(change)
    assert any(problem in found for found in audit.problems(stories.store))


def test_the_check_of_a_file_finds_rows_that_belong_to_nothing(tmp_path: Path) -> None:
    """No PostgreSQL database can have such ones."""
    stories = Stories(tmp_path / "stories.sqlite3")
    stories.post(nodes=TALE)
    with closing(sqlite3.connect(stories.path, isolation_level=None)) as connection:
        connection.execute("DELETE FROM node WHERE id = 'a'")
    assert any("belongs to nothing" in found for found in audit.problems(stories.store))
    stories.store.close()


def test_a_copy_is_whole_and_is_another_file_for_those_who_know_this_one(tmp_path: Path) -> None:
    stories = Stories(tmp_path / "stories.sqlite3")
    seq = stories.save(TALE)
    stories.store.backup(tmp_path / "copy.sqlite3")
    with pytest.raises(FileExistsError):
        stories.store.backup(tmp_path / "copy.sqlite3")
    copy = Stories(tmp_path / "copy.sqlite3")
    assert copy.nodes() == TALE
    server = stories.overview()["server"]
    assert copy.overview()["server"] != server
    assert copy.read(since=seq, server=server) is not None
    assert list(audit.problems(copy.store)) == []
    assert (tmp_path / "copy.sqlite3").stat().st_mode & 0o777 == 0o600
    copy.store.close()
    stories.store.close()


def test_a_post_is_stored_once_for_all_and_read_without_being_parsed(stories: Stories) -> None:
    """Numbers keep their form, and unknown keys their values."""
    body = b'{"nodes":{"a":{"text":"x","by":"import","n":1.0,"m":1e+21,"k":[true,null,""]}}}'
    stories.store.post(ID, read_post(body))
    assert b'{"by":"import","k":[true,null,""],"m":1e+21,"n":1.0,"text":"x"}' in (stories.store.read(ID) or b"")
