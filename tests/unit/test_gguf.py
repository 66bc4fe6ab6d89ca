"""The header of a model's file, and of the files beside it, says before the start whether they can be used together."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import gguf
import pytest

from srb.config.named_models import BUNDLED_MODEL
from srb.config.settings import Settings
from srb.errors import ConfigError, ModelLoadFailed
from srb.files import gguf as files
from srb.files.gguf import check_adapter_files, check_model_file, is_mapped, pooling_of
from srb.host.cgroups import MemoryLimit

Fill = Callable[[gguf.GGUFWriter], None]

TOKENS = ["a", "long", "vocabulary"] * 100


def header(path: Path, architecture: str, fill: Fill = lambda writer: None) -> str:
    """Write a file that is nothing but its header, with lists before the last keys; return its path."""
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_array("tokenizer.ggml.tokens", TOKENS)
    writer.add_array("tokenizer.ggml.token_type", list(range(300)))
    fill(writer)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return str(path)


@pytest.mark.parametrize("number", range(5))
def test_a_models_pooling_is_read_from_its_header_and_ranks_only_as_rank(tmp_path: Path, number: int) -> None:
    path = header(tmp_path / "bert.gguf", "bert", lambda writer: writer.add_uint32("bert.pooling_type", number))
    settings = Settings(model=path, reranking=True)
    name = ("none", "mean", "cls", "last", "rank")[number]
    assert pooling_of(settings) == name
    if name == "rank":
        check_model_file(settings)
    else:
        with pytest.raises(
            ModelLoadFailed, match=rf"^reranking: .* \(its pooling is {name}\); pooling = rank tries it"
        ):
            check_model_file(settings)
    check_model_file(Settings(model=path, reranking=True, pooling="rank"))
    check_model_file(Settings(model=path, embedding=True))


def test_a_model_without_pooling_does_not_rank(tmp_path: Path) -> None:
    path = header(tmp_path / "llama.gguf", "llama", lambda writer: writer.add_uint32("other.pooling_type", 4))
    assert pooling_of(Settings(model=path)) == "none"
    with pytest.raises(ModelLoadFailed, match="its pooling is none"):
        check_model_file(Settings(model=path, reranking=True))


@pytest.mark.parametrize("name", ["model", "mmproj", "spec_draft_model", "lora"])
def test_a_file_of_another_kind_is_named_with_its_kind(tmp_path: Path, name: str) -> None:
    model = header(tmp_path / "llama.gguf", "llama")
    files = {
        "a model": model,
        "a projector of pictures or sounds": header(
            tmp_path / "mmproj.gguf", "clip", lambda writer: writer.add_type(gguf.GGUFType.MMPROJ)
        ),
        "a LoRA adapter": header(
            tmp_path / "lora.gguf", "llama", lambda writer: writer.add_type(gguf.GGUFType.ADAPTER)
        ),
    }
    right = {"mmproj": "a projector of pictures or sounds", "lora": "a LoRA adapter"}.get(name, "a model")
    for kind, path in files.items():
        settings = Settings(**{"model": model, name: path})

        def check(settings: Settings = settings) -> None:
            check_model_file(settings)
            check_adapter_files(settings)

        if kind == right:
            check()
        else:
            with pytest.raises((ConfigError, ModelLoadFailed), match=f"{name}:? .* is {kind}"):
                check()


def test_an_adapter_for_another_architecture_is_named_with_both(tmp_path: Path) -> None:
    model = header(tmp_path / "llama.gguf", "llama")
    adapter = header(tmp_path / "lora.gguf", "qwen3", lambda writer: writer.add_type(gguf.GGUFType.ADAPTER))
    with pytest.raises(ConfigError, match=r"^lora: .* is made for qwen3, and the model is llama"):
        check_adapter_files(Settings(model=model, lora=adapter))


@pytest.mark.parametrize("part", [0.5, 0.1, 0.9])
def test_a_model_whose_end_is_missing_is_incomplete(tmp_path: Path, part: float) -> None:
    whole = BUNDLED_MODEL.read_bytes()
    path = tmp_path / "half.gguf"
    path.write_bytes(whole[: int(part * len(whole))])
    with pytest.raises(ModelLoadFailed, match=r"^the model .*half.gguf is incomplete"):
        check_model_file(Settings(model=str(path)))
    path.write_bytes(whole)
    check_model_file(Settings(model=str(path)))


@pytest.mark.parametrize("size", [0, 3_000_000])
def test_each_part_of_a_split_model_has_to_be_complete(tmp_path: Path, size: int) -> None:
    whole = BUNDLED_MODEL.read_bytes()
    first, second = (tmp_path / f"model-0000{number}-of-00002.gguf" for number in (1, 2))
    first.write_bytes(whole)
    second.write_bytes(whole[:size])
    with pytest.raises(ModelLoadFailed, match=r"^the model .*-00002-of-00002.gguf is incomplete"):
        check_model_file(Settings(model=str(first)))


def test_a_part_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    first, second = (tmp_path / f"model-0000{number}-of-00002.gguf" for number in (1, 2))
    first.write_bytes(BUNDLED_MODEL.read_bytes())
    second.mkdir()
    with pytest.raises(ModelLoadFailed, match=r"^cannot read the model .*-00002-of-00002.gguf: Is a directory$"):
        check_model_file(Settings(model=str(first)))


@pytest.mark.parametrize(
    ("version", "reason"),
    [
        (b"\1\0\0\0", "is of version 1 of GGUF, and 2 and 3 are read"),
        (b"\0\0\0\3", "is of big-endian byte order"),
        (b"\0\0\0\2", "is of big-endian byte order"),
        (b"\4\0\0\0", "is of version 4 of GGUF, and 2 and 3 are read"),
    ],
)
@pytest.mark.parametrize("name", ["model", "mmproj", "spec_draft_model", "lora"])
def test_a_file_of_another_version_or_byte_order_is_refused_before_the_start(
    tmp_path: Path, name: str, version: bytes, reason: str
) -> None:
    model = header(tmp_path / "llama.gguf", "llama")
    path = tmp_path / "other.gguf"
    path.write_bytes(b"GGUF" + version + Path(model).read_bytes()[8:])
    settings = Settings(**{"model": model, name: str(path)})
    check: Callable[[Settings], None] = check_model_file if name == "model" else check_adapter_files
    with pytest.raises((ConfigError, ModelLoadFailed), match=rf"{name}:? .*other.gguf {reason}"):
        check(settings)


def parts(folder: Path, names: list[str], count: int = 3) -> list[str]:
    """Write the headers of a model's parts; return their paths."""

    def fill(writer: gguf.GGUFWriter, number: int) -> None:
        writer.add_uint16("split.no", number)
        writer.add_uint16("split.count", count)

    return [
        header(folder / name, "llama", lambda writer, number=number: fill(writer, number))  # type: ignore[misc]
        for number, name in enumerate(names)
    ]


def test_a_split_model_is_named_by_its_first_part_and_has_all_of_them(tmp_path: Path) -> None:
    paths = parts(tmp_path, [f"model-0000{number}-of-00003.gguf" for number in (1, 2, 3)])
    check_model_file(Settings(model=paths[0]))
    for path, number in ((paths[1], 2), (paths[2], 3)):
        with pytest.raises(ModelLoadFailed, match=rf"is part {number} of 3: .*, model-00001-of-00003.gguf$"):
            check_model_file(Settings(model=path))
    Path(paths[1]).unlink()
    with pytest.raises(ModelLoadFailed, match=r"is part 1 of 3, and model-00002-of-00003.gguf is not beside it$"):
        check_model_file(Settings(model=paths[0]))


def test_the_parts_of_a_model_that_have_other_names_are_not_found(tmp_path: Path) -> None:
    first, second, _ = parts(tmp_path, ["a.gguf", "b.gguf", "c.gguf"])
    with pytest.raises(ModelLoadFailed, match=r"a.gguf is part 1 of 3, which llama.cpp finds as …-00001-of-00003.gguf"):
        check_model_file(Settings(model=first))
    with pytest.raises(ModelLoadFailed, match=r"b.gguf is part 2 of 3"):
        check_model_file(Settings(model=second))
    [lone] = parts(tmp_path, ["lone.gguf"], count=1)
    check_model_file(Settings(model=lone))


def damaged(folder: Path, change: Callable[[bytes], bytes]) -> Settings:
    """Return settings with a model whose header has been changed."""
    fill: Fill = lambda writer: writer.add_uint32("bert.pooling_type", 4)  # noqa: E731
    whole = Path(header(folder / "bert.gguf", "bert", fill)).read_bytes()
    path = folder / "damaged.gguf"
    path.write_bytes(change(whole))
    return Settings(model=str(path))


@pytest.mark.parametrize("size", [4, 8, 24, 40, 70, 200, 3000, -1])
def test_a_header_that_ends_early_is_incomplete(tmp_path: Path, size: int) -> None:
    with pytest.raises(ModelLoadFailed, match=r"^the model .*damaged.gguf is incomplete or damaged"):
        check_model_file(damaged(tmp_path, lambda whole: whole[:size]))


def test_a_text_that_goes_beyond_the_files_end_is_damage(tmp_path: Path) -> None:
    with pytest.raises(ModelLoadFailed, match=r"^the model .*damaged.gguf is incomplete or damaged"):
        check_model_file(damaged(tmp_path, lambda whole: whole[:24] + b"\xff" * 8 + whole[32:]))  # a key's length


def test_a_header_that_cannot_be_understood_is_left_to_llama_cpp(tmp_path: Path) -> None:
    """It says more exactly what is wrong; here only what is read for sure counts."""
    at = 24 + 8 + len("general.architecture")
    check_model_file(damaged(tmp_path, lambda whole: whole[:at] + b"\x63\0\0\0" + whole[at + 4 :]))  # a kind of value
    check_model_file(damaged(tmp_path, lambda whole: whole[:32] + b"\xff" * 20 + whole[52:]))  # no text


def test_a_small_file_is_read_and_a_large_one_mapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.gguf"
    path.write_bytes(bytes(1000))
    for total, limit, maps in ((16_000, None, False), (15_999, None, True), (10**9, 15_999, True), (None, None, True)):
        group = None if limit is None else MemoryLimit(limit, 0)
        monkeypatch.setattr(files, "total_memory", lambda total=total: total)
        monkeypatch.setattr(files, "memory_limit", lambda group=group: group)
        assert is_mapped(Settings(model=str(path))) is maps
        assert is_mapped(Settings(model=str(path), mmap="on"))
        assert not is_mapped(Settings(model=str(path), mmap="off"))
    monkeypatch.setattr(files, "total_memory", lambda: 10**9)
    path.with_name("a-00002-of-00002.gguf").write_bytes(bytes(10**8))
    split = path.rename(path.with_name("a-00001-of-00002.gguf"))
    assert is_mapped(Settings(model=str(split))), "of a split model all parts count"
    assert is_mapped(Settings(model=str(tmp_path / "none.gguf")))
