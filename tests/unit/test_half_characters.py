"""Escapes of half characters in a JSON body: repaired wherever they stand, few at a time, and in short pieces."""

from __future__ import annotations

import re

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from srb.web.bodies import encodings
from srb.web.bodies.encodings import MAX_REPAIRS, without_lone_surrogates

_ESCAPE = re.compile(rb"(?i:(\\ud[89ab]..\\ud[c-f]..)|(\\ud[89a-f][0-9a-f]{2})|\\.)", re.DOTALL)
PARTS = [r"\ud83d", r"\ude00", r"\uD83D\uDE00", r"\\", r"\n", r"\"", r"\u0041", "a", "ud83d", "é", r"\ud8", "\\"]


def simply(data: bytes) -> tuple[bytes, int]:
    """The oracle: escape by escape, from the beginning."""
    count = 0

    def replaced(found: re.Match[bytes]) -> bytes:
        nonlocal count
        count += found[2] is not None
        return found[0] if found[2] is None else rb"\ufffd"

    return _ESCAPE.sub(replaced, data), count


@given(st.lists(st.sampled_from(PARTS), max_size=60), st.integers(2, 40))
def test_pieces_of_any_length_repair_what_one_look_at_the_whole_does(parts: list[str], searched: int) -> None:
    data = "".join(parts).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encodings, "_SEARCHED", searched)
        assert without_lone_surrogates(data) == simply(data)


@pytest.mark.parametrize("filler", ["a", r"\n", r"\\", r"\u0041", r"\ud83d\ude00", "é"])
def test_a_half_far_behind_is_found_and_the_others_are_left(filler: str) -> None:
    text = '{"a":"' + filler * 20_000 + r"\ud83d" + '","b":"' + filler * 9 + r"\udc00" + '"}'
    repaired, count = without_lone_surrogates(text.encode())
    assert (repaired, count) == simply(text.encode())
    assert count == 2
    assert orjson.loads(repaired)["a"].endswith("\ufffd")


def test_a_body_without_halves_is_not_looked_through_escape_by_escape(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encodings, "_ESCAPE", None)
    data = b'{"x":"' + rb"\n" * 100_000
    assert without_lone_surrogates(data) == (data, 0)


@pytest.mark.parametrize("part", [r"\ud800", r"\n" * 2000 + r"\ud800", r"\ud83d\ude00"])
def test_others_have_their_turns_between_pieces_and_repairs_are_few(part: str) -> None:
    turns: list[None] = []
    data = ('{"x":"' + part * (5000 if len(part) > 100 else 200_000)).encode()
    _, count = without_lone_surrogates(data, pause=lambda: turns.append(None))
    assert count <= MAX_REPAIRS + 4096 // 6
    assert len(turns) > 1
