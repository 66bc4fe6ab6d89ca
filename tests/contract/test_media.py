"""Pictures and sounds in prompts of real models: a random projector beside tiny random GGUFs, and real files."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import llama_cpp as lib
import numpy as np
import pytest

from srb.config.sampling_params import SamplingParams
from srb.config.settings import Settings
from srb.engine.engine import Engine, EngineOptions
from srb.engine.healing import Pieces
from srb.engine.llama import media
from srb.engine.llama.model import LlamaModel
from srb.engine.media import MediaChunk, Vectors
from srb.engine.model import Logits
from srb.engine.process.text_folder import TextFolder
from srb.engine.tokens import tokens_of
from srb.errors import InvalidRequest, ModelLoadFailed, NotSupported
from srb.wire.commands import BranchSpec, CountTokens, Generate
from tests.contract.rounding import ROUNDING
from tests.contract.seeing import BOTH, ENCODERS, KINDS, LIKE_KINDS, PICTURES, PROMPTS, Kind, Prompt, Reader, reference
from tests.media import b64, jpeg, png, wav
from tests.models.random_gguf import TINY, WRITERS, write_glm4
from tests.models.random_projectors import (
    write_aligned_projector,
    write_glm4v_projector,
    write_hunyuanvl_projector,
    write_projector,
    write_tiling_projector,
)
from tests.poison import poisoned_memory
from tests.state_folders import a_folder, close, finish_saves, texts_of

pytest.importorskip("llama_cpp.mtmd_cpp", reason="llama-cpp-python was built without mtmd")

ALL_KINDS = KINDS | LIKE_KINDS | ENCODERS
every_kind = pytest.mark.parametrize("name", [*KINDS, *LIKE_KINDS])
every_encoder = pytest.mark.parametrize("name", ALL_KINDS)


@pytest.fixture(params=KINDS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def kind(name: str) -> Kind:
    return ALL_KINDS[name]


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Path, Path]]:
    """Return a function that writes the model and the projector of a kind, once, and returns their paths."""
    folder = tmp_path_factory.mktemp("seeing")

    def write(name: str) -> tuple[Path, Path]:
        model, projector = folder / f"{name}.gguf", folder / f"mmproj-{name}.gguf"
        if not projector.exists():
            kind = ALL_KINDS[name]
            kind.write_model(model, kind.shape)
            kind.write_projector(projector, kind.shape)
        return model, projector

    return write


@pytest.fixture
def load_kind(
    name: str, kind: Kind, paths: Callable[[str], tuple[Path, Path]], load: Callable[..., LlamaModel]
) -> Callable[..., LlamaModel]:
    model, projector = paths(name)
    given = {"model": str(model), "mmproj": str(projector), "n_ctx": kind.n_ctx, "n_ubatch": kind.n_ubatch}
    return lambda **changes: load(**given, **changes)


@pytest.fixture
def model(load_kind: Callable[..., LlamaModel]) -> LlamaModel:
    return load_kind()


@pytest.fixture
def reader(model: LlamaModel, kind: Kind) -> Reader:
    return Reader(model, kind.files)


@pytest.fixture
def projector(tmp_path: Path) -> Path:
    """A projector of pictures and sounds beside a llama."""
    return write_projector(tmp_path / "mmproj.gguf", TINY)


@pytest.mark.parametrize(
    ("name", "prompt"),
    [(name, prompt) for name in ALL_KINDS for prompt in (PROMPTS[2:] if name in ENCODERS else PROMPTS)],
)
def test_a_prompt_has_the_logits_and_the_text_that_mtmds_own_helpers_compute(
    model: LlamaModel, reader: Reader, kind: Kind, name: str, paths: Callable[[str], tuple[Path, Path]], prompt: Prompt
) -> None:
    if not kind.is_marked and isinstance(prompt[-1], int):
        prompt = (*prompt, " then")  # mtmd's helper tells no logits of a file's last token
    told = reader.read(*prompt, n=2)
    expected, expected_told = reference(model, paths(name)[1], kind.files, prompt)
    assert reader.logits is not None
    np.testing.assert_allclose(reader.logits, expected, atol=2e-3 * ROUNDING * np.abs(expected).max())
    assert told == [expected_told] * 2


@every_encoder
def test_vectors_do_not_depend_on_what_memory_held_before(
    model: LlamaModel, kind: Kind, paths: Callable[[str], tuple[Path, Path]], name: str
) -> None:
    def vectors() -> list[Vectors]:
        encoder = media.LlamaEncoder(paths(name)[1], model._model, on_gpu=False)
        try:
            return [part.vectors for part in encoder.encode(kind.files[0]) if isinstance(part, MediaChunk)]
        finally:
            encoder.close()

    with poisoned_memory():
        found = vectors()
    for one, other in zip(found, vectors(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_vectors_that_are_not_numbers_refuse_their_file(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(media, "floats_at", lambda place, count: np.full(count, np.nan, np.float32))
    with pytest.raises(InvalidRequest, match="something else than numbers"):
        reader.read("the old king saw", -1, " and said")


@every_kind
def test_eight_branches_and_eight_requests_encode_a_picture_once(reader: Reader) -> None:
    reader.read("the old king saw", -1, " and said", n=8)
    for _ in range(8):
        reader.read("the old king saw", -1, " and said")
    assert reader.encoded == 1
    assert reader.cached == reader.num_prompt


@every_kind
def test_the_next_turn_computes_only_what_is_new(model: LlamaModel, reader: Reader, kind: Kind) -> None:
    [told] = reader.read("the old king saw", -1, " and said")
    before = reader.num_prompt
    [next_told] = reader.read("the old king saw", -1, " and said", *told, 300, -2, 301, 302)
    assert reader.cached >= before
    assert reader.encoded == 2
    model.clear()
    [cold] = Reader(model, kind.files).read("the old king saw", -1, " and said", *told, 300, -2, 301, 302)
    assert next_told == cold


def test_a_picture_that_was_parked_is_restored_and_not_computed_again(model: LlamaModel, kind: Kind) -> None:
    reader = Reader(model, kind.files, cache_cells=0)
    [told] = reader.read("the old king saw", -1, " and said")
    reader.read("a girl", -2, " then")
    assert reader.engine.stats()["nodes_parked_total"] > 0
    assert reader.read("the old king saw", -1, " and said") == [told]
    assert reader.cached == reader.num_prompt


def test_a_fork_within_a_branch_about_a_picture_goes_on_as_if_it_were_alone(
    model: LlamaModel, reader: Reader, kind: Kind
) -> None:
    [told] = reader.read("the old king saw", -1, " and", -2, " said", count=40)
    text = ("the old king saw", -1, " and", -2, " said", *told[:30], 300, 301)
    forked = reader.read(*text, n=2)
    assert reader.cached > reader.num_prompt - 32
    model.clear()
    assert forked == Reader(model, kind.files).read(*text) * 2


def test_a_long_text_about_a_picture_is_parked_in_parts_and_goes_on_anywhere(model: LlamaModel, kind: Kind) -> None:
    for end in (100, 298):
        model.clear()
        reader = Reader(model, kind.files, cache_cells=0)
        [told] = reader.read("the old king saw", -1, " and said", count=300)
        assert reader.engine.stats()["nodes_parked_total"] > 1
        text = ("the old king saw", -1, " and said", *told[:end], 300)
        found = reader.read(*text)
        assert reader.cached > 0
        model.clear()
        assert found == Reader(model, kind.files).read(*text)


def test_a_state_that_ends_with_a_picture_is_stored_with_it(
    model: LlamaModel, kind: Kind, load_kind: Callable[..., LlamaModel], tmp_path: Path
) -> None:
    prompt = ("the old king saw", -1, " then", -2)
    first, second = (a_folder(tmp_path) for _ in range(2))
    reader = Reader(model, kind.files, states=first, texts=texts_of(first))
    told = reader.read(*prompt, state="a")
    finish_saves(reader.engine)
    close(first)
    other = Reader(load_kind(), kind.files, states=second, texts=texts_of(second))
    assert other.read(*prompt, state="a") == told
    assert other.cached == other.num_prompt
    more = other.read(*prompt, " and")
    model.clear()
    assert more == Reader(model, kind.files).read(*prompt, " and")


def test_a_text_with_pictures_is_found_on_the_disk(
    model: LlamaModel, kind: Kind, load_kind: Callable[..., LlamaModel], tmp_path: Path
) -> None:
    prompt = ("the old king saw", -1, " then", -2)
    texts = TextFolder(tmp_path, "m", 10**9)
    reader = Reader(model, kind.files, texts=texts, cache_cells=0)
    told, known = reader.read(*prompt, n=2), reader.num_prompt
    reader.engine.store_texts(1e6)
    texts.close(60)
    model.clear()
    reader = Reader(model, kind.files)
    reader.read(*prompt, n=2)
    [expected] = reader.read(*prompt, " and")
    other = Reader(load_kind(), kind.files, texts=TextFolder(tmp_path, "m", 10**9), cache_cells=0)
    assert other.read(*prompt, " and") == [expected]
    assert other.cached == known
    assert other.read(*prompt, n=2) == told


def test_the_text_of_a_slot_that_ends_with_a_picture_is_saved_with_it(reader: Reader) -> None:
    """Nothing follows the picture or the sound, which has no mark of its end: no token is computed after it."""
    reader.read("the old king saw", -3, count=0)
    count = reader.num_prompt
    assert reader.act("save") == count
    reader.read("another text")
    assert reader.act("restore") == count


@every_encoder
def test_tokens_are_counted_without_encoding(model: LlamaModel, kind: Kind) -> None:
    for place, data in enumerate(kind.files):
        reader, tokens = Reader(model, kind.files), tokens_of(())
        count = reader.engine._preparer.media.count(data, "prompt")
        assert reader.encoded == 0
        reader.engine._preparer.media.append_to(tokens, data, "prompt")
        assert (place, count) == (place, len(tokens))


@every_encoder
def test_files_of_extreme_shapes_are_read_or_refused(model: LlamaModel, reader: Reader) -> None:
    """llama.cpp ends the process where a picture or a sound has a shape that its encoder cannot take."""
    assert model.encoder is not None
    files = reader.engine._preparer.media
    if model.encoder.sees:
        refused = set()
        for size in ((1, 1), (3, 2), (1, 900), (900, 1)):
            try:
                assert files.append_to(tokens_of(()), png(*size), "prompt")
            except InvalidRequest:
                refused.add(size)
        assert refused <= {(1, 900), (900, 1)}
    if model.encoder.hears:
        for samples in (1, 2, 100, 700):
            with pytest.raises(InvalidRequest, match=r"'prompt': is too short: a sound has 0\.05 seconds"):
                files.append_to(tokens_of(()), wav(samples / 16000), "prompt")
        assert files.append_to(tokens_of(()), wav(0.06, rate=8000), "prompt")


def test_the_pixels_of_a_jpeg_reach_the_encoder(load: Callable[..., LlamaModel], projector: Path) -> None:
    encoder = load("llama", mmproj=str(projector)).encoder
    assert isinstance(encoder, media.LlamaEncoder)
    rows = ((0, 90, 255), (200, 10, 128))
    with encoder._bitmap(jpeg(rows), is_read=True) as bitmap:
        pixels = ctypes.string_at(encoder._mtmd.mtmd_bitmap_get_data(bitmap), 16 * 24 * 3)
    seen = np.frombuffer(pixels, np.uint8).reshape(16, 24, 3)
    assert np.abs(seen[4::8, 4::8].astype(int) - np.array(rows)[:, :, None]).max() <= 1


def test_a_picture_has_as_many_tokens_as_the_settings_allow(
    load: Callable[..., LlamaModel], paths: Callable[[str], tuple[Path, Path]]
) -> None:
    model, projector = map(str, paths("qwen2vl"))
    counts, keys = [], set()
    for limits in ({}, {"image_max_tokens": 16}, {"image_min_tokens": 100}):
        encoder = load(model=model, mmproj=projector, **limits).encoder
        assert encoder is not None
        counts.append(sum(len(part) for part in encoder.encode(png(64, 64)) if isinstance(part, MediaChunk)))
        keys.add(encoder.key)
    assert counts[0] == 64
    assert 0 < counts[1] <= 16
    assert counts[2] >= 100
    assert len(keys) == 3


def test_pieces_of_media_are_not_kept(model: LlamaModel, reader: Reader) -> None:
    """Each picture has tokens of its own, and a server sees many."""
    reader.read("See ", -1, " and ", -2, " there.")
    assert model.piece(-123456) == model.piece(-123456, special=True) == b""
    assert all(token >= 0 for token in model._pieces)


def test_texts_about_other_pictures_are_others(reader: Reader) -> None:
    seen: list[Logits] = []
    for which in range(4):
        reader.read("the old king saw", -1 - which, " and said")
        assert reader.logits is not None
        assert all(np.abs(reader.logits - other).max() > 0.01 * np.abs(other).max() for other in seen)
        seen.append(reader.logits)
    assert reader.encoded == 4


def test_a_damaged_picture_is_refused_with_the_field(load: Callable[..., LlamaModel], projector: Path) -> None:
    engine = Engine(load("llama", mmproj=str(projector)), EngineOptions(max_queue=9), clock=iter(range(10**6)).__next__)
    jpeg = b"\xff\xd8\xff\xc0\x00\x0b\x08\x00\x10\x00\x10\x01\x01\x11\x00" + bytes(200)
    with pytest.raises(InvalidRequest, match="'prompt': is damaged"):
        engine.prepare(Generate("r", (-1,), (BranchSpec(0, 1),), media=(b64(jpeg),)))
    with pytest.raises(InvalidRequest, match="'prompt': should be a picture"):
        engine.prepare(Generate("r", (-1,), (BranchSpec(0, 1),), media=(b64(b"text"),)))


def refuses(model: LlamaModel, reason: str) -> bool:
    """Whether a request about a picture is refused for this reason."""
    engine = Engine(model, EngineOptions(max_queue=9), clock=iter(range(10**6)).__next__)
    with pytest.raises((InvalidRequest, NotSupported), match=reason):
        engine.prepare(Generate("r", ("See", -1), (BranchSpec(0, 1),), media=(b64(BOTH[0]),)))
    return True


def test_a_vocabulary_without_the_projectors_tokens_is_refused_with_the_reason(
    load: Callable[..., LlamaModel], tmp_path: Path
) -> None:
    assert refuses(load("llama", mmproj=str(write_tiling_projector(tmp_path / "tiles.gguf"))), "lacks a token")


def test_an_aligned_projector_beside_a_model_with_sections_is_refused_with_the_reason(
    load: Callable[..., LlamaModel], tmp_path: Path
) -> None:
    model = load("qwen2vl", mmproj=str(write_aligned_projector(tmp_path / "mmproj.gguf")))
    assert model.encoder is not None
    assert (model.encoder.sees, model.encoder.hears) == (False, False)
    assert refuses(model, "not placed as those of the model")


def test_an_aligned_picture_begins_at_the_end_of_a_group_wherever_it_stands(
    load: Callable[..., LlamaModel], tmp_path: Path
) -> None:
    """Its fill shrinks with each token before it, and its rows are the same; counting knows it without encoding."""
    reader = Reader(load("llama", mmproj=str(write_aligned_projector(tmp_path / "mmproj.gguf"))), PICTURES)
    files, ends = reader.engine._preparer.media, set()
    for before in range(9):
        tokens = tokens_of([5] * before)
        count = files.count(PICTURES[0], "prompt", before)
        [run] = files.append_to(tokens, PICTURES[0], "prompt")
        assert len(tokens) - before == len(run.chunk) == count == files.count(PICTURES[0], "prompt", before)
        fill = 3 - before % 4
        assert (run.chunk.vectors[:fill] == run.chunk.vectors[0]).all()
        ends.add((len(tokens), run.chunk.vectors[fill:].tobytes(), tokens[before + fill :].tobytes()))
    assert len({rows for _, rows, _ in ends}) == len({own for _, _, own in ends}) == 1
    assert {end % 4 for end, _, _ in ends} == {(3 + len(run.chunk) - fill) % 4}
    assert reader.encoded == 1
    for prompt in (("a", -1, " b", -2), (-1, -1, "a", -1)):
        reader.read(*prompt, count=0)
        assert reader.engine.count_tokens(CountTokens("c", prompt, media=reader.files)) == reader.num_prompt


def test_a_model_whose_file_lacks_the_positions_of_pictures_is_refused_with_the_reason(
    load: Callable[..., LlamaModel], tmp_path: Path
) -> None:
    """llama.cpp would end the process: at the decode of a picture in a glm4, at any picture of a hunyuanvl projector."""
    old = write_glm4(tmp_path / "glm4.gguf", has_sections=False)
    for given, projector in (
        ({"model": str(old)}, write_glm4v_projector(tmp_path / "glm4v.gguf")),
        ({"arch": "llama"}, write_hunyuanvl_projector(tmp_path / "hunyuanvl.gguf")),
    ):
        assert refuses(load(mmproj=str(projector), **given), "no positions for pictures")


def test_a_model_without_a_projector_names_the_flag(load: Callable[..., LlamaModel]) -> None:
    assert refuses(load("llama"), "--mmproj")


def with_marks(folder: Path) -> Path:
    shape = replace(
        TINY,
        defined=("<img>", "<start_of_image>", "<end_of_image>", "<note>"),
        control=("<|vision_start|>", "<|tool|>", "[IMG]", "<|img_row_2_col_3|>", "<image>"),
    )
    return WRITERS["llama"](folder / "marks.gguf", shape)


SPECIAL = range(TINY.vocab - 9, TINY.vocab)
IMG, START, END, NOTE, VISION, TOOL, SIGN, ROW, IMAGE = SPECIAL


def test_marks_of_pictures_are_never_drawn_where_none_are_read(load: Callable[..., LlamaModel], tmp_path: Path) -> None:
    path = with_marks(tmp_path)
    model = load(model=str(path))
    logits = np.full(model.n_vocab, -50.0, np.float32)
    logits[SPECIAL] = np.arange(9, 0, -1) / 10
    for temperature in (0.0, 2.0):
        draws = [
            model.new_sampler(SamplingParams(temperature=temperature), seed, []).sample_from(logits)
            for seed in range(40)
        ]
        assert set(draws) == ({IMG} if temperature == 0 else {IMG, NOTE, TOOL}), (
            "the others are text, or not of pictures"
        )
    seeing = load(model=str(path), mmproj=str(write_projector(tmp_path / "mmproj.gguf", TINY)))
    logits[IMG] = -50.0
    assert seeing.new_sampler(SamplingParams(temperature=0), 0, []).sample_from(logits) == START


def test_what_is_not_drawn_otherwise_is_as_ever(load: Callable[..., LlamaModel], tmp_path: Path) -> None:
    model = load(model=str(with_marks(tmp_path)))
    logits = np.random.default_rng(1).standard_normal(model.n_vocab).astype(np.float32) * 3
    logits[list(model.unreadable)] = -50.0
    drawn = [model.new_sampler(SamplingParams(), seed, []).sample_from(logits) for seed in range(50)]
    del model.__dict__["unreadable"]
    model.__dict__["unreadable"] = frozenset()
    assert drawn == [model.new_sampler(SamplingParams(), seed, []).sample_from(logits) for seed in range(50)]


@pytest.mark.parametrize(
    "asked", [{"logit_bias": ((START, 0.5),)}, {"grammar": f"root ::= <[{START}]>"}], ids=["logit_bias", "grammar"]
)
def test_a_mark_that_the_request_asks_for_is_drawn(
    load: Callable[..., LlamaModel], tmp_path: Path, asked: dict[str, Any]
) -> None:
    model = load(model=str(with_marks(tmp_path)))
    logits = np.full(model.n_vocab, -50.0, np.float32)
    logits[[START, END, 40]] = 50.0, 49.0, 0.0
    assert model.new_sampler(SamplingParams(**asked), 1, []).sample_from(logits) == START


def test_a_healed_prompt_does_not_end_in_the_mark_of_a_picture(load: Callable[..., LlamaModel], tmp_path: Path) -> None:
    ids, _ = Pieces(load(model=str(with_marks(tmp_path)))).beginning_with(b"<")
    assert {IMG, NOTE} < set(ids.tolist())
    assert not {START, VISION} & set(ids.tolist())


def test_a_file_that_is_no_projector_of_the_model_is_refused_in_one_line(
    gguf: Callable[[str], Path], tmp_path: Path
) -> None:
    other = write_projector(tmp_path / "other.gguf", replace(TINY, dim=128))
    for path in (other, gguf("llama"), tmp_path / "missing.gguf"):
        with pytest.raises(ModelLoadFailed, match="mmproj: ") as error:
            LlamaModel.load(Settings(model=str(gguf("llama")), mmproj=str(path), n_ctx=128, threads=1))
        assert "\n" not in str(error.value)


def test_a_build_without_mtmd_says_how_to_get_it(
    gguf: Callable[[str], Path], projector: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "llama_cpp.mtmd_cpp", None)
    monkeypatch.delattr(lib, "mtmd_cpp", raising=False)
    with pytest.raises(ModelLoadFailed, match=r"mmproj: .* without mtmd, .* -DLLAVA_BUILD=ON"):
        LlamaModel.load(Settings(model=str(gguf("llama")), mmproj=str(projector), n_ctx=128, threads=1))
