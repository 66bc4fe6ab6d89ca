"""Large bodies: they are looked through in pieces, between which others run, and no answer depends on the pieces."""

from __future__ import annotations

import random
from contextlib import suppress

import gevent
import orjson
import pytest

from srb.errors import InvalidRequest
from srb.web.bodies import completion, encodings
from srb.web.loop import yielding

SHORT = 7  # bytes of a piece here


@pytest.fixture
def short_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (encodings, yielding):
        monkeypatch.setattr(module, "PIECE_BYTES", SHORT)


def wrong_byte_at_once(data: bytes) -> int | None:
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return error.start
    return None


@pytest.mark.usefixtures("short_pieces")
def test_a_wrong_byte_has_the_place_that_it_has_in_the_whole_body() -> None:
    chance = random.Random(4)
    parts = [b"a", "é".encode(), "€".encode(), "😀".encode(), b"\xff", b"\x80", b"\xf0\x9f", b"\xed\xa0\x80"]
    for _ in range(3000):
        data = b"".join(chance.choices(parts, weights=[9, 9, 9, 9, 1, 1, 1, 1], k=chance.randrange(12)))
        said, place = encodings.wrong_byte(data), wrong_byte_at_once(data)
        assert (said is None) == (place is None), data
        assert said is None or said.startswith(f"byte {place} is 0x{data[place or 0]:02X}"), data


@pytest.mark.usefixtures("short_pieces")
def test_marks_and_half_characters_are_found_at_every_place_of_a_piece() -> None:
    for before in range(3 * SHORT):
        data = b"x" * before + b",[{" + b"y" * SHORT
        assert yielding.count_in_pieces(data, (b",", b"[", b"{")) == 3
        half = b'"' + b"x" * before + rb"\ud83d" + b'"'
        assert encodings.without_lone_surrogates(half) == (half.replace(rb"\ud83d", rb"\ufffd"), 1)


@pytest.mark.parametrize(
    "body",
    [b'{"prompt":"' + b"a" * 2**23 + b'"}', b'{"prompt":"' + b"a" * 2**23, b'{"prompt":"' + b"a" * 2**23 + b'\xff"}'],
    ids=["text", "cut", "wrong byte"],
)
def test_others_run_between_the_pieces_of_a_large_body(body: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yielding, "SLICE", 0.0)
    turns = 0

    def take_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            gevent.sleep(0)

    other = gevent.spawn(take_turns)
    with suppress(InvalidRequest):
        completion.parse_json(body)
    other.kill()
    assert turns >= len(body) // yielding.PIECE_BYTES


def test_a_body_of_marks_is_refused_before_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def loads(data: bytes) -> object:
        raise AssertionError("it was read")

    monkeypatch.setattr(orjson, "loads", loads)
    with pytest.raises(InvalidRequest, match="commas and brackets"):
        completion.parse_json(b"[" + b"1," * (completion.MAX_MARKS + 1) + b"1]")
