"""A text goes where its beginning is, no replica has much more than its share, and a change moves no more than it must."""

from __future__ import annotations

import random
from collections import Counter, deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srb.cluster import affinity, shared_marks
from srb.cluster.affinity import (
    FIRST_MARK,
    SPARE,
    Affinity,
    finer_marks,
    name_marks,
    opening_marks,
    text_marks,
    with_media,
)
from srb.cluster.routing import choose
from srb.cluster.shared_marks import START, SharedMarks
from srb.protocol import BranchSpec, Generate

REPLICAS = ("a", "b", "c")
PREFACE = "You are a patient teller of long tales. "
EXCHANGE_TURNS = 3  # between two exchanges of the bridges; a story's next turn comes later, when its last one has ended
WORDS = ("river", "lamp", "winter", "keeper", "harbour", "letter", "stone", "quiet", "garden", "bell")


def of(*replicas: str) -> Affinity:
    balanced = Affinity()
    for name in replicas:
        balanced.join(name)
    return balanced


def words(chance: random.Random, number: int) -> str:
    return " ".join(chance.choices(WORDS, k=number)) + " "


class Evening:
    """Stories that go on turn by turn, through one or more bridges, with some requests open at any time."""

    def __init__(
        self, bridges: int = 1, open_requests: int = 24, preface: str = "", seed: int = 1, opening: int = 20
    ) -> None:
        self.chance = random.Random(seed)
        self.bridges = [of(*REPLICAS) for _ in range(bridges)]
        self._shared = SharedMarks()
        self._places = [START] * bridges
        self.preface = preface
        self._opening = opening  # words
        self._most_open = open_requests
        self._open: deque[tuple[Affinity, str]] = deque()
        self._texts: dict[int, str] = {}
        self._has: dict[str, set[int]] = {name: set() for name in REPLICAS}  # the stories that each replica computed
        self.hits = self.continued = 0
        self.loads: Counter[str] = Counter()
        self.most_open = 0.0  # the largest part of the open requests that one replica had, when all were open

    def run(self, stories: int, turns: int, popular: int = 1) -> Evening:
        """Tell stories; the first has `popular` times as many turns."""
        order = [story for story in range(stories) for _ in range(turns * (popular if story == 0 else 1))]
        self.chance.shuffle(order)
        for number, story in enumerate(order):
            self._turn(story)
            if number % EXCHANGE_TURNS == 0:
                self._exchange()
        return self

    def _exchange(self) -> None:
        for number, bridge in enumerate(self.bridges):
            told = self._shared.exchange(str(number), self._places[number], bridge.take_news())
            self._places[number], heard = told
            for news in heard:
                bridge.hear(news)

    def _turn(self, story: int) -> None:
        bridge = self.chance.choice(self.bridges)
        begun = story in self._texts
        if not begun:
            self._texts[story] = self.preface + f"{story} " + words(self.chance, self._opening)
        command = Generate(str(story), (self._texts[story],), (BranchSpec(1),))
        chosen = choose(bridge, command)
        assert chosen is not None
        self.continued += begun
        self.hits += begun and story in self._has[chosen]
        self._has[chosen].add(story)
        self.loads[chosen] += 1
        bridge.begin(chosen)
        self._open.append((bridge, chosen))
        if len(self._open) > self._most_open:
            ended, name = self._open[0]
            self._open.popleft()
            ended.end(name)
            now = Counter(name for _, name in self._open)
            self.most_open = max(self.most_open, max(now.values()) / (len(self._open) / len(REPLICAS)))
        self._texts[story] += words(self.chance, 30)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("bridges", "popular"), [(1, 1), (1, 10), (3, 1), (3, 10)])
def test_turns_find_their_story_and_the_load_is_even(bridges: int, popular: int, seed: int) -> None:
    evening = Evening(bridges, seed=seed).run(200, 5, popular)
    assert evening.hits >= 0.95 * evening.continued, f"{evening.hits} of {evening.continued}"
    mean = evening.loads.total() / len(REPLICAS)
    assert max(evening.loads.values()) <= 1.3 * mean, evening.loads


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("popular", [1, 10])
def test_a_short_opening_is_found_by_what_continues_it(popular: int, seed: int) -> None:
    evening = Evening(seed=seed, opening=2).run(200, 5, popular)
    assert evening.hits >= 0.95 * evening.continued, f"{evening.hits} of {evening.continued}"
    assert max(evening.loads.values()) <= 1.3 * evening.loads.total() / len(REPLICAS), evening.loads


@given(st.text(min_size=1, max_size=FIRST_MARK), st.text(min_size=1, max_size=200))
def test_the_openings_of_a_text_are_the_short_texts_that_it_continues(opening: str, more: str) -> None:
    data = len(opening.encode())
    found = text_marks((opening,))[0] in opening_marks((opening, more))
    assert found == (8 <= data < FIRST_MARK)
    assert len(opening_marks((opening, more * 100_000))) < FIRST_MARK
    assert text_marks((opening,))[-1] not in opening_marks((opening,))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("bridges", [1, 2, 3])
@pytest.mark.parametrize("times", [1, 2, 5, 50, 500])
def test_stories_with_one_preface_are_told_apart(times: int, bridges: int, seed: int) -> None:
    evening = Evening(bridges, preface=PREFACE * times, seed=seed).run(200, 5)
    assert evening.hits >= 0.95 * evening.continued, f"{evening.hits} of {evening.continued}"
    assert max(evening.loads.values()) <= 1.3 * evening.loads.total() / len(REPLICAS), evening.loads


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
        coarse = text_marks((prompt,))
        return [each for number, mark in enumerate(coarse) for each in (mark, *finer_marks((prompt,), number))]

    data = text.encode()
    own, found = all_marks(text), all_marks(text + more)
    assert found[: len(own)] == own
    assert len(set(found)) == len(found)
    assert len(own) == (len(data) - FIRST_MARK) // 16 + 1


@pytest.mark.parametrize("bridges", [1, 3])
def test_a_popular_preface_does_not_melt_one_replica(bridges: int) -> None:
    evening = Evening(bridges, open_requests=90, preface=PREFACE * 50).run(200, 5)
    mean = 90 / len(REPLICAS)
    assert evening.most_open <= affinity.CROWD + bridges * (SPARE + 1) / mean
    assert max(evening.loads.values()) <= 1.3 * evening.loads.total() / len(REPLICAS), evening.loads


TEXTS = st.lists(st.text(min_size=FIRST_MARK, max_size=200), min_size=1, max_size=60, unique=True)


@given(TEXTS, st.integers(2, 6))
def test_a_replica_that_leaves_moves_only_its_own_texts(texts: list[str], replicas: int) -> None:
    names = [f"replica {number}" for number in range(replicas)]

    def placed(usable: list[str]) -> list[str | None]:
        return [of(*usable).choose(text_marks((text,))) for text in texts]

    before, after = placed(names), placed(names[1:])
    assert all(old == new for old, new in zip(before, after, strict=True) if old != names[0])


def test_a_replica_that_joins_takes_only_its_share() -> None:
    texts = [text_marks((f"{number} {words(random.Random(number), 20)}",)) for number in range(2000)]
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
            chosen = balanced.choose(text_marks((f"the same beginning of story {number} " * 5,)))
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
    texts = [text_marks((f"{number} {words(random.Random(number), 20)}",)) for number in range(20)]
    assert {balanced.choose(text) for text in texts} == {"b", "c"}
    balanced.end("a", 64)
    assert balanced.least_loaded() == "a"


def test_the_load_counts_requests_of_one_size_alike() -> None:
    """So that a story whose requests have many branches each is not moved sooner than one whose requests have one."""
    chosen = []
    for branches in (1, 8):
        balanced = of(*REPLICAS)
        text, own = text_marks(("The same beginning of one story. " * 5,)), []
        for _ in range(30):
            own.append(balanced.choose(text, branches=branches))
            balanced.begin(str(own[-1]), branches)
        chosen.append(own)
    assert chosen[0] == chosen[1]


def test_every_bridge_places_a_new_text_alike() -> None:
    texts = [text_marks((words(random.Random(number), 30),)) for number in range(100)]
    assert [of("a", "b", "c").choose(text) for text in texts] == [of("c", "a", "b").choose(text) for text in texts]


def test_the_longest_known_beginning_counts() -> None:
    balanced = of("a", "b")
    preface = "An old preface that many stories share, and that is long enough. " * 2
    first = balanced.choose(text_marks((preface + "One went to sea. " * 10,)))
    second = balanced.choose(text_marks((preface + "Another stayed at home. " * 10,)), exclude={first or ""})
    assert first != second
    assert balanced.choose(text_marks((preface + "One went to sea. " * 10 + "There",))) == first
    assert balanced.choose(text_marks((preface + "Another stayed at home. " * 10 + "Here",))) == second


def test_tokens_and_text_have_marks_of_their_own() -> None:
    assert text_marks(("a" * 300,)) != text_marks(tuple(range(300)))
    assert text_marks(("a" * 300,))[:3] == text_marks(("a" * 200,))
    assert text_marks((1, 2, 3)) != text_marks((1, 23))
    assert text_marks(("short",)) == text_marks(("sh", "ort"))
    assert len(text_marks(("x" * 10_000_000,))) < 100, "a long text costs no more than its first part"


def test_a_name_goes_before_the_text_and_is_no_text() -> None:
    assert name_marks("session", "me", "a") != name_marks("session", "you", "a")
    assert name_marks("session", "", "a") != text_marks(("session\0\0a",))


def test_without_replicas_there_is_no_choice() -> None:
    assert Affinity().choose(text_marks(("x",))) is None
    assert of("a").choose(text_marks(("x",)), exclude={"a"}) is None
    assert Affinity().least_loaded() is None


def test_the_memory_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(affinity, "_MEMORY", 100)
    balanced = of("a", "b")
    for number in range(500):
        balanced.choose(text_marks((f"{number} " * 50,)))
    assert "100 beginnings" in repr(balanced)


def test_what_a_lost_replica_had_open_is_forgotten() -> None:
    balanced = of("a", "b")
    balanced.begin("a")
    balanced.leave("a")
    balanced.end("a")
    balanced.join("a")
    assert repr(balanced) == "<Affinity {'b': 0, 'a': 0}, 0 beginnings>"


def test_texts_about_other_pictures_are_other_texts() -> None:
    one, other = (text_marks(with_media(("a", -1, "b"), (data,))) for data in ("one", "other"))
    assert one != other
    assert one == text_marks(with_media(("a", -1, "b"), ("one", "another one")))


def test_a_request_that_grows_after_its_replica_has_come_back_leaves_no_load() -> None:
    affinity = Affinity()
    affinity.join("a")
    affinity.begin("a", 2)
    affinity.leave("a")  # its link is lost, and there again, though the request's own connection is not
    affinity.join("a")
    affinity.grow("a")
    affinity.end("a", 3)
    assert affinity._open == {"a": 0}
