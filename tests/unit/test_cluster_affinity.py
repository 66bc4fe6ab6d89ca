"""A text goes where its beginning is, no replica has much more than its share, and a change moves no more than it must."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.routing import Evening, simulate
from srb.cluster import affinity, shared_marks
from srb.cluster import marks as hashing
from srb.cluster.affinity import SPARE, Affinity
from srb.cluster.marks import FIRST_MARK, Mark, Marks, NamedMark, with_media
from srb.cluster.routing import choose, text_of
from srb.cluster.shared_marks import START, SharedMarks
from srb.wire.commands import BranchSpec, Generate, StateAction
from tests.needs import long

REPLICAS = ("a", "b", "c")
PREFACE = "You are a patient teller of long tales. "
WORDS = ("river", "lamp", "winter", "keeper", "harbour", "letter", "stone", "quiet", "garden", "bell")


def of(*replicas: str) -> Affinity:
    balanced = Affinity()
    for name in replicas:
        balanced.join(name)
    return balanced


def text_marks(*prompt: str | int) -> list[Mark]:
    return Marks(prompt).coarse


def words(chance: random.Random, number: int) -> str:
    return " ".join(chance.choices(WORDS, k=number)) + " "


def holds(evening: Evening) -> None:
    """Compare an evening with the goals: the turns that find their story, and the busiest replica's requests to the mean.

    With less than one open request for each replica, stories are few: two at one have twice the mean of one.
    """
    done = simulate(evening)
    assert done.found >= 0.95 * done.continued, f"{done.found} of {done.continued}"
    assert done.busiest(evening.replicas) <= (1.5 if evening.load >= 1 else 2.0), done.requests


def evenings() -> list[Any]:
    """Return evenings of all replicas, bridges and prefaces; two of three are `long`, the others have every pair of them."""
    found = []
    for sized, (replicas, load) in enumerate([(3, 0.3), (3, 1), (3, 8), (8, 1), (8, 3), (40, 1)]):
        for bridged, bridges in enumerate((1, 3, 5)):
            for begun, preface in enumerate((0, 40, 2000, 20_000)):
                marks = [] if (sized + bridged + begun) % 3 == 0 else [pytest.mark.long]
                found.append(pytest.param(replicas, load, bridges, preface, marks=marks))
    return found


@pytest.mark.parametrize(("replicas", "load", "bridges", "preface"), evenings())
def test_turns_find_their_story_and_the_load_is_even(replicas: int, load: float, bridges: int, preface: int) -> None:
    holds(Evening(replicas, load, bridges, preface))


@pytest.mark.parametrize("preface", [0, 2000, *long(20_000)])
@pytest.mark.parametrize("bridges", [1, 3])
@pytest.mark.parametrize("edits", [0.15, 0.3])
@pytest.mark.parametrize(("replicas", "load"), [(8, 1), (8, 3), *long((40, 1), (40, 3))])
def test_writers_who_cut_the_end_of_their_texts_stay_at_home(
    replicas: int, load: float, edits: float, bridges: int, preface: int
) -> None:
    evening = Evening(replicas, load, bridges, preface, turns=12, edits=edits)
    outcome = simulate(evening)
    assert outcome.found >= 0.98 * outcome.continued, f"{outcome.found} of {outcome.continued}"
    assert outcome.busiest(replicas) <= 1.5


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("bridges", [1, 3])
def test_a_popular_story_is_found_and_does_not_melt_its_replica(bridges: int, seed: int) -> None:
    holds(Evening(3, 8, bridges, popular=10, seed=seed))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("load", [1, 8])
def test_a_short_opening_is_found_by_what_continues_it(load: int, seed: int) -> None:
    holds(Evening(3, load, opening=2, seed=seed))


@pytest.mark.parametrize("bridges", [1, 3])
def test_a_popular_preface_does_not_melt_one_replica(bridges: int) -> None:
    assert simulate(Evening(3, 30, bridges, preface=2000, turns=3)).crowd <= bridges * (SPARE + 1)


def through(bridge: Affinity, text: str) -> str | None:
    return choose(bridge, Generate("r", (text,), (BranchSpec(1),)))


def test_four_writers_with_one_preface_use_all_replicas() -> None:
    bridge, preface = of(*REPLICAS), PREFACE * 50
    used: Counter[str | None] = Counter()
    for turn in range(4):
        for writer in range(4):
            used[through(bridge, f"{preface}{writer} {words(random.Random(writer), 20 * (turn + 1))}")] += 1
    assert sorted(used.values()) == [4, 4, 8], used


@pytest.mark.parametrize("size", [30, 300, 30_000])
def test_alternatives_of_one_text_stay_where_it_is(size: int) -> None:
    """As when a writer takes one branch after another, and goes on from each."""
    bridge = of(*(f"r{number}" for number in range(50)))
    text = ("One went to sea. " * (size // 10))[:size]
    home = through(bridge, text)
    assert {through(bridge, f"{text} {number} {words(random.Random(number), 30)}") for number in range(12)} == {home}


def test_an_edit_of_a_long_text_stays_where_it_is_and_one_of_a_short_text_may_move() -> None:
    bridge = of(*(f"r{number}" for number in range(50)))
    text = "".join(f"Chapter {number}. {words(random.Random(number), 40)}" for number in range(400))
    home = through(bridge, text)
    assert through(bridge, text[:80_000] + "Then all was otherwise. " + text[80_000:]) == home
    assert through(bridge, text[:60_000] + "Then all was otherwise. ") == home


def test_short_openings_that_many_choose_do_not_bring_all_to_one_replica() -> None:
    bridge = of(*REPLICAS)
    for number in range(90):
        text = "Once upon a time, "
        through(bridge, text)
        through(bridge, f"{text}{words(random.Random(number), 30)}")
    stories = bridge._num_stories
    assert max(stories.values()) <= 2 * min(stories[name] for name in REPLICAS), stories


@given(st.text(min_size=1, max_size=FIRST_MARK), st.text(min_size=1, max_size=200))
def test_the_openings_of_a_text_are_the_short_texts_that_it_continues(opening: str, more: str) -> None:
    data = len(opening.encode())
    found = text_marks(opening)[0] in Marks((opening, more)).openings
    assert found == (8 <= data < FIRST_MARK)
    assert len(Marks((opening, more * 100_000)).openings) < FIRST_MARK
    assert text_marks(opening)[-1] not in Marks((opening,)).openings


def test_a_bridge_that_starts_later_hears_what_others_know(monkeypatch: pytest.MonkeyPatch) -> None:
    shared, first = SharedMarks(), of(*REPLICAS)
    texts = [PREFACE * 10 + words(random.Random(number), 60) for number in range(30)]
    chosen = [choose(first, Generate("r", (text,), (BranchSpec(1),))) for text in texts]
    place, heard = shared.exchange("first", START, first.take_news())
    assert heard == []
    assert shared.exchange("first", place, {}) == (place, []), "a bridge does not hear itself, and tells nothing twice"
    later = of(*REPLICAS)
    _, [news] = shared.exchange("later", ("a list that was lost", 99), {})
    later.hear(news)
    assert [choose(later, Generate("r", (text + "on",), (BranchSpec(1),))) for text in texts] == chosen
    assert later.take_news().keys() <= set(REPLICAS)
    monkeypatch.setattr(shared_marks, "_MOST_BYTES", 100)
    for number in range(20):
        place, _ = shared.exchange("other", place, {"a": bytes([number]) * 16})
    _, kept = shared.exchange("new", START, {})
    assert [news["a"][0] for news in kept] == list(range(14, 20)), "old news are forgotten"
    assert shared.exchange("first", (place[0], place[1] - 2), {})[1] == kept[-2:]


@given(st.text(min_size=FIRST_MARK, max_size=300), st.text(max_size=300))
def test_the_end_of_a_text_is_found_in_what_continues_it(text: str, more: str) -> None:
    def all_marks(prompt: str) -> list[bytes]:
        marks = Marks((prompt,))
        return [each for number, mark in enumerate(marks.coarse) for each in (mark, *marks.finer(number))]

    data = text.encode()
    own, found = all_marks(text), all_marks(text + more)
    assert found[: len(own)] == own
    assert len(set(found)) == len(found)
    assert len(own) == (len(data) - FIRST_MARK) // 16 + 1


TEXTS = st.lists(st.text(min_size=FIRST_MARK, max_size=200), min_size=1, max_size=60, unique=True)


@given(TEXTS, st.integers(2, 6))
def test_a_replica_that_leaves_moves_only_its_own_texts(texts: list[str], replicas: int) -> None:
    names = [f"replica {number}" for number in range(replicas)]

    def placed(usable: list[str]) -> list[str | None]:
        return [of(*usable).choose(Marks((text,))) for text in texts]

    before, after = placed(names), placed(names[1:])
    assert all(old == new for old, new in zip(before, after, strict=True) if old != names[0])


def test_a_replica_that_joins_takes_only_its_share() -> None:
    texts = [Marks((f"{number} {words(random.Random(number), 20)}",)) for number in range(2000)]
    before = [of(*REPLICAS).choose(text) for text in texts]
    after = [of(*REPLICAS, "d").choose(text) for text in texts]
    moved = [new for old, new in zip(before, after, strict=True) if old != new]
    assert set(moved) == {"d"}
    assert 0.2 < len(moved) / len(texts) < 0.3


@given(st.lists(st.tuples(st.sampled_from(["choose", "end"]), st.integers(0, 5)), max_size=300), st.integers(1, 5))
def test_no_replica_exceeds_the_bound_whatever_is_asked(steps: list[tuple[str, int]], replicas: int) -> None:
    balanced = of(*(f"r{number}" for number in range(replicas)))
    running: list[str] = []
    for what, number in steps:
        if what == "choose":
            chosen = balanced.choose(Marks((f"the same beginning of story {number} " * 5,)))
            assert chosen is not None
            balanced.begin(chosen)
            running.append(chosen)
            assert Counter(running)[chosen] <= affinity.CROWD * len(running) / replicas + SPARE + 1
        elif running:
            balanced.end(running.pop(number % len(running)))


def test_a_request_of_many_branches_weighs_more_than_one_of_few() -> None:
    balanced = of(*REPLICAS)
    for name, branches in (("a", 64), *[("b", 1)] * 20, *[("c", 1)] * 20):
        balanced.begin(name, branches)
    assert balanced.least_loaded() == "b"
    texts = [Marks((f"{number} {words(random.Random(number), 20)}",)) for number in range(20)]
    assert {balanced.choose(text) for text in texts} == {"b", "c"}
    balanced.end("a", 64)
    assert balanced.least_loaded() == "a"


def test_the_load_counts_requests_of_one_size_alike() -> None:
    """So that a story whose requests have many branches each is not moved sooner than one whose requests have one."""
    chosen = []
    for branches in (1, 8):
        balanced = of(*REPLICAS)
        text, own = Marks(("The same beginning of one story. " * 5,)), []
        for _ in range(30):
            own.append(balanced.choose(text, branches=branches))
            balanced.begin(str(own[-1]), branches)
        chosen.append(own)
    assert chosen[0] == chosen[1]


def test_a_story_that_would_wait_goes_on_where_it_begins_sooner() -> None:
    """As long as what waits before it takes longer than its text to compute: a long one stays."""
    for size, waits, stays in ((500, 0, True), (500, 8, False), (60_000, 8, True)):
        bridge = Affinity()
        for name in REPLICAS:
            bridge.join(name, 16)
        text = ("One went to sea. " * 4000)[:size]
        home = through(bridge, text)
        assert home is not None
        bridge.begin(home, 15 + waits)
        for name in REPLICAS:
            if name != home:
                bridge.begin(name, 14)
        assert (through(bridge, text + " And on.") == home) is stays, (size, waits)


def test_what_others_have_open_counts_as_load_with_what_was_sent_since_the_report() -> None:
    bridge = of("a", "b")
    bridge.begin("a", 2)
    bridge.report("a", 2)
    bridge.report("b", 3)
    assert bridge.least_loaded() == "a", "its two are this bridge's own"
    bridge.begin("a", 2)
    assert bridge.least_loaded() == "b"
    bridge.report("a", 1)  # it has not met the last two yet
    assert bridge._load("a") == 4
    bridge.end("a", 2)
    bridge.report("b", 0)
    assert (bridge._load("a"), bridge._load("b"), bridge.least_loaded()) == (2, 0, "b")
    bridge.report("gone", 5)
    bridge.leave("b")
    assert (bridge._all_elsewhere, bridge.num_open) == (0, 2)


def test_no_byte_of_a_text_that_goes_on_is_hashed_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[int] = []

    class Counting:
        def __init__(self, hasher: Any) -> None:
            self._hasher, self.digest = hasher, hasher.digest

        def update(self, data: bytes) -> None:
            hashed.append(len(data))
            self._hasher.update(data)

        def copy(self) -> Counting:
            return Counting(self._hasher.copy())

    made = hashing._hasher
    monkeypatch.setattr(hashing, "_hasher", lambda key: Counting(made(key)))
    bridge, text = of(*REPLICAS), words(random.Random(1), 4000)
    through(bridge, text)
    hashed.clear()
    through(bridge, text + words(random.Random(2), 100))
    assert sum(hashed) <= len(text) + 700 + len(text) // 8, "all once, and the end of what was known by finer marks"


def test_every_bridge_places_a_new_text_alike() -> None:
    texts = [Marks((words(random.Random(number), 30),)) for number in range(100)]
    assert [of("a", "b", "c").choose(text) for text in texts] == [of("c", "a", "b").choose(text) for text in texts]


def test_the_longest_known_beginning_counts() -> None:
    balanced = of("a", "b")
    preface = "An old preface that many stories share, and that is long enough. " * 2
    first = balanced.choose(Marks((preface + "One went to sea. " * 10,)))
    second = balanced.choose(Marks((preface + "Another stayed at home. " * 10,)), exclude={first or ""})
    assert first != second
    assert balanced.choose(Marks((preface + "One went to sea. " * 10 + "There",))) == first
    assert balanced.choose(Marks((preface + "Another stayed at home. " * 10 + "Here",))) == second


def test_tokens_and_text_have_marks_of_their_own() -> None:
    assert text_marks("a" * 300) != text_marks(*range(300))
    assert text_marks("a" * 300)[:3] == text_marks("a" * 200)
    assert text_marks(1, 2, 3) != text_marks(1, 23)
    assert text_marks("short") == text_marks("sh", "ort")
    assert len(text_marks("x" * 10_000_000)) < 100, "a long text costs no more than its first part"


def test_a_name_goes_before_the_text_and_is_no_text() -> None:
    assert NamedMark("session", "me", "a").coarse != NamedMark("session", "you", "a").coarse
    assert NamedMark("session", "", "a").coarse != text_marks("session\0\0a")


def test_a_persons_text_is_known_again_and_does_not_draw_anothers() -> None:
    """Nor does a text of somebody with another key, of a long name, without a key, or with a short opening."""
    owners = ["key @alice", "key @" + "é" * 64, "key @" + "é" * 63 + "e", "key #1", "10.0.0.1"]
    for text in ("A preface that all of them begin with. " * 30, "Once upon a time"):
        bridge, homes = of(*(f"r{number}" for number in range(40))), []
        for owner in owners:
            command = Generate("r", (text,), (BranchSpec(1),), owner=owner)
            homes.append(choose(bridge, command))
            marks = text_of(command).coarse
            assert [bridge._known[mark][1] for mark in marks] == [(homes[-1],)] * len(marks), "nobody else's are there"
        for owner, home in zip(owners, homes, strict=True):
            assert choose(bridge, Generate("r", (text + " and on",), (BranchSpec(1),), owner=owner)) == home
    assert len(set(homes)) > 1


def test_addresses_share_their_texts_and_states_are_everybodys() -> None:
    one, other = (Generate("r", ("x" * 99,), (BranchSpec(1),), owner=owner) for owner in ("10.0.0.1", "::1"))
    assert text_of(one).coarse == text_of(other).coarse == text_marks("x" * 99)
    mine, theirs = (replace(one, state="mirabel", owner=f"key @{name}") for name in ("alice", "bob"))
    assert text_of(mine).coarse == text_of(theirs).coarse == text_of(StateAction("s", "restore", "mirabel")).coarse
    mine, theirs = (replace(one, session="mirabel", owner=f"key @{name}") for name in ("alice", "bob"))
    assert text_of(mine).coarse != text_of(theirs).coarse


def test_without_replicas_there_is_no_choice() -> None:
    assert Affinity().choose(Marks(("x",))) is None
    assert of("a").choose(Marks(("x",)), exclude={"a"}) is None
    assert Affinity().least_loaded() is None


def test_the_memory_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(affinity, "_MEMORY", 100)
    monkeypatch.setattr(affinity, "_FOR_EACH", 10)
    balanced = of("a", "b")
    for number in range(500):
        balanced.choose(Marks((f"{number} " * 50,)))
    assert "100 beginnings" in repr(balanced)


def test_what_a_lost_replica_had_open_is_forgotten() -> None:
    balanced = of("a", "b")
    balanced.begin("a")
    balanced.leave("a")
    balanced.end("a")
    balanced.join("a")
    assert repr(balanced) == "<Affinity {'b': 0, 'a': 0}, 0 beginnings>"


def test_texts_about_other_pictures_are_other_texts() -> None:
    one, other = (text_marks(*with_media(("a", -1, "b"), (data,))) for data in ("one", "other"))
    assert one != other
    assert one == text_marks(*with_media(("a", -1, "b"), ("one", "another one")))


def test_a_request_that_grows_after_its_replica_has_come_back_leaves_no_load() -> None:
    affinity = Affinity()
    affinity.join("a")
    affinity.begin("a", 2)
    affinity.leave("a")  # its link is lost, and there again, though the request's own connection is not
    affinity.join("a")
    affinity.grow("a")
    affinity.end("a", 3)
    assert affinity._open == {"a": 0}


def test_texts_of_another_salt_have_other_marks() -> None:
    """A replica that has computed a text for others is no better for it than any."""

    def marks(**own: str) -> list[bytes]:
        return text_of(Generate("a", ("the same long text " * 20,), (BranchSpec(0),), **own)).coarse

    given = [{}, {"cache_salt": "a"}, {"cache_salt": "b"}, {"owner": "key k"}, {"owner": "key k", "cache_salt": "a"}]
    for mine in given:
        for other in given:
            assert bool({*marks(**mine)} & {*marks(**other)}) == (mine == other)
