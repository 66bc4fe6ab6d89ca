"""Positions of tokens where a picture takes fewer of them than it has tokens."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from srb.engine.media import MediaChunk, MediaRun, Sections
from srb.engine.model import Batch
from srb.engine.positions import Positions
from srb.files.media_files import MediaKind


def picture(start: int, rows: int = 2, columns: int = 3) -> MediaRun:
    """Return a picture's run of rows × columns tokens."""
    count = rows * columns
    places = np.arange(count, dtype=np.int32)
    sections = np.stack([0 * places, places // columns, places % columns, 0 * places])
    moving = np.array([[1], [1], [1], [0]], np.int32).repeat(count, axis=1)
    chunk = MediaChunk(np.zeros((count, 4), np.float32), False, Sections(sections, moving, max(rows, columns)))
    return MediaRun(start, chunk, MediaKind.IMAGE)


def compute(
    positions: Positions, seq_id: int, index: int, run: MediaRun | None = None, count: int = 1
) -> list[list[int]]:
    """Compute `count` tokens; return the positions of each section, or of the tokens alone."""
    batch = Batch()
    batch.add(seq_id, index, [7] * count, want_logits=False)
    if run is not None:
        batch.run, batch.vectors = run, run.chunk.vectors[index - run.start :][:count]
    places = positions.of(batch)
    positions.computed(batch)
    return [places] if isinstance(places, list) else places.tolist()


@pytest.fixture
def told() -> Positions:
    """Sequence 0: two tokens, a picture of six that takes three positions, two tokens, another picture, one token."""
    made = Positions()
    assert compute(made, 0, 0, count=2) == [[0, 1]]
    assert compute(made, 0, 2, picture(2), 4) == [[2, 2, 2, 2], [2, 2, 2, 3], [2, 3, 4, 2], [0] * 4]
    assert compute(made, 0, 6, picture(2), 2) == [[2, 2], [3, 3], [3, 4], [0, 0]]
    assert compute(made, 0, 8, count=2) == [[5, 6]]
    assert compute(made, 0, 10, picture(10, 4, 2), 8)[1] == [7, 7, 8, 8, 9, 9, 10, 10]
    assert compute(made, 0, 18) == [[11]]
    return made


def test_text_goes_on_after_the_longest_side_of_a_picture(told: Positions) -> None:
    assert [told.at(0, index) for index in (0, 2, 8, 9, 10, 18, 19)] == [0, 2, 5, 6, 7, 11, 12]


def test_no_place_is_within_a_picture(told: Positions) -> None:
    with pytest.raises(AssertionError, match="within a picture of 2 to 8"):
        told.at(0, 5)
    with pytest.raises(AssertionError, match="within a picture of 10 to 18"):
        told.cut(0, 17)


def test_forks_and_cuts_have_the_runs_before_them(told: Positions) -> None:
    assert told.fork(0, 1, None) is None
    assert told.fork(0, 2, 9) == 6
    assert told.fork(0, 3, 2) == 2
    assert [told.at(seq_id, 20) for seq_id in (0, 1, 2, 3)] == [13, 13, 17, 20]
    assert told.cut(0, 10) == 7
    assert [told.at(seq_id, 20) for seq_id in (0, 1)] == [17, 13]
    batch = Batch()
    for seq_id in range(5):
        batch.add(seq_id, 30, [7], want_logits=True)
    assert list(told.of(batch)) == [27, 23, 27, 30, 30]
    told.remove(1)
    assert told.at(1, 20) == 20


def test_sequences_without_pictures_have_the_batchs_own_positions() -> None:
    batch = Batch()
    batch.add(0, 5, [7, 7], want_logits=True)
    assert Positions().of(batch) is batch.positions


def test_a_saved_span_brings_its_pictures_along(told: Positions) -> None:
    cells = np.arange(5, dtype=np.uint8)
    assert told.pack(0, 18, cells) is cells
    upper = Positions()
    for start, blob in ((0, told.pack(0, 0, cells)), (8, told.pack(0, 8, cells))):
        runs, back = upper.unpack(blob)
        assert back.tolist() == cells.tolist()
        assert runs == [run for run in [(2, 8, 3), (10, 18, 4)] if run[0] >= start]
    upper.restored(0, upper.unpack(told.pack(0, 0, cells))[0])
    assert [upper.at(0, index) for index in (2, 8, 10, 18)] == [2, 5, 7, 11]
    for size in (8, 10, 20):
        with pytest.raises(ValueError, match="damaged"):
            upper.unpack(told.pack(0, 0, cells)[:size])


def test_positions_may_count_the_pictures_before() -> None:
    """HunyuanVL's: the last section tells which picture of the prompt it is."""
    counting = np.array([[0], [0], [0], [1]], np.int32).repeat(6, axis=1)
    chunk = picture(0).chunk
    assert chunk.sections is not None
    chunk = replace(chunk, sections=replace(chunk.sections, counting=counting))
    made = Positions()
    for place in range(3):
        run = MediaRun(6 * place, chunk, MediaKind.IMAGE, pictures=place)
        places = compute(made, 0, 6 * place, run, 6)
        assert places[0] == [3 * place] * 6
        assert places[3] == [place] * 6
