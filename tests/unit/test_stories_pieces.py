"""A story's file in pieces: what they hold is what the whole holds, wherever the search stops, and limits come first."""

from __future__ import annotations

import random
from typing import Any

import orjson
import pytest

from srb.errors import Cancelled, InvalidRequest, StoryTooLarge
from srb.stories import parts, pieces
from srb.stories.files import read_file
from srb.stories.limits import MAX_NODES
from srb.stories.parts import no_pause
from srb.stories.pieces import PARTS, Limits, pieces_of
from tests.postgresql import MakePlace
from tests.stories import ID, Stories, model, person

FILE = {"format": "srb-story", "version": 1, "id": ID, "nodes": {"a": person("Once")}}
TEXTS = ("", "a", '"', "\\", '\\"', "\\\\", "{", "}", "[,]", "é😀", "nodes", "x" * 40, '"nodes":{')


def whole(data: bytes, limits: Limits | None = None) -> Any:
    """Return the value that the pieces of a file make."""
    found = pieces_of(data, limits, no_pause)
    value = orjson.loads(found.frame)
    for part, some in found.parts.items():
        for piece in some:
            value[part] |= orjson.loads(piece)
    return value


def random_value(chance: random.Random, depth: int) -> Any:
    if depth and chance.random() < 0.6:
        if chance.random() < 0.5:
            return [random_value(chance, depth - 1) for _ in range(chance.randint(0, 4))]
        return {chance.choice(TEXTS) + str(n): random_value(chance, depth - 1) for n in range(chance.randint(0, 4))}
    return chance.choice([*TEXTS, 1, -1.5, None, True])


def random_file(chance: random.Random) -> bytes:
    names = [*PARTS, "memory", "settings", "nodes\\", "z"]
    chance.shuffle(names)
    value = {name: random_value(chance, 4) for name in names[: chance.randint(0, len(names))]}
    text = orjson.dumps(value, option=chance.choice([0, orjson.OPT_INDENT_2]))
    return chance.choice([b"", b" ", b"\n\t"]) + text


@pytest.mark.parametrize("window", [2, 3, 7, 64, 10**6])
def test_the_pieces_of_a_file_hold_what_the_file_holds(window: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "_WINDOW", window)
    monkeypatch.setattr(pieces, "_PIECE", 20)
    chance = random.Random(window)
    for _ in range(300):
        data = random_file(chance)
        assert whole(data) == orjson.loads(data), data


@pytest.mark.parametrize("window", [2, 5, 10**6])
def test_what_is_no_json_is_none_in_pieces(window: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some signs were lost, doubled or exchanged: the parser of the pieces refuses what that of the whole refuses."""
    monkeypatch.setattr(pieces, "_WINDOW", window)
    monkeypatch.setattr(pieces, "_PIECE", 20)
    chance = random.Random(window)
    refused = 0
    for _ in range(1500):
        data = bytearray(random_file(chance))
        for _ in range(chance.randint(1, 3)):
            at = chance.randint(0, len(data))
            data[at : at + chance.randint(0, 2)] = chance.choice([b"", b",", b"}", b"{", b'"', b"\\", b"]", b"[", b":"])
        try:
            expected = orjson.loads(data)
        except orjson.JSONDecodeError:
            refused += 1
            with pytest.raises(orjson.JSONDecodeError):
                whole(bytes(data))
        else:
            assert whole(bytes(data)) == expected, data
    assert refused > 500


def file_with(**parts: str) -> bytes:
    """Return a file whose parts are given as JSON text."""
    return (
        b'{"format":"srb-story","version":1,"id":"x",'
        + ",".join(f'"{k}":{v}' for k, v in parts.items()).encode()
        + b"}"
    )


def entries(number: int, entry: str = "{}") -> str:
    return "{" + ",".join(f'"n{each}":{entry}' for each in range(number)) + "}"


LIMITS = Limits({"nodes": 3, "runs": 4, "marks": 5, "media": 2}, keys=6, values=10, entry=200, frame=300, signs=1000)


@pytest.mark.parametrize(
    ("parts", "field", "limit"),
    [
        ({"nodes": entries(4)}, "nodes", "3 nodes"),
        ({"nodes": "{}", "runs": entries(5)}, "runs", "4 runs"),
        ({"nodes": "{}", "marks": entries(6)}, "marks", "5 marks"),
        ({"nodes": "{}", "media": entries(3)}, "media", "2 media"),
        ({f"k{n}": "1" for n in range(7)}, "body", "6 keys"),
        ({"nodes": entries(1, "[" + "0," * 20 + "0]")}, "nodes", "10 values"),
        ({"nodes": entries(1, '{"a":' + "[" * 20)}, "nodes", "10 values"),
        ({"settings": "[" + "0," * 20 + "0]"}, "body", "10 values"),
        ({"n\\u006fdes": entries(20)}, "body", "10 values"),
        ({"nodes": entries(2, f'"{"x" * 300}"')}, "nodes", "200"),
        ({"memory": f'"{"x" * 400}"'}, "body", "300"),
    ],
)
def test_a_file_beyond_a_limit_is_refused_by_its_name_before_it_is_read(
    parts: dict[str, str], field: str, limit: str
) -> None:
    with pytest.raises(StoryTooLarge, match=limit) as refused:
        pieces_of(file_with(**parts), LIMITS, no_pause)
    assert refused.value.extra["param"] == field


def test_a_file_at_its_limits_is_read() -> None:
    parts = {"nodes": entries(3), "runs": entries(4), "marks": entries(5), "media": entries(2)}
    assert len(whole(file_with(**parts), LIMITS)["nodes"]) == 3


@pytest.mark.parametrize("sign", [b'"', b'\\"', b"\\", b'"\\', b"{", b"}", b"[{", b'""', b'{"', b",", b"x"])
def test_no_bytes_cost_more_than_their_number(sign: bytes) -> None:
    """Each window is passed at most twice, whatever it holds: a search that went back would never end."""
    for begin in (b"", b"{", b'{"nodes":{', b'{"nodes":{"a":{"text":"'):
        data = begin + sign * (2_000_000 // len(sign))
        pauses = 0

        def pause() -> None:
            nonlocal pauses
            pauses += 1

        try:
            pieces_of(data, Limits(), pause)
        except StoryTooLarge:
            pass
        assert pauses <= 2 * (len(data) // pieces._WINDOW + 2)


def test_reading_pauses_between_few_nodes_and_a_pause_can_end_it() -> None:
    nodes = {f"n{number}": person("word " * 20) for number in range(20_000)}
    data, pauses = orjson.dumps({**FILE, "nodes": nodes}), 0

    def pause() -> None:
        nonlocal pauses
        pauses += 1
        if pauses == 30:
            raise Cancelled("The client has disconnected")

    with pytest.raises(Cancelled):
        read_file(data, pause=pause)
    read_file(data)


def test_faults_are_gathered_for_a_few_values_and_the_first_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[int] = []
    validated = parts._validated

    def counted(check: Any, given: Any, before: str) -> Any:
        checked.append(len(given))
        return validated(check, given, before)

    monkeypatch.setattr(parts, "_validated", counted)
    with pytest.raises(InvalidRequest, match=r"nodes\.n0\.text"):
        read_file(file_with(nodes=entries(MAX_NODES)))
    assert max(checked) <= 1000


def test_an_import_is_planned_anew_if_the_story_has_changed_meanwhile(place: MakePlace) -> None:
    stories = Stories(place())
    for known in ({}, {"a": person("Once")}):
        if known:
            stories.save(known)
        file = {**FILE, "nodes": {"a": person("Once"), "b": model(" upon", "a", 4)}}
        plan = stories.store.plan(read_file(orjson.dumps(file)))
        stories.save({"a": person("Once"), f"c{len(known)}": person("of another tab", "a", 4)})
        done = stories.store.carry_out(plan)
        assert (done.id, done.copied) == (ID, False)
        assert {"a", "b", f"c{len(known)}"} <= set(stories.nodes())
    stories.store.close()


def test_a_plan_writes_nothing(place: MakePlace) -> None:
    stories = Stories(place())
    stories.store.plan(read_file(orjson.dumps(FILE)))
    assert stories.ids() == []
    stories.store.close()
