"""The header of a model's file, and of the files beside it, says before the start whether they can be used together."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import gguf
import pytest

from srb.errors import ConfigError, ModelLoadFailed
from srb.gguf import check_adapter_files, check_model_file, pooling_of
from srb.settings import Settings

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


def test_a_damaged_header_is_left_to_llama_cpp(tmp_path: Path) -> None:
    """It says more exactly what is wrong; here only what is read for sure counts."""
    path = tmp_path / "damaged.gguf"
    whole = Path(
        header(tmp_path / "bert.gguf", "bert", lambda writer: writer.add_uint32("bert.pooling_type", 4))
    ).read_bytes()
    for data in (
        b"GGUF",
        *(whole[:size] for size in (8, 24, 40, 70, 200, 3000)),
        whole[:24] + b"\xff" * 8 + whole[32:],  # the length of a key
        whole[:24] + bytes(255 - byte for byte in whole[24:]),
        b"GGUF" + bytes(range(200)),
    ):
        path.write_bytes(data)
        check_model_file(Settings(model=str(path)))
