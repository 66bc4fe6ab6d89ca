"""Branches by what they mean: how many really differ, which to take, and the answers that say so."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pytest
from flask.testing import FlaskClient

from srb.config.settings import Settings
from srb.web.app import create_app
from srb.web.calls.meaning import LIKELIHOOD, NOISE, Likeness, meaning_of
from srb.web.calls.outcome import choose_places
from srb.web.calls.ranking import Candidate
from tests.scripted import ScriptedClient
from tests.unit.test_web_rank import OPENAI, SRB, TEXTS, events, post, tells

EYE = np.eye(8)
SOME = [Candidate("", None)] * 3


def of(*vectors: Sequence[float]) -> Likeness:
    return Likeness.of([str(place) for place in range(len(vectors))], [list(each) for each in vectors])


def test_different_counts_texts_that_have_nothing_in_common_and_no_copies() -> None:
    for count in range(1, 9):
        assert of(*EYE[:count]).different() == pytest.approx(count)
        assert of(*([3, 4, 0],) * count).different() == pytest.approx(1)
    assert of(*EYE[:2], *EYE[:2]).different() == pytest.approx(2)
    assert 1 < of([1, 0], [1, 0.5]).different() < 2
    assert Likeness.of([], None).different() == 0


def test_without_vectors_texts_are_compared_by_their_words() -> None:
    likeness = Likeness.of(["a b", "a b", "c d"], None)
    assert likeness.by == "words"
    assert likeness.matrix.tolist() == [[1, 1, 0], [1, 1, 0], [0, 0, 1]]
    assert likeness.different() == pytest.approx(np.exp(-(2 / 3) * np.log(2 / 3) - (1 / 3) * np.log(1 / 3)))


def test_each_text_that_is_taken_is_the_one_least_like_those_before() -> None:
    angles = np.radians([0, 5, 90, 45, 84])
    likeness = of(*np.stack([np.cos(angles), np.sin(angles)], 1))
    assert likeness.spread(2, [-1.0] * 5) == [0, 2]
    assert sorted(likeness.spread(9, [-1.0] * 5)) == [0, 1, 2, 3, 4]
    assert likeness.spread(9, [-1.0] * 5)[:3] == likeness.spread(3, [-1.0] * 5)
    assert of(*EYE[:4]).spread(3, [-1, -3, -2, -2.5]) == [0, 2, 3]  # of what differs alike, the likeliest


def test_a_choice_of_few_is_nearly_the_best_of_all_and_copies_come_last() -> None:
    draw = np.random.default_rng(7)
    for _ in range(20):
        rows = draw.normal(size=(10, 6))
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        rows[5] = rows[0]
        likeness = of(*rows)
        chosen = likeness.spread(10, [0.0] * 10)
        assert 5 in chosen[6:]
        found = of(*rows[chosen[:3]]).different()
        best = max(of(*rows[list(others)]).different() for others in combinations(range(10), 3))
        assert found >= 0.9 * best


def test_no_exchange_of_one_text_makes_a_choice_of_some_differ_more() -> None:
    draw = np.random.default_rng(8)

    def worth(places: Sequence[int]) -> float:
        kernel = likeness.matrix[np.ix_(places, places)] + NOISE * np.eye(len(places))
        return float(np.linalg.slogdet(kernel)[1]) + LIKELIHOOD * sum(logprobs[place] for place in places)

    better = 0
    for _ in range(20):
        likeness = of(*draw.normal(size=(24, 7)))
        logprobs = draw.normal(-2, 1, 24).tolist()
        chosen = likeness.spread(6, logprobs)
        others = [place for place in range(24) if place not in chosen]
        best = max(worth([*chosen[:at], other, *chosen[at + 1 :]]) for at in range(6) for other in others)
        assert worth(chosen) >= best - 1e-6
        one_by_one = likeness.spread(24, logprobs)[:6]
        better += worth(chosen) > worth(one_by_one) + 1e-6
        assert chosen[0] == min(chosen), "the likeliest of them, as they come in that order"
    assert better > 10


@pytest.mark.parametrize("size", [3, 8, 64])
def test_neighbours_in_the_order_are_alike(size: int) -> None:
    """Texts along an arc, in a random order, come back in the order of the arc."""
    angles = np.linspace(0, np.pi / 2, size)
    shuffled = np.random.default_rng(size).permutation(size)
    order = of(*np.stack([np.cos(angles), np.sin(angles)], 1)[shuffled]).order()
    assert sorted(order) == list(range(size))
    steps = [shuffled[b] - shuffled[a] for a, b in pairwise(order)]
    assert set(steps) in ({1}, {-1})


def test_meaning_tells_of_each_branch_the_one_before_it_that_it_resembles() -> None:
    said = meaning_of([([4, 2, 7], SOME, of([1, 0, 0], [0.9, 0.1, 0], [0, 0, 1])), ([1], SOME[:1], of([1, 0]))])
    assert said["spread"] == [4, 7, 2, 1]
    assert said["nearest"] == [4, 4, 4, 1]
    assert sorted(said["order"]) == [1, 2, 4, 7]
    assert said["by"] == "meaning"
    assert 1 < said["different"] < 2.1
    assert said["groups"] == [[4, 2], [7], [1]]


def embed(texts: Sequence[str]) -> list[list[float]]:
    """Return vectors by which text 3 differs most from the likeliest, 2, which text 0 equals."""
    angles = [{TEXTS[2]: 0.0, TEXTS[1]: 0.1, TEXTS[4]: 0.2, TEXTS[3]: 1.5}[text] for text in texts]
    return [[float(np.cos(angle)), float(np.sin(angle))] for angle in angles]


def test_a_choice_by_meaning_takes_failed_branches_last_and_words_without_a_model() -> None:
    candidates = [Candidate(text, -1.0 - place, failed=place == 3) for place, text in enumerate(TEXTS)]
    assert choose_places(candidates, 2, "meaning", embed)[0][0] == 0
    assert choose_places(candidates, 5, "meaning", embed)[0][-1] == 3
    places, by = choose_places(candidates, 2, "meaning", lambda texts: None)
    assert by == "words"
    assert places == choose_places(candidates, 2, "diverse", embed)[0]


def serve(has_model: bool) -> FlaskClient:
    app = create_app(Settings(), ScriptedClient(Settings(), tells()))
    if has_model:
        app.extensions["srb"].calls.embed = lambda texts, may_load: embed(texts)
    return app.test_client()


@pytest.mark.parametrize("rank", [False, True, "meaning"])
@pytest.mark.parametrize(("has_model", "by", "texts"), [(True, "meaning", [2, 3]), (False, "words", [2, 1])])
def test_a_stream_and_an_answer_say_by_what_they_chose(has_model: bool, by: str, texts: list[int], rank: Any) -> None:
    http = serve(has_model)
    body = {"n": 2, "best_of": 5, "select": "meaning", "rank": rank}
    whole = post(http, SRB, **body, stream=False).json
    found = events(post(http, SRB, **body).text)
    done = found[-1]
    chosen = [TEXTS[place] for place in texts]
    assert [each["text"] for each in whole["completions"]] == chosen
    assert [each["text"] for each in found if each["event"] == "stream"] == chosen
    assert whole["chosen_by"] == done["chosen_by"] == by
    assert post(http, OPENAI, **body).json["chosen_by"] == by
    assert events(post(http, OPENAI, **body, stream=True).text)[-1]["chosen_by"] == by
    assert ("ranking" in done) == bool(rank)
    if rank == "meaning":
        assert done["meaning"] == whole["meaning"]
        assert done["meaning"]["by"] == by
        assert sorted(done["meaning"]["spread"]) == [0, 1]
    for other in ("likely", "diverse"):
        assert "chosen_by" not in post(http, SRB, **{**body, "select": other}, stream=False).json


def test_the_meaning_of_all_branches_is_ranked_without_a_choice() -> None:
    http = serve(has_model=True)
    said = post(http, SRB, n=5, rank="meaning", stream=False).json["meaning"]
    assert said["spread"][:2] == [2, 3]
    assert sorted(said["spread"]) == sorted(said["order"]) == [0, 1, 2, 3, 4]
    assert said["nearest"][:2] == [2, 2]
    assert said["nearest"][said["spread"].index(0)] == 2
    assert said["order"] in ([0, 2, 1, 4, 3], [2, 0, 1, 4, 3])


MEANING = "/v1/srb/meaning"


@pytest.mark.parametrize("seed", range(4))
def test_texts_are_compared_as_the_definitions_say(seed: int) -> None:
    """The number of different ones is the Vendi score; each text is behind the front that it resembles most."""
    draw = np.random.default_rng(seed)
    rows = draw.normal(size=(12, 5))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    values = np.linalg.eigvalsh(rows @ rows.T / 12)
    vendi = np.exp(-sum(value * np.log(value) for value in values if value > 1e-12))
    app = create_app(Settings(), ScriptedClient(Settings(), tells()))
    asked: list[Any] = []

    def note(texts: Sequence[str], may_load: bool) -> list[list[float]]:
        asked.append((texts, may_load))
        return rows.tolist()

    app.extensions["srb"].calls.embed = note
    texts = [f"text {place}" for place in range(12)]
    bodies: list[dict[str, Any]] = [{}, {"n": 3}, {"n": 64}, {"n": 4, "logprobs": [None, -9.0, -8.0, -1, *[-5] * 8]}]
    for body in bodies:
        said = app.test_client().post(MEANING, json={"texts": texts, **body}).json
        assert said["by"] == "meaning"
        assert said["different"] == pytest.approx(vendi, abs=0.006)
        together = [place for group in said["groups"] for place in group]
        assert sorted(said["order"]) == sorted(said["spread"]) == sorted(together) == list(range(12))
        fronts = [group[0] for group in said["groups"]]
        assert fronts == said["spread"][: min(body.get("n", round(vendi)), 12)]
        assert fronts[0] == (3 if "logprobs" in body else 0)
        for front, *others in said["groups"]:
            for other in others:
                assert rows[other] @ rows[front] == pytest.approx(max(rows[each] @ rows[other] for each in fronts))
    assert asked == [(texts, True)] * 4


def compared(*texts: str, **fields: Any) -> Any:
    return serve(has_model=False).post(MEANING, json={"texts": texts, **fields}).json


def test_without_a_model_texts_are_compared_by_their_words_and_the_answer_says_so() -> None:
    said = compared("a b c", "x y", "a b c d", "x y", n=2)
    assert said["by"] == "words"
    assert said["groups"] == [[0, 2], [1, 3]]
    assert compared("")["groups"] == [[0]]
    assert compared("a", "a", "a")["groups"] == [[0, 1, 2]]


def test_no_model_is_loaded_for_a_foreign_page() -> None:
    app = create_app(Settings(), ScriptedClient(Settings(), tells()))
    asked: list[bool] = []
    app.extensions["srb"].calls.embed = lambda texts, may_load: asked.append(may_load)
    for headers in ({}, {"Origin": "http://elsewhere.example"}):
        assert app.test_client().post(MEANING, json={"texts": ["a", "b"]}, headers=headers).status_code == 200
    assert asked == [True, False]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "texts"),
        ({"texts": []}, "texts"),
        ({"texts": "a"}, "texts"),
        ({"texts": ["a", 1]}, "texts"),
        ({"texts": ["a"] * 65}, "texts"),
        ({"texts": ["a" * 20_001]}, "texts"),
        ({"texts": ["a"], "n": 0}, "n"),
        ({"texts": ["a"], "n": 65}, "n"),
        ({"texts": ["a"], "n": True}, "n"),
        ({"texts": ["a", "b"], "logprobs": [-1.0]}, "logprobs"),
        ({"texts": ["a"], "logprobs": ["-1"]}, "logprobs"),
    ],
)
def test_texts_that_cannot_be_compared_are_refused_by_the_name_of_the_field(body: dict[str, Any], field: str) -> None:
    answer = serve(has_model=True).post(MEANING, json=body)
    assert answer.status_code == 400
    assert answer.json["error"]["param"] == field


def test_the_largest_body_is_compared() -> None:
    said = compared(*(f"{place} " * 5000 for place in range(64)), n=8)
    assert said["different"] == pytest.approx(64)
    assert sorted(place for group in said["groups"] for place in group) == list(range(64))
